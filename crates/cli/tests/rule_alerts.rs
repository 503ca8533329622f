//! Alerts of rules in the results of the behaviour engine: their findings, scores and timelines, the same from a
//! capture that both engines read and from the `eve.json` of an earlier run, with any number of workers.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

const GABION: &str = env!("CARGO_BIN_EXE_gabion");

fn demo(name: &str) -> String {
    format!("{}/../../demo/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn read(input: &str, out: &Path, more: &[&str]) -> Value {
    let out = out.to_str().unwrap();
    let ran = Command::new(GABION)
        .args(["read", input, "--behavior", "-q", "--json", "-l", out])
        .args(more)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// Host, text and how often, of findings that are alerts of rules.
fn rule_alerts(out: &Path) -> BTreeMap<(String, String), u64> {
    let listed = Command::new(GABION)
        .args(["behavior", "list", out.to_str().unwrap(), "--type", "RULE_ALERT", "--json"])
        .output()
        .unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let word = |f: &Value, key: &str| f[key].as_str().unwrap().to_owned();
    let all = listed["findings"].as_array().unwrap().iter();
    all.map(|f| ((word(f, "source"), word(f, "description")), f["times"].as_u64().unwrap_or(1)))
        .collect()
}

#[test]
fn rules_count_in_scores_and_timelines() {
    let folder = tempfile::tempdir().unwrap();
    let (pcap, rules) = (demo("demo.pcap"), demo("gabion.rules"));
    let out = |name: &str| folder.path().join(name);
    let with = ["--rules", rules.as_str()];
    let both = read(&pcap, &out("both"), &with);
    let found = rule_alerts(&out("both"));
    // Each rule and host of eve.json, by the client of the flow.
    let eve = std::fs::read_to_string(out("both").join("eve.json")).unwrap();
    let alerts = eve.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
    let alerts: Vec<Value> = alerts.filter(|e| e["event_type"] == "alert").collect();
    assert!(alerts.len() > 10, "{}", alerts.len());
    let mut wanted = BTreeSet::new();
    for alert in &alerts {
        let client = if alert["direction"] == "to_client" { "dest_ip" } else { "src_ip" };
        let sid = format!("(1:{})", alert["alert"]["signature_id"]);
        wanted.insert((alert[client].as_str().unwrap().to_owned(), sid));
    }
    // Twenty of a host are reported one by one, the rest is counted in one finding that stands for many.
    for host in wanted.iter().map(|(host, _)| host).collect::<BTreeSet<_>>() {
        let rules: Vec<&str> =
            wanted.iter().filter(|w| w.0 == *host).map(|w| w.1.as_str()).collect();
        let has =
            |rule: &str| found.keys().any(|(source, text)| source == host && text.contains(rule));
        let reported = rules.iter().filter(|rule| has(rule)).count();
        assert_eq!(reported, rules.len().min(20), "{host}: {found:?}");
        let more = format!("{} more findings of RULE_ALERT", rules.len() - reported);
        assert!(reported == rules.len() || has(&more), "{host} {more}: {found:?}");
    }
    // A host's score is higher for them, and its timeline has them.
    let alone = read(&pcap, &out("alone"), &[]);
    assert!(rule_alerts(&out("alone")).is_empty());
    let sums = |run: &Value| -> BTreeMap<String, f64> {
        let hosts = run["hosts"].as_array().unwrap().iter();
        hosts
            .map(|h| (h["host"].as_str().unwrap().to_owned(), h["sum"].as_f64().unwrap_or(0.0)))
            .collect()
    };
    let (before, after) = (sums(&alone), sums(&both));
    let risen = |host: &str| after.get(host) > before.get(host);
    let ((host, text), _) = found.iter().find(|((host, _), _)| risen(host)).unwrap();
    let shown = Command::new(GABION)
        .args(["behavior", "show", out("both").to_str().unwrap(), "--profile", host, "--json"])
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("RULE_ALERT"), "{host} {text}: {shown}");
    // Alerts of rules change no other evidence of a host.
    let others = |run: &Value| {
        let all = run["evidence"].as_array().unwrap().iter();
        all.filter(|e| e["type"] != "RULE_ALERT").cloned().collect::<Vec<_>>()
    };
    assert_eq!(others(&both), others(&alone));
    // Two workers, and the events that another run wrote.
    read(&pcap, &out("two"), &["--rules", &rules, "--workers", "2"]);
    assert_eq!(rule_alerts(&out("two")), found);
    let eve = out("both").join("eve.json");
    for workers in ["1", "2"] {
        let name = format!("eve{workers}");
        read(eve.to_str().unwrap(), &out(&name), &["--workers", workers]);
        assert_eq!(rule_alerts(&out(&name)), found, "{workers}");
    }
}
