//! Several workers that each read a ring of their own: the kernel puts each frame into the ring of the worker that its
//! addresses name (`gabion_packet::worker_program`).
//!
//! Hot path: a worker's frames go from its ring through its engine without another thread. What belongs to another
//! worker by our key (tunnels, packets that an ICMP error quotes, tags within tags) is handed over, and counted.
//!
//! Frames have no number that all workers agree on, so their time takes its place: tickets of state across flows, and
//! the order of lines, are times of the kernel. A worker takes its next frame when no other ring can hand over an
//! earlier one, as far as each ring has published the time up to which it has dealt; a ring without frames publishes
//! the clock. The wait is bounded: what comes later still is taken then, and counted as late. A ring that is half full
//! waits for nobody.
//!
//! Lines are handed over by slices of that time, so that the writer puts those of all workers together.

use super::adoption::{Adopter, Adoptions};
use super::board::Board;
use super::capture::{frame_in, moment};
use super::input::{HandedOver, InputDone, KernelCounts};
use super::parallel::{Lines, WAIT_FOR_OTHERS_NS};
use super::reader::Reading;
use super::reload::RunningEngine;
use super::run::{Done, WorkerEnd};
use super::shedding::{Shedding, enter_records};
use super::tasks::Tasks;
use super::wire::{Pulled, Wire, report_step};
use crate::limits::{RING_HELD_PERCENT, RING_WAITING_PARTS_MAX};
use gabion_capture::live::{LiveCounter, RingCounts};
use gabion_capture::{Agreed, AgreedClock, CaptureBytes, ClockCounts, FrameRef};
use gabion_flow::DefragCounters;
use gabion_net::{Dealer, Engine, FragmentOutcome, Worker, WorkerBudgets, WorkerGroup};
use gabion_outputs::{EventCounts, LineBatch, WorkerOutputs};
use gabion_packet::worker_of_key;
use gabion_record::eve::InputName;
use gabion_record::ledger::{Ledger, ShedReason, stages};
use gabion_runtime::channel::Empty;
use gabion_runtime::fanout::{Losses, Spares};
use gabion_runtime::metrics::LedgerSlot;
use gabion_runtime::{Capacity, Load, Metrics, Pulse, Receiver, Sender, StopFlag, channel, clock};
use gabion_settings::InterfaceSettings;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Nanoseconds of the time whose lines are written together.
const SLICE_NS: u64 = 50_000_000;
/// Slices between the last frames and the flows that end with the run: workers do not end in one slice.
const SLICES_AT_END: u64 = 100;
/// How long a worker without frames waits for some.
const IDLE: Duration = Duration::from_millis(10);
/// How long it waits while frames of its own wait for those of others.
const SOON: Duration = Duration::from_millis(1);

/// Up to which time each ring was dealt, in nanoseconds: no earlier frame of it is handed over.
#[derive(Debug)]
pub(super) struct Dealt(Box<[AtomicU64]>);

impl Dealt {
    fn publish(&self, ring: usize, until_ns: u64) {
        if let Some(place) = self.0.get(ring) {
            place.store(until_ns, Ordering::Release);
        }
    }

    /// Up to which time all other rings were dealt, but for those whose worker is lost.
    fn others(&self, ring: usize, losses: &Losses) -> u64 {
        let others = self.0.iter().enumerate().filter(|(n, _)| *n != ring && !losses.is_lost(*n));
        others.map(|(_, place)| place.load(Ordering::Acquire)).min().unwrap_or(u64::MAX)
    }
}

/// Frames of one block that belong to one worker, in order.
pub(super) struct Part {
    bytes: Arc<CaptureBytes>,
    device: u16,
    frames: Vec<FrameRef>,
    /// The time of each as its ring saw it, rising.
    times: Vec<u64>,
    /// Of frames with fragments, by their place: what happened to the fragments.
    fragments: Vec<(usize, Box<[FragmentOutcome]>)>,
    len: u64,
    /// How many were taken.
    taken: usize,
}

impl Part {
    fn new(bytes: &Arc<CaptureBytes>, device: u16) -> Part {
        Part {
            bytes: Arc::clone(bytes),
            device,
            frames: Vec::new(),
            times: Vec::new(),
            fragments: Vec::new(),
            len: 0,
            taken: 0,
        }
    }

