//! Where the detectors of a shard put what they found, and how much of it is made whole.
//!
//! In a flood of findings nearly all are only counted, in findings that stand for many ([`crate::room`]). A
//! finding that will be reported needs ids, texts and ids of flows; one that is only counted needs none of them,
//! and making them costs more than all else that is done for it. So a shard makes whole those that may be
//! reported one by one: some findings of a type and window, some of each source, whatever is known of them later, and
//! those that weigh more than nearly all before. The others are [`ReportReason::Counted`].
//!
//! A shard sees its records in the order of all, so what is made whole does not depend on how many workers there
//! are. It may make more whole than are reported: that is decided where all shards meet.

use crate::crowd::Crowd;
use crate::evidence::{About, EvidenceBuilder, can_attack};
use crate::limits::{CELLS_MAX, SINGLE_MAX, SINGLE_OF_SOURCE, WHOLE_HEAVY, WHOLE_LEAST};
use crate::room::{Weight, hash_party};
use crate::settings::Settings;
use crate::sketch::{hash_ip, hash_words, mix};
use foldhash::fast::FixedState;
use gabion_record::Ip;
use gabion_record::evidence::{
    Evidence, EvidenceType, FindingId, Party, ReportReason, ThreatLevel,
};
use gabion_record::saved;
use hashbrown::HashMap;

/// Which findings are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// All.
    #[default]
    All,
    /// Those that a crowd of constantly changing sources leaves: these are of a source's very first record.
    First,
    /// None: they were reported when their record came.
    Muted,
}

/// The outcome of a finding, with how often it was seen.
enum Outcome {
    /// It is not reported; the stage that left it out counts it.
    Dropped,
    /// It is made whole.
    Whole(u64),
    /// It is only counted; and a hash of what it is about.
    Counted(u64, u64),
}

/// Where findings go.
#[derive(Debug, Default)]
pub struct Outlet {
    /// What was found since somebody took it.
    pub(crate) found: Vec<Evidence>,
    /// Findings so far, dropped ones too.
    made: u64,
    pub(crate) mode: Mode,
    pub(crate) crowd: Crowd,
    gate: Gate,
}

saved! { Outlet { crowd, gate; found = Vec::new(), made = 0, mode = Mode::All } }

impl Outlet {
    /// Of one of `shards` shards.
    pub(crate) fn of_shards(shards: usize) -> Outlet {
        let room = WHOLE_LEAST + 2 * SINGLE_MAX / shards.max(1);
        Outlet { gate: Gate { room: Some(room), ..Gate::default() }, ..Outlet::default() }
    }

    /// One that takes nothing: for findings that were reported before.
    pub(crate) fn muted() -> Outlet {
        Outlet { mode: Mode::Muted, ..Outlet::default() }
    }

    /// Takes over the room that another was made with.
    pub(crate) fn fit(&mut self, fresh: &Outlet) {
        self.gate.room = fresh.gate.room;
    }

    /// A record comes, or a moment that was asked for.
    #[inline]
    pub(crate) fn begin(&mut self, settings: &Settings) {
        // Findings that a whitelist hides later must not take the space of those that are reported.
        self.gate.is_open = !settings.whitelist.is_empty();
    }

    /// Findings so far.
    #[inline]
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Takes what was found.
    pub fn drain_evidence(&mut self) -> Vec<Evidence> {
        std::mem::take(&mut self.found)
    }

    /// Whether something was made whole after the first `before`.
    pub(crate) fn has_whole(&self, before: usize) -> bool {
        let later = self.found.get(before..).unwrap_or_default();
        later.iter().any(|e| e.why != ReportReason::Counted)
    }

    /// What was made whole where repeats are counted under a key ([`Evidence::repeat`]).
    pub(crate) fn whole(&self) -> &Whole {
        &self.gate.whole
    }

    /// Takes that out for a while, or puts it back.
    pub(crate) fn swap_whole(&mut self, whole: &mut Whole) {
        std::mem::swap(&mut self.gate.whole, whole);
    }

    /// Takes a finding, unless it names an address that can't send. `flow` is the id of the flow that it is about;
    /// `complete` adds words to its sentence and is asked only where somebody may read them. Whether it was made
    /// whole: last numbers of what was only counted are reported nowhere.
    pub(crate) fn put(
        &mut self,
        finding: EvidenceBuilder,
        flow: &[u8],
        complete: impl FnOnce(EvidenceBuilder) -> EvidenceBuilder,
    ) -> bool {
        if !can_attack(&finding.0) {
            return false;
        }
        // Last numbers are no occurrence: they are reported where their finding was.
        if finding.0.why.is_last() {
            if self.mode != Mode::Muted {
                complete(finding).finish(&mut self.found);
            }
            return true;
        }
        let finding = finding.sure();
        match self.outcome(&finding.0, finding.1) {
            Outcome::Dropped => {}
            Outcome::Counted(times, key) => self.found.push(counted(finding, flow, times, key)),
            Outcome::Whole(times) => {
                let mut evidence = complete(finding).with_flow(flow).done();
                evidence.times = times;
                self.found.push(evidence);
                return true;
            }
        }
        false
    }

