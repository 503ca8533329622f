//! Bytes as lowercase hexadecimal digits, two a byte, and back.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The two digits of a byte.
#[inline]
#[must_use]
pub const fn digits(byte: u8) -> [u8; 2] {
    [DIGITS[(byte >> 4) as usize], DIGITS[(byte & 15) as usize]]
}

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
        out.extend_from_slice(&digits(*b));
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

/// Reads digits of either case, two a byte; `None` when the text has anything else.
#[must_use]
pub fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_chunks::<2>() else { return None };
    let mut out = vec![0; pairs.len()];
    let mut seen = 0;
    for ([high, low], byte) in pairs.iter().zip(&mut out) {
        let (high, low) = (NIBBLES[usize::from(*high)], NIBBLES[usize::from(*low)]);
        seen |= high | low;
        *byte = high << 4 | low & 15;
    }
    (seen & NONE == 0).then_some(out)
}

/// Marks a character that is no digit.
const NONE: u8 = 0x80;

const NIBBLES: [u8; 256] = {
    let mut table = [NONE; 256];
    let mut i = 0;
    while i < 16 {
        table[DIGITS[i] as usize] = i as u8;
        table[DIGITS[i].to_ascii_uppercase() as usize] = i as u8;
        i += 1;
    }
    table
};

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

    #[test]
    fn digits_of_either_case_are_read() {
        assert_eq!(from_hex(b"00aBFf").as_deref(), Some(&[0, 0xab, 255][..]));
        assert_eq!(from_hex(b"").as_deref(), Some(&[][..]));
        for wrong in ["0", "0g", "abc", " 00 "] {
            assert_eq!(from_hex(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
