//! Reads EVE records, and drops of them what differs between two runs of Suricata itself.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

/// Members that are not compared, by their path: numbers of a run (`flow_id`, `parent_id`), the time at which a
/// record was written and the packet that caused it, what depends on Suricata's threads (`flow.reason`), and what
/// only counts packets that an exception policy saw.
/// `alert.context.loss` is Gabion's own: what the sensor lost until then.
pub const IGNORED: [&[&str]; 8] = [
    &["flow_id"],
    &["parent_id"],
    &["timestamp"],
    &["pcap_cnt"],
    &["pcap_filename"],
    &["flow", "exception_policy"],
    &["flow", "reason"],
    &["alert", "context", "loss"],
];

/// Lists whose order varies from run to run in Suricata itself, which keeps them in sets of hashes: they are compared
/// as sets.
const UNORDERED: [&[&str]; 1] = [&["ike", "payload"]];

/// The one record of the type `engine` that is compared: a rule was refused, named with its file and line.
const REFUSED_RULE: &str = "error parsing signature ";

/// A record without the members that are not compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its `event_type`.
    pub kind: String,
    /// The rest of it as one text: records are the same if these are.
    pub text: String,
}

impl Record {
    /// A record of a line. `None`: it is one that is not compared: `stats`, and of `engine` all that does not say that
    /// a rule was refused. These are sentences of a program about itself: its version, processors, threads, sizes of
    /// its tables, the folders it was started with.
    ///
    /// # Errors
    /// The line is no JSON.
    pub fn from_line(line: &str) -> Result<Option<Record>> {
        let mut value: Value = serde_json::from_str(line).context("a line that is no JSON")?;
        let kind = value["event_type"].as_str().unwrap_or_default().to_owned();
        if kind == "stats" || kind == "engine" && !keep_refused_rule(&mut value) {
            return Ok(None);
        }
        for path in IGNORED {
            remove(&mut value, path);
        }
        for path in UNORDERED {
            sort_list(&mut value, path);
        }
        Ok(Some(Record { kind, text: sorted(value).to_string() }))
    }

    /// Its value.
    #[must_use]
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }
}

/// The same with the members of objects in order of their names: the order in which they were written does not count.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().collect();
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(members.into_iter().map(|(key, value)| (key, sorted(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// An object that is left empty goes, too.
fn remove(value: &mut Value, path: &[&str]) {
    let Some((last, parents)) = path.split_last() else { return };
    let Some(object) = value_at(value, parents).and_then(Value::as_object_mut) else { return };
    if object.remove(*last).is_some() && object.is_empty() {
        remove(value, parents);
    }
}

fn sort_list(value: &mut Value, path: &[&str]) {
    if let Some(items) = value_at(value, path).and_then(Value::as_array_mut) {
        items.sort_by_cached_key(Value::to_string);
    }
}

fn value_at<'v>(value: &'v mut Value, path: &[&str]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |at, key| at.get_mut(*key))
}

/// Whether the record says that a rule was refused; the folder of its file, which depends on where the test ran, is
/// dropped.
fn keep_refused_rule(value: &mut Value) -> bool {
    let Some(Value::String(message)) = value_at(value, &["engine", "message"]) else {
        return false;
    };
    if !message.starts_with(REFUSED_RULE) {
        return false;
    }
    if let Some((rule, place)) = message.rsplit_once(" from file ") {
        let file = place.rsplit('/').next().unwrap_or(place);
        *message = format!("{rule} from file {file}");
    }
    true
}

/// All records of a file that are compared; none if there is no file.
///
/// # Errors
/// The file can't be read, or a line is no JSON.
pub fn read_records(path: &Path) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    if !path.exists() {
        return Ok(records);
    }
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut input = BufReader::new(file);
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        if !text.trim().is_empty() {
            let record = Record::from_line(&text)
                .with_context(|| format!("{}, record {}", path.display(), records.len() + 1))?;
            records.extend(record);
        }
        line.clear();
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_by_run_is_dropped() {
        let line = |id: u32| {
            format!(
                r#"{{"timestamp":"{id}","flow_id":{id},"event_type":"flow","b":1,"a":2,
                "flow":{{"reason":"{id}","age":3}}}}"#
            )
            .replace('\n', "")
        };
        let [one, other] = [1, 2].map(|id| Record::from_line(&line(id)).unwrap().unwrap());
        assert_eq!(one, other);
        assert_eq!(one.text, r#"{"a":2,"b":1,"event_type":"flow","flow":{"age":3}}"#);
        let other = r#"{"flow":{"age":3},"event_type":"flow","b":1,"a":2}"#;
        assert_eq!(Record::from_line(other).unwrap(), Some(one));
        assert_eq!(Record::from_line(r#"{"event_type":"stats"}"#).unwrap(), None);
        assert!(Record::from_line("{").is_err());
    }

    #[test]
    fn of_the_program_itself_only_refused_rules_are_compared() {
        let line = |text: &str| {
            let engine = serde_json::json!({ "message": text, "module": "detect" });
            let record = serde_json::json!({ "event_type": "engine", "engine": engine });
            Record::from_line(&record.to_string()).unwrap().map(|r| r.text)
        };
        assert_eq!(line("CPUs/cores online: 2"), None);
        let rule = r#"error parsing signature "alert ip (x from file /y; sid:1;)" from file"#;
        let [here, there] = ["tests/a.rules", "/srv/me/a.rules"]
            .map(|file| line(&format!("{rule} {file} at line 3")).unwrap());
        assert_eq!(here, there);
        assert!(here.contains("(x from file /y; sid:1;)"));
        assert_ne!(Some(here), line(&format!("{rule} a.rules at line 4")));
    }

    #[test]
    fn lists_without_an_order_are_sets() {
        let line = |list: &str| {
            let line = format!(r#"{{"event_type":"ike","ike":{{"payload":{list}}}}}"#);
            Record::from_line(&line).unwrap()
        };
        assert_eq!(line(r#"["Hash","Transform"]"#), line(r#"["Transform","Hash"]"#));
        assert_ne!(line(r#"["Hash"]"#), line(r#"["Transform"]"#));
    }
}
