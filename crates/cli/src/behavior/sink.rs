//! Where evidence and alerts go: files, what the summary shows, and the page about the run.

use super::checkpoint::{self, Tag, Writing};
use super::sealed_ids::SealedIds;
use crate::limits::{CHARTED_PAIRS_MAX, EVIDENCE_ROWS_MAX, TOLD_FINDINGS_MAX, reached};
use crate::log::seal_findings::Sealer;
use gabion_behavior::detect::ALL;
use gabion_behavior::shard::Kept;
use gabion_behavior::{Calls, Finding, Profile};
use gabion_outputs::idmef::{self, AlertFiles};
use gabion_outputs::page::{Host, Page, Pair, Row, Sort};
use gabion_outputs::rank::{self, Rank};
use gabion_outputs::store::{ProfileWriter, StoredProfile};
use gabion_outputs::told::Told;
use gabion_record::evidence::{Alert, Evidence, FindingId, Party, Role, ThreatLevel};
use gabion_record::logs::TimeNs;
use gabion_record::saved::Saved;
use gabion_record::{Ip, saved};
use gabion_runtime::Signals;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What one host has shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shown {
    /// Sum of threat levels by confidence.
    pub(crate) score: f64,
    /// Evidence by level.
    levels: [u64; 5],
}

/// What a run found, for the summary.
#[derive(Default)]
pub(crate) struct Found {
    /// Evidence by type and level.
    pub(crate) evidence: BTreeMap<(&'static str, ThreatLevel), u64>,
    /// Alerts by profile and window.
    pub(crate) alerts: Vec<(Ip, i64, f64)>,
    /// Hosts with evidence above info.
    pub(crate) hosts: BTreeMap<Ip, Shown>,
    /// Whom hosts call, and which host is the worst.
    pub(crate) rank: Rank,
    /// The weightiest findings with the last line of each, where somebody wants them in JSON.
    pub(crate) lines: Option<Lines>,
}

impl Found {
    fn evidence(&mut self, e: &Evidence) {
        *self.evidence.entry((e.kind.name, e.level)).or_default() += 1;
        self.rank(e);
        let score = e.level.weight() * e.confidence;
        let is_known = self.hosts.contains_key(&e.profile);
        if is_known || (score > 0.0 && reached::SCORED_HOSTS_MAX.has_room(self.hosts.len())) {
            let host = self.hosts.entry(e.profile).or_default();
            host.score += score;
            if let Some(n) = host.levels.get_mut(e.level as usize) {
                *n += 1;
            }
        }
    }

    /// A finding as it is told: with its final numbers at its window's end.
    fn told(&mut self, e: &Evidence) {
        self.rank(e);
        if let Some(lines) = &mut self.lines {
            lines.take(e);
        }
    }

    fn rank(&mut self, e: &Evidence) {
        let is_call = rank::is_call(e.kind.name);
        let whom = e.party(Role::Destination).filter(|_| is_call).map(|p| p.what.to_string());
        let m = &e.measures;
        self.rank.take(&rank::Seen {
            kind: e.kind.name,
            level: e.level,
            confidence: e.confidence,
            host: e.profile,
            src: e.party(Role::Source).and_then(Party::ip),
            dst: whom.as_deref().unwrap_or_default(),
            port: e.dst_port.unwrap_or(0),
            threat: m.threat,
            count: m.count,
            bytes: m.bytes,
            seconds: m.duration_ns as f64 / 1e9,
            span: (m.first.seconds(), m.last.max(e.ts).seconds()),
        });
    }

    fn alert(&mut self, a: &Alert) {
        if reached::TOLD_ALERTS_MAX.has_room(self.alerts.len()) {
            self.alerts.push((a.profile, a.window, a.accumulated));
        }
    }
}

/// How much a finding weighs, when it was found, and its line.
type Line = (f64, TimeNs, Vec<u8>);

/// Findings of a run for JSON: the weightiest, each as it was told last.
#[derive(Default)]
pub(crate) struct Lines {
    by_id: BTreeMap<FindingId, Line>,
    /// Findings that had no room; all are in `alerts.json`.
    pub(crate) left: u64,
}

impl Lines {
    fn take(&mut self, e: &Evidence) {
        let mut line = Vec::new();
        idmef::evidence(e, 0.0, None, &mut line);
        self.by_id.insert(e.id, (e.level.weight() * e.confidence, e.ts, line));
        if self.by_id.len() >= 2 * TOLD_FINDINGS_MAX {
            let all = std::mem::take(self);
            let kept = all.sorted();
            self.left = all.left + (kept.len() - TOLD_FINDINGS_MAX) as u64;
            let kept =
                kept.into_iter().take(TOLD_FINDINGS_MAX).map(|(id, found)| (*id, found.clone()));
            self.by_id = kept.collect();
        }
    }

