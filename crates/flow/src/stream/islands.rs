//! Runs of bytes behind holes, in order of place, none touching another.
//!
//! How many bytes they hold and how far they lie apart is kept up to date with each change: a stream
//! may have thousands of them, and a packet that adds one looks at its neighbours alone.

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

/// All of a stream.
#[derive(Debug, Default)]
pub(super) struct Islands {
    list: Vec<Island>,
    bytes: u64,
    /// Holes between two of them that part regions.
    wide: usize,
}

impl Islands {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Bytes of all.
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

    /// Place of the first that ends behind an offset, or with it where `or_at`.
    pub(super) fn ending_behind(&self, offset: u64, or_at: bool) -> usize {
        self.list.partition_point(|i| i.end() < offset + u64::from(!or_at))
    }

    /// Holes that part regions, that behind a run that ends there too.
    pub(super) fn wide_holes(&self, run_end: u64) -> usize {
        self.wide + usize::from(self.first().is_some_and(|i| i.start - run_end >= REGION_GAP))
    }

    /// Whether the hole before an island parts regions.
    fn is_wide(&self, at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|at| self.list.get(at));
        before.zip(self.list.get(at)).is_some_and(|(a, b)| b.start - a.end() >= REGION_GAP)
    }

    fn wide_among(&self, range: Range<usize>) -> usize {
        range.filter(|at| self.is_wide(*at)).count()
    }

    /// Puts bytes in their place, over what is there; joins what touches. Returns how many were looked
    /// at.
    pub(super) fn put(&mut self, start: u64, bytes: &[u8]) -> usize {
        let end = start + bytes.len() as u64;
        let first = self.ending_behind(start, true);
        let last = self.list.partition_point(|i| i.start <= end);
        let wide = self.wide_among(first..last + 1);
        let held: usize =
            self.list.get(first..last).unwrap_or_default().iter().map(|i| i.bytes.len()).sum();
        match first == last {
            true => self.list.insert(first, Island { start, bytes: bytes.to_vec() }),
            false => self.join(first..last, start, bytes),
        }
        self.wide = self.wide + self.wide_among(first..first + 2) - wide;
        let holds = self.list.get(first).map_or(0, |i| i.bytes.len());
        self.bytes = self.bytes + holds as u64 - held as u64;
        last - first + 1
    }

    /// All of these touch or overlap the new bytes: they become one.
    fn join(&mut self, range: Range<usize>, start: u64, bytes: &[u8]) {
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
            // The hole between them is filled by the new bytes, which are written below.
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

    /// Takes an island's bytes and their place; those before it were taken too, and all of them go by
    /// [`Islands::drop_first`].
    pub(super) fn take(&mut self, at: usize) -> Option<(u64, Vec<u8>)> {
        self.wide -= usize::from(self.is_wide(at + 1));
        let island = self.list.get_mut(at)?;
        let bytes = std::mem::take(&mut island.bytes);
        self.bytes -= bytes.len() as u64;
        Some((island.start, bytes))
    }

    /// The first so many are gone: their bytes were taken.
    pub(super) fn drop_first(&mut self, count: usize) {
        self.list.drain(..count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept up to date is what there is, whatever is put and taken.
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
                    (0..count).for_each(|at| drop(islands.take(at)));
                    islands.drop_first(count);
                }
                _ => {
                    let (start, len) = (random(40 * REGION_GAP / 8), 1 + random(REGION_GAP / 8));
                    islands.put(start, &vec![1; len as usize]);
                }
            }
            let bytes: usize = islands.list.iter().map(|i| i.bytes.len()).sum();
            let wide = islands.list.windows(2).filter(|w| w[1].start - w[0].end() >= REGION_GAP);
            assert_eq!((islands.bytes(), islands.wide), (bytes as u64, wide.count()));
            assert!(islands.list.windows(2).all(|w| w[0].end() < w[1].start));
        }
    }
}
