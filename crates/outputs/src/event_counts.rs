//! Findings counted while they pass, for the tables at the end of a run.

use crate::limits::{ALERTED_HOSTS_MAX, ALERTS_SHOWN_MAX};
use crate::order::Place;
use gabion_record::Addr;
use gabion_record::eve::AlertRecord;
use gabion_record::ledger::Ledger;
use std::collections::HashMap;
use std::sync::Arc;

/// Findings counted while they pass, for tables at the end of a run.
#[derive(Clone, Debug, Default)]
pub struct EventCounts {
    /// gid, sid, message, priority, alerts.
    pub alerts: Vec<AlertTally>,
    /// Records by event type.
    pub records: Vec<(String, u64)>,
    /// The outcomes of the files for the file store, and of certificates.
    pub store: Ledger,
    /// The outcomes of the frames that packet logs were given.
    pub packet_log: Ledger,
    /// Frames of flows with an alert that had left the ring before.
    pub packet_log_missing: u64,
    by_sid: HashMap<(u32, u32), usize>,
    hosts: HashMap<HostRule, HostTally>,
}

/// An end of alerts and a signature: version of the address, address, gid, sid.
type HostRule = (u8, Addr, u32, u32);

/// Alerts of one signature with one host at either end.
#[derive(Clone, Copy, Debug)]
struct HostTally {
    severity: u32,
    count: u64,
}

/// A host in alerts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAlerts {
    /// Its address.
    pub ip: String,
    /// Alerts it was an end of.
    pub count: u64,
    /// The most severe of them.
    pub severity: u32,
    /// gid, sid and how often, the most severe and most frequent first.
    pub rules: Vec<(u32, u32, u64)>,
}

/// An alert, as far as a page shows it.
#[derive(Clone, Debug)]
pub struct AlertSeen {
    /// Event time, nanoseconds since 1970.
    pub ts_ns: u64,
    /// Version of the addresses, 0 for none.
    ip_version: u8,
    ends: (Addr, Addr),
    ports: Option<(u16, u16)>,
    /// Its flow's number in EVE.
    pub flow_id: Option<u64>,
    /// Number of the packet in its capture.
    pub packet: Option<u64>,
    /// The capture.
    pub capture: Option<Arc<str>>,
    at: Place,
}

impl AlertSeen {
    pub(crate) fn from_record(
        r: &AlertRecord<'_>,
        at: Place,
        capture: Option<&Arc<str>>,
    ) -> AlertSeen {
        let h = &r.header;
        AlertSeen {
            ts_ns: h.ts_ns,
            ip_version: h.ip_version,
            ends: (h.src, h.dst),
            ports: h.ports,
            flow_id: h.flow_id,
            packet: h.pcap_cnt,
            capture: capture.cloned(),
            at,
        }
    }

    /// Source and destination, with ports where there are some.
    pub fn ends(&self) -> (String, String) {
        let place = |a: Addr, p: Option<u16>| match (self.ip_version, p) {
            (0, _) => String::from("-"),
            (v, Some(p)) => format!("{}:{p}", a.text(v)),
            (v, None) => a.text(v),
        };
        let ports = self.ports;
        (place(self.ends.0, ports.map(|p| p.0)), place(self.ends.1, ports.map(|p| p.1)))
    }

    /// Whether a host is one of its ends.
    pub fn has_end(&self, ip: &str) -> bool {
        let is = |a: Addr| self.ip_version > 0 && a.text(self.ip_version) == ip;
        is(self.ends.0) || is(self.ends.1)
    }
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
    /// The first few.
    pub seen: Vec<AlertSeen>,
    /// Place of the first one among all frames.
    first_at: Place,
}

impl AlertTally {
    /// None yet; this one would be the first.
    pub(crate) fn from_seen(seen: AlertSeen, r: &AlertRecord<'_>) -> AlertTally {
        let s = &r.signature;
        AlertTally {
            gid: s.gid,
            sid: s.sid,
            msg: s.msg.to_string(),
            severity: s.severity,
            count: 0,
            first: seen.ends(),
            first_at: seen.at,
            seen: vec![seen],
        }
    }

    /// Adds an alert to those that are kept, in their order.
    fn see(&mut self, seen: AlertSeen) {
        let at = self.seen.partition_point(|s| s.at <= seen.at);
        if at < ALERTS_SHOWN_MAX {
            self.seen.insert(at, seen);
            self.seen.truncate(ALERTS_SHOWN_MAX);
        }
    }
}

