//! The ledger that each stage of the server keeps of what came and what happened to it, and the time of day.

use gabion_record::ledger::Ledger;
use gabion_runtime::metrics::{LedgerSlot, Metrics};
use std::time::{SystemTime, UNIX_EPOCH};

/// The ledger of one stage and where readers find a copy.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) ledger: Ledger,
    slot: LedgerSlot,
}

impl Stage {
    pub(crate) fn new(metrics: &Metrics, name: &str) -> Stage {
        Stage { ledger: Ledger::new(), slot: metrics.ledger(name, None) }
    }

    /// Leaves a copy for readers.
    pub(crate) fn publish(&self) {
        self.slot.publish(&self.ledger);
    }

    /// Leaves the last copy.
    pub(crate) fn publish_last(&self) {
        self.slot.publish_last(&self.ledger);
    }
}

/// The time of day, ns since 1970.
pub(crate) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
