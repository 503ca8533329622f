//! The parser over Suricata's own captures: what Suricata's tests expect of file data, files and
//! URIs must come out of the transactions.
//!
//! Rules are not run here: a content of a rule is looked for in the windows and buffers that the
//! rule names. The corpus is found by `GABION_CORPUS`; without it these tests pass and say so.

#[path = "http1/replay.rs"]
mod replay;
#[path = "http1/streams.rs"]
mod streams;

use gabion_record::Tree;
use replay::{Seen, replay, shipped};
use std::path::{Path, PathBuf};

fn folders(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).collect();
    all.sort();
    all
}

/// Settings of a test: the shipped ones with what its `test.yaml` sets.
fn settings(yaml: &str) -> Tree {
    let mut t = shipped();
    for word in yaml.split_whitespace() {
        if let Some(rest) = word.strip_prefix("app-layer.protocols.http.")
            && let Some((key, value)) = rest.split_once('=')
        {
            t.set(key, value);
        }
    }
    t
}

fn capture(dir: &Path, yaml: &str) -> Option<PathBuf> {
    for line in yaml.lines() {
        if let Some(path) = line.strip_prefix("pcap:") {
            return Some(dir.join(path.trim()));
        }
    }
    folders(dir).into_iter().find(|p| p.extension().is_some_and(|e| e == "pcap"))
}

/// A rule of the simple kind these tests use: one buffer after the other with its contents.
struct Rule {
    sid: u64,
    /// Buffer, bytes, negated.
    contents: Vec<(String, Vec<u8>, bool)>,
}

/// The rules of a text; those that do more than look for contents in buffers are left out.
fn rules(text: &str) -> Vec<Rule> {
    let lines = text.lines().map(str::trim).filter(|l| l.starts_with("alert http"));
    lines.filter_map(rule).collect()
}

fn rule(line: &str) -> Option<Rule> {
    let body = line.split_once('(')?.1.strip_suffix(')')?;
    let mut rule = Rule { sid: 0, contents: Vec::new() };
    let mut buffer = None;
    for option in body.split(';').map(str::trim).filter(|o| !o.is_empty()) {
        let (key, value) = option.split_once(':').unwrap_or((option, ""));
        match key {
            "sid" => rule.sid = value.trim().parse().ok()?,
            "msg" | "rev" | "classtype" | "flow" => {}
            "file_data" | "file.data" => buffer = Some("file.data".to_string()),
            "http_uri" | "http_raw_uri" => {
                let name = if key == "http_uri" { "http.uri" } else { "http.uri.raw" };
                rule.contents.last_mut()?.0 = name.to_string();
            }
            "http.uri" | "http.uri.raw" => buffer = Some(key.to_string()),
            "content" | "uricontent" => {
                let value = value.trim();
                let (negated, value) = match value.strip_prefix('!') {
                    Some(v) => (true, v),
                    None => (false, value),
                };
                let bytes = literal(value.trim().trim_matches('"'))?;
                let name =
                    if key == "uricontent" { Some("http.uri".into()) } else { buffer.clone() };
                rule.contents.push((name.unwrap_or_default(), bytes, negated));
            }
            _ => return None,
        }
    }
    let known = rule.contents.iter().all(|c| !c.0.is_empty());
    (rule.sid > 0 && known && !rule.contents.is_empty()).then_some(rule)
}

/// Bytes of a content: text with `|41 42|` in it.
fn literal(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for (i, part) in text.split('|').enumerate() {
        if i % 2 == 0 {
            out.extend_from_slice(part.replace("\\\"", "\"").as_bytes());
            continue;
        }
        let digits: Vec<u8> = part.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        for pair in digits.chunks(2) {
            out.push(u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?);
        }
    }
    Some(out)
}

/// Whether a transaction meets all contents of a rule.
fn fires(rule: &Rule, tx: &Seen) -> bool {
    rule.contents.iter().all(|(name, bytes, negated)| {
        let windows = tx.windows.iter().filter(|(k, _)| k.0 == name).flat_map(|(_, w)| w);
        let whole = tx.buffers.iter().filter(|(k, _)| k.0 == name && name != "file.data");
        let mut all = windows.chain(whole.map(|(_, b)| b)).peekable();
        if all.peek().is_none() {
            return false;
        }
        let found = all.any(|b| b.windows(bytes.len()).any(|w| w == bytes));
        found != *negated
    })
}

/// A `filter` of a `test.yaml`: how many records match these keys.
#[derive(Default)]
struct Filter {
    count: usize,
    keys: Vec<(String, String)>,
}

fn filters(yaml: &str) -> Vec<Filter> {
    let mut out = Vec::new();
    for line in yaml.lines().map(str::trim) {
        if line.starts_with("- filter:") {
            out.push(Filter::default());
        } else if let (Some(f), Some((key, value))) = (out.last_mut(), line.split_once(':')) {
            let value = value.trim().trim_matches('"').trim_matches('\'').to_string();
            match key {
                "count" => f.count = value.parse().unwrap_or(0),
                "match" | "filter" => {}
                _ => f.keys.push((key.to_string(), value)),
            }
        }
    }
    out
}

