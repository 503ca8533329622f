//! Decoding of URI text the way a server of a given personality would.
//!
//! A rule should see the path that the server acts on, whatever the client wrote. Which escapes
//! are decoded, whether `\` separates and how UTF-8 is read differs between servers; the default
//! personality (IDS) decodes as much as any of them. Paths and other parts (query, user, host,
//! fragment) are decoded by slightly different rules, as Suricata does.

use super::bestfit::{REPLACEMENT, best_fit};

/// What to do with `%` that no two (or, after `u`, four) hex digits follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidEscape {
    /// Keep the `%`.
    Keep,
    /// Drop the `%`.
    Drop,
    /// Compute with the characters as if they were hex digits.
    Process,
}

/// How URIs are decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoding {
    pub(crate) double_decode_path: bool,
    pub(crate) double_decode_query: bool,
    pub(crate) backslash_is_separator: bool,
    pub(crate) lower_case: bool,
    pub(crate) compress_separators: bool,
    pub(crate) decode_separators: bool,
    pub(crate) plus_is_space: bool,
    pub(crate) raw_nul_terminates: bool,
    pub(crate) encoded_nul_terminates: bool,
    pub(crate) u_escapes: bool,
    pub(crate) invalid_escape: InvalidEscape,
    pub(crate) utf8_best_fit: bool,
    pub(crate) replacement: u8,
    pub(crate) include_all: bool,
}

impl Default for Decoding {
    /// The personality that changes least (MINIMAL).
    fn default() -> Decoding {
        Decoding {
            double_decode_path: false,
            double_decode_query: false,
            backslash_is_separator: false,
            lower_case: false,
            compress_separators: false,
            decode_separators: false,
            plus_is_space: false,
            raw_nul_terminates: false,
            encoded_nul_terminates: false,
            u_escapes: false,
            invalid_escape: InvalidEscape::Keep,
            utf8_best_fit: false,
            replacement: REPLACEMENT,
            include_all: false,
        }
    }
}

/// Value of two characters taken as hex digits, right or not.
fn hex_pair(high: u8, low: u8) -> u8 {
    let digit = |c: u8| {
        if c >= b'A' {
            (c & 0xdf).wrapping_sub(b'A').wrapping_add(10)
        } else {
            c.wrapping_sub(b'0')
        }
    };
    digit(high).wrapping_mul(16).wrapping_add(digit(low))
}

/// An escape at the head of a text.
enum Escape {
    /// One byte for that many bytes of input.
    Byte(u8, usize),
    /// The `%` disappears, what follows stays.
    Nothing,
    /// The `%` is kept as it is.
    Literal,
}

/// Reads what follows a `%`.
fn escape(after: &[u8], how: &Decoding) -> Escape {
    let invalid = |digits: Option<&[u8]>, consumed: usize| match how.invalid_escape {
        InvalidEscape::Keep => Escape::Literal,
        InvalidEscape::Drop => Escape::Nothing,
        InvalidEscape::Process => match digits {
            Some([a, b]) => Escape::Byte(hex_pair(*a, *b), consumed),
            Some([a, b, c, d]) => Escape::Byte(wide(*a, *b, *c, *d, how), consumed),
            _ => Escape::Literal,
        },
    };
    if let Some(b'u' | b'U') = after.first() {
        if !how.u_escapes {
            return Escape::Literal;
        }
        return match after.get(1..5) {
            Some(hex @ [a, b, c, d]) if hex.iter().all(u8::is_ascii_hexdigit) => {
                Escape::Byte(wide(*a, *b, *c, *d, how), 6)
            }
            digits => invalid(digits, 6),
        };
    }
    match after.get(..2) {
        Some(hex @ [a, b]) if hex.iter().all(u8::is_ascii_hexdigit) => {
            Escape::Byte(hex_pair(*a, *b), 3)
        }
        digits => invalid(digits, 3),
    }
}

/// The byte for `%uXXXX`: its low byte when the high one is zero, else the best fit.
fn wide(a: u8, b: u8, c: u8, d: u8, how: &Decoding) -> u8 {
    let (high, low) = (hex_pair(a, b), hex_pair(c, d));
    if high == 0 {
        low
    } else {
        best_fit(u32::from(u16::from_be_bytes([high, low])), how.replacement)
    }
}

