//! Captures through the engine into outputs: the way of every run that reads, whichever front door
//! it came through.
//!
//! Workers run under a supervisor: one alone (`alone`), or several (`team`). What the run left behind
//! is one value, [`Done`]: what became of each input, the ledgers of all stages, counters and costs,
//! and what happened to workers.

use crate::arrivals::Arrivals;
use crate::opened_once::OpenedOnce;
use crate::packet_log;
use crate::stats::{self, WorkerStats};
use gabion_capture::filter::Filter;
use gabion_capture::{
    Agreed, AgreedClock, CaptureBytes, ClockCounts, FrameRef, OpenOptions, Source,
};
use gabion_flowlog::source::is_read_once;
use gabion_net::{ChecksumSample, Engine, FrameIn, NetCounters, RuleCosts, Worker, WorkerBooks};
use gabion_outputs::files::Outputs;
use gabion_record::budget::{BudgetPool, BudgetReport};
use gabion_record::ledger::{Ledger, ShedReason, StageLedgers};
use gabion_record::limits::Reached;
use gabion_runtime::input::{Stoppable, open_once};
use gabion_runtime::{Pulse, Signals, StopFlag, clock};
use gabion_settings::WorkerPlan;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Frames taken from the reader at a time.
pub(crate) const BATCH: usize = 128;

/// A capture to read.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) path: PathBuf,
    /// Named by the user, rather than found in a folder.
    pub(crate) is_named: bool,
}

/// What became of an input.
#[derive(Debug, Default)]
pub(crate) struct InputDone {
    pub(crate) path: PathBuf,
    pub(crate) is_named: bool,
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    /// Earliest and latest event time.
    pub(crate) span_ns: Option<(u64, u64)>,
    /// What a person should know, and how many such notes there were in all.
    pub(crate) notes: Vec<String>,
    /// Why nothing could be read.
    pub(crate) error: Option<String>,
    /// What to do about it.
    pub(crate) advice: &'static str,
}

/// What a run left behind.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) inputs: Vec<InputDone>,
    pub(crate) ledgers: StageLedgers,
    pub(crate) counters: NetCounters,
    /// What was unusual about the times of frames.
    pub(crate) clock: ClockCounts,
    /// TCP packets that were not looked at further for their checksum.
    pub(crate) wrong_checksums: u64,
    /// Number of the frame from which on checksums were ignored, because too many before were wrong.
    pub(crate) checksums_ignored_from: Option<u64>,
    pub(crate) costs: RuleCosts,
    /// What the budgets were used for, at the end of the reading.
    pub(crate) memory: Option<BudgetReport>,
    /// The `stats` object, for the record at the end.
    pub(crate) stats: gabion_outputs::files::StatsTexts,
    /// Fixed limits that were reached, by workers and by all other threads.
    pub(crate) limits: Reached,
    /// Somebody asked to stop before the end.
    pub(crate) is_stopped: bool,
    /// It was SIGTERM.
    pub(crate) is_terminated: bool,
    /// Workers that were lost on the way.
    pub(crate) lost_workers: u32,
    /// What happened to workers that should not.
    pub(crate) incidents: Vec<Incident>,
    /// Processor time of each thread that read, worked or wrote.
    pub(crate) threads: Vec<(String, Duration)>,
    /// Uses of state across flows by several workers, and those that had to wait.
    pub(crate) shared_uses: (u64, u64),
    /// Locks of the queues between threads that were taken, and those that somebody else held then.
    pub(crate) queue_locks: (u64, u64),
}

/// What a worker left behind.
pub(crate) struct WorkerEnd {
    /// Processor time of its thread so far.
    pub(crate) cpu: Duration,
    pub(crate) stats: WorkerStats,
    pub(crate) books: WorkerBooks,
    pub(crate) costs: RuleCosts,
}

impl WorkerEnd {
    pub(crate) fn of(worker: &Worker) -> WorkerEnd {
        let mut costs = RuleCosts::new(0, None, worker.costs().is_exact());
        costs.merge(worker.costs());
        WorkerEnd {
            cpu: clock::thread_cpu(),
            stats: WorkerStats::of(worker),
            books: worker.books().clone(),
            costs,
        }
    }
}

