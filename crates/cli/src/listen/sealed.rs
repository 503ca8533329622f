//! The sealed log of a listener: made when it is not there, opened for writing, and the room that is
//! kept free beside it for its last words.

use super::account::now_ns;
use crate::exit::Fault;
use crate::limits::KEY_FILE_BYTES_MAX;
use crate::log::LogFault;
use crate::log::folders::guard_secrets;
use crate::log::init::{self, Made, NewLog};
use crate::operator_file;
use gabion_seal::storage::{Files, Storage};
use gabion_seal::writer::{Policy, Writer};
use gabion_seal::{Error, Recipient};
use std::path::PathBuf;

/// File that holds room in the log's folder; removed when the disk is full, so that what was taken in can
/// still be sealed, and what happened be said.
const RESERVE: &str = "reserve";
/// Its bytes: messages of one commit before compression, a checkpoint, and hours of idle marks.
const RESERVE_BYTES: usize = 1 << 20;

/// What a log is opened with.
#[derive(Clone, Debug)]
pub(crate) struct LogPlace {
    pub(crate) log: PathBuf,
    pub(crate) state: PathBuf,
    pub(crate) recipients: Vec<PathBuf>,
    pub(crate) origin: String,
    /// How it is made when it is not there.
    pub(crate) new: NewLog,
    pub(crate) is_compressed: bool,
}

impl LogPlace {
    /// The public keys of those who may read.
    fn readers(&self) -> Result<Vec<Recipient>, Fault> {
        let mut recipients = Vec::new();
        for path in &self.recipients {
            let text = operator_file::text(path, KEY_FILE_BYTES_MAX).map_err(|e| {
                Fault::input(format!("{}: {e}: a recipient's public key is wanted", path.display()))
            })?;
            let keys = Recipient::parse_file(&text).map_err(|e| {
                Fault::input(format!("{}: {e}: name a file with public keys", path.display()))
            })?;
            recipients.extend(keys);
        }
        Ok(recipients)
    }

    /// Makes the log when it is not there; what was made for it.
    pub(crate) fn make(&self) -> Result<Made, Fault> {
        let recipients = self.readers()?;
        if self.log.join("log.id").exists() {
            return Ok(Made::default());
        }
        let folders = (self.log.as_path(), self.state.as_path());
        let made = init::make_undoably(folders, &self.origin, &recipients, &self.new);
        made.map(|(_, made)| made).map_err(LogFault::into_fault)
    }

    /// Opens the log. What recovery found is said on standard error.
    pub(crate) fn open(&self) -> Result<Writer<Files>, Fault> {
        let recipients = self.readers()?;
        self.writer(recipients).map_err(|e| self.wrong(&e))
    }

    /// The same for one that was open before.
    pub(crate) fn reopen(&self) -> Result<Writer<Files>, Error> {
        let recipients = self.readers().map_err(|e| Error::Key { what: e.to_string() })?;
        self.writer(recipients)
    }

    fn writer(&self, recipients: Vec<Recipient>) -> Result<Writer<Files>, Error> {
        let _ = guard_secrets();
        let folder = |path: &std::path::Path| {
            Files::open(path)
                .map_err(|source| Error::Storage { name: path.display().to_string(), source })
        };
        let mut policy = Policy::default();
        if !self.is_compressed {
            policy.manner.level = None;
        }
        let (log, state) = (folder(&self.log)?, folder(&self.state)?);
        let (writer, opened) = Writer::open(log, state, recipients, policy, now_ns())?;
        if opened.was_torn() {
            eprintln!(
                "gabion: {}: the log was not closed: {} bytes behind its last commit were cut off",
                self.log.display(),
                opened.cut_bytes
            );
        }
        Ok(writer)
    }

    fn wrong(&self, e: &Error) -> Fault {
        Fault::environment(format!("{}: {e}", self.log.display()))
    }

    /// Takes room in the log's folder; whether there was so much. Its bytes do not compress, because a file
    /// system might.
    pub(crate) fn reserve(&self) -> bool {
        let Ok(mut files) = Files::open(&self.log) else { return false };
        if files.len(RESERVE).ok().flatten() == Some(RESERVE_BYTES as u64) {
            return true;
        }
        let mut x = 0x9e37_79b9_7f4a_7c15_u64;
        let mut bytes = Vec::with_capacity(RESERVE_BYTES);
        while bytes.len() < RESERVE_BYTES {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            bytes.extend_from_slice(&x.to_le_bytes());
        }
        let made = files.write_new(RESERVE, &bytes).and_then(|()| files.sync(RESERVE));
        if made.is_err() {
            let _ = files.remove(RESERVE);
        }
        made.is_ok()
    }

    /// Gives the room back; whether there was any.
    pub(crate) fn release(&self) -> bool {
        let Ok(mut files) = Files::open(&self.log) else { return false };
        let is_there = files.len(RESERVE).is_ok_and(|l| l.is_some());
        is_there && files.remove(RESERVE).and_then(|()| files.sync_names()).is_ok()
    }
}
