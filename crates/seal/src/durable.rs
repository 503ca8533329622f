//! A writer that continues when its disk is full or fails.
//!
//! A [`Writer`] whose disk refused it has no second try: a sync that failed once says yes the next time, whatever
//! the disk holds. So it is dropped, and returns what is not synced; the log is opened again, which finds out
//! what is really there, and what was returned is sealed again. A record whose first copy had reached the disk
//! after all then stands there twice.
//!
//! On a full disk the space kept in reserve is freed first: what is held is sealed in it, and that the disk is
//! full is stated. After that, by choice: the caller waits ([`OnFull::Block`]), records are counted and shed
//! ([`OnFull::Drop`]), or a second log elsewhere takes over, whose end is stated in the first log when that
//! continues. Nothing that was acknowledged depends on any of this: it was durable before.
//!
//! Time comes from the caller, and so does the wait: [`DurableWriter::retry`] tries once.

use crate::checkpoints;
use crate::error::Error;
use crate::limits::SHED_SOURCES_MAX;
use crate::recipient::Recipient;
use crate::record::{Flags, Kind, Record, Source, Transport};
use crate::statement::statement;
use crate::storage::{Files, Storage, StorageFault};
use crate::writer::{Policy, Unsynced, Writer};
use gabion_record::base64::to_base64;
use gabion_record::files::FileOpener;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// File that holds room in the log's folder; removed when the disk is full, so that what was taken in can
/// still be sealed, and what happened be stated.
const RESERVE: &str = "reserve";
/// Its bytes: messages of one commit before compression, a checkpoint, and hours of idle marks.
const RESERVE_BYTES: usize = 1 << 20;

/// What is done while the log's disk is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// The caller waits until there is room.
    Block,
    /// Records are counted by source and shed; none of them is acknowledged.
    Drop,
}

/// A log that is there, and how it is written.
#[derive(Clone, Debug)]
pub struct LogFolder {
    /// What opens its folders, now and after a fault.
    pub files: FileOpener,
    /// The log's folder.
    pub log: PathBuf,
    /// The folder of its signer's state.
    pub state: PathBuf,
    /// The recipients that may read what is written.
    pub recipients: Vec<Recipient>,
    /// When what is done.
    pub policy: Policy,
}

/// What happened to a log, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DurableEvent {
    /// There is no room for a reserve.
    NoReserve {
        /// The log.
        log: PathBuf,
    },
    /// The log was not closed by who wrote it last.
    Recovered {
        /// The log.
        log: PathBuf,
        /// Bytes that were cut off after its last commit.
        cut_bytes: u64,
    },
    /// The disk refused.
    Refused {
        /// The log.
        log: PathBuf,
        /// Its error.
        error: String,
    },
    /// The log was opened again and all is in it.
    NewSegment {
        /// The log.
        log: PathBuf,
    },
    /// Another log takes over.
    Spilled {
        /// The log that can't continue.
        from: PathBuf,
        /// The one that does.
        to: PathBuf,
    },
    /// The disk is full, and no other log takes over.
    Full {
        /// The log.
        log: PathBuf,
        /// What is done meanwhile.
        on_full: OnFull,
    },
    /// The log continues.
    RoomAgain {
        /// The log.
        log: PathBuf,
    },
}

impl fmt::Display for DurableEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DurableEvent::NoReserve { log } => write!(
                f,
                "{}: no room for a reserve of 1 MiB: when the disk is full, what happened can't be stated",
                log.display()
            ),
            DurableEvent::Recovered { log, cut_bytes } => write!(
                f,
                "{}: the log was not closed: {cut_bytes} bytes after its last commit were cut off",
                log.display()
            ),
            DurableEvent::Refused { log, error } => write!(f, "{}: {error}", log.display()),
            DurableEvent::NewSegment { log } => {
                write!(f, "{}: continues in a new segment", log.display())
            }
            DurableEvent::Spilled { from, to } => {
                write!(f, "{}: continues in {}", from.display(), to.display())
            }
            DurableEvent::Full { log, on_full } => {
                let does = match on_full {
                    OnFull::Block => "senders wait until it has room",
                    OnFull::Drop => "messages are counted and dropped until it has room",
                };
                write!(f, "{}: the disk is full: {does}", log.display())
            }
            DurableEvent::RoomAgain { log } => write!(f, "{}: has room again", log.display()),
        }
    }
}

/// Is called with what happened.
pub type Report = Box<dyn FnMut(&DurableEvent) + Send>;

