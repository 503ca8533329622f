//! The gram filter: finds thousands of patterns that may stand anywhere, at a cost that hardly
//! depends on their number.
//!
//! Of every pattern the rarest gram (a few consecutive bytes, case folded) is chosen, rare in
//! traffic and rare among the patterns. A bitmap of hashed grams answers for every position of
//! the buffer whether a chosen gram may stand there; the few positions that remain are looked up
//! in a table of (gram, pattern, offset of the gram in it) and verified.
//!
//! Only every second position of the buffer is looked at; each pattern is entered twice, with a
//! gram at an even and one at an odd offset. Two tiers share the work: patterns of five bytes or
//! more by grams of four bytes, shorter ones by grams of three, one byte of which may be any.
//! The multiplier of the hash is drawn anew by each process, so that nobody can aim traffic at
//! collisions in the bitmap.
//!
//! Runs of one byte (padding) would be candidates at each position for patterns that are runs
//! themselves. Once such a pattern was reported or is out of its bounds, the rest of the run is
//! skipped.

pub mod frequency;
mod sieve;
mod tier;

use crate::pattern::Scan;
use crate::scratch::Scratch;
use crate::table::{PatternTable, Sources};
pub(crate) use sieve::Form;
use tier::Tier;

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
    /// Five bytes and more.
    long: Option<Tier<4>>,
    /// Two to four bytes, and longer ones whose grams at one parity are nothing but a run.
    short: Option<Tier<3>>,
    count: usize,
}

impl GramFilter {
    /// Builds the filter over `indices`, each of a pattern with two bytes or more.
    pub(crate) fn new(sources: &Sources<'_>, indices: &[u32], seed: u64, form: Form) -> Self {
        let (long, short): (Vec<u32>, Vec<u32>) = indices.iter().partition(|&&index| {
            let bytes = sources.bytes(index);
            bytes.len() >= 5 && tier::has_grams_at_both_parities(bytes)
        });
        GramFilter {
            long: Tier::new(sources, &long, seed, form),
            short: Tier::new(sources, &short, seed.rotate_left(21), form),
            count: indices.len(),
        }
    }

    /// Patterns in it.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Patterns in the tier of short ones.
    pub(crate) fn short_count(&self) -> usize {
        self.short.as_ref().map_or(0, Tier::count)
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.long.as_ref().map_or(0, Tier::memory_bytes)
            + self.short.as_ref().map_or(0, Tier::memory_bytes)
    }

    /// Reports the patterns that stand in `hay`. The scratch must have begun a scan of `table`.
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
    }
}