impl Done {
    /// Enters what the workers left behind, each with its number.
    pub(crate) fn enter(&mut self, ends: &[(u16, WorkerEnd)], run: &Run<'_>, outputs: &Outputs) {
        for (n, end) in ends {
            end.books.each(&mut |stage, ledger| self.ledgers.add(stage, Some(*n), ledger));
            self.counters.merge(&end.stats.net);
            self.wrong_checksums += end.stats.wrong_checksums();
            if self.costs.rules.is_empty() {
                self.costs = RuleCosts::new(0, None, end.costs.is_exact());
            }
            self.costs.merge(&end.costs);
        }
        let all: Vec<&WorkerStats> = ends.iter().map(|(_, end)| &end.stats).collect();
        let mut more = outputs.counters();
        more.extend(run.logged.iter().flat_map(|l| l.stats()));
        // Nothing of this is in the records of a run in which nothing happened.
        for (name, kind) in [
            ("workers.stalled", Trouble::Stalled),
            ("workers.recovered", Trouble::Recovered),
            ("workers.failed", Trouble::Failed),
            ("workers.given_up", Trouble::GivenUp),
        ] {
            let times = self.incidents.iter().filter(|i| i.kind == kind).count() as u64;
            more.extend((times > 0).then_some((name, times)));
        }
        self.stats = stats::json(&all, run.engine, Some(run.counts), &more);
    }
}

/// What happened to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It has work and does not go on.
    Stalled,
    /// It goes on again.
    Recovered,
    /// It panicked.
    Failed,
    /// It did not go on for too long.
    GivenUp,
}

impl Trouble {
    /// The word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Trouble::Stalled => "stalled",
            Trouble::Recovered => "recovered",
            Trouble::Failed => "failed",
            Trouble::GivenUp => "given up",
        }
    }
}

/// Something that happened to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Incident {
    pub(crate) worker: String,
    pub(crate) kind: Trouble,
    pub(crate) message: String,
}

impl Incident {
    /// One line for a person.
    pub(crate) fn line(&self) -> String {
        let (worker, kind, message) = (&self.worker, self.kind.name(), &self.message);
        match self.kind {
            Trouble::Stalled => format!("{worker}: {kind}: {message}: waiting for it"),
            Trouble::Recovered => format!("{worker}: {kind}: {message}"),
            Trouble::Failed | Trouble::GivenUp => {
                format!("{worker}: {kind}: {message}: its packets are shed, report this")
            }
        }
    }
}

/// Is told how a run goes while it goes.
pub(crate) trait Watch {
    /// Frames were read: bytes of this capture so far, all of its bytes if known.
    fn position(&mut self, _input: usize, _position: u64, _len: Option<u64>) {}

    /// Something happened to a worker. Whoever does not say otherwise, says it on standard error.
    fn incident(&mut self, incident: &Incident) {
        eprintln!("gabion: {}", incident.line());
    }

    /// Somebody asked for files to be opened by their names again (SIGHUP).
    fn reopen(&mut self) {}

    /// Somebody asked for other rules (SIGUSR2).
    fn reload(&mut self) {
        eprintln!("gabion: {RELOAD}");
    }
}

/// What is said to who asks for other rules.
pub(crate) const RELOAD: &str =
    "rules: not reloaded while captures are read: end this run and start another";

/// Nobody looks.
pub(crate) struct Unwatched;

impl Watch for Unwatched {}

/// Where the reading stands.
#[derive(Debug, Default)]
pub(crate) struct Position {
    input: AtomicUsize,
    position: AtomicU64,
    len: AtomicU64,
}

impl Position {
    /// So far.
    pub(crate) fn set(&self, input: usize, position: u64, len: Option<u64>) {
        self.input.store(input, Relaxed);
        self.position.store(position, Relaxed);
        self.len.store(len.unwrap_or(0), Relaxed);
    }

    /// Tells it.
    pub(crate) fn tell(&self, watch: &mut dyn Watch) {
        let len = self.len.load(Relaxed);
        let len = (len > 0).then_some(len);
        watch.position(self.input.load(Relaxed), self.position.load(Relaxed), len);
    }
}

