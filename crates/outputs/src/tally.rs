//! Findings counted while they pass, for the tables at the end of a run.

use crate::sequence::Place;
use gabion_record::eve::AlertRecord;
use gabion_record::ledger::Ledger;

/// Findings counted while they pass, for tables at the end of a run.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// gid, sid, message, priority, alerts.
    pub alerts: Vec<AlertTally>,
    /// Records by event type.
    pub records: Vec<(String, u64)>,
    /// What became of the files for the file store, and of certificates.
    pub store: Ledger,
    /// What became of the frames that packet logs were given.
    pub packet_log: Ledger,
    /// Frames of flows with an alert that had left the ring before.
    pub packet_log_missing: u64,
    by_sid: std::collections::HashMap<(u32, u32), usize>,
}

/// Alerts of one signature.
#[derive(Clone, Debug, Default)]
pub struct AlertTally {
    /// Generator.
    pub gid: u32,
    /// Signature.
    pub sid: u32,
    /// Message.
    pub msg: String,
    /// Priority.
    pub severity: u32,
    /// Alerts.
    pub count: u64,
    /// Source and destination of the first one.
    pub first: (String, String),
    /// Place of the first one among all frames.
    first_at: Place,
}

impl AlertTally {
    /// None yet; this one would be the first.
    pub(crate) fn of(r: &AlertRecord<'_>, at: Place) -> AlertTally {
        let (s, h) = (&r.signature, &r.header);
        let place = |a: gabion_record::Addr, p: Option<u16>| match (h.ip_version, p) {
            (0, _) => String::from("-"),
            (v, Some(p)) => format!("{}:{p}", a.text(v)),
            (v, None) => a.text(v),
        };
        AlertTally {
            gid: s.gid,
            sid: s.sid,
            msg: s.msg.to_string(),
            severity: s.severity,
            count: 0,
            first: (place(h.src, h.ports.map(|p| p.0)), place(h.dst, h.ports.map(|p| p.1))),
            first_at: at,
        }
    }
}

impl Tally {
    /// Counts an alert that came at this place among all frames.
    pub(crate) fn alert(&mut self, r: &AlertRecord<'_>, at: Place) {
        let slot = match self.by_sid.get(&(r.signature.gid, r.signature.sid)) {
            Some(slot) => *slot,
            None => self.enter(AlertTally::of(r, at)),
        };
        self.alerts[slot].count += 1;
        self.record("alert");
    }

    /// Counts an alert that was kept until it was known that it is one.
    pub(crate) fn kept(&mut self, a: &AlertTally) {
        let slot = match self.by_sid.get(&(a.gid, a.sid)) {
            Some(slot) => *slot,
            None => self.enter(a.clone()),
        };
        self.alerts[slot].count += 1;
        self.record("alert");
    }

    fn enter(&mut self, a: AlertTally) -> usize {
        self.by_sid.insert((a.gid, a.sid), self.alerts.len());
        self.alerts.push(a);
        self.alerts.len() - 1
    }

    /// Counts a record.
    pub(crate) fn record(&mut self, event_type: &str) {
        self.records_of(event_type, 1);
    }

    fn records_of(&mut self, event_type: &str, count: u64) {
        match self.records.iter_mut().find(|(n, _)| n == event_type) {
            Some(slot) => slot.1 += count,
            None => self.records.push((event_type.to_string(), count)),
        }
    }

    /// Adds what another worker counted.
    pub fn merge(&mut self, other: &Tally) {
        for a in &other.alerts {
            match self.by_sid.get(&(a.gid, a.sid)).and_then(|slot| self.alerts.get_mut(*slot)) {
                Some(mine) => {
                    mine.count += a.count;
                    if a.first_at < mine.first_at {
                        mine.first_at = a.first_at;
                        mine.first.clone_from(&a.first);
                    }
                }
                None => {
                    self.enter(a.clone());
                }
            }
        }
        self.store.merge(&other.store);
        self.packet_log.merge(&other.packet_log);
        self.packet_log_missing += other.packet_log_missing;
        other.records.iter().for_each(|(name, count)| self.records_of(name, *count));
    }
}
