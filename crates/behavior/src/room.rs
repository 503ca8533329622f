//! Which findings are reported one by one, and what happens to the others.
//!
//! A sender of flows must not be able to fill a disk with evidence, nor to hide one finding among many. So
//! a bounded number of findings of a type and window is reported singly: some of each source, some of each target where
//! many sources do the same to one, and some in all. The others are counted in a finding that grows:
//! how many there were, of how many hosts, and which were the weightiest. Those that weigh more than any
//! that was reported singly are reported singly too when their window is over.
//!
//! A reported finding is reported again when what it measures has grown tenfold, when it is worse than it
//! was, and at the end of its window when it has grown since. One of level info waits for that
//! end, and one that continues to grow over a day is reported again when it has doubled, and when nothing follows.
//!
//! All of this is decided where the findings of all shards meet in their order, so that it does not depend
//! on how many workers there are. Sums of threat levels do not come here: they go by occurrence.

use crate::evidence::{put_party, report_id_of, short};
use crate::limits::{
    HEAVIEST_MAX, LASTING_MAX, SCOPES_MAX, SINGLE_MAX, SINGLE_OF_SOURCE, SINGLE_OF_TARGET,
    UIDS_MAX, reached,
};
use crate::repeats::REPEATED;
use crate::settings::Settings;
use crate::sketch::{Hosts, hash_ip, hash_text};
use crate::steps;
use foldhash::fast::FixedState;
use gabion_record::Ip;
use gabion_record::evidence::{
    Evidence, EvidenceType, FindingId, Indicator, Measures, Party, ReportReason, Role, ThreatLevel,
};
use gabion_record::logs::Proto;
use hashbrown::HashMap;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Types that report incoming attempts: many sources do the same to one target.
const INCOMING: [&str; 7] = [
    "VERTICAL_PORT_SCAN",
    "SLOW_VERTICAL_PORT_SCAN",
    "PASSWORD_GUESSING",
    "BAD_SMTP_LOGIN",
    "SMTP_LOGIN_BRUTEFORCE",
    "MULTIPLE_RECONNECTION_ATTEMPTS",
    "UNKNOWN_PORT",
];

/// Types whose findings continue to grow in later windows, for as long as a day.
const LASTING: [&str; 8] = [
    "BEACON",
    "RARE_DESTINATION",
    "RARE_SIGNATURE",
    "LONG_TOTAL_CONNECTION",
    "STROBE",
    "DNS_TUNNEL",
    "SLOW_VERTICAL_PORT_SCAN",
    "SLOW_HORIZONTAL_PORT_SCAN",
];

/// How often such a finding is reported again while its day continues: when it has doubled.
const LASTING_GROWTH: u64 = 2;

/// How often the others are, while their window continues: in steps of ten, as scans and repeats are. The end of
/// the window, with the last numbers, is an hour away.
const GROWTH: u64 = 10;

/// How much a finding weighs among those of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Weight(pub(crate) ThreatLevel, pub(crate) u64, pub(crate) u32);

impl Weight {
    /// What it measures.
    pub(crate) fn measured(&self) -> u64 {
        self.1
    }

    pub(crate) fn from_evidence(e: &Evidence) -> Weight {
        let m = &e.measures;
        let measured = match m {
            m if m.score > 0.0 => (m.score * 1e9) as u64,
            m if m.bytes > 0 => m.bytes,
            m if m.hosts > 0 => m.hosts,
            m if m.ports > 0 => m.ports,
            m if m.duration_ns > 0 => m.duration_ns as u64,
            m => m.count.max(e.times),
        };
        Weight(e.level, measured, (e.confidence * 1e6) as u32)
    }
}

/// The outcome of an occurrence.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is reported as it is now.
    Reported,
    /// Its finding was reported before and has not grown enough: the report that stands for it.
    Known(FindingId),
    /// It is counted in a growing finding, which has this id and may be due to be reported.
    Folded(FindingId, Option<Box<Evidence>>),
}

/// What the rooms counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RoomCounts {
    /// Reports of findings: of single ones, and of growing ones that stand for many.
    pub findings: u64,
    /// Reports of them.
    pub reports: u64,
    /// Occurrences that were counted in growing findings.
    pub folded: u64,
}

