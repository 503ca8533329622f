//! Limits from outside: items that are no longer forgotten, and limits that are reached and reported.

mod program;

/// The table of the program itself, which is no library.
#[path = "../src/limits.rs"]
#[allow(dead_code, reason = "the table alone is read")]
mod own;

use gabion_record::limits::{Limit, Meaning};
use program::packets::{CLIENT, SERVER, capture, connection, ipv4, udp};
use program::{gabion, ran};
use serde_json::Value;
use std::fmt::Write as _;

/// A run over these packets with these rules: its report, and its alerts.
fn read(packets: &[Vec<u8>], rules: &str, more: &[&str]) -> (Value, Vec<Value>) {
    let (report, records) = read_all(packets, rules, more);
    (report, records.into_iter().filter(|r| r["event_type"] == "alert").collect())
}

/// The same with all records.
fn read_all(packets: &[Vec<u8>], rules: &str, more: &[&str]) -> (Value, Vec<Value>) {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(dir.path().join("r.rules"), rules).unwrap();
    let input = capture(dir.path(), "in.pcap", packets);
    let (rules, out) = (path("r.rules"), path("out"));
    let mut args = vec!["read", "--json", "-k", "none", "-S", &rules, "-l", &out, &input];
    if !more.contains(&"--workers") {
        args.extend(["--workers", "1"]);
    }
    args.extend_from_slice(more);
    let run = ran(program::command(&args).output().unwrap());
    assert_eq!(run.code, 0, "{}", run.err);
    let report = serde_json::from_str(&run.out).unwrap();
    let eve = std::fs::read_to_string(dir.path().join("out/eve.json")).unwrap();
    (report, eve.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect())
}

fn sids(alerts: &[Value]) -> Vec<u64> {
    let mut all: Vec<u64> =
        alerts.iter().filter_map(|a| a["alert"]["signature_id"].as_u64()).collect();
    all.sort_unstable();
    all
}

/// How often a run reports that a limit was reached.
fn times(report: &Value, limit: &str) -> u64 {
    let all = report["limits"].as_array().unwrap();
    all.iter().find(|l| l["limit"] == limit).and_then(|l| l["times"].as_u64()).unwrap_or(0)
}

/// What a stage of the ledger shed for a reason.
fn shed(report: &Value, stage: &str, reason: &str) -> u64 {
    let all = report["ledger"].as_array().unwrap();
    let line = all.iter().find(|l| l["stage"] == stage);
    line.and_then(|l| l["shed"][reason]["items"].as_u64()).unwrap_or(0)
}

/// Rules of which all match the request's URI, and these few its body.
fn waiting_rules(count: u32, matching: &[u32]) -> String {
    let mut rules = String::new();
    for sid in 1..=count {
        let body =
            if matching.contains(&sid) { "EVILBODY".to_owned() } else { format!("NO{sid}.") };
        let _ = writeln!(
            rules,
            "alert http any any -> any any (msg:\"w\"; flow:to_server; http.uri; \
             content:\"/upload\"; fast_pattern; http.request_body; content:\"{body}\"; sid:{sid};)"
        );
    }
    rules
}

