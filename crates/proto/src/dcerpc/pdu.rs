//! Messages of the connection-oriented protocol (C706 12.6): the header that all begin with, the
//! interfaces that a bind offers and its answer accepts, calls and their answers.

use super::limits::reached;
use super::uuid::Uuid;

/// Bytes of the header that every message begins with (C706 12.6.3.1).
pub const HEADER_BYTES: usize = 16;

/// Types of messages (C706 12.6.4.1).
pub mod kind {
    #![allow(missing_docs)]
    pub const REQUEST: u8 = 0;
    pub const PING: u8 = 1;
    pub const RESPONSE: u8 = 2;
    pub const FAULT: u8 = 3;
    pub const WORKING: u8 = 4;
    pub const NOCALL: u8 = 5;
    pub const REJECT: u8 = 6;
    pub const ACK: u8 = 7;
    pub const CL_CANCEL: u8 = 8;
    pub const FACK: u8 = 9;
    pub const CANCEL_ACK: u8 = 10;
    pub const BIND: u8 = 11;
    pub const BIND_ACK: u8 = 12;
    pub const BIND_NAK: u8 = 13;
    pub const ALTER_CONTEXT: u8 = 14;
    pub const ALTER_CONTEXT_RESP: u8 = 15;
    pub const AUTH3: u8 = 16;
    pub const SHUTDOWN: u8 = 17;
    pub const CO_CANCEL: u8 = 18;
    pub const ORPHANED: u8 = 19;
    pub const RTS: u8 = 20;
}

/// Names of the types, as EVE writes them.
const NAMES: [&str; 21] = [
    "REQUEST",
    "PING",
    "RESPONSE",
    "FAULT",
    "WORKING",
    "NOCALL",
    "REJECT",
    "ACK",
    "CL_CANCEL",
    "FACK",
    "CANCEL_ACK",
    "BIND",
    "BINDACK",
    "BINDNAK",
    "ALTER_CONTEXT",
    "ALTER_CONTEXT_RESP",
    "AUTH3",
    "SHUTDOWN",
    "CO_CANCEL",
    "ORPHANED",
    "RTS",
];

/// The name of a type, as EVE writes it.
pub fn kind_name(kind: u8) -> &'static str {
    NAMES.get(usize::from(kind)).copied().unwrap_or("UNKNOWN")
}

/// Flags of a header (C706 12.6.3.1).
mod flag {
    pub(super) const FIRST: u8 = 0x01;
    pub(super) const LAST: u8 = 0x02;
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// 5.
    pub version: u8,
    /// 0 or 1.
    pub minor: u8,
    /// Type of the message, see [`kind`].
    pub kind: u8,
    /// First, last fragment and others.
    pub flags: u8,
    /// Numbers are in little-endian order.
    pub is_little: bool,
    /// Bytes of the message with this header.
    pub len: u16,
    /// Bytes of the authentication data at its end.
    pub auth_len: u16,
    /// Number of the call.
    pub call_id: u32,
}

impl Header {
    /// Reads the first [`HEADER_BYTES`]; `None` when there are fewer.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let head: &[u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
        let is_little = head[4] & 0x10 != 0;
        let r = Fields { rest: bytes.get(8..)?, is_little };
        let (len, r) = r.u16()?;
        let (auth_len, r) = r.u16()?;
        let (call_id, _) = r.u32()?;
        let [version, minor, kind, flags, ..] = *head;
        Some(Header { version, minor, kind, flags, is_little, len, auth_len, call_id })
    }

    /// The first fragment of a message.
    pub fn is_first(&self) -> bool {
        self.flags & flag::FIRST != 0
    }

    /// The last fragment of a message.
    pub fn is_last(&self) -> bool {
        self.flags & flag::LAST != 0
    }
}

/// What the server decided about an offered interface (C706 12.6.3.1, `p_result_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// 0: accepted.
    pub result: u16,
    /// Why not.
    pub reason: u16,
}

/// An interface that a bind or alter_context offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Number by which calls name it.
    pub context_id: u16,
    /// Which it is.
    pub uuid: Uuid,
    /// Major and minor version.
    pub version: (u16, u16),
    /// The first fragment of a bind offered it: rules on interfaces see only these, unless they say
    /// `any_frag` (as Suricata 8.0.7 does; the flags of calls do not matter to it).
    pub is_of_first_fragment: bool,
    /// The server's decision, once it came.
    pub ack: Option<Ack>,
}

impl Interface {
    /// The server accepted it.
    pub fn is_accepted(&self) -> bool {
        self.ack.is_some_and(|ack| ack.result == 0)
    }
}

