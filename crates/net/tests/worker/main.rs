//! The worker through its public surface: frames in, records out. Nothing here needs a corpus or the
//! program.

mod keywords;
mod pressure;
mod semantics;
mod streams;

use gabion_net::{
    Datasets, Dealer, Engine, EngineOptions, FrameIn, Protocols, Verdicts, Worker, WorkerBudgets,
    WorkerGroup,
};
use gabion_proto::Requirements;
use gabion_record::Tree;
use gabion_record::budget::Budget;
use gabion_record::eve::*;
use gabion_record::ledger::ShedReason;
use gabion_rules::{LoadOptions, RuleSource, RuleVars, Ruleset};
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000 * SECOND;
const SYN: u8 = 2;
const ACK: u8 = 16;
const FIN_ACK: u8 = 17;

/// An engine with these rules and the default configuration.
fn engine(rules: &str) -> Arc<Engine> {
    engine_with_thresholds(rules, "")
}

/// The same with a threshold file of that text.
fn engine_with_thresholds(rules: &str, thresholds: &str) -> Arc<Engine> {
    let config = Tree::default();
    let catalog = gabion_proto::registry::catalog();
    let source = RuleSource { name: "test.rules", text: rules, is_firewall: false };
    let vars = RuleVars::default();
    let (mut set, report) = Ruleset::load(&[source], &catalog, &vars, &LoadOptions::default());
    assert_eq!(set.signatures.len(), rules.lines().count(), "{report:?}");
    let (entries, faults) = gabion_rules::parse_thresholds(thresholds, "thresholds", &vars);
    assert!(faults.is_empty(), "{faults:?}");
    set.apply_thresholds(&entries, "thresholds");
    let protocols = Protocols::new(&config, Requirements::default());
    let options = EngineOptions::from_tree(&config).expect("the defaults are good");
    let wants = Wants { alerts: true, app: true, flows: true, ..Wants::default() };
    Arc::new(Engine::with_rules(
        (set, Datasets::default()),
        catalog,
        protocols.expect("the defaults are good"),
        EngineOptions { wants, ..options },
    ))
}

/// Records in a line each, as they come.
#[derive(Default)]
struct Lines {
    lines: Vec<String>,
    /// Alerts whose thresholds are asked in packet order.
    asked: Vec<Question>,
    /// Ports of the alerts.
    ports: Vec<Option<(u16, u16)>>,
    /// Which alerts say that they were blocked.
    blocked: Vec<bool>,
}

impl Lines {
    fn of(&self, kind: &str) -> Vec<&str> {
        let all = self.lines.iter().map(String::as_str);
        all.filter_map(|line| line.strip_prefix(kind)?.strip_prefix(' ')).collect()
    }
}

