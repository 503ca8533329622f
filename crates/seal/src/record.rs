//! A record: one message with its time, source, kind and flags; how records lie in a chunk, and the hash
//! that stands for one in the tree.
//!
//! A chunk's plain bytes are the sources that occur in it, then the heads of all records, then the
//! bytes of all records one after the other. Heads apart from text compress 10 % better than mixed.
//! What a sender's message means is not stored: it is read out of the bytes each time, so that a
//! better parser applies to old logs; the bytes are the evidence.

use crate::error::{Error, Result};
use crate::format::tree::{Hash, sha256};
use crate::format::wire::{Take, put_varint, unzigzag, zigzag};
use crate::limits::{CHUNK_RECORDS_MAX, CHUNK_SOURCES_MAX, RECORD_MAX, SOURCE_TEXT_MAX, reached};

macro_rules! transports {
    ($($name:ident = $byte:literal, $text:literal, $meaning:literal;)+) => {
        /// How a record came in.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Transport { $(#[doc = $meaning] $name = $byte,)+ }

        impl Transport {
            /// By its byte in a chunk.
            #[must_use]
            pub const fn from_byte(byte: u8) -> Option<Transport> {
                match byte { $($byte => Some(Transport::$name),)+ _ => None }
            }

            /// As it stands in output.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Transport::$name => $text,)+ }
            }
        }
    };
}

// The one table: name, byte, name in output, meaning. What listeners speak has its row in `logs::dialect` too.
transports! {
    Internal = 0, "internal", "made by the sensor itself";
    Udp = 1, "udp", "syslog datagram; its sender is not verified";
    Tcp = 2, "tcp", "syslog over TCP";
    Tls = 3, "tls", "syslog over TLS";
    Relp = 4, "relp", "RELP, acknowledged after it was durable";
    Unix = 5, "unix", "local datagram socket";
    SlogUdp = 6, "slog-udp", "slog's envelope in a datagram";
    SlogTcp = 7, "slog-tcp", "slog's envelope over TCP";
    Stdin = 8, "stdin", "standard input of `gabion log append`";
    Import = 9, "import", "read from another program's log";
    Finding = 10, "finding", "a finding of one of the sensor's engines";
    Journal = 11, "journal", "an entry of systemd's journal, in its export format";
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A message that was taken in.
    Message = 0,
    /// A finding, in JSON.
    Finding = 1,
    /// The log's own statement, in JSON.
    System = 2,
}

impl Kind {
    /// By its byte in a chunk.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Kind> {
        match byte {
            0 => Some(Kind::Message),
            1 => Some(Kind::Finding),
            2 => Some(Kind::System),
            _ => None,
        }
    }

    /// As it stands in output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Message => "message",
            Kind::Finding => "finding",
            Kind::System => "system",
        }
    }
}

macro_rules! flags {
    ($($name:ident = $bit:literal, $text:literal, $meaning:literal;)+) => {
        /// Facts about a record in addition to its bytes: a set of bits.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Flags(pub u16);

        impl Flags {
            $(#[doc = $meaning] pub const $name: Flags = Flags(1 << $bit);)+

            /// Names of those that are set.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                [$((Flags::$name, $text),)+].into_iter().filter(move |(f, _)| self.has(*f)).map(|(_, n)| n)
            }
        }
    };
}

// The one table: name, bit, name in output, meaning.
flags! {
    TRUNCATED = 0, "truncated", "Cut at the receiver's limit.";
    INCOMPLETE = 1, "incomplete", "The connection ended inside the frame.";
    NOT_UTF8 = 2, "not-utf8", "The bytes are not UTF-8.";
    AUTHENTICATED = 3, "authenticated", "The transport vouches for the sender that the source names.";
    OPENED = 4, "opened", "Came in an envelope that was opened; these are the inner bytes.";
    SUSPICIOUS = 5, "suspicious", "Came in an envelope that could not be opened; these are its bytes.";
    REPLAYED = 6, "replayed", "The same envelope was seen before.";
    FRAME_ERROR = 7, "frame-error", "The framing was broken; what was held is kept as it was.";
    REPEATED = 8, "repeated", "Perhaps stored before: written again after a failure.";
}

