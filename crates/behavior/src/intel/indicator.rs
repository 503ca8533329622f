//! What a text is: an address, a range, a name, a URL, a hash, a network's number.

use super::ranges;
use crate::limits::NAME_BYTES_MAX;
use crate::sketch::mix;
use gabion_record::{Ip, fnv};

/// One indicator, its text as it is in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indicator<'a> {
    /// One address
    Ip(Ip),
    /// First and last address
    Range(Ip, Ip),
    /// A name of a host, or of all below it
    Domain(&'a [u8]),
    /// A URL
    Url(&'a [u8]),
    /// MD5 or JA3 (32 digits), SHA-1 (40), SHA-256 (64): texts of hashes cannot be mistaken for
    /// each other, so that no list need say which it holds
    Hash(&'a [u8]),
    /// JARM (62 digits): understood, but no log carries it
    Jarm(&'a [u8]),
    /// The number of an autonomous system
    Asn(u32),
}

/// What of a list's entries a fingerprint is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    Ip,
    Domain,
    Url,
    Hash,
    Asn,
    /// A relay that traffic leaves Tor by
    TorExit,
    /// A file known to be harmless
    Harmless,
}

impl Class {
    fn salt(self) -> u64 {
        (self as u64 + 1).wrapping_mul(0x9e6c_63d0_876a_9a75)
    }
}

pub(crate) fn of_ip(class: Class, ip: Ip) -> u64 {
    let (high, low) = ip.halves();
    let low = low ^ class.salt();
    if high == 0 { mix(low) } else { mix(mix(high) ^ low) }
}

pub(crate) fn of_number(class: Class, n: u32) -> u64 {
    mix(mix(u64::from(n)) ^ class.salt())
}

/// Hash of a text in lower case.
pub(crate) fn of_text(class: Class, text: &[u8]) -> u64 {
    let mut h = Fnv::new(class);
    text.iter().for_each(|b| h.add(*b));
    h.hash()
}

/// Of a text in pieces.
pub(crate) struct Fnv(u64);

impl Fnv {
    pub(crate) fn new(class: Class) -> Fnv {
        Fnv(fnv::BASIS ^ class.salt())
    }
    #[inline]
    pub(crate) fn add(&mut self, b: u8) {
        self.0 = fnv::add(self.0, b.to_ascii_lowercase());
    }
    pub(crate) fn hash(&self) -> u64 {
        mix(self.0)
    }
}

/// What makes lower case of eight letters.
const LOWER: u64 = 0x2020_2020_2020_2020;

/// Sixteen bytes of a text, the earlier ones first.
type Words = (u64, u64);

#[inline]
fn words(bytes: &[u8; 16]) -> Words {
    let both = u128::from_le_bytes(*bytes);
    (both as u64, (both >> 64) as u64)
}

/// The name above a name.
#[inline]
pub(crate) fn above(name: &[u8]) -> Option<&[u8]> {
    let dot = name.iter().position(|b| *b == b'.')?;
    name.get(dot + 1..)
}

/// The hash of a name in lower case, by sixteen bytes at a time, of which the first may overlap others.
///
/// In letters, digits and `-` setting one bit makes lower case of them and leaves a dot a dot; other
/// bytes are in no name twice.
#[inline]
pub(crate) fn of_name(name: &[u8]) -> u64 {
    let mut state = Class::Domain.salt();
    let mut text = last(name);
    if let Some((before, end)) = name.split_last_chunk::<16>()
        && let (Some(first), Some((_, between))) = (name.first_chunk(), before.split_first())
    {
        state = step(state, lower(words(end)));
        for part in between.as_rchunks::<16>().1.iter().rev() {
            state = step(state, lower(words(part)));
        }
        text = words(first);
    }
    // The length is hashed after the text, which could undo it there: sixteens that overlap say too little.
    let factor = 0xbf58_476d_1ce4_e5b9 ^ (name.len() as u64) << 32;
    product(step(state, lower(text)) ^ 0x9e37_79b9_7f4a_7c15, factor)
}

#[inline]
fn lower(text: Words) -> Words {
    (text.0 | LOWER, text.1 | LOWER)
}

/// The same bytes less than sixteen places later, with zeros before them.
#[inline]
fn pushed(text: Words, by: u32) -> Words {
    let both = (u128::from(text.1) << 64 | u128::from(text.0)) << (8 * (by % 16));
    (both as u64, (both >> 64) as u64)
}

/// The last 16 bytes of a text; zeros before a shorter one.
#[inline]
fn last(text: &[u8]) -> Words {
    match text.last_chunk() {
        Some(bytes) => words(bytes),
        None => last_few(text),
    }
}

#[cold]
#[inline(never)]
fn last_few(text: &[u8]) -> Words {
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        // They overlap in bytes that are the same.
        let first = pushed((u64::from_le_bytes(*first), 0), 16 - text.len() as u32 % 16);
        return (first.0, first.1 | u64::from_le_bytes(*last));
    }
    (0, text.iter().fold(0, |word, byte| word >> 8 | u64::from(*byte) << 56))
}

/// The hash of a name's last two labels: names that cover one another have it in common. All bits of its
/// higher half are well mixed.
///
/// Most are shorter than the 16 bytes that are looked at together.
#[inline]
pub(crate) fn of_end(name: &[u8]) -> u64 {
    let text = last(name);
    let of_last = dots(text.1);
    // The dot before the last one; most top-level domains have less than eight letters.
    let before = of_last & !(1 << (of_last | 1).ilog2());
    let is_late = before != 0;
    let found = if is_late { before } else { dots(text.0) };
    if of_last == 0 || found == 0 {
        return of_other_end(name);
    }
    let mask = !1 << found.ilog2();
    let end = if is_late { (0, text.1 & mask) } else { (text.0 & mask, text.1) };
    mixed(lower(end))
}

/// The same for names of two labels, and for long labels.
#[inline(never)]
fn of_other_end(name: &[u8]) -> u64 {
    let mut labels = name.rsplitn(3, |b| *b == b'.');
    let len = labels.next().map_or(0, <[u8]>::len) + labels.next().map_or(0, |l| l.len() + 1);
    let end = name.get(name.len().saturating_sub(len)..).unwrap_or(name);
    // Others are hashed as a whole there, too.
    let is_short = len < 16 && end.iter().rev().take(8).any(|b| *b == b'.');
    if is_short { mixed(lower(last(end))) } else { of_name(end) }
}

#[inline]
fn mixed(text: Words) -> u64 {
    let wide = product(text.0 ^ 0x9e37_79b9_7f4a_7c15, text.1 ^ 0xd6e8_feb8_6659_fd93);
    wide.wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// The highest bit of each byte of a word that is a dot.
#[inline]
fn dots(word: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let other = word ^ 0x2e2e_2e2e_2e2e_2e2e;
    !(((other & LOW) + LOW) | other | LOW)
}

#[inline]
fn step(state: u64, text: Words) -> u64 {
    product(text.0 ^ state, text.1 ^ 0xd6e8_feb8_6659_fd93)
}

/// Both halves of a product, which every bit of both numbers has a part in.
#[inline]
fn product(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    (wide as u64) ^ (wide >> 64) as u64
}

/// Without quotes and blanks around it.
pub(crate) fn bare(text: &[u8]) -> &[u8] {
    let is_quote = |b: u8| matches!(b, b'"' | b'\'') || b.is_ascii_whitespace();
    let from = text.iter().position(|b| !is_quote(*b)).unwrap_or(text.len());
    let to = text.iter().rposition(|b| !is_quote(*b)).map_or(from, |at| at + 1);
    text.get(from..to).unwrap_or_default()
}

impl<'a> Indicator<'a> {
    /// Reads one, `None` when the text is none.
    pub fn parse(text: &'a [u8]) -> Option<Indicator<'a>> {
        let text = bare(text);
        let first = *text.first()?;
        if text.len() < 3 || text.len() > 4096 {
            return None;
        }
        if first.is_ascii_digit() || first == b':' || first.is_ascii_hexdigit() {
            if let Some(found) = address(text) {
                return Some(found);
            }
            if text.iter().all(u8::is_ascii_hexdigit) {
                match text.len() {
                    32 | 40 | 64 => return Some(Indicator::Hash(text)),
                    62 => return Some(Indicator::Jarm(text)),
                    _ => {}
                }
            }
        }
        if let Some(digits) = text.strip_prefix(b"AS").or_else(|| text.strip_prefix(b"as"))
            && let Some(n) = number(digits)
        {
            return Some(Indicator::Asn(n));
        }
        if let Some(at) = find(text, b"://") {
            let rest = text.get(at + 3..)?;
            let url = rest.strip_suffix(b"/").unwrap_or(rest);
            let is_host_only = !url.contains(&b'/');
            // What stands for a whole host is a name or an address.
            return if is_host_only {
                host(url).or(Some(Indicator::Url(rest)))
            } else {
                Some(Indicator::Url(rest))
            };
        }
        if let Some(found) = host(text) {
            return Some(found);
        }
        let slash = text.iter().position(|b| *b == b'/')?;
        let is_url = name(text.get(..slash)?).is_some();
        let is_plain = text.iter().all(|b| b.is_ascii_graphic());
        (is_url && is_plain).then_some(Indicator::Url(text))
    }

    /// Whether it is the same, however it is written.
    pub fn is_same(&self, other: &Indicator<'_>) -> bool {
        match (self, other) {
            (Indicator::Domain(a), Indicator::Domain(b))
            | (Indicator::Url(a), Indicator::Url(b))
            | (Indicator::Hash(a), Indicator::Hash(b)) => a.eq_ignore_ascii_case(b),
            (a, b) => a == b,
        }
    }
}

/// An address, alone, in a range or before a port.
fn address(text: &[u8]) -> Option<Indicator<'_>> {
    if let Some(ip) = Ip::parse(text) {
        return Some(Indicator::Ip(ip));
    }
    if text.iter().any(|b| matches!(b, b'/' | b'-')) {
        let (first, last) = ranges::bounds(text)?;
        return Some(if first == last {
            Indicator::Ip(first)
        } else {
            Indicator::Range(first, last)
        });
    }
    let at = text.iter().rposition(|b| *b == b':')?;
    number(text.get(at + 1..)?).filter(|port| *port < 65_536)?;
    Ip::parse(text.get(..at)?).filter(|ip| ip.is_v4()).map(Indicator::Ip)
}

/// A name or address, with or without a port.
fn host(text: &[u8]) -> Option<Indicator<'_>> {
    if let Some(found) = name(text) {
        return Some(Indicator::Domain(found));
    }
    if let Some(found) = address(text) {
        return Some(found);
    }
    let at = text.iter().rposition(|b| *b == b':')?;
    number(text.get(at + 1..)?).filter(|port| *port < 65_536)?;
    name(text.get(..at)?).map(Indicator::Domain)
}

/// A name of two labels or more, without what stands for all below it and without a last dot.
fn name(text: &[u8]) -> Option<&[u8]> {
    let text = text.strip_prefix(b"*.").or_else(|| text.strip_prefix(b".")).unwrap_or(text);
    let text = text.strip_suffix(b".").unwrap_or(text);
    if text.len() > NAME_BYTES_MAX || !text.contains(&b'.') {
        return None;
    }
    let mut last: &[u8] = b"";
    for label in text.split(|b| *b == b'.') {
        let is_label = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_') || *b >= 0x80;
        if label.is_empty() || label.len() > 63 || !label.iter().all(is_label) {
            return None;
        }
        last = label;
    }
    // The last label is no number (RFC 3696), and has a letter.
    let is_top = last.len() >= 2 && last.iter().any(|b| b.is_ascii_alphabetic() || *b >= 0x80);
    (is_top && !last.first().is_some_and(u8::is_ascii_digit)).then_some(text)
}

pub(crate) fn number(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > 10 {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

pub(crate) fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|w| w == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_distinguished() {
        let ip = |t: &str| Ip::parse(t.as_bytes()).unwrap();
        let md5 = "e7d705a3286e19ea42f587b344ee6865";
        for (text, found) in [
            ("1.2.3.4", Some(Indicator::Ip(ip("1.2.3.4")))),
            (" \"1.2.3.4\"", Some(Indicator::Ip(ip("1.2.3.4")))),
            ("1.2.3.4:443", Some(Indicator::Ip(ip("1.2.3.4")))),
            ("1.2.3.4/32", Some(Indicator::Ip(ip("1.2.3.4")))),
            ("2001:db8::1", Some(Indicator::Ip(ip("2001:db8::1")))),
            ("1.2.3.0/24", Some(Indicator::Range(ip("1.2.3.0"), ip("1.2.3.255")))),
            ("1.2.3.1-1.2.3.7", Some(Indicator::Range(ip("1.2.3.1"), ip("1.2.3.7")))),
            ("Evil.Example.com", Some(Indicator::Domain(b"Evil.Example.com"))),
            ("*.evil.example.", Some(Indicator::Domain(b"evil.example"))),
            ("evil.example:8080", Some(Indicator::Domain(b"evil.example"))),
            ("http://evil.example/", Some(Indicator::Domain(b"evil.example"))),
            ("http://1.2.3.4:81", Some(Indicator::Ip(ip("1.2.3.4")))),
            ("http://evil.example/a?b", Some(Indicator::Url(b"evil.example/a?b"))),
            ("evil.example/a", Some(Indicator::Url(b"evil.example/a"))),
            (md5, Some(Indicator::Hash(md5.as_bytes()))),
            ("AS39770", Some(Indicator::Asn(39_770))),
            ("asia", None),
            ("1", None),
            ("2021-01-01 00:00:00", None),
            ("2021-01-01T00:00:00.123Z", None),
            ("medium", None),
            ("1.2.3", None),
            ("a..b.com", None),
            ("no spaces.in names", None),
            ("localhost", None),
            ("", None),
        ] {
            assert_eq!(Indicator::parse(text.as_bytes()), found, "{text}");
        }
    }

    /// However long a name is and wherever its dots stand: it has one hash, whatever its case, and other
    /// names have others.
    #[test]
    fn names_have_their_own_hashes() {
        let mut seen = std::collections::HashMap::new();
        for pattern in 0..1u32 << 17 {
            let name: Vec<u8> =
                (0..17u8).map(|at| if pattern >> at & 1 == 1 { b'.' } else { b'a' + at }).collect();
            assert_eq!(of_name(&name), of_name(&name.to_ascii_uppercase()));
            assert_eq!(seen.insert(of_name(&name), name), None);
        }
        // Each byte counts, in names of any length.
        for len in 0..=NAME_BYTES_MAX {
            let same = vec![b'a'; len];
            for at in 0..len {
                let mut other = same.clone();
                other[at] = b'b';
                assert_eq!(seen.insert(of_name(&other), other), None, "{at} of {len}");
            }
            assert_eq!(seen.insert(of_name(&same), same), None, "{len}");
        }
    }

    /// Names end with the same two labels as what is above them, and as no other name does.
    #[test]
    fn names_end_as_those_above_them() {
        let mut ends = std::collections::HashMap::new();
        let mut seed = 1;
        for round in 0..200_000usize {
            let mut name = Vec::new();
            while name.len() < round % 90 {
                seed = mix(seed);
                let label = seed % [3, 9, 30][round % 3] + 1;
                (0..label).for_each(|n| name.push(b'a' + (seed >> n) as u8 % 23));
                name.push(b'.');
            }
            name.pop();
            let end = of_end(&name);
            assert_eq!(end, of_end(&name.to_ascii_uppercase()));
            let mut last = &name[..];
            while let Some(name) = above(last).filter(|name| name.contains(&b'.')) {
                last = name;
                assert_eq!(end, of_end(last), "{}", String::from_utf8_lossy(name));
            }
            let text = ends.entry(end).or_insert_with(|| last.to_vec());
            assert_eq!(text, last);
        }
        assert!(ends.len() > 50_000, "{}", ends.len());
        assert_eq!(
            (above(b"a.b.c"), above(b"a"), above(b"a.")),
            (Some(&b"b.c"[..]), None, Some(&b""[..]))
        );
    }
}
