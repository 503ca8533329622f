//! State that outlives flows, used by several workers in packet order, as if there were one.
//!
//! Every use of such state has a ticket: the current frame, and for flows that end before a frame
//! the number of the flow's first packet, since they end in that order. A worker that wants the
//! state waits until all others are past every earlier ticket; the worker with the earliest ticket
//! never waits, so the wait ends. The state is thus used in packet order, and rules that count, or remember
//! hosts, answer the same with any number of workers. Uses are rare (a rule must have matched so
//! far), so the waits are too.
//!
//! The caller decides how to wait: the engine knows no threads, it receives a function.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The frame's ticket of a worker that has ended.
const GONE: u64 = u64::MAX;

/// A worker's place, on cache lines of its own: the current frame, twice its number and one more
/// while it is the worker's own; below it the flow that ends.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Place {
    frame: AtomicU64,
    flow: AtomicU64,
    /// Uses of state across flows, and those that had to wait.
    uses: AtomicU64,
    waits: AtomicU64,
    /// Uses that did not wait to the end.
    early: AtomicU64,
    /// Nobody waits for this worker before it has come to this frame's ticket.
    left_behind: AtomicU64,
}

impl Place {
    /// Both numbers as they were together. A worker that continues with another frame sets the flow to
    /// zero first, so that a flow read between two equal frames may only be too small.
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

/// The places of all workers of a group.
#[derive(Debug)]
pub(crate) struct Turns {
    places: Box<[Place]>,
    /// Called while waiting, with the number of earlier calls; false ends the wait.
    pause: fn(u32) -> bool,
}

impl Turns {
    /// Places for `workers` workers. `pause` is called while one waits for another, with the number of
    /// earlier calls; where it returns false the wait ends, and that worker is not waited for until it has caught up.
    pub(crate) fn new(workers: usize, pause: fn(u32) -> bool) -> Turns {
        Turns { places: (0..workers).map(|_| Place::default()).collect(), pause }
    }

    /// Abandons a worker that has stalled: the others don't wait for it any more.
    pub(crate) fn give_up(&self, worker: usize) {
        if let Some(place) = self.places.get(worker) {
            place.frame.store(GONE, Ordering::Release);
        }
    }

    /// The number of uses of state across flows, and the number of those that had to wait.
    pub(crate) fn uses(&self) -> (u64, u64) {
        self.places.iter().fold((0, 0), |(uses, waits), p| {
            (uses + p.uses.load(Ordering::Relaxed), waits + p.waits.load(Ordering::Relaxed))
        })
    }

    /// The number of uses that did not wait for all earlier ones.
    pub(crate) fn early_uses(&self) -> u64 {
        self.places.iter().map(|p| p.early.load(Ordering::Relaxed)).sum()
    }

    /// The worker with the earliest ticket: the one that others may be waiting for.
    pub(crate) fn earliest(&self) -> Option<usize> {
        let tickets = self.places.iter().map(Place::ticket);
        tickets.enumerate().min_by_key(|(_, ticket)| *ticket).map(|(n, _)| n)
    }

    fn wait(&self, worker: usize) {
        let Some(own) = self.places.get(worker) else { return };
        let mine = own.ticket();
        let mut has_waited = false;
        let others = self.places.iter().enumerate().filter(|(n, _)| *n != worker);
        for (_, place) in others {
            let mut tries = 0;
            loop {
                let ticket = place.ticket();
                if ticket >= mine {
                    break;
                }
                if ticket.0 < place.left_behind.load(Ordering::Relaxed) {
                    own.early.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                has_waited = true;
                if !(self.pause)(tries) {
                    place.left_behind.store(mine.0, Ordering::Relaxed);
                }
                tries = tries.saturating_add(1);
            }
        }
        own.uses.fetch_add(1, Ordering::Relaxed);
        own.waits.fetch_add(u64::from(has_waited), Ordering::Relaxed);
    }
}

/// A worker's own place in the order.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    worker: usize,
}

impl Turn {
    /// Of worker `n`, from 0.
    pub(crate) fn new(turns: &Arc<Turns>, n: usize) -> Turn {
        Turn { turns: Arc::clone(turns), worker: n }
    }

    /// The worker has ended, and stays ended.
    pub(crate) fn leave(&self) {
        self.to(GONE);
    }

    #[inline]
    fn to(&self, frame: u64) {
        let Some(place) = self.turns.places.get(self.worker) else { return };
        // A worker that was abandoned stays abandoned.
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

/// State of one worker alone, or shared by its group and used in packet order.
#[derive(Debug)]
pub(crate) enum Ordered<T> {
    Own(T),
    Shared { state: Arc<Mutex<T>>, turn: Turn },
}

impl<T: Default> Default for Ordered<T> {
    fn default() -> Self {
        Ordered::Own(T::default())
    }
}

impl<T> Ordered<T> {
    /// Looks at the state.
    pub(crate) fn with_value<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        match self {
            Ordered::Own(t) => f(t),
            Ordered::Shared { state, turn } => {
                turn.wait();
                f(&state.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }

    /// Looks at the state, or changes it, for somebody whose request has no place among the packets: no turn is waited for.
    pub(crate) fn out_of_order<R>(&mut self, f: impl FnOnce(&mut T) -> R) -> R {
        match self {
            Ordered::Own(t) => f(t),
            Ordered::Shared { state, .. } => {
                f(&mut state.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }

    /// Changes it.
    pub(crate) fn write<R>(&mut self, f: impl FnOnce(&mut T) -> R) -> R {
        match self {
            Ordered::Own(t) => f(t),
            Ordered::Shared { state, turn } => {
                turn.wait();
                f(&mut state.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(_: u32) -> bool {
        std::thread::yield_now();
        true
    }

    /// Whatever the threads do, uses come in the order of tickets.
    #[test]
    fn uses_come_in_packet_order() {
        const WORKERS: usize = 3;
        let turns = Arc::new(Turns::new(WORKERS, pause));
        let log: Arc<Mutex<Vec<(u64, u64)>>> = Arc::default();
        std::thread::scope(|scope| {
            for worker in 0..WORKERS {
                let turn = Turn::new(&turns, worker);
                let mut state = Ordered::Shared { state: Arc::clone(&log), turn: turn.clone() };
                scope.spawn(move || {
                    // At some frames each worker ends flows, distinguished by their first packets.
                    let end = |state: &mut Ordered<Vec<_>>, frame: u64| {
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
                    turn.leave();
                });
            }
        });
        let log = log.lock().unwrap();
        assert!(log.is_sorted(), "{log:?}");
        assert_eq!(log.len(), 199 + 199 / 7 * WORKERS * 3 + WORKERS * 3);
    }

    /// A worker that does not come is not waited for again until it has caught up.
    #[test]
    fn waits_that_are_bounded_end_and_are_counted() {
        let turns = Arc::new(Turns::new(2, |tries| tries < 3));
        let (slow, fast) = (Turn::new(&turns, 0), Turn::new(&turns, 1));
        slow.at_frame(1);
        fast.at_frame(5);
        fast.wait();
        assert_eq!((turns.uses(), turns.early_uses()), ((1, 1), 1));
        fast.at_frame(6);
        fast.wait();
        assert_eq!((turns.uses(), turns.early_uses()), ((2, 1), 2));
        slow.at_frame(6);
        fast.wait();
        assert_eq!((turns.uses(), turns.early_uses()), ((3, 1), 2));
    }
}
