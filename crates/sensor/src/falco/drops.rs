//! What is done when events were dropped: once a second of event time the share of dropped events is compared with the
//! threshold, and a token bucket bounds how often something is done.

use gabion_settings::falco::{DropAction, DropSettings};

const SECOND_NS: u64 = 1_000_000_000;

/// What a check asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) log: bool,
    pub(super) alert: bool,
    pub(super) exit: bool,
    /// Events that were dropped since the last check.
    pub(super) dropped: u64,
}

/// Watches the counts of events and drops.
#[derive(Debug)]
pub(super) struct Drops {
    settings: DropSettings,
    next_ns: u64,
    last: (u64, u64),
    tokens: f64,
    filled_ns: u64,
    /// Checks that found drops.
    pub(super) detected: u64,
    /// Checks that led to the actions.
    pub(super) acted: u64,
}

impl Drops {
    pub(super) fn new(settings: DropSettings) -> Drops {
        let tokens = settings.max_burst;
        Drops { settings, next_ns: 0, last: (0, 0), tokens, filled_ns: 0, detected: 0, acted: 0 }
    }

    /// Whether [`Drops::check`] would look at the counts.
    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        // Exactly a second later is too early, as in Falco.
        self.next_ns == 0 || now_ns > self.next_ns
    }

    /// Looks at the counts, at most once a second of event time.
    pub(super) fn check(&mut self, now_ns: u64, events: u64, dropped: u64) -> Option<Asked> {
        if self.next_ns == 0 {
            (self.next_ns, self.filled_ns) = (now_ns.saturating_add(SECOND_NS), now_ns);
            return None;
        }
        if !self.is_due(now_ns) {
            return None;
        }
        self.next_ns = now_ns.saturating_add(SECOND_NS);
        let (events_before, dropped_before) = std::mem::replace(&mut self.last, (events, dropped));
        let (events, mut dropped) =
            (events.saturating_sub(events_before), dropped.saturating_sub(dropped_before));
        if self.settings.simulate {
            dropped = dropped.max(events).max(1);
        }
        if dropped == 0 || (dropped as f64) < self.settings.threshold * events as f64 {
            return None;
        }
        self.detected += 1;
        let passed = now_ns.saturating_sub(self.filled_ns) as f64 / SECOND_NS as f64;
        self.filled_ns = now_ns;
        self.tokens = (self.tokens + passed * self.settings.rate).min(self.settings.max_burst);
        if self.tokens < 1.0 {
            return None;
        }
        self.tokens -= 1.0;
        self.acted += 1;
        let has = |action| self.settings.actions.contains(&action);
        Some(Asked {
            log: has(DropAction::Log) || has(DropAction::Exit),
            alert: has(DropAction::Alert),
            exit: has(DropAction::Exit),
            dropped,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drops(simulate: bool) -> Drops {
        let actions = vec![DropAction::Log];
        Drops::new(DropSettings {
            threshold: 0.1,
            actions,
            rate: 0.033_33,
            max_burst: 2.0,
            simulate,
        })
    }

    #[test]
    fn actions_are_bounded_by_the_bucket() {
        let mut drops = drops(true);
        let asked =
            (0..10).filter(|n| drops.check((n + 1) * (SECOND_NS + 1), n * 5, 0).is_some()).count();
        assert_eq!((asked, drops.detected, drops.acted), (2, 9, 2));
    }

    #[test]
    fn nothing_is_asked_for_below_the_threshold() {
        let mut drops = drops(false);
        assert_eq!(drops.check(SECOND_NS, 0, 0), None);
        assert_eq!(drops.check(2 * SECOND_NS + 1, 100, 5), None);
        assert_eq!(drops.check(3 * SECOND_NS + 2, 200, 55).map(|asked| asked.dropped), Some(50));
    }
}
