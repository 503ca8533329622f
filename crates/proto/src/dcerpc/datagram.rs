//! Messages of the connectionless protocol (C706 12.5): a header of 80 bytes that says everything, then
//! stub data.

use super::pdu::{Fields, kind};
use super::uuid::Uuid;
use crate::detect::Probe;
use gabion_record::Direction;

/// Bytes of the header that every datagram begins with (C706 12.5.2.1).
pub const DATAGRAM_HEADER_BYTES: usize = 80;

/// The version of the connectionless protocol.
pub const DATAGRAM_VERSION: u8 = 4;

/// Flags of a datagram (C706 12.5.2.4).
pub mod datagram_flag {
    /// The last fragment of several.
    pub const LAST_FRAGMENT: u8 = 0x02;
    /// One of several fragments.
    pub const FRAGMENT: u8 = 0x04;
}

/// The header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Type of the message, see [`super::pdu::kind`].
    pub kind: u8,
    /// First set of flags.
    pub flags: u8,
    /// Numbers are in little-endian order: any label but 0 says so to Suricata 8.0.7.
    pub is_little: bool,
    /// Interface.
    pub interface: Uuid,
    /// Activity: calls of a client that follow one another.
    pub activity: Uuid,
    /// Version of the interface: major and minor.
    pub version: (u16, u16),
    /// Number of the call in its activity.
    pub sequence: u32,
    /// Number of the operation.
    pub opnum: u16,
    /// Bytes of stub data that follow.
    pub len: u16,
    /// Number of the fragment, from 0.
    pub fragment: u16,
}

impl Datagram {
    /// Reads the header; `None` when it is cut or of another protocol.
    pub fn parse(bytes: &[u8]) -> Option<Datagram> {
        let head = bytes.get(..DATAGRAM_HEADER_BYTES)?;
        let [version, kind, flags, _, order, _, _, _] = *head.first_chunk::<8>()?;
        if version != DATAGRAM_VERSION {
            return None;
        }
        let is_little = order != 0;
        // The object's identifier comes first.
        let r = Fields { rest: head.get(24..)?, is_little };
        let (interface, r) = r.uuid()?;
        // Suricata 8.0.7 shows the identifier as if its numbers were always in little-endian order.
        let (activity, r) = r.bytes()?;
        let activity = Uuid::from_wire(activity, true);
        // When the server was booted.
        let (if_version, r) = r.skip(4)?.u32()?;
        let (sequence, r) = r.u32()?;
        let (opnum, r) = r.u16()?;
        // Hints about the interface and the activity.
        let (len, r) = r.skip(4)?.u16()?;
        let (fragment, _) = r.u16()?;
        let version = (if_version as u16, (if_version >> 16) as u16);
        Some(Datagram {
            kind,
            flags,
            is_little,
            interface,
            activity,
            version,
            sequence,
            opnum,
            len,
            fragment,
        })
    }
}

/// Whether a flow's first datagram is a call. What Suricata 8.0.7 looks at: type, flags, the label of the
/// data's representation, fragment and length.
pub(super) fn probe(bytes: &[u8], _: Direction) -> Probe {
    let Some(head) = Datagram::parse(bytes) else { return Probe::No };
    let [_, _, _, flags, order, float, ..] = *bytes else { return Probe::No };
    let is_labelled = flags & 0xfc == 0 && order & 0xee == 0 && float <= 3;
    let is_first = head.kind == kind::REQUEST && head.fragment == 0;
    let fits = usize::from(head.len) <= bytes.len() - DATAGRAM_HEADER_BYTES;
    if is_labelled && is_first && fits { Probe::Yes } else { Probe::No }
}
