//! Headers of SMB messages.

use super::wire::{u8_at, u16_at, u32_at, u64_at};

/// The header of an SMB 1 message (MS-CIFS 2.2.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header1 {
    pub(super) command: u8,
    /// As on the wire: a status of NT, or an error of DOS.
    pub(super) status: u32,
    /// The status is one of NT.
    pub(super) is_nt_status: bool,
    /// It is a response.
    pub(super) is_response: bool,
    /// Texts are in UTF-16.
    pub(super) is_unicode: bool,
    pub(super) tree_id: u16,
    pub(super) process_id: u32,
    pub(super) user_id: u16,
    pub(super) multiplex_id: u16,
}

impl Header1 {
    /// Bytes of it.
    pub(super) const LEN: usize = 32;

    /// The header that a message begins with.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Header1> {
        let bytes = bytes.get(..Header1::LEN)?;
        let flags2 = u16_at(bytes, 10)?;
        let process_high = u32::from(u16_at(bytes, 12)?);
        Some(Header1 {
            command: u8_at(bytes, 4)?,
            status: u32_at(bytes, 5)?,
            is_nt_status: flags2 & 0x4000 != 0,
            is_response: u8_at(bytes, 9)? & 0x80 != 0,
            is_unicode: flags2 & 0x8000 != 0,
            tree_id: u16_at(bytes, 24)?,
            process_id: process_high << 16 | u32::from(u16_at(bytes, 26)?),
            user_id: u16_at(bytes, 28)?,
            multiplex_id: u16_at(bytes, 30)?,
        })
    }
}

/// The header of an SMB 2 message (MS-SMB2 2.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header2 {
    pub(super) header_len: u16,
    pub(super) command: u16,
    pub(super) status: u32,
    /// It is a response.
    pub(super) is_response: bool,
    /// It is asynchronous: it has no tree.
    pub(super) is_async: bool,
    /// It belongs to the same file or session as the one before it in the message.
    pub(super) is_related: bool,
    /// Place of the next one in a compound, from the beginning of this one; 0: it is the last.
    pub(super) next: u32,
    pub(super) message_id: u64,
    /// 0 if it is asynchronous.
    pub(super) tree_id: u32,
    pub(super) session_id: u64,
}

impl Header2 {
    /// Bytes of it.
    pub(super) const LEN: usize = 64;

    /// The header that a message begins with.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Header2> {
        let bytes = bytes.get(..Header2::LEN)?;
        let flags = u32_at(bytes, 16)?;
        let is_async = flags & 2 != 0;
        Some(Header2 {
            header_len: u16_at(bytes, 4)?,
            command: u16_at(bytes, 12)?,
            status: u32_at(bytes, 8)?,
            is_response: flags & 1 != 0,
            is_async,
            is_related: flags & 4 != 0,
            next: u32_at(bytes, 20)?,
            message_id: u64_at(bytes, 24)?,
            tree_id: if is_async { 0 } else { u32_at(bytes, 36)? },
            session_id: u64_at(bytes, 40)?,
        })
    }
}

/// Bytes of the header of an encrypted message (MS-SMB2 2.2.41).
pub(super) const TRANSFORM_LEN: usize = 52;
