//! A few patterns of two bytes: both bytes of sixteen places at a time are looked up by their
//! half bytes in tables of eight bits, one for each of eight groups of patterns. A place that
//! keeps a bit through all four tables may hold a pattern of that group.
//!
//! This is the filter known as Teddy, for two bytes; with few patterns in a group it hardly ever
//! errs. Many pairs go to a tier of the gram filter.

use super::sieve::Form;
use crate::pattern::Scan;
use crate::scratch::Scratch;
use crate::table::{PatternTable, Sources};

/// Groups, as many as a byte has bits.
const GROUPS: usize = 8;
/// Places looked at in one step.
#[cfg(target_arch = "x86_64")]
const PLACES: usize = 16;

/// Which groups have a pattern with that half byte: of the first byte the lower and the upper
/// half, then of the second.
type Halves = [[u8; 16]; 4];

/// The first place from the given one on that may hold a pattern of the given groups (one bit
/// each), with those that it may be of.
type Find = fn(&Halves, &[u8], usize, u8) -> Option<(usize, u8)>;

/// Patterns of two bytes.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    halves: Halves,
    groups: [Vec<u32>; GROUPS],
    find: Find,
}

impl Pairs {
    /// Builds the filter; none without patterns.
    pub(super) fn new(sources: &Sources<'_>, indices: &[u32], form: Form) -> Option<Self> {
        if indices.is_empty() {
            return None;
        }
        // Neighbors in order share half bytes, so that they do least harm in one group.
        let mut sorted = indices.to_vec();
        sorted.sort_unstable_by_key(|&index| sources.bytes(index));
        let each = sorted.len().div_ceil(GROUPS);
        let mut pairs =
            Pairs { halves: [[0; 16]; 4], groups: Default::default(), find: choose(form) };
        for (group, members) in sorted.chunks(each).enumerate() {
            for &index in members {
                let pattern = sources.pattern(index);
                for (place, &byte) in pattern.bytes.iter().take(2).enumerate() {
                    let other = if pattern.nocase && byte.is_ascii_alphabetic() { 0x20 } else { 0 };
                    for byte in [byte, byte ^ other] {
                        pairs.halves[2 * place][usize::from(byte & 15)] |= 1 << group;
                        pairs.halves[2 * place + 1][usize::from(byte >> 4)] |= 1 << group;
                    }
                }
            }
            pairs.groups[group] = members.to_vec();
        }
        Some(pairs)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.groups.iter().map(|group| group.capacity() * 4).sum()
    }

    /// Reports the patterns that stand in `hay`.
    #[inline]
    pub(super) fn scan(
        &self,
        table: &PatternTable,
        hay: &[u8],
        scratch: &mut Scratch,
        scan: &mut Scan,
        on_hit: &mut impl FnMut(u32),
    ) {
        let (mut from, mut open) = (0, u8::MAX);
        while let Some((at, groups)) = (self.find)(&self.halves, hay, from, open) {
            for (group, members) in self.groups.iter().enumerate() {
                if groups >> group & 1 == 0 {
                    continue;
                }
                let mut is_open = false;
                for &index in members {
                    if !scratch.is_marked(index) && table.stands_at(index, hay, at) {
                        scratch.mark(index);
                        scan.verified += 1;
                        scan.hits += 1;
                        on_hit(table.record(index).id);
                    }
                    is_open |= !scratch.is_marked(index);
                }
                // A group of which all were found is not looked for any more.
                open &= !(u8::from(!is_open) << group);
            }
            from = at + 1;
        }
    }
}

fn choose(form: Form) -> Find {
    #[cfg(target_arch = "x86_64")]
    if form == Form::Fastest && std::arch::is_x86_feature_detected!("ssse3") {
        return |halves, hay, from, open| {
            // SAFETY: the processor has SSSE3, as was just asked; nothing else is required.
            unsafe { ssse3::find(halves, hay, from, open) }
        };
    }
    let _ = form;
    portable
}

