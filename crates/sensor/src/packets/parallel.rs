//! Captures through several workers.
//!
//! A reader thread cuts the captures into batches of frames, puts fragments together while they are
//! in order, and decides which worker each frame belongs to (see `gabion_net::Dealer`), and what the clock
//! shows at it (`AgreedClock`). Every worker walks every batch: its own frames go through its
//! engine, of the others' it only takes the time, so that flows end at the same packet as with one
//! worker. Lines come back a batch at a time and are written by this thread in packet order. State
//! that rules keep across flows is used in packet order too (see `gabion_net::WorkerGroup`), so the answer
//! does not depend on the number of workers.
//!
//! A worker that panics is abandoned: its share of the frames is shed as `worker_lost`, the others
//! continue. So is one that stalls, after it was waited for a while.

use super::arrivals::Queue;
use super::board::Board;
use super::capture::{BATCH, frame_in};
use super::incidents::{Incident, Position, Trouble, Watch};
use super::input::Input;
use super::reader::{self, Batch, NOBODY, Reader, Reading, Work};
use super::rings::{RingEnd, RingJob, Rings, RingsDone};
use super::run::{Done, Run, WorkerEnd, further_counters};
use super::single::{STALL_END, no_progress};
use super::stats::{self, WorkerStats};
use super::tasks::Tasks;
use crate::limits::{PENDING_FRAMES_MAX, SPARE_LINES_BYTES_MAX, SPARE_LINES_MAX};
use gabion_flow::DefragCounters;
use gabion_net::{Dealer, Engine, Verdicts, Worker, WorkerBudgets, WorkerGroup};
use gabion_outputs::{EventCounts, LineBatch, Outputs, WorkerOutputs};
use gabion_record::budget::BudgetPool;
use gabion_record::ledger::{Ledger, stages};
use gabion_runtime::channel::Empty;
use gabion_runtime::fanout::{Change, Fanout, Losses, Rounds, Spares, Stalls};
#[cfg(not(test))]
use gabion_runtime::limits::STALL_GRACE;
use gabion_runtime::metrics::LedgerSlot;
use gabion_runtime::{
    Capacity, EventKind, Load, Metrics, Pulse, Receiver, Sender, channel, clock, processors,
};
use std::collections::VecDeque;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Frames and bytes under way to one worker: some tens of batches. The bytes stay in the capture's
/// pages, which are returned to the system when the last worker is done with a batch.
const TO_WORKER: Capacity = Capacity { items: 8_192, bytes: 2 << 20 };
/// Nanoseconds that a worker with a ring of its own waits for other rings.
pub(super) const WAIT_FOR_OTHERS_NS: u64 = 100_000_000;
/// Lines and bytes under way from one worker.
const FROM_WORKER: Capacity = Capacity { items: 65_536, bytes: 2 << 20 };
#[cfg(test)]
const STALL_GRACE: Duration = Duration::from_secs(1);
/// How long one look for a message waits before events are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// One worker's lines for some batches.
pub(super) struct Lines {
    pub(super) batch: LineBatch,
    /// The round that they belong to; the next one where workers walk the same batches.
    pub(super) round: Option<u64>,
    /// They are to be seen at once: more packets must be waited for.
    pub(super) is_last_for_now: bool,
    /// The engine that lines of this and later rounds are of, where it is another than before.
    pub(super) engine: Option<(u64, Arc<Engine>)>,
}

impl Load for Lines {
    fn items(&self) -> u64 {
        self.batch.lines() as u64
    }
    fn bytes(&self) -> u64 {
        self.batch.bytes() as u64
    }
}

/// What a worker has counted, with its number.
type Numbered = (usize, WorkerStats);

/// A worker as the writing thread sees it.
struct Member {
    lines: Option<Receiver<Lines>>,
    is_stall_reported: bool,
}

/// What a worker returns: the last is of the ring that it read itself.
type End = (WorkerEnd, EventCounts, Option<RingEnd>);

impl Run<'_> {
    /// Why these rules and scripts can't be shared out, if so: a script that keeps something from one packet to another must
    /// see all packets in their order. Where a flow may continue outside of its tunnel, no key of a frame keeps its
    /// packets together.
    pub fn needs_one_worker(engine: &Engine) -> Option<&'static str> {
        if !engine.options.flow.recursion_tracking {
            return Some(
                "flows may leave their tunnels (decoder.recursion-level.use-for-tracking)",
            );
        }
        if !engine.scripts.outputs.is_empty() {
            return Some("scripts are outputs");
        }
        // A threshold by host may still decide about an alert when its packet's other alerts are written.
        if engine.options.wants.alerted_packets {
            return Some("the output alert-debug shows a packet's alerts together");
        }
        let set = &engine.detector.as_ref()?.set;
        let keeps = set.scripts.iter().any(|script| script.facts.keeps_state);
        keeps.then_some("rules run scripts that keep something from one packet to another")
    }
}

