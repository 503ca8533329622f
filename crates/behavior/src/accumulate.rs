//! The second keyed stage: evidence of a profile and window adds up to alerts.
//!
//! Evidence comes in the order (time, id); one stage decides and resets, so that nothing is lost or
//! reported twice between a look and a reset. A report whose id was seen in its window before is a repeat
//! and counts for nothing.

use crate::evidence::short;
use crate::limits::{IDS_MAX, SUMS_MAX, reached};
use crate::settings::Settings;
use crate::site::bounds_of;
use foldhash::fast::FixedState;
use gabion_record::Ip;
use gabion_record::evidence::{Alert, Evidence, FindingId, Role, ThreatLevel};
use gabion_record::logs::TimeNs;
use gabion_record::saved;
use hashbrown::{HashMap, HashSet};
use sha2::{Digest, Sha256};

/// Sum for an hour at which confidence begins, and at which it is full, as in Slips.
const CONFIDENCE: (f64, f64) = (4.8, 26.0);

/// Tellings named last that a further one is compared with.
const NAMED_LATELY: usize = 32;

/// What a profile's window has gathered.
#[derive(Debug, Default)]
struct Sum {
    /// Threat levels by confidence, since the last alert.
    level: f64,
    /// Evidence since the last alert.
    ids: Vec<FindingId>,
    /// Alerts so far.
    alerts: u32,
    /// The sum of all, alerted or not.
    total: f64,
}

impl Sum {
    /// What orders sums where some have to go: levels are never below zero, so that their bits are in order too.
    fn rank(&self) -> (u32, u64) {
        (self.alerts, self.level.to_bits())
    }
}

/// The stage.
#[derive(Debug, Default)]
pub(crate) struct Accumulator {
    sums: HashMap<(Ip, i64), Sum, FixedState>,
    seen: HashSet<FindingId, FixedState>,
    /// Ids of the window before.
    seen_before: HashSet<FindingId, FixedState>,
    window: i64,
    /// Evidence that was a repeat.
    pub repeats: u64,
    /// Sums forgotten for want of room.
    pub forgotten: u64,
    /// Sums that were looked at to find those to forget: work that a flood causes.
    pub looks: u64,
}

saved! {
    Sum { level, ids, alerts, total }
    Accumulator { sums, seen, seen_before, window, repeats, forgotten, looks }
}

impl Accumulator {
    /// Whether the same was taken in before.
    pub(crate) fn is_repeat(&mut self, e: &Evidence) -> bool {
        if e.window > self.window {
            self.seen_before = std::mem::take(&mut self.seen);
            let oldest = e.window - 1;
            self.sums.retain(|(_, window), _| *window >= oldest);
            self.window = e.window;
        }
        if self.seen_before.contains(&e.report_id) || !self.remember(e.report_id) {
            self.repeats += 1;
            return true;
        }
        false
    }

    /// Adds evidence up, however it is reported: `report_id` is the id that an alert names. Returns the sum of its
    /// window so far, and an alert when it crossed the threshold.
    pub(crate) fn add(
        &mut self,
        e: &Evidence,
        report_id: FindingId,
        start: TimeNs,
        settings: &Settings,
    ) -> (f64, Option<Alert>) {
        let counts = e.attacker.role == Role::Source && e.level != ThreatLevel::Info;
        if !counts {
            let sum = self.sums.get(&(e.profile, e.window)).map_or(0.0, |s| s.level);
            return (sum, None);
        }
        if self.sums.len() >= SUMS_MAX && !self.sums.contains_key(&(e.profile, e.window)) {
            self.make_room();
        }
        let sum = self.sums.entry((e.profile, e.window)).or_default();
        let add = e.level.weight() * e.confidence;
        sum.level += add;
        sum.total += add;
        // Several occurrences of a finding are named once.
        let is_named = sum.ids.iter().rev().take(NAMED_LATELY).any(|id| *id == report_id);
        if !is_named && reached::CORRELATED_MAX.has_room(sum.ids.len()) {
            sum.ids.push(report_id);
        }
        let hours = settings.window_ns as f64 / 3.6e12;
        let threshold = settings.alert_threshold * hours * 60.0;
        let reached = sum.level;
        // A sum of tenths is not exact: what is a hair below has reached it.
        if reached + 1e-9 < threshold || settings.is_one_window && threshold <= 0.0 {
            return (reached, None);
        }
        let (low, full) = (CONFIDENCE.0 * hours, CONFIDENCE.1 * hours);
        let (window_start, window_end) = bounds_of(start, e.window, settings);
        let evidence = std::mem::take(&mut sum.ids);
        let alert = Alert {
            id: alert_id(e.profile, e.window, sum.alerts, &evidence),
            profile: e.profile,
            window: e.window,
            window_start,
            window_end,
            ts: e.ts,
            accumulated: reached,
            confidence: ((reached - low) / (full - low)).clamp(0.0, 1.0),
            evidence,
        };
        sum.level = 0.0;
        sum.alerts += 1;
        (reached, Some(alert))
    }

