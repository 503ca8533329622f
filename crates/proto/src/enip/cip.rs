//! Messages of the Common Industrial Protocol (CIP volume 1) as ENIP carries them.
//!
//! A message holds others only if it is a packet of several services, and these are not read for further ones, as in
//! Suricata 8.0.7: so there are two levels, and each byte is read once a level.

/// Services whose data is read (CIP volume 1, appendix A).
const GET_ATTRIBUTE_LIST: u8 = 3;
const SET_ATTRIBUTE_LIST: u8 = 4;
const MULTIPLE_SERVICES: u8 = 10;

/// Bit of the service's octet: a response.
const RESPONSE: u8 = 0x80;

/// Types of logical segments of a path (CIP volume 1, appendix C): the octet without its two bits of size.
pub(super) const CLASS: u8 = 0x20;
pub(super) const INSTANCE: u8 = 0x24;
pub(super) const ATTRIBUTE: u8 = 0x30;

/// A message that can be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cip<'a> {
    /// The service's number, without the bit of responses.
    pub(super) service: u8,
    pub(super) body: Body<'a>,
    /// Messages that it holds.
    pub(super) nested: Nested<'a>,
    /// Bytes that were read.
    pub(super) len: usize,
}

/// What distinguishes requests and responses.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body<'a> {
    /// A request: its path, and the attributes that it lists.
    Request { path: &'a [u8], attributes: &'a [u8] },
    /// A response.
    Response { status: u8, extended: &'a [u8] },
}

/// A segment of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The octet that names its type and size.
    pub(super) octet: u8,
    pub(super) value: u32,
}

impl Segment {
    /// Its type without its size.
    pub(super) fn kind(self) -> u8 {
        self.octet & 0xfc
    }
}

/// Two bytes at a place.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Four bytes at a place.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The first segment of a path and what follows it.
fn split_segment(path: &[u8]) -> Option<(Segment, &[u8])> {
    let octet = *path.first()?;
    if octet & 0xe0 != CLASS {
        return None;
    }
    // Larger values follow an octet of padding.
    let (value, len) = match octet & 0x03 {
        0 => (u32::from(*path.get(1)?), 2),
        1 => (u32::from(u16_at(path, 2)?), 4),
        2 => (u32_at(path, 2)?, 6),
        _ => return None,
    };
    Some((Segment { octet, value }, path.get(len..)?))
}

/// The segments of a path.
pub(super) fn segments(mut path: &[u8]) -> impl Iterator<Item = Segment> + '_ {
    std::iter::from_fn(move || {
        let (segment, rest) = split_segment(path)?;
        path = rest;
        Some(segment)
    })
}

/// Whether all of a path is logical segments.
fn is_path_readable(mut path: &[u8]) -> bool {
    while !path.is_empty() {
        let Some((_, rest)) = split_segment(path) else { return false };
        path = rest;
    }
    true
}

/// Messages that a packet of several services holds: their places, which follow its header.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Nested<'a> {
    /// The packet from the count on.
    packet: &'a [u8],
    /// Place of the first byte in the message.
    start: usize,
    count: usize,
}

impl<'a> Nested<'a> {
    /// Reads the places. `None`: one of the messages can't be read.
    fn parse(bytes: &'a [u8], start: usize) -> Option<Nested<'a>> {
        let packet = bytes.get(start..)?;
        let nested = Nested { packet, start, count: u16_at(packet, 0)?.into() };
        let mut before = 2 + 2 * nested.count;
        if packet.len() < before {
            return None;
        }
        for index in 0..nested.count {
            let at = usize::from(nested.place(index)?);
            if at < before {
                return None;
            }
            before = at;
        }
        (0..nested.count).all(|index| nested.get(index).is_some()).then_some(nested)
    }

    fn place(&self, index: usize) -> Option<u16> {
        u16_at(self.packet, 2 + 2 * index)
    }

    /// A message with its place in the one that holds it.
    fn get(&self, index: usize) -> Option<(usize, Cip<'a>)> {
        let at = usize::from(self.place(index)?);
        let end =
            if index + 1 < self.count { self.place(index + 1)?.into() } else { self.packet.len() };
        Some((self.start + at, Cip::parse_one(self.packet.get(at..end)?)?))
    }

    /// The messages with their places in the one that holds them.
    pub(super) fn iter(self) -> impl Iterator<Item = (usize, Cip<'a>)> {
        (0..self.count).map_while(move |index| self.get(index))
    }
}

impl<'a> Cip<'a> {
    /// Reads a message and those it holds. `None`: it can't be read.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Cip<'a>> {
        let cip = Cip::parse_one(bytes)?;
        if cip.service != MULTIPLE_SERVICES {
            return Some(cip);
        }
        Some(Cip { nested: Nested::parse(bytes, cip.len)?, ..cip })
    }

