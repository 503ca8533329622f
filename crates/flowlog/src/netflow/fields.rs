//! Fields of NetFlow and IPFIX: which of the registry's elements say what of a flow.

use super::{Bytes, Clock};
use gabion_record::logs::{Body, Conn, Label, Mac, Proto, Record, TimeNs};
use gabion_record::{Ip, IpProto};

/// A field of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its element.
    pub id: u16,
    /// Its bytes; [`VARIABLE`] when each record has its own length.
    pub len: u16,
    /// Who numbered it, 0 for the registry.
    pub enterprise: u32,
}

/// Length that each record gives (RFC 7011, 7).
pub const VARIABLE: u16 = 65_535;
/// Elements of the other direction (RFC 5103).
const REVERSE: u32 = 29_305;

/// Columns of version 5 by the same elements; 0 is not read.
pub(super) const FIVE: &[(u16, u16)] = &[
    (8, 4),
    (12, 4),
    (0, 4),
    (0, 2),
    (0, 2),
    (2, 4),
    (1, 4),
    (22, 4),
    (21, 4),
    (7, 2),
    (11, 2),
    (0, 1),
    (6, 1),
    (4, 1),
    (0, 1),
    (0, 8),
];

/// Reads a field specifier.
pub(super) fn spec(set: &mut Bytes<'_>, is_ipfix: bool) -> Option<Field> {
    let (id, len) = (set.u16()?, set.u16()?);
    if is_ipfix && id & 0x8000 != 0 {
        return Some(Field { id: id & 0x7fff, len, enterprise: set.u32()? });
    }
    Some(Field { id, len, enterprise: 0 })
}

impl Field {
    /// Least bytes of it in a record.
    pub(super) fn least(self) -> usize {
        if self.len == VARIABLE { 1 } else { usize::from(self.len) }
    }

    /// Its value in a record.
    pub(super) fn value<'a>(self, from: &mut Bytes<'a>) -> Option<&'a [u8]> {
        if self.len != VARIABLE {
            return from.take_bytes(usize::from(self.len));
        }
        let len = match *from.take_bytes(1)?.first()? {
            255 => usize::from(from.u16()?),
            n => usize::from(n),
        };
        from.take_bytes(len)
    }
}

/// What fields said of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    src: Option<Ip>,
    dst: Option<Ip>,
    src_port: u16,
    dst_port: u16,
    proto: u8,
    flags: u8,
    reverse_flags: u8,
    bytes: [u64; 2],
    packets: [u64; 2],
    has_reverse: bool,
    icmp: Option<u16>,
    uptime: [Option<u64>; 2],
    start: Option<i64>,
    end: Option<i64>,
    src_mac: Option<Mac>,
    dst_mac: Option<Mac>,
}

