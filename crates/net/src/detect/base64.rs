//! Base64 as rules, scripts and data sets decode it.

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

/// What is done with a byte that is neither a letter nor padding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Foreign {
    /// The text ends before it.
    Ends,
    /// It is left out.
    Skipped,
}

/// Decodes four letters and paddings, or the fewer that end a text: padding may stand at the third and fourth place,
/// and a letter after it does not count. False: padding stands at another place, or a letter is alone.
fn decode_group(group: &[u8], out: &mut Vec<u8>) -> bool {
    let letters = group.iter().take_while(|b| **b != b'=').count();
    let bits = group.iter().take(letters).fold(0, |bits, b| bits << 6 | value(*b).unwrap_or(0));
    match letters {
        4 => out.extend_from_slice(&bits.to_be_bytes()[1..]),
        3 => out.extend_from_slice(&[(bits >> 10) as u8, (bits >> 2) as u8]),
        2 => out.push((bits >> 4) as u8),
        _ => return false,
    }
    true
}

/// Decodes group by group, also after padding. False: a group is not well formed; what was decoded before it remains.
fn decode_groups(text: &[u8], foreign: Foreign, out: &mut Vec<u8>) -> bool {
    let (mut group, mut n) = ([0; 4], 0);
    for &b in text {
        if b != b'=' && value(b).is_none() {
            match foreign {
                Foreign::Ends => break,
                Foreign::Skipped => continue,
            }
        }
        group[n] = b;
        n += 1;
        if n == group.len() {
            if !decode_group(&group, out) {
                return false;
            }
            n = 0;
        }
    }
    // Of a text whose foreign bytes are skipped only whole groups count.
    n == 0 || foreign == Foreign::Skipped || decode_group(&group[..n], out)
}

/// RFC 4648, section 4, with its padding or without: nothing else in between, unused bits are zero.
pub(crate) fn decode_strict(text: &[u8], is_padded: bool, out: &mut Vec<u8>) -> bool {
    if is_padded && !text.len().is_multiple_of(4) {
        return false;
    }
    let pads =
        if is_padded { text.iter().rev().take(2).take_while(|b| **b == b'=').count() } else { 0 };
    text[..text.len() - pads].chunks(4).all(|group| {
        let mut bits = 0;
        for b in group {
            let Some(v) = value(*b) else { return false };
            bits = bits << 6 | v;
        }
        let unused = match group.len() {
            2 => 0xF,
            3 => 0x3,
            _ => 0,
        };
        bits & unused == 0 && decode_group(group, out)
    })
}

/// As transforms, `base64_decode` and scripts decode. False: there is no result, and what was decoded is removed.
pub(crate) fn decode(text: &[u8], mode: Base64Mode, out: &mut Vec<u8>) -> bool {
    let before = out.len();
    let is_whole = match mode {
        Base64Mode::Rfc4648 => decode_groups(text, Foreign::Ends, out),
        Base64Mode::Rfc2045 => decode_groups(text, Foreign::Skipped, out),
        Base64Mode::Strict => decode_strict(text, true, out),
    };
    if !is_whole {
        out.truncate(before);
    }
    out.len() > before
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str, mode: Base64Mode) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decode(text.as_bytes(), mode, &mut out).then_some(out)
    }

    /// Test vectors of RFC 4648, section 10.
    #[test]
    fn all_modes_decode_the_vectors_of_rfc_4648() {
        for (plain, coded) in [
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            for mode in [Base64Mode::Rfc4648, Base64Mode::Rfc2045, Base64Mode::Strict] {
                assert_eq!(decoded(coded, mode).as_deref(), Some(plain.as_bytes()), "{mode:?}");
            }
        }
    }

    /// What `base64_data` and `from_base64` have in Suricata 8.0.7, in the three modes; none: no result.
    #[test]
    fn malformed_texts_have_the_results_of_suricata() {
        const HELLO: &[u8] = b"\x85\xe9\x65";
        let rows: &[(&str, [Option<&[u8]>; 3])] = &[
            ("hello", [None, Some(HELLO), None]),
            ("hello\n", [None, Some(HELLO), None]),
            ("hell", [Some(HELLO), Some(HELLO), Some(HELLO)]),
            ("h", [None, None, None]),
            ("YWJj YWJj", [Some(b"abc"), Some(b"abcabc"), None]),
            ("YWJj\r\nYWJj", [Some(b"abc"), Some(b"abcabc"), None]),
            ("YW*Jj", [Some(b"a"), Some(b"abc"), None]),
            ("YWJjZ*Gk", [None, Some(b"abc"), None]),
            ("YWJjZG*k", [Some(b"abcd"), Some(b"abc"), None]),
            ("*YWJj", [None, Some(b"abc"), None]),
            (" YWJj", [None, Some(b"abc"), None]),
            ("YWJjZA", [Some(b"abcd"), Some(b"abc"), None]),
            ("YWJjZA=", [Some(b"abcd"), Some(b"abc"), None]),
            ("YWJjZGU==", [None, Some(b"abcde"), None]),
            ("YWJj=", [None, Some(b"abc"), None]),
            ("YWJj=YWJj", [None, None, None]),
            ("YWJj====YWJj", [None, None, None]),
            ("=YWJj", [None, None, None]),
            ("YWJjZA==YWJj", [Some(b"abcdabc"), Some(b"abcdabc"), None]),
            ("YWJjZA=YWJj", [Some(b"abcdX\x98"), Some(b"abcd"), None]),
            ("YWJjZGU=YW", [Some(b"abcdea"), Some(b"abcde"), None]),
            ("YWJjZGU=Y", [None, Some(b"abcde"), None]),
            ("YWJjZA== YWJj", [Some(b"abcd"), Some(b"abcdabc"), None]),
            ("YW=J", [Some(b"a"), Some(b"a"), None]),
            ("Y=WJ", [None, None, None]),
            ("YW=", [Some(b"a"), None, None]),
            ("YW= =", [Some(b"a"), Some(b"a"), None]),
            ("YW==", [Some(b"a"), Some(b"a"), None]),
            ("YWJ=", [Some(b"ab"), Some(b"ab"), None]),
            ("YWJj-YWJj", [Some(b"abc"), Some(b"abcabc"), None]),
        ];
        for (text, want) in rows {
            let modes = [Base64Mode::Rfc4648, Base64Mode::Rfc2045, Base64Mode::Strict];
            let got = modes.map(|mode| decoded(text, mode));
            assert_eq!(got.each_ref().map(|o| o.as_deref()), *want, "{text:?}");
        }
    }
}
