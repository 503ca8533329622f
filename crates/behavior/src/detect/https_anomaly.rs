//! A host whose TLS differs from what it was in the hours before: in how many handshakes it makes, with
//! how many servers, with how many new ones, in how many fingerprints change, and in how much goes to
//! servers that it knows; and one flow that carries much more or less than flows to known servers do.
//!
//! Each hour of event time gives five numbers, compared as logarithms with the median of the hours
//! before, in units of their median deviation. The unit has a floor that follows what is usual, so that a
//! host that is the same each hour is not odd for one handshake more.
//!
//! What is compared with adapts: an hour near the median is taken in, one that is not is set aside; when
//! enough hours were set aside in a row that their mean differs from the one before beyond chance (the
//! bound of ADWIN, Bifet and Gavaldà 2007), they are what is usual from then on.

use super::{About, Detector, bit};
use crate::context::Context;
use crate::context::Waking;
use crate::evidence::EvidenceBuilder;
use crate::limits::{
    COMPARED_FLOWS_MAX, HOURS_MAX, KNOWN_ADDRESSES_MAX, KNOWN_SERVERS_MAX, reached,
};
use crate::settings::HttpsSettings;
use crate::sketch::{Hosts, Keyed, hash_ip, hash_text};
use crate::state::{Slot, state};
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, Conn, LogKind, SECOND, Ssl, TimeNs};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("MALICIOUS_FLOW", "T1573");

/// The detector.
#[derive(Debug)]
pub(crate) struct HttpsAnomaly;

/// What an hour is measured by.
const NAMES: [&str; 5] =
    ["ssl_flows", "unique_servers", "new_servers", "ja3_changes", "known_server_avg_bytes"];
/// Where in it the changes of JA3 stand.
const JA3_CHANGES: usize = 3;
/// The fewest flows to known servers that a flow is compared with.
const FLOWS_LEAST: usize = 16;
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
        known: Keyed<u64, u64, KNOWN_SERVERS_MAX>,
        before: Vec<Measure>,
        odd: Vec<i64>,
        /// Hours closed so far.
        closed: u32,
        addresses: Keyed<u64, i64, KNOWN_ADDRESSES_MAX>,
        /// Of flows to servers known from an earlier hour, in this one.
        bytes: u64,
        byte_flows: u32,
        odd_flows: u32,
        flow: Measure,
    }
}

state! {
    /// One number of the hours before.
    pub struct Measure {
        values: Vec<u32>,
        floor: u32,
        /// Set aside since the last that was usual.
        aside: Vec<u32>,
    }
}

impl Detector for HttpsAnomaly {
    type Window = ();
    type Kept = Hours;
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "an hour's TLS handshakes, servers, new servers, changed JA3 or mean bytes to known \
            servers differ by hourly_zscore_threshold deviations (3) from the median of the hours before, \
            of which there are at least min_baseline_points (6); the bytes of one flow to a known server \
            differ by flow_zscore_threshold (3.5) from those of the 16 to 32 flows before (at the 1st, \
            10th, 100th … time by server)",
        level: "low, medium from confidence 0.8 on; confidence from the deviation, odd hours of the \
            last three, hours compared with, and how many numbers are odd",
        settings: &["anomaly_detection_https.*"],
    };
    const KINDS: u32 = bit(LogKind::Ssl) | bit(LogKind::Conn);

    /// It compares with flows before.
    #[inline]
    fn speaks_first(_: &Context<'_, '_>) -> bool {
        false
    }

    #[inline]
    fn record(_: &mut Slot<()>, kept: &mut Slot<Hours>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        match &r.body {
            Body::Ssl(s) if !r.is_late && cx.profile == r.src => handshake(s, kept.make(), cx),
            Body::Conn(c) if r.dst_port == 443 && c.is_established => {
                if let Some(hours) = kept.get()
                    && !r.is_late
                    && cx.profile == r.src
                {
                    flow(c, hours, cx);
                }
            }
            _ => {}
        }
    }

    fn wake(kept: &mut Slot<Hours>, waking: &mut Waking<'_>) {
        let Some(hours) = kept.get() else { return };
        if !waking.is_end || hours.flows == 0 {
            return;
        }
        if let Some(odd) = close(hours, &waking.settings.https) {
            let finding = waking.find(&TYPE, hours.last, hours.window);
            let finding = odd.finding(finding, hours);
            waking.say(finding);
        }
        begin(hours);
    }
}