impl Flags {
    /// Whether all bits of `other` are set.
    #[must_use]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both.
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// Where records come from, in the form that stands in chunks and is hashed into each record's leaf:
/// transport (1), listener (2), peer (length, text), identity (length, text).
///
/// The sender is an address as text; the identity is what the transport vouches for (the name in a TLS
/// client's certificate, `pid=… uid=… gid=…` of a local socket) and empty where it vouches for nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    entry: Vec<u8>,
}

impl Source {
    /// Texts longer than 255 bytes are cut.
    #[must_use]
    pub fn new(transport: Transport, listener: u16, peer: &str, identity: &str) -> Source {
        let mut entry = vec![transport as u8];
        entry.extend_from_slice(&listener.to_be_bytes());
        for text in [peer, identity] {
            reached::SOURCE_TEXT_MAX.holds(text.len());
            let bytes = &text.as_bytes()[..text.floor_char_boundary(SOURCE_TEXT_MAX)];
            entry.push(bytes.len() as u8);
            entry.extend_from_slice(bytes);
        }
        Source { entry }
    }

    /// By the bytes that stand in a chunk.
    pub(crate) fn from_entry(entry: &[u8]) -> Source {
        Source { entry: entry.to_vec() }
    }

    /// Address of the sender.
    #[must_use]
    pub fn peer(&self) -> &str {
        let view = SourceView::decode(&mut Take::new(&self.entry));
        view.and_then(|v| std::str::from_utf8(v.peer).ok()).unwrap_or_default()
    }

    /// The bytes that stand in a chunk.
    #[must_use]
    pub fn entry(&self) -> &[u8] {
        &self.entry
    }
}

/// A source read out of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceView<'a> {
    /// How it came; `None` for one that this program does not know.
    pub transport: Option<Transport>,
    /// Which listener took it in.
    pub listener: u16,
    /// Address of the sender.
    pub peer: &'a [u8],
    /// What the transport vouches for.
    pub identity: &'a [u8],
    /// All of it, as hashed.
    pub entry: &'a [u8],
}

impl<'a> SourceView<'a> {
    /// Reads one from the front.
    pub fn decode(take: &mut Take<'a>) -> Option<SourceView<'a>> {
        let start = take.rest();
        let transport = Transport::from_byte(take.u8()?);
        let listener = take.u16()?;
        let mut text = || {
            let len = take.u8()?;
            take.bytes(usize::from(len))
        };
        let (peer, identity) = (text()?, text()?);
        let entry = start.get(..start.len() - take.rest().len())?;
        Some(SourceView { transport, listener, peer, identity, entry })
    }

    /// Name of the transport.
    #[must_use]
    pub fn transport_name(&self) -> &'static str {
        self.transport.map_or("unknown", Transport::name)
    }
}

/// One record, as it is given to a writer and as a reader returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When it was received, nanoseconds since 1970.
    pub time_ns: u64,
    /// What it is.
    pub kind: Kind,
    /// What is to be known of it.
    pub flags: Flags,
    /// The original bytes.
    pub bytes: &'a [u8],
}

impl Record<'_> {
    /// The hash that stands for a record in its chunk's tree.
    #[must_use]
    pub fn leaf(&self, number: u64, salt: &[u8; 16], source: &[u8], scratch: &mut Vec<u8>) -> Hash {
        scratch.clear();
        scratch.push(0);
        scratch.extend_from_slice(salt);
        scratch.extend_from_slice(&number.to_be_bytes());
        scratch.extend_from_slice(&self.time_ns.to_be_bytes());
        scratch.push(self.kind as u8);
        scratch.extend_from_slice(&self.flags.0.to_be_bytes());
        scratch.extend_from_slice(&(source.len() as u16).to_be_bytes());
        scratch.extend_from_slice(source);
        scratch.extend_from_slice(self.bytes);
        sha256(scratch)
    }
}

