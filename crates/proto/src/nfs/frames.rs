//! The frames of records: which bytes of them are what.
//!
//! Lengths are those of the record. (Suricata 8.0.7 lets `rpc.pdu` and `rpc.data` reach to the end of what came
//! with the record, and has no other frames of a record whose file is not there yet.)

use super::rpc::{Call, Credentials, Message};
use super::tables::frame;
use crate::ParseContext;

/// Bytes of a message's number and type (RFC 5531 9).
const HDR_BYTES: usize = 8;

/// Bytes of a call before its credentials.
const BEFORE_CREDENTIALS_BYTES: usize = 24;

/// Bytes of a state, and of the beginning of a compound: of tags without text (RFC 7530 16.2).
const STATUS_BYTES: usize = 4;
const COMPOUND_HDR_BYTES: usize = 8;

/// A record as it lies in the input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Where it begins.
    pub(super) at: usize,
    /// Bytes of its mark: none over UDP.
    pub(super) mark_len: usize,
    /// Bytes of its message.
    pub(super) len: usize,
}

/// Which frames there are of what NFS says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// None: it is sealed, or of an unknown version or call.
    Unknown,
    /// `nfs`: of version 2 or 3.
    Plain,
    /// `nfs4`.
    Compound,
}

impl Body {
    /// That of a call of this version.
    pub(super) fn from_call(version: u32, credentials: &Credentials, place: Place) -> Body {
        if *credentials == Credentials::Gss {
            return Body::Unknown;
        }
        match version {
            2 | 3 => Body::Plain,
            // Suricata 8.0.7 does not read version 4 over UDP.
            4 if place.mark_len > 0 => Body::Compound,
            _ => Body::Unknown,
        }
    }
}

/// Notes that a record is there.
pub(super) fn note_record(cx: &mut ParseContext<'_>, place: Place) {
    let len = place.mark_len + place.len;
    cx.frames.add(cx.direction, frame::RPC_PDU, place.at, len as u64, None);
}

/// Notes the frames in a message; `body` is that of its call.
pub(super) fn note_message(
    cx: &mut ParseContext<'_>,
    place: Place,
    message: &Message<'_>,
    body: Body,
) {
    match message {
        Message::Call(call) => note_call(cx, place, call, body),
        Message::Reply(reply) => {
            let len = place.len.saturating_sub(reply.head_bytes);
            note(cx, place, frame::RPC_HDR, 0, place.mark_len + HDR_BYTES);
            let data = place.mark_len + HDR_BYTES;
            note(cx, place, frame::RPC_DATA, data, place.len.saturating_sub(HDR_BYTES));
            if len == 0 {
                return;
            }
            let at = place.mark_len + reply.head_bytes;
            match body {
                Body::Unknown => {}
                Body::Plain => {
                    note(cx, place, frame::NFS_PDU, at, len);
                    note(cx, place, frame::NFS_STATUS, at, STATUS_BYTES);
                }
                Body::Compound => {
                    note(cx, place, frame::NFS4_PDU, at, len);
                    note(cx, place, frame::NFS4_STATUS, at, STATUS_BYTES);
                    note_compound(cx, place, at, len);
                }
            }
        }
    }
}

fn note_call(cx: &mut ParseContext<'_>, place: Place, call: &Call<'_>, body: Body) {
    let len = place.len.saturating_sub(call.head_bytes);
    let at = place.mark_len + call.head_bytes;
    if call.credentials != Credentials::Gss {
        let credentials = place.mark_len + BEFORE_CREDENTIALS_BYTES;
        note(cx, place, frame::RPC_CREDS, credentials, call.credentials_bytes);
    }
    match body {
        Body::Unknown => {}
        Body::Plain => note(cx, place, frame::NFS_PDU, at, len),
        Body::Compound => {
            note(cx, place, frame::NFS4_PDU, at, len);
            note_compound(cx, place, at, len);
        }
    }
}

fn note_compound(cx: &mut ParseContext<'_>, place: Place, at: usize, len: usize) {
    if len > COMPOUND_HDR_BYTES {
        note(cx, place, frame::NFS4_HDR, at, COMPOUND_HDR_BYTES);
        let ops = at + COMPOUND_HDR_BYTES;
        note(cx, place, frame::NFS4_OPS, ops, len - COMPOUND_HDR_BYTES);
    }
}

/// Notes a frame by its place in the record.
fn note(cx: &mut ParseContext<'_>, place: Place, kind: u8, from: usize, len: usize) {
    cx.frames.add(cx.direction, kind, place.at.saturating_add(from), len as u64, None);
}
