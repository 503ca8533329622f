//! What each rule costs: checks, matches and ticks, sampled or exact.

use crate::engine::Engine;

/// One in `SAMPLE` packets is timed unless all packets are asked for.
const SAMPLE: u64 = 64;

/// Account of one rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCost {
    /// Times it was inspected.
    pub checks: u64,
    /// Times it matched.
    pub matches: u64,
    /// Ticks spent on inspections that matched.
    pub ticks_match: u64,
    /// Ticks spent on those that did not.
    pub ticks_no_match: u64,
    /// Most ticks of one inspection.
    pub ticks_max: u64,
}

impl RuleCost {
    /// All ticks.
    pub fn ticks(&self) -> u64 {
        self.ticks_match.saturating_add(self.ticks_no_match)
    }

    /// Adds another worker's account of the same rule.
    pub fn merge(&mut self, o: &RuleCost) {
        self.checks += o.checks;
        self.matches += o.matches;
        self.ticks_match += o.ticks_match;
        self.ticks_no_match += o.ticks_no_match;
        self.ticks_max = self.ticks_max.max(o.ticks_max);
    }
}

/// Accounts of all rules of one worker.
#[derive(Debug, Default)]
pub struct RuleCosts {
    /// By signature index.
    pub rules: Vec<RuleCost>,
    /// Ticks of prefilters: stream, payload, transactions.
    pub prefilter: [u64; 3],
    /// Ticks of parsers by protocol id.
    pub parsers: Vec<(u64, u64)>,
    clock: Option<fn() -> u64>,
    exact: bool,
    packets: u64,
    pub(crate) on: bool,
}

impl RuleCosts {
    /// Accounts for the rules of an engine, if its options ask for them.
    pub(crate) fn of_engine(engine: &Engine) -> RuleCosts {
        let rules = engine.detector.as_ref().map_or(0, |d| d.set.signatures.len());
        match engine.options.profile {
            Some((clock, exact)) => RuleCosts::new(rules, Some(clock), exact),
            None => RuleCosts::new(0, None, false),
        }
    }

    /// Accounts for `rules` rules. `clock` counts ticks; without a clock nothing is timed.
    pub fn new(rules: usize, clock: Option<fn() -> u64>, exact: bool) -> RuleCosts {
        RuleCosts { rules: vec![RuleCost::default(); rules], clock, exact, ..RuleCosts::default() }
    }

    /// Whether every packet is timed.
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// The factor from a sampled figure to the total.
    pub fn scale(&self) -> u64 {
        if self.exact { 1 } else { SAMPLE }
    }

    /// A packet begins: decides whether it is timed.
    #[inline]
    pub(crate) fn begin_packet(&mut self) {
        self.packets = self.packets.wrapping_add(1);
        self.on = self.clock.is_some() && (self.exact || self.packets.is_multiple_of(SAMPLE));
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        match self.clock {
            Some(clock) if self.on => clock(),
            _ => 0,
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, sig: u32, since: u64, matched: bool) {
        if !self.on {
            return;
        }
        let ticks = self.now().saturating_sub(since);
        if let Some(r) = self.rules.get_mut(sig as usize) {
            r.checks += 1;
            r.ticks_max = r.ticks_max.max(ticks);
            if matched {
                r.matches += 1;
                r.ticks_match += ticks;
            } else {
                r.ticks_no_match += ticks;
            }
        }
    }

    #[inline]
    pub(crate) fn add_prefilter(&mut self, kind: usize, since: u64) {
        if self.on {
            let ticks = self.now().saturating_sub(since);
            self.prefilter[kind] += ticks;
        }
    }

    pub(crate) fn add_parser(&mut self, proto: u8, since: u64) {
        if self.on {
            let ticks = self.now().saturating_sub(since);
            let at = usize::from(proto);
            if self.parsers.len() <= at {
                self.parsers.resize(at + 1, (0, 0));
            }
            self.parsers[at].0 += 1;
            self.parsers[at].1 += ticks;
        }
    }

    /// Adds another worker's accounts.
    pub fn merge(&mut self, o: &RuleCosts) {
        if self.rules.len() < o.rules.len() {
            self.rules.resize(o.rules.len(), RuleCost::default());
        }
        for (a, b) in self.rules.iter_mut().zip(&o.rules) {
            a.merge(b);
        }
        for (a, b) in self.prefilter.iter_mut().zip(o.prefilter) {
            *a += b;
        }
        if self.parsers.len() < o.parsers.len() {
            self.parsers.resize(o.parsers.len(), (0, 0));
        }
        for (a, b) in self.parsers.iter_mut().zip(&o.parsers) {
            a.0 += b.0;
            a.1 += b.1;
        }
        self.packets += o.packets;
    }
}
