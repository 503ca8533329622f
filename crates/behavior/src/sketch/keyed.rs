//! A small table with a bound: keys found by comparing 32-bit tags in one run of memory.

use crate::state::{Decoder, State};
use crate::steps;
use gabion_record::limits::{Limit, Meaning};

/// Tags that are compared at once.
const TOGETHER: usize = 16;

/// Keys a [`Keyed`] can have.
pub(crate) trait Key: Copy + Eq + State {
    /// A hash that is the same in every process.
    fn hash(self) -> u64;
}

impl Key for u64 {
    #[inline]
    fn hash(self) -> u64 {
        super::mix(self)
    }
}

impl Key for gabion_record::Ip {
    #[inline]
    fn hash(self) -> u64 {
        super::hash_ip(self)
    }
}

impl Key for (gabion_record::Ip, u32) {
    #[inline]
    fn hash(self) -> u64 {
        super::mix(super::hash_ip(self.0) ^ u64::from(self.1))
    }
}

/// At most `MAX` values by key. The owner decides which one is evicted from a full table; the caller that adds one
/// names the limit of the crate's table that `MAX` is; that table counts what did not fit.
#[derive(Debug)]
pub(crate) struct Keyed<K, V, const MAX: usize> {
    tags: Vec<u32>,
    entries: Vec<(K, V)>,
}

impl<K, V, const MAX: usize> Default for Keyed<K, V, MAX> {
    fn default() -> Self {
        Keyed { tags: Vec::new(), entries: Vec::new() }
    }
}

impl<K: Key, V, const MAX: usize> Keyed<K, V, MAX> {
    #[inline]
    fn find(&self, key: K) -> Option<usize> {
        steps::add(1);
        let tag = key.hash() as u32;
        let mut from = 0;
        for some in self.tags.chunks(TOGETHER) {
            // All of them, so that they are compared at once; nearly always none is the one.
            if some.iter().fold(false, |is_there, t| is_there | (*t == tag)) {
                for (at, _) in some.iter().enumerate().filter(|(_, t)| **t == tag) {
                    if self.entries.get(from + at)?.0 == key {
                        return Some(from + at);
                    }
                }
            }
            from += TOGETHER;
        }
        None
    }

    /// The value of a key.
    #[inline]
    pub(crate) fn get(&mut self, key: K) -> Option<&mut V> {
        let at = self.find(key)?;
        self.entries.get_mut(at).map(|e| &mut e.1)
    }

    /// Prefetches the value of a key: see [`State::prefetch`].
    #[inline]
    pub(crate) fn prefetch(&self, key: K, look: impl Fn(&V) -> usize) -> usize {
        let at = self.find(key).and_then(|at| self.entries.get(at));
        at.map_or(0, |(_, value)| look(value))
    }

    /// Where a key stands: for [`Keyed::at`], until the table changes.
    #[inline]
    pub(crate) fn place(&self, key: K) -> Option<usize> {
        self.find(key)
    }

    /// The value at a place.
    #[inline]
    pub(crate) fn at(&mut self, place: usize) -> Option<&mut V> {
        self.entries.get_mut(place).map(|e| &mut e.1)
    }

