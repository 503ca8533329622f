//! Every output the same, to the byte, with one worker and with several.

mod program;

use program::{demo, gabion, repository};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a run wrote: each file by its name. Of `eve.json` all but statistics, which hold wall time; of
/// `run.json` what was found, not what it cost and by which threads.
fn written(folder: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(at) = folders.pop() {
        for path in std::fs::read_dir(&at).unwrap().map(|e| e.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            let mut text = String::from_utf8_lossy(&bytes).into_owned();
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            if name == "eve.json" {
                let lines = text.split_inclusive('\n');
                text = lines.filter(|l| !l.contains("\"event_type\":\"stats\"")).collect();
            }
            if name == "run.json" {
                let run: serde_json::Value = serde_json::from_str(&text).unwrap();
                let found = ["inputs", "packets", "bytes", "alerts", "findings", "records"];
                text = found.map(|key| run[key].to_string()).concat();
            }
            files.insert(name, text);
        }
    }
    files
}

/// Reads with so many workers and gives what was written.
fn read(captures: &[PathBuf], rules: &Path, workers: usize) -> BTreeMap<String, String> {
    let dir = tempfile::tempdir().unwrap();
    let (out, workers) = (dir.path().display().to_string(), workers.to_string());
    let (rules, store) =
        (rules.display().to_string(), repository("crates/cli/tests/data/all.yaml"));
    let store = store.display().to_string();
    let mut args = vec!["read", "-q", "-c", &store, "-S", &rules, "-l", &out];
    args.extend(["--workers", &workers]);
    let names: Vec<String> = captures.iter().map(|p| p.display().to_string()).collect();
    args.extend(names.iter().map(String::as_str));
    let r = gabion(&args);
    assert_eq!(r.code, 0, "{}", r.err);
    written(dir.path())
}

/// Every byte of every output is the same, whoever read.
#[track_caller]
fn compare(captures: &[PathBuf], rules: &Path, all: &[usize]) -> BTreeMap<String, String> {
    let one = read(captures, rules, 1);
    for workers in all {
        let many = read(captures, rules, *workers);
        let names = |w: &BTreeMap<String, String>| w.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&one), names(&many), "{workers} workers");
        for (name, text) in &one {
            for (a, b) in text.lines().zip(many[name].lines()) {
                assert_eq!(a, b, "{name}, {workers} workers");
            }
            assert!(*text == many[name], "{name}: {workers} workers wrote another count of lines");
        }
    }
    one
}

fn across() -> PathBuf {
    repository("crates/cli/tests/data/across.rules")
}

fn corpus() -> PathBuf {
    std::env::var("GABION_CORPUS").map_or_else(|_| repository("../shared/corpus"), PathBuf::from)
}

#[test]
fn the_demonstration_reads_the_same() {
    let wrote = compare(&[demo().into()], &repository("demo/gabion.rules"), &[2, 3, 4]);
    assert!(wrote["fast.log"].lines().count() > 10);
    assert!(wrote.keys().any(|name| name.starts_with("filestore/")), "{:?}", wrote.keys());
}

#[test]
fn rules_with_state_across_flows_answer_the_same() {
    let wrote = compare(&[demo().into(), demo().into()], &across(), &[2, 3, 4, 7]);
    let alerts = &wrote["fast.log"];
    for sid in [1, 2, 3, 4, 6, 8, 10, 11, 12, 13, 14, 15, 17, 18] {
        assert!(alerts.contains(&format!("[1:{sid}:0]")), "rule {sid} tells nothing");
    }
}

/// All captures of the corpus in one run a folder, so that state and flows go on from one to the
/// next.
#[test]
fn captures_of_the_corpus_read_the_same() {
    for folder in ["arkime", "ndpi", "slips", "tcpdump", "tcpreplay", "zeek"] {
        let Ok(entries) = std::fs::read_dir(corpus().join("captures").join(folder)) else {
            eprintln!("skipped: no captures under {}", corpus().display());
            return;
        };
        let mut captures: Vec<PathBuf> = entries
            .flatten()
            .map(|e| e.path())
            .filter(|p| p.metadata().is_ok_and(|m| m.len() < 50_000))
            .filter(|p| gabion(&["read", "-q", &p.display().to_string()]).code == 0)
            .collect();
        captures.sort();
        captures.truncate(120);
        if !captures.is_empty() {
            compare(&captures, &across(), &[2, 3]);
        }
    }
}