/// Decodes a path into `out`: escapes, separators, case; then UTF-8; then dot segments.
pub(crate) fn decode_path(path: &[u8], how: &Decoding, out: &mut Vec<u8>) {
    let from = out.len();
    let mut at = 0;
    while let Some(&b) = path.get(at) {
        let (mut byte, mut consumed) = (b, 1);
        let mut is_decoded = false;
        if b == b'%' {
            match escape(&path[at + 1..], how) {
                Escape::Byte(value, n) => {
                    (byte, consumed, is_decoded) = (value, n, true);
                    let is_separator =
                        value == b'/' || (how.backslash_is_separator && value == b'\\');
                    if is_separator && n == 3 && !how.decode_separators {
                        (byte, consumed) = (b'%', 1);
                    }
                }
                Escape::Nothing => {
                    at += 1;
                    continue;
                }
                Escape::Literal => {}
            }
        }
        at += consumed;
        let ends = if is_decoded { how.encoded_nul_terminates } else { how.raw_nul_terminates };
        if byte == 0 && ends {
            break;
        }
        if byte == b'\\' && how.backslash_is_separator {
            byte = b'/';
        }
        if how.lower_case {
            byte = byte.to_ascii_lowercase();
        }
        let repeats = out.len() > from && out.last() == Some(&b'/');
        if !(byte == b'/' && how.compress_separators && repeats) {
            out.push(byte);
        }
    }
    if how.utf8_best_fit {
        utf8_to_bytes(out, from, how.replacement);
    }
    remove_dot_segments(out, from);
}

/// Decodes another part of a URI (query, user, host, fragment) into `out`.
pub(crate) fn decode_part(text: &[u8], how: &Decoding, out: &mut Vec<u8>) {
    let mut at = 0;
    while let Some(&b) = text.get(at) {
        at += 1;
        match b {
            b'%' => match escape(&text[at..], how) {
                Escape::Byte(0, _) if how.encoded_nul_terminates => return,
                Escape::Byte(value, n) => {
                    at += n - 1;
                    out.push(value);
                }
                Escape::Nothing => {}
                Escape::Literal => out.push(b'%'),
            },
            b'+' if how.plus_is_space => out.push(b' '),
            0 if how.raw_nul_terminates => return,
            _ => out.push(b),
        }
    }
}

/// Turns UTF-8 from `from` on into one byte a character by best fit. Overlong forms are decoded,
/// because servers that accept them are what attackers look for; broken sequences become one
/// replacement each.
fn utf8_to_bytes(text: &mut Vec<u8>, from: usize, replacement: u8) {
    if text[from..].is_ascii() {
        return;
    }
    let input = text.split_off(from);
    let mut at = 0;
    while let Some(&lead) = input.get(at) {
        let (follow, bits, second) = match lead {
            0..=0x7f => {
                text.push(lead);
                at += 1;
                continue;
            }
            0xc0..=0xdf => (1, lead & 0x1f, 0x80..=0xbf),
            0xed => (2, lead & 0x0f, 0x80..=0x9f),
            0xe0..=0xef => (2, lead & 0x0f, 0x80..=0xbf),
            0xf4 => (3, lead & 0x07, 0x80..=0x8f),
            0xf0..=0xf3 => (3, lead & 0x07, 0x80..=0xbf),
            _ => {
                text.push(replacement);
                at += 1;
                continue;
            }
        };
        let mut code_point = u32::from(bits);
        let mut seen = 0;
        while seen < follow {
            let allowed = if seen == 0 { second.clone() } else { 0x80..=0xbf };
            match input.get(at + 1 + seen) {
                Some(b) if allowed.contains(b) => {
                    code_point = (code_point << 6) | u32::from(b & 0x3f);
                    seen += 1;
                }
                _ => break,
            }
        }
        let is_cut = at + 1 + seen >= input.len();
        at += 1 + seen;
        if seen == follow {
            text.push(match u8::try_from(code_point) {
                Ok(byte) => byte,
                Err(_) => best_fit(code_point, replacement),
            });
        } else if is_cut {
            // The text ends inside a character: one replacement for each byte but the first.
            text.extend(std::iter::repeat_n(replacement, seen));
        } else {
            text.push(replacement);
        }
    }
}

