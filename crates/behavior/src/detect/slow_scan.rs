//! Scans that stay below the threshold of every window: the same counts over a day.
//!
//! A scanner that tries nine ports an hour is never a scan in a window. What did not answer is counted
//! here for as long as a day, whatever windows it fell into, and told once where the scan of a window
//! has not been.

use super::scan::counts;
use super::{About, Detector, bit};
use crate::finding::Context;
use crate::limits::{SLOW_THINGS_MAX, reached};
use crate::sketch::{Hosts, Keyed, Ports};
use crate::state::{First, Most, Slot, state};
use gabion_record::Ip;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind, SECOND, TimeNs};

/// Many ports of one host.
pub static VERTICAL: EvidenceType =
    EvidenceType { name: "SLOW_VERTICAL_PORT_SCAN", technique: "T1046" };
/// One port of many hosts.
pub static HORIZONTAL: EvidenceType =
    EvidenceType { name: "SLOW_HORIZONTAL_PORT_SCAN", technique: "T1046" };

const VERTICAL_SAYS: &str = "slow vertical port scan to IP {dst} from {src}. Total {ports} {PROTO} ports \
    were scanned in {minutes} minutes.";
const HORIZONTAL_SAYS: &str = "slow horizontal port scan to port {port}/{proto}. From {src} to {hosts} unique \
    destination IPs in {minutes} minutes.";

/// The detector.
#[derive(Debug)]
pub struct SlowScan;

/// What makes a scan, as in a window.
const LEAST: u64 = 10;
/// What a scan lasts at least to be slow: what is quicker is seen in its window.
const SPAN_LEAST: i64 = 3600 * SECOND;
/// Longest that attempts count together.
const DAY: i64 = 24 * 3600 * SECOND;

state! {
    /// Of one source.
    pub struct Attempts {
        hosts: Keyed<Ip, OnHost, SLOW_THINGS_MAX>,
        ports: Keyed<u64, OnPort, SLOW_THINGS_MAX>,
    }
}

state! {
    /// Ports of one host.
    pub struct OnHost {
        ports: Ports,
        first: First,
        last: TimeNs,
        told: Most<u64>,
    }
}

state! {
    /// Hosts of one port.
    pub struct OnPort {
        hosts: Hosts,
        first: First,
        last: TimeNs,
        told: Most<u64>,
    }
}

impl Detector for SlowScan {
    type Window = ();
    type Kept = Attempts;
    const ABOUT: About = About {
        types: &[&VERTICAL, &HORIZONTAL],
        condition: "10 ports of one host, or one port of 10 hosts, without answer over more than an \
            hour and at most a day, from a source that is no scanner in its window; then at 100, 1000 …",
        level: "medium; 0.7",
        settings: &[],
    };
    const KINDS: u16 = bit(LogKind::Conn);

    #[inline]
    fn record(_: &mut Slot<()>, kept: &mut Slot<Attempts>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Conn(c) = &r.body else { return };
        let is_own = cx.profile == r.src && !c.history.contains(&b'^');
        if r.is_late || *cx.is_scanner || !is_own || !counts(r, c, cx.facts) {
            return;
        }
        let attempts = kept.make();
        if let Some((count, first)) = on_host(attempts, r.dst, r.dst_port, r.ts) {
            let finding = cx.find(&VERTICAL).level(ThreatLevel::Medium, 0.7).victim(r.dst);
            let finding = finding.since(first, count).ports(count).lasting(r.ts.since(first));
            cx.say(finding.says(VERTICAL_SAYS));
        }
        let key = u64::from(r.dst_port) << 8 | r.proto as u64;
        if let Some((count, first)) = on_port(attempts, key, r.dst, r.ts) {
            let finding = cx.find(&HORIZONTAL).level(ThreatLevel::Medium, 0.7).to_port(r.dst_port);
            let finding = finding.since(first, count).hosts(count).lasting(r.ts.since(first));
            cx.say(finding.says(HORIZONTAL_SAYS));
        }
    }
}

