//! The engine that a run works with, and loads of rules that give it another one while packets come.
//!
//! Rules are read and compiled by a thread of their own, at a lower priority than the packets'. Workers look for a newer
//! engine between two batches and continue with it; the thread that has loaded it keeps the engine before until nobody works
//! with it any more, so that the threads of the packets free nothing. A load that fails changes nothing. One load runs at
//! a time: a request that comes meanwhile is carried out after it, and any number of further ones with that.

use gabion_net::Engine;
use gabion_record::budget::{BudgetPool, Held};
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_rules::{Counts, Diagnostic};
use gabion_runtime::memory::MemoryState;
use gabion_runtime::{allocator, clock, memory};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Release};
use std::sync::mpsc::{self, RecvTimeoutError, SendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Steps by which the thread that loads gives way to others (nice(2)).
const NICE: i32 = 10;
/// How long it waits between two looks whether the engine before is still in use.
const LOOK: Duration = Duration::from_millis(20);

/// What is known about the rules that a run works with.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuleFacts {
    /// How many were loaded, refused and skipped.
    pub counts: Counts,
    /// When they were loaded, in nanoseconds since 1970.
    pub loaded_ns: u64,
}

#[derive(Debug)]
struct Current {
    engine: Arc<Engine>,
    facts: RuleFacts,
    failed: Arc<[Diagnostic]>,
    memory: Vec<Held>,
}

/// An engine with rules that were loaded.
#[derive(Debug)]
pub struct LoadedEngine {
    /// The engine.
    pub engine: Engine,
    /// How many rules there are.
    pub counts: Counts,
    /// Those that were refused, the first of many.
    pub failed: Vec<Diagnostic>,
}

/// The engine that a run works with: the first one, or the last that was loaded.
#[derive(Debug)]
pub struct RunningEngine {
    current: Mutex<Current>,
    /// That of the engine, for a look without a lock.
    generation: AtomicU32,
    /// What the rules of the engine hold; during a load also those of the engine before, until it is dropped.
    memory: BudgetPool,
}

/// An engine that was replaced, with the account of its memory.
pub(super) struct Replaced {
    engine: Arc<Engine>,
    _memory: Vec<Held>,
}

impl Replaced {
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.engine) > 1
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Current {
    fn from_loaded(loaded: LoadedEngine, memory: &BudgetPool) -> Current {
        let facts = RuleFacts { counts: loaded.counts, loaded_ns: clock::epoch_ns() };
        let parts = loaded.engine.detector.as_ref().map(|detector| {
            let texts = detector.set.texts.bytes();
            let signatures = detector.set.signature_bytes();
            [("texts", texts), ("signatures", signatures), ("matchers", detector.matcher_bytes())]
        });
        let held = parts.into_iter().flatten().map(|(name, bytes)| memory.hold(name, bytes as u64));
        let memory = held.collect();
        Current { engine: Arc::new(loaded.engine), facts, failed: loaded.failed.into(), memory }
    }
}

impl RunningEngine {
    /// Of a run that begins with this engine, whose rules were loaded now.
    pub fn new(engine: Engine, counts: Counts) -> Arc<RunningEngine> {
        RunningEngine::begin(LoadedEngine { engine, counts, failed: Vec::new() })
    }

    /// The same, where it is known which rules were refused.
    pub fn begin(loaded: LoadedEngine) -> Arc<RunningEngine> {
        let generation = AtomicU32::new(loaded.engine.generation);
        allocator::return_free_memory();
        let memory = BudgetPool::root("rules", MemoryState::current().limit);
        let current = Mutex::new(Current::from_loaded(loaded, &memory));
        Arc::new(RunningEngine { current, generation, memory })
    }

    /// What its rules hold: texts, signatures, matchers. Their use is not limited; a load for which the machine has no
    /// memory is refused.
    pub fn memory(&self) -> &BudgetPool {
        &self.memory
    }

    /// Rules that were refused, the first of many.
    pub fn failed_rules(&self) -> Arc<[Diagnostic]> {
        Arc::clone(&lock(&self.current).failed)
    }

    /// The engine for packets that come now. Its memory is kept as long as somebody has it.
    pub fn now(&self) -> Arc<Engine> {
        Arc::clone(&lock(&self.current).engine)
    }

    /// What is known about its rules.
    pub fn facts(&self) -> RuleFacts {
        lock(&self.current).facts
    }

