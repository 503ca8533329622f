//! JSON: bundles of STIX 2.1, arrays and lines of objects.
//!
//! A scanner cuts a file into its objects as bytes come, so that a bundle of any size needs room for
//! one object only; each object is then read by itself, and again when somebody asks what it says.

#[cfg(feature = "lists-as-json")]
mod content;

use super::indicator::find;
use crate::limits::{BLANK_MAX, OBJECT_DEPTH_MAX, OBJECT_MAX};
#[cfg(feature = "lists-as-json")]
pub(crate) use content::read_object;
use gabion_record::Ip;
use gabion_record::evidence::ThreatLevel;
use gabion_record::logs::TimeNs;

/// Cuts objects out of a stream of JSON.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    /// Open brackets, `{` or `[`; deeper ones than this only count.
    open: Vec<u8>,
    in_text: bool,
    is_escaped: bool,
    /// The object being read, from its first byte.
    held: Vec<u8>,
    begin: u64,
    depth: usize,
    is_too_long: bool,
    /// The array being read is a bundle's list of objects.
    in_list: bool,
    at: u64,
    /// Objects that were too long.
    pub too_long: u64,
}

/// Names of lists whose members are taken one by one.
const LISTS: [&str; 4] = ["\"objects\"", "\"indicators\"", "\"data\"", "\"results\""];

impl Objects {
    /// Takes bytes in; `each` gets every object with its place in the stream.
    pub(crate) fn push(&mut self, bytes: &[u8], each: &mut dyn FnMut(u64, &[u8])) {
        for b in bytes {
            self.one(*b, each);
            self.at += 1;
        }
    }

    fn one(&mut self, b: u8, each: &mut dyn FnMut(u64, &[u8])) {
        if self.is_escaped {
            self.is_escaped = false;
        } else if self.in_text {
            self.is_escaped = b == b'\\';
            self.in_text = b != b'"';
        } else {
            match b {
                b'"' => self.in_text = true,
                b'{' => {
                    self.begin_object();
                    self.open.push(b);
                }
                b'[' => {
                    if self.open.as_slice() == [b'{'] {
                        let text = self.held.trim_ascii_end();
                        let key = text.strip_suffix(b":").unwrap_or_default().trim_ascii_end();
                        self.in_list = LISTS.iter().any(|l| key.ends_with(l.as_bytes()));
                    }
                    self.open.push(b);
                }
                b'}' | b']' => {
                    self.hold(b);
                    self.open.pop();
                    if b == b'}' {
                        self.end_object(each);
                    }
                    return;
                }
                _ => {}
            }
        }
        self.hold(b);
    }

    fn hold(&mut self, b: u8) {
        if self.depth == 0 || self.is_too_long {
            return;
        }
        if self.held.len() >= OBJECT_MAX {
            self.is_too_long = true;
            self.held.clear();
            return;
        }
        self.held.push(b);
    }

    /// An object of its own: the outermost, or one in an array of the outermost.
    fn begin_object(&mut self) {
        let is_inner = self.in_list && matches!(self.open.as_slice(), [b'{', b'[']);
        let is_outer = matches!(self.open.as_slice(), [] | [b'[']);
        if self.open.len() > OBJECT_DEPTH_MAX {
            self.is_too_long = true;
        }
        if is_inner || is_outer {
            self.held.clear();
            self.is_too_long = false;
            self.begin = self.at;
            self.depth = self.open.len() + 1;
        }
    }

    fn end_object(&mut self, each: &mut dyn FnMut(u64, &[u8])) {
        if self.open.len() + 1 == self.depth {
            if self.is_too_long {
                self.too_long += 1
            } else {
                each(self.begin, &self.held)
            }
            self.depth = 0;
            self.held.clear();
        }
        if self.open.is_empty() {
            (self.in_list, self.depth) = (false, 0);
        }
    }
}

/// What an object says.
#[derive(Debug, Default)]
pub(crate) struct Object {
    /// It is no indicator (a relation, an identity …), or is revoked.
    pub is_other: bool,
    /// Its pattern joins conditions that one look-up cannot, or is in another language.
    pub is_unsupported: bool,
    /// Its indicators as text.
    pub indicators: Vec<String>,
    /// What it is called.
    pub description: String,
    /// Labels.
    pub tags: String,
    /// From when on it holds.
    pub from: Option<TimeNs>,
    /// Until when it holds.
    pub until: Option<TimeNs>,
    /// How sure its author is, 0 to 100.
    pub confidence: Option<u8>,
    /// How bad it is, where it says so.
    pub level: Option<ThreatLevel>,
}

/// No object is read without the feature `lists-as-json`: each counts as a wrong one of its list.
#[cfg(not(feature = "lists-as-json"))]
pub(crate) fn read_object(_: &[u8]) -> Option<Object> {
    None
}

/// Bytes after a `[` within which an object of a list begins.
const LIST_BEGIN: usize = 64;

fn unmarked(begin: &[u8]) -> &[u8] {
    begin.strip_prefix(b"\xef\xbb\xbf").unwrap_or(begin).trim_ascii_start()
}

/// Whether a file begins as JSON does.
pub(crate) fn is_json(begin: &[u8]) -> bool {
    let blank = begin.len() - unmarked(begin).len();
    let begin = unmarked(begin);
    match begin.first() {
        _ if blank > BLANK_MAX => false,
        Some(b'{') => true,
        // `[1::2]` is no list.
        Some(b'[') => {
            find(begin.get(..begin.len().min(LIST_BEGIN)).unwrap_or_default(), b"{").is_some()
        }
        _ => false,
    }
}