    fn sorted(&self) -> Vec<(&FindingId, &Line)> {
        let mut all: Vec<_> = self.by_id.iter().collect();
        all.sort_by(|a, b| b.1.0.total_cmp(&a.1.0).then((a.1.1, a.0).cmp(&(b.1.1, b.0))));
        all
    }

    /// The weightiest first, an object each.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &[u8]> {
        self.sorted().into_iter().take(TOLD_FINDINGS_MAX).map(|(_, found)| found.2.trim_ascii_end())
    }
}

/// What the page about a run needs beside what was found.
#[derive(Default)]
pub(crate) struct Paged {
    /// The most telling evidence.
    rows: Vec<Row>,
    /// Evidence by minute and level.
    minutes: BTreeMap<(i64, u8), u64>,
    scans: BTreeMap<(String, String), u64>,
    /// Evidence by level and type: technique, pieces.
    sorts: BTreeMap<(Reverse<ThreatLevel>, &'static str), (&'static str, u64)>,
    /// Who was told to call whom again and again.
    beacons: BTreeSet<(Ip, String)>,
    pairs: BTreeMap<(Ip, String), Vec<u32>>,
}

impl Paged {
    /// Rows that a page may show of each level.
    const ROWS_KEPT: usize = 1_000;
    /// Flows that make two hosts worth a chart.
    const FLOWS_LEAST: usize = 8;

    /// Takes an occurrence.
    fn counts(&mut self, e: &Evidence) {
        let minute = (e.ts.seconds().div_euclid(60), e.level as u8);
        if self.minutes.contains_key(&minute)
            || reached::CHARTED_MINUTES_MAX.has_room(self.minutes.len())
        {
            *self.minutes.entry(minute).or_default() += 1;
        }
        let sort = self.sorts.entry((Reverse(e.level), e.kind.name)).or_default();
        *sort = (e.kind.technique, sort.1 + 1);
    }