    fn push(&mut self, r: FrameRef, time: u64, fragments: Option<Box<[FragmentOutcome]>>) {
        if let Some(fragments) = fragments {
            self.fragments.push((self.frames.len(), fragments));
        }
        self.len += u64::from(r.len);
        self.frames.push(r);
        self.times.push(time);
    }

    fn head(&self) -> Option<u64> {
        self.times.get(self.taken).copied()
    }
}

impl Load for Part {
    fn items(&self) -> u64 {
        self.frames.len() as u64
    }
    fn bytes(&self) -> u64 {
        self.len
    }
}

/// What the worker of a ring leaves behind of the ring.
#[derive(Default)]
pub(super) struct RingEnd {
    pub(super) inputs: Vec<InputDone>,
    pub(super) reader: Ledger,
    pub(super) entry: Ledger,
    /// Records that were left out.
    pub(super) records: Ledger,
    pub(super) clock: ClockCounts,
    pub(super) defrag: DefragCounters,
    /// Frames that were handed to other workers.
    pub(super) handed_over: u64,
    /// Frames that came from others after later ones had been taken.
    pub(super) late: u64,
}

/// A worker's ring, and its ways to the other workers.
pub(super) struct Ways {
    wire: Wire,
    /// None to itself.
    to: Vec<Option<Sender<Part>>>,
    from: Vec<Receiver<Part>>,
    dealt: Arc<Dealt>,
    adoptions: Arc<Adoptions>,
    /// When the run began: slices count from here.
    began_ns: u64,
}

/// The rings of a run, until each has its worker.
pub(super) struct Rings {
    ways: VecDeque<Ways>,
    /// Of each worker: who counts when it is lost.
    counters: Vec<Vec<LiveCounter>>,
}

/// Frames and bytes under way from one worker to another: few belong to another.
const HANDED_OVER: Capacity = Capacity { items: 8_192, bytes: 4 << 20 };

impl Rings {
    /// Opens a ring of each interface for each worker.
    ///
    /// # Errors
    /// The interface that can't be read.
    pub(super) fn open(
        interfaces: &[InterfaceSettings],
        (workers, running): (usize, &Arc<RunningEngine>),
        reading: &Reading,
        metrics: &[&Metrics],
    ) -> Result<Rings, Box<InputDone>> {
        let count = u16::try_from(workers).unwrap_or(u16::MAX);
        let wires = Wire::open_group(interfaces, count, &reading.position);
        let wires = wires.map_err(|(n, e)| Box::new(InputDone::refused(interfaces, n, &e)))?;
        let counters = wires.iter().map(Wire::counters).collect();
        let dealt = Arc::new(Dealt(wires.iter().map(|_| AtomicU64::new(0)).collect()));
        let adoptions = Arc::new(Adoptions::new(running, workers));
        let began_ns = clock::epoch_ns();
        let mut all: VecDeque<Ways> = wires
            .into_iter()
            .map(|wire| {
                let dealt = Arc::clone(&dealt);
                let adoptions = Arc::clone(&adoptions);
                Ways { wire, to: Vec::new(), from: Vec::new(), dealt, adoptions, began_ns }
            })
            .collect();
        for from in 0..workers {
            for to in 0..workers {
                if from == to {
                    all[from].to.push(None);
                    continue;
                }
                let (sender, receiver, edge) =
                    channel::<Part>(stages::WORKER_TO_WORKER, HANDED_OVER);
                metrics.iter().for_each(|metrics| metrics.edge(Some(to as u16), &edge));
                all[from].to.push(Some(sender));
                all[to].from.push(receiver);
            }
        }
        Ok(Rings { ways: all, counters })
    }

    /// The next worker's.
    pub(super) fn take_ways(&mut self) -> Option<Ways> {
        self.ways.pop_front()
    }

    /// Enters what came for a worker that was lost: how much of it was inspected is not known.
    pub(super) fn write_off(&self, worker: usize, done: &mut Done) {
        let mut ledger = Ledger::new();
        let counters = self.counters.get(worker).map(Vec::as_slice).unwrap_or_default();
        for (n, counter) in counters.iter().enumerate() {
            let RingCounts { offered, dropped } = counter.counts();
            ledger.receive(offered, 0);
            ledger.shed(ShedReason::KernelDrop, dropped, 0);
            ledger.shed(ShedReason::WorkerLost, offered.saturating_sub(dropped), 0);
            if let Some(input) = done.inputs.get_mut(n) {
                let counts = KernelCounts { offered, dropped, ..KernelCounts::default() };
                input.kernel.get_or_insert_default().add(&counts);
            }
        }
        done.ledgers.add(stages::READER, Some(worker as u16), &ledger);
    }
}

