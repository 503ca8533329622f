//! What the page about a run is made of, gathered while findings come.

use super::places::AddressBook;
use super::sink::Found;
use crate::limits::{CHARTED_PAIRS_MAX, EVIDENCE_ROWS_MAX, FINDINGS_KEPT_MAX, reached};
use gabion_behavior::Kept;
use gabion_behavior::Profile;
use gabion_outputs::page::{self, Host, Page, Pair, Sort};
use gabion_record::Ip;
use gabion_record::budget::ByteSize;
use gabion_record::evidence::{
    CallKind, Evidence, FindingId, Measures, Party, Role, ThreatLevel, Topic,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A finding with what its place on the page depends on.
struct Shown {
    finding: page::Finding,
    host: Ip,
    weight: f64,
    threat: f64,
    /// The caller and the address it calls, where the finding has them.
    call: Option<(Ip, String)>,
}

/// What the page about a run needs in addition to what was found.
#[derive(Default)]
pub(crate) struct Paged {
    /// The most informative findings, each as it was reported last.
    findings: HashMap<FindingId, Shown>,
    /// Evidence by minute and level.
    minutes: BTreeMap<(i64, u8), u64>,
    scans: BTreeMap<(String, String), u64>,
    /// Evidence by level and type: technique, how much.
    sorts: BTreeMap<(Reverse<ThreatLevel>, &'static str), (&'static str, u64)>,
    /// Hosts that were reported to call an address again and again.
    beacons: BTreeSet<(Ip, String)>,
    pairs: BTreeMap<(Ip, String), Vec<u32>>,
}

impl Paged {
    /// Findings of each host that are kept before others of it, where not all are.
    const OF_HOST: usize = 10;
    /// Findings that a page shows, and hosts and calls whose findings come first.
    const FINDINGS_SHOWN: usize = 500;
    const FIRST: usize = 50;
    /// Tellings of a finding that are shown.
    const TELLINGS_SHOWN: usize = 8;
    /// Flows that make two hosts worth a chart.
    const FLOWS_LEAST: usize = 8;

    /// Takes an occurrence.
    pub(super) fn counts(&mut self, e: &Evidence) {
        let minute = (e.ts.seconds().div_euclid(60), e.level as u8);
        if self.minutes.contains_key(&minute)
            || reached::CHARTED_MINUTES_MAX.has_room(self.minutes.len())
        {
            *self.minutes.entry(minute).or_default() += 1;
        }
        let sort = self.sorts.entry((Reverse(e.level), e.kind.name)).or_default();
        *sort = (e.kind.technique, sort.1 + 1);
    }

    /// Takes a reported finding.
    pub(super) fn finding(&mut self, e: &Evidence) {
        let scanned = match e.kind.topic {
            Topic::VerticalScan => {
                let target = e.victim.as_ref().and_then(|v| v.ip()).map(|ip| ip.to_string());
                target.map(|target| (target, e.measures.ports))
            }
            Topic::HorizontalScan => {
                e.dst_port.map(|p| (format!("{p}/{}", e.proto.name()), e.measures.hosts))
            }
            Topic::Call(_) | Topic::Other => None,
        };
        // Zeek's own notices name no number.
        if let Some((target, n)) = scanned.filter(|s| s.1 > 0) {
            let ends = (e.profile.to_string(), target);
            if self.scans.contains_key(&ends)
                || reached::CHARTED_SCANS_MAX.has_room(self.scans.len())
            {
                let cell = self.scans.entry(ends).or_default();
                *cell = n.max(*cell);
            }
        }
        let mut pair = None;
        if matches!(e.kind.topic, Topic::Call(CallKind::Beacon | CallKind::CommandAndControl)) {
            let ends = [Some(&e.attacker), e.victim.as_ref()].into_iter().flatten();
            for other in ends.filter(|party| party.ip() != Some(e.profile)) {
                let other = other.what.to_string();
                let ends = (e.profile, other.clone());
                if !self.beacons.contains(&ends)
                    && reached::CHARTED_BEACONS_MAX.has_room(self.beacons.len())
                {
                    self.beacons.insert(ends);
                }
                pair = Some((e.profile.to_string(), other));
            }
        }
        let report_ids = self.findings.remove(&e.id).map(|shown| shown.finding.report_ids);
        let shown = shown(e, pair, report_ids.unwrap_or_default());
        self.findings.insert(e.id, shown);
        if self.findings.len() >= EVIDENCE_ROWS_MAX {
            self.thin();
        }
    }

    /// Lets the least informative findings go: of each host the weightiest stay, and of calls those of the largest
    /// threat.
    fn thin(&mut self) {
        let all = std::mem::take(&mut self.findings);
        let mut all = in_order(all.into_iter().collect(), &HashMap::new());
        let calls: BTreeSet<FindingId> = {
            let mut calls: Vec<_> = all.iter().filter(|(_, s, _)| s.threat > 0.0).collect();
            calls.sort_by(|a, b| b.1.threat.total_cmp(&a.1.threat).then(a.0.cmp(&b.0)));
            calls.into_iter().take(FINDINGS_KEPT_MAX / 3).map(|(id, ..)| *id).collect()
        };
        all.sort_by(|a, b| {
            let class = |(id, _, of_host): &(FindingId, Shown, usize)| {
                (!calls.contains(id), *of_host >= Self::OF_HOST)
            };
            class(a).cmp(&class(b)).then(b.1.weight.total_cmp(&a.1.weight)).then(a.0.cmp(&b.0))
        });
        all.truncate(FINDINGS_KEPT_MAX);
        self.findings = all.into_iter().map(|(id, shown, _)| (id, shown)).collect();
    }

    /// Two hosts of a profile that was reported to call again and again.
    pub(super) fn keep(&mut self, kept: &[Kept]) {
        let beacons = &self.beacons;
        let is_reported =
            |ip: Ip| beacons.range((ip, String::new())..).next().is_some_and(|b| b.0 == ip);
        for kept in kept.iter().filter(|k| is_reported(k.ip)) {
            let Some(profile) = Profile::decode(&kept.bytes) else { continue };
            for calls in profile.pairs().filter(|p| p.flows.len() >= Self::FLOWS_LEAST) {
                let ends = (kept.ip, calls.callee());
                if beacons.contains(&ends) {
                    let seconds = calls.flows.iter().map(|f| f.0).collect();
                    self.pairs.insert(ends, seconds);
                }
            }
        }
    }

    /// Puts all into a page.
    pub(crate) fn page(self, found: &Found, known: &AddressBook, page: &mut Page) {
        page.moments = self
            .minutes
            .iter()
            .filter_map(|((minute, level), n)| {
                let level = *ThreatLevel::ALL.get(usize::from(*level))?;
                Some((minute.saturating_mul(60), level, *n))
            })
            .collect();
        page.sorts = self
            .sorts
            .into_iter()
            .map(|((level, kind), (technique, count))| Sort {
                kind,
                technique,
                level: level.0,
                count,
            })
            .collect();
        page.scans = self.scans.into_iter().map(|((who, what), n)| (who, what, n)).collect();
        let mut pairs: Vec<_> = self.pairs.into_iter().collect();
        pairs.sort_by(|a, b| (Reverse(a.1.len()), &a.0).cmp(&(Reverse(b.1.len()), &b.0)));
        page.pairs = pairs
            .into_iter()
            .take(CHARTED_PAIRS_MAX)
            .map(|((from, to), mut seconds)| {
                seconds.sort_unstable();
                Pair { from: from.to_string(), to, seconds }
            })
            .collect();
        hosts(found, page);
        let linked = calls(found, &self.findings, page);
        page.findings = chosen(self.findings, found, &linked);
        page.alerts = found.alerts.iter().map(|(ip, w, sum)| (ip.to_string(), *w, *sum)).collect();
        known.name(page);
    }
}

/// A finding as the page shows it.
fn shown(
    e: &Evidence,
    pair: Option<(String, String)>,
    mut report_ids: Vec<(gabion_record::logs::TimeNs, String)>,
) -> Shown {
    let is_final = e.why.is_end();
    let mut measured = measured(&e.measures);
    measured.push_str(if is_final { " (its last numbers)" } else { "" });
    report_ids.push((e.ts, measured));
    if report_ids.len() > Paged::TELLINGS_SHOWN {
        // The first one stays.
        report_ids.remove(1);
    }
    let (src, dst) = (e.party(Role::Source), e.party(Role::Destination));
    let is_call = e.kind.topic.is_call();
    let call = src.and_then(Party::ip).zip(dst.map(|d| d.what.to_string())).filter(|_| is_call);
    let m = &e.measures;
    Shown {
        host: e.profile,
        weight: e.level.weight() * e.confidence,
        threat: m.threat,
        call,
        finding: page::Finding {
            id: e.id.to_string(),
            ts: e.ts,
            span: (m.first, m.last.max(e.ts)),
            ip: e.profile.to_string(),
            kind: e.kind.name,
            technique: e.kind.technique,
            level: e.level,
            confidence: e.confidence,
            text: e.description(),
            window: e.window,
            times: e.times,
            ends: ends(e),
            count: m.count,
            uids: e.uids.clone(),
            report_ids,
            pair,
        },
    }
}

/// The two ends of a flow: `10.0.0.1 → 192.0.2.1:443 tcp`.
fn ends(e: &Evidence) -> String {
    let (Some(src), Some(dst)) = (e.party(Role::Source), e.party(Role::Destination)) else {
        return String::new();
    };
    let port = match (e.dst_port, &dst.what.to_string()) {
        (None, dst) => dst.clone(),
        (Some(port), dst) if dst.contains(':') => format!("[{dst}]:{port} {}", e.proto.name()),
        (Some(port), dst) => format!("{dst}:{port} {}", e.proto.name()),
    };
    format!("{} → {port}", src.what)
}

/// What a finding measured when it was reported.
fn measured(m: &Measures) -> String {
    let number = gabion_outputs::table::thousands;
    let mut parts = Vec::new();
    for (n, one, many) in
        [(m.ports, "port", "ports"), (m.hosts, "host", "hosts"), (m.packets, "packet", "packets")]
    {
        if n > 0 {
            parts.push(format!("{} {}", number(n), if n == 1 { one } else { many }));
        }
    }
    if m.bytes > 0 {
        parts.push(ByteSize(m.bytes).to_string());
    }
    if m.duration_ns > 0 {
        let seconds = m.duration_ns as f64 / 1e9;
        parts.push(match seconds {
            ..120.0 => format!("{seconds:.1} s"),
            _ => format!("{:.0} min", seconds / 60.0),
        });
    }
    if m.score > 0.0 {
        parts.push(format!("score {:.3}", m.score));
    }
    if m.count > 0 {
        parts.push(format!("count {}", number(m.count)));
    }
    parts.join(", ")
}

/// The table of hosts.
fn hosts(found: &Found, page: &mut Page) {
    let ranked = found.rank.hosts();
    page.hosts_total = ranked.len() as u64;
    page.hosts = ranked
        .into_iter()
        .take(Paged::FIRST)
        .map(|r| {
            let shown = found.hosts.get(&r.host).copied().unwrap_or_default();
            Host {
                ip: r.host.to_string(),
                worst: r.worst,
                kind: r.kind.clone(),
                level: r.level,
                kinds: r.kinds as u64,
                score: shown.score,
                alerts: found.alerts.iter().filter(|a| a.0 == r.host).count() as u64,
                levels: shown.levels,
            }
        })
        .collect();
}

/// The table of calls; the findings that its rows link to.
fn calls(
    found: &Found,
    findings: &HashMap<FindingId, Shown>,
    page: &mut Page,
) -> BTreeSet<FindingId> {
    let mut said: HashMap<(Ip, &str), (&FindingId, &Shown)> = HashMap::new();
    for (id, shown) in findings {
        let Some((src, dst)) = &shown.call else { continue };
        let place = said.entry((*src, dst.as_str())).or_insert((id, shown));
        let (held_id, held) = *place;
        let is_better = (shown.host == *src)
            .cmp(&(held.host == *src))
            .then(shown.threat.total_cmp(&held.threat))
            .then(shown.weight.total_cmp(&held.weight))
            .then(held_id.cmp(id));
        if is_better.is_gt() {
            *place = (id, shown);
        }
    }
    let ranked = found.rank.calls();
    page.calls_total = ranked.len() as u64;
    let mut linked = BTreeSet::new();
    page.calls = ranked
        .into_iter()
        .take(Paged::FIRST)
        .map(|c| {
            let finding = said.get(&(c.src, c.dst.as_str()));
            linked.extend(finding.map(|(id, _)| **id));
            page::Call {
                from: c.src.to_string(),
                to: c.dst.clone(),
                port: c.port,
                threat: c.threat,
                what: c.kinds.join(", "),
                level: c.level,
                count: c.count,
                bytes: c.bytes,
                finding: finding.map(|(_, shown)| shown.finding.id.clone()),
            }
        })
        .collect();
    linked
}

/// Findings in order of hosts, and each one's place among those of its host, the weightiest first.
fn in_order(
    mut all: Vec<(FindingId, Shown)>,
    places: &HashMap<Ip, usize>,
) -> Vec<(FindingId, Shown, usize)> {
    let place = |s: &Shown| (places.get(&s.host).copied().unwrap_or(usize::MAX), s.host);
    all.sort_by(|(a_id, a), (b_id, b)| {
        place(a)
            .cmp(&place(b))
            .then(b.weight.total_cmp(&a.weight))
            .then(b.threat.total_cmp(&a.threat))
            .then((a.finding.ts, a_id).cmp(&(b.finding.ts, b_id)))
    });
    let (mut host, mut of_host) = (None, 0);
    all.into_iter()
        .map(|(id, shown)| {
            of_host = if host == Some(shown.host) { of_host + 1 } else { 0 };
            host = Some(shown.host);
            (id, shown, of_host)
        })
        .collect()
}

/// Those that the page shows: those that are linked to, then the weightiest of the first hosts, then of others.
fn chosen(
    all: HashMap<FindingId, Shown>,
    found: &Found,
    linked: &BTreeSet<FindingId>,
) -> Vec<page::Finding> {
    let places: HashMap<Ip, usize> =
        found.rank.hosts().iter().enumerate().map(|(n, r)| (r.host, n)).collect();
    let place = |s: &Shown| (places.get(&s.host).copied().unwrap_or(usize::MAX), s.host);
    let mut all = in_order(all.into_iter().collect(), &places);
    all.sort_by_key(|(id, shown, of_host)| {
        let place = place(shown);
        (!linked.contains(id), place.0 / Paged::FIRST, *of_host, place)
    });
    all.truncate(Paged::FINDINGS_SHOWN);
    let all = all.into_iter().map(|(id, shown, _)| (id, shown)).collect();
    in_order(all, &places).into_iter().map(|(_, shown, _)| shown.finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_behavior::Output;
    use gabion_behavior::catalog::ALL;
    use gabion_record::evidence::Alert;
    use gabion_record::logs::TimeNs;

    /// The chart of scans has the numbers that were measured, the last and largest of each.
    #[test]
    fn scans_are_drawn_with_what_was_measured() {
        let mut paged = Paged::default();
        scans().iter().for_each(|e| paged.finding(e));
        let drawn: Vec<_> = paged.scans.into_iter().collect();
        // A sketch counts the thousand.
        let [((who, what), n)] = drawn.as_slice() else { panic!("{drawn:?}") };
        assert_eq!((who.as_str(), what.as_str()), ("10.0.0.1", "23/tcp"));
        assert!((990..=1010).contains(n), "{n}");
    }

    /// All report_ids of a scan.
    fn scans() -> Vec<Evidence> {
        let settings = gabion_behavior::Settings::default();
        let mut engine = gabion_behavior::Engine::new(settings, None);
        let mut found = Vec::new();
        for n in 0..1000u32 {
            let record = gabion_record::logs::Record {
                ts: TimeNs(i64::from(n) * 1_000_000_000),
                src: Ip::parse(b"10.0.0.1").unwrap(),
                dst: Ip::v4(0x0102_0000 + n),
                src_port: 40_000,
                dst_port: 23,
                proto: gabion_record::logs::Proto::Tcp,
                uid: b"C1",
                label: gabion_record::logs::Label::None,
                is_late: false,
                body: gabion_record::logs::Body::Conn(gabion_record::logs::Conn {
                    orig_pkts: 1,
                    state: gabion_record::logs::ConnState::Other(b"S0"),
                    ..gabion_record::logs::Conn::default()
                }),
            };
            engine.record(&record, &mut |finding| {
                if let Output::Report(e, _) = finding {
                    found.push(e.clone());
                }
            });
        }
        found
    }

    /// What a summary and a page have no room for is counted.
    #[test]
    fn what_has_no_room_in_summary_and_page_is_counted() {
        use crate::limits::{
            CHARTED_BEACONS_MAX, CHARTED_SCANS_MAX, REPORTED_ALERTS_MAX, SCORED_HOSTS_MAX,
        };
        let first = scan();
        gabion_record::limits::take_reached();
        let (mut found, mut paged) = (Found::default(), Paged::default());
        for n in 0..SCORED_HOSTS_MAX as u32 + 2 {
            let mut e = first.clone();
            e.profile = Ip::v4(n);
            e.ts = TimeNs(i64::from(n) * 60_000_000_000);
            found.evidence(&e);
            paged.counts(&e);
            if n < CHARTED_SCANS_MAX as u32 + 2 {
                paged.finding(&e);
            }
        }
        for n in 0..=REPORTED_ALERTS_MAX {
            let (start, end) = (TimeNs(0), TimeNs(1));
            let alert = Alert {
                id: FindingId::default(),
                profile: Ip::v4(1),
                window: n as i64,
                window_start: start,
                window_end: end,
                ts: start,
                accumulated: 1.0,
                confidence: 1.0,
                evidence: Vec::new(),
            };
            found.alert(&alert);
        }
        let mut beacon = first.clone();
        beacon.kind = ALL.iter().flat_map(|d| d.1.types).find(|t| t.name == "BEACON").unwrap();
        for n in 0..CHARTED_BEACONS_MAX as u32 + 2 {
            beacon.victim = Some(Party::destination(Ip::v4(0x0900_0000 + n)));
            paged.finding(&beacon);
        }
        let counts = gabion_record::limits::take_reached();
        assert_eq!(counts.times_reached(&reached::SCORED_HOSTS_MAX), 2);
        assert_eq!(counts.times_reached(&reached::CHARTED_MINUTES_MAX), 2);
        assert_eq!(counts.times_reached(&reached::CHARTED_SCANS_MAX), 2);
        assert_eq!(counts.times_reached(&reached::REPORTED_ALERTS_MAX), 1);
        assert_eq!(counts.times_reached(&reached::CHARTED_BEACONS_MAX), 2);
    }

    /// A scan of a thousand hosts, as it was reported last.
    fn scan() -> Evidence {
        scans().pop().unwrap()
    }
}
