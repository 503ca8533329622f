//! Where messages begin again after lost bytes.
//!
//! Each byte is tried, so that any split of the stream gives the same records; Suricata 8.0.7 tries the first byte of
//! each segment.

use super::limits::reached;
use super::message::Message;
use crate::ber::{Header, Start, tag};

/// Tags of operations (RFC 4511 appendix B).
const OPERATIONS: [u8; 22] = [
    0x60, 0x61, 0x42, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x4a, 0x6b, 0x6c, 0x6d, 0x6e,
    0x6f, 0x50, 0x73, 0x77, 0x78, 0x79,
];

/// Bytes of the number of a message at most.
const ID_BYTES: usize = 4;

/// Whether a message may begin with these bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// One with that many bytes may.
    Message(usize),
    /// More bytes have to be seen.
    More,
    /// None does.
    Nothing,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A message begins here.
    At(usize),
    /// One may begin here, of which that many bytes are needed.
    Needs { at: usize, needed: usize },
    /// None begins, nor may one in the last bytes.
    Nothing,
    /// Too many places looked like one and were none: no more are tried.
    Ended,
}

/// Finds the first message. `false_starts` counts the places of a direction that looked like one and were none.
pub(super) fn find_message(bytes: &[u8], false_starts: &mut usize) -> Found {
    for at in 0..bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        let len = match look_at(rest) {
            Look::Nothing => continue,
            Look::More => return Found::Needs { at, needed: rest.len() + 1 },
            Look::Message(len) => len,
        };
        let Some(whole) = rest.get(..len) else { return Found::Needs { at, needed: len } };
        if Message::parse(whole).is_ok() {
            return Found::At(at);
        }
        if !reached::FALSE_STARTS_MAX.has_room(*false_starts) {
            return Found::Ended;
        }
        *false_starts += 1;
    }
    Found::Nothing
}

/// A sequence with a number and an operation that fits into it.
fn look_at(bytes: &[u8]) -> Look {
    message_len(bytes).map_or_else(|look| look, Look::Message)
}

fn message_len(bytes: &[u8]) -> Result<usize, Look> {
    let outer = read_header(bytes, |tag| tag == tag::SEQUENCE)?;
    let inner = bytes.get(outer.header_len..).unwrap_or_default();
    // A header takes two bytes at least.
    let id_bytes = outer.len.checked_sub(2).ok_or(Look::Nothing)?.min(2 + ID_BYTES);
    let id = read_header(inner, |tag| tag == tag::INTEGER)?;
    let left = outer.len - id.total_len().min(outer.len);
    if id.len == 0 || id.total_len() > id_bytes || left < 2 {
        return Err(Look::Nothing);
    }
    let behind = inner.get(id.total_len()..).unwrap_or_default();
    let operation = read_header(behind, |tag| OPERATIONS.contains(&tag))?;
    if operation.total_len() > left {
        return Err(Look::Nothing);
    }
    Ok(outer.total_len())
}

/// The header of an element with such a tag.
fn read_header(bytes: &[u8], is_it: impl Fn(u8) -> bool) -> Result<Header, Look> {
    match Header::from_bytes(bytes) {
        _ if bytes.first().is_some_and(|tag| !is_it(*tag)) => Err(Look::Nothing),
        Start::Header(header) => Ok(header),
        Start::More => Err(Look::More),
        Start::Wrong => Err(Look::Nothing),
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::FALSE_STARTS_MAX;
    use super::*;

    /// An unbinding with the number 5 (RFC 4511 4.3).
    const UNBIND: &[u8] = b"\x30\x05\x02\x01\x05\x42\0";

    /// What comes before a message is left out, whatever it is, and each cut leaves the message to be waited for.
    #[test]
    fn messages_are_found_behind_anything() {
        let befores: [&[u8]; 8] = [
            b"",
            b"rest of a message",
            b"\0\0\0\x10\x05\x04\x04\xff",
            b"\x30",
            b"\x30\x03\x02\x01\x07",
            b"\x30\x05\x02\x01\x05\x55\0",
            b"\x30\x05\x02\x05\x05\x42\0",
            b"\x30\x05\x02\x01\x05\x42\x01",
        ];
        for before in befores {
            let all = [before, UNBIND, b"more"].concat();
            assert_eq!(find_message(&all, &mut 0), Found::At(before.len()), "{before:x?}");
            for end in before.len() + 1..before.len() + UNBIND.len() {
                let found = find_message(&all[..end], &mut 0);
                let Found::Needs { at, needed } = found else { panic!("{found:?} {before:x?}") };
                assert!(at <= before.len() && at + needed > end, "{found:?} {before:x?}");
            }
        }
        assert_eq!(find_message(b"no message", &mut 0), Found::Nothing);
    }

    /// Places that look like a message and are none are tried up to a number.
    #[test]
    fn false_starts_are_bounded() {
        // A response without its result.
        let wrong = b"\x30\x05\x02\x01\x05\x65\0";
        for (count, expected) in [
            (FALSE_STARTS_MAX, Found::At(FALSE_STARTS_MAX * wrong.len())),
            (FALSE_STARTS_MAX + 1, Found::Ended),
        ] {
            let mut false_starts = 0;
            let all = [&wrong.repeat(count)[..], UNBIND].concat();
            assert_eq!(find_message(&all, &mut false_starts), expected);
            assert_eq!(false_starts, FALSE_STARTS_MAX);
        }
        let counts = gabion_record::limits::take_reached();
        assert_eq!(counts.times_reached(&reached::FALSE_STARTS_MAX), 1);
    }
}