/// The bounds of the way to a worker: room for at least a few batches.
fn to_worker(pending: Option<u64>) -> Capacity {
    let items = pending.map_or(TO_WORKER.items, |n| n.clamp(4 * BATCH as u64, PENDING_FRAMES_MAX));
    Capacity { items, ..TO_WORKER }
}

/// How a worker waits for another: first for a moment, then by giving way, then asleep.
fn pause(tries: u32) -> bool {
    match tries {
        0..64 => std::hint::spin_loop(),
        64..128 => std::thread::yield_now(),
        _ => std::thread::sleep(Duration::from_micros(50)),
    }
    true
}

/// The same where each worker reads a ring of its own: no longer than a ring can wait.
fn pause_briefly(tries: u32) -> bool {
    pause(tries) && u64::from(tries) * 50_000 < WAIT_FOR_OTHERS_NS
}

impl Run<'_> {
    /// Reads all inputs by several workers.
    ///
    /// # Errors
    /// If threads can't be started.
    pub(super) fn parallel(
        &self,
        inputs: &[Input],
        outputs: &mut Outputs,
        watch: &mut dyn Watch,
    ) -> std::io::Result<Done> {
        // Each thread has pages of its own for each size of object: large ones would be mostly empty.
        gabion_runtime::memory::take_small_pages();
        let workers = self.plan.workers.clamp(1, gabion_net::WORKERS_MAX);
        let to_worker = to_worker(self.plan.pending);
        let losses = Losses::new(workers);
        let mut fanout = Fanout::<End>::start("worker", losses.clone(), STALL_GRACE)?;
        let metrics = Metrics::new();
        let registries: Vec<&Metrics> = [&metrics].into_iter().chain(&self.metrics).collect();
        let reading = Arc::new(Reading { losses, position: Position::default() });
        let mut rings = match inputs.iter().find(|input| !input.interfaces.is_empty()) {
            None => None,
            Some(input) => {
                match Rings::open(&input.interfaces, (workers, self.engine), &reading, &registries)
                {
                    Ok(rings) => Some(rings),
                    Err(failed) => {
                        let mut done = Done { inputs: vec![*failed], ..Done::default() };
                        done.enter(&[], self, outputs);
                        return Ok(done);
                    }
                }
            }
        };
        let pause: fn(u32) -> bool = if rings.is_some() { pause_briefly } else { pause };
        let group = Arc::new(WorkerGroup::new(workers, pause));
        let pool = self.budget.child("net", None);
        let engine = self.engine.now();
        let pools = Pools::new(&pool, &engine);
        let spare = Spares::new(SPARE_LINES_MAX);
        let mut to_workers = Vec::new();
        let mut members = Vec::new();
        let mut edges = Vec::new();
        let mut queues = Vec::new();
        for n in 0..workers {
            let number = n as u16;
            let (out, lines, lines_edge) = channel::<Lines>("worker>writer", FROM_WORKER);
            registries.iter().for_each(|metrics| metrics.edge(Some(number), &lines_edge));
            queues.push(Arc::clone(&lines_edge));
            members.push(Member { lines: Some(lines), is_stall_reported: false });
            let bound = self.plan.processors(n).to_vec();
            if let Some(ways) = rings.as_mut().and_then(Rings::take_ways) {
                let defrag = pools.defrag.leaf(&format!("ring {n}"), None);
                let job = RingJob {
                    n,
                    engine: Arc::clone(&engine),
                    budgets: pools.worker(n),
                    group: Arc::clone(&group),
                    outputs: outputs.for_worker(),
                    dealer: Dealer::new(&engine, defrag),
                    ways,
                    reading: Arc::clone(&reading),
                    out,
                    spare: spare.clone(),
                    tasks: self.tasks.clone(),
                    board: self.board.clone(),
                    slot: metrics.ledger(stages::WORKER, Some(number)),
                    stop: self.stop.clone(),
                    #[cfg(test)]
                    fault: self.fault,
                };
                fanout.spawn(None, move |pulse| {
                    processors::bind(&bound);
                    job.run(pulse)
                })?;
                continue;
            }
            let (to, work, edge) = channel::<Work>(stages::READER_TO_WORKER, to_worker);
            registries.iter().for_each(|metrics| metrics.edge(Some(number), &edge));
            queues.push(Arc::clone(&edge));
            let job = Job {
                n,
                group: Arc::clone(&group),
                outputs: outputs.for_worker(),
                work,
                out,
                spare: spare.clone(),
                tasks: self.tasks.clone(),
                board: self.board.clone(),
                slot: metrics.ledger(stages::WORKER, Some(number)),
                #[cfg(test)]
                fault: self.fault,
            };
            let begins_with = (Arc::clone(&engine), pools.worker(n));
            fanout.spawn(Some(Arc::clone(&edge)), move |pulse| {
                processors::bind(&bound);
                job.run(begins_with, pulse)
            })?;
            to_workers.push(to);
            edges.push(edge);
        }
        let reader = Reader {
            inputs: Queue::new(inputs, self.arrivals.clone()),
            dealer: Dealer::new(&engine, pools.defrag.leaf(reader::NAME, None)),
            workers: to_workers,
            stop: self.stop.clone(),
            filter: self.filter.clone(),
            opener: Arc::clone(&self.opener),
            reading: Arc::clone(&reading),
            engine: Arc::clone(self.engine),
            generation: engine.generation,
            board: self.board.clone(),
            #[cfg(test)]
            fault: self.fault,
        };
        let reader = match &rings {
            None => Some(fanout.spawn_other(reader::NAME, move |pulse| reader.run(pulse))?),
            Some(_) => {
                reading.position.set(0, 0, None);
                None
            }
        };
        let mut writer = Writer {
            run: self,
            outputs,
            members,
            fanout,
            group: &group,
            reading: &reading,
            spare,
            newest: engine.generation,
            engines: VecDeque::new(),
            verdicts: Verdicts::new(engine),
            incidents: Vec::new(),
            reader_stalls: Stalls::new(1, STALL_END),
            is_flush_due: false,
            statistics_due: self.stats_every.map(|every| clock::now() + every),
            counting: None,
        };
        let before = clock::thread_cpu();
        writer.write(watch);
        writer.await_ends(watch);
        let writing = clock::thread_cpu().saturating_sub(before);
        let memory = self.memory();
        let is_read_apart = reader.is_some();
        let read = reader.and_then(|reader| reader.join());
        // A reader that panicked takes its workers' input with it: they may end before it is known why.
        writer.events(watch);
        let Writer { fanout, verdicts, incidents, .. } = writer;
        let lost_workers = u32::try_from(fanout.losses().count()).unwrap_or(u32::MAX);
        let is_reader_lost = is_read_apart && read.is_none();
        let mut done = Done { lost_workers, is_reader_lost, memory, incidents, ..Done::default() };
        let mut defrag = DefragCounters::default();
        if let Some(end) = read {
            done.inputs = end.inputs;
            done.is_stopped = end.is_stopped;
            defrag = end.defrag;
            done.checksums_ignored_from = end.checksums_ignored_from;
            done.clock = end.clock;
            done.threads.push((reader::NAME.to_string(), end.cpu));
            done.ledgers.add(stages::READER, None, &end.reader);
            done.ledgers.add(stages::ENGINE, None, &end.entry);
        }
        let mut ends = Vec::new();
        let (mut of_rings, mut lost) = (RingsDone::default(), Vec::new());
        for (n, end) in fanout.join().into_iter().enumerate() {
            match end {
                Some((end, tally, ring)) => {
                    if let Some(ring) = ring {
                        of_rings.take_end(n as u16, ring, &mut done);
                    }
                    outputs.add_tally(&tally);
                    done.threads.push((format!("worker {n}"), end.cpu));
                    ends.push((n as u16, end));
                }
                None => {
                    lost.push(n);
                    if let Some(edge) = edges.get(n) {
                        metrics.write_off(stages::WORKER, Some(n as u16), edge);
                    }
                }
            }
        }
        for e in metrics.stage_ledgers().entries() {
            done.ledgers.add(&e.stage, e.worker, &e.ledger);
        }
        done.threads.push(("writer".to_string(), writing));
        done.shared_uses = group.uses();
        done.queue_locks = queues
            .iter()
            .map(|queue| queue.locks())
            .fold((0, 0), |(all, held), (a, h)| (all + a, held + h));
        if let Some(rings) = &rings {
            lost.iter().for_each(|n| rings.write_off(*n, &mut done));
        }
        if !is_read_apart {
            of_rings.finish(&group, &mut done);
            defrag = of_rings.defrag;
        }
        done.ledgers.add(stages::ALERTS, None, &verdicts.ledgers().alerts);
        if let Some((_, end)) = ends.first_mut() {
            end.stats.net.merge(verdicts.counters());
            end.stats.add_defrag(&defrag);
        }
        done.enter(&ends, self, outputs);
        Ok(done)
    }
}

