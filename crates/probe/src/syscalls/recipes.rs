//! What the record of each system call holds, as data that the BPF program interprets.
//!
//! A row of `recipes.tsv` names the values in the order of the parameters in the event table, so that a further call is
//! one row. For the calls that are needed most the build makes a function of the row, which does the same faster. Calls without a type of their own get the record of the type `GENERIC_X`: two numbers.

use super::translate::Translation;
use crate::limits::FIXED_MAX;
use gabion_scap::table::{Call, EventType, calls, changes_state, event_type};
use gabion_scap::types;

include!(concat!(env!("OUT_DIR"), "/kinds.rs"));
include!(concat!(env!("OUT_DIR"), "/native.rs"));

/// The numbers of system calls, rounded up to a power of two: the size of the tables in the kernel.
pub(crate) const CALLS: usize = 512;
/// The place of the recipe for the end of a thread, which is no system call.
pub(crate) const EXIT_PLACE: u32 = CALLS as u32;
/// Values of a record.
const OPS: usize = 40;
/// The value of `native` of a record that is written value by value.
const BY_RECIPE: u8 = 0;
/// That of a record whose values are all such words.
const ALL_FIXED: u8 = 1;
/// That of a record with texts or data besides.
const WITH_MEMORY: u8 = 2;
/// Marks a word that points to a text.
const FIXED_TEXT: u8 = 0x40;
/// Marks a word that points to data.
const FIXED_DATA: u8 = 0x20;
/// The place that stands for the recipe's constant.
const FIXED_CONSTANT: u8 = 8;
/// Marks a word as a signed number of 32 bits.
const FIXED_SIGNED: u8 = 0x80;
/// Bytes of a recipe in the kernel.
pub(crate) const RECIPE_BYTES: usize = 8 + 2 * FIXED_MAX + 4 * OPS;

/// Classes in which records are shed when a ring is full, those first that say least about what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Reads and writes.
    Io,
    /// Calls that neither change state nor name a file.
    Other,
    /// Calls that name a file.
    File,
    /// Opens.
    Open,
    /// Calls that make or end connections.
    Net,
    /// Calls that close or copy a descriptor.
    Close,
    /// Programs, threads, users, namespaces.
    Proc,
}

impl Class {
    /// All classes in the order in which they are shed.
    pub const ALL: [Self; 7] =
        [Self::Io, Self::Other, Self::File, Self::Open, Self::Net, Self::Close, Self::Proc];

    /// The name in counters and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Other => "other",
            Self::File => "file",
            Self::Open => "open",
            Self::Net => "net",
            Self::Close => "close",
            Self::Proc => "proc",
        }
    }

    /// The part of a ring, in 64ths, above which a record of this class is shed.
    pub(crate) const fn fill_max(self) -> u32 {
        match self {
            Self::Io => 32,
            Self::Other => 40,
            Self::File => 48,
            Self::Open => 52,
            Self::Net | Self::Close => 56,
            Self::Proc => 64,
        }
    }
}

/// What a record has after the values of the event table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Further {
    /// Nothing.
    None,
    /// The name at the entry, the paths of the kernel's file and of the folder, components below the folder.
    Open,
    /// The address at the entry, the network namespace.
    Connect,
    /// The network namespace.
    Netns,
}

/// One value and where it comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) kind: u8,
    pub(crate) a: u8,
    pub(crate) b: u8,
}

/// The recipe of a call.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    /// Its number on `x86_64`, or [`EXIT_PLACE`].
    pub(crate) place: u32,
    pub(crate) kind: &'static EventType,
    pub(crate) class: Class,
    /// The number of the kernel's code that writes this record, if it has code of its own.
    pub(crate) native: Option<u8>,
    pub(crate) ops: Vec<Op>,
    /// How user space turns each value into that of the event table; none where it is the same.
    pub(crate) translations: Vec<Option<Translation>>,
}

