//! What an adversary would send, through the whole program: bounds on alerts, records and what is
//! shed, never on time. The parts have tests of their own in `tests/adversarial`; `docs/adversarial.md`
//! lists all.

mod program;

use program::gabion;
use program::packets::*;
use std::path::Path;

/// Reads with rules and gives the report and the EVE records.
fn read(packets: &[Vec<u8>], rules: &str) -> (serde_json::Value, Vec<serde_json::Value>) {
    let dir = tempfile::tempdir().unwrap();
    let path = capture(dir.path(), "x.pcap", packets);
    let file = dir.path().join("x.rules");
    std::fs::write(&file, rules).unwrap();
    let out = dir.path().join("out");
    let (file, out) = (file.display().to_string(), out.display().to_string());
    // The checksums of transport headers are not what is tried here.
    let set = "stream.checksum-validation=no";
    let r = gabion(&["read", &path, "-S", &file, "-l", &out, "--json", "--set", set]);
    assert_eq!(r.code, 0, "{}", r.err);
    let report: serde_json::Value = serde_json::from_str(&r.out).unwrap();
    for stage in report["ledger"].as_array().unwrap() {
        assert_eq!(stage["balanced"], true, "{stage}");
    }
    let text = std::fs::read_to_string(Path::new(&out).join("eve.json")).unwrap();
    (report, text.lines().map(|l| serde_json::from_str(l).unwrap()).collect())
}

fn of<'r>(records: &'r [serde_json::Value], kind: &str) -> Vec<&'r serde_json::Value> {
    records.iter().filter(|r| r["event_type"] == kind).collect()
}

/// Rules that all match every packet: a packet's alerts are limited (15, Suricata's default), the rest
/// are counted.
#[test]
fn alerts_of_a_packet_are_limited() {
    let rules: String = (1..=400)
        .map(|sid| {
            format!("alert udp any any -> any any (msg:\"{sid}\"; content:\"x\"; sid:{sid};)\n")
        })
        .collect();
    let one = ipv4(17, 1, 0, [CLIENT, SERVER], &udp([1, 9], b"xxxx"));
    let (report, records) = read(&vec![one; 50], &rules);
    assert_eq!(report["alerts"], 50 * 15);
    let stats = of(&records, "stats");
    let overflow = &stats.last().unwrap()["stats"]["detect"]["alert_queue_overflow"];
    assert_eq!(overflow, 50 * (400 - 15));
}

/// Fragments inside a tunnel whose packets are fragments themselves, over and over: each is reassembled
/// or shed, none waits for itself.
#[test]
fn fragments_in_fragments_end() {
    let inner = ipv4(17, 7, 0, [CLIENT, SERVER], &udp([1, 9], &[b'x'; 64]));
    let first = ipv4(17, 7, 0x2000, [CLIENT, SERVER], &inner[20..52]);
    let second = ipv4(17, 7, 4, [CLIENT, SERVER], &inner[52..]);
    let mut packets = Vec::new();
    for part in [&first, &second] {
        // IP in IP, the outer one cut in two as well, under the same number.
        let (a, b) = part.split_at(24);
        packets.push(ipv4(4, 7, 0x2000, [CLIENT, SERVER], a));
        packets.push(ipv4(4, 7, 3, [CLIENT, SERVER], b));
    }
    let all: Vec<Vec<u8>> = packets.iter().cycle().take(400).cloned().collect();
    let rule = "alert udp any any -> any any (msg:\"x\"; content:\"xxxx\"; sid:1;)\n";
    let (report, _) = read(&all, rule);
    assert_eq!(report["packets"], 400);
    assert!(report["alerts"].as_u64().unwrap() >= 1, "the inner packet is seen");
}

