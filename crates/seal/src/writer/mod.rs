//! The writer: records in, a durable log out.
//!
//! `append` takes a record and gives a ticket. `commit` seals what waits, writes it with a signed commit
//! mark and makes it durable: every ticket given before it is then on the disk. Between commits the
//! writer flushes by itself at 1 MiB; `tick` does what is due by time: chunks that have waited, idle
//! marks, checkpoints, epochs, segments. Time comes from the caller and from nowhere else.
//!
//! An error of the storage stops the writer for good: after a failed sync nobody knows what the disk
//! holds, and asking again gives a false yes. [`Writer::into_unsynced`] returns what was not made durable,
//! to be offered again to a writer that is opened again, whose recovery shows what the disk really has.

mod open;
mod retention;
mod segments;
mod sign;
mod unsynced;

pub use open::{Init, Opened};
pub use retention::{HOLD_FILE, Summary, held, segments};
pub use unsynced::Unsynced;

use crate::error::{Error, Result};
use crate::format::chunk::{FLAG_LAST, Manner, Place, Sealer};
use crate::format::data_key::ClassKeys;
use crate::format::epoch::mark_text;
use crate::format::signer::SignerState;
use crate::format::tree::{Hash, Range};
use crate::format::{chunk, index, segment};
use crate::identity::Identity;
use crate::limits::{CHUNK_PLAIN, COMMIT_BYTES, SEGMENT_BYTES};
use crate::recipient::Recipient;
use crate::record::{Builder, Flags, Kind, Record, Source, Transport};
use crate::statement::statement;
use crate::storage::Storage;

const SECOND: u64 = 1_000_000_000;

/// When what is done.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Plain bytes at which a chunk is sealed.
    pub chunk_plain: usize,
    /// A record waits in an open chunk no longer than this, ns.
    pub chunk_after_ns: u64,
    /// Sealed bytes at which they are written and synced.
    pub commit_bytes: usize,
    /// Sealed bytes wait no longer than this, ns.
    pub commit_after_ns: u64,
    /// An idle mark is written when nothing came for so long, ns.
    pub idle_after_ns: u64,
    /// A segment ends at this length,
    pub segment_bytes: u64,
    /// or age, ns.
    pub segment_after_ns: u64,
    /// An epoch ends after this many chunks,
    pub epoch_chunks: u64,
    /// or ns.
    pub epoch_after_ns: u64,
    /// How chunks are made.
    pub manner: Manner,
    /// Encryption of chunks.
    pub aead: segment::Aead,
    /// Names of classes above 0: each has a data key of its own, so that it can be shredded alone.
    pub classes: Vec<String>,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            chunk_plain: CHUNK_PLAIN,
            chunk_after_ns: SECOND,
            commit_bytes: COMMIT_BYTES,
            commit_after_ns: SECOND / 20,
            idle_after_ns: 60 * SECOND,
            segment_bytes: SEGMENT_BYTES,
            segment_after_ns: 3_600 * SECOND,
            epoch_chunks: 100_000,
            epoch_after_ns: 3_600 * SECOND,
            manner: Manner { level: Some(-1), is_padded: false, is_rounded: false },
            aead: segment::Aead::Aes256Gcm,
            classes: Vec::new(),
        }
    }
}

/// A record's place in the order of appending. It is durable once `Writer::durable` is above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// What a writer did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records appended.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Chunks sealed.
    pub chunks: u64,
    /// Bytes written to segments.
    pub stored: u64,
    /// Commits: writes that were synced.
    pub commits: u64,
    /// Checkpoints signed.
    pub checkpoints: u64,
}

/// The segment that is written.
struct Current {
    header: segment::Header,
    hash: Hash,
    name: String,
    keys: Vec<ClassKeys>,
    len: u64,
    index: Vec<index::Entry>,
}

/// Records of a class that wait to be sealed.
#[derive(Default)]
struct Waiting {
    builder: Builder,
    since_ns: u64,
    first_ticket: u64,
}

/// Writes a log.
pub struct Writer<S> {
    log: S,
    signer: SignerState<S>,
    identity: Identity,
    log_id: [u8; 16],
    recipients: Vec<Recipient>,
    policy: Policy,
    sealer: Sealer,
    range: Range,
    next_record: u64,
    current: Option<Current>,
    next_segment: u64,
    waiting: Vec<Waiting>,
    pending: Vec<u8>,
    pending_since_ns: u64,
    checkpoint_size: u64,
    checkpoint_ns: u64,
    chunk_ns: u64,
    now_ns: u64,
    looked_ns: u64,
    flags_next: u8,
    durable: u64,
    tally: Tally,
    is_stopped: bool,
}

