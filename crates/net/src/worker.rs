//! One worker: frames in, findings out.
//!
//! The order of a packet's stages is that of Suricata's flow worker: decode (inner packets of tunnels
//! first), defragmentation, flow, TCP and streams, application layer, detection, alerts, records,
//! release of what is finished. Each stage is in a file of its own; this one is read from
//! [`Worker::take_frame`] to [`Stages::finish`]. Flows whose time is up end before the packet that shows
//! it (`flow_end`).

use crate::account::Account;
use crate::alert::AlertStage;
use crate::app::Effects;
use crate::application::{ApplicationStage, Moment};
use crate::context::{Common, InputPlace, PacketContext, PacketOutcome};
use crate::counters::NetCounters;
use crate::decode::DecodeStage;
use crate::detect::{Findings, RuleCosts};
use crate::engine::Engine;
use crate::exception::Exception;
use crate::flow_state::NetFlow;
use crate::frame_in::FrameIn;
use crate::group::WorkerGroup;
use crate::inspection::{Inspected, InspectionStage};
use crate::ledgers::WorkerLedgers;
use crate::limits::{END_AT_A_TIME, MACS_PER_SIDE, reached};
use crate::memory::{MemoryPressure, WorkerBudgets};
use crate::ordered::{Ordered, Turn};
use crate::pressure::{Elephant, Pinned, begin_flow, count_bypassed, is_bypassed};
use crate::records::RecordStage;
use crate::script::{OutputKind, OutputScripts};
use crate::state::SharedState;
use crate::tracking::{
    FlowStage, StreamStage, carry_out, count_lookup, count_segment, is_established,
    note_dropped_flags, rewrite,
};
use crate::view::PacketView;
use gabion_flow::{EndReason, Flow, FlowState, FlowTable, Lookup, TcpVerdict, Update};
use gabion_packet::{DecodeCounters, Decoded, Flags, Link, Network, TransportHeader};
use gabion_record::eve::{NetSink, WireRecord};
use gabion_record::{Direction, DropReason, IpProto, Pressure};
use std::cell::OnceCell;
use std::sync::Arc;

/// Inline: the frame as its receiver gets it, where that differs from what came.
type Rewritten = OnceCell<Vec<u8>>;

/// A worker of the network engine.
pub struct Worker {
    common: Common,
    decode: DecodeStage,
    flow: FlowStage,
    stages: Stages,
    turn: Option<Turn>,
    place: InputPlace,
    /// The latest event time: what is left at the end of the input ends at it.
    now_ns: u64,
}

