//! Workers as threads that beat, and somebody who listens.
//!
//! A worker gets a [`Pulse`]: it beats once a batch and says when it waits, so that waiting is
//! never taken for a stall. The supervisor learns of a panic at once (the thread's own wrapper
//! catches it) and of a stall by looking every [`limits::CHECK_EVERY`]: a worker that is busy, or
//! whose input holds messages, and has not beaten for [`limits::STALL_AFTER`]. Both are noticed
//! within two seconds.
//!
//! The supervisor decides nothing. It gives the owner an [`Event`]; the owner starts another
//! worker, gives the shard up and counts it (`worker_lost`), or ends the process with a clear
//! line. A stalled thread can't be ended from outside: its owner leaves it behind.
//!
//! Beating costs two plain stores in the worker's own cache line.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel as queue;

use crate::channel::Edge;
use crate::clock::now;
use crate::limits;

/// A worker's number, in the order of their start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub u32);

/// What happened to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It returned: its work is done.
    Finished,
    /// It panicked; its thread is gone.
    Panicked,
    /// It has work and does not beat.
    Stalled,
    /// It was stalled and beats again.
    Recovered,
}

/// What happened, as the owner hears it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The receiver of the message.
    pub worker: WorkerId,
    /// Its name.
    pub name: String,
    /// What.
    pub kind: EventKind,
    /// One line: the panic's message and place, or for how long it has not beaten.
    pub message: String,
}

const BUSY: u8 = 0;
const AWAITS_INPUT: u8 = 1;
const RESTS: u8 = 2;
const GONE: u8 = 3;

#[derive(Debug, Default)]
#[repr(align(128))]
struct Beats {
    count: AtomicU64,
    state: AtomicU8,
}

/// A worker's own side: it alone beats.
#[derive(Debug)]
pub struct Pulse {
    beats: Arc<Beats>,
}

impl Pulse {
    /// A pulse that nobody listens to, for running a worker's function without a supervisor.
    pub fn unwatched() -> Pulse {
        Pulse { beats: Arc::default() }
    }

    /// One more batch is done.
    #[inline]
    pub fn beat(&self) {
        self.beats.count.store(self.beats.count.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Waits for input by `wait`. If the worker's input edge holds messages all the same, this
    /// counts as a stall.
    #[inline]
    pub fn await_input<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.during(AWAITS_INPUT, wait)
    }

    /// Does what may take long without being a stall: waiting for room in a queue, a disk, a
    /// reload.
    #[inline]
    pub fn rest<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.during(RESTS, wait)
    }

    /// Works on what came while the worker waits or rests: from here on it is to beat again.
    #[inline]
    pub fn busy<T>(&self, work: impl FnOnce() -> T) -> T {
        let was = self.beats.state.load(Relaxed);
        self.beat();
        self.beats.state.store(BUSY, Relaxed);
        let result = work();
        self.beats.state.store(was, Relaxed);
        result
    }

    /// Does work that may panic; then returns the panic's message and place. For callers that can continue without
    /// what was being worked on.
    ///
    /// # Errors
    /// The work panicked.
    pub fn guard<T>(&self, work: impl FnOnce() -> T) -> Result<T, Panicked> {
        keep_panic_messages();
        let was = SUPERVISED.replace(true);
        let result = panic::catch_unwind(AssertUnwindSafe(work));
        SUPERVISED.set(was);
        result.map_err(|payload| Panicked { message: panic_message(&*payload) })
    }

    #[inline]
    fn during<T>(&self, state: u8, wait: impl FnOnce() -> T) -> T {
        self.beats.state.store(state, Relaxed);
        let result = wait();
        self.beat();
        self.beats.state.store(BUSY, Relaxed);
        result
    }
}

/// Work panicked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked {
    /// The panic's message and place, one line.
    pub message: String,
}

impl std::fmt::Display for Panicked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Panicked {}

/// When a worker is taken for stalled.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Time without a beat.
    pub stall_after: Duration,
    /// Time between two looks.
    pub check_every: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience { stall_after: limits::STALL_AFTER, check_every: limits::CHECK_EVERY }
    }
}

/// A worker under watch.
struct Watched {
    id: WorkerId,
    name: String,
    beats: Arc<Beats>,
    input: Option<Arc<Edge>>,
    count_seen: u64,
    changed: Instant,
    is_stalled: bool,
}

