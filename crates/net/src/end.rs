//! What is left of a flow when it ends: its last data is inspected, its records are written.
//!
//! The peer makes a packet of its own for each direction in which something was not looked at yet; so
//! does the engine. Such a packet has addresses and ports and nothing else.

use crate::app::Effects;
use crate::flow_state::NetFlow;
use crate::limits::{END_PIECES_MAX, reached};
use crate::view::PacketView;
use crate::worker::{Core, Fate};
use gabion_flow::{EndReason, Flow};
use gabion_packet::{Decoded, Network, Transport};
use gabion_record::Direction;
use gabion_record::eve::NetSink;
use gabion_record::ledger::ShedReason;
use smallvec::SmallVec;

impl Core {
    /// A flow has ended: what is left of it is inspected and logged.
    pub(crate) fn end_flow(
        &mut self,
        mut flow: Flow<NetFlow>,
        reason: EndReason,
        now_ns: u64,
        sink: &mut dyn NetSink,
    ) {
        if let Some(turn) = &self.turn {
            turn.ending(flow.first_number);
            sink.ending(flow.first_number);
        }
        match reason {
            EndReason::Forced => self.ledgers.flows.shed(ShedReason::FlowMemcap, 1, 0),
            _ => self.ledgers.flows.pass(1, 0),
        }
        // Of a flow that was dropped nothing more comes to an end.
        let is_dropped = flow.ext.flags.dropped && self.engine.options.inline;
        if let Some(ssn) = flow.tcp.as_mut().filter(|_| !is_dropped) {
            let pending: SmallVec<[Direction; 2]> = ssn.finish().collect();
            let detection = self.engine.detector.is_some();
            for d in Direction::BOTH {
                // What is left of one side may be what makes the other's worth looking at.
                let app = &flow.ext.app;
                let is_open = pending.contains(&d)
                    || app.has_open_work(d, detection)
                    || app.frames.as_ref().is_some_and(|f| !f.is_empty(d));
                if is_open {
                    self.end_direction(&mut flow, d, sink);
                }
            }
        }
        if self.outputs.wants_streams() && flow.tcp.is_some() {
            for d in Direction::BOTH {
                let headers = pseudo_headers(&flow, d);
                let view = pseudo_view(&headers, &flow, d);
                self.script_streams(&view, &mut flow, d, true);
            }
        }
        if flow.ext.app.parser.is_some() && !is_dropped {
            let headers = pseudo_headers(&flow, Direction::ToServer);
            let view = pseudo_view(&headers, &flow, Direction::ToServer);
            self.log_transactions(&view, &mut flow, true, sink);
        }
        self.log_flow(&flow, reason, now_ns, sink);
        self.untag(flow.id);
        flow.ext.app.uncharge(&self.app);
        flow.ext.vars.release(&self.app);
        self.settle_limits(None);
        self.tcp.recycle(flow.tcp.take());
    }

    /// What is left of both directions is inspected and logged, before the packet at hand.
    pub(crate) fn flush(
        &mut self,
        by: &PacketView<'_>,
        flow: &mut Flow<NetFlow>,
        sink: &mut dyn NetSink,
    ) {
        let dir = by.direction.unwrap_or(Direction::ToServer);
        let first = if self.engine.options.inline { dir.opposite() } else { dir };
        for d in [first, first.opposite()] {
            let headers = pseudo_headers(flow, d);
            let view = PacketView {
                ts_ns: by.ts_ns,
                number: by.number,
                pkt_src: "stream (detect/log)",
                ..pseudo_view(&headers, flow, d)
            };
            let mut fate = Fate { skip_detection: flow.ext.flags.passed, ..Fate::default() };
            self.finish_packet(&view, Some(&mut *flow), &mut fate, None, sink);
        }
    }

    /// The pseudo packet of one direction at a flow's end.
    fn end_direction(&mut self, flow: &mut Flow<NetFlow>, d: Direction, sink: &mut dyn NetSink) {
        let headers = pseudo_headers(flow, d);
        let mut effects = Effects::default();
        let ts = flow.last_ns;
        self.feed(flow, ts, d, &mut effects);
        let mut fate = Fate::default();
        self.apply_effects(effects, flow, &mut fate);
        if let Some(p) = flow.ext.app.parser.as_mut() {
            p.finish(d);
        }
        if flow.ext.flags.dropped || flow.ext.flags.passed {
            fate.skip_detection = true;
        }
        // Data behind holes comes in pieces of its own.
        let inspects = self.engine.detector.is_some() && !fate.skip_detection;
        for n in 1.. {
            let view = pseudo_view(&headers, flow, d);
            self.finish_packet(&view, Some(flow), &mut fate, None, sink);
            let stream = flow.tcp.as_ref().map(|s| s.stream(d));
            if !inspects || stream.is_none_or(|s| s.raw_view(1, true).is_none()) {
                break;
            }
            if n == END_PIECES_MAX {
                reached::END_PIECES_MAX.count();
                break;
            }
        }
    }
}

/// Headers of the packet that the engine makes at a flow's end.
fn pseudo_headers(flow: &Flow<NetFlow>, d: Direction) -> Decoded {
    let mut h = Decoded::new();
    let (src, dst) = (flow.source(d), flow.source(d.opposite()));
    h.src = src.addr;
    h.dst = dst.addr;
    h.sp = src.port;
    h.dp = dst.port;
    h.proto = flow.proto;
    h.network = if flow.ip_version == 6 { Network::Ipv6 } else { Network::Ipv4 };
    h.vlans = flow.vlan;
    h.vlan_count = flow.vlan.iter().filter(|v| **v != 0).count() as u8;
    h.transport = Transport::Tcp(gabion_packet::Tcp { flags: 0x10, ..Default::default() });
    h
}

static NO_HEADERS: Decoded = Decoded::new();

fn pseudo_view<'a>(headers: &'a Decoded, flow: &Flow<NetFlow>, d: Direction) -> PacketView<'a> {
    PacketView {
        headers,
        frame: &[],
        payload: &[],
        ts_ns: flow.last_ns,
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
        pkt_src: "stream (flow timeout)",
        no_payload: flow.ext.flags.no_payload,
        prefix: &[],
        outer: None,
        root: &NO_HEADERS,
        frame_number: 0,
    }
}