/// The stages after a packet's flow is known.
pub(crate) struct Stages {
    pub(crate) stream: StreamStage,
    pub(crate) app: ApplicationStage,
    pub(crate) inspection: InspectionStage,
    pub(crate) alerts: AlertStage,
    pub(crate) records: RecordStage,
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
        let o = Arc::clone(&engine.options);
        let synack_opens = o.stream.midstream || o.stream.async_oneside;
        let costs = RuleCosts::of_engine(&engine);
        let thresholds = group.map_or_else(Ordered::default, |(group, n)| group.thresholds(n));
        let ranges = group.map_or_else(Ordered::default, |(group, n)| group.ranges(n));
        let host_tags = group.map_or_else(Ordered::default, |(group, n)| group.host_tags(n));
        let bits = group.map_or_else(Ordered::default, |(group, n)| group.bits(n));
        let turn = group.map(|(group, n)| group.turn(n));
        let outputs = if engine.scripts.outputs.is_empty() {
            OutputScripts::default()
        } else {
            OutputScripts::new(&engine.scripts)
        };
        Worker {
            decode: DecodeStage::new(o.defrag.clone(), budgets.defrag),
            flow: FlowStage {
                table: FlowTable::new(o.flow.clone(), budgets.flow, o.seed, synack_opens),
            },
            stages: Stages {
                stream: StreamStage::new(&engine, budgets.session, budgets.stream),
                app: ApplicationStage::new(budgets.app, ranges),
                inspection: InspectionStage::new(&engine, bits, turn.clone()),
                alerts: AlertStage::new(thresholds, host_tags, turn.clone()),
                records: RecordStage::new(outputs),
            },
            turn,
            place: InputPlace { ts_ns: 0, clock_ns: 0, link: 1 },
            now_ns: 0,
            common: Common {
                account: Account::new(costs),
                findings: Findings::default(),
                pinned: Pinned::of_rules(&engine),
                engine,
            },
        }
    }

    /// Continues with another engine, which [follows](Engine::follow) the one so far, and returns that. Flows keep all
    /// that is no knowledge about its rules; so do hosts, thresholds and tags.
    pub fn adopt(&mut self, engine: Arc<Engine>) -> Arc<Engine> {
        self.common.account.adopt(&engine);
        self.common.findings.clear();
        // They are named by their place, which another set gives to other rules.
        self.common.pinned = Pinned::of_rules(&engine);
        self.stages.inspection.adopt(&engine);
        self.stages.stream.adopt(&engine);
        std::mem::replace(&mut self.common.engine, engine)
    }

    /// The engine, and the state that flows share.
    pub(crate) fn engine_and_state(&mut self) -> (&Engine, &mut SharedState) {
        (&self.common.engine, &mut self.stages.inspection.shared)
    }

    /// Flows under way.
    pub(crate) fn flows(&self) -> impl Iterator<Item = &Flow<NetFlow>> {
        self.flow.table.iter()
    }

    /// The latest event time that the worker knows of.
    pub(crate) fn event_time_ns(&self) -> u64 {
        self.now_ns.max(self.place.clock_ns)
    }

    /// How many engines the one that the worker works with had before it.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.common.engine.generation
    }

    /// Takes one frame, after ending the flows whose time is up. False: its link type is not read.
    pub fn frame(&mut self, f: &FrameIn<'_>, sink: &mut dyn NetSink) -> bool {
        if Link::from_linktype(f.link.into()).is_none() {
            return false;
        }
        while self.advance_clock(f, sink) {}
        self.take_frame(f, sink)
    }

    /// A frame that belongs to another worker of the group, or is not read. Only its time counts, by
    /// which flows end; its bytes are not looked at. True: some flows were ended and more may be due;
    /// call it again.
    #[inline]
    pub fn advance_clock(&mut self, f: &FrameIn<'_>, sink: &mut dyn NetSink) -> bool {
        if let Some(turn) = &self.turn {
            turn.before_frame(f.number);
        }
        // Records of the end do not show a stray time.
        if f.ts_ns <= f.clock_ns {
            self.advance_event_time(f.ts_ns);
        }
        self.end_due(f, sink)
    }

    /// Frames have reached this event time, whether the worker has seen them or not: flows that are left
    /// at the end of the input end at the latest such time.
    #[inline]
    pub fn advance_event_time(&mut self, ts_ns: u64) {
        self.now_ns = self.now_ns.max(ts_ns);
    }

    /// Nanoseconds of the clock before which frames of other workers end no flow here: the worker need
    /// not see each of these frames, the last one is enough.
    #[inline]
    pub fn next_expiry(&self) -> u64 {
        self.flow.table.next_expiry()
    }

    /// What is left out from now on.
    pub fn set_pressure(&mut self, pressure: Pressure) {
        self.common.account.pressure = pressure;
    }

    /// The kernel has dropped this many frames so far: alerts of flows that live now say so.
    pub fn note_kernel_drops(&mut self, total: u64) {
        self.common.account.ledgers.kernel_dropped = total;
    }

    /// Takes one frame that [`Worker::advance_clock`] knows about: decodes it and processes each packet in
    /// it, the innermost first.
    pub fn take_frame(&mut self, f: &FrameIn<'_>, sink: &mut dyn NetSink) -> bool {
        let Some(link) = Link::from_linktype(f.link.into()) else { return false };
        if let Some(turn) = &self.turn {
            turn.at_frame(f.number);
        }
        self.place = InputPlace { ts_ns: f.ts_ns, clock_ns: f.clock_ns, link: f.link };
        let Common { engine, account, .. } = &mut self.common;
        let Some(set) = self.decode.frame(engine, account, link, f) else { return true };
        for place in (0..set.count()).rev() {
            if let Some(d) = set.get(place) {
                let outer = place.checked_sub(1).and_then(|p| set.get(p));
                let rewritten = Rewritten::new();
                let mut view = view_of(f, (d, f.data), outer, set.root());
                self.packet(f, &mut view, &rewritten, sink);
            }
        }
        self.decode.give_back(set);
        self.common.account.settle_limits(None);
        if self.common.engine.options.wants.wire {
            sink.wire(&WireRecord {
                ts_ns: f.ts_ns,
                link: f.link,
                wire_len: f.wire_len,
                data: f.data,
                facts: self.stages.records.take_wire(),
            });
        }
        true
    }

    /// A packet of a frame or of a datagram.
    fn packet<'v>(
        &mut self,
        f: &FrameIn<'_>,
        view: &mut PacketView<'v>,
        rewritten: &'v Rewritten,
        sink: &mut dyn NetSink,
    ) {
        let flags = view.headers.flags;
        if flags.has(Flags::FRAGMENT) {
            self.fragment(f, view, sink);
        } else if flags.has(Flags::WANTS_FLOW) {
            self.flow_packet(f, view, rewritten, sink);
        } else {
            self.finish_without_flow(view, PacketOutcome::default(), sink);
        }
    }

    /// A fragment; the packets of a datagram that it completes are processed before it.
    fn fragment(&mut self, f: &FrameIn<'_>, view: &PacketView<'_>, sink: &mut dyn NetSink) {
        let mut d = *view.headers;
        let Common { engine, account, .. } = &mut self.common;
        let (datagram, exception) = self.decode.fragment(engine, account, &mut d, view.frame, f);
        if let Some(datagram) = datagram {
            // Its record shows the link layer of the fragment that completed it.
            let prefix = view.frame.get(d.start as usize..d.l3 as usize).unwrap_or(&[]);
            let set = &datagram.set;
            for place in (0..set.count()).rev() {
                if let Some(inner) = set.get(place) {
                    let outer = place.checked_sub(1).and_then(|p| set.get(p));
                    let of = view_of(f, (inner, &datagram.bytes), outer, view.root);
                    // A packet in a tunnel begins after the headers of the datagram around it.
                    let prefix = if place == 0 { prefix } else { &[] };
                    let rewritten = Rewritten::new();
                    self.packet(f, &mut PacketView { prefix, ..of }, &rewritten, sink);
                }
            }
            self.decode.give_back_datagram(datagram);
        }
        let mut outcome = PacketOutcome::default();
        if let Some(exception) = exception {
            self.carry_out_exception(exception, &mut outcome);
        }
        self.finish_without_flow(&PacketView { headers: &d, ..*view }, outcome, sink);
    }

    /// A packet that belongs to a flow, if the firewall and the flow table let it.
    fn flow_packet<'v>(
        &mut self,
        f: &FrameIn<'_>,
        view: &mut PacketView<'v>,
        rewritten: &'v Rewritten,
        sink: &mut dyn NetSink,
    ) {
        let mut outcome = PacketOutcome::default();
        if self.common.engine.options.firewall {
            let Stages { inspection, app, .. } = &mut self.stages;
            let mut cx = self.common.context(view, None, &mut outcome, sink);
            if !inspection.before_flow(&mut cx, &app.budget) {
                return self.finish_without_flow(view, outcome, sink);
            }
        }
        let lookup = self.flow.look_up(view, f);
        while let Some((flow, reason)) = self.flow.pop_displaced(f, &mut self.common.account) {
            outcome.reuses_ports |= reason == EndReason::TcpReuse;
            self.end_flow(flow, (reason, f.ts_ns), sink);
        }
        count_lookup(&lookup, view.headers.len, &mut self.common.account);
        let (idx, dir, is_new) = match lookup {
            Lookup::Flow { idx, dir, is_new } => (idx, dir, is_new),
            Lookup::None | Lookup::Unopened => {
                return self.finish_without_flow(view, outcome, sink);
            }
            Lookup::Refused(trigger) => {
                let policies = &self.common.engine.options.policies;
                self.carry_out_exception(Exception::from_policies(policies, trigger), &mut outcome);
                return self.finish_without_flow(view, outcome, sink);
            }
        };
        view.direction = Some(dir);
        let Some(flow) = self.flow.table.get_mut(idx) else { return };
        if is_new {
            flow.ext.shed_at_start = self.common.account.ledgers.shed_so_far();
            begin_flow(&mut self.common, flow, view);
        }
        let state =
            self.stages.in_flow(&mut self.common, (view, rewritten), flow, &mut outcome, sink);
        if let Some(state) = state {
            self.flow.table.set_state(idx, state);
        }
    }

    fn carry_out_exception(&mut self, exception: Exception, outcome: &mut PacketOutcome) {
        let Common { engine, account, .. } = &mut self.common;
        account.counters.count_exception(exception.cause());
        exception.on_packet(engine, outcome);
    }

    /// The last stages of a packet that has no flow.
    fn finish_without_flow(
        &mut self,
        view: &PacketView<'_>,
        mut outcome: PacketOutcome,
        sink: &mut dyn NetSink,
    ) {
        let mut cx = self.common.context(view, None, &mut outcome, sink);
        self.stages.finish(&mut cx);
    }

    /// Ends flows whose time is up; true when it stopped before all were.
    #[inline]
    fn end_due(&mut self, f: &FrameIn<'_>, sink: &mut dyn NetSink) -> bool {
        for _ in 0..END_AT_A_TIME {
            let ended = self.flow.pop_ended(f, &mut self.common.account);
            let Some((flow, reason)) = ended else { return false };
            self.end_flow(flow, (reason, f.ts_ns), sink);
        }
        true
    }

    /// A flow has ended, at this event time.
    fn end_flow(&mut self, flow: Flow<NetFlow>, end: (EndReason, u64), sink: &mut dyn NetSink) {
        if let Some(turn) = &self.turn {
            turn.ending(flow.first_number);
            sink.ending(flow.first_number);
        }
        self.stages.end_flow(&mut self.common, flow, end, self.place, sink);
    }

    /// The input has ended: ends all flows.
    pub fn finish(&mut self, sink: &mut dyn NetSink) {
        self.close();
        while self.end_some(sink) {}
    }

    /// The input has ended: all flows end by [`Worker::end_some`].
    pub fn close(&mut self) {
        if let Some(turn) = &self.turn {
            turn.at_end();
        }
        self.flow.table.close();
    }

    /// Ends some of the remaining flows; true when more are left.
    pub fn end_some(&mut self, sink: &mut dyn NetSink) -> bool {
        let end = FrameIn {
            ts_ns: self.now_ns,
            clock_ns: self.place.clock_ns,
            is_leap: false,
            number: 0,
            link: 0,
            device: 0,
            ignores_checksums: false,
            wire_len: 0,
            data: &[],
            fragments: None,
        };
        self.end_due(&end, sink)
    }

    /// Gives the counters of the run to scripts that log them, and ends all output scripts.
    pub fn log_stats(&mut self, counters: &[(String, u64)]) {
        self.stages.records.outputs.stats(counters);
        self.stages.records.outputs.finish();
    }

    /// Counters of the worker.
    pub fn counters(&self) -> &NetCounters {
        &self.common.account.counters
    }

    /// Ledgers of the worker's stages.
    pub fn ledgers(&self) -> &WorkerLedgers {
        &self.common.account.ledgers
    }

    /// Counters of decoders.
    pub fn decode_counters(&self) -> &DecodeCounters {
        &self.common.account.decode
    }

    /// Counters of flows, TCP and defragmentation.
    pub fn flow_counters(
        &self,
    ) -> (gabion_flow::FlowCounters, gabion_flow::TcpCounters, gabion_flow::DefragCounters) {
        let (flow, tcp) = (self.flow.table.counters(), self.stages.stream.counters());
        (flow, tcp, self.decode.defrag_counters())
    }

    /// How full the tables of flows and TCP are.
    pub fn memory_pressure(&self) -> MemoryPressure {
        let [sessions, data] = self.stages.stream.budgets();
        MemoryPressure::from_budgets(&[self.flow.table.budget(), sessions, data])
    }

    /// Costs of rules.
    pub fn costs(&self) -> &RuleCosts {
        &self.common.account.costs
    }
}

