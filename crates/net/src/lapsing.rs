//! A table of bounded capacity whose entries lapse: thresholds past their window, bits past their time,
//! files without further pieces.
//!
//! A full table must not be walked for each new key, or each key of a flood costs as much as the
//! table is large. So a hand moves round over the entries: each new key moves it by a few, and lapsed
//! entries that it finds are removed. From half of the capacity on it moves with every new key, so that
//! lapsed entries never outnumber the others for long, and keys are refused only when the table is full
//! of living entries.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

/// Living entries that one new key has looked at. With two, lapsed entries are removed faster than new
/// ones come (with one they are not, if old and young are separate), and a flood of new keys costs at
/// most twice what it costs in a table with enough capacity.
const LOOKS: usize = 2;

/// The table.
#[derive(Debug)]
pub(crate) struct Lapsing<K, V> {
    entries: Vec<(K, V)>,
    places: HashTable<u32>,
    hash: RandomState,
    /// The entry that is examined next.
    hand: usize,
    /// Keys that did not fit.
    refused: u64,
    steps: u64,
}

impl<K, V> Default for Lapsing<K, V> {
    fn default() -> Self {
        Lapsing {
            entries: Vec::new(),
            places: HashTable::new(),
            hash: RandomState::default(),
            hand: 0,
            refused: 0,
            steps: 0,
        }
    }
}

impl<K: Hash + Eq, V> Lapsing<K, V> {
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Keys that did not fit so far.
    #[cfg(test)]
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Work done so far: keys looked up and inserted, entries examined. Tests bound it.
    #[cfg(test)]
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    fn find<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
    {
        let is_it = |at: &u32| self.entries[*at as usize].0.borrow() == key;
        self.places.find(self.hash.hash_one(key), is_it).map(|at| *at as usize)
    }

    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.find(key).map(|at| &self.entries[at].1)
    }

    pub(crate) fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.find(key).map(|at| &mut self.entries[at].1)
    }

    pub(crate) fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.find(key).map(|at| self.take_at(at))
    }

    /// Removes the entry at a place; the last entry moves there.
    fn take_at(&mut self, at: usize) -> V {
        let last = self.entries.len() - 1;
        for (place, to) in [(at, None), (last, Some(at as u32))] {
            let hash = self.hash.hash_one(&self.entries[place].0);
            if let Ok(mut found) = self.places.find_entry(hash, |n| *n as usize == place) {
                match to {
                    Some(to) => *found.get_mut() = to,
                    None => {
                        found.remove();
                    }
                }
            }
            if at == last {
                break;
            }
        }
        self.entries.swap_remove(at).1
    }

    /// The entry of a key, made by `new` if it is missing; true if it was made. None if the table has `max`
    /// entries that have not lapsed, as far as the hand has come.
    pub(crate) fn entry(
        &mut self,
        key: K,
        max: usize,
        is_lapsed: impl Fn(&V) -> bool,
        new: impl FnOnce() -> V,
    ) -> Option<(&mut V, bool)> {
        self.steps += 1;
        if let Some(at) = self.find(&key) {
            return Some((&mut self.entries[at].1, false));
        }
        if self.entries.len() >= max / 2 {
            self.sweep(LOOKS, is_lapsed, |_| ());
        }
        if self.entries.len() >= max || u32::try_from(self.entries.len()).is_err() {
            self.refused += 1;
            return None;
        }
        // The entry, and its place in the index.
        self.steps += 2;
        let hash = self.hash.hash_one(&key);
        let at = self.entries.len();
        self.entries.push((key, new()));
        let (entries, hasher) = (&self.entries, &self.hash);
        self.places.insert_unique(hash, at as u32, |n| hasher.hash_one(&entries[*n as usize].0));
        Some((&mut self.entries[at].1, true))
    }

    /// Moves the hand until it has met `living` entries that have not lapsed, or all entries.
    /// Lapsed entries are handed to `gone`: each entry once, so that this costs no more than inserting it did.
    pub(crate) fn sweep(
        &mut self,
        living: usize,
        is_lapsed: impl Fn(&V) -> bool,
        mut gone: impl FnMut(V),
    ) {
        let mut met = 0;
        let mut left = self.entries.len();
        while met < living && left > 0 {
            left -= 1;
            self.steps += 1;
            if self.hand >= self.entries.len() {
                self.hand = 0;
            }
            if is_lapsed(&self.entries[self.hand].1) {
                let entry = self.take_at(self.hand);
                gone(entry);
            } else {
                self.hand += 1;
                met += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Compared with a plain map that removes a lapsed entry only when its key is looked up.
    #[test]
    fn behaves_as_a_map_that_forgets_what_has_lapsed() {
        let mut table: Lapsing<u64, u64> = Lapsing::default();
        let mut model: HashMap<u64, u64> = HashMap::new();
        let mut seed = 3_u64;
        let (mut refused, mut kept) = (0, 0);
        for now in 0..60_000_u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040);
            let (key, life) = ((seed >> 33) % 500, (seed >> 45) % 300);
            if seed >> 62 == 0 {
                let found = table.remove(&key);
                let known = model.remove(&key);
                assert!(found == known || known.is_some_and(|until| until < now));
                continue;
            }
            let lapsed = |until: &u64| *until < now;
            match table.entry(key, 64, lapsed, || now + life) {
                Some((until, true)) => {
                    assert_eq!(*until, now + life);
                    assert!(model.get(&key).is_none_or(lapsed), "it was forgotten too early");
                    model.insert(key, now + life);
                }
                Some((until, false)) => {
                    assert_eq!(Some(&*until), model.get(&key));
                    kept += 1;
                }
                None => {
                    assert_eq!(table.len(), 64);
                    refused += 1;
                }
            }
            assert!(table.len() <= 64);
        }
        assert!(refused > 1_000 && kept > 1_000, "{refused} {kept}");
        assert_eq!(table.refused(), refused);
    }

    #[test]
    fn a_table_half_full_of_what_lives_refuses_nobody() {
        let mut table: Lapsing<u64, u64> = Lapsing::default();
        for now in 0..100_000_u64 {
            // Never more than 400 of 1,000 live.
            let entry = table.entry(now, 1_000, |until| *until < now, || now + 400);
            assert!(entry.is_some(), "at {now}");
        }
        assert!(table.steps() <= 6 * 100_000, "{}", table.steps());
    }
}
