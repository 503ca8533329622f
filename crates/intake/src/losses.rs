//! Losses, recorded inside the log itself: per source and second, with the reason.

use crate::error::Result;
use crate::limits::LOSS_ROWS_MAX;
use crate::sink::{Sink, own_source};
use crate::stage::now_ns;
use gabion_seal::statement;
use gabion_seal::{Flags, Kind, Record};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Whose messages were lost and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    second: u64,
    listener: Arc<str>,
    peer: String,
    reason: &'static str,
}

/// Losses that wait to be recorded; clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Losses(Arc<Mutex<BTreeMap<Place, u64>>>);

impl Losses {
    /// That many messages of this source were lost (by a name as `ShedReason` has them). An empty peer:
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
    pub(crate) fn record_due(&self, sink: &mut impl Sink, all: bool) -> Result<()> {
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
            let (kind, flags) = (Kind::System, Flags::default());
            let record = Record { time_ns: now, kind, flags, bytes: &loss };
            sink.append(&own_source(), &record)?;
        }
        Ok(())
    }
}