/// A rule that passes flows, over flows of many transactions: nothing is inspected, all is logged and
/// freed.
#[test]
fn passed_flows_leave_nothing_behind() {
    let mut packets: Vec<Vec<u8>> = (0..3_000u16)
        .map(|n| {
            let [hi, lo] = n.to_be_bytes();
            let query = [hi, lo, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a', 0, 0, 1, 0, 1];
            ipv4(17, n, 0, [CLIENT, SERVER], &udp([4_000, 53], &query))
        })
        .collect();
    let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(20);
    packets.extend(connection(4_001, &vec![request; 20]));
    let rules = "pass ip any any -> any any (sid:1;)\nalert ip any any -> any any (sid:2;)\n";
    let (report, records) = read(&packets, rules);
    assert_eq!(report["alerts"], 0);
    assert_eq!(of(&records, "dns").len(), 3_000);
    assert_eq!(of(&records, "flow").len(), 2);
}

/// Headers that name the client's address, by the thousand and without end: the record holds one
/// address or none.
#[test]
fn forwarded_addresses_without_end() {
    let many = format!("X-Forwarded-For: {}\r\n", "1.2.3.4, ".repeat(1_500));
    let odd = format!("X-Forwarded-For: {}\r\n", "[::".repeat(4_000));
    let rule = "alert http any any -> any any (http.method; content:\"GET\"; sid:1;)\n";
    for header in [many, odd] {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{header}\r\n").into_bytes();
        let parts: Vec<Vec<u8>> = request.chunks(1_400).map(<[u8]>::to_vec).collect();
        let (report, records) = read(&connection(4_002, &parts), rule);
        assert_eq!(report["alerts"], 1);
        let alerts = of(&records, "alert");
        assert!(alerts[0].to_string().len() < 64 << 10);
    }
}

/// Values of any length against a dataset, and added to it: looked up whole, never copied to a stack.
#[test]
fn dataset_values_of_any_length() {
    let rule =
        "alert http any any -> any any (http.uri; dataset:set,u,type string,memcap 1mb; sid:1;)\n";
    let mut said = b"GET /".to_vec();
    said.extend_from_slice(&[b'a'; 15_000]);
    said.extend_from_slice(b" HTTP/1.1\r\nHost: a\r\n\r\n");
    let parts: Vec<Vec<u8>> = said.chunks(1_400).map(<[u8]>::to_vec).collect();
    let mut packets = Vec::new();
    (0..200).for_each(|n| packets.extend(connection(5_000 + n, &parts)));
    let (report, records) = read(&packets, rule);
    assert!(report["alerts"].as_u64().unwrap() <= 200);
    assert_eq!(of(&records, "flow").len(), 200);
}

/// A request one byte at a time: what the server reads is what rules see.
#[test]
fn one_byte_at_a_time_is_seen_as_a_whole() {
    let request = b"GET /evil HTTP/1.1\r\nHost: a\r\n\r\n";
    let parts: Vec<Vec<u8>> = request.iter().map(|b| vec![*b]).collect();
    let rules = "alert http any any -> any any (http.uri; content:\"/evil\"; sid:1;)\n\
                 alert tcp any any -> any any (content:\"GET /evil\"; sid:2;)\n";
    let (_, records) = read(&connection(4_003, &parts), rules);
    let mut sids: Vec<u64> = of(&records, "alert")
        .iter()
        .map(|r| r["alert"]["signature_id"].as_u64().unwrap())
        .collect();
    sids.sort_unstable();
    sids.dedup();
    assert_eq!(sids, [1, 2]);
}

/// Something said: by the client?, what.
type Said<'a> = (bool, &'a [u8]);

