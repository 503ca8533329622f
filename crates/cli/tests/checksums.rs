//! Wrong checksums: when they are ignored, how they are counted and reported. Expected values
//! are those of Suricata 8.0.7 (`--runmode single`) for captures made in the same way.

mod program;

use program::packets::{CLIENT, SERVER, capture, ipv4, tcp};
use program::{Ran, gabion};
use std::path::Path;

const RULES: &str = r#"
alert tcp any any -> any any (msg:"stream"; flow:established,to_server; content:"secret"; sid:1;)
alert tcp any any -> any any (msg:"wrong"; tcpv4-csum:invalid; sid:2;)
"#;

/// A TCP packet whose checksum is right, or not.
fn packet(ends: [[u8; 4]; 2], mut segment: Vec<u8>, is_right: bool) -> Vec<u8> {
    let mut all = ends.concat();
    all.extend([0, 6]);
    all.extend((segment.len() as u16).to_be_bytes());
    all.extend(&segment);
    all.resize(all.len().next_multiple_of(2), 0);
    let sum: u32 = all.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let sum = !((folded & 0xffff) + (folded >> 16)) as u16;
    let sum = if is_right { sum } else { sum ^ 0x5555 };
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    ipv4(6, 1, 0, ends, &segment)
}

/// A first packet of a connection of its own.
fn opening(n: u32, is_right: bool) -> Vec<u8> {
    let mut client = CLIENT;
    client[3] = (n % 200) as u8 + 1;
    packet([client, SERVER], tcp(1, 0, 2, [1000 + n as u16, 80], &[]), is_right)
}

/// `n` packets; those with wrong checksums are chosen by `is_wrong`, with numbers from 1.
fn openings(n: u32, is_wrong: impl Fn(u32) -> bool) -> Vec<Vec<u8>> {
    (1..=n).map(|n| opening(n, !is_wrong(n))).collect()
}

/// A connection that carries the secret, with wrong checksums from the client.
fn offloaded() -> Vec<Vec<u8>> {
    let (there, back) = ([CLIENT, SERVER], [SERVER, CLIENT]);
    let (to, from) = ([900, 80], [80, 900]);
    vec![
        packet(there, tcp(0, 0, 2, to, &[]), false),
        packet(back, tcp(0, 1, 0x12, from, &[]), true),
        packet(there, tcp(1, 1, 0x10, to, &[]), false),
        packet(there, tcp(1, 1, 0x18, to, b"secret"), false),
        packet(back, tcp(1, 7, 0x10, from, &[]), true),
    ]
}

struct Counted {
    /// Alerts of the two rules.
    alerts: [u64; 2],
    wrong: u64,
    ignored_from: Option<u64>,
    shed: u64,
}

