//! Reads PostgreSQL's messages (version 3 of its protocol, "Message Formats" of its manual): the startup messages,
//! which have no type, and those with a type before their length.

use super::limits::reached;
use crate::detect::Probe;
use gabion_record::Direction::{self, ToClient, ToServer};

/// Codes in the place of a version.
const CANCEL: u32 = 80_877_102;
const SSL: u32 = 80_877_103;

/// A type, where the message has one, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// `None`: a startup message.
    pub(super) kind: Option<u8>,
    /// Bytes of the message, head included.
    pub(super) total: u64,
    /// Bytes after the head.
    pub(super) body: u64,
}

/// Length of a message that can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidLength;

impl Head {
    /// The head at the beginning of `bytes`; `None`: more is needed.
    pub(super) fn from_bytes(bytes: &[u8], d: Direction) -> Result<Option<Head>, InvalidLength> {
        let Some((&first, _)) = bytes.split_first() else { return Ok(None) };
        // No message of a client is so long that its length could begin with another byte.
        let kind = (d != ToServer || first != 0).then_some(first);
        let at = usize::from(kind.is_some());
        let Some(length) = bytes.get(at..at + 4).and_then(|b| b.try_into().ok()) else {
            return Ok(None);
        };
        // The length counts itself.
        let length = u64::from(u32::from_be_bytes(length));
        let least = if kind.is_some() { 4 } else { 8 };
        if length < least {
            return Err(InvalidLength);
        }
        Ok(Some(Head { kind, total: at as u64 + length, body: length - 4 }))
    }

    /// Whether a message of this type may have a body of this length (measured with Suricata 8.0.7).
    pub(super) fn has_valid_length(self, d: Direction) -> bool {
        let Some(kind) = self.kind else { return true };
        match (d, kind) {
            (ToServer, b'X' | b'c') | (ToClient, b'c') => self.body == 0,
            (ToServer, b'd' | b'f') | (ToClient, b'd') => self.body > 0,
            (ToClient, b'Z') => self.body == 1,
            (ToClient, b'K') => self.body == 8,
            (ToClient, b'T' | b'D') => self.body > 2,
            (ToClient, b'G' | b'H') => self.body > 2,
            (ToClient, b'E') => self.body > 5,
            (ToClient, b'R') => self.body >= 4,
            _ => true,
        }
    }
}

/// A message without a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Opening<'a> {
    Ssl,
    Cancel {
        process: u32,
        key: u32,
    },
    Startup {
        major: u16,
        minor: u16,
        user: &'a [u8],
        /// The other parameters.
        parameters: Vec<(&'a [u8], &'a [u8])>,
    },
    /// A request or a version that is not known.
    Unknown,
    /// Parameters that can't be read.
    Malformed,
}

/// Reads a startup message, of which `body` follows the length.
pub(super) fn read_opening(body: &[u8]) -> Opening<'_> {
    let Some((code, rest)) = split_u32(body) else { return Opening::Malformed };
    match (code, code >> 16) {
        (SSL, _) => Opening::Ssl,
        (CANCEL, _) => match (split_u32(rest), rest.len()) {
            (Some((process, key)), 8) => match split_u32(key) {
                Some((key, _)) => Opening::Cancel { process, key },
                None => Opening::Malformed,
            },
            _ => Opening::Malformed,
        },
        (_, major @ 1..=3) => read_parameters(major as u16, code as u16, rest),
        _ => Opening::Unknown,
    }
}

fn read_parameters(major: u16, minor: u16, mut rest: &[u8]) -> Opening<'_> {
    let (mut user, mut parameters) = (None, Vec::new());
    loop {
        let Some((name, after)) = split_text(rest) else { return Opening::Malformed };
        if name.is_empty() {
            break;
        }
        let Some((value, after)) = split_text(after) else { return Opening::Malformed };
        if name == b"user" {
            user = Some(value);
        } else if reached::PARAMETERS_MAX.has_room(parameters.len()) {
            parameters.push((name, value));
        }
        rest = after;
    }
    match user.filter(|user| !user.is_empty()) {
        Some(user) => Opening::Startup { major, minor, user, parameters },
        None => Opening::Malformed,
    }
}

/// A number in front of the rest.
pub(super) fn split_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*number), rest))
}

fn split_u16(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<2>()?;
    Some((u16::from_be_bytes(*number), rest))
}

/// A text that ends with a zero byte, and what follows it.
pub(super) fn split_text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(0, bytes)?;
    Some((bytes.get(..at)?, bytes.get(at + 1..)?))
}

/// Columns of a row description, and whether they are as many as it says.
pub(super) fn count_fields(body: &[u8]) -> (u16, bool) {
    let Some((count, mut rest)) = split_u16(body) else { return (0, false) };
    for _ in 0..count {
        let after = split_text(rest).and_then(|(_, rest)| rest.get(18..));
        let Some(after) = after else { return (count, false) };
        rest = after;
    }
    (count, rest.is_empty())
}

