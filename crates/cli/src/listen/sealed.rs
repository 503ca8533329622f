//! The sealed log as a sink: made when it is not there, opened, written, closed.

use super::account::now_ns;
use super::sealer::Sink;
use crate::exit::Fault;
use crate::log::folders::store_recipients;
use gabion_seal::record::{Flags, Kind, Record, Source};
use gabion_seal::storage::Files;
use gabion_seal::writer::{Init, Policy, Writer};
use gabion_seal::{Error, Recipient};
use std::path::{Path, PathBuf};

/// A log that is written.
pub(crate) struct SealedLog {
    writer: Option<Writer<Files>>,
    path: PathBuf,
}

/// What a log is opened with.
#[derive(Debug)]
pub(crate) struct LogPlace<'a> {
    pub(crate) log: &'a Path,
    pub(crate) state: &'a Path,
    pub(crate) recipients: &'a [PathBuf],
    pub(crate) origin: &'a str,
    pub(crate) is_compressed: bool,
}

impl SealedLog {
    /// Opens a log, or makes one. What recovery found is said on standard error.
    pub(crate) fn open(place: &LogPlace<'_>) -> Result<SealedLog, Fault> {
        let mut recipients = Vec::new();
        for path in place.recipients {
            let text = std::fs::read_to_string(path).map_err(|e| {
                Fault::input(format!("{}: {e}: a recipient's public key is wanted", path.display()))
            })?;
            let keys = Recipient::parse_file(&text).map_err(|e| {
                Fault::input(format!("{}: {e}: name a file with public keys", path.display()))
            })?;
            recipients.extend(keys);
        }
        let folder = |path: &Path| {
            Files::create_folder(path).map_err(|e| {
                Fault::environment(format!(
                    "{}: {e}: name a folder that can be written",
                    path.display()
                ))
            })
        };
        let wrong = |e: Error| Fault::environment(format!("{}: {e}", place.log.display()));
        let mut log = folder(place.log)?;
        if !place.log.join("log.id").exists() {
            let state = folder(place.state)?;
            Init::new(place.origin, now_ns()).create(&mut log, state).map_err(wrong)?;
            store_recipients(place.state, &recipients).map_err(Fault::environment)?;
        }
        let state = folder(place.state)?;
        let mut policy = Policy::default();
        if !place.is_compressed {
            policy.manner.level = None;
        }
        let (writer, opened) =
            Writer::open(log, state, recipients, policy, now_ns()).map_err(wrong)?;
        if opened.was_torn() {
            eprintln!(
                "gabion: {}: the log was not closed: {} bytes behind its last commit were cut off",
                place.log.display(),
                opened.cut_bytes
            );
        }
        Ok(SealedLog { writer: Some(writer), path: place.log.to_owned() })
    }

    fn writer(&mut self) -> Result<&mut Writer<Files>, Fault> {
        self.writer.as_mut().ok_or_else(|| Fault::internal("the log is closed"))
    }

    fn fault(&self, e: &Error) -> Fault {
        Fault::environment(format!("{}: {e}: nothing more is acknowledged", self.path.display()))
    }
}

impl Sink for SealedLog {
    fn append(
        &mut self,
        source: &Source,
        time_ns: u64,
        kind: Kind,
        flags: Flags,
        bytes: &[u8],
    ) -> Result<(), Fault> {
        let record = Record { time_ns, kind, flags, bytes };
        let done = self.writer()?.append(&record, source);
        done.map(|_| ()).map_err(|e| self.fault(&e))
    }

    fn commit(&mut self) -> Result<(), Fault> {
        let done = self.writer()?.commit(now_ns());
        done.map_err(|e| self.fault(&e))
    }

    fn tick(&mut self) -> Result<(), Fault> {
        let done = self.writer()?.tick(now_ns());
        done.map_err(|e| self.fault(&e))
    }

    fn close(&mut self) -> Result<(), Fault> {
        match self.writer.take() {
            Some(writer) => writer.close(now_ns()).map(|_| ()).map_err(|e| self.fault(&e)),
            None => Ok(()),
        }
    }
}
