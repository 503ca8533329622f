//! Compounds of version 4 (RFC 7530 14.2, RFC 8881 for version 4.1): the operations that move bytes of
//! files, and what must be passed over to find them.

use super::arguments::Part;
use super::limits::{HANDLE_BYTES_MAX, NAME_BYTES_MAX, reached};
use super::xdr::Fields;

/// Operations by number.
mod operation {
    pub(super) const ACCESS: u32 = 3;
    pub(super) const CLOSE: u32 = 4;
    pub(super) const COMMIT: u32 = 5;
    pub(super) const GETATTR: u32 = 9;
    pub(super) const GETFH: u32 = 10;
    pub(super) const LOOKUP: u32 = 15;
    pub(super) const PUTFH: u32 = 22;
    pub(super) const PUTPUBFH: u32 = 23;
    pub(super) const PUTROOTFH: u32 = 24;
    pub(super) const READ: u32 = 25;
    pub(super) const REMOVE: u32 = 28;
    pub(super) const RENEW: u32 = 30;
    pub(super) const RESTOREFH: u32 = 31;
    pub(super) const SAVEFH: u32 = 32;
    pub(super) const WRITE: u32 = 38;
    pub(super) const SEQUENCE: u32 = 53;
}

/// An operation that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation<'a> {
    Read { handle: &'a [u8], offset: u64 },
    Write { handle: &'a [u8], offset: u64, part: Part<'a> },
    Commit { handle: &'a [u8] },
    Close { handle: &'a [u8] },
    Remove { name: &'a [u8] },
}

/// Bytes of what identifies an open file (RFC 7530 2.2.16), and a session (RFC 8881 2.10.3).
const STATE_ID_BYTES: usize = 16;

/// Reads the operations of a compound, as far as they are known.
pub(super) fn parse_operations(bytes: &[u8]) -> Vec<Operation<'_>> {
    let mut found = Vec::new();
    // What can't be read ends the list.
    let _ = read_operations(Fields::new(bytes), &mut found);
    found
}

fn read_operations<'a>(mut f: Fields<'a>, found: &mut Vec<Operation<'a>>) -> Option<()> {
    f.opaque(NAME_BYTES_MAX)?;
    f.u32()?;
    let count = f.u32()?;
    let mut handle: &[u8] = &[];
    for n in 0..count {
        if !reached::OPERATIONS_MAX.has_room(n as usize) {
            return None;
        }
        match f.u32()? {
            operation::PUTFH => handle = f.opaque(HANDLE_BYTES_MAX)?,
            operation::PUTPUBFH
            | operation::PUTROOTFH
            | operation::GETFH
            | operation::RESTOREFH
            | operation::SAVEFH => {}
            operation::ACCESS => f.skip(4)?,
            operation::RENEW => f.skip(8)?,
            operation::SEQUENCE => f.skip(STATE_ID_BYTES + 16)?,
            operation::GETATTR => {
                let words = f.u32()? as usize;
                f.skip(words.checked_mul(4)?)?;
            }
            operation::LOOKUP => {
                f.opaque(NAME_BYTES_MAX)?;
            }
            operation::REMOVE => {
                found.push(Operation::Remove { name: f.opaque(NAME_BYTES_MAX)? });
            }
            operation::CLOSE => {
                f.skip(4 + STATE_ID_BYTES)?;
                found.push(Operation::Close { handle });
            }
            operation::COMMIT => {
                f.skip(12)?;
                found.push(Operation::Commit { handle });
            }
            operation::READ => {
                f.skip(STATE_ID_BYTES)?;
                let offset = f.u64()?;
                f.skip(4)?;
                found.push(Operation::Read { handle, offset });
            }
            operation::WRITE => {
                f.skip(STATE_ID_BYTES)?;
                let offset = f.u64()?;
                let is_last = f.u32()? == 2;
                let whole = f;
                let len = f.u32()? as usize;
                let bytes = f.rest().get(..len).unwrap_or(f.rest());
                let part = Part { len, bytes, is_last };
                found.push(Operation::Write { handle, offset, part });
                f = whole;
                f.opaque(usize::MAX)?;
            }
            _ => return None,
        }
    }
    Some(())
}

/// Reads the part of a file in the reply to a compound that reads one, and the compound's state.
pub(super) fn parse_reply(bytes: &[u8]) -> Option<(u32, Option<Part<'_>>)> {
    let mut f = Fields::new(bytes);
    let state = f.u32()?;
    Some((state, read_part(f)))
}

fn read_part(mut f: Fields<'_>) -> Option<Part<'_>> {
    f.opaque(NAME_BYTES_MAX)?;
    let count = f.u32()?;
    for n in 0..count {
        if !reached::OPERATIONS_MAX.has_room(n as usize) {
            return None;
        }
        let number = f.u32()?;
        if f.u32()? != 0 {
            return None;
        }
        match number {
            operation::PUTFH
            | operation::PUTPUBFH
            | operation::PUTROOTFH
            | operation::RESTOREFH
            | operation::SAVEFH
            | operation::LOOKUP
            | operation::RENEW => {}
            operation::ACCESS => f.skip(8)?,
            operation::SEQUENCE => f.skip(STATE_ID_BYTES + 20)?,
            operation::GETFH => {
                f.opaque(HANDLE_BYTES_MAX)?;
            }
            operation::READ => {
                let is_last = f.u32()? != 0;
                let len = f.u32()? as usize;
                let bytes = f.rest().get(..len).unwrap_or(f.rest());
                return Some(Part { len, bytes, is_last });
            }
            _ => return None,
        }
    }
    None
}
