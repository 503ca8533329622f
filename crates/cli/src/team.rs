//! Captures through several workers.
//!
//! A reader thread cuts the captures into batches of frames and tells by the partition key which
//! worker each frame belongs to. Every worker walks every batch: its own frames go through its
//! engine, of the others' it only takes the time, so that flows end at the same packet as with one
//! worker. Lines come back a batch at a time and are written by this thread in packet order. State
//! that rules keep across flows is used in packet order too (see `gabion_net::Team`), so the answer
//! does not depend on the number of workers.
//!
//! A worker that panics is given up: its share of the frames is shed as `worker_lost`, the others go
//! on. One that stalls is waited for a while; then the run ends with what was written so far.

use crate::pipeline::{Done, Entry, FrameBlock, Input, InputDone, OneInput, Run, Watch, WorkerEnd};
use gabion_capture::{CaptureBytes, FrameRef};
use gabion_net::{Engine, FrameIn, Team, Worker, WorkerBudgets};
use gabion_outputs::files::{Outputs, Tally};
use gabion_outputs::sequence::{LineBatch, WorkerOutputs};
use gabion_packet::Link;
use gabion_record::budget::BudgetPool;
use gabion_record::ledger::Ledger;
use gabion_rules::Ruleset;
use gabion_rules::content::{BufferCondition, DatasetCommand};
use gabion_rules::post::{PostMatch, TagScope};
use gabion_runtime::channel::Empty;
use gabion_runtime::metrics::LedgerSlot;
use gabion_runtime::{
    Capacity, Event, EventKind, Load, Metrics, Pulse, Receiver, Sender, StopFlag, Supervisor,
    channel,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Frames and bytes under way to one worker: some tens of batches.
const TO_WORKER: Capacity = Capacity { items: 16_384, bytes: 64 << 20 };
/// Lines and bytes under way from one worker.
const FROM_WORKER: Capacity = Capacity { items: 65_536, bytes: 64 << 20 };
/// How long a stalled worker is waited for before the run is ended.
const STALL_GRACE: Duration = Duration::from_secs(10);
/// How long one look for a message waits before events are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Frames that were read together.
struct Batch {
    bytes: Arc<CaptureBytes>,
    frames: Vec<FrameRef>,
    /// The worker of each frame; [`NOBODY`] where none is given it.
    owners: Vec<u8>,
    /// Number of the first frame.
    first: u64,
    /// The capture, when it is another than before.
    capture: Option<String>,
}

/// No worker's number.
const NOBODY: u8 = u8::MAX;

/// A batch on its way to one worker: its own frames and their bytes count.
struct Work {
    batch: Arc<Batch>,
    items: u64,
    bytes: u64,
}

impl Load for Work {
    fn items(&self) -> u64 {
        self.items
    }
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// One worker's lines for one batch.
struct Lines(LineBatch);

impl Load for Lines {
    fn items(&self) -> u64 {
        self.0.lines() as u64
    }
    fn bytes(&self) -> u64 {
        self.0.bytes() as u64
    }
}

/// Where the reader stands.
#[derive(Default)]
struct Position {
    input: AtomicUsize,
    position: AtomicU64,
    len: AtomicU64,
}

/// What the reader left behind.
struct ReaderEnd {
    inputs: Vec<InputDone>,
    reader: Ledger,
    entry: Ledger,
    is_stopped: bool,
}

/// A worker as the writing thread sees it.
struct Member {
    lines: Option<Receiver<Lines>>,
    thread: gabion_runtime::Worker<(WorkerEnd, Tally)>,
    stalled_since: Option<Instant>,
}

/// Why these rules can't be shared out, if so: they keep state across flows that is not used in
/// packet order.
pub(crate) fn needs_one_worker(set: &Ruleset) -> Option<&'static str> {
    let writes = |c: &BufferCondition| match c {
        BufferCondition::Dataset(t) => {
            matches!(t.command, DatasetCommand::Set | DatasetCommand::Unset)
        }
        _ => false,
    };
    let tags_hosts = |p: &PostMatch| match p {
        PostMatch::Tag(t) => t.scope != TagScope::Session,
        _ => false,
    };
    for s in &set.signatures {
        if s.post_match.iter().any(tags_hosts) {
            return Some("rules tag hosts");
        }
        if s.buffers.iter().any(|b| b.conditions.iter().any(writes)) {
            return Some("rules write datasets");
        }
    }
    None
}

/// How a worker waits for another: first for a moment, then by giving way, then asleep.
fn pause(tries: u32) {
    match tries {
        0..64 => std::hint::spin_loop(),
        64..4096 => std::thread::yield_now(),
        _ => std::thread::sleep(Duration::from_micros(50)),
    }
}

impl Run<'_> {
    /// Reads all inputs by several workers.
    ///
    /// # Errors
    /// If threads can't be started.
    pub(crate) fn team(
        &self,
        workers: usize,
        inputs: &[Input],
        outputs: &mut Outputs,
        watch: &mut dyn Watch,
    ) -> std::io::Result<Done> {
        let workers = workers.clamp(1, gabion_net::WORKERS_MAX);
        let supervisor = Supervisor::start()?;
        let metrics = Metrics::new();
        let team = Arc::new(Team::new(workers, pause));
        let pool = self.budget.child("net", None);
        let pools = Pools::new(&pool, self.engine);
        let mut to_workers = Vec::new();
        let mut members = Vec::new();
        let mut edges = Vec::new();
        for n in 0..workers {
            let number = n as u16;
            let (to, work, edge) = channel::<Work>("reader>worker", TO_WORKER);
            let (out, lines, lines_edge) = channel::<Lines>("worker>writer", FROM_WORKER);
            metrics.edge(Some(number), &edge);
            metrics.edge(Some(number), &lines_edge);
            let job = Job {
                n,
                engine: Arc::clone(self.engine),
                budgets: pools.worker(n),
                team: Arc::clone(&team),
                outputs: outputs.for_worker(),
                work,
                out,
                slot: metrics.ledger("worker", Some(number)),
            };
            let name = format!("worker {n}");
            let input = Some(Arc::clone(&edge));
            let thread = supervisor.spawn(&name, input, move |pulse| job.run(pulse))?;
            members.push(Member { lines: Some(lines), thread, stalled_since: None });
            to_workers.push(to);
            edges.push(edge);
        }
        let position = Arc::new(Position::default());
        let reader = {
            let (inputs, stop) = (inputs.to_vec(), self.stop.clone());
            let position = Arc::clone(&position);
            std::thread::Builder::new()
                .name("reader".to_string())
                .spawn(move || read(&inputs, &to_workers, &stop, &position))?
        };
        let mut writer = Writer { outputs, members, supervisor: &supervisor, team: &team, lost: 0 };
        let is_whole = writer.write(&position, watch);
        let memory = self.budget.report();
        let (members, lost) = (writer.members, writer.lost);
        let mut done = Done { lost_workers: lost, memory: Some(memory), ..Done::default() };
        // A reader that waits for a stalled worker can't be asked any more.
        if is_whole && let Ok(end) = reader.join() {
            done.inputs = end.inputs;
            done.is_stopped = end.is_stopped;
            done.books.add("reader", None, &end.reader);
            done.books.add("engine", None, &end.entry);
        }
        let mut ends = Vec::new();
        for (n, member) in members.into_iter().enumerate() {
            let is_stuck = member.stalled_since.is_some();
            match if is_stuck { None } else { member.thread.join() } {
                Some((end, tally)) => {
                    outputs.add_tally(&tally);
                    ends.push((n as u16, end));
                }
                None => {
                    metrics.write_off("worker", Some(n as u16), &edges[n]);
                }
            }
        }
        for e in metrics.books().entries() {
            done.books.add(&e.joint, e.worker, &e.ledger);
        }
        done.enter(&ends, self);
        Ok(done)
    }
}