/// Budgets that workers share: the limits hold for all of them together.
struct Pools {
    defrag: BudgetPool,
    flow: BudgetPool,
    session: BudgetPool,
    stream: BudgetPool,
    app: BudgetPool,
}

impl Pools {
    fn new(pool: &BudgetPool, engine: &Engine) -> Pools {
        let o = &engine.options;
        Pools {
            defrag: pool.child("defrag", Some(o.defrag.memcap)),
            flow: pool.child("flow", Some(o.flow.memcap)),
            session: pool.child("stream", Some(o.stream.memcap)),
            stream: pool.child("reassembly", Some(o.stream.reassembly_memcap)),
            app: pool.child("app-layer", o.app_memcap),
        }
    }

    fn worker(&self, n: usize) -> WorkerBudgets {
        let name = format!("worker {n}");
        WorkerBudgets {
            defrag: self.defrag.leaf(&name, None),
            flow: self.flow.leaf(&name, None),
            session: self.session.leaf(&name, None),
            stream: self.stream.leaf(&name, None),
            app: self.app.leaf(&name, None),
        }
    }
}

/// Everything a worker thread needs.
struct Job {
    n: usize,
    group: Arc<WorkerGroup>,
    outputs: WorkerOutputs,
    work: Receiver<Work>,
    out: Sender<Lines>,
    spare: Spares<LineBatch>,
    tasks: Option<Arc<Tasks>>,
    board: Option<Arc<Board>>,
    slot: LedgerSlot,
    #[cfg(test)]
    fault: Option<super::acted_fault::ActedFault>,
}

