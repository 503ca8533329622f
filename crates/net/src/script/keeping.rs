//! Whether a script keeps something from one run to the next: then the order of its runs matters, and all of them must be
//! in one state, in packet order. A script that keeps nothing runs in a state of its own in each worker.
//!
//! The answer comes from the compiled script (Lua 5.4's own format, made here from its text). A function writes where another
//! run finds it if it sets a global or a variable of an enclosing function, or a field of a table that it has not made
//! itself; so do some functions of libraries. What can't be decided counts as kept. The main chunk is left out, as
//! it runs once, when the script is loaded; so are `init` and `thread_init`, unless another function names them.

/// Functions and libraries by whose use a script may keep something: they change tables, give other values at each call, or
/// change what all workers share.
const KEEPING: [&[u8]; 9] = [
    b"rawset",
    b"setmetatable",
    b"insert",
    b"remove",
    b"sort",
    b"move",
    b"random",
    b"randomseed",
    b"suricata.dataset",
];

/// Functions that run once in each state, before all others.
const ONCE: [&[u8]; 2] = [b"init", b"thread_init"];

/// Whether a script keeps something, by its compiled form; true for what can't be read.
pub(super) fn keeps_state(compiled: &[u8]) -> bool {
    let mut bytes = Bytes { rest: compiled };
    let main = bytes.header().and_then(|()| bytes.function(0));
    let Some(main) = main else { return true };
    let once = run_once(&main);
    let named = |f: &Function| f.any(&|f| f.constants.iter().any(|c| ONCE.contains(&&**c)));
    let others = || main.inner.iter().enumerate().filter(|(n, _)| !once.contains(n));
    let names_them = others().any(|(_, f)| named(f));
    main.any(&|f| f.constants.iter().any(|c| KEEPING.contains(&&**c)))
        || others().any(|(_, f)| f.any(&writes_beyond))
        || names_them && !once.is_empty()
}

/// A compiled function.
#[derive(Debug, Default)]
struct Function {
    code: Vec<u32>,
    /// Its constants; those that are no text are empty.
    constants: Vec<Box<[u8]>>,
    /// The functions within it.
    inner: Vec<Function>,
}

impl Function {
    /// Whether this holds for it or for a function within it.
    fn any(&self, of: &dyn Fn(&Function) -> bool) -> bool {
        of(self) || self.inner.iter().any(|f| f.any(of))
    }
}

/// Instructions of Lua 5.4 that are looked at.
mod op {
    pub(super) const MOVE: u32 = 0;
    pub(super) const FALSE_AND_SKIP: u32 = 6;
    pub(super) const SET_UPVALUE: u32 = 10;
    pub(super) const SET_GLOBAL: u32 = 15;
    pub(super) const SET_TABLE: u32 = 16;
    pub(super) const SET_FIELD: u32 = 18;
    pub(super) const NEW_TABLE: u32 = 19;
    pub(super) const METHODS: std::ops::RangeInclusive<u32> = 46..=48;
    pub(super) const CLOSE: u32 = 54;
    pub(super) const TO_BE_CLOSED: u32 = 55;
    pub(super) const JUMP: u32 = 56;
    pub(super) const TESTS: std::ops::RangeInclusive<u32> = 57..=66;
    pub(super) const TEST_AND_SET: u32 = 67;
    pub(super) const RETURNS: std::ops::RangeInclusive<u32> = 70..=72;
    pub(super) const FOR_LOOP: u32 = 73;
    pub(super) const FOR_PREPARE: u32 = 74;
    pub(super) const EACH_PREPARE: u32 = 75;
    pub(super) const EACH_LOOP: u32 = 77;
    pub(super) const SET_LIST: u32 = 78;
    pub(super) const CLOSURE: u32 = 79;
    pub(super) const EXTRA: u32 = 82;
}

fn opcode(i: u32) -> u32 {
    i & 0x7f
}

/// The register that an instruction is about.
fn register(i: u32) -> usize {
    (i >> 7 & 0xff) as usize
}

/// Places of functions in the main chunk that become the globals [`ONCE`].
fn run_once(main: &Function) -> Vec<usize> {
    let pairs = main.code.iter().zip(main.code.iter().skip(1));
    let named = pairs.filter_map(|(one, next)| {
        let is_named = opcode(*one) == op::CLOSURE && opcode(*next) == op::SET_GLOBAL;
        // The name is constant B, the value register C, unless it is a constant.
        let name = main.constants.get((next >> 16 & 0xff) as usize)?;
        let is_same = next >> 15 & 1 == 0 && (next >> 24) as usize == register(*one);
        (is_named && is_same && ONCE.contains(&&**name)).then_some((one >> 15) as usize)
    });
    named.collect()
}

