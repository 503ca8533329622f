//! The behaviour engine on several threads.
//!
//! A reader thread reads, passes the site stage and puts each record as a parcel into the batch of the
//! worker that holds its shard; it waits when a worker is some batches behind. Workers give what they
//! find back a batch at a time; this thread merges it by place, so that evidence is byte for byte what
//! one worker says, accumulates and writes. How many of the workers hold shards follows how much the
//! reader has to wait for them; a shard moves between two batches, and its new holder waits for it.
//!
//! A worker that panics is said at once, one that stalls within two seconds; when it does not come
//! back it is given up. Its records are shed as `worker_lost` and the run ends with an error.

use super::sink::Sink;
use gabion_behavior::intel::Intel;
use gabion_behavior::parcel::{self, Parcel};
use gabion_behavior::shard::{Kept, Shard, ShardCounts, shard_of};
use gabion_behavior::{Back, Counts, Ends, Front, Placed, Settings, Shards};
use gabion_record::Ip;
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_record::logs::{Record, TimeNs};
use gabion_runtime::channel::Empty;
use gabion_runtime::{
    Capacity, Edge, EventKind, Load, Pulse, Receiver, Sender, Supervisor, channel, clock,
};
use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Records of a batch, over all workers: some milliseconds of work.
const BATCH_RECORDS: u64 = 8_192;
/// Bytes of one worker's part that end a batch.
const BATCH_BYTES: usize = 512 << 10;
/// Batches under way to one worker. With the bytes above this is all that waits.
const BATCHES_MAX: u64 = 4;
/// Findings under way from all workers.
const FROM_WORKERS: Capacity = Capacity { items: 1 << 16, bytes: 16 << 20 };
/// How long the reader waits between two looks for room.
const WAIT_FOR_ROOM: Duration = Duration::from_micros(200);
/// How long one look for findings waits before events are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long a stalled worker is waited for before it is given up.
#[cfg(not(test))]
const STALL_GRACE: Duration = Duration::from_secs(10);
#[cfg(test)]
const STALL_GRACE: Duration = Duration::from_millis(200);
/// How often the number of workers is judged.
const JUDGE_EVERY: Duration = Duration::from_millis(500);
/// Share of the time that the reader waited for workers, in two judgements running, that asks for one
/// more.
const BEHIND: f64 = 0.25;
/// Judgements without any wait, with empty queues, after which one is sent home.
const IDLE_JUDGEMENTS: u32 = 10;

/// What reads.
pub(crate) trait Source: Send {
    /// Reads until the end, until asked to stop or until `each` breaks off.
    fn run(&mut self, each: &mut dyn FnMut(Seen<'_, '_>) -> ControlFlow<()>);
}

/// What is read.
pub(crate) enum Seen<'a, 'r> {
    /// A record.
    Record(&'a Record<'r>),
    /// Other lists of what is bad.
    Lists(Arc<Intel>),
    /// Nothing at the moment.
    Idle,
}

/// A run by several workers.
pub(crate) struct Plan {
    /// Most workers.
    pub(crate) workers: usize,
    /// Bytes for seeds and profiles.
    pub(crate) budget: usize,
    /// The input has an end: all workers begin at once.
    pub(crate) is_finite: bool,
    /// Profiles are to be kept at the end of their windows.
    pub(crate) keeps_windows: bool,
    /// So many workers from these batches on, whatever the judgement.
    pub(crate) changes: Vec<(u64, usize)>,
    /// A fault to act out: worker, batch, whether it stalls rather than panics.
    pub(crate) fault: Option<(usize, u64, bool)>,
}

/// A run that came to its end.
pub(crate) struct Done<S> {
    /// What read.
    pub(crate) source: S,
    pub(crate) counts: Counts,
    /// Sources: come, gone, folded, held.
    pub(crate) sources: Ledger,
    /// Records between the reader and the workers.
    pub(crate) parcels: Ledger,
    /// Workers that were lost on the way, and the records they were working on then.
    pub(crate) lost: usize,
    pub(crate) lost_records: u64,
    /// How often the number of workers changed.
    pub(crate) changes: u64,
}

