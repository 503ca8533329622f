//! Where the detectors of a shard put what they found, and how much of it is made whole.
//!
//! In a flood of findings nearly all are only counted, in findings that stand for many ([`crate::room`]). A
//! finding that will be told needs ids, texts and ids of flows; one that is only counted needs none of them,
//! and making them costs more than all else that is done for it. So a shard makes whole what has a chance to be
//! told one by one: some findings of a type and window, some of each source, whatever is known of them later, and
//! those that weigh more than nearly all before. The others are [`Telling::Counted`].
//!
//! A shard sees its records in the order of all, so what is made whole does not depend on how many workers there
//! are. It may make more whole than is told: what is told is decided where all shards meet.

use crate::crowd::Crowd;
use crate::finding::{About, Finding, can_attack};
use crate::limits::{CELLS_MAX, SINGLE_MAX, SINGLE_OF_SOURCE, WHOLE_HEAVY, WHOLE_LEAST};
use crate::room::{Weight, hash_party};
use crate::room_saved::kind_of;
use crate::settings::Settings;
use crate::sketch::{hash_ip, hash_words, mix};
use foldhash::fast::FixedState;
use gabion_record::Ip;
use gabion_record::evidence::{Evidence, EvidenceType, FindingId, Party, Telling, ThreatLevel};
use gabion_record::saved;
use gabion_record::saved::Saved;
use hashbrown::HashMap;

/// Which findings are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// All.
    #[default]
    All,
    /// Those that a crowd of ever new sources leaves: these are of a source's very first record.
    First,
    /// None: they were said when their record came.
    Muted,
}

/// What became of a finding, with how often it was seen.
enum Fate {
    /// It is not told, and counted by whoever left it out.
    Dropped,
    /// It is made whole.
    Whole(u64),
    /// It is only counted.
    Counted(u64),
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
    /// Of one of so many shards.
    pub(crate) fn of_shards(shards: usize) -> Outlet {
        let room = WHOLE_LEAST + 2 * SINGLE_MAX / shards.max(1);
        Outlet { gate: Gate { room: Some(room), ..Gate::default() }, ..Outlet::default() }
    }

    /// Takes over the room that another was made with.
    pub(crate) fn fit(&mut self, fresh: &Outlet) {
        self.gate.room = fresh.gate.room;
    }

    /// A record comes, or a moment that was asked for.
    #[inline]
    pub(crate) fn begin(&mut self, settings: &Settings) {
        // What a whitelist keeps back behind this must not take the room of what is told.
        self.gate.is_open = !settings.whitelist.is_empty();
    }

    /// Findings so far.
    #[inline]
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Takes what was found.
    pub fn take(&mut self) -> Vec<Evidence> {
        std::mem::take(&mut self.found)
    }

    /// Takes a finding, unless it names an address that can't send. `flow` is the id of the flow that it is about;
    /// `complete` adds words to its sentence and is asked only where somebody may read them.
    pub(crate) fn put(
        &mut self,
        finding: Finding,
        flow: &[u8],
        complete: impl FnOnce(Finding) -> Finding,
    ) {
        if !can_attack(&finding.0) {
            return;
        }
        let finding = finding.sure();
        match self.fate(&finding.0, finding.1) {
            Fate::Dropped => {}
            Fate::Counted(times) => self.found.push(counted(finding, flow, times)),
            Fate::Whole(times) => {
                let mut evidence = complete(finding).with_flow(flow).done();
                evidence.times = times;
                self.found.push(evidence);
            }
        }
    }

    /// Takes the pair of an observation ([`Finding::pair`]).
    pub(crate) fn put_pair(
        &mut self,
        src: Finding,
        flow: &[u8],
        (profile, attacker, ip): (Ip, Party, Ip),
        level: ThreatLevel,
    ) {
        let (src, other) = src.sure().ends(profile, attacker, ip, level);
        let mut told: Option<usize> = None;
        for finding in [other, src] {
            if !can_attack(&finding.0) {
                continue;
            }
            match self.fate(&finding.0, finding.1) {
                Fate::Dropped => {}
                Fate::Counted(times) => self.found.push(counted(finding, flow, times)),
                Fate::Whole(times) => {
                    let mut evidence = finding.with_flow(flow).done();
                    evidence.times = times;
                    // Where both are whole each names the other.
                    if let Some(other) = told.and_then(|at| self.found.get_mut(at)) {
                        evidence.related.push(other.telling);
                        other.related.push(evidence.telling);
                    }
                    told = Some(self.found.len());
                    self.found.push(evidence);
                }
            }
        }
    }