    /// Takes the pair of an observation ([`EvidenceBuilder::pair`]). Whether one of them was made whole.
    pub(crate) fn put_pair(
        &mut self,
        src: EvidenceBuilder,
        flow: &[u8],
        (profile, attacker, ip): (Ip, Party, Ip),
        level: ThreatLevel,
    ) -> bool {
        let (src, other) = src.sure().ends(profile, attacker, ip, level);
        let mut reported: Option<usize> = None;
        for finding in [other, src] {
            if !can_attack(&finding.0) {
                continue;
            }
            match self.outcome(&finding.0, finding.1) {
                Outcome::Dropped => {}
                Outcome::Counted(times, key) => self.found.push(counted(finding, flow, times, key)),
                Outcome::Whole(times) => {
                    let mut evidence = finding.with_flow(flow).done();
                    evidence.times = times;
                    // Where both are whole each names the other.
                    if let Some(other) = reported.and_then(|at| self.found.get_mut(at)) {
                        evidence.related.push(other.report_id);
                        other.related.push(evidence.report_id);
                    }
                    reported = Some(self.found.len());
                    self.found.push(evidence);
                }
            }
        }
        reported.is_some()
    }

    fn outcome(&mut self, e: &Evidence, about: About) -> Outcome {
        self.made += 1;
        let times = match self.mode {
            Mode::All => e.times,
            Mode::Muted => return Outcome::Dropped,
            Mode::First => match self.crowd.said(e) {
                Some(times) => times,
                None => return Outcome::Dropped,
            },
        };
        match self.gate.left_out(e, about) {
            None => {
                self.gate.whole.note(e);
                Outcome::Whole(times)
            }
            Some(key) => Outcome::Counted(times, key),
        }
    }
}

/// A finding that is only counted: known again where the same is read twice, and nothing more.
fn counted(finding: EvidenceBuilder, flow: &[u8], times: u64, key: u64) -> Evidence {
    let mut e = finding.0;
    let m = &e.measures;
    let numbers = mix(m.bytes ^ (m.duration_ns as u64).rotate_left(20) ^ m.count.rotate_left(40));
    let grown = mix(m.hosts ^ m.ports.rotate_left(20) ^ times.rotate_left(40)) ^ m.score.to_bits();
    let of = mix(key ^ e.ts.0 as u64) ^ hash_words(flow).rotate_left(1) ^ e.level as u64;
    let halves = [mix(of ^ numbers), mix(numbers ^ grown.rotate_left(1) ^ of.rotate_left(32))];
    let [a, b] = halves.map(u64::to_le_bytes);
    e.report_id.0.iter_mut().zip(a.iter().chain(&b)).for_each(|(to, from)| *to = *from);
    e.id = FindingId::default();
    e.why = ReportReason::Counted;
    e.times = times;
    e
}

/// What a finding is about, as its id says it: where two meet in one the second is made whole for nothing.
fn key_of(e: &Evidence, about: About) -> u64 {
    let victim = e.victim.as_ref().filter(|_| about.victim);
    let port = e.dst_port.filter(|_| about.port).unwrap_or(0);
    let ends = hash_party(&e.attacker).rotate_left(1) ^ hash_ip(e.profile);
    let to = victim.map_or(1, |v| hash_party(v).rotate_left(e.attacker.role as u32 + 1));
    mix(mix(ends ^ u64::from(port) ^ (e.proto as u64) << 16) ^ to) ^ e.about
}

/// Which findings are made whole.
#[derive(Debug, Default)]
struct Gate {
    cells: Vec<Cell>,
    newest: i64,
    /// Findings of a type and window; no bound where there is none.
    room: Option<usize>,
    whole: Whole,
    is_open: bool,
}

saved! { Gate { cells, newest, room, whole; is_open = false } }

/// Where a profile counts repeats of what was made whole, and the window. How often something was seen in all is
/// reported only if it was reported at all.
#[derive(Debug, Default)]
pub(crate) struct Whole {
    repeats: HashMap<u64, i64, FixedState>,
}

saved! { Whole { repeats } }

impl Whole {
    fn note(&mut self, e: &Evidence) {
        if e.repeat != 0 {
            self.repeats.insert(e.repeat, e.window);
        }
    }

