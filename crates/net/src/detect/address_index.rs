//! Which address sets hold an address: one search for all of them.
//!
//! Rules name some hundred distinct sets, a few with thousands of ranges. All their ranges cut the
//! address space into intervals; each interval knows the sets that hold it, as a row of bits, and
//! equal rows are shared. An address is looked up once per flow and side; after that the question
//! "is it in set n" is one bit test.

use foldhash::fast::FixedState;
use gabion_record::Addr;
use gabion_rules::compiled::{AddressId, AddressSet};
use hashbrown::HashMap;

/// A row of the index: the sets that hold an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Row(u32);

impl Row {
    /// The first row, that of addresses in no set.
    #[cfg(test)]
    pub(super) const NONE: Row = Row(0);
}

/// All address sets of a rule set.
#[derive(Debug, Default)]
pub(crate) struct AddressIndex {
    words: usize,
    v4: Intervals<u32>,
    v6: Intervals<u128>,
    rows: Vec<u64>,
}

#[derive(Debug, Default)]
struct Intervals<T> {
    starts: Vec<T>,
    rows: Vec<u32>,
}

impl<T: Ord + Copy> Intervals<T> {
    fn row(&self, at: T) -> u32 {
        let i = self.starts.partition_point(|s| *s <= at);
        i.checked_sub(1).and_then(|i| self.rows.get(i)).copied().unwrap_or(0)
    }
}

struct Builder {
    words: usize,
    rows: Vec<u64>,
    known: HashMap<Box<[u64]>, u32, FixedState>,
}

impl Builder {
    fn row(&mut self, bits: &[u64]) -> u32 {
        if let Some(at) = self.known.get(bits) {
            return *at;
        }
        let at = (self.rows.len() / self.words.max(1)) as u32;
        self.rows.extend_from_slice(bits);
        self.known.insert(bits.into(), at);
        at
    }

    /// `edges`: where a set begins (true) or ends, with its number.
    fn intervals<T: Ord + Copy>(
        &mut self,
        zero: T,
        mut edges: Vec<(T, bool, usize)>,
    ) -> Intervals<T> {
        edges.sort_unstable();
        let mut depth = vec![0u32; self.words * 64];
        let mut bits = vec![0u64; self.words];
        let mut out = Intervals { starts: vec![zero], rows: vec![self.row(&bits)] };
        let mut i = 0;
        while i < edges.len() {
            let at = edges[i].0;
            while i < edges.len() && edges[i].0 == at {
                let (_, begins, set) = edges[i];
                depth[set] = if begins { depth[set] + 1 } else { depth[set].saturating_sub(1) };
                let bit = 1u64 << (set % 64);
                if depth[set] > 0 {
                    bits[set / 64] |= bit;
                } else {
                    bits[set / 64] &= !bit;
                }
                i += 1;
            }
            let row = self.row(&bits);
            if out.starts.last() == Some(&at) {
                if let Some(last) = out.rows.last_mut() {
                    *last = row;
                }
            } else if out.rows.last() != Some(&row) {
                out.starts.push(at);
                out.rows.push(row);
            }
        }
        out
    }
}

impl AddressIndex {
    /// Over these sets, numbered by position.
    pub(crate) fn new(sets: &[AddressSet]) -> AddressIndex {
        let words = sets.len().div_ceil(64).max(1);
        let mut b = Builder { words, rows: Vec::new(), known: HashMap::default() };
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (n, s) in sets.iter().enumerate() {
            for (from, to) in &s.v4 {
                v4.push((*from, true, n));
                if let Some(behind) = to.checked_add(1) {
                    v4.push((behind, false, n));
                }
            }
            for (from, to) in &s.v6 {
                v6.push((*from, true, n));
                if let Some(behind) = to.checked_add(1) {
                    v6.push((behind, false, n));
                }
            }
        }
        let v4 = b.intervals(0u32, v4);
        let v6 = b.intervals(0u128, v6);
        AddressIndex { words, v4, v6, rows: b.rows }
    }

    /// The sets that hold an address.
    pub(crate) fn row(&self, version: u8, address: Addr) -> Row {
        Row(match version {
            6 => self.v6.row(address.as_u128()),
            _ => self.v4.row(address.v4_u32()),
        })
    }

    /// Whether a set is among them.
    #[inline]
    pub(crate) fn holds(&self, row: Row, set: AddressId) -> bool {
        let at = row.0 as usize * self.words + set.0 as usize / 64;
        self.rows.get(at).is_some_and(|w| w & (1 << (set.0 % 64)) != 0)
    }

    /// Bytes held.
    pub(crate) fn memory_bytes(&self) -> usize {
        8 * (self.rows.capacity() + self.v4.starts.capacity()) + 20 * self.v6.starts.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_answer_as_the_sets_do() {
        let set = |v4: &[(u32, u32)]| AddressSet { v4: v4.to_vec(), ..AddressSet::default() };
        let sets = [
            AddressSet::any(),
            set(&[(10, 20), (30, 40)]),
            set(&[(15, 35)]),
            set(&[(u32::MAX, u32::MAX)]),
        ];
        let index = AddressIndex::new(&sets);
        for a in [0u32, 9, 10, 14, 15, 20, 21, 29, 30, 35, 36, 40, 41, u32::MAX] {
            let address = Addr::v4(a.to_be_bytes());
            let row = index.row(4, address);
            for (n, s) in sets.iter().enumerate() {
                assert_eq!(
                    index.holds(row, AddressId(n as u32)),
                    s.contains(4, address),
                    "{a} in {n}"
                );
            }
        }
    }
}
