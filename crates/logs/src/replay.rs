//! Remembers envelopes, so that one sent again is told: nonce and tag of the last million, or of the
//! last day, whichever is less.
//!
//! Only envelopes that were opened are remembered. Anybody could send millions that can't be, and so
//! push out those that matter. Of each a keyed hash of 64 bits is kept, 44 MiB in all: a fresh
//! envelope is taken for one of a million once in 18 million million times, and nobody without the key,
//! which is made at the start, can look for such a one.

use crate::envelope::EnvelopeId;
use crate::limits::{REPLAY_AGE_NS, REPLAY_ENVELOPES_MAX};
use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap, RandomState};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

/// A hash of what is a hash already: itself.
#[derive(Debug, Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |n, b| n.rotate_left(8) ^ u64::from(*b));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// The window. Event time is that of receipt, given with each envelope.
#[derive(Debug)]
pub struct ReplayWindow {
    key: RandomState,
    /// When each came first.
    seen: HashMap<u64, u64, BuildHasherDefault<Same>>,
    order: VecDeque<u64>,
    envelopes_max: usize,
    age_ns: u64,
}

impl Default for ReplayWindow {
    fn default() -> ReplayWindow {
        ReplayWindow::new(REPLAY_ENVELOPES_MAX, REPLAY_AGE_NS)
    }
}

impl ReplayWindow {
    /// A window of so many envelopes and so much time.
    pub fn new(envelopes_max: usize, age_ns: u64) -> ReplayWindow {
        ReplayWindow {
            key: RandomState::new(),
            seen: HashMap::default(),
            order: VecDeque::new(),
            envelopes_max,
            age_ns,
        }
    }

    /// Takes an envelope; whether it was seen before.
    pub fn is_replayed(&mut self, id: &EnvelopeId, now_ns: u64) -> bool {
        self.first_seen(id, now_ns).is_some()
    }

    /// Takes an envelope; when it came first, if it was seen before.
    pub fn first_seen(&mut self, id: &EnvelopeId, now_ns: u64) -> Option<u64> {
        while let Some(oldest) = self.order.front() {
            let time = self.seen.get(oldest).copied().unwrap_or(0);
            if self.order.len() < self.envelopes_max && now_ns.saturating_sub(time) <= self.age_ns {
                break;
            }
            self.seen.remove(oldest);
            self.order.pop_front();
        }
        let hash = self.key.hash_one(id);
        match self.seen.entry(hash) {
            Entry::Occupied(first) => return Some(*first.get()),
            Entry::Vacant(free) => free.insert(now_ns),
        };
        self.order.push_back(hash);
        None
    }

    /// Envelopes remembered.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_bounded_by_number_and_age() {
        let mut window = ReplayWindow::new(2, 100);
        let id = |n: u8| [n; 28];
        assert!(!window.is_replayed(&id(1), 0));
        assert!(window.is_replayed(&id(1), 1));
        assert_eq!(window.first_seen(&id(1), 2), Some(0));
        assert!(!window.is_replayed(&id(2), 2));
        assert!(!window.is_replayed(&id(3), 3));
        assert_eq!(window.len(), 2);
        assert!(!window.is_replayed(&id(1), 4), "pushed out by number");
        assert!(!window.is_replayed(&id(3), 200), "too old");
        assert_eq!(window.len(), 1);
    }
}