fn handshake(s: &Ssl<'_>, hours: &mut Hours, cx: &mut Context<'_, '_>) {
    let r = cx.record;
    let hour = r.ts.seconds().div_euclid(3600);
    if hours.flows > 0 && hour != hours.hour {
        if let Some(odd) = close(hours, &cx.settings.https) {
            let finding = odd.finding(cx.find(&TYPE), hours);
            cx.say(finding);
        }
        begin(hours);
    }
    (hours.hour, hours.window, hours.last) = (hour, cx.facts.window, r.ts);
    hours.flows = hours.flows.saturating_add(1);
    let server = if s.server_name.is_empty() { hash_ip(r.dst) } else { hash_text(s.server_name) };
    hours.servers.insert_hash(server);
    if hours.addresses.get(hash_ip(r.dst)).is_none() {
        hours.addresses.add(hash_ip(r.dst), hour, &reached::KNOWN_ADDRESSES_MAX);
    }
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
            hours.known.add(server, ja3, &reached::KNOWN_SERVERS_MAX);
        }
    }
}

/// A flow to port 443: of known servers its bytes count.
fn flow(c: &Conn<'_>, hours: &mut Hours, cx: &mut Context<'_, '_>) {
    let r = cx.record;
    let hour = r.ts.seconds().div_euclid(3600);
    let is_known = hours.addresses.get(hash_ip(r.dst)).is_some_and(|first| *first < hour);
    if !is_known {
        return;
    }
    let bytes = c.orig_bytes.saturating_add(c.resp_bytes);
    hours.bytes = hours.bytes.saturating_add(bytes);
    hours.byte_flows = hours.byte_flows.saturating_add(1);
    let y = (1.0 + bytes as f64).ln();
    let z = deviation(y, &mut hours.flow);
    let compared = hours.flow.values.len();
    if compared < FLOWS_LEAST || z < cx.settings.https.flow {
        take_in(y, &mut hours.flow, COMPARED_FLOWS_MAX);
        return;
    }
    set_aside(y, &mut hours.flow, &cx.settings.https);
    hours.odd_flows = hours.odd_flows.saturating_add(1);
    let Some(times) = cx.is_due(&TYPE, hash_ip(r.dst)) else { return };
    let hours_odd = hours.odd.len();
    let odd = Odd {
        reasons: vec![("bytes_to_known_server", bytes, z)],
        confidence: confidence(z, hours_odd, compared, 1),
    };
    let finding =
        odd.says("flow", cx.find(&TYPE)).victim(r.dst).destination_port(r.dst_port).bytes(bytes);
    cx.say(finding.seen(times));
}

fn begin(hours: &mut Hours) {
    (hours.flows, hours.new, hours.changes) = (0, 0, 0);
    (hours.bytes, hours.byte_flows, hours.odd_flows) = (0, 0, 0);
    hours.servers = Hosts::default();
}

/// What is odd about an hour.
struct Odd {
    reasons: Vec<(&'static str, u64, f64)>,
    confidence: f64,
}

impl Odd {
    fn finding(&self, finding: EvidenceBuilder, hours: &Hours) -> EvidenceBuilder {
        let start = TimeNs(hours.hour.saturating_mul(3600).saturating_mul(SECOND));
        let mut finding = self
            .says("hourly", finding)
            .about(hours.hour as u64)
            .since(start, u64::from(hours.flows));
        (finding.0.ts, finding.0.window) = (hours.last, hours.window);
        finding
    }