type Moved = (Option<Box<Shard>>, Vec<(i64, Ip)>);

/// What goes to a worker.
enum Work {
    Batch { number: u64, records: u64, bytes: Vec<u8>, watermark: TimeNs, start: TimeNs },
    Lists(Arc<Intel>),
    Release(usize, mpsc::SyncSender<Moved>),
    Adopt { shard: usize, holder: usize, from: mpsc::Receiver<Moved> },
    End { number: u64, watermark: TimeNs, start: TimeNs },
}

impl Load for Work {
    fn items(&self) -> u64 {
        match self {
            Work::Batch { records, .. } => *records,
            _ => 0,
        }
    }
    fn bytes(&self) -> u64 {
        match self {
            Work::Batch { bytes, .. } => bytes.len() as u64,
            _ => 0,
        }
    }
}

/// What a worker found in one batch.
struct Part {
    worker: usize,
    batch: u64,
    start: TimeNs,
    placed: Vec<Placed>,
    kept: Vec<Kept>,
    is_end: bool,
}

impl Load for Part {
    fn items(&self) -> u64 {
        self.placed.len() as u64
    }
    fn bytes(&self) -> u64 {
        (self.placed.len() * 512 + self.kept.iter().map(|k| k.bytes.len()).sum::<usize>()) as u64
    }
}

/// What all know of a worker.
#[derive(Default)]
struct Known {
    is_lost: AtomicBool,
    /// Records it was working on when it was lost.
    held: AtomicU64,
}

