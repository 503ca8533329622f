//! The engine's stages (site, profiles, accumulation), and all of them joined on one thread.
//!
//! [`Front`] sees every record in the total order; `crate::Shards` hold profiles, on one thread or
//! several; [`Back`] takes what they find in the order of places, whatever thread found it.

use crate::accumulate::Accumulator;
use crate::ahead::Ahead;
use crate::error::RestoreError;
use crate::fold_order::NotableFolded;
use crate::intel::Intel;
use crate::limits::{BUDGET, TOGETHER};
use crate::profile::Profile;
use crate::room::{Outcome, Rooms};
use crate::settings::{Direction, Settings};
use crate::shard::{Kept, ShardCounts};
use crate::shards::{Ends, Placed, Shards};
use crate::site::{Facts, Site};
use crate::sketch::{hash_text, mix};
use crate::whitelist::{Entry, Learned, Passed, Withheld};
use gabion_record::evidence::{Alert, Evidence, ReportReason};
use gabion_record::ledger::Ledger;
use gabion_record::logs::{Body, Record, TimeNs};
use gabion_record::saved::{Saved, load_bytes, save_bytes};
use gabion_record::{Ip, saved};
use std::collections::VecDeque;
use std::sync::Arc;

/// What the engine says.
#[derive(Debug)]
pub enum Output<'a> {
    /// An occurrence, and the sum of its profile's window so far: it counts and adds up. Whether and how
    /// often it is reported is a matter of [`Output::Report`].
    Evidence(&'a Evidence, f64),
    /// A finding as it is reported now, and the sum of its profile's window so far.
    Report(&'a Evidence, f64),
    /// An alert.
    Alert(&'a Alert),
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records taken in.
    pub records: u64,
    /// Of these, flows.
    pub flows: u64,
    /// Flows where both sides talked.
    pub established: u64,
    /// Flows where they did not.
    pub not_established: u64,
    /// Flows between private addresses.
    pub private_to_private: u64,
    /// Profiles made: sources of flows and other records.
    pub profiles: u64,
    /// Sources of flows.
    pub sources: u64,
    /// Windows with flows.
    pub windows: u64,
    /// Evidence found.
    pub evidence: u64,
    /// Evidence that was a repeat.
    pub repeats: u64,
    /// Evidence at first records of constantly changing sources that was only counted.
    pub crowded: u64,
    /// Alerts.
    pub alerts: u64,
    /// Sources folded into a sketch for want of room.
    pub folded: u64,
    /// Of these, own addresses and addresses that were active over minutes.
    pub folded_notable: NotableFolded,
    /// Profiles that were looked at to find those to fold.
    pub fold_looks: u64,
    /// Records that the whitelist passed over.
    pub whitelisted: u64,
    /// Evidence that it kept back.
    pub whitelisted_evidence: u64,
    /// Findings: single ones, and growing ones that stand for many.
    pub findings: u64,
    /// Reports of them.
    pub reports: u64,
    /// Evidence that was counted in growing findings.
    pub folded_evidence: u64,
    /// Where windows begin: the first moment of the input. Means nothing where there were no records.
    pub first: TimeNs,
    /// The latest moment before which all has been seen.
    pub last: TimeNs,
}

saved! {
    Counts {
        records, flows, established, not_established, private_to_private, profiles, sources, windows, evidence,
        repeats, crowded, alerts, folded, folded_notable, fold_looks, whitelisted, whitelisted_evidence,
        findings, reports, folded_evidence, first, last,
    }
}

saved! { Turn { window, behind } }

/// A part of an engine's state, in a checkpoint. Parts are in the order of this table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// The site stage.
    Front,
    /// The stage after profiles.
    Back,
    /// A shard, by its number.
    Shard(usize),
}

/// What has to be the same so that windows and profiles mean the same.
fn footing(settings: &Settings) -> Vec<u8> {
    let mut out = Vec::new();
    (settings.window_ns, settings.is_one_window, settings.direction as u8).save(&mut out);
    settings.client_ips.save(&mut out);
    out
}

/// What learned entries of the whitelist are numbers of.
fn list_of(settings: &Settings) -> u64 {
    let all = settings.whitelist.entries().iter();
    all.fold(0, |sum, entry| mix(sum ^ hash_text(entry.text.as_bytes())))
}

impl Counts {
    /// Enters what shards counted.
    pub fn enter(&mut self, shards: &ShardCounts) {
        self.profiles += shards.profiles;
        self.sources += shards.sources;
        self.crowded += shards.crowded;
        self.folded += shards.folded;
        self.folded_notable.merge(&shards.folded_notable);
        self.fold_looks += shards.fold_looks;
    }
}

/// The stage before profiles: what the site knows, and numbers of records.
#[derive(Debug)]
pub struct Front {
    settings: Arc<Settings>,
    site: Site,
    counts: Counts,
    /// The latest window with flows.
    latest_flow: Option<i64>,
    /// What the whitelist's side after profiles has to know.
    learned: Vec<Learned>,
    /// The latest window that has begun, and those since [`Front::take_turns`].
    newest: i64,
    turns: Vec<Turn>,
}

/// A later window has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its number.
    pub window: i64,
    /// The record it began with: the watermark's second there, and the record's number.
    behind: (i64, u64),
}

