//! The checks of a test against what the program wrote, and the cause when one does not hold.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::Value;

use super::matching::{self, Mismatch};
use super::process::{Ending, shell};
use super::requires;
use super::subject::Subject;
use super::yaml::Node;

/// Why a test failed: one readable line, and the same line without the parts that differ from test
/// to test, so that failures of one cause form a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// One line, values included.
    pub line: String,
    /// The name of the group of failures it belongs to.
    pub cluster: String,
}

impl Cause {
    /// A cause whose line is its own group, numbers and quoted text left out.
    #[must_use]
    pub fn plain(line: impl Into<String>) -> Self {
        let line = line.into().replace(['\t', '\n', '\r'], " ");
        let cluster = generalize(&line);
        Self { line, cluster }
    }
}

/// Numbers become `N`, paths `PATH`, quoted text `"…"`.
#[must_use]
pub fn generalize(line: &str) -> String {
    let mut words = Vec::new();
    let mut in_quotes = false;
    for word in line.split_whitespace() {
        let quotes = word.matches('"').count();
        if in_quotes {
            in_quotes = quotes % 2 == 0;
            continue;
        }
        if quotes > 0 {
            in_quotes = quotes % 2 == 1;
            words.push("\"…\"".to_owned());
        } else if word.trim_start_matches(['\'', '(', '[']).starts_with('/') {
            words.push("PATH".to_owned());
        } else {
            let mut out = String::new();
            for c in word.chars() {
                match (c.is_ascii_digit(), out.ends_with('N')) {
                    (true, true) => {}
                    (true, false) => out.push('N'),
                    (false, _) => out.push(c),
                }
            }
            words.push(out);
        }
    }
    words.join(" ")
}

/// The outcome of all checks of a test.
#[derive(Debug, Default)]
pub struct Tally {
    /// Checks that hold.
    pub held: usize,
    /// Checks that do not hold.
    pub failed: usize,
    /// Checks whose conditions are not met.
    pub skipped: usize,
    /// The cause of the first failing check.
    pub first: Option<Cause>,
}

/// The input of checks.
pub struct Scene<'a> {
    /// The program under test.
    pub subject: &'a Subject,
    /// The folder of the test.
    pub folder: &'a Path,
    /// The folder the program wrote to.
    pub output: &'a Path,
    /// The environment of the test.
    pub env: &'a [(String, String)],
    /// How long one shell line may take.
    pub limit: Duration,
}

/// The records of each file that a check has read, or why they can't be read.
type Records = HashMap<String, Result<Vec<Value>, String>>;

/// Judges every entry of `checks`.
///
/// # Errors
/// An unknown check.
pub fn judge(checks: &Node, scene: &Scene<'_>) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut records = Records::new();
    for entry in checks.items() {
        for (kind, body) in entry.entries() {
            if let Some(conditions) = body.get("requires")
                && requires::unmet(conditions, scene.subject, scene.folder)?.is_some()
            {
                tally.skipped += 1;
                continue;
            }
            match judge_one(&kind.python_str(), body, scene, &mut records)? {
                None => tally.held += 1,
                Some(cause) => {
                    tally.failed += 1;
                    tally.first.get_or_insert(cause);
                }
            }
        }
    }
    Ok(tally)
}

fn judge_one(
    kind: &str,
    body: &Node,
    scene: &Scene<'_>,
    records: &mut Records,
) -> Result<Option<Cause>> {
    match kind {
        "filter" => filter(body, scene, records),
        "stats" => Ok(stats(body, scene, records)),
        "shell" => shell_check(body, scene),
        "file-compare" => file_compare(body, scene),
        other => bail!("checks: {other}: unknown check"),
    }
}

fn read_records<'a>(
    file: &str,
    scene: &Scene<'_>,
    records: &'a mut Records,
) -> &'a Result<Vec<Value>, String> {
    match records.entry(file.to_owned()) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(free) => free.insert(json_lines(&scene.output.join(file), file)),
    }
}

fn json_lines(path: &Path, file: &str) -> Result<Vec<Value>, String> {
    let bytes = fs::read(path).map_err(|_| format!("{file} does not exist"))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{file} is not UTF-8"))?;
    text.lines()
        .enumerate()
        .map(|(at, line)| {
            serde_json::from_str(line).map_err(|e| format!("{file} line {}: {e}", at + 1))
        })
        .collect()
}