/// A connection to a port in which both sides speak.
fn conversation(ports: [u16; 2], said: &[Said<'_>]) -> Vec<Vec<u8>> {
    let ends = [[CLIENT, SERVER], [SERVER, CLIENT]];
    let ports = [ports, [ports[1], ports[0]]];
    let mut packets = vec![
        ipv4(6, 1, 0, ends[0], &tcp(0, 0, 2, ports[0], &[])),
        ipv4(6, 1, 0, ends[1], &tcp(0, 1, 0x12, ports[1], &[])),
        ipv4(6, 1, 0, ends[0], &tcp(1, 1, 0x10, ports[0], &[])),
    ];
    let mut next = [1u32, 1];
    for (is_client, part) in said {
        let (from, to) = if *is_client { (0, 1) } else { (1, 0) };
        packets.push(ipv4(
            6,
            1,
            0,
            ends[from],
            &tcp(next[from], next[to], 0x18, ports[from], part),
        ));
        next[from] += part.len() as u32;
        packets.push(ipv4(6, 1, 0, ends[to], &tcp(next[to], next[from], 0x10, ports[to], &[])));
    }
    packets
}

/// Sessions that announce a change to another protocol and then speak a third, or the same: nothing is
/// taken for what it is not, and the bytes after the change are seen.
#[test]
fn changes_of_protocol_that_lie() {
    let tls = [&[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0][..], b" EVIL-BEHIND "].concat();
    let http = b"GET /x HTTP/1.1\r\nHost: EVIL-BEHIND\r\n\r\n".to_vec();
    let binary = [&[0x80; 40][..], b"EVIL-BEHIND"].concat();
    let before: [(u16, &[Said<'_>]); 4] = [
        (
            25,
            &[
                (false, b"220 a\r\n"),
                (true, b"EHLO a\r\n"),
                (false, b"250 STARTTLS\r\n"),
                (true, b"STARTTLS\r\n"),
                (false, b"220 ready\r\n"),
            ],
        ),
        (21, &[(false, b"220 a\r\n"), (true, b"AUTH TLS\r\n"), (false, b"234 ready\r\n")]),
        (
            80,
            &[
                (true, b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"),
                (false, b"HTTP/1.1 200 OK\r\n\r\n"),
            ],
        ),
        (
            80,
            &[
                (
                    true,
                    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\n\
                      Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
                ),
                (
                    false,
                    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
                ),
                (true, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
            ],
        ),
    ];
    let rule = "alert tcp any any -> any any (msg:\"x\"; content:\"EVIL-BEHIND\"; sid:1;)\n";
    for (port, before) in before {
        for (n, behind) in [&tls, &http, &binary].into_iter().enumerate() {
            let said: Vec<Said<'_>> =
                before.iter().copied().chain([(true, &behind[..]), (false, &behind[..])]).collect();
            let (report, records) = read(&conversation([6_000, port], &said), rule);
            let alerts = report["alerts"].as_u64().unwrap();
            assert!(alerts >= 2, "both sides are seen: port {port}, {n}: {alerts}");
            assert_eq!(of(&records, "flow").len(), 1);
        }
    }
}

/// As many transforms as a rule may have, on a body of the largest inspected size, for hundreds of rules:
/// each chain is worked out once for a buffer and the answer is right.
#[test]
fn transforms_in_chains() {
    let rules: String = (1..=300)
        .map(|sid| {
            let chain = "strip_whitespace; compress_whitespace; ".repeat(8);
            format!(
                "alert http any any -> any any (http.request_body; {chain}content:\"evil{0}evil{0}\"; sid:{sid};)\n",
                sid % 3
            )
        })
        .collect();
    let mut said = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 40000\r\n\r\n".to_vec();
    said.extend(b"evil1 ".iter().copied().cycle().take(40_000));
    let parts: Vec<Vec<u8>> = said.chunks(1_400).map(<[u8]>::to_vec).collect();
    let (report, records) = read(&connection(4_004, &parts), &rules);
    let mut sids: Vec<u64> = of(&records, "alert")
        .iter()
        .map(|r| r["alert"]["signature_id"].as_u64().unwrap())
        .collect();
    sids.sort_unstable();
    sids.dedup();
    let (alerts, overflow) = (report["alerts"].as_u64().unwrap(), &of(&records, "stats")[0]);
    assert!(sids.iter().all(|sid| sid % 3 == 1) && alerts > 0, "{sids:?}");
    assert!(overflow["stats"]["detect"]["alert_queue_overflow"].as_u64().unwrap() + alerts >= 100);
}
