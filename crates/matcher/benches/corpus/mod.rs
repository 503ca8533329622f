//! Pattern sets and buffers for the benchmarks, taken from the corpus: the fast patterns of the
//! Emerging Threats rules by buffer, and the buffers of the bench capture.
//!
//! The extraction is a rough one: it follows sticky buffers and legacy modifiers and chooses the
//! explicit `fast_pattern`, else the longest positive content of an application buffer, else of
//! the payload. Nothing here is used outside benchmarks.

use gabion_matcher::{Anchor, Pattern};
use std::collections::{BTreeMap, HashMap};

/// Pattern sets and buffers by name.
pub struct Corpus {
    pub sets: BTreeMap<String, Vec<Pattern>>,
    pub buffers: BTreeMap<&'static str, Vec<Vec<u8>>>,
}

impl Corpus {
    /// Reads both; `None` if the corpus is absent.
    pub fn load() -> Option<Corpus> {
        Some(Corpus { sets: pattern_sets()?, buffers: buffers()? })
    }
}

#[derive(Clone, Debug, Default)]
struct Content {
    buffer: String,
    bytes: Vec<u8>,
    negated: bool,
    nocase: bool,
    fast: bool,
    relative: bool,
    starts: bool,
    ends: bool,
    offset: Option<u32>,
    depth: Option<u32>,
    chop: Option<(usize, usize)>,
    whole: bool,
    dotprefix: bool,
}

/// Fast patterns by buffer, without duplicates; ids count from 0 in each buffer.
pub fn pattern_sets() -> Option<BTreeMap<String, Vec<Pattern>>> {
    let text = gabion_corpus::read("scan", "rules/emerging-all.rules.zst")?;
    let mut sets: BTreeMap<String, Vec<Pattern>> = BTreeMap::new();
    let mut seen = HashMap::new();
    for line in text.split(|&b| b == b'\n') {
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let Some(chosen) = fast_pattern(&contents_of(line)) else { continue };
        let set = sets.entry(chosen.buffer.clone()).or_default();
        let pattern = pattern_of(&chosen, set.len() as u32);
        let key = (
            chosen.buffer,
            pattern.bytes.clone(),
            pattern.nocase,
            pattern.anchor,
            pattern.min_start,
            pattern.max_end,
        );
        seen.entry(key).or_insert_with(|| set.push(pattern));
    }
    Some(sets)
}

fn pattern_of(content: &Content, id: u32) -> Pattern {
    let mut bytes = content.bytes.clone();
    let mut starts = content.starts;
    let mut ends = content.ends;
    if content.whole && !content.relative {
        (starts, ends) = (true, true);
    }
    if let Some((from, len)) = content.chop {
        bytes = bytes[from..from + len].to_vec();
        return Pattern::new(id, bytes, content.nocase);
    }
    if content.depth == Some(bytes.len() as u32) && content.offset.unwrap_or(0) == 0 {
        starts = true;
    }
    let mut anchor = match (starts, ends) {
        (true, true) => Anchor::Exact,
        (true, false) => Anchor::Start,
        (false, true) => Anchor::End,
        (false, false) => Anchor::None,
    };
    if content.dotprefix && anchor == Anchor::End && bytes.first() == Some(&b'.') {
        bytes.remove(0);
        anchor = Anchor::Label;
    }
    let pattern = Pattern::new(id, bytes, content.nocase).anchored(anchor);
    if content.relative {
        return pattern;
    }
    let offset = content.offset.unwrap_or(0);
    let end = content.depth.map_or(u32::MAX, |depth| depth + offset);
    pattern.between(offset, end)
}

fn fast_pattern(contents: &[Content]) -> Option<Content> {
    let explicit = contents.iter().find(|c| c.fast);
    let positive = || contents.iter().filter(|c| !c.negated);
    let in_app = positive().filter(|c| c.buffer != "payload" && c.buffer != "http_method");
    explicit
        .or_else(|| in_app.max_by_key(|c| c.bytes.len()))
        .or_else(|| positive().max_by_key(|c| c.bytes.len()))
        .cloned()
}

const LEGACY: &[(&str, &str)] = &[
    ("http_uri", "http.uri"),
    ("http_raw_uri", "http.uri.raw"),
    ("http_header", "http.header"),
    ("http_cookie", "http.cookie"),
    ("http_user_agent", "http.user_agent"),
    ("http_host", "http.host"),
    ("http_client_body", "http.request_body"),
    ("http_server_body", "http.response_body"),
    ("http_method", "http_method"),
    ("http_stat_code", "http_stat_code"),
];

