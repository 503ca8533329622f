//! The bytes of one direction: a contiguous run in front, islands after holes, and the boundaries
//! of the segments they came from.
//!
//! In-order data is appended to the front run (one copy). Data after a hole becomes an island; when
//! the hole is filled, the island is appended to the front run. Where segments overlap, the policy
//! of the receiving host decides per earlier segment, so boundaries are remembered until the bytes
//! are trimmed. All positions are stream offsets (64 bit, 0 = first byte after the SYN).
//!
//! Costs: O(bytes) for an append; for a segment in the middle O(log n) for the search, plus the
//! segments it overlaps, plus shifting the list, bounded by `limits`. Each segment keeps the
//! farthest end of all before it, so the search for overlaps never walks back further than they
//! reach.

use super::islands::{Island, Islands};
use super::pool::{BufferPool, Buffers};
use crate::limits::{REGION_GAP, SEGMENT_COST, SEGMENTS_MAX, reached};
use crate::policy::OsPolicy;
use gabion_record::budget::Budget;
use std::collections::VecDeque;

/// Boundaries of a stored segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    start: u64,
    end: u64,
    /// Farthest end of this and all segments before it.
    reach: u64,
}

/// What a store follows when segments overlap or leave holes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreRules {
    /// Which bytes win where segments overlap: those of the receiving host's system.
    pub(crate) overlaps: OsPolicy,
    /// Contiguous regions that a store may consist of.
    pub(crate) regions_max: u8,
}

/// The outcome for a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// Its bytes are stored.
    Kept {
        /// It overlapped earlier data.
        overlap: bool,
        /// The overlapping bytes differed.
        differs: bool,
        /// Inline: earlier bytes replace some of its own.
        lost: bool,
    },
    /// It ends before the first byte kept.
    Before,
    /// The budget is used up.
    NoMemory,
    /// There are too many islands or regions.
    TooMany {
        /// It overlapped earlier data.
        overlap: bool,
    },
}