/// Budgets that workers share: the limits hold for all of them together.
struct Pools {
    defrag: BudgetPool,
    flow: BudgetPool,
    session: BudgetPool,
    stream: BudgetPool,
}

impl Pools {
    fn new(pool: &BudgetPool, engine: &Engine) -> Pools {
        let o = &engine.options;
        Pools {
            defrag: pool.child("defrag", Some(o.defrag.memcap)),
            flow: pool.child("flow", Some(o.flow.memcap)),
            session: pool.child("stream", Some(o.stream.memcap)),
            stream: pool.child("reassembly", Some(o.stream.reassembly_memcap)),
        }
    }

    fn worker(&self, n: usize) -> WorkerBudgets {
        let name = format!("worker {n}");
        WorkerBudgets {
            defrag: self.defrag.leaf(&name, None),
            flow: self.flow.leaf(&name, None),
            session: self.session.leaf(&name, None),
            stream: self.stream.leaf(&name, None),
        }
    }
}

/// Everything a worker thread needs.
struct Job {
    n: usize,
    engine: Arc<Engine>,
    budgets: WorkerBudgets,
    team: Arc<Team>,
    outputs: WorkerOutputs,
    work: Receiver<Work>,
    out: Sender<Lines>,
    slot: LedgerSlot,
}

