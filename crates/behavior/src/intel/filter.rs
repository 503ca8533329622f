//! Says of most hashes that they are in no set, by three bits of one word (a blocked Bloom filter,
//! Putze et al. 2007).

use super::memory::{LINE, Memory};

/// Bits for each hash: some one in a hundred passes that is in no set.
const BITS: usize = 12;

/// A set of hashes that may also hold others.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    memory: Memory,
    words: usize,
}

/// Three bits of one word, by bits that are none of those that say which word it is.
#[inline]
fn mask(hash: u64) -> u64 {
    let h = hash.wrapping_mul(0x9fb2_1c65_1e98_df25) >> 46;
    1 << (h & 63) | 1 << (h >> 6 & 63) | 1 << (h >> 12)
}

/// A number below `n` that grows with the hash.
#[inline]
pub(crate) fn scale(hash: u64, n: usize) -> usize {
    ((u128::from(hash) * n as u128) >> 64) as usize
}

impl Filter {
    /// A filter for this number of hashes.
    pub(crate) fn new(count: usize) -> Filter {
        let words = count * BITS / 64 + 1;
        Filter { memory: Memory::new(words.div_ceil(LINE / 8)), words }
    }

    /// Takes a hash in, whose higher half is well mixed.
    pub(crate) fn add(&mut self, hash: u64) {
        if let Some(word) = self.memory.pieces_mut().get_mut(scale(hash, self.words)) {
            *word = (u64::from_le_bytes(*word) | mask(hash)).to_le_bytes();
        }
    }

    /// Whether a hash passes: surely so when it was taken in.
    #[inline]
    pub(crate) fn passes(&self, hash: u64) -> bool {
        let word = self.memory.pieces().get(scale(hash, self.words));
        let word = word.map_or(0, |word| u64::from_le_bytes(*word));
        let mask = mask(hash);
        word & mask == mask
    }

    /// Bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sketch::mix;

    /// Also of hashes of which only the higher half says anything.
    #[test]
    fn what_was_taken_in_passes_and_little_else() {
        let half = |n| mix(n) >> 32 << 32;
        for hash in [mix, half] {
            let mut filter = Filter::new(100_000);
            (0..100_000).for_each(|n| filter.add(hash(n)));
            assert!((0..100_000).all(|n| filter.passes(hash(n))));
            let passed = (100_000..200_000).filter(|n| filter.passes(hash(*n))).count();
            assert!(passed < 2_500, "{passed}");
            assert!(filter.bytes() <= 100_000 * BITS / 8 + LINE);
        }
        assert!(!Filter::default().passes(0) && !Filter::new(0).passes(1));
    }
}
