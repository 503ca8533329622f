//! The NetBIOS session service that carries SMB over TCP (RFC 1002 4.3, MS-SMB2 2.1).

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