/// Registers that hold a table which the function has made itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Own([u64; 4]);

impl Own {
    const NONE: Own = Own([0; 4]);

    fn has(self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 != 0)
    }

    fn set(&mut self, at: usize, is: bool) {
        if let Some(word) = self.0.get_mut(at / 64) {
            *word = *word & !(1 << (at % 64)) | u64::from(is) << (at % 64);
        }
    }

    fn and(self, o: Own) -> Own {
        let mut both = self;
        both.0.iter_mut().zip(o.0).for_each(|(word, other)| *word &= other);
        both
    }
}

/// Whether a function writes where another run may find it. Which registers hold tables of its own is followed along all paths,
/// until nothing changes.
fn writes_beyond(f: &Function) -> bool {
    let mut before: Vec<Option<Own>> = vec![None; f.code.len()];
    let Some(first) = before.first_mut() else { return false };
    *first = Some(Own::NONE);
    // Each round takes a register from a place, or is the last.
    let mut has_changed = true;
    while has_changed {
        has_changed = false;
        for (at, i) in f.code.iter().enumerate() {
            let Some(own) = before.get(at).copied().flatten() else { continue };
            let after = after(*i, own);
            for next in successors(*i, at).into_iter().flatten() {
                let Some(known) = before.get_mut(next) else { continue };
                let met = known.map_or(after, |known| known.and(after));
                has_changed |= *known != Some(met);
                *known = Some(met);
            }
        }
    }
    f.code.iter().zip(&before).any(|(i, own)| match opcode(*i) {
        op::SET_UPVALUE | op::SET_GLOBAL => true,
        op::SET_TABLE..=op::SET_FIELD => !own.is_some_and(|own| own.has(register(*i))),
        _ => false,
    })
}

/// Which registers hold own tables after an instruction.
fn after(i: u32, mut own: Own) -> Own {
    let to = register(i);
    match opcode(i) {
        op::NEW_TABLE => own.set(to, true),
        op::MOVE => own.set(to, own.has((i >> 16 & 0xff) as usize)),
        // These write no register.
        op::SET_UPVALUE
        | op::SET_GLOBAL..=op::SET_FIELD
        | op::CLOSE
        | op::TO_BE_CLOSED
        | op::JUMP
        | op::SET_LIST
        | op::EXTRA => {}
        code if op::METHODS.contains(&code) => {}
        code if op::TESTS.contains(&code) || op::RETURNS.contains(&code) => {}
        // Others write theirs and perhaps some after it.
        _ => (to..256).for_each(|at| own.set(at, false)),
    }
    own
}

/// The places that may come after an instruction.
fn successors(i: u32, at: usize) -> [Option<usize>; 2] {
    let far = (i >> 15) as usize;
    match opcode(i) {
        op::JUMP => {
            let by = i64::from(i >> 7) - i64::from((1 << 24) - 1);
            [usize::try_from(at as i64 + 1 + by).ok(), None]
        }
        op::FALSE_AND_SKIP => [Some(at + 2), None],
        op::FOR_LOOP | op::EACH_LOOP => [Some(at + 1), (at + 1).checked_sub(far)],
        op::FOR_PREPARE => [Some(at + 1), Some(at + far + 2)],
        op::EACH_PREPARE => [Some(at + far + 1), None],
        op::TEST_AND_SET => [Some(at + 1), Some(at + 2)],
        code if op::TESTS.contains(&code) => [Some(at + 1), Some(at + 2)],
        code if op::RETURNS.contains(&code) => [None, None],
        _ => [Some(at + 1), None],
    }
}