/// A packet of a frame before its first stage: its headers, and the bytes they count in.
fn view_of<'a>(
    f: &FrameIn<'_>,
    (d, bytes): (&'a Decoded, &'a [u8]),
    outer: Option<&'a Decoded>,
    root: &'a Decoded,
) -> PacketView<'a> {
    let is_in_capture = d.depth == 0 && !d.flags.has(Flags::REASSEMBLED);
    PacketView {
        headers: d,
        frame: bytes,
        payload: payload_of(d, bytes),
        ts_ns: f.ts_ns,
        clock_ns: f.clock_ns,
        link: f.link,
        device: f.device,
        number: f.number,
        pcap_cnt: is_in_capture.then_some(f.number),
        ignores_checksums: f.ignores_checksums && is_in_capture,
        direction: None,
        is_pseudo: false,
        is_established: false,
        stream_events: &[],
        detection_events: &[],
        pkt_src: d.source,
        no_payload: d.flags.has(Flags::HAS_INNER),
        is_refused: false,
        prefix: &[],
        outer,
        root,
        frame_number: f.number,
    }
}

/// The payload that rules and records see: fragments, broken headers and protocols that Suricata does
/// not decode have none.
fn payload_of<'a>(d: &Decoded, bytes: &'a [u8]) -> &'a [u8] {
    match d.transport {
        TransportHeader::None | TransportHeader::Gre(_) => &[],
        TransportHeader::Tcp(_)
        | TransportHeader::Udp(_)
        | TransportHeader::Icmpv4(_)
        | TransportHeader::Icmpv6(_)
        | TransportHeader::Sctp(_)
        | TransportHeader::Esp(_) => d.payload(bytes),
    }
}