/// Why nothing can be stored any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DurableError {
    /// The log could not be opened.
    #[error("{}: {source}", log.display())]
    Open {
        /// The log.
        log: PathBuf,
        /// Why not.
        source: Error,
    },
    /// No way to continue was found.
    #[error("{}: {source}: nothing more is acknowledged", log.display())]
    Failed {
        /// The log.
        log: PathBuf,
        /// What was wrong first.
        source: Error,
    },
    /// The log ends on a full disk.
    #[error("{}: the disk is full: no closing statement", log.display())]
    FullAtEnd {
        /// The log.
        log: PathBuf,
    },
    /// The log was closed before.
    #[error("the log is closed")]
    Closed,
}

/// Messages that were shed, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Messages.
    pub messages: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// Messages of one sender that were shed.
#[derive(Clone, Copy, Debug)]
struct ShedMessages {
    messages: u64,
    first_second: u64,
    last_second: u64,
}

/// Where records go now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    /// Into the log.
    Log,
    /// Nowhere: its disk is full.
    Full,
    /// Into the log that was named for that.
    Spill,
}

/// The log with all that.
pub struct DurableWriter {
    folder: LogFolder,
    spill: Option<LogFolder>,
    on_full: OnFull,
    report: Report,
    route: Route,
    writer: Option<Writer<Files>>,
    /// What a writer gave back, until another one has made it durable.
    unsynced: Unsynced,
    /// Shed since the last call.
    dropped: Dropped,
    /// Shed since the disk was full, by sender.
    shed_by_sender: BTreeMap<String, ShedMessages>,
    full_since_ns: u64,
}

impl fmt::Debug for DurableWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableWriter")
            .field("log", &self.folder.log)
            .field("route", &self.route)
            .finish_non_exhaustive()
    }
}

impl LogFolder {
    fn open(&self, now_ns: u64, report: &mut Report) -> Result<Writer<Files>, Error> {
        let folder = |path: &Path| {
            Files::open(&self.files, path).map_err(|e| Error::storage(&path.to_string_lossy(), e))
        };
        let (log, state) = (folder(&self.log)?, folder(&self.state)?);
        let (recipients, policy) = (self.recipients.clone(), self.policy.clone());
        let (writer, opened) = Writer::open(log, state, recipients, policy, now_ns)?;
        if opened.was_torn() {
            let (log, cut_bytes) = (self.log.clone(), opened.cut_bytes);
            report(&DurableEvent::Recovered { log, cut_bytes });
        }
        Ok(writer)
    }

    /// Takes room in the log's folder; whether there was so much. Its bytes do not compress, because a file
    /// system might.
    fn reserve(&self) -> bool {
        let Ok(mut files) = Files::open(&self.files, &self.log) else { return false };
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

    /// Frees the reserved space; whether there was any.
    fn release(&self) -> bool {
        let Ok(mut files) = Files::open(&self.files, &self.log) else { return false };
        let is_there = files.len(RESERVE).is_ok_and(|l| l.is_some());
        is_there && files.remove(RESERVE).and_then(|()| files.sync_names()).is_ok()
    }

    /// What a log that was spilled into holds: its name, and what its last checkpoint says.
    fn spill_statement(&self) -> Option<Vec<u8>> {
        let files = Files::open(&self.files, &self.log).ok()?;
        let last = checkpoints::tail(&files).ok()??.last?.checkpoint;
        (last.size > 0).then(|| {
            statement("spill", |json| {
                json.field("origin", &last.origin);
                json.number("size", last.size);
                json.field("root", to_base64(&last.root));
            })
        })
    }
}

impl DurableWriter {
    /// Opens a log that is there, and one to spill into where it is named.
    ///
    /// # Errors
    /// When the log can't be written.
    pub fn open(
        folder: LogFolder,
        spill: Option<LogFolder>,
        on_full: OnFull,
        mut report: Report,
        now_ns: u64,
    ) -> Result<DurableWriter, DurableError> {
        if !folder.reserve() {
            report(&DurableEvent::NoReserve { log: folder.log.clone() });
        }
        let wrong = |source| DurableError::Open { log: folder.log.clone(), source };
        let mut writer = folder.open(now_ns, &mut report).map_err(wrong)?;
        // What an earlier run left there and could not state any more.
        if let Some(spilled) = spill.as_ref().and_then(LogFolder::spill_statement) {
            writer.state(&[spilled], 0).and_then(|()| writer.commit(now_ns)).map_err(wrong)?;
        }
        Ok(DurableWriter {
            folder,
            spill,
            on_full,
            report,
            route: Route::Log,
            writer: Some(writer),
            unsynced: Unsynced::default(),
            dropped: Dropped::default(),
            shed_by_sender: BTreeMap::new(),
            full_since_ns: 0,
        })
    }