impl Watched {
    /// Compares with what was seen before.
    fn check_beats(&mut self, now: Instant, stall_after: Duration) -> Option<Event> {
        let count = self.beats.count.load(Relaxed);
        let has_work = match self.beats.state.load(Relaxed) {
            BUSY => true,
            AWAITS_INPUT => self.input.as_ref().is_some_and(|edge| edge.queued() > 0),
            _ => false,
        };
        let event =
            |kind, message| Some(Event { worker: self.id, name: self.name.clone(), kind, message });
        if count != self.count_seen || !has_work {
            let silent = now.saturating_duration_since(self.changed);
            let was_stalled = std::mem::replace(&mut self.is_stalled, false);
            self.count_seen = count;
            self.changed = now;
            if was_stalled {
                let message = format!("beats again after {:.1} s", silent.as_secs_f64());
                return event(EventKind::Recovered, message);
            }
            return None;
        }
        let silent = now.saturating_duration_since(self.changed);
        if self.is_stalled || silent < stall_after {
            return None;
        }
        self.is_stalled = true;
        let message = format!("has work but did not beat for {:.1} s", silent.as_secs_f64());
        event(EventKind::Stalled, message)
    }
}

/// Starts workers and reports what happens to them.
pub struct Supervisor {
    watched: Arc<Mutex<Vec<Watched>>>,
    report: queue::Sender<Event>,
    events: queue::Receiver<Event>,
    started: Cell<u32>,
    /// Dropping it ends the watch.
    watch: Option<(queue::Sender<()>, JoinHandle<()>)>,
}

impl Supervisor {
    /// A supervisor with the default patience.
    ///
    /// # Errors
    /// If its thread can't be started.
    pub fn start() -> io::Result<Supervisor> {
        Supervisor::start_with(Patience::default())
    }

    /// A supervisor with another patience, for tests and for machines that are known to be slow.
    ///
    /// # Errors
    /// If its thread can't be started.
    pub fn start_with(patience: Patience) -> io::Result<Supervisor> {
        keep_panic_messages();
        let watched: Arc<Mutex<Vec<Watched>>> = Arc::default();
        let (report, events) = queue::unbounded();
        let (stop, stopped) = queue::bounded::<()>(0);
        let (list, reports) = (Arc::clone(&watched), report.clone());
        let watch = thread::Builder::new().name("supervisor".to_owned()).spawn(move || {
            while stopped.recv_timeout(patience.check_every)
                == Err(queue::RecvTimeoutError::Timeout)
            {
                look_around(&list, now(), patience.stall_after, &reports);
            }
        })?;
        let watch = Some((stop, watch));
        Ok(Supervisor { watched, report, events, started: Cell::new(0), watch })
    }

    /// Starts a worker. `input` is the edge it reads from, if it has one: messages waiting there
    /// are work.
    ///
    /// # Errors
    /// If the thread can't be started.
    pub fn spawn<T, F>(
        &self,
        name: &str,
        input: Option<Arc<Edge>>,
        work: F,
    ) -> io::Result<Worker<T>>
    where
        T: Send + 'static,
        F: FnOnce(&Pulse) -> T + Send + 'static,
    {
        let (id, work) = self.enter(name, input, work);
        let thread = started(name).spawn(work)?;
        Ok(Worker { id, thread })
    }

