//! A table of a bounded number of entries, of which the one that was used longest ago goes first.
//!
//! A session lives for days and names new files, trees and messages all the time: what it names is kept in
//! tables of this kind only.

use gabion_record::limits::Limit;
use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Notes of uses that are left however few entries there are.
const USES_FREE: usize = 32;

/// The table.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    entries: HashMap<K, Entry<V>>,
    /// Uses, oldest first: of those of an entry the last one counts.
    uses: VecDeque<(K, u64)>,
    clock: u64,
    entries_max: usize,
    limit: &'static Limit,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    used: u64,
}

impl<K: Hash + Eq + Clone, V> Cache<K, V> {
    /// A table of that many entries. What goes for want of space is counted as the limit.
    pub(crate) fn new(entries_max: usize, limit: &'static Limit) -> Cache<K, V> {
        Cache {
            entries: HashMap::new(),
            uses: VecDeque::new(),
            clock: 0,
            entries_max: entries_max.max(1),
            limit,
        }
    }

    fn note_use(&mut self, key: K) -> u64 {
        self.clock += 1;
        if self.uses.len() > 2 * self.entries.len() + USES_FREE {
            let entries = &self.entries;
            self.uses.retain(|(key, used)| entries.get(key).is_some_and(|e| e.used == *used));
        }
        self.uses.push_back((key, self.clock));
        self.clock
    }

    /// Adds an entry, in place of the one of this key.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        let used = self.note_use(key.clone());
        self.entries.insert(key, Entry { value, used });
        while self.entries.len() > self.entries_max {
            let Some((oldest, used)) = self.uses.pop_front() else { return };
            if self.entries.get(&oldest).is_some_and(|e| e.used == used) {
                self.entries.remove(&oldest);
                self.limit.count();
            }
        }
    }

    /// The entry of a key, which is used by this.
    pub(crate) fn find<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if !self.entries.contains_key(key) {
            return None;
        }
        let used = self.note_use(key.to_owned());
        let entry = self.entries.get_mut(key)?;
        entry.used = used;
        Some(&mut entry.value)
    }

    /// The entry of a key, left as it is.
    pub(crate) fn peek(&self, key: K) -> Option<&V> {
        self.entries.get(&key).map(|entry| &entry.value)
    }

    /// Takes an entry out.
    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        self.entries.remove(&key).map(|entry| entry.value)
    }

    /// Entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All values, in no order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|entry| &entry.value)
    }

    /// Bytes of the table itself, whatever its entries hold.
    pub(crate) fn bytes_held(&self) -> usize {
        self.entries.capacity() * size_of::<(K, Entry<V>)>()
            + self.uses.capacity() * size_of::<(K, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    gabion_record::limits! { "proto";
        /// Entries of a table.
        const TWO: usize = 2, Loses("the entry used longest ago");
    }

    #[test]
    fn the_entry_used_longest_ago_goes() {
        let mut cache = Cache::new(TWO, &reached::TWO);
        cache.insert(1, "one");
        cache.insert(2, "two");
        assert_eq!(cache.find(&1), Some(&mut "one"));
        cache.insert(3, "three");
        assert_eq!([1, 2, 3].map(|key| cache.peek(key).is_some()), [true, false, true]);
        assert_eq!(gabion_record::limits::take_reached().times_reached(&reached::TWO), 1);
        assert_eq!(TABLE.len(), 1);
        assert_eq!((cache.remove(1), cache.remove(1)), (Some("one"), None));
    }

    /// However often entries are used, the notes of it do not grow.
    #[test]
    fn uses_are_bounded() {
        let mut cache = Cache::new(TWO, &reached::TWO);
        for n in 0..10_000u32 {
            cache.insert(n % 5, n);
            cache.find(&(n % 3));
            assert!(cache.uses.len() <= 2 * TWO + USES_FREE + 2, "{}", cache.uses.len());
        }
        gabion_record::limits::take_reached();
    }
}
