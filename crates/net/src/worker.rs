//! One worker: frames in, findings out.
//!
//! Order of a packet's way, as the peer's flow worker has it: decode (inner packets of tunnels
//! first), defragmentation, flow, TCP and streams, application layer, detection, records, release of
//! what is finished. Flows whose time is up end before the packet that shows it.

use crate::app::{AppCounters, Effects};
use crate::counters::NetCounters;
use crate::dealer::{FragmentFate, SpareSets, fragment_of};
use crate::detect::{Hit, RuleCosts, Scratch};
use crate::engine::Engine;
use crate::expectation::Expectations;
use crate::flow_state::NetFlow;
use crate::group::WorkerGroup;
use crate::keys::{endpoints, packet_key, quoted_key, segment};
use crate::ledgers::WorkerLedgers;
use crate::limits::{END_AT_A_TIME, MACS_PER_SIDE, reached};
use crate::memory::{MemoryPressure, WorkerBudgets};
use crate::ordered::{Ordered, Turn};
use crate::ranges::Ranges;
use crate::script::{OutputScripts, Scripts};
use crate::state::SharedState;
use crate::threshold::Thresholds;
use crate::view::PacketView;
use gabion_flow::{
    AppChunk, Defragmenter, EndReason, ExceptionPolicy, ExceptionTrigger, Flow, FlowIdx, FlowState,
    FlowTable, Lookup, PacketFacts, Stream, StreamEvent, TcpState, TcpTracker, TcpVerdict,
};
use gabion_matcher::regex::RegexScratch;
use gabion_packet::{DecodeCounters, Decoded, Flags, Link, Network, PacketSet};
use gabion_record::Direction;
use gabion_record::applayer::Transport;
use gabion_record::budget::Budget;
use gabion_record::eve::{NetSink, WireFacts, WireRecord};
use gabion_record::ledger::ShedReason;
use smallvec::SmallVec;
use std::sync::Arc;

/// One frame of a capture.
#[derive(Clone, Copy, Debug)]
pub struct FrameIn<'a> {
    /// Event time, nanoseconds since 1970.
    pub ts_ns: u64,
    /// The clock by which flows and all that waits time out, nanoseconds; never less than before. It
    /// is the event time unless that is stray.
    pub clock_ns: u64,
    /// The clock went on by so much at this frame that the flows it ends are counted.
    pub is_leap: bool,
    /// Number in the capture, from 1.
    pub number: u64,
    /// LINKTYPE.
    pub link: u16,
    /// Its checksums count as right ([`ChecksumSample`](crate::ChecksumSample)).
    pub ignores_checksums: bool,
    /// Length before a snap length cut it.
    pub wire_len: u32,
    /// The bytes.
    pub data: &'a [u8],
    /// What became of its fragments, where they were put together before frames were spread
    /// ([`Dealer`](crate::Dealer)); none where the worker is to do it.
    pub fragments: Option<&'a [FragmentFate]>,
}

/// A worker of the network engine.
pub struct Worker {
    flows: FlowTable<NetFlow>,
    core: Core,
    set: Option<Box<PacketSet>>,
    spare: SpareSets,
    defrag: Defragmenter,
    /// Fragments of the frame at hand so far.
    fragments_seen: usize,
}

/// All of a worker but its tables of flows and fragments.
pub(crate) struct Core {
    pub(crate) engine: Arc<Engine>,
    pub(crate) tcp: TcpTracker,
    /// Budget of what protocols keep.
    pub(crate) app: Budget,
    pub(crate) scratch: Scratch,
    pub(crate) regex: RegexScratch,
    pub(crate) scripts: Scripts,
    pub(crate) outputs: OutputScripts,
    pub(crate) shared: SharedState,
    pub(crate) thresholds: Ordered<Thresholds>,
    pub(crate) ranges: Ordered<Ranges>,
    pub(crate) turn: Option<Turn>,
    /// Packets with alerts so far.
    pub(crate) packets_alerted: u64,
    pub(crate) counters: NetCounters,
    pub(crate) ledgers: WorkerLedgers,
    expectations: Expectations,
    pub(crate) decode_counters: DecodeCounters,
    /// Link type of the capture at hand, for records that carry packets.
    pub(crate) link: u16,
    pub(crate) tags: crate::alert::Tags,
    pub(crate) now_ns: u64,
    /// The clock at the frame at hand.
    pub(crate) clock_ns: u64,
    /// Facts of the frame at hand, kept up only for packet logs.
    pub(crate) wire: WireFacts,
}

