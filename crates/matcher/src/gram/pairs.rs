//! Filter for a few patterns of two bytes: both bytes of sixteen positions at a time are looked up
//! by their half bytes in tables of eight bits, one for each of eight groups of patterns. A
//! position whose bit is set in all four tables may hold a pattern of that group; two tables of
//! whole bytes with a bit per pattern then identify the pattern.
//!
//! The first part is the filter known as Teddy, for two bytes. A pattern that was reported is
//! closed: otherwise pairs that are frequent in some buffer (two zeros) would be candidates again
//! and again because of the others in their group. Many pairs go to a tier of the gram filter.

use super::sieve::Form;
use crate::limits::PAIRS_MAX;
use crate::pattern::Scan;
use crate::scratch::Scratch;
use crate::table::{PatternTable, Sources};

/// Groups, as many as a byte has bits.
const GROUPS: usize = 8;
/// Positions tested in one step.
#[cfg(target_arch = "x86_64")]
const POSITIONS: usize = 16;

// A word holds one bit per pattern.
const _: () = assert!(PAIRS_MAX <= 32);

/// The groups that have a pattern with a half byte: the lower and the upper half of the first byte,
/// then those of the second.
type Halves = [[u8; 16]; 4];

#[derive(Clone, Debug)]
struct Tables {
    halves: Halves,
    /// The patterns with a byte as their first, and as their second.
    whole: [[u32; 256]; 2],
}

impl Tables {
    /// The patterns of these two bytes.
    #[inline(always)]
    fn patterns(&self, first: u8, second: u8) -> u32 {
        self.whole[0][usize::from(first)] & self.whole[1][usize::from(second)]
    }

    /// The first of the candidate positions (bits of `positions`, from `begin` on) that holds an open
    /// pattern.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn first_of(&self, hay: &[u8], mut positions: u32, begin: usize, open: Open) -> Option<usize> {
        while positions != 0 {
            let at = begin + positions.trailing_zeros() as usize;
            if let Some([first, second]) = hay.get(at..at + 2)
                && self.patterns(*first, *second) & open.patterns != 0
            {
                return Some(at);
            }
            positions &= positions - 1;
        }
        None
    }
}

/// The groups and patterns that are not found yet, one bit each.
#[derive(Clone, Copy, Debug)]
struct Open {
    groups: u8,
    patterns: u32,
}

/// Finds the first position from the given one on that holds the bytes of an open pattern.
type Find = fn(&Tables, &[u8], usize, Open) -> Option<usize>;

/// Patterns of two bytes.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    tables: Box<Tables>,
    /// The pattern of each bit.
    patterns: Vec<u32>,
    /// The bits of each group.
    groups: [u32; GROUPS],
    find: Find,
}

impl Pairs {
    /// Builds the filter over at most [`PAIRS_MAX`] patterns; `None` without patterns.
    pub(super) fn new(sources: &Sources<'_>, indices: &[u32], form: Form) -> Option<Self> {
        if indices.is_empty() {
            return None;
        }
        // Neighbors in this order share half bytes, so that a group of them has the fewest false
        // hits.
        let mut sorted = indices.to_vec();
        sorted.sort_unstable_by_key(|&index| sources.bytes(index));
        let each = sorted.len().div_ceil(GROUPS);
        let mut tables = Box::new(Tables { halves: [[0; 16]; 4], whole: [[0; 256]; 2] });
        let mut groups = [0; GROUPS];
        for (bit, &index) in sorted.iter().enumerate() {
            let group = bit / each;
            let bit = 1u32 << bit;
            groups[group] |= bit;
            let pattern = sources.pattern(index);
            for (position, &byte) in pattern.bytes.iter().take(2).enumerate() {
                let other = if pattern.nocase && byte.is_ascii_alphabetic() { 0x20 } else { 0 };
                for byte in [byte, byte ^ other] {
                    tables.halves[2 * position][usize::from(byte & 15)] |= 1 << group;
                    tables.halves[2 * position + 1][usize::from(byte >> 4)] |= 1 << group;
                    tables.whole[position][usize::from(byte)] |= bit;
                }
            }
        }
        Some(Pairs { tables, patterns: sorted, groups, find: choose(form) })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Tables>() + self.patterns.capacity() * 4
    }

    /// The groups with one of these patterns.
    fn groups(&self, patterns: u32) -> u8 {
        let groups = self.groups.iter().enumerate();
        groups.fold(0, |open, (n, group)| open | u8::from(group & patterns != 0) << n)
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
        let all = self.groups.iter().fold(0, |all, group| all | group);
        let mut open = Open { groups: self.groups(all), patterns: all };
        let mut from = 0;
        while let Some(at) = (self.find)(&self.tables, hay, from, open) {
            let Some([first, second]) = hay.get(at..at + 2) else { return };
            let mut here = self.tables.patterns(*first, *second) & open.patterns;
            while let Some(&index) = self.patterns.get(here.trailing_zeros() as usize) {
                let bit = here & here.wrapping_neg();
                here &= !bit;
                let record = table.record(index);
                if table.matches_at(index, hay, at) {
                    scan.verified += 1;
                    if scratch.mark(index) {
                        scan.hits += 1;
                        on_hit(record.id);
                    }
                    open.patterns &= !bit;
                } else if at + 2 >= record.max_end as usize {
                    open.patterns &= !bit;
                }
            }
            open.groups = self.groups(open.patterns);
            if open.patterns == 0 {
                return;
            }
            from = at + 1;
        }
    }
}