/// A run that is to be made.
pub(crate) struct Run<'a> {
    pub(crate) engine: &'a Arc<Engine>,
    pub(crate) budget: &'a BudgetPool,
    pub(crate) stop: &'a StopFlag,
    pub(crate) counts: gabion_rules::Counts,
    pub(crate) plan: WorkerPlan,
    /// Which frames are read.
    pub(crate) filter: Option<Arc<Filter>>,
    /// Captures that come while the run lasts.
    pub(crate) arrivals: Option<Arrivals>,
    /// A pipe that was looked into.
    pub(crate) opened: Arc<OpenedOnce>,
    /// Requests from outside beside that to stop.
    pub(crate) signals: Option<Signals>,
    /// Outputs were opened anew, and whoever watches does not know yet.
    reopened: AtomicBool,
    /// What packet logs count.
    pub(crate) logged: Option<Arc<packet_log::Counts>>,
    /// The exit code when the only worker does not go on.
    pub(crate) lost_code: u8,
    /// A fault to act out.
    #[cfg(test)]
    pub(crate) fault: Option<crate::team::tests::ActedFault>,
}

impl<'a> Run<'a> {
    /// A run with this engine, by one worker.
    pub(crate) fn new(
        engine: &'a Arc<Engine>,
        budget: &'a BudgetPool,
        stop: &'a StopFlag,
        counts: gabion_rules::Counts,
    ) -> Run<'a> {
        Run {
            engine,
            budget,
            stop,
            counts,
            plan: WorkerPlan::default(),
            filter: None,
            arrivals: None,
            opened: Arc::default(),
            signals: None,
            reopened: AtomicBool::new(false),
            logged: None,
            lost_code: crate::exit::Exit::Internal.code(),
            #[cfg(test)]
            fault: None,
        }
    }

    /// Reads all inputs.
    ///
    /// # Errors
    /// If threads can't be started.
    pub(crate) fn read(
        &self,
        inputs: &[Input],
        outputs: &mut Outputs,
        watch: &mut dyn Watch,
    ) -> std::io::Result<Done> {
        let mut done = match self.plan.workers {
            0 | 1 => self.alone(inputs, outputs, watch),
            _ => self.team(inputs, outputs, watch),
        }?;
        done.is_terminated = self.signals.as_ref().is_some_and(Signals::is_terminated);
        Ok(done)
    }

    /// Whether somebody asked for outputs to be opened anew (SIGHUP).
    pub(crate) fn reopen_asked(&self) -> bool {
        let is_asked = self.signals.as_ref().is_some_and(Signals::take_reopen);
        if is_asked {
            self.reopened.store(true, Relaxed);
        }
        is_asked
    }

    /// Answers who asked for other rules, and passes on that outputs were opened anew.
    pub(crate) fn answer_reload(&self, watch: &mut dyn Watch) {
        if self.reopened.swap(false, Relaxed) {
            watch.reopen();
        }
        if self.signals.as_ref().is_some_and(Signals::take_reload) {
            watch.reload();
        }
    }
}

/// Opens a capture. What may not come for long is read so that a request to stop is heard.
fn open(
    path: &Path,
    opened: &OpenedOnce,
    stop: &StopFlag,
) -> Result<Source, gabion_capture::Error> {
    if !is_read_once(path) {
        return Source::open(path);
    }
    let from = match opened.take(path, stop) {
        Some(from) => from,
        None => Box::new(Stoppable::new(open_once(path)?, stop.clone())),
    };
    Source::from_reader_with(from, true, OpenOptions::default())
}

/// Reads one capture, block by block.
pub(crate) struct OneInput<'a> {
    /// Number of the last frame of the run.
    pub(crate) number: &'a mut u64,
    /// The clock of the run.
    pub(crate) clock: &'a mut AgreedClock,
    /// Whether checksums are looked at.
    pub(crate) checksums: &'a mut ChecksumSample,
    pub(crate) reader: &'a mut Ledger,
    pub(crate) entry: &'a mut Ledger,
    pub(crate) stop: &'a StopFlag,
    /// A pipe that was looked into.
    pub(crate) opened: &'a OpenedOnce,
    pub(crate) filter: Option<&'a Filter>,
    /// Of the thread that reads: waiting for input is no stall.
    pub(crate) pulse: &'a Pulse,
}

/// Frames that were read together.
pub(crate) struct FrameBlock<'a> {
    pub(crate) bytes: &'a Arc<CaptureBytes>,
    pub(crate) frames: &'a mut Vec<FrameRef>,
    /// The clock at each of them.
    pub(crate) agreed: &'a [Agreed],
    /// Number of the first frame.
    pub(crate) first: u64,
    /// Number of the first frame of the run whose checksums are ignored.
    pub(crate) ignored_from: u64,
    /// More must be waited for: what was found so far is to be seen meanwhile.
    pub(crate) is_last_for_now: bool,
}