/// Bytes of the values of a row; `None`: they are not as it says.
pub(super) fn row_size(body: &[u8]) -> Option<u64> {
    let (count, mut rest) = split_u16(body)?;
    let mut size = 0;
    for _ in 0..count {
        let (len, after) = split_u32(rest)?;
        // A negative length is no value.
        let len = if (len as i32) < 0 { 0 } else { len as usize };
        rest = after.get(len..)?;
        size += len as u64;
    }
    rest.is_empty().then_some(size)
}

/// Columns of a copy; `None`: they are not as many as it says.
pub(super) fn copy_columns(body: &[u8]) -> Option<u16> {
    let (count, rest) = split_u16(body.get(1..)?)?;
    (rest.len() == usize::from(count) * 2).then_some(count)
}

/// Fields of an error: type and value.
pub(super) fn read_error(body: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let (mut rest, mut fields) = (body, Vec::new());
    loop {
        let (&kind, after) = rest.split_first()?;
        match kind {
            0 => return after.is_empty().then_some(fields),
            b'C' => {
                // A code has five characters: Suricata does not look for its end.
                let (code, after) = after.split_first_chunk::<5>()?;
                let text = code.split(|b| *b == 0).next().unwrap_or_default();
                fields.push((kind, text));
                rest = after.get(1..)?;
            }
            _ => {
                let (text, after) = split_text(after)?;
                fields.push((kind, text));
                rest = after;
            }
        }
        // Each type once is all that there are.
        if fields.len() > usize::from(u8::MAX) {
            return None;
        }
    }
}

/// Mechanisms of SASL as records name them.
pub(super) fn mechanism_name(mechanism: &[u8]) -> Option<&'static str> {
    match mechanism {
        b"SCRAM-SHA-256" => Some("scram_SHA256"),
        b"SCRAM-SHA-256-PLUS" => Some("scram_SHA256_plus"),
        _ => None,
    }
}

/// Whether all mechanisms of a list are known.
pub(super) fn are_known_mechanisms(mut list: &[u8]) -> bool {
    while let Some((mechanism, rest)) = split_text(list) {
        if mechanism.is_empty() {
            return true;
        }
        if mechanism_name(mechanism).is_none() {
            return false;
        }
        list = rest;
    }
    false
}

/// The first bytes of a side are a message.
pub(super) fn probe(bytes: &[u8], d: Direction) -> Probe {
    if d == ToClient && matches!(bytes, b"S" | b"N") {
        return Probe::Yes;
    }
    let head = match Head::from_bytes(bytes, d) {
        Ok(Some(head)) => head,
        Ok(None) => return Probe::More,
        Err(InvalidLength) => return Probe::No,
    };
    if !reached::PROBED_BYTES_MAX.holds(head.total as usize) {
        return Probe::No;
    }
    let at = (head.total - head.body) as usize;
    let whole = usize::try_from(head.total).ok().and_then(|total| bytes.get(at..total));
    let Some(body) = whole else { return Probe::More };
    let is_it = match (head.kind, d) {
        (None, _) => !matches!(read_opening(body), Opening::Unknown | Opening::Malformed),
        (Some(b'R'), ToClient) => {
            matches!(split_u32(body), Some((0 | 3 | 5 | 9 | 10 | 11 | 12, _)))
        }
        _ => true,
    };
    if is_it { Probe::Yes } else { Probe::No }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths 0 and 3 can't be; the largest is waited for, and nothing is allocated for it.
    #[test]
    fn lengths() {
        let head = |b: &[u8]| Head::from_bytes(b, ToServer);
        assert_eq!(head(b"Q\0\0\0"), Ok(None));
        assert_eq!(head(b"Q\0\0\0\0"), Err(InvalidLength));
        assert_eq!(head(b"Q\0\0\0\x03"), Err(InvalidLength));
        assert_eq!(head(b"\0\0\0\x03"), Err(InvalidLength));
        let largest = Head { kind: Some(b'Q'), total: 1 << 32, body: (1 << 32) - 5 };
        assert_eq!(head(b"Q\xff\xff\xff\xff"), Ok(Some(largest)));
        assert_eq!(probe(b"Q\xff\xff\xff\xff", ToServer), Probe::No);
    }

    #[test]
    fn rows_and_columns() {
        assert_eq!(count_fields(b"\0\x02a\0\0\0\0\0\0\0"), (2, false));
        assert_eq!(
            count_fields(b"\0\x01a\0\0\0\0\x01\0\x01\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0"),
            (1, true)
        );
        assert_eq!(row_size(b"\0\x02\0\0\0\x02ab\xff\xff\xff\xff"), Some(2));
        assert_eq!(row_size(b"\0\x01\0\0\0\x64abc"), None);
        assert_eq!(copy_columns(b"\0\0\x02\0\0\0\0"), Some(2));
        assert_eq!(copy_columns(b"\0\0\x02\0\0"), None);
    }

    /// As Suricata 8.0.7 reads codes of four and of six characters.
    #[test]
    fn errors() {
        let all = |b| read_error(b).map(|f| f.len());
        assert_eq!(all(b"SERROR\0C12345\0Mx\0\0"), Some(3));
        assert_eq!(read_error(b"C1234\0Mx\0\0"), Some(vec![(b'C', &b"1234"[..]), (b'x', b"")]));
        assert_eq!(all(b"C123456\0Mx\0\0"), None);
        assert_eq!(all(b"SERROR\0"), None);
    }
}