/// A finding that is reported singly.
#[derive(Debug)]
pub(crate) struct Single {
    /// As it is by now.
    pub(crate) now: Box<Evidence>,
    /// The last report of it.
    pub(crate) said: Measures,
    pub(crate) said_times: u64,
    pub(crate) said_level: ThreatLevel,
}

/// A finding that stands for many.
#[derive(Debug)]
pub(crate) struct Folded {
    pub(crate) scope: Scope,
    /// A function of what it is about.
    pub(crate) id: FindingId,
    /// The first one: the type, window and profile.
    pub(crate) first: Box<Evidence>,
    pub(crate) count: u64,
    pub(crate) said: u64,
    pub(crate) level: ThreatLevel,
    pub(crate) confidence: f64,
    pub(crate) hosts: Hosts,
    pub(crate) measures: Measures,
    /// The weightiest, lightest first.
    pub(crate) heaviest: Vec<(Weight, Box<Evidence>)>,
}

/// What a growing finding is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// One source, many targets.
    Source(Ip),
    /// One target (its hash), many sources.
    Target(u64),
    /// All that did not fit elsewhere.
    Rest,
}

/// Findings of a type in a window; those worth knowing only, and others, each have a room.
#[derive(Debug, Default)]
pub(crate) struct Room {
    pub(crate) singles: HashMap<FindingId, Single, FixedState>,
    /// Findings reported singly, by source and by target.
    pub(crate) of_source: HashMap<Ip, u32, FixedState>,
    pub(crate) of_target: HashMap<u64, u32, FixedState>,
    /// Findings by where a profile counts their repeats.
    pub(crate) repeats: HashMap<u64, Vec<FindingId>, FixedState>,
    pub(crate) folded: BTreeMap<Scope, Folded>,
    /// The weightiest that was reported singly.
    pub(crate) most: Option<Weight>,
}

/// A type, and whether it is worth knowing only.
pub(crate) type Rank = (&'static str, bool);

/// The rooms.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    pub(crate) windows: BTreeMap<i64, BTreeMap<Rank, Room>>,
    /// Findings of windows that are over, which continue to grow.
    pub(crate) lasting: HashMap<FindingId, Measures, FixedState>,
    /// Windows before this one have been closed: findings that continue to grow were reported then.
    pub(crate) closed: i64,
    /// What was counted.
    pub counts: RoomCounts,
}

impl Rooms {
    /// Whether evidence of a window begins it while two before it are open. Late records begin windows before the
    /// latest, which no turn closes: the caller closes those before.
    pub(crate) fn is_third(&self, window: i64) -> bool {
        !self.windows.contains_key(&window) && self.windows.range(..window).nth(1).is_some()
    }

    /// How many windows are open.
    #[cfg(test)]
    pub(crate) fn open(&self) -> usize {
        self.windows.len()
    }

    /// Takes an occurrence in. If it is reported, its numbers are those of its finding by now.
    pub(crate) fn admit_evidence(&mut self, e: &mut Evidence, settings: &Settings) -> Outcome {
        let rank = (e.kind.name, e.level == ThreatLevel::Info);
        let room = self.windows.entry(e.window).or_default().entry(rank).or_default();
        let is_counted = e.why == ReportReason::Counted;
        // What is worth knowing only waits for the end of its window, where that comes soon.
        let waits = rank.1 && !settings.is_one_window;
        steps::add(1);
        if !is_counted && let Some(single) = room.singles.get_mut(&e.id) {
            let is_reported = single.admit_occurrence(e, waits);
            let report_id = single.now.report_id;
            if is_reported {
                room.most = room.most.max(Some(Weight::from_evidence(e)));
                self.counts.reports += 1;
                return Outcome::Reported;
            }
            return Outcome::Known(report_id);
        }
        let target = target_of(e, settings);
        let scope = room.scope(e, target);
        let scope = if is_counted { scope.or(Some(Scope::Rest)) } else { scope };
        let Some(scope) = scope else {
            room.add(e, target);
            self.counts.findings += 1;
            self.counts.reports += 1;
            return Outcome::Reported;
        };
        self.counts.folded += 1;
        let folded = room.folded.entry(scope).or_insert_with_key(|scope| {
            self.counts.findings += 1;
            Folded::new(scope.clone(), e)
        });
        folded.fold_evidence(e);
        let is_due =
            !waits && folded.count >= 10 && folded.count.ilog10() > folded.said.max(1).ilog10();
        let due = is_due.then(|| folded.report(ReportReason::Threshold));
        self.counts.reports += u64::from(is_due);
        Outcome::Folded(folded.id, due.map(Box::new))
    }

