//! The patterns of one matcher in the form that verification reads: a record of one cache line
//! each, which holds the first and the last eight bytes; the bytes between are in a separate list.

use crate::load::{load_first, load64};
use crate::pattern::{Anchor, Pattern};

/// One pattern. A byte matches if it equals the pattern's in all bits of the mask: all bits, or all
/// but the case bit of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub(crate) struct Record {
    /// The first eight bytes, zero above the pattern's length, and their mask.
    first: u64,
    first_mask: u64,
    /// The last eight bytes of patterns that have more than eight, and their mask.
    last: u64,
    last_mask: u64,
    /// Where the bytes between those, with their masks, begin in [`PatternTable::middle`].
    middle_at: u32,
    pub(crate) len: u32,
    pub(crate) id: u32,
    pub(crate) min_start: u32,
    pub(crate) max_end: u32,
    pub(crate) anchor: Anchor,
}

impl Record {
    /// Whether bounds and anchor allow the pattern to begin at `start` of `hay`; its bytes are not
    /// compared.
    #[inline(always)]
    pub(crate) fn may_begin_at(&self, hay: &[u8], start: usize) -> bool {
        let Some(end) = start.checked_add(self.len as usize) else { return false };
        if end > hay.len() || start < self.min_start as usize || end > self.max_end as usize {
            return false;
        }
        match self.anchor {
            Anchor::None => true,
            Anchor::Start => start == 0,
            Anchor::End => end == hay.len(),
            Anchor::Exact => start == 0 && end == hay.len(),
            Anchor::Label => end == hay.len() && (start == 0 || hay[start - 1] == b'.'),
        }
    }

    /// Whether the first eight bytes of the pattern match in `hay` at `start`.
    #[inline(always)]
    pub(crate) fn begins_at(&self, hay: &[u8], start: usize) -> bool {
        let word = match load64(hay, start) {
            Some(word) => word,
            None => load_first(hay.get(start..).unwrap_or_default()) as u64,
        };
        (word ^ self.first) & self.first_mask == 0
    }

    /// Whether the last eight bytes match; true for patterns with at most eight bytes.
    #[inline(always)]
    fn ends_at(&self, hay: &[u8], end: usize) -> bool {
        let word = end.checked_sub(8).and_then(|at| load64(hay, at));
        self.last_mask == 0 || word.is_some_and(|word| (word ^ self.last) & self.last_mask == 0)
    }
}

/// All patterns of one matcher, in the order of the input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PatternTable {
    records: Vec<Record>,
    /// Eight bytes and their mask in turn, for all but the first and last eight of each pattern;
    /// the last pair of a pattern overlaps what its record holds.
    middle: Vec<(u64, u64)>,
    shortest: u32,
}

impl PatternTable {
    /// Builds the table of the patterns that can match at all: not empty, within their bounds,
    /// shorter than 4 GiB. The sources are those patterns, by the same index.
    pub(crate) fn new(patterns: &[Pattern]) -> (Self, Sources<'_>) {
        let mut table = PatternTable { shortest: u32::MAX, ..PatternTable::default() };
        let mut sources = Vec::with_capacity(patterns.len());
        for pattern in patterns {
            let bytes = pattern.bytes.as_slice();
            let room = pattern.max_end.checked_sub(pattern.min_start);
            let (Ok(len), Ok(middle_at), Some(room)) =
                (u32::try_from(bytes.len()), u32::try_from(table.middle.len()), room)
            else {
                continue;
            };
            if len == 0 || len > room {
                continue;
            }
            let masks: Vec<u8> = bytes.iter().map(|byte| pattern.mask(*byte)).collect();
            let word = |bytes: &[u8], at: usize| load_first(&bytes[at..]) as u64;
            let last_at = bytes.len().saturating_sub(8);
            table.records.push(Record {
                first: word(bytes, 0),
                first_mask: word(&masks, 0),
                last: word(bytes, last_at),
                last_mask: if len > 8 { word(&masks, last_at) } else { 0 },
                middle_at,
                len,
                id: pattern.id,
                min_start: pattern.min_start,
                max_end: pattern.max_end,
                anchor: pattern.anchor,
            });
            let between = (8..last_at).step_by(8);
            table.middle.extend(between.map(|at| (word(bytes, at), word(&masks, at))));
            table.shortest = table.shortest.min(len);
            sources.push(pattern);
        }
        table.records.shrink_to_fit();
        table.middle.shrink_to_fit();
        (table, Sources(sources))
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Length of the shortest pattern; longer than any buffer if the table is empty.
    #[inline]
    pub(crate) fn shortest(&self) -> usize {
        self.shortest as usize
    }

    #[inline(always)]
    pub(crate) fn record(&self, index: u32) -> &Record {
        &self.records[index as usize]
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.records.capacity() * size_of::<Record>() + self.middle.capacity() * 16
    }

    /// Whether the whole pattern matches in `hay` at `start`, provided that its first eight bytes
    /// match and its end is within `hay`.
    #[inline]
    pub(crate) fn continues_at(&self, record: &Record, hay: &[u8], start: usize) -> bool {
        let len = record.len as usize;
        if !record.ends_at(hay, start + len) {
            return false;
        }
        if len <= 16 {
            return true;
        }
        let middle = self.middle.get(record.middle_at as usize..).unwrap_or_default();
        (8..len - 8).step_by(8).zip(middle).all(|(at, (bytes, mask))| {
            load64(hay, start + at).is_some_and(|word| (word ^ bytes) & mask == 0)
        })
    }

    /// Whether pattern `index` matches in `hay` at `start` with all its conditions.
    #[inline]
    pub(crate) fn matches_at(&self, index: u32, hay: &[u8], start: usize) -> bool {
        let record = self.record(index);
        record.may_begin_at(hay, start)
            && record.begins_at(hay, start)
            && self.continues_at(record, hay, start)
    }
}

/// The patterns of a table, kept while the other structures are built.
#[derive(Clone, Debug)]
pub(crate) struct Sources<'a>(Vec<&'a Pattern>);

impl<'a> Sources<'a> {
    pub(crate) fn pattern(&self, index: u32) -> &'a Pattern {
        self.0[index as usize]
    }

    pub(crate) fn bytes(&self, index: u32) -> &'a [u8] {
        &self.pattern(index).bytes
    }

    pub(crate) fn indices(&self) -> core::ops::Range<u32> {
        0..self.0.len() as u32
    }
}

impl Pattern {
    /// The mask of a byte of the pattern.
    fn mask(&self, byte: u8) -> u8 {
        if self.nocase && byte.is_ascii_alphabetic() { 0xdf } else { 0xff }
    }
}
