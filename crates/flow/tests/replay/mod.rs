//! A small engine that runs a capture through decoders, defragmentation, flow table and TCP
//! tracker, for tests that compare with Suricata. Its only parser consumes everything.

use gabion_capture::Source;
use gabion_flow::*;
use gabion_packet::{
    DecodeConfig, DecodeCounters, Decoded, Flags, Link, Network, PacketSet, Tcp, checksum, decode,
    decode_ip_reassembled,
};
use gabion_record::Direction;
use gabion_record::budget::Budget;
use std::path::Path;

/// Suricata leaves out frames that are longer than an IP packet with a link header.
const PEER_FRAME_MAX: usize = 65_604;

/// The observations of a run.
#[derive(Default)]
pub(crate) struct Seen {
    /// Packet number (0 for packets without a frame), direction and flow of each event.
    pub(crate) events: Vec<(u64, StreamEvent, Option<u64>)>,
    /// Fragment events.
    pub(crate) frags: Vec<(u64, FragEvent, u8)>,
    /// Flows in the order in which they ended.
    pub(crate) flows: Vec<(Flow<()>, EndReason)>,
    /// Whether the application layer consumes everything, or nothing.
    pub(crate) takes_all: bool,
    /// Stream bytes passed to the application layer, per flow id and direction.
    pub(crate) app: Vec<(u64, Direction, u64, u64)>,
}

/// Runs one capture. Returns false if it cannot be read.
pub(crate) fn replay(path: &Path, cfg: &StreamConfig, seen: &mut Seen) -> bool {
    let Ok(file) = std::fs::File::open(path) else { return false };
    let Ok(mut source) = Source::from_file(file) else { return false };
    let mut engine = Engine::new(cfg.clone());
    let mut refs = Vec::new();
    let mut link_first = None;
    let mut number = 0;
    while let Some(block) = source.next_block(256, &mut refs) {
        for frame in &refs {
            let frame = frame.frame(&block.bytes);
            if *link_first.get_or_insert(frame.link) != frame.link {
                engine.finish(seen);
                return true;
            }
            let Some(link) = Link::from_linktype(u32::from(frame.link)) else { return false };
            number += 1;
            if frame.data.len() <= PEER_FRAME_MAX {
                engine.frame(link, frame.data, frame.ts_ns, number, seen);
            }
        }
        refs.clear();
    }
    engine.finish(seen);
    true
}

struct Engine {
    table: FlowTable<()>,
    tracker: TcpTracker,
    defrag: Defragmenter,
    set: PacketSet,
    inside: PacketSet,
    counters: DecodeCounters,
    config: DecodeConfig,
}

impl Engine {
    fn new(cfg: StreamConfig) -> Engine {
        let budget = |name| Budget::standalone(name, 256 << 20);
        let opens = cfg.midstream || cfg.async_oneside;
        let defrag = DefragConfig { hosts: cfg.hosts.clone(), ..DefragConfig::default() };
        Engine {
            table: FlowTable::new(FlowConfig::default(), budget("flow"), 7, opens),
            tracker: TcpTracker::new(cfg, budget("ssn"), budget("data")),
            defrag: Defragmenter::new(defrag, budget("defrag")),
            set: PacketSet::new(),
            inside: PacketSet::new(),
            counters: DecodeCounters::default(),
            config: DecodeConfig::default(),
        }
    }