    /// Takes a telling.
    fn evidence(&mut self, e: &Evidence) {
        let scanned = match e.kind.name {
            "VERTICAL_PORT_SCAN" => {
                let target = e.victim.as_ref().and_then(|v| v.ip()).map(|ip| ip.to_string());
                target.map(|target| (target, e.measures.ports))
            }
            "HORIZONTAL_PORT_SCAN" => {
                e.dst_port.map(|p| (format!("{p}/{}", e.proto.name()), e.measures.hosts))
            }
            "BEACON" | "COMMAND_AND_CONTROL_CHANNEL" => {
                let ends = [Some(&e.attacker), e.victim.as_ref()].into_iter().flatten();
                for other in ends.filter(|party| party.ip() != Some(e.profile)) {
                    let ends = (e.profile, other.what.to_string());
                    if !self.beacons.contains(&ends)
                        && reached::CHARTED_BEACONS_MAX.has_room(self.beacons.len())
                    {
                        self.beacons.insert(ends);
                    }
                }
                None
            }
            _ => None,
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
        self.rows.push(Row {
            ts: e.ts,
            ip: e.profile.to_string(),
            kind: e.kind.name,
            technique: e.kind.technique,
            level: e.level,
            confidence: e.confidence,
            text: e.description(),
            window: e.window,
            times: e.times,
        });
        if self.rows.len() >= EVIDENCE_ROWS_MAX {
            self.thin();
        }
    }

    /// Lets the least telling rows go.
    fn thin(&mut self) {
        let order = |r: &Row| (Reverse(r.level), r.ts);
        self.rows.sort_by(|a, b| {
            order(a).cmp(&order(b)).then_with(|| (&a.ip, &a.text).cmp(&(&b.ip, &b.text)))
        });
        self.rows.truncate(Self::ROWS_KEPT);
    }

    /// Two hosts of a profile that was told to call again and again.
    fn keep(&mut self, kept: &[Kept]) {
        let beacons = &self.beacons;
        let is_told =
            |ip: Ip| beacons.range((ip, String::new())..).next().is_some_and(|b| b.0 == ip);
        for kept in kept.iter().filter(|k| is_told(k.ip)) {
            let Some(profile) = Profile::decode(&kept.bytes) else { continue };
            for calls in profile.pairs().filter(|p| p.flows.len() >= Self::FLOWS_LEAST) {
                let ends = (kept.ip, whom(&calls));
                if beacons.contains(&ends) {
                    let seconds = calls.flows.iter().map(|f| f.0).collect();
                    self.pairs.insert(ends, seconds);
                }
            }
        }
    }

    /// Puts all into a page.
    pub(crate) fn page(mut self, found: &Found, page: &mut Page) {
        self.thin();
        page.evidence_total = found.evidence.values().sum();
        page.evidence = self.rows;
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
        let alerts = |ip: &Ip| found.alerts.iter().filter(|a| a.0 == *ip).count() as u64;
        let mut hosts: Vec<_> = found.hosts.iter().collect();
        hosts.sort_by(|a, b| b.1.score.total_cmp(&a.1.score).then(a.0.cmp(b.0)));
        page.hosts = hosts
            .into_iter()
            .take(1000)
            .map(|(ip, shown)| Host {
                ip: ip.to_string(),
                score: shown.score,
                alerts: alerts(ip),
                levels: shown.levels,
            })
            .collect();
        page.hosts_total = found.hosts.len() as u64;
        page.alerts = found.alerts.iter().map(|(ip, w, sum)| (ip.to_string(), *w, *sum)).collect();
    }
}

/// Who is called: the name, where there is one, else the address.
pub(crate) fn whom(calls: &Calls<'_>) -> String {
    match calls.name {
        "" => calls.to.to_string(),
        name => name.to_owned(),
    }
}

/// Takes what is found.
#[derive(Default)]
pub(crate) struct Sink {
    /// For the summary.
    pub(crate) found: Found,
    /// `alerts.json` and `alerts.log`.
    pub(crate) files: Option<AlertFiles>,
    /// Past windows of profiles.
    pub(crate) profiles: Option<ProfileWriter>,
    /// For the page, when one is wanted.
    pub(crate) paged: Option<Paged>,
    /// Where findings are sealed.
    pub(crate) sealed: Option<Sealer>,
    /// Which findings are sealed, of a run that another one may go on from.
    pub(crate) sealed_ids: Option<SealedIds>,
    /// A line that is sealed and written nowhere else.
    pub(crate) line: Vec<u8>,
    /// Requests from outside, when this is who answers them.
    pub(crate) signals: Option<Signals>,
    /// Where checkpoints go, of a run that another one may go on from.
    pub(crate) folder: Option<PathBuf>,
    /// Files were opened by their names again: a checkpoint is to say how long those are.
    pub(crate) is_asked: Arc<AtomicBool>,
    /// The one that is being written.
    pub(crate) saving: Option<Writing>,
    /// Why a checkpoint could not be written, when it was said.
    pub(crate) unsaved: Option<String>,
}

/// What a checkpoint has to say of where findings go.
struct SavedSink {
    marks: [u64; 2],
    told: Told,
    evidence: Vec<(String, ThreatLevel, u64)>,
    alerts: Vec<(Ip, (i64, f64))>,
    hosts: BTreeMap<Ip, Shown>,
    rank: Rank,
    /// Findings that an earlier run sealed and that were not found again yet.
    sealed: Vec<FindingId>,
}

saved! {
    Shown { score, levels }
    SavedSink { marks, told, evidence, alerts, hosts, rank, sealed }
}

/// What a run that was cut off had written and sealed.
#[derive(Default)]
pub(crate) struct Before {
    /// Bytes of `alerts.json` and `alerts.log` at the checkpoint.
    pub(crate) marks: [u64; 2],
    /// What of them was not found again by then.
    pub(crate) told: Told,
    /// The same of what is sealed.
    pub(crate) sealed: Vec<FindingId>,
}

/// What a checkpoint says of that.
pub(crate) fn before(saved: &[u8]) -> Option<Before> {
    let SavedSink { marks, told, sealed, .. } = SavedSink::load(&mut { saved })?;
    Some(Before { marks, told, sealed })
}

/// Seals a finding that an earlier run has not sealed.
fn seal(to: Option<&Sealer>, ids: Option<&mut SealedIds>, id: FindingId, line: &[u8]) {
    let Some(to) = to else { return };
    let Some(ids) = ids else {
        to.seal(line);
        return;
    };
    if !ids.has(id)
        && let Some(chunk) = to.seal(line)
    {
        ids.add(id, chunk);
    }
}

impl Found {
    /// Goes on with what was found up to a checkpoint.
    pub(crate) fn restore(&mut self, saved: &[u8]) -> Option<()> {
        let sink = SavedSink::load(&mut { saved })?;
        let types = ALL.iter().flat_map(|(_, about)| about.types);
        let names: BTreeSet<&'static str> = types.map(|kind| kind.name).collect();
        for (name, level, n) in sink.evidence {
            // A type that this version knows no more is not counted any further.
            if let Some(name) = names.get(name.as_str()) {
                self.evidence.insert((*name, level), n);
            }
        }
        self.alerts = sink.alerts.into_iter().map(|(ip, (w, sum))| (ip, w, sum)).collect();
        self.hosts = sink.hosts;
        self.rank = sink.rank;
        Some(())
    }
}

impl Sink {
    /// Takes one.
    pub(crate) fn take(&mut self, finding: Finding<'_>) {
        self.reopen_if_asked();
        match finding {
            Finding::Evidence(e, _) => {
                self.found.evidence(e);
                if let Some(paged) = &mut self.paged {
                    paged.counts(e);
                }
            }
            Finding::Telling(e, sum) => {
                self.found.told(e);
                if let Some(paged) = &mut self.paged {
                    paged.evidence(e);
                }
                let created = created();
                let line = match &mut self.files {
                    Some(files) => files.evidence(e, sum, created),
                    None if self.sealed.is_none() => return,
                    None => {
                        self.line.clear();
                        idmef::evidence(e, sum, created, &mut self.line);
                        &self.line
                    }
                };
                seal(self.sealed.as_ref(), self.sealed_ids.as_mut(), e.telling, line);
            }
            Finding::Alert(a) => {
                self.found.alert(a);
                let created = created();
                let line = match &mut self.files {
                    Some(files) => files.alert(a, created),
                    None if self.sealed.is_none() => return,
                    None => {
                        self.line.clear();
                        idmef::alert(a, created, &mut self.line);
                        &self.line
                    }
                };
                seal(self.sealed.as_ref(), self.sealed_ids.as_mut(), a.id, line);
            }
        }
    }

