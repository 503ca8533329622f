//! Reading several bytes of a buffer as one number.

/// Four bytes at `at`, little endian; `None` beyond the end.
#[inline(always)]
pub(crate) fn load32(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

/// Eight bytes at `at`, little endian; `None` beyond the end.
#[inline(always)]
pub(crate) fn load64(bytes: &[u8], at: usize) -> Option<u64> {
    let eight = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(eight.try_into().ok()?))
}

/// The first bytes of `bytes`, up to sixteen, with zeros above its end.
#[inline(always)]
pub(crate) fn load_first(bytes: &[u8]) -> u128 {
    match bytes.first_chunk::<16>() {
        Some(chunk) => u128::from_le_bytes(*chunk),
        None => load_short(bytes),
    }
}

/// The last bytes of `bytes`, up to sixteen, the last one highest, with zeros below its start.
#[inline(always)]
pub(crate) fn load_last(bytes: &[u8]) -> u128 {
    match bytes.last_chunk::<16>() {
        Some(chunk) => u128::from_le_bytes(*chunk),
        None if bytes.is_empty() => 0,
        None => load_short(bytes) << (128 - 8 * bytes.len() as u32),
    }
}

/// Loads fewer than sixteen bytes with two overlapping loads, without a copy.
#[inline(always)]
fn load_short(bytes: &[u8]) -> u128 {
    let len = bytes.len() as u32;
    if let (Some(low), Some(high)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        let high = u128::from(u64::from_le_bytes(*high)) << (8 * (len - 8));
        u128::from(u64::from_le_bytes(*low)) | high
    } else if let (Some(low), Some(high)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let high = u64::from(u32::from_le_bytes(*high)) << (8 * (len - 4));
        u128::from(u64::from(u32::from_le_bytes(*low)) | high)
    } else {
        bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u128::from(byte))
    }
}