/// A request whose body comes in a segment of its own.
fn upload() -> Vec<Vec<u8>> {
    let body = b"hello EVILBODY bye";
    let head = format!(
        "POST /upload/path HTTP/1.1\r\nHost: x.example\r\nContent-Type: text/plain\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    connection(40_000, &[head.into_bytes(), body.to_vec()])
}

/// Suricata 8.0.7 alerts 5, 300 and 599 on the same capture and rules.
#[test]
fn a_rule_that_waits_is_not_forgotten_however_many_wait() {
    let (report, alerts) = read(&upload(), &waiting_rules(600, &[5, 300, 599]), &[]);
    assert_eq!(sids(&alerts), [5, 300, 599]);
    assert_eq!(shed(&report, "app", "app_memcap"), 0);
    assert_eq!(report["limits"], serde_json::json!([]));
}

#[test]
fn rules_that_the_budget_has_no_room_for_are_counted_in_the_run_and_in_the_alert() {
    let small = ["--set", "app-layer.memcap=32kb"];
    let (report, alerts) = read(&upload(), &waiting_rules(6_000, &[5, 5_999]), &small);
    assert_eq!(sids(&alerts), [5]);
    assert!(shed(&report, "app", "app_memcap") > 0, "{}", report["ledger"]);
    let loss = &alerts[0]["alert"]["context"]["loss"]["shed"]["app_memcap"];
    assert!(loss["items"].as_u64() > Some(0), "{}", alerts[0]);
}

#[test]
fn a_search_that_ends_at_its_limit_is_counted_in_the_run_and_in_the_alert() {
    let rules = "alert tcp any any -> any any (msg:\"tired\"; content:\"ab\"; content:\"ab\"; \
                 distance:0; content:\"ab\"; distance:0; content:\"zz\"; distance:0; sid:1;)\n\
                 alert tcp any any -> any any (msg:\"there\"; content:\"END\"; sid:2;)\n";
    let said = [b"ab".repeat(400), b"zEND".to_vec()].concat();
    let (report, alerts) = read(&connection(40_000, &[said]), rules, &[]);
    assert_eq!(sids(&alerts), [2]);
    let reached = times(&report, "net.content_steps_max");
    assert!(reached > 0, "{}", report["limits"]);
    assert_eq!(shed(&report, "limits", "limit_reached"), reached);
    let loss = &alerts[0]["alert"]["context"]["loss"]["shed"]["limit_reached"];
    assert!(loss["items"].as_u64() > Some(0), "{}", alerts[0]);
}

/// Requests with bodies that unpack to 90 KiB each.
fn packed_uploads(count: usize) -> Vec<Vec<u8>> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut packer, &vec![0; 90 << 10]).unwrap();
    let body = packer.finish().unwrap();
    let head = format!(
        "POST /up HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    connection(40_000, &vec![[head.into_bytes(), body].concat(); count])
}

#[test]
fn bodies_that_unpack_to_more_than_a_flow_may_are_counted_in_the_run_and_in_the_alert() {
    let rules = "alert http any any -> any any (msg:\"zeros\"; flow:to_server; \
                 http.request_body; content:\"|00 00 00 00|\"; sid:1;)\n\
                 alert http any any -> any any (msg:\"sixth\"; flow:to_server; http.uri; \
                 content:\"/up\"; sid:2;)\n";
    let (report, alerts) = read(&packed_uploads(6), rules, &[]);
    let reached = times(&report, "proto.http1.unpacked_bytes_max");
    assert!(reached >= 3, "{}", report["limits"]);
    assert_eq!(shed(&report, "limits", "limit_reached"), reached);
    let all = sids(&alerts);
    assert_eq!(all.iter().filter(|sid| **sid == 2).count(), 6, "{all:?}");
    assert!(all.iter().filter(|sid| **sid == 1).count() >= 3, "{all:?}");
    let loss = &alerts.last().unwrap()["alert"]["context"]["loss"]["shed"]["limit_reached"];
    assert!(loss["items"].as_u64() > Some(0), "{}", alerts[alerts.len() - 1]);
}

/// Where nobody looks into bodies nothing is unpacked, so that no limit of it is reached; records are
/// the same. A rule, a record of files or of events, or an alert that names files looks.
#[test]
fn bodies_that_nobody_looks_at_are_not_unpacked() {
    let dir = tempfile::tempdir().unwrap();
    let packets = packed_uploads(6);
    let run = |rules: &str, more: &str| {
        let text = format!(
            "%YAML 1.1\n---\noutputs:\n  - eve-log:\n      enabled: yes\n      types:\n        \
             - http\n        - flow\n        - {more}\napp-layer:\n  protocols:\n    http:\n      \
             libhtp:\n        default-config:\n          personality: IDS\n          \
             request-body-limit: 100 KiB\n"
        );
        let config = dir.path().join("c.yaml");
        std::fs::write(&config, text).unwrap();
        let (report, records) = read_all(&packets, rules, &["-c", &config.display().to_string()]);
        let http = records.into_iter().filter(|r| r["event_type"] == "http");
        (
            times(&report, "proto.http1.unpacked_bytes_max"),
            http.map(|mut r| r["http"].take()).collect(),
        )
    };
    let (reached, unseen): (u64, Vec<Value>) = run("", "dns");
    assert_eq!((reached, unseen.len()), (0, 6));
    let uri = "alert http any any -> any any (http.uri; content:\"/up\"; sid:1;)\n";
    assert_eq!(run(uri, "dns").0, 0);
    let reached = |rules: &str, more: &str| {
        let (reached, seen) = run(rules, more);
        assert_eq!(seen, unseen, "{rules} {more}");
        reached > 0
    };
    for more in ["files", "anomaly", "alert"] {
        assert!(reached("", more), "{more}");
    }
    for looks in ["file.data; content:\"x\";", "http.request_body; content:\"x\";", "filesize:>1;"]
    {
        let rule = format!("alert http any any -> any any (flow:to_server; {looks} sid:1;)\n");
        assert!(reached(&rule, "dns"), "{looks}");
    }
}

