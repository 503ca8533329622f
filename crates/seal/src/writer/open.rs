//! Making a log, and opening one again: recovery.
//!
//! The host can't read its own log, so after a crash it can't find out by decrypting what is whole. It keeps
//! what a commit mark signed by the current epoch covers and cuts what follows, be it intact: else
//! anybody who can write to the disk would append a chunk and have the next start sign it. Where the log
//! contradicts what the signer remembers, it refuses to continue, because that would make the host
//! itself sign the fork.

use super::{Policy, Tally, Waiting, Writer};
use crate::checkpoints;
use crate::error::{Error, Mismatch, Result};
use crate::format::chunk::{FLAG_RECOVERED, Mark, Sealer};
use crate::format::epoch::{EpochKey, mark_text};
use crate::format::segment::{Parsed, file_name, parse_file_name};
use crate::format::signer::{SignedHead, SignerState};
use crate::format::tree::{Range, sha256};
use crate::format::walk::{Item, Walk, marks_behind, read_body, read_header};
use crate::identity::{self, Identity};
use crate::limits::KEYS_FILE_MAX;
use crate::note::{Checkpoint, Note};
use crate::recipient::{Recipient, Stanza};
use crate::record::Decoded;
use crate::statement::{Statement, statement};
use crate::storage::Storage;
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};

/// What a new log is made of.
#[derive(Clone, Debug)]
pub struct Init {
    /// Its name in checkpoints: `host.example/log`.
    pub origin: String,
    /// A checkpoint is signed after this many chunks at the latest,
    pub checkpoint_chunks: u64,
    /// and after this many seconds.
    pub checkpoint_seconds: u64,
    /// When it is made, nanoseconds since 1970.
    pub now_ns: u64,
}

impl Init {
    /// With a checkpoint every 64 chunks or 10 seconds.
    #[must_use]
    pub fn new(origin: &str, now_ns: u64) -> Init {
        Init { origin: origin.to_owned(), checkpoint_chunks: 64, checkpoint_seconds: 10, now_ns }
    }

    /// Makes the log and its signer, with a checkpoint of size 0: a log without checkpoints is never
    /// one that lost none.
    pub fn create<S: Storage>(&self, log: &mut S, state: S) -> Result<Identity> {
        self.create_with_key(log, state, EpochKey::generate()?)
    }

    /// The same with a first key that was made before.
    pub fn create_with_key<S: Storage>(
        &self,
        log: &mut S,
        state: S,
        key: EpochKey,
    ) -> Result<Identity> {
        let names = log.list().map_err(|e| Error::storage("log", e))?;
        if names
            .iter()
            .any(|n| n == identity::FILE || n == checkpoints::FILE || parse_file_name(n).is_some())
        {
            return Err(Error::format("there is a log already"));
        }
        let identity = Identity::new(
            &self.origin,
            &key,
            self.now_ns,
            self.checkpoint_chunks,
            self.checkpoint_seconds,
        )?;
        let text = identity.sign(&key);
        let empty = Checkpoint { origin: self.origin.clone(), size: 0, root: Range::new().root() };
        let signatures = key.sign_checkpoint(&empty, self.now_ns / super::SECOND).to_vec();
        let note = Note { text: empty.text(), signatures };
        SignerState::create(state, identity.log_id(), key, self.now_ns)?;
        let first = checkpoints::frame(&note.to_string());
        log.create(checkpoints::FILE, &first).map_err(|e| Error::storage(checkpoints::FILE, e))?;
        log.create(identity::FILE, text.as_bytes())
            .map_err(|e| Error::storage(identity::FILE, e))?;
        Ok(identity)
    }
}

/// What opening found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Bytes cut off after the last commit mark.
    pub cut_bytes: u64,
    /// The segment they were cut from.
    pub cut_segment: String,
    /// Where they began.
    pub cut_offset: u64,
    /// Bytes of a torn note cut off.
    pub cut_note_bytes: u64,
    /// Chunks that the log holds.
    pub chunks: u64,
    /// Chunks after the last checkpoint that commit marks cover; the first checkpoint signs them.
    pub unsigned_chunks: u64,
    /// An epoch switch that a crash had interrupted was finished.
    pub finished_epoch: bool,
}

