//! The stage that finds a packet's flow, and the one that follows its TCP session.

use crate::account::Account;
use crate::context::PacketOutcome;
use crate::detect::Detector;
use crate::engine::Engine;
use crate::exception::Exception;
use crate::flow_state::NetFlow;
use crate::frame_in::FrameIn;
use crate::tcp_segment::tcp_segment;
use crate::view::PacketView;
use gabion_flow::{
    EndReason, ExceptionTrigger, Flow, FlowTable, Lookup, PacketFacts, PacketKey, Stream,
    StreamEvent, TcpState, TcpTracker, TcpVerdict, packet_key, quoted_key,
};
use gabion_packet::{Flags, TransportHeader};
use gabion_record::ledger::ShedReason;
use gabion_record::{Direction, budget::Budget};

/// The flow table of a worker.
pub(crate) struct FlowStage {
    pub(crate) table: FlowTable<NetFlow>,
}

impl FlowStage {
    /// Finds the packet's flow, or opens one. [`FlowStage::pop_displaced`] returns the flows that were
    /// evicted for it.
    pub(crate) fn look_up(&mut self, view: &PacketView<'_>, f: &FrameIn<'_>) -> Lookup {
        let d = view.headers;
        // What fragments were put together to counts with the link layer of the last one.
        let link_len = if d.flags.has(Flags::REASSEMBLED) { view.prefix.len() } else { 0 };
        let facts = PacketFacts {
            ts_ns: f.ts_ns,
            clock_ns: f.clock_ns,
            bytes: d.len.saturating_add(link_len as u32),
            ttl: d.ttl,
            tcp: d.transport.tcp().map(|t| (t.flags, t.seq)),
            quoted: d
                .transport
                .icmp()
                .and_then(|i| i.quoted)
                .map(|q| PacketKey { device: f.device, ..quoted_key(d, &q) }),
            number: f.number,
        };
        self.table.packet(&PacketKey { device: f.device, ..packet_key(d) }, &facts)
    }

    /// A flow that has timed out.
    #[inline]
    pub(crate) fn pop_ended(
        &mut self,
        f: &FrameIn<'_>,
        account: &mut Account,
    ) -> Option<(Flow<NetFlow>, EndReason)> {
        let (flow, reason) = self.table.pop_ended(f.clock_ns)?;
        count_leap(f, reason, account);
        Some((flow, reason))
    }

    /// A flow that the last packet has displaced.
    pub(crate) fn pop_displaced(
        &mut self,
        f: &FrameIn<'_>,
        account: &mut Account,
    ) -> Option<(Flow<NetFlow>, EndReason)> {
        let (flow, reason) = self.table.pop_displaced()?;
        count_leap(f, reason, account);
        Some((flow, reason))
    }
}

fn count_leap(f: &FrameIn<'_>, reason: EndReason, account: &mut Account) {
    account.counters.ended_by_leaps += u64::from(f.is_leap && reason == EndReason::Timeout);
}

/// Enters a packet's lookup in the ledgers of flows.
pub(crate) fn count_lookup(lookup: &Lookup, len: u32, account: &mut Account) {
    let (ledgers, len) = (&mut account.ledgers, u64::from(len));
    ledgers.flow.receive(1, len);
    match lookup {
        Lookup::Refused(_) | Lookup::Unopened => ledgers.flow.shed(ShedReason::FlowMemcap, 1, len),
        Lookup::None => ledgers.flow.pass(1, len),
        Lookup::Flow { is_new, .. } => {
            ledgers.flow.pass(1, len);
            ledgers.flows.receive(u64::from(*is_new), 0);
        }
    }
}

/// Whether the handshake of the flow's TCP session is complete.
pub(crate) fn is_established(flow: &Flow<NetFlow>) -> bool {
    flow.tcp.as_ref().is_some_and(|t| t.state() >= TcpState::Established)
}

/// The TCP tracker of a worker.
pub(crate) struct StreamStage {
    tcp: TcpTracker,
}

impl StreamStage {
    /// A stage with these budgets for sessions and their data.
    pub(crate) fn new(engine: &Engine, sessions: Budget, data: Budget) -> StreamStage {
        let mut stage =
            StreamStage { tcp: TcpTracker::new(engine.options.stream.clone(), sessions, data) };
        stage.adopt(engine);
        stage
    }

    /// Continues with another engine. Suricata 8.0.7 compares data that comes again only where a rule asks for it.
    pub(crate) fn adopt(&mut self, engine: &Engine) {
        let asks =
            |det: &Detector| det.stream_events.contains_key(&StreamEvent::OverlapDifferentData);
        self.tcp.compare_overlaps(engine.detector.as_ref().is_some_and(asks));
    }