/// Runs a source through so many workers.
///
/// # Errors
/// If threads can't be started.
pub(crate) fn run<S: Source + 'static>(
    source: S,
    front: Front,
    mut back: Back,
    settings: &Arc<Settings>,
    plan: Plan,
    sink: &mut Sink,
    say: &mut dyn FnMut(String),
) -> io::Result<Done<S>> {
    let supervisor = Supervisor::start()?;
    let (out, found, _) = channel::<Part>("shards>writer", FROM_WORKERS);
    let known: Arc<Vec<Known>> = Arc::new((0..plan.workers).map(|_| Known::default()).collect());
    let mut senders = Vec::new();
    let mut workers = Vec::new();
    for worker in 0..plan.workers {
        let capacity = Capacity { items: u64::MAX >> 1, bytes: u64::MAX >> 1 };
        let (sender, inbox, edge) = channel::<Work>("reader>shards", capacity);
        let mut shards = Shards::new(Arc::clone(settings), plan.budget);
        if plan.keeps_windows {
            shards.keep_windows();
        }
        let out = out.clone();
        let fault = plan.fault.filter(|f| f.0 == worker).map(|f| (f.1, f.2));
        let known = Arc::clone(&known);
        let thread = supervisor.spawn(&name(worker), Some(Arc::clone(&edge)), move |pulse| {
            Holder { worker, shards, inbox, out, fault, known }.run(pulse)
        })?;
        senders.push(sender);
        workers.push(thread);
    }
    drop(out);
    let edges: Vec<Arc<Edge>> = senders.iter().map(|s| Arc::clone(s.edge())).collect();
    let count = Shards::new(Arc::clone(settings), plan.budget).count();
    let reader = Reader::new(front, senders, Arc::clone(&known), count, &plan);
    let reader = supervisor.spawn("reader", None, move |pulse| read(source, reader, pulse))?;
    let mut writer = Writer::new(Arc::clone(&known), plan.workers);
    let mut stalled: BTreeMap<usize, Instant> = BTreeMap::new();
    loop {
        match found.recv_timeout(LOOK) {
            Ok(part) => writer.take(part, &mut back, sink),
            Err(Empty::Ended) => break,
            Err(Empty::Yet) => sink.idle(),
        }
        while let Some(event) = supervisor.poll_event() {
            let at = (0..plan.workers).find(|w| name(*w) == event.name);
            match (event.kind, at) {
                (EventKind::Finished, _) => {}
                (EventKind::Panicked, at) => {
                    say(format!(
                        "{}: failed: {}: its records are shed, report this",
                        event.name, event.message
                    ));
                    if let Some(at) = at {
                        writer.lose(at, &mut back, sink);
                    }
                }
                (EventKind::Stalled, at) => {
                    say(format!("{}: stalled: {}: waiting for it", event.name, event.message));
                    if let Some(at) = at {
                        stalled.insert(at, clock::now());
                    }
                }
                (EventKind::Recovered, at) => {
                    say(format!("{}: recovered: {}", event.name, event.message));
                    if let Some(at) = at {
                        stalled.remove(&at);
                    }
                }
            }
        }
        let given_up: Vec<usize> =
            stalled.iter().filter(|(_, t)| t.elapsed() >= STALL_GRACE).map(|(at, _)| *at).collect();
        for at in given_up {
            stalled.remove(&at);
            say(format!(
                "{}: given up: it did not go on: its records are shed, report this",
                name(at)
            ));
            writer.lose(at, &mut back, sink);
        }
        if writer.is_done() && known.iter().any(|k| k.is_lost.load(Relaxed)) {
            break;
        }
    }
    // Who failed at the very end may be heard of only now.
    for at in writer.unfinished() {
        let why = std::iter::from_fn(|| supervisor.poll_event()).find(|e| e.name == name(at));
        let message = why.map_or_else(String::new, |e| e.message);
        say(format!("{}: failed: {message}: its records are shed, report this", name(at)));
        writer.lose(at, &mut back, sink);
    }
    let read = reader.join();
    let Some((source, mut counts, changes)) = read else {
        return Err(io::Error::other("the reader failed"));
    };
    let mut sources = Ledger::new();
    let mut parcels = Ledger::new();
    let (mut lost, mut lost_records) = (0, 0);
    for (at, worker) in workers.into_iter().enumerate() {
        let mut ledger = edges.get(at).map_or_else(Ledger::new, |e| e.ledger());
        let is_lost = known.get(at).is_some_and(|k| k.is_lost.load(Relaxed));
        match if is_lost { None } else { worker.join() } {
            Some((shards, held)) => {
                counts.enter(&shards);
                sources.merge(&held);
            }
            None => {
                lost += 1;
                lost_records += known.get(at).map_or(0, |k| k.held.load(Relaxed));
                // What waits for a worker that never comes back is lost with it.
                let left = ledger.in_flight();
                ledger.set_in_flight(0, 0);
                ledger.shed(ShedReason::WorkerLost, left.items, left.bytes);
            }
        }
        parcels.merge(&ledger);
    }
    back.enter(&mut counts);
    Ok(Done { source, counts, sources, parcels, lost, lost_records, changes })
}

fn name(worker: usize) -> String {
    format!("behavior {worker}")
}

/// A worker's own side.
struct Holder {
    worker: usize,
    shards: Shards,
    inbox: Receiver<Work>,
    out: Sender<Part>,
    fault: Option<(u64, bool)>,
    known: Arc<Vec<Known>>,
}

impl Holder {
    fn run(mut self, pulse: &Pulse) -> (ShardCounts, Ledger) {
        while let Some(work) = pulse.await_input(|| self.inbox.recv()) {
            match work {
                Work::Batch { number, records, bytes, watermark, start } => {
                    if let Some(known) = self.known.get(self.worker) {
                        known.held.store(records, Relaxed);
                    }
                    self.act_fault(number);
                    let mut placed = Vec::new();
                    let mut rest = bytes.as_slice();
                    while let Some((parcel, behind)) = parcel::take(rest) {
                        rest = behind;
                        match parcel {
                            Parcel::Turn(window) => self.shards.turn(window),
                            Parcel::Record(number, ends, r, facts) => {
                                self.shards.record(number, &r, &facts, ends, &mut placed);
                            }
                        }
                    }
                    self.shards.fire(watermark, &mut placed);
                    self.give(number, start, placed, false, pulse);
                }
                Work::Lists(intel) => self.shards.set_intel(intel),
                Work::Release(shard, to) => {
                    // Who asked for it may be gone with the whole run.
                    let _ = to.send(self.shards.release(shard));
                }
                Work::Adopt { shard, holder, from } => {
                    // A lost holder's shard is lost with it; another begins in its place.
                    if let Some((held, timers)) = pulse.rest(|| self.moved(holder, &from)) {
                        self.shards.adopt(shard, held, timers);
                    }
                }
                Work::End { number, watermark, start } => {
                    let mut placed = Vec::new();
                    self.shards.finish(watermark, &mut placed);
                    self.give(number, start, placed, true, pulse);
                    break;
                }
            }
            pulse.beat();
        }
        (self.shards.counts(), self.shards.ledger())
    }

