//! The second keyed stage: evidence of a profile and window adds up to alerts.
//!
//! Evidence comes in the order (time, id); one stage decides and resets, so that nothing is lost or
//! said twice between a look and a reset. A telling whose id was seen in its window before is a repeat
//! and counts for nothing.

use crate::finding::short;
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

/// Sum for an hour at which confidence begins, and at which it is full, after the peer.
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

/// The stage.
#[derive(Debug, Default)]
pub struct Accumulator {
    sums: HashMap<(Ip, i64), Sum, FixedState>,
    seen: HashSet<FindingId, FixedState>,
    /// Ids of the window before.
    seen_before: HashSet<FindingId, FixedState>,
    window: i64,
    /// Evidence that was a repeat.
    pub repeats: u64,
    /// Sums forgotten for want of room.
    pub forgotten: u64,
}

saved! {
    Sum { level, ids, alerts, total }
    Accumulator { sums, seen, seen_before, window, repeats, forgotten }
}

impl Accumulator {
    /// Whether the same was taken in before.
    pub fn is_repeat(&mut self, e: &Evidence) -> bool {
        if e.window > self.window {
            self.seen_before = std::mem::take(&mut self.seen);
            let oldest = e.window - 1;
            self.sums.retain(|(_, window), _| *window >= oldest);
            self.window = e.window;
        }
        if self.seen_before.contains(&e.telling) || !self.remember(e.telling) {
            self.repeats += 1;
            return true;
        }
        false
    }

    /// Adds evidence up, however it is told: `telling` is what an alert names for it. The sum of its window
    /// so far, and an alert when it crossed the threshold.
    pub fn add(
        &mut self,
        e: &Evidence,
        telling: FindingId,
        start: TimeNs,
        settings: &Settings,
    ) -> (f64, Option<Alert>) {
        let counts = e.attacker.role == Role::Source && e.level != ThreatLevel::Info;
        if !counts {
            let sum = self.sums.get(&(e.profile, e.window)).map_or(0.0, |s| s.level);
            return (sum, None);
        }
        if self.sums.len() >= SUMS_MAX {
            // Who has gathered least is forgotten, all those below one step of high at once.
            let before = self.sums.len();
            self.sums.retain(|_, sum| sum.level >= 1.0 || sum.alerts > 0);
            if self.sums.len() >= SUMS_MAX / 4 * 3 {
                self.sums.retain(|_, sum| sum.alerts > 0);
            }
            let forgotten = (before - self.sums.len()) as u64;
            reached::SUMS_MAX.count_times(forgotten);
            self.forgotten += forgotten;
        }
        let sum = self.sums.entry((e.profile, e.window)).or_default();
        let add = e.level.weight() * e.confidence;
        sum.level += add;
        sum.total += add;
        // Several occurrences of a finding are told once.
        let is_named = sum.ids.iter().rev().take(NAMED_LATELY).any(|id| *id == telling);
        if !is_named && reached::CORRELATED_MAX.has_room(sum.ids.len()) {
            sum.ids.push(telling);
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
    pub fn sum(&self, profile: Ip, window: i64) -> f64 {
        self.sums.get(&(profile, window)).map_or(0.0, |s| s.level)
    }

    /// Whether the id is new.
    fn remember(&mut self, id: FindingId) -> bool {
        // A bound over all profiles; beyond it a repeat may be told again.
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
