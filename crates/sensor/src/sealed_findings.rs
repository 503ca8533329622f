//! Findings of a run go into a sealed log, each provable by its id.

use crate::{Error, Notices};
use gabion_outputs::{Destination, Outputs, Piece, PieceKind, eve};
use gabion_runtime::clock::epoch_ns;
use gabion_seal::storage::Files;
use gabion_seal::{Flags, Kind, Record, Source, Transport, Writer};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A log that findings are sealed into.
pub struct FindingLog {
    opened: OpenedLog,
    state: Arc<Mutex<State>>,
}

/// A log as it was opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenedLog {
    /// Its id.
    pub log_id: [u8; 16],
    /// Chunks that it held.
    pub chunks: u64,
}

struct State {
    /// Gone once it is closed.
    writer: Option<Writer<Files>>,
    sealed: u64,
    /// Findings that came after a failure.
    lost: u64,
    failed: Option<gabion_seal::Error>,
    notices: Notices,
}

impl FindingLog {
    /// Findings go into this log from now on.
    pub fn new(writer: Writer<Files>, opened: OpenedLog, notices: Notices) -> FindingLog {
        let state = State { writer: Some(writer), sealed: 0, lost: 0, failed: None, notices };
        FindingLog { opened, state: Arc::new(Mutex::new(state)) }
    }

    /// The log as it was opened.
    pub fn opened(&self) -> OpenedLog {
        self.opened
    }

    /// Adds an output that seals alerts of rules.
    pub fn seal_alerts(&self, outputs: &mut Outputs) {
        outputs.add(eve::alerts_output(self.sealer("net")));
    }

    /// Where an engine of this name gives its findings.
    pub fn sealer(&self, engine: &str) -> Sealer {
        let source = Source::new(Transport::Finding, 0, engine, "");
        Sealer { state: Arc::clone(&self.state), source }
    }

    /// Makes everything durable and signed; how many findings were sealed.
    ///
    /// # Errors
    /// When something is not, with how many findings are lost for it.
    pub fn finish(self) -> Result<u64, Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = match (state.failed.take(), state.writer.take()) {
            (Some(e), _) => Err(e),
            (None, Some(writer)) => writer.close(epoch_ns()).map(|_| ()),
            (None, None) => Ok(()),
        };
        closed.map_err(|source| Error::Seal { source, lost: state.lost })?;
        Ok(state.sealed)
    }
}

/// Takes the findings of one engine, each a line of JSON.
#[derive(Clone)]
pub struct Sealer {
    state: Arc<Mutex<State>>,
    source: Source,
}

impl Sealer {
    /// Seals one, as it is written elsewhere, without the line's end; the chunk that it will be in.
    pub(crate) fn seal(&self, line: &[u8]) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let Some(writer) = state.writer.as_mut().filter(|_| state.failed.is_none()) else {
            state.lost += 1;
            return None;
        };
        let bytes = line.strip_suffix(b"\n").unwrap_or(line);
        let record =
            Record { time_ns: epoch_ns(), kind: Kind::Finding, flags: Flags::default(), bytes };
        match writer.append(&record, &self.source) {
            Ok(_) => {
                state.sealed += 1;
                // What waits is the next chunk: findings have no classes.
                Some(writer.size())
            }
            Err(e) => {
                state.fail(e, 1);
                None
            }
        }
    }

    /// Makes all that was sealed so far durable; false when something is not.
    pub(crate) fn commit(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.failed.is_none()
            && let Some(Err(e)) = state.writer.as_mut().map(|writer| writer.commit(epoch_ns()))
        {
            state.fail(e, 0);
        }
        state.failed.is_none()
    }

    /// Nothing comes at the moment: what has waited long enough is made durable.
    pub(crate) fn idle(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.failed.is_none()
            && let Some(Err(e)) = state.writer.as_mut().map(|writer| writer.tick(epoch_ns()))
        {
            state.fail(e, 0);
        }
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer")
    }
}

/// The sealed log as the destination of an output.
impl Destination for Sealer {
    fn write(&mut self, piece: &Piece<'_>) {
        match piece.kind {
            PieceKind::Line | PieceKind::Finding(_) => {
                self.seal(piece.bytes);
            }
            PieceKind::FlowRecord(_)
            | PieceKind::Frame(_)
            | PieceKind::FileRecord(_)
            | PieceKind::StreamBytes(_)
            | PieceKind::Certificates(_) => {}
        }
    }
}

impl State {
    /// Reported at once: a run that follows logs may last for months.
    fn fail(&mut self, e: gabion_seal::Error, lost: u64) {
        self.notices.report(&format!("seal: {e}: findings are not sealed from now on"));
        self.lost += lost;
        self.failed = Some(e);
    }
}
