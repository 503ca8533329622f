//! XDR (RFC 4506), as much as RPC and NFS need: numbers of four and eight bytes in network order, byte
//! strings of fixed and of stated length, filled up to a multiple of four.

/// Fields of a message that follow one another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Fields<'a> {
        Fields { rest }
    }

    /// What was not used.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `n` bytes; `None` when there are fewer, and nothing is used then.
    pub(super) fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(head)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.bytes(4)?.try_into().ok()?))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.bytes(8)?.try_into().ok()?))
    }

    /// A byte string of stated length, at most `max` bytes, and what fills it up.
    pub(super) fn opaque(&mut self, max: usize) -> Option<&'a [u8]> {
        let len = usize::try_from(self.u32()?).ok().filter(|len| *len <= max)?;
        let value = self.bytes(len)?;
        self.bytes(len.wrapping_neg() & 3)?;
        Some(value)
    }

    /// Passes over `n` bytes.
    pub(super) fn skip(&mut self, n: usize) -> Option<()> {
        self.bytes(n).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_in_order() {
        let mut f = Fields::new(b"\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x05hello\0\0\0\0\0\0\0rest");
        assert_eq!((f.u32(), f.u64()), (Some(1), Some(2)));
        assert_eq!(f.opaque(5), Some(&b"hello"[..]));
        assert_eq!((f.u32(), f.rest()), (Some(0), &b"rest"[..]));
        assert_eq!((f.u64(), f.skip(5), f.rest()), (None, None, &b"rest"[..]));
        for wrong in
            [&b"\0\0\0\x07abcdefg\0"[..], b"\xff\xff\xff\xff", b"\0\0\0\x05hello\0\0", b"\0"]
        {
            assert_eq!(Fields::new(wrong).opaque(6), None);
        }
    }
}