    /// Takes the last numbers of a finding whose window is over, to be reported when it is closed. A finding that
    /// continues to grow is reported at once, when it has grown enough or nothing follows.
    pub(crate) fn last(&mut self, e: &Evidence, is_end: bool, emit: &mut dyn FnMut(Evidence)) {
        if std::ptr::eq(e.kind, &REPEATED) {
            for room in self.windows.get_mut(&e.window).into_iter().flat_map(BTreeMap::values_mut) {
                // Of several that were counted together only the last reported ones have the number: one, or the two
                // ends of an observation.
                let Some(ids) = room.repeats.get(&e.repeat) else { continue };
                steps::add(ids.len());
                let times = |id| room.singles.get(id).map_or(0, |single: &Single| single.now.times);
                let most = ids.iter().map(times).max().unwrap_or(0);
                for id in ids {
                    if let Some(single) = room.singles.get_mut(id)
                        && single.now.times == most
                        && e.times > most
                    {
                        (single.now.times, single.now.measures.count) = (e.times, e.times);
                        (single.now.ts, single.now.measures.last) = (e.ts, e.ts);
                    }
                }
            }
            return;
        }
        let rank = (e.kind.name, e.level == ThreatLevel::Info);
        let single = self.windows.get_mut(&e.window).and_then(|r| r.get_mut(&rank));
        let is_end = is_end || e.why == ReportReason::Ended;
        if let Some(single) = single.and_then(|room| room.singles.get_mut(&e.id)) {
            // Reported when the window is closed, with whatever else it has grown by. Fields that last numbers do not
            // name are as they were.
            let mut before = std::mem::replace(&mut *single.now, e.clone());
            let now = &mut single.now;
            // A finding that continues to grow is reported at its window's end, and then when nothing follows.
            now.why = if is_end { ReportReason::Ended } else { ReportReason::Final };
            now.related = before.related;
            now.measures.keep_most(&before.measures);
            if now.uids.is_empty() {
                now.uids = std::mem::take(&mut before.uids);
            }
        } else if let Some(said) = self.lasting.get_mut(&e.id)
            && (has_grown(&e.measures, said, LASTING_GROWTH)
                || is_end && e.measures.has_grown(said))
        {
            let mut report = e.clone();
            report.measures.keep_most(said);
            *said = report.measures;
            self.counts.reports += 1;
            report.why = if is_end { ReportReason::Ended } else { ReportReason::Final };
            report.report_id = report_id_of(&report);
            emit(report);
        }
    }

    /// A later window has begun: reports what has grown in those before, and forgets all but the one before.
    pub(crate) fn close(&mut self, window: i64, emit: &mut dyn FnMut(Evidence)) {
        for (number, rooms) in self.windows.range_mut(..window) {
            let was_closed = *number < self.closed;
            for (rank, room) in rooms {
                let continues = window < i64::MAX && LASTING.contains(&rank.0);
                room.close((continues, was_closed), &mut self.counts, emit);
            }
        }
        self.closed = self.closed.max(window);
        let kept = self.windows.split_off(&window.saturating_sub(1));
        for room in std::mem::replace(&mut self.windows, kept).into_values().flatten() {
            let (rank, room) = room;
            if !LASTING.contains(&rank.0) {
                continue;
            }
            self.lasting.extend(room.singles.into_iter().map(|(id, s)| (id, s.said)));
            if self.lasting.len() > LASTING_MAX {
                self.forget_lasting();
            }
        }
    }

    /// Evicts the half that was reported longest ago: a run that follows logs for months has space for what it finds
    /// now.
    fn forget_lasting(&mut self) {
        let mut all: Vec<_> = self.lasting.iter().map(|(id, said)| (said.last, *id)).collect();
        steps::add(all.len());
        all.sort_unstable();
        let gone = all.len() - LASTING_MAX / 2;
        for (_, id) in all.iter().take(gone) {
            self.lasting.remove(id);
        }
        reached::LASTING_MAX.count_times(gone as u64);
    }
}

