//! Character classes and small scanners that request and response share.
//!
//! "Space" here is what C's `isspace` says (space, tab, CR, LF, vertical tab, form feed): servers
//! and browsers use it where RFC 9110 allows less.

/// C's `isspace`.
pub(crate) const fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c)
}

/// A character of an RFC 9110 token (space excluded).
pub(crate) const fn is_token(b: u8) -> bool {
    matches!(b, 0x21..=0x7e)
        && !matches!(
            b,
            b'(' | b')'
                | b'<'
                | b'>'
                | b'@'
                | b','
                | b';'
                | b':'
                | b'\\'
                | b'"'
                | b'/'
                | b'['
                | b']'
                | b'?'
                | b'='
                | b'{'
                | b'}'
        )
}

/// Without white space at both ends.
pub(crate) fn trim(mut text: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = text
        && is_space(*first)
    {
        text = rest;
    }
    trim_end(text)
}

/// Without white space at the end.
pub(crate) fn trim_end(mut text: &[u8]) -> &[u8] {
    while let [rest @ .., last] = text
        && is_space(*last)
    {
        text = rest;
    }
    text
}

/// Without line ends at the end.
pub(crate) fn chomp(mut line: &[u8]) -> &[u8] {
    while let [rest @ .., b'\r' | b'\n'] = line {
        line = rest;
    }
    line
}

/// Length of the prefix whose bytes all satisfy `f`.
pub(crate) fn prefix(text: &[u8], f: impl Fn(u8) -> bool) -> usize {
    text.iter().position(|b| !f(*b)).unwrap_or(text.len())
}

/// Splits where `f` stops holding.
pub(crate) fn split_prefix(text: &[u8], f: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    text.split_at(prefix(text, f))
}

/// Whether `text` begins with `lower`, in any case.
pub(crate) fn starts_with_nocase(text: &[u8], lower: &[u8]) -> bool {
    text.get(..lower.len()).is_some_and(|t| t.eq_ignore_ascii_case(lower))
}

/// Whether `text` equals `lower` in any case once its NUL bytes are taken out: browsers do.
pub(crate) fn eq_nocase_nozero(text: &[u8], lower: &[u8]) -> bool {
    let mut a = text.iter().filter(|b| **b != 0).map(u8::to_ascii_lowercase);
    let mut b = lower.iter().copied();
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (x, y) if x == y => {}
            _ => return false,
        }
    }
}

/// Whether `lower` occurs in `text` in any case, NUL bytes of `text` left out when `skip_nul`.
pub(crate) fn contains_nocase(text: &[u8], lower: &[u8], skip_nul: bool) -> bool {
    (0..text.len()).any(|i| {
        let mut rest =
            text[i..].iter().filter(|b| !skip_nul || **b != 0).map(u8::to_ascii_lowercase);
        lower.iter().all(|b| rest.next() == Some(*b))
    })
}

/// A line that holds nothing but its end.
pub(crate) fn is_empty_line(line: &[u8]) -> bool {
    matches!(line, b"\r" | b"\n" | b"\r\n")
}

/// Decimal digits after white space and whatever else: `(junk before, digits, rest after white
/// space)`, as browsers read lengths and status codes.
pub(crate) fn find_digits(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let blank = |b| b == b' ' || b == b'\t';
    let (_, rest) = split_prefix(text, blank);
    let (junk, rest) = split_prefix(rest, |b| !b.is_ascii_digit());
    let (digits, rest) = split_prefix(rest, |b| b.is_ascii_digit());
    if digits.is_empty() {
        return None;
    }
    Some((junk, digits, split_prefix(rest, blank).1))
}

/// A decimal number of digits only.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |n, b| {
        let d = b.wrapping_sub(b'0');
        if d > 9 { None } else { n.checked_mul(10)?.checked_add(u64::from(d)) }
    })
}

/// A length as `Content-Length` gives it: `(value, junk before, junk after)`.
pub(crate) fn content_length(value: &[u8]) -> Option<(u64, bool, bool)> {
    let (before, digits, after) = find_digits(value)?;
    Some((decimal(digits)?, !before.is_empty(), !after.is_empty()))
}

/// White space of chunk-size lines.
pub(crate) const fn is_chunk_control(b: u8) -> bool {
    is_space(b)
}

/// Whether a chunk-size line that has begun like this can't be one: something other than a hex
/// digit follows the leading white space.
pub(crate) fn is_bad_chunk_start(text: &[u8]) -> bool {
    let at = prefix(text, is_chunk_control);
    text.get(at).is_some_and(|b| !b.is_ascii_hexdigit())
}

/// What a chunk-size line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkSize {
    /// Nothing but white space.
    Blank,
    /// A size, and whether an extension (`;`) follows it.
    Size(u64, bool),
    /// More than [`super::limits::CHUNK_BYTES_MAX`].
    TooLarge,
    /// No number.
    Invalid,
}

/// Reads a chunk-size line (RFC 9112 7.1), junk after the number allowed as browsers do.
pub(crate) fn chunk_size(line: &[u8]) -> ChunkSize {
    let (_, rest) = split_prefix(line, is_chunk_control);
    let (digits, rest) = split_prefix(rest, |b| b.is_ascii_hexdigit());
    let (_, rest) = split_prefix(rest, |b| b == b' ' || b == b'\t');
    if digits.is_empty() {
        return if rest.is_empty() { ChunkSize::Blank } else { ChunkSize::Invalid };
    }
    let size = digits.iter().try_fold(0u64, |n, b| {
        let d = (*b as char).to_digit(16)?;
        n.checked_mul(16)?.checked_add(u64::from(d))
    });
    match size {
        None => ChunkSize::Invalid,
        Some(n) if n > super::limits::CHUNK_BYTES_MAX => ChunkSize::TooLarge,
        Some(n) => ChunkSize::Size(n, rest.contains(&b';')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths and sizes as Suricata's HTTP library reads them (its own test vectors).
    #[test]
    fn lengths_are_read_leniently() {
        for (text, value) in [
            ("134", Some(134)),
            ("    \t134    ", Some(134)),
            ("abcd134    ", Some(134)),
            ("abcd    ", None),
            ("99999999999999999999999", None),
        ] {
            assert_eq!(content_length(text.as_bytes()).map(|l| l.0), value, "{text}");
        }
        for (text, size) in [
            ("0 ; qw3=asd3; zc3=\"rt\"y3\"", ChunkSize::Size(0, true)),
            ("12a5", ChunkSize::Size(0x12a5, false)),
            ("12a5;ext=value", ChunkSize::Size(0x12a5, true)),
            ("    \t12a5    ", ChunkSize::Size(0x12a5, false)),
            ("    \t    ", ChunkSize::Blank),
            ("zz", ChunkSize::Invalid),
            ("80000000", ChunkSize::TooLarge),
        ] {
            assert_eq!(chunk_size(text.as_bytes()), size, "{text}");
        }
    }

    #[test]
    fn names_compare_without_case_and_nul() {
        assert!(eq_nocase_nozero(b"K\0\0ey\x001", b"key1"));
        assert!(!eq_nocase_nozero(b"Key12", b"key1"));
        assert!(contains_nocase(b"foo, Chu\0nKed", b"chunked", true));
        assert!(!contains_nocase(b"Chu\0nked", b"chunked", false));
        assert_eq!(trim(b"\t a b \r\n"), b"a b");
        assert_eq!(chomp(b"test\n\r\r\n\r"), b"test");
    }
}
