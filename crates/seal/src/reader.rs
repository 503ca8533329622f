//! Reading records back, by number, time, source and kind, without reading the rest.
//!
//! Chunks whose head (or whose line in the segment's index) rules them out are passed over unread. What
//! is damaged is reported and passed over too: the chunks around it stay readable. Reading says what the
//! records are, not that they are all and unaltered: that is `verify`'s answer.

use crate::error::{Error, Result};
use crate::format::chunk::{self, HEADER_LEN, Header, Opener};
use crate::format::data_key::ClassKeys;
use crate::format::index;
use crate::format::segment::{self, FLAG_PADDED, Parsed, file_name, parse_file_name};
use crate::format::tree::{Hash, sha256};
use crate::format::walk::{Item, Walk, read_body, read_header};
use crate::identity::{self, Identity};
use crate::limits::KEYS_FILE_MAX;
use crate::own_id::has_own_id;
use crate::recipient::{SecretKey, Stanza};
use crate::record::{Kind, Record, SourceView};
use crate::storage::Storage;
use crate::unlock::{commitments, open_classes};
use gabion_record::hex::to_hex;

/// Which records are wanted; a field that is `None` selects all.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Received at or after, ns.
    pub since_ns: Option<u64>,
    /// Received before, ns.
    pub until_ns: Option<u64>,
    /// First and last number.
    pub records: Option<(u64, u64)>,
    /// Peer (with or without port) or identity.
    pub source: Option<Vec<u8>>,
    /// Kind.
    pub kind: Option<Kind>,
}

impl Selection {
    fn may_hold(&self, first: u64, next: u64, earliest_ns: u64, latest_ns: u64) -> bool {
        self.since_ns.is_none_or(|t| latest_ns >= t)
            && self.until_ns.is_none_or(|t| earliest_ns < t)
            && self.records.is_none_or(|(a, b)| first <= b && next > a)
    }

    fn takes(&self, number: u64, record: &Record<'_>, source: &SourceView<'_>) -> bool {
        self.since_ns.is_none_or(|t| record.time_ns >= t)
            && self.until_ns.is_none_or(|t| record.time_ns < t)
            && self.records.is_none_or(|(a, b)| (a..=b).contains(&number))
            && self.kind.is_none_or(|k| k == record.kind)
            && self.source.as_ref().is_none_or(|s| index::names(source).any(|n| n == s))
    }
}

/// A record that was found.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// Its number.
    pub number: u64,
    /// The record.
    pub record: &'a Record<'a>,
    /// Where it came from.
    pub source: &'a SourceView<'a>,
}

/// How far a reader came, to continue from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// First chunk of the segment.
    pub segment: u64,
    /// After the last item that was read.
    pub offset: u64,
}

/// Takes what is found; `false` ends the reading.
pub trait Sink {
    /// A record.
    fn record(&mut self, found: &Found<'_>) -> bool;
    /// Something that could not be read, and was passed over.
    fn unreadable(&mut self, what: &str);
}

/// What a finding is called: the beginning of a hash of its bytes.
#[must_use]
pub fn finding_id(bytes: &[u8]) -> String {
    to_hex(&sha256(bytes)[..8])
}

/// Whether a text can be the id of a finding: one of [`finding_id`], or a UUID that the finding has itself.
#[must_use]
pub fn is_finding_id(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_hexdigit();
    match text.len() {
        16 => text.bytes().all(is_digit),
        36 => text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => is_digit(byte),
        }),
        _ => false,
    }
}

/// Looks for a finding by its id.
struct ById<'a> {
    id: &'a str,
    number: Option<u64>,
    complain: &'a mut dyn FnMut(&str),
}

impl Sink for ById<'_> {
    fn record(&mut self, found: &Found<'_>) -> bool {
        let bytes = found.record.bytes;
        if finding_id(bytes) == self.id || has_own_id(bytes, self.id) {
            self.number = Some(found.number);
        }
        self.number.is_none()
    }

    fn unreadable(&mut self, what: &str) {
        (self.complain)(what);
    }
}

/// A segment that is open.
struct Open {
    name: String,
    hash: Hash,
    is_padded: bool,
    keys: Option<Vec<Option<ClassKeys>>>,
}

impl Open {
    fn keys(&self, class: u8) -> Option<&ClassKeys> {
        self.keys.as_ref()?.get(usize::from(class))?.as_ref()
    }
}

/// A record with the chunk it is in, opened.
pub struct Located<'a> {
    /// Number of the record.
    pub number: u64,
    /// Head of its chunk.
    pub header: Header,
    /// Hash of the header of its segment.
    pub segment_hash: Hash,
    /// Keys of its class; none for a chunk in clear.
    pub keys: Option<&'a ClassKeys>,
    /// Holds the chunk.
    pub opener: &'a mut Opener,
}