impl Single {
    /// Takes an occurrence in; returns whether it is reported, with the numbers it has by now. One that `waits` is
    /// reported at its window's end.
    fn admit_occurrence(&mut self, e: &mut Evidence, waits: bool) -> bool {
        let before = &self.now.measures;
        if e.measures.count == 1 && e.repeat == 0 {
            // Each is one of many: they add up.
            e.measures.count += before.count;
            e.measures.bytes = e.measures.bytes.saturating_add(before.bytes);
            e.measures.duration_ns = e.measures.duration_ns.max(before.duration_ns);
        }
        e.measures.keep_most(before);
        let is_reported = !waits
            && (e.level > self.said_level
                || e.times > self.said_times
                || has_grown(&e.measures, &self.said, GROWTH)
                || has_grown(&e.measures, &self.said, LASTING_GROWTH) && is_lasting(e.kind));
        if is_reported {
            e.report_id = report_id_of(e);
            (self.said, self.said_times, self.said_level) = (e.measures, e.times, e.level);
        } else {
            e.report_id = self.now.report_id;
        }
        *self.now = e.clone();
        is_reported
    }

    fn has_grown(&self) -> bool {
        self.now.measures.has_grown(&self.said) || self.now.times > self.said_times
    }
}

impl Room {
    /// Where a new finding is to be counted; `None` when it is reported singly.
    fn scope(&self, e: &Evidence, target: Option<u64>) -> Option<Scope> {
        let of_source = self.of_source.get(&e.profile).copied().unwrap_or(0);
        let of_target = target.and_then(|t| self.of_target.get(&t)).copied().unwrap_or(0);
        let scope = if of_source >= SINGLE_OF_SOURCE {
            Scope::Source(e.profile)
        } else if of_target >= SINGLE_OF_TARGET {
            Scope::Target(target.unwrap_or(0))
        } else if self.singles.len() >= SINGLE_MAX {
            Scope::Rest
        } else {
            return None;
        };
        let has_room = self.folded.len() < SCOPES_MAX || self.folded.contains_key(&scope);
        Some(if has_room { scope } else { Scope::Rest })
    }

    fn add(&mut self, e: &Evidence, target: Option<u64>) {
        *self.of_source.entry(e.profile).or_default() += 1;
        if let Some(target) = target {
            *self.of_target.entry(target).or_default() += 1;
        }
        if e.repeat != 0 {
            self.repeats.entry(e.repeat).or_default().push(e.id);
        }
        self.most = self.most.max(Some(Weight::from_evidence(e)));
        let (said, said_times, said_level) = (e.measures, e.times, e.level);
        let single = Single { now: Box::new(e.clone()), said, said_times, said_level };
        self.singles.insert(e.id, single);
    }

    /// Reports what has grown; of findings that continue to grow and were reported at their window's end, those that
    /// have doubled since or have their last numbers.
    fn close(
        &mut self,
        (continues, was_closed): (bool, bool),
        counts: &mut RoomCounts,
        emit: &mut dyn FnMut(Evidence),
    ) {
        steps::add(self.singles.len() + self.folded.len());
        let is_due = |s: &Single| {
            s.has_grown()
                && (!(continues && was_closed)
                    || s.now.why == ReportReason::Ended
                    || has_grown(&s.now.measures, &s.said, LASTING_GROWTH))
        };
        let mut grown: Vec<_> = self.singles.iter_mut().filter(|(_, s)| is_due(s)).collect();
        grown.sort_unstable_by_key(|(id, _)| **id);
        for (_, single) in grown {
            (single.said, single.said_times) = (single.now.measures, single.now.times);
            let is_end = !continues || single.now.why == ReportReason::Ended;
            single.now.why = if is_end { ReportReason::Ended } else { ReportReason::Final };
            single.now.report_id = report_id_of(&single.now);
            counts.reports += 1;
            emit((*single.now).clone());
        }
        // A finding that is reported singly is reported with its last numbers by now.
        self.most =
            self.most.max(self.singles.values().map(|s| Weight::from_evidence(&s.now)).max());
        let mut heavy = Vec::new();
        for folded in self.folded.values_mut() {
            let most = self.most;
            let split = folded.heaviest.partition_point(|(weight, _)| Some(*weight) <= most);
            heavy.extend(folded.heaviest.iter().skip(split).map(|(_, e)| (**e).clone()));
            if folded.count > folded.said {
                counts.reports += 1;
                emit(folded.report(ReportReason::Ended));
            }
        }
        for e in heavy {
            if !self.singles.contains_key(&e.id) {
                self.add(&e, None);
                (counts.findings, counts.reports) = (counts.findings + 1, counts.reports + 1);
                emit(e);
            }
        }
    }
}

