//! RITA's threat score of a pair: where a number stands between its thresholds, and what is added or
//! taken away for what is known beside it.
//!
//! A number below its base is worth nothing; from there the score rises in three straight pieces,
//! 0.2 to 0.4 to 0.6 to 0.8, and ends there. Then: talked to by at most 2 % of the site's hosts +0.15, by
//! half of them or more −0.15; first talked to at most 7 days ago +0.15, 30 days or more −0.15; requests
//! without a `Host` +0.10. All numbers are those of RITA v5 (2026).

use crate::prevalence::Prevalence;
use crate::state::{First, Most, state};
use gabion_record::logs::{SECOND, TimeNs};
use std::fmt::Write;

/// Of beacons, in hundredths: base, low, medium, high.
pub const BEACON: [f64; 4] = [50.0, 70.0, 90.0, 100.0];
/// Of the seconds that a pair is connected in all within a day.
pub const LONG: [f64; 4] = [3_600.0, 14_400.0, 28_800.0, 43_200.0];

/// Shares of hosts at most and at least, and what they add.
const RARE: (f64, f64) = (0.02, 0.15);
const COMMON: (f64, f64) = (0.50, -0.15);
/// Days since the first flow at most and at least.
const NEW: (i64, f64) = (7, 0.15);
const OLD: (i64, f64) = (30, -0.15);
/// Requests without a `Host`.
const NAMELESS: f64 = 0.10;
const DAY_NS: i64 = 86_400 * SECOND;

/// Where a number stands between its thresholds.
pub fn bucket(value: f64, steps: [f64; 4]) -> f64 {
    let [base, low, medium, high] = steps;
    let part = |from: f64, to: f64| (value.min(to) - from) / (to - from) * 0.2;
    match value {
        v if v < base => 0.0,
        v if v < low => 0.2 + part(base, low),
        v if v < medium => 0.4 + part(low, medium),
        _ => 0.6 + part(medium, high),
    }
}

state! {
    /// What is known of a pair beside its flows.
    pub struct Beside {
        /// As it was last: the site's hosts that talk with the end outside, and all.
        hosts: Most<u32>,
        of: Most<u32>,
        first: First,
        /// Requests without a `Host`.
        nameless: u32,
    }
}

impl Beside {
    /// Takes in what the site knows at a flow of the pair.
    #[inline]
    pub fn see(&mut self, known: &Prevalence) {
        if known.hosts > 0 {
            (self.hosts, self.of) = (Most(known.hosts), Most(known.of));
            self.first.see(known.first);
        }
    }

    /// Takes a request of the pair in.
    pub fn request(&mut self, host: &[u8]) {
        self.nameless = self.nameless.saturating_add(u32::from(host.is_empty()));
    }

    /// The score of a pair that is worth `base` by itself, and in words where it comes from.
    pub fn score(&self, base: f64, now: TimeNs) -> (f64, String) {
        let mut words = format!("{base:.3}");
        let mut sum = base;
        let mut add = |by: f64, why: String| {
            sum += by;
            let _ = write!(words, ", {why} {by:+.2}");
        };
        let known = Prevalence { hosts: self.hosts.0, of: self.of.0, first: self.first.0 };
        if let Some(share) = known.share() {
            let by = match share {
                s if s <= RARE.0 => RARE.1,
                s if s >= COMMON.0 => COMMON.1,
                _ => 0.0,
            };
            add(by, format!("{} of {} hosts", known.hosts, known.of));
            let days = now.since(known.first).max(0) / DAY_NS;
            let by = match now.since(known.first) {
                ns if ns <= NEW.0 * DAY_NS => NEW.1,
                ns if ns >= OLD.0 * DAY_NS => OLD.1,
                _ => 0.0,
            };
            add(by, format!("first seen {days} days ago"));
        }
        if self.nameless > 0 {
            add(NAMELESS, format!("{} requests without host", self.nameless));
        }
        let sum = (sum.clamp(0.0, 1.0) * 1000.0).round() / 1000.0;
        (sum, words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps of RITA's configuration: its scores at and between thresholds.
    #[test]
    fn scores_rise_between_thresholds() {
        for (value, score) in [
            (49.9, 0.0),
            (50.0, 0.2),
            (60.0, 0.3),
            (70.0, 0.4),
            (80.0, 0.5),
            (90.0, 0.6),
            (95.0, 0.7),
            (100.0, 0.8),
            (1000.0, 0.8),
        ] {
            assert!((bucket(value, BEACON) - score).abs() < 1e-9, "{value}");
        }
        assert!((bucket(270_036.6, LONG) - 0.8).abs() < 1e-9);
        assert_eq!(bucket(3_599.0, LONG), 0.0);
    }

    /// RITA's own test of `missing_host`: connected for 270,036 s (0.8), the only host of one (−0.15),
    /// first seen three days before (+0.15), 330 requests without a host (+0.10): 0.900.
    #[test]
    fn what_is_known_beside_adds_and_takes_away() {
        let day = |n: i64| TimeNs(n * DAY_NS);
        let mut beside = Beside::default();
        beside.see(&Prevalence { hosts: 1, of: 1, first: day(0) });
        (0..330).for_each(|_| beside.request(b""));
        beside.request(b"example.com");
        let (score, words) = beside.score(0.8, day(3));
        assert_eq!(score, 0.9);
        assert_eq!(
            words,
            "0.800, 1 of 1 hosts -0.15, first seen 3 days ago +0.15, 330 requests without host +0.10"
        );
        for (hosts, of, days, score) in [
            (2, 100, 10, 0.55),
            (3, 100, 10, 0.4),
            (49, 100, 7, 0.55),
            (50, 100, 8, 0.25),
            (50, 100, 30, 0.1),
            (1, 100, 0, 0.7),
        ] {
            let mut beside = Beside::default();
            beside.see(&Prevalence { hosts, of, first: day(0) });
            assert!((beside.score(0.4, day(days)).0 - score).abs() < 1e-9, "{hosts} {days}");
        }
        assert_eq!(Beside::default().score(0.4, day(3)), (0.4, "0.400".to_owned()));
    }
}
