//! What listeners count: a ledger a stage, and losses recorded inside the log itself, per source and
//! second.

use super::sealer::{Sink, own_source};
use crate::exit::Fault;
use crate::limits::LOSS_ROWS_MAX;
use gabion_record::ledger::Ledger;
use gabion_runtime::metrics::{LedgerSlot, Metrics};
use gabion_seal::record::{Flags, Kind};
use gabion_seal::statement::statement;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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

/// Whose messages were lost and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    second: u64,
    listener: Arc<str>,
    peer: String,
    reason: &'static str,
}

/// Losses that wait to be told; clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Losses(Arc<Mutex<BTreeMap<Place, u64>>>);

impl Losses {
    /// So many messages of this source were lost (by a name as `ShedReason` has them). An empty peer:
    /// nobody knows whose they were.
    pub(crate) fn add(
        &self,
        time_ns: u64,
        listener: &Arc<str>,
        peer: &str,
        reason: &'static str,
        count: u64,
    ) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut place = Place {
            second: time_ns / 1_000_000_000,
            listener: Arc::clone(listener),
            peer: peer.to_owned(),
            reason,
        };
        if rows.len() >= LOSS_ROWS_MAX && !rows.contains_key(&place) {
            place.peer = "others".to_owned();
        }
        *rows.entry(place).or_insert(0) += count;
    }

    /// Writes the losses of seconds that are over, or all.
    pub(crate) fn due(&self, sink: &mut impl Sink, all: bool) -> Result<(), Fault> {
        let now = now_ns();
        let rows = {
            let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if rows.is_empty() {
                return Ok(());
            }
            let open = if all { u64::MAX } else { now / 1_000_000_000 };
            let (done, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
                std::mem::take(&mut *rows).into_iter().partition(|(p, _)| p.second < open);
            *rows = rest;
            done
        };
        for (place, count) in rows {
            let loss = statement("loss", |json| {
                json.field("listener", &*place.listener);
                json.field("peer", &place.peer);
                json.field_plain("reason", place.reason);
                json.number("second", place.second);
                json.number("messages", count);
            });
            sink.append(&own_source(), now, Kind::System, Flags::default(), &loss)?;
        }
        Ok(())
    }
}

/// Limits how often something is said: at most once in a time, with how often it happened.
#[derive(Debug)]
pub(crate) struct Seldom {
    every: Duration,
    said: Option<std::time::Instant>,
    since: u64,
}

impl Seldom {
    pub(crate) fn new(every: Duration) -> Seldom {
        Seldom { every, said: None, since: 0 }
    }

    /// It happened; how often since it was last said, if it is to be said now.
    pub(crate) fn happened(&mut self) -> Option<u64> {
        self.since += 1;
        if self.said.is_some_and(|s| s.elapsed() < self.every) {
            return None;
        }
        self.said = Some(std::time::Instant::now());
        Some(std::mem::take(&mut self.since))
    }
}
