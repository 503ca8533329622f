//! Which records a session leaves when bytes are lost, a parser fails or a protocol shows late. Expected values are the
//! records of Suricata 8.0.7 (`--runmode single`, no rules) for captures made in the same way.

mod program;

use gabion_record::Direction::{self, ToClient, ToServer};
use program::gabion;
use program::packets::{CLIENT, SERVER, capture, capture_of, ipv4, tcp, udp};
use serde_json::Value;

const ACK: u8 = 0x10;
const PUSH: u8 = 0x18;

/// A TCP session whose packets are made one after the other.
struct Session {
    port: u16,
    /// The next sequence number of each side.
    next: [u32; 2],
    packets: Vec<Vec<u8>>,
}

impl Session {
    /// A handshake with this port of the server.
    fn opened(port: u16) -> Session {
        let mut s = Session { port, next: [100, 500], packets: Vec::new() };
        s.packet(ToServer, 2, b"");
        s.next[0] += 1;
        s.packet(ToClient, 0x12, b"");
        s.next[1] += 1;
        s.packet(ToServer, ACK, b"");
        s
    }

    fn packet(&mut self, d: Direction, flags: u8, payload: &[u8]) {
        let ack = if flags & ACK == 0 { 0 } else { self.next[d.opposite().index()] };
        let (ends, ports) = match d {
            ToServer => ([CLIENT, SERVER], [4000, self.port]),
            ToClient => ([SERVER, CLIENT], [self.port, 4000]),
        };
        let segment = tcp(self.next[d.index()], ack, flags, ports, payload);
        self.packets.push(ipv4(6, 1, 0, ends, &segment));
    }

    /// Data, which the other side acknowledges at once.
    fn says(&mut self, d: Direction, text: &str) -> &mut Session {
        self.sends(d, text.as_bytes())
    }

    fn sends(&mut self, d: Direction, bytes: &[u8]) -> &mut Session {
        self.packet(d, PUSH, bytes);
        self.next[d.index()] += bytes.len() as u32;
        self.packet(d.opposite(), ACK, b"");
        self
    }

    /// Bytes that the capture does not have.
    fn loses(&mut self, d: Direction, len: u32) -> &mut Session {
        self.next[d.index()] += len;
        self
    }

    /// Both sides end.
    fn ends(&mut self) -> Vec<Value> {
        for d in [ToServer, ToClient] {
            self.packet(d, 0x11, b"");
            self.next[d.index()] += 1;
            self.packet(d.opposite(), ACK, b"");
        }
        records(&self.packets)
    }
}

/// The records of these packets.
fn records(packets: &[Vec<u8>]) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let path = capture(dir.path(), "a.pcap", packets);
    read_records(dir.path(), &path)
}

