//! The engine on one thread: site, profiles, accumulation, in that order.

use crate::accumulate::Accumulator;
use crate::profile::{NEVER, Profile, step, wake};
use crate::settings::{Direction, Settings};
use crate::site::{Facts, Site};
use foldhash::fast::FixedState;
use gabion_record::Ip;
use gabion_record::evidence::{Alert, Evidence};
use gabion_record::logs::{Body, Record, TimeNs};
use hashbrown::HashMap;
use std::collections::BTreeMap;

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
    /// Alerts.
    pub alerts: u64,
}

/// The engine.
pub struct Engine {
    settings: Settings,
    site: Site,
    profiles: HashMap<Ip, Profile, FixedState>,
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
        let site = Site::new(start, &settings);
        Engine {
            settings,
            site,
            profiles: HashMap::default(),
            timers: BTreeMap::new(),
            accumulator: Accumulator::default(),
            found: Vec::new(),
            counts: Counts::default(),
            swept: 0,
            latest_flow: None,
        }
    }

    /// Takes the next record in; what is found goes to `sink`.
    pub fn record(&mut self, r: &Record<'_>, sink: &mut dyn FnMut(Finding<'_>)) {
        if !r.is_late {
            self.fire(r.ts, false, sink);
        }
        let facts = self.site.see(r, &self.settings);
        self.counts.records += 1;
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
        let counts = &mut self.counts;
        let profile = self.profiles.entry(ip).or_insert_with(|| {
            counts.profiles += 1;
            Profile::new(ip)
        });
        if profile.flows() == 0 && matches!(r.body, Body::Conn(_)) {
            counts.sources += 1;
        }
        let before = profile.timer();
        let after = step(profile, &[(r, facts)], &self.settings, &mut self.found);
        if after < before {
            self.timers.entry(after.seconds()).or_default().push(ip);
        }
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
        self.swept = window;
        self.profiles.retain(|_, p| p.window() >= window - 1 || p.timer() != NEVER);
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
        for e in found.drain(..) {
            if self.settings.disabled.iter().any(|name| name == e.kind.name) {
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
        Counts { private_to_private: self.site.private_pairs, ..self.counts }
    }

    /// A profile, to look at.
    pub fn profile(&self, ip: Ip) -> Option<&Profile> {
        self.profiles.get(&ip)
    }

    /// All profiles, in no order.
    pub fn profiles(&self) -> impl Iterator<Item = &Profile> {
        self.profiles.values()
    }
}
