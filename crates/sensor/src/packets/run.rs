//! A packet run, from its sources to its outputs: captures are read in blocks, inspected by one worker or
//! several under a supervisor, and what is found is written in packet order.
//!
//! What the run left behind is one value, [`Done`]: what happened to each input, the ledgers of all stages,
//! counters and costs, and what happened to workers.

use super::arrivals::Arrivals;
use super::board::Board;
use super::capture::{Entry, FrameBlock, InputLedgers, InputState, OnFrame, OneInput, frame_in};
use super::incidents::{Incident, Position, Trouble, Watch};
use super::input::{HandedOver, Input, InputDone, KernelCounts};
use super::input_opener::InputOpener;
use super::packet_log::PacketLogCounts;
use super::reload::{Reloads, RunningEngine};
use super::stats::{self, LastRecord, WorkerStats};
use super::tasks::Tasks;
use gabion_capture::filter::Filter;
use gabion_capture::{AgreedClock, ClockCounts};
use gabion_net::{
    ChecksumSample, Engine, NetCounters, RuleCosts, Worker, WorkerBudgets, WorkerLedgers,
};
use gabion_outputs::Outputs;
use gabion_record::budget::{BudgetPool, BudgetReport};
use gabion_record::eve::NetSink;
use gabion_record::ledger::{Ledger, StageLedgers};
use gabion_record::limits::Reached;
use gabion_runtime::{Metrics, Pulse, Signals, StopFlag, clock};
use gabion_settings::WorkerPlan;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What a run left behind.
#[derive(Default)]
pub struct Done {
    /// Each input.
    pub inputs: Vec<InputDone>,
    /// The ledger of each stage.
    pub ledgers: StageLedgers,
    /// What the engine counted.
    pub counters: NetCounters,
    /// What was unusual about the times of frames.
    pub clock: ClockCounts,
    /// TCP packets that were not looked at further for their checksum.
    pub wrong_checksums: u64,
    /// Number of the frame from which on checksums were ignored, because too many before were wrong.
    pub checksums_ignored_from: Option<u64>,
    /// What rules, prefilters and parsers cost.
    pub costs: RuleCosts,
    /// What the budgets were used for, at the end of the reading: the tables', then that of the rules, if there are any.
    pub memory: Vec<BudgetReport>,
    /// The `stats` object, for the record at the end.
    pub stats: gabion_outputs::StatsTexts,
    /// Fixed limits that were reached, by workers and by all other threads.
    pub limits: Reached,
    /// Somebody asked to stop before the end.
    pub is_stopped: bool,
    /// It was SIGTERM.
    pub is_terminated: bool,
    /// Workers that were lost on the way.
    pub lost_workers: u32,
    /// The thread that reads for several workers was lost: how much was read is not known.
    pub is_reader_lost: bool,
    /// What happened to workers that should not.
    pub incidents: Vec<Incident>,
    /// Processor time of each thread that read, worked or wrote.
    pub threads: Vec<(String, Duration)>,
    /// Uses of state across flows by several workers, and those that had to wait.
    pub shared_uses: (u64, u64),
    /// What workers with rings of their own had to do with each other; none where frames are dealt by a reader.
    pub handed_over: Option<HandedOver>,
    /// Locks of the queues between threads that were taken, and those that somebody else held then.
    pub queue_locks: (u64, u64),
}

/// What a worker left behind.
pub(crate) struct WorkerEnd {
    /// Processor time of its thread so far.
    pub(crate) cpu: Duration,
    pub(crate) stats: WorkerStats,
    pub(crate) ledgers: WorkerLedgers,
    pub(crate) costs: RuleCosts,
}

impl WorkerEnd {
    pub(crate) fn from_worker(worker: &Worker) -> WorkerEnd {
        let mut costs = RuleCosts::new(0, None, worker.costs().is_exact());
        costs.merge(worker.costs());
        WorkerEnd {
            cpu: clock::thread_cpu(),
            stats: WorkerStats::from_worker(worker),
            ledgers: worker.ledgers().clone(),
            costs,
        }
    }
}

