//! Remembers envelopes, so that one sent again is told: nonce and tag of the last million, or of the
//! last day, whichever is less.
//!
//! Only envelopes that were opened are remembered. Anybody could send millions that can't be, and so
//! push out those that matter.

use crate::envelope::EnvelopeId;
use crate::limits::{REPLAY_AGE_NS, REPLAY_ENVELOPES_MAX};
use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};

/// The window. Event time is that of receipt, given with each envelope.
#[derive(Debug)]
pub struct ReplayWindow {
    seen: HashMap<EnvelopeId, u64>,
    order: VecDeque<(u64, EnvelopeId)>,
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
        ReplayWindow { seen: HashMap::new(), order: VecDeque::new(), envelopes_max, age_ns }
    }

    /// Takes an envelope; whether it was seen before.
    pub fn is_replayed(&mut self, id: &EnvelopeId, now_ns: u64) -> bool {
        self.first_seen(id, now_ns).is_some()
    }

    /// Takes an envelope; when it came first, if it was seen before.
    pub fn first_seen(&mut self, id: &EnvelopeId, now_ns: u64) -> Option<u64> {
        while let Some(&(time, oldest)) = self.order.front() {
            if self.order.len() < self.envelopes_max && now_ns.saturating_sub(time) <= self.age_ns {
                break;
            }
            self.seen.remove(&oldest);
            self.order.pop_front();
        }
        match self.seen.entry(*id) {
            Entry::Occupied(first) => return Some(*first.get()),
            Entry::Vacant(free) => free.insert(now_ns),
        };
        self.order.push_back((now_ns, *id));
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