    fn frame(&mut self, link: Link, frame: &[u8], ts_ns: u64, number: u64, seen: &mut Seen) {
        let mut set = std::mem::take(&mut self.set);
        decode(&mut set, &mut self.counters, &self.config, link, frame);
        let mut whole = Vec::new();
        for (at, p) in set.in_processing_order().enumerate() {
            let n = if at + 1 == set.count() { number } else { 0 };
            self.packet(p, frame, 0, ts_ns, n, seen);
            whole.extend(self.fragment(p, frame, ts_ns, number, seen));
        }
        self.set = set;
        while let Some((fragment, bytes)) = whole.pop() {
            let mut inside = std::mem::take(&mut self.inside);
            let usable = decode_ip_reassembled(
                &mut inside,
                &mut self.counters,
                &self.config,
                &fragment,
                &bytes,
            );
            if usable {
                for p in inside.iter() {
                    self.packet(p, &bytes, fragment.l3 - fragment.start, ts_ns, 0, seen);
                    whole.extend(self.fragment(p, &bytes, ts_ns, 0, seen));
                }
            }
            self.inside = inside;
        }
    }

    fn fragment(
        &mut self,
        p: &Decoded,
        frame: &[u8],
        ts_ns: u64,
        number: u64,
        seen: &mut Seen,
    ) -> Option<(Decoded, Vec<u8>)> {
        if !p.flags.has(Flags::FRAGMENT) {
            return None;
        }
        let v6 = p.network == Network::Ipv6;
        let header = if v6 {
            frame.get(p.l3 as usize..p.ext.fragment_at as usize)?
        } else {
            p.ip_header(frame)
        };
        let mut vlan = [0; 3];
        for (to, from) in vlan.iter_mut().zip(p.vlan_ids()) {
            *to = *from;
        }
        let out = self.defrag.fragment(&Fragment {
            src: p.src,
            dst: p.dst,
            ip_version: p.ip_version(),
            proto: if v6 { p.ext.fragment_next.into() } else { p.proto },
            id: p.ip_id,
            vlan,
            recursion: p.depth,
            offset: u32::from(p.fragment_offset),
            more: p.flags.has(Flags::MORE_FRAGMENTS),
            header,
            next_header_at: (p.ext.fragment_prev.wrapping_sub(p.l3)) as usize,
            payload: p.payload(frame),
            ts_ns,
            number,
        });
        if let Some(event) = out.event {
            seen.frags.push((number, event, p.ip_version()));
        }
        out.is_complete.then(|| (*p, self.defrag.datagram().to_vec()))
    }

    /// `link_len` is the length of the link headers of a reassembled packet, which Suricata counts.
    #[expect(clippy::too_many_arguments, reason = "a packet with all that its frame gives")]
    fn packet(
        &mut self,
        p: &Decoded,
        frame: &[u8],
        link_len: u32,
        ts_ns: u64,
        number: u64,
        seen: &mut Seen,
    ) {
        if !p.flags.has(Flags::WANTS_FLOW) {
            return;
        }
        let tcp = p.transport.tcp();
        let quoted = p.transport.icmp().and_then(|icmp| icmp.quoted).map(|q| quoted_key(p, &q));
        let facts = PacketFacts {
            ts_ns,
            clock_ns: ts_ns,
            bytes: p.len + link_len,
            ttl: p.ttl,
            tcp: tcp.map(|t| (t.flags, t.seq)),
            quoted,
            number,
        };
        let looked = self.table.packet(&packet_key(p), &facts);
        while let Some((flow, reason)) = self.table.pop_ended(ts_ns) {
            self.end(flow, reason, seen);
        }
        let (Lookup::Flow { idx, dir, .. }, Some(tcp)) = (looked, tcp) else { return };
        self.segment(idx, dir, p, tcp, frame, ts_ns, number, seen);
    }

