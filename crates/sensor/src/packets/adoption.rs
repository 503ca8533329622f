//! The moment at which workers with rings of their own go over to an engine that was loaded during the run: all of them
//! with the same slice of time, so that lines of one slice were made by one engine.

use super::reload::RunningEngine;
use gabion_net::Engine;
use gabion_runtime::fanout::Losses;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Slices until an engine is used: no worker is so far ahead.
const SLICES_UNTIL_USE: u64 = 10;

/// An engine that follows another, and the slice from which on it is used.
struct Next {
    slice: u64,
    engine: Arc<Engine>,
    /// By worker: whether it has gone over.
    is_used: Vec<bool>,
}

/// A worker that asks which engine it is to use.
pub(super) struct Adopter<'a> {
    pub(super) n: usize,
    /// Of the engine that it has.
    pub(super) generation: u32,
    pub(super) losses: &'a Losses,
}

#[derive(Default)]
struct State {
    /// The generation of the newest engine that was agreed on.
    newest: Option<u32>,
    /// How many have been used by all workers that are not lost.
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

    /// The engine that a worker uses from this slice on, which has gone over `taken` times so far; `now` is the slice of
    /// the clock. None: it continues with its own.
    #[inline]
    pub(super) fn due(
        &self,
        adopter: &Adopter<'_>,
        taken: &mut usize,
        (slice, now): (u64, u64),
    ) -> Option<(u64, Arc<Engine>)> {
        let newest = self.running.other_than(adopter.generation)?;
        self.take_due(adopter, newest, taken, (slice, now))
    }

    #[cold]
    fn take_due(
        &self,
        adopter: &Adopter<'_>,
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
                is_used: vec![false; self.workers],
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
            if let Some(is_used) = next.is_used.get_mut(adopter.n) {
                *is_used = true;
            }
            due = Some((next.slice, Arc::clone(&next.engine)));
        }
        // A worker that is lost never goes over: no engine is kept for it.
        let is_over = |next: &Next| {
            let mut all = next.is_used.iter().enumerate();
            all.all(|(n, is_used)| *is_used || adopter.losses.is_lost(n))
        };
        while state.next.front().is_some_and(is_over) {
            state.next.pop_front();
            state.past += 1;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::{LoadedEngine, test_engine};
    use gabion_rules::Counts;

    /// Three workers, of which the last is lost: engines that the others use are kept no longer.
    #[test]
    fn no_engine_is_kept_for_a_worker_that_is_lost() {
        let loaded = |generation| {
            let mut engine = test_engine::without_rules();
            engine.generation = generation;
            LoadedEngine { engine, counts: Counts::default(), failed: Vec::new() }
        };
        let running = RunningEngine::begin(loaded(0));
        let adoptions = Adoptions::new(&running, 3);
        let losses = Losses::new(3);
        losses.lose(2);
        let mut taken = [0; 2];
        for generation in 1..5 {
            running.replace(loaded(generation));
            let now = u64::from(generation) * 100;
            for (n, taken) in taken.iter_mut().enumerate() {
                let adopter = Adopter { n, generation: generation - 1, losses: &losses };
                assert!(adoptions.due(&adopter, taken, (now, now)).is_none());
                let later = now + SLICES_UNTIL_USE;
                let due = adoptions.due(&adopter, taken, (later, later));
                assert_eq!(due.map(|(_, engine)| engine.generation), Some(generation));
            }
            let state = adoptions.state.lock().unwrap();
            assert_eq!((state.next.len(), state.past), (0, generation as usize));
        }
    }
}