const STICKY_OLD: &[(&str, &str)] = &[
    ("file_data", "file_data"),
    ("file.data", "file_data"),
    ("dns_query", "dns.query"),
    ("tls_sni", "tls.sni"),
    ("tls_cert_subject", "tls.cert_subject"),
    ("http.method", "http_method"),
    ("pkt_data", "payload"),
    ("base64_data", "skip"),
];

fn contents_of(rule: &[u8]) -> Vec<Content> {
    let mut contents: Vec<Content> = Vec::new();
    let mut sticky = String::from("payload");
    let mut dotprefix = false;
    let Some(open) = rule.iter().position(|&b| b == b'(') else { return contents };
    for option in split_options(&rule[open + 1..]) {
        let (name, value) = match option.iter().position(|&b| b == b':') {
            Some(colon) => (&option[..colon], Some(&option[colon + 1..])),
            None => (option, None),
        };
        let name = String::from_utf8_lossy(name).trim().to_owned();
        let number = || value.and_then(|v| String::from_utf8_lossy(v).trim().parse::<u32>().ok());
        let legacy = LEGACY.iter().find(|(old, _)| *old == name);
        let old = STICKY_OLD.iter().find(|(old, _)| *old == name);
        if let (Some((_, buffer)), Some(last)) = (legacy, contents.last_mut()) {
            last.buffer = (*buffer).to_owned();
        } else if let Some((_, buffer)) = old {
            (sticky, dotprefix) = ((*buffer).to_owned(), false);
        } else if value.is_none() && (name.contains('.') || name.contains("hash")) {
            (sticky, dotprefix) = (name, false);
        } else if name == "dotprefix" {
            dotprefix = true;
        } else if name == "bsize" {
            let alone = contents.iter().filter(|c| c.buffer == sticky).count() == 1;
            if let (true, Some(last), Some(size)) = (alone, contents.last_mut(), number()) {
                last.whole = last.bytes.len() as u32 == size && last.buffer == sticky;
            }
        } else if name == "content" || name == "uricontent" {
            let Some((bytes, negated)) = value.and_then(content_bytes) else { continue };
            let buffer = if name == "content" { sticky.clone() } else { "http.uri".to_owned() };
            contents.push(Content { buffer, bytes, negated, dotprefix, ..Content::default() });
        } else if let Some(last) = contents.last_mut() {
            match name.as_str() {
                "nocase" => last.nocase = true,
                "startswith" => last.starts = true,
                "endswith" => last.ends = true,
                "distance" | "within" => last.relative = true,
                "offset" => last.offset = number(),
                "depth" => last.depth = number(),
                "fast_pattern" => {
                    last.fast = true;
                    let text = value.map(String::from_utf8_lossy).unwrap_or_default();
                    if let Some((from, len)) = text.split_once(',') {
                        last.chop = from.trim().parse().ok().zip(len.trim().parse().ok());
                    }
                }
                _ => {}
            }
        }
    }
    contents
}

