//! The members of one JSON object, walked from left to right without allocation and without a tree.
//!
//! It is lenient about what readers of logs never meet (numbers are not checked, keys may repeat)
//! and strict about what would make them guess: an object that does not end is refused.

pub use crate::field::number;
use crate::limits::JSON_DEPTH_MAX;

/// A value as it is in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A text without its quotes; `true` when it has escapes.
    Text(&'a [u8], bool),
    /// A number, `true`, `false` or `null`.
    Plain(&'a [u8]),
    /// An array with its brackets.
    Array(&'a [u8]),
    /// An object with its braces.
    Object(&'a [u8]),
}

impl<'a> Value<'a> {
    /// What stands between quotes or brackets, or the value itself; empty for `null`.
    #[inline]
    pub fn raw(self) -> &'a [u8] {
        match self {
            Value::Text(raw, _) | Value::Array(raw) | Value::Object(raw) => raw,
            Value::Plain(b"null") => &[],
            Value::Plain(raw) => raw,
        }
    }
}

/// Calls `each` with every member of the object. `None` when the text is no whole object; what was
/// found until then has been given.
#[inline]
pub fn members<'a>(text: &'a [u8], mut each: impl FnMut(&'a [u8], Value<'a>)) -> Option<()> {
    let mut rest = blank(text).strip_prefix(b"{")?;
    rest = blank(rest);
    if rest.first() == Some(&b'}') {
        return Some(());
    }
    loop {
        let (key, _, after) = string(blank(rest))?;
        rest = blank(blank(after).strip_prefix(b":")?);
        let (value, after) = value(rest)?;
        each(key, value);
        rest = blank(after);
        match rest.split_first()? {
            (b',', after) => rest = after,
            (b'}', _) => return Some(()),
            _ => return None,
        }
    }
}

#[inline]
fn blank(text: &[u8]) -> &[u8] {
    match text.first() {
        Some(b' ' | b'\t' | b'\r' | b'\n') => text.trim_ascii_start(),
        _ => text,
    }
}

/// A text from its opening quote on: its inside, whether it has escapes, what follows.
#[inline]
fn string(text: &[u8]) -> Option<(&[u8], bool, &[u8])> {
    let inner = text.strip_prefix(b"\"")?;
    let mut from = 0;
    let mut has_escapes = false;
    loop {
        let at = from + memchr::memchr2(b'"', b'\\', inner.get(from..)?)?;
        if inner.get(at) == Some(&b'"') {
            return Some((inner.get(..at)?, has_escapes, inner.get(at + 1..)?));
        }
        has_escapes = true;
        from = at + 2;
    }
}

#[inline]
fn value(text: &[u8]) -> Option<(Value<'_>, &[u8])> {
    match text.first()? {
        b'"' => {
            let (inner, has_escapes, after) = string(text)?;
            Some((Value::Text(inner, has_escapes), after))
        }
        b'[' => {
            let end = nested(text)?;
            Some((Value::Array(text.get(..end)?), text.get(end..)?))
        }
        b'{' => {
            let end = nested(text)?;
            Some((Value::Object(text.get(..end)?), text.get(end..)?))
        }
        _ => {
            let end = text.iter().position(|b| matches!(b, b',' | b'}' | b']'))?;
            let (plain, after) = text.split_at(end);
            Some((Value::Plain(plain.trim_ascii_end()), after))
        }
    }
}

/// Length of the array or object that the text begins with; `None` when it does not end.
pub fn len(text: &[u8]) -> Option<usize> {
    matches!(text.first(), Some(b'[' | b'{')).then(|| nested(text))?
}

/// Length of the array or object that the text begins with.
fn nested(text: &[u8]) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = 0;
    loop {
        match text.get(at)? {
            b'[' | b'{' => {
                depth += 1;
                if depth > JSON_DEPTH_MAX {
                    return None;
                }
            }
            b']' | b'}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            b'"' => {
                let (inner, _, _) = string(text.get(at..)?)?;
                at += inner.len() + 1;
            }
            _ => {}
        }
        at += 1;
    }
}

/// Appends a text with its escapes undone. Wrong escapes stay as they are.
pub fn unescape(raw: &[u8], out: &mut Vec<u8>) {
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (before, after) = rest.split_at(at);
        out.extend_from_slice(before);
        let mut used = 2;
        match after.get(1) {
            Some(b'n') => out.push(b'\n'),
            Some(b'r') => out.push(b'\r'),
            Some(b't') => out.push(b'\t'),
            Some(b'b') => out.push(8),
            Some(b'f') => out.push(12),
            Some(b'u') => match unicode(after) {
                Some((c, len)) => {
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                    used = len;
                }
                None => out.extend_from_slice(b"\\u"),
            },
            Some(other) => out.push(*other),
            None => out.push(b'\\'),
        }
        rest = after.get(used..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

/// The character of `\uXXXX` or of a pair of surrogates, and the bytes it took.
fn unicode(text: &[u8]) -> Option<(char, usize)> {
    let hex = |at: usize| -> Option<u32> {
        let digits = std::str::from_utf8(text.get(at..at + 4)?).ok()?;
        u32::from_str_radix(digits, 16).ok()
    };
    let first = hex(2)?;
    if !(0xd800..0xdc00).contains(&first) {
        return char::from_u32(first).map(|c| (c, 6));
    }
    if text.get(6..8)? != b"\\u" {
        return None;
    }
    let second = hex(8)?.checked_sub(0xdc00).filter(|n| *n < 0x400)?;
    char::from_u32(0x10000 + ((first - 0xd800) << 10) + second).map(|c| (c, 12))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Option<Vec<(String, String)>> {
        let mut found = Vec::new();
        members(text.as_bytes(), |key, value| {
            let show = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
            found.push((show(key), show(value.raw())));
        })?;
        Some(found)
    }

    #[test]
    fn members_are_found_and_halves_refused() {
        let line =
            r#" {"a":1.5,"b": "x\"y,}" , "c":[{"d":"]"},2],"e":{"f":null},"g":null,"h":true}"#;
        let found = all(line).unwrap();
        let values: Vec<&str> = found.iter().map(|(_, v)| v.as_str()).collect();
        assert_eq!(values, ["1.5", "x\\\"y,}", r#"[{"d":"]"},2]"#, r#"{"f":null}"#, "", "true"]);
        for cut in 0..line.len() {
            assert_eq!(all(&line[..cut]), None, "{cut}");
        }
        assert_eq!(all("{}"), Some(vec![]));
        assert_eq!(all(&format!("{{\"a\":{}", "[".repeat(100_000))), None);
    }

    #[test]
    fn escapes_are_undone() {
        let mut out = Vec::new();
        unescape(br#"a\"b\\c\/\u00e9\ud83d\ude00\ud83dx\"#, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), "a\"b\\c/é😀\\ud83dx\\");
    }
}
