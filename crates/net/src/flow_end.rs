//! The end of a flow: its last data is inspected, its records are written.
//!
//! Suricata makes a pseudo packet for each direction with data that was not inspected yet, and so does
//! the engine. Such a packet has only addresses and ports.

use crate::app::Effects;
use crate::application::Moment;
use crate::context::{Common, InputPlace, PacketOutcome};
use crate::flow_state::NetFlow;
use crate::inspection::is_stream_looked_at;
use crate::view::PacketView;
use crate::worker::Stages;
use gabion_flow::{EndReason, Flow, TcpState};
use gabion_packet::{Decoded, Network, TransportHeader};
use gabion_record::applayer::ProtoId;
use gabion_record::eve::NetSink;
use gabion_record::ledger::ShedReason;
use gabion_record::{Direction, PacketSource};
use smallvec::SmallVec;

impl Stages {
    /// A flow has ended, at this event time: its remaining data is inspected and logged.
    pub(crate) fn end_flow(
        &mut self,
        common: &mut Common,
        mut flow: Flow<NetFlow>,
        (reason, now_ns): (EndReason, u64),
        place: InputPlace,
        sink: &mut dyn NetSink,
    ) {
        match reason {
            EndReason::Forced => common.account.ledgers.flows.shed(ShedReason::FlowMemcap, 1, 0),
            EndReason::Timeout | EndReason::Shutdown | EndReason::TcpReuse => {
                common.account.ledgers.flows.pass(1, 0);
            }
        }
        flow.ext.meet_rules(&common.engine);
        // Its last alerts and records are of the time at which it ends, not of its last packet (Suricata 8.0.7).
        let place = InputPlace { ts_ns: now_ns, ..place };
        // A flow that was dropped has nothing left to inspect.
        let is_dropped = flow.ext.flags.dropped && common.engine.options.inline;
        if !is_dropped {
            self.end_streams(common, &mut flow, place, sink);
        }
        if self.records.logs_streams(&common.engine) && flow.tcp.is_some() {
            for d in Direction::BOTH {
                let headers = pseudo_headers(&flow, d);
                let view = pseudo_view(&headers, &flow, d, place);
                self.records.log_streams(&common.engine, &view, &mut flow, (d, true), sink);
            }
        }
        if flow.ext.app.parser.is_some() && !is_dropped {
            let d = Direction::ToServer;
            let headers = pseudo_headers(&flow, d);
            let view = pseudo_view(&headers, &flow, d, place);
            let mut outcome = PacketOutcome::default();
            let mut cx = common.context(&view, Some(&mut flow), &mut outcome, sink);
            self.records.log_transactions(&mut cx, true);
        }
        self.records.log_flow(&common.engine, &flow, (reason, now_ns), sink);
        self.alerts.tags.untag(flow.id);
        flow.ext.app.uncharge(&self.app.budget);
        flow.ext.vars.release(&self.app.budget);
        common.account.settle_limits(None);
        self.stream.recycle(&mut flow);
    }

    /// The streams of a flow have ended: the remaining data of each side is parsed and inspected.
    fn end_streams(
        &mut self,
        common: &mut Common,
        flow: &mut Flow<NetFlow>,
        place: InputPlace,
        sink: &mut dyn NetSink,
    ) {
        let of_rules = Direction::BOTH.map(|d| is_stream_looked_at(&common.engine, flow, d));
        let Some(ssn) = flow.tcp.as_mut() else { return };
        let detection = common.engine.detector.is_some();
        for d in Direction::BOTH.into_iter().filter(|d| detection && !of_rules[d.index()]) {
            ssn.stream_mut(d).no_raw();
        }
        let pending: SmallVec<[Direction; 2]> = ssn.finish().collect();
        // Suricata looks at both sides of a session that was established and has not ended, or has ended in the middle of
        // a transaction.
        let app = &flow.ext.app;
        let is_open = (TcpState::Established..TcpState::Closed).contains(&ssn.state());
        let is_unfinished =
            detection && (is_open || app.parser.is_some() && app.has_unfinished_tx());
        // An announced flow on which nothing came: what was announced is not found.
        let is_unused = app.expected.is_known()
            && app.proto == ProtoId::UNKNOWN
            && ssn.state() != TcpState::Closed;
        // Without detection nothing was inspected of any stream, although nothing is kept of it.
        let is_uninspected = Direction::BOTH.map(|d| !detection && ssn.stream(d).has_raw());
        for d in Direction::BOTH {
            // The remaining data of one side may be the reason to look at the other's.
            let app = &flow.ext.app;
            let is_unused = is_unused && d == Direction::ToClient;
            let is_open = is_unfinished
                || is_unused
                || is_uninspected[d.index()]
                || pending.contains(&d)
                || app.has_open_work(d, detection)
                || app.frames.as_ref().is_some_and(|f| !f.is_empty(d));
            // Where no protocol was found and nothing is left, nothing is looked for any more.
            let is_fed = app.parser.is_some() || is_unused || pending.contains(&d);
            if is_open {
                self.end_direction(common, flow, (d, place, is_fed), sink);
            }
        }
    }

