//! As much of BER (X.690) as SNMP, LDAP and Kerberos need: elements of definite length, numbers, identifiers. It
//! neither copies nor recurses: the caller reads the elements within an element with another [`Reader`].

/// Universal tags (X.680 8.6), constructed where the type is.
pub(crate) mod tag {
    pub(crate) const BOOLEAN: u8 = 0x01;
    pub(crate) const INTEGER: u8 = 0x02;
    pub(crate) const OCTETS: u8 = 0x04;
    pub(crate) const OID: u8 = 0x06;
    pub(crate) const ENUMERATED: u8 = 0x0a;
    pub(crate) const SEQUENCE: u8 = 0x30;
    pub(crate) const SET: u8 = 0x31;
}

/// An element: its identifier octet and its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element<'a> {
    pub(crate) tag: u8,
    pub(crate) value: &'a [u8],
}

/// The identifier and the length of an element whose contents need not be there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The identifier octet.
    pub(crate) tag: u8,
    /// Bytes before the contents.
    pub(crate) header_len: usize,
    /// Bytes of the contents, at most 32 bits' worth.
    pub(crate) len: usize,
}

/// What is at the beginning of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// An element's header.
    Header(Header),
    /// A part of a header.
    More,
    /// No element of definite length.
    Wrong,
}

impl Header {
    /// The header at the beginning of `bytes`.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Start {
        let (Some(&tag), Some(&first)) = (bytes.first(), bytes.get(1)) else { return Start::More };
        if tag & 0x1f == 0x1f {
            return Start::Wrong;
        }
        let octets = match first {
            0..=0x7f => {
                return Start::Header(Header { tag, header_len: 2, len: usize::from(first) });
            }
            0x81..=0x84 => usize::from(first & 0x7f),
            _ => return Start::Wrong,
        };
        let Some(bytes) = bytes.get(2..2 + octets) else { return Start::More };
        let len = bytes.iter().fold(0usize, |n, b| n << 8 | usize::from(*b));
        Start::Header(Header { tag, header_len: 2 + octets, len })
    }

    /// Bytes of the whole element.
    pub(crate) fn total_len(self) -> usize {
        self.header_len.saturating_add(self.len)
    }
}

/// Elements, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Reader<'a> {
        Reader { rest }
    }

    /// The next element; `None` when there is none, or a part of one.
    pub(crate) fn next(&mut self) -> Option<Element<'a>> {
        let (&tag, mut rest) = self.rest.split_first()?;
        let mut tag = tag;
        if tag & 0x1f == 0x1f {
            // The long form (8.1.2.4), which may hold a small number too.
            let (&number, behind) = rest.split_first()?;
            (tag, rest) = (tag & 0xe0 | Some(number).filter(|n| *n < 0x1f)?, behind);
        }
        let (&first, rest) = rest.split_first()?;
        let (len, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (bytes.iter().fold(0usize, |n, b| n << 8 | usize::from(*b)), rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(len)?;
        self.rest = rest;
        Some(Element { tag, value })
    }

    /// The next element, if it has that tag; else nothing is read.
    pub(crate) fn next_if(&mut self, tag: u8) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let element = ahead.next().filter(|e| e.tag == tag)?;
        *self = ahead;
        Some(element.value)
    }

    /// Nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next element's value, if it has that tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|e| e.tag == tag).map(|e| e.value)
    }
}

/// A number that is not negative and fits 32 bits.
pub(crate) fn number(value: &[u8]) -> Option<u32> {
    match value {
        [] => None,
        [0, rest @ ..] if rest.len() == 4 => Some(u32::from_be_bytes(rest.try_into().ok()?)),
        [first, ..] if first & 0x80 != 0 || value.len() > 4 => None,
        _ => Some(value.iter().fold(0, |n, b| n << 8 | u32::from(*b))),
    }
}

/// Bytes of a number of an identifier that fit 64 bits.
const ARC_BYTES: usize = 9;

/// An identifier as numbers with dots, as Suricata 8.0.7 writes it: the first byte is two of them, whatever it is, a
/// last number without its end counts, and one with a number beyond 64 bits is in hexadecimal.
pub(crate) fn oid_text(value: &[u8]) -> String {
    let Some((first, rest)) = value.split_first() else { return String::new() };
    let mut text = format!("{}.{}", first / 40, first % 40);
    for arc in rest.split_inclusive(|b| b & 0x80 == 0) {
        if arc.len() > ARC_BYTES && arc.last().is_some_and(|b| b & 0x80 == 0) {
            return gabion_record::hex::to_hex_pairs(value, ' ');
        }
        let number = arc.iter().fold(0u64, |n, b| n.wrapping_shl(7) | u64::from(b & 0x7f));
        text.push('.');
        text.push_str(itoa::Buffer::new().format(number));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Identifiers as Suricata 8.0.7 logs them for variables of SNMP.
    #[test]
    fn identifiers() {
        let mut long = vec![0x2b];
        long.extend([0x80; 9]);
        long.push(1);
        let cases: [(&[u8], &str); 12] = [
            (b"", ""),
            (b"\x2b", "1.3"),
            (b"\x2b\x06\x01", "1.3.6.1"),
            (b"\x2b\x80\x80\x01", "1.3.1"),
            (b"\x2b\x81", "1.3.1"),
            (b"\x2b\x06\x80", "1.3.6.0"),
            (b"\x2b\xff\xff\xff\xff\x7f", "1.3.34359738367"),
            (b"\x78\x01", "3.0.1"),
            (b"\x88\x37\x03", "3.16.55.3"),
            (b"\xff", "6.15"),
            (&long, "2b 80 80 80 80 80 80 80 80 80 01"),
            (
                &[0x2b, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80],
                "1.3.0",
            ),
        ];
        for (value, expected) in cases {
            assert_eq!(oid_text(value), expected, "{value:x?}");
        }
    }

    /// X.690 8.1.3: short and long lengths; nothing is read of a part of an element, and nothing is taken for what
    /// a length announces.
    #[test]
    fn lengths() {
        let header = |bytes| Header::from_bytes(bytes);
        let of = |tag, header_len, len| Start::Header(Header { tag, header_len, len });
        assert_eq!(header(b"\x30\x05"), of(0x30, 2, 5));
        assert_eq!(header(b"\x30\x82\x01\x02"), of(0x30, 4, 0x102));
        assert_eq!(header(b"\x30\x84\xff\xff\xff\xff"), of(0x30, 6, 0xffff_ffff));
        assert_eq!([header(b""), header(b"\x30"), header(b"\x30\x82\x01")], [Start::More; 3]);
        assert_eq!(
            [header(b"\x30\x80"), header(b"\x30\x85"), header(b"\x1f\x05")],
            [Start::Wrong; 3]
        );
        let mut r = Reader::new(b"\x02\x01\x07\x04\x02ab\x04\x05a");
        assert_eq!(r.next_if(tag::OCTETS), None);
        assert_eq!(r.next_if(tag::INTEGER), Some(&b"\x07"[..]));
        assert_eq!(r.expect(tag::OCTETS), Some(&b"ab"[..]));
        assert!(r.next().is_none() && !r.is_empty());
    }
}
