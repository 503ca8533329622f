//! Base64 as rules decode it: leniently for `base64_decode`, by mode for `from_base64`.

use gabion_rules::compiled::buffer::Base64Mode;

fn value(b: u8) -> Option<u32> {
    Some(u32::from(match b {
        b'A'..=b'Z' => b - b'A',
        b'a'..=b'z' => b - b'a' + 26,
        b'0'..=b'9' => b - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

fn decode(text: &[u8], out: &mut Vec<u8>, skip: impl Fn(u8) -> bool) -> bool {
    let (mut bits, mut n, mut padding) = (0u32, 0, 0);
    for &b in text {
        if b == b'=' {
            padding += 1;
            continue;
        }
        match value(b) {
            Some(v) if padding == 0 => {
                bits = (bits << 6) | v;
                n += 1;
                if n == 4 {
                    out.extend_from_slice(&bits.to_be_bytes()[1..]);
                    (bits, n) = (0, 0);
                }
            }
            _ if skip(b) => {}
            _ => {
                flush(bits, n, out);
                return false;
            }
        }
    }
    flush(bits, n, out);
    (n == 0 && padding == 0) || n + padding == 4
}

fn flush(bits: u32, n: u32, out: &mut Vec<u8>) {
    match n {
        2 => out.push((bits >> 4) as u8),
        3 => out.extend_from_slice(&[(bits >> 10) as u8, (bits >> 2) as u8]),
        _ => {}
    }
}

/// RFC 4648 with its padding and nothing else; false when it is anything else.
pub(crate) fn decode_exact(text: &[u8], out: &mut Vec<u8>) -> bool {
    text.len().is_multiple_of(4) && decode(text, out, |_| false)
}

/// RFC 2045: white space is skipped, the first other foreign byte ends the text.
pub(crate) fn decode_lenient(text: &[u8], out: &mut Vec<u8>) {
    decode(text, out, |b| b.is_ascii_whitespace());
}

/// As a transform: `Strict` has no result unless all of it is well formed.
pub(crate) fn decode_mode(text: &[u8], mode: Base64Mode, out: &mut Vec<u8>) {
    match mode {
        Base64Mode::Rfc4648 => {
            decode(text, out, |_| false);
        }
        Base64Mode::Rfc2045 => {
            decode(text, out, |_| true);
        }
        Base64Mode::Strict => {
            if !decode(text, out, |_| false) {
                out.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc4648_vectors() {
        for (plain, coded) in
            [("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            let mut out = Vec::new();
            decode_mode(coded.as_bytes(), Base64Mode::Strict, &mut out);
            assert_eq!(out, plain.as_bytes());
        }
        let mut out = Vec::new();
        decode_lenient(b"Zm9v\r\nYmFy!Zm9v", &mut out);
        assert_eq!(out, b"foobar");
    }
}
