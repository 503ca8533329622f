//! Messages ("control packets") of MQTT: header, contents, and whether bytes begin with one.
//!
//! A message owns a copy of its contents; what was read from them are places in it. Texts must be
//! UTF-8: where they are not, a copy with replacement characters follows the contents, as
//! rules and logs of Suricata see it.

use super::limits::reached;
use super::property::{self, Property};
use crate::detect::Probe;
use gabion_record::Direction;

/// Types of messages (mqtt-v5.0 2.1.2) with their names in rules and logs.
pub mod kind {
    #![allow(missing_docs)]
    pub const UNASSIGNED: u8 = 0;
    pub const CONNECT: u8 = 1;
    pub const CONNACK: u8 = 2;
    pub const PUBLISH: u8 = 3;
    pub const PUBACK: u8 = 4;
    pub const PUBREC: u8 = 5;
    pub const PUBREL: u8 = 6;
    pub const PUBCOMP: u8 = 7;
    pub const SUBSCRIBE: u8 = 8;
    pub const SUBACK: u8 = 9;
    pub const UNSUBSCRIBE: u8 = 10;
    pub const UNSUBACK: u8 = 11;
    pub const PINGREQ: u8 = 12;
    pub const PINGRESP: u8 = 13;
    pub const DISCONNECT: u8 = 14;
    pub const AUTH: u8 = 15;

    /// Names by number.
    pub const NAMES: &[(&str, u64)] = &[
        ("unassigned", 0),
        ("connect", 1),
        ("connack", 2),
        ("publish", 3),
        ("puback", 4),
        ("pubrec", 5),
        ("pubrel", 6),
        ("pubcomp", 7),
        ("subscribe", 8),
        ("suback", 9),
        ("unsubscribe", 10),
        ("unsuback", 11),
        ("pingreq", 12),
        ("pingresp", 13),
        ("disconnect", 14),
        ("auth", 15),
    ];
}

/// Flags of a CONNECT (mqtt-v5.0 3.1.2.3).
pub mod connect_flag {
    #![allow(missing_docs)]
    pub const CLEAN_SESSION: u8 = 0x02;
    pub const WILL: u8 = 0x04;
    pub const WILL_RETAIN: u8 = 0x20;
    pub const PASSWORD: u8 = 0x40;
    pub const USERNAME: u8 = 0x80;
}

/// The message is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The fixed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Type and flags.
    pub first: u8,
    /// Bytes of the contents.
    pub len: u32,
    /// Bytes of the header itself.
    pub header_len: u8,
}

/// What the first bytes of a message say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// A header.
    Header(Header),
    /// Not enough of one.
    More,
    /// None.
    Wrong,
}

impl Header {
    /// Reads it.
    pub fn from_bytes(bytes: &[u8]) -> Start {
        let Some((first, rest)) = bytes.split_first() else { return Start::More };
        let mut len = 0u32;
        for (i, b) in rest.iter().enumerate().take(4) {
            len |= u32::from(b & 0x7f) << (7 * i as u32);
            if b & 0x80 == 0 {
                return Start::Header(Header { first: *first, len, header_len: i as u8 + 2 });
            }
        }
        if rest.len() < 4 { Start::More } else { Start::Wrong }
    }

    /// The type, see [`kind`].
    pub fn kind(self) -> u8 {
        self.first >> 4
    }

    /// The message may have been sent before.
    pub fn is_dup(self) -> bool {
        self.first & 8 != 0
    }

    /// Quality of service, 0 to 3 (3 is wrong).
    pub fn qos(self) -> u8 {
        self.first >> 1 & 3
    }

    /// The broker is to keep the message.
    pub fn is_retained(self) -> bool {
        self.first & 1 != 0
    }

    /// Header and contents.
    pub fn total_len(self) -> u64 {
        u64::from(self.len) + u64::from(self.header_len)
    }
}

/// A place in a message's contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    from: u32,
    to: u32,
}

/// A message.
#[derive(Debug)]
pub struct Message {
    /// Its header.
    pub header: Header,
    /// What it says.
    pub body: Body,
    /// A list of its properties is longer than what is kept of one.
    pub has_too_many_properties: bool,
    contents: Box<[u8]>,
}