    /// A shard on its way from another worker, unless that one is lost.
    fn moved(&self, holder: usize, from: &mpsc::Receiver<Moved>) -> Option<Moved> {
        loop {
            match from.recv_timeout(LOOK) {
                Ok(moved) => return Some(moved),
                Err(mpsc::RecvTimeoutError::Disconnected) => return None,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    if self.known.get(holder).is_some_and(|k| k.is_lost.load(Relaxed)) {
                        return None;
                    }
                }
            }
        }
    }

    fn give(
        &mut self,
        batch: u64,
        start: TimeNs,
        placed: Vec<Placed>,
        is_end: bool,
        pulse: &Pulse,
    ) {
        let kept = self.shards.take_kept();
        let part = Part { worker: self.worker, batch, start, placed, kept, is_end };
        // Without a writer the run is over.
        let _ = pulse.rest(|| self.out.send(part));
    }

    /// Does what a test asks for.
    fn act_fault(&self, batch: u64) {
        match self.fault {
            Some((at, true)) if at == batch => {
                while !self.known.get(self.worker).is_some_and(|k| k.is_lost.load(Relaxed)) {
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
            Some((at, false)) if at == batch => panic!("acted fault"),
            _ => {}
        }
    }
}

/// The reader's side: who holds which shard, and the batch that is being filled.
struct Reader {
    front: Front,
    senders: Vec<Sender<Work>>,
    known: Arc<Vec<Known>>,
    /// The holder of each shard.
    holders: Vec<usize>,
    active: usize,
    parts: Vec<(Vec<u8>, u64)>,
    batch: u64,
    records: u64,
    newest: i64,
    judged: Instant,
    waited: Duration,
    behind: u32,
    idle: u32,
    most: usize,
    plan: Vec<(u64, usize)>,
    changes: u64,
}

impl Reader {
    fn new(
        front: Front,
        senders: Vec<Sender<Work>>,
        known: Arc<Vec<Known>>,
        shards: usize,
        plan: &Plan,
    ) -> Reader {
        let active = if plan.is_finite { plan.workers } else { 1 };
        Reader {
            front,
            parts: senders.iter().map(|_| (Vec::new(), 0)).collect(),
            senders,
            known,
            holders: (0..shards).map(|shard| shard % active.max(1)).collect(),
            active,
            batch: 0,
            records: 0,
            newest: 0,
            judged: clock::now(),
            waited: Duration::ZERO,
            behind: 0,
            idle: 0,
            most: plan.workers,
            plan: plan.changes.clone(),
            changes: 0,
        }
    }

    #[inline]
    fn record(&mut self, r: &Record<'_>, pulse: &Pulse) {
        let (number, facts) = self.front.see(r);
        if facts.is_ignored {
            return;
        }
        if facts.newest > self.newest {
            self.newest = facts.newest;
            self.parts.iter_mut().for_each(|(part, _)| parcel::put_turn(facts.newest, part));
        }
        let ends = self.front.ends(r);
        let src = self.holder(r.src);
        match ends {
            Ends::Both => {
                let dst = self.holder(r.dst);
                if src == dst {
                    self.put(src, number, Ends::Both, r, &facts);
                } else {
                    self.put(src, number, Ends::Source, r, &facts);
                    self.put(dst, number, Ends::Destination, r, &facts);
                }
            }
            _ => self.put(src, number, ends, r, &facts),
        }
        self.records += 1;
        let is_full = self.parts.get(src).is_some_and(|(part, _)| part.len() >= BATCH_BYTES);
        if is_full || self.records >= BATCH_RECORDS {
            self.send(pulse);
        }
    }

    fn holder(&self, ip: Ip) -> usize {
        self.holders.get(shard_of(ip, self.holders.len())).copied().unwrap_or(0)
    }

    #[inline]
    fn put(
        &mut self,
        to: usize,
        number: u64,
        ends: Ends,
        r: &Record<'_>,
        facts: &gabion_behavior::site::Facts,
    ) {
        if let Some((part, records)) = self.parts.get_mut(to) {
            parcel::put_record(number, ends, r, facts, part);
            *records += 1;
        }
    }

    /// Sends the batch. Every worker gets a part, if only to learn how far time has come.
    fn send(&mut self, pulse: &Pulse) {
        let (watermark, start) = (self.front.watermark(), self.front.start());
        for to in 0..self.senders.len() {
            let Some((bytes, records)) = self.parts.get_mut(to) else { continue };
            let room = Vec::with_capacity(bytes.len() + bytes.len() / 8);
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

    /// Waits for room, then hands work over. A lost worker's is counted by its joint.
    fn hand(&mut self, to: usize, work: Work, pulse: &Pulse) {
        let Some(sender) = self.senders.get(to) else { return };
        let is_lost = || self.known.get(to).is_some_and(|k| k.is_lost.load(Relaxed));
        if sender.edge().queued() >= BATCHES_MAX {
            let from = clock::now();
            pulse.rest(|| {
                while sender.edge().queued() >= BATCHES_MAX && !is_lost() {
                    std::thread::sleep(WAIT_FOR_ROOM);
                }
            });
            self.waited += from.elapsed();
        }
        // Refused only when the worker is gone; then it is in the joint's ledger.
        let _ = sender.send(work);
    }

    /// Judges how many workers are needed.
    fn judge(&mut self, pulse: &Pulse) {
        if let Some((_, active)) = self.plan.iter().find(|(batch, _)| *batch == self.batch) {
            self.change(*active, pulse);
            return;
        }
        let passed = self.judged.elapsed();
        if passed < JUDGE_EVERY || !self.plan.is_empty() {
            return;
        }
        let share = self.waited.as_secs_f64() / passed.as_secs_f64();
        let is_empty = self.senders.iter().all(|s| s.edge().queued() == 0);
        self.behind = if share > BEHIND { self.behind + 1 } else { 0 };
        self.idle = if self.waited.is_zero() && is_empty { self.idle + 1 } else { 0 };
        self.judged = clock::now();
        self.waited = Duration::ZERO;
        if self.behind >= 2 && self.active < self.most {
            self.behind = 0;
            self.change(self.active + 1, pulse);
        } else if self.idle >= IDLE_JUDGEMENTS && self.active > 1 {
            self.idle = 0;
            self.change(self.active - 1, pulse);
        }
    }

    /// Parts shards among so many workers; those that move are handed over between two batches.
    fn change(&mut self, active: usize, pulse: &Pulse) {
        let active = active.clamp(1, self.most.max(1));
        if active == self.active {
            return;
        }
        self.changes += 1;
        self.active = active;
        for shard in 0..self.holders.len() {
            let Some(holder) = self.holders.get_mut(shard) else { continue };
            let (from, to) = (*holder, shard % active);
            if from == to {
                continue;
            }
            *holder = to;
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

    fn finish(&mut self, pulse: &Pulse) {
        self.send(pulse);
        let (watermark, start) = (self.front.watermark(), self.front.start());
        for to in 0..self.senders.len() {
            self.hand(to, Work::End { number: self.batch, watermark, start }, pulse);
        }
    }
}

/// What the reader thread does; gives the source back.
fn read<S: Source>(mut source: S, mut reader: Reader, pulse: &Pulse) -> (S, Counts, u64) {
    source.run(&mut |seen| {
        match seen {
            Seen::Record(r) => {
                reader.record(r, pulse);
                return ControlFlow::Continue(());
            }
            Seen::Lists(intel) => reader.set_intel(&intel, pulse),
            Seen::Idle if reader.records > 0 => reader.send(pulse),
            Seen::Idle => pulse.beat(),
        }
        match reader.known.iter().all(|k| k.is_lost.load(Relaxed)) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    reader.finish(pulse);
    (source, reader.front.counts(), reader.changes)
}

/// Merges what workers found, batch by batch.
struct Writer {
    known: Arc<Vec<Known>>,
    /// Parts of batches that are not whole yet.
    waiting: BTreeMap<u64, Vec<Part>>,
    /// The batch each worker gave last, and whether it came to its end.
    given: Vec<(Option<u64>, bool)>,
    next: u64,
}

impl Writer {
    fn new(known: Arc<Vec<Known>>, workers: usize) -> Writer {
        Writer { known, waiting: BTreeMap::new(), given: vec![(None, false); workers], next: 0 }
    }

    fn take(&mut self, part: Part, back: &mut Back, sink: &mut Sink) {
        if let Some(given) = self.given.get_mut(part.worker) {
            *given = (Some(part.batch), part.is_end);
        }
        self.waiting.entry(part.batch).or_default().push(part);
        self.merge(back, sink);
    }

    /// A worker will give nothing more.
    fn lose(&mut self, worker: usize, back: &mut Back, sink: &mut Sink) {
        if let Some(known) = self.known.get(worker) {
            known.is_lost.store(true, Relaxed);
        }
        self.merge(back, sink);
    }

    fn is_lost(&self, worker: usize) -> bool {
        self.known.get(worker).is_some_and(|k| k.is_lost.load(Relaxed))
    }

    /// Workers that are not known to be lost and did not come to their end.
    fn unfinished(&self) -> Vec<usize> {
        let is_open = |w: &usize| !self.is_lost(*w) && !self.given.get(*w).is_some_and(|g| g.1);
        (0..self.given.len()).filter(is_open).collect()
    }

    /// Whether all that are left came to their end.
    fn is_done(&self) -> bool {
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
            self.next += 1;
            let start = parts.first().map_or_else(TimeNs::default, |p| p.start);
            let mut placed = Vec::new();
            for part in parts {
                placed.extend(part.placed);
                sink.keep(part.kept);
            }
            placed.sort_unstable_by_key(|p: &Placed| p.place);
            for p in placed {
                back.take(p.evidence, start, &mut |finding| sink.take(finding));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_behavior::{Engine, Finding};
    use gabion_record::logs::{Body, Conn, Label, Proto, SECOND};

    /// Hosts that scan, beacon, are refused and are spoofed, over three windows.
    struct Made(u32);

    impl Source for Made {
        fn run(&mut self, each: &mut dyn FnMut(Seen<'_, '_>) -> ControlFlow<()>) {
            for n in 0..self.0 {
                let kind = n % 5;
                let (src, dst, port) = match kind {
                    0 => (0x0a00_0001, 0x0505_0000 + n, 23),
                    1 => (0x0a00_0002, 0x0606_0606, (n / 5) as u16),
                    2 => (0x0a00_0100 + n / 5 % 300, 0x0707_0707, 4444),
                    3 => (0x2000_0000 + n.wrapping_mul(2_654_435_761) % (1 << 28), 0x0808_0808, 80),
                    _ => (0x0a00_0003, 0x0909_0909, 443),
                };
                let flow = Conn {
                    knows_service: true,
                    is_established: kind == 4,
                    orig_bytes: 100,
                    orig_pkts: 2,
                    state: if kind == 2 { b"REJ" } else { b"S0" },
                    ..Conn::default()
                };
                let r = Record {
                    ts: TimeNs(
                        1_700_000_000 * SECOND
                            + i64::from(n) * 3 * 3600 * SECOND / i64::from(self.0),
                    ),
                    src: Ip::v4(src),
                    dst: Ip::v4(dst),
                    src_port: 40_000,
                    dst_port: port,
                    proto: Proto::Tcp,
                    uid: b"C",
                    label: Label::None,
                    is_late: n % 97 == 0 && n > 0,
                    body: Body::Conn(flow),
                };
                if each(Seen::Record(&r)).is_break() {
                    return;
                }
            }
        }
    }

    const BUDGET: usize = 8 << 20;

    /// All lines of a run in a folder's files, creation times aside.
    fn lines(run: impl FnOnce(&mut Sink) -> Counts) -> (Vec<String>, Counts) {
        let folder = tempfile::tempdir().unwrap();
        let mut sink =
            Sink { files: Some(super::super::open(folder.path()).unwrap()), ..Sink::default() };
        let counts = run(&mut sink);
        sink.files.as_mut().unwrap().flush().unwrap();
        let text = std::fs::read_to_string(folder.path().join("alerts.json")).unwrap();
        let cut = |line: &str| {
            let at = line.find("\"CreateTime\"").unwrap_or(line.len());
            let end = line[at..].find(',').map_or(line.len(), |n| at + n);
            format!("{}{}", &line[..at], &line[end..])
        };
        (text.lines().map(cut).collect(), counts)
    }

    fn plan(workers: usize) -> Plan {
        Plan {
            workers,
            budget: BUDGET,
            is_finite: true,
            keeps_windows: false,
            changes: Vec::new(),
            fault: None,
        }
    }

    fn team(records: u32, plan: Plan, sink: &mut Sink, said: &mut Vec<String>) -> Done<Made> {
        let settings = Arc::new(Settings::default());
        let front = Front::new(Arc::clone(&settings), None);
        let back = Back::new(Arc::clone(&settings));
        run(Made(records), front, back, &settings, plan, sink, &mut |line| said.push(line)).unwrap()
    }

    /// One worker, two, three, and a number that changes all the time: the same bytes in the same order.
    #[test]
    fn any_number_of_workers_says_the_same() {
        const RECORDS: u32 = 60_000;
        let (alone, counts) = lines(|sink| {
            let mut engine = Engine::with_budget(Settings::default(), None, BUDGET);
            let mut take = |f: Finding<'_>| sink.take(f);
            Made(RECORDS).run(&mut |seen| {
                if let Seen::Record(r) = seen {
                    engine.record(r, &mut take);
                }
                ControlFlow::Continue(())
            });
            engine.finish(&mut take);
            engine.counts()
        });
        assert!(alone.len() > 100, "{}", alone.len());
        for (workers, changes) in
            [(1, vec![]), (2, vec![]), (3, vec![(1, 1), (2, 3), (3, 2), (4, 1), (5, 3), (6, 2)])]
        {
            let mut said = Vec::new();
            let (got, theirs) = lines(|sink| {
                let done = team(
                    RECORDS,
                    Plan { changes: changes.clone(), ..plan(workers) },
                    sink,
                    &mut said,
                );
                done.sources.balance().unwrap();
                done.parcels.balance().unwrap();
                assert_eq!(done.parcels.passed().items, u64::from(RECORDS));
                assert!(done.changes >= changes.len() as u64 && done.lost == 0);
                done.counts
            });
            assert!(got == alone, "{workers} workers: {} lines for {}", got.len(), alone.len());
            assert_eq!(theirs, counts, "{workers}");
            assert!(said.is_empty(), "{said:?}");
        }
    }

    /// A worker that panics, and one that does not go on: said, counted, and the run ends.
    #[test]
    fn a_lost_worker_is_said_and_counted() {
        for (stalls, word) in [(false, "failed: acted fault"), (true, "given up")] {
            let mut said = Vec::new();
            let mut sink = Sink::default();
            let plan = Plan { fault: Some((1, 2, stalls)), ..plan(2) };
            let started = clock::now();
            let done = team(60_000, plan, &mut sink, &mut said);
            assert!(said.iter().any(|l| l.contains("behavior 1") && l.contains(word)), "{said:?}");
            assert!(started.elapsed() < Duration::from_secs(20));
            done.parcels.balance().unwrap();
            assert_eq!(done.lost, 1);
            assert!(done.parcels.shed_total().items + done.lost_records > 0);
            assert!(!sink.found.evidence.is_empty());
        }
    }
}
