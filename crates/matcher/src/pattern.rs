//! Patterns, the result of a scan, and the trait of all matchers.

use crate::Scratch;

/// Where in the buffer a pattern must match, in addition to its position bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Anchor {
    /// Anywhere.
    #[default]
    None,
    /// At the first byte (`startswith`, or `depth` equal to the pattern's length).
    Start,
    /// Up to the last byte (`endswith`).
    End,
    /// The whole buffer (`startswith` and `endswith`, or `bsize` with one content).
    Exact,
    /// Up to the last byte, from the first byte or after a dot: the meaning of a content
    /// `.evil.com` with `endswith` after the transform `dotprefix`. The pattern has no leading dot,
    /// the buffer no transform.
    Label,
}

/// A literal to search for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// The id that is reported if the pattern matches. Two patterns may have the same id; each of
    /// them reports it.
    pub id: u32,
    /// The bytes of the pattern. An empty pattern is never found.
    pub bytes: Vec<u8>,
    /// Whether ASCII letters match in either case.
    pub nocase: bool,
    /// Where the pattern must match.
    pub anchor: Anchor,
    /// Smallest offset at which the pattern may begin (`offset`).
    pub min_start: u32,
    /// Largest offset at which the pattern may end, exclusive (`depth` counted from the start of
    /// the buffer); `u32::MAX` means no bound.
    pub max_end: u32,
}

impl Pattern {
    /// A pattern without an anchor or bounds.
    pub fn new(id: u32, bytes: impl Into<Vec<u8>>, nocase: bool) -> Self {
        Pattern {
            id,
            bytes: bytes.into(),
            nocase,
            anchor: Anchor::None,
            min_start: 0,
            max_end: u32::MAX,
        }
    }

    /// The same pattern with an anchor.
    #[must_use]
    pub fn anchored(mut self, anchor: Anchor) -> Self {
        self.anchor = anchor;
        self
    }

    /// The same pattern with position bounds: it begins at or after `min_start` and ends at or
    /// before `max_end`.
    #[must_use]
    pub fn between(mut self, min_start: u32, max_end: u32) -> Self {
        self.min_start = min_start;
        self.max_end = max_end;
        self
    }

    /// Whether the pattern matches in `hay` at `start` with all its conditions. This is the
    /// definition that every structure of the crate follows.
    pub fn matches_at(&self, hay: &[u8], start: usize) -> bool {
        let Some(end) = start.checked_add(self.bytes.len()) else { return false };
        let Some(found) = hay.get(start..end) else { return false };
        let anchored = match self.anchor {
            Anchor::None => true,
            Anchor::Start => start == 0,
            Anchor::End => end == hay.len(),
            Anchor::Exact => start == 0 && end == hay.len(),
            Anchor::Label => end == hay.len() && (start == 0 || hay[start - 1] == b'.'),
        };
        let same = if self.nocase {
            found.eq_ignore_ascii_case(&self.bytes)
        } else {
            found == self.bytes.as_slice()
        };
        anchored
            && same
            && !self.bytes.is_empty()
            && start >= self.min_start as usize
            && end <= self.max_end as usize
    }
}

/// The result and cost of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Number of patterns reported.
    pub hits: u32,
    /// Number of pattern comparisons that went beyond the first eight bytes.
    pub verified: u32,
    /// Whether the comparisons exceeded the buffer's allowance
    /// ([`limits::VERIFY_BASE`](crate::limits::VERIFY_BASE)): the traffic is crafted to cause hits.
    /// The scan is still complete; the caller may mark the flow and count it.
    pub overload: bool,
}

/// A set of patterns that is searched in one buffer at a time.
pub trait Matcher {
    /// Calls `on_hit` once with the id of each pattern that occurs in `hay`, in no particular
    /// order.
    fn scan(&self, hay: &[u8], scratch: &mut Scratch, on_hit: &mut impl FnMut(u32)) -> Scan;

    /// Number of patterns.
    fn pattern_count(&self) -> usize;

    /// Bytes of memory held.
    fn memory_bytes(&self) -> usize;
}
