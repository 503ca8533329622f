//! The data that an alert could not be based on: the ledger of its flow's path since the flow began.
//!
//! A finding is as good as what was seen. What was shed of the flow itself (gaps, the reassembly
//! depth, budgets that refused its segments) is counted exactly; what the worker refused meanwhile
//! without knowing its flow (fragments, packets without a flow, sessions) may have been the
//! flow's and is counted too.

use crate::flow_state::NetFlow;
use crate::ledgers::{OF_WORKER, WorkerLedgers};
use gabion_flow::Flow;
use gabion_record::Direction;
use gabion_record::ledger::{Ledger, ShedReason};

/// The ledger of a flow since it began; `None` if nothing was lost.
pub(crate) fn loss(ledgers: &WorkerLedgers, flow: &Flow<NetFlow>) -> Option<Ledger> {
    let now = ledgers.shed_so_far();
    let streams = flow.tcp.as_deref().map(|t| Direction::BOTH.map(|d| t.stream(d)));
    let has_loss = flow.ext.lost.is_some()
        || now != flow.ext.shed_at_start
        || streams.iter().flatten().any(|s| s.gaps().0 > 0 || s.is_depth_reached());
    if !has_loss {
        return None;
    }
    let mut ledger = Ledger::new();
    let seen = (0..2).map(|d| (flow.seen[d].pkts, flow.seen[d].bytes));
    let (pkts, bytes) = seen.fold((0, 0), |(p, b), (q, c)| (p + q, b + c));
    ledger.receive(pkts, bytes);
    ledger.pass(pkts, bytes);
    let mut lose = |reason, items, bytes| {
        ledger.receive(items, bytes);
        ledger.shed(reason, items, bytes);
    };
    // Refused data and data beyond the depth leave gaps too: they are counted once.
    let own = flow.ext.lost.as_deref();
    let mut explained = own.map_or(0, |l| l.shed_for(ShedReason::ReassemblyMemcap).bytes);
    let (mut gaps, mut missing) = (0, 0);
    for s in streams.iter().flatten() {
        let (n, bytes) = s.gaps();
        gaps += u64::from(n);
        missing += bytes;
        if s.is_depth_reached() {
            lose(ShedReason::StreamDepth, 1, s.beyond_depth());
            explained += s.beyond_depth();
        }
    }
    if missing > explained {
        lose(ShedReason::StreamGap, gaps, missing - explained);
    }
    if let Some(own) = own {
        for (reason, tally) in own.sheds() {
            lose(reason, tally.items, tally.bytes);
        }
    }
    for (n, reason) in OF_WORKER.into_iter().enumerate() {
        let items = now[n].wrapping_sub(flow.ext.shed_at_start[n]);
        if items > 0 {
            lose(reason, items.into(), 0);
        }
    }
    Some(ledger)
}