/// A call or its answer: one fragment of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// Number of the context, which stands for an interface.
    pub context_id: u16,
    /// Number of the operation (of calls only).
    pub opnum: Option<u16>,
    /// What follows up to the end of the message: an object's identifier and authentication data
    /// included, as Suricata 8.0.7 counts it (184 bytes of a call of 208 with both).
    pub stub: &'a [u8],
}

/// Fields of a message, in its byte order.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) rest: &'a [u8],
    pub(super) is_little: bool,
}

impl<'a> Fields<'a> {
    pub(super) fn bytes<const N: usize>(self) -> Option<([u8; N], Fields<'a>)> {
        let (head, rest) = self.rest.split_at_checked(N)?;
        Some((head.try_into().ok()?, Fields { rest, ..self }))
    }

    pub(super) fn u16(self) -> Option<(u16, Fields<'a>)> {
        let (b, r) = self.bytes()?;
        Some((if self.is_little { u16::from_le_bytes(b) } else { u16::from_be_bytes(b) }, r))
    }

    pub(super) fn u32(self) -> Option<(u32, Fields<'a>)> {
        let (b, r) = self.bytes()?;
        Some((if self.is_little { u32::from_le_bytes(b) } else { u32::from_be_bytes(b) }, r))
    }

    pub(super) fn uuid(self) -> Option<(Uuid, Fields<'a>)> {
        let (b, r) = self.bytes()?;
        Some((Uuid::from_wire(b, self.is_little), r))
    }

    pub(super) fn skip(self, n: usize) -> Option<Fields<'a>> {
        Some(Fields { rest: self.rest.get(n..)?, ..self })
    }
}

/// The body of a message: what follows its header.
fn body<'a>(header: &Header, message: &'a [u8]) -> Option<Fields<'a>> {
    Some(Fields { rest: message.get(HEADER_BYTES..)?, is_little: header.is_little })
}

/// Bytes of an offered interface with its transfer syntax.
const OFFER_BYTES: usize = 44;

/// The interfaces that a bind or alter_context offers (C706 12.6.4.3). `None`: it is cut. An offer may
/// have several transfer syntaxes; as Suricata 8.0.7 does, each is read as if it had one, so that what
/// follows one with two is not what was offered. A version is one number of 32 bits, whose upper half is
/// the minor version (C706 12.6.3.1, `p_syntax_id_t`).
pub fn parse_offers(header: &Header, message: &[u8]) -> Option<Vec<Interface>> {
    // Two sizes of fragments, a group, the number of interfaces, three bytes reserved.
    let r = body(header, message)?.skip(8)?;
    let ([count, _, _, _], mut r) = r.bytes()?;
    let mut offers = Vec::new();
    for _ in 0..count {
        let behind = r.skip(OFFER_BYTES)?;
        let (context_id, fields) = r.u16()?;
        let (uuid, fields) = fields.skip(2)?.uuid()?;
        let (version, _) = fields.u32()?;
        if reached::INTERFACES_PER_BIND_MAX.has_room(offers.len()) {
            offers.push(Interface {
                context_id,
                uuid,
                version: (version as u16, (version >> 16) as u16),
                is_of_first_fragment: header.is_first(),
                ack: None,
            });
        }
        r = behind;
    }
    Some(offers)
}

/// The decisions of a bind_ack or alter_context_resp (C706 12.6.4.4), in the order of the offers.
/// `None`: it is cut.
pub fn parse_acks(header: &Header, message: &[u8]) -> Option<Vec<Ack>> {
    let r = body(header, message)?.skip(8)?;
    // The secondary address, then zeros up to a multiple of four from the message's start.
    let (address_len, r) = r.u16()?;
    let used = HEADER_BYTES + 10 + usize::from(address_len);
    let r = r.skip(usize::from(address_len))?.skip(used.wrapping_neg() & 3)?;
    let ([count, _, _, _], mut r) = r.bytes()?;
    let mut acks = Vec::new();
    for _ in 0..count {
        let (result, fields) = r.u16()?;
        let (reason, fields) = fields.u16()?;
        // The transfer syntax.
        r = fields.skip(20)?;
        if reached::INTERFACES_PER_BIND_MAX.has_room(acks.len()) {
            acks.push(Ack { result, reason });
        }
    }
    Some(acks)
}

/// A call (C706 12.6.4.9). `None`: it is cut before its stub data.
pub fn parse_request<'a>(header: &Header, message: &'a [u8]) -> Option<Fragment<'a>> {
    let r = body(header, message)?.skip(4)?;
    let (context_id, r) = r.u16()?;
    let (opnum, r) = r.u16()?;
    Some(Fragment { context_id, opnum: Some(opnum), stub: r.rest })
}