    /// Whether repeats that are counted under this key are of something that was made whole.
    pub(crate) fn has(&self, repeat: u64) -> bool {
        self.repeats.contains_key(&repeat)
    }
}

/// Findings of a type in a window; those worth knowing only, and others, each have one.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) kind: &'static EvidenceType,
    pub(crate) is_info: bool,
    pub(crate) window: i64,
    /// What was made whole, and whose it was.
    pub(crate) known: HashMap<u64, Ip, FixedState>,
    /// A bit for each of those: most of what a flood brings is not known, and is not looked for further.
    pub(crate) bits: [u64; BITS / 64],
    /// The weightiest, lightest first.
    pub(crate) heaviest: [Option<Weight>; WHOLE_HEAVY],
}

/// Bits of a cell: a tenth of them is set when a shard of many has all that it makes whole.
const BITS: usize = 1024;

impl Gate {
    /// What a finding is about, by its hash, where it is not to be made whole.
    fn left_out(&mut self, e: &Evidence, about: About) -> Option<u64> {
        let room = self.room.filter(|_| !self.is_open)?;
        let is_info = e.level == ThreatLevel::Info;
        let is_its =
            |c: &Cell| std::ptr::eq(c.kind, e.kind) && c.window == e.window && c.is_info == is_info;
        let cell = match self.cells.iter().position(is_its) {
            Some(at) => self.cells.get_mut(at),
            None => self.begin(e, is_info),
        }?;
        let is_heavy = cell.weigh(Weight::from_evidence(e));
        let key = key_of(e, about);
        if cell.knows(key) {
            return None;
        }
        let has_room =
            cell.known.len() < room && cell.known_of(e.profile) < SINGLE_OF_SOURCE as usize;
        if (has_room || is_heavy) && cell.known.len() < room + SINGLE_MAX {
            cell.know(key, e.profile);
        }
        (!has_room && !is_heavy).then_some(key)
    }

    /// The first finding of a type in a window.
    #[cold]
    fn begin(&mut self, e: &Evidence, is_info: bool) -> Option<&mut Cell> {
        if e.window > self.newest {
            self.newest = e.window;
            let oldest = e.window.saturating_sub(1);
            self.cells.retain(|c| c.window >= oldest);
            self.whole.repeats.retain(|_, window| *window >= oldest);
        }
        if self.cells.len() >= CELLS_MAX {
            return None;
        }
        self.cells.push(Cell::new(e.kind, is_info, e.window));
        self.cells.last_mut()
    }
}

impl Cell {
    pub(crate) fn new(kind: &'static EvidenceType, is_info: bool, window: i64) -> Cell {
        Cell {
            kind,
            is_info,
            window,
            known: HashMap::default(),
            bits: [0; BITS / 64],
            heaviest: [None; WHOLE_HEAVY],
        }
    }

    /// Where the bit of a finding is.
    fn place(key: u64) -> (usize, u64) {
        let bit = (key >> 32) as usize % BITS;
        (bit / 64, 1 << (bit % 64))
    }

    fn knows(&self, key: u64) -> bool {
        let (at, bit) = Cell::place(key);
        self.bits.get(at).is_some_and(|bits| bits & bit != 0) && self.known.contains_key(&key)
    }

    pub(crate) fn know(&mut self, key: u64, source: Ip) {
        let (at, bit) = Cell::place(key);
        if let Some(bits) = self.bits.get_mut(at) {
            *bits |= bit;
        }
        self.known.insert(key, source);
    }

    /// Findings of a source that were made whole.
    fn known_of(&self, source: Ip) -> usize {
        self.known.values().filter(|ip| **ip == source).count()
    }