fn json(args: &[&str]) -> Counted {
    let dir = tempfile::tempdir().unwrap();
    let rules = dir.path().join("test.rules");
    std::fs::write(&rules, RULES).unwrap();
    let rules = rules.display().to_string();
    let ran = gabion(&[&["read", "--json", "-S", &rules], args].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let of = |sid: u64| {
        let list = report["findings"].as_array().unwrap();
        list.iter().find(|f| f["sid"] == sid).map_or(0, |f| f["count"].as_u64().unwrap())
    };
    let ledger = report["ledger"].as_array().unwrap();
    let shed = ledger.iter().filter_map(|l| l["shed"]["bad_checksum"]["items"].as_u64()).sum();
    let checksums = &report["checksums"];
    Counted {
        alerts: [of(1), of(2)],
        wrong: checksums["wrong"].as_u64().unwrap(),
        ignored_from: checksums["ignored_from"].as_u64(),
        shed,
    }
}

/// Suricata: with 101 wrong ones before the thousandth packet checking ends at that packet.
#[test]
fn a_tenth_of_the_first_thousand_packets_decides_with_any_number_of_workers() {
    let dir = tempfile::tempdir().unwrap();
    type Case = (fn(u32) -> bool, [u64; 2], Option<u64>);
    let cases: [Case; 4] = [
        (|n| n <= 100, [0, 103], None),
        (|n| n <= 101, [1, 101], Some(1_000)),
        // The thousandth is no longer counted.
        (|n| (900..=1_000).contains(&n), [0, 104], None),
        (|n| (899..=1_000).contains(&n), [1, 101], Some(1_000)),
    ];
    for (is_wrong, alerts, ignored_from) in cases {
        let mut packets = openings(1_200, is_wrong);
        packets.extend(offloaded());
        let path = capture(dir.path(), "a.pcap", &packets);
        for workers in ["1", "2", "5"] {
            let counted = json(&["--workers", workers, &path]);
            assert_eq!((counted.alerts, counted.ignored_from), (alerts, ignored_from), "{workers}");
            assert_eq!((counted.wrong, counted.shed), (alerts[1], alerts[1]), "{workers}");
        }
    }
}

/// Suricata counts over a folder, and what is decided holds for its later captures.
#[test]
fn the_captures_of_a_run_are_counted_together() {
    let dir = tempfile::tempdir().unwrap();
    let first = capture(dir.path(), "a.pcap", &openings(600, |n| n <= 119));
    let mut packets = openings(600, |_| false);
    packets.extend(offloaded());
    let second = capture(dir.path(), "b.pcap", &packets);
    let counted = json(&[&first, &second]);
    assert_eq!((counted.alerts, counted.ignored_from), ([1, 119], Some(1_000)));
    let counted = json(&[&second, &first]);
    assert_eq!((counted.alerts, counted.ignored_from), ([0, 122], Some(1_000)));
}

#[test]
fn options_and_the_configuration_decide_before() {
    let dir = tempfile::tempdir().unwrap();
    let mut packets = openings(1_200, |n| n <= 200);
    packets.extend(offloaded());
    let path = capture(dir.path(), "a.pcap", &packets);
    let with = |set: &str, k: &[&str]| {
        let counted = json(&[&["--set", set], k, &[path.as_str()]].concat());
        (counted.alerts, counted.wrong, counted.ignored_from)
    };
    let [auto, yes, no] = ["auto", "yes", "no"].map(|v| format!("pcap-file.checksum-checks={v}"));
    assert_eq!(with(&auto, &[]), ([1, 200], 200, Some(1_000)));
    assert_eq!(with(&yes, &[]), ([0, 203], 203, None));
    // Checksums that are ignored are right for rules too; those that nobody looks at are as they are.
    assert_eq!(with(&no, &[]), ([1, 0], 0, None));
    assert_eq!(with(&yes, &["-k", "none"]), ([1, 203], 0, None));
    assert_eq!(with(&auto, &["-k", "all"]), ([0, 203], 203, None));
}

fn said(path: &str, rules: &Path, more: &[&str]) -> Ran {
    let rules = rules.display().to_string();
    gabion(&[&["read", "-S", &rules, path], more].concat())
}

#[test]
fn one_line_names_how_many_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let rules = dir.path().join("test.rules");
    std::fs::write(&rules, RULES).unwrap();
    let path = capture(dir.path(), "a.pcap", &offloaded());
    let ran = said(&path, &rules, &[]);
    let lines: Vec<&str> = ran.out.lines().filter(|l| l.starts_with("checksums: ")).collect();
    assert_eq!(lines.len(), 1, "{}", ran.out);
    assert!(lines[0].starts_with("checksums: 3 TCP packets have wrong checksums"), "{}", lines[0]);
    assert!(lines[0].contains("-k none"), "{}", lines[0]);
    assert!(ran.out.contains("bad_checksum 3"), "{}", ran.out);
    assert!(!ran.out.contains("none shed"), "{}", ran.out);

    let ran = said(&path, &rules, &["-k", "none"]);
    assert!(!ran.out.contains("checksums: "), "{}", ran.out);
    assert!(ran.out.contains("Findings: 4 alerts"), "{}", ran.out);

    let out = dir.path().display().to_string();
    let rules = rules.display().to_string();
    let ran = gabion(&["suricata", "-r", &path, "-S", &rules, "-l", &out]);
    let all = ran.out + &ran.err;
    assert_eq!(all.matches("3 TCP packets have wrong checksums").count(), 1, "{all}");
    assert!(all.contains("-k none or pcap-file.checksum-checks: no"), "{all}");
}