/// Whether a count is to be told: at 10, 100 … and after an hour.
fn is_told(count: u64, told: &mut Most<u64>, first: TimeNs, now: TimeNs) -> bool {
    let step = if told.0 == 0 { LEAST } else { told.0.saturating_mul(10) };
    if count < step || now.since(first) < SPAN_LEAST {
        return false;
    }
    told.0 = 10u64.pow(count.ilog10());
    true
}

fn on_host(all: &mut Attempts, dst: Ip, port: u16, now: TimeNs) -> Option<(u64, TimeNs)> {
    let least = |_: &Ip, h: &OnHost| (h.ports.len(), h.last);
    let host = all.hosts.get_or_admit(dst, &reached::SLOW_THINGS_MAX, |_| true, least)?;
    if now.since(host.first.0) > DAY {
        *host = OnHost::default();
    }
    host.first.see(now);
    host.last = now;
    if !host.ports.insert(port) {
        return None;
    }
    let (count, first) = (u64::from(host.ports.len()), host.first.0);
    is_told(count, &mut host.told, first, now).then_some((count, first))
}

fn on_port(all: &mut Attempts, key: u64, dst: Ip, now: TimeNs) -> Option<(u64, TimeNs)> {
    let least = |_: &u64, p: &OnPort| (p.hosts.len(), p.last);
    let port = all.ports.get_or_admit(key, &reached::SLOW_THINGS_MAX, |_| true, least)?;
    if now.since(port.first.0) > DAY {
        *port = OnPort::default();
    }
    port.first.see(now);
    port.last = now;
    if !port.hosts.insert(dst) {
        return None;
    }
    let (count, first) = (port.hosts.len(), port.first.0);
    is_told(count, &mut port.told, first, now).then_some((count, first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::{horizontal_scan, vertical_scan};
    use crate::trial::{Trial, conn};

    /// D29 of the peer: nine ports an hour are never a scan there.
    #[test]
    fn a_scan_below_every_windows_threshold_is_seen() {
        let mut trial = Trial::new();
        for n in 0..36u16 {
            let second = i64::from(n) * 400;
            trial.give(&conn(second, "10.0.0.1", "1.2.3.4", 1000 + n).refused());
            trial.give(&conn(second, "10.0.0.2", &format!("1.2.3.{n}"), 23).refused());
        }
        assert!(trial.of(&vertical_scan::TYPE).is_empty());
        assert!(trial.of(&horizontal_scan::TYPE).is_empty());
        let found = trial.of(&VERTICAL);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].description(),
            "slow vertical port scan to IP 1.2.3.4 from 10.0.0.1. Total 10 TCP ports were scanned in \
             60 minutes."
        );
        assert_eq!(trial.of(&HORIZONTAL).len(), 1);
    }

    #[test]
    fn nine_in_a_day_or_ten_in_two_are_none() {
        let mut trial = Trial::new();
        for n in 0..9u16 {
            trial.give(&conn(i64::from(n) * 900, "10.0.0.1", "1.2.3.4", 1000 + n).refused());
        }
        for n in 0..10u16 {
            trial.give(&conn(i64::from(n) * 10_000, "10.0.0.2", "1.2.3.4", 1000 + n).refused());
        }
        assert!(trial.of(&VERTICAL).is_empty() && trial.of(&HORIZONTAL).is_empty());
    }

    /// A quick scan is told as one and not as a slow one too; late records, repeats and records of
    /// the future make none.
    #[test]
    fn quick_scans_and_odd_times_are_none() {
        let mut trial = Trial::new();
        for n in 0..200u16 {
            trial.give(&conn(i64::from(n), "10.0.0.1", "1.2.3.4", 1000 + n).refused());
        }
        for n in 0..50i64 {
            trial.give(&conn(n * 400, "10.0.0.2", "1.2.3.4", 1000).refused());
            let mut late = conn(n, "10.0.0.3", "1.2.3.4", 1000 + n as u16).refused();
            late.is_late = true;
            trial.give(&late);
        }
        let mut far = conn(0, "10.0.0.1", "1.2.3.4", 9).refused();
        far.ts = i64::MAX / SECOND * SECOND;
        trial.give(&far);
        assert!(!trial.of(&vertical_scan::TYPE).is_empty());
        assert!(trial.of(&VERTICAL).is_empty() && trial.of(&HORIZONTAL).is_empty());
    }
}
