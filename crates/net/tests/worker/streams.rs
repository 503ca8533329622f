//! What is kept of streams, and records of streams that change their protocol or show one side only.

use super::*;
use gabion_record::budget::BudgetPool;
use gabion_record::json::Json;

/// Suricata 8.0.7 gives a direction no packet at a flow's end for stream data that no rule looks at. (Commands of FTP, which
/// are inspected at a FIN; the server closes first.)
#[test]
fn streams_at_which_no_rule_looks_leave_nothing_to_inspect() {
    let (client, server) = (true, false);
    let mut rest: Vec<(bool, u8, &[u8])> = Vec::new();
    for (from, data) in [
        (server, &b"220 hi there\r\n"[..]),
        (client, b"USER anonymous\r\n"),
        (server, b"331 ok\r\n"),
        (client, b"PASS x\r\n"),
        (server, b"230 in\r\n"),
        (client, b"SYST\r\n"),
        (server, b"215 UNIX\r\n"),
        (client, b"QUIT\r\n"),
        (server, b"221 bye\r\n"),
    ] {
        rest.extend([(from, ACK, data), (!from, ACK, b"")]);
    }
    rest.extend([(server, FIN_ACK, &b""[..]), (client, FIN_ACK, b""), (server, ACK, b"")]);
    let packets = session(21, &rest);
    let commands = r#"alert ftp any any -> any any (msg:"c"; flow:to_server; sid:1; rev:1;)"#;
    let alerts = |other: &str| {
        let rules = [commands, other].join("\n");
        alerts_of(&read(&engine(rules.trim_end()), &packets).0, 1)
    };
    let during = [5, 6, 9, 10, 13, 14, 17, 18, 21, 23];
    let at_end = [&during[..], &[0]].concat();
    for (header, expected) in [
        ("any any -> any 22", &during[..]),
        ("any 22 -> any any", &at_end),
        ("any any -> any 21", &at_end),
        ("any any -> any [20:30]", &at_end),
        ("any any -> any any", &at_end),
    ] {
        let other =
            format!(r#"alert tcp-stream {header} (msg:"s"; content:"none"; sid:2; rev:1;)"#);
        assert_eq!(alerts(&other), expected, "{header}");
    }
    assert_eq!(alerts(""), during);
}

/// The most that streams held while a server sent 600 KB in a flow.
fn peak(engine: Engine) -> u64 {
    let engine = Arc::new(engine);
    let pool = BudgetPool::unlimited();
    let stream = pool.leaf("reassembly", Some(1 << 20));
    let budgets = WorkerBudgets { stream, ..WorkerBudgets::standalone(&engine) };
    let mut worker = Worker::new(Arc::clone(&engine), budgets);
    let data = [b'x'; 1000];
    let parts = [(false, ACK, &data[..]), (true, ACK, &b""[..])];
    let rest: Vec<_> = (0..600).flat_map(|_| parts).collect();
    for (n, packet) in session(9999, &rest).iter().enumerate() {
        assert!(worker.frame(&frame(n as u64 + 1, packet), &mut Lines::default()));
    }
    worker.finish(&mut Lines::default());
    pool.report().peak
}

/// Streams are not kept for rules where detection is off, where a flow was passed, and at ports for which no rule looks at
/// streams.
#[test]
fn streams_are_kept_only_for_rules_that_look_at_them() {
    let rule = |port: u16| {
        format!(
            r#"alert tcp-stream any any -> any {port} (msg:"s"; content:"none"; sid:2; rev:1;)"#
        )
    };
    let pass = r#"pass ip any any -> any any (msg:"p"; sid:1; rev:1;)"#.to_string();
    for rules in [pass.clone(), rule(9998), rule(9999), [pass, rule(9999)].join("\n")] {
        let held = peak(Arc::into_inner(engine(&rules)).unwrap());
        assert!(held <= 128 << 10, "{held} bytes with {rules}");
    }
    let mut off = Arc::into_inner(engine("")).unwrap();
    off.detector = None;
    let held = peak(off);
    assert!(held <= 128 << 10, "{held} bytes without detection");
}

/// Segments that come again after neither a parser nor a rule looks at their stream are examined as if their data were
/// still kept: Suricata 8.0.7 raises `est_pkt_before_last_ack` on each of these. A rule on streams changes none of it.
#[test]
fn what_comes_again_to_streams_that_nobody_looks_at_raises_its_events() {
    let data = b"\x01\x02zz".repeat(300);
    let (client, server) = ((4000, 7777), (7777, 4000));
    let to_server = |seq, ack, flags, data: &[u8]| tcp((1, 200), client, (seq, ack), flags, data);
    let to_client = |seq, ack, flags, data: &[u8]| tcp((200, 1), server, (seq, ack), flags, data);
    let packets = [
        to_server(100, 0, SYN, b""),
        to_client(500, 101, SYN | ACK, b""),
        to_server(101, 501, ACK, b""),
        to_server(101, 501, ACK, &data),
        to_client(501, 1301, ACK, b""),
        to_client(501, 1301, ACK, &data),
        to_server(1301, 1701, ACK, b""),
        to_client(1701, 1301, ACK, b""),
        to_server(1301, 1701, ACK, &data),
        to_client(1701, 2501, ACK, b""),
        to_client(1701, 2501, ACK, &data),
        to_server(2501, 2901, ACK, b""),
        to_client(2901, 2501, ACK, b""),
        to_client(501, 1301, ACK, &data),
        to_client(501, 101, ACK, &data),
        to_server(101, 501, ACK, &data),
        to_server(101, 2901, ACK, &b"q".repeat(1200)),
        to_server(2501, 2901, ACK, b"nnnnnnnnnn"),
        to_client(2901, 2511, ACK, b""),
    ];
    let event = r#"alert tcp any any -> any any (msg:"e"; stream-event:est_pkt_before_last_ack; sid:1; rev:1;)"#;
    let stream = r#"alert tcp-stream any any -> any any (msg:"s"; content:"none"; sid:2; rev:1;)"#;
    for rules in [event.to_string(), [event, stream].join("\n")] {
        let alerts = alerts_of(&read(&engine(&rules), &packets).0, 1);
        assert_eq!(alerts, [14, 15, 16, 17], "{rules}");
    }
}

/// Data that comes after rules on streams were loaded is inspected, though nobody looked at the stream before.
#[test]
fn rules_that_are_loaded_later_see_streams_that_nobody_looked_at() {
    let data = b"\x01\x02zz".repeat(300);
    let (client, server) = (true, false);
    let mut rest: Vec<(bool, u8, &[u8])> = Vec::new();
    for from in [client, server, client, server, client, server] {
        rest.extend([(from, ACK, &data[..]), (!from, ACK, b"")]);
    }
    rest.extend([(client, ACK, &b"late"[..]), (server, ACK, b"")]);
    rest.extend([(client, FIN_ACK, &b""[..]), (server, FIN_ACK, b""), (client, ACK, b"")]);
    let packets = session(7777, &rest);
    let none = r#"alert tcp any any -> any any (msg:"n"; flags:R; sid:1; rev:1;)"#;
    let late = r#"alert tcp-stream any any -> any any (msg:"l"; content:"late"; sid:2; rev:1;)"#;
    let early = engine(none);
    let mut worker = Worker::new(Arc::clone(&early), WorkerBudgets::standalone(&early));
    let mut lines = Lines::default();
    let (before, after) = packets.split_at(packets.len() - 5);
    for (n, packet) in before.iter().enumerate() {
        assert!(worker.frame(&frame(n as u64 + 1, packet), &mut lines));
    }
    worker.adopt(engine(late));
    for (n, packet) in after.iter().enumerate() {
        assert!(worker.frame(&frame((before.len() + n) as u64 + 1, packet), &mut lines));
    }
    worker.finish(&mut lines);
    assert_eq!(alerts_of(&lines, 2).len(), 1, "{:?}", lines.of("alert"));
}

/// Objects of transactions as they are logged.
#[derive(Default)]
struct Objects(Vec<(String, String)>);

impl NetSink for Objects {
    fn app(&mut self, r: &AppRecord<'_>) {
        let (mut json, mut config) = (Json::new(), Tree::default());
        config.set("extended", "yes");
        json.open();
        r.object.write(&mut json, Some(&config), false);
        json.close();
        self.0.push((r.event_type.to_string(), json.into_line()));
    }
    fn alert(&mut self, _: &AlertRecord<'_>) {}
    fn file(&mut self, _: &FileRecord<'_>) {}
    fn file_chunk(&mut self, _: &FileChunk<'_>) {}
    fn flow(&mut self, _: &FlowRecord<'_>) {}
    fn anomaly(&mut self, _: &AnomalyRecord<'_>) {}
    fn dropped(&mut self, _: &DropRecord<'_>) {}
    fn packet(&mut self, _: &PacketRecord<'_>) {}
    fn arp(&mut self, _: &Header<'_>, _: &dyn WriteObject) {}
}

fn objects(packets: &[Vec<u8>]) -> Vec<(String, String)> {
    objects_of(packets, &[])
}

/// The same with this configuration of streams.
fn objects_of(packets: &[Vec<u8>], settings: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut streams = Tree::default();
    settings.iter().for_each(|(key, value)| streams.set(key, value));
    let mut engine = Arc::into_inner(engine("")).unwrap();
    let stream = EngineOptions::from_tree(&streams).unwrap().stream;
    let options = EngineOptions::from_tree(&Tree::default()).unwrap();
    let wants = Wants { app: true, ..Wants::default() };
    engine.options = Arc::new(EngineOptions { stream, wants, ..options });
    let engine = Arc::new(engine);
    let mut worker = Worker::new(Arc::clone(&engine), WorkerBudgets::standalone(&engine));
    let mut objects = Objects::default();
    for (n, packet) in packets.iter().enumerate() {
        assert!(worker.frame(&frame(n as u64 + 1, packet), &mut objects));
    }
    worker.finish(&mut objects);
    objects.0
}

/// TLS that LDAP has granted (RFC 4511 4.14): the record has what Suricata 8.0.7 logs of the same hellos on port 443, and where
/// they came from, as in `ldap-starttls` of its tests.
#[test]
fn tls_in_ldap_is_logged() {
    let ask = b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037";
    let grant = b"\x30\x0c\x02\x01\x01\x78\x07\x0a\x01\0\x04\0\x04\0";
    let (client, server) = (true, false);
    let mut rest: Vec<(bool, u8, &[u8])> = Vec::new();
    for (from, data) in [
        (client, &ask[..]),
        (server, grant),
        (client, TLS_HELLO),
        (server, TLS_ANSWER),
        (server, TLS_SEALED),
        (client, TLS_SEALED),
    ] {
        rest.extend([(from, ACK, data), (!from, ACK, b"")]);
    }
    rest.extend([(client, FIN_ACK, &b""[..]), (server, FIN_ACK, b""), (client, ACK, b"")]);
    let all = objects(&session(389, &rest));
    let kinds: Vec<&str> = all.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["ldap", "tls"], "{all:?}");
    let (ldap, tls) = (&all[0].1, &all[1].1);
    assert!(ldap.contains("\"name\":\"1.3.6.1.4.1.1466.20037\""), "{ldap}");
    for member in ["\"sni\":\"good.x\"", "\"version\":\"TLS 1.3\"", "\"from_proto\":\"ldap\""] {
        assert!(tls.contains(member), "{tls}");
    }
}

/// A flow of SMB of which only the client is seen, with `async-oneside`: Suricata 8.0.7 has a record of each of 1,501 requests,
/// though 1,024 transactions may be alive (`max-tx`, at which a flow with both sides ends).
#[test]
fn requests_without_a_server_are_all_logged() {
    let message = |command: u8, id: u16, body: &[u8]| {
        let mut m = b"\xfeSMB\x40\0\x01\0\0\0\0\0".to_vec();
        m.extend([command, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        m.extend(u64::from(id).to_le_bytes());
        m.extend(b"\xff\xfe\0\0\x01\0\0\0\x09\0\0\0\0\0\0\0");
        m.extend([0; 16]);
        m.extend(body);
        [&(m.len() as u32).to_be_bytes()[..], &m].concat()
    };
    let asked = [&b"\x24\0\x02\0\x01\0\0\0\0\0\0\0"[..], &[0x11; 16], &[0; 8], b"\x02\x02\x10\x02"];
    let mut talk = vec![message(0, 0, &asked.concat())];
    talk.extend((0..1500).map(|id| message(13, id, b"\x04\0\0\0")));
    let there = ((1, 200), (4000, 445));
    let mut packets =
        vec![tcp(there.0, there.1, (0, 0), SYN, b""), tcp(there.0, there.1, (1, 501), ACK, b"")];
    let mut seq = 1;
    for data in &talk {
        packets.push(tcp(there.0, there.1, (seq, 501), ACK, data));
        seq += data.len() as u32;
    }
    packets.push(tcp(there.0, there.1, (seq, 501), FIN_ACK, b""));
    let all = objects_of(&packets, &[("stream.async-oneside", "true")]);
    assert_eq!((all.len(), talk.len()), (1501, 1501));
    assert!(all.iter().all(|(kind, _)| kind == "smb"));
}
