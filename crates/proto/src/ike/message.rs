//! Headers and payloads of IKE messages: both versions have the same (RFC 2408 3.1, RFC 7296 3.1).

use super::limits::reached;

/// Bytes of a header.
const HEADER_LEN: usize = 28;

/// A header.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Header {
    pub(super) initiator: [u8; 8],
    pub(super) responder: [u8; 8],
    pub(super) first_payload: u8,
    pub(super) version: u8,
    pub(super) exchange: u8,
    pub(super) flags: u8,
    pub(super) message_id: u32,
}

/// A payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Payload<'a> {
    pub(super) kind: u8,
    /// The type of the payload after it.
    pub(super) next: u8,
    pub(super) body: &'a [u8],
}

/// Why payloads ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With the last one.
    Whole,
    /// The next one is not there: nothing is.
    Missing,
    /// One is longer than what is left.
    Short,
    /// One is shorter than its own header.
    Broken,
}

/// The header and what follows it. `None`: there is no header.
pub(super) fn read_header(bytes: &[u8]) -> Option<(Header, usize, &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<HEADER_LEN>()?;
    let (initiator, tail) = header.split_first_chunk::<8>()?;
    let (responder, tail) = tail.split_first_chunk::<8>()?;
    let (&[first_payload, version, exchange, flags], tail) = tail.split_first_chunk::<4>()?;
    let (message_id, len) = tail.split_first_chunk::<4>()?;
    let len = u32::from_be_bytes(len.try_into().ok()?);
    let header = Header {
        initiator: *initiator,
        responder: *responder,
        first_payload,
        version,
        exchange,
        flags,
        message_id: u32::from_be_bytes(*message_id),
    };
    Some((header, usize::try_from(len).ok()?, rest))
}

/// Walks over a chain of payloads (or proposals, or transforms, which have the same headers).
pub(super) fn walk_payloads<'a>(
    first: u8,
    mut rest: &'a [u8],
    mut take: impl FnMut(Payload<'a>),
) -> End {
    let mut kind = first;
    let mut count = 0;
    while kind != 0 {
        if rest.is_empty() {
            return End::Missing;
        }
        if !reached::PAYLOADS_MAX.has_room(count) {
            return End::Whole;
        }
        count += 1;
        let Some((&[next, _, high, low], _)) = rest.split_first_chunk::<4>() else {
            return End::Short;
        };
        let len = usize::from(u16::from_be_bytes([high, low]));
        if len < 4 {
            return End::Broken;
        }
        let Some((payload, tail)) = rest.split_at_checked(len) else { return End::Short };
        take(Payload { kind, next, body: payload.get(4..).unwrap_or_default() });
        (kind, rest) = (next, tail);
    }
    End::Whole
}
