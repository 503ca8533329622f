//! Captures through one worker, which reads, inspects and writes; the calling thread watches over it.
//!
//! A panic of the engine costs what is left to read: it is shed as `worker_lost`, as with several
//! workers. A worker that stalls is reported; nobody could continue in its place, so the run ends when it
//! does not come back for long.

use super::arrivals::Queue;
use super::capture::{BATCH, Entry, FrameBlock, InputLedgers, InputState, OneInput, frame_in};
use super::incidents::{Incident, Position, Trouble, Watch};
use super::input::Input;
use super::run::{Done, Run, WorkerEnd, further_counters};
use super::shedding::Shedding;
use super::stats::{self, WorkerStats};
use gabion_capture::{AgreedClock, FrameRef};
use gabion_net::{ChecksumSample, Engine, Worker, WorkerBudgets};
use gabion_outputs::Outputs;
use gabion_record::budget::BudgetPool;
use gabion_record::eve::NetSink;
use gabion_record::ledger::{Ledger, stages};
use gabion_runtime::fanout::{Change, SingleEnd, watch_single};
use gabion_runtime::{Pulse, Supervisor, clock, processors};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long one look for an event waits.
const LOOK: Duration = Duration::from_millis(100);
/// How long a stalled worker is waited for. Nothing else could continue, so it is long.
pub(super) const STALL_END: Duration = Duration::from_secs(60);
/// The worker's name.
const NAME: &str = "worker 0";

/// Why a run ends whose only thread of a kind has stalled.
pub(super) fn no_progress(why: &str) -> String {
    let seconds = STALL_END.as_secs();
    format!("no progress for {seconds} s, and {why}; what is not yet in the outputs is lost")
}

/// Budgets of a worker's tables below the pool, each with the limit of the configuration.
fn worker_budgets(pool: &BudgetPool, engine: &Engine) -> WorkerBudgets {
    let o = &engine.options;
    WorkerBudgets {
        defrag: pool.leaf("defrag", Some(o.defrag.memcap)),
        flow: pool.leaf("flow", Some(o.flow.memcap)),
        session: pool.leaf("stream", Some(o.stream.memcap)),
        stream: pool.leaf("reassembly", Some(o.stream.reassembly_memcap)),
        app: pool.leaf("app-layer", o.app_memcap),
    }
}

/// What the worker reports while it works.
#[derive(Default)]
struct Shared {
    position: Position,
    /// Panics that are not yet reported.
    failed: Mutex<Vec<String>>,
}

impl Shared {
    fn failed(&self, message: String) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }
}

/// What the watching thread knows.
struct Watching<'w> {
    watch: &'w mut dyn Watch,
    incidents: Vec<Incident>,
}

impl Watching<'_> {
    fn report(&mut self, kind: Trouble, message: String) {
        let incident = Incident { worker: NAME.to_string(), kind, message };
        self.watch.incident(&incident);
        self.incidents.push(incident);
    }

    fn note_end(&mut self, end: SingleEnd, lost_code: u8) {
        match end {
            // It continued and was through before anybody looked again.
            SingleEnd::Finished { was_stalled: true } => {
                self.report(Trouble::Recovered, "came to its end".to_string());
            }
            SingleEnd::Finished { was_stalled: false } => {}
            SingleEnd::Failed(message) => self.report(Trouble::Failed, message),
            SingleEnd::Overdue => {
                let message = no_progress("no other worker is left");
                self.report(Trouble::Abandoned, message);
                std::process::exit(i32::from(lost_code));
            }
        }
    }
}

