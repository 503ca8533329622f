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
    /// With the last one, and there are bytes after it.
    Left,
    /// The next one is not there: nothing is.
    Missing,
    /// One is longer than what is left.
    Short,
    /// One is shorter than its own header: it is empty.
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

/// Reads the payload at the beginning of these bytes; returns what is after it. `Err`: why it is the last one.
pub(super) fn read_payload(kind: u8, bytes: &[u8]) -> Result<(Payload<'_>, &[u8]), End> {
    if bytes.is_empty() {
        return Err(End::Missing);
    }
    let Some((&[next, _, high, low], _)) = bytes.split_first_chunk::<4>() else {
        return Err(End::Short);
    };
    let len = usize::from(u16::from_be_bytes([high, low]));
    if len < 4 {
        return Err(End::Broken);
    }
    let (payload, tail) = bytes.split_at_checked(len).ok_or(End::Short)?;
    Ok((Payload { kind, next, body: payload.get(4..).unwrap_or_default() }, tail))
}

/// Walks over a chain of payloads (or proposals, or transforms, which have the same headers) up to one that names
/// none after it.
pub(super) fn walk_payloads<'a>(
    first: u8,
    mut rest: &'a [u8],
    mut take: impl FnMut(Payload<'a>),
) -> End {
    let mut kind = first;
    let mut count = 0;
    while kind != 0 {
        if !rest.is_empty() && !reached::PAYLOADS_MAX.has_room(count) {
            return End::Whole;
        }
        count += 1;
        match read_payload(kind, rest) {
            Ok((payload, tail)) => {
                (kind, rest) = (payload.next, tail);
                take(payload);
            }
            Err(end) => {
                if end == End::Broken {
                    take(Payload { kind, next: 0, body: &[] });
                }
                return end;
            }
        }
    }
    if rest.is_empty() { End::Whole } else { End::Left }
}