impl Front {
    /// A site whose windows begin at `start`, or with its first record.
    pub fn new(settings: Arc<Settings>, start: Option<TimeNs>) -> Front {
        let site = Site::new(start, &settings);
        let counts = Counts::default();
        Front {
            settings,
            site,
            counts,
            latest_flow: None,
            learned: Vec::new(),
            newest: 0,
            turns: Vec::new(),
        }
    }

    /// Prefetches what records that come next will change, before the first of them is worked on.
    #[inline]
    pub fn prefetch(&self, records: impl Iterator<Item = Ahead>) {
        let near = records.fold(0, |sum, ahead| sum ^ self.site.prefetch(&ahead));
        std::hint::black_box(near);
    }

    /// Takes the next record in: its number, and what is known at it.
    #[inline]
    pub fn observe_record(&mut self, r: &Record<'_>) -> (u64, Facts) {
        let facts = self.site.see(r, &self.settings);
        self.counts.records += 1;
        if let Body::Conn(c) = &r.body {
            self.counts.flows += 1;
            if self.latest_flow.is_none_or(|w| facts.window > w) {
                self.latest_flow = Some(facts.window);
                self.counts.windows += 1;
            }
            self.counts.established += u64::from(c.is_established);
            self.counts.not_established += u64::from(!c.is_established);
        }
        if !self.settings.whitelist.is_empty() {
            self.counts.whitelisted += u64::from(facts.is_ignored);
            let (second, number) = (facts.watermark.seconds(), self.counts.records);
            self.learned.extend(self.site.passed.take_news(second, number));
        }
        if facts.newest > self.newest && !facts.is_ignored {
            self.newest = facts.newest;
            let behind = (facts.watermark.seconds(), self.counts.records);
            self.turns.push(Turn { window: facts.newest, behind });
        }
        (self.counts.records, facts)
    }

