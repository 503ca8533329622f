//! As much of BER (X.690) as SNMP needs: elements of definite length, small numbers, identifiers.

/// Tags.
pub(super) const INTEGER: u8 = 0x02;
pub(super) const OCTETS: u8 = 0x04;
pub(super) const OID: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const IP_ADDRESS: u8 = 0x40;

/// An element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element<'a> {
    pub(super) tag: u8,
    pub(super) value: &'a [u8],
}

/// Elements, one after the other.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Reader<'a> {
        Reader { rest }
    }

    /// The next element; `None` when there is none, or a part of one.
    pub(super) fn next(&mut self) -> Option<Element<'a>> {
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

    /// The next element's value, if it has that tag.
    pub(super) fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|e| e.tag == tag).map(|e| e.value)
    }
}

/// A number that is not negative and fits 32 bits.
pub(super) fn number(value: &[u8]) -> Option<u32> {
    match value {
        [] => None,
        [0, rest @ ..] if rest.len() == 4 => Some(u32::from_be_bytes(rest.try_into().ok()?)),
        [first, ..] if first & 0x80 != 0 || value.len() > 4 => None,
        _ => Some(value.iter().fold(0, |n, b| n << 8 | u32::from(*b))),
    }
}

/// An identifier as numbers with dots.
pub(super) fn oid_text(value: &[u8]) -> String {
    let mut text = String::new();
    let mut arc = 0u64;
    for (i, b) in value.iter().enumerate() {
        if i == 0 {
            text = format!("{}.{}", (b / 40).min(2), b - 40 * (b / 40).min(2));
            continue;
        }
        arc = arc.wrapping_shl(7) | u64::from(b & 0x7f);
        if b & 0x80 == 0 {
            text.push('.');
            text.push_str(itoa::Buffer::new().format(arc));
            arc = 0;
        }
    }
    text
}