fn portable(halves: &Halves, hay: &[u8], from: usize, open: u8) -> Option<(usize, u8)> {
    let of = |table: usize, byte: u8| {
        halves[table][usize::from(byte & 15)] & halves[table + 1][usize::from(byte >> 4)]
    };
    let pairs = hay.get(from..)?.windows(2).enumerate();
    let mut groups = pairs.map(|(at, pair)| (from + at, of(0, pair[0]) & of(2, pair[1]) & open));
    groups.find(|(_, groups)| *groups != 0)
}

#[cfg(target_arch = "x86_64")]
mod ssse3 {
    use super::{Halves, PLACES};
    use crate::load::load_first;
    use core::arch::x86_64::*;

    #[target_feature(enable = "ssse3")]
    pub(super) fn find(halves: &Halves, hay: &[u8], from: usize, open: u8) -> Option<(usize, u8)> {
        let mut tables = halves.map(|table| vector(u128::from_le_bytes(table)));
        tables[0] = _mm_and_si128(tables[0], _mm_set1_epi8(open as i8));
        let places = hay.len().saturating_sub(1);
        let mut at = from;
        while at + PLACES < places {
            // SAFETY: 17 bytes from `at` lie within `hay`; the load may be unaligned.
            let first = unsafe { _mm_loadu_si128(hay.as_ptr().add(at).cast()) };
            // SAFETY: as above.
            let second = unsafe { _mm_loadu_si128(hay.as_ptr().add(at + 1).cast()) };
            if let Some((place, groups)) = first_of(groups(&tables, first, second), u32::MAX) {
                return Some((at + place, groups));
            }
            at += PLACES;
        }
        if at >= places {
            return None;
        }
        // The last places, if need be some that were looked at before; what a short buffer lacks
        // reads as zeros and is masked off.
        let begin = places.saturating_sub(PLACES);
        let lane = |at: usize| vector(load_first(hay.get(at..).unwrap_or_default()));
        let valid = (u32::MAX << (at - begin)) & ((1u32 << (places - begin)) - 1);
        let found = first_of(groups(&tables, lane(begin), lane(begin + 1)), valid);
        found.map(|(place, groups)| (begin + place, groups))
    }

    #[inline]
    #[target_feature(enable = "ssse3")]
    fn vector(bytes: u128) -> __m128i {
        _mm_set_epi64x((bytes >> 64) as i64, bytes as i64)
    }

    /// The groups that may have a pattern at each of sixteen places.
    #[inline]
    #[target_feature(enable = "ssse3")]
    fn groups(tables: &[__m128i; 4], first: __m128i, second: __m128i) -> __m128i {
        let low_bits = _mm_set1_epi8(15);
        let of = |lower: __m128i, upper: __m128i, bytes: __m128i| {
            let low = _mm_and_si128(bytes, low_bits);
            let high = _mm_and_si128(_mm_srli_epi16::<4>(bytes), low_bits);
            _mm_and_si128(_mm_shuffle_epi8(lower, low), _mm_shuffle_epi8(upper, high))
        };
        _mm_and_si128(of(tables[0], tables[1], first), of(tables[2], tables[3], second))
    }

    /// The first valid place that has a group.
    #[inline]
    #[target_feature(enable = "ssse3")]
    fn first_of(groups: __m128i, valid: u32) -> Option<(usize, u8)> {
        let none = _mm_cmpeq_epi8(groups, _mm_setzero_si128());
        let some = !(_mm_movemask_epi8(none) as u32) & 0xffff & valid;
        if some == 0 {
            return None;
        }
        let place = some.trailing_zeros() as usize;
        let lower = _mm_cvtsi128_si64(groups) as u64;
        let upper = _mm_cvtsi128_si64(_mm_unpackhi_epi64(groups, groups)) as u64;
        let half = if place < 8 { lower } else { upper };
        Some((place, (half >> (8 * (place % 8))) as u8))
    }
}
