//! Append-only JSON writer for the packet path.
//!
//! EVE lines are written field by field in a fixed order, some hundred thousand a second, so this
//! writer keeps no tree and allocates nothing but its output buffer: pieces of text, `itoa` for
//! numbers and one escape table. Commas are put by looking at the last byte written, which is cheap
//! and cannot get out of step with the nesting.
//!
//! Text from the wire is bytes, not UTF-8. Valid UTF-8 passes through; in any other text each byte
//! above ASCII is written as the text `\xhh`, so that each line stays valid JSON.

use crate::Ip;
use crate::hex;
use crate::logs::TimeNs;
use std::borrow::Cow;

/// A JSON text under construction.
#[derive(Default, Debug, Clone)]
pub struct Json {
    out: Vec<u8>,
    later: Vec<Later>,
}

/// A number that is known only when the text is written out: see [`Json::number_later`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Later {
    /// Where in the text it is: a single `0` is there until then.
    pub at: usize,
    /// Whose number it is.
    pub key: u64,
}

/// A place to come back to: see [`Json::mark`].
#[derive(Clone, Copy, Debug)]
pub struct Mark(usize);

impl Json {
    /// An empty writer.
    pub fn new() -> Json {
        Json::default()
    }

    /// A writer that appends to what is in `out`, whose memory it takes; [`Json::take_bytes`] returns
    /// it.
    pub fn behind(out: Vec<u8>) -> Json {
        Json { out, later: Vec::new() }
    }

    /// An empty writer with space for `n` bytes.
    pub fn with_capacity(n: usize) -> Json {
        Json { out: Vec::with_capacity(n), later: Vec::new() }
    }