/// What is known of a record while its chunk is open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    pub(crate) time_ns: u64,
    pub(crate) kind: Kind,
    pub(crate) flags: Flags,
    pub(crate) source: u16,
    pub(crate) len: u32,
}

/// Records that wait to be sealed into one chunk.
#[derive(Debug, Default)]
pub struct Builder {
    sources: Vec<Vec<u8>>,
    by_entry: std::collections::HashMap<Vec<u8>, u16>,
    last_source: u16,
    sources_len: usize,
    records: Vec<Open>,
    text: Vec<u8>,
}

impl Builder {
    /// Without records.
    #[must_use]
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Records in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Plain bytes it will take, nearly.
    #[must_use]
    pub fn plain_len(&self) -> usize {
        self.sources_len + self.records.len() * 10 + self.text.len()
    }

    /// Whether another record of this length must wait for the next chunk.
    #[must_use]
    pub fn is_full(&self, next_len: usize, chunk_plain: usize) -> bool {
        !self.records.is_empty()
            && (self.plain_len() + next_len > chunk_plain
                || self.records.len() >= CHUNK_RECORDS_MAX
                || self.sources.len() >= CHUNK_SOURCES_MAX)
    }

    /// Adds a record.
    pub fn push(&mut self, record: &Record<'_>, source: &Source) -> Result<()> {
        if record.bytes.len() > RECORD_MAX {
            return Err(Error::Record {
                what: format!(
                    "a record of {} bytes: {RECORD_MAX} are the most",
                    record.bytes.len()
                ),
            });
        }
        let source = self.source(source);
        self.records.push(Open {
            time_ns: record.time_ns,
            kind: record.kind,
            flags: record.flags,
            source,
            len: record.bytes.len() as u32,
        });
        self.text.extend_from_slice(record.bytes);
        Ok(())
    }

    fn source(&mut self, source: &Source) -> u16 {
        // Runs of one source are the rule: the last is compared before any look-up.
        if self.sources.get(usize::from(self.last_source)).is_some_and(|s| *s == source.entry) {
            return self.last_source;
        }
        self.last_source = match self.by_entry.get(&source.entry) {
            Some(&known) => known,
            None => {
                let index = self.sources.len() as u16;
                self.sources_len += source.entry.len();
                self.sources.push(source.entry.clone());
                self.by_entry.insert(source.entry.clone(), index);
                index
            }
        };
        self.last_source
    }

