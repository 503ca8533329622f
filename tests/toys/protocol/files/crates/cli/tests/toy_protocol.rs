//! A protocol that no one has, from end to end: rules on its buffer and its event, its records with
//! the built-in configuration, its words in configurations, and its keywords in the listing.

mod program;

use program::gabion;
use program::packets::{CLIENT, SERVER, capture, ipv4, udp};
use serde_json::Value;
use std::path::Path;

const RULES: &str = "\
alert echo7 any any -> any any (msg:\"text\"; flow:to_server; echo7.text; content:\"hello\"; sid:1;)
alert echo7 any any -> any any (msg:\"event\"; flow:to_server; app-layer-event:echo7.long_text; sid:2;)
alert echo7 any any -> any any (msg:\"never\"; echo7.text; content:\"nothing of this\"; sid:3;)
";

/// The records of a run over an echo, a long one and their answers; and what was printed.
fn run(dir: &Path, more: &[&str]) -> (Vec<Value>, String) {
    let ends = [[CLIENT, SERVER], [SERVER, CLIENT]];
    let packets: Vec<Vec<u8>> = [&b"hello echo"[..], &[b'x'; 300]]
        .iter()
        .flat_map(|text| {
            [
                ipv4(17, 1, 0, ends[0], &udp([4000, 7], text)),
                ipv4(17, 1, 0, ends[1], &udp([7, 4000], text)),
            ]
        })
        .collect();
    let capture = capture(dir, "echo.pcap", &packets);
    let out = dir.join("out").display().to_string();
    let ran = gabion(&[&["read", "--overwrite", "-l", &out][..], more, &[&capture]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let eve = std::fs::read_to_string(dir.join("out/eve.json")).unwrap();
    let records = eve.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (records, ran.err + &ran.out)
}

fn of_type<'r>(records: &'r [Value], event_type: &str) -> Vec<&'r Value> {
    records.iter().filter(|r| r["event_type"] == event_type).collect()
}

#[test]
fn rules_events_and_records_with_the_built_in_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let rules = dir.path().join("echo.rules");
    std::fs::write(&rules, RULES).unwrap();
    let (records, _) = run(dir.path(), &["-S", &rules.display().to_string()]);
    let alerts: Vec<u64> = of_type(&records, "alert")
        .iter()
        .filter_map(|r| r["alert"]["signature_id"].as_u64())
        .collect();
    assert_eq!(alerts, [1, 2]);
    let texts: Vec<&str> =
        of_type(&records, "echo7").iter().filter_map(|r| r["echo7"]["text"].as_str()).collect();
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert_eq!(texts[0], "hello echo");
    assert!(of_type(&records, "flow").iter().all(|r| r["app_proto"] == "echo7"));
    let stats = of_type(&records, "stats");
    assert_eq!(stats[0]["stats"]["app_layer"]["flow"]["echo7"], 1);
}

#[test]
fn a_configuration_switches_it_off_and_on() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("echo.yaml");
    for (enabled, wanted) in [("yes", 4), ("no", 0)] {
        let text = format!(
            "%YAML 1.1\n---\napp-layer: {{protocols: {{echo7: {{enabled: {enabled}}}}}}}\n\
             outputs:\n  - eve-log: {{enabled: yes, filename: eve.json, types: [echo7, flow]}}\n"
        );
        std::fs::write(&config, text).unwrap();
        let (records, printed) = run(dir.path(), &["-c", &config.display().to_string()]);
        assert_eq!(of_type(&records, "echo7").len(), wanted, "enabled: {enabled}");
        assert_eq!(of_type(&records, "flow").len(), 1);
        assert!(!printed.contains("not known") && !printed.contains("No output"), "{printed}");
    }
}

#[test]
fn its_words_are_listed() {
    let listed = |option| gabion(&["suricata", option]).out;
    assert!(listed("--list-app-layer-protos").lines().any(|line| line == "echo7"));
    assert!(listed("--list-keywords").lines().any(|line| line == "- echo7.text"));
    let described = listed("--list-keywords=echo7.text");
    assert!(described.contains("text of an echo"), "{described}");
}
