//! Integers and runs of bytes of the format: big-endian, each read after a length check.

/// Reads from the front of bytes; every step fails when too few are left.
#[derive(Clone, Copy, Debug)]
pub struct Take<'a> {
    rest: &'a [u8],
}

impl<'a> Take<'a> {
    /// Over these bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Take<'a> {
        Take { rest: bytes }
    }

    /// What has not been read.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `n` bytes.
    pub fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(head)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    /// One byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// An integer in groups of seven bits, lowest first; at most ten bytes.
    pub fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for (i, &byte) in self.rest.iter().enumerate().take(10) {
            let bits = u64::from(byte & 0x7f);
            if i == 9 && bits > 1 {
                return None;
            }
            value |= bits << (7 * i);
            if byte < 0x80 {
                self.rest = self.rest.get(i + 1..)?;
                return Some(value);
            }
        }
        None
    }
}

/// Appends an integer in groups of seven bits.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A signed difference as an unsigned integer: small of either sign stays small.
#[must_use]
pub const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Back from `zigzag`.
#[must_use]
pub const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// CRC-32C (Castagnoli) of the parts, one after the other.
#[must_use]
pub fn crc32c(parts: &[&[u8]]) -> u32 {
    let mut crc = !0u32;
    for &byte in parts.iter().copied().flatten() {
        crc = (crc >> 8) ^ CRC_TABLE[usize::from(crc as u8 ^ byte)];
    }
    !crc
}

const CRC_TABLE: [u32; 256] = crc_table();

const fn crc_table() -> [u32; 256] {
    let mut table = [0u32; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_come_back_and_have_an_end() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            let mut take = Take::new(&out);
            assert_eq!(take.varint(), Some(value));
            assert!(take.rest().is_empty());
        }
        assert_eq!(Take::new(&[0x80; 12]).varint(), None);
        assert_eq!(
            Take::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).varint(),
            None
        );
        assert_eq!(Take::new(&[0x80]).varint(), None);
    }

    #[test]
    fn differences_of_either_sign_come_back() {
        for value in [0, 1, -1, 63, -64, i64::MAX, i64::MIN] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
        assert_eq!(zigzag(-1), 1);
    }

    #[test]
    fn crc32c_of_the_standard_check_string() {
        // The check value of CRC-32C (iSCSI, RFC 3720).
        assert_eq!(crc32c(&[b"12345", b"6789"]), 0xe306_9283);
    }
}