impl<S> std::fmt::Debug for Writer<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("origin", &self.identity.origin)
            .field("size", &self.range.size())
            .finish_non_exhaustive()
    }
}

impl<S: Storage> Writer<S> {
    /// Takes a record of class 0.
    pub fn append(&mut self, record: &Record<'_>, source: &Source) -> Result<Ticket> {
        self.append_class(record, source, 0)
    }

    /// Takes a record of a class (0, or an index into the policy's classes plus one).
    pub fn append_class(
        &mut self,
        record: &Record<'_>,
        source: &Source,
        class: u8,
    ) -> Result<Ticket> {
        self.alive()?;
        let index = usize::from(class);
        let Some(waiting) = self.waiting.get(index) else {
            return Err(Error::Record { what: format!("there is no class {class}") });
        };
        if waiting.builder.is_full(record.bytes.len(), self.policy.chunk_plain) {
            self.seal(index)?;
            if self.pending.len() >= self.policy.commit_bytes {
                self.flush()?;
            }
            // A caller that appends without a pause between keeps the promise of `log.id` too: a verifier
            // takes twice as many chunks without a checkpoint for a sign that one was taken away.
            let behind = self.range.size().saturating_sub(self.checkpoint_size);
            if behind >= self.identity.checkpoint_chunks.saturating_mul(2) {
                self.checkpoint(false)?;
            }
        }
        let Some(waiting) = self.waiting.get_mut(index) else { return Err(Error::Stopped) };
        let is_first = waiting.builder.is_empty();
        waiting.builder.push(record, source)?;
        let ticket = self.tally.records;
        if is_first {
            (waiting.since_ns, waiting.first_ticket) = (self.now_ns, ticket);
        }
        self.tally.records += 1;
        self.tally.bytes += record.bytes.len() as u64;
        Ok(Ticket(ticket))
    }

    /// Seals what waits and makes everything durable; every ticket given so far is.
    pub fn commit(&mut self, now_ns: u64) -> Result<()> {
        self.alive()?;
        self.now_ns = now_ns;
        self.seal_all()?;
        self.flush()?;
        self.rotate_if_due()
    }

    /// Tickets below this are durable.
    #[must_use]
    pub const fn durable(&self) -> Ticket {
        Ticket(self.durable)
    }

    /// Does what is due at this time; call it every 50 ms or so.
    pub fn tick(&mut self, now_ns: u64) -> Result<()> {
        self.alive()?;
        self.now_ns = now_ns;
        // Also when nothing comes; `now_ns` may step back.
        if now_ns.abs_diff(self.looked_ns) >= SECOND {
            self.is_there()?;
        }
        for index in 0..self.waiting.len() {
            let is_due = self.waiting.get(index).is_some_and(|w| {
                !w.builder.is_empty()
                    && now_ns.saturating_sub(w.since_ns) >= self.policy.chunk_after_ns
            });
            if is_due {
                self.seal(index)?;
            }
        }
        let has_waited =
            now_ns.saturating_sub(self.pending_since_ns) >= self.policy.commit_after_ns;
        if !self.pending.is_empty()
            && (has_waited || self.pending.len() >= self.policy.commit_bytes)
        {
            self.flush()?;
        }
        if now_ns.saturating_sub(self.chunk_ns) >= self.policy.idle_after_ns && self.nothing_waits()
        {
            self.put_clear(&Builder::new(), 0)?;
            self.flush()?;
        }
        self.sign_if_due()?;
        self.rotate_if_due()
    }

    /// Seals all, states the end, signs a last checkpoint and gives the storages back.
    pub fn close(mut self, now_ns: u64) -> Result<Tally> {
        self.alive()?;
        self.now_ns = now_ns;
        self.is_there()?;
        self.seal_all()?;
        let (records, size) = (self.next_record, self.range.size());
        let stop = statement("stop", |json| {
            json.number("records", records.saturating_add(1));
            json.number("chunks", size.saturating_add(1));
        });
        self.state(&[stop], FLAG_LAST)?;
        self.flush()?;
        self.checkpoint(false)?;
        self.write_index()?;
        Ok(self.tally)
    }