fn choose(form: Form) -> Find {
    #[cfg(target_arch = "x86_64")]
    if form == Form::Fastest && std::arch::is_x86_feature_detected!("avx2") {
        return |tables, hay, from, open| {
            // SAFETY: the check above shows that the processor has AVX2; nothing else is required.
            unsafe { avx2::find(tables, hay, from, open) }
        };
    }
    #[cfg(target_arch = "x86_64")]
    if form == Form::Fastest && std::arch::is_x86_feature_detected!("ssse3") {
        return |tables, hay, from, open| {
            // SAFETY: the check above shows that the processor has SSSE3; nothing else is required.
            unsafe { ssse3::find(tables, hay, from, open) }
        };
    }
    let _ = form;
    portable
}

fn portable(tables: &Tables, hay: &[u8], from: usize, open: Open) -> Option<usize> {
    let mut pairs = hay.get(from..)?.windows(2);
    pairs.position(|p| tables.patterns(p[0], p[1]) & open.patterns != 0).map(|at| from + at)
}

#[cfg(target_arch = "x86_64")]
mod ssse3 {
    use super::{Open, POSITIONS, Tables};
    use crate::load::load_first;
    use core::arch::x86_64::*;

    #[target_feature(enable = "ssse3")]
    pub(super) fn find(tables: &Tables, hay: &[u8], from: usize, open: Open) -> Option<usize> {
        let mut halves = tables.halves.map(|table| vector(u128::from_le_bytes(table)));
        halves[0] = _mm_and_si128(halves[0], _mm_set1_epi8(open.groups as i8));
        let first_of = |positions, begin| tables.first_of(hay, positions, begin, open);
        let positions = hay.len().saturating_sub(1);
        let mut at = from;
        while at + POSITIONS < positions {
            // SAFETY: 17 bytes from `at` lie within `hay`; the load may be unaligned.
            let first = unsafe { _mm_loadu_si128(hay.as_ptr().add(at).cast()) };
            // SAFETY: as above.
            let second = unsafe { _mm_loadu_si128(hay.as_ptr().add(at + 1).cast()) };
            let found = first_of(candidates(&halves, first, second), at);
            if found.is_some() {
                return found;
            }
            at += POSITIONS;
        }
        if at >= positions {
            return None;
        }
        // The last positions, which may overlap those of the step before; bytes beyond a short
        // buffer read as zeros and are masked off.
        let begin = positions.saturating_sub(POSITIONS);
        let lane = |at: usize| vector(load_first(hay.get(at..).unwrap_or_default()));
        let valid = (u32::MAX << (at - begin)) & ((1u32 << (positions - begin)) - 1);
        first_of(candidates(&halves, lane(begin), lane(begin + 1)) & valid, begin)
    }

    #[inline]
    #[target_feature(enable = "ssse3")]
    fn vector(bytes: u128) -> __m128i {
        _mm_set_epi64x((bytes >> 64) as i64, bytes as i64)
    }

    /// One bit for each of sixteen positions that may hold a pattern of an open group.
    #[inline]
    #[target_feature(enable = "ssse3")]
    fn candidates(halves: &[__m128i; 4], first: __m128i, second: __m128i) -> u32 {
        let low_bits = _mm_set1_epi8(15);
        let of = |lower: __m128i, upper: __m128i, bytes: __m128i| {
            let low = _mm_and_si128(bytes, low_bits);
            let high = _mm_and_si128(_mm_srli_epi16::<4>(bytes), low_bits);
            _mm_and_si128(_mm_shuffle_epi8(lower, low), _mm_shuffle_epi8(upper, high))
        };
        let groups =
            _mm_and_si128(of(halves[0], halves[1], first), of(halves[2], halves[3], second));
        let none = _mm_cmpeq_epi8(groups, _mm_setzero_si128());
        !(_mm_movemask_epi8(none) as u32) & 0xffff
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    //! Twice as many positions per step; the rest is left to the smaller steps.

    use super::{Open, POSITIONS, Tables, ssse3};
    use core::arch::x86_64::*;

    #[target_feature(enable = "avx2")]
    pub(super) fn find(tables: &Tables, hay: &[u8], from: usize, open: Open) -> Option<usize> {
        let positions = hay.len().saturating_sub(1);
        let mut at = from;
        if at + 2 * POSITIONS < positions {
            let mut halves = tables.halves.map(|table| {
                let table = u128::from_le_bytes(table);
                let (low, high) = (table as i64, (table >> 64) as i64);
                _mm256_set_epi64x(high, low, high, low)
            });
            halves[0] = _mm256_and_si256(halves[0], _mm256_set1_epi8(open.groups as i8));
            while at + 2 * POSITIONS < positions {
                // SAFETY: 33 bytes from `at` lie within `hay`; the load may be unaligned.
                let first = unsafe { _mm256_loadu_si256(hay.as_ptr().add(at).cast()) };
                // SAFETY: as above.
                let second = unsafe { _mm256_loadu_si256(hay.as_ptr().add(at + 1).cast()) };
                let found = candidates(&halves, first, second);
                if let Some(found) = tables.first_of(hay, found, at, open) {
                    return Some(found);
                }
                at += 2 * POSITIONS;
            }
        }
        ssse3::find(tables, hay, at, open)
    }

    /// One bit for each of 32 positions that may hold a pattern of an open group.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn candidates(halves: &[__m256i; 4], first: __m256i, second: __m256i) -> u32 {
        let low_bits = _mm256_set1_epi8(15);
        let of = |lower: __m256i, upper: __m256i, bytes: __m256i| {
            let low = _mm256_and_si256(bytes, low_bits);
            let high = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), low_bits);
            _mm256_and_si256(_mm256_shuffle_epi8(lower, low), _mm256_shuffle_epi8(upper, high))
        };
        let groups =
            _mm256_and_si256(of(halves[0], halves[1], first), of(halves[2], halves[3], second));
        let none = _mm256_cmpeq_epi8(groups, _mm256_setzero_si256());
        !(_mm256_movemask_epi8(none) as u32)
    }
}
