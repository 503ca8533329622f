//! Remembers envelopes, so that one sent again is told: nonce and tag of the last million, or of the
//! last day, whichever is less.
//!
//! Only envelopes that were opened are remembered. Anybody could send millions that can't be, and so
//! push out those that matter. Of each a keyed hash of 64 bits is kept: a fresh envelope is taken for one
//! of a million once in 18 million million times, and nobody without the key, which is made at the start,
//! can look for such a one. All memory, 24 MiB for a million, is taken at the start: a flood that fills
//! the window makes nothing grow.

use crate::envelope::EnvelopeId;
use crate::limits::{REPLAY_AGE_NS, REPLAY_ENVELOPES_MAX};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// No envelope's place.
const EMPTY: u32 = u32::MAX;

/// An envelope that came.
#[derive(Clone, Copy, Debug)]
struct Seen {
    hash: u64,
    /// When it came first.
    time_ns: u64,
}

/// The window. Event time is that of receipt, given with each envelope.
#[derive(Debug)]
pub struct ReplayWindow {
    key: RandomState,
    /// In the order in which they came, in a circle.
    ring: Box<[Seen]>,
    oldest: usize,
    len: usize,
    /// Places in the circle by hash: open addressing with linear steps, at most half full.
    table: Box<[u32]>,
    age_ns: u64,
}

impl Default for ReplayWindow {
    fn default() -> ReplayWindow {
        ReplayWindow::new(REPLAY_ENVELOPES_MAX, REPLAY_AGE_NS)
    }
}

impl ReplayWindow {
    /// A window of so many envelopes (at least one) and so much time.
    pub fn new(envelopes_max: usize, age_ns: u64) -> ReplayWindow {
        let max = envelopes_max.clamp(1, EMPTY as usize / 2);
        // Other values than zero, which the system would take as leave to give memory later.
        ReplayWindow {
            key: RandomState::new(),
            ring: vec![Seen { hash: u64::MAX, time_ns: u64::MAX }; max].into(),
            oldest: 0,
            len: 0,
            table: vec![EMPTY; (max * 2).next_power_of_two()].into(),
            age_ns,
        }
    }

    /// Takes an envelope; whether it was seen before.
    pub fn is_replayed(&mut self, id: &EnvelopeId, now_ns: u64) -> bool {
        self.first_seen(id, now_ns).is_some()
    }

    /// Takes an envelope; when it came first, if it was seen before.
    pub fn first_seen(&mut self, id: &EnvelopeId, now_ns: u64) -> Option<u64> {
        self.first_seen_hash(self.key.hash_one(id), now_ns)
    }

    fn first_seen_hash(&mut self, hash: u64, now_ns: u64) -> Option<u64> {
        while self.len > 0 {
            let time_ns = self.ring[self.oldest].time_ns;
            if self.len < self.ring.len() && now_ns.saturating_sub(time_ns) <= self.age_ns {
                break;
            }
            self.forget_oldest();
        }
        let slot = self.slot(hash);
        if let Some(first) = self.ring.get(self.table[slot] as usize) {
            return Some(first.time_ns);
        }
        let place = (self.oldest + self.len) % self.ring.len();
        self.ring[place] = Seen { hash, time_ns: now_ns };
        self.table[slot] = place as u32;
        self.len += 1;
        None
    }

    fn mask(&self) -> usize {
        self.table.len() - 1
    }

    /// Where this hash stands in the table, or where it would.
    fn slot(&self, hash: u64) -> usize {
        let mut slot = hash as usize & self.mask();
        while let Some(seen) = self.ring.get(self.table[slot] as usize) {
            if seen.hash == hash {
                break;
            }
            slot = (slot + 1) & self.mask();
        }
        slot
    }

    fn forget_oldest(&mut self) {
        let mut hole = self.slot(self.ring[self.oldest].hash);
        // What stands behind the hole and may stand in it moves up, so that no search ends too early
        // (Knuth, The Art of Computer Programming 3, 6.4, algorithm R).
        let mut next = hole;
        loop {
            next = (next + 1) & self.mask();
            let place = self.table[next];
            let Some(seen) = self.ring.get(place as usize) else { break };
            let home = seen.hash as usize & self.mask();
            let distance = next.wrapping_sub(home) & self.mask();
            if distance >= (next.wrapping_sub(hole) & self.mask()) {
                self.table[hole] = place;
                hole = next;
            }
        }
        self.table[hole] = EMPTY;
        self.oldest = (self.oldest + 1) % self.ring.len();
        self.len -= 1;
    }

    /// Envelopes remembered.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len == 0
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

    #[test]
    fn it_answers_as_a_plain_map_does() {
        // Few different hashes, so that they share places in the table and come again.
        let mut x = 0x2545_f491_4f6c_dd1d_u64;
        for (max, values, age) in [(5, 16, 40), (64, 300, 1000), (100, 90, 50)] {
            let mut window = ReplayWindow::new(max, age);
            let mut plain: std::collections::VecDeque<(u64, u64)> = [].into();
            for time_ns in 0..20_000_u64 {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                let hash = (x % values) << (x >> 60 & 3);
                while plain.len() >= max || plain.front().is_some_and(|(_, t)| time_ns - t > age) {
                    plain.pop_front();
                }
                let want = plain.iter().find(|(h, _)| *h == hash).map(|(_, t)| *t);
                if want.is_none() {
                    plain.push_back((hash, time_ns));
                }
                assert_eq!(window.first_seen_hash(hash, time_ns), want, "{max} at {time_ns}");
                assert_eq!(window.len(), plain.len());
            }
        }
    }
}
