//! Reads EVE records, and drops of them what differs between two runs of Suricata itself.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

/// Members that are not compared, by their path: numbers of a run (`flow_id`, `parent_id`), the time at which a
/// record was written and the packet that caused it, what depends on Suricata's threads (`flow.reason`), and what
/// only counts packets that an exception policy saw.
pub const IGNORED: [&[&str]; 7] = [
    &["flow_id"],
    &["parent_id"],
    &["timestamp"],
    &["pcap_cnt"],
    &["pcap_filename"],
    &["flow", "exception_policy"],
    &["flow", "reason"],
];

/// A record without the members that are not compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its `event_type`.
    pub kind: String,
    /// The rest of it as one text: records are the same if these are.
    pub text: String,
}

impl Record {
    /// A record of a line. `None`: it is one that is not compared (`stats`).
    ///
    /// # Errors
    /// The line is no JSON.
    pub fn from_line(line: &str) -> Result<Option<Record>> {
        let mut value: Value = serde_json::from_str(line).context("a line that is no JSON")?;
        let kind = value["event_type"].as_str().unwrap_or_default().to_owned();
        if kind == "stats" {
            return Ok(None);
        }
        for path in IGNORED {
            remove(&mut value, path);
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

fn remove(value: &mut Value, path: &[&str]) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut at = value;
    for key in parents {
        let Some(inner) = at.get_mut(*key) else { return };
        at = inner;
    }
    if let Some(object) = at.as_object_mut() {
        object.remove(*last);
    }
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
}