/// A segment of 700 messages of two bytes: rules see all of them, records are written for as many as the
/// flow's bytes allow, and the rest is counted. Later records in packets of their own are written.
#[test]
fn records_of_a_flow_are_bounded_by_what_it_says() {
    let pings = b"\xc0\0".repeat(700);
    let mut said = vec![b"\x10\x0d\0\x04MQTT\x04\x02\0\x3c\0\x01a".to_vec(), pings.clone(), pings];
    said.extend(vec![b"\x30\x09\0\x03endlast".to_vec(); 3]);
    let rules = "alert mqtt any any -> any any (msg:\"last\"; mqtt.publish.topic; content:\"end\"; \
                 sid:1;)\n";
    let mut packets = connection(40_000, &said);
    for p in &mut packets {
        // To the port where MQTT is looked for.
        let at = if p[20..22] == [0, 80] { 20 } else { 22 };
        p[at..at + 2].copy_from_slice(&1_883_u16.to_be_bytes());
    }
    let bytes: u64 = packets.iter().map(|p| p.len() as u64).sum();
    let (report, alerts) = read(&packets, rules, &[]);
    assert_eq!(sids(&alerts), [1, 1, 1]);
    // A record for each ping, and one for its event: the session was never answered.
    let (pings, refused) = (2 * 1_400, times(&report, "net.flow_records_max"));
    assert!(refused < pings && pings - refused <= 128 + bytes / 40, "{refused} of {bytes} bytes");
    assert_eq!(shed(&report, "limits", "limit_reached"), refused);
    let loss = &alerts[0]["alert"]["context"]["loss"]["shed"]["limit_reached"];
    assert_eq!(loss["items"].as_u64(), Some(refused), "{}", alerts[0]);
}

/// Streams that are opened and reset again and again, dozens of them in a segment: each has the fields of all its
/// segments, and is inspected again as far as the flow's bytes allow. What is put off is inspected at the flow's end, and
/// the number of workers changes nothing.
#[test]
fn what_stays_in_its_state_is_inspected_as_often_as_its_flow_says() {
    let frame = |kind: u8, stream: u8, body: &[u8]| {
        [&[0, 0, body.len() as u8, kind, 4, 0, 0, 0, stream], body].concat()
    };
    let reset = |n: u8| [frame(1, 2 * n + 1, b"\x82\x86\x84"), frame(3, 2 * n + 1, &[0, 0, 0, 8])];
    let (streams, segments) = (56, 150);
    let resets: Vec<u8> = (0..streams).flat_map(reset).flatten().collect();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let mut said = vec![[preface, frame(4, 0, b"")].concat()];
    said.extend(vec![resets; segments]);
    said.push(frame(1, 7, b"\0\x01x\x04last"));
    let rules = "alert http any any -> any any (msg:\"all\"; http.uri; content:\"/\"; sid:1;)\n\
                 alert http any any -> any any (msg:\"last\"; http.header; content:\"last\"; sid:2;)\n\
                 alert http any any -> any any (msg:\"never\"; flow:to_server; http.header.raw; content:\"never\"; sid:3;)\n";
    let packets = connection(40_000, &said);
    let mut seen = Vec::new();
    for workers in ["1", "2", "4"] {
        let more = ["--workers", workers, "--set", "app-layer.protocols.http2.enabled=yes"];
        let (report, alerts) = read(&packets, rules, &more);
        let put_off = times(&report, "net.inspected_again_bytes_max");
        assert_eq!(
            shed(&report, "limits", "limit_reached"),
            times(&report, "net.flow_records_max") + put_off
        );
        seen.push((sids(&alerts), put_off));
    }
    assert_eq!(seen[0].0.iter().filter(|sid| **sid == 2).count(), 1, "{:?}", seen[0]);
    assert!(seen[0].0.iter().filter(|sid| **sid == 1).count() >= 15);
    // Each is due with each segment, and with each acknowledgement of one.
    let due = 2 * u64::from(streams) * segments as u64;
    assert!((due * 3 / 4..due).contains(&seen[0].1), "{} of {due}", seen[0].1);
    assert!(seen.iter().all(|s| *s == seen[0]), "{seen:?}");
}

