//! What a syslog message says: RFC 5424, RFC 3164, and what senders really send.
//!
//! A reader is lenient: every message gives fields, and what could not be understood stays in the text
//! and is noted. Nothing here decides what is stored; the bytes are, and are parsed again each time, so a
//! better reader applies to old logs. Where rsyslog 8.2302 and syslog-ng 3.38 agree, so do we, but for
//! the cases named in `docs/syslog-reading.md`; where they differ, that table says why.

mod legacy;
mod rfc5424;
mod structured;
mod time;

pub use structured::{Element, elements};
pub use time::Stamp;

use crate::limits::UNPACKED_MAX;
use std::borrow::Cow;
use std::io::Read;

/// The priority of messages that state none: user-level notice, as RFC 3164 has it.
pub const DEFAULT_PRI: u8 = 13;

/// How a message is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// RFC 5424.
    Rfc5424,
    /// RFC 3164 or less.
    Legacy,
}

impl Format {
    /// The word in outputs.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Rfc5424 => "rfc5424",
            Format::Legacy => "legacy",
        }
    }
}

macro_rules! notes {
    ($($name:ident = $bit:literal, $text:literal, $meaning:literal;)+) => {
        /// What was odd about a message: a set of bits.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Notes(u16);

        impl Notes {
            $(#[doc = $meaning] pub const $name: Notes = Notes(1 << $bit);)+

            /// Names of those that are set.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                [$((Notes::$name, $text),)+].into_iter().filter(move |(n, _)| self.has(*n)).map(|(_, t)| t)
            }
        }
    };
}

notes! {
    NO_PRI = 0, "no-pri", "No priority; 13 is taken.";
    BAD_PRI = 1, "bad-pri", "The priority is invalid; 13 is taken and all is text.";
    LEADING_ZERO = 2, "leading-zero", "The priority has a leading zero.";
    OTHER_VERSION = 3, "other-version", "A version other than 1; read as legacy.";
    BAD_TIME = 4, "bad-time", "The time is invalid; the time of receipt counts.";
    NO_TIME = 5, "no-time", "No time; the time of receipt counts.";
    BAD_SD = 6, "bad-sd", "The structured data is invalid; it stays in the text.";
    CUT_SHORT = 7, "cut-short", "The header ends early.";
    UNPACKED = 8, "unpacked", "The body was packed.";
    CEE = 9, "cee", "The text is JSON after @cee:.";
    REPEATED = 10, "repeated", "States how often the message before came.";
    EMPTY_PRI = 11, "empty-pri", "`<>` for a priority; 0 is taken, as rsyslog and syslog-ng do.";
}

impl Notes {
    /// Whether all bits of `other` are set.
    pub const fn has(self, other: Notes) -> bool {
        self.0 & other.0 == other.0
    }

    /// Sets them.
    pub const fn set(&mut self, other: Notes) {
        self.0 |= other.0;
    }
}

/// What a message says. Absent fields are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Facility times 8 plus severity, 0 to 191.
    pub pri: u8,
    /// How it is built.
    pub format: Format,
    /// When it was made.
    pub time: Option<Stamp>,
    /// The host it names.
    pub host: Option<&'a [u8]>,
    /// Program or application.
    pub app: Option<&'a [u8]>,
    /// Process.
    pub pid: Option<&'a [u8]>,
    /// RFC 5424's message id.
    pub msgid: Option<&'a [u8]>,
    /// Structured data as written; see [`elements`].
    pub sd: Option<&'a [u8]>,
    /// The number that some routers put before the time.
    pub sequence: Option<u64>,
    /// The text.
    pub msg: &'a [u8],
    /// What was odd.
    pub notes: Notes,
}

