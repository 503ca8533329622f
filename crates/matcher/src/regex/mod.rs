//! Regular expressions of rules: PCRE2 with its compiler, under limits, with a linear-time
//! fallback.
//!
//! Rules use Perl's dialect, and crafted traffic can make the search for some expressions run
//! forever. So each search has a match, depth, heap and stack limit. The first time an expression
//! reaches a limit, it is compiled by the `regex` crate too, whose searches are linear in the
//! buffer. If that crate accepts it (it refuses look-around and back references), it does this and
//! all later searches. Limits that were reached are counted per expression.

mod fallback;
mod pcre2;

use crate::limits::{REGEX_DEPTH_LIMIT, REGEX_HEAP_KIB, REGEX_MATCH_LIMIT};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use fallback::Fallback;
use pcre2::{Answer, Code, Space};
use std::sync::OnceLock;

/// How an expression is parsed and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flags {
    /// `i`: letters match in either case.
    pub caseless: bool,
    /// `m`: `^` and `$` match at line ends too.
    pub multiline: bool,
    /// `s`: the dot matches line ends.
    pub dotall: bool,
    /// `x`: white space and comments in the expression are ignored.
    pub extended: bool,
    /// `A`: matches at the start of the search only.
    pub anchored: bool,
    /// `E`: `$` doesn't match before a last line end.
    pub dollar_endonly: bool,
    /// `G`: quantifiers are lazy unless followed by `?`.
    pub ungreedy: bool,
    /// Whether the expression is compiled to machine code. Off for experiments only.
    pub jit: bool,
}

impl Default for Flags {
    fn default() -> Self {
        Flags {
            caseless: false,
            multiline: false,
            dotall: false,
            extended: false,
            anchored: false,
            dollar_endonly: false,
            ungreedy: false,
            jit: true,
        }
    }
}

/// Limits of one search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Backtracking steps. Compiled code counts them coarsely: it may run several times as long.
    pub match_limit: u32,
    /// Nested backtracking points (interpreter only; compiled code is bounded by its stack).
    pub depth_limit: u32,
    /// Heap of the interpreter in KiB.
    pub heap_kib: u32,
    /// Largest offset at which a match may begin.
    pub offset_limit: Option<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            match_limit: REGEX_MATCH_LIMIT,
            depth_limit: REGEX_DEPTH_LIMIT,
            heap_kib: REGEX_HEAP_KIB,
            offset_limit: None,
        }
    }
}

/// Why an expression was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// The library's number of the error.
    pub code: i32,
    /// Offset in the expression at which the error was found.
    pub offset: usize,
    /// The library's message.
    pub message: String,
}

impl core::fmt::Display for CompileError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} at offset {}", self.message, self.offset)
    }
}

impl core::error::Error for CompileError {}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The leftmost match: offsets of its first byte and after its last.
    Match {
        /// Offset of the first byte.
        start: usize,
        /// Offset after the last byte.
        end: usize,
    },
    /// No match.
    NoMatch,
    /// A limit was reached before a result, and the fallback does not support the expression.
    LimitHit,
}

impl Found {
    /// Whether the result is a match.
    pub fn is_match(self) -> bool {
        matches!(self, Found::Match { .. })
    }
}

/// A compiled expression, shared by all workers.
#[derive(Debug)]
pub struct Regex {
    code: Code,
    limits: Limits,
    flags: Flags,
    pattern: Box<[u8]>,
    names: Vec<(String, u32)>,
    limit_hits: AtomicU64,
    fallback: OnceLock<Option<Fallback>>,
}

impl Regex {
    /// Compiles `pattern`.
    ///
    /// # Errors
    /// The expression is not of the dialect, or too large.
    pub fn new(pattern: &[u8], flags: Flags, limits: Limits) -> Result<Self, CompileError> {
        let code = Code::new(pattern, flags, &limits).map_err(|refusal| CompileError {
            code: refusal.code,
            offset: refusal.offset,
            message: refusal.message,
        })?;
        Ok(Regex {
            names: code.names(),
            code,
            limits,
            flags,
            pattern: pattern.into(),
            limit_hits: AtomicU64::new(0),
            fallback: OnceLock::new(),
        })
    }

    /// The expression as written.
    pub fn pattern(&self) -> &[u8] {
        &self.pattern
    }

    /// How it is parsed and run.
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// Limits of its searches.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Number of capturing groups, group 0 (the whole match) not counted.
    pub fn group_count(&self) -> u32 {
        self.code.groups
    }

    /// Names of groups with their numbers.
    pub fn group_names(&self) -> &[(String, u32)] {
        &self.names
    }

    /// Whether machine code runs it.
    pub fn is_jit(&self) -> bool {
        self.code.is_jit
    }

    /// How often a search reached a limit.
    pub fn limit_hits(&self) -> u64 {
        self.limit_hits.load(Relaxed)
    }

    /// Whether the linear-time fallback has taken over.
    pub fn uses_fallback(&self) -> bool {
        matches!(self.fallback.get(), Some(Some(_)))
    }