impl Job {
    /// Works until the reader has no more, with the engine that the run begins with.
    fn run(
        mut self,
        (engine, budgets): (Arc<Engine>, WorkerBudgets),
        pulse: &Pulse,
    ) -> (WorkerEnd, EventCounts, Option<RingEnd>) {
        let seat = self.group.slot(self.n);
        let mut worker = Worker::in_group(engine, budgets, &self.group, self.n);
        let mut ledger = Ledger::new();
        let mut engine = None;
        while let Some(work) = pulse.await_input(|| self.work.recv()) {
            ledger.receive(work.items, work.bytes);
            if let Some(name) = &work.batch.capture {
                self.outputs.set_input(name);
            }
            if let Some(next) = &work.batch.engine {
                // Questions so far are about the rules before.
                self.hand_over(&mut engine, false, pulse);
                let began = clock::now();
                worker.adopt(Arc::clone(next));
                if let Some(board) = &self.board {
                    board.note_adoption(began.elapsed());
                }
                engine = Some(Arc::clone(next));
            }
            #[cfg(test)]
            super::acted_fault::act(self.fault, self.n, work.batch.first);
            walk(&work.batch, self.n, &mut worker, &mut self.outputs, pulse);
            if let Some(tasks) = &self.tasks {
                tasks.carry_out(self.n, &mut worker);
            }
            ledger.pass(work.items, work.bytes);
            self.slot.publish(&ledger);
            if work.batch.is_written {
                self.hand_over(&mut engine, work.batch.is_last_for_now, pulse);
            }
        }
        self.outputs.before_frame(u64::MAX >> 1);
        worker.close();
        while worker.end_some(&mut self.outputs) {
            pulse.beat();
        }
        drop(seat);
        self.hand_over(&mut engine, false, pulse);
        self.slot.publish_last(&ledger);
        (WorkerEnd::from_worker(&worker), self.outputs.tally(), None)
    }

    /// Hands the lines so far to the writer.
    fn hand_over(
        &mut self,
        engine: &mut Option<Arc<Engine>>,
        is_last_for_now: bool,
        pulse: &Pulse,
    ) {
        let batch = self.outputs.swap_batch(self.spare.take_spare().unwrap_or_default());
        // Workers walk the same batches: the round in which the engine comes is the one that it is for.
        let engine = engine.take().map(|engine| (0, engine));
        let lines = Lines { batch, round: None, is_last_for_now, engine };
        // A writer that is gone has given this worker up.
        let _ = pulse.rest(|| self.out.send(lines).is_ok());
    }
}