impl Opened {
    /// Whether a crash left something to repair.
    #[must_use]
    pub const fn was_torn(&self) -> bool {
        self.cut_bytes > 0 || self.cut_note_bytes > 0
    }
}

/// Where the good part of the log ends.
struct Good {
    range: Range,
    next_record: u64,
    end: Option<(String, u64)>,
    last_number: Option<u64>,
    announced: Option<u64>,
}

impl<S: Storage> Writer<S> {
    /// Opens a log for writing: recovers it, and begins a segment.
    pub fn open(
        log: S,
        state: S,
        recipients: Vec<Recipient>,
        policy: Policy,
        now_ns: u64,
    ) -> Result<(Writer<S>, Opened)> {
        Writer::open_reporting(log, state, recipients, policy, now_ns, &mut |_, _| Ok(()))
    }

    /// The same; `found` receives the log's id and what was found when the log is recovered and before a chunk is
    /// added: a caller that keeps account of the log's chunks then knows which of them it holds.
    ///
    /// # Errors
    /// Also those of `found`; then nothing was added.
    pub fn open_reporting(
        mut log: S,
        state: S,
        recipients: Vec<Recipient>,
        policy: Policy,
        now_ns: u64,
        found: &mut dyn FnMut([u8; 16], &Opened) -> Result<()>,
    ) -> Result<(Writer<S>, Opened)> {
        if !log.lock().map_err(|e| Error::storage("lock", e))? {
            let holder = log.read_file("lock", 64).ok().flatten().unwrap_or_default();
            let holder = String::from_utf8_lossy(&holder).trim().to_owned();
            return Err(Error::Locked {
                holder: if holder.is_empty() { holder } else { format!(" ({holder})") },
            });
        }
        if recipients.is_empty() || recipients.len() > crate::limits::STANZAS_MAX {
            return Err(Error::key("a log needs recipients: 1 to 64"));
        }
        let bytes = log
            .read_file(identity::FILE, 1 << 16)
            .map_err(|e| Error::storage(identity::FILE, e))?;
        let identity = Identity::parse(&bytes.ok_or(Error::NoLog)?)?;
        let log_id = identity.log_id();
        let mut signer = SignerState::open(state, log_id)?;
        let mut opened = Opened::default();
        let checkpoint = repair_checkpoints(&mut log, &signer.head, &mut opened)?;
        let good = find_good(&log, &log_id, &mut signer, checkpoint.size)?;
        cut(&mut log, &good, &mut opened)?;
        opened.chunks = good.range.size();
        opened.unsigned_chunks = good.range.size().saturating_sub(checkpoint.size);
        found(log_id, &opened)?;
        let waiting = (0..=policy.classes.len()).map(|_| Waiting::default()).collect();
        let mut writer = Writer {
            sealer: Sealer::new(policy.manner)?,
            next_segment: good.last_number.map_or(0, |n| n.saturating_add(1)),
            checkpoint_ns: signer.head.time_ns,
            log,
            signer,
            identity,
            log_id,
            recipients,
            policy,
            range: good.range,
            next_record: good.next_record,
            current: None,
            waiting,
            pending: Vec::new(),
            pending_since_ns: now_ns,
            checkpoint_size: checkpoint.size,
            chunk_ns: now_ns,
            now_ns,
            looked_ns: now_ns,
            flags_next: if opened.was_torn() { FLAG_RECOVERED } else { 0 },
            durable: 0,
            tally: Tally::default(),
            is_stopped: false,
        };
        writer.settle_epoch(good.announced, &mut opened)?;
        let statements = writer.first_statements(&opened);
        writer.begin_segment(statements)?;
        writer.checkpoint(false)?;
        Ok((writer, opened))
    }

    /// Finishes an epoch switch that was announced, drops one that was not.
    fn settle_epoch(&mut self, announced: Option<u64>, opened: &mut Opened) -> Result<()> {
        let Some(next) = self.signer.keys.get(1) else { return Ok(()) };
        let is_announced =
            announced == Some(next.key.number()) || self.checkpoint_size >= next.start;
        if !is_announced {
            return self.signer.abandon();
        }
        if self.range.size() == next.start {
            // The note may be there already; signing it once more does no harm.
            self.now_ns = self.now_ns.max(self.checkpoint_ns);
            self.write_checkpoint(true)?;
        }
        opened.finished_epoch = true;
        self.signer.finish()
    }