impl Folded {
    fn new(scope: Scope, e: &Evidence) -> Folded {
        Folded {
            id: id_of(&scope, e),
            scope,
            first: Box::new(e.clone()),
            count: 0,
            said: 0,
            level: e.level,
            confidence: 0.0,
            hosts: Hosts::default(),
            measures: Measures { first: e.measures.first, ..Measures::default() },
            heaviest: Vec::new(),
        }
    }

    fn fold_evidence(&mut self, e: &Evidence) {
        self.count += 1;
        self.level = self.level.max(e.level);
        self.confidence = self.confidence.max(e.confidence);
        let m = &mut self.measures;
        m.bytes = m.bytes.saturating_add(e.measures.bytes);
        m.duration_ns = m.duration_ns.max(e.measures.duration_ns);
        m.score = m.score.max(e.measures.score);
        m.first = m.first.min(e.measures.first);
        m.last = m.last.max(e.ts);
        match self.scope {
            Scope::Source(_) => {
                let target = if e.attacker.role == Role::Source { &e.victim } else { &None };
                self.hosts.insert_hash(target.as_ref().map_or(e.about, hash_party));
            }
            Scope::Target(_) | Scope::Rest => {
                self.hosts.insert(e.profile);
            }
        }
        // What is only counted weighs less than others of its shard.
        if e.why == ReportReason::Counted {
            return;
        }
        self.first.input_state.clone_from(&e.input_state);
        let weight = Weight::from_evidence(e);
        let same = self.heaviest.iter().position(|(_, held)| held.id == e.id);
        if let Some(same) = same {
            if self.heaviest.get(same).is_some_and(|(held, _)| weight <= *held) {
                return;
            }
            self.heaviest.remove(same);
        } else if self.heaviest.len() >= HEAVIEST_MAX {
            steps::add(1);
            if self.heaviest.first().is_some_and(|(least, _)| weight <= *least) {
                return;
            }
            self.heaviest.remove(0);
        }
        let at = self.heaviest.partition_point(|(held, _)| *held < weight);
        self.heaviest.insert(at, (weight, Box::new(e.clone())));
    }

    /// The report as of now.
    fn report(&mut self, why: ReportReason) -> Evidence {
        self.said = self.count;
        let heaviest = || self.heaviest.iter().rev().map(|(_, e)| &**e);
        let is_source = matches!(self.scope, Scope::Source(_));
        let mut named: Vec<String> = Vec::new();
        let mut others: Vec<Ip> = Vec::new();
        for e in heaviest() {
            let name = match (is_source, target_party(e)) {
                (true, Some(target)) => target.what.to_string(),
                (true, None) => e.dst_port.map_or_else(String::new, |p| p.to_string()),
                (false, _) => e.profile.to_string(),
            };
            if !name.is_empty() && !named.contains(&name) {
                named.push(name);
            }
            if !is_source && e.profile != self.first.profile && !others.contains(&e.profile) {
                others.push(e.profile);
            }
        }
        let says = match &self.scope {
            Scope::Source(_) => {
                "{count} more findings of {0} from {profile}, to {1}{hosts} targets.{2}"
            }
            Scope::Target(_) => {
                "{count} more findings of {0} to {dst}, from {1}{hosts} sources.{2}"
            }
            Scope::Rest => "{count} more findings of {0}, of {1}{hosts} hosts.{2}",
        };
        let uids = heaviest().flat_map(|e| e.uids.iter().cloned()).take(UIDS_MAX).collect();
        let victim =
            if matches!(self.scope, Scope::Target(_)) { self.first.victim.clone() } else { None };
        let weightiest = if named.is_empty() {
            String::new()
        } else {
            format!(" Weightiest: {}.", named.join(", "))
        };
        let about = if self.hosts.is_estimate() { "about " } else { "" };
        let mut report = Evidence {
            id: self.id,
            why,
            says: Cow::Borrowed(says),
            words: vec![self.first.kind.name.to_owned(), about.to_owned(), weightiest],
            measures: Measures { count: self.count, hosts: self.hosts.len(), ..self.measures },
            about: 0,
            repeat: 0,
            attacker: Party::source(self.first.profile),
            victim,
            level: self.level,
            confidence: self.confidence,
            ts: self.measures.last,
            uids,
            proto: Proto::Tcp,
            src_port: None,
            dst_port: None,
            related: Vec::new(),
            times: 1,
            others,
            ..(*self.first).clone()
        };
        report.report_id = report_id_of(&report);
        report
    }
}