    /// The engine, if it is another than the one of that generation.
    #[inline]
    pub(crate) fn other_than(&self, generation: u32) -> Option<Arc<Engine>> {
        (self.generation.load(Acquire) != generation).then(|| self.now())
    }

    /// Replaces the engine; returns the one before.
    pub(super) fn replace(&self, loaded: LoadedEngine) -> Replaced {
        let generation = loaded.engine.generation;
        let next = Current::from_loaded(loaded, &self.memory);
        let before = std::mem::replace(&mut *lock(&self.current), next);
        self.generation.store(generation, Release);
        Replaced { engine: before.engine, _memory: before.memory }
    }
}

/// Loads rules for a run: the engine that it has now, to the next one, or why there is none.
pub type LoadRules = dyn Fn(&Engine) -> Result<LoadedEngine, LoadError> + Send + Sync;

/// Why rules could not be loaded during a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The run has no rules at all (`--disable-detection`).
    #[error("detection is disabled")]
    NoDetection,
    /// See [`gabion_rules::CarriedNames`].
    #[error("too many names of bits and variables: start the run again")]
    Names,
    /// The configuration, or a file next to the rules, can't be used.
    #[error(transparent)]
    Configuration(#[from] gabion_settings::Error),
    /// Variables that rules name can't be read; the log has each.
    #[error("variables of rules cannot be read")]
    Variables,
    /// The log says which file or rule.
    #[error("not all rule files were read, or no rule was loaded")]
    Rules,
    /// A rule file was written whenever it was read.
    #[error("{0} is being written")]
    Written(String),
    /// The rules need a single worker.
    #[error("{0}, and several workers run: start the run again")]
    Workers(&'static str),
    /// There is no memory for a second set of rules.
    #[error("it may take {} MiB, and {} MiB of memory are left", need >> 20, left >> 20)]
    Memory {
        /// Bytes that the first load took at most.
        need: u64,
        /// Bytes below the limit of the machine or cgroup.
        left: u64,
    },
    /// A fault of this program.
    #[error("the load panicked: report this")]
    Panicked,
}

/// The outcome of a load of rules.
#[derive(Clone, Debug)]
pub enum LoadOutcome {
    /// The run works with the rules that were loaded.
    Done {
        /// How many there are.
        counts: Counts,
        /// How long it took.
        took: Duration,
    },
    /// Why it failed: the run works with the rules that it had.
    Failed(Arc<LoadError>),
}

/// Gets the outcome of a load, on the thread that has loaded.
pub type OnLoaded = Box<dyn FnOnce(&LoadOutcome) + Send>;

/// The answer to a request to load rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadRequest {
    /// They are being loaded.
    Begun,
    /// Others are being loaded: these come after them.
    Queued,
    /// Others are being loaded, or no thread can be started.
    Refused,
}

impl LoadRequest {
    /// What a person should know of it.
    pub fn note(self) -> Option<&'static str> {
        match self {
            LoadRequest::Begun => None,
            LoadRequest::Queued => Some("rules are being loaded: they are loaded again after that"),
            LoadRequest::Refused => Some("rule reload failed: no thread can be started"),
        }
    }
}

#[derive(Default)]
struct State {
    is_loading: bool,
    /// Rules are loaded again after those that are being loaded.
    is_asked_again: bool,
    /// Requests that another one's load has carried out.
    joined: u64,
    done: u64,
    failed: u64,
    refused: u64,
    last: Duration,
    longest: Duration,
}

/// What came of the loads of a run's rules so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoadCounts {
    /// Requests that were carried out.
    pub(crate) done: u64,
    /// Requests whose load failed.
    pub(crate) failed: u64,
    /// Requests that came while others were loaded.
    pub(crate) refused: u64,
    /// How long the last load that was carried out took.
    pub(crate) last: Duration,
    /// And the longest.
    pub(crate) longest: Duration,
}

/// Loads of rules during a run.
pub struct Reloads {
    running: Arc<RunningEngine>,
    load: Box<LoadRules>,
    /// Gets the outcome of each load, also where a client waits for it.
    report: Box<dyn Fn(&LoadOutcome) + Send + Sync>,
    /// Why rules need a single worker, if they do.
    needs_one_worker: fn(&Engine) -> Option<&'static str>,
    /// More than one worker, so that not all rules can be loaded.
    has_workers: bool,
    /// Bytes that a load takes at most, as the first one did; 0: not known.
    load_bytes: u64,
    state: Mutex<State>,
    /// To the thread that loads, once there is one.
    loader: Mutex<Option<mpsc::Sender<Job>>>,
}

