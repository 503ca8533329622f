//! DNS over HTTP/2 (RFC 8484): a question in the query of a target or in the body of a request, an answer in the
//! body of a response.

use super::limits::{DNS_BYTES_MAX, reached};
use super::tx::state;
use crate::dns::log::{Formats, write_message};
use crate::dns::tables::{RCODES, RRTYPES, buffer, integer};
use crate::dns::{Message, Section};
use crate::{Buffer, LogOptions};
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::applayer::{BufferDef, Hook, IntegerDef, IntegerWidth};
use gabion_record::json::Json;

/// What names a DNS message (RFC 8484 6).
pub(crate) const MEDIA_TYPE: &[u8] = b"application/dns-message";

/// Number of the first buffer of DNS: those of HTTP/2 are before it.
pub(crate) const FIRST: u16 = 64;

/// A question is there with the end of the fields or the body of its request, an answer with the body of its response.
const fn both(local: u16) -> [Hook; 2] {
    [
        Hook::new(ToServer, state::DATA_CLIENT, FIRST + local),
        Hook::new(ToClient, state::DATA_SERVER, FIRST + local),
    ]
}

const fn names(name: &'static str, hooks: &'static [Hook]) -> BufferDef {
    BufferDef { name, multi: true, hooks, ..BufferDef::PLAIN }
}

/// The buffers of DNS; their definitions are DNS's own.
pub(crate) const BUFFERS: [BufferDef; 8] = [
    names("dns.query", &[Hook::new(ToServer, state::DATA_CLIENT, FIRST + buffer::QUERIES)]),
    names("dns.query.name", &both(buffer::QUERIES)),
    names("dns.queries.rrname", &both(buffer::QUERIES)),
    names("dns.answer.name", &both(buffer::ANSWERS)),
    names("dns.answers.rrname", &both(buffer::ANSWERS)),
    names("dns.authorities.rrname", &both(buffer::AUTHORITIES)),
    names("dns.additionals.rrname", &both(buffer::ADDITIONALS)),
    names(
        "dns.response.rrname",
        &[Hook::new(ToClient, state::DATA_SERVER, FIRST + buffer::RESPONSE)],
    ),
];

const fn number(local: u16) -> [Hook; 2] {
    [Hook::new(ToServer, state::DATA_CLIENT, local), Hook::new(ToClient, state::DATA_SERVER, local)]
}

/// The numbers of DNS.
pub(crate) const INTEGERS: &[IntegerDef] = &[
    IntegerDef {
        name: "dns.opcode",
        width: IntegerWidth::U8,
        hooks: &number(integer::OPCODE),
        ..IntegerDef::PLAIN
    },
    IntegerDef {
        name: "dns.rcode",
        width: IntegerWidth::U16,
        names: RCODES,
        hooks: &number(integer::RCODE),
        ..IntegerDef::PLAIN
    },
    IntegerDef {
        name: "dns.rrtype",
        width: IntegerWidth::U16,
        multi: true,
        names: RRTYPES,
        hooks: &number(integer::RRTYPE),
        ..IntegerDef::PLAIN
    },
];

/// The bytes that may be a message in one direction, then the message.
#[derive(Debug, Default)]
struct DnsSide {
    /// Its fields name a DNS message.
    is_announced: bool,
    /// It was too long, or has been read.
    is_done: bool,
    bytes: Vec<u8>,
    message: Option<Box<Message>>,
}

/// A question and its answer.
#[derive(Debug, Default)]
pub(crate) struct DnsExchange {
    sides: [DnsSide; 2],
}

impl DnsExchange {
    /// Fields of that direction name a DNS message.
    pub(crate) fn announce(&mut self, direction: Direction) {
        self.sides[direction.index()].is_announced = true;
    }

    /// A message came.
    pub(crate) fn is_begun(&self) -> bool {
        self.sides.iter().any(|s| s.message.is_some())
    }

    /// The message of a direction.
    pub(crate) fn message(&self, direction: Direction) -> Option<&Message> {
        self.sides[direction.index()].message.as_deref()
    }

    /// Takes a piece of a body. False: it is longer than a message can be.
    pub(crate) fn add_body(&mut self, direction: Direction, bytes: &[u8]) -> bool {
        let side = &mut self.sides[direction.index()];
        if !side.is_announced || side.is_done {
            return true;
        }
        if side.bytes.len() + bytes.len() > DNS_BYTES_MAX {
            reached::DNS_BYTES_MAX.count();
            side.is_done = true;
            side.bytes = Vec::new();
            return false;
        }
        side.bytes.extend_from_slice(bytes);
        true
    }

    /// The body is over. True: it was a message.
    pub(crate) fn finish(&mut self, direction: Direction) -> bool {
        let side = &mut self.sides[direction.index()];
        if !side.is_announced || side.is_done {
            return false;
        }
        side.is_done = true;
        let bytes = std::mem::take(&mut side.bytes);
        side.message = Message::parse(&bytes).ok().map(Box::new);
        side.message.is_some()
    }

    /// Reads the question in the query of a target (RFC 8484 4.1). True: it was one.
    pub(crate) fn read_target(&mut self, target: &[u8]) -> bool {
        let Some(at) = target.iter().position(|b| *b == b'?') else { return false };
        let query = target.get(at + 1..).unwrap_or_default();
        let value = query.split(|b| *b == b'&').find_map(|p| p.strip_prefix(b"dns="));
        let Some(bytes) = value.and_then(decode_base64url) else { return false };
        let side = &mut self.sides[ToServer.index()];
        side.message = Message::parse(&bytes).ok().map(Box::new);
        side.message.is_some()
    }