    /// Opens files by their names again, for who rotates logs.
    pub(crate) fn reopen(&mut self) {
        if let Some(files) = &mut self.files {
            files.reopen();
            self.is_asked.store(true, Ordering::Relaxed);
        }
    }

    /// The same when somebody asked for it (SIGHUP).
    pub(crate) fn reopen_if_asked(&mut self) {
        if self.signals.as_ref().is_some_and(Signals::take_reopen) {
            self.reopen();
        }
    }

    /// Nothing comes at the moment: what is buffered is written.
    pub(crate) fn idle(&mut self) {
        self.reopen_if_asked();
        if let Some(sealed) = &self.sealed {
            sealed.idle();
        }
        if let Some(files) = &mut self.files {
            // A failure stays with the file and is said at the end.
            let _ = files.flush();
        }
        if let Some(trouble) = self.profiles.as_ref().and_then(ProfileWriter::trouble) {
            eprintln!(
                "gabion: {trouble}: the run goes on, profiles that can't be kept are counted"
            );
        }
    }

    /// Begins a checkpoint.
    pub(crate) fn begin_save(&mut self) {
        self.saving = None;
        if let Some(folder) = &self.folder {
            match Writing::begin(folder) {
                Ok(writing) => self.saving = Some(writing),
                Err(e) => self.not_saved(&e.to_string()),
            }
        }
    }

    /// Adds a section to it.
    pub(crate) fn save(&mut self, tag: Tag, bytes: &[u8]) {
        if let Some(writing) = &mut self.saving
            && let Err(e) = writing.section(tag, bytes)
        {
            self.not_saved(&e.to_string());
        }
    }

