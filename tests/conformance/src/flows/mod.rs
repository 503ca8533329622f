//! Flow logs with expected findings, row by row.
//!
//! A table has five columns: input, source, key, value or level, count. Rows of source
//! `rule-derived` were counted by an independent script from Slips' rules and must match exactly;
//! `peer-test` rows are required by Slips' own integration tests; of `peer-run` rows (the output of
//! Slips) the types must be present. The runner uses only the command line of the program: `read
//! --behavior --json -q -l FOLDER INPUT --intel LIST`.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The input's path below the folder of inputs.
    pub input: String,
    /// Where the row comes from.
    pub source: String,
    /// The count or requirement.
    pub key: String,
    /// Level, or text that must be present.
    pub value: String,
    /// The number; several runs of Slips are separated by `/`.
    pub count: String,
}

/// Reads the table.
///
/// # Errors
/// The file cannot be read or a line does not have five columns.
pub fn rows(path: &Path) -> Result<Vec<Row>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut rows = Vec::new();
    for line in text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [input, source, key, value, rest @ ..] = columns.as_slice() else {
            bail!("{}: not five columns: {line}", path.display());
        };
        let count = rest.first().copied().unwrap_or_default();
        let own = |text: &str| text.to_owned();
        rows.push(Row {
            input: own(input),
            source: own(source),
            key: own(key),
            value: own(value),
            count: own(count),
        });
    }
    Ok(rows)
}

/// The output of a program for one input.
#[derive(Clone, Debug, Default)]
pub struct ProgramOutput {
    /// The JSON summary.
    pub summary: Value,
    /// `alerts.log`.
    pub log: String,
    /// Lines of `alerts.json`.
    pub findings: Vec<Value>,
}

/// The lists that Slips used in its runs: its own, which are next to the inputs.
pub fn lists(folder: &Path) -> Vec<PathBuf> {
    let own = ["own_malicious_iocs.csv", "own_malicious_JA3.csv"];
    let paths = own.iter().map(|name| folder.join("slips-data").join(name));
    paths.filter(|path| path.is_file()).collect()
}

/// Runs the program on an input.
///
/// # Errors
/// It cannot be run, or its output is not JSON.
pub fn run(binary: &Path, input: &Path, folder: &Path, lists: &[PathBuf]) -> Result<ProgramOutput> {
    let mut command = Command::new(binary);
    command.args(["read", "--behavior", "--json", "-q", "-l"]).arg(folder).arg(input);
    for list in lists {
        command.arg("--intel").arg(list);
    }
    let output = command.output().with_context(|| format!("cannot run {}", binary.display()))?;
    let summary = serde_json::from_slice(&output.stdout).with_context(|| {
        format!("{}: {}", input.display(), String::from_utf8_lossy(&output.stderr))
    })?;
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let findings = read("alerts.json")
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<Vec<Value>, _>>()
        .context("alerts.json")?;
    Ok(ProgramOutput { summary, log: read("alerts.log"), findings })
}

/// Whether a row matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The row matches.
    Met,
    /// The row does not match.
    Missed,
    /// The row needs something that the program does not read or report yet.
    NotAsked,
}

