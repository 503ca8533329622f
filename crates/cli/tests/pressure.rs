//! Budgets that are far too small, outputs that are full or slow: the run ends well, the ledger has
//! the number of items shed and the reason, and all others are found as with enough memory.

mod program;

use program::packets::*;
use program::{demo, gabion, repository};
use serde_json::Value;
use std::io::Read;
use std::path::Path;

/// Reads the demonstration with this setting; gives the report.
fn read(setting: &str, workers: &str) -> Value {
    let rules = repository("demo/gabion.rules").display().to_string();
    let args = ["read", "-q", "--json", "-k", "none", "-S", &rules, "--workers", workers];
    let r = gabion(&[&args[..], &["--set", setting, &demo()]].concat());
    assert_eq!(r.code, 0, "{setting}: {}", r.err);
    serde_json::from_str(&r.out).unwrap()
}

fn shed(report: &Value, stage: &str, reason: &str) -> u64 {
    let ledger = report["ledger"].as_array().unwrap();
    let entry = ledger.iter().find(|e| e["stage"] == stage).unwrap();
    assert_eq!(entry["balanced"], true, "{entry}");
    entry["shed"][reason]["items"].as_u64().unwrap_or(0)
}

#[test]
fn items_shed_for_want_of_memory_are_counted_with_their_reason() {
    for (setting, stage, reason) in [
        ("flow.memcap=16kb", "flows", "flow_memcap"),
        ("stream.memcap=8kb", "stream", "stream_memcap"),
        ("stream.reassembly.memcap=8kb", "stream", "reassembly_memcap"),
        ("app-layer.memcap=8kb", "app", "app_memcap"),
    ] {
        for workers in ["1", "2"] {
            let report = read(setting, workers);
            assert_eq!(report["exit"], 0, "{setting}: the ledger balances");
            assert!(shed(&report, stage, reason) > 0, "{setting}, {workers} workers");
        }
    }
}

#[test]
fn with_enough_memory_nothing_is_shed() {
    let report = read("flow.memcap=64mb", "2");
    for (stage, reason) in [("flows", "flow_memcap"), ("stream", "stream_memcap")] {
        assert_eq!(shed(&report, stage, reason), 0);
    }
}

/// Reads packets with rules; returns the report and the packet and rule of each alert.
fn alerts(packets: &[Vec<u8>], rules: &str, more: &[&str]) -> (Value, Vec<(u64, u64)>) {
    let dir = tempfile::tempdir().unwrap();
    let path = capture(dir.path(), "x.pcap", packets);
    let file = dir.path().join("x.rules");
    std::fs::write(&file, rules).unwrap();
    let out = dir.path().join("out");
    let (file, folder) = (file.display().to_string(), out.display().to_string());
    let args = ["read", "-q", &path, "-S", &file, "-l", &folder, "--json", "-k", "none"];
    let r = gabion(&[&args[..], more].concat());
    assert_eq!(r.code, 0, "{}", r.err);
    let report: Value = serde_json::from_str(&r.out).unwrap();
    let text = std::fs::read_to_string(out.join("eve.json")).unwrap();
    let records = text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
    let found = records
        .filter(|r| r["event_type"] == "alert")
        // A fragment has no port, whatever it alerts on.
        .filter_map(|r| Some((r["alert"]["signature_id"].as_u64()?, r["src_port"].as_u64()?)))
        .collect();
    (report, found)
}

const RULES: &str = "alert udp any any -> any any (content:\"whole\"; sid:1;)\n\
    alert tcp any any -> any any (content:\"whole\"; sid:2;)\n";

/// Datagrams whole and in pieces: of half of those in pieces the end never comes.
fn datagrams() -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for n in 0..400u16 {
        let datagram = udp([1000 + n, 9], &[&[b'x'; 1000][..], b"whole"].concat());
        let (front, back) = datagram.split_at(512);
        packets.push(ipv4(17, n, 0x2000, [CLIENT, SERVER], front));
        if n % 2 == 0 {
            packets.push(ipv4(17, n, 64, [CLIENT, SERVER], back));
        }
        packets.push(ipv4(17, n, 0, [CLIENT, SERVER], &udp([5000 + n, 9], b"whole")));
    }
    packets
}

#[test]
fn defragmentation_without_room_sheds_fragments_and_nothing_else() {
    let (room, all) = alerts(&datagrams(), RULES, &[]);
    assert_eq!((shed(&room, "defrag", "defrag_memcap"), all.len()), (0, 600));
    for workers in ["1", "2"] {
        let more = ["--set", "defrag.memcap=64kb", "--workers", workers];
        let (report, found) = alerts(&datagrams(), RULES, &more);
        assert!(shed(&report, "defrag", "defrag_memcap") > 0, "{workers} workers");
        assert!(found.len() < all.len() && found.iter().all(|a| all.contains(a)));
        // What came in one piece is there, all of it.
        let whole = |list: &[(u64, u64)]| list.iter().filter(|a| a.1 >= 5000).copied().collect();
        let (before, now): (Vec<_>, Vec<_>) = (whole(&all), whole(&found));
        assert_eq!(before, now, "{workers} workers");
    }
}