/// What a message says.
#[derive(Debug)]
pub enum Body {
    /// No contents, or none that are examined (PINGREQ, types that are not assigned).
    Plain,
    /// Too long to be read: bytes passed over, the header's among them.
    Skipped(u64),
    /// CONNECT.
    Connect(Box<Connect>),
    /// CONNACK.
    Connack {
        /// The broker remembers the client.
        session_present: bool,
        /// Return code; in MQTT 5 reason code.
        code: u8,
        /// Properties.
        properties: Option<Box<[Property]>>,
    },
    /// PUBLISH.
    Publish {
        /// Topic.
        topic: Span,
        /// Number, unless the quality of service is 0.
        id: Option<u16>,
        /// What is published.
        message: Span,
        /// Properties.
        properties: Option<Box<[Property]>>,
    },
    /// PUBACK, PUBREC, PUBREL and PUBCOMP.
    PublishAnswer {
        /// Number.
        id: u16,
        /// Reason code of MQTT 5.
        code: Option<u8>,
        /// Properties.
        properties: Option<Box<[Property]>>,
    },
    /// SUBSCRIBE: topics with their options.
    Subscribe {
        /// Number.
        id: u16,
        /// Topics with their options.
        topics: Box<[(Span, u8)]>,
        /// Properties.
        properties: Option<Box<[Property]>>,
    },
    /// UNSUBSCRIBE.
    Unsubscribe {
        /// Number.
        id: u16,
        /// Topics.
        topics: Box<[Span]>,
        /// Properties.
        properties: Option<Box<[Property]>>,
    },
    /// SUBACK and UNSUBACK.
    SubscribeAnswer {
        /// Number.
        id: u16,
        /// One code a topic; an UNSUBACK has them in MQTT 5 only.
        codes: Option<Span>,
        /// Properties.
        properties: Option<Box<[Property]>>,
    },
    /// DISCONNECT and AUTH.
    Reason {
        /// Reason code of MQTT 5.
        code: Option<u8>,
        /// Properties.
        properties: Option<Box<[Property]>>,
    },
}

/// What a CONNECT says.
#[derive(Debug)]
pub struct Connect {
    /// `MQTT`, or `MQIsdp` in 3.1.
    pub protocol: Span,
    /// 3 for 3.1, 4 for 3.1.1, 5.
    pub version: u8,
    /// See [`connect_flag`].
    pub flags: u8,
    /// Client identifier.
    pub client_id: Span,
    /// Topic and message of the will.
    pub will: Option<(Span, Span)>,
    /// Properties of the will.
    pub will_properties: Option<Box<[Property]>>,
    /// User name.
    pub username: Option<Span>,
    /// Password.
    pub password: Option<Span>,
    /// Properties.
    pub properties: Option<Box<[Property]>>,
}

impl Connect {
    /// A flag is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

impl Message {
    /// Reads the contents of a message. `version` is that of the session's last CONNECT.
    pub fn parse(header: Header, contents: &[u8], version: u8) -> Result<Message, Malformed> {
        let mut c = Cursor {
            bytes: contents,
            at: 0,
            end: contents.len(),
            replaced: Vec::new(),
            has_too_many_properties: false,
        };
        let body = read_body(header, &mut c, version)?;
        let contents = match body {
            Body::Plain | Body::Skipped(_) | Body::Reason { properties: None, .. } => {
                Box::default()
            }
            Body::Connect(_)
            | Body::Connack { .. }
            | Body::Publish { .. }
            | Body::PublishAnswer { .. }
            | Body::Subscribe { .. }
            | Body::Unsubscribe { .. }
            | Body::SubscribeAnswer { .. }
            | Body::Reason { properties: Some(_), .. } => {
                [contents, &c.replaced].concat().into_boxed_slice()
            }
        };
        let has_too_many_properties = c.has_too_many_properties;
        Ok(Message { header, body, has_too_many_properties, contents })
    }

    /// A message too long to be read.
    pub fn skipped(header: Header) -> Message {
        Message {
            header,
            body: Body::Skipped(header.total_len()),
            has_too_many_properties: false,
            contents: Box::default(),
        }
    }