    /// Takes a record. While the disk is full and no other log takes over ([`DurableWriter::is_full`]), a record is
    /// shed and counted: a caller that would rather wait asks before.
    ///
    /// # Errors
    /// When no way to continue is found.
    pub fn append(
        &mut self,
        record: &Record<'_>,
        source: &Source,
        now_ns: u64,
    ) -> Result<(), DurableError> {
        if self.is_full() {
            self.give_up(record, source);
            return Ok(());
        }
        let Some(writer) = &mut self.writer else { return Err(DurableError::Closed) };
        match writer.append(record, source) {
            Ok(_) => Ok(()),
            Err(e) => self.endure(e, Some((record, source)), now_ns),
        }
    }

    /// Makes durable all that was taken. Where the disk is full, what is not durable is held:
    /// see [`DurableWriter::holds_unsynced`].
    ///
    /// # Errors
    /// When no way to continue is found.
    pub fn commit(&mut self, now_ns: u64) -> Result<(), DurableError> {
        while let Some(writer) = &mut self.writer {
            match writer.commit(now_ns) {
                Ok(()) => return Ok(()),
                Err(e) => self.endure(e, None, now_ns)?,
            }
            if self.unsynced.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Does what is due by time: checkpoints, epochs.
    ///
    /// # Errors
    /// When no way to continue is found.
    pub fn tick(&mut self, now_ns: u64) -> Result<(), DurableError> {
        match self.writer.as_mut().map(|w| w.tick(now_ns)) {
            Some(Err(e)) => self.endure(e, None, now_ns),
            Some(Ok(())) | None => Ok(()),
        }
    }

    /// States the end and makes it durable.
    ///
    /// # Errors
    /// When the disk is full or refuses.
    pub fn close(&mut self, now_ns: u64) -> Result<(), DurableError> {
        if self.is_full() && !self.retry(now_ns) {
            return Err(DurableError::FullAtEnd { log: self.folder.log.clone() });
        }
        match self.writer.take() {
            Some(writer) => writer.close(now_ns).map(|_| ()).map_err(|e| self.failed(e)),
            None => Ok(()),
        }
    }

    /// Whether nothing can be stored now.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.route == Route::Full
    }

    /// Whether it is to be tried now and then if the log can continue: its disk is full, or another log took over.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.route != Route::Log
    }

    /// Whether records wait for a disk to have room.
    #[must_use]
    pub fn holds_unsynced(&self) -> bool {
        !self.unsynced.is_empty()
    }

    /// Where the log is.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.folder.log
    }

    /// What is done while the disk is full.
    #[must_use]
    pub const fn on_full(&self) -> OnFull {
        self.on_full
    }