/// A load that was asked for, with who waits for it.
struct Job {
    all: Arc<Reloads>,
    on_loaded: Option<OnLoaded>,
}

impl std::fmt::Debug for Reloads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reloads").field("running", &self.running).finish_non_exhaustive()
    }
}

impl Reloads {
    /// For a run with this engine and this many workers. `load` loads rules, `report` gets the outcome of each, whatever
    /// asked for it. It is made once the first rules are loaded: what the process has held at most is what a load takes.
    pub fn new(
        running: &Arc<RunningEngine>,
        (workers, needs_one_worker): (usize, fn(&Engine) -> Option<&'static str>),
        load: Box<LoadRules>,
        report: Box<dyn Fn(&LoadOutcome) + Send + Sync>,
    ) -> Arc<Reloads> {
        Arc::new(Reloads {
            running: Arc::clone(running),
            load,
            report,
            needs_one_worker,
            has_workers: workers > 1,
            load_bytes: memory::resident_peak().unwrap_or(0),
            state: Mutex::default(),
            loader: Mutex::default(),
        })
    }

    /// The engine of the run.
    pub fn running(&self) -> &Arc<RunningEngine> {
        &self.running
    }

    /// Loads rules on a thread of their own, as a signal asks for it.
    pub fn ask(self: &Arc<Self>) -> LoadRequest {
        let mut state = lock(&self.state);
        if state.is_loading {
            state.joined += u64::from(state.is_asked_again);
            state.is_asked_again = true;
            return LoadRequest::Queued;
        }
        drop(state);
        self.begin(None)
    }

    /// Loads rules on a thread of their own for somebody who waits for it. It is refused while others are being loaded.
    pub fn begin(self: &Arc<Self>, on_loaded: Option<OnLoaded>) -> LoadRequest {
        {
            let mut state = lock(&self.state);
            if state.is_loading {
                state.refused += 1;
                return LoadRequest::Refused;
            }
            state.is_loading = true;
        }
        if !self.hand_over(Job { all: Arc::clone(self), on_loaded }) {
            let mut state = lock(&self.state);
            state.is_loading = false;
            state.failed += 1;
            return LoadRequest::Refused;
        }
        LoadRequest::Begun
    }

    /// Gives a load to the thread that loads, which is started if there is none; false if it can't be.
    fn hand_over(&self, job: Job) -> bool {
        let mut loader = lock(&self.loader);
        let job = match &*loader {
            Some(loads) => match loads.send(job) {
                Ok(()) => return true,
                // It has panicked, in what somebody who waited did with the answer.
                Err(SendError(job)) => job,
            },
            None => job,
        };
        let (loads, jobs) = mpsc::channel();
        let thread = std::thread::Builder::new().name("rules".to_owned());
        if thread.spawn(move || carry_out(&jobs)).is_err() {
            return false;
        }
        let is_sent = loads.send(job).is_ok();
        *loader = Some(loads);
        is_sent
    }

    /// Loads rules, again while somebody has asked for it meanwhile. The engines before come to `before`.
    fn load_all(&self, mut on_loaded: Option<OnLoaded>, before: &mut Vec<Replaced>) {
        loop {
            let (outcome, replaced) = self.load_once();
            before.extend(replaced);
            let is_again = {
                let mut state = lock(&self.state);
                match &outcome {
                    LoadOutcome::Done { took, .. } => {
                        state.done += 1;
                        state.last = *took;
                        state.longest = state.longest.max(*took);
                    }
                    LoadOutcome::Failed(_) => state.failed += 1,
                }
                let is_again = std::mem::take(&mut state.is_asked_again);
                state.is_loading = is_again;
                is_again
            };
            // The log has it for each request, and before the client gets its answer, since the client may look there.
            (self.report)(&outcome);
            if let Some(answer) = on_loaded.take() {
                answer(&outcome);
            }
            if !is_again {
                break;
            }
            drop_unused(before);
        }
    }

    /// Loads rules and gives them to the run; returns the engine before.
    fn load_once(&self) -> (LoadOutcome, Option<Replaced>) {
        let began = clock::now();
        let failed = |why: LoadError| (LoadOutcome::Failed(Arc::new(why)), None);
        if let Some(why) = self.lacks_memory() {
            return failed(why);
        }
        let before = self.running.now();
        // What it takes for a while counts in addition to the rules that are in use.
        let _small_pages = memory::SmallPages::begin();
        let loaded = catch_unwind(AssertUnwindSafe(|| (self.load)(&before)));
        let mut loaded = match loaded {
            Ok(Ok(loaded)) => loaded,
            Ok(Err(why)) => return failed(why),
            Err(_) => return failed(LoadError::Panicked),
        };
        if let (Some(why), true) = ((self.needs_one_worker)(&loaded.engine), self.has_workers) {
            return failed(LoadError::Workers(why));
        }
        loaded.engine.follow(&before);
        drop(before);
        let counts = loaded.counts;
        let before = self.running.replace(loaded);
        (LoadOutcome::Done { counts, took: elapsed(began) }, Some(before))
    }

    /// Why there is no memory for another set of rules, if so.
    fn lacks_memory(&self) -> Option<LoadError> {
        let limit = MemoryState::current().limit;
        let (need, left) = (self.load_bytes, limit.saturating_sub(memory::resident_now()?));
        (left < need).then_some(LoadError::Memory { need, left })
    }

    /// What came of them so far.
    pub(crate) fn counts(&self) -> LoadCounts {
        let state = lock(&self.state);
        LoadCounts {
            done: state.done + state.joined,
            failed: state.failed,
            refused: state.refused,
            last: state.last,
            longest: state.longest,
        }
    }

    /// Requests: those carried out, those that failed or were refused.
    pub fn ledger(&self) -> Ledger {
        let state = lock(&self.state);
        let mut ledger = Ledger::new();
        ledger.receive(state.done + state.joined + state.failed + state.refused, 0);
        ledger.pass(state.done + state.joined, 0);
        ledger.shed(ShedReason::LoadFailed, state.failed, 0);
        ledger.shed(ShedReason::LoadUnderWay, state.refused, 0);
        ledger
    }
}

/// The thread that loads. It stays as long as the run: pages of memory whose thread has ended are taken by the threads
/// of packets, whose data then keeps them when the rules in them are freed.
fn carry_out(jobs: &mpsc::Receiver<Job>) {
    // Where the system refuses, it is as important as the threads of packets.
    let _ = rustix::process::nice(NICE);
    let mut before = Vec::new();
    let mut is_over = false;
    // The threads of packets free nothing: the last one who has an engine is this one.
    while !is_over || !before.is_empty() {
        let next = if before.is_empty() {
            jobs.recv().map_err(RecvTimeoutError::from)
        } else {
            jobs.recv_timeout(LOOK)
        };
        match next {
            Ok(job) => job.all.load_all(job.on_loaded, &mut before),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                is_over = true;
                std::thread::sleep(LOOK);
            }
        }
        drop_unused(&mut before);
    }
}

