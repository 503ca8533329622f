//! Runs of bytes after holes, sorted by offset; none touches another.
//!
//! Their total size and the number of wide holes are updated with each change: a stream may have
//! thousands of islands, and a packet that adds one examines only its neighbours.

use crate::limits::REGION_GAP;
use std::ops::Range;

/// A run of bytes.
#[derive(Debug, Default)]
pub(super) struct Island {
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
}

impl Island {
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// All islands of a stream.
#[derive(Debug, Default)]
pub(super) struct Islands {
    list: Vec<Island>,
    bytes: u64,
    /// Number of holes between two islands that separate regions.
    wide: usize,
}

impl Islands {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Bytes of all islands.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn first(&self) -> Option<&Island> {
        self.list.first()
    }

    pub(super) fn last(&self) -> Option<&Island> {
        self.list.last()
    }

    pub(super) fn get(&self, at: usize) -> Option<&Island> {
        self.list.get(at)
    }

    /// Index of the first island that ends after an offset, or at it if `or_at`.
    pub(super) fn first_ending_after(&self, offset: u64, or_at: bool) -> usize {
        self.list.partition_point(|i| i.end() < offset + u64::from(!or_at))
    }

    /// Number of holes that separate regions, including the hole after a run that ends at
    /// `run_end`.
    pub(super) fn wide_holes(&self, run_end: u64) -> usize {
        self.wide + usize::from(self.first().is_some_and(|i| i.start - run_end >= REGION_GAP))
    }

    /// Whether the hole before an island separates regions.
    fn is_wide(&self, at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|at| self.list.get(at));
        before.zip(self.list.get(at)).is_some_and(|(a, b)| b.start - a.end() >= REGION_GAP)
    }

    fn wide_holes_in(&self, range: Range<usize>) -> usize {
        range.filter(|at| self.is_wide(*at)).count()
    }

    /// Writes bytes over any that are stored there and merges islands that touch. Returns how many
    /// were examined.
    pub(super) fn write(&mut self, start: u64, bytes: &[u8]) -> usize {
        let end = start + bytes.len() as u64;
        let first = self.first_ending_after(start, true);
        let last = self.list.partition_point(|i| i.start <= end);
        let wide = self.wide_holes_in(first..last + 1);
        let held: usize =
            self.list.get(first..last).unwrap_or_default().iter().map(|i| i.bytes.len()).sum();
        if first == last {
            self.list.insert(first, Island { start, bytes: bytes.to_vec() });
        } else {
            self.merge(first..last, start, bytes);
        }
        self.wide = self.wide + self.wide_holes_in(first..first + 2) - wide;
        let holds = self.list.get(first).map_or(0, |i| i.bytes.len());
        self.bytes = self.bytes + holds as u64 - held as u64;
        last - first + 1
    }

    /// Merges these islands, which all touch or overlap the new bytes.
    fn merge(&mut self, range: Range<usize>, start: u64, bytes: &[u8]) {
        let Some(first) = self.list.get_mut(range.start) else { return };
        let mut merged = std::mem::take(first);
        if start < merged.start {
            let gap = (merged.start - start) as usize;
            let tail = std::mem::take(&mut merged.bytes);
            merged.start = start;
            merged.bytes.extend_from_slice(&bytes[..gap.min(bytes.len())]);
            merged.bytes.extend_from_slice(&tail);
        }
        for mut next in self.list.drain(range.start + 1..range.end) {
            let at = (next.start - merged.start) as usize;
            // The new bytes, which are written below, fill the hole between them.
            merged.bytes.resize(at, 0);
            merged.bytes.append(&mut next.bytes);
        }
        let at = (start - merged.start) as usize;
        if merged.bytes.len() < at + bytes.len() {
            merged.bytes.resize(at + bytes.len(), 0);
        }
        merged.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        if let Some(first) = self.list.get_mut(range.start) {
            *first = merged;
        }
    }

    /// Takes an island's bytes and their offset. The caller has taken those before it too and
    /// removes all of them with [`Islands::drop_first`].
    pub(super) fn take_bytes(&mut self, at: usize) -> Option<(u64, Vec<u8>)> {
        self.wide -= usize::from(self.is_wide(at + 1));
        let island = self.list.get_mut(at)?;
        let bytes = std::mem::take(&mut island.bytes);
        self.bytes -= bytes.len() as u64;
        Some((island.start, bytes))
    }

    /// Removes the first `count` islands, whose bytes were taken.
    pub(super) fn drop_first(&mut self, count: usize) {
        self.list.drain(..count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After any insertions and removals the running sums equal those of the list.
    #[test]
    fn sums_are_those_of_the_list() {
        let mut state = 7_u64;
        let mut random = |n: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let mut islands = Islands::default();
        for _ in 0..5_000 {
            match random(8) {
                0 if islands.len() > 3 => {
                    let count = 1 + random(3) as usize;
                    (0..count).for_each(|at| drop(islands.take_bytes(at)));
                    islands.drop_first(count);
                }
                _ => {
                    let (start, len) = (random(40 * REGION_GAP / 8), 1 + random(REGION_GAP / 8));
                    islands.write(start, &vec![1; len as usize]);
                }
            }
            let bytes: usize = islands.list.iter().map(|i| i.bytes.len()).sum();
            let wide = islands.list.windows(2).filter(|w| w[1].start - w[0].end() >= REGION_GAP);
            assert_eq!((islands.bytes(), islands.wide), (bytes as u64, wide.count()));
            assert!(islands.list.windows(2).all(|w| w[0].end() < w[1].start));
        }
    }
}
