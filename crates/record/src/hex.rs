//! Bytes as lowercase hexadecimal digits, two a byte.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Appends the digits of `bytes`.
///
/// ```
/// let mut out = b"sha1:".to_vec();
/// gabion_record::hex::push_hex(&mut out, &[0x0a, 0xff]);
/// assert_eq!(out, b"sha1:0aff");
/// ```
#[inline]
pub fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(2 * bytes.len());
    for b in bytes {
        out.push(DIGITS[usize::from(b >> 4)]);
        out.push(DIGITS[usize::from(b & 15)]);
    }
}

/// The digits of `bytes` as text.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 * bytes.len());
    for b in bytes {
        out.push(digit(b >> 4));
        out.push(digit(b & 15));
    }
    out
}

/// The digits of `bytes` with `between` after each byte but the last: `00:1b:44` of a hardware address.
#[must_use]
pub fn to_hex_pairs(bytes: &[u8], between: char) -> String {
    let mut out = String::with_capacity(3 * bytes.len());
    for (n, b) in bytes.iter().enumerate() {
        if n > 0 {
            out.push(between);
        }
        out.push(digit(b >> 4));
        out.push(digit(b & 15));
    }
    out
}

fn digit(half: u8) -> char {
    char::from(DIGITS[usize::from(half & 15)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_two_digits() {
        let bytes: Vec<u8> = (0..=255).collect();
        let text = to_hex(&bytes);
        assert_eq!((text.len(), &text[..8], &text[508..]), (512, "00010203", "feff"));
        let mut out = Vec::new();
        push_hex(&mut out, &bytes);
        assert_eq!(out, text.as_bytes());
        assert_eq!(to_hex_pairs(&[0, 0x1b, 0xff], ':'), "00:1b:ff");
        assert_eq!(to_hex_pairs(&[], ' '), "");
    }
}
