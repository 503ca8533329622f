//! A worker: the shards it holds, what comes to it, and what it returns.

use super::messages::{BATCH_BYTES, Given, LOOK, Moved, Part, Spare, SpareFound, Work, Workers};
use gabion_behavior::limits::TOGETHER;
use gabion_behavior::stages::Ahead;
use gabion_behavior::stages::{self, Found, Parcel};
use gabion_behavior::stages::{Placed, Shards};
use gabion_record::limits;
use gabion_record::logs::TimeNs;
use gabion_runtime::{Pulse, Receiver, Sender};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, mpsc};

/// A worker's own side.
pub(super) struct Holder {
    pub(super) worker: usize,
    pub(super) shards: Shards,
    pub(super) inbox: Receiver<Work>,
    pub(super) out: Sender<Part>,
    pub(super) known: Arc<Workers>,
    pub(super) spare: Spare,
    pub(super) spare_found: SpareFound,
    /// About as many bytes of findings as the next batch will have.
    pub(super) room: usize,
    #[cfg(test)]
    pub(super) fault: Option<super::acted_fault::Fault>,
}

impl Holder {
    /// Works until the end of the run, or until it is abandoned.
    pub(super) fn run(mut self, pulse: &Pulse) -> Given {
        while let Some(work) = pulse.await_input(|| self.inbox.recv()) {
            let is_end = matches!(work, Work::End { .. });
            self.work(work, pulse);
            self.account();
            if self.is_abandoned() {
                // Its shards are held elsewhere by now. What still waits for it is counted as lost at the
                // end of the run, so it must not vanish before.
                if let Some(known) = self.known.get(self.worker) {
                    let mut left = known.left.lock().unwrap_or_else(PoisonError::into_inner);
                    *left = Some(self.inbox);
                }
                return Given::default();
            }
            if is_end {
                break;
            }
            pulse.beat();
        }
        Given::from_shards(&self.shards)
    }

    fn work(&mut self, work: Work, pulse: &Pulse) {
        match work {
            Work::Batch { number, records, mut bytes, watermark, start } => {
                if let Some(known) = self.known.get(self.worker) {
                    known.held.store(records, Relaxed);
                }
                #[cfg(test)]
                super::acted_fault::act(self.fault, number, || self.is_abandoned());
                let mut found = self.spare_found();
                let mut placed = Vec::new();
                let mut rest = bytes.as_slice();
                let mut ahead = rest;
                for at in 0.. {
                    if at % TOGETHER == 0 {
                        ahead = self.expect(ahead);
                    }
                    let Some((parcel, behind)) = stages::take_parcel(rest) else { break };
                    rest = behind;
                    match parcel {
                        Parcel::Turn(window, number, watermark) => {
                            self.shards.turn(window, number, watermark, &mut placed);
                        }
                        Parcel::Record(number, ends, r, facts) => {
                            self.shards.record(number, &r, &facts, ends, &mut placed);
                        }
                    }
                    pack(&mut placed, &mut found);
                }
                self.shards.fire(watermark, &mut placed);
                pack(&mut placed, &mut found);
                bytes.clear();
                // Room that one very long record made is not kept.
                if bytes.capacity() <= 2 * BATCH_BYTES {
                    self.spare.put([bytes]);
                }
                self.room = found.bytes() + found.bytes() / 8;
                self.give(number, start, found, pulse);
            }
            Work::Lists(intel) => self.shards.set_intel(intel),
            Work::Release(shard, to) => {
                // The thread that asked for it may be gone with the whole run.
                let _ = to.send(self.shards.release(shard));
            }
            Work::Adopt { shard, holder, from } => {
                // A lost holder's shard is lost with it; another begins in its place.
                if let Some((held, timers)) = pulse.rest(|| self.moved(holder, &from)) {
                    self.shards.adopt(shard, held, timers);
                }
            }
            Work::Save { number, start } => {
                // What waits to be handed over is, so that what is saved is all there is.
                self.shards.settle_kept();
                let kept = self.shards.take_kept();
                let part = |batch| Part::empty(self.worker, batch, start);
                self.pass_on(Part { kept, ..part(number) }, pulse);
                self.shards.save(&mut |shard, bytes| {
                    let batch = number + 1 + shard as u64;
                    self.pass_on(Part { saved: Some((shard, bytes)), ..part(batch) }, pulse);
                    pulse.beat();
                });
                let last = number + 1 + self.shards.count() as u64;
                self.pass_on(part(last), pulse);
            }
            Work::End { number, start, is_saved: true, .. } => {
                let part = Part::empty(self.worker, number, start);
                self.pass_on(Part { is_end: true, ..part }, pulse);
            }
            Work::End { number, watermark, start, .. } => {
                let mut found = self.spare_found();
                self.shards.finish(watermark, &mut |placed| found.put(&placed));
                self.give(number, start, found, pulse);
                // Each shard's profiles go as a batch of their own, the same one whatever worker holds it.
                let mut next = number;
                for shard in 0..self.shards.count() {
                    next += 1;
                    let kept = self.shards.keep_rest(shard);
                    if !kept.is_empty() {
                        let part = Part::empty(self.worker, next, start);
                        self.pass_on(Part { kept, ..part }, pulse);
                    }
                    pulse.beat();
                }
                let part = Part::empty(self.worker, next + 1, start);
                self.pass_on(Part { is_end: true, ..part }, pulse);
            }
        }
    }