/// What became of a packet, gathered on its way.
#[derive(Default)]
pub(crate) struct Fate {
    /// Dropped, with the reason.
    pub(crate) drop: Option<&'static str>,
    /// Rejected: what was sent to whom.
    pub(crate) reject: Option<gabion_rules::Action>,
    pub(crate) passed: bool,
    /// No detection on it.
    pub(crate) skip_detection: bool,
    pub(crate) events: SmallVec<[StreamEvent; 4]>,
    pub(crate) detection_events: SmallVec<[&'static str; 2]>,
    /// It opens a connection with the ports of one before.
    pub(crate) reuses_ports: bool,
    /// The parser took bytes, by direction.
    pub(crate) fed: [bool; 2],
    /// Rules of the firewall that matched before flow or stream.
    pub(crate) early: Vec<Hit>,
    /// The firewall lets it through unless it is dropped.
    pub(crate) is_firewalled: bool,
}

impl Worker {
    /// A worker of this engine.
    pub fn new(engine: Arc<Engine>, budgets: WorkerBudgets) -> Worker {
        Worker::make(engine, budgets, None)
    }

    /// Worker `n` of a group. It must be shown every frame of the stream: its own by
    /// [`Worker::frame`], those of others by [`Worker::advance_clock`].
    pub fn in_group(
        engine: Arc<Engine>,
        budgets: WorkerBudgets,
        group: &WorkerGroup,
        n: usize,
    ) -> Worker {
        Worker::make(engine, budgets, Some((group, n)))
    }

    fn make(
        engine: Arc<Engine>,
        budgets: WorkerBudgets,
        group: Option<(&WorkerGroup, usize)>,
    ) -> Worker {
        let o = &engine.options;
        let synack_opens = o.stream.midstream || o.stream.async_oneside;
        let rules = engine.detector.as_ref().map_or(0, |d| d.set.signatures.len());
        let costs = match o.profile {
            Some((clock, exact)) => RuleCosts::new(rules, Some(clock), exact),
            None => RuleCosts::new(0, None, false),
        };
        Worker {
            flows: FlowTable::new(o.flow.clone(), budgets.flow, o.seed, synack_opens),
            defrag: Defragmenter::new(o.defrag.clone(), budgets.defrag),
            set: Some(Box::new(PacketSet::new())),
            spare: SpareSets::default(),
            fragments_seen: 0,
            core: Core {
                tcp: TcpTracker::new(o.stream.clone(), budgets.session, budgets.stream),
                app: budgets.app,
                scratch: Scratch { costs, ..Scratch::default() },
                regex: RegexScratch::new(),
                scripts: match &engine.detector {
                    Some(d) if !d.set.scripts.is_empty() => {
                        Scripts::new(&d.set, &d.datasets, &engine.scripts)
                    }
                    _ => Scripts::default(),
                },
                outputs: match engine.scripts.outputs.is_empty() {
                    true => OutputScripts::default(),
                    false => OutputScripts::new(&engine.scripts),
                },
                shared: SharedState::new(
                    Arc::clone(&engine.reputation),
                    engine.countries.clone(),
                    group.map_or_else(Ordered::default, |(group, n)| group.bits(n)),
                ),
                thresholds: group.map_or_else(Ordered::default, |(group, n)| group.thresholds(n)),
                ranges: group.map_or_else(Ordered::default, |(group, n)| group.ranges(n)),
                turn: group.map(|(group, n)| group.turn(n)),
                packets_alerted: 0,
                counters: NetCounters::default(),
                ledgers: WorkerLedgers::default(),
                expectations: Expectations::default(),
                decode_counters: DecodeCounters::default(),
                link: 1,
                tags: Default::default(),
                now_ns: 0,
                clock_ns: 0,
                wire: WireFacts::default(),
                engine: Arc::clone(&engine),
            },
        }
    }

    /// Takes one frame, after ending the flows whose time is up. False: its link type is not read.
    pub fn frame(&mut self, f: &FrameIn<'_>, sink: &mut dyn NetSink) -> bool {
        if Link::from_linktype(f.link.into()).is_none() {
            return false;
        }
        while self.advance_clock(f, sink) {}
        self.take(f, sink)
    }

