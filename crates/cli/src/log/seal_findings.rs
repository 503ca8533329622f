//! `gabion read --seal LOG`: findings of a run go into a sealed log, each provable by its id.

use super::times::now_ns;
use super::{LogFault, folders};
use crate::exit::Fault;
use gabion_outputs::files::{ForLines, Outputs};
use gabion_seal::storage::Files;
use gabion_seal::{Error, Flags, Kind, Record, Source, Transport, Writer};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A log that findings are sealed into.
pub(crate) struct FindingLog {
    log: PathBuf,
    /// As it was opened.
    pub(crate) opened: Opened,
    state: Arc<Mutex<State>>,
}

/// A log as it was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    /// Its id.
    pub(crate) log_id: [u8; 16],
    /// Chunks that it held.
    pub(crate) chunks: u64,
}

struct State {
    /// Gone once it is closed.
    writer: Option<Writer<Files>>,
    sealed: u64,
    /// Findings that came after a failure.
    lost: u64,
    failed: Option<Error>,
}

impl FindingLog {
    /// Opens the log for writing.
    pub(crate) fn open(log: &Path) -> Result<FindingLog, Fault> {
        FindingLog::open_telling(log, &mut |_| Ok(()))
    }

    /// The same; `found` is told what the log holds before anything is added.
    pub(crate) fn open_telling(
        log: &Path,
        found: &mut dyn FnMut(Opened) -> gabion_seal::Result<()>,
    ) -> Result<FindingLog, Fault> {
        let mut tell = |log_id, opened: &gabion_seal::writer::Opened| {
            found(Opened { log_id, chunks: opened.chunks })
        };
        let (writer, found) =
            folders::writer_telling(log, None, None, &mut tell).map_err(LogFault::into_fault)?;
        let opened = Opened { log_id: writer.identity().log_id(), chunks: found.chunks };
        let state = State { writer: Some(writer), sealed: 0, lost: 0, failed: None };
        Ok(FindingLog { log: log.to_path_buf(), opened, state: Arc::new(Mutex::new(state)) })
    }

    /// Has the outputs give it their alerts.
    pub(crate) fn listen(&self, outputs: &mut Outputs) {
        let to = self.sealer("net");
        outputs.add_alerts(Box::new(move |what| match what {
            ForLines::Line(line) => {
                to.seal(line);
            }
            ForLines::Reopen => {}
        }));
    }

    /// Where an engine of this name gives its findings.
    pub(crate) fn sealer(&self, engine: &str) -> Sealer {
        let source = Source::new(Transport::Finding, 0, engine, "");
        Sealer { state: Arc::clone(&self.state), source }
    }

    /// Makes everything durable and signed, and says how many findings there are.
    pub(crate) fn finish(self, is_quiet: bool) -> Result<(), Fault> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = match (state.failed.take(), state.writer.take()) {
            (Some(e), _) => Err(e),
            (None, Some(writer)) => writer.close(now_ns()).map(|_| ()),
            (None, None) => Ok(()),
        };
        closed.map_err(|e| {
            let lost = match state.lost {
                0 => String::new(),
                n => format!(": {n} findings are not sealed"),
            };
            let fault = LogFault::from(e);
            LogFault { text: format!("{}{lost}", fault.text), ..fault }
                .about(&self.log)
                .into_fault()
        })?;
        if !is_quiet {
            eprintln!(
                "gabion: {} findings sealed in {}; `gabion log show --kind finding` lists their ids, \
                 `gabion log prove --finding ID` proves one",
                state.sealed,
                self.log.display()
            );
        }
        Ok(())
    }
}

/// Takes the findings of one engine, each a line of JSON.
#[derive(Clone)]
pub(crate) struct Sealer {
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
            Record { time_ns: now_ns(), kind: Kind::Finding, flags: Flags::default(), bytes };
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
            && let Some(Err(e)) = state.writer.as_mut().map(|writer| writer.commit(now_ns()))
        {
            state.fail(e, 0);
        }
        state.failed.is_none()
    }

    /// Nothing comes at the moment: what has waited long enough is made durable.
    pub(crate) fn idle(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.failed.is_none()
            && let Some(Err(e)) = state.writer.as_mut().map(|writer| writer.tick(now_ns()))
        {
            state.fail(e, 0);
        }
    }
}

impl State {
    /// Said at once: a run that follows logs may go on for months.
    fn fail(&mut self, e: Error, lost: u64) {
        eprintln!("gabion: seal: {e}: findings are not sealed from now on");
        self.lost += lost;
        self.failed = Some(e);
    }
}
