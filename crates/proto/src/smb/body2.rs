//! Bodies of SMB 2 messages, as far as they are read (MS-SMB2 2.2). Places are counted from the body's
//! beginning, those that the wire names from the header's.

use super::header::Header2;
use super::wire::{id_at, part_at, u8_at, u16_at, u32_at, u64_at};

/// A part that the message names by its place, counted from its header, and length.
fn named_part(body: &[u8], at: u32, len: usize) -> Option<&[u8]> {
    let at = usize::try_from(at).ok()?.checked_sub(Header2::LEN)?;
    part_at(body, at, len)
}

/// NEGOTIATE, the request (2.2.3).
pub(super) struct NegotiateRequest {
    pub(super) client_guid: [u8; 16],
    pub(super) dialects: Vec<u16>,
}

impl NegotiateRequest {
    pub(super) fn from_body(body: &[u8], dialects_max: usize) -> Option<NegotiateRequest> {
        let count = usize::from(u16_at(body, 2)?);
        let dialects = part_at(body, 36, count.checked_mul(2)?)?.as_chunks::<2>().0;
        Some(NegotiateRequest {
            client_guid: id_at(body, 12)?,
            dialects: dialects.iter().take(dialects_max).map(|d| u16::from_le_bytes(*d)).collect(),
        })
    }
}

/// NEGOTIATE, the response (2.2.4).
pub(super) struct NegotiateResponse {
    pub(super) dialect: u16,
    pub(super) server_guid: [u8; 16],
    pub(super) read_max: u32,
    pub(super) write_max: u32,
}

impl NegotiateResponse {
    pub(super) fn from_body(body: &[u8]) -> Option<NegotiateResponse> {
        Some(NegotiateResponse {
            dialect: u16_at(body, 4)?,
            server_guid: id_at(body, 8)?,
            read_max: u32_at(body, 32)?,
            write_max: u32_at(body, 36)?,
        })
    }
}

/// The token of a SESSION_SETUP, the request (2.2.5).
pub(super) fn session_setup_token(body: &[u8]) -> Option<&[u8]> {
    named_part(body, u32::from(u16_at(body, 12)?), usize::from(u16_at(body, 14)?))
}

/// The path of a TREE_CONNECT, the request (2.2.9), in UTF-16.
pub(super) fn tree_connect_path(body: &[u8]) -> Option<&[u8]> {
    named_part(body, u32::from(u16_at(body, 4)?), usize::from(u16_at(body, 6)?))
}

/// The type of the share in a TREE_CONNECT, the response (2.2.10).
pub(super) fn tree_connect_type(body: &[u8]) -> Option<u8> {
    part_at(body, 0, 16)?;
    u8_at(body, 2)
}

/// CREATE, the request (2.2.13).
pub(super) struct CreateRequest<'a> {
    pub(super) disposition: u32,
    pub(super) options: u32,
    /// In UTF-16.
    pub(super) name: &'a [u8],
}

impl CreateRequest<'_> {
    pub(super) fn from_body(body: &[u8]) -> Option<CreateRequest<'_>> {
        Some(CreateRequest {
            disposition: u32_at(body, 36)?,
            options: u32_at(body, 40)?,
            name: named_part(body, u32::from(u16_at(body, 44)?), usize::from(u16_at(body, 46)?))?,
        })
    }
}

/// CREATE, the response (2.2.14).
pub(super) struct CreateResponse {
    /// File times of creation, last access, last write and last change.
    pub(super) times: [u64; 4],
    pub(super) size: u64,
    pub(super) file: [u8; 16],
}

impl CreateResponse {
    pub(super) fn from_body(body: &[u8]) -> Option<CreateResponse> {
        Some(CreateResponse {
            times: [u64_at(body, 8)?, u64_at(body, 16)?, u64_at(body, 24)?, u64_at(body, 32)?],
            size: u64_at(body, 48)?,
            file: id_at(body, 64)?,
        })
    }
}

/// The file of a CLOSE, the request (2.2.15).
pub(super) fn close_file(body: &[u8]) -> Option<[u8; 16]> {
    id_at(body, 8)
}