    /// Whether there is room for one more.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= MAX
    }

    /// Adds a key that is not there; `None` when the table is full, which is counted.
    pub(crate) fn add(&mut self, key: K, value: V, limit: &'static Limit) -> Option<&mut V> {
        if self.is_full() {
            count(limit, MAX);
            return None;
        }
        self.push(key, value)
    }

    fn push(&mut self, key: K, value: V) -> Option<&mut V> {
        // Most tables of most profiles have one entry or two: room for four at once is waste.
        if self.entries.len() < 4 {
            self.tags.reserve_exact(1);
            self.entries.reserve_exact(1);
        }
        self.tags.push(key.hash() as u32);
        self.entries.push((key, value));
        self.entries.last_mut().map(|e| &mut e.1)
    }

    /// The value of a key, made if there is room; if not, that is counted.
    #[inline]
    pub(crate) fn get_or_add(&mut self, key: K, limit: &'static Limit) -> Option<&mut V>
    where
        V: Default,
    {
        match self.find(key) {
            Some(at) => self.entries.get_mut(at).map(|e| &mut e.1),
            None => self.add(key, V::default(), limit),
        }
    }

    /// The value of a key, made if there is room or if `admit` says that it is worth the entry
    /// that `least` orders first. In a full table one of the two is dropped, which is counted.
    #[inline]
    pub(crate) fn get_or_admit<O: Ord>(
        &mut self,
        key: K,
        limit: &'static Limit,
        admit: impl FnOnce(&Self) -> bool,
        least: impl Fn(&K, &V) -> O,
    ) -> Option<&mut V>
    where
        V: Default,
    {
        if let Some(at) = self.find(key) {
            return self.entries.get_mut(at).map(|e| &mut e.1);
        }
        if !self.is_full() {
            return self.push(key, V::default());
        }
        count(limit, MAX);
        if !admit(self) {
            return None;
        }
        Some(self.replace(key, V::default(), least))
    }

    /// The value of a key, made in the place of the entry that `least` orders first in a full table, which is
    /// counted; with what went.
    #[inline]
    pub(crate) fn get_or_replace<O: Ord>(
        &mut self,
        key: K,
        limit: &'static Limit,
        least: impl Fn(&K, &V) -> O,
    ) -> (&mut V, Option<(K, V)>)
    where
        V: Default,
    {
        if let Some(at) = self.find(key) {
            return (&mut self.entries[at].1, None);
        }
        if !self.is_full() {
            self.push(key, V::default());
            let last = self.entries.len() - 1;
            return (&mut self.entries[last].1, None);
        }
        count(limit, MAX);
        let at = self.least(least);
        let gone = std::mem::replace(&mut self.entries[at], (key, V::default()));
        self.tags[at] = key.hash() as u32;
        (&mut self.entries[at].1, Some(gone))
    }

    /// The value of a key, made in the place of the entry that `least` orders first in a full table. What
    /// goes is counted if it `is_of_use` still.
    #[inline]
    pub(crate) fn get_or_renew<O: Ord>(
        &mut self,
        key: K,
        limit: &'static Limit,
        is_of_use: impl Fn(&V) -> bool,
        least: impl Fn(&K, &V) -> O,
    ) -> &mut V
    where
        V: Default,
    {
        if let Some(at) = self.find(key) {
            return &mut self.entries[at].1;
        }
        if !self.is_full() {
            self.tags.push(key.hash() as u32);
            self.entries.push((key, V::default()));
            let last = self.entries.len() - 1;
            return &mut self.entries[last].1;
        }
        let least = self.least(least);
        if self.entries.get(least).is_some_and(|(_, v)| is_of_use(v)) {
            count(limit, MAX);
        }
        self.put(least, key, V::default())
    }

    /// Puts a new key in the place of the entry that `least` orders first.
    pub(crate) fn replace<O: Ord>(
        &mut self,
        key: K,
        value: V,
        least: impl Fn(&K, &V) -> O,
    ) -> &mut V {
        let at = self.least(least);
        self.put(at, key, value)
    }

    /// Runs over all entries: some dozens at most, so that it is one step.
    fn least<O: Ord>(&self, least: impl Fn(&K, &V) -> O) -> usize {
        steps::add(1);
        (0..self.entries.len())
            .min_by_key(|at| self.entries.get(*at).map(|(k, v)| least(k, v)))
            .unwrap_or(0)
    }

    fn put(&mut self, at: usize, key: K, value: V) -> &mut V {
        if self.entries.is_empty() {
            self.tags.push(0);
            self.entries.push((key, value));
        } else if let Some(entry) = self.entries.get_mut(at) {
            *entry = (key, value);
        }
        if let Some(tag) = self.tags.get_mut(at) {
            *tag = key.hash() as u32;
        }
        &mut self.entries[at].1
    }

    /// Takes a key out.
    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        let at = self.find(key)?;
        self.tags.remove(at);
        Some(self.entries.remove(at).1)
    }

    /// All in the order they came.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.entries.iter()
    }

    /// Keeps what `keep` says, in order.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.entries.retain_mut(|(k, v)| keep(k, v));
        self.tags = self.entries.iter().map(|(k, _)| k.hash() as u32).collect();
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Counts that one more did not fit into a table, if that loses something.
#[cold]
fn count(limit: &'static Limit, max: usize) {
    debug_assert_eq!(limit.value, max as u64, "{}", limit.name);
    if matches!(limit.meaning, Meaning::Loses(_)) {
        limit.count();
    }
}