    /// Takes one frame that [`Worker::advance_clock`] was told of.
    pub fn take(&mut self, f: &FrameIn<'_>, sink: &mut dyn NetSink) -> bool {
        let Some(link) = Link::from_linktype(f.link.into()) else { return false };
        if let Some(turn) = &self.core.turn {
            turn.at_frame(f.number);
        }
        self.core.link = f.link;
        self.core.clock_ns = f.clock_ns;
        self.core.counters.packets += 1;
        let len = f.data.len() as u64;
        self.core.counters.bytes += len;
        self.core.ledgers.decode.receive(1, len);
        let Some(mut set) = self.set.take() else { return true };
        self.fragments_seen = 0;
        let engine = Arc::clone(&self.core.engine);
        gabion_packet::decode(
            &mut set,
            &mut self.core.decode_counters,
            &engine.options.decode,
            link,
            f.data,
        );
        match set.root().flags.has(Flags::INVALID) {
            true => self.core.ledgers.decode.shed(ShedReason::DecodeInvalid, 1, len),
            false => self.core.ledgers.decode.pass(1, len),
        }
        let count = set.count();
        for place in (0..count).rev() {
            if let Some(d) = set.get(place) {
                let outer = place.checked_sub(1).and_then(|p| set.get(p));
                self.packet(d, f.data, f, outer, set.root(), &[], sink);
            }
        }
        self.set = Some(set);
        self.core.settle_limits(None);
        if engine.options.wants.wire {
            let facts = std::mem::take(&mut self.core.wire);
            sink.wire(&WireRecord {
                ts_ns: f.ts_ns,
                link: f.link,
                wire_len: f.wire_len,
                data: f.data,
                facts,
            });
        }
        true
    }

    /// A frame that belongs to another worker of the group, or is not read: only its time counts, by
    /// which flows end; its bytes are not looked at. True: some flows were ended and there may be more,
    /// call it again.
    #[inline]
    pub fn advance_clock(&mut self, f: &FrameIn<'_>, sink: &mut dyn NetSink) -> bool {
        if let Some(turn) = &self.core.turn {
            turn.before_frame(f.number);
        }
        // A stray time is not shown by the records of the end.
        if f.ts_ns <= f.clock_ns {
            self.advance_event_time(f.ts_ns);
        }
        self.end_due(f, sink)
    }

    /// Frames have come to this event time, whether they were passed by or not: what is still there at
    /// the end of the input ends at the latest.
    #[inline]
    pub fn advance_event_time(&mut self, ts_ns: u64) {
        self.core.now_ns = self.core.now_ns.max(ts_ns);
    }

    /// Nanoseconds of the clock before which frames of others end no flow here: those need not be
    /// passed by one by one, the last of them will do.
    #[inline]
    pub fn next_expiry(&self) -> u64 {
        self.flows.next_expiry()
    }

    /// Ends flows whose time is up; true when it stopped before all were.
    fn end_due(&mut self, f: &FrameIn<'_>, sink: &mut dyn NetSink) -> bool {
        for _ in 0..END_AT_A_TIME {
            let Some((flow, reason)) = self.flows.pop_ended(f.clock_ns) else { return false };
            self.core.counters.ended_by_leaps +=
                u64::from(f.is_leap && reason == EndReason::Timeout);
            self.core.end_flow(flow, reason, f.ts_ns, sink);
        }
        true
    }

    fn packet(
        &mut self,
        d: &Decoded,
        bytes: &[u8],
        f: &FrameIn<'_>,
        outer: Option<&Decoded>,
        root: &Decoded,
        prefix: &[u8],
        sink: &mut dyn NetSink,
    ) {
        let is_in_capture = d.depth == 0 && !d.flags.has(Flags::REASSEMBLED);
        let mut view = PacketView {
            headers: d,
            frame: bytes,
            payload: d.payload(bytes),
            ts_ns: f.ts_ns,
            number: f.number,
            pcap_cnt: is_in_capture.then_some(f.number),
            ignores_checksums: f.ignores_checksums && is_in_capture,
            direction: None,
            is_pseudo: false,
            is_established: false,
            stream_events: &[],
            detection_events: &[],
            pkt_src: d.source.name(),
            no_payload: d.flags.has(Flags::HAS_INNER),
            prefix,
            outer,
            root,
            frame_number: f.number,
        };
        let mut frag_headers;
        if d.flags.has(Flags::FRAGMENT) {
            frag_headers = *d;
            let policy = self.fragment(&mut frag_headers, bytes, f, root, sink);
            view.headers = &frag_headers;
            let mut fate = Fate::default();
            if let Some((trigger, policy)) = policy {
                self.core.counters.count_exception(trigger.name(), policy.eve_name());
                self.core.exception_on_packet(policy, "defrag memcap", &mut fate);
            }
            self.core.finish_packet(&view, None, &mut fate, None, sink);
            return;
        }
        if !d.flags.has(Flags::WANTS_FLOW) {
            self.core.finish_packet(&view, None, &mut Fate::default(), None, sink);
            return;
        }
        self.flow_packet(view, f, sink);
    }

