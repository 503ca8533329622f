//! SNMP over UDP: versions 1, 2c and 3 (RFC 1157, 3416, 3412). Each message is a transaction.

pub mod limits;
mod log;
mod tables;

use crate::ber::{self, Element, Reader, tag};
use crate::datagrams::{Message, Refused, one_datagram, protocol};
use crate::detect::{PortProbe, Probe};
use crate::protocol::Protocol;
use crate::transaction::EventList;
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::Direction;
use gabion_record::applayer::Transport;
use gabion_record::json::Json;
use tables::{buffer, event, integer};

/// What a notification of version 1 holds in addition to its variables.
#[derive(Debug)]
pub struct Trap {
    /// Generic trap: 0 is a cold start, 6 one of the enterprise.
    pub kind: u32,
    /// Object that sends it.
    pub oid: Box<[u8]>,
    /// Address of the agent.
    pub address: Option<[u8; 4]>,
}

/// A message.
#[derive(Debug)]
pub struct SnmpTx {
    id: u64,
    direction: Direction,
    /// 1, 2 or 3.
    pub version: u32,
    /// Community (versions 1 and 2c).
    pub community: Option<Box<[u8]>>,
    /// User (version 3).
    pub user: Option<Box<[u8]>>,
    /// Type of the PDU; `None` when it is encrypted.
    pub pdu: Option<u8>,
    /// Notification of version 1.
    pub trap: Option<Trap>,
    /// Identifiers of the variables.
    pub variables: Vec<Box<[u8]>>,
    events: EventList,
}

impl SnmpTx {
    fn read_pdu(&mut self, pdu: Element<'_>) -> Option<()> {
        let kind = pdu.tag.checked_sub(0xa0).filter(|kind| *kind < 0x20)?;
        self.pdu = Some(kind);
        let mut r = Reader::new(pdu.value);
        if kind == tables::TRAP_V1 {
            let oid = r.expect(tag::OID)?.into();
            let address = r.expect(tables::IP_ADDRESS)?.try_into().ok();
            let trap = Trap { kind: ber::number(r.expect(tag::INTEGER)?)?, oid, address };
            self.trap = Some(trap);
        } else {
            r.expect(tag::INTEGER)?;
        }
        // Error or specific trap, index or time stamp.
        r.expect(tag::INTEGER)?;
        r.next()?;
        let mut variables = Reader::new(r.expect(tag::SEQUENCE)?);
        while let Some(variable) = variables.next() {
            let mut r = Reader::new(variable.value);
            // Suricata 8.0.7 takes a name of any type.
            let oid = r.next()?.value;
            if limits::reached::VARIABLES_MAX.has_room(self.variables.len()) {
                self.variables.push(oid.into());
            }
        }
        Some(())
    }

    fn read_version_3(&mut self, r: &mut Reader<'_>) -> Option<()> {
        let mut global = Reader::new(r.expect(tag::SEQUENCE)?);
        global.expect(tag::INTEGER)?;
        global.expect(tag::INTEGER)?;
        global.expect(tag::OCTETS)?;
        let model = ber::number(global.expect(tag::INTEGER)?)?;
        let security = r.expect(tag::OCTETS)?;
        // 3 is the user-based model (RFC 3411 5).
        if model == 3 {
            let mut r = Reader::new(Reader::new(security).expect(tag::SEQUENCE)?);
            r.expect(tag::OCTETS)?;
            // Boots and time of the engine are never negative (RFC 3414 2.4).
            ber::number(r.expect(tag::INTEGER)?)?;
            ber::number(r.expect(tag::INTEGER)?)?;
            self.user = Some(r.expect(tag::OCTETS)?.into());
        } else {
            self.events.set(event::UNKNOWN_SECURITY_MODEL);
        }
        let data = r.next()?;
        if data.tag != tag::SEQUENCE {
            return (data.tag == tag::OCTETS).then_some(());
        }
        let mut scoped = Reader::new(data.value);
        scoped.expect(tag::OCTETS)?;
        scoped.expect(tag::OCTETS)?;
        self.read_pdu(scoped.next()?)
    }
}

/// The version as it is called, and what follows it.
fn envelope(bytes: &[u8]) -> Option<(u32, Reader<'_>)> {
    let mut r = Reader::new(Reader::new(bytes).expect(tag::SEQUENCE)?);
    let version = match ber::number(r.expect(tag::INTEGER)?)? {
        0 => 1,
        1 => 2,
        3 => 3,
        _ => return None,
    };
    Some((version, r))
}

impl Message for SnmpTx {
    fn parse_datagram(id: u64, direction: Direction, bytes: &[u8]) -> Result<SnmpTx, Refused> {
        let (version, mut r) = envelope(bytes).ok_or(Refused::Wrong)?;
        let mut tx = SnmpTx {
            id,
            direction,
            version,
            community: None,
            user: None,
            pdu: None,
            trap: None,
            variables: Vec::new(),
            events: EventList::default(),
        };
        let found = if version == 3 {
            tx.read_version_3(&mut r)
        } else {
            r.expect(tag::OCTETS).and_then(|community| {
                tx.community = Some(community.into());
                tx.read_pdu(r.next()?)
            })
        };
        found.map(|()| tx).ok_or(Refused::Wrong)
    }

    fn compare(&mut self, common: &mut u32) {
        if *common == 0 {
            *common = self.version;
        }
        if *common != self.version {
            self.events.set(event::VERSION_MISMATCH);
        }
    }