fn filter(body: &Node, scene: &Scene<'_>, records: &mut Records) -> Result<Option<Cause>> {
    let file = body.get("filename").map_or_else(|| "eve.json".to_owned(), Node::python_str);
    let Some(&Node::Int(wanted)) = body.get("count") else { bail!("filter without a count") };
    let Some(conditions) = body.get("match") else { bail!("filter without match") };
    let records = match read_records(&file, scene, records) {
        Ok(records) => records,
        Err(fault) => return Ok(Some(Cause::plain(fault.clone()))),
    };
    let found = records.iter().filter(|record| matching::matches(conditions, record)).count();
    if i64::try_from(found) == Ok(wanted) {
        return Ok(None);
    }
    Ok(Some(filter_cause(&file, conditions, records, found, wanted)))
}

fn filter_cause(
    file: &str,
    conditions: &Node,
    records: &[Value],
    found: usize,
    wanted: i64,
) -> Cause {
    let place = if file == "eve.json" { String::new() } else { format!(" in {file}") };
    let listed: Vec<_> = conditions
        .entries()
        .iter()
        .map(|(key, value)| format!("{}={}", key.python_str(), value.python_str()))
        .collect();
    let mut line = format!("filter count {found} != {wanted}{place}: {}", listed.join(", "));
    let kind = conditions.get("event_type").map_or_else(|| "record".to_owned(), Node::python_str);
    let fewer = i64::try_from(found).is_ok_and(|found| found < wanted);
    let mut cluster = format!("{kind}{place}: {} records", if fewer { "fewer" } else { "more" });
    if fewer {
        match nearest(conditions, records) {
            Nearest::NoneOfKind => {
                line.push_str("; no record of that type");
                cluster = format!("{kind}{place}: no record of that type");
            }
            Nearest::Differs(differences) => {
                let shown: Vec<_> = differences
                    .iter()
                    .take(3)
                    .map(|d| format!("{} {} != {}", d.key, d.found, d.wanted))
                    .collect();
                line.push_str(&format!("; nearest differs at {}", shown.join(", ")));
                let key = differences.first().map_or("", |d| d.key.as_str());
                cluster = if kind == "alert" && key == "alert.signature_id" {
                    "alert: rule did not fire".to_owned()
                } else {
                    format!("{kind}{place}: differs at {}", without_indexes(key))
                };
            }
            Nearest::AllMatch => {}
        }
    } else if kind == "alert" {
        cluster = "alert: rule fired too often".to_owned();
    }
    Cause { line: line.replace(['\t', '\n', '\r'], " "), cluster }
}

fn without_indexes(key: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for c in key.chars() {
        if c == '[' {
            inside = true;
            out.push_str("[]");
        }
        if !inside {
            out.push(c);
        }
        if c == ']' {
            inside = false;
        }
    }
    out
}

enum Nearest {
    NoneOfKind,
    AllMatch,
    Differs(Vec<Mismatch>),
}

/// The record of the wanted type that misses the fewest conditions. If the check names a signature,
/// a record of another signature is not near, however much else agrees.
fn nearest(conditions: &Node, records: &[Value]) -> Nearest {
    let mut of_kind = false;
    let mut best: Option<(usize, Vec<Mismatch>)> = None;
    for record in records {
        let differences = matching::mismatches(conditions, record);
        if differences.iter().any(|d| d.key == "event_type") {
            continue;
        }
        of_kind = true;
        if differences.is_empty() {
            continue;
        }
        let far = differences.iter().any(|d| d.key == "alert.signature_id");
        let distance = differences.len() + if far { 1000 } else { 0 };
        if best.as_ref().is_none_or(|(least, _)| distance < *least) {
            best = Some((distance, differences));
        }
    }
    match (of_kind, best) {
        (false, _) => Nearest::NoneOfKind,
        (true, None) => Nearest::AllMatch,
        (true, Some((_, mut differences))) => {
            differences.sort_by_key(|d| d.key != "alert.signature_id");
            Nearest::Differs(differences)
        }
    }
}