    /// Ends it: all that was found until then stands on the disk before it does.
    pub(crate) fn end_save(&mut self) {
        if self.saving.is_none() {
            return;
        }
        self.idle();
        if self.sealed.as_ref().is_some_and(|sealed| !sealed.commit()) {
            return self.not_saved("findings are not sealed");
        }
        if let Some(profiles) = &self.profiles {
            profiles.settle();
        }
        // Outputs that can't be written are said at the end; what they hold is all that can be told of them.
        let marks = self.files.as_mut().map_or(Ok([0; 2]), AlertFiles::marks);
        let marks = match marks {
            Ok(marks) => marks,
            Err(e) => return self.not_saved(&e),
        };
        // Lines for JSON are those that this run tells.
        let Found { evidence, alerts, hosts, rank, lines: _ } = &self.found;
        let told = self.files.as_ref().map(|files| files.told().clone()).unwrap_or_default();
        let saved = SavedSink {
            marks,
            told,
            evidence: evidence.iter().map(|((k, l), n)| ((*k).to_owned(), *l, *n)).collect(),
            alerts: alerts.iter().map(|(ip, window, sum)| (*ip, (*window, *sum))).collect(),
            hosts: hosts.clone(),
            rank: rank.clone(),
            sealed: self.sealed_ids.as_ref().map(SealedIds::left).unwrap_or_default(),
        };
        let mut bytes = Vec::new();
        saved.save(&mut bytes);
        self.save(Tag::Sink, &bytes);
        match self.saving.take().map(Writing::finish) {
            Some(Err(e)) => self.not_saved(&e.to_string()),
            Some(Ok(_)) => {
                if let Some(ids) = &mut self.sealed_ids {
                    ids.begin_anew();
                }
            }
            None => {}
        }
    }

    /// Says that the checkpoint before is the last one, once.
    fn not_saved(&mut self, why: &str) {
        self.saving = None;
        if self.unsaved.is_none()
            && let Some(folder) = &self.folder
        {
            let path = checkpoint::path_in(folder).display().to_string();
            eprintln!(
                "gabion: {path}: {why}: a run that goes on from here reads again what came since the last \
                 checkpoint: make room"
            );
            self.unsaved = Some(format!("{path}: {why}"));
        }
    }

    /// Whether profiles are to be handed over at the end of their windows.
    pub(crate) fn keeps_windows(&self) -> bool {
        self.paged.is_some() || self.profiles.is_some()
    }

    /// Takes profiles at the end of their windows.
    pub(crate) fn keep(&mut self, kept: Vec<Kept>) {
        if let Some(paged) = &mut self.paged {
            paged.keep(&kept);
        }
        if let Some(profiles) = &self.profiles {
            let stored =
                |k: Kept| StoredProfile { ip: k.ip.to_bytes(), window: k.window, bytes: k.bytes };
            profiles.put(kept.into_iter().map(stored));
        }
    }
}

/// When a finding is written.
fn created() -> Option<TimeNs> {
    i64::try_from(crate::stats::now_ns()).ok().map(TimeNs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chart of scans has the numbers that were measured, the last and largest of each.
    #[test]
    fn scans_are_drawn_with_what_was_measured() {
        let mut paged = Paged::default();
        scans().iter().for_each(|e| paged.evidence(e));
        let drawn: Vec<_> = paged.scans.into_iter().collect();
        // A sketch counts the thousand.
        let [((who, what), n)] = drawn.as_slice() else { panic!("{drawn:?}") };
        assert_eq!((who.as_str(), what.as_str()), ("10.0.0.1", "23/tcp"));
        assert!((990..=1010).contains(n), "{n}");
    }

    /// All tellings of a scan.
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
                    state: b"S0",
                    ..gabion_record::logs::Conn::default()
                }),
            };
            engine.record(&record, &mut |finding| {
                if let Finding::Telling(e, _) = finding {
                    found.push(e.clone());
                }
            });
        }
        found
    }

    /// What a summary and a page have no room for is counted.
    #[test]
    fn what_has_no_room_in_summary_and_page_is_counted() {
        use crate::limits::*;
        let first = scan();
        gabion_record::limits::take();
        let (mut found, mut paged) = (Found::default(), Paged::default());
        for n in 0..SCORED_HOSTS_MAX as u32 + 2 {
            let mut e = first.clone();
            e.profile = Ip::v4(n);
            e.ts = TimeNs(i64::from(n) * 60_000_000_000);
            found.evidence(&e);
            paged.counts(&e);
            if n < CHARTED_SCANS_MAX as u32 + 2 {
                paged.evidence(&e);
            }
        }
        for n in 0..=TOLD_ALERTS_MAX {
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
            paged.evidence(&beacon);
        }
        let counts = gabion_record::limits::take();
        assert_eq!(counts.of(&reached::SCORED_HOSTS_MAX), 2);
        assert_eq!(counts.of(&reached::CHARTED_MINUTES_MAX), 2);
        assert_eq!(counts.of(&reached::CHARTED_SCANS_MAX), 2);
        assert_eq!(counts.of(&reached::TOLD_ALERTS_MAX), 1);
        assert_eq!(counts.of(&reached::CHARTED_BEACONS_MAX), 2);
    }

    /// A scan of a thousand hosts, as it was told last.
    fn scan() -> Evidence {
        scans().pop().unwrap()
    }
}