impl Job {
    fn run(mut self, pulse: &Pulse) -> (WorkerEnd, Tally) {
        let seat = self.team.seat(self.n);
        let mut worker = Worker::in_team(self.engine, self.budgets, &self.team, self.n);
        let mut ledger = Ledger::new();
        while let Some(work) = pulse.await_input(|| self.work.recv()) {
            ledger.receive(work.items, work.bytes);
            if let Some(name) = &work.batch.capture {
                self.outputs.set_capture(name);
            }
            walk(&work.batch, self.n, &mut worker, &mut self.outputs);
            ledger.pass(work.items, work.bytes);
            self.slot.publish(&ledger);
            let lines = Lines(self.outputs.take(LineBatch::default()));
            // A writer that is gone has given this worker up.
            let _ = pulse.rest(|| self.out.send(lines));
        }
        self.outputs.before_frame(u64::MAX >> 1);
        worker.finish(&mut self.outputs);
        drop(seat);
        let lines = Lines(self.outputs.take(LineBatch::default()));
        let _ = pulse.rest(|| self.out.send(lines));
        self.slot.publish_last(&ledger);
        (WorkerEnd::of(&worker), self.outputs.tally().clone())
    }
}

/// Takes a batch through a worker: its own frames, and of all others the time.
fn walk(batch: &Batch, n: usize, worker: &mut Worker, out: &mut WorkerOutputs) {
    for ((number, r), owner) in (batch.first..).zip(&batch.frames).zip(&batch.owners) {
        if *owner == NOBODY {
            continue;
        }
        out.before_frame(number);
        worker.pass_by(number, r.ts_ns, out);
        if usize::from(*owner) == n {
            out.at_frame(number);
            let f = r.frame(&batch.bytes);
            worker.take(&FrameIn { ts_ns: f.ts_ns, number, link: f.link, data: f.data }, out);
        }
    }
}

/// The reader thread: cuts captures into batches and gives each to every worker.
fn read(
    inputs: &[Input],
    workers: &[Sender<Work>],
    stop: &StopFlag,
    position: &Position,
) -> ReaderEnd {
    let mut end = ReaderEnd {
        inputs: Vec::new(),
        reader: Ledger::new(),
        entry: Ledger::new(),
        is_stopped: false,
    };
    let mut number = 0;
    for (at, input) in inputs.iter().enumerate() {
        if stop.is_set() {
            end.is_stopped = true;
            break;
        }
        let mut capture = Some(input.path.display().to_string());
        let mut take = |block: FrameBlock<'_>, became: &mut dyn FnMut(&FrameRef, Entry)| {
            hand_out(block, capture.take(), workers, became);
        };
        let mut see = |to: u64, len: Option<u64>| {
            position.input.store(at, Relaxed);
            position.position.store(to, Relaxed);
            position.len.store(len.unwrap_or(0), Relaxed);
        };
        let mut one =
            OneInput { number: &mut number, reader: &mut end.reader, entry: &mut end.entry, stop };
        let (done, is_stopped) = one.read(input, &mut take, &mut see);
        end.is_stopped |= is_stopped;
        end.inputs.push(done);
    }
    end
}