    /// Whether windows have begun since the last [`Front::take_turns`].
    #[inline]
    pub fn has_turned(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Windows that have begun since the last call: for [`Back::turn`], before evidence of these records.
    pub fn take_turns(&mut self) -> Vec<Turn> {
        std::mem::take(&mut self.turns)
    }

    /// Whether there is something to be taken by [`Front::take_learned`].
    #[inline]
    pub fn has_learned(&self) -> bool {
        !self.learned.is_empty()
    }

    /// Addresses that the whitelist has covered since the last call, for [`Back::learn`] before their evidence.
    pub fn take_learned(&mut self) -> Vec<Learned> {
        std::mem::take(&mut self.learned)
    }

    /// Appends all it knows, for a checkpoint.
    pub fn save(&self, out: &mut Vec<u8>) {
        let Front { settings, site, counts, latest_flow, learned, newest, turns } = self;
        save_bytes(&footing(settings), out);
        list_of(settings).save(out);
        site.save(out);
        counts.save(out);
        latest_flow.save(out);
        learned.save(out);
        newest.save(out);
        turns.save(out);
    }

    /// Takes in what [`Front::save`] wrote.
    ///
    /// # Errors
    /// When it is none of this version, or of other settings.
    pub fn restore(&mut self, saved: &[u8]) -> Result<(), RestoreError> {
        let from = &mut { saved };
        if load_bytes(from).ok_or(RestoreError::OtherVersion)? != footing(&self.settings) {
            return Err(RestoreError::OtherSettings);
        }
        let list = u64::load(from).ok_or(RestoreError::OtherVersion)?;
        (self.site, self.counts) = Saved::load(from).ok_or(RestoreError::OtherVersion)?;
        (self.latest_flow, self.learned) = Saved::load(from).ok_or(RestoreError::OtherVersion)?;
        (self.newest, self.turns) = Saved::load(from).ok_or(RestoreError::OtherVersion)?;
        // Entries of another list mean something else.
        if list != list_of(&self.settings) {
            self.site.passed = Passed::default();
            self.learned.clear();
        }
        if from.is_empty() { Ok(()) } else { Err(RestoreError::OtherVersion) }
    }

    /// Which ends of a record get it into their profile.
    #[inline]
    pub fn ends(&self, r: &Record<'_>) -> Ends {
        match self.settings.direction {
            Direction::All if r.dst != r.src => Ends::Both,
            Direction::All | Direction::Out => Ends::Source,
        }
    }

    /// Where windows begin.
    pub fn start(&self) -> TimeNs {
        self.site.start()
    }

    /// The moment everything before has been seen.
    pub fn watermark(&self) -> TimeNs {
        self.site.watermark
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        Counts {
            private_to_private: self.site.private_pairs,
            first: self.site.start(),
            last: self.site.watermark,
            ..self.counts
        }
    }
}

/// The stage after profiles: evidence adds up to alerts.
#[derive(Debug)]
pub struct Back {
    settings: Arc<Settings>,
    accumulator: Accumulator,
    /// What all evidence reports about the input.
    input_state: String,
    /// What the whitelist keeps back.
    withheld: Withheld,
    /// The findings that are reported singly, and those that are folded.
    rooms: Rooms,
    /// Windows that have begun, until evidence from after their beginning comes.
    turns: VecDeque<Turn>,
    counts: Counts,
}

impl Back {
    /// Nothing found yet.
    pub fn new(settings: Arc<Settings>) -> Back {
        Back {
            settings,
            accumulator: Accumulator::default(),
            input_state: String::new(),
            withheld: Withheld::default(),
            rooms: Rooms::default(),
            turns: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// Takes in what [`Front::take_turns`] gave, in its order and before evidence of those records.
    pub fn turn(&mut self, turns: impl IntoIterator<Item = Turn>) {
        self.turns.extend(turns);
    }

    /// All evidence of the records that [`Back::turn`] was called for has been taken.
    pub fn turned(&mut self, sink: &mut dyn FnMut(Output<'_>)) {
        while let Some(turn) = self.turns.pop_front() {
            self.close(turn.window, sink);
        }
    }

    /// All evidence has been taken: findings that have grown are reported with their last numbers.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Output<'_>)) {
        self.turned(sink);
        self.close(i64::MAX, sink);
    }

    fn close(&mut self, window: i64, sink: &mut dyn FnMut(Output<'_>)) {
        let (accumulator, state) = (&self.accumulator, &self.input_state);
        self.rooms.close(window, &mut |mut e| {
            with_state(&mut e, state);
            sink(Output::Report(&e, accumulator.sum(e.profile, e.window)));
        });
    }

    /// Takes in what [`Front::take_learned`] gave, in its order and before evidence of those records.
    pub fn learn(&mut self, learned: impl IntoIterator<Item = Learned>) {
        self.withheld.learn(learned);
    }

    /// All evidence of the records that [`Back::learn`] was called for has been taken.
    pub fn catch_up(&mut self) {
        self.withheld.catch_up();
    }

    /// Says what evidence is to carry about the input (`complete`, or what was skipped).
    pub fn set_input_state(&mut self, state: String) {
        self.input_state = state;
    }

    /// Takes what was found in, in order of places; `start` is where windows begin.
    pub fn take_placed(
        &mut self,
        placed: &mut Placed,
        start: TimeNs,
        sink: &mut dyn FnMut(Output<'_>),
    ) {
        let Placed { place, evidence: e } = placed;
        if !self.input_state.is_empty() && e.why != ReportReason::Counted {
            if !e.input_state.is_empty() {
                e.input_state.insert_str(0, "; ");
            }
            e.input_state.insert_str(0, &self.input_state);
        }
        if self.settings.disabled.iter().any(|name| name == e.kind.name) {
            return;
        }
        while let Some(turn) = self.turns.pop_front_if(|turn| place.is_behind(turn.behind)) {
            self.close(turn.window, sink);
        }
        if e.why.is_last() {
            let accumulator = &self.accumulator;
            let emit = &mut |e: Evidence| {
                sink(Output::Report(&e, accumulator.sum(e.profile, e.window)));
            };
            return self.rooms.last(e, place.is_end(), emit);
        }
        if self.withheld.hides(e, place.behind(), &self.settings) {
            self.counts.whitelisted_evidence += 1;
            return;
        }
        if self.accumulator.is_repeat(e) {
            self.counts.repeats += 1;
            return;
        }
        self.counts.evidence += 1;
        if self.rooms.is_third(e.window) {
            self.close(e.window, sink);
        }
        let (measured, said) = (e.measures, e.report_id);
        let outcome = self.rooms.admit_evidence(e, &self.settings);
        let report_id = match &outcome {
            Outcome::Reported => e.report_id,
            Outcome::Known(report_id) | Outcome::Folded(report_id, _) => *report_id,
        };
        let (sum, alert) = self.accumulator.add(e, report_id, start, &self.settings);
        // An occurrence has its own numbers, a report those of its finding.
        let of_finding = std::mem::replace(&mut e.measures, measured);
        e.report_id = said;
        sink(Output::Evidence(e, sum));
        (e.measures, e.report_id) = (of_finding, report_id);
        match outcome {
            Outcome::Reported => sink(Output::Report(e, sum)),
            Outcome::Folded(_, Some(mut folded)) => {
                with_state(&mut folded, &self.input_state);
                let sum = self.accumulator.sum(folded.profile, folded.window);
                sink(Output::Report(&folded, sum));
            }
            Outcome::Known(_) | Outcome::Folded(_, None) => {}
        }
        if let Some(alert) = alert {
            self.counts.alerts += 1;
            sink(Output::Alert(&alert));
        }
    }

    /// Appends all it knows, for a checkpoint.
    pub fn save(&self, out: &mut Vec<u8>) {
        let Back { settings, accumulator, input_state, withheld, rooms, turns, counts } = self;
        list_of(settings).save(out);
        accumulator.save(out);
        input_state.save(out);
        withheld.save(out);
        counts.save(out);
        rooms.save(out);
        turns.save(out);
    }

    /// Takes in what [`Back::save`] wrote.
    ///
    /// # Errors
    /// When it is none of this version.
    pub fn restore(&mut self, saved: &[u8]) -> Result<(), RestoreError> {
        let from = &mut { saved };
        let list = u64::load(from).ok_or(RestoreError::OtherVersion)?;
        self.accumulator = Saved::load(from).ok_or(RestoreError::OtherVersion)?;
        self.input_state = Saved::load(from).ok_or(RestoreError::OtherVersion)?;
        (self.withheld, self.counts) = Saved::load(from).ok_or(RestoreError::OtherVersion)?;
        (self.rooms, self.turns) = Saved::load(from).ok_or(RestoreError::OtherVersion)?;
        if list != list_of(&self.settings) {
            self.withheld = Withheld::default();
        }
        if from.is_empty() { Ok(()) } else { Err(RestoreError::OtherVersion) }
    }

    /// Enters the outcome of evidence so far.
    pub fn enter(&self, counts: &mut Counts) {
        counts.whitelisted_evidence = self.counts.whitelisted_evidence;
        counts.evidence = self.counts.evidence;
        counts.repeats = self.counts.repeats;
        counts.alerts = self.counts.alerts;
        counts.findings = self.rooms.counts.findings;
        counts.reports = self.rooms.counts.reports;
        counts.folded_evidence = self.rooms.counts.folded;
    }
}

/// What stands for many that were only counted says what is known of the input now.
fn with_state(e: &mut Evidence, state: &str) {
    if e.input_state.is_empty() {
        e.input_state.push_str(state);
    }
}

/// An entry of the whitelist that hid something.
#[derive(Clone, Copy, Debug)]
pub struct Whitelisted<'a> {
    /// The entry.
    pub entry: &'a Entry,
    /// Records that it hid.
    pub records: u64,
    /// Evidence that it hid.
    pub evidence: u64,
}

/// Entries of the whitelist that hid something.
pub fn whitelisted<'a>(front: &'a Front, back: &Back) -> Vec<Whitelisted<'a>> {
    let entries = front.settings.whitelist.entries().iter().enumerate();
    entries
        .map(|(at, entry)| Whitelisted {
            entry,
            records: front.site.passed.hits(at),
            evidence: back.withheld.hits(at),
        })
        .filter(|hidden| hidden.records + hidden.evidence > 0)
        .collect()
}

/// The engine on one thread.
pub struct Engine {
    front: Front,
    shards: Shards,
    back: Back,
    placed: Vec<Placed>,
}

impl Engine {
    /// An engine whose windows begin at `start`, or with its first record.
    pub fn new(settings: Settings, start: Option<TimeNs>) -> Engine {
        Engine::with_budget(settings, start, BUDGET)
    }

