//! A view of the bytes of one layer that knows its offset in the frame.

/// The bytes from one header to the end of its layer, and where they begin in the frame.
#[derive(Clone, Copy)]
pub(crate) struct Layer<'a> {
    /// The bytes.
    pub(crate) data: &'a [u8],
    /// Offset of the first byte in the frame.
    pub(crate) at: u32,
}

impl<'a> Layer<'a> {
    #[inline]
    pub(crate) const fn new(data: &'a [u8], at: u32) -> Layer<'a> {
        Layer { data, at }
    }

    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.data.len()
    }

    /// The byte at `i`, or 0 beyond the end: for fields whose presence was checked before.
    #[inline]
    pub(crate) fn u8(&self, i: usize) -> u8 {
        self.data.get(i).copied().unwrap_or(0)
    }

    /// Two bytes in network order at `i`, or 0 beyond the end.
    #[inline]
    pub(crate) fn be16(&self, i: usize) -> u16 {
        match self.data.get(i..).and_then(|rest| rest.first_chunk::<2>()) {
            Some(bytes) => u16::from_be_bytes(*bytes),
            None => 0,
        }
    }

    /// Four bytes in network order at `i`, or 0 beyond the end.
    #[inline]
    pub(crate) fn be32(&self, i: usize) -> u32 {
        match self.data.get(i..).and_then(|rest| rest.first_chunk::<4>()) {
            Some(bytes) => u32::from_be_bytes(*bytes),
            None => 0,
        }
    }

    /// The bytes after the first `n`; empty when there are fewer.
    #[inline]
    pub(crate) fn after(&self, n: usize) -> Layer<'a> {
        match self.data.get(n..) {
            Some(rest) => Layer { data: rest, at: self.at.wrapping_add(n as u32) },
            None => {
                let len = self.data.len();
                Layer { data: &[], at: self.at.wrapping_add(len as u32) }
            }
        }
    }

    /// The first `n` bytes, or all when there are fewer.
    #[inline]
    pub(crate) fn first(&self, n: usize) -> Layer<'a> {
        Layer { data: self.data.get(..n).unwrap_or(self.data), at: self.at }
    }
}
