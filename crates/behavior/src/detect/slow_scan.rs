//! Scans that stay below the threshold of every window: the same counts over a day.
//!
//! A scanner that tries nine ports an hour is never a scan in a window. Attempts without an answer are counted
//! here for as long as a day, whatever windows they fell into, and reported once if the scan of a window
//! has not been.

use super::scan::counts;
use super::{About, Detector, bit};
use crate::context::Closing;
use crate::context::Context;
use crate::evidence::EvidenceBuilder;
use crate::limits::{SLOW_THINGS_MAX, reached};
use crate::said::Said;
use crate::sketch::{Hosts, Keyed, Ports};
use crate::state::{First, Most, Slot, state};
use gabion_record::Ip;
use gabion_record::evidence::{EvidenceType, ThreatLevel, Topic};
use gabion_record::logs::{Body, LogKind, Proto, SECOND, TimeNs};

/// Many ports of one host.
pub(crate) static VERTICAL: EvidenceType =
    EvidenceType::new("SLOW_VERTICAL_PORT_SCAN", "T1046").about(Topic::VerticalScan);
/// One port of many hosts.
pub(crate) static HORIZONTAL: EvidenceType =
    EvidenceType::new("SLOW_HORIZONTAL_PORT_SCAN", "T1046").about(Topic::HorizontalScan);

const VERTICAL_SAYS: &str = "slow vertical port scan to IP {dst} from {src}. Total {ports} {PROTO} ports \
    were scanned in {minutes} minutes.";
const HORIZONTAL_SAYS: &str = "slow horizontal port scan to port {port}/{proto}. From {src} to {hosts} unique \
    destination IPs in {minutes} minutes.";

/// The detector.
#[derive(Debug)]
pub(crate) struct SlowScan;

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
        reported: Most<u64>,
        said: Said,
        /// Its last report.
        proto: Most<u8>,
    }
}

state! {
    /// Hosts of one port.
    pub struct OnPort {
        hosts: Hosts,
        first: First,
        last: TimeNs,
        reported: Most<u64>,
        said: Said,
    }
}

impl OnHost {
    fn says(&self, finding: EvidenceBuilder, dst: Ip) -> EvidenceBuilder {
        let ports = u64::from(self.ports.len());
        let finding =
            finding.level(ThreatLevel::Medium, 0.7).victim(dst).since(self.first.0, ports);
        finding.ports(ports).lasting(self.last.since(self.first.0)).says(VERTICAL_SAYS)
    }

    /// Its last numbers, when it has grown since it was reported.
    fn last(
        &self,
        finding: impl FnOnce(&Said, TimeNs) -> EvidenceBuilder,
        dst: Ip,
    ) -> Option<EvidenceBuilder> {
        self.said.is_less(u64::from(self.ports.len())).then(|| {
            let proto = Proto::from_kept(self.proto.0).unwrap_or_default();
            self.says(finding(&self.said, self.last).protocol(proto), dst)
        })
    }
}

impl OnPort {
    fn says(&self, finding: EvidenceBuilder, port: u16) -> EvidenceBuilder {
        let hosts = self.hosts.len();
        let finding = finding
            .level(ThreatLevel::Medium, 0.7)
            .destination_port(port)
            .since(self.first.0, hosts);
        finding.hosts(hosts).lasting(self.last.since(self.first.0)).says(HORIZONTAL_SAYS)
    }

