//! Packets with times far off: one of them ends no flow, and silence that later packets agree with ends
//! flows as ever. The same with any number of workers, and said.

mod program;

use program::gabion;
use program::packets::*;
use serde_json::Value;
use std::path::Path;

/// Milliseconds at which the captures begin.
const BEGIN: u64 = 1_700_000_000_000;
const FLOWS: u16 = 40;

const RULES: &str = "alert http any any -> any any (http.uri; content:\"/evilpath\"; sid:1;)\n";

/// Web requests in two pieces: all first pieces, then all second ones.
fn requests() -> Vec<(u64, Vec<u8>)> {
    let (head, tail) = (b"GET /evi".to_vec(), b"lpath HTTP/1.1\r\nHost: a\r\n\r\n".to_vec());
    let all: Vec<_> =
        (0..FLOWS).map(|n| connection(1_000 + n, &[head.clone(), tail.clone()])).collect();
    let pieces = [0..5, 5..7].map(|part| all.iter().flat_map(move |c| c[part.clone()].to_vec()));
    (BEGIN..).zip(pieces.into_iter().flatten()).collect()
}

/// A packet of another flow.
fn foreign() -> Vec<u8> {
    ipv4(6, 1, 0, [[10, 9, 9, 9], SERVER], &tcp(1, 0, 2, [2, 80], &[]))
}

struct Found {
    alerts: Vec<u64>,
    /// Port of the client, packets, reason of the end.
    flows: Vec<String>,
    times: Value,
    text: String,
}

fn read(folder: &Path, packets: &[(u64, Vec<u8>)], workers: &str) -> Found {
    let capture = capture_at(101, folder, "x.pcap", packets.iter().cloned());
    let rules = folder.join("x.rules");
    std::fs::write(&rules, RULES).unwrap();
    let out = folder.join("out");
    let _ = std::fs::remove_dir_all(&out);
    let (rules, out) = (rules.display().to_string(), out.display().to_string());
    let args = ["read", &capture, "-S", &rules, "-l", &out, "-k", "none", "--workers", workers];
    let r = gabion(&args);
    assert_eq!(r.code, 0, "{}", r.err);
    let run = std::fs::read_to_string(format!("{out}/run.json")).unwrap();
    let run: Value = serde_json::from_str(&run).unwrap();
    let text = std::fs::read_to_string(format!("{out}/eve.json")).unwrap();
    let (mut alerts, mut flows) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let e: Value = serde_json::from_str(line).unwrap();
        let port = e["src_port"].as_u64().unwrap_or(0);
        match e["event_type"].as_str() {
            Some("alert") => alerts.push(port),
            Some("flow") => {
                let f = &e["flow"];
                let (to, back) = (&f["pkts_toserver"], &f["pkts_toclient"]);
                flows.push(format!("{port:05} {to} {back} {} {}", f["state"], f["reason"]));
            }
            _ => {}
        }
    }
    alerts.sort_unstable();
    flows.sort_unstable();
    Found { alerts, flows, times: run["times"].clone(), text: r.out }
}

#[test]
fn one_packet_with_a_stray_time_ends_no_flow() {
    let dir = tempfile::tempdir().unwrap();
    let plain = read(dir.path(), &requests(), "1");
    assert_eq!(plain.alerts.len(), usize::from(FLOWS));
    assert_eq!(plain.times["stray_packets"], 0);
    let mut seed = 5_u64;
    for round in 0..12 {
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040);
            (seed >> 33) % below
        };
        let mut packets = requests();
        // At the end, in the middle, and anywhere; seconds ahead, or years, or long ago.
        let at = match round {
            0 => packets.len(),
            1 => packets.len() / 2,
            _ => 1 + random(packets.len() as u64 - 1) as usize,
        };
        let off = [700_000, 4_000_000, 100_000_000_000][round % 3] + random(1_000_000);
        let time = if round % 4 == 3 { BEGIN - off } else { BEGIN + off };
        // Of a flow of its own, or of one of those that are there.
        let own = random(2) == 0;
        let packet = if own { packets[at - 1].1.clone() } else { foreign() };
        packets.insert(at, (time, packet));
        for workers in ["1", "2", "4"] {
            let found = read(dir.path(), &packets, workers);
            let what = format!("round {round}, {workers} workers, own {own}, at {at}, {time}");
            assert_eq!(found.alerts, plain.alerts, "{what}");
            assert_eq!(found.times["stray_packets"], 1, "{what}");
            assert_eq!(found.times["flows_ended_by_leaps"], 0, "{what}");
            assert!(found.text.contains("it ended no flow"), "{what}: {}", found.text);
            if own {
                assert_eq!(found.flows.len(), plain.flows.len(), "{what}");
            } else {
                let others: Vec<&String> =
                    found.flows.iter().filter(|f| !f.starts_with("00002")).collect();
                assert_eq!(others, plain.flows.iter().collect::<Vec<_>>(), "{what}");
            }
        }
    }
}

#[test]
fn silence_that_later_packets_agree_with_ends_flows_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    // Three hours of silence between the pieces: what comes then begins other flows.
    let half = usize::from(FLOWS) * 5;
    let later =
        |(n, (ms, p)): (usize, (u64, Vec<u8>))| (if n < half { ms } else { ms + 3 * 3_600_000 }, p);
    let packets: Vec<_> = requests().into_iter().enumerate().map(later).collect();
    for workers in ["1", "2", "4"] {
        let found = read(dir.path(), &packets, workers);
        assert!(found.alerts.is_empty());
        let ended = found.flows.iter().filter(|f| f.contains("timeout")).count();
        assert_eq!(ended, usize::from(FLOWS), "{workers} workers: {:?}", found.flows);
        assert_eq!(found.times["leaps"], 1);
        assert_eq!(found.times["flows_ended_by_leaps"], FLOWS);
        assert_eq!(found.times["stray_packets"], 0);
        assert!(found.text.contains("ended 40 flows"), "{}", found.text);
    }
}

#[test]
fn two_clocks_in_one_capture_end_each_other_s_flows_at_most_once() {
    let dir = tempfile::tempdir().unwrap();
    // Packets of one clock, then of another 700 s ahead, by turns of seven.
    let by_turns = |(n, (ms, p)): (usize, (u64, Vec<u8>))| {
        (if n >= 28 && n / 7 % 2 == 1 { ms + 700_000 } else { ms }, p)
    };
    let packets: Vec<_> = requests().into_iter().enumerate().map(by_turns).collect();
    let one = read(dir.path(), &packets, "1");
    // Of the flows before the first turn only those that were there are cut in two.
    assert!(one.alerts.len() >= usize::from(FLOWS) - 7, "{:?}", one.alerts);
    assert_eq!(one.times["leaps"], 1);
    assert_eq!(one.times["steps_back"], 1);
    for workers in ["2", "4"] {
        let many = read(dir.path(), &packets, workers);
        assert_eq!((many.alerts, many.flows), (one.alerts.clone(), one.flows.clone()));
        assert_eq!(many.times, one.times);
    }
}
