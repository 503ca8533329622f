//! The same findings and records with one worker and with several.

mod program;

use program::{demo, gabion, repository};
use std::path::{Path, PathBuf};

/// Lines of `eve.json` but statistics, sorted: flows that end with the last packet come worker by
/// worker.
fn records(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("eve.json")).unwrap();
    let mut lines: Vec<String> =
        text.lines().filter(|l| !l.contains("\"event_type\":\"stats\"")).map(Into::into).collect();
    lines.sort();
    lines
}

/// Reads with so many workers: alerts in order, records.
fn read(captures: &[PathBuf], workers: &str) -> (String, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().display().to_string();
    let rules = repository("demo/gabion.rules").display().to_string();
    let mut args = vec!["read", "-q", "-S", &rules, "-l", &out, "--workers", workers];
    let names: Vec<String> = captures.iter().map(|p| p.display().to_string()).collect();
    args.extend(names.iter().map(String::as_str));
    let r = gabion(&args);
    assert_eq!(r.code, 0, "{}", r.err);
    (std::fs::read_to_string(dir.path().join("fast.log")).unwrap(), records(dir.path()))
}

/// Flow ids hang on a number that is random for each run: they are told apart by order only.
fn without_ids(lines: &[String]) -> Vec<String> {
    let mut all: Vec<String> = lines
        .iter()
        .map(|l| {
            let mut v: serde_json::Value = serde_json::from_str(l).unwrap();
            for key in ["flow_id", "parent_id"] {
                v.as_object_mut().unwrap().remove(key);
            }
            v.to_string()
        })
        .collect();
    all.sort();
    all
}

#[track_caller]
fn compare(captures: &[PathBuf]) {
    let (alerts, records) = read(captures, "1");
    for workers in ["2", "3"] {
        let (a, r) = read(captures, workers);
        assert_eq!(a, alerts, "{workers} workers");
        let (r, one) = (without_ids(&r), without_ids(&records));
        assert_eq!(r.len(), one.len());
        for (many, one) in r.iter().zip(&one) {
            assert_eq!(many, one, "{workers} workers");
        }
    }
}

#[test]
fn the_demonstration_reads_the_same() {
    compare(&[demo().into()]);
}

#[test]
fn captures_of_the_corpus_read_the_same() {
    let corpus = std::env::var("GABION_CORPUS")
        .map_or_else(|_| repository("../shared/corpus"), PathBuf::from);
    let Ok(entries) = std::fs::read_dir(corpus.join("captures/arkime")) else {
        eprintln!("skipped: no captures under {}", corpus.display());
        return;
    };
    let mut captures: Vec<PathBuf> = entries
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "pcap"))
        .filter(|p| p.metadata().is_ok_and(|m| m.len() < 200_000))
        .collect();
    captures.sort();
    // One at a time: several in one run meet the limit on flows ended with one packet, at which the
    // packet that ends a flow may be another.
    for capture in captures.iter().step_by(6) {
        if gabion(&["read", "-q", &capture.display().to_string()]).code == 0 {
            compare(std::slice::from_ref(capture));
        }
    }
}
