//! DHCP over UDP (RFC 2131, 2132): each message with its options.

mod log;
mod tables;

use crate::datagrams::{Message, Refused, one_datagram, protocol};
use crate::detect::{PortProbe, Probe};
use crate::protocol::Protocol;
use crate::transaction::EventList;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::applayer::Transport;
use gabion_record::json::Json;
use gabion_record::{Direction, TakeReport};
use tables::{event, integer};

/// Bytes in front of the options: header and magic cookie.
const HEADER_LEN: usize = 240;

/// Options by their codes (RFC 2132).
mod option {
    pub(super) const PAD: u8 = 0;
    pub(super) const SUBNET_MASK: u8 = 1;
    pub(super) const ROUTERS: u8 = 3;
    pub(super) const DNS_SERVERS: u8 = 6;
    pub(super) const HOSTNAME: u8 = 12;
    pub(super) const REQUESTED_IP: u8 = 50;
    pub(super) const LEASE_TIME: u8 = 51;
    pub(super) const TYPE: u8 = 53;
    pub(super) const PARAMETERS: u8 = 55;
    pub(super) const RENEWAL_TIME: u8 = 58;
    pub(super) const REBINDING_TIME: u8 = 59;
    pub(super) const VENDOR_CLASS: u8 = 60;
    pub(super) const CLIENT_ID: u8 = 61;
    pub(super) const END: u8 = 255;
}

/// A message.
#[derive(Debug)]
pub struct DhcpTx {
    id: u64,
    direction: Direction,
    bytes: Box<[u8]>,
    events: EventList,
}

impl DhcpTx {
    /// Options as they came, found as they are asked for: a list of them would be several times as large
    /// as the message.
    fn options(&self) -> impl Iterator<Item = (u8, &[u8])> {
        let options = self.read_options().map_while(Result::ok);
        options.filter(|(code, value)| !is_malformed(*code, value))
    }

    /// Options up to the end, or to where they are cut off.
    fn read_options(&self) -> impl Iterator<Item = Result<(u8, &[u8]), Truncated>> {
        let mut at = HEADER_LEN;
        std::iter::from_fn(move || {
            while self.bytes.get(at) == Some(&option::PAD) {
                at += 1;
            }
            let option = match self.bytes.get(at..) {
                Some([option::END, ..]) => return None,
                Some([code, len, rest @ ..]) => rest.get(..usize::from(*len)).map(|v| (*code, v)),
                _ => None,
            };
            at += 2 + option.map_or(0, |(_, value)| value.len());
            Some(option.ok_or(Truncated))
        })
    }

    /// The value of an option.
    fn option(&self, code: u8) -> Option<&[u8]> {
        self.options().find(|(c, _)| *c == code).map(|(_, value)| value)
    }

    /// What kind of message it is (RFC 2132 9.6).
    fn kind(&self) -> Option<u8> {
        self.option(option::TYPE)?.first().copied()
    }

    /// Four bytes of the header.
    fn four(&self, at: usize) -> [u8; 4] {
        let found = self.bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
        found.unwrap_or_default()
    }

    fn note_events(&mut self) {
        let mut events = EventList::default();
        for option in self.read_options() {
            match option {
                Ok((code, value)) if is_malformed(code, value) => {
                    events.set(event::MALFORMED_OPTIONS);
                }
                Ok(_) => {}
                Err(Truncated) => {
                    events.set(event::TRUNCATED_OPTIONS);
                    break;
                }
            }
        }
        self.events = events;
    }
}

/// Options are cut off.
struct Truncated;

/// A time is not of four bytes: Suricata does not take it for an option.
fn is_malformed(code: u8, value: &[u8]) -> bool {
    let is_time =
        matches!(code, option::LEASE_TIME | option::RENEWAL_TIME | option::REBINDING_TIME);
    is_time && value.len() != 4
}

impl Message for DhcpTx {
    fn parse_datagram(id: u64, direction: Direction, bytes: &[u8]) -> Result<DhcpTx, Refused> {
        if probe(bytes, direction) != Probe::Yes {
            return Err(Refused::Wrong);
        }
        let (bytes, events) = (bytes.into(), EventList::default());
        let mut tx = DhcpTx { id, direction, bytes, events };
        tx.note_events();
        Ok(tx)
    }

    fn bytes_held(&self) -> usize {
        size_of::<DhcpTx>() + self.bytes.len()
    }
}

impl Transaction for DhcpTx {
    one_datagram!();

    fn buffer(&self, _: u16, _: Direction, _: usize, _: Inspect) -> Option<Buffer<'_>> {
        None
    }

    fn integer(&self, local: u16, _: Direction, index: usize) -> Option<u64> {
        let code = match local {
            integer::LEASE_TIME => option::LEASE_TIME,
            integer::RENEWAL_TIME => option::RENEWAL_TIME,
            integer::REBINDING_TIME => option::REBINDING_TIME,
            _ => return None,
        };
        let value: [u8; 4] = self.option(code).filter(|_| index == 0)?.try_into().ok()?;
        Some(u32::from_be_bytes(value).into())
    }

    fn log(&self, json: &mut Json, how: LogOptions<'_>) -> bool {
        log::write(self, json, how)
    }

    fn report(&self, to: TakeReport<'_>) {
        log::report(self, to);
    }
}

/// DHCP in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    eve_defaults: &[("enabled", "yes"), ("extended", "no")],
    ..protocol::<DhcpTx>(
        tables::TABLE,
        &[PortProbe {
            transport: Transport::Udp,
            ports: "[67,68]",
            min_bytes: 0,
            max_bytes: 0,
            probe,
        }],
    )
};

/// The magic cookie after the header (RFC 2131 3).
fn probe(bytes: &[u8], _: Direction) -> Probe {
    if bytes.get(236..HEADER_LEN) == Some(&[0x63, 0x82, 0x53, 0x63]) {
        Probe::Yes
    } else {
        Probe::No
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_bounded_by_the_message() {
        let mut bytes = vec![0u8; 236];
        bytes.extend([0x63, 0x82, 0x53, 0x63, 53, 1, 5, 0, 51, 4, 0, 0, 14, 16]);
        let whole = [&bytes[..], &[255, 1, 2]].concat();
        let tx = DhcpTx::parse_datagram(0, Direction::ToClient, &whole).unwrap();
        assert_eq!((tx.kind(), tx.integer(0, Direction::ToClient, 0)), (Some(5), Some(3600)));
        assert!(tx.events().is_empty());
        for end in 241..bytes.len() {
            let tx = DhcpTx::parse_datagram(0, Direction::ToClient, &bytes[..end]).unwrap();
            assert_eq!(tx.events(), [event::TRUNCATED_OPTIONS], "{end}");
        }
        assert!(DhcpTx::parse_datagram(0, Direction::ToClient, &bytes[..239]).is_err());
        let bad = [&bytes[..], &[58, 2, 0, 1, 12, 1, b'h', 255]].concat();
        let tx = DhcpTx::parse_datagram(0, Direction::ToClient, &bad).unwrap();
        assert_eq!(tx.events(), [event::MALFORMED_OPTIONS]);
        let codes: Vec<u8> = tx.options().map(|(code, _)| code).collect();
        assert_eq!(codes, [53, 51, 12]);
        assert!(tx.bytes_held() <= size_of::<DhcpTx>() + bad.len());
    }
}