impl Recipe {
    /// The bytes of `struct recipe` in `bpf/syscalls.h`. Without code of its own the record is written value by value, which
    /// trials compare.
    pub(crate) fn to_bytes(&self, has_code: bool) -> [u8; RECIPE_BYTES] {
        let mut bytes = [0; RECIPE_BYTES];
        let [low, high] = self.kind.number.to_le_bytes();
        let values = u8::try_from(self.ops.len()).unwrap_or(0);
        let changes = u8::from(self.changes_state());
        let fixed = self.fixed().filter(|_| has_code);
        let (code, constant, fixed) = match (self.native.filter(|_| has_code), fixed) {
            (None, Some((constant, fixed))) => {
                let mut words = fixed.iter().step_by(2);
                let has_memory = words.any(|word| word & (FIXED_TEXT | FIXED_DATA) != 0);
                (if has_memory { WITH_MEMORY } else { ALL_FIXED }, constant, fixed)
            }
            (native, _) => (native.unwrap_or(BY_RECIPE), [0; 2], [0; 2 * FIXED_MAX]),
        };
        let head = [low, high, values, self.class as u8, changes, code];
        let ops = self.ops.iter().flat_map(|op| [op.kind, op.a, op.b, 0]);
        let all = head.into_iter().chain(constant).chain(fixed).chain(ops);
        for (to, from) in bytes.iter_mut().zip(all) {
            *to = from;
        }
        bytes
    }

    /// For a record whose values are all words of arguments and result in a fixed size, or texts and data that they point
    /// to: its constant, and for each value the place of the word and its bytes.
    fn fixed(&self) -> Option<([u8; 2], [u8; 2 * FIXED_MAX])> {
        const RESULT: u8 = 6;
        const NUMBER: u8 = 7;
        let (mut constant, mut fixed) = ([0; 2], [0; 2 * FIXED_MAX]);
        if self.place == EXIT_PLACE || self.ops.len() > FIXED_MAX {
            return None;
        }
        for (op, to) in self.ops.iter().zip(fixed.chunks_exact_mut(2)) {
            let (word, size) = match KINDS.get(usize::from(op.kind)).copied()? {
                "EMPTY" => (0, 0),
                "RESULT" => (RESULT, 8),
                "RESULT_32" => (RESULT, 4),
                "ARGUMENT" if op.a < 6 => (op.a, op.b),
                "SIGNED" if op.a < 6 => (op.a | FIXED_SIGNED, 8),
                "NUMBER" => (NUMBER, 2),
                "TEXT" if op.a < 6 => (op.a | FIXED_TEXT, 0),
                "BYTES_RESULT" if op.a < 6 => (op.a | FIXED_DATA, RESULT),
                "BYTES_ARGUMENT" if op.a < 6 && op.b < 6 => (op.a | FIXED_DATA, op.b),
                "CONSTANT" if constant == [0; 2] => {
                    constant = [op.a, op.b];
                    (FIXED_CONSTANT, 2)
                }
                _ => return None,
            };
            to.copy_from_slice(&[word, size]);
        }
        Some((constant, fixed))
    }

    /// Whether the event changes what is known of threads and descriptors; such records are numbered for each thread.
    pub(crate) fn changes_state(&self) -> bool {
        changes_state(self.kind.number)
    }

    /// What the record has after the values of the table.
    pub(crate) const fn further(&self) -> Further {
        match self.kind.number {
            types::OPEN_X | types::CREAT_X | types::OPENAT_2_X | types::OPENAT2_X => Further::Open,
            types::CONNECT_X => Further::Connect,
            types::ACCEPT_5_X | types::ACCEPT4_6_X => Further::Netns,
            _ => Further::None,
        }
    }
}

/// Why a row of the table is wrong; found by a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadRow(pub(crate) String);

/// Every recipe: those of the table, that of the end of a thread among them, and a generic one for each other call.
pub(crate) fn all() -> Result<Vec<Recipe>, BadRow> {
    let mut list = Vec::new();
    for line in include_str!("recipes.tsv").lines().filter(|line| !line.starts_with('#')) {
        list.push(parse_row(line)?);
    }
    let typed: Vec<u32> = list.iter().map(|recipe| recipe.place).collect();
    for call in calls() {
        let Some(number) = call.x86_64 else { continue };
        if !typed.contains(&u32::from(number)) {
            list.push(generic(call, number)?);
        }
    }
    Ok(list)
}

