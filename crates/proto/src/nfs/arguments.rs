//! Arguments and results of procedures (RFC 1094 2.2, RFC 1813 3.3, RFC 7530 16): handles, names, and
//! where the bytes of files are.

use super::limits::{HANDLE_BYTES_MAX, NAME_BYTES_MAX, reached};
use super::procedure::v3;
use super::xdr::Fields;

/// Bytes of a handle of version 2, and of its attributes.
const V2_HANDLE_BYTES: usize = 32;
const V2_ATTRIBUTE_BYTES: usize = 68;

/// Bytes of version 3's attributes (RFC 1813 2.5).
const ATTRIBUTE_BYTES: usize = 84;

/// What a call says of files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Arguments<'a> {
    pub(super) handle: &'a [u8],
    pub(super) name: &'a [u8],
    pub(super) new_name: Option<&'a [u8]>,
    /// Place of the first byte that is read or written.
    pub(super) offset: u64,
    pub(super) written: Option<Part<'a>>,
}

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    /// Bytes of the part.
    pub(super) len: usize,
    /// Those that are there.
    pub(super) bytes: &'a [u8],
    /// It is the last one, or is on disk.
    pub(super) is_last: bool,
}

impl<'a> Fields<'a> {
    fn handle(&mut self) -> Option<&'a [u8]> {
        self.bounded(&reached::HANDLE_BYTES_MAX, HANDLE_BYTES_MAX)
    }

    fn name(&mut self) -> Option<&'a [u8]> {
        self.bounded(&reached::NAME_BYTES_MAX, NAME_BYTES_MAX)
    }

    fn bounded(
        &mut self,
        limit: &'static gabion_record::limits::Limit,
        max: usize,
    ) -> Option<&'a [u8]> {
        let whole = *self;
        let value = self.opaque(max);
        if value.is_none() && whole.clone().u32().is_some_and(|len| len as usize > max) {
            limit.count();
        }
        value
    }

    /// A part of a file whose length comes next; its bytes may be cut.
    fn part(&mut self, is_last: bool) -> Option<Part<'a>> {
        let len = usize::try_from(self.u32()?).ok()?;
        let bytes = self.rest().get(..len).unwrap_or(self.rest());
        Some(Part { len, bytes, is_last })
    }
}

/// Reads the arguments of a procedure of version 3. `None`: they can't be read.
pub(super) fn parse_v3_arguments(procedure: u32, bytes: &[u8]) -> Option<Arguments<'_>> {
    let mut f = Fields::new(bytes);
    let mut a = Arguments::default();
    match procedure {
        v3::GETATTR | v3::ACCESS | v3::READDIRPLUS | v3::COMMIT => a.handle = f.handle()?,
        v3::LOOKUP => {
            f.handle()?;
            a.name = f.name()?;
        }
        v3::CREATE | v3::MKDIR | v3::REMOVE | v3::RMDIR => {
            a.handle = f.handle()?;
            a.name = f.name()?;
        }
        v3::RENAME => {
            a.handle = f.handle()?;
            a.name = f.name()?;
            f.handle()?;
            a.new_name = Some(f.name()?);
        }
        v3::READ => {
            a.handle = f.handle()?;
            a.offset = f.u64()?;
        }
        v3::WRITE => {
            a.handle = f.handle()?;
            a.offset = f.u64()?;
            let count = f.u32()?;
            // 2: it is on disk when the reply comes (FILE_SYNC).
            let is_last = f.u32()? == 2;
            let part = f.part(is_last)?;
            a.written = Some(part).filter(|part| part.len == count as usize);
            a.written?;
        }
        _ => {}
    }
    Some(a)
}

/// Reads the arguments of a procedure of version 2: only of these Suricata 8.0.7 shows anything.
pub(super) fn parse_v2_arguments(procedure: u32, bytes: &[u8]) -> Option<Arguments<'_>> {
    let mut f = Fields::new(bytes);
    let mut a = Arguments::default();
    match procedure {
        v3::READ => {
            a.handle = f.bytes(V2_HANDLE_BYTES)?;
            a.offset = f.u32()?.into();
        }
        v3::RENAME => a.new_name = Some(&[]),
        _ => {}
    }
    Some(a)
}

/// What a reply says of files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Results<'a> {
    pub(super) state: u32,
    /// The handle of the file that was found or made.
    pub(super) handle: &'a [u8],
    pub(super) read: Option<Part<'a>>,
    /// Handles and names of a directory's files.
    pub(super) entries: Vec<(&'a [u8], &'a [u8])>,
}

/// Reads the results of a procedure of version 3. `None`: they can't be read.
pub(super) fn parse_v3_results(procedure: u32, bytes: &[u8]) -> Option<Results<'_>> {
    let mut f = Fields::new(bytes);
    let mut r = Results { state: f.u32().unwrap_or(0), ..Results::default() };
    match procedure {
        // Suricata 8.0.7 takes what follows for a handle, whatever the state.
        v3::LOOKUP => r.handle = f.handle()?,
        v3::CREATE if r.state == 0 && f.u32()? != 0 => r.handle = f.handle()?,
        v3::READ => {
            skip_attributes(&mut f)?;
            f.u32()?;
            let is_last = f.u32()? != 0;
            r.read = Some(f.part(is_last)?);
        }
        v3::READDIRPLUS if r.state == 0 => {
            // An entry that is cut ends the list.
            let _ = parse_entries(&mut f, &mut r.entries);
        }
        _ => {}
    }
    Some(r)
}

fn skip_attributes(f: &mut Fields<'_>) -> Option<()> {
    match f.u32()? {
        0 => Some(()),
        _ => f.skip(ATTRIBUTE_BYTES),
    }
}

fn parse_entries<'a>(f: &mut Fields<'a>, to: &mut Vec<(&'a [u8], &'a [u8])>) -> Option<()> {
    skip_attributes(f)?;
    f.u64()?;
    while f.u32()? != 0 {
        f.u64()?;
        let name = f.name()?;
        f.u64()?;
        skip_attributes(f)?;
        if f.u32()? != 0 {
            to.push((f.handle()?, name));
        }
    }
    Some(())
}

/// Reads the results of a procedure of version 2.
pub(super) fn parse_v2_results(procedure: u32, bytes: &[u8]) -> Option<Results<'_>> {
    let mut f = Fields::new(bytes);
    let mut r = Results { state: f.u32().unwrap_or(0), ..Results::default() };
    if procedure == v3::READ && r.state == 0 {
        let mut attributes = Fields::new(f.bytes(V2_ATTRIBUTE_BYTES)?);
        attributes.skip(20)?;
        let size = attributes.u32()?;
        let part = f.part(true)?;
        // A file that comes in parts is none to Suricata 8.0.7.
        r.read = Some(part).filter(|part| part.len == size as usize);
    }
    Some(r)
}