/// A hundred whole requests of 12 bytes in each segment: as many are inspected as the flow's bytes allow, the others are
/// counted, and a request as long as people send is always seen. The number of workers changes nothing.
#[test]
fn short_requests_are_inspected_as_often_as_their_flow_says() {
    let frame = |kind: u8, flags: u8, stream: u32, body: &[u8]| {
        let head = [0, 0, body.len() as u8, kind, flags];
        [&head[..], &stream.to_be_bytes(), body].concat()
    };
    let (segments, requests) = (20_u32, 100_u32);
    let mut said =
        vec![[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, b"")].concat()];
    for segment in 0..segments {
        let numbers = segment * requests..(segment + 1) * requests;
        said.push(numbers.flat_map(|n| frame(1, 5, 2 * n + 1, b"\x82\x86\x84")).collect());
    }
    let path = format!("/attack?{}", "a".repeat(80));
    let long = [b"\x82\x86\x44", &[path.len() as u8][..], path.as_bytes()].concat();
    said.push(frame(1, 5, 2 * segments * requests + 1, &long));
    let rules = "alert http any any -> any any (msg:\"any\"; http.uri; content:\"/\"; startswith; sid:1;)\n\
                 alert http any any -> any any (msg:\"long\"; http.uri; content:\"/attack\"; sid:2;)\n";
    let packets = connection(40_000, &said);
    let bytes: u64 = said.iter().map(|part| part.len() as u64).sum();
    let mut seen = Vec::new();
    for workers in ["1", "2", "4"] {
        let more = ["--workers", workers, "--set", "app-layer.protocols.http2.enabled=yes"];
        let (report, alerts) = read(&packets, rules, &more);
        seen.push((sids(&alerts), times(&report, "proto.http2.short_streams_max")));
    }
    let (alerts, refused) = &seen[0];
    let all = u64::from(segments * requests);
    assert!(*refused < all && all - refused <= 128 + bytes / 80, "{refused} of {bytes} bytes");
    assert!(alerts.contains(&1) && alerts.iter().filter(|sid| **sid == 2).count() == 1);
    assert!(seen.iter().all(|s| *s == seen[0]), "{seen:?}");
}

#[test]
fn a_stream_without_a_protocol_is_shed_and_counted() {
    let said: Vec<Vec<u8>> = (0..100_u8).map(|n| vec![0xf0 ^ (n & 1); 1_200]).collect();
    let (report, _) = read(&connection(40_000, &said), "", &[]);
    assert_eq!(times(&report, "net.detect_bytes_max"), 1, "{}", report["limits"]);
}

#[test]
fn hosts_that_are_tagged_beyond_the_limit_are_counted() {
    let packets: Vec<Vec<u8>> = (0..65_536_u32 + 60)
        .map(|n| {
            let [_, a, b, c] = n.to_be_bytes();
            ipv4(17, 1, 0, [[10, a, b, c], SERVER], &udp([4_000, 4_000], b"x"))
        })
        .collect();
    let rules = "alert udp any any -> any any (dsize:1; tag:host,1,packets,src; sid:1;)\n";
    let (report, _) = read(&packets, rules, &["--set", "outputs.0.eve-log.types.0=stats"]);
    assert_eq!(times(&report, "net.tags_max"), 60, "{}", report["limits"]);
}

#[test]
fn a_run_without_limits_reached_says_none() {
    let packets = [ipv4(17, 1, 0, [CLIENT, SERVER], &udp([4_000, 4_001], b"x"))];
    let dir = tempfile::tempdir().unwrap();
    let input = capture(dir.path(), "in.pcap", &packets);
    let run = gabion(&["read", &input]);
    assert!(run.out.contains("complete, all packets accounted for, none shed"), "{}", run.out);
    assert!(!run.out.contains("Limits that were reached"), "{}", run.out);
}