    #[expect(clippy::too_many_arguments, reason = "a segment with all that its packet gives")]
    fn segment(
        &mut self,
        idx: FlowIdx,
        dir: Direction,
        p: &Decoded,
        tcp: &Tcp,
        frame: &[u8],
        ts_ns: u64,
        number: u64,
        seen: &mut Seen,
    ) {
        use gabion_packet::TcpOptions as O;
        let o = &tcp.options;
        let header = p.transport_header(frame);
        let sack_from = usize::from(o.sack_at);
        let sack = header.get(sack_from..sack_from + 8 * usize::from(o.sack_blocks));
        let seg = TcpSegment {
            seq: tcp.seq,
            ack: tcp.ack,
            flags: tcp.flags,
            window: tcp.window,
            urgent_pointer: tcp.urgent,
            options: TcpOptions {
                ts_val: o.has(O::TIMESTAMP).then_some(o.ts_value),
                ts_ecr: o.ts_echo,
                wscale: o.has(O::WINDOW_SCALE).then_some(o.window_scale),
                sack_ok: o.has(O::SACK_OK),
                sack: sack.unwrap_or_default(),
                fast_open: o.has(O::FAST_OPEN),
                signed: o.has(O::MD5) || o.has(O::AUTH),
            },
            payload: p.payload(frame),
            ts_ns,
            checksum_ok: self
                .tracker
                .config()
                .checksum_validation
                .then_some(())
                .is_none_or(|()| checksum::tcp_ok(p, frame) != Some(false)),
            src: p.src,
            dst: p.dst,
            ip_version: p.ip_version(),
            number,
        };
        let Some(flow) = self.table.get_mut(idx) else { return };
        let id = flow.id;
        let verdict = self.tracker.handle(&mut flow.tcp, &seg, dir);
        seen.events.extend(verdict.events.iter().map(|e| (number, e, Some(id))));
        if let Some(trigger) = verdict.exception {
            flow.note_exception(trigger);
        }
        let dir = if verdict.must_swap {
            flow.swap_directions();
            dir.opposite()
        } else {
            dir
        };
        if let Some(ssn) = flow.tcp.as_deref_mut() {
            for d in verdict.update.directions(dir) {
                run_app(ssn, d, id, number, seen);
            }
            if verdict.is_new_session {
                // No rule of these tests inspects the raw stream.
                Direction::BOTH.into_iter().for_each(|d| ssn.stream_mut(d).no_raw());
            }
            let s = ssn.stream_mut(dir);
            if let Some(next) = s.raw_views(2560, false).map(|v| v.next) {
                s.raw_advance(next);
            }
            self.tracker.trim(ssn, dir);
        }
        if let Some(state) = verdict.flow_state {
            self.table.set_state(idx, state);
        }
    }

    fn end(&mut self, mut flow: Flow<()>, reason: EndReason, seen: &mut Seen) {
        if let Some(ssn) = flow.tcp.as_deref_mut() {
            for d in ssn.finish() {
                run_app(ssn, d, flow.id, 0, seen);
            }
        }
        seen.flows.push((flow, reason));
    }

    fn finish(&mut self, seen: &mut Seen) {
        let mut ended = Vec::new();
        self.table.drain(&mut |flow, reason| ended.push((flow, reason)));
        for (flow, reason) in ended {
            self.end(flow, reason, seen);
        }
    }
}

/// Bytes in both directions after which Suricata ends protocol detection of random data.
const PROTOCOL_UNKNOWN_AFTER: usize = 32;

/// A parser that consumes everything at once, or protocol detection that fails.
fn run_app(ssn: &mut TcpSession, dir: Direction, id: u64, number: u64, seen: &mut Seen) {
    loop {
        let s = ssn.stream_mut(dir);
        match s.app_next() {
            AppChunk::Data(d) => {
                let n = d.len();
                seen.app.push((id, dir, number, n as u64));
                if seen.takes_all {
                    s.app_consume(n);
                }
            }
            AppChunk::Gap(_) => {
                seen.events.push((number, StreamEvent::SeqGap, Some(id)));
                if !seen.takes_all {
                    // A gap before the protocol is known ends its detection.
                    ssn.disable_app();
                    break;
                }
            }
            AppChunk::Eof => {}
            AppChunk::None => break,
        }
    }
    let unknown = |d| ssn.stream(d).app_peek().len() >= PROTOCOL_UNKNOWN_AFTER;
    if !seen.takes_all && Direction::BOTH.into_iter().all(unknown) {
        ssn.disable_app();
    }
}