/// What the workers of all rings leave behind.
#[derive(Default)]
pub(super) struct RingsDone {
    handed_over: u64,
    late: u64,
    pub(super) defrag: DefragCounters,
}

impl RingsDone {
    /// Takes what one leaves behind.
    pub(super) fn take_end(&mut self, worker: u16, end: RingEnd, done: &mut Done) {
        done.ledgers.add(stages::READER, Some(worker), &end.reader);
        done.ledgers.add(stages::ENGINE, Some(worker), &end.entry);
        enter_records(&end.records, Some(worker), done);
        self.handed_over += end.handed_over;
        self.late += end.late;
        self.defrag.merge(&end.defrag);
        done.clock.merge(&end.clock);
        for (n, input) in end.inputs.into_iter().enumerate() {
            match done.inputs.get_mut(n) {
                Some(known) => known.join(input),
                None => done.inputs.push(input),
            }
        }
    }

    /// Enters what all of them counted.
    pub(super) fn finish(&self, group: &WorkerGroup, done: &mut Done) {
        done.is_stopped = true;
        done.inputs.iter_mut().for_each(InputDone::note_drops);
        done.handed_over = Some(HandedOver {
            frames: self.handed_over,
            late: self.late,
            early_uses: group.early_uses(),
        });
    }
}

/// Everything that the thread of a ring needs.
pub(super) struct RingJob {
    pub(super) n: usize,
    pub(super) engine: Arc<Engine>,
    pub(super) budgets: WorkerBudgets,
    pub(super) group: Arc<WorkerGroup>,
    pub(super) outputs: WorkerOutputs,
    pub(super) dealer: Dealer,
    pub(super) ways: Ways,
    pub(super) reading: Arc<Reading>,
    pub(super) out: Sender<Lines>,
    pub(super) spare: Spares<LineBatch>,
    pub(super) tasks: Option<Arc<Tasks>>,
    pub(super) board: Option<Arc<Board>>,
    pub(super) slot: LedgerSlot,
    pub(super) stop: StopFlag,
    #[cfg(test)]
    pub(super) fault: Option<super::acted_fault::ActedFault>,
}

/// A worker with its ring at work.
struct Ring<'a> {
    job: &'a mut RingJob,
    worker: Worker,
    /// Frames that wait for those of other rings: the worker's own, then those of each other ring.
    waiting: Vec<VecDeque<Part>>,
    clock: AgreedClock,
    began: Instant,
    shedding: Shedding,
    /// The latest time that this ring dealt, and that the worker took.
    last_dealt: u64,
    now: u64,
    slice: u64,
    /// How often it went over to another engine, and what the writer has to know of the last time.
    adopted: usize,
    engine: Option<(u64, Arc<Engine>)>,
    ledger: Ledger,
    end: RingEnd,
}

impl RingJob {
    pub(super) fn run(mut self, pulse: &Pulse) -> (WorkerEnd, EventCounts, Option<RingEnd>) {
        let seat = self.group.slot(self.n);
        self.outputs.set_input(&InputName::Interfaces(self.ways.wire.names()));
        let mut ring = Ring::new(&mut self);
        ring.read_ring(pulse);
        let last_slice = ring.slice + SLICES_AT_END;
        let Ring { mut worker, ledger, mut end, clock, shedding, engine, .. } = ring;
        end.records.merge(shedding.ledger());
        self.outputs.before_frame(u64::MAX >> 1);
        worker.close();
        while worker.end_some(&mut self.outputs) {
            pulse.beat();
        }
        drop(seat);
        let batch = self.outputs.swap_batch(LineBatch::default());
        let lines = Lines { batch, round: Some(last_slice), is_last_for_now: false, engine };
        let _ = pulse.rest(|| self.out.send(lines).is_ok());
        self.slot.publish_last(&ledger);
        end.clock = clock.counts();
        end.defrag = self.dealer.defrag_counters();
        self.ways.wire.finish(&mut end.reader, &mut end.inputs);
        (WorkerEnd::from_worker(&worker), self.outputs.tally(), Some(end))
    }
}

