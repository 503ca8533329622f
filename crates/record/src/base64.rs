//! Base64 (RFC 4648) with padding, strict in reading: one text for one value, so that no signed note or proof has two
//! forms.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Marks a character that is no digit.
const NONE: u8 = 0x80;

/// Base64 with padding.
#[must_use]
pub fn to_base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            if i <= group.len() {
                out.push(char::from(ALPHABET[(bits >> (18 - 6 * i) & 63) as usize]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

/// Reads base64 with padding; bits beyond the last byte must be zero.
#[must_use]
pub fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take_while(|&&c| c == b'=').count();
    if padding > 2 {
        return None;
    }
    let digits = text.get(..text.len() - padding)?;
    let (groups, rest) = digits.as_chunks::<4>();
    let mut out = Vec::with_capacity(groups.len() * 3 + 2);
    out.resize(groups.len() * 3, 0);
    let mut seen = 0;
    let mut value = |c: u8| {
        let value = VALUES[usize::from(c)];
        seen |= value;
        u32::from(value & 63)
    };
    for ([a, b, c, d], bytes) in groups.iter().zip(out.as_chunks_mut::<3>().0) {
        let bits = value(*a) << 18 | value(*b) << 12 | value(*c) << 6 | value(*d);
        let [_, high, middle, low] = bits.to_be_bytes();
        *bytes = [high, middle, low];
    }
    let mut is_exact = true;
    match *rest {
        [] => {}
        [a, b] => {
            let bits = value(a) << 6 | value(b);
            is_exact = bits & 15 == 0;
            out.push((bits >> 4) as u8);
        }
        [a, b, c] => {
            let bits = value(a) << 12 | value(b) << 6 | value(c);
            is_exact = bits & 3 == 0;
            out.extend_from_slice(&[(bits >> 10) as u8, (bits >> 2) as u8]);
        }
        _ => return None,
    }
    (is_exact && seen & NONE == 0).then_some(out)
}

const VALUES: [u8; 256] = {
    let mut table = [NONE; 256];
    let mut i = 0;
    while i < 64 {
        table[ALPHABET[i] as usize] = i as u8;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_rfc_4648_and_its_other_forms_refused() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(to_base64(plain.as_bytes()), coded);
            assert_eq!(from_base64(coded.as_bytes()).as_deref(), Some(plain.as_bytes()));
        }
        for wrong in ["Zg", "Zh==", "Zg=", "====", "Z===", "Zm9=v", "Zm 8", "=Zg="] {
            assert_eq!(from_base64(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