    /// Bytes of memory held by the compiled expression (without the fallback).
    pub fn memory_bytes(&self) -> usize {
        self.code.memory_bytes + self.pattern.len() + size_of::<Self>()
    }

    /// Searches the whole of `hay`.
    pub fn find(&self, hay: &[u8], scratch: &mut RegexScratch) -> Found {
        self.find_at(hay, 0, scratch)
    }

    /// Searches from `start`; look-behind and `\b` see the bytes before it, and `^` stays the start
    /// of `hay`.
    pub fn find_at(&self, hay: &[u8], start: usize, scratch: &mut RegexScratch) -> Found {
        self.search(hay, start, false, scratch)
    }

    /// Searches for a match that begins at `start` exactly.
    pub fn find_anchored(&self, hay: &[u8], start: usize, scratch: &mut RegexScratch) -> Found {
        self.search(hay, start, true, scratch)
    }

    fn search(&self, hay: &[u8], start: usize, anchored: bool, into: &mut RegexScratch) -> Found {
        into.from_fallback.clear();
        into.is_fallback = false;
        if let Some(Some(fallback)) = self.fallback.get() {
            return self.search_fallback(fallback, hay, start, anchored, into);
        }
        let Some(space) = into.space.as_mut() else { return Found::LimitHit };
        match space.search(&self.code, &self.limits, hay, start, anchored) {
            Answer::NoMatch => Found::NoMatch,
            Answer::Match => match space.group(0) {
                Some((start, end)) => Found::Match { start, end },
                // `\K` in a look-ahead can set the start after the end: that match is unusable.
                None => Found::NoMatch,
            },
            Answer::Limit => {
                self.limit_hits.fetch_add(1, Relaxed);
                match self.fallback.get_or_init(|| Fallback::new(&self.pattern, self.flags)) {
                    Some(fallback) => self.search_fallback(fallback, hay, start, anchored, into),
                    None => Found::LimitHit,
                }
            }
        }
    }

    #[cold]
    fn search_fallback(
        &self,
        fallback: &Fallback,
        hay: &[u8],
        start: usize,
        anchored: bool,
        into: &mut RegexScratch,
    ) -> Found {
        into.is_fallback = true;
        let anchored = anchored || self.flags.anchored;
        let limit = self.limits.offset_limit.unwrap_or(usize::MAX);
        if !fallback.search(hay, start, anchored, limit, &mut into.from_fallback) {
            return Found::NoMatch;
        }
        match into.from_fallback.first().copied().flatten() {
            Some((start, end)) => Found::Match { start, end },
            None => Found::NoMatch,
        }
    }
}

/// A worker's memory for searches: match context, machine stack, result vector. It can be moved
/// to another thread, not shared.
#[derive(Debug)]
pub struct RegexScratch {
    space: Option<Space>,
    from_fallback: Vec<Option<(usize, usize)>>,
    is_fallback: bool,
}

impl RegexScratch {
    /// Allocates the memory (about 40 KiB). If that fails, every search returns
    /// [`Found::LimitHit`].
    pub fn new() -> Self {
        RegexScratch { space: Space::new(32), from_fallback: Vec::new(), is_fallback: false }
    }

    /// Bounds of a group of the last search, which must have been a match; `None` if the group took
    /// no part.
    pub fn group(&self, number: u32) -> Option<(usize, usize)> {
        if self.is_fallback {
            return self.from_fallback.get(number as usize).copied().flatten();
        }
        self.space.as_ref().and_then(|space| space.group(number))
    }
}

impl Default for RegexScratch {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(letters: &str) -> Flags {
        Flags {
            caseless: letters.contains('i'),
            multiline: letters.contains('m'),
            dotall: letters.contains('s'),
            extended: letters.contains('x'),
            anchored: letters.contains('A'),
            dollar_endonly: letters.contains('E'),
            ungreedy: letters.contains('G'),
            jit: !letters.contains('!'),
        }
    }

    fn found(start: usize, end: usize) -> Found {
        Found::Match { start, end }
    }

    /// Expected values follow perlre and pcre2pattern(3).
    const CASES: &[(&str, &str, &[u8], Found)] = &[
        ("b+", "", b"aabbb", Found::Match { start: 2, end: 5 }),
        ("b+", "G", b"aabbb", Found::Match { start: 2, end: 3 }),
        ("B+", "i", b"aabbb", Found::Match { start: 2, end: 5 }),
        ("b+", "A", b"aabbb", Found::NoMatch),
        ("a.b", "", b"a\nb", Found::NoMatch),
        ("a.b", "s", b"a\nb", Found::Match { start: 0, end: 3 }),
        ("^b$", "", b"a\nb\nc", Found::NoMatch),
        ("^b$", "m", b"a\nb\nc", Found::Match { start: 2, end: 3 }),
        ("b$", "", b"ab\n", Found::Match { start: 1, end: 2 }),
        ("b$", "E", b"ab\n", Found::NoMatch),
        ("a b # c", "x", b"ab", Found::Match { start: 0, end: 2 }),
        ("(a)\\1", "", b"xaa", Found::Match { start: 1, end: 3 }),
        ("\\x00\\xff", "", b"a\0\xffb", Found::Match { start: 1, end: 3 }),
        ("(?<=x)a", "", b"axa", Found::Match { start: 2, end: 3 }),
    ];