fn stats(body: &Node, scene: &Scene<'_>, records: &mut Records) -> Option<Cause> {
    let records = match read_records("eve.json", scene, records) {
        Ok(records) => records,
        Err(fault) => return Some(Cause::plain(fault.clone())),
    };
    let is_stats = |record: &&Value| record.get("event_type").is_some_and(|kind| kind == "stats");
    let last = records.iter().rev().find(is_stats).and_then(|record| record.get("stats"));
    let mut conditions = body.entries().to_vec();
    conditions.retain(|(key, _)| *key != Node::Str("requires".to_owned()));
    let conditions = Node::Map(conditions);
    let Some(last) = last else {
        return Some(Cause::plain("stats: no stats record"));
    };
    let first = matching::mismatches(&conditions, last).into_iter().next()?;
    Some(Cause {
        line: format!("stats {} {} != {}", first.key, first.found, first.wanted),
        cluster: format!("stats: differs at {}", first.key),
    })
}

fn shell_check(body: &Node, scene: &Scene<'_>) -> Result<Option<Cause>> {
    let Some(lines) = body.get("args").map(Node::python_str) else { bail!("shell without args") };
    let (ending, output) = shell(&lines, scene.output, scene.env, scene.limit, false)?;
    let brief = lines.split_whitespace().collect::<Vec<_>>().join(" ");
    let cluster = |what: &str| format!("shell: {what}: {}", generalize(&brief));
    if ending != Ending::Exit(0) {
        let line = format!("shell {ending}: {brief}");
        return Ok(Some(Cause { line, cluster: cluster("failed") }));
    }
    let Some(wanted) = body.get("expect").map(Node::python_str) else { return Ok(None) };
    let found = String::from_utf8_lossy(&output);
    let found = found.trim();
    if found == wanted {
        return Ok(None);
    }
    let line = format!("shell output \"{found}\" != \"{wanted}\": {brief}");
    let line = line.replace(['\t', '\n', '\r'], " ");
    Ok(Some(Cause { line, cluster: cluster("output differs") }))
}

fn file_compare(body: &Node, scene: &Scene<'_>) -> Result<Option<Cause>> {
    let (Some(file), Some(expected)) = (body.get("filename"), body.get("expected")) else {
        bail!("file-compare without filename and expected");
    };
    let (file, expected) = (file.python_str(), expected.python_str());
    let wanted = fs::read(scene.folder.join(&expected))?;
    let fault = match fs::read(scene.output.join(&file)) {
        Err(_) => "does not exist".to_owned(),
        Ok(found) if found == wanted => return Ok(None),
        Ok(found) => {
            let lines = |bytes: &[u8]| -> Vec<Vec<u8>> {
                bytes.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect()
            };
            let (found, wanted) = (lines(&found), lines(&wanted));
            let same = found.iter().zip(&wanted).take_while(|(a, b)| a == b).count();
            format!("differs from {expected} at line {}", same + 1)
        }
    };
    Ok(Some(Cause {
        line: format!("file-compare {file} {fault}"),
        cluster: format!("file-compare: {file}"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_cause_form_a_group() {
        assert_eq!(
            generalize(
                "E: detect: error parsing \"alert tcp any\" from file /a/b.rules at line 12"
            ),
            "E: detect: error parsing \"…\" from file PATH at line N"
        );
        assert_eq!(without_indexes("a[10].b[2]"), "a[].b[]");
    }

    #[test]
    fn a_cause_names_the_difference_of_the_nearest_record() {
        let conditions = Node::parse("{event_type: http, http.status: 200, src_port: 1}").unwrap();
        let record = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let records = [
            record(r#"{"event_type":"alert","http":{"status":200},"src_port":1}"#),
            record(r#"{"event_type":"http","http":{"status":404},"src_port":2}"#),
            record(r#"{"event_type":"http","http":{"status":404},"src_port":1}"#),
        ];
        let cause = filter_cause("eve.json", &conditions, &records, 0, 1);
        assert_eq!(
            cause.line,
            "filter count 0 != 1: event_type=http, http.status=200, src_port=1; \
             nearest differs at http.status 404 != 200"
        );
        assert_eq!(cause.cluster, "http: differs at http.status");
        let none = filter_cause("eve.json", &conditions, &records[..1], 0, 1);
        assert_eq!(none.cluster, "http: no record of that type");
    }
}