    /// The bytes of a place.
    pub fn bytes(&self, span: Span) -> &[u8] {
        self.contents.get(span.from as usize..span.to as usize).unwrap_or_default()
    }

    /// Reason, return and grant codes.
    pub fn codes(&self) -> &[u8] {
        match &self.body {
            Body::Connack { code, .. } => std::slice::from_ref(code),
            Body::PublishAnswer { code, .. } | Body::Reason { code, .. } => code.as_slice(),
            Body::SubscribeAnswer { codes, .. } => {
                codes.map(|span| self.bytes(span)).unwrap_or_default()
            }
            Body::Plain
            | Body::Skipped(_)
            | Body::Connect(_)
            | Body::Publish { .. }
            | Body::Subscribe { .. }
            | Body::Unsubscribe { .. } => &[],
        }
    }

    /// Bytes it takes in a transaction.
    pub(super) fn cost(&self) -> usize {
        size_of::<Message>() + self.bytes_held()
    }

    /// Bytes held in addition to the message itself.
    pub fn bytes_held(&self) -> usize {
        let of =
            |p: &Option<Box<[Property]>>| p.as_ref().map_or(0, |p| p.len() * size_of::<Property>());
        let inside = match &self.body {
            Body::Plain | Body::Skipped(_) => 0,
            Body::Connect(c) => size_of::<Connect>() + of(&c.properties) + of(&c.will_properties),
            Body::Connack { properties, .. }
            | Body::Publish { properties, .. }
            | Body::PublishAnswer { properties, .. }
            | Body::SubscribeAnswer { properties, .. }
            | Body::Reason { properties, .. } => of(properties),
            Body::Subscribe { topics, properties, .. } => {
                topics.len() * size_of::<(Span, u8)>() + of(properties)
            }
            Body::Unsubscribe { topics, properties, .. } => {
                topics.len() * size_of::<Span>() + of(properties)
            }
        };
        self.contents.len() + inside
    }
}

fn read_body(header: Header, c: &mut Cursor<'_>, version: u8) -> Result<Body, Malformed> {
    let is_5 = version == 5;
    let len = header.len;
    Ok(match header.kind() {
        kind::CONNECT => Body::Connect(Box::new(read_connect(c)?)),
        kind::CONNACK => Body::Connack {
            session_present: c.byte()? & 1 != 0,
            code: c.byte()?,
            properties: properties(c, is_5)?,
        },
        kind::PUBLISH => {
            let topic = c.text()?;
            let id = if header.qos() > 0 { Some(c.two()?) } else { None };
            let properties = properties(c, is_5)?;
            Body::Publish { topic, id, message: c.rest(), properties }
        }
        kind::PUBACK | kind::PUBREC | kind::PUBREL | kind::PUBCOMP => Body::PublishAnswer {
            id: c.two()?,
            code: match len {
                _ if !is_5 => None,
                3.. => Some(c.byte()?),
                _ => Some(0),
            },
            properties: properties(c, is_5 && len > 3)?,
        },
        kind::SUBSCRIBE => {
            let (id, properties) = (c.two()?, properties(c, is_5)?);
            let topics = many(c, |c| Ok((c.text()?, c.byte()?)))?;
            Body::Subscribe { id, topics, properties }
        }
        kind::UNSUBSCRIBE => {
            let (id, properties) = (c.two()?, properties(c, is_5)?);
            Body::Unsubscribe { id, topics: many(c, |c| c.text())?, properties }
        }
        kind::SUBACK => {
            let (id, properties) = (c.two()?, properties(c, is_5)?);
            Body::SubscribeAnswer { id, codes: Some(c.rest()), properties }
        }
        kind::UNSUBACK => {
            let (id, properties) = (c.two()?, properties(c, is_5)?);
            Body::SubscribeAnswer { id, codes: is_5.then(|| c.rest()), properties }
        }
        // Without a code the standard means 0 (3.14.2.1); Suricata takes a code without properties
        // for that too.
        kind::DISCONNECT if !is_5 => Body::Reason { code: None, properties: None },
        kind::DISCONNECT if len < 2 => Body::Reason { code: Some(0), properties: None },
        kind::DISCONNECT | kind::AUTH => {
            Body::Reason { code: Some(c.byte()?), properties: property::read_properties(c)? }
        }
        _ => Body::Plain,
    })
}

fn properties(c: &mut Cursor<'_>, are_there: bool) -> Result<Option<Box<[Property]>>, Malformed> {
    if are_there { property::read_properties(c) } else { Ok(None) }
}

fn read_connect(c: &mut Cursor<'_>) -> Result<Connect, Malformed> {
    let protocol = c.text()?;
    let (version, flags) = (c.byte()?, c.byte()?);
    let _keep_alive = c.two()?;
    let (is_5, has_will) = (version == 5, flags & connect_flag::WILL != 0);
    let properties = properties(c, is_5)?;
    let client_id = c.text()?;
    let will_properties = self::properties(c, is_5 && has_will)?;
    let will = if has_will { Some((c.text()?, c.bytes()?)) } else { None };
    let username = if flags & connect_flag::USERNAME != 0 { Some(c.text()?) } else { None };
    let password = if flags & connect_flag::PASSWORD != 0 { Some(c.bytes()?) } else { None };
    Ok(Connect {
        protocol,
        version,
        flags,
        client_id,
        will,
        will_properties,
        username,
        password,
        properties,
    })
}

/// One item at least; what follows the last whole one is left alone, as by Suricata.
fn many<T>(
    c: &mut Cursor<'_>,
    mut one: impl FnMut(&mut Cursor<'_>) -> Result<T, Malformed>,
) -> Result<Box<[T]>, Malformed> {
    let mut all = vec![one(c)?];
    while !c.is_empty() && reached::TOPICS_KEPT_MAX.has_room(all.len()) {
        match one(c) {
            Ok(item) => all.push(item),
            Err(Malformed) => break,
        }
    }
    Ok(all.into())
}

/// Whether bytes begin with a message.
pub fn probe(bytes: &[u8], _: Direction) -> Probe {
    match Header::from_bytes(bytes) {
        Start::Header(h) if h.kind() == kind::UNASSIGNED || h.qos() == 3 => Probe::No,
        Start::Header(_) => Probe::Yes,
        Start::More => Probe::More,
        Start::Wrong => Probe::No,
    }
}

/// Reads contents from front to back.
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
    /// Texts that were not UTF-8, as they are after replacement; places in them begin after the
    /// contents.
    replaced: Vec<u8>,
    has_too_many_properties: bool,
}

impl Cursor<'_> {
    /// Says that a list of properties is longer than what is kept of one.
    pub fn note_too_many_properties(&mut self) {
        self.has_too_many_properties = true;
    }