    /// An instance of a buffer of DNS.
    pub(crate) fn buffer(
        &self,
        local: u16,
        direction: Direction,
        index: usize,
    ) -> Option<Buffer<'_>> {
        let m = self.message(direction)?;
        let record = |section| m.section(section).get(index).map(|r| r.name);
        let is_answer = direction == ToClient;
        let name = match local.checked_sub(FIRST)? {
            buffer::QUERIES => m.queries.get(index).map(|q| q.name),
            buffer::ANSWERS => record(Section::Answers),
            buffer::AUTHORITIES if is_answer => record(Section::Authorities),
            buffer::ADDITIONALS if is_answer => record(Section::Additionals),
            buffer::RESPONSE => {
                let sections = [Section::Answers, Section::Authorities, Section::Additionals];
                let records = sections.into_iter().flat_map(|s| m.section(s)).map(|r| r.name);
                m.queries.iter().map(|q| q.name).chain(records).nth(index)
            }
            _ => None,
        }?;
        Some(Buffer::whole(m.name(name)))
    }

    /// A number of DNS.
    pub(crate) fn integer(&self, local: u16, direction: Direction, index: usize) -> Option<u64> {
        let m = self.message(direction)?;
        match (local, index) {
            (integer::OPCODE, 0) => Some(m.header.opcode().into()),
            (integer::RCODE, 0) => Some(m.header.rcode().into()),
            // Of a query only the questions count, of a response only the answers (Suricata 8.0.7).
            (integer::RRTYPE, _) => match direction {
                ToServer => m.queries.get(index).map(|q| q.rrtype.into()),
                ToClient => m.section(Section::Answers).get(index).map(|r| r.rrtype.into()),
            },
            _ => None,
        }
    }

    /// Writes the answer, or the question without one.
    pub(crate) fn log(&self, json: &mut Json, how: LogOptions<'_>) -> bool {
        let [question, answer] = &self.sides;
        let (kind, message) = match (&answer.message, &question.message) {
            (Some(m), _) => ("response", m),
            (None, Some(m)) => ("request", m),
            (None, None) => return false,
        };
        json.number("version", 3_u8);
        json.field_plain("type", kind);
        let formats = Formats { detailed: true, grouped: !how.in_alert };
        write_message(message, Some(0), json, formats);
        true
    }

    /// Bytes held.
    pub(crate) fn bytes_held(&self) -> usize {
        let side = |s: &DnsSide| {
            s.bytes.capacity()
                + s.message.as_ref().map_or(0, |m| size_of::<Message>() + m.bytes_held())
        };
        size_of::<DnsExchange>() + self.sides.iter().map(side).sum::<usize>()
    }
}

/// Undoes base64 with the letters of URLs (RFC 4648 5), with padding or without.
pub(crate) fn decode_base64url(text: &[u8]) -> Option<Vec<u8>> {
    let end = text.iter().rposition(|b| *b != b'=').map_or(0, |at| at + 1);
    let mut out = Vec::with_capacity(end / 4 * 3 + 2);
    let (mut bits, mut count) = (0_u32, 0);
    for b in text.get(..end)? {
        let value = match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count & 0xff) as u8);
        }
    }
    // A single letter at the end is no byte.
    (end % 4 != 1).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648 5 and 10.
    #[test]
    fn base64_is_undone() {
        for (text, expected) in [
            ("Zm9vYg==", Some(&b"foob"[..])),
            ("Zm9vYg", Some(b"foob")),
            ("__-_", Some(b"\xff\xff\xbf")),
            ("", Some(b"")),
            ("Z", None),
            ("%%%%", None),
        ] {
            assert_eq!(decode_base64url(text.as_bytes()).as_deref(), expected, "{text}");
        }
    }

    /// The example of RFC 8484 4.1.1.
    #[test]
    fn a_question_is_in_a_target() {
        let mut dns = DnsExchange::default();
        assert!(
            dns.read_target(b"/dns-query?x=1&dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB")
        );
        let name = dns.buffer(FIRST + buffer::QUERIES, ToServer, 0).map(|b| b.data.to_vec());
        assert_eq!(name.as_deref(), Some(&b"www.example.com"[..]));
        assert_eq!(dns.integer(integer::RRTYPE, ToServer, 0), Some(1));
        assert_eq!(dns.integer(integer::RRTYPE, ToServer, 1), None);
        assert!(!DnsExchange::default().read_target(b"/dns-query?dns=AAAB"));
        assert!(!DnsExchange::default().read_target(b"/dns-query"));
    }

    #[test]
    fn a_body_is_bounded() {
        let mut dns = DnsExchange::default();
        dns.announce(ToServer);
        assert!(dns.add_body(ToServer, &[0; DNS_BYTES_MAX]));
        assert!(!dns.add_body(ToServer, &[0]));
        assert!(dns.add_body(ToServer, &[0; 70_000]) && dns.bytes_held() < 1000);
        assert!(!dns.finish(ToServer) && !dns.is_begun());
        // What is not announced is not kept.
        assert!(dns.add_body(ToClient, &[0; 70_000]) && !dns.finish(ToClient));
    }
}