impl Stages {
    /// A packet that belongs to a flow: TCP and streams or a datagram, the application layer, then the
    /// last stages. Returns the new state of the flow.
    fn in_flow<'v>(
        &mut self,
        common: &mut Common,
        (view, rewritten): (&mut PacketView<'v>, &'v Rewritten),
        flow: &mut Flow<NetFlow>,
        outcome: &mut PacketOutcome,
        sink: &mut dyn NetSink,
    ) -> Option<FlowState> {
        flow.ext.meet_rules(&common.engine);
        note_macs(&common.engine, view, flow);
        self.filter_before_stream(common, view, flow, outcome, sink);
        if outcome.drop.is_some() {
            note_dropped_flags(view, flow);
            self.finish(&mut common.context(view, Some(flow), outcome, sink));
            return None;
        }
        if flow.state != FlowState::Bypassed && is_bypassed(common, flow, view) {
            return Some(FlowState::Bypassed);
        }
        if flow.state == FlowState::Bypassed {
            count_bypassed(&mut common.account, flow, view);
            common.account.counters.bypassed_packets += 1;
            common.account.counters.bypassed_bytes += u64::from(view.headers.len);
            return None;
        }
        // The packet with which the inspection of payloads ends is still inspected.
        view.no_payload |= flow.ext.flags.no_payload;
        let mut dir = view.direction.unwrap_or(Direction::ToServer);
        let mut state = None;
        let elephant = Elephant::look_up(common, flow, view, dir);
        let verdict = self.stream.follow(&common.engine, view, flow, dir);
        if let Some(v) = &verdict {
            if elephant.is_some_and(|elephant| elephant.sheds(common, flow, (view, v))) {
                count_segment(v, view.payload.len(), flow, &mut common.account);
                self.stream.trim(flow, dir);
                return None;
            }
            if v.must_rewrite
                && let Some(ssn) = &flow.tcp
            {
                let bytes = rewritten.get_or_init(|| rewrite(view, ssn.stream(dir), v));
                view.payload = view.headers.payload(bytes);
                view.frame = bytes;
            }
            if v.must_swap {
                flow.swap_directions();
                flow.ext.forget_sides();
                dir = dir.opposite();
            }
            view.is_refused = v.is_invalid && (v.drop.is_some() || !v.is_still_inspected);
            state = v.flow_state;
            outcome.events.extend(v.events.iter());
            let Common { engine, account, .. } = &mut *common;
            count_segment(v, view.payload.len(), flow, account);
            carry_out(v, engine, account, flow, outcome);
            view.direction = Some(dir);
            let (d, is_stopped) = self.feed(common, (view, v), flow, outcome, sink);
            dir = d;
            if is_stopped {
                state = Some(FlowState::Bypassed);
            }
        } else {
            view.is_established = flow.is_two_way();
            // An empty datagram that is a direction's first one decides as any other that no protocol is in it.
            let is_due = !view.payload.is_empty() || !flow.ext.app.is_detected(dir);
            if view.headers.proto == IpProto::UDP && is_due {
                let mut effects = Effects::default();
                let Common { engine, account, .. } = &mut *common;
                dir = self.app.datagram(engine, account, flow, view, &mut effects);
                self.carry_out(effects, common, flow, outcome, view.clock_ns);
            }
        }
        view.direction = Some(dir);
        outcome.skip_detection |= flow.ext.flags.skips_detection();
        let mut cx = common.context(view, Some(flow), outcome, sink);
        cx.tcp = verdict.as_ref();
        self.finish(&mut cx);
        self.stream.trim(flow, dir);
        state
    }

    /// Decides what is due before a packet reaches its stream: whether its flow is dropped, and
    /// whether the firewall accepts it.
    fn filter_before_stream(
        &mut self,
        common: &mut Common,
        view: &mut PacketView<'_>,
        flow: &mut Flow<NetFlow>,
        outcome: &mut PacketOutcome,
        sink: &mut dyn NetSink,
    ) {
        let options = &common.engine.options;
        if flow.ext.flags.dropped && options.inline {
            outcome.drop = Some(flow.ext.flags.drop_reason.unwrap_or(DropReason::FlowDrop));
            outcome.skip_detection = true;
        }
        if options.firewall && view.headers.proto == IpProto::TCP {
            view.is_established = is_established(flow);
            let mut cx = common.context(view, Some(flow), outcome, sink);
            self.inspection.before_stream(&mut cx, &self.app.budget);
        }
    }

    /// Gives stream data that is due to the application layer. Returns the packet's direction, which
    /// may have turned out to be the opposite, and whether nothing of the flow is needed any more.
    fn feed(
        &mut self,
        common: &mut Common,
        (view, verdict): (&PacketView<'_>, &TcpVerdict),
        flow: &mut Flow<NetFlow>,
        outcome: &mut PacketOutcome,
        sink: &mut dyn NetSink,
    ) -> (Direction, bool) {
        let mut dir = view.direction.unwrap_or(Direction::ToServer);
        if verdict.update == Update::None {
            if flow.ext.app.is_between_protocols() {
                self.flush(common, view, flow, sink);
            }
            return (dir, false);
        }
        let at = Moment { ts_ns: view.ts_ns, clock_ns: view.clock_ns };
        let mut effects = Effects::default();
        let mut is_swapped = false;
        let was_changing = flow.ext.app.is_changing();
        for d in verdict.update.directions(dir) {
            let Common { engine, account, .. } = &mut *common;
            is_swapped |= self.app.feed(engine, account, flow, (d, at), &mut effects);
            if !was_changing && flow.ext.app.is_changing() {
                break;
            }
        }
        if is_swapped {
            dir = dir.opposite();
        }
        if effects.flush || flow.ext.app.is_between_protocols() {
            self.flush(common, &PacketView { direction: Some(dir), ..*view }, flow, sink);
        }
        let is_stopped = effects.stop_reassembly;
        self.carry_out(effects, common, flow, outcome, view.clock_ns);
        (dir, is_stopped)
    }

    /// Carries out the effects of input to the application layer.
    pub(crate) fn carry_out(
        &mut self,
        effects: Effects,
        common: &mut Common,
        flow: &mut Flow<NetFlow>,
        outcome: &mut PacketOutcome,
        clock_ns: u64,
    ) {
        for _ in 0..effects.gaps {
            self.stream.count_gap();
        }
        self.app.carry_out(effects, common, flow, outcome, clock_ns);
    }

    /// The last stages of a packet: rules, alerts, records, release of what is finished.
    pub(crate) fn finish(&mut self, cx: &mut PacketContext<'_>) {
        if cx.outcome.events.is_empty() && cx.outcome.detection_events.is_empty() {
            // Most packets: their view is complete as it is.
            return self.finish_complete(cx);
        }
        let stream_events = std::mem::take(&mut cx.outcome.events);
        let detection_events = std::mem::take(&mut cx.outcome.detection_events);
        let view = PacketView {
            stream_events: &stream_events,
            detection_events: &detection_events,
            ..*cx.view
        };
        self.finish_complete(&mut cx.with_view(&view));
    }

    /// The last stages of a packet whose view shows its events.
    fn finish_complete(&mut self, cx: &mut PacketContext<'_>) {
        let view = cx.view;
        let wants = &cx.engine.options.wants;
        cx.account.decode.count_events(&view.headers.events);
        for event in view.stream_events {
            cx.account.counters.count_stream_event(*event, 1);
        }
        self.records.anomalies(cx);
        if wants.frames {
            self.records.log_frames(cx);
        }
        match self.inspection.inspect(cx, &self.app.budget) {
            Inspected::Skipped => {}
            Inspected::Early => self.alerts.alert(cx, &self.records, &[]),
            Inspected::Rules { stream } => {
                self.alerts.alert(cx, &self.records, &stream);
                self.alerts.tags.log_tagged(cx);
            }
        }
        settle_frames(cx);
        if !view.is_pseudo {
            if wants.wire {
                self.records.note_wire(cx);
            }
            if !self.records.outputs.is_empty() {
                self.records.script_packet(cx, OutputKind::Packet, None);
            }
        }
        if wants.streams {
            self.records.log_stream(cx);
        }
        if cx.outcome.drop.is_some() || cx.outcome.reject.is_some() {
            self.records.log_drop(cx);
        }
        cx.account.settle_limits(cx.flow.as_deref_mut());
        if cx.flow.is_some() {
            self.release(cx);
        } else if view.headers.network == Network::Arp {
            self.records.log_arp(cx);
        }
    }

    /// Records of the flow's transactions that are due with the packet, and release of those that are
    /// finished.
    fn release(&mut self, cx: &mut PacketContext<'_>) {
        let (engine, view, is_tcp) = (cx.engine, cx.view, cx.tcp.is_some());
        let Some(flow) = cx.flow.as_deref_mut() else { return };
        if view.payload.is_empty() && flow.ext.app.parser.is_none() && !is_tcp {
            return;
        }
        if is_tcp && self.records.logs_streams(engine) {
            for d in Direction::BOTH {
                self.records.log_streams(engine, view, flow, (d, false), cx.sink);
            }
        }
        self.records.log_transactions(cx, false);
        let Some(flow) = cx.flow.as_deref_mut() else { return };
        let detection = engine.detector.is_some() && !flow.ext.flags.skips_detection();
        let seen = flow.tcp.as_ref().and_then(|t| t.only_direction());
        flow.ext.app.free_finished(detection, engine.options.wants, seen);
        if flow.ext.app.is_to_give_up() {
            self.records.log_transactions(cx, true);
            if let Some(flow) = cx.flow.as_deref_mut() {
                flow.ext.app.give_up(&self.app.budget);
            }
        }
    }
}