    /// Takes a fragment in; a datagram it completes goes the way of a packet of its own.
    fn fragment(
        &mut self,
        d: &mut Decoded,
        bytes: &[u8],
        f: &FrameIn<'_>,
        root: &Decoded,
        sink: &mut dyn NetSink,
    ) -> Option<(ExceptionTrigger, ExceptionPolicy)> {
        let v6 = d.network == Network::Ipv6;
        let made;
        let (outcome, datagram) = match f.fragments {
            Some(fates) => {
                let fate = fates.get(self.fragments_seen);
                self.fragments_seen += 1;
                fate.map_or_else(Default::default, |fate| (fate.outcome, &*fate.datagram))
            }
            None => {
                let outcome = self.defrag.fragment(&fragment_of(d, bytes, f));
                made = match outcome.is_complete {
                    true => self.defrag.datagram().to_vec(),
                    false => Vec::new(),
                };
                (outcome, made.as_slice())
            }
        };
        if let Some(e) = outcome.event
            && let Some(event) = gabion_packet::DecoderEvent::from_name(&format!(
                "{}.{}",
                if v6 { "ipv6" } else { "ipv4" },
                e.name()
            ))
        {
            d.events.push(event);
        }
        let bytes_in = d.payload(bytes).len() as u64;
        self.core.ledgers.defrag.receive(1, bytes_in);
        match outcome.exception {
            Some(_) => self.core.ledgers.defrag.shed(ShedReason::DefragMemcap, 1, bytes_in),
            None => self.core.ledgers.defrag.pass(1, bytes_in),
        }
        if outcome.is_complete {
            // Its record shows the link layer of the fragment that completed it.
            let prefix = bytes.get(d.start as usize..d.l3 as usize).unwrap_or(&[]);
            let mut set = self.spare.take();
            let engine = Arc::clone(&self.core.engine);
            let ok = gabion_packet::decode_ip_reassembled(
                &mut set,
                &mut self.core.decode_counters,
                &engine.options.decode,
                d,
                datagram,
            );
            if ok {
                for place in (0..set.count()).rev() {
                    if let Some(inner) = set.get(place) {
                        let outer = place.checked_sub(1).and_then(|p| set.get(p));
                        self.packet(inner, datagram, f, outer, root, prefix, sink);
                    }
                }
            }
            self.spare.give_back(set);
        }
        let trigger = outcome.exception?;
        Some((trigger, engine_policy(&self.core.engine, trigger)))
    }

    fn flow_packet(&mut self, mut view: PacketView<'_>, f: &FrameIn<'_>, sink: &mut dyn NetSink) {
        let d = view.headers;
        let mut fate = Fate::default();
        if self.core.engine.options.firewall && !self.core.before_flow(&view, &mut fate) {
            self.core.finish_packet(&view, None, &mut fate, None, sink);
            return;
        }
        let key = packet_key(d);
        let tcp = d.transport.tcp().map(|t| (t.flags, t.seq));
        let facts = PacketFacts {
            ts_ns: f.ts_ns,
            clock_ns: f.clock_ns,
            bytes: d.len,
            ttl: d.ttl,
            tcp,
            quoted: d.transport.icmp().and_then(|i| i.quoted).map(|q| quoted_key(d, &q)),
            number: f.number,
        };
        let lookup = self.flows.packet(&key, &facts);
        while let Some((flow, reason)) = self.flows.pop_displaced() {
            fate.reuses_ports |= reason == EndReason::TcpReuse;
            self.core.counters.ended_by_leaps +=
                u64::from(f.is_leap && reason == EndReason::Timeout);
            self.core.end_flow(flow, reason, f.ts_ns, sink);
        }
        let len = u64::from(d.len);
        self.core.ledgers.flow.receive(1, len);
        match lookup {
            Lookup::Refused(_) => self.core.ledgers.flow.shed(ShedReason::FlowMemcap, 1, len),
            Lookup::Flow { .. } | Lookup::None => self.core.ledgers.flow.pass(1, len),
        }
        let (idx, dir, is_new) = match lookup {
            Lookup::Flow { idx, dir, is_new } => {
                self.core.ledgers.flows.receive(u64::from(is_new), 0);
                (idx, dir, is_new)
            }
            Lookup::None => {
                self.core.finish_packet(&view, None, &mut fate, None, sink);
                return;
            }
            Lookup::Refused(trigger) => {
                let policy = engine_policy(&self.core.engine, trigger);
                self.core.counters.count_exception(trigger.name(), policy.eve_name());
                self.core.exception_on_packet(policy, "flow memcap", &mut fate);
                self.core.finish_packet(&view, None, &mut fate, None, sink);
                return;
            }
        };
        view.direction = Some(dir);
        let Some(flow) = self.flows.get_mut(idx) else { return };
        if is_new {
            flow.ext.shed_at_start = self.core.ledgers.shed_so_far();
        }
        let state = self.core.in_flow(view, flow, fate, sink);
        if let Some(state) = state {
            self.set_state(idx, state);
        }
    }

