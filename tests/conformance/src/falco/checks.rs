//! Checks what a program left behind against what a test expects.

use super::run::{Finished, expanded};
use super::text;
use crate::verify::yaml::Node;
use anyhow::{Context, Result, bail};
use regex::Regex;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Checks one entry of a test's `expect`. The result is what does not hold, if anything.
///
/// # Errors
/// The entry is not of a kind that is known, or names a file that cannot be read.
pub fn check(entry: &Node, finished: &Finished, folder: &Path) -> Result<Option<String>> {
    let mut failed = Vec::new();
    for (key, wanted) in entry.entries() {
        if let Some(what) = check_key(&key.python_str(), wanted, finished, folder)? {
            failed.push(what);
        }
    }
    Ok((!failed.is_empty()).then(|| failed.join("; ")))
}

fn check_key(
    key: &str,
    wanted: &Node,
    finished: &Finished,
    folder: &Path,
) -> Result<Option<String>> {
    let wanted_text = wanted.python_str();
    let (stdout, stderr) = (&finished.stdout, &finished.stderr);
    let holds = match key {
        "success" => (finished.exit_code == Some(0)) == (wanted_text == "True"),
        "exit_code" => finished.exit_code.map(|code| code.to_string()) == Some(wanted_text.clone()),
        "detections" => return Ok(detections(wanted, stdout)),
        "validation" => return validation(wanted, stdout),
        "load_result" => {
            let results = load_results(stdout)?;
            let index: usize = text(wanted, "index").context("no index")?.parse()?;
            let found = results.get(index).and_then(|result| result["successful"].as_bool());
            found.map(|b| if b { "True" } else { "False" }) == text(wanted, "successful").as_deref()
        }
        "stdout_contains" => stdout.contains(&wanted_text),
        "stderr_contains" => stderr.contains(&wanted_text),
        "stdout_regex" => Regex::new(&wanted_text)?.is_match(stdout),
        "stdout_not_regex" => !Regex::new(&wanted_text)?.is_match(stdout),
        "stderr_regex" => Regex::new(&wanted_text)?.is_match(stderr),
        "stderr_not_regex" => !Regex::new(&wanted_text)?.is_match(stderr),
        "stdout_contains_each_line_of" => {
            let lines = fs::read_to_string(folder.join(&wanted_text))?;
            lines.lines().all(|line| stdout.contains(line))
        }
        "stdout_lines_json_equal" => {
            let wanted = json_lines(&fs::read_to_string(folder.join(&wanted_text))?);
            let found = json_lines(stdout);
            wanted.len() <= found.len() && wanted.iter().zip(&found).all(|(a, b)| a == b)
        }
        "file_equals" => {
            let file = text(wanted, "file").context("no file")?;
            let found = fs::read_to_string(expanded(&file, folder, finished.scratch.path()));
            let expected = folder.join(text(wanted, "expected").context("no expected")?);
            found
                .is_ok_and(|found| fs::read_to_string(expected).is_ok_and(|wanted| wanted == found))
        }
        "stdout_json_has_keys" => {
            let value: Value = serde_json::from_str(stdout.trim()).unwrap_or_default();
            wanted.items().iter().all(|key| value.get(key.python_str()).is_some())
        }
        "http_get_ok" => finished.fetched.contains(&wanted_text),
        other => bail!("unknown expectation {other}"),
    };
    Ok((!holds).then(|| format!("{key}: {wanted_text}")))
}

/// The lines that are JSON.
fn json_lines(output: &str) -> Vec<Value> {
    let lines = output.lines().filter(|line| line.starts_with('{'));
    lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Whether a number is what a test wants: a number, or more than one.
fn is_count(wanted: Option<String>, found: usize) -> bool {
    match wanted.as_deref() {
        None => found > 0,
        Some(text) => match text.strip_prefix('>') {
            Some(above) => above.trim().parse().is_ok_and(|above: usize| found > above),
            None => text.parse() == Ok(found),
        },
    }
}

fn detections(wanted: &Node, stdout: &str) -> Option<String> {
    let rule = text(wanted, "rule");
    let priority = text(wanted, "priority_contains").map(|p| p.to_lowercase());
    let alerts = json_lines(stdout);
    let matching = alerts.iter().filter(|alert| alert.get("rule").is_some()).filter(|alert| {
        let field = |key: &str| alert[key].as_str().unwrap_or_default();
        rule.as_deref().is_none_or(|rule| rule == field("rule"))
            && priority.as_deref().is_none_or(|p| field("priority").to_lowercase().contains(p))
    });
    let found = matching.count();
    (!is_count(text(wanted, "count"), found))
        .then(|| format!("detections {found}: {}", wanted.python_repr()))
}

fn load_results(stdout: &str) -> Result<Vec<Value>> {
    let line =
        json_lines(stdout).into_iter().find(|value| value.get("falco_load_results").is_some());
    let line = line.context("no falco_load_results")?;
    Ok(line["falco_load_results"].as_array().cloned().unwrap_or_default())
}

fn validation(wanted: &Node, stdout: &str) -> Result<Option<String>> {
    let key = match text(wanted, "kind").as_deref() {
        Some("error") => "errors",
        Some("warning") => "warnings",
        kind => bail!("unknown kind of validation {kind:?}"),
    };
    let Ok(results) = load_results(stdout) else {
        return Ok(Some("no falco_load_results".to_string()));
    };
    let (code, item_type) = (text(wanted, "code"), text(wanted, "item_type"));
    let (name, message) = (text(wanted, "item_name"), text(wanted, "message"));
    let pattern = text(wanted, "message_regex").map(|pattern| Regex::new(&pattern)).transpose()?;
    let entries = results.iter().flat_map(|result| result[key].as_array().into_iter().flatten());
    let matching = entries.filter(|entry| {
        let locations = || entry["context"]["locations"].as_array().into_iter().flatten();
        let is_same = |a: &Value, b: &str| a.as_str().is_some_and(|a| a.eq_ignore_ascii_case(b));
        code.as_deref().is_none_or(|code| is_same(&entry["code"], code))
            && item_type.as_deref().is_none_or(|t| locations().any(|l| is_same(&l["item_type"], t)))
            && name.as_deref().is_none_or(|n| locations().any(|l| l["item_name"] == n))
            && message.as_deref().is_none_or(|m| entry["message"] == m)
            && pattern
                .as_ref()
                .is_none_or(|p| p.is_match(entry["message"].as_str().unwrap_or_default()))
    });
    let found = matching.count();
    let holds = is_count(text(wanted, "count"), found);
    Ok((!holds).then(|| format!("validation {found}: {}", wanted.python_repr())))
}