/// The id of a finding that stands for many, of which this is the first.
pub(crate) fn id_of(scope: &Scope, first: &Evidence) -> FindingId {
    let mut bytes = b"folded".to_vec();
    bytes.push(u8::from(first.level == ThreatLevel::Info));
    bytes.extend_from_slice(first.kind.name.as_bytes());
    bytes.extend_from_slice(&first.window.to_le_bytes());
    match scope {
        Scope::Source(ip) => bytes.extend_from_slice(&ip.to_bytes()),
        Scope::Target(_) => put_party(target_party(first), &mut bytes),
        Scope::Rest => bytes.push(0),
    }
    short(Sha256::new_with_prefix(bytes))
}

/// Whether one of the numbers is `times` times the reported one.
fn has_grown(now: &Measures, said: &Measures, times: u64) -> bool {
    let grew = |now: u64, said: u64| now > said && now >= said.saturating_mul(times);
    grew(now.count, said.count)
        || grew(now.hosts, said.hosts)
        || grew(now.ports, said.ports)
        || grew(now.bytes, said.bytes)
        || grew(now.duration_ns as u64, said.duration_ns as u64)
}

pub(crate) fn hash_party(party: &Party) -> u64 {
    match &party.what {
        Indicator::Ip(ip) => hash_ip(*ip),
        Indicator::Domain(text) | Indicator::Url(text) | Indicator::Md5(text) => {
            hash_text(text.as_bytes())
        }
    }
}

/// The target of a source.
fn target_party(e: &Evidence) -> Option<&Party> {
    e.victim.as_ref().filter(|_| e.attacker.role == Role::Source)
}

/// The target whose sources are bounded: for findings of level info, and for incoming attempts. Hosts of the
/// site that do the same to one address outside are each reported, however many they are.
fn target_of(e: &Evidence, settings: &Settings) -> Option<u64> {
    let target = target_party(e)?;
    let comes_in = || {
        let is_outside = target.ip().is_none_or(|ip| !ip.is_private() && !settings.is_own(ip));
        let is_from_inside = e.profile.is_private() || settings.is_own(e.profile);
        INCOMING.contains(&e.kind.name) && !(is_from_inside && is_outside)
    };
    (e.level == ThreatLevel::Info || comes_in()).then(|| hash_party(target))
}

