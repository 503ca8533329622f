//! The worker through its public surface: frames in, records out. Nothing here needs a corpus or the
//! program.

use gabion_flow::{DefragConfig, ExceptionPolicy, FlowConfig, StreamConfig};
use gabion_matcher::regex::Limits;
use gabion_net::{
    Datasets, Dealer, Detector, Engine, EngineOptions, Expressions, FrameIn, Policies, Protocols,
    RuleTexts, Verdicts, Worker, WorkerBudgets, WorkerGroup,
};
use gabion_packet::DecodeConfig;
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
    let config = Tree::default();
    let catalog = gabion_proto::registry::catalog();
    let source = RuleSource { name: "test.rules", text: rules, is_firewall: false };
    let vars = RuleVars::default();
    let (set, report) = Ruleset::load(&[source], &catalog, &vars, &LoadOptions::default());
    assert_eq!(set.signatures.len(), rules.lines().count(), "{report:?}");
    let (expressions, _) = Expressions::compile(&set, Limits::default(), true);
    let rule_texts = RuleTexts::new(&set);
    let ignore = ExceptionPolicy::Ignore;
    Arc::new(Engine {
        detector: Some(Detector::new(set, &catalog, expressions, Datasets::default())),
        protocols: Protocols::new(&config, Requirements::default()).expect("the defaults are good"),
        catalog,
        options: Arc::new(EngineOptions {
            decode: DecodeConfig::from_tree(&config),
            defrag: DefragConfig::from_tree(&config).expect("the defaults are good"),
            flow: FlowConfig::from_tree(&config).expect("the defaults are good"),
            stream: StreamConfig::from_tree(&config, false).expect("the defaults are good"),
            policies: Policies {
                defrag_memcap: ignore,
                flow_memcap: ignore,
                stream_memcap: ignore,
                reassembly_memcap: ignore,
                midstream: ignore,
                app_error: ignore,
            },
            inline: false,
            firewall: false,
            checksums: false,
            captured: Default::default(),
            alerts_max: gabion_net::limits::PACKET_ALERTS_MAX,
            tx_guesses: 0,
            ranges: Default::default(),
            wants: Wants { alerts: true, app: true, flows: true, ..Wants::default() },
            counts_stream_events: false,
            profile: None,
            seed: 1,
            pinned: Vec::new(),
            simulate_app_error: [None; 2],
            simulate_packet_loss: None,
            app_memcap: None,
            simulate_defrag_memcap: None,
        }),
        scripts: Default::default(),
        reputation: Arc::default(),
        countries: None,
        rule_texts,
        generation: 0,
    })
}

/// Records in a line each, as they come.
#[derive(Default)]
struct Lines {
    lines: Vec<String>,
    /// Alerts whose thresholds are asked in packet order.
    asked: Vec<Question>,
}

impl Lines {
    fn of(&self, kind: &str) -> Vec<&str> {
        let all = self.lines.iter().map(String::as_str);
        all.filter_map(|line| line.strip_prefix(kind)?.strip_prefix(' ')).collect()
    }
}