fn parse_row(line: &str) -> Result<Recipe, BadRow> {
    let bad = |why: &str| BadRow(format!("{line}: {why}"));
    let name = line.split('\t').next().unwrap_or_default();
    if name == "procexit" {
        return parse(line, EXIT_PLACE, types::PROCEXIT_1_E);
    }
    let call = calls().iter().find(|call| call.name == name && call.x86_64.is_some());
    let call = call.ok_or_else(|| bad("no such call"))?;
    let exit = call.exit.ok_or_else(|| bad("the call has no exit event"))?;
    parse(line, u32::from(call.x86_64.unwrap_or(0)), exit)
}

fn parse(line: &str, place: u32, number: u16) -> Result<Recipe, BadRow> {
    let bad = |why: &str| BadRow(format!("{line}: {why}"));
    let mut cells = line.split('\t');
    let (call, class, code) = (cells.next(), cells.next(), cells.next());
    let values = cells.next().unwrap_or_default();
    let native = NATIVE.iter().position(|name| Some(*name) == call);
    let has_code = match code {
        Some("native" | "opens") => true,
        Some("recipe") => false,
        _ => return Err(bad("no such code")),
    };
    if native.is_some() != has_code {
        return Err(bad("the build has made other code"));
    }
    let native = native.and_then(|place| u8::try_from(NATIVE_FIRST + place).ok());
    let class = Class::ALL.into_iter().find(|c| Some(c.name()) == class);
    let kind = event_type(number).ok_or_else(|| bad("no such event type"))?;
    let (mut ops, mut translations) = (Vec::new(), Vec::new());
    for word in values.split_whitespace().filter(|word| *word != "|") {
        let (op, name) = word.split_once('~').unwrap_or((word, ""));
        let mut parts = op.split(':');
        let name_of_kind = parts.next().unwrap_or_default().to_uppercase();
        let place = KINDS.iter().position(|k| *k == name_of_kind);
        let place = place.ok_or_else(|| bad(&format!("no kind {name_of_kind}")))?;
        let mut number = || parts.next().map_or(Ok(0), |text| text.parse().map_err(|_| bad(text)));
        ops.push(Op { kind: u8::try_from(place).unwrap_or(0), a: number()?, b: number()? });
        translations.push(match name {
            "" => None,
            name => Some(Translation::named(name).ok_or_else(|| bad(name))?),
        });
    }
    if ops.len() > OPS {
        return Err(bad("more values than a record can have"));
    }
    let class = class.ok_or_else(|| bad("no such class"))?;
    Ok(Recipe { place, kind, class, native, ops, translations })
}