    fn first_statements(&self, opened: &Opened) -> Vec<Vec<u8>> {
        let start = statement("start", |json| {
            json.field("version", env!("CARGO_PKG_VERSION"));
            json.number("unsigned_chunks", opened.unsigned_chunks);
        });
        let mut all = vec![start];
        if opened.was_torn() {
            all.push(statement("recovery", |json| {
                json.number("bytes", opened.cut_bytes);
                json.field("segment", &opened.cut_segment);
                json.number("offset", opened.cut_offset);
                json.number("chunk", self.range.size());
                json.number("note_bytes", opened.cut_note_bytes);
            }));
        }
        if self.now_ns / super::SECOND < self.checkpoint_ns / super::SECOND {
            all.push(statement("clock", |json| {
                json.number("from", self.checkpoint_ns);
                json.number("to", self.now_ns);
            }));
        }
        all
    }
}

/// The last checkpoint of the file, whose torn end is cut off.
fn repair_checkpoints<S: Storage>(
    log: &mut S,
    head: &SignedHead,
    opened: &mut Opened,
) -> Result<Checkpoint> {
    let gone = || Error::Mismatch(Mismatch::CheckpointsGone { size: head.range.size() });
    let tail = checkpoints::tail(log)?.ok_or_else(gone)?;
    let last = tail.last.ok_or_else(gone)?.checkpoint;
    if last.size < head.range.size() {
        return Err(gone());
    }
    if last.size == head.range.size() && last.root != head.range.root() {
        return Err(Error::Mismatch(Mismatch::Fork { size: last.size }));
    }
    if let Some(offset) = tail.torn {
        let storage = |e| Error::storage(checkpoints::FILE, e);
        let len = log.len(checkpoints::FILE).map_err(storage)?.unwrap_or(offset);
        log.truncate(checkpoints::FILE, offset)
            .and_then(|()| log.sync(checkpoints::FILE))
            .map_err(storage)?;
        opened.cut_note_bytes = len - offset;
    }
    Ok(last)
}

/// Goes through what follows the signer's last checkpoint, up to the last valid commit mark.
fn find_good<S: Storage>(
    log: &S,
    log_id: &[u8; 16],
    signer: &mut SignerState<S>,
    checkpoint_size: u64,
) -> Result<Good> {
    let head = signer.head.clone();
    let signed = head.range.size();
    let names = log.list().map_err(|e| Error::storage("log", e))?;
    let mut segments: Vec<u64> = names
        .iter()
        .filter_map(|n| parse_file_name(n))
        .filter(|(_, e)| *e == "gsl")
        .map(|(f, _)| f)
        .collect();
    segments.sort_unstable();
    // The segment that holds the last signed chunk, or the first.
    let from =
        segments.partition_point(|first| *first < signed).saturating_sub(usize::from(signed > 0));
    let mut good = Good {
        range: head.range.clone(),
        next_record: head.next_record,
        end: None,
        last_number: None,
        announced: None,
    };
    let mut scan = Scan {
        log,
        log_id,
        signer,
        range: head.range,
        next_record: head.next_record,
        is_sure: signed == 0,
    };
    let mut ended = false;
    for first in segments.get(from..).unwrap_or_default() {
        if ended {
            // A segment is begun when the one before is durable: if anything in it was committed, no crash
            // made the damage before it.
            let name = file_name(*first, "gsl");
            if scan.marks(&name, 0, good.range.size())? > 0 {
                return Err(damage(&name, 0, "damage before a committed segment"));
            }
        } else {
            ended = !scan.segment(*first, &mut good, checkpoint_size)?;
        }
    }
    let is_sure = scan.is_sure;
    let present = good.range.size();
    if !is_sure || present < checkpoint_size.max(signed) {
        let present = if is_sure {
            present
        } else {
            segments.last().copied().unwrap_or(0).min(signed.saturating_sub(1))
        };
        return Err(Error::Mismatch(Mismatch::Rollback {
            signed: checkpoint_size.max(signed),
            present,
        }));
    }
    Ok(good)
}

