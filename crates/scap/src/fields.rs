//! Reads the fields of blocks and list entries one after the other.

use crate::limits;

/// Why a field cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The bytes end before the field does.
    Short,
    /// A text is longer than its kind allows.
    TooLong {
        /// What the text is.
        what: &'static str,
        /// The bytes that it claims.
        len: usize,
    },
    /// A number that has no meaning.
    Unknown {
        /// What the number is.
        what: &'static str,
        /// The number.
        number: u64,
    },
    /// An entry is longer or shorter than the length before it says.
    WrongLength {
        /// What was read.
        read: usize,
        /// What the entry says.
        len: usize,
    },
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Fault::Short => f.write_str("it ends inside of an entry"),
            Fault::TooLong { what, len } => write!(f, "invalid {what}len {len}"),
            Fault::Unknown { what, number } => write!(f, "unknown {what} {number}"),
            Fault::WrongLength { read, len } => {
                write!(f, "an entry of {len} bytes holds {read} bytes")
            }
        }
    }
}

/// Bytes with the place up to which they were read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let array = rest.first_chunk::<N>().ok_or(Fault::Short)?;
        self.at += N;
        Ok(*array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Fault> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Fault> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Fault> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Fault> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Fault> {
        self.array().map(i64::from_le_bytes)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Fault> {
        let end = self.at.checked_add(len).ok_or(Fault::Short)?;
        let bytes = self.bytes.get(self.at..end).ok_or(Fault::Short)?;
        self.at = end;
        Ok(bytes)
    }

    /// A text after its length in 16 bits.
    pub(crate) fn text(&mut self, what: &'static str, len_max: usize) -> Result<&'a [u8], Fault> {
        let len = usize::from(self.u16()?);
        if len > len_max {
            return Err(Fault::TooLong { what, len });
        }
        self.bytes(len)
    }

    /// A path or name after its length.
    pub(crate) fn path(&mut self, what: &'static str) -> Result<Vec<u8>, Fault> {
        self.text(what, limits::PATH_MAX).map(<[u8]>::to_vec)
    }
}
