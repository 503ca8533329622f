//! Prints a comparison: a line for each type of record, the differences by kind, and JSON of both.

use std::fmt::Write;

use serde_json::{Value, json};

use super::compare::{Cluster, Comparison, Counts, Differences};

/// Records of an example are cut after this many bytes.
const EXAMPLE_BYTES_MAX: usize = 1500;

/// One line on all records of a suite.
#[must_use]
pub fn summary_line(suite: &str, comparison: &Comparison) -> String {
    let total = comparison.total();
    format!(
        "{suite}: {} of {} records the same ({}), {} missing or different, {} extra",
        total.same,
        total.wanted,
        percent(total),
        total.missing(),
        total.extra
    )
}

fn percent(counts: Counts) -> String {
    if counts.wanted == 0 {
        return "-".to_owned();
    }
    format!("{:.2} %", counts.same as f64 * 100.0 / counts.wanted as f64)
}

/// A table by type of record, the types with most differences first.
#[must_use]
pub fn table_by_kind(comparison: &Comparison) -> String {
    let mut rows: Vec<_> = comparison.by_kind.iter().collect();
    rows.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.missing() + counts.extra));
    let mut text = format!(
        "{:<18}{:>9}{:>9}{:>10}{:>9}{:>9}\n",
        "type", "records", "same", "", "missing", "extra"
    );
    for (kind, c) in rows {
        let (missing, share) = (c.missing(), percent(*c));
        let _ = writeln!(
            text,
            "{kind:<18}{:>9}{:>9}{share:>10}{missing:>9}{:>9}",
            c.wanted, c.same, c.extra
        );
    }
    text
}

/// The kinds of differences, largest first.
fn by_size(comparison: &Comparison) -> Vec<(&Cluster, &Differences)> {
    let mut clusters: Vec<_> = comparison.clusters.iter().collect();
    clusters.sort_by_key(|(cluster, d)| (std::cmp::Reverse(d.count), *cluster));
    clusters
}

/// The largest kinds of differences, each with the first inputs that have it and, if wanted, an example.
#[must_use]
pub fn list_differences(comparison: &Comparison, rows: usize, has_examples: bool) -> String {
    let mut text = String::new();
    for ((kind, members), d) in by_size(comparison).into_iter().take(rows) {
        let inputs: Vec<&str> = d.inputs.iter().take(3).map(String::as_str).collect();
        let _ = writeln!(
            text,
            "{:>7}  {kind}: {members}  [{} of {} inputs]",
            d.count,
            inputs.join(", "),
            d.inputs.len()
        );
        let (wanted, ours) = &d.example;
        for (side, record) in [("Suricata", wanted), ("this one", ours)] {
            if has_examples && !record.is_empty() {
                let _ = writeln!(text, "           {side}: {}", cut(record));
            }
        }
    }
    text
}

fn cut(text: &str) -> &str {
    let end = (0..=EXAMPLE_BYTES_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.get(..end.unwrap_or(0)).unwrap_or(text)
}

/// All of it as JSON.
#[must_use]
pub fn as_json(suite: &str, comparison: &Comparison) -> Value {
    let counts = |c: &Counts| json!({"records": c.wanted, "same": c.same, "missing": c.missing(), "extra": c.extra});
    let kinds: serde_json::Map<String, Value> =
        comparison.by_kind.iter().map(|(kind, c)| (kind.clone(), counts(c))).collect();
    let differences: Vec<Value> = by_size(comparison)
        .into_iter()
        .map(|((kind, members), d)| {
            json!({
                "type": kind, "members": members, "count": d.count, "inputs": d.inputs,
                "suricata": serde_json::from_str::<Value>(&d.example.0).unwrap_or(Value::Null),
                "this": serde_json::from_str::<Value>(&d.example.1).unwrap_or(Value::Null),
            })
        })
        .collect();
    json!({
        "suite": suite, "total": counts(&comparison.total()), "types": kinds,
        "differences": differences,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::eve::Record;

    #[test]
    fn a_comparison_is_printed() {
        let records = |lines: &[&str]| -> Vec<Record> {
            lines.iter().filter_map(|l| Record::from_line(l).unwrap()).collect()
        };
        let mut c = Comparison::default();
        let [a, b] = ["1", "2"].map(|n| format!(r#"{{"event_type":"dns","dns":{{"id":{n}}}}}"#));
        c.add_input("in/a", records(&[&a, &a]), records(&[&a, &b, &b]));
        assert_eq!(
            summary_line("x", &c),
            "x: 1 of 2 records the same (50.00 %), 1 missing or different, 2 extra"
        );
        let listed = list_differences(&c, 9, true);
        assert!(listed.starts_with("      1  dns: dns.id  [in/a of 1 inputs]\n"), "{listed}");
        assert_eq!(listed.lines().count(), 5);
        assert_eq!(table_by_kind(&c).lines().count(), 2);
        let json = as_json("x", &c);
        assert_eq!(json["total"]["extra"], 2);
        assert_eq!(json["differences"][0]["this"]["dns"]["id"], 2);
    }
}