    /// Whether it is one of the weightiest so far.
    fn weigh(&mut self, weight: Weight) -> bool {
        let weight = Some(weight);
        // The place of the lightest is taken, and those that are lighter than what comes step down.
        let lighter = self.heaviest.iter().take_while(|held| **held < weight).count();
        let Some(last) = lighter.checked_sub(1) else { return false };
        if let Some(lightest) = self.heaviest.get_mut(..lighter) {
            lightest.rotate_left(1);
        }
        if let Some(place) = self.heaviest.get_mut(last) {
            *place = weight;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::{data_upload, long_connection, unknown_port};
    use crate::trial::{Trial, at, conn};
    use crate::whitelist::Whitelist;
    use std::sync::Arc;

    fn whole(e: &&Evidence) -> bool {
        e.why != ReportReason::Counted
    }

    /// Sources that each do three loud things: of 9,000 findings and more a shard makes whole what may be reported,
    /// and the others have neither ids nor texts; all count and add up.
    #[test]
    fn a_flood_is_counted_and_not_made() {
        let mut trial = Trial::with_budget(2 << 20);
        for n in 0..3000u32 {
            let src = format!("8.8.{}.{}", n / 250, n % 250);
            for m in 0..3u32 {
                let dst = format!("9.{m}.{}.{}", n / 250, n % 250);
                let bytes = 100_000_000 + u64::from(crate::sketch::mix((n * 3 + m).into()) as u16);
                trial.give(&conn(n.into(), &src, &dst, 31_337).lasting(9000.0).sending(bytes));
            }
        }
        trial.end();
        let kinds = [&unknown_port::TYPE, &long_connection::TYPE, &data_upload::TYPE];
        for kind in kinds {
            let said = trial.evidence_of(kind);
            let (made, counted): (Vec<_>, Vec<_>) = said.iter().partition(whole);
            assert!(said.len() > 6_000, "{}: {}", kind.name, said.len());
            // 8 shards, uploads of two levels, and a few that weigh more than those before.
            let most = 8 * 2 * (WHOLE_LEAST + 2 * SINGLE_MAX / 8 + 100);
            assert!(
                made.len() > SINGLE_MAX && made.len() < most.min(said.len() * 2 / 3),
                "{}",
                made.len()
            );
            assert!(made.iter().all(|e| e.id != FindingId::default() && e.uids.len() == 1));
            assert!(counted.iter().all(|e| e.id == FindingId::default() && e.uids.is_empty()));
            // The heaviest of all is one of those that are made.
            let heaviest = |of: &[&Evidence]| of.iter().map(|e| Weight::from_evidence(e)).max();
            assert!(heaviest(&made) >= heaviest(&counted));
        }
        let counts = trial.engine.counts();
        assert_eq!(trial.said.len() as u64, counts.evidence);
        assert!(trial.reported.iter().all(|e| e.why != ReportReason::Counted));
        assert!(
            trial.reported.iter().all(|e| !e.kind.name.is_empty() && e.id != FindingId::default())
        );
    }

    /// A reported finding grows with all its occurrences, however much else there is; and three sources in one shard
    /// are reported as if each had its own.
    #[test]
    fn known_findings_grow_and_small_sites_are_reported_whole() {
        let mut trial = Trial::new();
        let shard = |ip: &str| crate::shard::shard_of(at(ip), 256);
        let all: Vec<String> = (0..4000).map(|n| format!("10.0.{}.{}", n / 250, n % 250)).collect();
        let mut near = all.iter().filter(|ip| shard(ip) == shard(&all[0]));
        let sources: Vec<&String> = near.by_ref().take(3).collect();
        for (who, src) in sources.iter().enumerate() {
            for n in 0..40u32 {
                for m in 0..5 {
                    let second = i64::from(n * 5 + m);
                    let dst = format!("9.9.{who}.{n}");
                    // One that continues among others that come once.
                    if m == 0 {
                        trial.give(&conn(second, src, "9.9.9.9", 443).lasting(2000.0));
                    }
                    trial.give(&conn(second, src, &dst, 443).lasting(2000.0));
                }
            }
        }
        trial.end();
        for src in sources {
            let reported = trial.reported.iter().filter(|e| e.kind == &long_connection::TYPE);
            let its: Vec<_> = reported.filter(|e| e.profile == at(src)).collect();
            let mut single: Vec<_> =
                its.iter().filter(|e| e.victim.is_some()).map(|e| e.id).collect();
            single.sort_unstable();
            single.dedup();
            assert_eq!(single.len(), SINGLE_OF_SOURCE as usize, "{src}");
            let last =
                its.iter().rfind(|e| e.victim.as_ref().and_then(Party::ip) == Some(at("9.9.9.9")));
            assert_eq!(last.map(|e| e.measures.count), Some(40), "{src}");
        }
    }

    /// Findings that a whitelist hides take no space from those that it does not hide.
    #[test]
    fn what_a_whitelist_hides_takes_no_room() {
        let (list, wrong) = Whitelist::parse("ip,9.9.9.0/24,dst,alerts\n", &|_| None);
        assert!(wrong.is_empty(), "{wrong:?}");
        let settings = Settings { whitelist: Arc::new(list), ..Settings::default() };
        let mut trial = Trial::with(settings);
        for n in 0..60 {
            trial.give(&conn(n, "10.0.0.1", &format!("9.9.9.{n}"), 443).lasting(2000.0));
        }
        for n in 0..10 {
            trial.give(&conn(60 + n, "10.0.0.1", &format!("7.7.7.{n}"), 443).lasting(2000.0));
        }
        trial.end();
        let long = |e: &&Evidence| e.kind == &long_connection::TYPE;
        assert_eq!(trial.said.iter().filter(long).filter(whole).count(), 10);
        assert_eq!(trial.reported.iter().filter(long).count(), 10);
    }
}