    fn says(&self, kind: &str, finding: EvidenceBuilder) -> EvidenceBuilder {
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
        let most = self.reasons.iter().map(|r| r.2).fold(0.0, f64::max);
        finding
            .level(level, self.confidence)
            .score(most)
            .by("Statistical")
            .says("HTTPS anomaly: type={0}; confidence={1} ({2}); {3}.")
            .word(kind)
            .word(label)
            .word(format!("{:.3}", self.confidence))
            .word(all.join("; "))
    }
}

/// The confidence, as in Slips.
fn confidence(most: f64, odd_hours: usize, compared: usize, reasons: usize) -> f64 {
    0.45 * (1.0 - (-most / 3.0).exp())
        + 0.25 * (odd_hours as f64 / 3.0).min(1.0)
        + 0.20 * (compared as f64 / 18.0).min(1.0)
        + 0.10 * (reasons as f64 / 3.0).min(1.0)
}

/// Compares an hour with those before, and takes it in when it is like them.
fn close(hours: &mut Hours, settings: &HttpsSettings) -> Option<Odd> {
    let mean = hours.bytes / u64::from(hours.byte_flows.max(1));
    let numbers = [
        u64::from(hours.flows),
        hours.servers.len(),
        u64::from(hours.new),
        u64::from(hours.changes),
        mean,
    ];
    hours.before.resize_with(NAMES.len(), Measure::default);
    hours.closed = hours.closed.saturating_add(1);
    let is_training = hours.closed <= settings.training_hours;
    let is_quiet = hours.odd_flows <= settings.small_flows;
    let mut reasons = Vec::new();
    for (at, (name, n)) in NAMES.iter().zip(numbers).enumerate() {
        let Some(measure) = hours.before.get_mut(at) else { continue };
        let y = (1.0 + n as f64).ln();
        let z = deviation(y, measure);
        let is_compared = measure.values.len() >= settings.points && !is_training;
        // Without hours of training a few changes are what is usual.
        let is_scored = at != JA3_CHANGES || settings.training_hours > 0 || n >= settings.ja3_least;
        if is_compared && is_scored && z >= settings.hourly {
            reasons.push((*name, n, z));
        }
        // Between the two thresholds odd flows decide.
        if !is_compared || z <= settings.adapts || (z < settings.hourly && is_quiet) {
            take_in(y, measure, HOURS_MAX);
        } else {
            set_aside(y, measure, settings);
        }
    }
    hours.odd.retain(|h| hours.hour - h < 3);
    if reasons.is_empty() {
        return None;
    }
    hours.odd.push(hours.hour);
    let most = reasons.iter().map(|r| r.2).fold(0.0, f64::max);
    let compared = hours.before.iter().map(|m| m.values.len()).max().unwrap_or(0);
    let confidence = confidence(most, hours.odd.len(), compared, reasons.len());
    Some(Odd { reasons, confidence })
}

/// A value that is like those before becomes one of them.
fn take_in(y: f64, measure: &mut Measure, most: usize) {
    measure.aside.clear();
    if measure.values.len() >= most {
        measure.values.remove(0);
    }
    measure.values.push((y * UNIT) as u32);
}

/// A value that is not like those before is remembered; enough of them are what is usual from now on.
fn set_aside(y: f64, measure: &mut Measure, settings: &HttpsSettings) {
    measure.aside.push((y * UNIT) as u32);
    if measure.aside.len() < settings.window {
        return;
    }
    if settings.is_adaptive && differ(&measure.values, &measure.aside, settings.delta) {
        measure.values = std::mem::take(&mut measure.aside);
    } else {
        measure.aside.remove(0);
    }
}

/// Whether the means of two runs of values differ beyond chance: ADWIN's bound, with the variance of
/// each run by itself.
fn differ(before: &[u32], after: &[u32], delta: f64) -> bool {
    let mean = |of: &[u32]| of.iter().map(|v| f64::from(*v)).sum::<f64>() / of.len().max(1) as f64;
    let variance = |of: &[u32]| {
        let m = mean(of);
        of.iter().map(|v| (f64::from(*v) - m).powi(2)).sum::<f64>() / of.len().max(1) as f64
    };
    let (n0, n1) = (before.len() as f64, after.len() as f64);
    if n0 < 1.0 || n1 < 1.0 {
        return false;
    }
    let harmonic = 1.0 / (1.0 / n0 + 1.0 / n1);
    let log = (2.0 * (n0 + n1).ln().max(1.0) / delta.clamp(1e-9, 1.0)).ln();
    let spread = variance(before).max(variance(after)) / (UNIT * UNIT);
    let bound = (2.0 / harmonic * spread * log).sqrt() + 2.0 / (3.0 * harmonic) * log;
    ((mean(before) - mean(after)) / UNIT).abs() > bound.min(1.0)
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
    use crate::trial::{Trial, conn, has_values, log};

    /// A number of servers for each hour; new ones are named by the hour.
    fn hours(servers: &[(u32, u32)]) -> Vec<gabion_record::evidence::Evidence> {
        let mut trial = Trial::new();
        for (hour, (known, new)) in servers.iter().enumerate() {
            for n in 0..known + new {
                let name = if n < *known {
                    format!("s{n}.example")
                } else {
                    format!("n{hour}x{n}.example")
                };
                let s = Ssl { server_name: name.as_bytes(), ja3: b"x", ..Ssl::default() };
                let second = hour as i64 * 3600 + i64::from(n % 3000);
                trial.record(&log(second, "10.0.0.1", "1.2.3.4", Body::Ssl(s)));
            }
        }
        trial.end();
        trial.evidence_of(&TYPE)
    }

    #[test]
    fn an_hour_unlike_those_before_is_reported() {
        let mut usual = vec![(20, 0); 10];
        usual.push((20, 300));
        usual.push((20, 0));
        let found = hours(&usual);
        assert_eq!(found.len(), 1);
        assert!(has_values(&found[0], &["new_servers", "300"]));
        assert_eq!(found[0].window, 11);
    }

    #[test]
    fn an_hour_a_little_unlike_or_too_early_is_not() {
        let mut usual: Vec<(u32, u32)> = (0..12).map(|n| (20 + n % 3, n % 2)).collect();
        usual.push((24, 2));
        let found = hours(&usual);
        assert!(found.is_empty(), "{found:?}");
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

    /// What lasts is usual: after five hours at another level nothing is odd about it, and a sixth at the
    /// old one would be.
    #[test]
    fn what_lasts_becomes_usual() {
        let mut level: Vec<(u32, u32)> = vec![(20, 0); 10];
        level.extend([(200, 0); 20]);
        let found = hours(&level);
        assert!((5..=7).contains(&found.len()), "{}", found.len());
        let ends = found.iter().map(|e| e.window).max();
        assert!(ends.is_some_and(|w| w < 18), "{ends:?}");
    }

    /// A flow to a known server that carries far more than flows there do.
    #[test]
    fn a_flow_unlike_those_to_known_servers_is_reported() {
        let run = |bytes: u64, before: i64, hour: i64| {
            let mut trial = Trial::new();
            let s = Ssl { server_name: b"a.example", ..Ssl::default() };
            trial.record(&log(0, "10.0.0.1", "1.2.3.4", Body::Ssl(s)));
            for n in 0..before {
                let usual = conn(hour + n * 10, "10.0.0.1", "1.2.3.4", 443);
                trial.give(&usual.sending(1000 + n as u64 % 7 * 40));
            }
            let last = conn(hour + 2000, "10.0.0.1", "1.2.3.4", 443).sending(bytes);
            trial.give(&last);
            trial.give(&last);
            trial.evidence_of(&TYPE)
        };
        let found = run(50_000_000, 40, 3600);
        assert_eq!(found.len(), 1);
        let values = ["flow", "bytes_to_known_server", "50000100"];
        assert!(has_values(&found[0], &values), "{}", found[0].description());
        // Alike, too few to compare with, or a server that is new in this hour: nothing.
        assert!(run(1200, 40, 3600).is_empty());
        assert!(run(50_000_000, 14, 3600).is_empty());
        assert!(run(50_000_000, 40, 0).is_empty());
    }

    #[test]
    fn means_differ_beyond_chance_only() {
        assert!(differ(&[3000; 10], &[5300; 5], 0.01));
        assert!(!differ(&[3000; 10], &[3100; 5], 0.01));
        assert!(!differ(&[], &[5300; 5], 0.01));
    }
}