impl NetSink for Lines {
    fn alert(&mut self, r: &AlertRecord<'_>) {
        self.ports.push(r.header.ports);
        self.blocked.push(r.is_blocked);
        match r.question {
            Some(question) => self.asked.push(question),
            None => {
                let payload = r.payload.escape_ascii();
                self.lines
                    .push(format!("alert {} {:?} {payload}", r.signature.sid, r.header.pcap_cnt));
            }
        }
    }
    fn app(&mut self, r: &AppRecord<'_>) {
        self.lines.push(format!("app {} tx {}", r.event_type, r.tx_id));
    }
    fn file(&mut self, _: &FileRecord<'_>) {}
    fn file_chunk(&mut self, _: &FileChunk<'_>) {}
    fn flow(&mut self, r: &FlowRecord<'_>) {
        let [to_server, to_client] = r.summary.pkts;
        let ports = r.header.ports;
        self.lines.push(format!(
            "flow {ports:?} {to_server}+{to_client} {} {}",
            r.state.name(),
            r.reason.name()
        ));
    }
    fn anomaly(&mut self, _: &AnomalyRecord<'_>) {}
    fn dropped(&mut self, _: &DropRecord<'_>) {}
    fn packet(&mut self, _: &PacketRecord<'_>) {}
    fn arp(&mut self, _: &Header<'_>, _: &dyn WriteObject) {}
}

/// An IPv4 packet with these last bytes of its addresses, without link layer; checksums are not
/// looked at.
fn ipv4(proto: u8, (src, dst): (u8, u8), inside: &[u8]) -> Vec<u8> {
    let len = (20 + inside.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(len.to_be_bytes());
    packet.extend([0, 1, 0, 0, 64, proto, 0, 0, 10, 0, 0, src, 10, 0, 0, dst]);
    packet.extend(inside);
    packet
}

fn udp((src, dst): (u8, u8), (sp, dp): (u16, u16), payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len()) as u16;
    let header = [sp.to_be_bytes(), dp.to_be_bytes(), len.to_be_bytes(), [0; 2]].concat();
    ipv4(17, (src, dst), &[&header, payload].concat())
}

fn tcp(
    (src, dst): (u8, u8),
    (sp, dp): (u16, u16),
    (seq, ack): (u32, u32),
    flags: u8,
    payload: &[u8],
) -> Vec<u8> {
    let mut segment = [sp.to_be_bytes(), dp.to_be_bytes()].concat();
    segment.extend(seq.to_be_bytes());
    segment.extend(ack.to_be_bytes());
    segment.extend([0x50, flags, 0x40, 0, 0, 0, 0, 0]);
    segment.extend(payload);
    ipv4(6, (src, dst), &segment)
}

/// A connection to port 80 in which the client asks and the server answers.
fn connection(client: u8, port: u16, request: &[u8], answer: &[u8]) -> Vec<Vec<u8>> {
    let (there, back) = ((client, 200), (200, client));
    let (to, from) = ((port, 80), (80, port));
    let (asked, answered) = (1 + request.len() as u32, 501 + answer.len() as u32);
    vec![
        tcp(there, to, (0, 0), SYN, b""),
        tcp(back, from, (500, 1), SYN | ACK, b""),
        tcp(there, to, (1, 501), ACK, b""),
        tcp(there, to, (1, 501), ACK, request),
        tcp(back, from, (501, asked), ACK, answer),
        tcp(there, to, (asked, answered), FIN_ACK, b""),
        tcp(back, from, (answered, asked + 1), FIN_ACK, b""),
        tcp(there, to, (asked + 1, answered + 1), ACK, b""),
    ]
}

/// Frame `number`; consecutive frames are a millisecond apart.
fn frame(number: u64, data: &[u8]) -> FrameIn<'_> {
    let ts_ns = START + number * SECOND / 1000;
    FrameIn {
        ts_ns,
        clock_ns: ts_ns,
        is_leap: false,
        number,
        link: 101,
        device: 0,
        ignores_checksums: false,
        wire_len: data.len() as u32,
        data,
        fragments: None,
    }
}

/// What one worker makes of these packets.
fn read(engine: &Arc<Engine>, packets: &[Vec<u8>]) -> (Lines, Worker) {
    let mut worker = Worker::new(Arc::clone(engine), WorkerBudgets::standalone(engine));
    let mut lines = Lines::default();
    for (n, packet) in packets.iter().enumerate() {
        assert!(worker.frame(&frame(n as u64 + 1, packet), &mut lines));
    }
    worker.finish(&mut lines);
    let mut stages = Vec::new();
    worker.ledgers().each(&mut |stage, ledger| {
        if ledger.balance().is_err() {
            stages.push(stage);
        }
    });
    assert_eq!(stages, [""; 0], "ledgers that don't balance");
    (lines, worker)
}

#[test]
fn a_rule_on_a_datagram_alerts_with_its_payload() {
    let engine =
        engine(r#"alert udp any any -> any 9 (msg:"a word"; content:"sesame"; sid:7; rev:1;)"#);
    let packets = [
        udp((1, 2), (4000, 9), b"open sesame"),
        udp((1, 2), (4000, 9), b"open barley"),
        udp((1, 2), (4000, 8), b"open sesame"),
    ];
    let (lines, worker) = read(&engine, &packets);
    assert_eq!(lines.of("alert"), ["7 Some(1) open sesame"]);
    assert_eq!(worker.counters().alerts, 1);
    assert_eq!(worker.counters().packets, 3);
}

#[test]
fn a_connection_is_one_flow_and_its_request_one_record() {
    let engine = engine(
        r#"alert http any any -> any any (msg:"uri"; http.uri; content:"/secret"; sid:1; rev:1;)"#,
    );
    let request = b"GET /secret HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let (lines, worker) = read(&engine, &connection(1, 4000, request, answer));
    assert_eq!(lines.of("app"), ["http tx 0"]);
    assert_eq!(lines.of("alert").len(), 1, "{:?}", lines.lines);
    assert_eq!(lines.of("flow"), ["Some((4000, 80)) 5+3 closed shutdown"]);
    let (flows, tcp, _) = worker.flow_counters();
    assert_eq!((flows.total, tcp.sessions), (1, 1));
}

/// In emergency mode a TCP packet opens a flow only if it opens a connection. What is not seen of the others
/// stands in the ledger.
#[test]
fn packets_without_a_flow_in_emergency_mode_are_shed() {
    let engine = engine("");
    let flow = Budget::standalone("flow", 40_000);
    let budgets = WorkerBudgets { flow, ..WorkerBudgets::standalone(&engine) };
    let mut worker = Worker::new(Arc::clone(&engine), budgets);
    let mut lines = Lines::default();
    let mut packets: Vec<Vec<u8>> = (0..2_000).map(|n| udp((1, 2), (n, 9), b"x")).collect();
    packets.push(tcp((3, 4), (4000, 80), (1, 501), ACK, b"late"));
    for (n, packet) in packets.iter().enumerate() {
        worker.frame(&frame(n as u64 + 1, packet), &mut lines);
    }
    worker.finish(&mut lines);
    let mut shed = Vec::new();
    worker.ledgers().each(&mut |stage, ledger| {
        let all = ledger.sheds().filter(|_| stage == "flow");
        shed.extend(all.map(|(reason, tally)| (reason, tally.items)));
        assert!(ledger.balance().is_ok(), "{stage}");
    });
    assert_eq!(shed, [(ShedReason::FlowMemcap, 1)]);
    assert_eq!(worker.flow_counters().0.memcap, 0, "no exception policy was asked");
}

#[test]
fn any_split_of_a_request_gives_the_same_records() {
    let engine = engine(
        r#"alert http any any -> any any (msg:"uri"; http.uri; content:"/secret"; sid:1; rev:1;)"#,
    );
    let request = b"GET /secret HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let whole = connection(1, 4000, request, b"HTTP/1.1 204 No Content\r\n\r\n");
    let records = |packets: &[Vec<u8>]| {
        let (lines, _) = read(&engine, packets);
        (lines.of("app").len(), lines.of("alert").len())
    };
    assert_eq!(records(&whole), (1, 1));
    for at in 1..request.len() {
        let (first, second) = request.split_at(at);
        let mut packets = whole.clone();
        packets[3] = tcp((1, 200), (4000, 80), (1, 501), ACK, first);
        packets.insert(4, tcp((1, 200), (4000, 80), (1 + at as u32, 501), ACK, second));
        assert_eq!(records(&packets), (1, 1), "split at {at}");
    }
}

/// RFC 768, RFC 791: a datagram in two fragments is inspected when it is whole.
#[test]
fn a_rule_sees_through_fragments() {
    let engine = engine(r#"alert udp any any -> any 9 (msg:"w"; content:"sesame"; sid:7; rev:1;)"#);
    let whole = udp((1, 2), (4000, 9), b"now open sesame, please");
    let (header, inside) = whole.split_at(20);
    let part = |from: usize, to: usize, more: bool| {
        let mut packet = [header, &inside[from..to]].concat();
        let len = packet.len() as u16;
        packet[2..4].copy_from_slice(&len.to_be_bytes());
        let field = (from as u16 / 8) | if more { 0x2000 } else { 0 };
        packet[6..8].copy_from_slice(&field.to_be_bytes());
        packet
    };
    let (lines, _) = read(&engine, &[part(0, 16, true), part(16, inside.len(), false)]);
    assert_eq!(lines.of("alert").len(), 1, "{:?}", lines.lines);
    assert_eq!(lines.of("flow"), ["Some((4000, 9)) 1+0 new shutdown"]);
}

const LIMITED: &str = r#"alert udp any any -> any 9 (msg:"w"; content:"sesame"; threshold:type limit, track by_src, count 2, seconds 60; sid:7; rev:1;)"#;

#[test]
fn a_threshold_limits_the_alerts_of_a_host() {
    let engine = engine(LIMITED);
    let of = |host: u8, n: u16| udp((host, 2), (4000 + n, 9), b"sesame");
    let packets: Vec<_> = (0..5).flat_map(|n| [of(1, n), of(3, n)]).collect();
    let (lines, worker) = read(&engine, &packets);
    assert_eq!(lines.of("alert").len(), 4, "two of each host: {:?}", lines.lines);
    assert_eq!(worker.counters().alerts_suppressed, 6);
}

#[test]
fn a_flow_that_is_idle_ends_before_the_packet_that_shows_it() {
    let engine = engine(r#"alert udp any any -> any 9 (msg:"w"; content:"sesame"; sid:7; rev:1;)"#);
    let mut worker = Worker::new(Arc::clone(&engine), WorkerBudgets::standalone(&engine));
    let mut lines = Lines::default();
    let (first, second) = (udp((1, 2), (4000, 9), b"a"), udp((1, 2), (4001, 9), b"b"));
    worker.frame(&frame(1, &first), &mut lines);
    assert!(worker.next_expiry() > frame(1, &first).clock_ns);
    let late = frame(2, &second);
    let late = FrameIn {
        ts_ns: late.ts_ns + 3_600 * SECOND,
        clock_ns: late.clock_ns + 3_600 * SECOND,
        ..late
    };
    worker.frame(&late, &mut lines);
    assert_eq!(lines.of("flow"), ["Some((4000, 9)) 1+0 new timeout"]);
    worker.finish(&mut lines);
    assert_eq!(lines.of("flow").len(), 2);
}

/// Two workers, each shown all frames in turn, write together what one writes alone.
#[test]
fn two_workers_write_what_one_writes() {
    let rules = format!(
        "{LIMITED}\n{}",
        r#"alert http any any -> any any (msg:"uri"; http.uri; content:"/secret"; sid:1; rev:1;)"#
    );
    let engine = engine(&rules);
    let mut packets = Vec::new();
    for n in 0..20_u16 {
        let request = b"GET /secret HTTP/1.1\r\nHost: a.example\r\n\r\n";
        let client = 10 + (n % 5) as u8;
        packets.extend(connection(client, 4000 + n, request, b"HTTP/1.1 204 No Content\r\n\r\n"));
        packets.push(udp((client, 2), (5000 + n, 9), b"sesame"));
    }
    let (alone, _) = read(&engine, &packets);
    let group = WorkerGroup::new(2, |_| true);
    let new =
        |n| Worker::in_group(Arc::clone(&engine), WorkerBudgets::standalone(&engine), &group, n);
    let mut workers = [new(0), new(1)];
    let mut dealer = Dealer::new(&engine, Budget::standalone("defrag", 1 << 20));
    let mut verdicts = Verdicts::new(Arc::clone(&engine));
    let (mut lines, mut own) = (Lines::default(), [0; 2]);
    for (n, packet) in packets.iter().enumerate() {
        let f = frame(n as u64 + 1, packet);
        let to = dealer.deal(&f).expect("a link type that is read").key as usize % 2;
        for worker in &mut workers {
            while worker.advance_clock(&f, &mut lines) {}
        }
        workers[to].take_frame(&f, &mut lines);
        own[to] += 1;
        for question in std::mem::take(&mut lines.asked) {
            if verdicts.ask(&question) {
                lines.lines.push(format!("alert 7 Some({}) sesame", n + 1));
            }
        }
    }
    for worker in &mut workers {
        worker.finish(&mut lines);
    }
    assert!(own.iter().all(|n| *n > 0), "both have work: {own:?}");
    let sorted = |lines: &Lines| {
        let mut all = lines.lines.clone();
        all.sort();
        all
    };
    assert_eq!(sorted(&lines), sorted(&alone));
    assert_eq!(lines.of("alert").len(), 30, "20 requests, two words of each of five hosts");
}

/// Suricata 8.0.7: a rule on a protocol drops the flow, in its records and for later packets, even where no packet is
/// dropped; one on packets does not.
#[test]
fn where_nothing_is_dropped_a_dropped_flow_is_not_inspected_further() {
    let talk = connection(7, 4000, b"GET / HTTP/1.0\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n");
    for (rule, alerts) in [
        (r#"drop http any any -> any any (msg:"a"; sid:1;)"#, 1),
        (r#"alert http any any -> any any (msg:"a"; sid:1;)"#, 5),
        (r#"drop tcp any any -> any any (msg:"a"; dsize:0; sid:1;)"#, 6),
    ] {
        let (lines, _) = read(&engine(rule), &talk);
        assert_eq!(lines.of("alert").len(), alerts, "{rule}: {:?}", lines.lines);
        assert_eq!(lines.of("app"), ["http tx 0"]);
    }
}

/// A session that is seen from its answer on: the protocol shows which side is the server, and both streams
/// continue.
#[test]
fn sides_that_turn_out_to_be_reversed_are_followed() {
    let Ok(mut picks_up) = Arc::try_unwrap(engine(r#"alert http any any -> any any (sid:1;)"#))
    else {
        panic!("nobody else has it")
    };
    Arc::get_mut(&mut picks_up.options).expect("nobody else has them").stream.midstream = true;
    let (there, back, to, from) = ((7, 200), (200, 7), (4000, 80), (80, 4000));
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    let asked = b"GET /b HTTP/1.1\r\nHost: a\r\n\r\n";
    let (answered, asked_to) = (500 + answer.len() as u32, 100 + asked.len() as u32);
    let packets = [
        tcp(back, from, (500, 100), ACK, answer),
        tcp(there, to, (100, answered), ACK, b""),
        tcp(there, to, (100, answered), ACK, asked),
        tcp(back, from, (answered, asked_to), ACK, answer),
        tcp(there, to, (asked_to, answered + answer.len() as u32), FIN_ACK, b""),
        tcp(back, from, (answered + answer.len() as u32, asked_to + 1), FIN_ACK, b""),
        tcp(there, to, (asked_to + 1, answered + answer.len() as u32 + 1), ACK, b""),
    ];
    let (lines, _) = read(&Arc::new(picks_up), &packets);
    assert_eq!(lines.of("app").len(), 2, "{:?}", lines.lines);
    assert_eq!(lines.of("flow"), ["Some((4000, 80)) 4+3 closed shutdown"]);
}

/// Suricata 8.0.7: a server that ignores the data of a SYN makes the next SYN another connection.
#[test]
fn a_syn_whose_data_was_ignored_is_followed_by_another_connection() {
    let fast_open = |seq: u32, payload: &[u8]| {
        let mut segment = [4000_u16.to_be_bytes(), 80_u16.to_be_bytes()].concat();
        segment.extend(seq.to_be_bytes());
        segment.extend([0; 4]);
        segment.extend([0x80, SYN, 0x40, 0, 0, 0, 0, 0]);
        segment.extend(b"\x22\x0acookie!!\x01\x01");
        segment.extend(payload);
        ipv4(6, (7, 200), &segment)
    };
    let answer = tcp((200, 7), (80, 4000), (500, 101), SYN | ACK, b"");
    let engine = engine(r#"alert tcp any any -> any any (dsize:>9000; sid:1;)"#);
    for (first, flows) in [(&b"GET / HTTP/1.0\r\n\r\n"[..], 2), (b"", 1)] {
        let packets = [fast_open(100, first), answer.clone(), fast_open(100, b""), answer.clone()];
        let (lines, _) = read(&engine, &packets);
        assert_eq!(lines.of("flow").len(), flows, "{:?}", lines.lines);
    }
}

/// Suricata 8.0.7: what jumps to before the beginning of the payload lands there.
#[test]
fn jumps_end_at_the_beginning() {
    for (options, alerts) in [
        (
            r#"content:"abcd"; byte_jump:0,0,relative,post_offset -10; content:"abc"; distance:0; within:3;"#,
            1,
        ),
        (r#"byte_jump:1,0,post_offset -200; content:"abc"; distance:0; within:3;"#, 1),
        ("byte_jump:0,0,from_end,post_offset -20;", 1),
        ("byte_jump:0,0,post_offset 20;", 0),
        ("byte_jump:0,9;", 0),
    ] {
        let engine = engine(&format!("alert udp any any -> any any ({options} sid:1;)"));
        let (lines, _) = read(&engine, &[udp((1, 2), (4000, 9), b"abcdefgh")]);
        assert_eq!(lines.of("alert").len(), alerts, "{options}");
    }
}

/// Suricata 8.0.7 with the reference systems of its own configuration.
#[test]
fn references_are_addresses() {
    let catalog = gabion_proto::registry::catalog();
    let systems = [("url", "https://"), ("cve", "https://cve.example/?name=")];
    let options = LoadOptions {
        references: systems.map(|(name, prefix)| (name.to_owned(), prefix.to_owned())).to_vec(),
        ..LoadOptions::default()
    };
    for (reference, address) in [
        ("url,x.y/a", "https://x.y/a"),
        ("url, http://x.y/z", "http://x.y/z"),
        ("CVE,2014-0160", "https://cve.example/?name=2014-0160"),
        ("cve,foo://x", "foo://x"),
        ("url,a://", "https://a"),
        ("url,ab%cd", "https://ab"),
        ("url,h.t://x", "https://h.t"),
        ("url,http://a:80/b", "http://a"),
        ("nosuch,1", "undefined1"),
    ] {
        let text = format!("alert tcp any any -> any any (reference:{reference}; sid:1;)");
        let source = RuleSource { name: "test.rules", text: &text, is_firewall: false };
        let (set, report) = Ruleset::load(&[source], &catalog, &RuleVars::default(), &options);
        let signature = set.signatures.first().unwrap_or_else(|| panic!("{report:?}"));
        assert_eq!(set.references(signature).collect::<Vec<_>>(), [address], "{reference}");
    }
}

/// The numbers of the packets that rule `sid` alerts on; 0: of none.
fn alerts_of(lines: &Lines, sid: u32) -> Vec<u64> {
    let of_sid = lines.of("alert").into_iter().filter_map(|line| {
        let (rule, rest) = line.split_once(' ')?;
        (rule.parse() == Ok(sid)).then_some(rest)
    });
    let number = |rest: &str| {
        let digits = rest.strip_prefix("Some(").and_then(|r| r.split_once(')'));
        digits.map_or(0, |(n, _)| n.parse().unwrap())
    };
    of_sid.map(number).collect()
}

/// The first messages of TLS 1.3 of both sides, and a sealed record.
const TLS_HELLO: &[u8] =
    b"\x16\x03\x01\0\x47\x01\0\0\x43\x03\x03RRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRR\0\
    \0\x04\xc0\x2f\x13\x01\x01\0\0\x16\0\0\0\x0b\0\x09\0\0\x06good.x\0\x2b\0\x03\x02\x03\x04";
const TLS_ANSWER: &[u8] =
    b"\x16\x03\x03\0\x32\x02\0\0\x2e\x03\x03RRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRR\0\
    \x13\x01\0\0\x06\0\x2b\0\x02\x03\x04";
const TLS_SEALED: &[u8] = b"\x17\x03\x03\0\x04seal";

/// A session to port 9999 of these packets after the handshake: direction, flags and data.
fn session(port: u16, rest: &[(bool, u8, &[u8])]) -> Vec<Vec<u8>> {
    let mut numbers = [1u32, 501];
    let (there, back, to, from) = ((1, 200), (200, 1), (4000, port), (port, 4000));
    let mut packets = vec![
        tcp(there, to, (0, 0), SYN, b""),
        tcp(back, from, (500, 1), SYN | ACK, b""),
        tcp(there, to, (1, 501), ACK, b""),
    ];
    for (is_client, flags, data) in rest {
        let (own, other) = if *is_client { (0, 1) } else { (1, 0) };
        let (ends, ports) = if *is_client { (there, to) } else { (back, from) };
        packets.push(tcp(ends, ports, (numbers[own], numbers[other]), *flags, data));
        numbers[own] += data.len() as u32 + u32::from(flags & 1);
    }
    packets
}