/// Gives a block of frames to the workers.
fn hand_out(
    block: FrameBlock<'_>,
    capture: Option<String>,
    workers: &[Sender<Work>],
    became: &mut dyn FnMut(&FrameRef, Entry),
) {
    let mut owners = Vec::with_capacity(block.frames.len());
    let mut shares = vec![(0, 0); workers.len()];
    for r in block.frames.iter() {
        let owner = owner(r, block.bytes, workers.len());
        match owner.and_then(|n| shares.get_mut(n)) {
            Some((items, bytes)) => {
                *items += 1;
                *bytes += u64::from(r.len);
                became(r, Entry::Taken);
            }
            None => became(r, Entry::Unsupported),
        }
        owners.push(owner.and_then(|n| u8::try_from(n).ok()).unwrap_or(NOBODY));
    }
    let batch = Arc::new(Batch {
        bytes: Arc::clone(block.bytes),
        frames: std::mem::take(block.frames),
        owners,
        first: block.first,
        capture,
    });
    for (to, (items, bytes)) in workers.iter().zip(shares) {
        // What a lost worker does not take is shed in the edge's ledger.
        let _ = to.send(Work { batch: Arc::clone(&batch), items, bytes });
    }
}

/// The worker a frame belongs to; none when its link type is not decoded.
fn owner(r: &FrameRef, bytes: &CaptureBytes, workers: usize) -> Option<usize> {
    let link = Link::from_linktype(r.link.into())?;
    let key = gabion_packet::partition_key(link, r.frame(bytes).data);
    // The high bits of a product: fair for any number of workers.
    usize::try_from((u64::from(key) * workers as u64) >> 32).ok()
}

/// Writes what the workers send, in packet order, and watches over them.
struct Writer<'a> {
    outputs: &'a mut Outputs,
    members: Vec<Member>,
    supervisor: &'a Supervisor,
    team: &'a Team,
    lost: u32,
}

/// What came from a worker.
enum Came {
    Lines(LineBatch),
    /// It is through, or was given up.
    Ended,
    /// It does not go on.
    Stuck,
}

impl Writer<'_> {
    /// Writes until all workers are through. False: one of them does not go on.
    fn write(&mut self, position: &Position, watch: &mut dyn Watch) -> bool {
        let mut batches: Vec<LineBatch> = Vec::with_capacity(self.members.len());
        loop {
            batches.clear();
            let mut is_stuck = false;
            for n in 0..self.members.len() {
                match self.next(n) {
                    Came::Lines(lines) => batches.push(lines),
                    Came::Ended => {}
                    Came::Stuck => is_stuck = true,
                }
            }
            self.outputs.write(&mut batches);
            if is_stuck {
                return false;
            }
            if batches.is_empty() {
                self.events();
                return true;
            }
            let len = position.len.load(Relaxed);
            watch.position(
                position.input.load(Relaxed),
                position.position.load(Relaxed),
                (len > 0).then_some(len),
            );
        }
    }

    /// The next lines of a worker, while events are looked after.
    fn next(&mut self, n: usize) -> Came {
        loop {
            let Some(lines) = self.members.get(n).and_then(|m| m.lines.as_ref()) else {
                return Came::Ended;
            };
            match lines.recv_timeout(LOOK) {
                Ok(Lines(batch)) => return Came::Lines(batch),
                Err(Empty::Ended) => {
                    self.members[n].lines = None;
                    return Came::Ended;
                }
                Err(Empty::Yet) => {}
            }
            self.events();
            let stuck = |m: &Member| m.stalled_since.is_some_and(|t| t.elapsed() >= STALL_GRACE);
            if self.members.iter().any(stuck) {
                return Came::Stuck;
            }
        }
    }

    /// Says what happened to workers.
    fn events(&mut self) {
        while let Some(event) = self.supervisor.poll_event() {
            let Event { worker, name, kind, message } = event;
            let n = worker.0 as usize;
            match kind {
                EventKind::Finished => {}
                EventKind::Panicked => {
                    self.lost += 1;
                    self.team.give_up(n);
                    eprintln!(
                        "gabion: {name}: failed: {message}: its packets are shed, report this"
                    );
                }
                EventKind::Stalled => {
                    if let Some(m) = self.members.get_mut(n) {
                        m.stalled_since = Some(Instant::now());
                    }
                    let grace = STALL_GRACE.as_secs();
                    eprintln!("gabion: {name}: stalled: {message}: waiting {grace} s for it");
                }
                EventKind::Recovered => {
                    if let Some(m) = self.members.get_mut(n) {
                        m.stalled_since = None;
                    }
                    eprintln!("gabion: {name}: goes on: {message}: nothing was lost");
                }
            }
        }
    }
}
