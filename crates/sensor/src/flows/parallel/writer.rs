//! The writer's side: what workers found, merged batch by batch by place, so that it is what one worker
//! alone would have found.

use super::messages::{BATCH_BYTES, Part, SharedSide, SpareFound, Workers};
use crate::flows::checkpoint::Tag;
use crate::flows::sink::Sink;
use gabion_behavior::stages::{Back, Opened, Placed, Section};
use gabion_record::logs::TimeNs;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

/// Bytes of findings of a batch whose room is used again.
const FOUND_KEPT_BYTES: usize = 2 * BATCH_BYTES;

/// Merges what workers found.
pub(super) struct Writer {
    known: Arc<Workers>,
    /// Parts of batches that are not whole yet.
    waiting: BTreeMap<u64, Vec<Part>>,
    /// The batch each worker gave last, and whether it came to its end.
    given: Vec<(Option<u64>, bool)>,
    next: u64,
    /// The batch that ends the checkpoint under way.
    saving_until: Option<u64>,
    shards: usize,
    past: SharedSide,
    /// Where what was read goes, to be filled again: of parts, and of the finding that was read last.
    spare: SpareFound,
    rooms: Vec<Placed>,
}

impl Writer {
    pub(super) fn new(
        known: Arc<Workers>,
        (workers, shards): (usize, usize),
        past: SharedSide,
        spare: SpareFound,
    ) -> Writer {
        Writer {
            known,
            waiting: BTreeMap::new(),
            given: vec![(None, false); workers],
            next: 0,
            saving_until: None,
            shards,
            past,
            spare,
            rooms: Vec::new(),
        }
    }

    /// Takes a worker's part of a batch. What comes of one that was abandoned is left out: its shards are
    /// held by others since, and its batches are written.
    pub(super) fn take(&mut self, part: Part, back: &mut Back, sink: &mut Sink) {
        if self.is_lost(part.worker) {
            sink.limits.merge(&part.limits);
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
        self.known.losses.lose(worker);
        let (lost, all) = (self.known.losses.count(), self.known.losses.workers());
        back.set_input_state(format!("{lost} of {all} workers lost"));
        self.merge(back, sink);
    }

    pub(super) fn has_lost(&self) -> bool {
        self.known.losses.count() > 0
    }

    fn is_lost(&self, worker: usize) -> bool {
        self.known.is_lost(worker)
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
            self.begin_save(sink);
            self.next += 1;
            let start = parts.first().map_or_else(TimeNs::default, |p| p.start);
            let (mut found, mut kept) = (Vec::new(), Vec::new());
            for part in parts {
                found.push(Opened::new(part.found, self.rooms.pop()));
                kept.push(part.kept);
                sink.limits.merge(&part.limits);
                if let Some((shard, bytes)) = part.saved {
                    sink.save(Tag::Engine(Section::Shard(shard)), &bytes);
                }
            }
            merged(&mut found, |placed| back.take(placed, start, &mut |f| sink.take(f)));
            for opened in found {
                let (found, room) = opened.into_room();
                self.rooms.extend(room);
                // Room that one very long batch made is not kept.
                if (1..=FOUND_KEPT_BYTES).contains(&found.capacity()) {
                    self.spare.put([found]);
                }
            }
            back.catch_up();
            back.turned(&mut |finding| sink.take(finding));
            kept.into_iter().for_each(|kept| sink.keep(kept));
            if self.saving_until.is_some_and(|until| until < self.next) {
                self.saving_until = None;
                let mut bytes = Vec::new();
                back.save(&mut bytes);
                sink.save(Tag::Engine(Section::Back), &bytes);
                sink.end_save();
            }
        }
    }

    /// Begins the checkpoint whose first batch has come.
    fn begin_save(&mut self, sink: &mut Sink) {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(save) = past.saves.pop_front_if(|save| save.batch <= self.next) else { return };
        drop(past);
        self.saving_until = Some(save.batch + 1 + self.shards as u64);
        sink.begin_save();
        sink.limits.merge(&save.limits);
        sink.save(Tag::Source, &save.source);
        sink.save(Tag::Engine(Section::Front), &save.front);
    }

    /// Reports what batches up to the next one taught the whitelist, and which windows began in them.
    fn learn(&self, back: &mut Back) {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((_, learned)) = past.learned.pop_front_if(|(batch, _)| *batch <= self.next) {
            back.learn(learned);
        }
        while let Some((_, turns)) = past.turns.pop_front_if(|(batch, _)| *batch <= self.next) {
            back.turn(turns);
        }
    }
}

/// Takes what several workers found in the order of places. Each one's findings come in that order.
fn merged(found: &mut [Opened], mut each: impl FnMut(&mut Placed)) {
    while let Some(first) =
        found.iter_mut().filter(|o| o.place().is_some()).min_by_key(|o| o.place())
        && let Some(placed) = first.current()
    {
        each(placed);
        first.advance();
    }
}