    /// Looks at the profiles of the next few parcels; gives what follows those.
    fn expect<'a>(&self, mut parcels: &'a [u8]) -> &'a [u8] {
        let mut records = [Ahead::default(); TOGETHER];
        for place in &mut records {
            let Some((ends, behind)) = stages::ahead(parcels) else { break };
            *place = ends.unwrap_or_default();
            parcels = behind;
        }
        self.shards.prefetch(records.into_iter());
        parcels
    }

    fn is_abandoned(&self) -> bool {
        self.known.is_lost(self.worker)
    }

    /// Leaves word of what it holds, for the case that it is lost.
    fn account(&self) {
        if !self.is_abandoned()
            && let Some(known) = self.known.get(self.worker)
        {
            known.held.store(0, Relaxed);
            let given = Given::from_shards(&self.shards);
            *known.given.lock().unwrap_or_else(PoisonError::into_inner) = given;
        }
    }

    /// A shard on its way from another worker, unless that one is lost.
    fn moved(&self, holder: usize, from: &mpsc::Receiver<Moved>) -> Option<Moved> {
        loop {
            match from.recv_timeout(LOOK) {
                Ok(moved) => return Some(moved),
                Err(mpsc::RecvTimeoutError::Disconnected) => return None,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    if self.known.is_lost(holder) {
                        return None;
                    }
                }
            }
        }
    }

    /// Gives what was found in a batch, and the profiles of windows that ended in it.
    fn give(&mut self, batch: u64, start: TimeNs, found: Found, pulse: &Pulse) {
        let kept = self.shards.take_kept();
        let part = Part::empty(self.worker, batch, start);
        self.pass_on(Part { found, kept, ..part }, pulse);
    }

    /// Room for findings.
    fn spare_found(&self) -> Found {
        self.spare_found.take_spare().unwrap_or_else(|| Found::with_room(self.room))
    }

    /// Gives a part, and with it which limits were reached up to there.
    fn pass_on(&self, part: Part, pulse: &Pulse) {
        let part =
            if limits::is_any() { Part { limits: limits::take_reached(), ..part } } else { part };
        // Without a writer the run is over.
        let _ = pulse.rest(|| self.out.send(part).is_ok());
    }
}

/// Packs what was found while it is near.
#[inline]
fn pack(placed: &mut Vec<Placed>, found: &mut Found) {
    for placed in placed.drain(..) {
        found.put(&placed);
    }
}
