//! Lua's patterns (reference manual 5.4, 6.4.1); each step of the search is charged.
//!
//! Backtracking makes some patterns take time that grows with a power of the text's length; Lua's own
//! matcher does all of it in one instruction. This one checks the allowance of the run every few
//! steps. Nesting is limited like the manual's implementation limits it.

use super::allowance::Allowance;
use crate::limits::{SCRIPT_CAPTURES_MAX, SCRIPT_PATTERN_DEPTH_MAX};
use mlua::Lua;

/// Steps charged as one instruction.
const STEPS_PER_INSTRUCTION: u32 = 4;

/// What a capture holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Span {
    /// Bytes from, to.
    Text(usize, usize),
    /// A position (`()`).
    Position(usize),
    /// Its `)` is missing: an error once it is asked for.
    Unfinished,
}

/// A match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) captures: Vec<Span>,
}

/// Why a search ended without an answer.
#[derive(Clone, Debug)]
pub(super) enum PatternError {
    /// The pattern is wrong.
    Malformed(&'static str),
    /// A capture that does not exist.
    Index(usize),
    /// No more steps.
    Spent(mlua::Error),
}

impl PatternError {
    /// As an error of the calling script.
    pub(super) fn at(self, lua: &Lua) -> mlua::Error {
        match self {
            PatternError::Malformed(what) => super::allowance::error_at(lua, what),
            PatternError::Index(n) => {
                super::allowance::error_at(lua, &format!("invalid capture index %{n}"))
            }
            PatternError::Spent(e) => e,
        }
    }
}

type Matched = Result<Option<usize>, PatternError>;

#[derive(Clone, Copy, Debug)]
enum Capture {
    Open(usize),
    Closed(usize, usize),
    Position(usize),
}

/// A pattern over a text.
pub(super) struct Matcher<'a> {
    hay: &'a [u8],
    pattern: &'a [u8],
    is_anchored: bool,
    captures: Vec<Capture>,
    depth: u32,
    steps: u32,
    allowance: &'a Allowance,
}

impl<'a> Matcher<'a> {
    pub(super) fn new(hay: &'a [u8], pattern: &'a [u8], allowance: &'a Allowance) -> Matcher<'a> {
        let mut m = Matcher::unanchored(hay, pattern, allowance);
        if let Some(rest) = pattern.strip_prefix(b"^") {
            (m.is_anchored, m.pattern) = (true, rest);
        }
        m
    }

    /// `^` is a plain character, as in `gmatch`.
    pub(super) fn unanchored(
        hay: &'a [u8],
        pattern: &'a [u8],
        allowance: &'a Allowance,
    ) -> Matcher<'a> {
        let captures = Vec::new();
        Matcher { hay, pattern, is_anchored: false, captures, depth: 0, steps: 0, allowance }
    }

    pub(super) fn is_anchored(&self) -> bool {
        self.is_anchored
    }

    /// The first match from a position on.
    pub(super) fn find(&mut self, from: usize) -> Result<Option<Found>, PatternError> {
        let mut at = from;
        while at <= self.hay.len() {
            if let Some(found) = self.at(at)? {
                return Ok(Some(found));
            }
            if self.is_anchored {
                break;
            }
            at += 1;
        }
        Ok(None)
    }

    /// The match that begins at a position.
    pub(super) fn at(&mut self, start: usize) -> Result<Option<Found>, PatternError> {
        self.captures.clear();
        self.depth = 0;
        let Some(end) = self.run(start, 0)? else { return Ok(None) };
        let mut captures = Vec::with_capacity(self.captures.len());
        for c in &self.captures {
            captures.push(match *c {
                Capture::Closed(a, b) => Span::Text(a, b),
                Capture::Position(p) => Span::Position(p),
                Capture::Open(_) => Span::Unfinished,
            });
        }
        Ok(Some(Found { start, end, captures }))
    }

    fn step(&mut self) -> Result<(), PatternError> {
        self.steps += 1;
        if self.steps >= STEPS_PER_INSTRUCTION {
            self.steps = 0;
            self.allowance.charge(1).map_err(PatternError::Spent)?;
        }
        Ok(())
    }

