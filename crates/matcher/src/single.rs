//! One pattern in one buffer, for the inspection of contents and for tiny pattern sets.
//!
//! The two bytes of the pattern that are rarest in traffic are compared at sixteen positions at a
//! time; where both match, the rest is compared. Letters of a pattern that matches in either case
//! are folded on both sides, so that case costs nothing. Buffers are mostly short: there is no
//! preparation, and a range of up to sixteen positions is one step without a loop.
//!
//! The vector instructions are those that every x86-64 has (SSE2); elsewhere the same comparison
//! is written out byte by byte.

use crate::gram::frequency::byte_rank;
use crate::load::{load_first, load64};

/// A prepared search for one pattern.
#[derive(Clone, Debug)]
pub struct Needle {
    bytes: Box<[u8]>,
    /// Mask of each byte: all bits, or all but the case bit of a letter.
    masks: Box<[u8]>,
    rare: [Rare; 2],
}

/// A byte of the pattern that is searched first.
#[derive(Clone, Copy, Debug, Default)]
struct Rare {
    offset: usize,
    /// The byte with the bits of `fold` set.
    byte: u8,
    /// 0x20 for a letter that matches in either case, else 0.
    fold: u8,
}

impl Needle {
    /// Prepares the search; `nocase` lets ASCII letters match in either case.
    pub fn new(bytes: &[u8], nocase: bool) -> Self {
        let fold = |byte: u8| if nocase && byte.is_ascii_alphabetic() { 0x20 } else { 0 };
        let rare_at = |offset: usize| {
            let byte = bytes[offset];
            Rare { offset, byte: byte | fold(byte), fold: fold(byte) }
        };
        let rank = |offset: &usize| {
            let byte = bytes[*offset];
            let other = if fold(byte) == 0 { 0 } else { u32::from(byte_rank(byte ^ 0x20)) };
            u32::from(byte_rank(byte)) + other
        };
        let window = 0..bytes.len().min(255);
        let first = window.clone().min_by_key(rank);
        // The second byte differs from the first if possible.
        let second = window.filter(|at| Some(*at) != first).min_by_key(|at| {
            let is_same = first.is_some_and(|first| bytes[first] == bytes[*at]);
            (is_same, rank(at))
        });
        let first = first.map_or(Rare::default(), rare_at);
        Needle {
            bytes: bytes.into(),
            masks: bytes.iter().map(|&byte| !fold(byte)).collect(),
            rare: [first, second.map_or(first, rare_at)],
        }
    }

    /// The bytes of the pattern.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.len() * 2
    }

    /// Offset of the first occurrence in `hay` that begins at or after `from`. An empty needle is
    /// found at `from` when that is within the buffer or at its end.
    #[inline]
    pub fn find_in(&self, hay: &[u8], from: usize) -> Option<usize> {
        let hay = hay.get(from..)?;
        let room = hay.len().checked_sub(self.bytes.len())?;
        if self.bytes.is_empty() {
            return Some(from);
        }
        self.find(hay, room + 1).map(|at| from + at)
    }

    /// Searches the first `positions` offsets of `hay`; the needle fits at all of them.
    #[inline]
    fn find(&self, hay: &[u8], positions: usize) -> Option<usize> {
        if positions < 16 {
            // Beyond its end a buffer reads as zeros; those positions are masked off.
            let lane = |rare: &Rare| load_first(hay.get(rare.offset..).unwrap_or_default());
            let found = pair_mask(&self.rare, lane(&self.rare[0]), lane(&self.rare[1]));
            return self.first_of(hay, 0, found & ((1 << positions) - 1));
        }
        let block = |at: usize| {
            let lane = |rare: &Rare| load_first(hay.get(at + rare.offset..).unwrap_or_default());
            pair_mask(&self.rare, lane(&self.rare[0]), lane(&self.rare[1]))
        };
        let mut at = 0;
        while at + 16 <= positions {
            let found = block(at);
            if found != 0
                && let Some(at) = self.first_of(hay, at, found)
            {
                return Some(at);
            }
            at += 16;
        }
        if at == positions {
            return None;
        }
        // The last sixteen positions, some of which were tested before.
        let last = positions - 16;
        self.first_of(hay, last, block(last) & (u32::MAX << (at - last)))
    }

    /// The first position of a block at which the needle matches.
    #[inline]
    fn first_of(&self, hay: &[u8], block: usize, mut found: u32) -> Option<usize> {
        while found != 0 {
            let at = block + found.trailing_zeros() as usize;
            found &= found - 1;
            if self.matches_at(hay, at) {
                return Some(at);
            }
        }
        None
    }

    #[inline]
    fn matches_at(&self, hay: &[u8], at: usize) -> bool {
        let len = self.bytes.len();
        let Some(hay) = hay.get(at..at + len) else { return false };
        if len < 8 {
            let mask = load_first(&self.masks);
            return (load_first(hay) ^ load_first(&self.bytes)) & mask == 0;
        }
        let same_at =
            |at: usize| match (load64(hay, at), load64(&self.bytes, at), load64(&self.masks, at)) {
                (Some(hay), Some(byte), Some(mask)) => (hay ^ byte) & mask == 0,
                _ => false,
            };
        same_at(len - 8) && (0..len - 8).step_by(8).all(same_at)
    }
}

/// One bit for each of sixteen positions at which both bytes match.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn pair_mask(rare: &[Rare; 2], first: u128, second: u128) -> u32 {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { sse2::pair_mask(rare, first, second) }
}

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use super::Rare;
    use core::arch::x86_64::*;

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn pair_mask(rare: &[Rare; 2], first: u128, second: u128) -> u32 {
        let both = _mm_and_si128(matches(&rare[0], first), matches(&rare[1], second));
        _mm_movemask_epi8(both) as u32
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn matches(rare: &Rare, lane: u128) -> __m128i {
        let lane = _mm_set_epi64x((lane >> 64) as i64, lane as i64);
        let folded = _mm_or_si128(lane, _mm_set1_epi8(rare.fold as i8));
        _mm_cmpeq_epi8(folded, _mm_set1_epi8(rare.byte as i8))
    }
}

/// One bit for each of sixteen positions at which both bytes match.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn pair_mask(rare: &[Rare; 2], first: u128, second: u128) -> u32 {
    let (first, second) = (first.to_le_bytes(), second.to_le_bytes());
    let matches = |rare: &Rare, byte: u8| byte | rare.fold == rare.byte;
    (0..16).fold(0, |mask, position| {
        let both = matches(&rare[0], first[position]) && matches(&rare[1], second[position]);
        mask | u32::from(both) << position
    })
}