    #[test]
    fn flags_have_the_meaning_of_perl() {
        let mut scratch = RegexScratch::new();
        for &(pattern, letters, hay, expected) in CASES {
            for engine in ["", "!"] {
                let flags = flags(&format!("{letters}{engine}"));
                let regex = Regex::new(pattern.as_bytes(), flags, Limits::default()).unwrap();
                assert_eq!(regex.is_jit(), engine.is_empty());
                assert_eq!(regex.find(hay, &mut scratch), expected, "/{pattern}/{letters}{engine}");
            }
        }
    }

    #[test]
    fn the_fallback_agrees_with_the_library() {
        for &(pattern, letters, hay, expected) in CASES {
            let Some(fallback) = Fallback::new(pattern.as_bytes(), flags(letters)) else {
                continue;
            };
            let mut groups = Vec::new();
            let anchored = letters.contains('A');
            let is_match = fallback.search(hay, 0, anchored, usize::MAX, &mut groups);
            let got = match groups.first().copied().flatten() {
                Some((start, end)) if is_match => found(start, end),
                _ => Found::NoMatch,
            };
            assert_eq!(got, expected, "/{pattern}/{letters}");
        }
    }

    #[test]
    fn a_hostile_expression_is_bounded_and_searched_by_the_fallback() {
        let mut hay = vec![b'a'; 2048];
        hay.push(b'b');
        let mut scratch = RegexScratch::new();
        let regex = Regex::new(b"(a+)+$", Flags::default(), Limits::default()).unwrap();
        assert_eq!(regex.find(&hay, &mut scratch), Found::NoMatch);
        assert_eq!((regex.limit_hits(), regex.uses_fallback()), (1, true));
        assert_eq!(regex.find(&hay, &mut scratch), Found::NoMatch);
        assert_eq!(regex.limit_hits(), 1, "the fallback has taken over");
        hay.pop();
        assert_eq!(regex.find(&hay, &mut scratch), found(0, 2048));
        assert_eq!(scratch.group(1), Some((0, 2048)));
    }

    #[test]
    fn a_hostile_expression_without_fallback_hits_its_limit() {
        let mut hay = vec![b'a'; 2048];
        hay.push(b'b');
        let mut scratch = RegexScratch::new();
        for jit in [true, false] {
            let flags = Flags { jit, ..Flags::default() };
            let regex = Regex::new(b"(?=a)(a+)+$", flags, Limits::default()).unwrap();
            assert_eq!(regex.find(&hay, &mut scratch), Found::LimitHit);
            assert_eq!((regex.limit_hits(), regex.uses_fallback()), (1, false));
        }
    }

    #[test]
    fn groups_and_names_are_available() {
        let mut scratch = RegexScratch::new();
        let regex =
            Regex::new(b"(?<key>[a-z]+)=(\\d+)?(;)?", Flags::default(), Limits::default()).unwrap();
        assert_eq!(regex.group_count(), 3);
        assert_eq!(regex.group_names(), &[("key".to_owned(), 1)]);
        assert_eq!(regex.find(b"  ab=12", &mut scratch), found(2, 7));
        assert_eq!(scratch.group(1), Some((2, 4)));
        assert_eq!(scratch.group(2), Some((5, 7)));
        assert_eq!(scratch.group(3), None);
        assert_eq!(scratch.group(4), None);
        assert_eq!(scratch.group(31), None);
    }

    #[test]
    fn starts_and_anchors_are_respected() {
        let mut scratch = RegexScratch::new();
        let regex = Regex::new(b"ab", Flags::default(), Limits::default()).unwrap();
        assert_eq!(regex.find_at(b"abab", 1, &mut scratch), found(2, 4));
        assert_eq!(regex.find_anchored(b"abab", 1, &mut scratch), Found::NoMatch);
        assert_eq!(regex.find_anchored(b"abab", 2, &mut scratch), found(2, 4));
        assert_eq!(regex.find_at(b"abab", 5, &mut scratch), Found::NoMatch);
        let limits = Limits { offset_limit: Some(1), ..Limits::default() };
        let regex = Regex::new(b"ab", Flags::default(), limits).unwrap();
        assert_eq!(regex.find(b"xxab", &mut scratch), Found::NoMatch);
        assert_eq!(regex.find(b"xab", &mut scratch), found(1, 3));
    }

    #[test]
    fn errors_carry_their_offset() {
        let error = Regex::new(b"a(b", Flags::default(), Limits::default()).unwrap_err();
        assert_eq!(error.offset, 3);
        assert!(error.message.contains("parenthesis"), "{error}");
    }

    #[test]
    fn scratch_can_be_sent() {
        fn sendable<T: Send>() {}
        fn shareable<T: Send + Sync>() {}
        sendable::<RegexScratch>();
        shareable::<Regex>();
    }
}
