//! A member of EVE that no one has: it is in the record of a flow.

mod program;

use program::gabion;
use program::packets::{CLIENT, SERVER, capture, ipv4, udp};
use serde_json::Value;

#[test]
fn a_flow_says_whether_it_went_one_way() {
    let dir = tempfile::tempdir().unwrap();
    let packets = [
        ipv4(17, 1, 0, [CLIENT, SERVER], &udp([4000, 4001], b"asks")),
        ipv4(17, 2, 0, [SERVER, CLIENT], &udp([4001, 4000], b"answers")),
        ipv4(17, 3, 0, [CLIENT, SERVER], &udp([5000, 5001], b"asks in vain")),
    ];
    let capture = capture(dir.path(), "c.pcap", &packets);
    let out = dir.path().join("out").display().to_string();
    let ran = gabion(&["read", "-q", "-l", &out, &capture]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let eve = std::fs::read_to_string(dir.path().join("out/eve.json")).unwrap();
    let mut flows: Vec<(u64, bool)> = eve
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|r| r["event_type"] == "flow")
        .filter_map(|r| Some((r["src_port"].as_u64()?, r["flow"]["is_one_way"].as_bool()?)))
        .collect();
    flows.sort_unstable();
    assert_eq!(flows, [(4000, false), (5000, true)]);
}