/// The tables of all crates that have one, by their names.
fn tables() -> Vec<(&'static str, Vec<&'static [&'static Limit]>)> {
    vec![
        ("Captures", vec![gabion_capture::limits::TABLE]),
        ("Packets", vec![gabion_packet::limits::TABLE]),
        ("Flows and streams", vec![gabion_flow::limits::TABLE]),
        ("Protocols", gabion_proto::limits::tables()),
        ("Rules as they are loaded", vec![gabion_rules::limits::TABLE]),
        ("Rules and what they keep", vec![gabion_net::limits::TABLE]),
        ("Behaviour", vec![gabion_behavior::limits::TABLE]),
        ("Logs of flows", vec![gabion_flowlog::limits::TABLE]),
        ("Recordings of the guard", vec![gabion_guard::limits::TABLE]),
        (
            "System calls",
            vec![
                gabion_scap::limits::TABLE,
                gabion_syscall::limits::TABLE,
                gabion_condition::limits::TABLE,
                gabion_probe::limits::TABLE,
            ],
        ),
        ("Sealed logs", vec![gabion_seal::limits::TABLE]),
        ("Intake of logs", vec![gabion_logs::limits::TABLE, gabion_intake::limits::TABLE]),
        ("Outputs", vec![gabion_outputs::limits::TABLE]),
        ("Threads and sockets", vec![gabion_runtime::limits::TABLE]),
        ("Configurations and rule files", vec![gabion_settings::limits::TABLE]),
        ("Runs", vec![gabion_sensor::limits::TABLE]),
        ("Reports", vec![gabion_reports::limits::TABLE]),
        ("The program's own readers and reports", vec![own::TABLE]),
    ]
}

fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, c) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// The part of the page that lists every limit.
fn page() -> String {
    let mut out = String::new();
    for (title, tables) in tables() {
        let _ = write!(
            out,
            "\n## {title}\n\n| limit | value | what it bounds, and why so | when it is reached |\n|---|---|---|---|\n"
        );
        for limit in tables.into_iter().flatten() {
            let reason: Vec<&str> = limit.reason.split_whitespace().collect();
            let when = match limit.meaning {
                Meaning::Loses(what) => format!("**shed and counted:** {what}"),
                Meaning::Counts(what) => format!("shed and reported: {what}"),
                Meaning::Refuses(what) => format!("refused with an error: {what}"),
                Meaning::Spares(what) => format!("nothing is lost: {what}"),
            };
            let (name, value) = (limit.full_name(), grouped(limit.value));
            let _ = writeln!(out, "| `{name}` | {value} | {} | {when} |", reason.join(" "));
        }
    }
    out
}

#[test]
fn the_page_says_every_limit() {
    program::compare_page("docs/limits.md", &page());
}

#[test]
fn names_of_limits_are_unique() {
    let mut names: Vec<String> =
        tables().into_iter().flat_map(|(_, t)| t).flatten().map(|l| l.full_name()).collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(count > 250, "{count}");
}

/// Suricata 8.0.7 names ten addresses of a side, too.
#[test]
fn hardware_addresses_beyond_the_limit_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut out = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    out.extend_from_slice(&[0, 0, 4, 0, 1, 0, 0, 0]);
    for n in 0..12_u8 {
        let packet = ipv4(17, 1, 0, [CLIENT, SERVER], &udp([4_000, 4_001], b"x"));
        let frame = [&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 1, n, 8, 0][..], &packet].concat();
        for word in [1_700_000_000, u32::from(n), frame.len() as u32, frame.len() as u32] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&frame);
    }
    let path = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(dir.path().join("in.pcap"), out).unwrap();
    let config = "%YAML 1.1\n---\noutputs:\n  - eve-log:\n      enabled: yes\n      \
                  filename: eve.json\n      ethernet: yes\n      types:\n        - flow\n";
    std::fs::write(dir.path().join("c.yaml"), config).unwrap();
    let (yaml, folder, input) = (path("c.yaml"), path("out"), path("in.pcap"));
    let run = gabion(&["read", "--json", "-c", &yaml, "-l", &folder, &input]);
    assert_eq!(run.code, 0, "{}", run.err);
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(times(&report, "net.macs_per_side"), 2, "{}", report["limits"]);
}

