//! The moment at which workers with rings of their own go over to an engine that was loaded during the run: all of them
//! with the same slice of time, so that lines of one slice were made by one engine.

use super::reload::RunningEngine;
use gabion_net::Engine;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Slices until an engine is used: no worker is so far ahead.
const SLICES_UNTIL_USE: u64 = 10;

/// An engine that follows another, and the slice from which on it is used.
struct Next {
    slice: u64,
    engine: Arc<Engine>,
    /// Workers that have not gone over yet.
    left: usize,
}

#[derive(Default)]
struct State {
    /// The generation of the newest engine that was agreed on.
    newest: Option<u32>,
    /// How many have been used by all workers.
    past: usize,
    next: VecDeque<Next>,
}

/// What the workers of a run agree on.
pub(super) struct Adoptions {
    running: Arc<RunningEngine>,
    workers: usize,
    state: Mutex<State>,
}

impl Adoptions {
    pub(super) fn new(running: &Arc<RunningEngine>, workers: usize) -> Adoptions {
        Adoptions { running: Arc::clone(running), workers, state: Mutex::default() }
    }

    /// The engine that a worker uses from this slice on, which has gone over `taken` times so far and has an engine of
    /// this generation; `now` is the slice of the clock. None: it continues with its own.
    #[inline]
    pub(super) fn due(
        &self,
        generation: u32,
        taken: &mut usize,
        (slice, now): (u64, u64),
    ) -> Option<(u64, Arc<Engine>)> {
        let newest = self.running.other_than(generation)?;
        self.take_due(newest, taken, (slice, now))
    }

    #[cold]
    fn take_due(
        &self,
        newest: Arc<Engine>,
        taken: &mut usize,
        (slice, now): (u64, u64),
    ) -> Option<(u64, Arc<Engine>)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.newest != Some(newest.generation) {
            state.newest = Some(newest.generation);
            let last = state.next.back().map_or(0, |next| next.slice);
            let next = Next {
                slice: last.max(now.saturating_add(SLICES_UNTIL_USE)),
                engine: newest,
                left: self.workers,
            };
            state.next.push_back(next);
        }
        let mut due = None;
        // Of several that are due the last is used: none had a slice of its own.
        while let Some(next) = taken.checked_sub(state.past).and_then(|at| state.next.get_mut(at)) {
            if next.slice > slice {
                break;
            }
            *taken += 1;
            next.left = next.left.saturating_sub(1);
            due = Some((next.slice, Arc::clone(&next.engine)));
        }
        while state.next.front().is_some_and(|next| next.left == 0) {
            state.next.pop_front();
            state.past += 1;
        }
        due
    }
}
