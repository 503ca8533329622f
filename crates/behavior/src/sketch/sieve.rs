//! A filter before a full table: it decides which key has shown enough to be worth an entry.
//!
//! A cell of 64 bits is shared by all keys with its hash; a member sets one bit. A scan of one port
//! over a million hosts sets one bit in each cell and asks for nothing; a host of which many ports
//! are tried fills its cell and is let in.

use crate::limits::{SIEVE_CELLS, SIEVE_PASS};
use crate::state::{Decoder, State};

/// The cells, made when first needed.
#[derive(Debug, Default)]
pub(crate) struct Sieve(Option<Box<[u64; SIEVE_CELLS]>>);

impl Sieve {
    /// Takes a key's member in; true when the key should have an entry.
    #[inline]
    pub(crate) fn passes(&mut self, key: u64, member: u64) -> bool {
        let cells = self.0.get_or_insert_with(|| Box::new([0; SIEVE_CELLS]));
        let Some(cell) = cells.get_mut(key as usize % SIEVE_CELLS) else { return false };
        *cell |= 1 << (member & 63);
        cell.count_ones() >= SIEVE_PASS
    }
}

impl State for Sieve {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.is_some().encode(out);
        self.0.iter().flat_map(|cells| cells.iter()).for_each(|cell| cell.encode(out));
    }
    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        if !bool::decode(from)? {
            return Some(Sieve(None));
        }
        let mut cells = Box::new([0; SIEVE_CELLS]);
        for cell in cells.iter_mut() {
            *cell = u64::decode(from)?;
        }
        Some(Sieve(Some(cells)))
    }
    fn merge(&mut self, other: Self) {
        match (&mut self.0, other.0) {
            (Some(mine), Some(theirs)) => {
                mine.iter_mut().zip(theirs.iter()).for_each(|(a, b)| *a |= b);
            }
            (mine @ None, theirs) => *mine = theirs,
            (Some(_), None) => {}
        }
    }
    fn heap(&self) -> usize {
        self.0.as_ref().map_or(0, |_| SIEVE_CELLS * 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sketch::mix;

    #[test]
    fn one_port_of_many_hosts_asks_for_nothing_and_many_ports_of_one_do() {
        let mut sieve = Sieve::default();
        assert!(!(0..1_000_000u64).any(|host| sieve.passes(mix(host), mix(23))));
        let mut sieve = Sieve::default();
        let passed = (0..20u64).position(|port| sieve.passes(5, mix(port)));
        assert!(passed.is_some_and(|n| (4..8).contains(&n)));
    }
}