#[test]
fn a_search_that_ends_at_its_limit_is_counted() {
    let rules = "alert tcp any any -> any any (msg:\"x\"; content:\"aaaa\"; \
                 pcre:\"/^(a+)+(a+)+\\1\\2z/\"; sid:1;)\n";
    let (report, alerts) =
        read(&connection(40_000, &[[&vec![b'a'; 400][..], b"yz"].concat()]), rules, &[]);
    assert!(alerts.is_empty());
    assert!(times(&report, "net.pcre_steps_max") > 0, "{}", report["limits"]);
}

/// Flows of a host that tries a port of a number of hosts, as Zeek writes them.
fn sweep(hosts: u32) -> String {
    let mut log = String::from(
        "#separator \\x09\n#path\tconn\n#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\t\
         proto\tservice\tduration\torig_bytes\tresp_bytes\tconn_state\torig_pkts\tresp_pkts\n",
    );
    for n in 0..hosts {
        let (a, b) = (n / 200, n % 200 + 1);
        let _ = writeln!(
            log,
            "{}.0\tC{n}\t10.0.0.1\t40000\t9.9.{a}.{b}\t23\ttcp\t-\t-\t-\t-\tS0\t1\t0",
            1_700_000_000 + n
        );
    }
    log
}

/// Full tables of profiles are reported: in `run.json`, in its ledger and in the report.
#[test]
fn a_run_of_flows_says_which_limits_it_reached() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    for (hosts, is_reached) in [(5, false), (100, true)] {
        let (log, out) = (path("conn.log"), path(&format!("out{hosts}")));
        std::fs::write(&log, sweep(hosts)).unwrap();
        for workers in ["1", "2"] {
            let args =
                ["read", "--behavior", "--overwrite", "--workers", workers, "-l", &out, &log];
            let run = gabion(&args);
            assert_eq!(run.code, 0, "{}", run.err);
            assert_eq!(run.out.contains("Limits that were reached"), is_reached, "{}", run.out);
            let text = std::fs::read_to_string(dir.path().join(&out).join("run.json")).unwrap();
            let report: Value = serde_json::from_str(&text).unwrap();
            let reached = times(&report, "behavior.targets_max");
            assert_eq!(reached, if is_reached { 36 } else { 0 }, "{}", report["limits"]);
            let losses = &report["limit_losses"]["shed"]["limit_reached"]["items"];
            let all = report["limits"].as_array().unwrap().iter();
            let sum: u64 = all.filter_map(|l| l["times"].as_u64()).sum();
            assert_eq!(losses.as_u64().unwrap_or(0), sum, "{report}");
        }
    }
}

/// A budget that is named is taken as it is: the report advises to raise one that is too small.
#[test]
fn a_budget_that_is_named_is_not_cut() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("conn.log").display().to_string();
    std::fs::write(&log, sweep(3)).unwrap();
    for (budget, limit) in [("32MiB", 32 << 20), ("1GiB", 1_u64 << 30)] {
        let run = gabion(&["read", "--behavior", "--json", "--budget", budget, &log]);
        let report: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(report["budgets"][0]["limit"].as_u64(), Some(limit), "{}", run.err);
    }
}

/// Folders of lists that are too deep, and findings that are too long, are reported.
#[test]
fn lists_and_findings_that_are_left_out_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut deep = dir.path().join("lists");
    (0..10).for_each(|n| deep.push(format!("d{n}")));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("bad.txt"), "9.9.9.9\n").unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (log, out, lists) = (path("conn.log"), path("out"), path("lists"));
    std::fs::write(&log, sweep(100)).unwrap();
    let run = gabion(&["read", "--behavior", "--intel", &lists, "-l", &out, &log]);
    assert!(run.err.contains("folders deep: lists in it are not read"), "{}", run.err);
    let findings = dir.path().join("out/alerts.json");
    let mut text = std::fs::read_to_string(&findings).unwrap();
    text.insert_str(0, &format!("{{\"x\":\"{}\"}}\n", "y".repeat(3 << 20)));
    std::fs::write(&findings, text).unwrap();
    let list = gabion(&["behavior", "list", &out]);
    assert!(list.err.contains("alerts.json: 1 lines of more than"), "{}", list.err);
    assert!(list.out.contains("HORIZONTAL_PORT_SCAN"), "{}", list.out);
}