/// Takes a batch through a worker: its own frames, and of all others the time. Where that can end
/// no flow, the others' frames are passed over.
fn walk(batch: &Batch, n: usize, worker: &mut Worker, out: &mut WorkerOutputs, pulse: &Pulse) {
    let mut at = 0;
    worker.advance_event_time(batch.latest_ns);
    worker.note_kernel_drops(batch.kernel_dropped);
    if let Some(quiet) = batch.quiet {
        out.before_frame(batch.first);
        let f = quiet.moment(batch.first);
        while worker.advance_clock(&f, out) {
            pulse.beat();
        }
    }
    let Some(latest) = batch.agreed.last() else { return };
    while let Some((r, owner)) = batch.frames.get(at).zip(batch.owners.get(at)) {
        let agreed = batch.agreed.get(at).copied().unwrap_or(*latest);
        let (number, is_own) = (batch.first + at as u64, usize::from(*owner) == n);
        at += 1;
        if *owner == NOBODY {
            continue;
        }
        if !is_own && latest.ns < worker.next_expiry() {
            let rest = batch.owners.get(at..).unwrap_or_default();
            match rest.iter().position(|owner| usize::from(*owner) == n) {
                Some(ahead) => at += ahead,
                // The others wait for a worker that does not report how far it has come.
                None => {
                    let last = batch.frames.len().saturating_sub(1);
                    if let Some(r) = batch.frames.get(last) {
                        let number = batch.first + last as u64;
                        let of = (batch.device, batch.ignored_from);
                        let f = frame_in(r, &batch.bytes, (number, *latest), of);
                        worker.advance_clock(&f, out);
                    }
                    return;
                }
            }
            continue;
        }
        out.before_frame(number);
        let of = (batch.device, batch.ignored_from);
        let mut f = frame_in(r, &batch.bytes, (number, agreed), of);
        while worker.advance_clock(&f, out) {
            pulse.beat();
        }
        if is_own {
            out.at_frame(number);
            f.fragments = batch.fragments_of(at - 1);
            worker.take_frame(&f, out);
        }
    }
}

/// Writes what the workers send, in packet order, and watches over them.
struct Writer<'a> {
    run: &'a Run<'a>,
    outputs: &'a mut Outputs,
    members: Vec<Member>,
    fanout: Fanout<End>,
    group: &'a WorkerGroup,
    reading: &'a Reading,
    spare: Spares<LineBatch>,
    verdicts: Verdicts,
    incidents: Vec<Incident>,
    reader_stalls: Stalls,
    /// What was written is to be seen before more comes.
    is_flush_due: bool,
    /// Engines of rounds to be written, with the first round of each, and the generation of the newest.
    engines: VecDeque<(u64, Arc<Engine>)>,
    newest: u32,
    /// When the next record of statistics is due.
    statistics_due: Option<Instant>,
    /// Workers were asked for their counters; how many have answered.
    counting: Option<(mpsc::Receiver<Numbered>, Vec<Numbered>)>,
}

