//! Remembers envelopes, so that one sent again is recognized: nonce and tag of the last million, or of the
//! last day, whichever is less.
//!
//! Only envelopes that were opened are remembered. Anybody could send millions that can't be, and so
//! push out those that matter. The age goes by a clock that nobody can set: a host whose calendar leaps a day
//! ahead forgets nothing. Of each a keyed hash of 64 bits is kept: a fresh envelope is taken for one
//! of a million once in 18 million million times, and nobody without the key, which is made at the start,
//! can look for such a one. All memory, 28 MiB for a million, is taken at the start: a flood that fills
//! the window makes nothing grow.

use crate::envelope::EnvelopeId;
use crate::limits::{REPLAY_AGE_S, REPLAY_ENVELOPES_MAX, reached};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

/// No envelope's place.
const EMPTY: u32 = u32::MAX;

/// An envelope that came.
#[derive(Clone, Copy, Debug)]
struct Seen {
    hash: u64,
    /// When it came first.
    time_ns: u64,
}

/// The window. The time of receipt is given with each envelope, and so is the time that has passed on a
/// clock that is never set, by which envelopes grow old.
#[derive(Debug)]
pub struct ReplayWindow {
    key: RandomState,
    /// In the order in which they came, in a circle.
    ring: Box<[Seen]>,
    /// When each came by the clock that is never set, in whole seconds.
    passed: Box<[u32]>,
    oldest: usize,
    len: usize,
    /// Places in the circle by hash: open addressing with linear steps, at most half full.
    table: Box<[u32]>,
    age_s: u32,
}

impl Default for ReplayWindow {
    fn default() -> ReplayWindow {
        ReplayWindow::new(REPLAY_ENVELOPES_MAX, REPLAY_AGE_S)
    }
}

impl ReplayWindow {
    /// A window of n envelopes (at least one) and a number of seconds.
    pub fn new(envelopes_max: usize, age_s: u32) -> ReplayWindow {
        let max = envelopes_max.clamp(1, EMPTY as usize / 2);
        // Other values than zero, which the system would take as leave to give memory later.
        ReplayWindow {
            key: RandomState::new(),
            ring: vec![Seen { hash: u64::MAX, time_ns: u64::MAX }; max].into(),
            passed: vec![u32::MAX; max].into(),
            oldest: 0,
            len: 0,
            table: vec![EMPTY; (max * 2).next_power_of_two()].into(),
            age_s,
        }
    }

    /// Takes an envelope that was received at that time of the calendar, in nanoseconds; when it came
    /// first, if it was seen before. `passed` is the time since any fixed moment on a clock that is never
    /// set (CLOCK_MONOTONIC); it never gets less from one envelope to the next.
    pub fn first_seen(
        &mut self,
        id: &EnvelopeId,
        received_ns: u64,
        passed: Duration,
    ) -> Option<u64> {
        let passed_s = u32::try_from(passed.as_secs()).unwrap_or(u32::MAX);
        self.first_seen_hash(self.key.hash_one(id), received_ns, passed_s)
    }

    fn first_seen_hash(&mut self, hash: u64, received_ns: u64, passed_s: u32) -> Option<u64> {
        while self.len > 0 {
            let age_s = passed_s.saturating_sub(self.passed[self.oldest]);
            if age_s <= self.age_s {
                if self.len < self.ring.len() {
                    break;
                }
                reached::REPLAY_ENVELOPES_MAX.count();
            }
            self.forget_oldest();
        }
        let slot = self.slot(hash);
        if let Some(first) = self.ring.get(self.table[slot] as usize) {
            return Some(first.time_ns);
        }
        let place = (self.oldest + self.len) % self.ring.len();
        self.ring[place] = Seen { hash, time_ns: received_ns };
        self.passed[place] = passed_s;
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
        // What stands after the hole and may stand in it moves up, so that no search ends too early
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
        let mut see = |n: u8, s: u64| {
            let first = window.first_seen(&[n; 28], s * 10, Duration::from_secs(s));
            (first, window.len())
        };
        assert_eq!(see(1, 0), (None, 1));
        assert_eq!(see(1, 1), (Some(0), 1));
        assert_eq!(see(2, 2), (None, 2));
        assert_eq!(see(3, 3), (None, 2));
        assert_eq!(see(1, 4), (None, 2), "pushed out by number");
        assert_eq!(see(3, 200), (None, 1), "too old");
        assert_eq!(see(3, 300), (Some(2_000), 1));
        // What was forgotten for want of room alone is counted: an envelope could be sent again.
        let counts = gabion_record::limits::take_reached();
        assert_eq!(counts.times_reached(&reached::REPLAY_ENVELOPES_MAX), 2);
    }

    /// The calendar of a host is set: by hand, by time servers, by anybody who can lie to them.
    #[test]
    fn a_calendar_that_leaps_makes_nothing_old_and_keeps_nothing_for_ever() {
        let day = 24 * 3600;
        let at = |days: u64| days * day * 1_000_000_000;
        let mut window = ReplayWindow::new(10, day as u32);
        let mut see = |n: u8, received_ns, s| {
            window.first_seen(&[n; 28], received_ns, Duration::from_secs(s))
        };
        assert_eq!(see(1, at(100), 5), None);
        assert_eq!(see(1, at(400), 6), Some(at(100)), "set ahead");
        assert_eq!(see(1, at(1), 7), Some(at(100)), "set back");
        assert_eq!(see(1, at(1), 6 + day), None, "old, whatever the calendar says");
    }

    #[test]
    fn it_answers_as_a_plain_map_does() {
        // Few different hashes, so that they share places in the table and come again.
        let mut x = 0x2545_f491_4f6c_dd1d_u64;
        for (max, values, age) in [(5, 16, 40), (64, 300, 1000), (100, 90, 50)] {
            let mut window = ReplayWindow::new(max, age);
            let mut plain: std::collections::VecDeque<(u64, u32)> = [].into();
            for s in 0..20_000_u32 {
                let time_ns = u64::from(s) * 7;
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                let hash = (x % values) << (x >> 60 & 3);
                while plain.len() >= max || plain.front().is_some_and(|(_, t)| s - t > age) {
                    plain.pop_front();
                }
                let want = plain.iter().find(|(h, _)| *h == hash).map(|(_, t)| u64::from(*t) * 7);
                if want.is_none() {
                    plain.push_back((hash, s));
                }
                assert_eq!(window.first_seen_hash(hash, time_ns, s), want, "{max} at {s}");
                assert_eq!(window.len(), plain.len());
            }
        }
    }
}
