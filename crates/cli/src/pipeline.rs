//! Captures through the engine into outputs: the way of every `gabion read`.
//!
//! With one worker everything happens on the calling thread; several stand in `team`. What the run
//! left behind is one value, [`Done`]: what became of each input, the ledgers of all joints, counters
//! and costs.

use crate::stats::{self, WorkerStats};
use gabion_capture::filter::Filter;
use gabion_capture::{CaptureBytes, FrameRef, Source};
use gabion_net::{Engine, FrameIn, NetCounters, RuleCosts, Worker, WorkerBooks, WorkerBudgets};
use gabion_outputs::files::Outputs;
use gabion_record::budget::{BudgetPool, BudgetReport};
use gabion_record::ledger::{Books, Ledger, ShedReason};
use gabion_runtime::{StopFlag, clock};
use std::path::{Path, PathBuf};
use std::sync::Arc;
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
}

/// What a run left behind.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) inputs: Vec<InputDone>,
    pub(crate) books: Books,
    pub(crate) counters: NetCounters,
    pub(crate) costs: RuleCosts,
    /// What the budgets were used for, at the end of the reading.
    pub(crate) memory: Option<BudgetReport>,
    /// The `stats` object, for the record at the end.
    pub(crate) stats: gabion_outputs::files::StatsTexts,
    /// Somebody asked to stop before the end.
    pub(crate) is_stopped: bool,
    /// Workers that were lost on the way.
    pub(crate) lost_workers: u32,
    /// Processor time of each thread that read, worked or wrote.
    pub(crate) threads: Vec<(String, Duration)>,
    /// Uses of state across flows by several workers, and those that had to wait.
    pub(crate) shared_uses: (u64, u64),
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
    pub(crate) fn enter(
        &mut self,
        ends: &[(u16, WorkerEnd)],
        run: &Run<'_>,
        outputs: &[(&'static str, u64)],
    ) {
        for (n, end) in ends {
            end.books.each(&mut |joint, ledger| self.books.add(joint, Some(*n), ledger));
            self.counters.merge(&end.stats.net);
            if self.costs.rules.is_empty() {
                self.costs = RuleCosts::new(0, None, end.costs.is_exact());
            }
            self.costs.merge(&end.costs);
        }
        let all: Vec<&WorkerStats> = ends.iter().map(|(_, end)| &end.stats).collect();
        self.stats = stats::json(&all, run.engine, Some(run.counts), outputs);
    }
}

/// Where a run stands, for whoever shows it.
pub(crate) trait Watch {
    /// Frames were read: bytes of this capture so far, all of its bytes if known.
    fn position(&mut self, input: usize, position: u64, len: Option<u64>);
}

/// Nobody looks.
pub(crate) struct Unwatched;

impl Watch for Unwatched {
    fn position(&mut self, _: usize, _: u64, _: Option<u64>) {}
}

/// A run that is to be made.
pub(crate) struct Run<'a> {
    pub(crate) engine: &'a Arc<Engine>,
    pub(crate) budget: &'a BudgetPool,
    pub(crate) stop: &'a StopFlag,
    pub(crate) counts: gabion_rules::Counts,
    /// Which frames are read.
    pub(crate) filter: Option<Arc<Filter>>,
    /// A fault to act out.
    #[cfg(test)]
    pub(crate) fault: Option<crate::team::tests::ActedFault>,
}

impl<'a> Run<'a> {
    /// A run with this engine.
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
            filter: None,
            #[cfg(test)]
            fault: None,
        }
    }
}

/// Budgets of a worker's tables below the pool, each with the limit of the configuration.
pub(crate) fn worker_budgets(pool: &BudgetPool, engine: &Engine) -> WorkerBudgets {
    let o = &engine.options;
    WorkerBudgets {
        defrag: pool.leaf("defrag", Some(o.defrag.memcap)),
        flow: pool.leaf("flow", Some(o.flow.memcap)),
        session: pool.leaf("stream", Some(o.stream.memcap)),
        stream: pool.leaf("reassembly", Some(o.stream.reassembly_memcap)),
    }
}

impl Run<'_> {
    /// Reads all inputs by one worker on this thread.
    pub(crate) fn inline(
        &self,
        inputs: &[Input],
        outputs: &mut Outputs,
        watch: &mut dyn Watch,
    ) -> Done {
        let pool = self.budget.child("net", None);
        let budgets = worker_budgets(&pool, self.engine);
        let mut worker = Worker::new(Arc::clone(self.engine), budgets);
        let mut done = Done::default();
        let mut reader = Ledger::new();
        let mut entry = Ledger::new();
        let mut number = 0;
        for (at, input) in inputs.iter().enumerate() {
            if self.stop.is_set() {
                done.is_stopped = true;
                break;
            }
            outputs.set_capture(&input.path.display().to_string());
            let mut take = |block: FrameBlock<'_>, became: &mut dyn FnMut(&FrameRef, Entry)| {
                for (number, r) in (block.first..).zip(block.frames.iter()) {
                    let f = r.frame(block.bytes);
                    let f = FrameIn {
                        ts_ns: f.ts_ns,
                        number,
                        link: f.link,
                        wire_len: f.wire_len,
                        data: f.data,
                    };
                    let taken = worker.frame(&f, outputs);
                    became(r, if taken { Entry::Taken } else { Entry::Unsupported });
                }
            };
            let mut see = |position, len| watch.position(at, position, len);
            let mut one = OneInput {
                number: &mut number,
                reader: &mut reader,
                entry: &mut entry,
                stop: self.stop,
                filter: self.filter.as_deref(),
            };
            let (input_done, is_stopped) = one.read(input, &mut take, &mut see);
            done.is_stopped |= is_stopped;
            done.inputs.push(input_done);
        }
        done.memory = Some(self.budget.report());
        worker.finish(outputs);
        done.books.add("reader", None, &reader);
        done.books.add("engine", None, &entry);
        done.enter(&[(0, WorkerEnd::of(&worker))], self, &outputs.counters());
        done
    }
}

/// Reads one capture, block by block.
pub(crate) struct OneInput<'a> {
    /// Number of the last frame of the run.
    pub(crate) number: &'a mut u64,
    pub(crate) reader: &'a mut Ledger,
    pub(crate) entry: &'a mut Ledger,
    pub(crate) stop: &'a StopFlag,
    pub(crate) filter: Option<&'a Filter>,
}

/// Frames that were read together.
pub(crate) struct FrameBlock<'a> {
    pub(crate) bytes: &'a Arc<CaptureBytes>,
    pub(crate) frames: &'a mut Vec<FrameRef>,
    /// Number of the first frame.
    pub(crate) first: u64,
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
        let mut source = match Source::open(&input.path) {
            Ok(source) => source,
            Err(e) => {
                done.error = Some(e.to_string());
                return (done, false);
            }
        };
        let mut frames: Vec<FrameRef> = Vec::with_capacity(BATCH);
        let mut unsupported: Option<(u16, u64)> = None;
        let mut is_stopped = false;
        while let Some(block) = source.next_block(BATCH, &mut frames) {
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
            let first = *self.number + 1;
            *self.number += frames.len() as u64;
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
            let block = FrameBlock { bytes: &block.bytes, frames: &mut frames, first };
            take(block, &mut became);
            frames.clear();
            see(source.position(), source.len_bytes());
            if self.stop.is_set() {
                is_stopped = true;
                break;
            }
        }
        self.reader.merge(source.ledger());
        done.note(&source, unsupported);
        (done, is_stopped)
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
            }
            Some((link, times)) => {
                self.notes.push(format!("{times} frames of link type {link} are not decoded"));
            }
            None => {}
        }
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