fn generic(call: &Call, number: u16) -> Result<Recipe, BadRow> {
    let [low, high] = call.code.to_le_bytes();
    let row = format!("{}\tother\trecipe\tconstant:{low}:{high} number", call.name);
    parse(&row, u32::from(number), types::GENERIC_X)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_value_for_each_parameter_of_its_event() {
        let recipes = all().unwrap();
        let mut typed = 0;
        for recipe in &recipes {
            let kind = recipe.kind;
            let further = match recipe.further() {
                Further::None => 0,
                Further::Open => 4,
                Further::Connect => 2,
                Further::Netns => 1,
            };
            assert_eq!(recipe.ops.len(), kind.parameters.len() + further, "{}", kind.name);
            typed += usize::from(kind.number != types::GENERIC_X);
        }
        assert!(typed >= 155, "154 calls and the end of a thread: {typed}");
    }

    #[test]
    fn every_call_of_the_table_with_a_type_has_a_row() {
        let recipes = all().unwrap();
        for call in calls() {
            let Some(number) = call.x86_64 else { continue };
            let recipe = recipes.iter().find(|r| r.place == u32::from(number));
            let recipe = recipe.unwrap_or_else(|| panic!("{} has no recipe", call.name));
            assert_eq!(
                Some(recipe.kind.number),
                call.exit.or(Some(types::GENERIC_X)),
                "{}",
                call.name
            );
        }
    }

    #[test]
    fn values_without_translation_have_the_size_of_their_parameter() {
        let size = |op: Op| match KINDS[usize::from(op.kind)] {
            "ARGUMENT" => Some(usize::from(op.b)),
            "RESULT" | "SIGNED" | "USER_64" | "USER_FD" | "TID" | "PID" | "PTID" | "FD_LIMIT" => {
                Some(8)
            }
            "USER_32" | "RESULT_32" | "USER_64_AS_32" | "UID" | "GID" | "TTY" | "VM_SIZE" => {
                Some(4)
            }
            "USER_16" | "CONSTANT" | "NUMBER" => Some(2),
            _ => None,
        };
        for recipe in all().unwrap() {
            for (at, parameter) in recipe.kind.parameters.iter().enumerate() {
                let (op, translation) = (recipe.ops[at], recipe.translations[at]);
                if let (Some(size), Some(wanted), None) =
                    (size(op), parameter.kind.size(), translation)
                {
                    assert_eq!(size, wanted, "{} of {}", parameter.name, recipe.kind.name);
                }
            }
        }
    }

    #[test]
    fn records_of_plain_words_are_written_without_their_kinds() {
        let recipes = all().unwrap();
        let of = |name: &str| recipes.iter().find(|r| r.kind.name == name).unwrap().to_bytes(true);
        let fstat = of("fstat");
        assert_eq!((fstat[5], &fstat[8..12]), (ALL_FIXED, &[6, 8, FIXED_SIGNED, 8][..]));
        let generic = recipes.iter().find(|r| r.kind.number == types::GENERIC_X).unwrap();
        let (constant, fixed) = generic.fixed().unwrap();
        assert_ne!(constant, [0; 2]);
        assert_eq!(fixed[..4], [FIXED_CONSTANT, 2, 7, 2]);
        assert_eq!((of("read")[5], of("sendfile")[5]), (WITH_MEMORY, BY_RECIPE));
        let fixed =
            recipes.iter().filter(|r| r.fixed().is_some() && r.kind.number != types::GENERIC_X);
        assert!(fixed.count() > 60);
    }

    /// The calls that state needs, by the event table; those of the shipped rules are tested where the rules are.
    #[test]
    fn calls_that_state_needs_have_code_of_their_own() {
        let recipes = all().unwrap();
        let mut needed = 0;
        for call in calls().iter().filter(|call| call.is_state) {
            let Some(number) = call.x86_64 else { continue };
            let recipe = recipes.iter().find(|r| r.place == u32::from(number)).unwrap();
            assert!(recipe.native.is_some(), "{} is written by its recipe", call.name);
            needed += 1;
        }
        assert!(needed > 60, "{needed}");
        let end = recipes.iter().find(|r| r.place == EXIT_PLACE).unwrap();
        assert!(end.native.is_some(), "ends of threads");
        let mut codes: Vec<u8> = recipes.iter().filter_map(|r| r.native).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), NATIVE.len(), "each has a number");
        assert!(usize::from(codes[0]) > usize::from(WITH_MEMORY), "{codes:?}");
    }

    #[test]
    fn a_trial_has_every_record_written_by_its_recipe() {
        for recipe in all().unwrap() {
            let (with, without) = (recipe.to_bytes(true), recipe.to_bytes(false));
            assert_eq!(without[5], BY_RECIPE);
            assert_eq!((&with[..5], &with[24..]), (&without[..5], &without[24..]));
            if let Some(number) = recipe.native {
                assert_eq!(with[5], number);
            }
        }
    }

    #[test]
    fn wrong_rows_are_refused() {
        for row in [
            "nothing\tio\trecipe\tresult",
            "read\tno\trecipe\tresult",
            "read\tio\trecipe\tx",
            "read\tio\trecipe\tresult:x",
            "read\tio\trecipe\tresult~x",
            "read\tio\tresult",
            "read\tio\tnative\tresult",
            "close\tclose\trecipe\tresult",
        ] {
            assert!(parse_row(row).is_err(), "{row}");
        }
    }
}
