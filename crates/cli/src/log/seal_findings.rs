//! `gabion read --seal LOG`: findings of a run go into a sealed log, each provable by its id.

use super::times::now_ns;
use super::{LogFault, folders};
use crate::exit::Fault;
use gabion_outputs::files::Outputs;
use gabion_seal::storage::Files;
use gabion_seal::{Error, Flags, Kind, Record, Source, Transport, Writer};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A log that findings are sealed into.
pub(crate) struct FindingLog {
    log: PathBuf,
    state: Arc<Mutex<State>>,
}

struct State {
    /// Gone once it is closed.
    writer: Option<Writer<Files>>,
    source: Source,
    sealed: u64,
    failed: Option<Error>,
}

impl FindingLog {
    /// Opens the log for writing and has the outputs give it their alerts.
    pub(crate) fn attach(log: &Path, outputs: &mut Outputs) -> Result<FindingLog, Fault> {
        let (writer, _) = folders::writer_at(log, None, None).map_err(LogFault::into_fault)?;
        let source = Source::new(Transport::Finding, 0, "net", "");
        let state = State { writer: Some(writer), source, sealed: 0, failed: None };
        let state = Arc::new(Mutex::new(state));
        let to = Arc::clone(&state);
        outputs.add_alerts(Box::new(move |line| {
            to.lock().unwrap_or_else(PoisonError::into_inner).seal(line);
        }));
        Ok(FindingLog { log: log.to_path_buf(), state })
    }

    /// Makes everything durable and signed, and says how many findings there are.
    pub(crate) fn finish(self, is_quiet: bool) -> Result<(), Fault> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = match (state.failed.take(), state.writer.take()) {
            (Some(e), _) => Err(e),
            (None, Some(writer)) => writer.close(now_ns()).map(|_| ()),
            (None, None) => Ok(()),
        };
        closed.map_err(|e| LogFault::from(e).about(&self.log).into_fault())?;
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

impl State {
    fn seal(&mut self, line: &[u8]) {
        let Some(writer) = self.writer.as_mut().filter(|_| self.failed.is_none()) else { return };
        let bytes = line.strip_suffix(b"\n").unwrap_or(line);
        let record =
            Record { time_ns: now_ns(), kind: Kind::Finding, flags: Flags::default(), bytes };
        match writer.append(&record, &self.source) {
            Ok(_) => self.sealed += 1,
            Err(e) => self.failed = Some(e),
        }
    }
}
