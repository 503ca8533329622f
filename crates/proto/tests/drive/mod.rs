//! A small driver for parsers: captures in, log records out.
//!
//! It stands in for the sensor's own packet, flow and detection engines so that parsers are tested on
//! their own against what Suricata logged for the same capture: Ethernet, IP, UDP, TCP in order, no
//! fragments, no tunnels, no overlaps.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use gabion_proto::detect::Probe;
use gabion_proto::{Endpoints, Input, LogOptions, Outcome, ParseContext, Parser, Requirements};
use gabion_proto::{Protocol, registry};
use gabion_record::applayer::Transport;
use gabion_record::json::Json;
use gabion_record::{Addr, Direction, Tree};
use std::collections::{BTreeMap, HashMap};

/// One record as logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// Event type, which is also the key of the object.
    pub kind: &'static str,
    /// The object.
    pub object: String,
    /// Port and address of the record's source.
    pub source: String,
}

/// What a capture gave.
#[derive(Debug, Default)]
pub struct Run {
    /// Records in the order they were due.
    pub records: Vec<Logged>,
    /// Events raised: protocol, name, and port of the client.
    pub events: Vec<(&'static str, &'static str, u16)>,
    /// Progress at the end, to server and to client: protocol, port of the client, states.
    pub progress: Vec<(&'static str, u16, [u8; 2])>,
    /// Directions that ended with an error.
    pub errors: usize,
}

/// How to drive.
#[derive(Clone, Copy, Default)]
pub struct How<'a> {
    /// Configuration of a record by event type.
    pub config: &'a [(&'static str, Tree)],
    /// What parsers must compute.
    pub requirements: Requirements,
    /// Stream data is handed over in pieces of at most this many bytes (0: as it comes).
    pub piece: usize,
    /// Settings by protocol.
    pub settings: &'a [(&'static str, Tree)],
}

struct Half {
    next: Option<u32>,
    later: BTreeMap<u32, Vec<u8>>,
    pending: Vec<u8>,
    needed: usize,
    is_dead: bool,
}