    /// Messages shed since the last call.
    pub fn take_dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.dropped)
    }

    fn failed(&self, source: Error) -> DurableError {
        DurableError::Failed { log: self.folder.log.clone(), source }
    }

    fn report(&mut self, event: &DurableEvent) {
        (self.report)(event);
    }

    /// The writer's disk refused, perhaps while it was given a record. Whatever way is found, what was not durable is
    /// in it.
    fn endure(
        &mut self,
        e: Error,
        refused: Option<(&Record<'_>, &Source)>,
        now_ns: u64,
    ) -> Result<(), DurableError> {
        let Error::Storage { source, .. } = &e else { return Err(self.failed(e)) };
        let is_full = StorageFault::from_io(source) == StorageFault::Full;
        if let Some(writer) = self.writer.take() {
            let unsynced = writer.into_unsynced().map_err(|e| self.failed(e))?;
            unsynced.iter().for_each(|(record, source)| self.unsynced.push(&record, source));
        }
        if let Some((record, source)) = refused {
            self.unsynced.push(record, source);
        }
        let log = self.folder.log.clone();
        self.report(&DurableEvent::Refused { log: log.clone(), error: e.to_string() });
        if self.route == Route::Spill {
            self.route = Route::Full;
        }
        let had_reserve = self.folder.release();
        if is_full && !had_reserve {
            // No last words: the disk was full before.
        } else if let Ok(mut writer) = self.begin_again(&self.folder.clone(), now_ns) {
            self.unsynced = Unsynced::default();
            if !is_full {
                self.report(&DurableEvent::NewSegment { log });
                self.folder.reserve();
                self.writer = Some(writer);
                return Ok(());
            }
            let policy = match (&self.spill, self.on_full) {
                (Some(_), _) => "spill",
                (None, OnFull::Block) => "block",
                (None, OnFull::Drop) => "drop",
            };
            let full = statement("full", |json| json.field("policy", policy));
            let stated = writer
                .state(&[full], 0)
                .and_then(|()| writer.commit(now_ns))
                .and_then(|()| writer.sign_checkpoint(now_ns));
            self.writer = stated.is_ok().then_some(writer);
        }
        if let Some(spill) = self.spill.clone()
            && let Ok(writer) = self.begin_again(&spill, now_ns)
        {
            self.report(&DurableEvent::Spilled { from: log, to: spill.log });
            // The first log's end is stated where there is room for that.
            if let Some(first) = self.writer.replace(writer) {
                let _ = first.close(now_ns);
            }
            self.unsynced = Unsynced::default();
            self.full_since_ns = now_ns;
            self.route = Route::Spill;
            return Ok(());
        }
        if !is_full {
            return Err(self.failed(e));
        }
        self.report(&DurableEvent::Full { log, on_full: self.on_full });
        (self.route, self.full_since_ns) = (Route::Full, now_ns);
        Ok(())
    }

    /// Opens a log and makes durable in it what a writer gave back.
    fn begin_again(&mut self, folder: &LogFolder, now_ns: u64) -> Result<Writer<Files>, Error> {
        let mut writer = folder.open(now_ns, &mut self.report)?;
        for (record, source) in self.unsynced.iter() {
            writer.append(&record, source)?;
        }
        writer.commit(now_ns)?;
        Ok(writer)
    }

    /// Goes back to the log if its disk has room for a reserve again, and states what happened meanwhile; whether it
    /// did.
    pub fn retry(&mut self, now_ns: u64) -> bool {
        if !self.folder.reserve() {
            return false;
        }
        let folder = self.folder.clone();
        let mut spilled = None;
        let again = match (self.route, self.writer.take()) {
            (Route::Spill, Some(mut spill)) => {
                // The first log has to be there before the other is left.
                let first = folder.open(now_ns, &mut self.report);
                let is_durable = first.is_ok() && spill.commit(now_ns).is_ok();
                let Some(first) = first.ok().filter(|_| is_durable) else {
                    self.writer = Some(spill);
                    return false;
                };
                let _ = spill.close(now_ns);
                spilled = self.spill.as_ref().and_then(LogFolder::spill_statement);
                Ok(first)
            }
            (Route::Log | Route::Full, Some(writer)) => Ok(writer),
            (Route::Log | Route::Full | Route::Spill, None) => self.begin_again(&folder, now_ns),
        };
        let again = again.and_then(|mut writer| {
            self.unsynced = Unsynced::default();
            self.state_pause(&mut writer, spilled, now_ns)?;
            Ok(writer)
        });
        let Ok(writer) = again else {
            self.route = Route::Full;
            return false;
        };
        self.report(&DurableEvent::RoomAgain { log: folder.log });
        self.writer = Some(writer);
        self.shed_by_sender.clear();
        self.route = Route::Log;
        true
    }

    /// States what was shed or sealed elsewhere. The sender is named for readers alone.
    fn state_pause(
        &self,
        writer: &mut Writer<Files>,
        spilled: Option<Vec<u8>>,
        now_ns: u64,
    ) -> Result<(), Error> {
        let messages: u64 = self.shed_by_sender.values().map(|g| g.messages).sum();
        let room = statement("room", |json| {
            json.number("full_since", self.full_since_ns);
            json.number("shed", messages);
        });
        writer.state(&[Some(room), spilled].into_iter().flatten().collect::<Vec<_>>(), 0)?;
        let own = Source::new(Transport::Internal, 0, "", "");
        for (peer, shed) in &self.shed_by_sender {
            let loss = statement("loss", |json| {
                json.field("peer", peer);
                json.field("reason", "disk_full");
                json.number("second", shed.first_second);
                json.number("last_second", shed.last_second);
                json.number("messages", shed.messages);
            });
            let (kind, flags) = (Kind::System, Flags::default());
            writer.append(&Record { time_ns: now_ns, kind, flags, bytes: &loss }, &own)?;
        }
        writer.commit(now_ns)
    }

    /// Counts a message that is shed. What the owner of the log states is no message.
    fn give_up(&mut self, record: &Record<'_>, source: &Source) {
        if record.kind != Kind::Message {
            return;
        }
        self.dropped.messages += 1;
        self.dropped.bytes += record.bytes.len() as u64;
        let peer = source.peer().rsplit_once(':').map_or_else(|| source.peer(), |(host, _)| host);
        let is_counted_apart =
            self.shed_by_sender.len() < SHED_SOURCES_MAX || self.shed_by_sender.contains_key(peer);
        let peer = if is_counted_apart { peer } else { "others" };
        let second = record.time_ns / 1_000_000_000;
        let row = self.shed_by_sender.entry(peer.to_owned()).or_insert(ShedMessages {
            messages: 0,
            first_second: second,
            last_second: second,
        });
        row.messages += 1;
        row.last_second = row.last_second.max(second);
    }

    /// Sheds what a writer returned, where nobody waits for space.
    pub fn give_up_unsynced(&mut self) {
        let unsynced = std::mem::take(&mut self.unsynced);
        unsynced.iter().for_each(|(record, source)| self.give_up(&record, source));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SecretKey;
    use crate::reader::{Cursor, Found, Reader, Selection};
    use crate::writer::Init;
    use gabion_runtime::files::direct_opener;

    const NOW_NS: u64 = 1_700_000_000_000_000_000;

    fn made(folder: &Path, name: &str, key: &SecretKey) -> LogFolder {
        let (log, state) = (folder.join(name), folder.join(format!("{name}.state")));
        let (mut files, signer) = (
            Files::create_folder(&direct_opener(), &log).unwrap(),
            Files::create_folder(&direct_opener(), &state).unwrap(),
        );
        Init::new(&format!("log.example/{name}"), NOW_NS).create(&mut files, signer).unwrap();
        LogFolder {
            files: direct_opener(),
            log,
            state,
            recipients: vec![key.recipient().clone()],
            policy: Policy::default(),
        }
    }

    fn opened(folder: &Path, spills: bool) -> (DurableWriter, [SecretKey; 1]) {
        let key = SecretKey::generate().unwrap();
        let spill = spills.then(|| made(folder, "aside", &key));
        let log = made(folder, "log", &key);
        let report = Box::new(|_: &DurableEvent| {});
        let log = DurableWriter::open(log, spill, OnFull::Block, report, NOW_NS).unwrap();
        (log, [key])
    }

    fn append(log: &mut DurableWriter, text: &str) {
        let source = Source::new(Transport::Udp, 0, "192.0.2.1:514", "");
        let (kind, flags) = (Kind::Message, Flags::default());
        let record = Record { time_ns: NOW_NS, kind, flags, bytes: text.as_bytes() };
        log.append(&record, &source, NOW_NS).unwrap();
    }

    fn messages(path: &Path, keys: &[SecretKey]) -> Vec<String> {
        struct Texts(Vec<String>);
        impl crate::reader::Sink for Texts {
            fn record(&mut self, found: &Found<'_>) -> bool {
                if found.record.kind == Kind::Message {
                    self.0.push(String::from_utf8_lossy(found.record.bytes).into_owned());
                }
                true
            }
            fn unreadable(&mut self, what: &str) {
                panic!("{what}");
            }
        }
        let files = Files::open(&direct_opener(), path).unwrap();
        let mut texts = Texts(Vec::new());
        let mut reader = Reader::open(&files, keys).unwrap();
        reader.scan(Cursor::default(), &Selection::default(), &mut texts).unwrap();
        texts.0
    }

    fn input_output_error() -> Error {
        Error::Storage { name: "segment".into(), source: std::io::Error::from_raw_os_error(5) }
    }

    #[test]
    fn behind_a_failed_sync_what_was_not_durable_is_sealed_again() {
        let folder = tempfile::tempdir().unwrap();
        let (mut log, keys) = opened(folder.path(), false);
        append(&mut log, "durable");
        log.commit(NOW_NS).unwrap();
        append(&mut log, "not yet");
        append(&mut log, "nor this");
        log.endure(input_output_error(), None, NOW_NS).unwrap();
        assert_eq!(log.route, Route::Log);
        append(&mut log, "behind it");
        log.close(NOW_NS).unwrap();
        let all = messages(&folder.path().join("log"), &keys);
        assert_eq!(all, ["durable", "not yet", "nor this", "behind it"]);
    }

    #[test]
    fn what_can_not_be_opened_again_ends_or_spills() {
        for spills in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let (mut log, keys) = opened(folder.path(), spills);
            append(&mut log, "durable");
            log.commit(NOW_NS).unwrap();
            append(&mut log, "not yet");
            // As a disk that does not answer any more.
            std::fs::rename(folder.path().join("log"), folder.path().join("gone")).unwrap();
            let endured = log.endure(input_output_error(), None, NOW_NS);
            assert_eq!(endured.is_ok(), spills);
            assert_eq!(messages(&folder.path().join("gone"), &keys), ["durable"]);
            if spills {
                append(&mut log, "behind it");
                log.commit(NOW_NS).unwrap();
                log.close(NOW_NS).unwrap();
                let aside = messages(&folder.path().join("aside"), &keys);
                assert_eq!(aside, ["not yet", "behind it"]);
            }
        }
    }
}
