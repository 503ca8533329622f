//! What a worker leaves out while its ring runs full: the least useful first, in a fixed order, each counted.
//!
//! 1. Packets of flows that can hardly raise an alert any more: encrypted after their handshake, or beyond the depth up
//!    to which streams are reassembled. The rest of such a flow is bypassed.
//! 2. Records: the owner of the sink leaves them out.
//! 3. Rules on flows that begin now, except where a rule that is pinned asks for their protocol and ports.
//!
//! The caller decides how full a ring is; here is what each level means.

use crate::account::Account;
use crate::detect::Detector;
use crate::flow_state::NetFlow;
use crate::view::PacketView;
use gabion_flow::Flow;
use gabion_record::ledger::ShedReason;
use gabion_record::{Direction, Pressure};
use gabion_rules::compiled::PortId;

/// Rules on which flows that begin under pressure are inspected, by their place.
#[derive(Debug, Default)]
pub(crate) struct Pinned(Vec<u32>);

impl Pinned {
    /// The rules with these ids: ranges, both ends included.
    pub(crate) fn of_rules(detector: Option<&Detector>, ids: &[(u32, u32)]) -> Pinned {
        let all = detector.into_iter().flat_map(|d| d.set.signatures.iter().enumerate());
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
            let is_proto = hot.pkthdr || protos.is_some_and(|protos| protos.contains(h.proto.0));
            is_proto
                && (holds(hot.sp, h.sp) && holds(hot.dp, h.dp)
                    || holds(hot.sp, h.dp) && holds(hot.dp, h.sp))
        })
    }
}

/// Whether the rest of a flow is bypassed, of which a packet in this direction came.
pub(crate) fn is_bypassed(
    account: &mut Account,
    flow: &mut Flow<NetFlow>,
    view: &PacketView<'_>,
) -> bool {
    if account.pressure < Pressure::Bypass {
        return false;
    }
    let dir = view.direction.unwrap_or(Direction::ToServer);
    let is_beyond = flow.tcp.as_deref().is_some_and(|t| t.stream(dir).is_depth_reached());
    let is_idle = flow.ext.flags.no_payload || is_beyond;
    if is_idle {
        flow.ext.flags.is_shed = true;
        count_bypassed(account, flow, view);
    }
    is_idle
}

/// Counts a packet of a flow whose rest is bypassed, where that began under pressure.
pub(crate) fn count_bypassed(account: &mut Account, flow: &Flow<NetFlow>, view: &PacketView<'_>) {
    if flow.ext.flags.is_shed {
        let len = view.headers.len.into();
        account.ledgers.pressure.receive(1, len);
        account.ledgers.pressure.shed(ShedReason::PressureBypass, 1, len);
    }
}

/// Leaves rules out on a flow that begins, if that is asked for.
pub(crate) fn begin_flow(
    account: &mut Account,
    pinned: (&Pinned, Option<&Detector>),
    flow: &mut Flow<NetFlow>,
    view: &PacketView<'_>,
) {
    let (pinned, Some(detector)) = pinned else { return };
    if account.pressure < Pressure::Detection || pinned.asks_for(detector, view) {
        return;
    }
    flow.ext.flags.passed = true;
    account.ledgers.pressure.receive(1, 0);
    account.ledgers.pressure.shed(ShedReason::PressureDetection, 1, 0);
}
