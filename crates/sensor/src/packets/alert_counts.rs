//! Which rule alerts how often in which capture: each capture is read by a worker of its own, so no state of one (flows,
//! thresholds, bits) changes the result of another. Several threads read; the answer does not depend on how many.

use super::input::Input;
use super::input_opener::InputOpener;
use super::run::read_capture;
use gabion_net::Engine;
use gabion_record::eve::*;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Stack of a reading thread: as much as a program's first thread has.
const STACK_BYTES: usize = 8 << 20;

/// The outcome of one capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlertCounts {
    /// Alerts by generator and signature.
    Counted(BTreeMap<(u32, u32), u64>),
    /// The capture can't be read, and why.
    Unreadable(String),
    /// The engine failed on it.
    Failed,
}

impl AlertCounts {
    /// Reads captures, which `opener` opens, by up to `jobs` threads (as many as there are processors, if none are named), each with fresh
    /// state. The outcomes are in the order of the captures.
    pub fn of_captures(
        engine: &Arc<Engine>,
        opener: &InputOpener,
        captures: &[&Path],
        jobs: Option<usize>,
    ) -> Vec<AlertCounts> {
        let jobs = jobs
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
            .clamp(1, captures.len().max(1));
        let next = AtomicUsize::new(0);
        let outcomes: Mutex<Vec<(usize, AlertCounts)>> = Mutex::default();
        let work = || {
            while let Some((at, capture)) = next_capture(&next, captures) {
                let outcome = read_one(engine, opener, capture);
                outcomes.lock().unwrap_or_else(PoisonError::into_inner).push((at, outcome));
            }
        };
        std::thread::scope(|scope| {
            let started = (0..jobs).filter_map(|n| {
                let thread = std::thread::Builder::new().name(format!("test {n}"));
                thread.stack_size(STACK_BYTES).spawn_scoped(scope, work).ok()
            });
            if started.count() == 0 {
                work();
            }
        });
        let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
        outcomes.sort_by_key(|(at, _)| *at);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }
}

fn next_capture<'c>(next: &AtomicUsize, captures: &[&'c Path]) -> Option<(usize, &'c Path)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, captures.get(at)?))
}

fn read_one(engine: &Arc<Engine>, opener: &InputOpener, path: &Path) -> AlertCounts {
    // A fault of the engine costs this capture and is reported; the others are still read.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut sink = Counter::default();
        let input = Input::capture(path.to_path_buf(), true);
        let done = read_capture(engine, (opener, &input), &mut sink);
        match done.error {
            None => AlertCounts::Counted(sink.counts),
            Some(e) => AlertCounts::Unreadable(e),
        }
    }));
    outcome.unwrap_or(AlertCounts::Failed)
}

/// A sink that only counts alerts.
#[derive(Default)]
struct Counter {
    counts: BTreeMap<(u32, u32), u64>,
}

impl NetSink for Counter {
    fn alert(&mut self, r: &AlertRecord<'_>) {
        *self.counts.entry((r.signature.gid, r.signature.sid)).or_default() += 1;
    }
    fn app(&mut self, _: &AppRecord<'_>) {}
    fn file(&mut self, _: &FileRecord<'_>) {}
    fn file_chunk(&mut self, _: &FileChunk<'_>) {}
    fn flow(&mut self, _: &FlowRecord<'_>) {}
    fn anomaly(&mut self, _: &AnomalyRecord<'_>) {}
    fn dropped(&mut self, _: &DropRecord<'_>) {}
    fn packet(&mut self, _: &PacketRecord<'_>) {}
    fn arp(&mut self, _: &Header<'_>, _: &dyn WriteObject) {}
}
