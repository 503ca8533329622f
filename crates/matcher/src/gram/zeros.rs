//! Patterns of two to eight zeros (`|00 00 00|`), which traffic is full of: searched by runs of zeros.
//!
//! In the gram filter such a pattern has a gram with a wildcard, so that each position next to three zeros would be
//! a candidate, again after the pattern was reported: four in ten candidates in payloads of the bench capture. Here
//! the buffer is searched for runs that are long enough for a pattern that was not found yet, and for none after the last.
//! Longer patterns are rare, and have grams without a wildcard.

use crate::limits::ZEROS_MAX;
use crate::pattern::{Anchor, Scan};
use crate::scratch::Scratch;
use crate::single::Needle;
use crate::table::{PatternTable, Sources};

/// Patterns of zeros alone.
#[derive(Clone, Debug)]
pub(super) struct Zeros {
    patterns: Vec<u32>,
    /// Searches for as many zeros as the index says.
    needles: [Needle; ZEROS_MAX + 1],
}

impl Zeros {
    /// Whether the pattern is one of these: it has no anchor and no other bytes.
    pub(super) fn is_pattern(sources: &Sources<'_>, index: u32) -> bool {
        let pattern = sources.pattern(index);
        let is_short = (2..=ZEROS_MAX).contains(&pattern.bytes.len());
        is_short && pattern.anchor == Anchor::None && pattern.bytes.iter().all(|byte| *byte == 0)
    }

    /// Prepares the search for these patterns; `None` without patterns.
    pub(super) fn new(patterns: Vec<u32>) -> Option<Self> {
        let needles = std::array::from_fn(|count| Needle::new(&[0; ZEROS_MAX][..count], false));
        (!patterns.is_empty()).then_some(Zeros { patterns, needles })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.patterns.capacity() * size_of::<u32>()
            + self.needles.iter().map(Needle::memory_bytes).sum::<usize>()
    }

    /// Reports the patterns that occur in `hay`.
    #[inline]
    pub(super) fn scan(
        &self,
        table: &PatternTable,
        hay: &[u8],
        scratch: &mut Scratch,
        scan: &mut Scan,
        on_hit: &mut impl FnMut(u32),
    ) {
        let mut from = 0;
        while let Some((count, until)) = self.open(table, scratch, from) {
            let within = &hay[..until.min(hay.len())];
            let Some(needle) = self.needles.get(count) else { return };
            let Some(begin) = needle.find_in(within, from) else { return };
            let is_zero = |byte: &&u8| **byte == 0;
            let end = begin + hay[begin..].iter().take_while(is_zero).count();
            for &index in &self.patterns {
                let record = table.record(index);
                let start = begin.max(record.min_start as usize);
                if start + record.len as usize <= end.min(record.max_end as usize)
                    && scratch.mark(index)
                {
                    scan.verified += 1;
                    scan.hits += 1;
                    on_hit(record.id);
                }
            }
            from = end;
        }
    }

    /// Zeros of the shortest pattern that may still be found from `from` on, and where the last such pattern
    /// must end; none if no pattern may be found.
    #[inline]
    fn open(&self, table: &PatternTable, scratch: &Scratch, from: usize) -> Option<(usize, usize)> {
        let records = self.patterns.iter().filter(|index| !scratch.is_marked(**index));
        let open = records
            .map(|index| table.record(*index))
            .filter(|record| from + record.len as usize <= record.max_end as usize);
        open.fold(None, |found, record| {
            let (len, end) = (record.len as usize, record.max_end as usize);
            let (shortest, last) = found.unwrap_or((len, end));
            Some((shortest.min(len), last.max(end)))
        })
    }
}