    fn set_state(&mut self, idx: FlowIdx, state: FlowState) {
        self.flows.set_state(idx, state);
    }

    /// The input has ended: ends all flows.
    pub fn finish(&mut self, sink: &mut dyn NetSink) {
        self.close();
        while self.end_some(sink) {}
    }

    /// The input has ended: all flows end by [`Worker::end_some`].
    pub fn close(&mut self) {
        if let Some(turn) = &self.core.turn {
            turn.at_end();
        }
        self.flows.close();
    }

    /// Ends some of the flows left; true when there are more.
    pub fn end_some(&mut self, sink: &mut dyn NetSink) -> bool {
        let end = FrameIn {
            ts_ns: self.core.now_ns,
            clock_ns: self.core.clock_ns,
            is_leap: false,
            number: 0,
            link: 0,
            ignores_checksums: false,
            wire_len: 0,
            data: &[],
            fragments: None,
        };
        self.end_due(&end, sink)
    }

    /// Gives the counters of the run to scripts that log them, and ends all output scripts.
    pub fn log_stats(&mut self, counters: &[(String, u64)]) {
        self.core.outputs.stats(counters);
        self.core.outputs.finish();
    }

    /// Counters of the worker.
    pub fn counters(&self) -> &NetCounters {
        &self.core.counters
    }

    /// Ledgers of the worker's joints.
    pub fn ledgers(&self) -> &WorkerLedgers {
        &self.core.ledgers
    }

    /// Counters of decoders.
    pub fn decode_counters(&self) -> &DecodeCounters {
        &self.core.decode_counters
    }

    /// Counters of flows, TCP and defragmentation.
    pub fn flow_counters(
        &self,
    ) -> (gabion_flow::FlowCounters, gabion_flow::TcpCounters, gabion_flow::DefragCounters) {
        (self.flows.counters(), self.core.tcp.counters(), self.defrag.counters())
    }

    /// How full the tables of flows and TCP are.
    pub fn memory_pressure(&self) -> MemoryPressure {
        let [sessions, data] = self.core.tcp.budgets();
        MemoryPressure::of(&[self.flows.budget(), sessions, data])
    }