    /// What was written.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Takes what was written and leaves the writer empty.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        self.later.clear();
        std::mem::take(&mut self.out)
    }

    /// What was written as a text of one line.
    pub fn into_line(mut self) -> String {
        self.out.push(b'\n');
        // What is written into it is text already: this only says so.
        String::from_utf8_lossy(&self.out).into_owned()
    }

    /// Forgets what was written and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.out.clear();
        self.later.clear();
    }

    /// Bytes written so far.
    #[inline]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// True when nothing was written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Remembers the present end, for [`Json::rewind`].
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark(self.out.len())
    }

    /// Cuts everything written since `mark`.
    pub fn rewind(&mut self, mark: Mark) {
        self.out.truncate(mark.0);
        while self.later.last().is_some_and(|later| later.at >= mark.0) {
            self.later.pop();
        }
    }

    /// True when something was written since `mark`.
    pub fn wrote_since(&self, mark: Mark) -> bool {
        self.out.len() > mark.0
    }

    #[inline]
    fn comma(&mut self) {
        match self.out.last() {
            None | Some(b'{' | b'[' | b':' | b'\n') => {}
            Some(_) => self.out.push(b','),
        }
    }

    /// Opens an object as a value of an array or as the whole text.
    #[inline]
    pub fn open(&mut self) {
        self.comma();
        self.out.push(b'{');
    }

    /// Closes an object.
    #[inline]
    pub fn close(&mut self) {
        self.out.push(b'}');
    }

    /// Opens an array as a value of an array.
    #[inline]
    pub fn open_array(&mut self) {
        self.comma();
        self.out.push(b'[');
    }

    /// Closes an array.
    #[inline]
    pub fn close_array(&mut self) {
        self.out.push(b']');
    }

    /// Writes a key; `key` is plain ASCII of ours that needs no escaping.
    #[inline]
    pub fn key(&mut self, key: &str) {
        self.comma();
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    /// Writes a key that came from outside (rule metadata, header names).
    pub fn key_text(&mut self, key: &[u8]) {
        self.comma();
        self.quoted(key);
        self.out.push(b':');
    }

    /// `"key":{`
    #[inline]
    pub fn open_key(&mut self, key: &str) {
        self.key(key);
        self.out.push(b'{');
    }

    /// `"key":[`
    #[inline]
    pub fn open_array_key(&mut self, key: &str) {
        self.key(key);
        self.out.push(b'[');
    }

    /// `"key":"text"` with escapes.
    #[inline]
    pub fn field(&mut self, key: &str, text: impl AsRef<[u8]>) {
        self.key(key);
        self.quoted(text.as_ref());
    }

    /// `"key":"text"` where the text is known to need no escaping.
    #[inline]
    pub fn field_plain(&mut self, key: &str, text: &str) {
        self.key(key);
        self.out.push(b'"');
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b'"');
    }

    /// `"key":"text"` of a text in pieces, with escapes.
    pub fn field_of(&mut self, key: &str, pieces: &[&str]) {
        self.key(key);
        self.out.push(b'"');
        for piece in pieces.iter().map(|piece| piece.as_bytes()) {
            if is_plain(piece) { self.out.extend_from_slice(piece) } else { self.escaped(piece) }
        }
        self.out.push(b'"');
    }

    /// `"key":"moment"`, see [`TimeNs::iso`].
    #[inline]
    pub fn moment(&mut self, key: &str, at: TimeNs) {
        self.key(key);
        self.out.push(b'"');
        at.iso().put_text(&mut self.out);
        self.out.push(b'"');
    }

    /// `"key":"address"`
    #[inline]
    pub fn ip(&mut self, key: &str, ip: Ip) {
        self.key(key);
        self.out.push(b'"');
        ip.put_text(&mut self.out);
        self.out.push(b'"');
    }

    /// `"key":number`
    #[inline]
    pub fn number(&mut self, key: &str, n: impl itoa::Integer) {
        self.key(key);
        self.out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
    }

    /// A member whose number is known only when all texts are in order: `0` until then.
    pub fn number_later(&mut self, key: &str, of: u64) {
        self.key(key);
        self.later.push(Later { at: self.out.len(), key: of });
        self.out.push(b'0');
    }

    /// Numbers that are still to come, in order of their places.
    #[inline]
    pub fn later(&self) -> &[Later] {
        &self.later
    }

    /// `"key":number` with a fraction.
    pub fn float(&mut self, key: &str, x: f64) {
        self.key(key);
        self.push_float(x);
    }

    /// Appends a number with a fraction as it is.
    pub fn push_float(&mut self, x: f64) {
        if x.is_finite() {
            self.out.extend_from_slice(ryu::Buffer::new().format_finite(x).as_bytes());
        } else {
            self.out.extend_from_slice(b"null");
        }
    }

    /// Appends a whole number as it is.
    #[inline]
    pub fn push_number(&mut self, n: impl itoa::Integer) {
        self.out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
    }

    /// `"key":true|false`
    #[inline]
    pub fn boolean(&mut self, key: &str, b: bool) {
        self.key(key);
        self.out.extend_from_slice(if b { b"true" } else { b"false" });
    }

    /// Makes ready for a value of an array whose bytes are then pushed.
    pub fn next_item(&mut self) {
        self.comma();
    }

    /// A text as a value of an array.
    pub fn item(&mut self, text: impl AsRef<[u8]>) {
        self.comma();
        self.quoted(text.as_ref());
    }

    /// A number as a value of an array.
    pub fn item_number(&mut self, n: impl itoa::Integer) {
        self.comma();
        self.out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
    }

    /// `"key":` and `json`, which is a complete JSON value already.
    pub fn raw(&mut self, key: &str, json: &[u8]) {
        self.key(key);
        self.out.extend_from_slice(json);
    }

    /// Members already written elsewhere: `"a":1,"b":2`, with a comma before them where needed.
    #[inline]
    pub fn members(&mut self, json: &[u8]) {
        if !json.is_empty() {
            self.comma();
            self.out.extend_from_slice(json);
        }
    }

    /// Appends bytes as they are: line ends, pieces known to be right.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// `"key":"lower-case hex"`
    pub fn hex(&mut self, key: &str, bytes: &[u8]) {
        self.key(key);
        self.out.push(b'"');
        hex::push_hex(&mut self.out, bytes);
        self.out.push(b'"');
    }

    /// `"key":"base64"` (RFC 4648 with padding).
    pub fn base64(&mut self, key: &str, bytes: &[u8]) {
        self.key(key);
        self.out.push(b'"');
        base64_into(bytes, &mut self.out);
        self.out.push(b'"');
    }

    /// `"key":"printable"`: bytes outside the printable ASCII range become `.`, but CR and LF are
    /// kept, as Suricata's `payload_printable`.
    pub fn printable(&mut self, key: &str, bytes: &[u8]) {
        self.key(key);
        self.out.push(b'"');
        for &b in bytes {
            match b {
                b'\r' => self.out.extend_from_slice(b"\\r"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                b'"' => self.out.extend_from_slice(b"\\\""),
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                0x20..=0x7e => self.out.push(b),
                _ => self.out.push(b'.'),
            }
        }
        self.out.push(b'"');
    }

    /// Writes a quoted string: valid UTF-8 passes with control characters escaped; of text that is
    /// not UTF-8 every byte above ASCII becomes the text `\xhh`, as Suricata's JSON builder does
    /// (observed in EVE of 8.0.7: `ff 61 c3 a9` is written `\\xffa\\xc3\\xa9`).
    pub fn quoted(&mut self, text: &[u8]) {
        self.out.push(b'"');
        // The common case: nothing to escape at all.
        if is_plain(text) {
            self.out.extend_from_slice(text);
        } else if std::str::from_utf8(text).is_ok() {
            self.escaped(text);
        } else {
            for b in text {
                if b.is_ascii() {
                    self.escaped(std::slice::from_ref(b));
                } else {
                    escape_invalid(*b, &mut self.out);
                }
            }
        }
        self.out.push(b'"');
    }

    fn escaped(&mut self, text: &[u8]) {
        // What needs no escape goes over in runs.
        let mut rest = text;
        while let Some(at) = rest.iter().position(|b| !PLAIN[*b as usize] && *b < 0x80) {
            let (run, behind) = rest.split_at(at);
            self.out.extend_from_slice(run);
            let Some((&b, behind)) = behind.split_first() else { break };
            rest = behind;
            match b {
                b'"' => self.out.extend_from_slice(b"\\\""),
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                0x08 => self.out.extend_from_slice(b"\\b"),
                0x0c => self.out.extend_from_slice(b"\\f"),
                0..=0x1f => {
                    self.out.extend_from_slice(b"\\u00");
                    self.out.extend_from_slice(&hex::digits(b));
                }
                _ => self.out.push(b),
            }
        }
        self.out.extend_from_slice(rest);
    }
}

