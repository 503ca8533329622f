//! The rings of one interface that share its frames, one for each worker.
//!
//! The kernel's program returns a number, which is the place of a ring in the order in which they joined: rings join in
//! the order of their workers. A group belongs to one interface of the kernel: where another one has the name, all rings
//! leave and a new group is made. A ring whose worker is lost, or stays away, must not keep the others from it: they wait for
//! a second at most. Where the order is another one then, frames are handed over.

use super::interface::ReportedSizes;
use gabion_capture::filter::ClassicInstruction;
use gabion_capture::live::Live;
use gabion_packet::worker_program;
use gabion_runtime::clock;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a ring waits for those before it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The newest group of an interface.
#[derive(Debug, Default)]
struct Joined {
    /// How many groups there were.
    groups: u32,
    /// The kernel's number of the newest.
    number: u16,
    /// How many rings have joined it.
    rings: u16,
}

/// A ring's share of the groups of an interface.
#[derive(Debug)]
pub(super) struct RingGroup {
    rings: u16,
    /// The ring's place among them, from 0.
    place: u16,
    /// The group that it joined last, counted from 1.
    own: u32,
    waiting_since: Option<Instant>,
    joined: Arc<Mutex<Joined>>,
    /// What was reported of the interface, by whichever ring.
    pub(super) reported: Arc<ReportedSizes>,
}

impl RingGroup {
    /// For this many rings: the first one's share.
    pub(super) fn new(rings: u16) -> RingGroup {
        let (joined, reported) = (Arc::default(), Arc::default());
        RingGroup { rings, place: 0, own: 0, waiting_since: None, joined, reported }
    }

    /// That of the ring at another place.
    pub(super) fn share(&self, place: u16) -> RingGroup {
        let (joined, reported) = (Arc::clone(&self.joined), Arc::clone(&self.reported));
        RingGroup { rings: self.rings, place, own: 0, waiting_since: None, joined, reported }
    }

    /// Whether it is the ring's turn to join: those before it have, or were waited for long enough.
    pub(super) fn is_turn(&mut self) -> bool {
        let joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        // Who has left the newest group waits for another one.
        let before = if self.own < joined.groups { joined.rings } else { 0 };
        let since = *self.waiting_since.get_or_insert_with(clock::now);
        before >= self.place || since.elapsed() > PATIENCE
    }

    /// Has a ring join, which is bound: the first to leave a group makes the next one.
    pub(super) fn join(&mut self, live: &Live) -> io::Result<()> {
        let program: Vec<ClassicInstruction> = worker_program(self.rings)
            .into_iter()
            .map(|(code, jt, jf, k)| ClassicInstruction { code, jt, jf, k })
            .collect();
        self.join_by(|number| live.join_group(number, &program))
    }

    /// Joins by a call that takes the number of a group, or makes one and returns its number.
    fn join_by(&mut self, call: impl FnOnce(Option<u16>) -> io::Result<u16>) -> io::Result<()> {
        let mut joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        let known = (self.own < joined.groups).then_some(joined.number);
        let number = call(known)?;
        if known.is_none() {
            *joined = Joined { groups: joined.groups + 1, number, rings: 0 };
        }
        joined.rings += 1;
        (self.own, self.waiting_since) = (joined.groups, None);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Joins where it is the ring's turn; returns the number of the group.
    fn try_join(ring: &mut RingGroup, next: u16) -> Option<u16> {
        if !ring.is_turn() {
            return None;
        }
        let mut number = 0;
        ring.join_by(|known| {
            number = known.unwrap_or(next);
            Ok(number)
        })
        .unwrap();
        Some(number)
    }

    #[test]
    fn rings_join_in_the_order_of_their_workers_each_time() {
        let mut first = RingGroup::new(3);
        let (mut second, mut third) = (first.share(1), first.share(2));
        for number in 7..10 {
            // In whichever order they see that the interface is another one.
            assert_eq!(try_join(&mut third, 90), None);
            assert_eq!(try_join(&mut second, 90), None);
            assert_eq!(try_join(&mut first, number), Some(number));
            assert_eq!(try_join(&mut third, 90), None);
            assert_eq!(try_join(&mut second, 90), Some(number));
            assert_eq!(try_join(&mut third, 90), Some(number));
        }
        // The interface is another one again before all have joined.
        assert_eq!(try_join(&mut first, 20), Some(20));
        assert_eq!(try_join(&mut first, 21), Some(21));
        assert_eq!(try_join(&mut second, 90), Some(21));
        assert_eq!(try_join(&mut third, 90), Some(21));
    }

    #[test]
    fn a_ring_that_stays_away_is_not_waited_for_long() {
        let mut first = RingGroup::new(2);
        let mut second = first.share(1);
        assert_eq!(try_join(&mut first, 1), Some(1));
        assert_eq!(try_join(&mut second, 90), Some(1));
        assert_eq!(try_join(&mut second, 2), None);
        second.waiting_since = clock::now().checked_sub(2 * PATIENCE);
        assert_eq!(try_join(&mut second, 2), Some(2));
        // It may come after all.
        assert_eq!(try_join(&mut first, 90), Some(2));
    }
}
