//! The gram filter: finds thousands of patterns at any position, at a cost that hardly depends on
//! their number.
//!
//! Each pattern is represented by its rarest gram (a few consecutive bytes, case folded): rare in
//! traffic and rare among the patterns. A bitmap of hashed grams shows for every position of the
//! buffer whether a chosen gram may be there; the few remaining positions are looked up in a table
//! of (gram, pattern, offset of the gram in it) and verified.
//!
//! Only every second position of the buffer is tested; each pattern is entered twice, with a gram
//! at an even and one at an odd offset. Grams have four bytes; if a pattern is too short for one,
//! or has only a run there, one byte of its gram is a wildcard. Pairs of bytes have a filter of
//! their own ([`pairs`]) if they are few, else they and all short patterns share a second tier with
//! grams of three bytes. The multiplier of the hash is random per process, so that nobody can craft
//! traffic with collisions in the bitmap.
//!
//! Patterns of a few zeros are searched by runs of zeros ([`zeros`]).
//!
//! Runs of one byte (padding) would be candidates at each position for patterns that are runs
//! themselves. Once such a pattern was reported or is past its bounds, the rest of the run is
//! skipped.

pub mod frequency;
mod pairs;
mod sieve;
mod tier;
mod zeros;

use crate::limits::{ANY_MAX, PAIRS_MAX};
use crate::pattern::Scan;
use crate::scratch::Scratch;
use crate::table::{PatternTable, Sources};
use pairs::Pairs;
pub(crate) use sieve::Form;
use tier::Tier;
use zeros::Zeros;

/// Folds each byte of a number so that ASCII letters of either case become equal: bit 5 is set
/// where bit 6 is. Other pairs become equal too (`@` and the backtick), control characters and
/// digits, zero and space do not; verification is exact.
#[inline(always)]
pub(crate) const fn fold32(bytes: u32) -> u32 {
    bytes | (bytes >> 1 & 0x2020_2020)
}

/// [`fold32`] for eight bytes.
#[inline(always)]
pub(crate) const fn fold64(bytes: u64) -> u64 {
    bytes | (bytes >> 1 & 0x2020_2020_2020_2020)
}

/// The filter over some of the patterns of a [`PatternTable`].
#[derive(Clone, Debug, Default)]
pub(crate) struct GramFilter {
    long: Option<Tier<4>>,
    short: Option<Tier<3>>,
    pairs: Option<Pairs>,
    zeros: Option<Zeros>,
    count: usize,
    short_count: usize,
}

impl GramFilter {
    /// Builds the filter over `indices`, each of a pattern with two bytes or more.
    pub(crate) fn new(sources: &Sources<'_>, indices: &[u32], seed: u64, form: Form) -> Self {
        let len = |index: &u32| sources.bytes(*index).len();
        let needs_any = |index: &&u32| !tier::has_grams_at_both_parities(sources.bytes(**index));
        let pair_count = indices.iter().filter(|index| len(index) == 2).count();
        let any_count = indices.iter().filter(|index| len(index) > 2).filter(needs_any).count();
        // Grams with a wildcard fill the bitmap: many of them are faster in a bitmap of their own.
        let has_short = pair_count > PAIRS_MAX || any_count > ANY_MAX;
        let (mut long, mut short, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
        let mut zeros = Vec::new();
        for index in indices {
            match len(index) {
                _ if Zeros::is_pattern(sources, *index) => zeros.push(*index),
                ..=2 if pair_count <= PAIRS_MAX => pairs.push(*index),
                ..=4 if has_short => short.push(*index),
                _ if has_short && needs_any(&index) => short.push(*index),
                _ => long.push(*index),
            }
        }
        GramFilter {
            long: Tier::new(sources, &long, seed, form),
            short: Tier::new(sources, &short, seed.rotate_left(21), form),
            pairs: Pairs::new(sources, &pairs, form),
            zeros: Zeros::new(zeros),
            count: indices.len(),
            short_count: indices.iter().filter(|index| len(index) <= 4).count(),
        }
    }

    /// Number of patterns in the filter.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Number of patterns of two to four bytes in the filter.
    pub(crate) fn short_count(&self) -> usize {
        self.short_count
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.long.as_ref().map_or(0, Tier::memory_bytes)
            + self.short.as_ref().map_or(0, Tier::memory_bytes)
            + self.pairs.as_ref().map_or(0, Pairs::memory_bytes)
            + self.zeros.as_ref().map_or(0, Zeros::memory_bytes)
    }

    /// Reports the patterns that occur in `hay`. The scratch must have begun a scan of `table`.
    #[inline]
    pub(crate) fn scan(
        &self,
        table: &PatternTable,
        hay: &[u8],
        scratch: &mut Scratch,
        scan: &mut Scan,
        on_hit: &mut impl FnMut(u32),
    ) {
        if let Some(tier) = &self.long {
            tier.scan(table, hay, scratch, scan, on_hit);
        }
        if let Some(tier) = &self.short {
            tier.scan(table, hay, scratch, scan, on_hit);
        }
        if let Some(pairs) = &self.pairs {
            pairs.scan(table, hay, scratch, scan, on_hit);
        }
        if let Some(zeros) = &self.zeros {
            zeros.scan(table, hay, scratch, scan, on_hit);
        }
    }
}