/// What is left of a compiled script.
struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes(1)?.first().copied()
    }

    /// A number in groups of seven bits, the last of which is marked.
    fn number(&mut self) -> Option<usize> {
        let mut n = 0usize;
        loop {
            let b = self.byte()?;
            n = n.checked_mul(128)? | usize::from(b & 0x7f);
            if b & 0x80 != 0 {
                return Some(n);
            }
        }
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        match self.number()?.checked_sub(1) {
            Some(len) => self.bytes(len),
            None => Some(&[]),
        }
    }

    /// The head: Lua 5.4, its sizes of numbers, and how many variables of others the main chunk has.
    fn header(&mut self) -> Option<()> {
        let head = self.bytes(15)?;
        let is_known =
            head.starts_with(b"\x1bLua\x54\0\x19\x93\r\n\x1a\n") && head.ends_with(&[4, 8, 8]);
        self.bytes(8 + 8 + 1)?;
        is_known.then_some(())
    }

    /// A function with those within it. Lua itself takes no more than 200 of them in one another.
    fn function(&mut self, depth: u8) -> Option<Function> {
        self.text()?;
        self.number()?;
        self.number()?;
        self.bytes(3)?;
        let mut f = Function::default();
        let count = self.number()?;
        let code = self.bytes(count.checked_mul(4)?)?.as_chunks::<4>().0;
        f.code = code.iter().map(|i| u32::from_ne_bytes(*i)).collect();
        for _ in 0..self.number()? {
            let constant = match self.byte()? {
                0x00 | 0x01 | 0x11 => &[][..],
                0x03 | 0x13 => {
                    self.bytes(8)?;
                    &[]
                }
                0x04 | 0x14 => self.text()?,
                _ => return None,
            };
            f.constants.push(constant.into());
        }
        let variables = self.number()?;
        self.bytes(variables.checked_mul(3)?)?;
        for _ in 0..self.number()? {
            f.inner.push(self.function(depth.checked_add(1)?)?);
        }
        // Lines and names, of which none are left in a script that was stripped of them.
        let lines = self.number()?;
        self.bytes(lines)?;
        for _ in 0..self.number()? {
            self.number()?;
            self.number()?;
        }
        for _ in 0..self.number()? {
            self.text()?;
            self.number()?;
            self.number()?;
        }
        for _ in 0..self.number()? {
            self.text()?;
        }
        Some(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps(source: &str) -> bool {
        let lua = mlua::Lua::new();
        keeps_state(&lua.load(source).into_function().unwrap().dump(true))
    }

    #[test]
    fn scripts_that_write_only_for_themselves_keep_nothing() {
        for source in [
            "",
            "local packet = require 'suricata.packet'\n\
             function init(sig) return {} end\n\
             function match(args) local p = packet.get() return p:payload():find('evil') and 1 or 0 end",
            "limit = 5 local names = {a = 1} function match() return names.a + limit end",
            "function match() local t = {} for i = 1, 9 do t[i] = i * 2 end t.x = #t return t.x end",
            "function match() local t = {1, 2, f = 3} if t.f then t.g = 1 else t[2] = 0 end return 1 end",
            "function match(a) local s = 0 while s < 9 do s = s + 1 if s == a then break end end return s end",
            "function match() local t = {} for k, v in pairs({1, 2}) do t[k] = v end return #t end",
            "local function twice(n) return 2 * n end function match(n) return twice(n) end",
            "seen = {} function thread_init() seen.a = 1 count = 0 end function match() return seen.a end",
            "function init(s) needs = {} needs.packet = tostring(true) return needs end function match() return 1 end",
        ] {
            assert!(!keeps(source), "{source}");
        }
    }

    #[test]
    fn scripts_that_write_for_later_runs_are_found_out() {
        for source in [
            "function match() count = (count or 0) + 1 return count end",
            "local count = 0 function match() count = count + 1 return count end",
            "local seen = {} function match(a) seen[a] = 1 return 1 end",
            "seen = {} function match(a) seen.last = a return 1 end",
            "seen = {} function match(a) _G.last = a return 1 end",
            "seen = {} function match(a) local t = seen t.x = a return 1 end",
            "seen = {} function match(a) local t = {} if a then t = seen end t.x = a return 1 end",
            "seen = {} function match(a) local t = {} for i = 1, 2 do t.x = a t = seen end return 1 end",
            "seen = {} function match(a) local t = {} while true do t.x = a if a then t = seen end end end",
            "seen = {} function match(a) local t = {seen} t[1].x = a return 1 end",
            "seen = {} function match(a) local t = a and {} or seen t.x = 1 return 1 end",
            "seen = {} function match(a) table.insert(seen, a) return 1 end",
            "seen = {} function match(a) rawset(seen, 1, a) return 1 end",
            "function match() return math.random(2) end",
            "local dataset = require 'suricata.dataset' function match() return 1 end",
            "function helper(t, a) t.x = a end seen = {} function match(a) helper(seen, a) return 1 end",
            "function thread_init() n = (n or 0) + 1 end function match() thread_init() return n end",
            "function match() return (function() later = 1 return 1 end)() end",
        ] {
            assert!(keeps(source), "{source}");
        }
    }

    /// What is no compiled script of this Lua counts as one that keeps something, wherever it is cut.
    #[test]
    fn what_can_not_be_read_counts_as_kept() {
        let lua = mlua::Lua::new();
        let source = "local t = {1, 'a', 2.5} function match(a) local u = {a} return u[1] end";
        let whole = lua.load(source).into_function().unwrap().dump(true);
        assert!(!keeps_state(&whole));
        for len in 0..whole.len() {
            assert!(keeps_state(&whole[..len]), "{len}");
        }
        let mut other = whole;
        other[4] = 0x53;
        assert!(keeps_state(&other));
    }
}
