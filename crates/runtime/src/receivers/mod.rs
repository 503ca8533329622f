//! Lines for receivers outside of this process: sockets, the system's log, Redis.
//!
//! A program that makes lines never waits for a receiver: lines go into a spool of bounded size, and a thread of the spool's own
//! sends them, connects again where the receiver has gone, and waits where it is slow. Lines for which the spool has no
//! room are refused, and those that a receiver does not take are counted.

mod redis;
mod syslog;
mod tcp;
mod unix;

pub use redis::{RedisMode, RedisReceiver, RedisSettings};
pub use syslog::{SyslogReceiver, priority as syslog_priority};
pub use tcp::TcpReceiver;
pub use unix::UnixReceiver;

use crate::clock;
use crate::limits::SPOOL_BYTES_MAX;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a receiver that can't be reached is left alone before it is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How long one attempt to connect, send or read an answer may take before the thread looks whether it is to end.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);
/// How long a source that can wait does so while the receiver takes nothing.
const SOURCE_WAIT: Duration = Duration::from_secs(1);
/// How long the end of a run waits for a receiver that takes nothing.
const WAIT_AT_END: Duration = Duration::from_secs(1);

/// The outcome of lines that a receiver was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Lines that it took, or refused for good, from the first on: the others are to be given again.
    pub lines: usize,
    /// Those of them that it refused, and their bytes.
    pub refused: (u64, u64),
}

/// Takes lines outside of this process. Implementations never wait longer than a moment.
pub trait Receive: Send {
    /// Connects, if it is not connected.
    ///
    /// # Errors
    /// What the system says.
    fn connect(&mut self) -> io::Result<()>;

    /// Sends lines, each with its end. After an error the connection is closed, and lines that were not taken come again.
    fn send(&mut self, lines: &Lines) -> (Sent, io::Result<()>);

    /// Closes the connection.
    fn close(&mut self);
}

/// Lines in one piece of memory.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Lines at the beginning that are done with.
    done: usize,
}

impl Lines {
    fn push(&mut self, line: &[u8]) {
        self.bytes.extend_from_slice(line);
        self.ends.push(self.bytes.len());
    }

    /// The lines that are left, each with its end.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (self.done..self.ends.len()).filter_map(|n| {
            let start =
                n.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
            self.bytes.get(start..*self.ends.get(n)?)
        })
    }

    /// How many are left.
    pub fn len(&self) -> usize {
        self.ends.len().saturating_sub(self.done)
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of those that are left.
    fn left_bytes(&self) -> usize {
        let before = self.done.checked_sub(1).and_then(|n| self.ends.get(n)).copied();
        self.bytes.len().saturating_sub(before.unwrap_or(0))
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.done = 0;
    }
}

#[cfg(test)]
impl Lines {
    pub(super) fn from_list(all: &[&[u8]]) -> Lines {
        let mut lines = Lines::default();
        all.iter().for_each(|line| lines.push(line));
        lines
    }
}

/// What a spool has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpoolCounts {
    /// Lines that the receiver took, and their bytes.
    pub sent: (u64, u64),
    /// Lines that it refused, or that were left at the end, and their bytes.
    pub failed: (u64, u64),
}

#[derive(Default)]
struct State {
    waiting: Lines,
    /// Lines and bytes that the thread works with.
    held: (usize, usize),
    counts: SpoolCounts,
    /// When the receiver took something last.
    progress: Option<Instant>,
    /// Why the receiver takes nothing.
    fault: Option<String>,
    is_ending: bool,
    /// The thread is to shed what it holds.
    is_abandoned: bool,
}

struct Shared {
    state: Mutex<State>,
    /// Something changed: lines came, lines went, the end.
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A bounded queue of lines, with the thread that sends them.
pub struct Spool {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The source waits a moment where there is no room.
    waits: bool,
    made: Instant,
}

impl std::fmt::Debug for Spool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spool").finish_non_exhaustive()
    }
}