/// A frame as the engine takes it.
#[inline]
pub(crate) fn frame_in<'a>(
    r: &FrameRef,
    bytes: &'a CaptureBytes,
    number: u64,
    agreed: Agreed,
    ignored_from: u64,
) -> FrameIn<'a> {
    let f = r.frame(bytes);
    FrameIn {
        ts_ns: f.ts_ns,
        clock_ns: agreed.ns,
        is_leap: agreed.is_leap,
        number,
        link: f.link,
        ignores_checksums: number >= ignored_from,
        wire_len: f.wire_len,
        data: f.data,
        fragments: None,
    }
}

/// What became of one frame at the engine's entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Taken,
    Unsupported,
    /// Its worker is lost.
    Lost,
}

/// Is told what became of each frame of a block.
pub(crate) type Tell<'t> = &'t mut dyn FnMut(&FrameRef, Entry);

impl OneInput<'_> {
    /// Reads one capture to its end, or until it is asked to stop (then true). `take` is given each
    /// block and tells what became of its frames by calling what it is given.
    pub(crate) fn read(
        &mut self,
        input: &Input,
        take: &mut dyn FnMut(FrameBlock<'_>, Tell<'_>),
        see: &mut dyn FnMut(u64, Option<u64>),
    ) -> (InputDone, bool) {
        let mut done = InputDone {
            path: input.path.clone(),
            is_named: input.is_named,
            ..InputDone::default()
        };
        let mut source = match self.pulse.rest(|| open(&input.path, self.opened, self.stop)) {
            Ok(source) => source,
            Err(_) if self.stop.is_set() => return (done, true),
            Err(e) => {
                done.error = Some(e.to_string());
                done.advice = advice(&e);
                return (done, false);
            }
        };
        let mut unsupported: Option<(u16, u64)> = None;
        let mut is_stopped = false;
        // Blocks behind the one at hand, read to see whether a time far off is agreed with.
        let mut ahead: VecDeque<(Arc<CaptureBytes>, Vec<FrameRef>)> = VecDeque::new();
        let (mut spare, mut agreed) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        let mut is_all = false;
        loop {
            let next = match ahead.pop_front() {
                Some(block) => Some(block),
                None => self.block(&mut source, &mut spare),
            };
            let Some((bytes, mut frames)) = next else { break };
            agreed.clear();
            for (n, r) in frames.iter().enumerate() {
                let here = frames.get(n + 1..).unwrap_or_default();
                agreed.push(loop {
                    let later = here.iter().chain(ahead.iter().flat_map(|(_, frames)| frames));
                    if let Some(at) = self.clock.at(r.ts_ns, later.map(|r| r.ts_ns), is_all) {
                        break at;
                    }
                    let more = match self.stop.is_set() {
                        true => None,
                        false => self.block(&mut source, &mut Vec::with_capacity(BATCH)),
                    };
                    match more {
                        Some(block) => ahead.push_back(block),
                        None => is_all = true,
                    }
                });
            }
            let first = *self.number + 1;
            *self.number += frames.len() as u64;
            if !self.checksums.is_decided() {
                for (number, r) in (first..).zip(&frames) {
                    let f = r.frame(&bytes);
                    self.checksums.look(number, f.link, f.data);
                }
            }
            let ignored_from = self.checksums.ignored_from();
            let entry = &mut *self.entry;
            let mut became = |r: &FrameRef, what: Entry| {
                let len = u64::from(r.len);
                done.see(r.ts_ns, len);
                entry.receive(1, len);
                match what {
                    Entry::Taken => entry.pass(1, len),
                    Entry::Lost => entry.shed(ShedReason::WorkerLost, 1, len),
                    Entry::Unsupported => {
                        entry.shed(ShedReason::UnsupportedLink, 1, len);
                        let times = unsupported.map_or(0, |(_, times)| times);
                        unsupported = Some((r.link, times + 1));
                    }
                }
            };
            let block = FrameBlock {
                bytes: &bytes,
                frames: &mut frames,
                agreed: &agreed,
                first,
                ignored_from,
                is_last_for_now: ahead.is_empty() && !source.has_more_at_hand(),
            };
            take(block, &mut became);
            frames.clear();
            spare = frames;
            see(source.position(), source.len_bytes());
            if self.stop.is_set() {
                is_stopped = true;
                // What was read already is not lost.
                if ahead.is_empty() {
                    break;
                }
            }
        }
        // A pipe that nothing came through any more when the request came.
        is_stopped |= self.stop.is_set() && source.len_bytes().is_none();
        self.reader.merge(source.ledger());
        done.note(&source, unsupported);
        (done, is_stopped)
    }

    /// The next block of a capture, without the frames that the filter keeps out; `frames` is used for
    /// its list.
    fn block(
        &mut self,
        source: &mut Source,
        frames: &mut Vec<FrameRef>,
    ) -> Option<(Arc<CaptureBytes>, Vec<FrameRef>)> {
        let mut frames = std::mem::take(frames);
        let block = self.pulse.rest(|| source.next_block(BATCH, &mut frames))?;
        if let Some(filter) = self.filter {
            let entry = &mut *self.entry;
            frames.retain(|r| {
                let f = r.frame(&block.bytes);
                let passes = filter.matches(f.link, f.wire_len, f.data);
                if !passes {
                    entry.receive(1, u64::from(r.len));
                    entry.shed(ShedReason::Filtered, 1, u64::from(r.len));
                }
                passes
            });
        }
        Some((block.bytes, frames))
    }
}

