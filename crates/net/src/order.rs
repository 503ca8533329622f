//! State that outlives flows, used by several workers as if there were one.
//!
//! Every use of such state has a ticket: the frame at hand, and for flows that end before a frame
//! the number of the flow's first packet, since they end in that order. A worker that wants the
//! state waits until all others are past every earlier ticket; whoever is furthest behind never
//! waits, so the wait ends. The state is thus used in packet order, and rules that count, or remember
//! hosts, answer the same with any number of workers. Uses are rare (a rule must have matched so
//! far), so the waits are too.
//!
//! How to wait is the caller's business: the engine knows no threads, it is handed a function.

use crate::limits::WORKERS_MAX;
use crate::ranges::Ranges;
use crate::state::Bits;
use crate::threshold::Thresholds;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Frames' tickets of a worker that is gone.
const GONE: u64 = u64::MAX;

/// A worker's place, on cache lines of its own: the frame at hand, twice its number and one more
/// while it is the worker's own; below it the flow that ends.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Place {
    frame: AtomicU64,
    flow: AtomicU64,
    /// Uses of state across flows, and those that had to wait.
    uses: AtomicU64,
    waits: AtomicU64,
}

impl Place {
    /// Both numbers as they were together. Whoever goes on to another frame sets the flow to zero
    /// first, so that a flow read between two equal frames may only be too small.
    fn ticket(&self) -> (u64, u64) {
        loop {
            let frame = self.frame.load(Ordering::Acquire);
            let flow = self.flow.load(Ordering::Acquire);
            if self.frame.load(Ordering::Acquire) == frame {
                return (frame, flow);
            }
        }
    }
}

#[derive(Debug)]
struct Turns {
    places: Box<[Place]>,
    /// Called while waiting, with how often it was called before.
    pause: fn(u32),
}

impl Turns {
    fn wait(&self, worker: usize) {
        let Some(own) = self.places.get(worker) else { return };
        let mine = own.ticket();
        let mut has_waited = false;
        for (n, place) in self.places.iter().enumerate() {
            let mut tries = 0;
            while n != worker && place.ticket() < mine {
                (self.pause)(tries);
                has_waited = true;
                tries = tries.saturating_add(1);
            }
        }
        own.uses.fetch_add(1, Ordering::Relaxed);
        own.waits.fetch_add(u64::from(has_waited), Ordering::Relaxed);
    }
}

/// Workers that read one stream of frames together.
#[derive(Debug)]
pub struct Team {
    turns: Arc<Turns>,
    thresholds: Arc<Mutex<Thresholds>>,
    bits: Arc<Mutex<Bits>>,
    ranges: Arc<Mutex<Ranges>>,
}

impl Team {
    /// A team of so many workers, [`WORKERS_MAX`] at most. `pause` is called while one waits for
    /// another, with how often it was called before.
    pub fn new(workers: usize, pause: fn(u32)) -> Team {
        let places = (0..workers.clamp(1, WORKERS_MAX)).map(|_| Place::default()).collect();
        Team {
            turns: Arc::new(Turns { places, pause }),
            thresholds: Arc::default(),
            bits: Arc::default(),
            ranges: Arc::default(),
        }
    }

    /// The place of one worker, from 0. Dropping it (in a panic too) lets the others go on.
    pub fn seat(&self, worker: usize) -> Seat {
        Seat { turn: Turn { turns: Arc::clone(&self.turns), worker } }
    }

    /// Gives a worker up that does not go on: the others don't wait for it any more.
    pub fn give_up(&self, worker: usize) {
        if let Some(place) = self.turns.places.get(worker) {
            place.frame.store(GONE, Ordering::Release);
        }
    }

    /// How often state across flows was used, and how often a worker had to wait for that.
    pub fn uses(&self) -> (u64, u64) {
        let places = self.turns.places.iter();
        places.fold((0, 0), |(uses, waits), p| {
            (uses + p.uses.load(Ordering::Relaxed), waits + p.waits.load(Ordering::Relaxed))
        })
    }

    /// The worker with the earliest ticket: the one that others may be waiting for.
    pub fn furthest_behind(&self) -> Option<usize> {
        let tickets = self.turns.places.iter().map(Place::ticket);
        tickets.enumerate().min_by_key(|(_, ticket)| *ticket).map(|(n, _)| n)
    }

    pub(crate) fn thresholds(&self, worker: usize) -> Across<Thresholds> {
        Across::Team { state: Arc::clone(&self.thresholds), turn: self.turn(worker) }
    }

    pub(crate) fn bits(&self, worker: usize) -> Across<Bits> {
        Across::Team { state: Arc::clone(&self.bits), turn: self.turn(worker) }
    }