/// Reads a log.
pub struct Reader<'a> {
    log: &'a dyn Storage,
    keys: &'a [SecretKey],
    opener: Opener,
    body: Vec<u8>,
    /// What the log is.
    pub identity: Identity,
    /// Chunks whose body was read.
    pub chunks_read: u64,
    /// Whether any chunk could not be opened for want of a key.
    pub is_key_missing: bool,
}

impl<'a> Reader<'a> {
    /// Opens a log with these keys; without any, what is in clear can be read.
    pub fn open(log: &'a dyn Storage, keys: &'a [SecretKey]) -> Result<Reader<'a>> {
        let bytes = log
            .read_file(identity::FILE, 1 << 16)
            .map_err(|e| Error::storage(identity::FILE, e))?;
        let identity = Identity::parse(&bytes.ok_or(Error::NoLog)?)?;
        Ok(Reader {
            log,
            keys,
            opener: Opener::new()?,
            body: Vec::new(),
            identity,
            chunks_read: 0,
            is_key_missing: false,
        })
    }

    /// First chunks of the segments there are.
    pub fn segments(&self) -> Result<Vec<u64>> {
        let names = self.log.list().map_err(|e| Error::storage("log", e))?;
        let mut all: Vec<u64> = names
            .iter()
            .filter_map(|n| parse_file_name(n))
            .filter(|(_, e)| *e == "gsl")
            .map(|(f, _)| f)
            .collect();
        all.sort_unstable();
        Ok(all)
    }

    /// Number that the next record of the log will have, as far as its chunks can be read.
    ///
    /// # Errors
    /// When a segment can't be read.
    pub fn next_record(&self) -> Result<u64> {
        let Some(last) = self.segments()?.pop() else { return Ok(0) };
        let name = file_name(last, "gsl");
        let mut next = self.first_record(last).unwrap_or(0);
        let (mut walk, mut next_chunk) = (Walk::new(self.log, &name)?, last);
        while let Some((offset, item)) = walk.step()? {
            match item {
                Item::Chunk(chunk) => {
                    next = next.max(chunk.next_record());
                    next_chunk = chunk.index.saturating_add(1);
                }
                Item::Damage(_) => {
                    let Some(found) = self.resume(&name, offset, next_chunk)? else { break };
                    walk = Walk::new(self.log, &name)?.from(found);
                }
                Item::Mark(_) | Item::Index(_) => {}
            }
        }
        Ok(next)
    }

    /// Gives every record of the selection to the sink, in order; the cursor for what may come later.
    pub fn scan(
        &mut self,
        from: Cursor,
        selection: &Selection,
        sink: &mut dyn Sink,
    ) -> Result<Cursor> {
        let segments = self.segments()?;
        let mut cursor = from;
        let start = segments.partition_point(|s| *s < from.segment);
        for (i, &first) in segments.iter().enumerate().skip(start) {
            let offset = if first == from.segment { from.offset } else { 0 };
            // By number, a segment is passed over when the next begins before what is wanted.
            let is_before = match (selection.records, segments.get(i + 1)) {
                (Some((wanted, _)), Some(next)) => {
                    self.first_record(*next).is_some_and(|r| r <= wanted)
                }
                _ => false,
            };
            if is_before {
                continue;
            }
            let (end, is_to_continue) = self.segment(first, offset, selection, sink)?;
            cursor = Cursor { segment: first, offset: end };
            if !is_to_continue {
                break;
            }
        }
        Ok(cursor)
    }

    /// The number of a finding, by its id; `complain` receives what could not be read.
    ///
    /// # Errors
    /// When the log can't be read.
    pub fn find_finding(
        &mut self,
        id: &str,
        complain: &mut dyn FnMut(&str),
    ) -> Result<Option<u64>> {
        let mut by_id = ById { id, number: None, complain };
        let selection = Selection { kind: Some(Kind::Finding), ..Selection::default() };
        self.scan(Cursor::default(), &selection, &mut by_id)?;
        Ok(by_id.number)
    }

    /// Opens the chunk of a record and gives it to `then`.
    pub fn locate<T>(
        &mut self,
        number: u64,
        then: impl FnOnce(&mut Located<'_>) -> Result<T>,
    ) -> Result<T> {
        let segments = self.segments()?;
        let at = segments.partition_point(|s| self.first_record(*s).is_some_and(|r| r <= number));
        let missing = || Error::format(format!("there is no record {number} here"));
        let first = *at.checked_sub(1).and_then(|i| segments.get(i)).ok_or_else(missing)?;
        let mut complaints = Complaints::default();
        let (_, open) = self.unlock(first, &mut complaints)?.ok_or_else(missing)?;
        let mut walk = Walk::new(self.log, &open.name)?;
        while let Some((offset, item)) = walk.step()? {
            let Item::Chunk(header) = item else { continue };
            if !(header.first_record..header.next_record()).contains(&number) {
                continue;
            }
            let keys = if header.is_clear() { None } else { open.keys(header.class) };
            if !header.is_clear() && keys.is_none() {
                let why = complaints.last.unwrap_or_else(|| "no key was given".to_owned());
                return Err(Error::key(format!("record {number} can't be opened: {why}")));
            }
            let mut body = std::mem::take(&mut self.body);
            read_body(self.log, &open.name, offset, &header, &mut body)?;
            self.opener.open(&header, &body, keys, &open.hash, open.is_padded)?;
            self.body = body;
            let opener = &mut self.opener;
            return then(&mut Located { number, header, segment_hash: open.hash, keys, opener });
        }
        Err(missing())
    }

    fn first_record(&self, first: u64) -> Option<u64> {
        match read_header(self.log, &file_name(first, "gsl")).ok()?.0 {
            Parsed::Known(header) => Some(header.first_record),
            Parsed::Unsupported(_) => None,
        }
    }

    fn unlock(
        &mut self,
        first: u64,
        sink: &mut dyn Sink,
    ) -> Result<Option<(segment::Header, Open)>> {
        let name = file_name(first, "gsl");
        let (header, hash) = match read_header(self.log, &name) {
            Ok((Parsed::Known(header), hash)) => (header, hash),
            Ok((Parsed::Unsupported(what), _)) => {
                return Err(Error::Unsupported { what: format!("{name}: {what}") });
            }
            Err(Error::Format { what }) => {
                sink.unreadable(&format!("{name}: {what}"));
                return Ok(None);
            }
            Err(e) => return Err(e),
        };
        let keys = if self.keys.is_empty() { None } else { self.data_keys(&name, &header, sink)? };
        let is_padded = header.flags & FLAG_PADDED != 0;
        Ok(Some((header, Open { name, hash, is_padded, keys })))
    }

    fn data_keys(
        &mut self,
        name: &str,
        header: &segment::Header,
        sink: &mut dyn Sink,
    ) -> Result<Option<Vec<Option<ClassKeys>>>> {
        let keys_name = file_name(header.first_chunk, "keys");
        let bytes = self
            .log
            .read_file(&keys_name, KEYS_FILE_MAX)
            .map_err(|e| Error::storage(&keys_name, e))?;
        let opened = match bytes {
            Some(bytes) => Stanza::parse_all(&bytes).and_then(|stanzas| {
                open_classes(&stanzas, header, self.keys, &commitments(self.log, name, header))
            }),
            None => Err(Error::key("content withdrawn: its keys are gone")),
        };
        match opened {
            Ok(keys) => Ok(Some(keys)),
            Err(e) => {
                self.is_key_missing = true;
                sink.unreadable(&format!("{name}: {e}"));
                Ok(None)
            }
        }
    }

    /// Reads a segment from an offset (0: its beginning); where it ended, and whether to continue.
    fn segment(
        &mut self,
        first: u64,
        offset: u64,
        selection: &Selection,
        sink: &mut dyn Sink,
    ) -> Result<(u64, bool)> {
        let Some((header, open)) = self.unlock(first, sink)? else { return Ok((offset, true)) };
        let is_selective = selection.records.is_some()
            || selection.since_ns.is_some()
            || selection.until_ns.is_some()
            || selection.source.is_some();
        if let (0, true, Some(keys)) = (offset, is_selective, open.keys(0))
            && let Some(entries) = index::read_index(self.log, &open.name, keys, &open.hash)?
        {
            return self.by_index(&open, &entries, selection, sink);
        }
        let mut at = offset.max(segment::HEADER_LEN as u64);
        let mut walk = Walk::new(self.log, &open.name)?.from(at);
        let mut next_chunk = header.first_chunk;
        while let Some((offset, item)) = walk.step()? {
            match &item {
                Item::Chunk(chunk) => {
                    if selection.may_hold(
                        chunk.first_record,
                        chunk.next_record(),
                        chunk.earliest_ns,
                        chunk.latest_ns,
                    ) && !self.chunk(&open, offset, chunk, selection, sink)?
                    {
                        return Ok((offset + item.len(), false));
                    }
                    next_chunk = chunk.index.saturating_add(1);
                }
                Item::Damage(e) => {
                    let Some(found) = self.resume(&open.name, offset, next_chunk)? else {
                        // The end may still be written: it is looked at again from here.
                        return Ok((offset, true));
                    };
                    sink.unreadable(&format!("{} at byte {offset}: {e}", open.name));
                    walk = Walk::new(self.log, &open.name)?.from(found);
                    continue;
                }
                Item::Mark(_) | Item::Index(_) => {}
            }
            at = offset + item.len();
        }
        Ok((at, true))
    }

    fn by_index(
        &mut self,
        open: &Open,
        entries: &[index::Entry],
        selection: &Selection,
        sink: &mut dyn Sink,
    ) -> Result<(u64, bool)> {
        let mut end = segment::HEADER_LEN as u64;
        for (i, entry) in entries.iter().enumerate() {
            end = entry.offset;
            let next = entries.get(i + 1).map_or(u64::MAX, |n| n.first_record);
            let may_hold =
                selection.may_hold(entry.first_record, next, entry.earliest_ns, entry.latest_ns)
                    && selection.source.as_ref().is_none_or(|s| entry.sources.may_have(s));
            if !may_hold {
                continue;
            }
            let mut head = [0; HEADER_LEN];
            self.log
                .read_at(&open.name, entry.offset, &mut head)
                .map_err(|e| Error::storage(&open.name, e))?;
            match Header::parse(&head) {
                Ok(header) => {
                    if !self.chunk(open, entry.offset, &header, selection, sink)? {
                        return Ok((end, false));
                    }
                }
                Err(e) => sink.unreadable(&format!("{} at byte {}: {e}", open.name, entry.offset)),
            }
        }
        let end =
            self.log.len(&open.name).map_err(|e| Error::storage(&open.name, e))?.unwrap_or(end);
        Ok((end, true))
    }

    /// Where the next chunk with a good head begins after damage.
    fn resume(&self, name: &str, at: u64, next_chunk: u64) -> Result<Option<u64>> {
        const WINDOW: usize = 1 << 20;
        let finder = memchr::memmem::Finder::new(chunk::MAGIC);
        let mut buffer = vec![0; WINDOW];
        let mut at = at.saturating_add(1);
        loop {
            let read =
                self.log.read_at(name, at, &mut buffer).map_err(|e| Error::storage(name, e))?;
            let window = &buffer[..read];
            for hit in finder.find_iter(window) {
                let head = window.get(hit..).map(Header::parse);
                if let Some(Ok(header)) = head
                    && header.index >= next_chunk
                {
                    return Ok(Some(at + hit as u64));
                }
            }
            if read < WINDOW {
                return Ok(None);
            }
            at += (WINDOW - HEADER_LEN) as u64;
        }
    }

    /// Opens a chunk and gives what is selected; whether to continue.
    fn chunk(
        &mut self,
        open: &Open,
        at: u64,
        header: &Header,
        selection: &Selection,
        sink: &mut dyn Sink,
    ) -> Result<bool> {
        let keys = open.keys(header.class);
        if !header.is_clear() && keys.is_none() {
            self.is_key_missing = true;
            if open.keys.is_some() {
                sink.unreadable(&format!(
                    "{}: chunk {}: its class is not opened by this key",
                    open.name, header.index
                ));
            }
            return Ok(true);
        }
        self.chunks_read += 1;
        let mut body = std::mem::take(&mut self.body);
        let opened = read_body(self.log, &open.name, at, header, &mut body).and_then(|()| {
            if sha256(&body) != header.body_hash {
                return Err(Error::format("its content differs from its hash"));
            }
            self.opener.open(header, &body, keys, &open.hash, open.is_padded)
        });
        self.body = body;
        let decoded = match opened.and_then(|()| self.opener.records(header)) {
            Ok(decoded) => decoded,
            Err(Error::Format { what }) => {
                sink.unreadable(&format!(
                    "{} at byte {at}: chunk {}: {what}",
                    open.name, header.index
                ));
                return Ok(true);
            }
            Err(e) => return Err(e),
        };
        for (i, (record, source)) in decoded.records.iter().enumerate() {
            let number = header.first_record.wrapping_add(i as u64);
            let Some(source) = decoded.source(*source) else { continue };
            if selection.takes(number, record, source)
                && !sink.record(&Found { number, record, source })
            {
                return Ok(false);
            }
        }
        Ok(selection.records.is_none_or(|(_, last)| header.next_record() <= last))
    }
}

/// Keeps what could not be read.
#[derive(Default)]
struct Complaints {
    last: Option<String>,
}

impl Sink for Complaints {
    fn record(&mut self, _: &Found<'_>) -> bool {
        true
    }

    fn unreadable(&mut self, what: &str) {
        self.last = Some(what.to_owned());
    }
}