/// A message of MQTT that announces far more than is kept for a parser, and other connections.
#[test]
fn a_parser_that_waits_for_too_much_is_ended_and_others_continue() {
    let connect = b"\x10\x0c\0\x04MQTT\x04\x02\0\x3c\0\0".to_vec();
    // A publication of 9,000,000 bytes (MQTT 3.1.1 2.2.3).
    let publish = b"\x30\xc0\xa8\xa5\x04\0\x01a".to_vec();
    let mut said = vec![connect, publish];
    said.extend((0..40).map(|_| vec![b'a'; 40_000]));
    let mut packets = connection_to(1883, 40_000, &said);
    for port in 2000..2020 {
        let request = b"GET /whole HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
        packets.extend(connection(port, &[request]));
    }
    let rules = "alert http any any -> any any (http.uri; content:\"whole\"; sid:3;)\n";
    let mqtt = "app-layer.protocols.mqtt.max-msg-length=100mb";
    let set = ["--set", "stream.reassembly.depth=0", "--set", mqtt];
    for workers in ["1", "2"] {
        let more = [&set[..], &["--workers", workers]].concat();
        let (report, found) = alerts(&packets, rules, &more);
        assert!(shed(&report, "app", "app_memcap") > 0, "{workers} workers: {report}");
        assert_eq!(found, (2000..2020).map(|p| (3, p)).collect::<Vec<_>>());
    }
}

fn eve(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("eve.json")).unwrap();
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// Where folders of the store should be there are files: nothing can be stored.
#[test]
fn files_that_cannot_be_stored_are_counted_and_all_else_is_written() {
    let config = repository("crates/cli/tests/data/all.yaml").display().to_string();
    let rules = repository("demo/gabion.rules").display().to_string();
    let run = |blocked: bool| {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("filestore");
        std::fs::create_dir(&store).unwrap();
        for n in 0..=255u8 {
            if blocked {
                std::fs::write(store.join(format!("{n:02x}")), b"").unwrap();
            }
        }
        let out = dir.path().display().to_string();
        let args = ["read", "-q", "--json", "-c", &config, "-S", &rules, "-l", &out, &demo()];
        let r = gabion(&args);
        assert_eq!(r.code, 0, "{}", r.err);
        let report: Value = serde_json::from_str(&r.out).unwrap();
        let kinds = |kind: &str| eve(dir.path()).iter().filter(|r| r["event_type"] == kind).count();
        (report, [kinds("alert"), kinds("fileinfo"), kinds("http"), kinds("flow")])
    };
    let (good, found) = run(false);
    assert_eq!(shed(&good, "file store", "output_failed"), 0);
    let (bad, found_too) = run(true);
    let ledger = bad["ledger"].as_array().unwrap();
    let store = ledger.iter().find(|e| e["stage"] == "file store").unwrap();
    let received = store["received"]["items"].as_u64().unwrap();
    assert!(received > 0);
    assert_eq!(shed(&bad, "file store", "output_failed"), received);
    assert_eq!(found, found_too);
}

/// A reader that takes little at a time: the run waits for it, nothing is lost.
#[cfg(unix)]
#[test]
fn a_slow_reader_of_an_output_gets_every_line() {
    let dir = tempfile::tempdir().unwrap();
    let rules = repository("demo/gabion.rules").display().to_string();
    let plain = dir.path().join("plain").display().to_string();
    let r = gabion(&["read", "-q", "-S", &rules, "-l", &plain, &demo()]);
    assert_eq!(r.code, 0, "{}", r.err);
    let expected = eve(Path::new(&plain)).len();

    let pipe = dir.path().join("slow");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let from = pipe.clone();
    let reader = std::thread::spawn(move || {
        let mut file = std::fs::File::open(from).unwrap();
        let (mut lines, mut piece) = (0, [0u8; 100]);
        loop {
            match file.read(&mut piece).unwrap() {
                0 => return lines,
                n => lines += piece[..n].iter().filter(|b| **b == b'\n').count(),
            }
            std::thread::yield_now();
        }
    });
    let set = format!("outputs.1.eve-log.filename={}", pipe.display());
    let out = dir.path().join("out").display().to_string();
    let args = ["read", "-q", "--json", "-S", &rules, "-l", &out, "--set", &set, &demo()];
    let r = gabion(&args);
    assert_eq!(r.code, 0, "{}", r.err);
    let report: Value = serde_json::from_str(&r.out).unwrap();
    assert_eq!(shed(&report, "slow", "output_failed"), 0);
    assert_eq!(reader.join().unwrap(), expected);
}
