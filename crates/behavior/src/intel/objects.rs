//! JSON: bundles of STIX 2.1, arrays and lines of objects.
//!
//! A scanner cuts a file into its objects as bytes come, so that a bundle of any size needs room for
//! one object only; each object is then read by itself, and again when somebody asks what it says.

use super::indicator::{Indicator, find, number};
use crate::limits::{BLANK_MAX, OBJECT_DEPTH_MAX, OBJECT_MAX, OF_PATTERN_MAX};
use gabion_record::Ip;
use gabion_record::evidence::ThreatLevel;
use gabion_record::logs::{SECOND, TimeNs, days};
use serde_json::Value;

/// Cuts objects out of a stream of JSON.
#[derive(Debug, Default)]
pub struct Objects {
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
    pub fn push(&mut self, bytes: &[u8], each: &mut dyn FnMut(u64, &[u8])) {
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
            match self.is_too_long {
                true => self.too_long += 1,
                false => each(self.begin, &self.held),
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
pub struct Object {
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

/// Reads one object; `None` when it is no JSON object.
pub fn read(bytes: &[u8]) -> Option<Object> {
    let Ok(Value::Object(map)) = serde_json::from_slice::<Value>(bytes) else { return None };
    let text = |key: &str| map.get(key).and_then(Value::as_str);
    let is_stix = map.contains_key("spec_version") || map.contains_key("pattern");
    if is_stix || text("type").is_some_and(|t| t == "bundle" || map.contains_key("id")) {
        let mut o = stix(&map);
        if text("type") != Some("indicator") {
            (o.is_other, o.is_unsupported) = (true, false);
            o.indicators.clear();
        }
        return Some(o);
    }
    let mut o = Object {
        description: ["description", "malware", "source", "threat", "desc"]
            .iter()
            .find_map(|k| text(k))
            .unwrap_or_default()
            .to_owned(),
        level: text("threat_level")
            .or(text("level"))
            .and_then(|t| ThreatLevel::from_name(t.as_bytes())),
        ..Object::default()
    };
    let nested = |outer: &str, inner: &str| map.get(outer)?.get(inner)?.as_str();
    if o.description.is_empty() {
        o.description = nested("src", "name").unwrap_or_default().to_owned();
    }
    o.tags = nested("tags", "str").unwrap_or_default().to_owned();
    let first = nested("ip", "v4").or_else(|| nested("ip", "v6")).or_else(|| {
        map.values().filter_map(Value::as_str).find(|v| Indicator::parse(v.as_bytes()).is_some())
    });
    match first {
        Some(found) => o.indicators.push(found.to_owned()),
        None => o.is_other = true,
    }
    Some(o)
}

fn stix(map: &serde_json::Map<String, Value>) -> Object {
    let text = |key: &str| map.get(key).and_then(Value::as_str);
    let list = |key: &str| -> Vec<&str> {
        map.get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    };
    let mut tags = list("labels");
    tags.extend(list("indicator_types"));
    let mut o = Object {
        is_other: map.get("revoked").and_then(Value::as_bool).unwrap_or(false),
        description: text("name").or(text("description")).unwrap_or_default().to_owned(),
        tags: tags.join(", "),
        from: text("valid_from").and_then(moment),
        until: text("valid_until").and_then(moment),
        confidence: map.get("confidence").and_then(Value::as_u64).map(|c| c.min(100) as u8),
        ..Object::default()
    };
    if text("pattern_type").is_some_and(|t| t != "stix") {
        o.is_unsupported = true;
        return o;
    }
    match pattern(text("pattern").unwrap_or_default()) {
        Some(found) => o.indicators = found,
        None => o.is_unsupported = true,
    }
    o
}

/// The indicators of a pattern of comparisons joined by OR; `None` when it asks for more.
fn pattern(text: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    // Whether comparisons are joined by OR alone is seen between them.
    while !rest.is_empty() {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r', '[', '(', ']', ')']);
        if let Some(after) = rest.strip_prefix("OR") {
            rest = after;
            continue;
        }
        if rest.is_empty() {
            break;
        }
        rest = comparison(rest, &mut found)?;
        if found.len() > OF_PATTERN_MAX {
            return None;
        }
    }
    (!found.is_empty()).then_some(found)
}

/// One `path = value` or `path IN (…)`; gives what follows.
fn comparison<'a>(text: &'a str, found: &mut Vec<String>) -> Option<&'a str> {
    // A path may have a quoted part: file:hashes.'SHA-256'.
    let mut end = 0;
    let mut is_quoted = false;
    for (at, c) in text.char_indices() {
        is_quoted ^= c == '\'';
        end = at;
        if !is_quoted && matches!(c, ' ' | '=' | '\t' | '\n') {
            break;
        }
    }
    let (path, rest) = text.split_at_checked(end)?;
    let is_number = match path {
        "ipv4-addr:value" | "ipv6-addr:value" | "domain-name:value" | "url:value" => false,
        p if p.starts_with("file:hashes.") || p.starts_with("x509-certificate:hashes.") => false,
        "autonomous-system:number" => true,
        _ => return None,
    };
    let rest = rest.trim_start();
    let is_list = rest.starts_with("IN");
    let rest = rest.strip_prefix("IN").or_else(|| rest.strip_prefix('='))?;
    let mut rest = rest.trim_start();
    if is_list {
        rest = rest.strip_prefix('(')?.trim_start();
    }
    loop {
        let (value, after) = literal(rest)?;
        found.push(if is_number { format!("AS{value}") } else { value });
        rest = after.trim_start();
        if !is_list {
            return Some(rest);
        }
        match rest.strip_prefix(',') {
            Some(after) => rest = after.trim_start(),
            None => return rest.strip_prefix(')'),
        }
        if found.len() > OF_PATTERN_MAX {
            return None;
        }
    }
}

fn literal(text: &str) -> Option<(String, &str)> {
    let Some(inner) = text.strip_prefix('\'') else {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let digits = text.get(..end)?;
        number(digits.as_bytes())?;
        return Some((digits.to_owned(), text.get(end..)?));
    };
    let mut value = String::new();
    let mut chars = inner.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => return Some((value, inner.get(at + 1..)?)),
            '\\' => value.push(chars.next()?.1),
            c => value.push(c),
        }
    }
    None
}