    /// Follows the session of a TCP packet and notes in the packet whether it is established. `None`: the
    /// packet is not TCP.
    pub(crate) fn follow(
        &mut self,
        engine: &Engine,
        view: &mut PacketView<'_>,
        flow: &mut Flow<NetFlow>,
        dir: Direction,
    ) -> Option<TcpVerdict> {
        let seg = tcp_segment(view, engine.options.checksums)?;
        // A packet that completes the handshake and carries nothing is not yet one of an
        // established connection.
        let was_established = is_established(flow);
        // Nor is one with a FIN or behind a hole.
        let is_next =
            flow.tcp.as_ref().is_none_or(|t| t.stream(dir).is_next(seg.seq) && !seg.is_last());
        let verdict = self.tcp.handle(&mut flow.tcp, &seg, dir);
        view.is_established =
            was_established || (is_next && !seg.payload.is_empty() && is_established(flow));
        Some(verdict)
    }

    /// A gap was passed on to the application layer.
    pub(crate) fn count_gap(&mut self) {
        self.tcp.count_gap();
    }

    /// The packet is finished: data that is not needed any more is freed.
    pub(crate) fn trim(&mut self, flow: &mut Flow<NetFlow>, dir: Direction) {
        if let Some(ssn) = flow.tcp.as_mut() {
            self.tcp.trim(ssn, dir);
        }
    }

    /// The flow has ended.
    pub(crate) fn recycle(&mut self, flow: &mut Flow<NetFlow>) {
        self.tcp.recycle(flow.tcp.take());
    }

    /// Counters of sessions and streams.
    pub(crate) fn counters(&self) -> gabion_flow::TcpCounters {
        self.tcp.counters()
    }

    /// Budgets of sessions and data.
    pub(crate) fn budgets(&self) -> [&Budget; 2] {
        self.tcp.budgets()
    }
}

/// A packet is dropped before its stream sees it: the record of its flow has its flags nevertheless.
pub(crate) fn note_dropped_flags(view: &PacketView<'_>, flow: &mut Flow<NetFlow>) {
    if let (Some(session), TransportHeader::Tcp(t)) = (&mut flow.tcp, &view.headers.transport) {
        session.note_flags(view.direction.unwrap_or(Direction::ToServer), t.flags);
    }
}

/// Enters a TCP packet with payload, or with a wrong checksum, in the ledger of streams.
pub(crate) fn count_segment(
    v: &TcpVerdict,
    len: usize,
    flow: &mut Flow<NetFlow>,
    account: &mut Account,
) {
    if len == 0 && !v.is_bad_checksum {
        return;
    }
    let (stage, len) = (&mut account.ledgers.stream, len as u64);
    stage.receive(1, len);
    match v.exception {
        _ if v.is_bad_checksum => stage.shed(ShedReason::BadChecksum, 1, len),
        Some(ExceptionTrigger::StreamMemcap) => stage.shed(ShedReason::StreamMemcap, 1, len),
        Some(ExceptionTrigger::ReassemblyMemcap) => {
            stage.shed(ShedReason::ReassemblyMemcap, 1, len);
            flow.ext.lose(ShedReason::ReassemblyMemcap, 1, len);
        }
        // The session was refused at an earlier packet.
        _ if flow.tcp.is_none() && flow.has_exception(ExceptionTrigger::StreamMemcap) => {
            stage.shed(ShedReason::StreamMemcap, 1, len);
        }
        _ => stage.pass(1, len),
    }
}

/// Applies the TCP tracker's decisions to a flow and its packet.
pub(crate) fn carry_out(
    v: &TcpVerdict,
    engine: &Engine,
    account: &mut Account,
    flow: &mut Flow<NetFlow>,
    outcome: &mut PacketOutcome,
) {
    if let Some(trigger) = v.exception {
        let exception = Exception::from_policies(&engine.options.policies, trigger);
        account.counters.count_exception(exception.cause());
        flow.note_exception(trigger);
        exception.on_flow(engine, flow, outcome);
    }
    if let Some(drop) = v.drop.filter(|_| engine.options.inline) {
        outcome.drop.get_or_insert(drop);
        outcome.skip_detection = true;
    }
}

/// Inline: the frame with the bytes that the stream has in its place, as the receiver gets it.
pub(crate) fn rewrite(view: &PacketView<'_>, stream: &Stream, v: &TcpVerdict) -> Vec<u8> {
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
