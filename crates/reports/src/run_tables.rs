//! *Calls out* and *hosts* as a run left them in `run.json`. They cover more than the lines of `alerts.json`: in a
//! flood most findings are only counted, and a host that has no line of its own still has its row.

use crate::findings::second;
use crate::limits::RUN_BYTES_MAX;
use crate::ranked::Left;
use gabion_outputs::triage::{Call, Rank, Ranked, call_word};
use gabion_record::Ip;
use gabion_record::evidence::ThreatLevel;
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The summary that every run leaves in its folder.
pub const RUN_FILE: &str = "run.json";

/// Adds the rows of the last run in a folder, and returns how many rows that run did not write. A run that has not
/// ended, or that was killed, has left none: then the tables come from the lines.
pub(crate) fn join(folder: &Path, rank: &mut Rank) -> Left {
    let Some(run) = read_run_file(folder) else { return (0, 0) };
    let rows = |name: &str| run[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let (calls, hosts) = (rows("calls_out"), rows("hosts"));
    calls.iter().filter_map(call).for_each(|row| rank.join_call(row));
    hosts.iter().filter_map(host).for_each(|row| rank.join_host(row));
    rank.dropped = rank.dropped.max(number(&run["rows_dropped"]));
    // Of the rows that the run did not write some are known by their lines.
    let left = |name: &str, written: usize, now: usize| {
        (written as u64 + number(&run[name])).saturating_sub(now as u64)
    };
    (
        left("calls_out_left", calls.len(), rank.calls().len()),
        left("hosts_left", hosts.len(), rank.hosts().len()),
    )
}

fn read_run_file(folder: &Path) -> Option<Value> {
    let mut text = Vec::new();
    File::open(folder.join(RUN_FILE)).ok()?.take(RUN_BYTES_MAX).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn ip(value: &Value) -> Option<Ip> {
    Ip::parse(value.as_str()?.as_bytes())
}

fn level(row: &Value) -> ThreatLevel {
    let name = row["level"].as_str().unwrap_or_default();
    ThreatLevel::from_name(name.as_bytes()).unwrap_or_default()
}

fn call(row: &Value) -> Option<Call> {
    let words = row["what"].as_array()?.iter().filter_map(Value::as_str);
    let moment = |name: &str| second(row[name].as_str().unwrap_or_default());
    Some(Call {
        src: ip(&row["src"])?,
        dst: row["dst"].as_str()?.to_owned(),
        port: u16::try_from(number(&row["port"])).unwrap_or(0),
        threat: row["threat"].as_f64().unwrap_or(0.0),
        kinds: words.filter_map(call_word).collect(),
        level: level(row),
        count: number(&row["count"]),
        bytes: number(&row["bytes"]),
        seconds: row["seconds"].as_f64().unwrap_or(0.0),
        span: (moment("first"), moment("last")),
        weight: row["weight"].as_f64().unwrap_or(0.0),
        ..Call::default()
    })
}

fn host(row: &Value) -> Option<Ranked> {
    Some(Ranked {
        host: ip(&row["host"])?,
        worst: row["worst"].as_f64()?,
        kind: row["type"].as_str()?.to_owned(),
        level: level(row),
        kinds: usize::try_from(number(&row["kinds"])).ok()?,
        sum: row["sum"].as_f64().unwrap_or(0.0),
        ..Ranked::default()
    })
}
