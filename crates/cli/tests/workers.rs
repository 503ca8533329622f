//! Every output the same, to the byte, with one worker and with several.

#[path = "workers/nestings.rs"]
mod nestings;
mod program;

use nestings::{Random, Wrapping, conversation, fragments_in_fragments};
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

/// Reads with `workers` workers and returns the files that were written.
fn read(captures: &[PathBuf], rules: &Path, workers: usize) -> BTreeMap<String, String> {
    let dir = tempfile::tempdir().unwrap();
    let (out, workers) = (dir.path().display().to_string(), workers.to_string());
    let (rules, store) =
        (rules.display().to_string(), repository("crates/cli/tests/data/all.yaml"));
    let store = store.display().to_string();
    let mut args = vec!["read", "-q", "-c", &store, "-S", &rules, "-l", &out];
    args.extend(["-k", "none", "--workers", &workers]);
    let names: Vec<String> = captures.iter().map(|p| p.display().to_string()).collect();
    args.extend(names.iter().map(String::as_str));
    let r = gabion(&args);
    assert_eq!(r.code, 0, "{}", r.err);
    written(dir.path())
}

/// Every byte of every output is the same with any number of workers.
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

/// "Every output there is": each protocol is parsed, and logged if it has records.
#[test]
fn the_configuration_names_every_protocol() {
    let text = std::fs::read_to_string(repository("crates/cli/tests/data/all.yaml")).unwrap();
    let (types, parsers) = text.split_once("app-layer:").unwrap();
    let is_named = |text: &str, prefix: &str, name: &str| {
        let is_it = |line: &str| {
            let rest = line.trim_start().strip_prefix(prefix)?.strip_prefix(name)?;
            Some(rest.is_empty() || rest.starts_with(':'))
        };
        text.lines().any(|line| is_it(line) == Some(true))
    };
    for protocol in gabion_proto::registry() {
        let (parser, output) = (protocol.config_name, protocol.eve_type);
        // Data of FTP go with its sessions.
        let has_key = parser != "ftp-data";
        assert!(!has_key || is_named(parsers, "", parser), "{parser} is not parsed");
        let is_written = protocol.is_logged && !output.is_empty();
        assert!(!is_written || is_named(types, "- ", output), "{output} is not logged");
    }
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
    for sid in [1, 2, 3, 4, 6, 8, 10, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21] {
        assert!(alerts.contains(&format!("[1:{sid}:0]")), "rule {sid} has no alert");
    }
    assert!(wrote["eve.json"].contains("\"event_type\":\"packet\""), "no host is tagged");
}

/// All captures of the corpus in one run a folder, so that state and flows continue from one to the
/// next.
#[test]
fn captures_of_the_corpus_read_the_same() {
    for folder in ["arkime", "ndpi", "slips", "tcpdump", "tcpreplay", "zeek"] {
        let below = format!("captures/{folder}");
        let Some(path) = gabion_corpus::find("captures_of_the_corpus_read_the_same", &below) else {
            return;
        };
        let mut captures: Vec<PathBuf> = std::fs::read_dir(path)
            .unwrap()
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

/// Rules about what is inside of wrappings, about fragments and about what is odd, with state in
/// flows and across them.
const NESTED: &str = r#"
alert http any any -> any any (msg:"uri"; http.uri; content:"EVILPAYLOAD"; sid:1;)
alert udp any any -> any any (msg:"datagram"; content:"EVIL"; sid:2;)
alert tcp any any -> any any (msg:"stream"; flow:established,to_client; content:"world"; flowbits:isnotset,seen; flowbits:set,seen; sid:3;)
alert icmp any any -> any any (msg:"unreachable"; itype:3; sid:4;)
alert ip any any -> any any (msg:"fragments"; fragbits:M; threshold:type limit, track by_src, count 2, seconds 60; sid:5;)
alert tcp any any -> any any (msg:"opens"; flags:S; threshold:type both, track by_dst, count 2, seconds 60; sid:6;)
alert udp any any -> any [4789,6081,3544,8472] (msg:"tunnel"; flow:to_server; flowint:n,+,1; flowint:n,=,3; sid:7;)
"#;

/// A capture of `conversations` conversations, each in up to three wrappings, their frames mixed: its folder,
/// and how many frames it holds.
fn nested(seed: u64, conversations: usize) -> (tempfile::TempDir, usize) {
    let r = &mut Random::new(seed);
    let mut under_way = Vec::new();
    let mut frames = Vec::new();
    let mut to_start = 0..conversations;
    loop {
        while under_way.len() < 8
            && let Some(n) = to_start.next()
        {
            let wrappings: Vec<Wrapping> =
                (0..1 + r.below(3)).map(|_| Wrapping::random(r)).collect();
            under_way.push((wrappings, conversation(n, r).into_iter()));
        }
        if under_way.is_empty() {
            break;
        }
        let at = r.below(under_way.len());
        let (wrappings, packets) = &mut under_way[at];
        match packets.next() {
            None => drop(under_way.swap_remove(at)),
            Some(packet) => {
                let wrapping = &wrappings[r.below(wrappings.len())];
                frames.extend(wrapping.frames(&packet, frames.len() as u16, r));
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    program::packets::capture_of(1, dir.path(), "nested.pcap", &frames);
    std::fs::write(dir.path().join("nested.rules"), NESTED).unwrap();
    (dir, frames.len())
}

/// Reads nestings with one worker, two and four, and answers with how often rule 1 alerted.
fn compare_nested(seed: u64, conversations: usize) -> usize {
    let (dir, frames) = nested(seed, conversations);
    assert!(frames > 4 * conversations, "{frames}");
    let (capture, rules) = (dir.path().join("nested.pcap"), dir.path().join("nested.rules"));
    let wrote = compare(&[capture], &rules, &[2, 4]);
    let count = |word: &str| wrote["fast.log"].matches(word).count();
    for sid in [1, 2, 3, 4, 5, 6] {
        assert!(count(&format!("[1:{sid}:0]")) > 0, "rule {sid} has no alert");
    }
    count("[1:1:0]")
}

#[test]
fn no_wrapping_changes_what_more_workers_find() {
    let found = compare_nested(20, 400);
    // Most requests are whole for the decoder, whatever they come in.
    assert!(found > 60, "{found}");
}

/// A datagram may be completed by what another datagram carries.
#[test]
fn fragments_inside_of_fragments_are_put_together() {
    let dir = tempfile::tempdir().unwrap();
    program::packets::capture_of(1, dir.path(), "both.pcap", &fragments_in_fragments());
    let rules = dir.path().join("nested.rules");
    std::fs::write(&rules, NESTED).unwrap();
    let wrote = compare(&[dir.path().join("both.pcap")], &rules, &[2, 4]);
    let is_found = |line: &str| line.contains("[1:2:0]") && line.ends_with("192.0.2.1:9000");
    assert_eq!(wrote["fast.log"].lines().filter(|l| is_found(l)).count(), 1);
}

/// The same at length: `cargo test --test workers -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn ten_thousand_nestings_read_the_same() {
    for seed in 0..10 {
        compare_nested(1_000 + seed, 1_000);
    }
}