    /// Starts a worker that uses what its owner keeps: the owner waits for its end.
    ///
    /// # Errors
    /// If the thread can't be started.
    pub fn spawn_scoped<'scope, T, F>(
        &self,
        scope: &'scope thread::Scope<'scope, '_>,
        name: &str,
        work: F,
    ) -> io::Result<thread::ScopedJoinHandle<'scope, Option<T>>>
    where
        T: Send + 'scope,
        F: FnOnce(&Pulse) -> T + Send + 'scope,
    {
        let (_, work) = self.enter(name, None, work);
        started(name).spawn_scoped(scope, work)
    }

    /// Enters a worker into the list; gives its number and what its thread does.
    fn enter<T, F: FnOnce(&Pulse) -> T>(
        &self,
        name: &str,
        input: Option<Arc<Edge>>,
        work: F,
    ) -> (WorkerId, impl FnOnce() -> Option<T> + use<T, F>) {
        let id = WorkerId(self.started.get());
        self.started.set(id.0.wrapping_add(1));
        let beats: Arc<Beats> = Arc::default();
        let watched = Watched {
            id,
            name: name.to_owned(),
            beats: Arc::clone(&beats),
            input,
            count_seen: 0,
            changed: now(),
            is_stalled: false,
        };
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).push(watched);
        let pulse = Pulse { beats };
        let report = self.report.clone();
        let own_name = name.to_owned();
        let run = move || {
            SUPERVISED.set(true);
            let result = panic::catch_unwind(AssertUnwindSafe(|| work(&pulse)));
            pulse.beats.state.store(GONE, Relaxed);
            let (kind, message, result) = match result {
                Ok(value) => (EventKind::Finished, String::new(), Some(value)),
                Err(payload) => (EventKind::Panicked, panic_message(&*payload), None),
            };
            // Nobody may be listening any more.
            let _ = report.send(Event { worker: id, name: own_name, kind, message });
            result
        };
        (id, run)
    }

    /// The next event, waiting for it at most so long.
    pub fn next_event(&self, longest: Duration) -> Option<Event> {
        self.events.recv_timeout(longest).ok()
    }

    /// The next event if there is one.
    pub fn poll_event(&self) -> Option<Event> {
        self.events.try_recv().ok()
    }

    /// Name and beats of every worker that still runs, for metrics.
    pub fn beats(&self) -> Vec<(WorkerId, String, u64)> {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched
            .iter()
            .filter(|w| w.beats.state.load(Relaxed) != GONE)
            .map(|w| (w.id, w.name.clone(), w.beats.count.load(Relaxed)))
            .collect()
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if let Some((stop, watch)) = self.watch.take() {
            drop(stop);
            // The watch ends by itself and does not panic.
            let _ = watch.join();
        }
    }
}

/// A thread with a name, and as much stack as a program's first thread has.
fn started(name: &str) -> thread::Builder {
    thread::Builder::new().name(name.to_owned()).stack_size(limits::WORKER_STACK_BYTES)
}

fn look_around(
    list: &Mutex<Vec<Watched>>,
    now: Instant,
    stall_after: Duration,
    reports: &queue::Sender<Event>,
) {
    let mut watched = list.lock().unwrap_or_else(PoisonError::into_inner);
    watched.retain(|w| w.beats.state.load(Relaxed) != GONE);
    for event in watched.iter_mut().filter_map(|w| w.check_beats(now, stall_after)) {
        // Nobody may be listening any more.
        let _ = reports.send(event);
    }
}

/// A started worker.
#[derive(Debug)]
pub struct Worker<T> {
    id: WorkerId,
    thread: JoinHandle<Option<T>>,
}

impl<T> Worker<T> {
    /// Its number.
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// Whether its thread has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for its end and gives its result; none if it panicked. Don't join a worker that is
    /// stalled: drop it.
    pub fn join(self) -> Option<T> {
        self.thread.join().ok().flatten()
    }
}

thread_local! {
    static SUPERVISED: Cell<bool> = const { Cell::new(false) };
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// In supervised threads a panic is not printed but kept with its place for the event. All other
/// threads keep the hook that was there.
fn keep_panic_messages() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !SUPERVISED.get() {
                return previous(info);
            }
            let place = info.location().map_or(String::new(), |l| format!(" at {l}"));
            let text = format!("{}{place}", payload_text(info.payload()));
            LAST_PANIC.set(Some(text));
        }));
    });
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = LAST_PANIC.take().unwrap_or_else(|| payload_text(payload).to_owned());
    let line = text.replace(['\n', '\r'], " ");
    line.char_indices()
        .take_while(|(at, _)| *at < limits::PANIC_MESSAGE_MAX)
        .map(|(_, c)| c)
        .collect()
}

