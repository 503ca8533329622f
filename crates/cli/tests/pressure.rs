//! Budgets that are far too small: the run ends well, and the ledger says what was given up and why.

mod program;

use program::{demo, gabion, repository};
use serde_json::Value;

/// Reads the demonstration with this setting; gives the report.
fn read(setting: &str, workers: &str) -> Value {
    let rules = repository("demo/gabion.rules").display().to_string();
    let args = ["read", "-q", "--json", "-k", "none", "-S", &rules, "--workers", workers];
    let r = gabion(&[&args[..], &["--set", setting, &demo()]].concat());
    assert_eq!(r.code, 0, "{setting}: {}", r.err);
    serde_json::from_str(&r.out).unwrap()
}

fn shed(report: &Value, joint: &str, reason: &str) -> u64 {
    let ledger = report["ledger"].as_array().unwrap();
    let entry = ledger.iter().find(|e| e["joint"] == joint).unwrap();
    entry["shed"][reason]["items"].as_u64().unwrap_or(0)
}

#[test]
fn what_is_given_up_for_want_of_room_is_counted_with_its_reason() {
    for (setting, joint, reason) in [
        ("flow.memcap=16kb", "flows", "flow_memcap"),
        ("stream.memcap=8kb", "stream", "stream_memcap"),
        ("stream.reassembly.memcap=8kb", "stream", "reassembly_memcap"),
    ] {
        for workers in ["1", "2"] {
            let report = read(setting, workers);
            assert_eq!(report["exit"], 0, "{setting}: the ledger balances");
            assert!(shed(&report, joint, reason) > 0, "{setting}, {workers} workers");
        }
    }
}

#[test]
fn with_room_enough_nothing_is_given_up() {
    let report = read("flow.memcap=64mb", "2");
    for (joint, reason) in [("flows", "flow_memcap"), ("stream", "stream_memcap")] {
        assert_eq!(shed(&report, joint, reason), 0);
    }
}