    /// The same with this number of bytes for seeds (at most half of it) and profiles.
    pub fn with_budget(settings: Settings, start: Option<TimeNs>, bytes: usize) -> Engine {
        let settings = Arc::new(settings);
        Engine {
            front: Front::new(Arc::clone(&settings), start),
            shards: Shards::new(Arc::clone(&settings), bytes),
            back: Back::new(settings),
            placed: Vec::new(),
        }
    }

    /// Keeps what profiles are at the end of their windows for [`Engine::take_kept`].
    pub fn keep_windows(&mut self) {
        self.shards.keep_windows();
    }

    /// Whether there are profiles to be taken.
    #[inline]
    pub fn has_kept(&self) -> bool {
        self.shards.has_kept()
    }

    /// Profiles of windows that have ended since the last call.
    pub fn take_kept(&mut self) -> Vec<Kept> {
        self.shards.take_kept()
    }

    /// Profiles at the end of the run, after those of windows that have ended before, some at a time.
    pub fn keep_rest(&mut self, keep: &mut dyn FnMut(Vec<Kept>)) {
        keep(self.take_kept());
        for shard in 0..self.shards.count() {
            keep(self.shards.keep_rest(shard));
        }
    }

    /// Puts other lists of what is bad in the place of those before.
    pub fn set_intel(&mut self, intel: Arc<Intel>) {
        self.shards.set_intel(intel);
    }