impl<'a> Message<'a> {
    fn new(pri: u8, format: Format) -> Message<'a> {
        Message {
            pri,
            format,
            time: None,
            host: None,
            app: None,
            pid: None,
            msgid: None,
            sd: None,
            sequence: None,
            msg: &[],
            notes: Notes::default(),
        }
    }

    /// Facility, 0 to 23.
    pub const fn facility(&self) -> u8 {
        self.pri >> 3
    }

    /// Severity, 0 (emergency) to 7 (debug).
    pub const fn severity(&self) -> u8 {
        self.pri & 7
    }

    /// `meta sequenceId`, by which what a sender lost can be counted.
    pub fn sequence_id(&self) -> Option<u32> {
        elements(self.sd?).filter(|e| e.id == b"meta").find_map(|e| {
            let (_, value) = e.params().find(|(name, _)| *name == b"sequenceId")?;
            std::str::from_utf8(value)
                .ok()?
                .parse()
                .ok()
                .filter(|n| (1..=i32::MAX as u32).contains(n))
        })
    }
}

/// What the reader needs to know in addition to the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// When, ns since 1970: gives the year of messages without one.
    pub time_ns: u64,
    /// Zone of messages without one, seconds east of UTC.
    pub zone_seconds: i32,
}

/// Reads a message.
pub fn parse<'a>(bytes: &'a [u8], received: &Received) -> Message<'a> {
    let bytes = without_trailer(bytes);
    let (pri, notes, rest) = match read_pri(bytes) {
        Ok(read) => read,
        Err(()) => {
            let mut message = Message::new(DEFAULT_PRI, Format::Legacy);
            message.msg = bytes;
            message.notes.set(Notes::BAD_PRI);
            message.notes.set(Notes::NO_TIME);
            return message;
        }
    };
    let mut message = match rest.strip_prefix(b"1 ") {
        Some(fields) if !notes.has(Notes::NO_PRI) => {
            let mut message = Message::new(pri, Format::Rfc5424);
            rfc5424::parse(fields, &mut message);
            message
        }
        _ => {
            let mut message = Message::new(pri, Format::Legacy);
            if is_other_version(rest) {
                message.notes.set(Notes::OTHER_VERSION);
            }
            legacy::parse(rest, received, &mut message);
            message
        }
    };
    message.notes.set(notes);
    if message.msg.trim_ascii_start().starts_with(b"@cee:") {
        message.notes.set(Notes::CEE);
    }
    message
}

/// The bytes to read: unpacked when they are packed as rsyslog packs (`z`, then zlib, at the beginning
/// or after the priority). What does not unpack within bounds stays as it is.
pub fn unpacked(bytes: &[u8]) -> Cow<'_, [u8]> {
    let head = match memchr::memchr(b'>', bytes.get(..5.min(bytes.len())).unwrap_or_default()) {
        Some(end) if bytes.first() == Some(&b'<') => end + 1,
        _ => 0,
    };
    let Some(packed) = bytes[head..].strip_prefix(b"z") else { return Cow::Borrowed(bytes) };
    // Zlib's own first byte, else any word with a z would be tried.
    if packed.first() != Some(&0x78) {
        return Cow::Borrowed(bytes);
    }
    let mut out = bytes[..head].to_vec();
    let mut reader = flate2::read::ZlibDecoder::new(packed).take(UNPACKED_MAX as u64 + 1);
    match reader.read_to_end(&mut out) {
        Ok(n) if n <= UNPACKED_MAX => Cow::Owned(out),
        _ => Cow::Borrowed(bytes),
    }
}

/// LF, CR LF and NUL at the end are no part of a message.
fn without_trailer(mut bytes: &[u8]) -> &[u8] {
    while let Some(rest) = bytes.strip_suffix(b"\0").or_else(|| bytes.strip_suffix(b"\n")) {
        bytes = rest.strip_suffix(b"\r").unwrap_or(rest);
    }
    bytes
}

/// Priority, what is odd about it, and what follows.
fn read_pri(bytes: &[u8]) -> Result<(u8, Notes, &[u8]), ()> {
    let mut notes = Notes::default();
    let Some(rest) = bytes.strip_prefix(b"<") else {
        notes.set(Notes::NO_PRI);
        return Ok((DEFAULT_PRI, notes, bytes));
    };
    if let Some(behind) = rest.strip_prefix(b">") {
        notes.set(Notes::EMPTY_PRI);
        return Ok((0, notes, behind));
    }
    let digits = rest.iter().take(4).take_while(|b| b.is_ascii_digit()).count();
    if !(1..=3).contains(&digits) || rest.get(digits) != Some(&b'>') {
        return Err(());
    }
    let value = rest[..digits].iter().fold(0u16, |n, d| n * 10 + u16::from(d - b'0'));
    let pri = u8::try_from(value).ok().filter(|p| *p <= 191).ok_or(())?;
    if digits > 1 && rest[0] == b'0' {
        notes.set(Notes::LEADING_ZERO);
    }
    Ok((pri, notes, &rest[digits + 1..]))
}