struct Scan<'a, S> {
    log: &'a S,
    log_id: &'a [u8; 16],
    signer: &'a SignerState<S>,
    range: Range,
    next_record: u64,
    /// A valid mark at or after the last signed size was seen.
    is_sure: bool,
}

impl<S: Storage> Scan<'_, S> {
    /// Goes through one segment; whether the next may follow.
    fn segment(&mut self, first: u64, good: &mut Good, checkpoint_size: u64) -> Result<bool> {
        let name = file_name(first, "gsl");
        let signed = self.signer.head.range.size();
        let (parsed, hash) = match read_header(self.log, &name) {
            Ok(read) => read,
            Err(Error::Format { .. }) if first >= checkpoint_size.max(1) => return Ok(false),
            Err(Error::Format { what }) => return Err(damage(&name, 0, &what)),
            Err(e) => return Err(e),
        };
        let header = match parsed {
            Parsed::Known(header) => header,
            Parsed::Unsupported(what) => {
                return Err(Error::Unsupported { what: format!("{name}: {what}") });
            }
        };
        if header.log_id != *self.log_id || header.first_chunk != first {
            return Err(damage(&name, 0, "a segment of another log or place"));
        }
        let mut body = Vec::new();
        let mut expected = first;
        let mut walk = Walk::new(self.log, &name)?;
        while let Some((at, item)) = walk.step()? {
            match item {
                Item::Chunk(chunk) => {
                    let mut is_good = chunk.index == expected;
                    expected = expected.saturating_add(1);
                    if is_good && chunk.index >= signed {
                        read_body(self.log, &name, at, &chunk, &mut body)?;
                        is_good = sha256(&body) == chunk.body_hash
                            && chunk.index == self.range.size()
                            && chunk.first_record == self.next_record;
                        if is_good {
                            self.range.push(chunk.leaf(&hash));
                            self.next_record = chunk.next_record();
                            self.announcements(&chunk, &body, good);
                        }
                    }
                    if !is_good {
                        return self.refuse_or_cut(&name, at, chunk.index, checkpoint_size);
                    }
                }
                Item::Mark(mark) if mark.size < signed => {}
                Item::Mark(mark) => {
                    if !self.is_valid(&mark) {
                        return self.refuse_or_cut(&name, at, self.range.size(), checkpoint_size);
                    }
                    if mark.size == self.range.size() && mark.root != self.range.root() {
                        return Err(Error::Mismatch(Mismatch::Fork { size: mark.size }));
                    }
                    self.is_sure = true;
                    good.range = self.range.clone();
                    good.next_record = self.next_record;
                    good.end = Some((name.clone(), at + crate::format::chunk::MARK_LEN as u64));
                    good.last_number = Some(header.number);
                }
                Item::Index(len) => {
                    if let Some((_, end)) =
                        good.end.as_mut().filter(|(n, e)| *n == name && *e == at)
                    {
                        *end = at + len;
                    }
                }
                Item::Damage(Error::Unsupported { what }) => {
                    return Err(Error::Unsupported { what });
                }
                Item::Damage(_) => {
                    return self.refuse_or_cut(
                        &name,
                        at,
                        self.range.size().max(expected),
                        checkpoint_size,
                    );
                }
            }
        }
        Ok(true)
    }

    /// What announces an epoch in a clear chunk.
    fn announcements(&self, chunk: &crate::format::chunk::Header, body: &[u8], good: &mut Good) {
        if !chunk.is_clear() || chunk.records == 0 {
            return;
        }
        let Ok(decoded) = Decoded::from_plain(body, chunk.records, chunk.earliest_ns) else {
            return;
        };
        for (record, _) in &decoded.records {
            if let Some(Statement::Epoch { epoch, .. }) = Statement::parse(record.bytes) {
                good.announced = Some(epoch);
            }
        }
    }

    /// Whether a mark says what is there and is signed by a key that the signer holds.
    fn is_valid(&self, mark: &Mark) -> bool {
        mark.log_id == *self.log_id && mark.size == self.range.size() && self.is_signed(mark)
    }

    fn is_signed(&self, mark: &Mark) -> bool {
        let key = self.signer.keys.iter().rev().find(|k| mark.size > k.start || k.start == 0);
        let Some(key) = key.or(self.signer.keys.first()) else { return false };
        // A size at which the signer's oldest key began was signed by the one before, which is gone; the
        // checkpoint of that size is what the signer remembers.
        if mark.size == key.start && mark.size == self.signer.head.range.size() && key.start > 0 {
            return mark.root == self.signer.head.range.root();
        }
        let text = mark_text(self.log_id, mark.size, &mark.root);
        UnparsedPublicKey::new(&ED25519, key.key.public()).verify(&text, &mark.signature).is_ok()
    }

    /// Valid commit marks above a size, after a place.
    fn marks(&self, name: &str, at: u64, size: u64) -> Result<usize> {
        let behind = marks_behind(self.log, name, self.log_id, at)?;
        // Two contain all there is to say: anybody who can write to the disk can repeat one without end.
        let signed = behind.iter().filter(|m| m.size > size && self.is_signed(m));
        Ok(signed.take(2).count())
    }

    /// Damage after everything signed is what a crash leaves; before it, an attack.
    fn refuse_or_cut(&self, name: &str, at: u64, chunk: u64, checkpoint_size: u64) -> Result<bool> {
        if chunk < checkpoint_size {
            return Err(damage(name, at, "damage below a checkpoint"));
        }
        // The mark of a torn group may have reached the disk before the rest of it; a second one can't.
        if self.marks(name, at, chunk)? > 1 {
            return Err(damage(name, at, "damage before a valid commit mark"));
        }
        Ok(false)
    }
}