/// Whether a text stands for itself between quotes: ASCII without quotes, backslashes and control
/// characters.
#[inline]
pub fn is_plain(text: &[u8]) -> bool {
    // All are examined, so that many are at once.
    text.iter().fold(true, |is, b| is & matches!(b, 0x20..0x80) & (*b != b'"') & (*b != b'\\'))
}

/// A text as programs have it that read what [`Json::quoted`] wrote: of text that is not UTF-8 every byte above
/// ASCII is the text `\xhh`.
pub fn readable(text: &[u8]) -> Cow<'_, [u8]> {
    if std::str::from_utf8(text).is_ok() {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len() + 16);
    for b in text {
        if b.is_ascii() {
            out.push(*b)
        } else {
            out.extend_from_slice(b"\\x");
            hex::push_hex(&mut out, std::slice::from_ref(b));
        }
    }
    Cow::Owned(out)
}

/// The text `\xhh`, its backslash escaped for JSON.
fn escape_invalid(b: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\\\\x");
    out.extend_from_slice(&hex::digits(b));
}

/// Appends `bytes` in base64 (RFC 4648, padded).
pub fn base64_into(bytes: &[u8], out: &mut Vec<u8>) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let b = [chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)];
        let n = (u32::from(b[0]) << 16) | (u32::from(b[1]) << 8) | u32::from(b[2]);
        for i in 0..4 {
            if i <= chunk.len() {
                out.push(ALPHABET[(n >> (18 - 6 * i)) as usize & 63]);
            } else {
                out.push(b'=');
            }
        }
    }
}

/// Bytes that stand for themselves inside a JSON string.
static PLAIN: [bool; 256] = {
    let mut t = [false; 256];
    let mut i = 0x20;
    while i < 0x80 {
        t[i] = i != b'"' as usize && i != b'\\' as usize;
        i += 1;
    }
    t
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_and_escapes() {
        let mut j = Json::new();
        j.open();
        j.field("a", "x\"y");
        j.number("n", 5u8);
        j.open_key("o");
        j.close();
        j.open_array_key("l");
        j.item("p");
        j.item_number(7i32);
        j.close_array();
        j.field("b", b"\xff\xc3\xa9\x01");
        j.base64("c", b"ab");
        j.field_of("d", &["x", "\"é", "\n"]);
        j.moment("e", TimeNs(1_500_000));
        j.ip("f", Ip::v4(0x0102_0304));
        j.close();
        assert_eq!(
            String::from_utf8(j.take_bytes()).unwrap(),
            "{\"a\":\"x\\\"y\",\"n\":5,\"o\":{},\"l\":[\"p\",7],\"b\":\"\\\\xff\\\\xc3\\\\xa9\\u0001\",\"c\":\"YWI=\",\"d\":\"x\\\"é\\n\",\
             \"e\":\"1970-01-01T00:00:00.001500+00:00\",\"f\":\"1.2.3.4\"}"
        );
    }

    #[test]
    fn readable_texts_are_those_that_a_reader_gets() {
        for (text, expected) in [
            (&b"a\"\xc3\xa9\n"[..], &b"a\"\xc3\xa9\n"[..]),
            (b"\xff\"a\xc3\xa9", b"\\xff\"a\\xc3\\xa9"),
            (b"", b""),
        ] {
            assert_eq!(readable(text).as_ref(), expected);
        }
    }

    #[test]
    fn numbers_to_come_are_forgotten_with_their_text() {
        let mut j = Json::new();
        j.open();
        j.number_later("a", 7);
        let mark = j.mark();
        j.number_later("b", 8);
        j.rewind(mark);
        j.close();
        assert_eq!(j.bytes(), br#"{"a":0}"#);
        assert_eq!(j.later(), [Later { at: 5, key: 7 }]);
        j.clear();
        assert_eq!(j.later(), []);
    }

    #[test]
    fn what_is_plain_is_what_the_table_says() {
        for byte in 0..=u8::MAX {
            let text = [b'a', b'b', byte, b'c'];
            assert_eq!(is_plain(&text), PLAIN[usize::from(byte)], "{byte}");
        }
    }
}
