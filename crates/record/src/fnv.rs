//! FNV-1a of 64 bits (Fowler, Noll, Vo): a hash that is the same in every process and version. It is no defence
//! against a sender that chooses what is hashed.

/// Where a hash begins.
pub const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// The hash with one byte more.
#[inline]
#[must_use]
pub const fn add(hash: u64, byte: u8) -> u64 {
    (hash ^ byte as u64).wrapping_mul(0x0100_0000_01b3)
}

/// The hash with these bytes more.
#[inline]
#[must_use]
pub const fn add_all(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut at = 0;
    while at < bytes.len() {
        hash = add(hash, bytes[at]);
        at += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the test suite that the authors published.
    #[test]
    fn hashes_are_those_of_the_published_vectors() {
        let of = |text: &[u8]| add_all(BASIS, text);
        assert_eq!(of(b""), BASIS);
        assert_eq!(of(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(of(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