/// Judges a row; also returns what was found instead.
#[must_use]
pub fn judge(row: &Row, output: &ProgramOutput) -> (Verdict, String) {
    let met = |is: bool, there: String| (if is { Verdict::Met } else { Verdict::Missed }, there);
    match (row.source.as_str(), row.key.as_str()) {
        ("peer-test", "must contain") => {
            let (text, uid) = required_text(&row.value);
            let is = output.log.contains(text)
                && uid.is_none_or(|uid| output.findings.iter().any(|f| has_uid(f, text, uid)));
            met(is, String::new())
        }
        ("peer-test", "profiles") => {
            let least =
                row.value.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(u64::MAX);
            let there = count(output, "profiles");
            met(there > least, there.to_string())
        }
        ("peer-run" | "peer-run-incomplete", "ALERTS") => (Verdict::NotAsked, alerts(output)),
        ("peer-run" | "peer-run-incomplete", kind) => {
            let there = of_type(output, kind);
            met(there > 0, there.to_string())
        }
        ("peer-test", key) if key.starts_with("beacon ") => {
            met(beacon(row, output), beacons(output))
        }
        ("rule-derived", "ts/ds/cv/bimodal/duration") => met(parts(row, output), beacons(output)),
        ("rule-derived", key) => {
            let there = match key {
                "flows" => count(output, "flows"),
                "est" => count(output, "established"),
                "notest" => count(output, "not_established"),
                "private_to_private_flows" => count(output, "private_to_private"),
                "sources" => count(output, "sources"),
                "windows" => count(output, "windows"),
                "skipped_rows" => skipped(output),
                _ if key.starts_with("V:") || key.starts_with("H:") => {
                    return met(scan(key, output), String::new());
                }
                _ if key.contains('/') => return (Verdict::NotAsked, String::new()),
                kind => of_type(output, kind),
            };
            met(there.to_string() == row.count, there.to_string())
        }
        _ => (Verdict::NotAsked, String::new()),
    }
}

/// The text that a row requires, and the flow of the finding.
fn required_text(value: &str) -> (&str, Option<&str>) {
    let text = value.strip_prefix("conn.log alone: ").unwrap_or(value);
    match text.split_once(" (flow uid ") {
        Some((text, uid)) => (text, Some(uid.trim_end_matches(')'))),
        None => (text, None),
    }
}

fn has_uid(finding: &Value, text: &str, uid: &str) -> bool {
    let says = |key: &str, part: &str| {
        finding.get(key).and_then(Value::as_str).is_some_and(|t| t.contains(part))
    };
    says("Description", text) && says("Note", uid)
}

fn count(output: &ProgramOutput, name: &str) -> u64 {
    output.summary["counts"][name].as_u64().unwrap_or(0)
}

fn of_type(output: &ProgramOutput, kind: &str) -> u64 {
    let list = output.summary["evidence"].as_array();
    let of = |e: &&Value| e["type"] == kind;
    list.into_iter().flatten().filter(of).filter_map(|e| e["count"].as_u64()).sum()
}

/// Rows of flows without a record; of Zeek's logs only those of conn.log.
fn skipped(output: &ProgramOutput) -> u64 {
    let inputs = output.summary["inputs"].as_array();
    let is_flows = |i: &&Value| i["kind"].as_str().is_none_or(|k| k == "conn");
    inputs
        .into_iter()
        .flatten()
        .filter(is_flows)
        .filter(|i| i["passed"]["items"].as_u64() > Some(0))
        .filter_map(|i| i["skipped"].as_object())
        .flat_map(|skipped| skipped.values().filter_map(Value::as_u64))
        .sum()
}

fn alerts(output: &ProgramOutput) -> String {
    let list = output.summary["alerts"].as_array();
    let mut by: BTreeMap<String, u64> = BTreeMap::new();
    for a in list.into_iter().flatten() {
        let profile = a["profile"].as_str().unwrap_or_default();
        *by.entry(format!("{profile}@tw{}", a["window"])).or_default() += 1;
    }
    by.iter().map(|(k, n)| format!("{k} {n}")).collect::<Vec<_>>().join(", ")
}

/// `V:source->destination/proto …` and `H:source:port/proto`: whether that scan is reported.
fn scan(key: &str, output: &ProgramOutput) -> bool {
    let rest = key.get(2..).unwrap_or_default();
    if let Some((source, target)) = rest.split_once("->") {
        let target = target.split('/').next().unwrap_or_default();
        let text = format!("new vertical port scan to IP {target} from {source}.");
        return output.log.contains(&text);
    }
    let Some((source, port)) = rest.rsplit_once(':') else { return false };
    output.log.lines().any(|line| {
        line.contains("Horizontal port scan to port ")
            && line.contains(&format!(" {port}. From {source} to "))
    })
}