impl<K: Key, V: State, const MAX: usize> State for Keyed<K, V, MAX> {
    fn encode(&self, out: &mut Vec<u8>) {
        u32::try_from(self.entries.len()).unwrap_or(u32::MAX).encode(out);
        for (key, value) in &self.entries {
            key.encode(out);
            value.encode(out);
        }
    }
    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        let count = from.count(1)?;
        let mut made = Self::default();
        for _ in 0..count {
            let key = K::decode(from)?;
            let value = V::decode(from)?;
            if made.find(key).is_some() {
                return None;
            }
            if made.is_full() {
                return None;
            }
            made.push(key, value)?;
        }
        Some(made)
    }
    fn merge(&mut self, other: Self) {
        for (key, value) in other.entries {
            match self.find(key) {
                Some(at) => {
                    if let Some(entry) = self.entries.get_mut(at) {
                        entry.1.merge(value);
                    }
                }
                None if self.is_full() => {}
                None => {
                    self.push(key, value);
                }
            }
        }
    }
    #[inline]
    fn prefetch(&self) -> usize {
        self.tags.first().map_or(0, |tag| *tag as usize)
    }
    fn heap(&self) -> usize {
        self.tags.capacity() * 4
            + self.entries.capacity() * size_of::<(K, V)>()
            + self.entries.iter().map(|e| e.1.heap()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    gabion_record::limits! { "test";
        /// Entries of a test's table.
        const EIGHT: usize = 8, Loses("entries");
    }

    #[test]
    fn a_table_is_bounded_and_returns_from_its_encoding() {
        let mut table = Keyed::<u64, u32, 8>::default();
        for n in 0..20u64 {
            if let Some(v) = table.get_or_add(n, &reached::EIGHT) {
                *v = n as u32;
            }
        }
        assert_eq!((table.len(), table.is_full()), (EIGHT, true));
        assert_eq!(gabion_record::limits::take_reached().times_reached(&reached::EIGHT), 12);
        *table.replace(99, 50, |_, v| *v) += 1;
        assert_eq!((table.get(0).copied(), table.get(99).copied()), (None, Some(51)));
        let mut bytes = Vec::new();
        table.encode(&mut bytes);
        let mut back = Keyed::<u64, u32, 8>::decode(&mut Decoder(&bytes)).unwrap();
        assert_eq!(back.get(7), Some(&mut 7));
        assert!(Keyed::<u64, u32, 4>::decode(&mut Decoder(&bytes)).is_none());
        back.merge(table);
        assert_eq!(back.get(7), Some(&mut 14));
        assert_eq!(back.remove(7), Some(14));
        assert_eq!(back.get(6), Some(&mut 12));
        // There is room for one; then the least goes, and is handed out.
        assert_eq!(back.get_or_replace(6, &reached::EIGHT, |_, v| *v), (&mut 12, None));
        assert_eq!(back.get_or_replace(200, &reached::EIGHT, |_, v| *v), (&mut 0, None));
        *back.get(200).unwrap() = 30;
        assert_eq!(back.get_or_replace(201, &reached::EIGHT, |_, v| *v), (&mut 0, Some((1, 2))));
        assert_eq!((back.get(1).copied(), back.get(201).copied()), (None, Some(0)));
        assert_eq!(back.len(), EIGHT);
    }
}