struct Flow {
    ends: Endpoints,
    halves: [Half; 2],
    parser: Option<(&'static Protocol, Box<dyn Parser>)>,
    failed: [bool; 2],
    logged: Vec<u64>,
    events: HashMap<u64, usize>,
    has_syn: bool,
    /// Time of the last packet, and whether both sides have sent.
    last: (u64, bool),
    progress: [u8; 2],
}

type Key = (Addr, u16, Addr, u16, bool);

/// Drives all flows of a capture.
pub fn drive(capture: &[u8], how: How<'_>) -> Run {
    let mut run = Run::default();
    let mut flows: Vec<Flow> = Vec::new();
    let mut index: HashMap<Key, (usize, bool)> = HashMap::new();
    for (ts, frame) in frames(capture) {
        let Some(p) = decode(frame) else { continue };
        let key = (p.src, p.sport, p.dst, p.dport, p.is_tcp);
        let is_new = p.is_tcp && p.flags & 0x12 == 0x02;
        if is_new
            && let Some((at, _)) = index.get(&key)
            && flows[*at].halves[0].next.is_some()
        {
            let at = *at;
            if flows[at].halves[1].next.is_some() {
                close(&mut flows[at], &mut run, how, ts);
                index.remove(&key);
            }
        }
        let (at, is_client) = *index.entry(key).or_insert_with(|| {
            flows.push(Flow::new(&p));
            (flows.len() - 1, true)
        });
        if is_client {
            index.entry((p.dst, p.dport, p.src, p.sport, p.is_tcp)).or_insert((at, false));
        }
        // Suricata's UDP timeouts: 30 s before an answer, 300 s after.
        let (last, is_both) = flows[at].last;
        let limit = if is_both { 300 } else { 30 } * 1_000_000_000;
        if !p.is_tcp && last != 0 && ts > last.saturating_add(limit) {
            close(&mut flows[at], &mut run, how, ts);
            flows.push(Flow::new(&p));
            let at = flows.len() - 1;
            index.insert(key, (at, true));
            index.insert((p.dst, p.dport, p.src, p.sport, p.is_tcp), (at, false));
        }
        let (at, is_client) = index[&key];
        flows[at].last = (ts.max(1), flows[at].last.1 || !is_client);
        let direction = if is_client { Direction::ToServer } else { Direction::ToClient };
        let flow = &mut flows[at];
        if p.is_tcp {
            flow.segment(&p, direction, &mut run, how, ts);
        } else if !p.payload.is_empty() {
            let direction = flow.facing(direction, &p);
            flow.datagram(p.payload, direction, &mut run, how, ts);
        }
    }
    for flow in &mut flows {
        close(flow, &mut run, how, 0);
    }
    run
}

fn close(flow: &mut Flow, run: &mut Run, how: How<'_>, ts: u64) {
    for direction in Direction::BOTH {
        if flow.ends.is_tcp {
            flow.give(direction, &[], true, run, how, ts);
        }
        if let Some((_, parser)) = &mut flow.parser
            && !flow.halves[direction.index()].is_dead
        {
            parser.finish(direction);
        }
    }
    flow.collect(run, how, true);
    if let Some((protocol, _)) = &flow.parser {
        run.progress.push((protocol.table.name, flow.ends.client_port, flow.progress));
    }
}

impl Flow {
    fn new(p: &Packet<'_>) -> Flow {
        let half = || Half {
            next: None,
            later: BTreeMap::new(),
            pending: Vec::new(),
            needed: 0,
            is_dead: false,
        };
        Flow {
            ends: Endpoints {
                ip_version: p.version,
                client: p.src,
                server: p.dst,
                client_port: p.sport,
                server_port: p.dport,
                is_tcp: p.is_tcp,
            },
            halves: [half(), half()],
            parser: None,
            failed: [false; 2],
            logged: Vec::new(),
            events: HashMap::new(),
            has_syn: false,
            last: (0, false),
            progress: [0; 2],
        }
    }

    /// The direction, after the flow may have been turned round.
    fn facing(&self, direction: Direction, p: &Packet<'_>) -> Direction {
        let is_client = p.src == self.ends.client && p.sport == self.ends.client_port;
        if p.src == p.dst && p.sport == p.dport {
            direction
        } else if is_client {
            Direction::ToServer
        } else {
            Direction::ToClient
        }
    }

    fn turn(&mut self) {
        let e = &mut self.ends;
        std::mem::swap(&mut e.client, &mut e.server);
        std::mem::swap(&mut e.client_port, &mut e.server_port);
    }

    fn segment(&mut self, p: &Packet<'_>, d: Direction, run: &mut Run, how: How<'_>, ts: u64) {
        let half = &mut self.halves[d.index()];
        let mut seq = p.seq;
        if p.flags & 2 != 0 {
            seq = seq.wrapping_add(1);
            half.next = Some(seq);
            self.has_syn = true;
        }
        let Some(mut next) = half.next.filter(|_| self.has_syn) else { return };
        if !p.payload.is_empty() {
            half.later.entry(seq).or_insert_with(|| p.payload.to_vec());
        }
        let mut ready = Vec::new();
        while let Some((&at, data)) = half
            .later
            .iter()
            .find(|(at, data)| {
                let ahead = next.wrapping_sub(**at) as i32;
                ahead >= 0 && (ahead as usize) <= data.len()
            })
            .map(|(at, data)| (at, data.clone()))
        {
            let skip = next.wrapping_sub(at) as usize;
            ready.extend_from_slice(&data[skip..]);
            next = next.wrapping_add((data.len() - skip) as u32);
            half.later.remove(&at);
        }
        half.next = Some(next);
        if !ready.is_empty() {
            self.give(d, &ready, false, run, how, ts);
        }
    }

