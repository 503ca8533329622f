//! DHCP over UDP (RFC 2131, 2132): each message with its options.

pub mod limits;
mod log;
mod tables;

use crate::datagrams::{Message, Refused, one_datagram, protocol};
use crate::detect::{PortProbe, Probe};
use crate::parser::EventList;
use crate::registry::Protocol;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::Direction;
use gabion_record::applayer::Transport;
use gabion_record::json::Json;
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
    /// Code and place of each option.
    options: Vec<(u8, u16, u16)>,
    events: EventList,
}

impl DhcpTx {
    /// Values of options, as they stand.
    fn options(&self) -> impl Iterator<Item = (u8, &[u8])> {
        self.options.iter().map(|(code, from, to)| {
            let value = self.bytes.get(usize::from(*from)..usize::from(*to));
            (*code, value.unwrap_or_default())
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

    fn read_options(&mut self) {
        let mut at = HEADER_LEN;
        loop {
            match self.bytes.get(at) {
                Some(&option::PAD) => at += 1,
                Some(&option::END) => return,
                Some(&code) => {
                    let Some(len) = self.bytes.get(at + 1) else {
                        return self.events.set(event::TRUNCATED_OPTIONS);
                    };
                    let (from, to) = (at + 2, at + 2 + usize::from(*len));
                    if to > self.bytes.len() {
                        return self.events.set(event::TRUNCATED_OPTIONS);
                    }
                    let is_time = matches!(
                        code,
                        option::LEASE_TIME | option::RENEWAL_TIME | option::REBINDING_TIME
                    );
                    if is_time && to - from != 4 {
                        self.events.set(event::MALFORMED_OPTIONS);
                    } else if let (Ok(from), Ok(to)) = (u16::try_from(from), u16::try_from(to))
                        && limits::reached::OPTIONS_MAX.has_room(self.options.len())
                    {
                        self.options.push((code, from, to));
                    }
                    at = to;
                }
                None => return self.events.set(event::TRUNCATED_OPTIONS),
            }
        }
    }
}

impl Message for DhcpTx {
    fn read(id: u64, direction: Direction, bytes: &[u8]) -> Result<DhcpTx, Refused> {
        if probe(bytes, direction) != Probe::Yes {
            return Err(Refused::Wrong);
        }
        let (bytes, events) = (bytes.into(), EventList::default());
        let mut tx = DhcpTx { id, direction, bytes, options: Vec::new(), events };
        tx.read_options();
        Ok(tx)
    }

    fn bytes_held(&self) -> usize {
        size_of::<DhcpTx>()
            + self.bytes.len()
            + self.options.capacity() * size_of::<(u8, u16, u16)>()
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
}

/// DHCP in the registry.
pub const PROTOCOL: &Protocol = &protocol::<DhcpTx>(
    tables::TABLE,
    "dhcp",
    &[PortProbe { transport: Transport::Udp, ports: "[67,68]", min_bytes: 0, max_bytes: 0, probe }],
);

/// The magic cookie behind the header (RFC 2131 3).
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
        let tx = DhcpTx::read(0, Direction::ToClient, &whole).unwrap();
        assert_eq!((tx.kind(), tx.integer(0, Direction::ToClient, 0)), (Some(5), Some(3600)));
        assert!(tx.events().is_empty());
        for end in 241..bytes.len() {
            let tx = DhcpTx::read(0, Direction::ToClient, &bytes[..end]).unwrap();
            assert_eq!(tx.events(), [event::TRUNCATED_OPTIONS], "{end}");
        }
        assert!(DhcpTx::read(0, Direction::ToClient, &bytes[..239]).is_err());
    }
}
