//! The NetBIOS session service that carries SMB over TCP (RFC 1002 4.3, MS-SMB2 2.1).

use crate::detect::Probe;
use gabion_record::Direction;

/// Bytes of a message's header.
pub(super) const HEADER_LEN: usize = 4;

/// A session message: what carries SMB.
pub(super) const SESSION_MESSAGE: u8 = 0x00;

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Its type.
    pub(super) kind: u8,
    /// Bytes that follow the header: 24 bits as over port 445, where RFC 1002 has 17.
    pub(super) len: u32,
}

impl Header {
    /// The header at the beginning of these bytes; `None`: more are needed.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Header> {
        let [kind, high, middle, low] = *bytes.first_chunk::<HEADER_LEN>()?;
        Some(Header { kind, len: u32::from_be_bytes([0, high, middle, low]) })
    }

    /// Whether it carries SMB.
    pub(super) fn is_message(self) -> bool {
        self.kind == SESSION_MESSAGE
    }

    /// Header and what follows.
    pub(super) fn total_len(self) -> usize {
        HEADER_LEN + usize::try_from(self.len).unwrap_or(usize::MAX - HEADER_LEN)
    }
}

/// Whether a message belongs to that direction, as far as it shows: where the beginning of a flow was not seen,
/// this is how the server is known.
pub(super) fn probe_message(bytes: &[u8], direction: Direction) -> Probe {
    let message = bytes.get(HEADER_LEN..).unwrap_or_default();
    let is_response = match Family::from_bytes(message) {
        Some(Family::One) => message.get(9).map(|flags| flags & 0x80 != 0),
        Some(Family::Two) => message.get(16).map(|flags| flags & 1 != 0),
        Some(Family::Encrypted) | None => None,
    };
    match is_response {
        Some(is_response) if is_response != (direction == Direction::ToClient) => Probe::No,
        _ => Probe::Yes,
    }
}

/// Whether a server's bytes are SMB after what sets up a session (RFC 1002 4.3.3): a client is recognized by its
/// first message only.
pub(super) fn probe_session(bytes: &[u8], direction: Direction) -> Probe {
    if direction == Direction::ToServer {
        return Probe::No;
    }
    let mut rest = bytes;
    loop {
        let Some(header) = Header::from_bytes(rest) else { return Probe::More };
        if header.is_message() {
            return match rest.get(HEADER_LEN..HEADER_LEN + 4).map(Family::from_bytes) {
                None => Probe::More,
                Some(Some(_)) => Probe::Yes,
                Some(None) => Probe::No,
            };
        }
        if !matches!(header.kind, 0x81..=0x85) {
            return Probe::No;
        }
        match rest.get(header.total_len()..) {
            Some(behind) => rest = behind,
            None => return Probe::More,
        }
    }
}

/// The dialect family of a message by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// SMB 1 (MS-CIFS 2.2.3.1).
    One,
    /// SMB 2 and 3 (MS-SMB2 2.2.1).
    Two,
    /// SMB 3, encrypted (MS-SMB2 2.2.41).
    Encrypted,
}

impl Family {
    /// The family of a message; `None` when it is none of SMB's, or fewer than four bytes are there.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Family> {
        match bytes.first_chunk::<4>()? {
            b"\xffSMB" => Some(Family::One),
            b"\xfeSMB" => Some(Family::Two),
            b"\xfdSMB" => Some(Family::Encrypted),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{ToClient, ToServer};

    #[test]
    fn servers_are_recognized_after_a_session_is_set_up() {
        for (bytes, answer) in [
            (&b"\x82\0\0"[..], Probe::More),
            (b"\x82\0\0\0", Probe::More),
            (b"\x82\0\0\0\0\0\0\x40\xfeSM", Probe::More),
            (b"\x82\0\0\0\0\0\0\x40\xfeSMB", Probe::Yes),
            (b"\x83\0\0\x01\x80\0\0\0\x40\xffSMB", Probe::Yes),
            (b"\0\0\0\x40HTTP", Probe::No),
            (b"\x10\0\0\0", Probe::No),
        ] {
            assert_eq!(probe_session(bytes, ToClient), answer, "{bytes:?}");
            assert_eq!(probe_session(bytes, ToServer), Probe::No);
        }
    }
}