/// `beacon source->destination`, with `score S; …; count N`.
fn beacon(row: &Row, output: &ProgramOutput) -> bool {
    let pair = row.key.trim_start_matches("beacon ");
    let Some((source, destination)) = pair.split_once("->") else { return false };
    let value = |name: &str| {
        let part = row.value.split("; ").find_map(|p| p.strip_prefix(name))?;
        Some(part.trim().to_owned())
    };
    let (Some(score), Some(count)) = (value("score"), value("count")) else { return false };
    let text =
        format!("Beacon from {source} to {destination}, {count} connections. Score: {score} ");
    output.log.contains(&text)
}

/// The parts of a score: intervals, sizes, evenness, two heights, coverage.
fn parts(row: &Row, output: &ProgramOutput) -> bool {
    let parts: Vec<f64> = row.value.split('/').filter_map(|p| p.parse().ok()).collect();
    let [intervals, sizes, evenness, bimodal, coverage] = parts.as_slice() else { return false };
    let text = format!(
        "(intervals {intervals:.3}, sizes {sizes:.3}, histogram {:.3} of {evenness:.3} and \
         {bimodal:.3}, coverage {coverage:.3})",
        evenness.max(*bimodal)
    );
    output.log.contains(&text)
}

fn beacons(output: &ProgramOutput) -> String {
    let lines = output.log.lines().filter_map(|l| l.split("Detected Beacon ").nth(1));
    lines.take(5).collect::<Vec<_>>().join(" | ")
}

/// Inputs of a table, in order, with their rows.
#[must_use]
pub fn by_input(rows: Vec<Row>) -> BTreeMap<String, Vec<Row>> {
    let mut all: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in rows {
        all.entry(row.input.clone()).or_default().push(row);
    }
    all
}

/// The path of an input: itself, packed, or the folder of logs inside it.
#[must_use]
pub fn place(folder: &Path, input: &str) -> Option<PathBuf> {
    let plain = folder.join(input);
    let packed = folder.join(format!("{input}.zst"));
    [plain, packed].into_iter().find(|p| p.exists())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(source: &str, key: &str, value: &str, count: &str) -> Row {
        let own = |t: &str| t.to_owned();
        Row {
            input: own("x"),
            source: own(source),
            key: own(key),
            value: own(value),
            count: own(count),
        }
    }

    #[test]
    fn rows_are_judged() {
        let output = ProgramOutput {
            summary: json!({
                "counts": {"flows": 5, "profiles": 3},
                "evidence": [{"type": "A", "level": "high", "count": 2}],
                "inputs": [
                    {"kind": "conn", "passed": {"items": 4}, "skipped": {"no_address": 1}},
                    {"kind": "dns", "passed": {"items": 4}, "skipped": {"cut_short": 7}},
                ],
            }),
            log: "Horizontal port scan to port rdp 3389/tcp. From 1.2.3.4 to 10 unique".into(),
            findings: vec![json!({"Description": "Horizontal port scan", "Note": "{C1}"})],
        };
        for (row, verdict) in [
            (row("rule-derived", "flows", "", "5"), Verdict::Met),
            (row("rule-derived", "flows", "", "6"), Verdict::Missed),
            (row("rule-derived", "A", "", "2"), Verdict::Met),
            (row("rule-derived", "skipped_rows", "", "1"), Verdict::Met),
            (row("rule-derived", "H:1.2.3.4:3389/tcp", "", "10"), Verdict::Met),
            (row("rule-derived", "H:1.2.3.5:3389/tcp", "", "10"), Verdict::Missed),
            (row("peer-run", "A", "high", "9"), Verdict::Met),
            (row("peer-run", "B", "high", "9"), Verdict::Missed),
            (row("peer-test", "profiles", "profiles > 2", ""), Verdict::Met),
            (
                row("peer-test", "must contain", "Horizontal port scan (flow uid C1)", ""),
                Verdict::Met,
            ),
            (
                row("peer-test", "must contain", "Horizontal port scan (flow uid C2)", ""),
                Verdict::Missed,
            ),
        ] {
            assert_eq!(judge(&row, &output).0, verdict, "{row:?}");
        }
    }
}