impl Run<'_> {
    /// Reads all inputs by one worker.
    ///
    /// # Errors
    /// If threads can't be started.
    pub(super) fn single(
        &self,
        inputs: &[Input],
        outputs: &mut Outputs,
        watch: &mut dyn Watch,
    ) -> std::io::Result<Done> {
        let supervisor = Supervisor::start()?;
        let shared = Shared::default();
        let mut watching = Watching { watch, incidents: Vec::new() };
        let (done, ends) = std::thread::scope(|scope| {
            let (shared, outputs) = (&shared, &mut *outputs);
            let worker = supervisor.spawn_scoped(scope, NAME, move |pulse| {
                processors::bind(self.plan.processors(0));
                self.read_single(inputs, outputs, shared, pulse)
            })?;
            let end = watch_single(&supervisor, LOOK, STALL_END, &mut |change| {
                match change {
                    Some(Change::Stalled(message)) => watching.report(Trouble::Stalled, message),
                    Some(Change::Recovered(message)) => {
                        watching.report(Trouble::Recovered, message)
                    }
                    Some(Change::Finished | Change::Failed(_)) | None => {}
                }
                self.tick(shared, &mut watching);
            });
            watching.note_end(end, self.lost_code);
            self.tick(shared, &mut watching);
            std::io::Result::Ok(worker.join().ok().flatten().unwrap_or_default())
        })?;
        let mut done = done;
        done.lost_workers = u32::from(ends.is_empty());
        done.incidents = watching.incidents;
        done.enter(&ends, self, outputs);
        Ok(done)
    }

    /// What the watching thread looks after again and again.
    fn tick(&self, shared: &Shared, watching: &mut Watching<'_>) {
        let failed =
            std::mem::take(&mut *shared.failed.lock().unwrap_or_else(PoisonError::into_inner));
        for message in failed {
            watching.report(Trouble::Failed, message);
        }
        self.answer_reload(watching.watch);
        shared.position.report_to(watching.watch);
    }

    /// The worker's thread. What the worker left behind is missing when it failed.
    fn read_single(
        &self,
        inputs: &[Input],
        outputs: &mut Outputs,
        shared: &Shared,
        pulse: &Pulse,
    ) -> (Done, Vec<(u16, WorkerEnd)>) {
        let pool = self.budget.child("net", None);
        let engine = self.engine.now();
        let budgets = worker_budgets(&pool, &engine);
        let mut checksums = ChecksumSample::new(&engine);
        let mut worker = Worker::new(engine, budgets);
        let mut done = Done::default();
        let (mut reader, mut entry) = (Ledger::new(), Ledger::new());
        let (mut number, mut clock) = (0, AgreedClock::default());
        let mut is_lost = false;
        let mut queue = Queue::new(inputs, self.arrivals.clone());
        let mut outcomes = Vec::with_capacity(BATCH);
        let mut shedding = Shedding::default();
        let mut statistics_due = self.stats_every.map(|every| clock::now() + every);
        while let Some((at, input)) = queue.next(self.stop, pulse, &mut || outputs.flush_lines()) {
            outputs.set_input(&input.name());
            let mut take =
                |block: FrameBlock<'_>, record_outcome: &mut dyn FnMut(&FrameRef, Entry)| {
                    if self.reopen_asked() {
                        outputs.reopen();
                    }
                    if let Some(engine) = self.engine.other_than(worker.generation()) {
                        let began = clock::now();
                        worker.adopt(engine);
                        if let Some(board) = &self.board {
                            board.note_adoption(began.elapsed());
                        }
                    }
                    if let Some(tasks) = &self.tasks {
                        tasks.carry_out(0, &mut worker);
                    }
                    if let Some(board) = self.board.as_ref().filter(|_| block.kernel.is_some()) {
                        board.note_records(0, shedding.ledger());
                    }
                    outcomes.clear();
                    if let Some(kernel) = &block.kernel {
                        worker.note_kernel_drops(kernel.dropped);
                    }
                    if !is_lost {
                        #[cfg(test)]
                        let (fault, first) = (self.fault, block.first);
                        let result = pulse.guard(|| {
                            #[cfg(test)]
                            super::acted_fault::act(fault, 0, first);
                            worker.set_pressure(shedding.update_pressure(block.fill_percent));
                            let mut sink = shedding.sink(outputs);
                            inspect(&block, &mut worker, &mut sink, pulse, &mut outcomes);
                        });
                        if let Err(panicked) = result {
                            is_lost = true;
                            shared.failed(panicked.message);
                        }
                    }
                    // What a lost worker has not reached is lost with it.
                    for (n, r) in block.frames.iter().enumerate() {
                        record_outcome(r, outcomes.get(n).copied().unwrap_or(Entry::Lost));
                    }
                    if let (Some(due), Some(every), Some(kernel)) =
                        (&mut statistics_due, self.stats_every, block.kernel)
                        && clock::now() >= *due
                    {
                        *due += every;
                        let mut more = further_counters(outputs, self.started, Some(kernel));
                        more.extend(self.logged.iter().flat_map(|l| l.stats()));
                        let stats = WorkerStats::from_worker(&worker);
                        let (engine, facts) = (self.engine.now(), self.engine.facts());
                        let last = Some(&self.last_record);
                        let texts = stats::json(&[(0, &stats)], &engine, Some(facts), &more, last);
                        outputs.stats(clock::epoch_ns(), &texts);
                    }
                    if block.is_last_for_now {
                        outputs.flush_lines();
                    }
                };
            let mut see = |position, len| shared.position.set(at, position, len);
            let mut one = OneInput {
                state: InputState {
                    number: &mut number,
                    clock: &mut clock,
                    checksums: &mut checksums,
                },
                ledgers: InputLedgers {
                    reader: &mut reader,
                    entry: &mut entry,
                    note_counts: &|interface, counts| {
                        if let Some(board) = &self.board {
                            board.note_ring(interface, 0, counts);
                        }
                    },
                },
                stop: self.stop,
                opener: &self.opener,
                filter: self.filter.as_deref(),
                position: &shared.position,
                pulse,
            };
            let (read, is_stopped) = one.read_frames(&input, &mut take, &mut see);
            done.is_stopped |= is_stopped;
            read.into_iter().for_each(|input| queue.done(input, &mut done.inputs));
        }
        done.is_stopped |= queue.is_cut(self.stop);
        if self.reopen_asked() {
            outputs.reopen();
        }
        done.clock = clock.counts();
        done.checksums_ignored_from = checksums.abandoned_at();
        done.memory = self.memory();
        done.ledgers.add(stages::READER, None, &reader);
        done.ledgers.add(stages::ENGINE, None, &entry);
        shedding.enter(None, &mut done);
        if is_lost {
            return (done, Vec::new());
        }
        if let Err(panicked) = pulse.guard(|| self.finish(&mut worker, outputs, pulse)) {
            shared.failed(panicked.message);
            return (done, Vec::new());
        }
        let end = WorkerEnd::from_worker(&worker);
        done.threads.push((NAME.to_string(), end.cpu));
        (done, vec![(0, end)])
    }

    /// Ends all flows, and gives the counters to scripts that log them.
    fn finish(&self, worker: &mut Worker, outputs: &mut Outputs, pulse: &Pulse) {
        worker.close();
        while worker.end_some(outputs) {
            pulse.beat();
        }
        let engine = self.engine.now();
        if !engine.scripts.outputs.is_empty() {
            worker.log_stats(&stats::counters(&[&WorkerStats::from_worker(worker)], &engine));
        }
    }
}

/// Takes a block of frames through the worker. `outcomes` gets what happened to each, so that those
/// before a panic are known.
fn inspect(
    block: &FrameBlock<'_>,
    worker: &mut Worker,
    outputs: &mut dyn NetSink,
    pulse: &Pulse,
    outcomes: &mut Vec<Entry>,
) {
    for ((number, r), agreed) in (block.first..).zip(block.frames.iter()).zip(block.agreed) {
        let of = (block.device, block.ignored_from);
        let f = frame_in(r, block.bytes, (number, *agreed), of);
        let taken = worker.frame(&f, outputs);
        pulse.beat();
        outcomes.push(if taken { Entry::Taken } else { Entry::Unsupported });
    }
    if let Some(quiet) = block.quiet {
        let f = quiet.moment(block.first);
        while worker.advance_clock(&f, outputs) {
            pulse.beat();
        }
    }
}