impl Stored {
    /// Combines the outcomes of two parts of one segment.
    pub(crate) fn and(self, other: Stored) -> Stored {
        match (self, other) {
            (
                Stored::Kept { overlap, differs, lost },
                Stored::Kept { overlap: o, differs: d, lost: l },
            ) => Stored::Kept { overlap: overlap | o, differs: differs | d, lost: lost | l },
            (Stored::Before, other) => other,
            (this, Stored::Before) => this,
            (Stored::Kept { .. }, failed) => failed,
            (failed, _) => failed,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Store {
    /// Offset of the first byte kept.
    base: u64,
    /// Bytes directly before `base` that never came.
    missing_before_base: u64,
    /// The front run is `run[head..]`, beginning at `base`.
    run: Vec<u8>,
    head: usize,
    islands: Islands,
    segments: VecDeque<Segment>,
    /// Bytes reserved for the bytes and segments kept.
    reserved: u64,
    /// Number of segments at which neighbours are merged, if it is above the limit.
    merge_at: u32,
    /// Most regions kept at once.
    regions_seen: u8,
    /// Most bytes kept at once, those of holes between them counted.
    most_kept: u32,
}

impl Store {
    /// Offset of the first byte kept.
    #[inline]
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Bytes directly before the base that never came.
    pub(crate) fn missing_before_base(&self) -> u64 {
        self.missing_before_base
    }

    /// Offset after the front run.
    #[inline]
    pub(crate) fn run_end(&self) -> u64 {
        self.base + (self.run.len() - self.head) as u64
    }

    /// Offset after the last byte kept.
    pub(crate) fn end(&self) -> u64 {
        self.islands.last().map_or_else(|| self.run_end(), Island::end)
    }

    /// Most regions kept at once so far.
    pub(crate) fn regions_seen(&self) -> u8 {
        self.regions_seen
    }

    /// Most bytes kept at once so far.
    pub(crate) fn most_kept(&self) -> u32 {
        self.most_kept
    }

    #[inline]
    fn note_kept(&mut self) {
        let kept = u32::try_from(self.end() - self.base).unwrap_or(u32::MAX);
        self.most_kept = self.most_kept.max(kept);
    }

    /// Segments whose boundaries are remembered.
    pub(crate) fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// Stored bytes from `from` on, as far as they are contiguous.
    #[inline]
    pub(crate) fn bytes_from(&self, from: u64) -> &[u8] {
        if from < self.run_end() {
            let skip = from.saturating_sub(self.base) as usize;
            return self.run.get(self.head + skip..).unwrap_or_default();
        }
        self.islands
            .get(self.islands.first_ending_after(from, false))
            .filter(|i| i.start <= from)
            .and_then(|i| i.bytes.get((from - i.start) as usize..))
            .unwrap_or_default()
    }

    /// The first stored offset at or after `from`.
    pub(crate) fn next_data(&self, from: u64) -> Option<u64> {
        if from < self.run_end() {
            return Some(from.max(self.base));
        }
        let next = self.islands.first_ending_after(from, false);
        self.islands.get(next).map(|i| i.start.max(from))
    }

    /// The start of the contiguous bytes that end at or after `at`, not before `floor`.
    pub(crate) fn run_start(&self, at: u64, floor: u64) -> u64 {
        if at <= self.run_end() {
            return self.base.max(floor);
        }
        self.islands
            .get(self.islands.first_ending_after(at, true))
            .filter(|i| i.start <= at)
            .map_or(at, |i| i.start.max(floor))
    }

    /// Stores a segment. `pool` has working space for overlaps, and buffers for a store that has
    /// none.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        start: u64,
        bytes: &[u8],
        rules: StoreRules,
        budget: &Budget,
        pool: &mut BufferPool,
    ) -> Stored {
        let end = start + bytes.len() as u64;
        if self.run.capacity() == 0 {
            let buffers = pool.acquire(bytes.len());
            self.run = buffers.run;
            if self.segments.is_empty() {
                self.segments = buffers.segments;
            }
        }
        // The usual case: next in order, before any island.
        if start == self.run_end()
            && self.islands.first().is_none_or(|i| end < i.start)
            && self.segments.back().is_none_or(|s| s.reach <= start)
            && self.segments.len() < SEGMENTS_MAX
        {
            if !self.reserve(bytes.len() as u64 + SEGMENT_COST, budget) {
                return Stored::NoMemory;
            }
            self.make_room(bytes.len(), pool);
            self.append_run(bytes);
            self.segments.push_back(Segment { start, end, reach: end });
            self.regions_seen = self.regions_seen.max(1);
            self.note_kept();
            return Stored::Kept { overlap: false, differs: false, lost: false };
        }
        if end <= self.base {
            return Stored::Before;
        }
        let cut = self.base.saturating_sub(start);
        let bytes = bytes.get(cut as usize..).unwrap_or_default();
        self.insert_anywhere(start + cut, bytes, rules, budget, pool)
    }

    /// The general case: overlaps, holes, islands.
    fn insert_anywhere(
        &mut self,
        start: u64,
        bytes: &[u8],
        rules: StoreRules,
        budget: &Budget,
        pool: &mut BufferPool,
    ) -> Stored {
        if bytes.is_empty() {
            return Stored::Before;
        }
        let end = start + bytes.len() as u64;
        let scratch = &mut pool.overlaps;
        scratch.clear();
        scratch.extend_from_slice(bytes);
        let found = self.resolve_overlaps(start, end, rules.overlaps, scratch);
        pool.steps += found.examined;
        let rewrite = rules.overlaps == OsPolicy::First;
        // The same segment again does not count as different data, whatever its bytes: a middle box
        // or a retransmitting stack may have changed it. Inline it must be rewritten.
        let differs = found.differs && (!found.duplicate || rewrite);
        if found.duplicate && !found.differs {
            return Stored::Kept { overlap: found.overlap, differs: false, lost: false };
        }
        if !self.has_room(start, end, rules.regions_max) {
            return Stored::TooMany { overlap: found.overlap };
        }
        if self.segments.len() >= SEGMENTS_MAX.max(self.merge_at as usize) {
            pool.steps += self.segments.len() as u64;
            self.merge_segments(budget);
            // Neighbours that do not touch stay, so the next attempt waits for more segments.
            let next = self.segments.len() + self.segments.len() / 2;
            self.merge_at = u32::try_from(next).unwrap_or(u32::MAX);
        }
        // The charge is for all bytes although some may be stored already; it is corrected below.
        let charge = bytes.len() as u64 + SEGMENT_COST;
        if !self.reserve(charge, budget) {
            return Stored::NoMemory;
        }
        let before = self.stored_bytes();
        pool.steps += self.write(start, scratch) as u64;
        let added = self.stored_bytes() - before;
        if !found.duplicate {
            pool.steps += self.remember(start, end);
        }
        let used = added + if found.duplicate { 0 } else { SEGMENT_COST };
        self.release(charge.saturating_sub(used), budget);
        self.regions_seen = self.regions_seen.max(self.regions());
        self.note_kept();
        Stored::Kept { overlap: found.overlap, differs, lost: found.lost }
    }

    /// Applies the policy to each earlier segment that overlaps: where it wins, its bytes replace
    /// the new ones in `scratch`.
    fn resolve_overlaps(
        &self,
        start: u64,
        end: u64,
        policy: OsPolicy,
        scratch: &mut [u8],
    ) -> Overlaps {
        let mut found = Overlaps::default();
        let from = self.segments.partition_point(|s| s.reach <= start);
        for old in self.segments.range(from..) {
            if old.start >= end {
                break;
            }
            found.examined += 1;
            let (a, b) = (old.start.max(start).max(self.base), old.end.min(end));
            if a >= b {
                continue;
            }
            found.overlap = true;
            found.duplicate |= (old.start, old.end) == (start, end);
            let kept = self.bytes_from(a);
            let len = (b - a) as usize;
            let at = (a - start) as usize;
            let (Some(kept), Some(new)) = (kept.get(..len), scratch.get_mut(at..at + len)) else {
                continue;
            };
            if kept == new {
                continue;
            }
            found.differs = true;
            if !super::overlap::new_wins(policy, (old.start, old.end), (start, end)) {
                new.copy_from_slice(kept);
                found.lost = true;
            }
        }
        found
    }

    /// Whether the islands and regions stay within their limits with this segment.
    fn has_room(&self, start: u64, end: u64, max_regions: u8) -> bool {
        let at = self.islands.first_ending_after(start, true);
        let next = self.islands.get(at);
        let joins = start <= self.run_end() || next.is_some_and(|i| end >= i.start);
        if joins {
            return true;
        }
        if !reached::ISLANDS_MAX.has_room(self.islands.len()) {
            return false;
        }
        // It touches no island, so those that begin before it end before it.
        let before = at.checked_sub(1).and_then(|at| self.islands.get(at));
        let before = before.map_or_else(|| self.run_end(), Island::end);
        start - before < REGION_GAP || self.regions() < max_regions.max(1)
    }

    /// Number of groups of data that are farther apart than the region gap.
    fn regions(&self) -> u8 {
        u8::try_from(1 + self.islands.wide_holes(self.run_end())).unwrap_or(u8::MAX)
    }

    /// Writes bytes over any that are stored there and merges what touches. Returns how many
    /// islands were examined.
    fn write(&mut self, start: u64, bytes: &[u8]) -> usize {
        let end = start + bytes.len() as u64;
        if start <= self.run_end() {
            let inside = (self.run_end().min(end) - start) as usize;
            let at = self.head + (start - self.base) as usize;
            if let (Some(to), Some(from)) = (self.run.get_mut(at..at + inside), bytes.get(..inside))
            {
                to.copy_from_slice(from);
            }
            let rest = bytes.get(inside..).unwrap_or_default();
            self.append_run(rest);
            return self.absorb_islands();
        }
        self.islands.write(start, bytes)
    }

    /// Appends the islands the front run has reached. Returns how many.
    fn absorb_islands(&mut self) -> usize {
        let mut count = 0;
        while self.islands.get(count).is_some_and(|i| i.start <= self.run_end())
            && let Some((start, bytes)) = self.islands.take_bytes(count)
        {
            count += 1;
            // The island's bytes that the run covers were overwritten in the run already.
            let skip = (self.run_end() - start) as usize;
            self.append_run(bytes.get(skip..).unwrap_or_default());
        }
        self.islands.drop_first(count);
        count
    }

    /// Takes a larger buffer where the next bytes need one.
    #[inline]
    fn make_room(&mut self, bytes: usize, pool: &mut BufferPool) {
        let needed = self.run.len() + bytes;
        // With half of the buffer spent the bytes are moved to its front instead.
        if needed > self.run.capacity() && self.head < self.run.len() - self.head {
            pool.enlarge(&mut self.run, needed);
        }
    }

    #[inline]
    fn append_run(&mut self, bytes: &[u8]) {
        // The run is moved to the front when at least half of the buffer is spent, so that moving
        // costs no more than appending did.
        if self.head > 0
            && self.run.len() + bytes.len() > self.run.capacity()
            && self.head >= self.run.len() - self.head
        {
            self.run.copy_within(self.head.., 0);
            self.run.truncate(self.run.len() - self.head);
            self.head = 0;
        }
        self.run.extend_from_slice(bytes);
    }

    /// Keeps the boundaries of a segment in the list, sorted by start. Returns how many were
    /// examined.
    fn remember(&mut self, start: u64, end: u64) -> u64 {
        let mut looked = 1;
        let at = self.segments.partition_point(|s| s.start <= start);
        let before = at.checked_sub(1).and_then(|n| self.segments.get(n)).map_or(0, |s| s.reach);
        let mut reach = end.max(before);
        self.segments.insert(at, Segment { start, end, reach });
        for later in self.segments.range_mut(at + 1..) {
            reach = reach.max(later.end);
            looked += 1;
            if later.reach == reach {
                break;
            }
            later.reach = reach;
        }
        looked
    }

    /// Merges neighbours that touch, oldest first, to halve the list.
    fn merge_segments(&mut self, budget: &Budget) {
        let before = self.segments.len();
        let mut joined: VecDeque<Segment> = VecDeque::with_capacity(before);
        let keep = before / 4;
        for (n, s) in self.segments.iter().enumerate() {
            match joined.back_mut() {
                Some(last) if n + keep < before && s.start <= last.end => {
                    last.end = last.end.max(s.end);
                    last.reach = last.reach.max(s.reach);
                }
                _ => joined.push_back(*s),
            }
        }
        self.segments = joined;
        self.release((before - self.segments.len()) as u64 * SEGMENT_COST, budget);
    }

    /// Drops everything before `to`, an offset not after the end of the data.
    pub(crate) fn trim(&mut self, to: u64, budget: &Budget, pool: &mut BufferPool) {
        if to <= self.base {
            return;
        }
        let before = self.stored_bytes();
        // Bytes that never came stay known as missing, those that were there are only gone.
        let mut behind = None;
        while let Some(start) = self.next_data(behind.unwrap_or(self.base)).filter(|s| *s < to) {
            let len = self.bytes_from(start).len() as u64;
            if len == 0 {
                break;
            }
            behind = Some((start + len).min(to));
        }
        self.missing_before_base = match behind {
            Some(behind) => to - behind,
            None => self.missing_before_base + (to - self.base),
        };
        if to < self.run_end() {
            self.head += (to - self.base) as usize;
            self.base = to;
        } else {
            self.run.clear();
            self.head = 0;
            self.base = to;
            pool.steps += self.promote_islands(to) as u64;
        }
        let mut freed = before - self.stored_bytes();
        while self.segments.front().is_some_and(|s| s.reach <= to) {
            self.segments.pop_front();
            freed += SEGMENT_COST;
        }
        self.release(freed, budget);
        if self.run.is_empty() && self.segments.is_empty() {
            self.return_buffers(pool);
        }
    }

    /// Returns the buffers, which must be empty, to the pool.
    fn return_buffers(&mut self, pool: &mut BufferPool) {
        pool.release(Buffers {
            run: std::mem::take(&mut self.run),
            segments: std::mem::take(&mut self.segments),
        });
    }

    /// Makes the island that holds `base` the front run; drops those before it. Returns how many
    /// islands were removed.
    fn promote_islands(&mut self, to: u64) -> usize {
        let mut count = self.islands.first_ending_after(to, false);
        (0..count).for_each(|at| drop(self.islands.take_bytes(at)));
        if self.islands.get(count).is_some_and(|i| i.start <= to)
            && let Some((start, bytes)) = self.islands.take_bytes(count)
        {
            count += 1;
            self.head = (to - start) as usize;
            self.run = bytes;
        }
        self.islands.drop_first(count);
        count
    }

    /// Drops all bytes and their reservation and resets the store for the next stream.
    pub(crate) fn reset(&mut self, budget: &Budget, pool: &mut BufferPool) {
        self.run.clear();
        self.segments.clear();
        self.return_buffers(pool);
        let all = self.reserved;
        self.release(all, budget);
        *self = Store::default();
    }

    fn stored_bytes(&self) -> u64 {
        (self.run.len() - self.head) as u64 + self.islands.bytes()
    }

    #[inline]
    fn reserve(&mut self, bytes: u64, budget: &Budget) -> bool {
        let ok = budget.try_reserve(bytes);
        self.reserved += u64::from(ok) * bytes;
        ok
    }

    #[inline]
    fn release(&mut self, bytes: u64, budget: &Budget) {
        let bytes = bytes.min(self.reserved);
        self.reserved -= bytes;
        budget.release(bytes);
    }
}

#[derive(Default)]
struct Overlaps {
    /// Segments that were examined.
    examined: u64,
    overlap: bool,
    differs: bool,
    lost: bool,
    /// A segment with exactly these boundaries is stored.
    duplicate: bool,
}