impl Spool {
    /// A spool for this receiver.
    ///
    /// # Errors
    /// If the thread can't be started.
    pub fn start(name: &str, mut receiver: Box<dyn Receive>) -> io::Result<Spool> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || send_all(&of_thread, &mut *receiver))?;
        Ok(Spool { shared, thread: Some(thread), waits: true, made: clock::now() })
    }

    /// The source of the lines does not wait: what finds no room is refused at once.
    pub fn never_wait(&mut self) {
        self.waits = false;
    }

    /// Adds a line, with its end. False: there is no room, and it is shed.
    pub fn push(&self, line: &[u8]) -> bool {
        let mut state = self.shared.lock();
        while state.waiting.bytes.len() + state.held.1 + line.len() > SPOOL_BYTES_MAX {
            let since = state.progress.unwrap_or(self.made);
            if !self.waits || state.is_abandoned || since.elapsed() > SOURCE_WAIT {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(state, PATIENCE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let was_empty = state.waiting.is_empty();
        state.waiting.push(line);
        drop(state);
        if was_empty {
            self.shared.changed.notify_all();
        }
        true
    }

    /// What was counted so far.
    pub fn counts(&self) -> SpoolCounts {
        self.shared.lock().counts
    }

    /// Why the receiver takes nothing, if so.
    pub fn fault(&self) -> Option<String> {
        self.shared.lock().fault.clone()
    }

    /// Waits until all lines are sent, as long as the receiver takes some; the others are counted as failed.
    pub fn finish(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        let mut state = self.shared.lock();
        state.is_ending = true;
        self.shared.changed.notify_all();
        let began = clock::now();
        while !state.waiting.is_empty() || state.held.0 > 0 {
            let since = state.progress.map_or(began, |at| at.max(began));
            if since.elapsed() > WAIT_AT_END {
                state.is_abandoned = true;
                self.shared.changed.notify_all();
                break;
            }
            let waited = self.shared.changed.wait_timeout(state, PATIENCE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        // The thread looks every moment: it ends soon.
        let _ = thread.join();
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The spool's thread.
fn send_all(shared: &Shared, receiver: &mut dyn Receive) {
    let mut batch = Lines::default();
    loop {
        {
            let mut state = shared.lock();
            state.held = (0, 0);
            while state.waiting.is_empty() && !state.is_ending {
                state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.waiting.is_empty() {
                return;
            }
            batch.clear();
            std::mem::swap(&mut batch, &mut state.waiting);
            state.held = (batch.len(), batch.bytes.len());
        }
        while !batch.is_empty() {
            let (sent, result) = match receiver.connect() {
                Ok(()) => receiver.send(&batch),
                Err(e) => (Sent::default(), Err(e)),
            };
            let fault = result.err().map(|e| e.to_string());
            if fault.is_some() {
                receiver.close();
            }
            let before = batch.left_bytes();
            batch.done += sent.lines.min(batch.len());
            let bytes = (before - batch.left_bytes()) as u64;
            let mut state = shared.lock();
            let (lines, refused) = (sent.lines as u64, sent.refused);
            state.counts.sent.0 += lines.saturating_sub(refused.0);
            state.counts.sent.1 += bytes.saturating_sub(refused.1);
            state.counts.failed.0 += refused.0;
            state.counts.failed.1 += refused.1;
            state.held = (batch.len(), batch.left_bytes());
            if lines > 0 {
                state.progress = Some(clock::now());
            }
            let is_failing = fault.is_some();
            state.fault = fault;
            shared.changed.notify_all();
            if is_failing && lines == 0 && !batch.is_empty() && !state.is_abandoned {
                let waited =
                    shared.changed.wait_timeout_while(state, RETRY, |state| !state.is_abandoned);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            if state.is_abandoned {
                let State { waiting, counts, held, fault, .. } = &mut *state;
                // It is there, and its room is full.
                fault.get_or_insert_with(|| "it reads nothing".to_owned());
                for left in [&mut batch, waiting] {
                    counts.failed.0 += left.len() as u64;
                    counts.failed.1 += left.left_bytes() as u64;
                    left.clear();
                }
                *held = (0, 0);
                shared.changed.notify_all();
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    /// Takes as many lines with each call as it is allowed to; refuses those that begin with an `x`.
    struct Slow {
        allowed: Receiver<usize>,
        taken: Arc<Mutex<Vec<Vec<u8>>>>,
    }

    impl Receive for Slow {
        fn connect(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn send(&mut self, lines: &Lines) -> (Sent, io::Result<()>) {
            let Ok(most) = self.allowed.recv_timeout(Duration::from_millis(20)) else {
                return (Sent::default(), Err(io::Error::other("it hangs")));
            };
            let mut sent = Sent::default();
            for line in lines.iter().take(most) {
                sent.lines += 1;
                if line.starts_with(b"x") {
                    sent.refused = (sent.refused.0 + 1, sent.refused.1 + line.len() as u64);
                } else {
                    self.taken.lock().unwrap().push(line.to_vec());
                }
            }
            (sent, Ok(()))
        }

        fn close(&mut self) {}
    }

    /// The parts that a receiver has taken.
    type Taken = Arc<Mutex<Vec<Vec<u8>>>>;

    fn slow() -> (Spool, SyncSender<usize>, Taken) {
        let (allow, allowed) = sync_channel(64);
        let taken = Taken::default();
        let receiver = Slow { allowed, taken: Arc::clone(&taken) };
        (Spool::start("spool", Box::new(receiver)).unwrap(), allow, taken)
    }

    #[test]
    fn lines_come_in_order_and_each_is_counted() {
        let (mut spool, allow, taken) = slow();
        for _ in 0..60 {
            allow.send(1000).unwrap();
        }
        for n in 0..1_000 {
            let line = if n % 100 == 7 { format!("x{n}\n") } else { format!("{n}\n") };
            assert!(spool.push(line.as_bytes()));
        }
        spool.finish();
        let counts = spool.counts();
        assert_eq!((counts.sent.0, counts.failed), (990, (10, 3 + 9 * 5)));
        let wanted: Vec<Vec<u8>> =
            (0..1_000).filter(|n| n % 100 != 7).map(|n| format!("{n}\n").into_bytes()).collect();
        assert_eq!(*taken.lock().unwrap(), wanted);
    }

    #[test]
    fn a_receiver_that_hangs_stops_nothing() {
        let (mut spool, allow, _) = slow();
        spool.never_wait();
        let line = vec![b'a'; 1 << 20];
        let taken = (0..100).filter(|_| spool.push(&line)).count();
        assert_eq!(taken, SPOOL_BYTES_MAX >> 20, "the spool is bounded");
        spool.finish();
        let counts = spool.counts();
        assert_eq!((counts.sent.0, counts.failed.0), (0, taken as u64));
        assert_eq!(spool.fault().as_deref(), Some("it hangs"));
        drop(allow);
    }
}
