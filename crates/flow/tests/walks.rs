//! Random walks of two hosts through handshake, transfer and closing, with Suricata's events for
//! each packet and its final states (`data/walks.tsv`, recorded from Suricata 8.0.7).

use gabion_flow::tcp::flags;
use gabion_flow::*;
use gabion_record::budget::Budget;
use gabion_record::{Addr, Direction, IpProto, Tree};
use std::collections::BTreeSet;

const HOSTS: [(Addr, u16, u32); 2] = [
    (Addr::v4([10, 0, 0, 1]), 20_000, 0x1000_0000),
    (Addr::v4([192, 0, 2, 1]), 4_444, 0x2000_0000),
];

/// One packet of a walk, parsed from the file.
struct WalkPacket {
    from: usize,
    flags: u8,
    seq: u32,
    ack: u32,
    len: usize,
    window: u16,
    ts: Option<(u32, u32)>,
}

impl WalkPacket {
    fn parse(text: &str) -> WalkPacket {
        let mut parts = text.split_whitespace();
        let mut next = || parts.next().unwrap();
        let from = usize::from(next() == "S");
        let flags = next().chars().fold(0, |f, c| {
            f | match c {
                'S' => flags::SYN,
                'A' => flags::ACK,
                'F' => flags::FIN,
                'R' => flags::RST,
                _ => panic!("{text}"),
            }
        });
        let number = |side: usize, text: &str| match text {
            "-" => 0,
            n => HOSTS[side].2.wrapping_add(n.parse::<i32>().unwrap() as u32),
        };
        let (seq, ack) = (number(from, next()), number(1 - from, next()));
        let mut packet = WalkPacket { from, flags, seq, ack, len: 0, window: 8192, ts: None };
        for part in parts {
            if let Some(w) = part.strip_prefix("w=") {
                packet.window = w.parse().unwrap();
            } else if let Some(ts) = part.strip_prefix("ts=") {
                let (value, echo) = ts.split_once(',').unwrap();
                packet.ts = Some((value.parse().unwrap(), echo.parse().unwrap()));
            } else {
                packet.len = part.parse().unwrap();
            }
        }
        packet
    }
}

struct Hosts {
    table: FlowTable<()>,
    tracker: TcpTracker,
    ts_ns: u64,
    states: Vec<&'static str>,
}

impl Hosts {
    fn new(mode: &str) -> Hosts {
        let mut tree = Tree::default();
        tree.set("host-os-policy.windows.0", "0.0.0.0/0");
        match mode {
            "midstream" => tree.set("stream.midstream", "yes"),
            "async" => tree.set("stream.async-oneside", "yes"),
            "plain" | "inline" => {}
            other => panic!("{other}"),
        }
        let cfg = StreamConfig::from_tree(&tree, mode == "inline").unwrap();
        let budget = || Budget::standalone("walk", 1 << 24);
        let opens = cfg.midstream || cfg.async_oneside;
        Hosts {
            table: FlowTable::new(FlowConfig::default(), budget(), 3, opens),
            tracker: TcpTracker::new(cfg, budget(), budget()),
            ts_ns: 1_700_000_000_000_000_000,
            states: Vec::new(),
        }
    }

    fn end(&mut self, flow: &Flow<()>) {
        self.states.push(flow.tcp.as_ref().map_or("none", |t| t.state().name()));
    }

    /// Sends a packet; returns the names of its events.
    fn send(&mut self, p: &WalkPacket) -> BTreeSet<&'static str> {
        self.ts_ns += 1_000_000;
        let (src, dst) = (HOSTS[p.from], HOSTS[1 - p.from]);
        let key = PacketKey {
            src: src.0,
            dst: dst.0,
            sport: src.1,
            dport: dst.1,
            proto: IpProto::TCP,
            ip_version: 4,
            ..PacketKey::default()
        };
        let facts = PacketFacts {
            ts_ns: self.ts_ns,
            clock_ns: self.ts_ns,
            tcp: Some((p.flags, p.seq)),
            ..PacketFacts::default()
        };
        let Lookup::Flow { idx, dir, .. } = self.table.packet(&key, &facts) else { panic!() };
        while let Some((flow, _)) = self.table.pop_displaced() {
            self.end(&flow);
        }
        let payload = vec![b'a'; p.len];
        let seg = TcpSegment {
            seq: p.seq,
            ack: p.ack,
            flags: p.flags,
            window: p.window,
            options: TcpOptions {
                ts_val: p.ts.map(|t| t.0),
                ts_ecr: p.ts.map_or(0, |t| t.1),
                ..TcpOptions::default()
            },
            payload: &payload,
            ts_ns: self.ts_ns,
            checksum_ok: true,
            src: src.0,
            dst: dst.0,
            ip_version: 4,
            ..TcpSegment::default()
        };
        let flow = self.table.get_mut(idx).unwrap();
        let verdict = self.tracker.handle(&mut flow.tcp, &seg, dir);
        let dir = if verdict.must_swap {
            flow.swap_directions();
            dir.opposite()
        } else {
            dir
        };
        if let Some(ssn) = flow.tcp.as_deref_mut() {
            Direction::BOTH.into_iter().for_each(|d| ssn.stream_mut(d).no_raw());
            for d in verdict.update.directions(dir) {
                detect_protocol(ssn, d);
            }
            self.tracker.trim(ssn, dir);
        }
        if let Some(state) = verdict.flow_state {
            self.table.set_state(idx, state);
        }
        verdict
            .events
            .iter()
            .filter(|e| *e != StreamEvent::OverlapDifferentData)
            .map(|e| e.name())
            .collect()
    }
}

/// Protocol detection in too little data consumes nothing; a gap ends it.
fn detect_protocol(ssn: &mut TcpSession, dir: Direction) {
    loop {
        match ssn.stream_mut(dir).app_next() {
            AppChunk::Data(_) | AppChunk::Eof => {}
            AppChunk::Gap(_) => return ssn.disable_app(),
            AppChunk::None => return,
        }
    }
}

#[test]
fn every_packet_has_the_events_and_every_flow_the_state_of_suricata() {
    let mut walks = 0;
    for line in include_str!("data/walks.tsv").lines().filter(|l| !l.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [mode, packets, events, states] = fields[..] else { panic!("{line}") };
        let mut hosts = Hosts::new(mode);
        for (packet, want) in packets.split(';').zip(events.split(';')) {
            let got = hosts.send(&WalkPacket::parse(packet));
            let want: BTreeSet<&str> = want.split(',').filter(|e| !e.is_empty()).collect();
            assert_eq!(got, want, "{mode}: {packet} in {packets}");
        }
        let mut left = Vec::new();
        hosts.table.drain(&mut |flow, _| left.push(flow));
        left.iter().for_each(|flow| hosts.end(flow));
        hosts.states.sort_unstable();
        assert_eq!(hosts.states.join(" "), states, "{mode}: {packets}");
        walks += 1;
    }
    assert!(walks > 600);
}