    fn detect(&mut self, d: Direction, bytes: &[u8], transport: Transport) -> Option<Direction> {
        if self.failed[d.index()] {
            return None;
        }
        let mut is_open = false;
        for protocol in registry() {
            let hit = protocol
                .patterns
                .iter()
                .any(|p| p.direction == d && transport == Transport::Tcp && p.matches(bytes));
            let mut answer = if hit { Probe::Yes } else { Probe::No };
            for probe in protocol.probes {
                let list = probe.ports.trim_matches(['[', ']']);
                let ports = list.split(',').filter_map(|t| t.parse::<u16>().ok());
                // Without midstream pick-up Suricata probes by the server's port only.
                let mut ports = ports.filter(|p| *p == self.ends.server_port);
                if probe.transport == transport && ports.next().is_some() && answer == Probe::No {
                    answer = (probe.probe)(bytes, d);
                }
            }
            match answer {
                Probe::Yes | Probe::YesReversed => {
                    let config = how_settings(protocol);
                    let settings = (protocol.configure)(config.as_ref()).expect("settings");
                    self.parser = Some((protocol, (protocol.open)(&settings, transport)));
                    if answer == Probe::YesReversed && transport == Transport::Udp {
                        self.turn();
                        return Some(d.opposite());
                    }
                    return Some(d);
                }
                Probe::More => is_open = true,
                Probe::No | Probe::YesIfOther => {
                    is_open |= transport == Transport::Tcp && bytes.len() < 16
                }
            }
        }
        self.failed[d.index()] = !is_open;
        None
    }

    fn datagram(&mut self, bytes: &[u8], d: Direction, run: &mut Run, how: How<'_>, ts: u64) {
        let mut d = d;
        if self.parser.is_none() {
            let Some(found) = self.detect(d, bytes, Transport::Udp) else { return };
            d = found;
        }
        if !self.halves[d.index()].is_dead {
            let outcome = self.call(d, bytes, false, how, ts);
            run.errors += usize::from(outcome == Outcome::Error);
            self.collect(run, how, false);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "bytes with all that is known of them")]
    fn give(&mut self, d: Direction, new: &[u8], eof: bool, run: &mut Run, how: How<'_>, ts: u64) {
        self.halves[d.index()].pending.extend_from_slice(new);
        if self.parser.is_none() {
            let bytes = std::mem::take(&mut self.halves[d.index()].pending);
            let found = self.detect(d, &bytes, Transport::Tcp);
            self.halves[d.index()].pending = bytes;
            if found.is_none() {
                return;
            }
            for direction in [d.opposite(), d] {
                self.push(direction, false, run, how, ts);
            }
            return;
        }
        self.push(d, eof, run, how, ts);
    }

    fn push(&mut self, d: Direction, eof: bool, run: &mut Run, how: How<'_>, ts: u64) {
        let all = std::mem::take(&mut self.halves[d.index()].pending);
        let mut kept: Vec<u8> = Vec::new();
        let piece = if how.piece == 0 { all.len().max(1) } else { how.piece };
        let mut pieces: Vec<&[u8]> = all.chunks(piece).collect();
        if pieces.is_empty() && eof {
            pieces.push(&[]);
        }
        let last = pieces.len();
        for (i, bytes) in pieces.into_iter().enumerate() {
            if self.halves[d.index()].is_dead {
                return;
            }
            kept.extend_from_slice(bytes);
            if kept.len() < self.halves[d.index()].needed && !(eof && i + 1 == last) {
                continue;
            }
            match self.call(d, &kept, eof && i + 1 == last, how, ts) {
                Outcome::Done => {
                    kept.clear();
                    self.halves[d.index()].needed = 0;
                }
                Outcome::Incomplete { consumed, needed } => {
                    kept.drain(..consumed);
                    assert!(needed > kept.len(), "waits for what is there");
                    self.halves[d.index()].needed = needed;
                }
                Outcome::Error => {
                    run.errors += 1;
                    self.halves.iter_mut().for_each(|h| h.is_dead = true);
                }
            }
            self.collect(run, how, false);
        }
        self.halves[d.index()].pending = kept;
    }