impl Done {
    /// Whether a thread was lost: the run is not whole.
    pub fn has_lost_threads(&self) -> bool {
        self.lost_workers > 0 || self.is_reader_lost
    }

    /// Enters what the workers left behind, each with its number.
    pub(crate) fn enter(&mut self, ends: &[(u16, WorkerEnd)], run: &Run<'_>, outputs: &Outputs) {
        for (n, end) in ends {
            end.ledgers.each(&mut |stage, ledger| self.ledgers.add(stage, Some(*n), ledger));
            self.counters.merge(&end.stats.net);
            self.wrong_checksums += end.stats.wrong_checksums();
            if self.costs.rules.is_empty() {
                self.costs = RuleCosts::new(0, None, end.costs.is_exact());
            }
            self.costs.merge(&end.costs);
        }
        let all: Vec<(usize, &WorkerStats)> =
            ends.iter().map(|(n, end)| (usize::from(*n), &end.stats)).collect();
        let mut kernel: Option<KernelCounts> = None;
        for counts in self.inputs.iter().filter_map(|input| input.kernel) {
            kernel.get_or_insert_default().add(&counts);
        }
        let mut more = further_counters(outputs, run.started, kernel);
        more.extend(run.logged.iter().flat_map(|l| l.stats()));
        // Nothing of this is in the records of a run in which nothing happened.
        for (name, kind) in [
            ("workers.stalled", Trouble::Stalled),
            ("workers.recovered", Trouble::Recovered),
            ("workers.failed", Trouble::Failed),
            ("workers.reader_failed", Trouble::ReaderFailed),
            ("workers.abandoned", Trouble::Abandoned),
        ] {
            let times = self.incidents.iter().filter(|i| i.kind == kind).count() as u64;
            more.extend((times > 0).then_some((name, times)));
        }
        if let Some(reloads) = &run.reloads {
            self.ledgers.add("rule loads", None, &reloads.ledger());
        }
        self.stats = stats::json(
            &all,
            &run.engine.now(),
            Some(run.engine.facts()),
            &more,
            Some(&run.last_record),
        );
    }
}

/// What outputs count, and of runs that read interfaces what the kernel counted there and the seconds since the start,
/// by the names of Suricata; runs over files have none of these.
pub(crate) fn further_counters(
    outputs: &Outputs,
    started: Instant,
    kernel: Option<KernelCounts>,
) -> Vec<(&'static str, u64)> {
    let mut more = outputs.counters();
    if let Some(kernel) = kernel {
        more.extend(kernel.counters());
        more.push(("uptime", started.elapsed().as_secs()));
    }
    more
}

/// A run that is to be made.
pub struct Run<'a> {
    /// The engine, which may be replaced while the run lasts.
    pub engine: &'a Arc<RunningEngine>,
    /// The memory that it may use.
    pub budget: &'a BudgetPool,
    /// The request to stop.
    pub stop: &'a StopFlag,
    /// How many workers there are, and where.
    pub plan: WorkerPlan,
    /// Which frames are read.
    pub filter: Option<Arc<Filter>>,
    /// Captures that come while the run lasts.
    pub arrivals: Option<Arrivals>,
    /// What opens captures.
    pub opener: Arc<InputOpener>,
    /// Requests from outside in addition to that to stop.
    pub signals: Option<Signals>,
    /// Loads other rules when asked to.
    pub reloads: Option<Arc<Reloads>>,
    /// What others hand to workers.
    pub tasks: Option<Arc<Tasks>>,
    /// What the run shows of itself.
    pub board: Option<Arc<Board>>,
    /// Where queues between threads are shown, too.
    pub metrics: Option<Metrics>,
    /// Outputs were opened again, and the watcher does not know yet.
    reopened: AtomicBool,
    /// Of a run that reads an interface: the time between two records of statistics; none but the last without.
    pub stats_every: Option<Duration>,
    /// The last record of statistics.
    pub(crate) last_record: LastRecord,
    /// When the run was made.
    pub(crate) started: Instant,
    /// What packet logs count.
    pub logged: Option<Arc<PacketLogCounts>>,
    /// The exit code when the only worker makes no progress.
    pub lost_code: u8,
    /// A fault to act out.
    #[cfg(test)]
    pub(crate) fault: Option<super::acted_fault::ActedFault>,
}