/// How many records of the transactions match a filter; `None`: it asks for what isn't examined.
fn matching(filter: &Filter, seen: &[Seen], rules: &[Rule]) -> Option<usize> {
    let get = |key: &str| filter.keys.iter().find(|k| k.0 == key).map(|k| k.1.as_str());
    let others = |allowed: &[&str]| filter.keys.iter().all(|k| allowed.contains(&k.0.as_str()));
    let http = |tx: &Seen| {
        let is = |key: &str, name: &str| {
            get(key).is_none_or(|v| {
                let text = format!("\"{name}\":\"{v}\"");
                tx.http.contains(&text) || tx.http.contains(&format!("\"{name}\":{v}"))
            })
        };
        is("http.http_method", "http_method") && is("http.hostname", "hostname")
    };
    match get("event_type")? {
        "alert" if others(&["event_type", "alert.signature_id"]) => {
            let sid: u64 = get("alert.signature_id")?.parse().ok()?;
            let rule = rules.iter().find(|r| r.sid == sid)?;
            Some(seen.iter().filter(|tx| fires(rule, tx)).count())
        }
        "fileinfo"
            if others(&[
                "event_type",
                "fileinfo.filename",
                "fileinfo.state",
                "fileinfo.size",
                "http.http_method",
                "http.hostname",
            ]) =>
        {
            let of = |tx: &Seen| {
                let fits = |f: &&(gabion_record::Direction, replay::FileSeen)| {
                    get("fileinfo.filename").is_none_or(|v| v == f.1.name)
                        && get("fileinfo.state").is_none_or(|v| v == f.1.state)
                        && get("fileinfo.size").is_none_or(|v| v == f.1.size.to_string())
                };
                if http(tx) { tx.files.iter().filter(fits).count() } else { 0 }
            };
            Some(seen.iter().map(of).sum())
        }
        _ => None,
    }
}

/// Runs the tests of a family: (tests whose checks all hold, tests examined, names of the others).
fn run(family: &Path, piece: usize) -> (usize, usize, Vec<String>) {
    let (mut good, mut all, mut bad) = (0, 0, Vec::new());
    for dir in folders(family) {
        let Ok(yaml) = std::fs::read_to_string(dir.join("test.yaml")) else { continue };
        let text = std::fs::read_to_string(dir.join("test.rules")).unwrap_or_default();
        let Some(capture) = capture(&dir, &yaml) else { continue };
        let Some(seen) = replay(&capture, &settings(&yaml), piece) else { continue };
        let rules = rules(&text);
        let checked: Vec<bool> = filters(&yaml)
            .iter()
            .filter_map(|f| Some(matching(f, &seen, &rules)? == f.count))
            .collect();
        if checked.is_empty() {
            continue;
        }
        all += 1;
        if checked.iter().all(|ok| *ok) {
            good += 1;
        } else {
            bad.push(dir.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    (good, all, bad)
}

/// 348 ways in which servers disguise a body, found by trying them on browsers.
#[test]
fn disguised_bodies_are_seen_through() {
    let test = "disguised_bodies_are_seen_through";
    let Some(tests) = gabion_corpus::find(test, "suricata-verify/tests") else { return };
    let (good, all, bad) = run(&tests.join("http-evader"), 0);
    eprintln!("http-evader: {good} of {all}; not: {bad:?}");
    assert!(all >= 348 && good >= 340, "{good} of {all}; not: {bad:?}");
}

/// The same transactions come out whatever pieces the bytes come in. Left out are captures with
/// bytes after the announced end of a body: what comes with the end counts as part of it (browsers
/// and Suricata do so), what comes later can't; and those with something else where a status line is
/// due, which Suricata takes for a body that ends with its segment.
#[test]
fn pieces_make_no_difference() {
    let test = "pieces_make_no_difference";
    let Some(tests) = gabion_corpus::find(test, "suricata-verify/tests") else { return };
    let mut differ = Vec::new();
    for family in ["http-evader", "detect-http-uri"] {
        for dir in folders(&tests.join(family)) {
            let Ok(yaml) = std::fs::read_to_string(dir.join("test.yaml")) else { continue };
            let Some(capture) = capture(&dir, &yaml) else { continue };
            let set = settings(&yaml);
            let seen = |piece| {
                let mut all = replay(&capture, &set, piece).unwrap_or_default();
                for s in &mut all {
                    s.windows.clear();
                }
                all
            };
            let whole = seen(0);
            for piece in [1, 2, 7] {
                let pieces = seen(piece);
                let behind_end =
                    |s: &Seen| s.events.contains(&"unable_to_match_response_to_request");
                let no_status = |s: &Seen| !s.http.contains("\"status\":");
                let left_out = |s: &Seen| behind_end(s) || no_status(s);
                if pieces != whole && !pieces.iter().any(left_out) {
                    differ.push(format!("{}: {piece}", dir.display()));
                }
            }
        }
    }
    assert!(differ.is_empty(), "{} differ: {differ:#?}", differ.len());
}
