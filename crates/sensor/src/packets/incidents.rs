//! What happens to workers and where the reading stands, for a caller that watches the run.

use super::reload::LoadRequest;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// What happened to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It has work and makes no progress.
    Stalled,
    /// It makes progress again.
    Recovered,
    /// It panicked.
    Failed,
    /// The thread that reads for all workers panicked.
    ReaderFailed,
    /// It made no progress for too long.
    Abandoned,
}

impl Trouble {
    /// Whether what it had to do is lost.
    pub fn is_loss(self) -> bool {
        match self {
            Trouble::Stalled | Trouble::Recovered => false,
            Trouble::Failed | Trouble::ReaderFailed | Trouble::Abandoned => true,
        }
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Trouble::Stalled => "stalled",
            Trouble::Recovered => "recovered",
            Trouble::Failed | Trouble::ReaderFailed => "failed",
            Trouble::Abandoned => "abandoned",
        }
    }
}

/// Something that happened to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// The worker's name.
    pub worker: String,
    /// What happened.
    pub kind: Trouble,
    /// For how long, where, or why.
    pub message: String,
}

impl Incident {
    /// The answer to a request for other rules where a run does not load others.
    pub const NOT_RELOADED: &'static str =
        "rules: this run was started without any: none are loaded";

    /// One line for a person.
    pub fn line(&self) -> String {
        let (worker, kind, message) = (&self.worker, self.kind.name(), &self.message);
        match self.kind {
            Trouble::Stalled => format!("{worker}: {kind}: {message}: waiting for it"),
            Trouble::Recovered => format!("{worker}: {kind}: {message}"),
            Trouble::Failed | Trouble::Abandoned => {
                format!("{worker}: {kind}: {message}: its packets are shed, report this")
            }
            Trouble::ReaderFailed => {
                format!("{worker}: {kind}: {message}: how much was read is not known, report this")
            }
        }
    }
}

/// Receives the state of a run while it lasts.
pub trait Watch {
    /// Frames were read: bytes of this capture so far, all of its bytes if known. The first report of an interface says
    /// that its frames come.
    fn position(&mut self, _input: usize, _position: u64, _len: Option<u64>) {}

    /// Something happened to an interface: its name and what a person should know.
    fn note(&mut self, _note: &str) {}

    /// Something happened to a worker.
    fn incident(&mut self, _incident: &Incident) {}

    /// Somebody asked for files to be opened by their names again (SIGHUP).
    fn reopen(&mut self) {}

    /// Somebody asked for other rules (SIGUSR2): the answer to the request; none where a run does not load others.
    fn reload(&mut self, _request: Option<LoadRequest>) {}
}

/// Nobody looks.
pub struct Unwatched;

impl Watch for Unwatched {}

/// Where the reading stands.
#[derive(Debug, Default)]
pub(crate) struct Position {
    input: AtomicUsize,
    position: AtomicU64,
    len: AtomicU64,
    /// Reading has begun.
    is_reading: AtomicBool,
    /// What happened to interfaces and was not reported yet.
    notes: Mutex<Vec<String>>,
}

impl Position {
    /// So far.
    pub(crate) fn set(&self, input: usize, position: u64, len: Option<u64>) {
        self.input.store(input, Relaxed);
        self.position.store(position, Relaxed);
        self.len.store(len.unwrap_or(0), Relaxed);
        self.is_reading.store(true, Relaxed);
    }

    /// Something happened to an interface.
    pub(crate) fn add_note(&self, note: String) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
    }

    /// Reports it, once reading has begun.
    pub(crate) fn report_to(&self, watch: &mut dyn Watch) {
        let notes = std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner));
        notes.iter().for_each(|note| watch.note(note));
        if !self.is_reading.load(Relaxed) {
            return;
        }
        let len = self.len.load(Relaxed);
        let len = (len > 0).then_some(len);
        watch.position(self.input.load(Relaxed), self.position.load(Relaxed), len);
    }
}