impl EventCounts {
    /// Counts an alert.
    pub(crate) fn alert(&mut self, r: &AlertRecord<'_>, seen: AlertSeen) {
        let (gid, sid) = (r.signature.gid, r.signature.sid);
        self.hosts_of(&seen, (gid, sid, r.signature.severity), 1);
        match self.by_sid.get(&(gid, sid)).and_then(|slot| self.alerts.get_mut(*slot)) {
            Some(slot) => {
                slot.count += 1;
                slot.see(seen);
            }
            None => self.enter(AlertTally { count: 1, ..AlertTally::from_seen(seen, r) }),
        }
        self.record("alert");
    }

    /// Counts an alert that was kept until it was known that it is one.
    pub(crate) fn kept(&mut self, a: &AlertTally) {
        for seen in &a.seen {
            self.hosts_of(seen, (a.gid, a.sid, a.severity), 1);
        }
        match self.by_sid.get(&(a.gid, a.sid)).and_then(|slot| self.alerts.get_mut(*slot)) {
            Some(slot) => {
                slot.count += 1;
                a.seen.iter().for_each(|seen| slot.see(seen.clone()));
            }
            None => self.enter(AlertTally { count: 1, ..a.clone() }),
        }
        self.record("alert");
    }

    /// Counts an alert of its ends.
    fn hosts_of(&mut self, seen: &AlertSeen, (gid, sid, severity): (u32, u32, u32), count: u64) {
        if seen.ip_version == 0 {
            return;
        }
        let (src, dst) = seen.ends;
        let other = (src != dst).then_some(dst);
        for end in [Some(src), other].into_iter().flatten() {
            self.host((seen.ip_version, end, gid, sid), HostTally { severity, count });
        }
    }

    fn host(&mut self, key: HostRule, more: HostTally) {
        let has_room = self.hosts.len() < ALERTED_HOSTS_MAX;
        match self.hosts.get_mut(&key) {
            Some(host) => host.count += more.count,
            None if has_room => {
                self.hosts.insert(key, more);
            }
            None => {}
        }
    }

    /// Hosts in alerts, those of the most severe first, then those with the most.
    pub fn hosts(&self) -> Vec<HostAlerts> {
        let mut all: HashMap<(u8, Addr), HostAlerts> = HashMap::new();
        let mut rules: Vec<(&HostRule, &HostTally)> = self.hosts.iter().collect();
        rules.sort_by_key(|((_, _, gid, sid), t)| {
            (t.severity, std::cmp::Reverse(t.count), *gid, *sid)
        });
        for ((version, addr, gid, sid), t) in rules {
            let host = all.entry((*version, *addr)).or_insert_with(|| HostAlerts {
                ip: addr.text(*version),
                count: 0,
                severity: t.severity,
                rules: Vec::new(),
            });
            host.count += t.count;
            host.severity = host.severity.min(t.severity);
            host.rules.push((*gid, *sid, t.count));
        }
        let mut all: Vec<_> = all.into_values().collect();
        all.sort_by(|a, b| (a.severity, b.count, &a.ip).cmp(&(b.severity, a.count, &b.ip)));
        all
    }

    fn enter(&mut self, a: AlertTally) {
        self.by_sid.insert((a.gid, a.sid), self.alerts.len());
        self.alerts.push(a);
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
    pub fn merge(&mut self, other: &EventCounts) {
        for a in &other.alerts {
            match self.by_sid.get(&(a.gid, a.sid)).and_then(|slot| self.alerts.get_mut(*slot)) {
                Some(mine) => {
                    mine.count += a.count;
                    if a.first_at < mine.first_at {
                        mine.first_at = a.first_at;
                        mine.first.clone_from(&a.first);
                    }
                    a.seen.iter().for_each(|seen| mine.see(seen.clone()));
                }
                None => self.enter(a.clone()),
            }
        }
        other.hosts.iter().for_each(|(key, host)| self.host(*key, *host));
        self.store.merge(&other.store);
        self.packet_log.merge(&other.packet_log);
        self.packet_log_missing += other.packet_log_missing;
        other.records.iter().for_each(|(name, count)| self.records_of(name, *count));
    }
}