fn damage(name: &str, at: u64, what: &str) -> Error {
    Error::Mismatch(Mismatch::Damage { what: format!("{name} at {at}: {what}") })
}

/// Removes everything after the good part: the rest of its segment, segments without good chunks, and
/// files that a crash left half made.
fn cut<S: Storage>(log: &mut S, good: &Good, opened: &mut Opened) -> Result<()> {
    let names = log.list().map_err(|e| Error::storage("log", e))?;
    if let Some((name, end)) = &good.end {
        let len = log.len(name).map_err(|e| Error::storage(name, e))?.unwrap_or(*end);
        if len > *end {
            log.truncate(name, *end)
                .and_then(|()| log.sync(name))
                .map_err(|e| Error::storage(name, e))?;
            opened.cut_bytes += len - end;
            (opened.cut_segment, opened.cut_offset) = (name.clone(), *end);
        }
    }
    let mut is_changed = false;
    for name in &names {
        let is_half_made = name.ends_with(".tmp");
        if finish_erasure(log, name)? {
            is_changed = true;
            continue;
        }
        let is_empty = match parse_file_name(name) {
            // Nothing at or after the good size was ever committed.
            Some((first, "gsl" | "keys")) => first >= good.range.size(),
            _ => false,
        };
        if !is_half_made && !is_empty {
            continue;
        }
        if let (true, Some(len)) =
            (name.ends_with(".gsl"), log.len(name).map_err(|e| Error::storage(name, e))?)
        {
            let chunks = len.saturating_sub(crate::format::segment::HEADER_LEN as u64);
            if chunks > 0 {
                opened.cut_bytes += chunks;
                (opened.cut_segment, opened.cut_offset) =
                    (name.clone(), crate::format::segment::HEADER_LEN as u64);
            }
        }
        log.remove(name).map_err(|e| Error::storage(name, e))?;
        is_changed = true;
    }
    if is_changed {
        log.sync_names().map_err(|e| Error::storage("log", e))?;
    }
    Ok(())
}

/// A file of stanzas that a crash caught between overwriting the old one and putting the new.
fn finish_erasure<S: Storage>(log: &mut S, name: &str) -> Result<bool> {
    let Some(target) = name.strip_suffix(".tmp").filter(|t| t.ends_with(".keys")) else {
        return Ok(false);
    };
    let failed = |e| Error::storage(name, e);
    let new = log.read_file(name, KEYS_FILE_MAX).map_err(failed)?.unwrap_or_default();
    let Some(old) = log.read_file(target, KEYS_FILE_MAX).map_err(failed)? else { return Ok(false) };
    if Stanza::parse_all(&old).is_ok() || Stanza::parse_all(&new).is_err() {
        return Ok(false);
    }
    log.rename(name, target, true).map_err(failed)?;
    Ok(true)
}
