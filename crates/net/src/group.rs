//! The group of workers that read one stream of frames together, and the state that they share.

use crate::limits::WORKERS_MAX;
use crate::ordered::{Ordered, Turn, Turns};
use crate::ranges::Ranges;
use crate::state::Bits;
use crate::tags::HostTags;
use crate::threshold::Thresholds;
use std::sync::{Arc, Mutex};

/// Workers that read one stream of frames together.
#[derive(Debug)]
pub struct WorkerGroup {
    turns: Arc<Turns>,
    thresholds: Arc<Mutex<Thresholds>>,
    bits: Arc<Mutex<Bits>>,
    ranges: Arc<Mutex<Ranges>>,
    host_tags: Arc<Mutex<HostTags>>,
}

impl WorkerGroup {
    /// A group of `workers` workers, [`WORKERS_MAX`] at most. `pause` is called while one waits for
    /// another, with the number of earlier calls; where it returns false the wait ends, is counted, and that worker is
    /// not waited for until it has caught up.
    pub fn new(workers: usize, pause: fn(u32) -> bool) -> WorkerGroup {
        WorkerGroup {
            turns: Arc::new(Turns::new(workers.clamp(1, WORKERS_MAX), pause)),
            thresholds: Arc::default(),
            bits: Arc::default(),
            ranges: Arc::default(),
            host_tags: Arc::default(),
        }
    }

    /// The slot of one worker, from 0. When it is dropped (in a panic too), the others continue.
    pub fn slot(&self, worker: usize) -> WorkerSlot {
        WorkerSlot { turn: self.turn(worker) }
    }

    /// Abandons a worker that has stalled: the others don't wait for it any more.
    pub fn give_up(&self, worker: usize) {
        self.turns.give_up(worker);
    }

    /// How often state across flows was used, and how often a worker had to wait for that.
    pub fn uses(&self) -> (u64, u64) {
        self.turns.uses()
    }

    /// How often it was used before an earlier use that was waited for in vain.
    pub fn early_uses(&self) -> u64 {
        self.turns.early_uses()
    }

    /// The worker with the earliest ticket: the one that others may be waiting for.
    pub fn furthest_behind(&self) -> Option<usize> {
        self.turns.earliest()
    }

    pub(crate) fn thresholds(&self, worker: usize) -> Ordered<Thresholds> {
        Ordered::Shared { state: Arc::clone(&self.thresholds), turn: self.turn(worker) }
    }

    pub(crate) fn bits(&self, worker: usize) -> Ordered<Bits> {
        Ordered::Shared { state: Arc::clone(&self.bits), turn: self.turn(worker) }
    }

    pub(crate) fn ranges(&self, worker: usize) -> Ordered<Ranges> {
        Ordered::Shared { state: Arc::clone(&self.ranges), turn: self.turn(worker) }
    }

    pub(crate) fn host_tags(&self, worker: usize) -> Ordered<HostTags> {
        Ordered::Shared { state: Arc::clone(&self.host_tags), turn: self.turn(worker) }
    }

    pub(crate) fn turn(&self, worker: usize) -> Turn {
        Turn::new(&self.turns, worker)
    }
}

/// A worker's membership in its group, held as long as it works.
#[derive(Debug)]
pub struct WorkerSlot {
    turn: Turn,
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        self.turn.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(_: u32) -> bool {
        std::thread::yield_now();
        true
    }

    #[test]
    fn nobody_waits_for_a_worker_that_is_gone() {
        let group = WorkerGroup::new(2, pause);
        let turn = group.turn(0);
        turn.at_frame(5);
        drop(group.slot(1));
        let mut bits = group.thresholds(0);
        bits.write(|_| ());
        // An abandoned worker can't come back and make the others wait.
        group.turn(1).at_frame(1);
        bits.write(|_| ());
    }
}