fn read_records(folder: &std::path::Path, capture: &str) -> Vec<Value> {
    let out = folder.join("out");
    std::fs::create_dir(&out).unwrap();
    let ran = gabion(&["read", capture, "-q", "-k", "none", "-l", &out.display().to_string()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let text = std::fs::read_to_string(out.join("eve.json")).unwrap();
    let all = text.lines().map(|line| serde_json::from_str(line).unwrap());
    all.filter(|r: &Value| r["event_type"] != "stats").collect()
}

/// Type and packet of each record but that of the flow.
fn places(records: &[Value]) -> Vec<(&str, u64)> {
    let all = records.iter().filter(|r| r["event_type"] != "flow");
    all.map(|r| (r["event_type"].as_str().unwrap(), r["pcap_cnt"].as_u64().unwrap_or(0))).collect()
}

fn flow(records: &[Value]) -> &Value {
    records.iter().find(|r| r["event_type"] == "flow").unwrap()
}

/// FTP with a command or a reply lost.
#[test]
fn lost_bytes_end_what_cannot_continue_and_log_what_is_open() {
    let ftp = |lost: Direction| {
        let mut s = Session::opened(21);
        s.says(ToClient, "220 (hi)\r\n").says(ToServer, "USER a\r\n").says(ToClient, "331 x\r\n");
        for n in 0..3 {
            match (n, lost) {
                (1, ToServer) => {
                    s.loses(ToServer, 6).says(ToClient, "200 ok\r\n");
                }
                (1, ToClient) => {
                    s.says(ToServer, "NOOP\r\n").loses(ToClient, 8);
                }
                _ => {
                    s.says(ToServer, "NOOP\r\n").says(ToClient, "200 ok\r\n");
                }
            }
        }
        s.ends()
    };
    let after_command = ftp(ToServer);
    let ftps = places(&after_command);
    assert_eq!(ftps.iter().filter(|(kind, _)| *kind == "ftp").count(), 4, "{ftps:?}");
    assert_eq!(flow(&after_command)["flow"]["tx_cnt"], 4);
    assert_eq!(flow(&after_command)["tcp"]["ts_gap"], true);
    let after_reply = ftp(ToClient);
    let open: Vec<_> = after_reply.iter().filter(|r| r["ftp"]["reply_received"] == "no").collect();
    assert_eq!(open.len(), 2);
    assert_eq!(open[0]["pcap_cnt"], open[1]["pcap_cnt"]);
    assert!(open[0]["pcap_cnt"].is_u64());
}

/// A request's body in three pieces of which the second is acknowledged before it is captured.
#[test]
fn an_acknowledged_hole_is_lost_only_once_later_data_is_there() {
    for (is_late, gaps) in [(true, None), (false, Some(true))] {
        let mut s = Session::opened(80);
        s.says(ToServer, "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 30\r\n\r\n");
        s.says(ToServer, "0123456789");
        let hole = s.next[0];
        s.loses(ToServer, 10).packet(ToClient, ACK, b"");
        s.packet(ToClient, ACK, b"");
        if is_late {
            s.next[0] = hole;
            s.says(ToServer, "ABCDEFGHIJ");
        }
        s.says(ToServer, "KLMNOPQRST");
        s.says(ToClient, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let records = s.ends();
        let file = records.iter().find(|r| r["event_type"] == "fileinfo").unwrap();
        let state = if is_late { "CLOSED" } else { "TRUNCATED" };
        assert_eq!(
            (&file["fileinfo"]["state"], &file["fileinfo"]["size"]),
            (&state.into(), &30.into())
        );
        assert_eq!(flow(&records)["tcp"]["ts_gap"].as_bool(), gaps);
    }
}

/// The server of an SSH client is none: its bytes end the parser, so it has no protocol of its own, and the client is
/// logged with that packet, whichever side spoke first.
#[test]
fn bytes_that_end_the_parser_leave_their_side_without_result() {
    for server_first in [false, true] {
        let mut s = Session::opened(902);
        let order = if server_first { [ToClient, ToServer] } else { [ToServer, ToClient] };
        for d in order {
            let text = if d == ToServer { "SSH-2.0-x\r\n" } else { "Exceeded MaxStartups\r\n" };
            s.says(d, text);
        }
        let records = s.ends();
        assert_eq!(places(&records), [("anomaly", 7), ("anomaly", 7), ("ssh", 7)]);
        assert_eq!(records[2]["ssh"]["client"]["software_version"], "x");
        assert_eq!(
            (&flow(&records)["app_proto"], &flow(&records)["app_proto_tc"]),
            (&"ssh".into(), &Value::Null)
        );
    }
}

/// 17 bytes to the server and 10 to the client decide.
#[test]
fn a_protocol_is_awaited_for_a_few_bytes() {
    for (client, server, app) in [(17, 10, Some("failed")), (16, 600, None), (600, 9, None)] {
        let mut s = Session::opened(6379);
        s.says(ToServer, &"x".repeat(client)).says(ToClient, &"y".repeat(server));
        let records = s.ends();
        assert_eq!(flow(&records)["app_proto"].as_str(), app, "{client} {server}");
    }
}

#[test]
fn an_empty_datagram_is_the_first_one_of_its_side() {
    let query = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";
    let mut answer = *query;
    answer[2] = 0x81;
    let asks = |data: &[u8]| ipv4(17, 1, 0, [CLIENT, SERVER], &udp([4000, 53], data));
    let answers = |data: &[u8]| ipv4(17, 1, 0, [SERVER, CLIENT], &udp([53, 4000], data));
    let records = records(&[asks(b""), asks(query), answers(&answer)]);
    assert_eq!(places(&records), [("dns", 3)]);
    let of = |name: &str| flow(&records)[name].as_str();
    assert_eq!([of("app_proto"), of("app_proto_ts")], [Some("dns"), Some("failed")]);
}

/// Each name that is repeated has an event; members of fields without a value are left out.
#[test]
fn fields_of_http() {
    let mut s = Session::opened(80);
    s.says(
        ToServer,
        "GET / HTTP/1.1\r\nHost: h\r\nUser-Agent:\r\nX-Forwarded-For: 1.2.3.4, 5\r\n\r\n",
    );
    s.says(
        ToClient,
        "HTTP/1.1 200 OK\r\nA: 1\r\nA: 2\r\nA: 3\r\nB: 1\r\nB: 2\r\nContent-Length: 0\r\n\r\n",
    );
    let records = s.ends();
    let repeated =
        records.iter().filter(|r| r["anomaly"]["event"] == "RESPONSE_HEADER_REPETITION").count();
    assert_eq!(repeated, 2);
    let http = records.iter().find(|r| r["event_type"] == "http").unwrap();
    assert_eq!(
        (&http["http"]["xff"], &http["http"]["http_user_agent"]),
        (&"1.2.3.4, 5".into(), &Value::Null)
    );
}

/// Ethernet and a VLAN tag of id 0 around the fragments of a datagram of 40 bytes.
#[test]
fn a_flow_has_the_tags_and_the_link_layer_of_its_packets() {
    let datagram = udp([4000, 9], &[b'a'; 40]);
    let link = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &[0x81, 0, 0, 0, 8, 0]].concat();
    let fragment =
        |at: u16, bytes: &[u8]| [link.clone(), ipv4(17, 7, at, [CLIENT, SERVER], bytes)].concat();
    let dir = tempfile::tempdir().unwrap();
    let frames = [fragment(0x2000, &datagram[..24]), fragment(3, &datagram[24..])];
    let path = capture_of(1, dir.path(), "a.pcap", &frames);
    let records = read_records(dir.path(), &path);
    let of = flow(&records);
    assert_eq!((&of["vlan"], &of["flow"]["bytes_toserver"]), (&serde_json::json!([0]), &86.into()));
}

/// A packet in a tunnel begins after the headers of the datagram around it, which came in two fragments.
#[test]
fn a_packet_in_a_tunnel_in_fragments_has_no_link_layer() {
    let inner = ipv4(17, 1, 0, [CLIENT, SERVER], &udp([4000, 9], &[b'a'; 40]));
    let link = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &[8, 0]].concat();
    let fragment = |at: u16, bytes: &[u8]| {
        [link.clone(), ipv4(4, 7, at, [[192, 0, 2, 1], [192, 0, 2, 2]], bytes)].concat()
    };
    let dir = tempfile::tempdir().unwrap();
    let frames = [fragment(0x2000, &inner[..24]), fragment(3, &inner[24..])];
    let path = capture_of(1, dir.path(), "a.pcap", &frames);
    let records = read_records(dir.path(), &path);
    let of = records.iter().find(|r| r["proto"] == "UDP").unwrap();
    assert_eq!(of["flow"]["bytes_toserver"], inner.len());
}

/// Bytes of a packed body are lost. Its length does not count them; data after them end the parsing of the flow, unless
/// they belong to the next response.
#[test]
fn a_packed_body_with_lost_bytes_is_read_no_further() {
    let body: Vec<u8> =
        (0..2_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut packer, &body).unwrap();
    let packed = packer.finish().unwrap();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        packed.len()
    );
    let get = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
    let lengths = |lost_to: usize| {
        let mut s = Session::opened(80);
        s.says(ToServer, get).says(ToClient, &head).sends(ToClient, &packed[..1_000]);
        s.loses(ToClient, (lost_to - 1_000) as u32);
        if lost_to < packed.len() {
            s.sends(ToClient, &packed[lost_to..]);
        }
        s.says(ToServer, get).says(ToClient, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab");
        let records = s.ends();
        let http = records.iter().filter(|r| r["event_type"] == "http");
        let lengths: Vec<u64> = http.map(|r| r["http"]["length"].as_u64().unwrap()).collect();
        let gaps = records.iter().filter(|r| r["anomaly"]["event"] == "INVALID_GAP").count();
        (lengths, gaps)
    };
    let after = packed.len() as u64 - 3_000;
    assert_eq!(lengths(3_000), (vec![1_000 + after], 0));
    // What is lost goes to the end of the body.
    assert_eq!(lengths(packed.len()), (vec![1_000, 2], 1));
}

/// A file with a hole is stored as it came, without the bytes that are lost, and rules find what came before the hole.
#[test]
fn a_file_with_a_hole_is_stored_and_inspected() {
    let mut s = Session::opened(80);
    s.says(ToServer, "PUT /p HTTP/1.1\r\nHost: h\r\nContent-Length: 300\r\n\r\n");
    s.sends(ToServer, &[b'a'; 100]).loses(ToServer, 100).sends(ToServer, &[b'b'; 100]);
    s.says(ToClient, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    s.packet(ToServer, ACK, b"");
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let configuration = "%YAML 1.1\n---\noutputs:\n  - file-store: {enabled: yes, version: 2, force-filestore: yes}\n\
         \x20 - eve-log: {enabled: yes, filename: eve.json, types: [alert, files]}\n";
    std::fs::write(path("c.yaml"), configuration).unwrap();
    let rule = "alert http any any -> any any (file.data; content:\"aabb\"; sid:1;)\n";
    std::fs::write(path("r.rules"), rule).unwrap();
    std::fs::create_dir(path("out")).unwrap();
    let capture = capture(folder.path(), "a.pcap", &s.packets);
    let [config, rules, out] = ["c.yaml", "r.rules", "out"].map(path);
    let files = ["suricata", "-c", &config, "-S", &rules, "-r", &capture, "-l", &out, "-k", "none"];
    let ran = gabion(&files);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let text = std::fs::read_to_string(path("out/eve.json")).unwrap();
    let records: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(records.iter().filter(|r| r["event_type"] == "alert").count(), 1, "{text}");
    let file = &records.iter().find(|r| r["event_type"] == "fileinfo").unwrap()["fileinfo"];
    assert_eq!((&file["stored"], &file["size"]), (&true.into(), &300.into()));
    let sha256 = file["sha256"].as_str().unwrap();
    let stored = format!("out/filestore/{}/{sha256}", &sha256[..2]);
    let content = std::fs::read(path(&stored)).unwrap();
    assert_eq!(content, [[b'a'; 100], [b'b'; 100]].concat());
}

/// EVE records of these types, by Suricata's command line and a configuration of their own.
fn records_of_types(packets: &[Vec<u8>], types: &str, protocols: &str, rules: &str) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let names: Vec<String> =
        protocols.split(' ').map(|name| format!("{name}: {{enabled: yes}}")).collect();
    let configuration = format!(
        "%YAML 1.1\n---\noutputs:\n  - eve-log: {{enabled: yes, filename: eve.json, types: [{types}]}}\n\
         app-layer: {{protocols: {{{}}}}}\n",
        names.join(", ")
    );
    std::fs::write(path("c.yaml"), configuration).unwrap();
    std::fs::write(path("r.rules"), rules).unwrap();
    std::fs::create_dir(path("out")).unwrap();
    let capture = capture(folder.path(), "a.pcap", packets);
    let [config, rules, out] = ["c.yaml", "r.rules", "out"].map(path);
    let ran = gabion(&[
        "suricata",
        "-c",
        &config,
        "-S",
        &rules,
        "-r",
        &capture,
        "-l",
        &out,
        "-k",
        "none",
        "--runmode",
        "single",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let text = std::fs::read_to_string(path("out/eve.json")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A handshake of WebSocket and a text of the client, masked.
fn websocket() -> Vec<Vec<u8>> {
    let mut s = Session::opened(80);
    s.says(
        ToServer,
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Key: a\r\n\r\n",
    );
    s.says(
        ToClient,
        "HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: a\r\n\r\n",
    );
    let mask = [0x37, 0xfa, 0x21, 0x3d];
    let text: Vec<u8> = b"good".iter().zip(mask).map(|(b, m)| b ^ m).collect();
    s.sends(ToServer, &[&[0x81, 0x84][..], &mask, &text].concat());
    s.packets
}

/// `http-body` and `websocket-payload` are settings of alerts, not of the protocols' own types.
#[test]
fn alerts_show_the_bodies_that_their_type_asks_for() {
    let rules = r#"
alert http any any -> any any (http.uri; content:"/p"; sid:1;)
alert http any any -> any any (http.request_body; content:"good1"; sid:2;)
"#;
    let post = || {
        let mut s = Session::opened(80);
        s.says(ToServer, "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\ngood1\0");
        s.says(ToClient, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nreply");
        s.packets
    };
    for (types, want) in [
        ("{alert: {http-body: yes}}", [Some("Z29vZDEA"), Some("cmVwbHk="), None, None]),
        ("{alert: {http-body-printable: yes}}", [None, None, Some("good1."), Some("reply")]),
        ("alert, {http: {http-body: yes, http-body-printable: yes}}", [None; 4]),
    ] {
        let all = records_of_types(&post(), types, "http", rules);
        let alerts: Vec<&Value> = all.iter().filter(|r| r["event_type"] == "alert").collect();
        assert_eq!(alerts.len(), 2, "{types}");
        for alert in alerts {
            let names = ["request_body", "response_body"];
            let more = names.iter().map(|n| format!("http_{n}_printable"));
            let names = names.iter().map(|n| format!("http_{n}")).chain(more);
            let got: Vec<Option<&str>> = names.map(|n| alert["http"][n].as_str()).collect();
            assert_eq!(got, want, "{types}");
        }
    }
}

#[test]
fn alerts_show_the_payloads_that_their_type_asks_for() {
    let rule = r#"alert websocket any any -> any any (websocket.payload; content:"good"; sid:1;)"#;
    for (types, want) in [
        ("{alert: {websocket-payload: yes}}", [Some("Z29vZA=="), None]),
        ("{alert: {websocket-payload-printable: yes}}", [None, Some("good")]),
        ("alert, {websocket: {websocket-payload: yes}}", [None; 2]),
    ] {
        let all = records_of_types(&websocket(), types, "http websocket", rule);
        let alert = all.iter().find(|r| r["event_type"] == "alert").unwrap();
        let got = ["payload_base64", "payload_printable"].map(|n| alert["websocket"][n].as_str());
        assert_eq!(got, want, "{types}");
    }
}

/// An alert on the request of an Upgrade, before the protocol changes.
#[test]
fn alerts_name_the_protocol_that_a_change_announces() {
    let rules = r#"
alert http1 any any -> any any (http.uri; content:"/ws"; sid:1;)
alert websocket any any -> any any (websocket.payload; content:"good"; sid:2;)
"#;
    let all = records_of_types(&websocket(), "alert", "http websocket", rules);
    let shown = |sid: u64| {
        let alert = all.iter().find(|r| r["alert"]["signature_id"] == sid).unwrap();
        let names =
            ["app_proto", "app_proto_expected", "app_proto_orig", "ts_progress", "tc_progress"];
        names.map(|name| alert[name].as_str())
    };
    let expected = [Some("http"), Some("websocket"), None];
    let progress = [Some("request_complete"), Some("response_headers")];
    assert_eq!(shown(1), [&expected[..], &progress[..]].concat()[..]);
    assert_eq!(shown(2), [Some("websocket"), None, Some("http"), None, None]);

    let mut s = Session::opened(25);
    s.says(ToClient, "220 a\r\n").says(ToServer, "EHLO a\r\n");
    s.says(ToClient, "250-a\r\n250 STARTTLS\r\n").says(ToServer, "STARTTLS\r\n");
    s.says(ToClient, "220 go\r\n");
    let rule = r#"alert tcp any any -> any any (flow:to_server; content:"STARTTLS"; sid:1;)"#;
    let all = records_of_types(&s.packets, "alert", "smtp tls", rule);
    let names = |r: &Value| (r["app_proto"].clone(), r["app_proto_expected"].clone());
    let alerts: Vec<_> = all.iter().map(names).collect();
    assert_eq!(alerts, [("smtp".into(), "tls".into())]);
}

/// A request whose `Host` is repeated, with different types of EVE.
#[test]
fn events_of_transactions_have_records_if_their_protocol_is_logged() {
    let session = || {
        let mut s = Session::opened(80);
        s.says(ToServer, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
        s.says(ToClient, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        s.packets
    };
    for (types, want) in [
        ("anomaly", 0),
        ("anomaly, alert", 0),
        ("anomaly, flow, frame, metadata", 0),
        ("anomaly, {http: {enabled: no}}", 0),
        ("anomaly, dns", 0),
        ("anomaly, http2", 0),
        ("anomaly, http", 1),
        ("anomaly, files", 1),
        ("{anomaly: {types: {applayer: no}}}, http", 0),
        ("anomaly]}\n  - eve-log: {enabled: yes, filename: b.json, types: [http", 1),
        (
            "anomaly]}\n  - http-log: {enabled: yes, filename: b.log}\n  - eve-log: {enabled: no, types: [http",
            1,
        ),
        (
            "anomaly]}\n  - tls-log: {enabled: yes, filename: b.log}\n  - eve-log: {enabled: no, types: [http",
            0,
        ),
    ] {
        let all = records_of_types(&session(), types, "http http2 dns", "");
        let repeated =
            all.iter().filter(|r| r["anomaly"]["event"] == "REQUEST_HEADER_REPETITION").count();
        assert_eq!(repeated, want, "{types}");
    }
}

/// `xbits` that a rule on addresses alone sets, asked on the packet that it is set with: packets 1 and 2 of a session.
#[test]
fn what_rules_on_addresses_set_is_seen_on_the_same_packet() {
    let session = || {
        let mut s = Session::opened(80);
        s.says(ToServer, "GET / HTTP/1.1\r\n\r\n");
        s.says(ToClient, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        s.packets
    };
    let alerts = |rules: &str| -> Vec<(u64, u64)> {
        let all = records_of_types(&session(), "alert", "http", rules);
        let place =
            |r: &Value| Some((r["alert"]["signature_id"].as_u64()?, r["pcap_cnt"].as_u64()?));
        all.iter().filter_map(place).collect()
    };
    for (set, asked) in [
        ("xbits:set,b,track ip_src", "xbits:isset,b,track ip_src"),
        ("xbits:set,b,track ip_pair", "xbits:isset,b,track ip_pair"),
        ("hostbits:set,b,src", "hostbits:isset,b,src"),
        ("flowbits:set,b", "flowbits:isset,b"),
    ] {
        let mut got = alerts(&format!(
            "alert ip any any -> any any ({set}; sid:1;)\n\
             alert ip any any -> any any ({asked}; flags:S; sid:2;)\n"
        ));
        got.sort_unstable();
        assert_eq!(got, [(1, 1), (1, 2), (2, 1)], "{set}");
        // A `pass` rule comes before others, but not before this one: nothing alerts.
        let passed = alerts(&format!(
            "pass ip any any -> any any ({asked}; ttl:64; sid:1;)\n\
             alert ip any any -> any any ({set}; sid:2;)\n\
             alert ip any any -> any any (ttl:64; sid:3;)\n"
        ));
        assert_eq!(passed, [], "{set}");
    }
}

/// A client without the preface, and the server's SETTINGS.
#[test]
fn settings_of_a_server_show_http2_on_port_80() {
    let headers = [&[0, 0, 3, 1, 5, 0, 0, 0, 1][..], &[0x82, 0x84, 0x86]].concat();
    let settings = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0x64];
    let answer = [0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88];
    for (port, app) in [(80, Some("http2")), (443, None), (8080, None), (9999, None)] {
        let mut s = Session::opened(port);
        s.sends(ToServer, &headers).sends(ToClient, &settings).sends(ToClient, &answer);
        s.ends();
        let all = records_of_types(&s.packets, "flow", "http2", "");
        assert_eq!(all[0]["app_proto"].as_str(), app, "{port}");
    }
}

/// Captured texts in alerts: those of flows and packets have points, those of the alert itself do not.
#[test]
fn captured_bytes_that_cannot_be_printed_are_points() {
    let bytes = b"a\tb\r\nc\0d\xff\"\\e\x7f";
    let packet = ipv4(17, 1, 0, [CLIENT, SERVER], &udp([4000, 9999], bytes));
    let rules = r#"
alert udp any any -> any any (pcre:"/^(.*)$/s, flow:four"; sid:1;)
alert udp any any -> any any (pcre:"/^(.*)$/s, pkt:five"; sid:2;)
"#;
    let all = records_of_types(&[packet], "alert", "dns", rules);
    let last = &all.last().unwrap()["metadata"];
    let want = "a.b\r\nc.d.\"\\e.";
    assert_eq!(
        (&last["flowvars"][0]["four"], &last["pktvars"][0]["five"]),
        (&want.into(), &want.into())
    );
}
