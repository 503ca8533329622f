//! What an alert could not be based on: the ledger of its flow's path since the flow began.
//!
//! A finding is as good as what was seen. What was given up of the flow itself (gaps, the reassembly
//! depth, budgets that refused its segments) is counted exactly; what the worker refused meanwhile
//! without knowing whose it was (fragments, packets without a flow, sessions) may have been the
//! flow's and is counted too.

use crate::flow_state::NetFlow;
use crate::ledgers::WorkerLedgers;
use crate::worker::Core;
use gabion_flow::{ExceptionTrigger, Flow, TcpVerdict};
use gabion_record::Direction;
use gabion_record::ledger::{Ledger, ShedReason};

/// What a worker gives up without knowing the flow.
const OF_WORKER: [ShedReason; 3] =
    [ShedReason::DefragMemcap, ShedReason::FlowMemcap, ShedReason::StreamMemcap];

/// How much a worker had given up of each kind at some time.
pub(crate) type ShedSoFar = [u32; 3];

impl WorkerLedgers {
    /// How much was given up so far without knowing whose it was.
    pub(crate) fn shed_so_far(&self) -> ShedSoFar {
        let count = |l: &Ledger, r| l.shed_for(r).items as u32;
        [
            count(&self.defrag, OF_WORKER[0]),
            count(&self.flow, OF_WORKER[1]),
            count(&self.stream, OF_WORKER[2]),
        ]
    }
}

impl NetFlow {
    /// Something of the flow was given up.
    pub(crate) fn lose(&mut self, reason: ShedReason, items: u64, bytes: u64) {
        self.lost.get_or_insert_default().shed(reason, items, bytes);
    }
}

impl Core {
    /// Books a TCP packet with payload, or with a wrong checksum.
    pub(crate) fn count_segment(&mut self, v: &TcpVerdict, len: usize, flow: &mut Flow<NetFlow>) {
        if len == 0 && !v.is_bad_checksum {
            return;
        }
        let (joint, len) = (&mut self.ledgers.stream, len as u64);
        joint.receive(1, len);
        match v.exception {
            _ if v.is_bad_checksum => joint.shed(ShedReason::BadChecksum, 1, len),
            Some(ExceptionTrigger::StreamMemcap) => joint.shed(ShedReason::StreamMemcap, 1, len),
            Some(ExceptionTrigger::ReassemblyMemcap) => {
                joint.shed(ShedReason::ReassemblyMemcap, 1, len);
                flow.ext.lose(ShedReason::ReassemblyMemcap, 1, len);
            }
            // The session was refused at an earlier packet.
            _ if flow.tcp.is_none() && flow.has_exception(ExceptionTrigger::StreamMemcap) => {
                joint.shed(ShedReason::StreamMemcap, 1, len);
            }
            _ => joint.pass(1, len),
        }
    }

    /// Takes up which limits this packet has reached, or the flow's end: they are shed, and the flow's
    /// alerts say so.
    #[inline]
    pub(crate) fn settle_limits(&mut self, flow: Option<&mut Flow<NetFlow>>) {
        if gabion_record::limits::is_any() {
            self.shed_limits(flow);
        }
    }

    #[cold]
    fn shed_limits(&mut self, flow: Option<&mut Flow<NetFlow>>) {
        let reached = gabion_record::limits::take();
        let times = reached.total();
        self.counters.limits.merge(&reached);
        self.ledgers.limits.receive(times, 0);
        self.ledgers.limits.shed(ShedReason::LimitReached, times, 0);
        if let Some(flow) = flow {
            flow.ext.lose(ShedReason::LimitReached, times, 0);
        }
    }

    /// Counts what a flow's budget had no room for.
    pub(crate) fn shed_app(&mut self, flow: &mut Flow<NetFlow>, items: u64, bytes: u64) {
        if items > 0 {
            self.ledgers.app.receive(items, bytes);
            self.ledgers.app.shed(ShedReason::AppMemcap, items, bytes);
            flow.ext.lose(ShedReason::AppMemcap, items, bytes);
        }
    }

    /// The ledger of a flow since it began; `None` when nothing was lost.
    pub(crate) fn loss(&self, flow: &Flow<NetFlow>) -> Option<Ledger> {
        let now = self.ledgers.shed_so_far();
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
        // What was refused or lies beyond the depth leaves gaps too: they are told of once.
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
}