    /// Its last numbers, when it has grown since it was reported.
    fn last(
        &self,
        finding: impl FnOnce(&Said, TimeNs) -> EvidenceBuilder,
        key: u64,
    ) -> Option<EvidenceBuilder> {
        self.said.is_less(self.hosts.len()).then(|| {
            let proto = Proto::from_kept(key as u8).unwrap_or_default();
            self.says(finding(&self.said, self.last).protocol(proto), (key >> 8) as u16)
        })
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
    const KINDS: u32 = bit(LogKind::Conn);

    /// It says nothing of fewer than 10 ports or hosts.
    #[inline]
    fn speaks_first(_: &Context<'_, '_>) -> bool {
        false
    }

    #[inline]
    fn record(_: &mut Slot<()>, kept: &mut Slot<Attempts>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Conn(c) = &r.body else { return };
        let is_own = cx.profile == r.src && !c.history.contains(&b'^');
        if r.is_late || *cx.is_scanner || !is_own || !counts(r, c, cx.facts) {
            return;
        }
        let attempts = kept.make();
        let key = u64::from(r.dst_port) << 8 | r.proto as u64;
        on_host(attempts, cx);
        on_port(attempts, key, cx);
    }

    fn close_kept(kept: &mut Slot<Attempts>, closing: &mut Closing<'_>) {
        let Some(attempts) = kept.peek() else { return };
        let find = |kind| {
            let closing = &*closing;
            move |said: &Said, last| closing.find(kind, said.window(), last)
        };
        let mut grown: Vec<EvidenceBuilder> = Vec::new();
        grown.extend(
            attempts.hosts.iter().filter_map(|(dst, host)| host.last(find(&VERTICAL), *dst)),
        );
        grown.extend(
            attempts.ports.iter().filter_map(|(key, port)| port.last(find(&HORIZONTAL), *key)),
        );
        grown.into_iter().for_each(|finding| closing.say(finding));
    }
}

/// Whether a count is to be reported: at 10, 100 … and after an hour.
fn is_reported(count: u64, reported: &mut Most<u64>, first: TimeNs, now: TimeNs) -> bool {
    let step = if reported.0 == 0 { LEAST } else { reported.0.saturating_mul(10) };
    if count < step || now.since(first) < SPAN_LEAST {
        return false;
    }
    reported.0 = 10u64.pow(count.ilog10());
    true
}

fn on_host(all: &mut Attempts, cx: &mut Context<'_, '_>) {
    let (dst, now) = (cx.record.dst, cx.record.ts);
    let least = |_: &Ip, h: &OnHost| (h.ports.len(), h.last);
    let limit = &reached::SLOW_THINGS_MAX;
    let find = |said: &Said, last| cx.find_last(&VERTICAL, said.window(), last);
    let (host, gone) = all.hosts.get_or_replace(dst, limit, least);
    if let Some(finding) = gone.and_then(|(dst, gone)| gone.last(find, dst)) {
        cx.say(finding);
    }
    if now.since(host.first.0) > DAY {
        let gone = std::mem::take(host);
        if let Some(finding) =
            gone.last(|said, last| cx.find_last(&VERTICAL, said.window(), last), dst)
        {
            cx.say(finding);
        }
    }
    host.first.see(now);
    host.last = now;
    if !host.ports.insert(cx.record.dst_port) {
        return;
    }
    let count = u64::from(host.ports.len());
    if is_reported(count, &mut host.reported, host.first.0, now) {
        host.said.note(count, cx.facts.window, ThreatLevel::Medium);
        host.proto = Most(cx.record.proto as u8);
        cx.say(host.says(cx.find(&VERTICAL), dst));
    }
}

fn on_port(all: &mut Attempts, key: u64, cx: &mut Context<'_, '_>) {
    let now = cx.record.ts;
    let least = |_: &u64, p: &OnPort| (p.hosts.len(), p.last);
    let limit = &reached::SLOW_THINGS_MAX;
    let find = |said: &Said, last| cx.find_last(&HORIZONTAL, said.window(), last);
    let (port, gone) = all.ports.get_or_replace(key, limit, least);
    if let Some(finding) = gone.and_then(|(key, gone)| gone.last(find, key)) {
        cx.say(finding);
    }
    if now.since(port.first.0) > DAY {
        let gone = std::mem::take(port);
        if let Some(finding) =
            gone.last(|said, last| cx.find_last(&HORIZONTAL, said.window(), last), key)
        {
            cx.say(finding);
        }
    }
    port.first.see(now);
    port.last = now;
    if !port.hosts.insert(cx.record.dst) {
        return;
    }
    let count = port.hosts.len();
    if is_reported(count, &mut port.reported, port.first.0, now) {
        port.said.note(count, cx.facts.window, ThreatLevel::Medium);
        cx.say(port.says(cx.find(&HORIZONTAL), cx.record.dst_port));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::{horizontal_scan, vertical_scan};
    use crate::trial::{Trial, conn, has_values};
    use gabion_record::evidence::{Evidence, Party};

    /// D29 of Slips: nine ports an hour are never a scan there.
    #[test]
    fn a_scan_below_every_windows_threshold_is_seen() {
        let mut trial = Trial::new();
        for n in 0..36u16 {
            let second = i64::from(n) * 400;
            trial.give(&conn(second, "10.0.0.1", "1.2.3.4", 1000 + n).refused());
            trial.give(&conn(second, "10.0.0.2", &format!("1.2.3.{n}"), 23).refused());
        }
        assert!(trial.evidence_of(&vertical_scan::TYPE).is_empty());
        assert!(trial.evidence_of(&horizontal_scan::TYPE).is_empty());
        let found = trial.evidence_of(&VERTICAL);
        assert_eq!(found.len(), 1);
        let values = ["1.2.3.4", "10.0.0.1", "10", "TCP", "60"];
        assert!(has_values(&found[0], &values), "{}", found[0].description());
        assert_eq!(trial.evidence_of(&HORIZONTAL).len(), 1);
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
        assert!(
            trial.evidence_of(&VERTICAL).is_empty() && trial.evidence_of(&HORIZONTAL).is_empty()
        );
    }

    /// A source that tries more and more hosts, or ports, until one is evicted, which then reports its count so far.
    #[test]
    fn a_scan_that_has_no_room_any_more_says_its_last_number() {
        let mut trial = Trial::new();
        for hour in 0..4u16 {
            for n in 0..6u16 {
                for thing in 0..SLOW_THINGS_MAX as u16 {
                    // The first ends after three hours, with fewer than the others.
                    if thing == 0 && (hour == 3 || n == 5) {
                        continue;
                    }
                    let second = i64::from(hour) * 3600 + i64::from(n * 590 + thing * 10);
                    let (nth, port) = (hour * 6 + n, 2000 + thing * 100);
                    trial.give(
                        &conn(second, "10.0.0.1", &format!("1.2.3.{thing}"), port + nth).refused(),
                    );
                    trial.give(
                        &conn(second, "10.0.0.2", &format!("5.6.{thing}.{nth}"), port).refused(),
                    );
                }
            }
        }
        trial.give(&conn(4 * 3600, "10.0.0.1", "1.2.3.99", 9000).refused());
        trial.give(&conn(4 * 3600, "10.0.0.2", "5.6.7.8", 9000).refused());
        let first = Some(crate::trial::at("1.2.3.0"));
        let of_host = |e: &&Evidence| e.victim.as_ref().and_then(Party::ip) == first;
        let ports = trial.reported.iter().filter(|e| e.kind == &VERTICAL).rfind(of_host);
        assert_eq!(ports.map(|e| e.measures.ports), Some(15));
        let of_port = |e: &&Evidence| e.dst_port == Some(2000);
        let hosts = trial.reported.iter().filter(|e| e.kind == &HORIZONTAL).rfind(of_port);
        assert_eq!(hosts.map(|e| e.measures.hosts), Some(15));
    }

    /// A quick scan is reported as such and not as a slow one too; late records, repeats and records of
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
        assert!(!trial.evidence_of(&vertical_scan::TYPE).is_empty());
        assert!(
            trial.evidence_of(&VERTICAL).is_empty() && trial.evidence_of(&HORIZONTAL).is_empty()
        );
    }
}