    fn call(&mut self, d: Direction, bytes: &[u8], eof: bool, how: How<'_>, ts: u64) -> Outcome {
        let ends = self.ends;
        let Some((_, parser)) = &mut self.parser else { return Outcome::Done };
        let mut cx = ParseContext::new(ts, d, &ends);
        cx.requirements = how.requirements;
        parser.parse(&mut cx, Input::Data { bytes, eof })
    }

    /// Logs what is due and frees what is done.
    fn collect(&mut self, run: &mut Run, how: How<'_>, at_end: bool) {
        let Some((protocol, parser)) = &mut self.parser else { return };
        for id in parser.first_tx_id()..parser.next_tx_id() {
            let Some(tx) = parser.tx(id) else { continue };
            for d in Direction::BOTH {
                let reached = &mut self.progress[d.index()];
                *reached = tx.progress(d).max(*reached);
            }
            let seen = self.events.entry(id).or_default();
            for code in tx.events().iter().skip(*seen) {
                let def = protocol.table.events.iter().find(|e| e.code == *code);
                let name = def.map_or("?", |e| e.name);
                run.events.push((protocol.table.name, name, self.ends.client_port));
            }
            *seen = tx.events().len();
            let reached = |d: Direction| {
                tx.only().is_some_and(|o| o != d) || tx.progress(d) >= protocol.table.last_state(d)
            };
            let is_done = Direction::BOTH.into_iter().all(reached);
            let is_due = is_done
                || at_end
                || tx.log_progress().is_some_and(|(s, c)| {
                    tx.progress(Direction::ToServer) >= s && tx.progress(Direction::ToClient) >= c
                });
            if is_due && !self.logged.contains(&id) {
                self.logged.push(id);
                let kind = tx.event_type().unwrap_or(protocol.event_type);
                let config = how.config.iter().find(|(k, _)| *k == kind).map(|(_, t)| t);
                let mut options = LogOptions { config, ..LogOptions::default() };
                for part in 0..tx.log_parts(options) {
                    options.part = part;
                    let mut json = Json::new();
                    json.open();
                    if tx.log(&mut json, options) {
                        json.close();
                        let object =
                            String::from_utf8(json.take_bytes()).expect("records are text");
                        let e = &self.ends;
                        let source = match tx.log_direction(options) {
                            Direction::ToServer => (e.client, e.client_port),
                            Direction::ToClient => (e.server, e.server_port),
                        };
                        let source = format!("{} {}", source.0.text(e.ip_version), source.1);
                        run.records.push(Logged { kind, object, source });
                    }
                }
            }
            if is_done {
                parser.free(id);
            }
        }
    }
}

fn how_settings(_: &Protocol) -> Option<Tree> {
    None
}

struct Packet<'a> {
    version: u8,
    src: Addr,
    dst: Addr,
    sport: u16,
    dport: u16,
    is_tcp: bool,
    flags: u8,
    seq: u32,
    payload: &'a [u8],
}

fn be16(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(b.get(at..at + 2)?.try_into().ok()?))
}

fn decode((link, frame): (u32, &[u8])) -> Option<Packet<'_>> {
    let ip = match link {
        0 | 108 => frame.get(4..)?,
        1 => {
            let (mut at, mut kind) = (14, be16(frame, 12)?);
            while matches!(kind, 0x8100 | 0x88a8 | 0x9100) {
                kind = be16(frame, at + 2)?;
                at += 4;
            }
            if !matches!(kind, 0x0800 | 0x86dd) {
                return None;
            }
            frame.get(at..)?
        }
        12 | 101 | 228 | 229 => frame,
        113 => frame.get(16..)?,
        276 => frame.get(20..)?,
        _ => return None,
    };
    let (version, proto, src, dst, body) = match ip.first()? >> 4 {
        4 => {
            let head = usize::from(ip[0] & 15) * 4;
            let len = usize::from(be16(ip, 2)?);
            if be16(ip, 6)? & 0x3fff != 0 {
                return None;
            }
            let a = |at: usize| Some(Addr::v4(ip.get(at..at + 4)?.try_into().ok()?));
            (4, *ip.get(9)?, a(12)?, a(16)?, ip.get(head..len.min(ip.len()))?)
        }
        6 => {
            let len = 40 + usize::from(be16(ip, 4)?);
            let a = |at: usize| Some(Addr::v6(ip.get(at..at + 16)?.try_into().ok()?));
            (6, *ip.get(6)?, a(8)?, a(24)?, ip.get(40..len.min(ip.len()))?)
        }
        _ => return None,
    };
    let (sport, dport) = (be16(body, 0)?, be16(body, 2)?);
    let (is_tcp, flags, seq, payload) = match proto {
        6 => {
            let head = usize::from(body.get(12)? >> 4) * 4;
            let seq = u32::from_be_bytes(body.get(4..8)?.try_into().ok()?);
            (true, *body.get(13)?, seq, body.get(head..)?)
        }
        17 => {
            let len = usize::from(be16(body, 4)?);
            (false, 0, 0, body.get(8..len)?)
        }
        _ => return None,
    };
    Some(Packet { version, src, dst, sport, dport, is_tcp, flags, seq, payload })
}