/// Frees the frames of the packet's direction that are inspected and logged.
fn settle_frames(cx: &mut PacketContext<'_>) {
    let Some(flow) = cx.flow.as_deref_mut() else { return };
    if let (Some(frames), Some(d)) = (flow.ext.app.frames.as_mut(), cx.view.direction) {
        let detection = cx.engine.detector.is_some() && !flow.ext.flags.skips_detection();
        frames.settle(d, flow.tcp.as_deref_mut(), detection, cx.engine.options.wants.frames);
    }
}

/// Notes the hardware addresses of the flow's sides.
fn note_macs(engine: &Engine, view: &PacketView<'_>, flow: &mut Flow<NetFlow>) {
    if !engine.options.wants.macs {
        return;
    }
    let h = view.headers;
    let (Some(src), Some(dst)) = (h.src_mac(view.frame), h.dst_mac(view.frame)) else { return };
    let to_server = view.direction == Some(Direction::ToServer);
    let (client, server) = if to_server { (src, dst) } else { (dst, src) };
    let macs = flow.ext.macs.get_or_insert_default();
    for (list, mac) in macs.iter_mut().zip([client, server]) {
        if !list.contains(&mac) {
            if list.len() < MACS_PER_SIDE { list.push(mac) } else { reached::MACS_PER_SIDE.count() }
        }
    }
}