    /// Sources in it.
    pub fn sources(&self) -> impl Iterator<Item = SourceView<'_>> {
        self.sources.iter().filter_map(|s| SourceView::decode(&mut Take::new(s)))
    }

    /// Earliest and latest time.
    #[must_use]
    pub fn times(&self) -> (u64, u64) {
        self.records.iter().fold((u64::MAX, 0), |(a, b), r| (a.min(r.time_ns), b.max(r.time_ns)))
    }

    /// Writes the plain bytes of the chunk; times count from `base_ns`.
    pub fn write_plain(&self, base_ns: u64, out: &mut Vec<u8>) {
        put_varint(out, self.sources.len() as u64);
        self.sources.iter().for_each(|s| out.extend_from_slice(s));
        let mut before = base_ns;
        for record in &self.records {
            out.push(record.kind as u8);
            put_varint(out, zigzag(record.time_ns.wrapping_sub(before) as i64));
            put_varint(out, u64::from(record.source));
            put_varint(out, u64::from(record.flags.0));
            put_varint(out, u64::from(record.len));
            before = record.time_ns;
        }
        out.extend_from_slice(&self.text);
    }

    /// Appends the leaf of each record; `salts` has one for each.
    pub fn leaves(
        &self,
        first: u64,
        salts: &[[u8; 16]],
        scratch: &mut Vec<u8>,
        out: &mut Vec<Hash>,
    ) {
        let mut text = Take::new(&self.text);
        for (i, (open, salt)) in self.records.iter().zip(salts).enumerate() {
            let bytes = text.bytes(open.len as usize).unwrap_or_default();
            let record =
                Record { time_ns: open.time_ns, kind: open.kind, flags: open.flags, bytes };
            let source = self.sources.get(usize::from(open.source)).map_or(&[][..], |s| s);
            out.push(record.leaf(first.wrapping_add(i as u64), salt, source, scratch));
        }
    }

    /// Calls `f` with each record and its source's entry, in the order of adding.
    pub(crate) fn for_each(&self, mut f: impl FnMut(Record<'_>, &[u8])) {
        let mut text = Take::new(&self.text);
        for open in &self.records {
            let bytes = text.bytes(open.len as usize).unwrap_or_default();
            let Open { time_ns, kind, flags, .. } = *open;
            let source = self.sources.get(usize::from(open.source)).map_or(&[][..], |s| s);
            f(Record { time_ns, kind, flags, bytes }, source);
        }
    }

    /// Ready for the next chunk; keeps its memory.
    pub fn clear(&mut self) {
        self.sources.clear();
        self.by_entry.clear();
        self.last_source = 0;
        self.sources_len = 0;
        self.records.clear();
        self.text.clear();
    }
}

/// The sources at the beginning of a chunk's plain bytes.
pub(crate) fn source_table<'a>(take: &mut Take<'a>) -> Option<Vec<SourceView<'a>>> {
    let count = take.varint().filter(|n| *n <= CHUNK_SOURCES_MAX as u64)?;
    let mut sources = Vec::new();
    for _ in 0..count {
        sources.push(SourceView::decode(take)?);
    }
    Some(sources)
}

/// The records of a chunk's plain bytes.
#[derive(Debug, Default)]
pub struct Decoded<'a> {
    /// Sources by index.
    pub sources: Vec<SourceView<'a>>,
    /// Each record with the index of its source.
    pub records: Vec<(Record<'a>, u16)>,
}