type Frame<'a> = (u64, (u32, &'a [u8]));

/// Frames of a pcap or pcapng with their link type.
pub fn frames(b: &[u8]) -> Vec<Frame<'_>> {
    match b.get(..4) {
        Some([0x0a, 0x0d, 0x0d, 0x0a]) => pcapng(b),
        Some([0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1]) => pcap(b, true),
        Some([0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d]) => pcap(b, false),
        _ => Vec::new(),
    }
}

fn u32_at(b: &[u8], at: usize, is_little: bool) -> Option<u32> {
    let four: [u8; 4] = b.get(at..at + 4)?.try_into().ok()?;
    Some(if is_little { u32::from_le_bytes(four) } else { u32::from_be_bytes(four) })
}

fn pcap(b: &[u8], is_little: bool) -> Vec<Frame<'_>> {
    let mut out = Vec::new();
    let Some(link) = u32_at(b, 20, is_little) else { return out };
    let mut at = 24;
    while let (Some(secs), Some(len)) = (u32_at(b, at, is_little), u32_at(b, at + 8, is_little)) {
        let Some(frame) = b.get(at + 16..at + 16 + len as usize) else { break };
        out.push((u64::from(secs) * 1_000_000_000, (link & 0xffff, frame)));
        at += 16 + len as usize;
    }
    out
}

fn pcapng(b: &[u8]) -> Vec<Frame<'_>> {
    let mut out = Vec::new();
    let (mut at, mut links, mut little) = (0, Vec::new(), true);
    while let Some(kind) = u32_at(b, at, little) {
        if kind == 0x0a0d_0d0a {
            little = b.get(at + 8..at + 12) == Some(&[0x4d, 0x3c, 0x2b, 0x1a]);
            links.clear();
        }
        let Some(len) = u32_at(b, at + 4, little).filter(|n| *n >= 12) else { break };
        let Some(block) = b.get(at..at + len as usize) else { break };
        match kind {
            1 => links.push(u32_at(block, 8, little).unwrap_or(0) & 0xffff),
            6 => {
                let (i, n) = (u32_at(block, 8, little), u32_at(block, 20, little));
                if let (Some(i), Some(n)) = (i, n)
                    && let (Some(link), Some(frame)) =
                        (links.get(i as usize), block.get(28..28 + n as usize))
                {
                    let (high, low) = (u32_at(block, 12, little), u32_at(block, 16, little));
                    let ticks = u64::from(high.unwrap_or(0)) << 32 | u64::from(low.unwrap_or(0));
                    out.push((ticks.saturating_mul(1000), (*link, frame)));
                }
            }
            3 => {
                if let (Some(link), Some(n)) = (links.first(), u32_at(block, 8, little)) {
                    let to = (12 + n as usize).min(block.len() - 4);
                    out.push((0, (*link, block.get(12..to).unwrap_or_default())));
                }
            }
            _ => {}
        }
        at += len as usize;
    }
    out
}