fn number(value: &[u8]) -> u64 {
    // Counters may be shortened (RFC 7011, 6.2); more than eight bytes are none.
    if value.len() > 8 {
        return 0;
    }
    value.iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

fn short(value: &[u8]) -> u16 {
    u16::try_from(number(value)).unwrap_or(0)
}

/// Seconds since 1900 and their fraction, 32 bits each (RFC 7011, 6.1.9).
fn ntp(value: &[u8]) -> Option<i64> {
    const FROM_1900: i64 = 2_208_988_800;
    let n = number(value);
    let seconds = i64::try_from(n >> 32).ok()? - FROM_1900;
    let fraction = (u128::from(n & 0xffff_ffff) * 1_000_000_000) >> 32;
    seconds.checked_mul(1_000_000_000)?.checked_add(i64::try_from(fraction).ok()?)
}

fn scaled(value: &[u8], unit_ns: i64) -> Option<i64> {
    i64::try_from(number(value)).ok()?.checked_mul(unit_ns)
}

impl Flow {
    /// Takes a field's value in.
    pub(super) fn take_field(&mut self, field: Field, value: &[u8]) {
        if field.enterprise == REVERSE {
            self.has_reverse = true;
            match field.id {
                1 | 85 => self.bytes[1] = number(value),
                2 | 86 => self.packets[1] = number(value),
                6 => self.reverse_flags = number(value) as u8,
                _ => {}
            }
            return;
        }
        if field.enterprise != 0 {
            return;
        }
        let v4 = || Some(Ip::v4(u32::from_be_bytes(value.try_into().ok()?)));
        let v6 = || Some(Ip::from_bytes(value.try_into().ok()?));
        let mac = || Some(Mac(value.try_into().ok()?));
        match field.id {
            1 | 85 => self.bytes[0] = number(value),
            2 | 86 => self.packets[0] = number(value),
            // Of initiator and responder, if a record has both.
            231 => self.bytes[0] = number(value),
            232 => (self.bytes[1], self.has_reverse) = (number(value), true),
            298 => self.packets[0] = number(value),
            299 => (self.packets[1], self.has_reverse) = (number(value), true),
            4 => self.proto = number(value) as u8,
            6 => self.flags = number(value) as u8,
            7 => self.src_port = short(value),
            11 => self.dst_port = short(value),
            8 => self.src = v4(),
            12 => self.dst = v4(),
            27 => self.src = v6(),
            28 => self.dst = v6(),
            21 => self.uptime[1] = Some(number(value)),
            22 => self.uptime[0] = Some(number(value)),
            32 | 139 => self.icmp = Some(short(value)),
            56 => self.src_mac = mac(),
            57 | 80 => self.dst_mac = mac(),
            150 => self.start = scaled(value, 1_000_000_000),
            151 => self.end = scaled(value, 1_000_000_000),
            152 => self.start = scaled(value, 1_000_000),
            153 => self.end = scaled(value, 1_000_000),
            154 | 156 => self.start = ntp(value),
            155 | 157 => self.end = ntp(value),
            _ => {}
        }
    }

    /// The record; `None` without both addresses.
    pub(super) fn record<'a>(&self, clock: Clock, uid: &'a [u8]) -> Option<Record<'a>> {
        let at = |ms: Option<u64>| clock.uptime(ms?);
        let start = self.start.map(TimeNs).or_else(|| at(self.uptime[0]));
        let end = self.end.map(TimeNs).or_else(|| at(self.uptime[1]));
        let ts = start.or(end).unwrap_or(TimeNs(clock.exported_ns));
        let proto = Proto::from_ip(IpProto(self.proto));
        let (src_port, dst_port) = match self.icmp {
            // Type and code take the ports' place, as in Zeek's logs.
            Some(code) if proto.is_icmp() => (code >> 8, code & 0xff),
            _ => (self.src_port, self.dst_port),
        };
        Some(Record {
            ts,
            src: self.src?,
            dst: self.dst?,
            src_port,
            dst_port,
            proto,
            uid,
            label: Label::None,
            is_late: false,
            body: Body::Conn(Conn {
                duration_ns: end.map_or(0, |end| end.since(ts).max(0)),
                orig_bytes: self.bytes[0],
                resp_bytes: self.bytes[1],
                orig_pkts: self.packets[0],
                resp_pkts: self.packets[1],
                is_established: self.is_established(proto),
                src_mac: self.src_mac,
                dst_mac: self.dst_mac,
                ..Conn::default()
            }),
        })
    }

    fn is_established(&self, proto: Proto) -> bool {
        const FIN_SYN_PSH: u8 = 0x01 | 0x02 | 0x08;
        const RST: u8 = 0x04;
        const ACK: u8 = 0x10;
        if self.has_reverse {
            return self.bytes[1] > 0 || self.packets[1] > 0 && self.reverse_flags & RST == 0;
        }
        proto != Proto::Tcp
            || self.flags & ACK != 0 && (self.flags & RST == 0 || self.flags & FIN_SYN_PSH != 0)
    }
}