impl<'a> Decoded<'a> {
    /// Reads plain bytes with this many records, whose times count from `base_ns`.
    pub fn from_plain(plain: &'a [u8], count: u32, base_ns: u64) -> Result<Decoded<'a>> {
        Decoded::take_all(plain, count, base_ns)
            .ok_or_else(|| Error::format("the records are invalid"))
    }

    fn take_all(plain: &'a [u8], count: u32, base_ns: u64) -> Option<Decoded<'a>> {
        let count = usize::try_from(count).ok().filter(|n| *n <= CHUNK_RECORDS_MAX)?;
        let mut take = Take::new(plain);
        let sources = source_table(&mut take)?;
        // A head takes five bytes at least, so what is allocated never exceeds what came.
        if take.rest().len() / 5 < count {
            return None;
        }
        let mut heads = Vec::with_capacity(count);
        let (mut time_ns, mut text_len) = (base_ns, 0usize);
        for _ in 0..count {
            let kind = Kind::from_byte(take.u8()?)?;
            time_ns = time_ns.wrapping_add(unzigzag(take.varint()?) as u64);
            let source =
                u16::try_from(take.varint()?).ok().filter(|s| usize::from(*s) < sources.len())?;
            let flags = Flags(u16::try_from(take.varint()?).ok()?);
            let len = usize::try_from(take.varint()?).ok().filter(|n| *n <= RECORD_MAX)?;
            text_len = text_len.checked_add(len)?;
            heads.push((kind, time_ns, source, flags, len));
        }
        if take.rest().len() != text_len {
            return None;
        }
        let mut records = Vec::with_capacity(count);
        for (kind, time_ns, source, flags, len) in heads {
            records.push((Record { time_ns, kind, flags, bytes: take.bytes(len)? }, source));
        }
        Some(Decoded { sources, records })
    }

    /// Appends the leaf of each record; `salts` has one for each.
    pub fn leaves(
        &self,
        first: u64,
        salts: &[[u8; 16]],
        scratch: &mut Vec<u8>,
        out: &mut Vec<Hash>,
    ) {
        for (i, ((record, source), salt)) in self.records.iter().zip(salts).enumerate() {
            let entry = self.sources.get(usize::from(*source)).map_or(&[][..], |s| s.entry);
            out.push(record.leaf(first.wrapping_add(i as u64), salt, entry, scratch));
        }
    }

    /// The source of a record.
    #[must_use]
    pub fn source(&self, index: u16) -> Option<&SourceView<'a>> {
        self.sources.get(usize::from(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sources_that_are_cut_are_counted() {
        let long = "x".repeat(SOURCE_TEXT_MAX + 1);
        let cut = Source::new(Transport::Tls, 1, "192.0.2.1:514", &long);
        let view = SourceView::decode(&mut Take::new(cut.entry())).unwrap();
        assert_eq!(view.identity.len(), SOURCE_TEXT_MAX);
        let _ = Source::new(Transport::Tls, 1, "192.0.2.1:514", &long[1..]);
        let counts = gabion_record::limits::take_reached();
        assert_eq!(counts.times_reached(&reached::SOURCE_TEXT_MAX), 1);
    }

    #[test]
    fn records_come_back_with_their_leaves() {
        let mut builder = Builder::new();
        let a = Source::new(Transport::Udp, 3, "192.0.2.1:514", "");
        let b = Source::new(Transport::Tls, 4, "[2001:db8::1]:6514", "client.example");
        let all = [
            (
                Record {
                    time_ns: 50,
                    kind: Kind::Message,
                    flags: Flags::default(),
                    bytes: b"<13>one",
                },
                &a,
            ),
            (
                Record {
                    time_ns: 40,
                    kind: Kind::Finding,
                    flags: Flags::TRUNCATED.with(Flags::REPLAYED),
                    bytes: b"",
                },
                &b,
            ),
            (
                Record {
                    time_ns: u64::MAX,
                    kind: Kind::System,
                    flags: Flags(0xffff),
                    bytes: &[0xff; 300],
                },
                &a,
            ),
        ];
        all.iter().for_each(|(r, s)| builder.push(r, s).unwrap());
        let (earliest, latest) = builder.times();
        assert_eq!((earliest, latest), (40, u64::MAX));
        let mut plain = Vec::new();
        builder.write_plain(earliest, &mut plain);
        let decoded = Decoded::from_plain(&plain, 3, earliest).unwrap();
        for (i, ((record, source), (want, want_source))) in
            decoded.records.iter().zip(&all).enumerate()
        {
            assert_eq!(record, want, "{i}");
            assert_eq!(decoded.source(*source).unwrap().entry, want_source.entry());
        }
        let salts = [[1; 16], [2; 16], [3; 16]];
        let (mut one, mut two, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
        builder.leaves(7, &salts, &mut scratch, &mut one);
        decoded.leaves(7, &salts, &mut scratch, &mut two);
        assert_eq!(one, two);
        // Every prefix, and a byte too many, is refused.
        for end in 0..plain.len() {
            assert!(Decoded::from_plain(&plain[..end], 3, earliest).is_err(), "{end}");
        }
        assert!(Decoded::from_plain(&plain, 2, earliest).is_err());
        assert!(Decoded::from_plain(&plain, u32::MAX, earliest).is_err());
        plain.push(0);
        assert!(Decoded::from_plain(&plain, 3, earliest).is_err());
    }

    #[test]
    fn long_texts_of_sources_are_cut_at_a_character() {
        let source = Source::new(Transport::Unix, 0, &"ä".repeat(200), "");
        let mut take = Take::new(source.entry());
        let view = SourceView::decode(&mut take).unwrap();
        assert_eq!((view.peer.len(), view.transport), (254, Some(Transport::Unix)));
    }
}