impl<'a> Ring<'a> {
    fn new(job: &'a mut RingJob) -> Ring<'a> {
        let budgets = std::mem::replace(&mut job.budgets, WorkerBudgets::standalone(&job.engine));
        let worker = Worker::in_group(Arc::clone(&job.engine), budgets, &job.group, job.n);
        let others = job.ways.from.len();
        Ring {
            worker,
            waiting: (0..=others).map(|_| VecDeque::new()).collect(),
            clock: AgreedClock::default(),
            began: clock::now(),
            shedding: Shedding::default(),
            last_dealt: 0,
            now: 0,
            slice: 0,
            adopted: 0,
            engine: None,
            ledger: Ledger::new(),
            end: RingEnd::default(),
            job,
        }
    }

    /// Reads the ring until it is asked to stop, and takes what others hand over until they are through, too.
    fn read_ring(&mut self, pulse: &Pulse) {
        let mut frames = Vec::new();
        let mut is_open = true;
        loop {
            let mut is_quiet = true;
            if is_open {
                let wait = if self.has_waiting() { SOON } else { IDLE };
                frames.clear();
                let reading = &self.job.reading;
                match self.job.ways.wire.pull(&mut frames, wait, (&reading.position, pulse)) {
                    Pulled::Frames { port, bytes } => {
                        is_quiet = false;
                        self.deal(port, &bytes, &mut frames);
                    }
                    Pulled::Nothing => {}
                }
                self.clock.set_steady(self.began.elapsed().as_nanos() as u64);
                let dropped = self.job.ways.wire.kernel_counts().dropped;
                self.worker.note_kernel_drops(dropped);
                let fill = self.job.ways.wire.fill_percent();
                self.worker.set_pressure(self.shedding.update_pressure(fill));
                let until = self.job.ways.wire.dealt_until(clock::epoch_ns());
                self.last_dealt = self.last_dealt.max(self.clock.at_live(until).ns);
                self.job.ways.dealt.publish(self.job.n, self.last_dealt);
                // Each worker sees it; one reports it.
                if self.job.n == 0 {
                    report_step(&mut self.clock, &self.job.reading.position);
                }
                if self.job.stop.is_set() && !self.job.ways.wire.close() && is_quiet {
                    is_open = false;
                    self.job.ways.to.iter_mut().for_each(|to| *to = None);
                    self.job.ways.dealt.publish(self.job.n, u64::MAX);
                }
            } else {
                pulse.beat();
                std::thread::sleep(SOON);
            }
            // Before what they hand over is looked for: what comes after that is of later times.
            let others = self.job.ways.dealt.others(self.job.n, &self.job.reading.losses);
            let has_ended = self.receive();
            let bound = self.clock.live_time(clock::epoch_ns()).saturating_sub(WAIT_FOR_OTHERS_NS);
            self.take_until(self.limit(is_open, (bound, others)), pulse);
            self.pass_time((bound, others), pulse);
            if let Some(tasks) = &self.job.tasks {
                tasks.carry_out(self.job.n, &mut self.worker);
            }
            if !is_open && has_ended && !self.has_waiting() {
                return;
            }
        }
    }

    fn has_waiting(&self) -> bool {
        self.waiting.iter().any(|parts| !parts.is_empty())
    }

    /// Decides which worker each frame belongs to, and hands over what is not its own.
    fn deal(&mut self, port: usize, bytes: &Arc<CaptureBytes>, frames: &mut Vec<FrameRef>) {
        let job = &mut *self.job;
        let workers = job.ways.to.len();
        job.ways.wire.prepare(port, bytes, frames, &mut self.end.entry);
        let device = port as u16;
        let mut own = Part::new(bytes, device);
        let mut others: Vec<Option<Part>> = (0..workers).map(|_| None).collect();
        for r in frames.drain(..) {
            let agreed = self.clock.at_live(r.ts_ns);
            // Times of one ring differ, so that its frames have an order.
            let time = agreed.ns.max(self.last_dealt.saturating_add(1));
            self.last_dealt = time;
            let (len, entry) = (u64::from(r.len), &mut self.end.entry);
            job.ways.wire.see(port, &r);
            let f = frame_in(&r, bytes, (time, agreed), (device, u64::MAX));
            entry.receive(1, len);
            let Some(dealt) = job.dealer.deal(&f) else {
                entry.shed(ShedReason::UnsupportedLink, 1, len);
                job.ways.wire.see_unsupported(port, r.link);
                continue;
            };
            let owner = worker_of_key(dealt.key, workers);
            if job.reading.losses.is_lost(owner) {
                entry.shed(ShedReason::WorkerLost, 1, len);
                continue;
            }
            entry.pass(1, len);
            match others.get_mut(owner) {
                Some(other) if owner != job.n => {
                    let part = other.get_or_insert_with(|| Part::new(bytes, device));
                    part.push(r, time, dealt.fragments);
                }
                _ => own.push(r, time, dealt.fragments),
            }
        }
        for (owner, part) in others.into_iter().enumerate() {
            let (Some(part), Some(Some(to))) = (part, job.ways.to.get(owner)) else { continue };
            self.end.handed_over += part.items();
            // What there is no room for is shed in the ledger of the way.
            let _ = to.try_send(part);
        }
        if let (Some(own_parts), false) = (self.waiting.first_mut(), own.frames.is_empty()) {
            own_parts.push_back(own);
        }
    }

    /// Takes what others have handed over; true when nobody will any more.
    fn receive(&mut self) -> bool {
        let mut has_ended = true;
        for (from, parts) in self.job.ways.from.iter().zip(self.waiting.iter_mut().skip(1)) {
            loop {
                match from.try_recv() {
                    Ok(part) => parts.push_back(part),
                    Err(Empty::Ended) => break,
                    Err(Empty::Yet) => {
                        has_ended = false;
                        break;
                    }
                }
            }
        }
        has_ended
    }

    /// Up to which time frames are taken now: `others` is how far the other rings were dealt.
    fn limit(&self, is_open: bool, (bound, others): (u64, u64)) -> u64 {
        let parts = self.waiting.first().map_or(0, VecDeque::len);
        let held: u64 = self.waiting.first().map_or(0, |all| all.iter().map(|p| p.len).sum());
        let is_full = parts >= RING_WAITING_PARTS_MAX
            || self.job.ways.wire.fill_percent() >= RING_HELD_PERCENT
            || held.saturating_mul(4) >= self.job.ways.wire.ring_bytes();
        // Frames of its own ring that the kernel has not handed over yet may be earlier than those of others.
        let dealt = if is_open { others.min(self.last_dealt) } else { others };
        if is_full || !is_open && others == u64::MAX { u64::MAX } else { dealt.max(bound) }
    }

    /// Takes waiting frames in the order of their times, as far as this.
    fn take_until(&mut self, limit: u64, pulse: &Pulse) {
        loop {
            let heads = self.waiting.iter().enumerate();
            let next = heads.filter_map(|(n, parts)| Some((parts.front()?.head()?, n))).min();
            let Some((time, source)) = next.filter(|(time, _)| *time <= limit) else { return };
            self.take_next(source, time, pulse);
        }
    }

    /// Takes the next frame of a source.
    fn take_next(&mut self, source: usize, time: u64, pulse: &Pulse) {
        if time < self.now {
            self.end.late += 1;
        }
        let time = time.max(self.now.saturating_add(1));
        self.now = time;
        self.cut_slice(time, pulse);
        let Some(part) = self.waiting.get_mut(source).and_then(VecDeque::front_mut) else { return };
        let at = part.taken;
        part.taken += 1;
        let Some(r) = part.frames.get(at).copied() else { return };
        let agreed = Agreed { ns: time, is_leap: false };
        let outputs = &mut self.job.outputs;
        #[cfg(test)]
        super::acted_fault::act(self.job.fault, self.job.n, self.ledger.received().items);
        let mut f = frame_in(&r, &part.bytes, (time, agreed), (part.device, u64::MAX));
        outputs.before_frame(time);
        while self.worker.advance_clock(&f, outputs) {
            pulse.beat();
        }
        let outcomes = part.fragments.binary_search_by_key(&at, |(place, _)| *place);
        let outcomes = outcomes.ok().and_then(|n| part.fragments.get(n));
        f.fragments = outcomes.map(|(_, outcomes)| &**outcomes);
        outputs.at_frame(time);
        self.worker.take_frame(&f, &mut self.shedding.sink(outputs));
        pulse.beat();
        self.ledger.receive(1, u64::from(r.len));
        self.ledger.pass(1, u64::from(r.len));
        let is_through = part.taken == part.frames.len();
        if is_through && let Some(parts) = self.waiting.get_mut(source) {
            parts.pop_front();
            self.job.slot.publish(&self.ledger);
        }
    }

    /// Lets time pass up to which nothing is left to take, so that flows end and others need not wait.
    fn pass_time(&mut self, (bound, others): (u64, u64), pulse: &Pulse) {
        let done = others.max(bound).min(self.last_dealt);
        let heads = self.waiting.iter().filter_map(|parts| parts.front()?.head()).min();
        let done = heads.map_or(done, |head| done.min(head.saturating_sub(1)));
        if done > self.now {
            self.now = done;
            let f = moment(Agreed { ns: done, is_leap: false }, done);
            self.job.outputs.before_frame(done);
            while self.worker.advance_clock(&f, &mut self.job.outputs) {
                pulse.beat();
            }
        }
        self.cut_slice(self.now, pulse);
    }

    /// Hands lines over where a slice has come to its end.
    fn cut_slice(&mut self, now: u64, pulse: &Pulse) {
        let slice = now.saturating_sub(self.job.ways.began_ns) / SLICE_NS;
        if slice <= self.slice {
            return;
        }
        let job = &mut *self.job;
        let batch = job.outputs.swap_batch(job.spare.take_spare().unwrap_or_default());
        let engine = self.engine.take();
        let lines = Lines { batch, round: Some(self.slice), is_last_for_now: true, engine };
        self.slice = slice;
        // A writer that is gone has given this worker up.
        let _ = pulse.rest(|| job.out.send(lines).is_ok());
        // As slices do, it follows the clock that nobody sets.
        let clock_ns = self.clock.live_time(clock::epoch_ns());
        let clock_slice = clock_ns.saturating_sub(job.ways.began_ns) / SLICE_NS;
        let generation = self.worker.generation();
        if let Some(board) = &job.board {
            job.ways.wire.note_counts(board, job.n);
            board.note_records(job.n, self.shedding.ledger());
        }
        let adopter = Adopter { n: job.n, generation, losses: &job.reading.losses };
        let due = job.ways.adoptions.due(&adopter, &mut self.adopted, (slice, clock_slice));
        if let Some((from, engine)) = due {
            let began = clock::now();
            self.worker.adopt(Arc::clone(&engine));
            if let Some(board) = &job.board {
                board.note_adoption(began.elapsed());
            }
            self.engine = Some((from, engine));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::{LoadedEngine, test_engine};
    use gabion_outputs::Outputs;
    use gabion_record::budget::BudgetPool;
    use gabion_rules::Counts;

    const SECOND: u64 = 1_000_000_000;

    fn loaded(generation: u32) -> LoadedEngine {
        let mut engine = test_engine::without_rules();
        engine.generation = generation;
        LoadedEngine { engine, counts: Counts::default(), failed: Vec::new() }
    }

    /// The jobs of two workers whose rings nothing fills, of a run that began then, and where their lines go.
    fn jobs(running: &Arc<RunningEngine>, began_ns: u64) -> (Vec<RingJob>, Vec<Receiver<Lines>>) {
        let engine = running.now();
        let group = Arc::new(WorkerGroup::new(2, |_| false));
        let position = super::super::incidents::Position::default();
        let reading = Arc::new(Reading { losses: Losses::new(2), position });
        let dealt = Arc::new(Dealt((0..2).map(|_| AtomicU64::new(0)).collect()));
        let adoptions = Arc::new(Adoptions::new(running, 2));
        let outputs = Outputs::counting(&gabion_settings::built_in_configuration());
        let pool = BudgetPool::root("test", 1 << 30);
        let room = Capacity { items: 1_000, bytes: 1 << 20 };
        let (mut senders, mut from) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let (sender, receiver, _) = channel::<Part>(stages::WORKER_TO_WORKER, HANDED_OVER);
            senders.push(sender);
            from.push(receiver);
        }
        let to: Vec<Vec<Option<Sender<Part>>>> =
            vec![vec![None, senders.pop()], vec![senders.pop(), None]];
        let (mut jobs, mut lines) = (Vec::new(), Vec::new());
        for (n, (to, from)) in to.into_iter().zip(from).enumerate() {
            let (out, receiver, _) = channel::<Lines>("worker>writer", room);
            lines.push(receiver);
            let ways = Ways {
                wire: Wire::without_interfaces(),
                to,
                from: vec![from],
                dealt: Arc::clone(&dealt),
                adoptions: Arc::clone(&adoptions),
                began_ns,
            };
            jobs.push(RingJob {
                n,
                engine: Arc::clone(&engine),
                budgets: WorkerBudgets::standalone(&engine),
                group: Arc::clone(&group),
                outputs: outputs.for_worker(),
                dealer: Dealer::new(&engine, pool.leaf(&format!("ring {n}"), None)),
                ways,
                reading: Arc::clone(&reading),
                out,
                spare: Spares::new(4),
                tasks: None,
                board: None,
                slot: Metrics::new().ledger(stages::WORKER, Some(n as u16)),
                stop: StopFlag::new(),
                fault: None,
            });
        }
        (jobs, lines)
    }

    /// Rules that were loaded are used by both workers from the same slice on and soon, however far apart these are, and
    /// whether the machine's clock was set meanwhile or not.
    #[test]
    fn rules_are_adopted_together_and_soon_whatever_the_machines_clock_shows() {
        const HOUR: i64 = 3_600 * SECOND as i64;
        let pulse = Pulse::unwatched();
        for set_ns in [0, HOUR, -HOUR] {
            // Of a clock that was not set until a second later.
            let began = (clock::epoch_ns() - SECOND).saturating_add_signed(-set_ns);
            let running = RunningEngine::begin(loaded(0));
            let (mut jobs, _lines) = jobs(&running, began);
            let mut rings: Vec<Ring<'_>> = jobs.iter_mut().map(Ring::new).collect();
            for ring in &mut rings {
                ring.clock.set_steady(0);
                ring.clock.at_live(began);
                ring.clock.set_steady(SECOND);
            }
            running.replace(loaded(1));
            let mut used_from = [None; 2];
            // One is five slices behind the other; a machine that is busy makes the clock's slice a later one.
            for slice in 20..400 {
                for (n, ring) in rings.iter_mut().enumerate() {
                    let slice = slice - 5 * n as u64;
                    ring.cut_slice(began + slice * SLICE_NS, &pulse);
                    if ring.worker.generation() == 1 {
                        used_from[n].get_or_insert(slice);
                    }
                }
            }
            assert!(used_from[0].is_some(), "{set_ns}: never");
            assert_eq!(used_from[0], used_from[1], "{set_ns}");
            let step = rings[0].clock.take_step().unwrap_or(0);
            assert!(step.abs_diff(set_ns) < 60 * SECOND, "{set_ns}: {step}");
        }
    }

    /// A frame that another ring hands over after later ones were taken is counted, and taken next.
    #[test]
    fn a_frame_that_comes_late_is_counted_and_taken() {
        let bytes = Arc::new(CaptureBytes::from_vec(vec![0; 60]));
        let part = |times: &[u64]| {
            let mut part = Part::new(&bytes, 0);
            for time in times {
                let r = FrameRef {
                    ts_ns: *time,
                    offset: 0,
                    len: 60,
                    wire_len: 60,
                    link: 1,
                    interface: 0,
                    has_no_checksums: false,
                };
                part.push(r, *time, None);
            }
            part
        };
        let pulse = Pulse::unwatched();
        let running = RunningEngine::begin(loaded(0));
        let (mut jobs, _lines) = jobs(&running, 0);
        let mut ring = Ring::new(&mut jobs[0]);
        ring.waiting[0].push_back(part(&[1_000, 2_000]));
        ring.waiting[1].push_back(part(&[1_500]));
        ring.take_until(u64::MAX, &pulse);
        assert_eq!((ring.end.late, ring.now), (0, 2_000), "in the order of their times");
        ring.waiting[1].push_back(part(&[1_600, 1_700, 2_500]));
        ring.take_until(u64::MAX, &pulse);
        assert_eq!((ring.end.late, ring.now), (2, 2_500));
        assert_eq!(ring.ledger.passed().items, 6);
    }
}