/// Reads `2026-01-31T12:00:00.123Z`.
fn moment(text: &str) -> Option<TimeNs> {
    let part = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    let (h, m, s) = (part(11, 13)?, part(14, 16)?, part(17, 19)?);
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
    let seconds = days(year, month, day) * 86_400 + h * 3600 + m * 60 + s;
    (is_date && text.ends_with('Z')).then(|| TimeNs(seconds.saturating_mul(SECOND)))
}

/// Bytes behind a `[` within which an object of a list begins.
const LIST_BEGIN: usize = 64;

fn unmarked(begin: &[u8]) -> &[u8] {
    begin.strip_prefix(b"\xef\xbb\xbf").unwrap_or(begin).trim_ascii_start()
}

/// Whether a file begins as JSON does.
pub fn is_json(begin: &[u8]) -> bool {
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

/// Whether so many bytes of a file's begin are enough for [`is_json`] to tell.
pub fn is_telling(begin: &[u8]) -> bool {
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

#[cfg(test)]
mod tests {
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
            read(br#"{"ip":{"v4":"198.51.100.7"},"src":{"name":"F"},"tags":{"str":"t"}}"#).unwrap();
        assert_eq!(
            (o.indicators[0].as_str(), o.description.as_str(), o.tags.as_str()),
            ("198.51.100.7", "F", "t")
        );
        let o = read(br#"{"DomainAddress":"e.example","InsertDate":"2026-01-01"}"#).unwrap();
        assert_eq!(o.indicators, ["e.example"]);
        let o = read(br#"{"type":"indicator","id":"indicator--1","pattern":"[domain-name:value='e.example']",
            "pattern_type":"stix","valid_from":"2026-01-01T00:00:00Z","valid_until":"2026-02-01T00:00:00.5Z",
            "confidence":80,"labels":["c2"],"name":"E"}"#).unwrap();
        assert_eq!((o.confidence, o.from.map(TimeNs::seconds)), (Some(80), Some(1_767_225_600)));
        assert_eq!((o.until.map(TimeNs::seconds), o.tags.as_str()), (Some(1_769_904_000), "c2"));
        assert!(
            read(br#"{"type":"identity","id":"identity--1","name":"e.example"}"#).unwrap().is_other
        );
        assert!(read(br#"{"revoked":true,"type":"indicator","pattern":"[domain-name:value='e.example']"}"#).unwrap().is_other);
        assert!(read(b"[]").is_none() && read(b"{").is_none());
    }
}