    /// Says what evidence is to carry about the input (`complete`, or what was skipped).
    pub fn set_input_state(&mut self, state: String) {
        self.back.set_input_state(state);
    }

    /// Takes the next records in, in order.
    pub fn records(&mut self, records: &[Record<'_>], sink: &mut dyn FnMut(Output<'_>)) {
        for records in records.chunks(TOGETHER) {
            self.front.prefetch(records.iter().map(Ahead::from_record));
            self.shards.prefetch(records.iter().map(Ahead::from_record));
            for r in records {
                self.record(r, sink);
            }
        }
    }

    /// Takes the next record in; what is found goes to `sink`.
    #[inline]
    pub fn record(&mut self, r: &Record<'_>, sink: &mut dyn FnMut(Output<'_>)) {
        let (number, facts) = self.front.observe_record(r);
        let is_news = self.front.has_learned();
        let is_turned = self.front.has_turned();
        if is_turned {
            self.back.turn(self.front.take_turns());
        }
        if is_news {
            self.back.learn(self.front.take_learned());
        }
        if !facts.is_ignored {
            let ends = self.front.ends(r);
            self.shards.record(number, r, &facts, ends, &mut self.placed);
        } else if is_news {
            // What was found before it is not to know of it.
            self.shards.fire(facts.watermark, &mut self.placed);
        }
        self.settle(sink);
        if is_turned {
            self.back.turned(sink);
        }
        if is_news {
            self.back.catch_up();
        }
    }

    /// Passes what was found on, in order.
    #[inline]
    fn settle(&mut self, sink: &mut dyn FnMut(Output<'_>)) {
        if self.placed.is_empty() {
            return;
        }
        let start = self.front.start();
        for mut placed in self.placed.drain(..) {
            self.back.take_placed(&mut placed, start, sink);
        }
    }

    /// Returns the whole state of the engine between two records, part by part, so that another one can continue from
    /// there ([`Engine::restore`]) as this one does. Profiles of windows that have ended are handed over
    /// first ([`Engine::take_kept`]).
    pub fn save(&mut self, each: &mut dyn FnMut(Section, Vec<u8>)) {
        self.shards.settle_kept();
        let mut out = Vec::new();
        self.front.save(&mut out);
        each(Section::Front, std::mem::take(&mut out));
        self.back.save(&mut out);
        each(Section::Back, out);
        self.shards.save(&mut |number, shard| each(Section::Shard(number), shard));
    }

    /// Takes in a part of another engine.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn restore(&mut self, section: Section, saved: &[u8]) -> Result<(), RestoreError> {
        match section {
            Section::Front => self.front.restore(saved),
            Section::Back => self.back.restore(saved),
            Section::Shard(number) => {
                self.shards.restore(number, saved).ok_or(RestoreError::OtherVersion)
            }
        }
    }

    /// Ends: all that waits is decided.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Output<'_>)) {
        let (start, back) = (self.front.start(), &mut self.back);
        self.shards.finish(self.front.watermark(), &mut |mut placed| {
            back.take_placed(&mut placed, start, sink);
        });
        self.back.finish(sink);
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        let mut counts = self.front.counts();
        counts.enter(&self.shards.counts());
        self.back.enter(&mut counts);
        counts
    }