    /// Reads a message, not those it holds.
    fn parse_one(bytes: &'a [u8]) -> Option<Cip<'a>> {
        let (octet, second) = (*bytes.first()?, *bytes.get(1)?);
        let service = octet & !RESPONSE;
        let nested = Nested::default();
        if octet & RESPONSE != 0 {
            // The second octet is reserved; the size of the extended status is in bytes for Suricata 8.0.7.
            let (status, size) = (*bytes.get(2)?, usize::from(*bytes.get(3)?));
            let extended = bytes.get(4..4 + size)?;
            return Some(Cip {
                service,
                body: Body::Response { status, extended },
                nested,
                len: 4 + size,
            });
        }
        let path_end = 2 + 2 * usize::from(second);
        let path = bytes.get(2..path_end)?;
        if !is_path_readable(path) {
            return None;
        }
        let (attributes, len) = match service {
            GET_ATTRIBUTE_LIST => {
                let start = path_end + 2;
                let end = start + 2 * usize::from(u16_at(bytes, path_end)?);
                (bytes.get(start..end)?, end)
            }
            SET_ATTRIBUTE_LIST => {
                // Values of any size follow: only the first attribute is known without its description.
                let start = path_end + 2;
                let end = start + 2 * usize::from(u16_at(bytes, path_end)?.min(1));
                (bytes.get(start..end)?, end)
            }
            _ => (&[][..], path_end),
        };
        Some(Cip { service, body: Body::Request { path, attributes }, nested, len })
    }

    /// It and those it holds.
    pub(super) fn with_nested(self) -> impl Iterator<Item = Cip<'a>> {
        std::iter::once(self).chain(self.nested.iter().map(|(_, cip)| cip))
    }

    /// Values of the segments of that type in its path, then the attributes that it lists if it is that type.
    pub(super) fn values(self, kind: u8) -> impl Iterator<Item = u32> + 'a {
        let (path, attributes) = match self.body {
            Body::Request { path, attributes } => (path, attributes),
            Body::Response { .. } => (&[][..], &[][..]),
        };
        let listed = if kind == ATTRIBUTE { attributes } else { &[] };
        let of_path = segments(path).filter(move |s| s.kind() == kind).map(|s| s.value);
        of_path.chain(listed.chunks_exact(2).filter_map(|a| u16_at(a, 0)).map(u32::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(bytes: &[u8], kind: u8) -> Vec<u32> {
        let cip = Cip::parse(bytes).expect("readable");
        cip.with_nested().flat_map(|c| c.values(kind)).collect()
    }

    /// What Suricata 8.0.7 reads of paths: logical segments of three sizes, nothing else.
    #[test]
    fn paths() {
        assert_eq!(values(b"\x01\x03\x20\x01\x24\x02\x30\x03", CLASS), [1]);
        assert_eq!(values(b"\x01\x02\x21\0\x2c\x01", CLASS), [300]);
        assert_eq!(values(b"\x01\x03\x26\0\x01\x02\x03\x04", INSTANCE), [0x0403_0201]);
        assert_eq!(values(b"\x03\x01\x20\x01\x02\0\x07\0\x08\x01", ATTRIBUTE), [7, 264]);
        assert_eq!(values(b"\x04\x01\x20\x01\x02\0\x07\0\x08\x01", ATTRIBUTE), [7]);
        for wrong in [
            &b""[..],
            b"\x01",
            b"\x01\x05\x20\x01",
            b"\x01\x01\x23\x01",
            b"\x01\x01\x10\x01",
            b"\x01\x01\x91\x04",
            b"\x03\x01\x20\x01\x03\0\x07\0",
            b"\x81\0",
            b"\x81\0\x01\x02\x07",
        ] {
            assert!(Cip::parse(wrong).is_none(), "{wrong:?}");
        }
    }

    /// Places of nested messages may leave gaps but not go back (Suricata 8.0.7).
    #[test]
    fn several_services() {
        let (one, two) = (b"\x01\x02\x20\x01\x24\x01", b"\x0e\x01\x20\x02");
        let packet = |places: &[u8]| {
            let head = [b"\x0a\x02\x20\x02\x24\x01", &[places.len() as u8, 0][..]].concat();
            let places = places.iter().flat_map(|p| [*p, 0]).collect();
            [head, places, one.to_vec(), two.to_vec()].concat()
        };
        assert_eq!(values(&packet(&[6, 12]), CLASS), [2, 1, 2]);
        for wrong in [&[0, 12][..], &[6, 10], &[12, 6], &[6, 12, 12], &[20, 26]] {
            assert!(Cip::parse(&packet(wrong)).is_none(), "{wrong:?}");
        }
        let nest = |inner: &[u8]| [b"\x0a\0\x01\0\x04\0", inner].concat();
        let deep = (0..5_000).fold(b"\x01\x01\x20\x05".to_vec(), |inner, _| nest(&inner));
        let cip = Cip::parse(&deep).expect("readable");
        assert_eq!(cip.with_nested().count(), 2);
    }
}