    /// Nothing is left.
    pub fn is_empty(&self) -> bool {
        self.at >= self.end
    }

    /// Ends reading after this many bytes; returns where it ended before.
    pub fn narrow(&mut self, len: usize) -> Result<usize, Malformed> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.end).ok_or(Malformed)?;
        Ok(std::mem::replace(&mut self.end, end))
    }

    /// Takes [`Cursor::narrow`] back.
    pub fn widen(&mut self, end: usize) {
        self.end = end;
    }

    fn take_span(&mut self, len: usize) -> Result<Span, Malformed> {
        let to = self.at.checked_add(len).filter(|to| *to <= self.end).ok_or(Malformed)?;
        let span = Span { from: self.at as u32, to: to as u32 };
        self.at = to;
        Ok(span)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let span = self.take_span(N)?;
        let found = self.bytes.get(span.from as usize..span.to as usize);
        found.and_then(|b| b.try_into().ok()).ok_or(Malformed)
    }

    /// One byte.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[b]| b)
    }

    /// Two bytes.
    pub fn two(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four bytes.
    pub fn four(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// A number of one to four bytes.
    pub fn varying(&mut self) -> Result<u32, Malformed> {
        let mut n = 0;
        for i in 0..4 {
            let b = self.byte()?;
            n |= u32::from(b & 0x7f) << (7 * i);
            if b & 0x80 == 0 {
                return Ok(n);
            }
        }
        Err(Malformed)
    }

    /// Bytes after their length.
    pub fn bytes(&mut self) -> Result<Span, Malformed> {
        let len = self.two()?;
        self.take_span(len.into())
    }

    /// Text after its length.
    pub fn text(&mut self) -> Result<Span, Malformed> {
        let span = self.bytes()?;
        let bytes = self.bytes.get(span.from as usize..span.to as usize).unwrap_or_default();
        if std::str::from_utf8(bytes).is_ok() {
            return Ok(span);
        }
        let from = self.bytes.len() + self.replaced.len();
        let text = String::from_utf8_lossy(bytes);
        self.replaced.extend_from_slice(text.as_bytes());
        Ok(Span { from: from as u32, to: (from + text.len()) as u32 })
    }

    /// All that is left.
    pub fn rest(&mut self) -> Span {
        let span = Span { from: self.at as u32, to: self.end as u32 };
        self.at = self.end;
        span
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        for (bytes, expected) in [
            (&b"\x10"[..], Start::More),
            (b"\x10\xff\xff\xff", Start::More),
            (b"\x10\xff\xff\xff\xff", Start::Wrong),
            (
                b"\x3d\xff\xff\xff\x7f",
                Start::Header(Header { first: 0x3d, len: 268_435_455, header_len: 5 }),
            ),
            (b"\x20\x02\0\0", Start::Header(Header { first: 0x20, len: 2, header_len: 2 })),
        ] {
            assert_eq!(Header::from_bytes(bytes), expected);
        }
    }

    #[test]
    fn probes_as_suricata_does() {
        // What Suricata 8.0.7 took for MQTT on port 1883.
        for (bytes, answer) in [
            (&b"\x10\0"[..], Probe::Yes),
            (b"\x00\0", Probe::No),
            (b"\xf0\0", Probe::Yes),
            (b"\x36\x05\0\x01abc", Probe::No),
            (b"\x3d\x05\0\x01abc", Probe::Yes),
            (b"\x10\xff\xff\xff\xff\x01", Probe::No),
            (b"GET / HTTP", Probe::No),
        ] {
            assert_eq!(probe(bytes, Direction::ToServer), answer, "{bytes:x?}");
        }
    }

    fn parse_message(bytes: &[u8], version: u8) -> Result<Message, Malformed> {
        let Start::Header(h) = Header::from_bytes(bytes) else { return Err(Malformed) };
        Message::parse(h, &bytes[usize::from(h.header_len)..], version)
    }

    #[test]
    fn what_suricata_calls_malformed() {
        // As Suricata 8.0.7 decided for each.
        for (bytes, version, is_good) in [
            (&b"\xf0\0"[..], 5, false),
            (b"\xf0\x01\x18", 5, false),
            (b"\xf0\x02\x18\0", 5, true),
            (b"\xe0\x01\x04", 5, true),
            (b"\x82\x02\0\x01", 4, false),
            (b"\x82\x04\0\x01\0\0", 4, false),
            (b"\x82\x07\0\x01\0\x01a\0\0", 4, true),
            (b"\x32\x03\0\x01a", 4, false),
            (b"\x40\x05\0\x01aaa", 4, true),
            (b"\x40\x05\0\x01aaa", 5, false),
            (b"\x30\x09\0\x01a\x03\x7f\x01\x01bc", 5, true),
            (b"\x30\x08\0\x01a\x02\x23\x01\x01b", 5, false),
            (b"\x30\x06\0\x01a\x03\0\0", 5, false),
        ] {
            assert_eq!(parse_message(bytes, version).is_ok(), is_good, "{bytes:x?}");
        }
    }

    #[test]
    fn texts_are_utf_8_and_bytes_are_not_touched() {
        let m = parse_message(b"\x30\x07\0\x03a\xff\0b\xff", 4).unwrap();
        let Body::Publish { topic, message, .. } = m.body else { panic!("{m:?}") };
        assert_eq!(m.bytes(topic), "a\u{fffd}\0".as_bytes());
        assert_eq!(m.bytes(message), b"b\xff");
    }
}
