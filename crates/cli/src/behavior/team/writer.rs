//! The writer's side: what workers found, merged batch by batch by place, so that it is what one worker
//! alone would have said.

use super::{Known, Part, Past, Sink};
use gabion_behavior::{Back, Placed};
use gabion_record::logs::TimeNs;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::{Arc, PoisonError};
use std::vec::IntoIter;

/// Merges what workers found.
pub(super) struct Writer {
    known: Arc<Vec<Known>>,
    /// Parts of batches that are not whole yet.
    waiting: BTreeMap<u64, Vec<Part>>,
    /// The batch each worker gave last, and whether it came to its end.
    given: Vec<(Option<u64>, bool)>,
    next: u64,
    past: Past,
}

impl Writer {
    pub(super) fn new(known: Arc<Vec<Known>>, workers: usize, past: Past) -> Writer {
        let given = vec![(None, false); workers];
        Writer { known, waiting: BTreeMap::new(), given, next: 0, past }
    }

    /// Takes a worker's part of a batch. What comes of one that was given up is left out: its shards are
    /// held by others since, and its batches are written.
    pub(super) fn take(&mut self, part: Part, back: &mut Back, sink: &mut Sink) {
        if self.is_lost(part.worker) {
            return;
        }
        if let Some(given) = self.given.get_mut(part.worker) {
            *given = (Some(part.batch), part.is_end);
        }
        self.waiting.entry(part.batch).or_default().push(part);
        self.merge(back, sink);
    }

    /// A worker will give nothing more.
    pub(super) fn lose(&mut self, worker: usize, back: &mut Back, sink: &mut Sink) {
        if let Some(known) = self.known.get(worker) {
            known.lose();
        }
        let lost = self.known.iter().filter(|k| k.is_lost()).count();
        let all = self.known.len();
        back.set_input_state(format!("{lost} of {all} workers lost"));
        self.merge(back, sink);
    }

    pub(super) fn has_lost(&self) -> bool {
        self.known.iter().any(Known::is_lost)
    }

    fn is_lost(&self, worker: usize) -> bool {
        self.known.get(worker).is_some_and(Known::is_lost)
    }

    /// Workers that are not known to be lost and did not come to their end.
    pub(super) fn unfinished(&self) -> Vec<usize> {
        let is_open = |w: &usize| !self.is_lost(*w) && !self.given.get(*w).is_some_and(|g| g.1);
        (0..self.given.len()).filter(is_open).collect()
    }

    /// Whether all that are left came to their end.
    pub(super) fn is_done(&self) -> bool {
        (0..self.given.len()).all(|w| self.is_lost(w) || self.given.get(w).is_some_and(|g| g.1))
    }

    /// Writes the batches that are whole.
    fn merge(&mut self, back: &mut Back, sink: &mut Sink) {
        loop {
            let has = |w: usize| self.given.get(w).is_some_and(|g| g.0 >= Some(self.next));
            if !(0..self.given.len()).all(|w| has(w) || self.is_lost(w)) {
                return;
            }
            let Some(parts) = self.waiting.remove(&self.next) else {
                if self.waiting.is_empty() {
                    return;
                }
                self.next += 1;
                continue;
            };
            self.learn(back);
            self.next += 1;
            let start = parts.first().map_or_else(TimeNs::default, |p| p.start);
            let (mut found, mut kept) = (Vec::new(), Vec::new());
            for part in parts {
                found.push(part.placed);
                kept.push(part.kept);
            }
            merged(found, |placed| back.take(placed, start, &mut |finding| sink.take(finding)));
            back.catch_up();
            kept.into_iter().for_each(|kept| sink.keep(kept));
        }
    }

    /// Tells what batches up to the next one taught the whitelist.
    fn learn(&self, back: &mut Back) {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((_, learned)) = past.learned.pop_front_if(|(batch, _)| *batch <= self.next) {
            back.learn(learned);
        }
    }
}

/// Takes what several workers found in the order of places. Each one's findings come in that order; to
/// sort all of them would move each several times.
fn merged(found: Vec<Vec<Placed>>, mut each: impl FnMut(Placed)) {
    let in_order = |mut placed: Vec<Placed>| {
        if !placed.is_sorted_by_key(|p| p.place) {
            placed.sort_unstable_by_key(|p| p.place);
        }
        placed.into_iter().peekable()
    };
    let mut found: Vec<_> = found.into_iter().map(in_order).collect();
    let place_of = |(at, placed): (usize, &mut Peekable<IntoIter<Placed>>)| {
        placed.peek().map(|p| (p.place, at))
    };
    while let Some((_, at)) = found.iter_mut().enumerate().filter_map(place_of).min() {
        if let Some(placed) = found.get_mut(at).and_then(Iterator::next) {
            each(placed);
        }
    }
}