    /// Costs of rules.
    pub fn costs(&self) -> &RuleCosts {
        &self.core.scratch.costs
    }
}

fn engine_policy(engine: &Engine, trigger: ExceptionTrigger) -> ExceptionPolicy {
    let p = &engine.options.policies;
    match trigger {
        ExceptionTrigger::DefragMemcap => p.defrag_memcap,
        ExceptionTrigger::FlowMemcap => p.flow_memcap,
        ExceptionTrigger::StreamMemcap => p.stream_memcap,
        ExceptionTrigger::ReassemblyMemcap => p.reassembly_memcap,
        ExceptionTrigger::Midstream => p.midstream,
    }
}

/// Inline: the frame with the bytes that the stream has in its place, as the receiver gets it.
fn rewrite(view: &PacketView<'_>, stream: &Stream, v: &TcpVerdict) -> Vec<u8> {
    let mut frame = view.frame.to_vec();
    let at = view.headers.payload as usize;
    let kept = stream.bytes_from(v.stream_offset);
    let kept = kept.get(..v.stream_len as usize).unwrap_or(kept);
    if let Some(place) = frame.get_mut(at..at + kept.len()) {
        place.copy_from_slice(kept);
        gabion_packet::checksum::seal_tcp(view.headers, &mut frame);
    }
    frame
}

impl Core {
    /// A packet that belongs to a flow.
    fn in_flow(
        &mut self,
        view: PacketView<'_>,
        flow: &mut Flow<NetFlow>,
        mut fate: Fate,
        sink: &mut dyn NetSink,
    ) -> Option<FlowState> {
        let rewritten;
        let mut view = view;
        self.note_macs(&view, flow);
        let mut dir = view.direction.unwrap_or(Direction::ToServer);
        if flow.ext.flags.dropped && self.engine.options.inline {
            fate.drop = Some(flow.ext.flags.drop_reason.unwrap_or("flow drop"));
            fate.skip_detection = true;
        }
        let filters = self.engine.options.firewall;
        if filters && view.headers.proto == 6 {
            self.before_stream(&view, flow, &mut fate);
        }
        if fate.drop.is_some() {
            self.finish_packet(&view, Some(flow), &mut fate, None, sink);
            return None;
        }
        if flow.state == FlowState::Bypassed {
            self.counters.bypassed_packets += 1;
            self.counters.bypassed_bytes += u64::from(view.headers.len);
            return None;
        }
        let mut new_state = None;
        let mut verdict = None;
        if let Some(seg) = segment(&view, self.engine.options.checksums) {
            // A packet that completes the handshake and carries nothing is not yet one of an
            // established connection.
            let established = |flow: &Flow<NetFlow>| {
                flow.tcp.as_ref().is_some_and(|t| t.state() >= TcpState::Established)
            };
            let was_established = established(flow);
            let mut v = self.tcp.handle(&mut flow.tcp, &seg, dir);
            view.is_established = was_established || (!seg.payload.is_empty() && established(flow));
            if v.must_rewrite
                && let Some(ssn) = &flow.tcp
            {
                rewritten = rewrite(&view, ssn.stream(dir), &v);
                view.payload = view.headers.payload(&rewritten);
                view.frame = &rewritten;
            }
            if v.must_swap {
                flow.swap_directions();
                flow.ext.detect = Default::default();
                dir = dir.opposite();
                view.direction = Some(dir);
            }
            new_state = v.flow_state;
            fate.events.extend(v.events.iter());
            self.count_segment(&v, seg.payload.len(), flow);
            self.stream_verdict(&mut v, flow, &mut fate);
            let effects = self.feed_streams(flow, &view, &v, dir);
            if effects.swapped {
                dir = dir.opposite();
                view.direction = Some(dir);
            }
            if effects.flush {
                self.flush(&view, flow, sink);
            }
            if effects.stop_reassembly {
                new_state = Some(FlowState::Bypassed);
            }
            self.apply_effects(effects, flow, &mut fate);
            verdict = Some(v);
        } else {
            view.is_established = flow.is_two_way();
            if view.headers.proto == 17 && !view.payload.is_empty() {
                self.datagram(flow, &mut view, &mut fate);
                dir = view.direction.unwrap_or(dir);
                view.direction = Some(dir);
            }
        }
        view.no_payload |= flow.ext.flags.no_payload;
        if flow.ext.flags.passed {
            fate.skip_detection = true;
        }
        self.finish_packet(&view, Some(flow), &mut fate, verdict.as_ref(), sink);
        if let Some(ssn) = flow.tcp.as_mut() {
            self.tcp.trim(ssn, dir);
        }
        new_state
    }

    fn meet_expectation(&mut self, flow: &mut Flow<NetFlow>) {
        if self.expectations.is_empty() {
            return;
        }
        let found = self.expectations.take(
            (flow.client.addr, flow.client.port),
            (flow.server.addr, flow.server.port),
            self.clock_ns,
        );
        if let Some((proto, payload, by)) = found {
            flow.ext.app.announce(proto, payload);
            flow.ext.announced_by = Some(by);
            flow.parent_id = Some(by);
        }
    }

    fn note_macs(&mut self, view: &PacketView<'_>, flow: &mut Flow<NetFlow>) {
        if !self.engine.options.wants.macs {
            return;
        }
        let h = view.headers;
        let (Some(src), Some(dst)) = (h.src_mac(view.frame), h.dst_mac(view.frame)) else { return };
        let to_server = view.direction == Some(Direction::ToServer);
        let (client, server) = if to_server { (src, dst) } else { (dst, src) };
        let macs = flow.ext.macs.get_or_insert_default();
        for (list, mac) in macs.iter_mut().zip([client, server]) {
            if !list.contains(&mac) {
                match list.len() < MACS_PER_SIDE {
                    true => list.push(mac),
                    false => reached::MACS_PER_SIDE.count(),
                }
            }
        }
    }

    /// What the TCP tracker wants done with the packet.
    fn stream_verdict(&mut self, v: &mut TcpVerdict, flow: &mut Flow<NetFlow>, fate: &mut Fate) {
        let inline = self.engine.options.inline;
        if let Some(trigger) = v.exception {
            let policy = engine_policy(&self.engine, trigger);
            self.counters.count_exception(trigger.name(), policy.eve_name());
            flow.note_exception(trigger);
            let reason = match trigger {
                ExceptionTrigger::Midstream => "stream midstream",
                ExceptionTrigger::ReassemblyMemcap => "stream reassembly",
                _ => "stream memcap",
            };
            self.exception(policy, trigger.name(), reason, flow, fate);
        }
        if inline && let Some(drop) = v.drop {
            fate.drop.get_or_insert(drop.name());
            fate.skip_detection = true;
        }
    }

