//! A host whose TLS differs from what it was in the hours before: in how many handshakes it makes, with
//! how many servers, with how many new ones, and in how many fingerprints change.
//!
//! Each hour of event time gives four numbers, compared as logarithms with the median of the hours
//! before, in units of their median deviation. The unit has a floor that follows what is usual, so that a
//! host that is the same each hour is not odd for one handshake more.

use super::{About, Detector, bit};
use crate::finding::Context;
use crate::profile::Waking;
use crate::sketch::{Hosts, Keyed, hash_ip, hash_text};
use crate::state::{Slot, state};
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind, SECOND, TimeNs};

/// Its evidence.
pub static TYPE: EvidenceType = EvidenceType { name: "MALICIOUS_FLOW", technique: "T1573" };

/// The detector.
#[derive(Debug)]
pub struct HttpsAnomaly;

/// What an hour is measured by.
const NAMES: [&str; 4] = ["ssl_flows", "unique_servers", "new_servers", "ja3_changes"];
/// Deviations that are odd.
const ODD: f64 = 3.0;
/// Hours with handshakes before anything is odd: two of training, and the fewest to compare with.
const HOURS_LEAST: usize = 6;
/// Hours compared with.
const HOURS_MAX: usize = 256;
/// Servers that are remembered as known.
const SERVERS_MAX: usize = 256;
/// A thousand makes a one: state is whole numbers.
const UNIT: f64 = 1000.0;
/// The floor of the unit at first, least, and how quickly it follows.
const FLOOR: (f64, f64, f64) = (0.1, 0.01, 0.05);

state! {
    /// Of one source.
    pub struct Hours {
        hour: i64,
        window: i64,
        last: TimeNs,
        flows: u32,
        servers: Hosts,
        new: u32,
        changes: u32,
        known: Keyed<u64, u64, SERVERS_MAX>,
        before: Vec<Measure>,
        odd: Vec<i64>,
    }
}

state! {
    /// One number of the hours before.
    pub struct Measure {
        values: Vec<u32>,
        floor: u32,
    }
}

impl Detector for HttpsAnomaly {
    type Window = ();
    type Kept = Hours;
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "an hour's TLS handshakes, servers, new servers or changed JA3 differ by three \
            deviations from the median of the hours before, of which there are at least six",
        level: "low, medium from confidence 0.8 on; confidence from the deviation, odd hours of the \
            last three, hours compared with, and how many numbers are odd",
        settings: &[],
    };
    const KINDS: u16 = bit(LogKind::Ssl);

    fn record(_: &mut Slot<()>, kept: &mut Slot<Hours>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Ssl(s) = &r.body else { return };
        if r.is_late || cx.profile != r.src {
            return;
        }
        let hours = kept.make();
        let hour = r.ts.seconds().div_euclid(3600);
        if hours.flows > 0 && hour != hours.hour {
            if let Some(odd) = close(hours) {
                let finding = odd.finding(cx.find(&TYPE), hours);
                cx.say(finding);
            }
            begin(hours);
        }
        (hours.hour, hours.window, hours.last) = (hour, cx.facts.window, r.ts);
        hours.flows = hours.flows.saturating_add(1);
        let server = if s.server_name.is_empty() { hash_ip(r.dst) } else { hash_text(s.server_name) };
        hours.servers.insert_hash(server);
        let ja3 = if s.ja3.is_empty() { 0 } else { hash_text(s.ja3) };
        match hours.known.get(server) {
            Some(before) => {
                if ja3 != 0 && *before != 0 && *before != ja3 {
                    hours.changes = hours.changes.saturating_add(1);
                }
                if ja3 != 0 {
                    *before = ja3;
                }
            }
            None => {
                hours.new = hours.new.saturating_add(1);
                hours.known.add(server, ja3);
            }
        }
    }

    fn wake(kept: &mut Slot<Hours>, waking: &mut Waking<'_>) {
        let Some(hours) = kept.get() else { return };
        if !waking.is_end || hours.flows == 0 {
            return;
        }
        if let Some(odd) = close(hours) {
            let finding = waking.find(&TYPE, hours.last, hours.window);
            let finding = odd.finding(finding, hours);
            waking.say(finding);
        }
        begin(hours);
    }
}

fn begin(hours: &mut Hours) {
    (hours.flows, hours.new, hours.changes) = (0, 0, 0);
    hours.servers = Hosts::default();
}