/// READ, the request (2.2.19).
pub(super) struct ReadRequest {
    pub(super) len: u32,
    pub(super) offset: u64,
    pub(super) file: [u8; 16],
}

impl ReadRequest {
    pub(super) fn from_body(body: &[u8]) -> Option<ReadRequest> {
        Some(ReadRequest {
            len: u32_at(body, 4)?,
            offset: u64_at(body, 8)?,
            file: id_at(body, 16)?,
        })
    }
}

/// READ, the response, without its data (2.2.20).
pub(super) struct ReadResponse {
    /// Place of the data, from the body's beginning.
    pub(super) data_at: usize,
    pub(super) len: u32,
}

impl ReadResponse {
    /// Bytes before the data.
    pub(super) const LEN: usize = 16;

    pub(super) fn from_body(body: &[u8]) -> Option<ReadResponse> {
        let place = usize::from(u8_at(body, 2)?).saturating_sub(Header2::LEN);
        part_at(body, 0, ReadResponse::LEN)?;
        Some(ReadResponse { data_at: place.max(ReadResponse::LEN), len: u32_at(body, 4)? })
    }
}

/// WRITE, the request, without its data (2.2.21).
pub(super) struct WriteRequest {
    /// Place of the data, from the body's beginning.
    pub(super) data_at: usize,
    pub(super) len: u32,
    pub(super) offset: u64,
    pub(super) file: [u8; 16],
}

impl WriteRequest {
    /// Bytes before the data.
    pub(super) const LEN: usize = 48;

    pub(super) fn from_body(body: &[u8]) -> Option<WriteRequest> {
        let place = usize::from(u16_at(body, 2)?).saturating_sub(Header2::LEN);
        part_at(body, 0, WriteRequest::LEN)?;
        Some(WriteRequest {
            data_at: place.max(WriteRequest::LEN),
            len: u32_at(body, 4)?,
            offset: u64_at(body, 8)?,
            file: id_at(body, 16)?,
        })
    }
}

/// IOCTL, request or response (2.2.31, 2.2.32).
pub(super) struct Ioctl<'a> {
    pub(super) function: u32,
    pub(super) file: [u8; 16],
    pub(super) data: &'a [u8],
}

impl Ioctl<'_> {
    /// A request: its data are its input.
    pub(super) fn from_request(body: &[u8]) -> Option<Ioctl<'_>> {
        let (at, len) = (u32_at(body, 24)?, usize::try_from(u32_at(body, 28)?).ok()?);
        Some(Ioctl {
            function: u32_at(body, 4)?,
            file: id_at(body, 8)?,
            data: named_part(body, at, len).unwrap_or_default(),
        })
    }

    /// A response: its data are its output.
    pub(super) fn from_response(body: &[u8]) -> Option<Ioctl<'_>> {
        let (at, len) = (u32_at(body, 32)?, usize::try_from(u32_at(body, 36)?).ok()?);
        Some(Ioctl {
            function: u32_at(body, 4)?,
            file: id_at(body, 8)?,
            data: named_part(body, at, len).unwrap_or_default(),
        })
    }
}

/// SET_INFO, the request (2.2.39).
pub(super) struct SetInfo<'a> {
    pub(super) class: u8,
    pub(super) level: u8,
    pub(super) file: [u8; 16],
    pub(super) data: &'a [u8],
}

impl SetInfo<'_> {
    pub(super) fn from_body(body: &[u8]) -> Option<SetInfo<'_>> {
        let len = usize::try_from(u32_at(body, 4)?).ok()?;
        Some(SetInfo {
            class: u8_at(body, 2)?,
            level: u8_at(body, 3)?,
            file: id_at(body, 16)?,
            data: named_part(body, u32::from(u16_at(body, 8)?), len)?,
        })
    }
}

/// The new path of a rename (MS-FSCC 2.4.42.2), in UTF-16.
pub(super) fn rename_path(data: &[u8]) -> Option<&[u8]> {
    part_at(data, 20, usize::try_from(u32_at(data, 16)?).ok()?)
}