    /// Carries an exception policy out on a flow and its packet.
    fn exception(
        &mut self,
        policy: ExceptionPolicy,
        target: &'static str,
        reason: &'static str,
        flow: &mut Flow<NetFlow>,
        fate: &mut Fate,
    ) {
        let list = &mut flow.ext.exceptions;
        if !list.iter().any(|(t, _)| *t == target) {
            list.push((target, policy.eve_name()));
        }
        match policy {
            ExceptionPolicy::DropFlow | ExceptionPolicy::Reject => {
                flow.ext.flags.dropped = true;
                flow.ext.flags.drop_reason = Some("exception policy flow drop");
            }
            ExceptionPolicy::PassFlow => flow.ext.flags.passed = true,
            ExceptionPolicy::Bypass => {
                flow.state = FlowState::Bypassed;
                flow.ext.flags.passed = true;
            }
            _ => {}
        }
        self.exception_on_packet(policy, reason, fate);
    }

    /// The part of an exception policy that concerns the packet alone.
    fn exception_on_packet(
        &mut self,
        policy: ExceptionPolicy,
        reason: &'static str,
        fate: &mut Fate,
    ) {
        match policy {
            ExceptionPolicy::DropFlow | ExceptionPolicy::DropPacket => {
                if self.engine.options.inline {
                    fate.drop.get_or_insert(reason);
                }
                fate.skip_detection = true;
            }
            ExceptionPolicy::Reject => {
                if self.engine.options.inline {
                    fate.drop.get_or_insert(reason);
                }
                fate.reject = Some(gabion_rules::Action::RejectSource);
                fate.skip_detection = true;
            }
            ExceptionPolicy::Bypass | ExceptionPolicy::PassFlow | ExceptionPolicy::PassPacket => {
                fate.skip_detection = true;
            }
            ExceptionPolicy::Ignore | ExceptionPolicy::Auto => {}
        }
    }

    /// Gives stream data that is due to the application layer.
    fn feed_streams(
        &mut self,
        flow: &mut Flow<NetFlow>,
        view: &PacketView<'_>,
        v: &TcpVerdict,
        dir: Direction,
    ) -> Effects {
        let mut effects = Effects::default();
        for d in v.update.directions(dir) {
            self.feed(flow, view.ts_ns, d, &mut effects);
        }
        effects
    }

