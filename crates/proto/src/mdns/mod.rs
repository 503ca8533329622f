//! Multicast DNS (RFC 6762): messages of DNS to everybody on the link.
//!
//! A message is read as DNS is, and is a transaction; what differs is what rules may ask for and how
//! it is logged.

mod log;
mod tables;

use crate::datagrams::{Message, Refused, one_datagram, protocol};
use crate::detect::{PortProbe, Probe};
use crate::dns::message::HEADER_LEN;
use crate::dns::name::Name;
use crate::dns::{Message as DnsMessage, Rdata, Section};
use crate::protocol::Protocol;
use crate::transaction::EventList;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::Direction;
use gabion_record::applayer::Transport;
use gabion_record::json::Json;
use tables::{buffer, event};

/// A message.
#[derive(Debug)]
pub struct MdnsTx {
    id: u64,
    direction: Direction,
    /// The message.
    pub message: DnsMessage,
    /// All names of a response: of its records, and in their data.
    response_names: Vec<Name>,
    events: EventList,
}

impl Message for MdnsTx {
    const PDU_FRAME: Option<u8> = Some(0);

    fn parse_datagram(id: u64, direction: Direction, bytes: &[u8]) -> Result<MdnsTx, Refused> {
        let message = DnsMessage::parse(bytes).map_err(|_| Refused::Wrong)?;
        let mut events = EventList::default();
        let (header, names) = (message.header, message.name_flags());
        for (is_set, code) in [
            (message.has_invalid_additionals, event::INVALID_ADDITIONALS),
            (message.has_invalid_authorities, event::INVALID_AUTHORITIES),
            (header.has_z(), event::Z_FLAG_SET),
            (header.opcode() >= 7, event::INVALID_OPCODE),
            (names.truncated, event::NAME_TOO_LONG),
            (names.infinite_loop, event::INFINITE_LOOP),
            (names.label_limit, event::TOO_MANY_LABELS),
        ] {
            if is_set {
                events.set(code);
            }
        }
        let mut response_names = Vec::new();
        if header.is_response() {
            for r in message.records() {
                response_names.push(r.name);
                if let Rdata::Name(name) | Rdata::Soa { mname: name, .. } = r.data {
                    response_names.push(name);
                }
            }
        }
        Ok(MdnsTx { id, direction, message, response_names, events })
    }

    fn refuse(&mut self) {
        self.events.add(event::MALFORMED_DATA);
    }

    fn bytes_held(&self) -> usize {
        size_of::<MdnsTx>()
            + self.message.bytes_held()
            + self.response_names.capacity() * size_of::<Name>()
    }
}

impl Transaction for MdnsTx {
    one_datagram!();

    fn buffer(&self, local: u16, _: Direction, index: usize, _: Inspect) -> Option<Buffer<'_>> {
        let owner = |section| self.message.section(section).get(index).map(|r| r.name);
        let name = match local {
            buffer::QUERIES => self.message.queries.get(index).map(|q| q.name),
            buffer::ANSWERS => owner(Section::Answers),
            buffer::AUTHORITIES => owner(Section::Authorities),
            buffer::ADDITIONALS => owner(Section::Additionals),
            buffer::RESPONSE => self.response_names.get(index).copied(),
            _ => None,
        }?;
        Some(Buffer::whole(self.message.name(name)))
    }

    fn log(&self, json: &mut Json, _: LogOptions<'_>) -> bool {
        log::write(&self.message, json);
        true
    }
}

/// Multicast DNS in the registry.
pub const PROTOCOL: &Protocol = &protocol::<MdnsTx>(
    tables::TABLE,
    &[PortProbe { transport: Transport::Udp, ports: "5353", min_bytes: 0, max_bytes: 0, probe }],
);

/// A message of DNS.
fn probe(bytes: &[u8], _: Direction) -> Probe {
    if bytes.len() > HEADER_LEN && DnsMessage::parse(bytes).is_ok() {
        Probe::Yes
    } else {
        Probe::No
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_as_suricata_logs_it() {
        let bytes =
            b"\0\0\x84\0\0\0\0\x02\0\0\0\0\x01a\x05local\0\0\x10\x80\x01\0\0\0\x0a\0\x04\x03x=1\
            \x01b\xc0\x0e\0\x0c\0\x01\0\0\0\x0a\0\x02\xc0\x0c";
        let tx = MdnsTx::parse_datagram(0, Direction::ToServer, bytes).unwrap();
        let mut json = Json::new();
        json.open();
        tx.log(&mut json, LogOptions::default());
        json.close();
        let expected = "{\"type\":\"response\",\"id\":0,\"flags\":[\"aa\"],\"opcode\":0,\"rcode\":0,\
            \"answers\":[{\"rrname\":\"a.local\",\"txt\":[\"x=1\"]},\
            {\"rrname\":\"b.local\",\"ptr\":\"a.local\"}]}";
        assert_eq!(String::from_utf8_lossy(json.bytes()), expected);
        assert_eq!(tx.response_names.len(), 3);
    }

    /// One record of each kind of data, in each section; as Suricata 8.0.7 logs them.
    #[test]
    fn data_of_records() {
        let cases: [(u16, &[u8], &str); 8] = [
            (1, b"\x01\x02\x03\x04", "\"a\":\"1.2.3.4\""),
            (1, b"\x01\x02\x03", "\"a\":\"\""),
            (
                28,
                b"\x20\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\x01",
                "\"aaaa\":\"2001:0000:0000:0000:0000:0000:0000:0001\"",
            ),
            (15, b"\0\x05\x01m\x01x\0", "\"mx\":\"m.x\""),
            (
                33,
                b"\0\x01\0\x02\0\x03\x01s\x01x\0",
                "\"srv\":{\"priority\":1,\"weight\":2,\"port\":3,\"name\":\"s.x\"}",
            ),
            (
                44,
                b"\x01\x02\xab\xcd",
                "\"sshfp\":{\"fingerprint\":\"ab:cd\",\"algo\":1,\"type\":2}",
            ),
            (13, b"\x04I686\x05LINUX", "\"hinfo\":\"\\u0004I686\\u0005LINUX\""),
            (65280, b"xyz\xff", "\"65280\":\"xyz\\\\xff\""),
        ];
        for (section, key) in ["answers", "authorities", "additionals"].iter().enumerate() {
            for (kind, data, expected) in cases {
                let mut bytes = b"\0\0\x84\0\0\0\0\0\0\0\0\0".to_vec();
                bytes[7 + 2 * section] = 1;
                bytes.extend_from_slice(b"\x01h\0");
                bytes.extend_from_slice(&kind.to_be_bytes());
                bytes.extend_from_slice(b"\0\x01\0\0\0\x0a");
                bytes.extend_from_slice(&(data.len() as u16).to_be_bytes());
                bytes.extend_from_slice(data);
                let tx = MdnsTx::parse_datagram(0, Direction::ToServer, &bytes).unwrap();
                let mut json = Json::new();
                json.open();
                tx.log(&mut json, LogOptions::default());
                json.close();
                let text = String::from_utf8_lossy(json.bytes()).into_owned();
                let expected = format!("\"{key}\":[{{\"rrname\":\"h\",{expected}}}]");
                assert!(text.contains(&expected), "{text} lacks {expected}");
            }
        }
    }
}