    /// Entries of the whitelist that hid something.
    pub fn whitelisted(&self) -> Vec<Whitelisted<'_>> {
        whitelisted(&self.front, &self.back)
    }

    /// Sources: come, gone with their windows, folded, held now.
    pub fn ledger(&self) -> Ledger {
        self.shards.ledger()
    }

    /// A profile, to look at.
    pub fn profile(&self, ip: Ip) -> Option<&Profile> {
        self.shards.profile(ip)
    }

    /// All profiles, in no order.
    pub fn profiles(&self) -> impl Iterator<Item = &Profile> {
        self.shards.profiles()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::{horizontal_scan, unknown_port};
    use crate::limits::FOLD_LOOKS;
    use crate::limits::QUIET_KEPT_BYTES;
    use crate::trial::{Trial, conn, has_values, log};
    use gabion_record::logs::{SECOND, Ssh};

    /// At the end of a window all profiles that said something are handed over, and of those that did
    /// not the ones that did most, within their bound; who did nothing since is not handed over again.
    #[test]
    fn quiet_profiles_are_kept_too_within_a_bound() {
        let mut trial = Trial::with_budget(1 << 20);
        trial.engine.keep_windows();
        for n in 0..400i64 {
            let src = format!("8.8.{}.{}", n / 200, n % 200);
            // Later sources do more.
            for m in 0..2 + n / 10 {
                trial.give(&conn(n, &src, "1.2.3.4", 123).lasting(m as f64 / 100.0).udp());
            }
        }
        let kept = later(&mut trial, 4000);
        let quiet: Vec<Profile> = kept
            .iter()
            .filter_map(|k| Profile::decode(&k.bytes))
            .filter(|p| p.findings() == 0)
            .collect();
        let bytes: usize = kept.iter().map(|k| k.bytes.len()).sum();
        assert!(quiet.len() > 20, "{}", quiet.len());
        assert!(bytes <= trial.engine.shards.count() * QUIET_KEPT_BYTES, "{bytes}");
        // Of one shard none that was left out did more than one that was kept.
        let least = quiet.iter().map(Profile::records).min();
        assert!(least > Some(2), "{least:?}");
        let again = later(&mut trial, 8000);
        assert!(again.len() <= 1, "{}", again.len());
    }

    /// Profiles that are handed over while another host continues from that second on.
    fn later(trial: &mut Trial, second: i64) -> Vec<Kept> {
        let mut kept = Vec::new();
        for n in 0..8000 {
            trial.give(&conn(second + n / 100, "8.8.9.9", "1.2.3.4", 53).udp());
            if trial.engine.has_kept() {
                kept.append(&mut trial.engine.take_kept());
            }
        }
        assert!(trial.engine.take_kept().is_empty());
        kept
    }

    /// Profiles of a window are handed over a few at a time, and each as it was at the end of its window:
    /// before it continues, is folded or goes with its window.
    #[test]
    fn profiles_are_handed_over_as_they_were() {
        let mut trial = Trial::with_budget(1 << 20);
        trial.engine.keep_windows();
        let scan = |trial: &mut Trial, src: &str, second: i64, count: usize| {
            for n in 0..count {
                trial.give(&conn(second, src, &format!("1.2.3.{n}"), 23).refused());
            }
        };
        // More than there is room for.
        for host in 0..400i64 {
            scan(&mut trial, &format!("8.8.{}.{}", host / 200, host % 200), host, 12);
        }
        let encoded = |p: &Profile| {
            let mut bytes = Vec::new();
            p.encode(&mut bytes);
            (p.ip(), bytes)
        };
        let before: Vec<(Ip, Vec<u8>)> = trial.engine.profiles().map(encoded).collect();
        assert!((40..400).contains(&before.len()), "{}", before.len());
        // One continues at once; others come, and some must be folded to make space for them.
        let continuing = before[before.len() / 2].0;
        scan(&mut trial, &continuing.to_string(), 3600, 12);
        let folded = trial.engine.counts().folded;
        (0..7).for_each(|host| scan(&mut trial, &format!("9.9.9.{host}"), 3601, 24));
        assert!(trial.engine.counts().folded > folded);
        let mut kept = trial.engine.take_kept();
        assert!((10..before.len() / 2).contains(&kept.len()), "{}", kept.len());
        // Two windows pass before the turn of the others has come.
        trial.give(&conn(20_000, "8.8.4.4", "1.2.3.4", 53).udp());
        kept.append(&mut later(&mut trial, 20_001));
        for (ip, bytes) in before {
            let its: Vec<_> = kept.iter().filter(|k| k.ip == ip).collect();
            assert!(its.first().is_some_and(|k| k.bytes == bytes), "{ip}: {}", its.len());
            assert_eq!(its.len(), if ip == continuing { 2 } else { 1 }, "{ip}");
        }
    }

    /// A source with reported evidence has a profile, with what it sent, though it was seen once.
    #[test]
    fn a_source_with_reported_evidence_is_kept() {
        let mut trial = Trial::new();
        trial.give(&conn(0, "10.0.0.1", "1.2.3.4", 443).sending(5_000_000_000));
        trial.give(&conn(0, "10.0.0.2", "1.2.3.4", 23).refused());
        let sent = |ip| trial.engine.profile(crate::trial::at(ip)).map(Profile::bytes_sent);
        assert_eq!((sent("10.0.0.1"), sent("10.0.0.2")), (Some(5_000_000_000), None));
    }

    /// A second flow finds the first again: a seed is as good as a profile.
    #[test]
    fn a_source_seen_once_is_not_forgotten() {
        let mut trial = Trial::new();
        for n in 0..10 {
            trial.give(&conn(n, "10.0.0.1", &format!("1.2.3.{n}"), 23).refused());
            assert_eq!(trial.engine.profiles().count(), usize::from(n > 0));
        }
        let found = trial.evidence_of(&horizontal_scan::TYPE);
        assert_eq!(found.len(), 1);
        assert!(has_values(&found[0], &["10"]));
        let counts = trial.engine.counts();
        assert_eq!((counts.profiles, counts.sources), (1, 1));
        trial.engine.ledger().balance().unwrap();
    }

    /// Spoofed sources beyond any budget: memory stays, the scanner among them is found, the ledgers
    /// balance, and evidence of first records is not reported a hundred thousand times.
    #[test]
    fn a_flood_of_sources_hides_no_scanner() {
        let mut trial = Trial::with_budget(1 << 20);
        let mut scanned = 0u32;
        for n in 0..100_000u32 {
            let mut flow = conn(i64::from(n / 50), "10.0.0.1", "5.5.5.5", 4444).refused();
            flow.src = Ip::v4(0x2000_0000 + n.wrapping_mul(2_654_435_761) % (1 << 28));
            trial.give(&flow);
            if n % 500 == 0 {
                scanned += 1;
                let dst = format!("6.6.6.{}", scanned % 250);
                trial.give(&conn(i64::from(n / 50), "9.9.9.9", &dst, 23).refused());
            }
        }
        // Evidence says what had been evicted when it was found.
        let first = trial.said.first().unwrap();
        assert!(!first.input_state.contains("folded"), "{}", first.input_state);
        let last = trial.said.last().unwrap();
        assert!(last.input_state.ends_with(" sources of its shard folded"), "{}", last.input_state);
        let engine = &trial.engine;
        assert!(engine.shards.weight() <= 1 << 20, "{}", engine.shards.weight());
        let scans = trial.evidence_of(&horizontal_scan::TYPE);
        assert!(scans.iter().any(|e| e.profile == Ip::v4(0x0909_0909)));
        assert!(trial.evidence_of(&unknown_port::TYPE).len() < 20_000);
        let counts = engine.counts();
        assert!(counts.folded > 50_000 && counts.crowded > 50_000, "{counts:?}");
        engine.ledger().balance().unwrap();
    }

    /// Each source of a flood does twelve loud things in a second and is never seen again. A beacon, a slow
    /// scanner, a guesser and an upload of the site last longer, so they are found as without the flood; folding
    /// stays constant work a record; and what must be folded of the site is named.
    #[test]
    fn a_flood_of_loud_sources_hides_nobody_of_the_site() {
        let run = |sources: u32, budget: usize| {
            let mut trial = Trial::with_budget(budget);
            let seconds = 6 * 3600;
            let mut given = 0;
            for second in 0..seconds {
                if second % 60 == 0 {
                    trial.give(&conn(second, "192.168.1.50", "93.184.216.34", 8443));
                }
                if second % 36 == 0 {
                    let port = (1 + second / 36) as u16;
                    trial.give(&conn(second, "192.168.1.66", "192.168.1.9", port).refused());
                }
                if second % 90 == 0 {
                    let failed =
                        Ssh { auth_success: Some(false), auth_attempts: 1, ..Ssh::default() };
                    let mut guess = log(second, "192.168.1.77", "93.184.216.35", Body::Ssh(failed));
                    guess.dst_port = 22;
                    trial.record(&guess);
                }
                if second % 300 == 0 {
                    let upload = conn(second, "192.168.1.88", "93.184.216.36", 443);
                    trial.give(&upload.sending(90_000_000));
                }
                let until = u64::from(sources) * (second as u64 + 1) / seconds as u64;
                for source in given..until {
                    for n in 0..12u32 {
                        let port =
                            [4444, 6667, 23, 80, 443, 8443, 22, 53, 31337, 1, 2, 3][n as usize];
                        let mut flow = conn(second, "10.0.0.1", "93.1.2.3", port).lasting(2000.0);
                        flow.src = Ip::v4(0x2000_0000 + source as u32);
                        flow.dst = Ip::v4(0x5d00_0000 + (source as u32 * 12 + n) % 9000);
                        trial.give(&flow.sending(1_000_000_000));
                    }
                }
                given = until;
            }
            trial.end();
            trial
        };
        let found = |trial: &Trial| {
            let own =
                |e: &&Evidence| e.profile.is_private() && e.kind.name != "CONNECTION_TO_PRIVATE_IP";
            let mut names: Vec<_> = trial.said.iter().filter(own).map(|e| e.kind.name).collect();
            names.sort_unstable();
            names.dedup();
            names
        };
        let (quiet, loud) = (run(0, 2 << 20), run(6_000, 2 << 20));
        let planted = ["BEACON", "DATA_UPLOAD", "PASSWORD_GUESSING", "SLOW_VERTICAL_PORT_SCAN"];
        assert!(planted.iter().all(|t| found(&quiet).contains(t)));
        assert_eq!(found(&quiet), found(&loud));
        let counts = loud.engine.counts();
        assert!(counts.folded > 4_000 && counts.folded_notable.count == 0, "{counts:?}");
        assert!(counts.fold_looks <= 2 * counts.folded * FOLD_LOOKS as u64, "{counts:?}");
        // If even the site's own hosts do not fit, those that were evicted are named.
        let mut trial = Trial::with_budget(512 << 10);
        for n in 0..20_000u32 {
            let mut flow = conn(i64::from(n / 50), "10.0.0.1", "5.5.5.5", 4444);
            flow.src = Ip::v4(0x0a00_0000 + n / 2 % 4_000);
            trial.give(&flow);
        }
        let counts = trial.engine.counts();
        assert!(counts.folded_notable.count > 1_000 && counts.folded_notable.each().count() == 8);
        let last = trial.said.iter().rfind(|e| e.why != ReportReason::Counted).unwrap();
        assert!(
            last.input_state.ends_with(" of them own or active over minutes"),
            "{}",
            last.input_state
        );
    }

    /// A source whose first record is late has no window before it.
    #[test]
    fn a_source_may_begin_late() {
        let mut trial = Trial::new();
        trial.give(&conn(9000, "10.0.0.9", "1.2.3.4", 443));
        for n in 0..12 {
            let mut flow = conn(8000 + n, "10.0.0.1", &format!("1.2.3.{n}"), 23).refused();
            flow.is_late = true;
            trial.give(&flow);
        }
        assert_eq!(trial.evidence_of(&horizontal_scan::TYPE).len(), 1);
    }

    /// After one record of the future all others are late and start no later window: the windows that they begin are
    /// closed nevertheless, and findings that grew in them are reported.
    #[test]
    fn windows_of_late_records_are_closed() {
        let mut trial = Trial::new();
        trial.give(&conn(100_000_000, "10.0.0.9", "1.2.3.4", 9999));
        for n in 0..3000i64 {
            let hour = n / 10;
            let src = format!("10.0.{}.{}", hour / 200, hour % 200);
            let mut flow = conn(n * 360, &src, "1.2.3.4", 9999);
            flow.is_late = true;
            trial.give(&flow);
            let open = trial.engine.back.rooms.open();
            assert!(open <= 4, "{n}: {open}");
        }
        trial.end();
        // Each source in each of its windows.
        assert!(trial.reported.len() > 590, "{}", trial.reported.len());
    }

    /// One record of the future, one of the past, and time that jumps by fifty years.
    #[test]
    fn odd_times_break_nothing() {
        let mut trial = Trial::new();
        for second in [0, 5, 1_577_836_800, 7, 1_577_836_801, i64::MAX / SECOND, -5] {
            let mut flow = conn(0, "10.0.0.1", "1.2.3.4", 9999);
            flow.ts = second.saturating_mul(SECOND);
            flow.is_late = second < 10 && second != 0 && second != 5;
            trial.give(&flow);
        }
        trial.end();
        trial.engine.ledger().balance().unwrap();
        assert!(!trial.said.is_empty());
    }

    /// D1 and D2 of Slips: a record that is read twice is reported once, and the same run reports the same.
    #[test]
    fn the_same_input_says_the_same_and_twice_is_once() {
        let run = |times: usize| {
            let mut trial = Trial::new();
            for n in 0..500i64 {
                for _ in 0..times {
                    let port = 2000 + (n % 60) as u16;
                    trial.give(&conn(n, "10.0.0.1", &format!("1.2.3.{}", n % 9), port).refused());
                }
            }
            trial.end();
            trial.said.iter().map(|e| e.report_id).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        let (once, twice) = (run(1), run(2));
        let scans = |ids: &[gabion_record::evidence::FindingId]| ids.len();
        assert!(scans(&twice) <= scans(&once) + 4);
    }

    /// A profile that is decoded again continues as if it had not been away.
    #[test]
    fn a_profile_survives_its_encoding() {
        let mut trial = Trial::new();
        for n in 0..400i64 {
            let c =
                conn(n * 20, "10.0.0.1", &format!("1.2.{}.{}", n % 7, n % 90), 20 + n as u16 % 70);
            trial.give(&if n % 3 == 0 { c.refused() } else { c.sending(90_000_000) });
        }
        let profile = trial.engine.profiles().next().unwrap();
        let mut bytes = Vec::new();
        profile.encode(&mut bytes);
        let mut back = Profile::decode(&bytes).unwrap();
        let mut again = Vec::new();
        back.encode(&mut again);
        assert!(bytes == again);
        for cut in (0..bytes.len()).step_by(7) {
            assert!(Profile::decode(&bytes[..cut]).is_none(), "{cut}");
        }
        let records = back.records();
        back.merge(Profile::decode(&bytes).unwrap());
        assert_eq!(back.records(), 2 * records);
        let mut merged = Vec::new();
        back.encode(&mut merged);
        assert!(Profile::decode(&merged).is_some());
    }
}
