//! One pattern in one buffer, for the inspection of contents and for tiny pattern sets.
//!
//! Two bytes of the pattern, the rarest two in traffic, are compared at sixteen places at a time;
//! where both stand, the rest is compared. Letters of a pattern that matches in either case are
//! folded on both sides, so that case costs nothing. Buffers are mostly short: there is no
//! preparation, and a range of up to sixteen places is one step without a loop.
//!
//! The vector instructions are those that every x86-64 has (SSE2); elsewhere the same comparison
//! is written out byte by byte.

use crate::gram::frequency::byte_rank;
use crate::load::{load_first, load64};

/// A prepared search for one pattern.
#[derive(Clone, Debug)]
pub struct Needle {
    bytes: Box<[u8]>,
    /// The bits of each byte that count: all, or all but the case bit of a letter.
    masks: Box<[u8]>,
    rare: [Rare; 2],
}

/// A byte of the pattern that is looked for first.
#[derive(Clone, Copy, Debug, Default)]
struct Rare {
    offset: usize,
    /// The byte with `fold` set in it.
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
        // The second one differs from the first where it can.
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

    /// The bytes looked for.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.len() * 2
    }

    /// Offset of the first occurrence in `hay` that begins at or behind `from`. An empty needle is
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

    /// Searches the first `places` places of `hay`, which all have room for the needle.
    #[inline]
    fn find(&self, hay: &[u8], places: usize) -> Option<usize> {
        if places < 16 {
            // Beyond its end a buffer reads as zeros; those places are masked off.
            let lane = |rare: &Rare| load_first(hay.get(rare.offset..).unwrap_or_default());
            let found = pair_mask(&self.rare, lane(&self.rare[0]), lane(&self.rare[1]));
            return self.first_of(hay, 0, found & ((1 << places) - 1));
        }
        let block = |at: usize| {
            let lane = |rare: &Rare| load_first(hay.get(at + rare.offset..).unwrap_or_default());
            pair_mask(&self.rare, lane(&self.rare[0]), lane(&self.rare[1]))
        };
        let mut at = 0;
        while at + 16 <= places {
            let found = block(at);
            if found != 0
                && let Some(at) = self.first_of(hay, at, found)
            {
                return Some(at);
            }
            at += 16;
        }
        if at == places {
            return None;
        }
        // The last sixteen places, of which some were looked at before.
        let last = places - 16;
        self.first_of(hay, last, block(last) & (u32::MAX << (at - last)))
    }

    /// The first place of a block at which the needle stands.
    #[inline]
    fn first_of(&self, hay: &[u8], block: usize, mut found: u32) -> Option<usize> {
        while found != 0 {
            let at = block + found.trailing_zeros() as usize;
            found &= found - 1;
            if self.stands_at(hay, at) {
                return Some(at);
            }
        }
        None
    }

    #[inline]
    fn stands_at(&self, hay: &[u8], at: usize) -> bool {
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

/// One bit for each of sixteen places at which both bytes stand.
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
        let both = _mm_and_si128(stands(&rare[0], first), stands(&rare[1], second));
        _mm_movemask_epi8(both) as u32
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn stands(rare: &Rare, lane: u128) -> __m128i {
        let lane = _mm_set_epi64x((lane >> 64) as i64, lane as i64);
        let folded = _mm_or_si128(lane, _mm_set1_epi8(rare.fold as i8));
        _mm_cmpeq_epi8(folded, _mm_set1_epi8(rare.byte as i8))
    }
}

/// One bit for each of sixteen places at which both bytes stand.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn pair_mask(rare: &[Rare; 2], first: u128, second: u128) -> u32 {
    let (first, second) = (first.to_le_bytes(), second.to_le_bytes());
    let stands = |rare: &Rare, byte: u8| byte | rare.fold == rare.byte;
    (0..16).fold(0, |mask, place| {
        let both = stands(&rare[0], first[place]) && stands(&rare[1], second[place]);
        mask | u32::from(both) << place
    })
}