/// RFC 3986 5.2.4 on the text from `from` on, with Suricata's reading of paths that do not begin
/// with `/` (a leading `./` or `../` goes) and no slash left where a last segment went.
fn remove_dot_segments(text: &mut Vec<u8>, from: usize) {
    if memchr::memchr(b'.', &text[from..]).is_none() {
        return;
    }
    let input = text.split_off(from);
    let mut rest = input.as_slice();
    // Before the first segment is written, "." and ".." segments simply go.
    while !rest.is_empty() && rest[0] != b'/' {
        let (segment, after) =
            rest.split_at(rest.iter().position(|b| *b == b'/').unwrap_or(rest.len()));
        match segment {
            b"." | b".." => rest = after.get(1..).unwrap_or_default(),
            _ => {
                text.extend_from_slice(segment);
                rest = after;
                break;
            }
        }
    }
    // From here each segment begins with its "/".
    let mut after_dots = false;
    while let [b'/', tail @ ..] = rest {
        let len = tail.iter().position(|b| *b == b'/').unwrap_or(tail.len());
        let (segment, after) = tail.split_at(len);
        match segment {
            b"." => after_dots = true,
            b".." => {
                while text.len() > from && text.last() != Some(&b'/') {
                    text.pop();
                }
                if text.len() > from {
                    text.pop();
                }
                after_dots = true;
            }
            b"" if after.is_empty() && after_dots => {}
            _ => {
                text.push(b'/');
                text.extend_from_slice(segment);
                after_dots = false;
            }
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &[u8], how: &Decoding) -> Vec<u8> {
        let mut out = b"x".to_vec();
        decode_path(text, how, &mut out);
        out[1..].to_vec()
    }

    fn part(text: &[u8], how: &Decoding) -> Vec<u8> {
        let mut out = Vec::new();
        decode_part(text, how, &mut out);
        out
    }

    /// RFC 3986 5.2.4 and Suricata's HTTP library (its own test vectors).
    #[test]
    fn dot_segments_are_removed() {
        for (text, expected) in [
            ("/a/b/c/./../../g", "/a/g"),
            ("mid/content=5/../6", "mid/6"),
            ("./one", "one"),
            ("../one", "one"),
            (".", ""),
            ("..", ""),
            ("one/.", "one"),
            ("one/..", ""),
            ("/", "/"),
            ("one/../", ""),
            ("/../../../images.gif", "/images.gif"),
            ("/a/..b/.c", "/a/..b/.c"),
            ("/one/two/", "/one/two/"),
        ] {
            let got = path(text.as_bytes(), &Decoding::default());
            assert_eq!(String::from_utf8_lossy(&got), expected, "{text}");
        }
    }

    /// Suricata's HTTP library, its own test vectors: (input, process, keep, drop).
    #[test]
    fn escapes_are_decoded_by_setting() {
        let u = Decoding { u_escapes: true, ..Decoding::default() };
        for (text, process, keep, drop) in [
            ("/%64est", "/dest", "/dest", "/dest"),
            ("/%xxest", "/1est", "/%xxest", "/xxest"),
            ("/%a", "/%a", "/%a", "/a"),
            ("/%00ABC", "/\0ABC", "/\0ABC", "/\0ABC"),
            ("/%u0064", "/d", "/d", "/d"),
            ("/%uXXXX", "/?", "/%uXXXX", "/uXXXX"),
            ("/%u0000ABC", "/\0ABC", "/\0ABC", "/\0ABC"),
            ("/one%2ftwo", "/one/two", "/one/two", "/one/two"),
        ] {
            for (handling, expected) in [
                (InvalidEscape::Process, process),
                (InvalidEscape::Keep, keep),
                (InvalidEscape::Drop, drop),
            ] {
                let how = Decoding { invalid_escape: handling, ..u };
                let got = part(text.as_bytes(), &how);
                assert_eq!(String::from_utf8_lossy(&got), expected, "{text} {handling:?}");
            }
        }
        let plain = Decoding::default();
        assert_eq!(part(b"/%u0064", &plain), b"/%u0064");
        assert_eq!(path(b"/one%2ftwo", &plain), b"/one%2ftwo");
    }

    #[test]
    fn the_default_personality_sees_through_evasions() {
        let ids = Decoding {
            backslash_is_separator: true,
            decode_separators: true,
            compress_separators: true,
            u_escapes: true,
            utf8_best_fit: true,
            ..Decoding::default()
        };
        for (text, expected) in [
            (&b"/a\\b%5cc%2f%2fd"[..], &b"/a/b/c/d"[..]),
            (b"/%c3%a9", b"/\xe9"),
            (b"/%uff0fx", b"/x"),
            (b"/a/%2e%2e/b", b"/b"),
            (b"/%c0%afx", b"//x"),
            // Broken UTF-8, Suricata's library's vectors.
            (b"\xf1.\xf1\xef\xbd\x9dabcd", b"?.?}abcd"),
            (b"\xf0\x90\x8d\xff", b"??"),
            (b"\xe2\x82", b"?"),
            (b"\xc2\xff\xf0", b"??"),
            (b"\xf0\x90\x28\xbc", b"?(?"),
        ] {
            assert_eq!(path(text, &ids), expected, "{}", text.escape_ascii());
        }
    }
}