    /// What was done so far.
    #[must_use]
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// What the log is.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Chunks in the tree.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.range.size()
    }

    /// Number that the next sealed record gets.
    #[must_use]
    pub const fn next_record(&self) -> u64 {
        self.next_record
    }

    /// Adds statements in clear, in a chunk of their own after everything that waits. They are durable
    /// after the next commit.
    pub fn state(&mut self, statements: &[Vec<u8>], flags: u8) -> Result<()> {
        self.alive()?;
        self.seal_all()?;
        let source = Source::new(Transport::Internal, 0, "", "");
        let mut builder = Builder::new();
        for bytes in statements {
            let record =
                Record { time_ns: self.now_ns, kind: Kind::System, flags: Flags::default(), bytes };
            builder.push(&record, &source)?;
        }
        self.put_clear(&builder, flags)
    }

    fn alive(&self) -> Result<()> {
        if self.is_stopped { Err(Error::Stopped) } else { Ok(()) }
    }

    fn nothing_waits(&self) -> bool {
        self.pending.is_empty() && self.waiting.iter().all(|w| w.builder.is_empty())
    }

    fn place(&mut self, class: u8, flags: u8) -> Place {
        let epoch = self.signer.current().map_or(0, |k| k.key.number());
        let flags = flags | std::mem::take(&mut self.flags_next);
        Place {
            index: self.range.size(),
            first_record: self.next_record,
            epoch,
            checkpoint: self.checkpoint_size,
            class,
            flags,
            now_ns: self.now_ns,
        }
    }

    fn seal_all(&mut self) -> Result<()> {
        (0..self.waiting.len()).try_for_each(|class| self.seal(class))
    }

    /// Seals the records of a class that wait.
    fn seal(&mut self, class: usize) -> Result<()> {
        if self.waiting.get(class).is_none_or(|w| w.builder.is_empty()) {
            return Ok(());
        }
        let place = self.place(class as u8, 0);
        let (Some(waiting), Some(current)) = (self.waiting.get_mut(class), &self.current) else {
            return Err(Error::Stopped);
        };
        let keys = current.keys.get(class).ok_or(Error::Stopped)?;
        let was_empty = self.pending.is_empty();
        let at = self.pending.len();
        let mut sources = index::Sources::default();
        waiting.builder.sources().for_each(|s| sources.add(&s));
        let header =
            self.sealer.seal(&waiting.builder, &place, keys, &current.hash, &mut self.pending)?;
        waiting.builder.clear();
        if was_empty {
            self.pending_since_ns = waiting.since_ns;
        }
        self.count(&header, at, sources);
        Ok(())
    }

    fn put_clear(&mut self, records: &Builder, flags: u8) -> Result<()> {
        if self.pending.is_empty() {
            self.pending_since_ns = self.now_ns;
        }
        let place = self.place(0, flags);
        let at = self.pending.len();
        let header = self.sealer.seal_clear(records, &place, &mut self.pending);
        self.count(&header, at, index::Sources::default());
        Ok(())
    }

    /// A chunk was sealed, at this place of what is pending.
    fn count(&mut self, header: &chunk::Header, at: usize, sources: index::Sources) {
        if let Some(current) = &mut self.current {
            self.range.push(header.leaf(&current.hash));
            current.index.push(index::Entry::new(current.len + at as u64, header, sources));
        }
        self.next_record = header.next_record();
        self.chunk_ns = self.now_ns;
        self.tally.chunks += 1;
    }

    /// Writes what is sealed with a commit mark, and makes it durable.
    fn flush(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let (size, root) = (self.range.size(), self.range.root());
        let key = &self.signer.current().ok_or(Error::Stopped)?.key;
        let signature = key.sign(&mark_text(&self.log_id, size, &root));
        let mark = chunk::Mark { log_id: self.log_id, size, root, signature };
        self.pending.extend_from_slice(&mark.encode());
        let Some(current) = &self.current else { return Err(Error::Stopped) };
        let written = self
            .log
            .append(&current.name, &self.pending)
            .and_then(|()| self.log.sync(&current.name));
        if let Err(e) = written {
            self.is_stopped = true;
            return Err(Error::storage(&current.name, e));
        }
        self.is_there()?;
        if let Some(current) = &mut self.current {
            current.len += self.pending.len() as u64;
        }
        self.tally.stored += self.pending.len() as u64;
        self.tally.commits += 1;
        self.pending.clear();
        let open = self.waiting.iter().filter(|w| !w.builder.is_empty()).map(|w| w.first_ticket);
        self.durable = open.min().unwrap_or(self.tally.records);
        Ok(())
    }

    /// Nothing is durable in a folder that was deleted, and a log without its signer's state can't continue.
    fn is_there(&mut self) -> Result<()> {
        self.looked_ns = self.now_ns;
        let log = self.log.is_there().map_err(|e| Error::storage("log", e));
        let there = log.and_then(|()| self.signer.is_there());
        self.stopping(there)
    }

    /// Any failure in the middle of a change of state stops the writer.
    fn stopping<T>(&mut self, result: Result<T>) -> Result<T> {
        self.is_stopped |= result.is_err();
        result
    }
}