    pub(crate) fn ranges(&self, worker: usize) -> Across<Ranges> {
        Across::Team { state: Arc::clone(&self.ranges), turn: self.turn(worker) }
    }

    pub(crate) fn turn(&self, worker: usize) -> Turn {
        Turn { turns: Arc::clone(&self.turns), worker }
    }
}

/// A worker's membership in its team, held as long as it works.
#[derive(Debug)]
pub struct Seat {
    turn: Turn,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.turn.to(GONE);
    }
}

/// A worker's side of its team.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    worker: usize,
}

impl Turn {
    #[inline]
    fn to(&self, frame: u64) {
        let Some(place) = self.turns.places.get(self.worker) else { return };
        // A worker that was given up stays so.
        if place.frame.load(Ordering::Relaxed) != GONE {
            if place.flow.load(Ordering::Relaxed) != 0 {
                place.flow.store(0, Ordering::Release);
            }
            place.frame.store(frame, Ordering::Release);
        }
    }

    /// The worker's number.
    pub(crate) fn worker(&self) -> usize {
        self.worker
    }

    /// Flows end before frame `number`.
    #[inline]
    pub(crate) fn before_frame(&self, number: u64) {
        self.to(number << 1);
    }

    /// A flow ends, whose first packet had this number.
    pub(crate) fn ending(&self, first_number: u64) {
        if let Some(place) = self.turns.places.get(self.worker) {
            place.flow.store(first_number, Ordering::Release);
        }
    }

    /// The frame itself.
    #[inline]
    pub(crate) fn at_frame(&self, number: u64) {
        self.to((number << 1) | 1);
    }

    /// All frames are done: the flows that are left end.
    pub(crate) fn at_end(&self) {
        self.to(GONE - 1);
    }

    /// Waits until all others are past every earlier ticket.
    pub(crate) fn wait(&self) {
        self.turns.wait(self.worker);
    }
}

/// State of one worker alone, or of its team.
#[derive(Debug)]
pub(crate) enum Across<T> {
    Own(T),
    Team { state: Arc<Mutex<T>>, turn: Turn },
}

impl<T: Default> Default for Across<T> {
    fn default() -> Self {
        Across::Own(T::default())
    }
}

impl<T> Across<T> {
    /// Looks at the state.
    pub(crate) fn read<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        match self {
            Across::Own(t) => f(t),
            Across::Team { state, turn } => {
                turn.wait();
                f(&state.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }

    /// Changes it.
    pub(crate) fn write<R>(&mut self, f: impl FnOnce(&mut T) -> R) -> R {
        match self {
            Across::Own(t) => f(t),
            Across::Team { state, turn } => {
                turn.wait();
                f(&mut state.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(_: u32) {
        std::thread::yield_now();
    }

    /// Whatever the threads do, uses come in the order of tickets.
    #[test]
    fn uses_come_in_packet_order() {
        const WORKERS: usize = 3;
        let turns =
            Arc::new(Turns { places: (0..WORKERS).map(|_| Place::default()).collect(), pause });
        let log: Arc<Mutex<Vec<(u64, u64)>>> = Arc::default();
        std::thread::scope(|scope| {
            for worker in 0..WORKERS {
                let turn = Turn { turns: Arc::clone(&turns), worker };
                let mut state = Across::Team { state: Arc::clone(&log), turn: turn.clone() };
                scope.spawn(move || {
                    // At some frames each worker ends flows, told apart by their first packets.
                    let end = |state: &mut Across<Vec<_>>, frame: u64| {
                        for flow in 0..3 {
                            let first = 10 + flow * WORKERS as u64 + worker as u64;
                            turn.ending(first);
                            state.write(|log| log.push((frame, first)));
                        }
                    };
                    for number in 1..200_u64 {
                        turn.before_frame(number);
                        if number % 7 == 0 {
                            end(&mut state, number * 2);
                        }
                        if number % WORKERS as u64 == worker as u64 {
                            turn.at_frame(number);
                            state.write(|log| log.push((number * 2 + 1, 0)));
                        }
                    }
                    turn.at_end();
                    end(&mut state, u64::MAX);
                    turn.to(GONE);
                });
            }
        });
        let log = log.lock().unwrap();
        assert!(log.is_sorted(), "{log:?}");
        assert_eq!(log.len(), 199 + 199 / 7 * WORKERS * 3 + WORKERS * 3);
    }

    #[test]
    fn nobody_waits_for_a_worker_that_is_gone() {
        let team = Team::new(2, pause);
        let turn = team.turn(0);
        turn.at_frame(5);
        drop(team.seat(1));
        let mut bits = team.thresholds(0);
        bits.write(|_| ());
        // Given up, it can't come back and hold the others up.
        team.turn(1).at_frame(1);
        bits.write(|_| ());
    }
}