    /// Gives one direction's data to the application layer, as far as it goes.
    pub(crate) fn feed(
        &mut self,
        flow: &mut Flow<NetFlow>,
        ts_ns: u64,
        d: Direction,
        effects: &mut Effects,
    ) {
        // A connection may be opened before the command that says what it is for: the peer looks
        // when there is something to find a protocol in.
        if !self.expectations.is_empty() && flow.ext.app.is_undetected() {
            self.meet_expectation(flow);
        }
        let Some(mut ssn) = flow.tcp.take() else { return };
        let ends = endpoints(flow);
        let engine = &self.engine;
        let counters: &mut AppCounters = &mut self.counters.app;
        let app = &mut flow.ext.app;
        app.is_midstream = ssn.is_midstream();
        app.sent = flow.seen[0].bytes + flow.seen[1].bytes;
        let mut again = None;
        let mut unparsed = 0;
        loop {
            if !engine.protocols.frames.is_empty() {
                app.offsets = Direction::BOTH.map(|d| ssn.stream(d).app_offset());
            }
            let stream = ssn.stream_mut(d);
            let since = self.scratch.costs.now();
            match stream.app_next() {
                AppChunk::Data(bytes) => {
                    let before = effects.found;
                    let used = app.stream(
                        &engine.protocols,
                        &ends,
                        ts_ns,
                        d,
                        bytes,
                        false,
                        effects,
                        counters,
                    );
                    stream.app_consume(used);
                    if effects.reversed {
                        break;
                    }
                    effects.overflowed |= !app.charge(used, &self.app, counters, Transport::Tcp);
                    if used > 0 {
                        effects.fed[d.index()] = true;
                        self.ledgers.app.receive(1, used as u64);
                        match std::mem::take(&mut effects.overflowed) {
                            true => {
                                self.ledgers.app.shed(ShedReason::AppMemcap, 1, used as u64);
                                unparsed += used as u64;
                            }
                            false => self.ledgers.app.pass(1, used as u64),
                        }
                    }
                    if effects.found && !before {
                        again = effects.other_first.then(|| d.opposite());
                        if let Some(depth) = effects.depth {
                            ssn.set_depth(depth);
                        }
                    }
                    if effects.other_first {
                        ssn.stream_mut(d).app_again();
                        break;
                    }
                    if app.is_changing() {
                        ssn.stream_mut(d).app_again();
                        ssn.stream_mut(d.opposite()).app_again();
                        if used == 0 {
                            break;
                        }
                    }
                }
                AppChunk::Gap(len) => {
                    effects.gaps += 1;
                    if !app.gap(&engine.protocols, &ends, ts_ns, d, len, effects, counters) {
                        stream.disable_app();
                    }
                }
                AppChunk::Eof => {
                    effects.fed[d.index()] = true;
                    let rest = stream.app_peek();
                    let used = app.stream(
                        &engine.protocols,
                        &ends,
                        ts_ns,
                        d,
                        rest,
                        true,
                        effects,
                        counters,
                    );
                    stream.app_consume(used);
                }
                AppChunk::None => break,
            }
            self.scratch.costs.add_parser(app.proto.0, since);
        }
        if std::mem::take(&mut effects.reversed) {
            // The side that was seen first is the server: all is turned round and looked at anew.
            app.swap_directions();
            ssn.stream_mut(d).app_again();
            ssn.swap_directions();
            flow.tcp = Some(ssn);
            flow.swap_directions();
            flow.ext.detect = Default::default();
            effects.swapped = true;
            self.feed(flow, ts_ns, d.opposite(), effects);
            return;
        }
        if app.is_all_off() || effects.parser_error {
            ssn.disable_app();
        }
        if effects.stop_reassembly {
            for d in Direction::BOTH {
                ssn.stream_mut(d).stop_reassembly();
            }
        }
        for d in Direction::BOTH {
            if std::mem::take(&mut effects.trigger_raw[d.index()]) {
                ssn.stream_mut(d).trigger_raw();
            }
        }
        if let Some(other) = again {
            ssn.stream_mut(other).app_again();
        }
        flow.tcp = Some(ssn);
        if unparsed > 0 {
            flow.ext.lose(ShedReason::AppMemcap, 1, unparsed);
        }
        if let Some(other) = again {
            effects.found = false;
            let is_second = std::mem::take(&mut effects.other_first);
            self.feed(flow, ts_ns, other, effects);
            if is_second {
                self.feed(flow, ts_ns, d, effects);
            }
        }
    }

    fn datagram(&mut self, flow: &mut Flow<NetFlow>, view: &mut PacketView<'_>, fate: &mut Fate) {
        let dir = view.direction.unwrap_or(Direction::ToServer);
        let mut effects = Effects::default();
        let ends = endpoints(flow);
        let since = self.scratch.costs.now();
        flow.ext.app.sent = flow.seen[0].bytes + flow.seen[1].bytes;
        flow.ext.app.datagram(
            &self.engine.protocols,
            &ends,
            view.ts_ns,
            dir,
            view.payload,
            flow.seen[1].pkts == 0,
            &mut effects,
            &mut self.counters.app,
        );
        let (app, len) = (&mut flow.ext.app, view.payload.len());
        if !app.charge(len, &self.app, &mut self.counters.app, Transport::Udp) {
            self.ledgers.app.receive(1, len as u64);
            self.ledgers.app.shed(ShedReason::AppMemcap, 1, len as u64);
            flow.ext.lose(ShedReason::AppMemcap, 1, len as u64);
        }
        self.scratch.costs.add_parser(flow.ext.app.proto.0, since);
        effects.fed = [true; 2];
        if effects.reversed {
            flow.swap_directions();
            flow.ext.detect = Default::default();
            view.direction = Some(dir.opposite());
        }
        self.apply_effects(effects, flow, fate);
    }

    pub(crate) fn apply_effects(
        &mut self,
        effects: Effects,
        flow: &mut Flow<NetFlow>,
        fate: &mut Fate,
    ) {
        fate.detection_events.extend(effects.events);
        for _ in 0..effects.gaps {
            self.tcp.count_gap();
            fate.events.push(StreamEvent::SeqGap);
        }
        fate.fed = effects.fed;
        if effects.stop_payload {
            flow.ext.flags.no_payload = true;
        }
        for piece in &effects.pieces {
            self.join(piece, flow, self.clock_ns);
        }
        let ends = endpoints(flow);
        for e in effects.expectations {
            self.counters.app.expectations += 1;
            self.expectations.add(e, flow, &ends, self.clock_ns);
        }
        if effects.parser_error {
            let policy = self.engine.options.policies.app_error;
            self.counters.count_exception("app_layer_error", policy.eve_name());
            self.exception(policy, "app_layer_error", "applayer error", flow, fate);
        }
    }
}