impl NetSink for Lines {
    fn alert(&mut self, r: &AlertRecord<'_>) {
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

/// Suricata 8.0.7 alerts on these packets (`docs/semantics.md`, "When stream data is inspected").
#[test]
fn a_fin_makes_stream_data_due_if_the_client_sends_it_first() {
    let engine = engine(concat!(
        r#"alert tcp any any -> any any (msg:"s"; flow:only_stream; content:!"zz"; sid:1; rev:1;)"#,
        "\n",
        r#"alert tcp any any -> any any (msg:"d"; dsize:0; sid:2; rev:1;)"#,
    ));
    let (client, server) = (true, false);
    let data: [(bool, u8, &[u8]); 4] =
        [(client, ACK, b"abc"), (server, ACK, b""), (server, ACK, b"yy"), (client, ACK, b"")];
    let close = |first: bool| {
        let mut rest = data.to_vec();
        rest.push((first, FIN_ACK, b""));
        rest.push((!first, ACK, b""));
        rest.push((!first, FIN_ACK, b""));
        rest.push((first, ACK, b""));
        let (lines, _) = read(&engine, &session(9999, &rest));
        (alerts_of(&lines, 1), alerts_of(&lines, 2))
    };
    assert_eq!(close(client), (vec![8, 9], vec![1, 2, 3, 5, 7, 10, 11]));
    assert_eq!(close(server), (vec![11, 0], vec![1, 2, 3, 5, 7, 8, 9, 10]));
}

/// Suricata 8.0.7 alerts on the same packets (`docs/semantics.md`, "When stream data is inspected").
#[test]
fn data_without_ack_counts_once_inspection_is_due() {
    let engine = engine(concat!(
        r#"alert tcp any any -> any any (msg:"s"; flow:only_stream; content:!"zz"; sid:1; rev:1;)"#,
        "\n",
        r#"alert tcp any any -> any any (msg:"p"; content:!"zz"; sid:2; rev:1;)"#,
        "\n",
        r#"alert tcp any any -> any any (msg:"d"; dsize:0; sid:3; rev:1;)"#,
    ));
    let (client, server, long) = (true, false, [b'a'; 1500]);
    let rest: [(bool, u8, &[u8]); 11] = [
        (client, ACK, &long),
        (server, ACK, b""),
        (client, ACK, &long),
        (server, ACK, b""),
        (client, ACK, b""),
        (client, ACK, b""),
        (client, ACK, b"defg"),
        (client, FIN_ACK, b""),
        (server, ACK, b""),
        (server, FIN_ACK, b""),
        (client, ACK, b""),
    ];
    let (lines, _) = read(&engine, &session(9999, &rest));
    assert_eq!(alerts_of(&lines, 1), [8, 14]);
    assert_eq!(alerts_of(&lines, 2), [8, 11, 14]);
    assert_eq!(alerts_of(&lines, 3), [1, 2, 3, 5, 7, 9, 12, 13]);
}

/// Suricata 8.0.7 alerts on the same packets (`docs/semantics.md`, "Rules on the protocol only").
#[test]
fn rules_on_the_protocol_only_are_asked_once_it_is_decided() {
    let engine = engine(concat!(
        r#"alert ip any any -> any any (msg:"o"; app-layer-protocol:dns,to_server; sid:1; rev:1;)"#,
        "\n",
        r#"alert ip any any -> any any (msg:"n"; app-layer-protocol:!unknown; sid:2; rev:1;)"#,
        "\n",
        r#"alert ip any any -> any any (msg:"c"; app-layer-protocol:unknown,to_client; sid:3; rev:1;)"#,
    ));
    let name = b"\x03www\x01a\x03com\0\0\x01\0\x01";
    let query = [b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0".as_slice(), name].concat();
    let answer = [b"\x12\x34\x81\x80\0\x01\0\0\0\0\0\0".as_slice(), name].concat();
    let asks = || udp((1, 2), (4000, 53), &query);
    let answers = || udp((2, 1), (53, 4000), &answer);
    let packets = [asks(), asks(), asks(), asks(), answers(), asks(), answers(), answers()];
    let (lines, _) = read(&engine, &packets);
    assert_eq!(alerts_of(&lines, 1), [1, 2, 5, 6, 7]);
    assert_eq!(alerts_of(&lines, 2), [0; 0]);
    assert_eq!(alerts_of(&lines, 3), [1, 2]);
}

/// Suricata 8.0.7 alerts, or does not, in the same way (`docs/semantics.md`, "Contents").
#[test]
fn negated_contents_leave_room_and_end_where_they_stand_first() {
    let matches = |conditions: &str, text: &[u8]| {
        let engine =
            engine(&format!(r#"alert udp any any -> any 9 (msg:"c"; {conditions} sid:1; rev:1;)"#));
        let (lines, _) = read(&engine, &[udp((1, 2), (4000, 9), text)]);
        !lines.of("alert").is_empty()
    };
    let digits = b"0123456789abcdef";
    for (conditions, is_match) in [
        (r#"content:!"ZZ"; content:"12"; distance:0;"#, false),
        (r#"content:!"ZZ"; content:"23"; distance:0;"#, true),
        (r#"content:!"ZZ"; content:"12"; within:10;"#, true),
        (r#"content:!"ZZ"; offset:3; content:"12"; distance:0;"#, true),
        (r#"content:!"ZZ"; depth:10; content:"12"; distance:0;"#, true),
        (r#"content:!"ZZ"; endswith; content:"12"; distance:0;"#, false),
        (r#"content:!"ZZ"; distance:0; content:"01"; distance:0;"#, true),
        (r#"content:!"ZZZZ"; pcre:"/1/R"; content:"23"; distance:0;"#, false),
        (r#"content:!"ZZZZ"; isdataat:1,relative; content:"23"; distance:0;"#, true),
    ] {
        assert_eq!(matches(conditions, digits), is_match, "{conditions}");
    }
    for (conditions, text, is_match) in [
        (r#"content:!"e"; endswith;"#, "/mmzzqqe", false),
        (r#"content:!"e"; endswith;"#, "/mzezqze", true),
        (r#"content:!"qze"; endswith;"#, "/mzezqze", false),
        (r#"content:!"e"; offset:4; endswith;"#, "/mmzzqqe", true),
        (r#"content:"q"; content:!"ze"; distance:0; endswith;"#, "/mzezqze", true),
    ] {
        assert_eq!(matches(conditions, text.as_bytes()), is_match, "{conditions} {text}");
    }
}

/// A rule on one protocol other than TCP, UDP and ICMP is asked, with its ports.
#[test]
fn rules_on_sctp_alert() {
    let rules = "alert sctp any 7 -> any 9 (sid:1;)\n\
                 alert sctp any any -> any 8 (sid:2;)\n\
                 alert sctp any any -> any any (sid:3;)\n\
                 alert udp any any -> any any (sid:4;)\n";
    let mut header = [7u16.to_be_bytes(), 9u16.to_be_bytes()].concat();
    header.extend([0; 8]);
    let (lines, _) = read(&engine(rules), &[ipv4(132, (1, 2), &header)]);
    let mut sids: Vec<&str> = lines.of("alert").iter().map(|l| &l[..1]).collect();
    sids.sort_unstable();
    assert_eq!(sids, ["1", "3"]);
}

/// A rule without a pattern that asks something of the packet is asked again while its transaction lasts: the answer's
/// second half comes when enough was sent.
#[test]
fn what_a_packet_must_meet_may_be_met_later() {
    let rules = "alert http any any -> any any (http.stat_code; content:!\"404\"; \
                 stream_size:server,>,60; sid:1;)\n";
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n";
    let (there, back, to, from) = ((1, 200), (200, 1), (5000, 80), (80, 5000));
    let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let asked = 1 + request.len() as u32;
    let answered = 501 + head.len() as u32;
    let packets = [
        tcp(there, to, (0, 0), SYN, b""),
        tcp(back, from, (500, 1), SYN | ACK, b""),
        tcp(there, to, (1, 501), ACK, b""),
        tcp(there, to, (1, 501), ACK, request),
        tcp(back, from, (501, asked), ACK, head),
        tcp(there, to, (asked, answered), ACK, b""),
        tcp(back, from, (answered, asked), ACK, &[b'a'; 30]),
        tcp(there, to, (asked, answered + 30), ACK, b""),
        tcp(back, from, (answered + 30, asked), ACK, &[b'b'; 30]),
        tcp(there, to, (asked, answered + 60), ACK, b""),
    ];
    let (lines, _) = read(&engine(rules), &packets);
    let alerts = lines.of("alert");
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    assert!(alerts[0].starts_with("1 Some(7)"), "{alerts:?}");
}

/// Both sides of a transaction may ask for the same buffer.
#[test]
fn a_buffer_of_both_sides_is_asked_for_on_each() {
    let rules = "alert http any any => any any (http.connection: to_client; content:\"eep\"; \
                 http.connection: to_server; content:\"eep\"; sid:1;)\n";
    let asked = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n";
    let answer = b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n";
    let (lines, _) = read(&engine(rules), &connection(1, 5000, asked, answer));
    assert_eq!(lines.of("alert").len(), 1);
    let close = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let (lines, _) = read(&engine(rules), &connection(1, 5000, asked, close));
    assert!(lines.of("alert").is_empty());
}

/// The first datagram of each side may show which one is the client: observed with Suricata 8.0.7.
#[test]
fn a_query_to_the_client_reverses_the_sides() {
    let message = |id: u8, flags: u8| {
        [&[0, id, flags, 0, 0, 1, 0, 0, 0, 0, 0, 0], &b"\x01a\x03com\0\0\x01\0\x01"[..]].concat()
    };
    let packets = [
        udp((1, 2), (5000, 53), &message(1, 1)),
        udp((2, 1), (53, 5000), &message(2, 1)),
        udp((1, 2), (5000, 53), &message(2, 0x81)),
    ];
    let rules = "alert dns any any -> any any (dns.query; content:\"a.com\"; sid:1;)\n";
    let (lines, _) = read(&engine(rules), &packets);
    let flows = lines.of("flow");
    assert!(flows.len() == 1 && flows[0].starts_with("Some((53, 5000)) 1+2"), "{flows:?}");
}

/// Rules of which each alerts on what its name says, and the packets on which Suricata 8.0.7 alerts; 0: none of the wire.
fn assert_alerts(packets: &[Vec<u8>], rules: &[(&str, &[u64])]) {
    let number = |(at, (rule, _)): (usize, &(&str, &[u64]))| {
        let (head, options) = rule.split_once(' ').unwrap();
        format!("alert {head} any any -> any any ({options} sid:{}; rev:1;)", at + 1)
    };
    let text: Vec<String> = rules.iter().enumerate().map(number).collect();
    let (lines, _) = read(&engine(&text.join("\n")), packets);
    for (at, (rule, expected)) in rules.iter().enumerate() {
        assert_eq!(alerts_of(&lines, at as u32 + 1), *expected, "{rule}");
    }
}

const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nHost: foo\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// As in Suricata 8.0.7 (`docs/semantics.md`, "Which rules are asked on a packet").
#[test]
fn with_a_packet_that_its_session_refuses_only_the_packet_is_inspected() {
    let (client, server) = (true, false);
    let rest: [(bool, u8, &[u8]); 4] =
        [(client, ACK, REQUEST), (server, ACK, b""), (client, SYN, b""), (client, ACK, b"")];
    assert_alerts(
        &session(80, &rest),
        &[
            ("http flow:stateless;", &[5, 7]),
            ("tcp-stream content:!\"zzz\";", &[7]),
            ("http http.uri; content:\"a\";", &[7]),
            ("tcp dsize:0;", &[1, 2, 3, 5, 6]),
            ("tcp app-layer-protocol:http;", &[6]),
        ],
    );
}

/// As in Suricata 8.0.7 (`docs/semantics.md`, "Which rules are asked on a packet").
#[test]
fn what_is_due_is_inspected_with_a_packet_out_of_place() {
    let (client, server) = (true, false);
    let rest: [(bool, u8, &[u8]); 6] = [
        (client, ACK, REQUEST),
        (server, ACK, b""),
        (server, ACK, ANSWER),
        (client, ACK, b""),
        (client, ACK, b""),
        (server, ACK, b""),
    ];
    let ends = (501, 1 + REQUEST.len() as u32);
    let (old, ahead) = ((ends.0, &ANSWER[..20]), (ends.0 + 100_000, &b"y"[..]));
    for (seq, data) in [old, ahead, (ends.0, b"")] {
        let mut packets = session(80, &rest);
        packets.insert(7, tcp((200, 1), (80, 4000), (seq, ends.1), ACK, data));
        assert_alerts(
            &packets,
            &[
                ("http ttl:64;", &[5, 6, 7, 8, 9, 10]),
                ("tcp-stream content:\"200 OK\";", &[8]),
                ("http http.stat_code; content:\"200\";", &[8]),
            ],
        );
    }
}

/// As in Suricata 8.0.7 (`docs/semantics.md`, "When stream data is inspected").
#[test]
fn after_the_clients_fin_the_servers_data_is_due_with_each_packet() {
    let (client, server) = (true, false);
    let rest: [(bool, u8, &[u8]); 15] = [
        (client, ACK, b"abcdefghabcdefgh\r\nxx"),
        (server, ACK, b""),
        (server, ACK, b"defdefdefdefdefdef\r\nxx"),
        (client, ACK, b""),
        (client, FIN_ACK, b""),
        (server, ACK, b""),
        (server, ACK, b""),
        (server, ACK, b"QQQQ"),
        (client, ACK, b""),
        (server, ACK, b"RRRR"),
        (client, ACK, b""),
        (server, ACK, b"RRRR"),
        (client, ACK, b""),
        (server, ACK, b"TTTT"),
        (server, ACK, b""),
    ];
    assert_alerts(
        &session(9999, &rest),
        &[
            ("tcp-stream content:!\"zzz\"; flow:to_server;", &[8]),
            ("tcp-stream content:!\"zzz\"; flow:to_client;", &[9, 13, 15, 17, 18, 0]),
            ("tcp dsize:0;", &[1, 2, 3, 5, 7, 10, 12, 14, 16]),
        ],
    );
}

/// As in Suricata 8.0.7 (`docs/semantics.md`, "The end of a flow").
#[test]
fn a_session_that_has_not_ended_is_looked_at_both_ways() {
    let (client, server) = (true, false);
    let answered: [(bool, u8, &[u8]); 6] = [
        (client, ACK, REQUEST),
        (server, ACK, b""),
        (server, ACK, ANSWER),
        (client, ACK, b""),
        (server, ACK, b""),
        (client, ACK, b""),
    ];
    let ends: [(bool, u8, &[u8]); 3] =
        [(client, FIN_ACK, b""), (server, FIN_ACK, b""), (client, ACK, b"")];
    let with_ends = |rest: &[(bool, u8, &'static [u8])]| session(80, &[rest, &ends].concat());
    let (to_server, to_client) = ("http flow:to_server;", "http flow:to_client;");
    assert_alerts(&session(80, &answered), &[(to_server, &[7, 9, 0]), (to_client, &[5, 6, 8, 0])]);
    assert_alerts(
        &with_ends(&answered),
        &[(to_server, &[7, 9, 10, 12]), (to_client, &[5, 6, 8, 11])],
    );
    let unanswered = [answered[0], answered[1], (client, ACK, b"".as_slice())];
    assert_alerts(&with_ends(&unanswered), &[(to_server, &[6, 7, 9, 0]), (to_client, &[5, 8, 0])]);
}

/// As in Suricata 8.0.7 (`docs/semantics.md`, "When stream data is inspected").
#[test]
fn messages_of_protocols_make_stream_data_due() {
    let (client, server) = (true, false);
    let (there, back) = (
        "tcp-stream content:!\"zzz\"; flow:to_server;",
        "tcp-stream content:!\"zzz\"; flow:to_client;",
    );
    let bind = b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\0\x80\0";
    let bound = b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\0\x04\0\x04\0";
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
    let call = words(&[0x8000_0028, 7, 0, 2, 100_003, 3, 0, 0, 0, 0, 0]);
    let reply = words(&[0x8000_0018, 7, 1, 0, 0, 0, 0]);
    let version = b"RFB 003.008\n".as_slice();
    let by_server: [(u16, [&[u8]; 3]); 2] = [
        (5900, [version, version, b"\x01\x01"]),
        (110, [b"+OK hi\r\n", b"STAT\r\n", b"+OK 1 2\r\n"]),
    ];
    for (port, [hello, asked, answer]) in by_server {
        let rest: [(bool, u8, &[u8]); 7] = [
            (server, ACK, hello),
            (client, ACK, b""),
            (client, ACK, asked),
            (server, ACK, b""),
            (server, ACK, answer),
            (client, ACK, b""),
            (server, ACK, b""),
        ];
        assert_alerts(&session(port, &rest), &[(there, &[9]), (back, &[7, 10])]);
    }
    // Port, question, answer, and the rules that see the question.
    type Exchange<'a> = (u16, &'a [u8], &'a [u8], &'a [u64]);
    let by_client: [Exchange<'_>; 2] = [(389, bind, bound, &[7]), (2049, &call, &reply, &[0])];
    for (port, asked, answer, to_server) in by_client {
        let rest: [(bool, u8, &[u8]); 6] = [
            (client, ACK, asked),
            (server, ACK, b""),
            (server, ACK, answer),
            (client, ACK, b""),
            (server, ACK, b""),
            (client, ACK, b""),
        ];
        assert_alerts(&session(port, &rest), &[(there, to_server), (back, &[8])]);
    }
    // Bytes of the client are lost, and FTP can't continue: one packet of these is not there.
    let rest: [(bool, u8, &[u8]); 11] = [
        (server, ACK, b"220 x.y\r\n"),
        (client, ACK, b""),
        (client, ACK, b"USER a\r\n"),
        (server, ACK, b""),
        (server, ACK, b"331 ok\r\n"),
        (client, ACK, b""),
        (client, ACK, b"01234567890123456789"),
        (client, ACK, b"PASS b\r\n"),
        (server, ACK, b""),
        (client, ACK, b""),
        (server, ACK, b""),
    ];
    let mut packets = session(21, &rest);
    packets.remove(9);
    assert_alerts(&packets, &[(there, &[0]), (back, &[11])]);
    // A body that is long enough to be inspected: 32 KiB, where the configuration says nothing.
    let (kib, head) = ([b'y'; 1024], b"HTTP/1.1 200 OK\r\nContent-Length: 150000\r\n\r\n");
    let mut rest: Vec<(bool, u8, &[u8])> = vec![(client, ACK, REQUEST), (server, ACK, b"")];
    let pieces =
        [head.as_slice()].into_iter().chain([kib.as_slice(); 40]).chain([b"a".as_slice(); 5]);
    rest.extend(pieces.flat_map(|piece| [(server, ACK, piece), (client, ACK, b"".as_slice())]));
    let by_amount = (14..69).step_by(6);
    let expected: Vec<u64> = by_amount.chain((72..97).step_by(2)).chain([0]).collect();
    assert_alerts(&session(80, &rest), &[(back, &expected)]);
}

/// As in Suricata 8.0.7 (`docs/semantics.md`, "A protocol that changes" and "HTTP/1").
#[test]
fn headers_of_a_connect_and_the_port_it_names() {
    let (client, server) = (true, false);
    let connect = b"CONNECT foo:25 HTTP/1.1\r\nHost: foo\r\n\r\n";
    let refused = b"HTTP/1.1 407 NO\r\nContent-Length: 0\r\n\r\n";
    let rest: [(bool, u8, &[u8]); 8] = [
        (client, ACK, connect),
        (server, ACK, b""),
        (server, ACK, refused),
        (client, ACK, b""),
        (client, ACK, b""),
        (client, ACK, REQUEST),
        (server, ACK, b""),
        (client, ACK, b""),
    ];
    let headers = "http http.header; content:\"foo\"; flow:to_server;";
    let raw = "http http.header.raw; content:\"foo\"; flow:to_server;";
    let method = "http http.method; content:\"CONN\";";
    assert_alerts(&session(8240, &rest), &[(headers, &[11, 11]), (raw, &[11, 11]), (method, &[7])]);
    let greeting = |port: &str| {
        let connect = format!("CONNECT foo:{port} HTTP/1.0\r\n\r\n");
        let rest: [(bool, u8, &[u8]); 10] = [
            (client, ACK, connect.as_bytes()),
            (server, ACK, b""),
            (server, ACK, b"HTTP/1.0 200 OK\r\n\r\n"),
            (client, ACK, b""),
            (server, ACK, b"220 foo.bar hi\r\n"),
            (client, ACK, b""),
            (client, ACK, b"HELO abcd\r\n"),
            (server, ACK, b""),
            (server, ACK, b"250 ok\r\n"),
            (client, ACK, b""),
        ];
        session(8240, &rest)
    };
    let start = "http http.start; content:\"foo\";";
    let smtp = "smtp stream_size:server,>,0;";
    assert_alerts(&greeting("25"), &[(smtp, &[9, 10, 11, 12, 13]), (start, &[]), (method, &[0])]);
    assert_alerts(&greeting("9999"), &[(smtp, &[11, 12, 13])]);
}

/// As in Suricata 8.0.7 (`docs/semantics.md`, "HTTP/1").
#[test]
fn events_of_http_are_asked_to_the_client_once_it_is_answered() {
    let (client, server) = (true, false);
    let event = "http app-layer-event:http.request_field_missing_colon;";
    let begin: &[u8] = b"GET / HTTP/1.1\r\nfoo\r\n";
    let mut rest = vec![(client, ACK, begin), (server, ACK, b"")];
    let more: [(bool, u8, &[u8]); 2] = [(client, ACK, b"bar\r\n"), (server, ACK, b"")];
    assert_alerts(&session(80, &[rest.as_slice(), &more].concat()), &[(event, &[0, 0])]);
    rest.extend([(server, ACK, ANSWER), (client, ACK, b"")]);
    assert_alerts(&session(80, &[rest.as_slice(), &more].concat()), &[(event, &[9, 0])]);
}

/// `tos` is a field of IPv4: it never matches the traffic class of IPv6, as in Suricata 8.0.7.
#[test]
fn tos_is_of_ipv4() {
    let mut packet = vec![0x60, 0, 0, 0, 0, 12, 17, 64];
    packet.extend([0xfd; 32]);
    packet.extend([0x0f, 0xa0, 0, 9, 0, 12, 0, 0, 1, 2, 3, 4]);
    let packets = [packet, udp((1, 2), (4000, 9), b"abcd")];
    assert_alerts(&packets, &[("ip tos:0;", &[2]), ("ip tos:!3;", &[2]), ("ip ttl:64;", &[1, 2])]);
}

/// An error message of ICMP belongs to the flow that it is about, and rules on ICMP are asked about it.
#[test]
fn rules_on_icmp_see_errors_about_other_flows() {
    let asked = udp((1, 2), (4000, 9), b"abcd");
    let error = [&[3, 1, 0, 0, 0, 0, 0, 0], asked.as_slice()].concat();
    let packets = [asked.clone(), asked, ipv4(1, (9, 1), &error)];
    assert_alerts(&packets, &[("icmp itype:3;", &[3]), ("udp ttl:64;", &[1, 2])]);
}
