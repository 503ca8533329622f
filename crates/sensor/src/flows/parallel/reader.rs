//! The reader's side: which worker holds which shard, the batch that is being filled, and how many
//! workers it takes.
//!
//! Shards move between two batches: their holder is asked to let go, their next one waits for them. A
//! lost worker's shards start again with those that are left.

use super::messages::{
    BATCH_BYTES, BATCH_RECORDS, Plan, Save, SharedSide, SideChannel, Spare, Work, Workers,
};
use crate::flows::source::{Seen, Source};
use crate::limits::RECORD_BATCHES_MAX;
use gabion_behavior::intel::Intel;
use gabion_behavior::stages;
use gabion_behavior::stages::Ahead;
use gabion_behavior::stages::Facts;
use gabion_behavior::stages::shard_of;
use gabion_behavior::stages::{Ends, Front};
use gabion_record::Ip;
use gabion_record::logs::Record;
use gabion_runtime::{Load, Pulse, Sender, clock};
use std::ops::ControlFlow;
use std::sync::{Arc, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// How often the number of workers is judged.
#[cfg(not(test))]
const JUDGE_EVERY: Duration = Duration::from_millis(500);
#[cfg(test)]
const JUDGE_EVERY: Duration = Duration::from_millis(20);
/// Share of the time that the reader waited for workers, in two judgements running, that asks for one
/// more.
const BEHIND: f64 = 0.25;
const BEHIND_JUDGEMENTS: u32 = 2;
/// Share of the time below which it hardly waited. After `IDLE_JUDGEMENTS` such judgements, each with empty
/// queues, one worker is sent home: some seconds, so that a pause between two bursts moves nothing.
const AT_EASE: f64 = 0.01;
const IDLE_JUDGEMENTS: u32 = 10;

/// How many workers it takes, judged by how long the reader waits for them.
#[derive(Debug, Default)]
struct Scale {
    behind: u32,
    idle: u32,
}

impl Scale {
    /// One worker more (1), one fewer (-1) or as many as now, after a while of which this share was
    /// spent waiting.
    fn judge(&mut self, share: f64, is_empty: bool) -> i32 {
        self.behind = if share > BEHIND { self.behind + 1 } else { 0 };
        self.idle = if share < AT_EASE && is_empty { self.idle + 1 } else { 0 };
        if self.behind >= BEHIND_JUDGEMENTS {
            self.behind = 0;
            return 1;
        }
        if self.idle >= IDLE_JUDGEMENTS {
            self.idle = 0;
            return -1;
        }
        0
    }
}

/// What reads and shares out.
pub(super) struct Reader {
    front: Front,
    senders: Vec<Sender<Work>>,
    known: Arc<Workers>,
    /// The holder of each shard.
    holders: Vec<usize>,
    /// Workers that are not lost, and how many of them hold shards.
    live: Vec<usize>,
    active: usize,
    parts: Vec<(Vec<u8>, u64)>,
    batch: u64,
    records: u64,
    newest: i64,
    scale: Scale,
    judged: Instant,
    waited: Duration,
    /// What the writer is to know in addition to what workers find.
    past: SharedSide,
    spare: Spare,
    changes: u64,
    restarted: u64,
    /// All was saved, and nothing is to be decided at the end.
    is_saved: bool,
    #[cfg(test)]
    plan: Vec<(u64, usize)>,
}

/// What the reader counted.
pub(super) struct Reading {
    /// What the site stage counted.
    pub(super) front: Front,
    /// How often the number of workers changed.
    pub(super) changes: u64,
    /// Shards of lost workers that started again elsewhere.
    pub(super) restarted: u64,
}

impl Reader {
    pub(super) fn new(
        front: Front,
        senders: Vec<Sender<Work>>,
        known: Arc<Workers>,
        shards: usize,
        plan: &Plan,
        (past, spare): (SharedSide, Spare),
    ) -> Reader {
        let active = if plan.is_finite { plan.workers } else { 1 };
        Reader {
            front,
            parts: senders.iter().map(|_| (Vec::new(), 0)).collect(),
            live: (0..senders.len()).collect(),
            senders,
            known,
            holders: (0..shards).map(|shard| shard % active.max(1)).collect(),
            active,
            batch: 0,
            records: 0,
            newest: 0,
            scale: Scale::default(),
            judged: clock::now(),
            waited: Duration::ZERO,
            past,
            spare,
            changes: 0,
            restarted: 0,
            is_saved: false,
            #[cfg(test)]
            plan: plan.changes.clone(),
        }
    }

    #[inline]
    fn record(&mut self, r: &Record<'_>, pulse: &Pulse) {
        let (number, facts) = self.front.observe_record(r);
        let is_full = !facts.is_ignored && self.share(number, r, &facts);
        self.records += 1;
        if is_full || self.records >= BATCH_RECORDS {
            self.send(pulse);
        }
    }

    /// Puts a record into the parts of those who hold its ends; whether one of them is full now.
    #[inline]
    fn share(&mut self, number: u64, r: &Record<'_>, facts: &Facts) -> bool {
        if facts.newest > self.newest {
            self.newest = facts.newest;
            self.parts.iter_mut().for_each(|(part, _)| {
                stages::put_turn(facts.newest, number, facts.watermark, part)
            });
        }
        let ends = self.front.ends(r);
        let src = self.holder(r.src);
        if ends != Ends::Both {
            return self.put(src, number, ends, r, facts);
        }
        let dst = self.holder(r.dst);
        if src == dst {
            return self.put(src, number, Ends::Both, r, facts);
        }
        let is_full = self.put(src, number, Ends::Source, r, facts);
        self.put(dst, number, Ends::Destination, r, facts) || is_full
    }

    fn holder(&self, ip: Ip) -> usize {
        self.holders.get(shard_of(ip, self.holders.len())).copied().unwrap_or(0)
    }

    /// Puts a record into a worker's part; whether that is full now.
    #[inline]
    fn put(&mut self, to: usize, number: u64, ends: Ends, r: &Record<'_>, facts: &Facts) -> bool {
        let Some((part, records)) = self.parts.get_mut(to) else { return false };
        stages::put_record(number, ends, r, facts, part);
        *records += 1;
        part.len() >= BATCH_BYTES
    }

    /// Sends the batch. Every worker gets a part, if only to learn how far time has come.
    fn send(&mut self, pulse: &Pulse) {
        if self.front.has_learned() {
            let learned = (self.batch, self.front.take_learned());
            self.past().learned.push_back(learned);
        }
        if self.front.has_turned() {
            let turns = (self.batch, self.front.take_turns());
            self.past().turns.push_back(turns);
        }
        let (watermark, start) = (self.front.watermark(), self.front.start());
        for to in 0..self.senders.len() {
            let Some((bytes, records)) = self.parts.get_mut(to) else { continue };
            let spare = self.spare.take_spare();
            let room = spare.unwrap_or_else(|| Vec::with_capacity(bytes.len() + bytes.len() / 8));
            let bytes = std::mem::replace(bytes, room);
            let records = std::mem::take(records);
            let work = Work::Batch { number: self.batch, records, bytes, watermark, start };
            self.hand(to, work, pulse);
        }
        self.batch += 1;
        self.records = 0;
        pulse.beat();
        self.judge(pulse);
    }

    fn past(&self) -> MutexGuard<'_, SideChannel> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room, then hands work over. A lost worker's is counted by its stage.
    fn hand(&mut self, to: usize, work: Work, pulse: &Pulse) {
        let Some(sender) = self.senders.get(to) else { return };
        let (items, bytes) = (work.items(), work.bytes());
        if sender.edge().queued() >= RECORD_BATCHES_MAX {
            let from = clock::now();
            let losses = &self.known.losses;
            // A lost worker's messages are counted by its edge.
            let _ =
                pulse.rest(|| losses.await_room(to, sender, (items, bytes), RECORD_BATCHES_MAX));
            self.waited += from.elapsed();
        }
        // Refused only when the worker is gone; then it is in the stage's ledger.
        let _ = sender.send(work);
    }

    /// Judges how many workers are needed, and who is still there.
    fn judge(&mut self, pulse: &Pulse) {
        if self.live.iter().any(|w| self.known.is_lost(*w)) {
            let known = &self.known;
            self.live.retain(|w| !known.is_lost(*w));
            self.active = self.active.min(self.live.len());
            self.assign(pulse);
        }
        #[cfg(test)]
        if !self.plan.is_empty() {
            if let Some((_, active)) = self.plan.iter().find(|(batch, _)| *batch == self.batch) {
                self.change(*active, pulse);
            }
            return;
        }
        let passed = self.judged.elapsed();
        if passed < JUDGE_EVERY {
            return;
        }
        let share = self.waited.as_secs_f64() / passed.as_secs_f64();
        let is_empty = self.senders.iter().all(|s| s.edge().queued() == 0);
        self.judged = clock::now();
        self.waited = Duration::ZERO;
        match self.scale.judge(share, is_empty) {
            1 => self.change(self.active + 1, pulse),
            -1 => self.change(self.active.saturating_sub(1), pulse),
            _ => {}
        }
    }

    /// Parts shards among this many workers.
    fn change(&mut self, active: usize, pulse: &Pulse) {
        let active = active.clamp(1, self.live.len().max(1));
        if active != self.active {
            self.changes += 1;
            self.active = active;
            self.assign(pulse);
        }
    }

    /// Hands over, between two batches, the shards that are to be held by others. Those of a lost
    /// worker start again.
    fn assign(&mut self, pulse: &Pulse) {
        for shard in 0..self.holders.len() {
            let to = shard.checked_rem(self.active).and_then(|at| self.live.get(at)).copied();
            let (Some(to), Some(holder)) = (to, self.holders.get_mut(shard)) else { continue };
            let from = std::mem::replace(holder, to);
            if from == to {
                continue;
            }
            if !self.live.contains(&from) {
                self.restarted += 1;
                continue;
            }
            let (give, take) = mpsc::sync_channel(1);
            self.hand(from, Work::Release(shard, give), pulse);
            self.hand(to, Work::Adopt { shard, holder: from, from: take }, pulse);
        }
    }

    fn set_intel(&mut self, intel: &Arc<Intel>, pulse: &Pulse) {
        self.send(pulse);
        for to in 0..self.senders.len() {
            self.hand(to, Work::Lists(Arc::clone(intel)), pulse);
        }
    }

    /// Has all saved as it is now: what workers hold between this batch and the next.
    fn save(&mut self, source: Vec<u8>, is_last: bool, pulse: &Pulse) {
        self.send(pulse);
        let mut front = Vec::new();
        self.front.save(&mut front);
        let (number, start) = (self.batch, self.front.start());
        let limits = gabion_record::limits::take_reached();
        let mut past = self.past();
        past.saves.push_back(Save { batch: number, source, front, limits });
        past.is_saved |= is_last;
        drop(past);
        for to in 0..self.senders.len() {
            self.hand(to, Work::Save { number, start }, pulse);
        }
        self.batch += self.holders.len() as u64 + 2;
        self.is_saved |= is_last;
    }

    fn finish(&mut self, pulse: &Pulse) {
        self.send(pulse);
        if self.front.has_turned() {
            let turns = (self.batch, self.front.take_turns());
            self.past().turns.push_back(turns);
        }
        let (watermark, start) = (self.front.watermark(), self.front.start());
        let (number, is_saved) = (self.batch, self.is_saved);
        for to in 0..self.senders.len() {
            self.hand(to, Work::End { number, watermark, start, is_saved }, pulse);
        }
    }
}

/// What the reader thread does; gives the source back.
pub(super) fn read_source<S: Source>(
    mut source: S,
    mut reader: Reader,
    pulse: &Pulse,
) -> (S, Reading) {
    source.run(&mut |seen| {
        match seen {
            Seen::Records(records) => {
                reader.front.prefetch(records.iter().map(Ahead::from_record));
                records.iter().for_each(|r| reader.record(r, pulse));
            }
            Seen::Lists(intel) => reader.set_intel(&intel, pulse),
            Seen::State(state) => reader.past().state = Some(state),
            Seen::Checkpoint(source, is_last) => reader.save(source, is_last, pulse),
            Seen::Idle if reader.records > 0 => reader.send(pulse),
            Seen::Idle => {
                pulse.beat();
                reader.judge(pulse);
            }
        }
        // Without workers it makes no sense to continue.
        if reader.live.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    reader.finish(pulse);
    let Reader { front, changes, restarted, .. } = reader;
    (source, Reading { front, changes, restarted })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One second behind asks for one more, five at ease send one home; what lies between changes
    /// nothing, however long it lasts, and one pause or one burst does not either.
    #[test]
    fn the_number_of_workers_follows_the_waiting_with_hysteresis() {
        let run = |steps: &[(f64, bool)]| {
            let mut scale = Scale::default();
            let all: Vec<i32> = steps.iter().map(|s| scale.judge(s.0, s.1)).collect();
            (all.iter().sum::<i32>(), all)
        };
        assert_eq!(run(&[(0.5, false), (0.5, false)]).1, [0, 1]);
        assert_eq!(run(&[(0.9, false); 8]).0, 4);
        assert_eq!(run(&[(0.5, false), (0.1, false), (0.5, false), (0.2, false)]).0, 0);
        assert_eq!(run(&[(0.1, false); 100]).0, 0);
        assert_eq!(run(&[(0.1, true); 100]).0, 0);
        assert_eq!(run(&[(0.0, false); 100]).0, 0);
        assert_eq!(run(&[(0.0, true); 9]).0, 0);
        assert_eq!(run(&[(0.0, true); 10]).0, -1);
        let mut broken = vec![(0.0, true); 9];
        broken.push((0.02, false));
        broken.extend([(0.0, true); 9]);
        assert_eq!(run(&broken).0, 0);
    }
}
