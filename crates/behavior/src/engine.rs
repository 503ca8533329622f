//! The engine on one thread: site, profiles, accumulation, in that order.

use crate::accumulate::Accumulator;
use crate::crowd::Crowd;
use crate::intel::Intel;
use crate::limits::{BUDGET, FOLD_LOOKS};
use crate::profile::{NEVER, Profile, step, wake};
use crate::seeds::{Seed, Seeds};
use crate::settings::{Direction, Settings};
use crate::site::{Facts, Site};
use crate::whitelist::Entry;
use foldhash::fast::FixedState;
use gabion_record::Ip;
use gabion_record::evidence::{Alert, Evidence};
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_record::logs::{Body, Record, TimeNs};
use hashbrown::HashMap;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What the engine says.
#[derive(Debug)]
pub enum Finding<'a> {
    /// Evidence, and the sum of its profile's window so far.
    Evidence(&'a Evidence, f64),
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
    /// Evidence said.
    pub evidence: u64,
    /// Evidence that was a repeat.
    pub repeats: u64,
    /// Evidence at first records of ever new sources that was only counted.
    pub crowded: u64,
    /// Alerts.
    pub alerts: u64,
    /// Sources folded into a sketch for want of room.
    pub folded: u64,
    /// Records that the whitelist passed over.
    pub whitelisted: u64,
    /// Evidence that it kept back.
    pub whitelisted_evidence: u64,
}

/// The engine.
pub struct Engine {
    settings: Settings,
    site: Site,
    profiles: HashMap<Ip, Box<Profile>, FixedState>,
    /// Profiles in the order they are looked at when one has to go.
    queue: VecDeque<Ip>,
    /// Bytes of all profiles, as weighed.
    weight: usize,
    weight_max: usize,
    seeds: Seeds,
    crowd: Crowd,
    /// Sources: come, gone with their windows, folded, held.
    ledger: Ledger,
    /// What every piece of evidence says of the input.
    input_state: String,
    /// Profiles that want to be asked, by second.
    timers: BTreeMap<i64, Vec<Ip>>,
    accumulator: Accumulator,
    found: Vec<Evidence>,
    counts: Counts,
    swept: i64,
    /// The latest window with flows.
    latest_flow: Option<i64>,
}

impl Engine {
    /// An engine whose windows begin at `start`, or with its first record.
    pub fn new(settings: Settings, start: Option<TimeNs>) -> Engine {
        Engine::with_budget(settings, start, BUDGET)
    }

    /// The same with so many bytes for seeds (at most half of it) and profiles.
    pub fn with_budget(settings: Settings, start: Option<TimeNs>, bytes: usize) -> Engine {
        let site = Site::new(start, &settings);
        Engine {
            settings,
            site,
            profiles: HashMap::default(),
            queue: VecDeque::new(),
            weight: 0,
            weight_max: bytes / 2,
            seeds: Seeds::new(bytes / 2),
            crowd: Crowd::default(),
            ledger: Ledger::new(),
            input_state: String::new(),
            timers: BTreeMap::new(),
            accumulator: Accumulator::default(),
            found: Vec::new(),
            counts: Counts::default(),
            swept: 0,
            latest_flow: None,
        }
    }

    /// Puts other lists of what is bad in the place of those before.
    pub fn set_intel(&mut self, intel: Arc<Intel>) {
        self.settings.intel = intel;
    }

    /// Says what evidence is to carry about the input (`complete`, or what was skipped).
    pub fn set_input_state(&mut self, state: String) {
        self.input_state = state;
    }

