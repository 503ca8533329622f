//! Headers of packets: the long form of QUIC (RFC 9000 17.2, RFC 9369 3.2) and the forms of Google's versions, as
//! Suricata 8.0.7 reads them. Only Initial packets have a length: any other one takes the rest of its datagram.

use super::keys::{Keys, VERSION_2};

/// What follows a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body<'a> {
    /// An Initial packet: whose number is here, and which ends there.
    Initial { destination: &'a [u8], number_at: usize, end: usize },
    /// The same of a version whose keys are not known: Suricata takes what follows the header for frames.
    Sealed { frames: &'a [u8], end: usize },
    /// An Initial packet in a header that such packets do not have: it can't be opened.
    Unopened,
    /// Frames in the clear.
    Frames(&'a [u8]),
    /// Asks the client to begin again with another id.
    Retry,
    /// Nothing that is looked into.
    Other,
}

/// The header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header<'a> {
    pub(super) version: u32,
    pub(super) body: Body<'a>,
}

/// What a packet has instead of a header that says its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoHeader {
    /// A short header, of a connection that is known.
    Short,
    /// Not enough bytes, or none of QUIC.
    Broken,
}

/// Google's versions whose long headers have a form of their own, and those that have none.
const GOOGLE_46: u32 = u32::from_be_bytes(*b"Q046");
const GOOGLE_43: u32 = u32::from_be_bytes(*b"Q043");
const GOOGLE_45: u32 = u32::from_be_bytes(*b"Q045");

/// Bytes of the hash before frames in the clear.
const HASH_LEN: usize = 12;

/// A number of one, two, four or eight bytes (RFC 9000 16).
pub(super) fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let (&first, tail) = rest.split_first()?;
    let (more, tail) = tail.split_at_checked((1 << (first >> 6)) - 1)?;
    *rest = tail;
    Some(more.iter().fold(u64::from(first & 0x3f), |n, b| n << 8 | u64::from(*b)))
}

/// Bytes after a length of one byte: a connection id.
fn take_id<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (&len, tail) = rest.split_first()?;
    let (id, tail) = tail.split_at_checked(len.into())?;
    *rest = tail;
    Some(id)
}

/// Reads the header of the first packet of a datagram, or of what is left of it.
pub(super) fn read_header(packet: &[u8]) -> Result<Header<'_>, NoHeader> {
    let first = *packet.first().ok_or(NoHeader::Broken)?;
    if first & 0x80 != 0 {
        return read_long_header(first, packet).ok_or(NoHeader::Broken);
    }
    // A connection of Google's versions begins with a header of one byte of flags: 1 says that a version follows.
    if first & 0x41 == 1 {
        return read_public_header(first, packet).ok_or(NoHeader::Broken);
    }
    Err(NoHeader::Short)
}

fn read_long_header(first: u8, packet: &[u8]) -> Option<Header<'_>> {
    let (version, mut rest) = packet.get(1..)?.split_first_chunk::<4>()?;
    let version = u32::from_be_bytes(*version);
    let number = first >> 4 & 3;
    match version {
        GOOGLE_46 => {
            let body = read_google_body(rest, number)?;
            return Some(Header { version, body });
        }
        GOOGLE_43..=GOOGLE_45 => return None,
        _ => {}
    }
    let destination = take_id(&mut rest)?;
    take_id(&mut rest)?;
    // Version 2 numbers the kinds in another way (RFC 9369 3.2).
    let number = if version == VERSION_2 { number.wrapping_sub(1) & 3 } else { number };
    let body = match number {
        _ if version == 0 => Body::Other,
        0 => {
            let token = usize::try_from(take_varint(&mut rest)?).ok()?;
            rest = rest.get(token..)?;
            let len = usize::try_from(take_varint(&mut rest)?).ok()?;
            let number_at = packet.len().checked_sub(rest.len())?;
            let end = number_at.checked_add(len).filter(|end| *end <= packet.len())?;
            if Keys::are_known(version) {
                Body::Initial { destination, number_at, end }
            } else {
                Body::Sealed { frames: packet.get(number_at..end)?, end }
            }
        }
        3 => Body::Retry,
        _ => Body::Other,
    };
    Some(Header { version, body })
}

/// Both lengths of ids in one byte, three less than they are, packet number and hash.
fn read_google_body(rest: &[u8], number: u8) -> Option<Body<'_>> {
    let (lens, rest) = rest.split_first()?;
    let id_len = |len: u8| if len == 0 { 0 } else { usize::from(len) + 3 };
    let rest = rest.get(id_len(lens >> 4) + id_len(lens & 15)..)?;
    let frames = rest.get(4 + HASH_LEN..)?;
    Some(if number == 0 { Body::Frames(frames) } else { Body::Other })
}

/// Flags, the connection's id (8), or a nonce (4), version, packet number (0x30: its length), hash.
fn read_public_header(first: u8, packet: &[u8]) -> Option<Header<'_>> {
    let has_id = first & 8 != 0;
    let before = match first & 0x0c {
        0 => 0,
        4 => 32,
        _ => 8,
    };
    let (version, rest) = packet.get(1 + before..)?.split_first_chunk::<4>()?;
    let version = u32::from_be_bytes(*version);
    let number_len = usize::from(first >> 4 & 3) + 1;
    let frames = rest.get(number_len + if has_id { HASH_LEN } else { 0 }..)?;
    let is_sealed = Keys::are_known(version);
    let body = if is_sealed { Body::Unopened } else { Body::Frames(frames) };
    Some(Header { version, body })
}