    fn p(&self, at: usize) -> Option<u8> {
        self.pattern.get(at).copied()
    }

    /// Position after a single-character item that begins at `p`.
    fn item_end(&self, p: usize) -> Result<usize, PatternError> {
        match self.p(p) {
            Some(b'%') if p + 1 >= self.pattern.len() => {
                Err(PatternError::Malformed("malformed pattern (ends with '%')"))
            }
            Some(b'%') => Ok(p + 2),
            Some(b'[') => {
                let mut q = p + 1;
                if self.p(q) == Some(b'^') {
                    q += 1;
                }
                loop {
                    let missing = PatternError::Malformed("malformed pattern (missing ']')");
                    let b = self.p(q).ok_or(missing)?;
                    q += if b == b'%' { 2 } else { 1 };
                    if self.p(q) == Some(b']') {
                        return Ok(q + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    /// Whether a byte is in the set `[…]` at `p..end`.
    fn in_set(&self, b: u8, p: usize, end: usize) -> bool {
        let last = end - 1;
        let (mut q, negated) = match self.p(p + 1) {
            Some(b'^') => (p + 2, true),
            _ => (p + 1, false),
        };
        while q < last {
            let Some(c) = self.p(q) else { break };
            if c == b'%' {
                if self.p(q + 1).is_some_and(|class| in_class(b, class)) {
                    return !negated;
                }
                q += 2;
            } else if self.p(q + 1) == Some(b'-') && q + 2 < last {
                if self.p(q + 2).is_some_and(|high| (c..=high).contains(&b)) {
                    return !negated;
                }
                q += 3;
            } else {
                if c == b {
                    return !negated;
                }
                q += 1;
            }
        }
        negated
    }

    /// Whether the byte at `s` matches the item `p..end`.
    fn single(&self, s: usize, p: usize, end: usize) -> bool {
        let Some(&b) = self.hay.get(s) else { return false };
        match self.p(p) {
            Some(b'.') => true,
            Some(b'%') => self.p(p + 1).is_some_and(|class| in_class(b, class)),
            Some(b'[') => self.in_set(b, p, end),
            Some(c) => c == b,
            None => false,
        }
    }

    /// Matches the pattern from `p` on at `s`; the end of the match.
    fn run(&mut self, s: usize, p: usize) -> Matched {
        self.depth += 1;
        if self.depth > SCRIPT_PATTERN_DEPTH_MAX {
            return Err(PatternError::Malformed("pattern too complex"));
        }
        let result = self.items(s, p);
        self.depth -= 1;
        result
    }

    fn items(&mut self, mut s: usize, mut p: usize) -> Matched {
        loop {
            self.step()?;
            let Some(c) = self.p(p) else { return Ok(Some(s)) };
            match (c, self.p(p + 1)) {
                (b'(', Some(b')')) => return self.open(s, p + 2, Capture::Position(s)),
                (b'(', _) => return self.open(s, p + 1, Capture::Open(s)),
                (b')', _) => return self.close(s, p + 1),
                (b'$', None) => return Ok((s == self.hay.len()).then_some(s)),
                (b'%', Some(b'b')) => match self.balanced(s, p + 2)? {
                    Some(next) => (s, p) = (next, p + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => match self.frontier(s, p + 2)? {
                    Some(next) => p = next,
                    None => return Ok(None),
                },
                (b'%', Some(d @ b'0'..=b'9')) => match self.back_reference(s, d)? {
                    Some(next) => (s, p) = (next, p + 2),
                    None => return Ok(None),
                },
                _ => {
                    let end = self.item_end(p)?;
                    match self.p(end) {
                        Some(b'?') => {
                            if self.single(s, p, end)
                                && let Some(done) = self.run(s + 1, end + 1)?
                            {
                                return Ok(Some(done));
                            }
                            p = end + 1;
                        }
                        Some(b'+') => {
                            if !self.single(s, p, end) {
                                return Ok(None);
                            }
                            return self.most(s + 1, s + 1, p, end);
                        }
                        Some(b'*') => return self.most(s, s, p, end),
                        Some(b'-') => return self.least(s, p, end),
                        _ => {
                            if !self.single(s, p, end) {
                                return Ok(None);
                            }
                            (s, p) = (s + 1, end);
                        }
                    }
                }
            }
        }
    }

    /// As many as possible, then fewer.
    fn most(&mut self, least: usize, from: usize, p: usize, end: usize) -> Matched {
        let mut s = from;
        while self.single(s, p, end) {
            self.step()?;
            s += 1;
        }
        loop {
            if let Some(done) = self.run(s, end + 1)? {
                return Ok(Some(done));
            }
            if s == least {
                return Ok(None);
            }
            s -= 1;
        }
    }

    /// As few as possible.
    fn least(&mut self, mut s: usize, p: usize, end: usize) -> Matched {
        loop {
            if let Some(done) = self.run(s, end + 1)? {
                return Ok(Some(done));
            }
            if !self.single(s, p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn open(&mut self, s: usize, p: usize, capture: Capture) -> Matched {
        if self.captures.len() >= SCRIPT_CAPTURES_MAX {
            return Err(PatternError::Malformed("too many captures"));
        }
        self.captures.push(capture);
        let at = self.captures.len();
        let result = self.run(s, p)?;
        if result.is_none() {
            self.captures.truncate(at - 1);
        }
        Ok(result)
    }

    fn close(&mut self, s: usize, p: usize) -> Matched {
        let open = self.captures.iter().rposition(|c| matches!(c, Capture::Open(_)));
        let bad = PatternError::Malformed("invalid pattern capture");
        let at = open.ok_or(bad)?;
        let Some(&Capture::Open(from)) = self.captures.get(at) else { return Ok(None) };
        self.captures[at] = Capture::Closed(from, s);
        let result = self.run(s, p)?;
        if result.is_none()
            && let Some(c) = self.captures.get_mut(at)
        {
            *c = Capture::Open(from);
        }
        Ok(result)
    }

    /// `%bxy`
    fn balanced(&mut self, s: usize, p: usize) -> Matched {
        let missing = "malformed pattern (missing arguments to '%b')";
        let (Some(open), Some(close)) = (self.p(p), self.p(p + 1)) else {
            return Err(PatternError::Malformed(missing));
        };
        if self.hay.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1usize;
        let mut at = s + 1;
        while let Some(&b) = self.hay.get(at) {
            self.step()?;
            at += 1;
            if b == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at));
                }
            } else if b == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// `%f[set]`: position after the set when the border lies here.
    fn frontier(&mut self, s: usize, p: usize) -> Matched {
        if self.p(p) != Some(b'[') {
            let missing = "missing '[' after '%f' in pattern";
            return Err(PatternError::Malformed(missing));
        }
        let end = self.item_end(p)?;
        let before = s.checked_sub(1).and_then(|i| self.hay.get(i)).copied().unwrap_or(0);
        let here = self.hay.get(s).copied().unwrap_or(0);
        Ok((!self.in_set(before, p, end) && self.in_set(here, p, end)).then_some(end))
    }

    fn back_reference(&mut self, s: usize, digit: u8) -> Matched {
        let n = usize::from(digit.wrapping_sub(b'1'));
        let Some(&Capture::Closed(a, b)) = self.captures.get(n) else {
            return Err(PatternError::Index(usize::from(digit - b'0')));
        };
        let text = self.hay.get(a..b).unwrap_or_default();
        let is_there = self.hay.get(s..).is_some_and(|rest| rest.starts_with(text));
        self.allowance.charge(text.len() as u64 / 64).map_err(PatternError::Spent)?;
        Ok(is_there.then_some(s + text.len()))
    }
}

/// Whether a byte is in a class (`%a`), or is the escaped character itself.
fn in_class(b: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => b.is_ascii_alphabetic(),
        b'c' => b.is_ascii_control(),
        b'd' => b.is_ascii_digit(),
        b'g' => b.is_ascii_graphic(),
        b'l' => b.is_ascii_lowercase(),
        b'p' => b.is_ascii_punctuation(),
        b's' => b.is_ascii_whitespace() || b == 0x0b,
        b'u' => b.is_ascii_uppercase(),
        b'w' => b.is_ascii_alphanumeric(),
        b'x' => b.is_ascii_hexdigit(),
        _ => return class == b,
    };
    is_in != class.is_ascii_uppercase()
}