/// Drops engines that no worker uses, and returns the memory that they held to the system.
fn drop_unused(before: &mut Vec<Replaced>) {
    let many = before.len();
    before.retain(Replaced::is_in_use);
    if before.len() < many {
        allocator::return_free_memory();
    }
}

fn elapsed(since: Instant) -> Duration {
    clock::now().saturating_duration_since(since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::test_engine;
    use std::sync::mpsc::channel;

    fn engine() -> Engine {
        test_engine::engine("alert ip any any -> any any (sid:1;)\n", Default::default())
    }

    fn reloads(
        load: impl Fn() -> Result<LoadedEngine, LoadError> + Send + Sync + 'static,
    ) -> Reloads {
        let running = RunningEngine::new(engine(), Counts::default());
        let load = Box::new(move |_: &Engine| load());
        let all = Reloads::new(&running, (1, |_| None), load, Box::new(|_| ()));
        Arc::into_inner(all).unwrap()
    }

    fn outcome(all: &Arc<Reloads>) -> LoadOutcome {
        let (to, from) = channel();
        let sent = move |outcome: &LoadOutcome| to.send(outcome.clone()).unwrap();
        assert_eq!(all.begin(Some(Box::new(sent))), LoadRequest::Begun);
        from.recv().unwrap()
    }

    /// A set for which there is no memory is not loaded at all.
    #[test]
    fn a_load_begins_only_where_there_is_memory_for_it() {
        let mut all = reloads(|| panic!("it is loaded"));
        all.load_bytes = u64::MAX;
        let all = Arc::new(all);
        match outcome(&all) {
            LoadOutcome::Failed(why) => {
                assert!(matches!(*why, LoadError::Memory { need: u64::MAX, .. }), "{why}");
            }
            LoadOutcome::Done { .. } => panic!("it is loaded"),
        }
        assert_eq!(all.running().now().generation, 0);
        assert_eq!(
            (all.counts().failed, all.ledger().shed_for(ShedReason::LoadFailed).items),
            (1, 1)
        );
    }

    /// The log must say how a load ended that a command asked for, as it says that it began.
    #[test]
    fn a_load_that_a_client_waits_for_is_reported_too() {
        for is_good in [true, false] {
            let running = RunningEngine::new(engine(), Counts::default());
            let load = Box::new(move |_: &Engine| {
                let (counts, failed) = (Counts::default(), Vec::new());
                let good = || LoadedEngine { engine: engine(), counts, failed };
                is_good.then(good).ok_or(LoadError::Memory { need: 1, left: 0 })
            });
            let (to, reported) = channel();
            let to = Mutex::new(to);
            let report = move |outcome: &LoadOutcome| {
                to.lock().unwrap().send(matches!(outcome, LoadOutcome::Done { .. })).unwrap();
            };
            let all = Reloads::new(&running, (1, |_| None), load, Box::new(report));
            assert_eq!(matches!(outcome(&all), LoadOutcome::Done { .. }), is_good);
            assert_eq!(reported.try_iter().collect::<Vec<_>>(), [is_good]);
        }
    }

    /// The account has the rules in use, and while others still work with the rules before, those too.
    #[test]
    fn what_rules_hold_is_accounted_for() {
        let row = |running: &RunningEngine, name: &str| {
            let report = running.memory().report();
            let rows = report.children.iter().filter(|row| row.name == name);
            rows.map(|row| row.used).sum::<u64>()
        };
        let rules = |count: u32| {
            let one = |n| {
                format!("alert http any any -> any any (http.uri; content:\"/{n}\"; sid:{n};)\n")
            };
            let text: String = (1..=count).map(one).collect();
            let engine = test_engine::engine(&text, Default::default());
            LoadedEngine { engine, counts: Counts::default(), failed: Vec::new() }
        };
        let running = RunningEngine::begin(rules(100));
        let parts = ["texts", "signatures", "matchers"];
        let first = parts.map(|name| row(&running, name));
        assert!(first.iter().all(|bytes| *bytes > 500), "{first:?}");
        let in_use = running.now();
        let mut next = rules(1_000);
        next.engine.follow(&in_use);
        let before = running.replace(next);
        let both = parts.map(|name| row(&running, name));
        drop(in_use);
        let mut before = vec![before];
        drop_unused(&mut before);
        assert!(before.is_empty());
        let second = parts.map(|name| row(&running, name));
        for part in 0..parts.len() {
            assert_eq!(both[part], first[part] + second[part], "{}", parts[part]);
            assert!(second[part] > first[part], "{first:?} {second:?}");
        }
        // Without rules there is nothing to account for.
        let none = test_engine::without_rules();
        let none = RunningEngine::new(none, Counts::default());
        assert!(none.memory().report().children.is_empty());
    }

    /// One thread carries out all loads, and it ends with the run.
    #[test]
    fn one_thread_loads_for_the_whole_run() {
        let (to, threads) = channel();
        let to = Mutex::new(to);
        let all = Arc::new(reloads(move || {
            to.lock().unwrap().send(std::thread::current().id()).unwrap();
            Ok(LoadedEngine { engine: engine(), counts: Counts::default(), failed: Vec::new() })
        }));
        for generation in 1..=3 {
            outcome(&all);
            assert_eq!(all.running().now().generation, generation);
        }
        let running = Arc::downgrade(all.running());
        drop(all);
        let mut used: Vec<_> = threads.iter().collect();
        used.dedup();
        assert_eq!(used.len(), 1);
        assert!(running.upgrade().is_none());
    }

    /// A panic of a load is a failure of it, and the next one is carried out.
    #[test]
    fn a_load_that_panics_changes_nothing() {
        let times = AtomicU32::new(0);
        let all = Arc::new(reloads(move || match times.fetch_add(1, Release) {
            0 => panic!("acted out"),
            _ => {
                Ok(LoadedEngine { engine: engine(), counts: Counts::default(), failed: Vec::new() })
            }
        }));
        let first = outcome(&all);
        assert!(matches!(&first, LoadOutcome::Failed(why) if matches!(**why, LoadError::Panicked)));
        assert_eq!(all.running().now().generation, 0);
        assert!(matches!(outcome(&all), LoadOutcome::Done { .. }));
        assert_eq!(all.running().now().generation, 1);
        all.ledger().balance().unwrap();
    }
}