fn payload_text(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("panicked without a message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{Capacity, Load, channel};

    /// Long enough for the slowest machine; only failing tests wait for it.
    const LONG: Duration = Duration::from_secs(60);

    fn quick() -> Supervisor {
        Supervisor::start_with(Patience {
            stall_after: Duration::from_millis(40),
            check_every: Duration::from_millis(5),
        })
        .unwrap()
    }

    /// The next event of that kind. On a busy machine a thread may be slow enough to be taken for
    /// stalled in between.
    fn expect(supervisor: &Supervisor, kind: EventKind) -> Event {
        loop {
            let event = supervisor.next_event(LONG).unwrap();
            if event.kind == kind {
                return event;
            }
            assert!(matches!(event.kind, EventKind::Stalled | EventKind::Recovered), "{event:?}");
        }
    }

    #[test]
    fn the_defaults_notice_within_two_seconds() {
        assert!(limits::STALL_AFTER + limits::CHECK_EVERY < Duration::from_secs(2));
    }

    #[test]
    fn a_worker_that_returns_is_finished() {
        let supervisor = quick();
        let worker = supervisor.spawn("w.0", None, |pulse| {
            pulse.beat();
            42
        });
        assert_eq!(expect(&supervisor, EventKind::Finished).name, "w.0");
        assert_eq!(worker.unwrap().join(), Some(42));
    }

    #[test]
    fn a_worker_that_panics_is_reported_with_message_and_place() {
        let supervisor = quick();
        let worker = supervisor
            .spawn("w.7", None, |pulse| {
                pulse.beat();
                if pulse.beats.count.load(Relaxed) > 0 {
                    panic!("the table\nhas {} entries", 0);
                }
            })
            .unwrap();
        let event = expect(&supervisor, EventKind::Panicked);
        assert_eq!((event.worker, event.name.as_str()), (worker.id(), "w.7"));
        assert!(event.message.starts_with("the table has 0 entries at "), "{}", event.message);
        assert!(event.message.contains("supervisor.rs:"), "{}", event.message);
        assert_eq!(worker.join(), None);
    }

    #[test]
    fn a_busy_worker_that_does_not_beat_is_stalled_and_may_recover() {
        let supervisor = quick();
        let (go, wait) = queue::bounded::<()>(0);
        let worker = supervisor
            .spawn("w.0", None, move |pulse| {
                pulse.beat();
                let _ = wait.recv(); // stuck: it does not say that it waits
                pulse.beat();
                pulse.rest(|| wait.recv()).is_ok()
            })
            .unwrap();
        let event = expect(&supervisor, EventKind::Stalled);
        assert!(event.message.starts_with("has work but did not beat for "), "{}", event.message);
        go.send(()).unwrap();
        expect(&supervisor, EventKind::Recovered);
        go.send(()).unwrap();
        expect(&supervisor, EventKind::Finished);
        assert_eq!(worker.join(), Some(true));
    }

    struct One;
    impl Load for One {
        fn items(&self) -> u64 {
            1
        }
        fn bytes(&self) -> u64 {
            1
        }
    }

    /// Looks at given moments instead of waiting.
    #[test]
    fn who_waits_is_stalled_only_if_its_input_holds_messages() {
        let (tx, rx, edge) = channel::<One>("a>b", Capacity { items: 10, bytes: 10 });
        let beats: Arc<Beats> = Arc::default();
        let pulse = Pulse { beats: Arc::clone(&beats) };
        let start = now();
        let mut watched = Watched {
            id: WorkerId(0),
            name: "w".to_owned(),
            beats,
            input: Some(edge),
            count_seen: 0,
            changed: start,
            is_stalled: false,
        };
        let mut second = 0;
        let mut look = || {
            second += 1;
            let at = start + Duration::from_secs(second);
            watched.check_beats(at, Duration::from_millis(1500)).map(|e| e.kind)
        };
        pulse.await_input(|| {
            assert_eq!([look(), look(), look()], [None, None, None]);
            tx.send(One).unwrap();
            assert_eq!([look(), look(), look()], [None, Some(EventKind::Stalled), None]);
            rx.recv().unwrap();
            assert_eq!(look(), Some(EventKind::Recovered));
        });
        tx.send(One).unwrap();
        pulse.rest(|| assert_eq!([look(), look(), look()], [None, None, None]));
        assert_eq!([look(), look(), look()], [None, None, Some(EventKind::Stalled)]);
        pulse.beat();
        assert_eq!(look(), Some(EventKind::Recovered));
        pulse.rest(|| {
            let looks = pulse.busy(|| [look(), look(), look()]);
            assert_eq!(looks, [None, None, Some(EventKind::Stalled)]);
            assert_eq!(look(), Some(EventKind::Recovered));
            // A worker that waits for something in the middle of its work does not stall there.
            assert_eq!(pulse.busy(|| pulse.rest(|| [look(), look(), look()])), [None, None, None]);
        });
    }

    #[test]
    fn panics_of_other_threads_keep_their_hook() {
        let _supervisor = quick();
        assert!(!SUPERVISED.get());
        assert!(thread::spawn(|| panic::resume_unwind(Box::new(1))).join().is_err());
        assert_eq!(panic_message(&1_u32), "panicked without a message");
    }
}