    /// The remaining data of both directions is inspected and logged, before the current packet.
    pub(crate) fn flush(
        &mut self,
        common: &mut Common,
        by: &PacketView<'_>,
        flow: &mut Flow<NetFlow>,
        sink: &mut dyn NetSink,
    ) {
        let dir = by.direction.unwrap_or(Direction::ToServer);
        let first = if common.engine.options.inline { dir.opposite() } else { dir };
        let place = InputPlace { ts_ns: by.ts_ns, clock_ns: by.clock_ns, link: by.link };
        // What is not acknowledged yet is inspected as soon as it is.
        if let Some(ssn) = &mut flow.tcp {
            Direction::BOTH.into_iter().for_each(|d| ssn.stream_mut(d).trigger_raw());
        }
        for d in [first, first.opposite()] {
            let headers = pseudo_headers(flow, d);
            let view = PacketView {
                number: by.number,
                pkt_src: PacketSource::StreamFlush,
                ..pseudo_view(&headers, flow, d, place)
            };
            let skip_detection = flow.ext.flags.skips_detection();
            let mut outcome = PacketOutcome { skip_detection, ..PacketOutcome::default() };
            self.finish(&mut common.context(&view, Some(&mut *flow), &mut outcome, sink));
        }
    }

    /// The pseudo packet of one direction at a flow's end.
    fn end_direction(
        &mut self,
        common: &mut Common,
        flow: &mut Flow<NetFlow>,
        (d, place, is_fed): (Direction, InputPlace, bool),
        sink: &mut dyn NetSink,
    ) {
        let headers = pseudo_headers(flow, d);
        // The packet with which the inspection of payloads ends is still inspected, this one too.
        let no_payload = flow.ext.flags.no_payload;
        let mut effects = Effects::default();
        let at = Moment { ts_ns: place.ts_ns, clock_ns: place.clock_ns };
        let Common { engine, account, .. } = &mut *common;
        if is_fed {
            self.app.feed(engine, account, flow, (d, at), &mut effects);
        }
        let mut outcome = PacketOutcome::default();
        self.carry_out(effects, common, flow, &mut outcome, place.clock_ns);
        if let Some(p) = flow.ext.app.parser.as_mut() {
            p.finish(d);
        }
        outcome.skip_detection |= flow.ext.flags.dropped || flow.ext.flags.skips_detection();
        let view = PacketView { no_payload, ..pseudo_view(&headers, flow, d, place) };
        self.finish(&mut common.context(&view, Some(flow), &mut outcome, sink));
    }
}

/// Headers of the pseudo packet at a flow's end.
fn pseudo_headers(flow: &Flow<NetFlow>, d: Direction) -> Decoded {
    let mut h = Decoded::new();
    let (src, dst) = (flow.source(d), flow.source(d.opposite()));
    h.src = src.addr;
    h.dst = dst.addr;
    h.sp = src.port;
    h.dp = dst.port;
    h.proto = flow.proto;
    h.network = if flow.ip_version == 6 { Network::Ipv6 } else { Network::Ipv4 };
    let (vlans, count) = flow.vlan_ids();
    h.vlans = vlans;
    h.vlan_count = count as u8;
    h.transport = TransportHeader::Tcp(gabion_packet::Tcp { flags: 0x10, ..Default::default() });
    h
}

static NO_HEADERS: Decoded = Decoded::new();

fn pseudo_view<'a>(
    headers: &'a Decoded,
    flow: &Flow<NetFlow>,
    d: Direction,
    place: InputPlace,
) -> PacketView<'a> {
    PacketView {
        headers,
        frame: &[],
        payload: &[],
        ts_ns: place.ts_ns,
        clock_ns: place.clock_ns,
        link: place.link,
        device: flow.device,
        number: 0,
        pcap_cnt: None,
        ignores_checksums: false,
        direction: Some(d),
        is_pseudo: true,
        is_established: flow
            .tcp
            .as_ref()
            .is_some_and(|t| t.state() >= gabion_flow::TcpState::Established),
        stream_events: &[],
        detection_events: &[],
        pkt_src: PacketSource::FlowEnd,
        no_payload: flow.ext.flags.no_payload,
        is_refused: false,
        prefix: &[],
        outer: None,
        root: &NO_HEADERS,
        frame_number: 0,
    }
}
