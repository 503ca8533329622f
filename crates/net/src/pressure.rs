//! What a worker leaves out while its ring runs full: the least useful first, in a fixed order, each counted.
//!
//! 1. Packets that can hardly raise an alert any more: of flows that are encrypted after their handshake, or of which both
//!    directions are beyond the depth up to which streams are reassembled. The rest of such a flow is bypassed. While one
//!    direction is still looked at, as that with further requests during a download, the flow is followed, and only those
//!    packets are left out that are beyond the depth of theirs and bring nothing new of the other.
//! 2. Records: the owner of the sink leaves them out.
//! 3. Rules on flows that begin now.
//!
//! What a rule that is pinned asks for, by its protocol and ports, is still inspected at 1 and at 3.
//!
//! The caller decides how full a ring is; here is what each level means.

use crate::account::Account;
use crate::context::Common;
use crate::detect::Detector;
use crate::engine::Engine;
use crate::flow_state::NetFlow;
use crate::view::PacketView;
use gabion_flow::{Flow, Stream, TcpSession, TcpVerdict};
use gabion_record::ledger::ShedReason;
use gabion_record::{Direction, Pressure};
use gabion_rules::compiled::PortId;

/// Rules on which flows that begin under pressure are inspected, by their place.
#[derive(Debug, Default)]
pub(crate) struct Pinned(Vec<u32>);

impl Pinned {
    /// Those of an engine's rules whose ids are in the ranges of its options, both ends included.
    pub(crate) fn of_rules(engine: &Engine) -> Pinned {
        let all = engine.detector.iter().flat_map(|d| d.set.signatures.iter().enumerate());
        let ids = &engine.options.pinned;
        let is_pinned = |id: u32| ids.iter().any(|(first, last)| (*first..=*last).contains(&id));
        Pinned(all.filter(|(_, s)| is_pinned(s.sid)).map(|(n, _)| n as u32).collect())
    }

    /// Whether one of them may match on this packet's flow, by protocol and ports of either direction.
    fn asks_for(&self, detector: &Detector, view: &PacketView<'_>) -> bool {
        let h = view.headers;
        let ports = &detector.set.ports;
        let holds = |id: PortId, port: u16| {
            id == PortId::ANY || ports.get(id.0 as usize).is_some_and(|set| set.contains(port))
        };
        self.0.iter().filter_map(|sig| detector.hot.get(*sig as usize)).any(|hot| {
            let protos = detector.protos.get(usize::from(hot.protos));
            let is_proto = hot.pkthdr || protos.is_some_and(|protos| protos.contains(h.proto));
            is_proto
                && (holds(hot.sp, h.sp) && holds(hot.dp, h.dp)
                    || holds(hot.sp, h.dp) && holds(hot.dp, h.sp))
        })
    }
}

/// Whether a rule that is pinned may match on a flow. Each flow is asked about once, as the rules may be many.
fn is_pinned(common: &Common, flow: &mut Flow<NetFlow>, view: &PacketView<'_>) -> bool {
    let Some(detector) = &common.engine.detector else { return false };
    *flow.ext.flags.is_pinned.get_or_insert_with(|| common.pinned.asks_for(detector, view))
}

/// Whether nothing of a session is left to inspect: both directions are beyond their depth.
fn is_over(ssn: &TcpSession) -> bool {
    let is_through = |stream: &Stream| stream.is_depth_reached() && !stream.has_pending();
    Direction::BOTH.into_iter().all(|dir| is_through(ssn.stream(dir)))
}

/// Whether the rest of a flow is bypassed, of which a packet came.
pub(crate) fn is_bypassed(
    common: &mut Common,
    flow: &mut Flow<NetFlow>,
    view: &PacketView<'_>,
) -> bool {
    if common.account.pressure < Pressure::Bypass {
        return false;
    }
    let is_idle = flow.ext.flags.no_payload || flow.tcp.as_deref().is_some_and(is_over);
    if !is_idle || is_pinned(common, flow, view) {
        return false;
    }
    flow.ext.flags.is_shed = true;
    count_bypassed(&mut common.account, flow, view);
    true
}

/// A direction beyond its depth while the other one may still be inspected, before a packet of it is followed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elephant {
    direction: Direction,
    /// Up to where the other direction could be inspected.
    other_end: u64,
}

impl Elephant {
    /// The direction of a packet, if that is one, there is pressure, and no pinned rule asks for its flow.
    pub(crate) fn look_up(
        common: &Common,
        flow: &mut Flow<NetFlow>,
        view: &PacketView<'_>,
        direction: Direction,
    ) -> Option<Elephant> {
        if common.account.pressure < Pressure::Bypass {
            return None;
        }
        let ssn = flow.tcp.as_deref()?;
        let other_end = ssn.stream(direction.opposite()).usable_end();
        let is_beyond = ssn.stream(direction).is_depth_reached();
        (is_beyond && !is_pinned(common, flow, view)).then_some(Elephant { direction, other_end })
    }

    /// Whether the packet, which was followed, is left out, and counted: nothing of its own direction is left to inspect, it
    /// shows nothing new of the other one, and changes nothing that anybody wants to know.
    pub(crate) fn sheds(
        self,
        common: &mut Common,
        flow: &Flow<NetFlow>,
        (view, verdict): (&PacketView<'_>, &TcpVerdict),
    ) -> bool {
        let Some(ssn) = flow.tcp.as_deref() else { return false };
        let is_usual = verdict.events.is_empty()
            && !verdict.is_invalid
            && !verdict.is_bad_checksum
            && !verdict.is_state_changed
            && !verdict.is_reset
            && !verdict.is_new_session
            && !verdict.must_swap
            && !verdict.must_rewrite
            && !verdict.wants_bypass
            && verdict.flow_state.is_none()
            && verdict.exception.is_none()
            && verdict.drop.is_none();
        let own = ssn.stream(self.direction);
        // Where no rule runs, nobody looks at what is left for rules.
        let is_inspected = common.engine.detector.is_some() && !flow.ext.flags.skips_detection();
        let is_nothing_new = ssn.stream(self.direction.opposite()).usable_end() == self.other_end
            && (!is_inspected || own.raw_views(1, true).is_none());
        let is_shed = is_usual && is_nothing_new;
        if is_shed {
            count_shed(&mut common.account, view);
        }
        is_shed
    }
}

/// Counts a packet of a flow whose rest is bypassed, where that began under pressure.
pub(crate) fn count_bypassed(account: &mut Account, flow: &Flow<NetFlow>, view: &PacketView<'_>) {
    if flow.ext.flags.is_shed {
        count_shed(account, view);
    }
}

fn count_shed(account: &mut Account, view: &PacketView<'_>) {
    let len = view.headers.len.into();
    account.ledgers.pressure.receive(1, len);
    account.ledgers.pressure.shed(ShedReason::PressureBypass, 1, len);
}

/// Leaves rules out on a flow that begins, if that is asked for.
pub(crate) fn begin_flow(common: &mut Common, flow: &mut Flow<NetFlow>, view: &PacketView<'_>) {
    let has_rules = common.engine.detector.is_some();
    if common.account.pressure < Pressure::Detection || !has_rules || is_pinned(common, flow, view)
    {
        return;
    }
    flow.ext.flags.passed = true;
    common.account.ledgers.pressure.receive(1, 0);
    common.account.ledgers.pressure.shed(ShedReason::PressureDetection, 1, 0);
}