/// Whether a type is one of those that continue to grow in later windows.
pub(crate) fn is_lasting(kind: &EvidenceType) -> bool {
    LASTING.contains(&kind.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::{
        data_upload, http_traffic, reconnection, slow_scan, ssh, unknown_port, vertical_scan,
    };
    use crate::trial::{Trial, at, conn, has_values, log};
    use gabion_record::logs::{Body, Http, SECOND, Ssh};

    fn reported<'a>(
        trial: &'a Trial,
        kind: &'a EvidenceType,
    ) -> impl Iterator<Item = &'a Evidence> {
        trial.reported.iter().filter(move |e| e.kind == kind)
    }

    /// A scan of 101 ports is reported at 10, at 100 and with its 101 when its window is over: one finding, each
    /// report with an id of its own, and adds up as often as it crossed a threshold.
    #[test]
    fn a_finding_that_grew_is_reported_with_its_last_numbers_at_the_windows_end() {
        for is_live in [true, false] {
            let mut trial = Trial::new();
            for port in 1..=101u16 {
                trial.give(&conn(port.into(), "10.0.0.1", "1.2.3.4", 2000 + port).refused());
            }
            // The source that opens the next window, or the end.
            if is_live {
                trial.give(&conn(3700, "10.0.0.9", "1.2.3.4", 443))
            } else {
                trial.end()
            }
            let found: Vec<_> = reported(&trial, &vertical_scan::TYPE).collect();
            let ports: Vec<_> = found.iter().map(|e| e.measures.ports).collect();
            assert_eq!(ports, [10, 100, 101]);
            assert!(found.iter().all(|e| e.id == found[0].id));
            let mut ids: Vec<_> = found.iter().map(|e| e.report_id).collect();
            ids.dedup();
            assert_eq!(ids.len(), 3);
            assert_eq!(found[2].why, ReportReason::Ended);
            assert!(has_values(found[2], &["101", "TCP"]));
            assert_eq!(trial.evidence_of(&vertical_scan::TYPE).len(), 2);
            trial.end();
            assert_eq!(reported(&trial, &vertical_scan::TYPE).count(), 3);
        }
    }

    /// What is counted at the 1st, 10th, 100th … time has its last number too; a finding of level info is not
    /// reported in between.
    #[test]
    fn repeats_are_reported_with_their_last_number() {
        let mut trial = Trial::new();
        for n in 0..57 {
            let body = Body::Http(Http { uri: b"/x", ..Http::default() });
            trial.record(&log(n, "10.0.0.1", "1.2.3.4", body));
            trial.give(&conn(n, "10.0.0.1", "1.2.3.4", 31_337));
        }
        trial.end();
        let times = |kind| reported(&trial, kind).map(|e| e.times).collect::<Vec<_>>();
        assert_eq!(times(&http_traffic::TRAFFIC), [1, 57]);
        assert_eq!(times(&unknown_port::TYPE), [1, 10, 57]);
        assert_eq!(trial.evidence_of(&http_traffic::TRAFFIC).len(), 2);
    }

    /// Refusals at one port, counted at each fifth, are reported in steps of ten while the window continues, and with
    /// their last number.
    #[test]
    fn growth_in_small_steps_is_reported_in_large_ones() {
        let mut trial = Trial::new();
        for n in 0..230 {
            let mut flow = conn(n, "10.0.0.1", "1.2.3.4", 443).refused();
            (flow.state, flow.history) = ("REJ", "Sr");
            trial.give(&flow);
        }
        trial.end();
        let counts: Vec<_> =
            reported(&trial, &reconnection::TYPE).map(|e| e.measures.count).collect();
        assert_eq!(counts, [5, 50, 230]);
        assert_eq!(trial.evidence_of(&reconnection::TYPE).len(), 46);
    }

    /// A slow scan is reported at the end of the window in which it was found, as it doubles over the day, and with its
    /// last number; not in each hour by how little it has grown, and not a second time for the next window.
    #[test]
    fn a_finding_that_continues_to_grow_is_reported_as_it_doubles() {
        for ports in 60..=70u16 {
            let mut trial = Trial::new();
            for port in 0..ports {
                let second = i64::from(port) * 500;
                trial.give(&conn(second, "10.0.0.1", "1.2.3.4", 2000 + port).refused());
            }
            trial.end();
            let reported: Vec<_> = reported(&trial, &slow_scan::VERTICAL)
                .map(|e| (e.measures.ports, e.measures))
                .collect();
            let numbers: Vec<_> = reported.iter().map(|t| t.0).collect();
            assert_eq!(numbers.last(), Some(&u64::from(ports)), "{numbers:?}");
            // At 10, at its window's end, and from there on each time that it has doubled.
            assert_eq!(numbers[..2], [10, 15], "{numbers:?}");
            let later = reported.get(1..reported.len() - 1).unwrap_or_default();
            let has_doubled = |pair: &[(u64, Measures)]| has_grown(&pair[1].1, &pair[0].1, 2);
            assert!(later.len() > 2 && later.windows(2).all(has_doubled), "{numbers:?}");
        }
    }

    /// Of a source with many targets some are reported singly, and the rest in one finding that grows.
    #[test]
    fn a_source_with_many_targets_is_reported_in_bounded_memory() {
        let mut trial = Trial::new();
        for n in 0..128u32 {
            trial.give(&conn(n.into(), "10.0.0.1", &format!("1.2.3.{n}"), 31_337));
        }
        trial.end();
        let found: Vec<_> = reported(&trial, &unknown_port::TYPE).collect();
        let (folded, single): (Vec<&Evidence>, Vec<&Evidence>) =
            found.into_iter().partition(|e| e.measures.count > 1);
        assert_eq!(single.len(), SINGLE_OF_SOURCE as usize);
        let counts: Vec<_> = folded.iter().map(|e| e.measures.count).collect();
        assert_eq!(counts, [10, 100, 108]);
        let last = folded[2];
        assert_eq!(last.measures.hosts, 108);
        assert!(has_values(last, &["10.0.0.1"]), "{}", last.description());
        assert!(folded.iter().all(|e| e.id == last.id && e.profile == at("10.0.0.1")));
        // Sums and counts go by occurrence.
        let counts = trial.engine.counts();
        assert_eq!((counts.evidence, counts.findings), (128, 21));
        assert_eq!(trial.alerts.len(), 6);
        // An alert names the finding that stands for many.
        assert!(trial.alerts[5].evidence.contains(&last.id));
    }

    /// Many sources that knock at one host are reported as some findings and one that grows, but many hosts of the site
    /// that talk with one address outside are each reported.
    #[test]
    fn many_sources_of_one_target_are_bounded_where_they_come_in() {
        let sources = |inside: bool| {
            let mut trial = Trial::new();
            for n in 0..60u32 {
                let (src, dst) = if inside {
                    (format!("10.0.0.{n}"), "1.2.3.4")
                } else {
                    (format!("8.8.8.{n}"), "10.0.0.1")
                };
                for m in 0..2 {
                    trial.give(&conn((n * 2 + m).into(), &src, dst, 31_337));
                }
            }
            trial.end();
            reported(&trial, &unknown_port::TYPE)
                .map(|e| e.id)
                .collect::<std::collections::HashSet<_>>()
                .len()
        };
        assert_eq!(sources(true), 60);
        assert_eq!(sources(false), SINGLE_OF_TARGET as usize + 1);
    }

    /// A flood of each type hides nobody: a scanner, a guesser and the largest upload in its middle are reported
    /// singly, and the flood itself in bounded room.
    #[test]
    fn a_flood_of_a_type_hides_nobody() {
        let mut trial = Trial::new();
        let guess = |trial: &mut Trial, second: i64, src: &str, n: u32| {
            let body = Body::Ssh(Ssh { auth_attempts: n, ..Ssh::default() });
            let mut r = log(second, src, "1.2.3.4", body);
            r.dst_port = 22;
            trial.record(&r);
        };
        for n in 0..6000u32 {
            let src = format!("8.{}.{}.{}", n / 40_000, n / 200 % 200, n % 200);
            let second = i64::from(n) / 10;
            for m in 0..2 {
                let sent = 100_000_000 + u64::from(n.wrapping_mul(2_654_435_761) % 1_000_000);
                trial.give(&conn(second, &src, "1.2.3.4", 31_337).sending(sent + m));
            }
            guess(&mut trial, second, &src, 9);
            if n == 3000 {
                trial.give(&conn(second, "9.9.9.9", "1.2.3.4", 443).sending(900_000_000_000));
                for port in 0..40 {
                    trial.give(&conn(second, "9.9.9.8", "1.2.3.4", 2000 + port).refused());
                }
                guess(&mut trial, second, "9.9.9.7", 500);
            }
        }
        trial.end();
        for (kind, src) in [
            (&data_upload::TYPE, "9.9.9.9"),
            (&vertical_scan::TYPE, "9.9.9.8"),
            (&ssh::GUESSING, "9.9.9.7"),
        ] {
            let is_its = |e: &&Evidence| {
                e.party(Role::Source).and_then(Party::ip) == Some(at(src)) && e.others.is_empty()
            };
            assert!(reported(&trial, kind).any(|e| is_its(&e)), "{} of {src}", kind.name);
        }
        let counts = trial.engine.counts();
        assert!(counts.evidence > 20_000, "{counts:?}");
        assert!(counts.reports < 9_000, "{counts:?}");
        assert_eq!(trial.reported.len() as u64, counts.reports);
        assert!(counts.folded_evidence > 10_000, "{counts:?}");
    }

    /// Evidence that comes late into a closed window is reported with the next.
    #[test]
    fn late_growth_is_reported_with_the_next_window() {
        let mut trial = Trial::new();
        for port in 1..=12u16 {
            trial.give(&conn(port.into(), "10.0.0.1", "1.2.3.4", 2000 + port).refused());
        }
        trial.give(&conn(3700, "10.0.0.1", "5.6.7.8", 443));
        let mut late = conn(50, "10.0.0.1", "1.2.3.4", 2013).refused();
        late.is_late = true;
        trial.give(&late);
        late.ts = 51 * SECOND;
        trial.give(&conn(7300, "10.0.0.1", "5.6.7.8", 443));
        let ports: Vec<_> =
            reported(&trial, &vertical_scan::TYPE).map(|e| e.measures.ports).collect();
        assert_eq!(ports, [10, 12, 13]);
    }
}
