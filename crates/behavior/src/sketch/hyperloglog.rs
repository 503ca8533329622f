//! HyperLogLog (Flajolet et al. 2007) with 4,096 registers: a standard error of 1.6 %.
//!
//! The sum for the estimate is kept as an exact integer while registers change, so that asking
//! after every insertion costs O(1) and gives the same answer for the same set in any order.

use crate::state::{Decoder, State};

const BITS: u32 = 12;
const REGISTERS: usize = 1 << BITS;
/// Highest rank kept: 52 − 1 bits of the hash remain; more is never seen.
const RANK_MAX: u8 = 51;

/// Counts distinct hashes.
#[derive(Clone, Debug)]
pub(crate) struct HyperLogLog {
    registers: Box<[u8; REGISTERS]>,
    /// Σ 2^(51 − rank), exact.
    sum: u64,
    zeros: u32,
}

impl Default for HyperLogLog {
    fn default() -> HyperLogLog {
        HyperLogLog {
            registers: Box::new([0; REGISTERS]),
            sum: (REGISTERS as u64) << RANK_MAX,
            zeros: REGISTERS as u32,
        }
    }
}

impl HyperLogLog {
    /// Takes a hash in; true when it changed something.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u64) -> bool {
        let at = (hash >> (64 - BITS)) as usize;
        let rank = ((hash << BITS).leading_zeros() as u8 + 1).min(RANK_MAX);
        self.raise(at, rank)
    }

    fn raise(&mut self, at: usize, rank: u8) -> bool {
        let Some(register) = self.registers.get_mut(at) else { return false };
        let was = *register;
        if rank <= was {
            return false;
        }
        *register = rank;
        self.zeros -= u32::from(was == 0);
        self.sum -= (1 << (RANK_MAX - was)) - (1 << (RANK_MAX - rank));
        true
    }

    /// How many distinct hashes there were, about.
    pub(crate) fn estimate(&self) -> u64 {
        let m = REGISTERS as f64;
        if self.zeros > 0 {
            let linear = m * (m / f64::from(self.zeros)).ln();
            if linear <= 2.5 * m {
                return linear.round() as u64;
            }
        }
        let alpha = 0.7213 / (1.0 + 1.079 / m);
        let sum = self.sum as f64 / (1u64 << RANK_MAX) as f64;
        (alpha * m * m / sum).round() as u64
    }
}

impl State for HyperLogLog {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.registers.as_slice());
    }
    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        let mut made = HyperLogLog::default();
        for (at, rank) in from.take_bytes(REGISTERS)?.iter().enumerate() {
            if *rank > RANK_MAX {
                return None;
            }
            made.raise(at, *rank);
        }
        Some(made)
    }
    fn merge(&mut self, other: Self) {
        for (at, rank) in other.registers.iter().enumerate() {
            self.raise(at, *rank);
        }
    }
    fn heap(&self) -> usize {
        REGISTERS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sketch::mix;

    #[test]
    fn estimates_stay_within_five_percent() {
        let mut sketch = HyperLogLog::default();
        let mut seen = 0u64;
        for goal in [10u64, 100, 1_000, 10_000, 100_000, 1_000_000] {
            while seen < goal {
                sketch.insert(mix(seen));
                seen += 1;
            }
            let error = sketch.estimate().abs_diff(goal) as f64 / goal as f64;
            assert!(error < 0.05, "{goal}: {}", sketch.estimate());
        }
    }

    #[test]
    fn halves_merge_to_the_whole_and_encodings_return() {
        let (mut a, mut b, mut whole) =
            (HyperLogLog::default(), HyperLogLog::default(), HyperLogLog::default());
        for n in 0..5_000u64 {
            if n % 3 == 0 {
                a.insert(mix(n))
            } else {
                b.insert(mix(n))
            };
            whole.insert(mix(n));
        }
        let mut bytes = Vec::new();
        b.encode(&mut bytes);
        a.merge(HyperLogLog::decode(&mut Decoder(&bytes)).unwrap());
        assert_eq!((a.estimate(), a.sum, a.zeros), (whole.estimate(), whole.sum, whole.zeros));
    }
}