impl Writer<'_> {
    /// Writes until all workers are through.
    fn write(&mut self, watch: &mut dyn Watch) {
        let mut rounds = Rounds::new(self.fanout.losses().clone());
        let mut batches: Vec<LineBatch> = Vec::with_capacity(self.members.len());
        loop {
            while let Some(n) = rounds.missing() {
                match self.next(n, watch) {
                    Some(lines) => match lines.round {
                        Some(round) => rounds.put(n, round, lines.batch),
                        None => rounds.put_next(n, lines.batch),
                    },
                    None => rounds.end(n),
                }
            }
            let Some((round, lines)) = rounds.take_whole() else { break };
            batches.extend(lines);
            while let Some((_, engine)) = self.engines.pop_front_if(|(from, _)| *from <= round) {
                self.verdicts.adopt(engine);
            }
            let verdicts = &mut self.verdicts;
            self.outputs.write(&mut batches, &mut |question| verdicts.ask(question));
            if std::mem::take(&mut self.is_flush_due) {
                self.outputs.flush_lines();
            }
            let spare = batches.drain(..).filter(|b| b.capacity() <= SPARE_LINES_BYTES_MAX);
            self.spare.put(spare.map(|mut batch| {
                batch.clear();
                batch
            }));
            if self.run.reopen_asked() {
                self.outputs.reopen();
            }
            self.run.answer_reload(watch);
            self.write_statistics();
            self.reading.position.report_to(watch);
            // Workers whose lines come without a pause never let it wait for them.
            self.events(watch);
        }
        if self.run.reopen_asked() {
            self.outputs.reopen();
        }
        self.run.answer_reload(watch);
        self.events(watch);
    }

    /// Writes a record of statistics when one is due and all workers have said what they counted. Each does so between
    /// two batches; those that have not when the next record is due are left out.
    fn write_statistics(&mut self) {
        let run = self.run;
        let (Some(due), Some(every), Some(tasks)) =
            (self.statistics_due, run.stats_every, &run.tasks)
        else {
            return;
        };
        let is_due = clock::now() >= due;
        if let Some((answers, all)) = &mut self.counting {
            all.extend(answers.try_iter());
            if all.len() < tasks.workers() && !is_due {
                return;
            }
            all.sort_by_key(|(n, _)| *n);
            let all: Vec<(usize, &WorkerStats)> = all.iter().map(|(n, of)| (*n, of)).collect();
            let kernel = run.board.as_ref().and_then(|board| board.kernel_counts());
            let mut more = further_counters(self.outputs, run.started, kernel);
            more.extend(run.logged.iter().flat_map(|l| l.stats()));
            let last = Some(&run.last_record);
            let (engine, facts) = (run.engine.now(), run.engine.facts());
            let texts = stats::json(&all, &engine, Some(facts), &more, last);
            self.outputs.stats(clock::epoch_ns(), &texts);
            self.counting = None;
        } else if is_due {
            self.statistics_due = Some(due + every);
            let (to, answers) = mpsc::channel();
            for n in 0..tasks.workers() {
                let to = to.clone();
                // A writer that is gone needs no counters.
                let count = move |worker: &mut Worker| {
                    let _ = to.send((n, WorkerStats::from_worker(worker)));
                };
                tasks.post(n, Box::new(count));
            }
            self.counting = Some((answers, Vec::new()));
        }
    }

    /// The next lines of a worker, while events are looked after; none when it is through or was
    /// abandoned.
    fn next(&mut self, n: usize, watch: &mut dyn Watch) -> Option<Lines> {
        loop {
            let lines = self.members.get(n)?.lines.as_ref()?;
            match lines.recv_timeout(LOOK) {
                Ok(lines) => {
                    self.is_flush_due |= lines.is_last_for_now;
                    if let Some((from, engine)) = &lines.engine
                        && self.newest != engine.generation
                    {
                        self.newest = engine.generation;
                        self.engines.push_back((*from, Arc::clone(engine)));
                    }
                    return Some(lines);
                }
                Err(Empty::Ended) => {
                    self.members[n].lines = None;
                    return None;
                }
                // Nothing comes for a while: what there is can be read.
                Err(Empty::Yet) => self.outputs.flush_lines(),
            }
            self.run.answer_reload(watch);
            self.write_statistics();
            self.events(watch);
            self.give_up_stalled(watch);
        }
    }

    /// Reports what happened to a worker and keeps it.
    fn report(&mut self, watch: &mut dyn Watch, n: usize, kind: Trouble, message: String) {
        self.report_thread(watch, self.fanout.name_of(n), kind, message);
    }

    fn report_thread(
        &mut self,
        watch: &mut dyn Watch,
        worker: String,
        kind: Trouble,
        message: String,
    ) {
        let incident = Incident { worker, kind, message };
        watch.incident(&incident);
        self.incidents.push(incident);
    }

    /// Abandons the worker that makes no progress. Those that only wait for it are stalled too, but not
    /// furthest behind.
    fn give_up_stalled(&mut self, watch: &mut dyn Watch) {
        let Some(n) = self.group.furthest_behind() else { return };
        if !self.fanout.is_overdue(n) {
            return;
        }
        if let Some(member) = self.members.get_mut(n) {
            member.lines = None;
            // That it continues later is nothing to report: nobody takes what it does.
            member.is_stall_reported = false;
        }
        self.lose(n);
        self.fanout.begin_again();
        let message = format!("no progress for {} s", STALL_GRACE.as_secs());
        self.report(watch, n, Trouble::Abandoned, message);
    }

    fn lose(&mut self, n: usize) {
        self.fanout.lose(n);
        self.group.give_up(n);
    }

    /// Reports what happened to the reader. Nobody could read in its place: when it does not come back for long, the
    /// run ends.
    fn reader_events(&mut self, watch: &mut dyn Watch) {
        for event in self.fanout.take_others() {
            let was_stalled = self.reader_stalls.note_event(0, event.kind);
            let (kind, message) = match event.kind {
                EventKind::Finished if was_stalled => {
                    (Trouble::Recovered, "came to its end".to_string())
                }
                EventKind::Finished => continue,
                EventKind::Panicked => (Trouble::ReaderFailed, event.message),
                EventKind::Stalled => (Trouble::Stalled, event.message),
                EventKind::Recovered => (Trouble::Recovered, event.message),
            };
            self.report_thread(watch, event.name, kind, message);
        }
        if self.reader_stalls.is_overdue(0) {
            self.outputs.flush_lines();
            let message = no_progress("no other thread reads");
            self.report_thread(watch, reader::NAME.to_string(), Trouble::Abandoned, message);
            std::process::exit(i32::from(self.run.lost_code));
        }
    }

    /// Reports what happened to workers and to the reader.
    fn events(&mut self, watch: &mut dyn Watch) {
        while let Some((n, change)) = self.fanout.poll() {
            self.take_change(watch, n, change);
        }
        self.reader_events(watch);
    }

    /// Waits until every worker has said that it ended: that one panicked is known a moment after its lines have ended.
    fn await_ends(&mut self, watch: &mut dyn Watch) {
        while !self.fanout.have_ended() {
            if let Some((n, change)) = self.fanout.next(LOOK) {
                self.take_change(watch, n, change);
            }
            self.give_up_stalled(watch);
        }
    }

    fn take_change(&mut self, watch: &mut dyn Watch, n: usize, change: Change) {
        let is_reported = |m: &mut Member| std::mem::take(&mut m.is_stall_reported);
        match change {
            Change::Finished => {
                if self.members.get_mut(n).is_some_and(is_reported) {
                    let message = "came to its end".to_string();
                    self.report(watch, n, Trouble::Recovered, message);
                }
            }
            Change::Failed(message) => {
                if !self.fanout.losses().is_lost(n) {
                    self.lose(n);
                }
                self.report(watch, n, Trouble::Failed, message);
            }
            Change::Stalled(message) => {
                if self.group.furthest_behind() == Some(n) {
                    if let Some(member) = self.members.get_mut(n) {
                        member.is_stall_reported = true;
                    }
                    self.report(watch, n, Trouble::Stalled, message);
                }
            }
            Change::Recovered(message) => {
                if self.members.get_mut(n).is_some_and(is_reported) {
                    self.report(watch, n, Trouble::Recovered, message);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::acted_fault::{ActedFault, READER};
    use crate::packets::incidents::Unwatched;
    use crate::packets::test_engine;
    use crate::packets::{InputOpener, RunningEngine};
    use gabion_record::ledger::ShedReason;
    use gabion_runtime::StopFlag;
    use gabion_settings::WorkerPlan;
    use std::path::Path;

    struct Ran {
        done: Done,
        alerts: Vec<(u32, u64, String)>,
    }

    fn run(capture: &Path, rules: &str, workers: usize, fault: Option<ActedFault>) -> Ran {
        let config = gabion_settings::built_in_configuration();
        let mut outputs = Outputs::counting(&config);
        let engine = test_engine::engine(rules, outputs.wants());
        let engine = RunningEngine::new(engine, Default::default());
        let budget = BudgetPool::root("test", 1 << 30);
        let stop = StopFlag::new();
        let opener = InputOpener::new(gabion_runtime::files::direct_opener());
        let mut run = Run::new(&engine, &budget, &stop, Arc::new(opener));
        run.fault = fault;
        let inputs = [Input::capture(capture.to_path_buf(), true)];
        run.plan = WorkerPlan::for_workers(workers);
        let done = run.read_inputs(&inputs, &mut outputs, &mut Unwatched).unwrap();
        let tally = &outputs.tally().alerts;
        let mut alerts: Vec<_> =
            tally.iter().map(|a| (a.sid, a.count, format!("{:?}", a.first))).collect();
        alerts.sort();
        Ran { done, alerts }
    }

    fn demo() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/demo.pcap")
    }

    /// Rules whose answers hang on the order of packets of many flows.
    const ACROSS: &str = r#"
alert tcp any any -> any any (msg:"limit"; flags:S; threshold:type limit, track by_src, count 3, seconds 2; sid:1;)
alert tcp any any -> any any (msg:"threshold"; flags:S; threshold:type threshold, track by_dst, count 7, seconds 60; sid:2;)
alert tcp any any -> any any (msg:"both"; flags:A; threshold:type both, track by_rule, count 50, seconds 1; sid:3;)
alert tcp any any -> any any (msg:"filter"; flags:S; detection_filter:track by_src, count 20, seconds 10; sid:4;)
alert udp any any -> any 53 (msg:"sets"; xbits:set,seen,track ip_src,expire 3; noalert; sid:5;)
alert tcp any any -> any any (msg:"asks"; flags:S; xbits:isset,seen,track ip_src; sid:6;)
alert tcp any any -> any any (msg:"host"; flags:SA; hostbits:set,answers,src; noalert; sid:7;)
alert tcp any any -> any any (msg:"asks host"; flags:S; hostbits:isset,answers,dst; threshold:type limit, track by_both, count 2, seconds 5; sid:8;)
"#;

    #[test]
    fn any_number_of_workers_gives_the_answer_of_one() {
        let one = run(&demo(), ACROSS, 1, None);
        assert!(one.alerts.len() >= 5, "{:?}", one.alerts);
        for workers in [2, 3, 5, 8] {
            let many = run(&demo(), ACROSS, workers, None);
            assert_eq!(many.alerts, one.alerts, "{workers} workers");
            many.done.ledgers.balance().unwrap();
            assert_eq!(many.done.counters.packets, one.done.counters.packets);
            assert_eq!(many.done.counters.alerts_suppressed, one.done.counters.alerts_suppressed);
            assert_eq!(many.done.lost_workers, 0);
        }
    }

    #[test]
    fn a_worker_that_panics_is_shed_and_the_others_continue() {
        let fault = ActedFault::Panic { worker: 1, from: 300 };
        let ran = run(&demo(), ACROSS, 2, Some(fault));
        assert_eq!(ran.done.lost_workers, 1);
        ran.done.ledgers.balance().unwrap();
        assert_eq!(kinds(&ran), [Trouble::Failed]);
        assert!(ran.done.incidents[0].line().contains("failed: acted out at "));
        assert!(said_in_stats(&ran, "\"workers\":{\"failed\":1}"));
        let shed: u64 = ran
            .done
            .ledgers
            .entries()
            .iter()
            .map(|e| e.ledger.shed_for(ShedReason::WorkerLost).items)
            .sum();
        assert!(shed > 0);
        let packets = ran.done.counters.packets;
        assert!(packets > 0 && packets + shed <= 1264, "{packets} {shed}");
    }

    #[test]
    fn a_worker_that_stalls_ends_the_run_with_what_there_is() {
        let fault = ActedFault::Stall { worker: 0, from: 300 };
        let started = clock::now();
        let ran = run(&demo(), ACROSS, 2, Some(fault));
        assert!(started.elapsed() < Duration::from_secs(20));
        assert_eq!(ran.done.lost_workers, 1);
        ran.done.ledgers.balance().unwrap();
        assert_eq!(kinds(&ran), [Trouble::Stalled, Trouble::Abandoned]);
        assert!(said_in_stats(&ran, "\"workers\":{\"stalled\":1,\"abandoned\":1}"));
    }

    /// Nobody can read in its place, but what it read before is inspected, and the run is not taken for whole.
    #[test]
    fn a_reader_that_panics_is_reported_and_what_it_read_is_inspected() {
        let fault = ActedFault::Panic { worker: READER, from: 300 };
        let ran = run(&demo(), ACROSS, 2, Some(fault));
        assert_eq!(kinds(&ran), [Trouble::ReaderFailed]);
        let line = ran.done.incidents[0].line();
        assert!(line.starts_with("reader: failed: acted out at "), "{line}");
        assert!(ran.done.is_reader_lost && ran.done.has_lost_threads());
        assert_eq!(ran.done.lost_workers, 0);
        assert!((1..1264).contains(&ran.done.counters.packets), "{}", ran.done.counters.packets);
        assert!(said_in_stats(&ran, "\"workers\":{\"reader_failed\":1}"));
        ran.done.check_balance().unwrap();
    }

    #[test]
    fn a_reader_that_stalls_is_reported_and_so_is_its_return() {
        let fault = ActedFault::Pause { worker: READER, at: 300, millis: 2300 };
        let ran = run(&demo(), ACROSS, 2, Some(fault));
        assert_eq!(kinds(&ran), [Trouble::Stalled, Trouble::Recovered]);
        assert!(ran.done.incidents.iter().all(|i| i.worker == "reader"));
        assert!(!ran.done.has_lost_threads());
        assert_eq!(ran.done.counters.packets, 1264);
    }

    fn kinds(ran: &Ran) -> Vec<Trouble> {
        ran.done.incidents.iter().map(|i| i.kind).collect()
    }

    fn said_in_stats(ran: &Ran, what: &str) -> bool {
        let mut forms = ran.done.stats.totals.iter().take(2);
        forms.all(|text| String::from_utf8_lossy(text).contains(what))
    }

    #[test]
    fn the_only_worker_is_watched_over_too() {
        let ran = run(&demo(), ACROSS, 1, Some(ActedFault::Panic { worker: 0, from: 300 }));
        assert_eq!((ran.done.lost_workers, kinds(&ran)), (1, vec![Trouble::Failed]));
        ran.done.check_balance().unwrap();
        let by_stage = ran.done.ledgers.by_stage();
        let entry = by_stage.iter().find(|e| e.stage == stages::ENGINE).unwrap();
        let (taken, lost) = (entry.ledger.passed(), entry.ledger.shed_for(ShedReason::WorkerLost));
        assert!(taken.items > 0 && lost.items > 0);
        assert_eq!(taken.items + lost.items, 1264);
        assert!(said_in_stats(&ran, "\"workers\":{\"failed\":1}"));

        let pause = ActedFault::Pause { worker: 0, at: 300, millis: 2300 };
        let ran = run(&demo(), ACROSS, 1, Some(pause));
        assert_eq!((ran.done.lost_workers, ran.done.counters.packets), (0, 1264));
        assert!(kinds(&ran).contains(&Trouble::Stalled), "{:?}", ran.done.incidents);
        assert!(kinds(&ran).contains(&Trouble::Recovered), "{:?}", ran.done.incidents);
    }
}