fn is_other_version(rest: &[u8]) -> bool {
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    (1..=2).contains(&digits)
        && rest.get(digits) == Some(&b' ')
        && rest.get(digits + 1).is_some_and(|b| b.is_ascii_digit() || *b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2026-11-20T22:00:00Z
    const RECEIVED: Received = Received { time_ns: 1_795_212_000_000_000_000, zone_seconds: 0 };

    type Row<'a> = (u8, Option<&'a str>, Option<&'a str>, Option<&'a str>, &'a str);

    fn fields(text: &str) -> (u8, Option<String>, Option<String>, Option<String>, String) {
        let m = parse(text.as_bytes(), &RECEIVED);
        let own = |f: Option<&[u8]>| f.map(|b| String::from_utf8_lossy(b).into_owned());
        (m.pri, own(m.host), own(m.app), own(m.pid), String::from_utf8_lossy(m.msg).into_owned())
    }

    fn check(text: &str, row: Row<'_>) {
        let own = |f: Option<&str>| f.map(str::to_owned);
        assert_eq!(
            fields(text),
            (row.0, own(row.1), own(row.2), own(row.3), row.4.to_owned()),
            "{text}"
        );
    }

    #[test]
    fn what_the_standards_show() {
        check(
            "<34>Oct 11 22:14:15 mymachine su: 'su root' failed",
            (34, Some("mymachine"), Some("su"), None, "'su root' failed"),
        );
        check(
            "<165>1 2003-10-11T22:14:15.003Z host evnt 7 ID47 [a@1 b=\"c\\\"]\"][x] text",
            (165, Some("host"), Some("evnt"), Some("7"), "[a@1 b=\"c\\\"]\"][x] text"),
        );
        check(
            "<165>1 2003-10-11T22:14:15.003Z host evnt 7 ID47 [a@1 b=\"c\\\"\\]\"][x] text",
            (165, Some("host"), Some("evnt"), Some("7"), "text"),
        );
        check("<191>1 - - - - - -", (191, None, None, None, ""));
    }

    #[test]
    fn odd_headers_keep_what_can_be_known() {
        // No priority, or an empty one.
        check("Oct 11 22:14:15 h a[1]: x", (13, Some("h"), Some("a"), Some("1"), "x"));
        check("<>Oct 11 22:14:15 h a[1]: x", (0, Some("h"), Some("a"), Some("1"), "x"));
        // A day that the month does not have costs the time alone.
        check("<13>Feb 31 22:14:15 h a: x", (13, Some("h"), Some("a"), None, "x"));
        // A bracket that nobody closes ends where the tag ends.
        check("<13>Oct 11 22:14:15 h a[1: x", (13, Some("h"), Some("a"), None, "x"));
        check("<13>Oct 11 22:14:15 h a[1 2]: x", (13, Some("h"), Some("a"), None, "2]: x"));
        // An address is no year.
        check(
            "<13>Oct 11 22:14:15 2001:db8::2 a: x",
            (13, Some("2001:db8::2"), Some("a"), None, "x"),
        );
        check("<13>Oct 11 22:14:15 2001: a: x", (13, None, Some("a"), None, "x"));
        check(
            "<13>Oct 11 22:14:15 [192.0.2.1] a: x",
            (13, Some("192.0.2.1"), Some("a"), None, "x"),
        );
        // A tag without a program, and a text in brackets.
        check("<13>Oct 11 22:14:15 h [audit] x", (13, Some("h"), None, Some("audit"), "x"));
        check("<13>Oct 11 22:14:15 h [Mon Dec 5] x", (13, Some("h"), None, None, "[Mon Dec 5] x"));
        // The last word is the program where no host can have that name.
        check("<13>Oct 11 22:14:15 a,1", (13, None, Some("a,1"), None, ""));
        check("<13>Oct 11 22:14:15 h", (13, Some("h"), None, None, ""));
        // A version without a time after it, and with one that is none.
        check("<13>1 Oct 11 22:14:15 h a: x", (13, None, None, None, "Oct 11 22:14:15 h a: x"));
        check("<13>1 2020-01-01T24:00:00Z h a p m - x", (13, Some("h"), Some("a"), Some("p"), "x"));
        check(
            "<13>1  2020-01-01T00:00:00Z h a p m - x",
            (13, Some("h"), Some("a"), Some("p"), "x"),
        );
    }

    #[test]
    fn what_senders_really_send() {
        check("<13>Oct 11 22:14:15 fe80::1 a: x", (13, Some("fe80::1"), Some("a"), None, "x"));
        check("<13>Oct 11 22:14:15 [fe80::1] a: x", (13, Some("fe80::1"), Some("a"), None, "x"));
        check("<13>Oct 11 22:14:15 a[12]: x", (13, None, Some("a"), Some("12"), "x"));
        check("<13>Oct 11 22:14:15 2019 h a: x", (13, Some("h"), Some("a"), None, "x"));
        check("<13>2020-01-01 00:00:00 h a: x", (13, Some("h"), Some("a"), None, "x"));
        check(
            "<189>123: *Oct 11 22:14:15.123: %SYS-5-CONFIG_I: Configured",
            (189, None, Some("%SYS-5-CONFIG_I"), None, "Configured"),
        );
        check(
            "<13>Oct 11 22:14:15 last message repeated 3 times",
            (13, None, None, None, "last message repeated 3 times"),
        );
        check(
            "<13>Oct 11 22:14:15 Message forwarded from aix1: cron[5]: x",
            (13, Some("aix1"), Some("cron"), Some("5"), "x"),
        );
        check("<13>{\"a\": 1}", (13, None, None, None, "{\"a\": 1}"));
        check("<999>Oct 11 22:14:15 h a: x", (13, None, None, None, "<999>Oct 11 22:14:15 h a: x"));
        let cisco = parse(b"<189>123: Oct 11 22:14:15: %A-1-B: c", &RECEIVED);
        assert_eq!(cisco.sequence, Some(123));
    }

    #[test]
    fn packed_bodies_open_within_bounds() {
        use std::io::Write;
        let pack = |text: &[u8]| {
            let mut packer =
                flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            packer.write_all(text).expect("into memory");
            packer.finish().expect("into memory")
        };
        let small = [b"<13>z", pack(b"Oct 11 22:14:15 h a: x").as_slice()].concat();
        assert_eq!(&*unpacked(&small), b"<13>Oct 11 22:14:15 h a: x");
        let bomb = [b"z", pack(&vec![b'x'; 10 << 20]).as_slice()].concat();
        assert_eq!(&*unpacked(&bomb), bomb.as_slice());
        assert_eq!(&*unpacked(b"<13>zebra"), b"<13>zebra");
    }

    #[test]
    fn sequence_ids_are_read() {
        let m = parse(
            b"<13>1 - h a - - [x meta=\"1\"][meta sysUpTime=\"3\" sequenceId=\"29\"] x",
            &RECEIVED,
        );
        assert_eq!(m.sequence_id(), Some(29));
    }

    proptest! {
        #[test]
        fn nothing_panics_and_text_is_of_the_message(
            start in prop_oneof![Just(""), Just("<13>"), Just("<13>1 "), Just("<13>Oct 11 22:14:15 "), Just("<1>1 - - - - - [")],
            bytes in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let all = [start.as_bytes(), &bytes].concat();
            let m = parse(&all, &RECEIVED);
            prop_assert!(all.windows(m.msg.len().max(1)).any(|w| w == m.msg) || m.msg.is_empty());
            prop_assert!(m.pri <= 191);
            if let Some(sd) = m.sd {
                for e in elements(sd) { let _ = e.params().count(); }
            }
            let _ = unpacked(&all);
        }
    }
}
