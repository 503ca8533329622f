//! Numbers and texts of SMB messages: all numbers are little endian (MS-CIFS 1.7, MS-SMB2 2.2).

/// The byte at a place.
pub(super) fn u8_at(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

/// The number of 16 bits at a place.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let field = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes(field.try_into().ok()?))
}

/// The number of 32 bits at a place.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(field.try_into().ok()?))
}

/// The number of 64 bits at a place.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(field.try_into().ok()?))
}

/// The identifier of 16 bytes at a place.
pub(super) fn id_at(bytes: &[u8], at: usize) -> Option<[u8; 16]> {
    bytes.get(at..at.checked_add(16)?)?.try_into().ok()
}

/// A part of a message by its place and length, both from the wire.
pub(super) fn part_at(bytes: &[u8], at: usize, len: usize) -> Option<&[u8]> {
    bytes.get(at..at.checked_add(len)?)
}

/// A text in UTF-16 as Suricata 8.0.7 has it: its bytes without zeros, so that only texts of ASCII are right.
pub(super) fn text_without_zeros(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().filter(|byte| *byte != 0).collect()
}

/// An identifier of 16 bytes as EVE writes it: numbers of 32, 16, 16, 16, 16 and 32 bits, the last two
/// without a dash between them.
pub(super) fn id_text(id: &[u8; 16]) -> String {
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 9, 8, 11, 10, 15, 14, 13, 12];
    let mut text = String::with_capacity(36);
    for (at, from) in ORDER.into_iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.extend(gabion_record::hex::digits(id[from]).map(char::from));
    }
    text
}

/// The seconds since 1970 of a file time: tenths of microseconds since 1601 (MS-DTYP 2.3.3).
pub(super) fn unix_seconds(file_time: u64) -> u64 {
    const SECONDS_1601_TO_1970: u64 = 11_644_473_600;
    (file_time / 10_000_000).saturating_sub(SECONDS_1601_TO_1970)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Suricata 8.0.7 wrote them.
    #[test]
    fn texts() {
        let id: [u8; 16] = std::array::from_fn(|at| 0x10 + at as u8);
        assert_eq!(id_text(&id), "13121110-1514-1716-1918-1b1a1f1e1d1c");
        assert_eq!(text_without_zeros(b"a\0b\0\xe9\0\xe5\x65"), b"ab\xe9\xe5e");
        assert_eq!(unix_seconds(116_444_736_000_000_000 + 25_000_000), 2);
        assert_eq!(unix_seconds(7), 0);
    }
}