fn split_options(body: &[u8]) -> Vec<&[u8]> {
    let (mut parts, mut start, mut at) = (Vec::new(), 0, 0);
    while at < body.len() {
        match body[at] {
            b'\\' => at += 1,
            b';' => {
                parts.push(body[start..at].trim_ascii());
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    parts
}

fn content_bytes(value: &[u8]) -> Option<(Vec<u8>, bool)> {
    let value = value.trim_ascii();
    let (value, negated) = match value.strip_prefix(b"!") {
        Some(rest) => (rest, true),
        None => (value, false),
    };
    let value = value.strip_prefix(b"\"")?;
    let value = value.get(..value.iter().rposition(|&b| b == b'"')?)?;
    let (mut bytes, mut is_hex, mut high) = (Vec::new(), false, None);
    let mut rest = value.iter().copied();
    while let Some(byte) = rest.next() {
        match byte {
            b'|' => is_hex = !is_hex,
            _ if is_hex => {
                let Some(digit) = char::from(byte).to_digit(16) else { continue };
                match high.take() {
                    Some(first) => bytes.push((first << 4 | digit) as u8),
                    None => high = Some(digit),
                }
            }
            b'\\' => bytes.push(rest.next()?),
            _ => bytes.push(byte),
        }
    }
    (!bytes.is_empty()).then_some((bytes, negated))
}

/// Buffers of the bench capture's first copy, by name.
pub fn buffers() -> Option<BTreeMap<&'static str, Vec<Vec<u8>>>> {
    let capture =
        gabion_corpus::unpack(&gabion_corpus::find("scan", "bench/mixed.pcap.zst")?, 26 << 20);
    let mut found: BTreeMap<&'static str, Vec<Vec<u8>>> = BTreeMap::new();
    let mut rest = capture.get(24..)?;
    while let Some(header) = rest.get(..16) {
        let length = u32::from_le_bytes(header[8..12].try_into().ok()?) as usize;
        let Some(frame) = rest.get(16..16 + length) else { break };
        rest = &rest[16 + length..];
        let Some((protocol, port, payload)) = payload_of(frame) else { continue };
        if payload.is_empty() {
            continue;
        }
        let kind = if protocol == 6 { "tcp" } else { "udp" };
        found.entry(kind).or_default().push(payload.to_vec());
        let mut put = |name, bytes: &[u8]| {
            if !bytes.is_empty() {
                found.entry(name).or_default().push(bytes.to_vec());
            }
        };
        if protocol == 6 {
            http_of(payload, &mut put);
            put("tls.sni", sni_of(payload).unwrap_or_default());
        } else if port == 53 {
            put("dns.query", &name_of(payload).unwrap_or_default());
        }
    }
    Some(found)
}

fn payload_of(frame: &[u8]) -> Option<(u8, u16, &[u8])> {
    let ip = match frame.get(12..14)? {
        [8, 0] => frame.get(14..)?,
        _ => return None,
    };
    let header = usize::from(ip.first()? & 15) * 4;
    let total = usize::from(u16::from_be_bytes(ip.get(2..4)?.try_into().ok()?));
    let inner = ip.get(header..total.min(ip.len()))?;
    let port = u16::from_be_bytes(inner.get(2..4)?.try_into().ok()?);
    match ip.get(9)? {
        6 => Some((6, port, inner.get(usize::from(inner.get(12)? >> 4) * 4..)?)),
        17 => Some((17, port, inner.get(8..)?)),
        _ => None,
    }
}

fn http_of(payload: &[u8], put: &mut impl FnMut(&'static str, &[u8])) {
    if ![&b"GET "[..], b"POST ", b"HEAD "].iter().any(|m| payload.starts_with(m)) {
        return;
    }
    for (index, line) in payload.split(|&b| b == b'\n').enumerate() {
        let line = line.trim_ascii();
        if index == 0 {
            put("http.uri", line.split(|&b| b == b' ').nth(1).unwrap_or_default());
        } else if line.is_empty() {
            break;
        } else if let Some(host) = line.strip_prefix(b"Host: ") {
            put("http.host", host);
        } else if let Some(agent) = line.strip_prefix(b"User-Agent: ") {
            put("http.user_agent", agent);
        }
    }
    let end = payload.windows(4).position(|w| w == b"\r\n\r\n").unwrap_or(payload.len());
    put("http.header", &payload[..end]);
}

fn name_of(payload: &[u8]) -> Option<Vec<u8>> {
    let (mut name, mut at) = (Vec::new(), 12);
    loop {
        let length = usize::from(*payload.get(at)?);
        if length == 0 || length > 63 {
            return Some(name);
        }
        if !name.is_empty() {
            name.push(b'.');
        }
        name.extend_from_slice(payload.get(at + 1..at + 1 + length)?);
        at += 1 + length;
    }
}

fn sni_of(payload: &[u8]) -> Option<&[u8]> {
    if payload.first() != Some(&22) || payload.get(5) != Some(&1) {
        return None;
    }
    let word = |at: usize| {
        Some(usize::from(u16::from_be_bytes(payload.get(at..at + 2)?.try_into().ok()?)))
    };
    let mut at = 43;
    at += 1 + usize::from(*payload.get(at)?);
    at += 2 + word(at)?;
    at += 1 + usize::from(*payload.get(at)?);
    at += 2;
    loop {
        let (kind, length) = (word(at)?, word(at + 2)?);
        if kind == 0 {
            return payload.get(at + 9..at + 9 + word(at + 7)?);
        }
        at += 4 + length;
    }
}

/// Buffers of `len` bytes that are concatenations of whole patterns, of patterns without their last
/// byte (`prefix`) or without their first (`suffix`), or random bytes; the same in every run.
pub fn concatenated(patterns: &[Pattern], kind: &str, len: usize, count: usize) -> Vec<Vec<u8>> {
    let mut state = 1u64;
    let mut random = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut buffer = || {
        let mut buffer = Vec::new();
        while buffer.len() < len {
            let bytes = patterns[random(patterns.len())].bytes.as_slice();
            match kind {
                "whole" => buffer.extend_from_slice(bytes),
                "prefix" => buffer.extend_from_slice(&bytes[..bytes.len() - 1]),
                "suffix" => buffer.extend_from_slice(&bytes[1..]),
                _ => buffer.push(random(256) as u8),
            }
        }
        buffer.truncate(len);
        buffer
    };
    (0..count).map(|_| buffer()).collect()
}