/// What is odd about an hour.
struct Odd {
    reasons: Vec<(&'static str, u64, f64)>,
    confidence: f64,
}

impl Odd {
    fn finding(&self, finding: crate::finding::Finding, hours: &Hours) -> crate::finding::Finding {
        let level = if self.confidence >= 0.8 { ThreatLevel::Medium } else { ThreatLevel::Low };
        let label = match self.confidence {
            c if c >= 0.8 => "HIGH",
            c if c >= 0.55 => "MEDIUM",
            _ => "LOW",
        };
        let all: Vec<String> = self
            .reasons
            .iter()
            .map(|(name, n, z)| format!("reason={name}; value={n}; why=z-score {z:.2}"))
            .collect();
        let start = TimeNs(hours.hour.saturating_mul(3600).saturating_mul(SECOND));
        let mut finding = finding
            .level(level, self.confidence)
            .since(start, u64::from(hours.flows))
            .by("Statistical")
            .says(format!(
                "HTTPS anomaly: type=hourly; confidence={label} ({:.3}); {}.",
                self.confidence,
                all.join("; ")
            ));
        (finding.0.ts, finding.0.window) = (hours.last, hours.window);
        finding
    }
}

/// Compares an hour with those before and takes it in.
fn close(hours: &mut Hours) -> Option<Odd> {
    let numbers =
        [u64::from(hours.flows), hours.servers.len(), u64::from(hours.new), u64::from(hours.changes)];
    hours.before.resize_with(NAMES.len(), Measure::default);
    let mut reasons = Vec::new();
    for ((name, n), measure) in NAMES.iter().zip(numbers).zip(&mut hours.before) {
        let y = (1.0 + n as f64).ln();
        let z = deviation(y, measure);
        // Odd hours do not become usual by happening once.
        if z >= ODD && measure.values.len() >= HOURS_LEAST {
            reasons.push((*name, n, z));
            continue;
        }
        if measure.values.len() >= HOURS_MAX {
            measure.values.remove(0);
        }
        measure.values.push((y * UNIT) as u32);
    }
    hours.odd.retain(|h| hours.hour - h < 3);
    if reasons.is_empty() {
        return None;
    }
    hours.odd.push(hours.hour);
    let most = reasons.iter().map(|r| r.2).fold(0.0, f64::max);
    let compared = hours.before.iter().map(|m| m.values.len()).max().unwrap_or(0) as f64;
    let confidence = 0.45 * (1.0 - (-most / 3.0).exp())
        + 0.25 * (hours.odd.len() as f64 / 3.0).min(1.0)
        + 0.20 * (compared / 18.0).min(1.0)
        + 0.10 * (reasons.len() as f64 / 3.0).min(1.0);
    Some(Odd { reasons, confidence })
}

/// How many units a value is from the median; the floor follows what is usual.
fn deviation(y: f64, measure: &mut Measure) -> f64 {
    let mut values: Vec<f64> = measure.values.iter().map(|v| f64::from(*v) / UNIT).collect();
    if values.is_empty() {
        measure.floor = (FLOOR.0 * UNIT) as u32;
        return 0.0;
    }
    let middle = median(&mut values);
    let mut distances: Vec<f64> = values.iter().map(|v| (v - middle).abs()).collect();
    let spread = 1.4826 * median(&mut distances);
    let floor = f64::from(measure.floor) / UNIT;
    let z = (y - middle).abs() / spread.max(floor).max(FLOOR.1);
    if values.len() >= 5 {
        let next = (1.0 - FLOOR.2) * floor + FLOOR.2 * spread.max(FLOOR.1);
        measure.floor = (next * UNIT) as u32;
    }
    z
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    let at = |i: usize| values.get(i).copied().unwrap_or(0.0);
    if values.len() % 2 == 1 { at(half) } else { (at(half.wrapping_sub(1)) + at(half)) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, log};
    use gabion_record::logs::Ssl;

    /// So many servers an hour, hour by hour; new ones are named by the hour.
    fn hours(servers: &[(u32, u32)]) -> Vec<gabion_record::evidence::Evidence> {
        let mut trial = Trial::new();
        for (hour, (known, new)) in servers.iter().enumerate() {
            for n in 0..known + new {
                let name =
                    if n < *known { format!("s{n}.example") } else { format!("n{hour}x{n}.example") };
                let s = Ssl { server_name: name.as_bytes(), ja3: b"x", ..Ssl::default() };
                let second = hour as i64 * 3600 + i64::from(n % 3000);
                trial.record(&log(second, "10.0.0.1", "1.2.3.4", Body::Ssl(s)));
            }
        }
        trial.end();
        trial.of(&TYPE)
    }

    #[test]
    fn an_hour_unlike_those_before_is_told() {
        let mut usual = vec![(20, 0); 10];
        usual.push((20, 300));
        usual.push((20, 0));
        let found = hours(&usual);
        assert_eq!(found.len(), 1);
        assert!(found[0].description.contains("reason=new_servers; value=300"));
        assert_eq!(found[0].window, 11);
    }

    #[test]
    fn an_hour_a_little_unlike_or_too_early_is_not() {
        let mut usual: Vec<(u32, u32)> = (0..12).map(|n| (20 + n % 3, n % 2)).collect();
        usual.push((24, 2));
        assert!(hours(&usual).is_empty());
        assert!(hours(&[(20, 0), (20, 0), (20, 0), (20, 500)]).is_empty());
    }

    #[test]
    fn odd_times_and_many_servers_break_nothing() {
        let mut trial = Trial::new();
        for n in 0..5000i64 {
            let name = format!("s{n}.example");
            let s = Ssl { server_name: name.as_bytes(), ..Ssl::default() };
            let second = if n == 100 { i64::MAX / SECOND } else { n * 40 };
            let mut r = log(second, "10.0.0.1", "1.2.3.4", Body::Ssl(s));
            r.is_late = n > 100 && n < 200;
            trial.record(&r);
        }
        trial.end();
        assert!(trial.profile_bytes("10.0.0.1") < 32 << 10);
    }
}
