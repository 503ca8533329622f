//! The budgets of a worker's tables, and how full they are.

use crate::engine::Engine;
use gabion_record::budget::Budget;

/// Budgets of a worker's tables.
#[derive(Debug)]
pub struct WorkerBudgets {
    /// Fragments.
    pub defrag: Budget,
    /// Flow table.
    pub flow: Budget,
    /// TCP sessions.
    pub session: Budget,
    /// Stream data.
    pub stream: Budget,
    /// What protocols keep of flows and transactions.
    pub app: Budget,
}

impl WorkerBudgets {
    /// Budgets of their own, with the limits of the configuration.
    pub fn standalone(engine: &Engine) -> WorkerBudgets {
        let o = &engine.options;
        WorkerBudgets {
            defrag: Budget::standalone("defrag", o.defrag.memcap),
            flow: Budget::standalone("flow", o.flow.memcap),
            session: Budget::standalone("stream", o.stream.memcap),
            stream: Budget::standalone("reassembly", o.stream.reassembly_memcap),
            app: Budget::standalone("app-layer", o.app_memcap.unwrap_or(u64::MAX)),
        }
    }
}

/// Use of memory in percent of its limit, of the budget that is fullest.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryPressure {
    /// The use now.
    pub now: u64,
    /// The highest use so far.
    pub most: u64,
}

impl MemoryPressure {
    /// The fullest of these budgets.
    pub(crate) fn from_budgets(budgets: &[&Budget]) -> MemoryPressure {
        let mut p = MemoryPressure::default();
        for b in budgets {
            p.now = p.now.max(percent(b.used(), b.limit()));
            p.most = p.most.max(percent(b.peak(), b.limit()));
        }
        p
    }
}

fn percent(n: u64, of: u64) -> u64 {
    n.saturating_mul(100).checked_div(of).unwrap_or(0)
}