/// Whether these first bytes of a file are enough for [`is_json`] to decide.
pub(crate) fn is_enough(begin: &[u8]) -> bool {
    if begin.len() > BLANK_MAX + LIST_BEGIN {
        return true;
    }
    if begin.len() < 3 && b"\xef\xbb\xbf".starts_with(begin) {
        return false;
    }
    let begin = unmarked(begin);
    match begin.first() {
        None => false,
        Some(b'[') => begin.len() >= LIST_BEGIN,
        Some(_) => true,
    }
}

/// An address that no list may name: private, local or of many.
pub(crate) fn is_no_target(ip: Ip) -> bool {
    ip.is_ignored() || ip.is_unspecified() || ip.is_loopback()
}

#[cfg(all(test, feature = "lists-as-json"))]
mod tests {
    use super::content::pattern;
    use super::*;

    fn objects(text: &str, step: usize) -> Vec<(u64, String)> {
        let mut found = Vec::new();
        let mut objects = Objects::default();
        for part in text.as_bytes().chunks(step) {
            objects.push(part, &mut |at, o| found.push((at, String::from_utf8_lossy(o).into())));
        }
        found
    }

    /// Wherever the stream is cut, the same objects come out.
    #[test]
    fn objects_are_cut_out_of_any_form() {
        let bundle = r#"{"type":"bundle","x":{"y":[1]},"objects":[{"a":"}\"{"}, {"b":[{"c":1}]}]}"#;
        let array = r#"[{"a":1},{"b":{"c":2}}]"#;
        let lines = "{\"a\":1}\n{\"b\":[{\"c\":2},{\"d\":3}]}\n{\"e\":5}";
        for step in 1..=bundle.len() {
            let found = objects(bundle, step);
            assert_eq!(found.len(), 2, "{step}");
            assert_eq!(found[0], (42, r#"{"a":"}\"{"}"#.into()));
            assert_eq!(found[1].1, r#"{"b":[{"c":1}]}"#);
            assert_eq!(objects(array, step).len(), 2);
        }
        assert_eq!(objects(lines, 7).len(), 3);
    }

    #[test]
    fn patterns_joined_by_or_are_read_and_others_refused() {
        for (text, found) in [
            ("[ipv4-addr:value = '198.51.100.1']", Some(vec!["198.51.100.1"])),
            (
                "[ipv4-addr:value='198.51.100.0/24' OR domain-name:value = 'e.example']",
                Some(vec!["198.51.100.0/24", "e.example"]),
            ),
            ("[url:value = 'http://e.example/a\\'b']", Some(vec!["http://e.example/a'b"])),
            ("[file:hashes.'SHA-256' = 'ab']", Some(vec!["ab"])),
            ("[file:hashes.MD5 = 'ab'] OR [file:hashes.'SHA-1'='cd']", Some(vec!["ab", "cd"])),
            (
                "[domain-name:value IN ('a.example', 'b.example')]",
                Some(vec!["a.example", "b.example"]),
            ),
            ("[autonomous-system:number = 64500]", Some(vec!["AS64500"])),
            ("[domain-name:value = 'a.example' AND ipv4-addr:value = '198.51.100.1']", None),
            ("[domain-name:value LIKE '%.example']", None),
            ("[process:name = 'x']", None),
            ("[ipv4-addr:value = 'never ends", None),
            ("", None),
        ] {
            let found = found.map(|f| f.iter().map(ToString::to_string).collect::<Vec<_>>());
            assert_eq!(pattern(text), found, "{text}");
        }
    }

    #[test]
    fn objects_of_feeds_are_read() {
        let o =
            read_object(br#"{"ip":{"v4":"198.51.100.7"},"src":{"name":"F"},"tags":{"str":"t"}}"#)
                .unwrap();
        assert_eq!(
            (o.indicators[0].as_str(), o.description.as_str(), o.tags.as_str()),
            ("198.51.100.7", "F", "t")
        );
        let o = read_object(br#"{"DomainAddress":"e.example","InsertDate":"2026-01-01"}"#).unwrap();
        assert_eq!(o.indicators, ["e.example"]);
        let o = read_object(br#"{"type":"indicator","id":"indicator--1","pattern":"[domain-name:value='e.example']",
            "pattern_type":"stix","valid_from":"2026-01-01T00:00:00Z","valid_until":"2026-02-01T00:00:00.5Z",
            "confidence":80,"labels":["c2"],"name":"E"}"#).unwrap();
        assert_eq!((o.confidence, o.from.map(TimeNs::seconds)), (Some(80), Some(1_767_225_600)));
        assert_eq!((o.until.map(TimeNs::seconds), o.tags.as_str()), (Some(1_769_904_000), "c2"));
        assert!(
            read_object(br#"{"type":"identity","id":"identity--1","name":"e.example"}"#)
                .unwrap()
                .is_other
        );
        assert!(read_object(br#"{"revoked":true,"type":"indicator","pattern":"[domain-name:value='e.example']"}"#).unwrap().is_other);
        assert!(read_object(b"[]").is_none() && read_object(b"{").is_none());
    }
}
