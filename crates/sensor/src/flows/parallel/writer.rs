//! The writer's side: what workers found, merged batch by batch by place, so that it is what one worker
//! alone would have found.

use super::messages::{Part, SharedSide, SpareFound, Workers};
use crate::flows::checkpoint::Tag;
use crate::flows::sink::Sink;
use crate::limits::FOUND_KEPT_BYTES_MAX;
use gabion_behavior::stages::{Back, Opened, Placed, Section};
use gabion_record::logs::TimeNs;
use gabion_runtime::fanout::{self, Rounds};
use std::sync::{Arc, PoisonError};

/// Merges what workers found.
pub(super) struct Writer {
    known: Arc<Workers>,
    /// Parts of batches that are not whole yet.
    batches: Rounds<Part>,
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
        shards: usize,
        past: SharedSide,
        spare: SpareFound,
    ) -> Writer {
        Writer {
            batches: Rounds::new(known.losses.clone()),
            known,
            saving_until: None,
            shards,
            past,
            spare,
            rooms: Vec::new(),
        }
    }

    /// Takes a worker's part of a batch. What comes of one that was abandoned is left out: its shards are
    /// held by others since, and its batches are written.
    pub(super) fn write_part(&mut self, part: Part, back: &mut Back, sink: &mut Sink) {
        if self.is_lost(part.worker) {
            sink.limits.merge(&part.limits);
            return;
        }
        let (worker, is_end) = (part.worker, part.is_end);
        self.batches.put(worker, part.batch, part);
        if is_end {
            self.batches.end(worker);
        }
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
        self.batches.unfinished().collect()
    }

    /// Whether all that are left came to their end.
    pub(super) fn is_done(&self) -> bool {
        self.batches.unfinished().next().is_none()
    }

    /// Writes the batches that are whole.
    fn merge(&mut self, back: &mut Back, sink: &mut Sink) {
        while let Some((batch, parts)) = self.batches.take_whole() {
            self.learn(batch, back);
            self.begin_save(batch, sink);
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
            fanout::merge(&mut found, Opened::place, |opened, _| {
                if let Some(placed) = opened.current() {
                    back.take_placed(placed, start, &mut |f| sink.take_finding(f));
                }
                opened.advance();
            });
            for opened in found {
                let (found, room) = opened.into_room();
                self.rooms.extend(room);
                // Room that one very long batch made is not kept.
                if (1..=FOUND_KEPT_BYTES_MAX).contains(&found.capacity()) {
                    self.spare.put([found]);
                }
            }
            back.catch_up();
            back.turned(&mut |finding| sink.take_finding(finding));
            kept.into_iter().for_each(|kept| sink.keep(kept));
            if self.saving_until.is_some_and(|until| until <= batch) {
                self.saving_until = None;
                let mut bytes = Vec::new();
                back.save(&mut bytes);
                sink.save(Tag::Engine(Section::Back), &bytes);
                sink.end_save();
            }
        }
    }

    /// Begins the checkpoint whose first batch has come.
    fn begin_save(&mut self, batch: u64, sink: &mut Sink) {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(save) = past.saves.pop_front_if(|save| save.batch <= batch) else { return };
        drop(past);
        self.saving_until = Some(save.batch + 1 + self.shards as u64);
        sink.begin_save();
        sink.limits.merge(&save.limits);
        sink.save(Tag::Source, &save.source);
        sink.save(Tag::Engine(Section::Front), &save.front);
    }

    /// Reports what batches up to this one taught the whitelist, and which windows began in them.
    fn learn(&self, until: u64, back: &mut Back) {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((_, learned)) = past.learned.pop_front_if(|(batch, _)| *batch <= until) {
            back.learn(learned);
        }
        while let Some((_, turns)) = past.turns.pop_front_if(|(batch, _)| *batch <= until) {
            back.turn(turns);
        }
    }
}
