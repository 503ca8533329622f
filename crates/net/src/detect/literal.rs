//! One literal in one buffer, without anything built beforehand.
//!
//! Contents are inspected after a prefilter hit, mostly in buffers of less than a hundred bytes, and
//! tens of thousands of distinct contents exist: a search structure per content would cost more
//! memory than it saves time. The rarest byte of the literal is looked for with `memchr`, the rest is
//! compared there.

use memchr::{memchr, memchr2};

/// How common a byte is in traffic: 0 rare, 255 common. Letters, digits, space, slash, dot, CR, LF
/// and NUL lead; the order within is from English text and header names.
static COMMONNESS: [u8; 256] = {
    let mut t = [20u8; 256];
    let mut i = 0;
    while i < 256 {
        let b = i as u8;
        t[i] = match b {
            b' ' | b'e' | b't' | b'a' | b'o' => 250,
            b'i' | b'n' | b's' | b'r' | b'l' | b'c' | b'd' | b'p' | b'm' | b'u' => 220,
            b'h' | b'/' | b'.' | b'-' | b'0' | b'1' | b'2' => 200,
            b'f' | b'g' | b'y' | b'w' | b'b' | b'v' | b'=' | b':' | b'\r' | b'\n' => 170,
            b'3'..=b'9' | b'k' | b'x' => 140,
            b'A'..=b'Z' => 110,
            b'j' | b'q' | b'z' | b'_' | b'&' | b',' | b';' | b'"' | b'<' | b'>' => 90,
            0 => 230,
            0xff | 1 => 120,
            0x21..=0x7e => 70,
            _ => 20,
        };
        i += 1;
    }
    t
};

/// First position of `needle` in `hay` at or after `from`; with `nocase` the needle is in
/// lower case already.
pub(crate) fn find(hay: &[u8], needle: &[u8], nocase: bool, from: usize) -> Option<usize> {
    let window = hay.get(from..)?;
    let n = needle.len();
    if n == 0 || window.len() < n {
        return None;
    }
    let mut rare = 0;
    let mut least = u8::MAX;
    for (i, b) in needle.iter().enumerate() {
        let mut c = COMMONNESS[*b as usize];
        if nocase && b.is_ascii_alphabetic() {
            c = c.saturating_add(20);
        }
        if c < least {
            (rare, least) = (i, c);
        }
    }
    let b = needle[rare];
    // Positions of the rare byte can only lie in this part of the window.
    let last = window.len() - n;
    let mut at = rare;
    let end = last + rare + 1;
    loop {
        let part = &window[at..end];
        let hit = if nocase && b.is_ascii_lowercase() {
            memchr2(b, b.to_ascii_uppercase(), part)?
        } else {
            memchr(b, part)?
        };
        let start = at + hit - rare;
        let candidate = &window[start..start + n];
        let equal =
            if nocase { candidate.eq_ignore_ascii_case(needle) } else { candidate == needle };
        if equal {
            return Some(from + start);
        }
        at += hit + 1;
        if at >= end {
            return None;
        }
    }
}

/// Whether `needle` is exactly at `at`.
pub(crate) fn stands_at(hay: &[u8], needle: &[u8], nocase: bool, at: usize) -> bool {
    match hay.get(at..at + needle.len()) {
        Some(c) if nocase => c.eq_ignore_ascii_case(needle),
        Some(c) => c == needle,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_a_plain_search_finds() {
        let hays: [&[u8]; 5] =
            [b"", b"GET /index.html HTTP/1.1", b"aaaaab", b"\x00\x01\x00\x01", b"xXxyXY"];
        let needles: [&[u8]; 6] = [b"index", b"aab", b"\x00\x01", b"xy", b"http", b"1"];
        for hay in hays {
            for needle in needles {
                for from in 0..=hay.len() {
                    for nocase in [false, true] {
                        let plain = (from..hay.len().saturating_sub(needle.len() - 1))
                            .find(|&i| stands_at(hay, needle, nocase, i));
                        assert_eq!(
                            find(hay, needle, nocase, from),
                            plain,
                            "{hay:?} {needle:?} {from}"
                        );
                    }
                }
            }
        }
    }
}