impl InputDone {
    fn see(&mut self, ts_ns: u64, len: u64) {
        self.frames += 1;
        self.bytes += len;
        let (first, last) = self.span_ns.unwrap_or((ts_ns, ts_ns));
        self.span_ns = Some((first.min(ts_ns), last.max(ts_ns)));
    }

    fn note(&mut self, source: &Source, unsupported: Option<(u16, u64)>) {
        self.notes.extend(source.notes().iter().map(|n| n.text.clone()));
        let more = source.notes_total().saturating_sub(source.notes().len() as u64);
        if more > 0 {
            self.notes.push(format!("{more} more like these"));
        }
        match unsupported {
            Some((link, times)) if times == self.frames => {
                self.error = Some(format!("frames of link type {link} are not decoded"));
                self.advice = "it is a capture, of a medium that is not known here: name one of Ethernet, raw IP or \
                               Linux's cooked frames";
            }
            Some((link, times)) => {
                self.notes.push(format!("{times} frames of link type {link} are not decoded"));
            }
            None => {}
        }
    }
}

/// What to do about a file that is no capture.
pub(crate) const NO_CAPTURE: &str = "name a pcap or pcapng file";

/// What to do about a capture that can't be opened.
fn advice(e: &gabion_capture::Error) -> &'static str {
    use gabion_capture::Error;
    use std::io::ErrorKind;
    match e {
        Error::Unreadable(e) => match e.kind() {
            ErrorKind::NotFound => "name a file that is there",
            ErrorKind::PermissionDenied => "run this as a user who may read it",
            _ => "name another file",
        },
        Error::Empty | Error::TornHeader(_) => "name a capture that was written to its end",
        Error::Unsupported(_) | Error::TooMany(_) => "name a pcap or pcapng file",
        Error::NotACapture(_) => NO_CAPTURE,
        _ => "name another file",
    }
}

/// The captures that paths stand for: files themselves, folders all files below them.
pub(crate) fn inputs(paths: &[PathBuf]) -> Result<Vec<Input>, crate::exit::Fault> {
    let mut all = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" || !path.is_dir() {
            all.push(Input { path: path.clone(), is_named: true });
            continue;
        }
        let list = gabion_capture::list_recursive(path).map_err(|e| {
            let shown = path.display();
            crate::exit::Fault::input(format!("{shown}: {e}: name a folder that can be read"))
        })?;
        if list.is_empty() {
            let shown = path.display();
            let said = format!("{shown}: holds no files: name a capture or a folder of captures");
            return Err(crate::exit::Fault::input(said));
        }
        all.extend(list.into_iter().map(|path| Input { path, is_named: false }));
    }
    Ok(all)
}

/// Whether a file's name promises a capture.
pub(crate) fn has_capture_name(path: &Path) -> bool {
    let name = path.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
    let name = name.strip_suffix(".zst").or(name.strip_suffix(".gz")).unwrap_or(&name);
    [".pcap", ".pcapng", ".cap"].iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_promise_captures() {
        for (name, is) in
            [("a.pcap", true), ("A.PCAPNG.zst", true), ("x.cap", true), ("README.md", false)]
        {
            assert_eq!(has_capture_name(Path::new(name)), is, "{name}");
        }
    }
}
