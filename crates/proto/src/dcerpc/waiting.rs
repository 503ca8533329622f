//! Transactions that wait for a message, by what the message will say: the oldest is found in one step,
//! however many wait.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Ids of transactions by what they wait for, oldest first.
#[derive(Debug)]
pub(super) struct Waiting<K> {
    ids: HashMap<K, VecDeque<u64>>,
}

impl<K> Default for Waiting<K> {
    fn default() -> Waiting<K> {
        Waiting { ids: HashMap::new() }
    }
}

impl<K: Copy + Eq + Hash> Waiting<K> {
    /// A transaction waits.
    pub(super) fn push(&mut self, key: K, id: u64) {
        self.ids.entry(key).or_default().push_back(id);
    }

    /// The oldest that waits.
    pub(super) fn first(&self, key: K) -> Option<u64> {
        self.ids.get(&key)?.front().copied()
    }

    /// A transaction waits no more, whether it did or not.
    pub(super) fn remove(&mut self, key: K, id: u64) {
        let Some(ids) = self.ids.get_mut(&key) else { return };
        // They are in order, and it is nearly always the first.
        if ids.front() == Some(&id) {
            ids.pop_front();
        } else if let Ok(at) = ids.binary_search(&id) {
            ids.remove(at);
        }
        if ids.is_empty() {
            self.ids.remove(&key);
        }
    }

    /// Bytes held.
    pub(super) fn bytes_held(&self) -> usize {
        self.ids.capacity() * size_of::<(K, VecDeque<u64>)>()
    }
}
