//! The accounts of a worker: ledgers, counters, costs.

use crate::counters::NetCounters;
use crate::detect::RuleCosts;
use crate::engine::Engine;
use crate::flow_state::NetFlow;
use crate::ledgers::WorkerLedgers;
use gabion_flow::Flow;
use gabion_packet::DecodeCounters;
use gabion_record::Pressure;
use gabion_record::ledger::ShedReason;

/// One worker's ledgers, counters and costs.
pub(crate) struct Account {
    pub(crate) counters: NetCounters,
    pub(crate) ledgers: WorkerLedgers,
    pub(crate) decode: DecodeCounters,
    pub(crate) costs: RuleCosts,
    /// What is left out at the moment.
    pub(crate) pressure: Pressure,
}

impl Account {
    /// With nothing counted yet.
    pub(crate) fn new(costs: RuleCosts) -> Account {
        Account {
            counters: NetCounters::default(),
            ledgers: WorkerLedgers::default(),
            decode: DecodeCounters::default(),
            costs,
            pressure: Pressure::None,
        }
    }

    /// Another engine takes over: costs are those of its rules.
    pub(crate) fn adopt(&mut self, engine: &Engine) {
        self.costs = RuleCosts::of_engine(engine);
    }

    /// Collects the limits that this packet, or the flow's end, has reached: they are counted as shed, and
    /// the flow's alerts name them.
    #[inline]
    pub(crate) fn settle_limits(&mut self, flow: Option<&mut Flow<NetFlow>>) {
        if gabion_record::limits::is_any() {
            self.shed_limits(flow);
        }
    }

    #[cold]
    fn shed_limits(&mut self, flow: Option<&mut Flow<NetFlow>>) {
        let reached = gabion_record::limits::take_reached();
        let times = reached.total();
        self.counters.limits.merge(&reached);
        self.ledgers.limits.receive(times, 0);
        self.ledgers.limits.shed(ShedReason::LimitReached, times, 0);
        if let Some(flow) = flow {
            flow.ext.lose(ShedReason::LimitReached, times, 0);
        }
    }

    /// Counts what a flow's budget did not allow.
    pub(crate) fn shed_app(&mut self, flow: &mut Flow<NetFlow>, items: u64, bytes: u64) {
        if items > 0 {
            self.ledgers.app.receive(items, bytes);
            self.ledgers.app.shed(ShedReason::AppMemcap, items, bytes);
            flow.ext.lose(ShedReason::AppMemcap, items, bytes);
        }
    }
}