    fn fate(&mut self, e: &Evidence, about: About) -> Fate {
        self.made += 1;
        let times = match self.mode {
            Mode::All => e.times,
            Mode::Muted => return Fate::Dropped,
            Mode::First => match self.crowd.said(e) {
                Some(times) => times,
                None => return Fate::Dropped,
            },
        };
        if self.gate.is_whole(e, about) { Fate::Whole(times) } else { Fate::Counted(times) }
    }
}

/// A finding that is only counted: known again where the same is read twice, and nothing more.
fn counted(finding: Finding, flow: &[u8], times: u64) -> Evidence {
    let key = key_of(&finding.0, finding.1);
    let mut e = finding.0;
    let m = &e.measures;
    let numbers = mix(m.bytes ^ (m.duration_ns as u64).rotate_left(20) ^ m.count.rotate_left(40));
    let grown = mix(m.hosts ^ m.ports.rotate_left(20) ^ times.rotate_left(40)) ^ m.score.to_bits();
    let of = mix(key ^ e.ts.0 as u64) ^ hash_words(flow).rotate_left(1) ^ e.level as u64;
    let halves = [mix(of ^ numbers), mix(numbers ^ grown.rotate_left(1) ^ of.rotate_left(32))];
    let [a, b] = halves.map(u64::to_le_bytes);
    e.telling.0.iter_mut().zip(a.iter().chain(&b)).for_each(|(to, from)| *to = *from);
    e.id = FindingId::default();
    e.why = Telling::Counted;
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
    is_open: bool,
}

saved! { Gate { cells, newest, room; is_open = false } }

/// Findings of a type in a window; those worth knowing only, and others, each have one.
#[derive(Debug)]
struct Cell {
    kind: &'static EvidenceType,
    is_info: bool,
    window: i64,
    /// What was made whole, and whose it was.
    known: HashMap<u64, Ip, FixedState>,
    /// The weightiest, lightest first.
    heaviest: Vec<Weight>,
}

impl Saved for Cell {
    fn save(&self, out: &mut Vec<u8>) {
        let Cell { kind, is_info, window, known, heaviest } = self;
        (kind.name.to_owned(), *is_info, *window).save(out);
        known.iter().map(|(key, ip)| (*key, *ip)).collect::<Vec<_>>().save(out);
        heaviest.save(out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        let (name, is_info, window) = <(String, bool, i64)>::load(from)?;
        let known = Vec::<(u64, Ip)>::load(from)?.into_iter().collect();
        Some(Cell { kind: kind_of(&name)?, is_info, window, known, heaviest: Saved::load(from)? })
    }
}

impl Gate {
    fn is_whole(&mut self, e: &Evidence, about: About) -> bool {
        let Some(room) = self.room.filter(|_| !self.is_open) else { return true };
        let is_info = e.level == ThreatLevel::Info;
        let is_its =
            |c: &Cell| std::ptr::eq(c.kind, e.kind) && c.window == e.window && c.is_info == is_info;
        let cell = match self.cells.iter().position(is_its) {
            Some(at) => self.cells.get_mut(at),
            None => self.begin(e, is_info),
        };
        let Some(cell) = cell else { return true };
        let is_heavy = cell.weigh(Weight::of(e));
        let key = key_of(e, about);
        if cell.known.contains_key(&key) {
            return true;
        }
        let has_room = cell.known.len() < room && cell.of(e.profile) < SINGLE_OF_SOURCE as usize;
        if (has_room || is_heavy) && cell.known.len() < room + SINGLE_MAX {
            cell.known.insert(key, e.profile);
        }
        has_room || is_heavy
    }

    /// The first finding of a type in a window.
    #[cold]
    fn begin(&mut self, e: &Evidence, is_info: bool) -> Option<&mut Cell> {
        if e.window > self.newest {
            self.newest = e.window;
            self.cells.retain(|c| c.window >= e.window.saturating_sub(1));
        }
        if self.cells.len() >= CELLS_MAX {
            return None;
        }
        self.cells.push(Cell {
            kind: e.kind,
            is_info,
            window: e.window,
            known: HashMap::default(),
            heaviest: Vec::new(),
        });
        self.cells.last_mut()
    }
}

impl Cell {
    /// Findings of a source that were made whole.
    fn of(&self, source: Ip) -> usize {
        self.known.values().filter(|ip| **ip == source).count()
    }

    /// Whether it is one of the weightiest so far.
    fn weigh(&mut self, weight: Weight) -> bool {
        if self.heaviest.len() >= WHOLE_HEAVY {
            if self.heaviest.first().is_some_and(|least| weight <= *least) {
                return false;
            }
            self.heaviest.remove(0);
        }
        let at = self.heaviest.partition_point(|held| *held < weight);
        self.heaviest.insert(at, weight);
        true
    }
}