impl<'a> Run<'a> {
    /// A run with this engine, by one worker, over captures that `opener` opens.
    pub fn new(
        engine: &'a Arc<RunningEngine>,
        budget: &'a BudgetPool,
        stop: &'a StopFlag,
        opener: Arc<InputOpener>,
    ) -> Run<'a> {
        Run {
            engine,
            budget,
            stop,
            plan: WorkerPlan::default(),
            filter: None,
            arrivals: None,
            opener,
            signals: None,
            reloads: None,
            tasks: None,
            board: None,
            metrics: None,
            reopened: AtomicBool::new(false),
            stats_every: None,
            last_record: LastRecord::default(),
            started: clock::now(),
            logged: None,
            lost_code: 1,
            #[cfg(test)]
            fault: None,
        }
    }

    /// Reads all inputs.
    ///
    /// # Errors
    /// If threads can't be started.
    pub fn read_inputs(
        &self,
        inputs: &[Input],
        outputs: &mut Outputs,
        watch: &mut dyn Watch,
    ) -> std::io::Result<Done> {
        let mut done = match self.plan.workers {
            0 | 1 => self.single(inputs, outputs, watch),
            _ => self.parallel(inputs, outputs, watch),
        }?;
        done.is_terminated = self.signals.as_ref().is_some_and(Signals::is_terminated);
        Ok(done)
    }

    /// The budget of the tables, and what the rules hold.
    pub(super) fn memory(&self) -> Vec<BudgetReport> {
        let rules = self.engine.memory().report();
        let rules = (!rules.children.is_empty()).then_some(rules);
        [self.budget.report()].into_iter().chain(rules).collect()
    }

    /// Whether somebody asked for outputs to be opened again (SIGHUP).
    pub(crate) fn reopen_asked(&self) -> bool {
        let is_asked = self.signals.as_ref().is_some_and(Signals::take_reopen);
        if is_asked {
            self.reopened.store(true, Relaxed);
        }
        is_asked
    }

    /// Answers a request for other rules, and passes on that outputs were opened again.
    pub(crate) fn answer_reload(&self, watch: &mut dyn Watch) {
        if self.reopened.swap(false, Relaxed) {
            watch.reopen();
        }
        if self.signals.as_ref().is_some_and(Signals::take_reload) {
            watch.reload(self.reloads.as_ref().map(Reloads::ask));
        }
    }
}

/// Reads one capture by a worker of its own, on this thread; records go to the sink.
pub(crate) fn read_capture<S: NetSink>(
    engine: &Arc<Engine>,
    (opener, input): (&InputOpener, &Input),
    sink: &mut S,
) -> InputDone {
    let mut worker = Worker::new(Arc::clone(engine), WorkerBudgets::standalone(engine));
    let mut take = |block: FrameBlock<'_>, on_frame: OnFrame<'_>| {
        let agreed = block.agreed.iter();
        for ((number, r), agreed) in (block.first..).zip(block.frames.iter()).zip(agreed) {
            let of = (block.device, block.ignored_from);
            let f = frame_in(r, block.bytes, (number, *agreed), of);
            let taken = worker.frame(&f, sink);
            on_frame(r, if taken { Entry::Taken } else { Entry::Unsupported });
        }
    };
    let (mut reader, mut entry) = (Ledger::new(), Ledger::new());
    let mut one = OneInput {
        state: InputState {
            number: &mut 0,
            clock: &mut AgreedClock::default(),
            checksums: &mut ChecksumSample::new(engine),
        },
        ledgers: InputLedgers { reader: &mut reader, entry: &mut entry, note_counts: &|_, _| {} },
        stop: &StopFlag::new(),
        opener,
        filter: None,
        position: &Position::default(),
        pulse: &Pulse::unwatched(),
    };
    let (done, _) = one.read_frames(input, &mut take, &mut |_, _| {});
    worker.finish(sink);
    done.into_iter().next().unwrap_or_default()
}