    fn refuse(&mut self) {
        self.events.add(event::MALFORMED_DATA);
    }

    fn bytes_held(&self) -> usize {
        let of = |b: &Option<Box<[u8]>>| b.as_ref().map_or(0, |b| b.len());
        let variables: usize = self.variables.iter().map(|v| v.len() + size_of_val(v)).sum();
        size_of::<SnmpTx>() + of(&self.community) + of(&self.user) + variables
    }
}

impl Transaction for SnmpTx {
    one_datagram!();

    fn buffer(&self, local: u16, _: Direction, index: usize, _: Inspect) -> Option<Buffer<'_>> {
        let data = match local {
            buffer::COMMUNITY => self.community.as_ref()?,
            buffer::USM => self.user.as_ref()?,
            _ => return None,
        };
        (index == 0).then(|| Buffer::whole(data))
    }

    fn integer(&self, local: u16, _: Direction, index: usize) -> Option<u64> {
        let value = match local {
            integer::VERSION => self.version,
            integer::PDU_TYPE => self.pdu?.into(),
            integer::TRAP_TYPE => self.trap.as_ref()?.kind,
            _ => return None,
        };
        (index == 0).then(|| value.into())
    }

    fn log(&self, json: &mut Json, _: LogOptions<'_>) -> bool {
        log::write(self, json);
        true
    }
}

/// SNMP in the registry.
pub const PROTOCOL: &Protocol = &protocol::<SnmpTx>(
    tables::TABLE,
    &[PortProbe {
        transport: Transport::Udp,
        ports: "[161,162]",
        min_bytes: 4,
        max_bytes: 0,
        probe,
    }],
);

/// An envelope of a known version.
fn probe(bytes: &[u8], _: Direction) -> Probe {
    if envelope(bytes).is_some() { Probe::Yes } else { Probe::No }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &[u8] =
        b"\x30\x26\x02\x01\x01\x04\x06public\xa0\x19\x02\x01\x01\x02\x01\0\x02\x01\0\
        \x30\x0e\x30\x0c\x06\x08\x2b\x06\x01\x02\x01\x01\x05\0\x05\0";

    fn logged(bytes: &[u8]) -> Option<String> {
        let tx = SnmpTx::parse_datagram(0, Direction::ToServer, bytes).ok()?;
        let mut json = Json::new();
        json.open();
        log::write(&tx, &mut json);
        json.close();
        String::from_utf8(json.take_bytes()).ok()
    }

    #[test]
    fn messages() {
        // In the shape of Suricata's records.
        assert_eq!(
            logged(GET).as_deref(),
            Some(
                "{\"version\":2,\"pdu_type\":\"get_request\",\"vars\":[\"1.3.6.1.2.1.1.5.0\"],\
                 \"community\":\"public\"}"
            )
        );
        let trap =
            b"\x30\x29\x02\x01\0\x04\x06public\xa4\x1c\x06\x04\x2b\x06\x01\x04\x40\x04\x7f\0\0\x01\
            \x02\x01\x02\x02\x01\0\x43\x01\0\x30\x05\x30\x03\x06\x01\x2b";
        assert_eq!(
            logged(trap).as_deref(),
            Some(
                "{\"version\":1,\"pdu_type\":\"trap_v1\",\"trap_type\":\"linkDown\",\
                 \"trap_oid\":\"1.3.6.1.4\",\"trap_address\":\"127.0.0.1\",\"vars\":[\"1.3\"],\
                 \"community\":\"public\"}"
            )
        );
        for end in 0..GET.len() {
            assert_eq!(logged(&GET[..end]), None);
        }
    }

    /// Runs of Suricata 8.0.7 with one byte changed at a time.
    #[test]
    fn names_of_any_type_are_taken_and_negative_times_are_refused() {
        let at = GET.windows(3).position(|w| w == b"\x06\x08\x2b").unwrap();
        for kind in [0x02, 0x04, 0x05, 0x0d, 0x13, 0x24, 0x26, 0x40] {
            let mut other = GET.to_vec();
            other[at] = kind;
            assert_eq!(logged(&other), logged(GET), "{kind:#x}");
        }
        let version_3 = |boots: u8, time: u8| {
            let part = |kind: u8, value: &[u8]| [&[kind, value.len() as u8], value].concat();
            let user = [
                part(4, b"e"),
                part(2, &[boots]),
                part(2, &[time]),
                part(4, b"username"),
                part(4, b""),
                part(4, b""),
            ];
            let pdu = [part(2, &[1]), part(2, &[0]), part(2, &[0]), part(0x30, b"")];
            let scoped = [part(4, b"e"), part(4, b""), part(0xa1, &pdu.concat())];
            let global = [part(2, &[1]), part(2, &[0x40, 0]), part(4, &[4]), part(2, &[3])];
            let message = [
                part(2, &[3]),
                part(0x30, &global.concat()),
                part(4, &part(0x30, &user.concat())),
                part(0x30, &scoped.concat()),
            ];
            logged(&part(0x30, &message.concat()))
        };
        assert!(version_3(0x1d, 0x1d).is_some_and(|record| record.contains("username")));
        assert!(version_3(0, 0).is_some());
        for (boots, time) in [(0xdd, 0xdd), (0x1d, 0xdd), (0xdd, 0x1d)] {
            assert_eq!(version_3(boots, time), None);
        }
    }
}