    /// Takes the next record in; what is found goes to `sink`.
    pub fn record(&mut self, r: &Record<'_>, sink: &mut dyn FnMut(Finding<'_>)) {
        if !r.is_late {
            self.fire(r.ts, false, sink);
        }
        let facts = self.site.see(r, &self.settings);
        self.counts.records += 1;
        if facts.is_ignored {
            self.counts.whitelisted += 1;
            return;
        }
        if let Body::Conn(c) = &r.body {
            self.counts.flows += 1;
            if self.latest_flow.is_none_or(|w| facts.window > w) {
                self.latest_flow = Some(facts.window);
                self.counts.windows += 1;
            }
            match c.is_established {
                true => self.counts.established += 1,
                false => self.counts.not_established += 1,
            }
        }
        self.sweep(facts.window);
        self.give(r.src, r, &facts);
        if self.settings.direction == Direction::All && r.dst != r.src {
            self.give(r.dst, r, &facts);
        }
        self.settle(sink);
    }

    fn give(&mut self, ip: Ip, r: &Record<'_>, facts: &Facts) {
        if let Some(profile) = self.profiles.get_mut(&ip) {
            if profile.flows() == 0 && matches!(r.body, Body::Conn(_)) {
                self.counts.sources += 1;
            }
            let before = profile.timer();
            let after = step(profile, &[(r, facts)], &self.settings, &mut self.found);
            if profile.is_to_weigh() {
                let bytes = profile.bytes();
                self.weight = self.weight + bytes - std::mem::replace(&mut profile.weighed, bytes);
            }
            if after < before {
                self.timers.entry(after.seconds()).or_default().push(ip);
            }
            if self.weight > self.weight_max {
                self.fold_one();
            }
            return;
        }
        self.first(ip, r, facts);
    }

    /// A record of an address without a profile: it becomes a seed, or a profile when it has been
    /// seen before or says more than a seed can hold.
    fn first(&mut self, ip: Ip, r: &Record<'_>, facts: &Facts) {
        let mut profile = Box::new(Profile::new(ip));
        let found = self.found.len();
        let seed = if ip == r.src { self.seeds.take(ip) } else { None };
        if let Some(seed) = &seed {
            let earlier = seed.record();
            let window = self.site.window(earlier.ts, &self.settings);
            if window >= facts.window - 1 {
                // What it says has been said when it came.
                let facts = Facts { window, ..*facts };
                step(&mut profile, &[(&earlier, &facts)], &self.settings, &mut self.found);
                self.found.truncate(found);
            }
        } else {
            self.ledger.receive(1, 0);
            self.counts.profiles += 1;
            self.counts.sources += u64::from(matches!(r.body, Body::Conn(_)));
        }
        let timer = step(&mut profile, &[(r, facts)], &self.settings, &mut self.found);
        let is_again = seed.is_some() || self.seeds.was_folded(ip);
        if !is_again {
            let crowd = &mut self.crowd;
            let mut at = 0;
            self.found.retain_mut(|e| {
                at += 1;
                at <= found || crowd.is_said(e)
            });
        }
        if !is_again
            && timer == NEVER
            && ip == r.src
            && let Some(seed) = Seed::of(r)
        {
            if self.seeds.put(seed) {
                self.counts.folded += 1;
                self.ledger.shed(ShedReason::ProfileFolded, 1, 0);
            }
            return;
        }
        profile.weighed = profile.bytes();
        self.weight += profile.weighed;
        if timer != NEVER {
            self.timers.entry(timer.seconds()).or_default().push(ip);
        }
        self.profiles.insert(ip, profile);
        self.queue.push_back(ip);
        while self.weight > self.weight_max && self.fold_one() {}
    }

    /// Folds the profile that has shown least of those next in the queue.
    fn fold_one(&mut self) -> bool {
        let mut least: Option<(u64, TimeNs, Ip)> = None;
        let mut looked = 0;
        while looked < FOLD_LOOKS {
            let Some(ip) = self.queue.pop_front() else { break };
            // Who is gone already leaves the queue here.
            let Some(profile) = self.profiles.get(&ip) else { continue };
            looked += 1;
            // Who has done most stays: sources of a flood have a record or two.
            let shown = (profile.records() + profile.findings(), profile.last(), ip);
            match least {
                Some(l) if (l.0, l.1) <= (shown.0, shown.1) => self.queue.push_back(ip),
                _ => {
                    if let Some((_, _, other)) = least.replace(shown) {
                        self.queue.push_back(other);
                    }
                }
            }
        }
        let Some((_, _, ip)) = least else { return false };
        if let Some(profile) = self.profiles.remove(&ip) {
            self.weight = self.weight.saturating_sub(profile.weighed);
            self.seeds.fold(ip);
            self.counts.folded += 1;
            self.ledger.shed(ShedReason::ProfileFolded, 1, 0);
        }
        true
    }

    /// Asks the profiles whose moment has come before `now`.
    fn fire(&mut self, now: TimeNs, is_end: bool, sink: &mut dyn FnMut(Finding<'_>)) {
        while let Some((&second, _)) = self.timers.first_key_value() {
            if !is_end && second >= now.seconds() {
                return;
            }
            let Some(mut due) = self.timers.remove(&second) else { return };
            due.sort_unstable();
            due.dedup();
            for ip in due {
                let Some(profile) = self.profiles.get_mut(&ip) else { continue };
                if !is_end && profile.timer().seconds() > second {
                    continue;
                }
                let next = wake(profile, now, is_end, &self.settings, &mut self.found);
                if next != NEVER && !is_end {
                    self.timers.entry(next.seconds().max(second + 1)).or_default().push(ip);
                }
            }
            self.settle(sink);
        }
    }

    /// Lets go of profiles that have not been seen in this window and the one before.
    fn sweep(&mut self, window: i64) {
        if window <= self.swept {
            return;
        }
        if window > self.swept + 1 {
            let gone = self.seeds.clear();
            self.ledger.pass(gone, 0);
        }
        self.swept = window;
        let before = self.profiles.len();
        let weight = &mut self.weight;
        self.profiles.retain(|_, p| {
            let stays = p.window() >= window - 1 || p.timer() != NEVER;
            if !stays {
                *weight = weight.saturating_sub(p.weighed);
            }
            stays
        });
        let profiles = &self.profiles;
        self.queue.retain(|ip| profiles.contains_key(ip));
        self.ledger.pass((before - self.profiles.len()) as u64, 0);
    }

    /// Passes what was found on, in order.
    fn settle(&mut self, sink: &mut dyn FnMut(Finding<'_>)) {
        if self.found.is_empty() {
            return;
        }
        let mut found = std::mem::take(&mut self.found);
        if found.len() > 1 {
            found.sort_by_key(|e| (e.ts, e.id));
        }
        for mut e in found.drain(..) {
            e.input_state.clone_from(&self.input_state);
            if self.settings.disabled.iter().any(|name| name == e.kind.name) {
                continue;
            }
            if self.site.whited.hides_evidence(&e, &self.settings) {
                self.counts.whitelisted_evidence += 1;
                continue;
            }
            match self.accumulator.take(&e, &self.site, &self.settings) {
                None => self.counts.repeats += 1,
                Some((sum, alert)) => {
                    self.counts.evidence += 1;
                    sink(Finding::Evidence(&e, sum));
                    if let Some(alert) = alert {
                        self.counts.alerts += 1;
                        sink(Finding::Alert(&alert));
                    }
                }
            }
        }
        self.found = found;
    }

    /// Ends: all that waits is decided.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Finding<'_>)) {
        let end = self.site.watermark;
        self.fire(end, true, sink);
        self.settle(sink);
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        Counts {
            private_to_private: self.site.private_pairs,
            crowded: self.crowd.unsaid,
            ..self.counts
        }
    }

    /// Entries of the whitelist that hid something, with records and evidence hidden.
    pub fn whitelisted(&self) -> Vec<(&Entry, u64, u64)> {
        let entries = self.settings.whitelist.entries().iter().enumerate();
        let hits = |at: usize| self.site.whited.hits(at);
        entries
            .map(|(at, entry)| (entry, hits(at).0, hits(at).1))
            .filter(|(_, records, evidence)| records + evidence > 0)
            .collect()
    }

    /// Sources: come, gone with their windows, folded, held now.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = self.ledger.clone();
        ledger.set_in_flight(self.profiles.len() as u64 + self.seeds.held(), 0);
        ledger
    }

    /// A profile, to look at.
    pub fn profile(&self, ip: Ip) -> Option<&Profile> {
        self.profiles.get(&ip).map(|p| &**p)
    }

    /// All profiles, in no order.
    pub fn profiles(&self) -> impl Iterator<Item = &Profile> {
        self.profiles.values().map(|p| &**p)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::{horizontal_scan, unknown_port};
    use crate::trial::{Trial, conn};
    use gabion_record::logs::SECOND;

    /// A second flow finds the first again: a seed is as good as a profile.
    #[test]
    fn a_source_seen_once_is_not_forgotten() {
        let mut trial = Trial::new();
        for n in 0..10 {
            trial.give(&conn(n, "10.0.0.1", &format!("1.2.3.{n}"), 23).refused());
            assert_eq!(trial.engine.profiles().count(), usize::from(n > 0));
        }
        let found = trial.of(&horizontal_scan::TYPE);
        assert_eq!(found.len(), 1);
        assert!(found[0].description.contains("to 10 unique"));
        let counts = trial.engine.counts();
        assert_eq!((counts.profiles, counts.sources), (1, 1));
        trial.engine.ledger().balance().unwrap();
    }

    /// Spoofed sources beyond any budget: memory stays, the scanner among them is found, the books
    /// balance, and evidence of first records is not said a hundred thousand times.
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
        let engine = &trial.engine;
        assert!(engine.weight <= 1 << 20, "{}", engine.weight);
        assert!(trial.of(&horizontal_scan::TYPE).iter().any(|e| e.profile == Ip::v4(0x0909_0909)));
        assert!(trial.of(&unknown_port::TYPE).len() < 20_000);
        let counts = engine.counts();
        assert!(counts.folded > 50_000 && counts.crowded > 50_000, "{counts:?}");
        engine.ledger().balance().unwrap();
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
        assert_eq!(trial.of(&horizontal_scan::TYPE).len(), 1);
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

    /// D1 and D2 of the peer: what is read twice is said once, and the same run says the same.
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
            trial.said.iter().map(|e| e.id).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        let (once, twice) = (run(1), run(2));
        let scans = |ids: &[gabion_record::evidence::FindingId]| ids.len();
        assert!(scans(&twice) <= scans(&once) + 4);
    }

    /// A profile comes back from its encoding and goes on as if it had not been away.
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
