//! The packets of alerts' flows, capture filters, and the losses that alerts name.

mod program;

use program::{demo, gabion};
use std::path::Path;

const RULES: &str = r#"
alert tcp any any -> any any (msg:"answer"; flow:established,to_client; content:"HTTP/1.1 200"; sid:1;)
"#;

/// Runs `gabion read` over the demonstration's capture; the folder of its outputs.
fn read(more: &[&str]) -> (tempfile::TempDir, program::Ran) {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(dir.path().join("r.rules"), RULES).unwrap();
    let (rules, out, pcap, capture) = (path("r.rules"), path("out"), path("a.pcap"), demo());
    let mut args = vec!["read", "-S", &rules, "-l", &out, "--alert-pcap", &pcap, &capture];
    args.extend_from_slice(more);
    let ran = gabion(&args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    (dir, ran)
}

/// Flags of the TCP packets of a capture of Ethernet and IPv4 or IPv6, in order.
fn tcp_flags(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    let mut flags = Vec::new();
    let mut at = 24;
    while let Some(head) = bytes.get(at..at + 16) {
        let len = u32::from_le_bytes(head[8..12].try_into().unwrap()) as usize;
        let frame = &bytes[at + 16..at + 16 + len];
        let tcp = match frame[12..14] {
            [8, 0] => 14 + usize::from(frame[14] & 15) * 4,
            _ => 54,
        };
        flags.push(frame[tcp + 13]);
        at += 16 + len;
    }
    flags
}

fn alerts(dir: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(dir.join("out/eve.json")).unwrap();
    text.lines()
        .map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap())
        .filter(|r| r["event_type"] == "alert")
        .collect()
}

#[test]
fn an_alerts_flow_is_written_from_its_first_packet_on() {
    let (dir, ran) = read(&[]);
    let flags = tcp_flags(&dir.path().join("a.pcap"));
    let flows = flags.iter().filter(|f| **f == 2).count();
    let mut ids: Vec<u64> =
        alerts(dir.path()).iter().map(|a| a["flow_id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert!(flows > 3 && flows == ids.len(), "{flows} handshakes, {} flows", ids.len());
    assert_eq!(flags[0], 2, "the first packet is a SYN");
    assert!(ran.out.contains("packet log"), "{}", ran.out);
    // Any number of workers writes the same frames.
    let (other, _) = read(&["--workers", "3"]);
    assert_eq!(tcp_flags(&other.path().join("a.pcap")).len(), flags.len());
}

#[test]
fn a_small_ring_is_reported() {
    let (dir, ran) = read(&["--alert-pcap-ring", "1KiB"]);
    let (whole, _) = read(&[]);
    let count = |d: &Path| tcp_flags(&d.join("a.pcap")).len();
    assert!(count(dir.path()) < count(whole.path()));
    assert!(ran.err.contains("had left the ring before"), "{}", ran.err);
    assert!(ran.out.contains("ring_evicted"), "{}", ran.out);
}

#[test]
fn a_filter_leaves_frames_out_and_counts_them() {
    let ran = gabion(&["read", "--json", "--filter", "udp port 53", &demo()]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    // `tcpdump -r demo.pcap udp port 53` gives as many.
    assert_eq!(report["packets"], 84, "{}", ran.err);
    assert!(ran.out.contains("\"filtered\""), "{}", ran.out);
    let ran = gabion(&["read", "--filter", "udp port", &demo()]);
    ran.refuses(2, &["filter", "a port number is missing"]);
}

#[test]
fn alerts_name_what_was_lost_of_their_flow() {
    let (whole, _) = read(&[]);
    assert!(alerts(whole.path()).iter().all(|a| a.pointer("/alert/context/loss").is_none()));
    for (set, reason) in [
        ("stream.reassembly.memcap=3000", "reassembly_memcap"),
        ("stream.reassembly.depth=200", "stream_depth"),
    ] {
        let (dir, _) = read(&["--set", set]);
        let alerts = alerts(dir.path());
        let lost: Vec<_> = alerts.iter().filter_map(|a| a.pointer("/alert/context/loss")).collect();
        assert!(!lost.is_empty(), "{set}");
        for l in lost {
            assert_eq!(l["balanced"], true);
            assert!(l["shed"][reason]["items"].as_u64() > Some(0), "{set}: {l}");
        }
    }
}