    /// The sum of a profile's window so far.
    pub(crate) fn sum(&self, profile: Ip, window: i64) -> f64 {
        self.sums.get(&(profile, window)).map_or(0.0, |s| s.level)
    }

    /// Forgets the quarter of all sums that has gathered least: first those without an alert, and of these
    /// the smallest. Each sum that comes pays for at most four that are looked at, whatever the sums are.
    #[cold]
    fn make_room(&mut self) {
        let mut all: Vec<_> = self.sums.iter().map(|(key, sum)| (sum.rank(), *key)).collect();
        self.looks += all.len() as u64;
        crate::steps::add(all.len());
        let (least, ..) = all.select_nth_unstable(SUMS_MAX / 4);
        for (_, key) in least {
            self.sums.remove(key);
        }
        reached::SUMS_MAX.count_times((SUMS_MAX / 4) as u64);
        self.forgotten += (SUMS_MAX / 4) as u64;
    }

    /// Whether the id is new.
    fn remember(&mut self, id: FindingId) -> bool {
        // A bound over all profiles; beyond it a repeat may be reported again.
        if self.seen.len() >= IDS_MAX {
            let is_new = !self.seen.contains(&id);
            reached::IDS_MAX.count_times(u64::from(is_new));
            return is_new;
        }
        self.seen.insert(id)
    }
}

fn alert_id(profile: Ip, window: i64, number: u32, evidence: &[FindingId]) -> FindingId {
    let mut hash = Sha256::new();
    hash.update(b"alert");
    hash.update(profile.to_bytes());
    hash.update(window.to_le_bytes());
    hash.update(number.to_le_bytes());
    evidence.iter().for_each(|id| hash.update(id.0));
    short(hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::unknown_port;
    use crate::evidence::EvidenceBuilder;

    fn add(all: &mut Accumulator, profile: u32, level: ThreatLevel, settings: &Settings) -> bool {
        let profile = Ip::v4(profile);
        let mut found = Vec::new();
        EvidenceBuilder::new(&unknown_port::TYPE, profile, TimeNs(0), 1)
            .level(level, 1.0)
            .finish(&mut found);
        found.iter().any(|e| all.add(e, e.report_id, TimeNs(0), settings).1.is_some())
    }

    /// More sources than there is room for, none of them in alert, then each: the table keeps its size, work does
    /// not grow, evicted sums are counted, and the profile with the largest sum stays.
    #[test]
    fn sums_are_bounded_in_number_and_work() {
        for is_alerted in [false, true] {
            // One finding of high is an alert, or never.
            let threshold = if is_alerted { 0.01 } else { 1e9 };
            let settings = Settings { alert_threshold: threshold, ..Settings::default() };
            let mut all = Accumulator::default();
            for _ in 0..3 {
                add(&mut all, 7, ThreatLevel::High, &settings);
            }
            let adds = 3 * SUMS_MAX as u32;
            for n in 0..adds {
                let alerted = add(&mut all, 0x1000_0000 + n, ThreatLevel::High, &settings);
                assert_eq!(alerted, is_alerted);
                assert!(all.sums.len() <= SUMS_MAX);
            }
            assert!(all.looks <= 4 * u64::from(adds), "{}", all.looks);
            assert_eq!(all.forgotten, u64::from(adds) + 1 - all.sums.len() as u64);
            assert!(all.sums.contains_key(&(Ip::v4(7), 1)), "{is_alerted}");
        }
    }
}
