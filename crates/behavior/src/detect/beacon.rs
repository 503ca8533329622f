//! The same two hosts at regular intervals: a beacon, scored as RITA does, with the parts of the score
//! in the evidence.
//!
//! From the fourth flow of a pair on its times and sizes are kept exactly for a day (at most
//! `FLOWS_MAX`; what is more is said). Once an hour of event time, and at the end, the day is scored:
//! how alike intervals are (skew and spread of their quartiles), how alike sizes are, how evenly flows
//! fill the 24 parts of the day, and how much of the day they cover.

use super::{About, Detector, bit};
use crate::finding::Context;
use crate::profile::Waking;
use crate::rita::{self, Beside};
use crate::sketch::{Keyed, hash_ip};
use crate::state::{Most, Slot, state};
use gabion_record::Ip;
use gabion_record::evidence::{EvidenceType, Party, ThreatLevel};
use gabion_record::logs::{Body, LogKind, SECOND, TimeNs};

/// Its evidence.
pub static TYPE: EvidenceType = EvidenceType { name: "BEACON", technique: "T1071" };

/// The detector.
#[derive(Debug)]
pub struct Beacon;

/// Pairs of a source, by how lately they were seen.
const PAIRS_MAX: usize = 16;
/// Flows of a pair kept exactly.
const FLOWS_MAX: usize = 1024;
/// Flows before a pair is kept.
const BEGINNING: u8 = 3;
/// Cells that count flows before that.
const CELLS: usize = 64;
/// What is scored.
const DAY: i64 = 86_400;
/// Distance of scorings.
const HOUR: i64 = 3_600;
/// Silence up to which a pair is scored on, seconds.
const SILENT: i64 = 2 * HOUR - 1;
/// Flows that are told of; fewer are regular by chance.
const FLOWS_TOLD: usize = 24;
/// What a pair's flows cover at least before they are told of while the input goes on.
const SPAN_LEAST: i64 = 6 * HOUR;
/// Scores (thousandths) that are told of, and the level from each on: RITA's medium and high.
const TOLD: [(u16, ThreatLevel); 2] = [(900, ThreatLevel::High), (800, ThreatLevel::Medium)];

state! {
    /// Pairs of one source.
    pub struct Pairs {
        /// Flows by hash of the destination, until they are worth a pair.
        seen: Vec<u8>,
        pairs: Keyed<Ip, Pair, PAIRS_MAX>,
        first: Most<u32>,
        scored: TimeNs,
    }
}

state! {
    /// One destination.
    pub struct Pair {
        /// Second and bytes, in order.
        flows: Vec<(u32, u32)>,
        /// Second of the last of them.
        last: Most<u32>,
        /// Flows of the day that had no room.
        more: u64,
        port: Most<u16>,
        told: Most<u16>,
        window: Most<u32>,
        beside: Beside,
    }
}

impl Pairs {
    /// Destinations whose flows are kept exactly: port, and second and bytes of each.
    pub fn each(&self) -> impl Iterator<Item = (Ip, u16, &[(u32, u32)])> {
        self.pairs.iter().map(|(ip, pair)| (*ip, pair.port.0, pair.flows.as_slice()))
    }
}

impl Detector for Beacon {
    type Window = ();
    type Kept = Pairs;
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "RITA's beacon score of a pair's flows of the last 24 h reaches 0.8, or 0.9: the mean \
            of the regularity of intervals, of sizes, of the histogram of the day and of its coverage; \
            at least 24 flows over 6 h; scored once an hour, and at the end over whatever there is; the \
            text names RITA's threat score as well, which knows how many of the site's hosts talk with \
            the other end, since when, whether lists name it and how much went there, whether requests \
            name a host, whether answers are what their paths say, and whether the user agent or JA3 is \
            used for that end only",
        level: "from 0.9 on high, from 0.8 medium; the score",
        settings: &[],
    };
    const KINDS: u16 = bit(LogKind::Conn) | bit(LogKind::Http) | bit(LogKind::Ssl);

    #[inline]
    fn record(_: &mut Slot<()>, kept: &mut Slot<Pairs>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let c = match &r.body {
            Body::Conn(c) => c,
            Body::Http(_) | Body::Ssl(_) if !r.is_late => {
                if let Some(pair) = kept.get().and_then(|pairs| pairs.pairs.get(r.dst)) {
                    pair.beside.ask(r, cx.signature);
                }
                return;
            }
            _ => return,
        };
        if r.is_late || r.dst.is_multicast() || r.dst.is_broadcast() {
            return;
        }
        let pairs = kept.make();
        if pairs.seen.is_empty() {
            pairs.seen = vec![0; CELLS];
        }
        // Who has a pair has filled its cell before.
        let Some(cell) = pairs.seen.get_mut(hash_ip(r.dst) as usize % CELLS) else { return };
        if *cell < BEGINNING {
            *cell += 1;
            return;
        }
        let Ok(second) = u32::try_from(r.ts.seconds()) else { return };
        let bytes = if c.orig_ip_bytes > 0 { c.orig_ip_bytes } else { c.orig_bytes };
        let newest = |_: &Ip, p: &Pair| (p.told.0, p.last.0);
        let Some(pair) = pairs.pairs.get_or_admit(r.dst, |_| true, newest) else { return };
        if pair.flows.len() >= FLOWS_MAX {
            forget(pair, second);
        }
        if pair.flows.len() >= FLOWS_MAX {
            pair.more += 1;
        } else {
            pair.flows.push((second, u32::try_from(bytes).unwrap_or(u32::MAX)));
            pair.last = Most(second);
        }
        pair.beside.see(c, r.ts, &cx.facts.prevalence);
        pair.port = Most(r.dst_port);
        pair.window = Most(u32::try_from(cx.facts.window).unwrap_or(0));
        let start = u32::try_from(cx.facts.start.seconds()).unwrap_or(0);
        pairs.first = Most(start);
        cx.wake(r.ts.plus(HOUR * SECOND));
    }

    fn wake(kept: &mut Slot<Pairs>, waking: &mut Waking<'_>) {
        let Some(pairs) = kept.get() else { return };
        let hour = HOUR * SECOND;
        if pairs.pairs.is_empty() {
            return;
        }
        let since = waking.now.since(pairs.scored);
        if !waking.is_end && pairs.scored != TimeNs::default() && (0..hour).contains(&since) {
            *waking.timer = (*waking.timer).min(pairs.scored.plus(hour));
            return;
        }
        pairs.scored = waking.now;
        let Ok(now) = u32::try_from(waking.now.seconds()) else { return };
        let first = pairs.first.0;
        pairs.pairs.retain(|dst, pair| {
            forget(pair, now);
            judge(*dst, pair, (first, now), waking);
            !pair.flows.is_empty()
        });
        // A pair that falls silent is let go of with its profile. One flow of the future is no reason to ask
        // every hour until then.
        let latest = pairs.pairs.iter().filter_map(|(_, p)| p.flows.last()).map(|f| f.0).max();
        let next = latest.and_then(|l| match i64::from(now) - i64::from(l) {
            ..0 => Some(TimeNs(i64::from(l) * SECOND).plus(hour)),
            0..=SILENT => Some(waking.now.plus(hour)),
            _ => None,
        });
        if let Some(next) = next {
            *waking.timer = (*waking.timer).min(next);
        }
    }
}

/// Lets go of what is older than a day; the begin is rounded down to the hour.
fn forget(pair: &mut Pair, now: u32) {
    let begin = i64::from(now) - DAY;
    let begin = begin - begin.rem_euclid(HOUR);
    pair.flows.retain(|(second, _)| i64::from(*second) >= begin);
}

fn judge(dst: Ip, pair: &mut Pair, (first, now): (u32, u32), waking: &mut Waking<'_>) {
    if pair.flows.len() < FLOWS_TOLD {
        return;
    }
    let covered = pair.flows.last().zip(pair.flows.first()).map_or(0, |(l, f)| l.0 - f.0.min(l.0));
    if !waking.is_end && i64::from(covered) < SPAN_LEAST {
        return;
    }
    let begin = i64::from(first).max(i64::from(now) - DAY);
    let Some(score) = score(&pair.flows, begin, i64::from(now)) else { return };
    let thousandths = (score.all * 1000.0).round() as u16;
    let Some((step, level)) = TOLD.iter().find(|(least, _)| thousandths >= *least) else { return };
    // At the end of the input the numbers of its last day are told once more.
    if pair.told.0 >= *step && !waking.is_end {
        return;
    }
    pair.told = Most(*step);
    let at = pair.flows.last().map_or(now, |f| f.0);
    let ts = TimeNs(i64::from(at) * SECOND);
    let window = i64::from(pair.window.0);
    let more = match pair.more {
        0 => String::new(),
        n => format!(" {n} further flows had no room."),
    };
    let (port, count) = (pair.port.0, pair.flows.len());
    let base = rita::bucket(score.all * 100.0, rita::BEACON);
    let (threat, why) = pair.beside.score(base, dst, ts, waking.settings);
    let since = pair.flows.first().map_or(ts, |f| TimeNs(i64::from(f.0) * SECOND));
    let mut finding = waking
        .find(&TYPE, ts, window)
        .level(*level, score.all)
        .port_now(port)
        .since(since, count as u64)
        .score(score.all)
        .by("Statistical")
        .says("Beacon from {profile} to {dst}, {count} connections. Score: {score} ({0}). Threat {1}.{2}")
        .word(format!(
            "intervals {:.3}, sizes {:.3}, histogram {:.3} of {:.3} and {:.3}, coverage {:.3}",
            score.intervals,
            score.sizes,
            score.histogram(),
            score.evenness,
            score.bimodal,
            score.coverage
        ))
        .word(format!("{threat:.3} ({why})"))
        .word(more);
    finding.0.victim = Some(Party::destination(dst));
    waking.say(finding);
}

/// A score and its parts, each 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// The mean of the four.
    pub all: f64,
    /// Of intervals.
    pub intervals: f64,
    /// Of sizes.
    pub sizes: f64,
    /// Of the histogram: how little its bins vary.
    pub evenness: f64,
    /// Of the histogram: how much of it has two heights only.
    pub bimodal: f64,
    /// How much of the span is covered.
    pub coverage: f64,
}

impl Score {
    /// The better view of the histogram.
    pub fn histogram(&self) -> f64 {
        self.evenness.max(self.bimodal)
    }
}

/// Scores flows (second, bytes) of a span; `None` when there are too few.
pub fn score(flows: &[(u32, u32)], begin: i64, end: i64) -> Option<Score> {
    let mut times: Vec<i64> = flows.iter().map(|f| i64::from(f.0)).collect();
    times.sort_unstable();
    let mut unique = times.clone();
    unique.dedup();
    if unique.len() < 4 || flows.len() >= DAY as usize {
        return None;
    }
    let mut intervals: Vec<f64> =
        unique.windows(2).filter_map(|w| Some((w.get(1)? - w.first()?) as f64)).collect();
    let mut sizes: Vec<f64> = flows.iter().map(|f| f64::from(f.1)).collect();
    if intervals.len() < 3 || sizes.len() < 3 {
        return None;
    }
    let bins = histogram(&times, begin, end);
    let used = bins.iter().filter(|n| **n > 0).count();
    let span = (end - begin).max(1) as f64;
    let covered = (times.last()? - times.first()?) as f64;
    let intervals = regularity(&mut intervals, 1.0);
    let sizes = regularity(&mut sizes, 0.0);
    let evenness = evenness(&bins);
    let bimodal = if used >= 11 { bimodal(&bins, used) } else { 0.0 };
    let coverage = match used {
        0..6 => 0.0,
        _ => ceil3(covered / span).min(1.0).max(ceil3(longest_run(&bins) as f64 / 12.0).min(1.0)),
    };
    let parts = intervals + sizes + coverage + evenness.max(bimodal);
    Some(Score { all: round3(parts / 4.0), intervals, sizes, evenness, bimodal, coverage })
}

/// Parts of the day.
const BINS: usize = 24;

fn histogram(times: &[i64], begin: i64, end: i64) -> [u32; BINS] {
    let mut bins = [0u32; BINS];
    let width = (end - begin).max(1) as f64 / BINS as f64;
    for t in times {
        let at = (((t - begin) as f64) / width).clamp(0.0, (BINS - 1) as f64) as usize;
        if let Some(bin) = bins.get_mut(at) {
            *bin += 1;
        }
    }
    bins
}

/// How alike values are: by Bowley's skew of their quartiles and their median's deviation.
/// `otherwise` counts for the deviation when the median is below 1.
fn regularity(values: &mut [f64], otherwise: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    let (lower, upper) = (values.get(..half), values.get(values.len() - half..));
    let q1 = median(lower.unwrap_or_default());
    let q2 = median(values);
    let q3 = median(upper.unwrap_or_default());
    let range = q3 - q1;
    let skew = if range < 10.0 || q2 == q1 || q2 == q3 { 0.0 } else { (q1 + q3 - 2.0 * q2) / range };
    let mut distances: Vec<f64> = values.iter().map(|x| (x - q2).abs()).collect();
    distances.sort_unstable_by(f64::total_cmp);
    let deviation = median(&distances);
    let even = if q2 >= 1.0 { ((q2 - deviation) / q2).max(0.0) } else { otherwise };
    round3((1.0 - skew.abs() + even) / 2.0)
}

fn median(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    let at = |i: usize| sorted.get(i).copied().unwrap_or(0.0);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => at(half),
        _ => (at(half - 1) + at(half)) / 2.0,
    }
}

fn evenness(bins: &[u32; BINS]) -> f64 {
    let n = BINS as f64;
    let mean = bins.iter().map(|b| f64::from(*b)).sum::<f64>() / n;
    if mean == 0.0 {
        return 0.0;
    }
    let variance = bins.iter().map(|b| (f64::from(*b) - mean).powi(2)).sum::<f64>() / n;
    round3((1.0 - variance.sqrt() / mean).max(0.0))
}

fn bimodal(bins: &[u32; BINS], used: usize) -> f64 {
    let most = bins.iter().copied().max().unwrap_or(0);
    let step = (f64::from(most) * 0.05).ceil().max(1.0) as u32;
    let mut heights: Vec<u32> = bins.iter().filter(|b| **b > 0).map(|b| b / step).collect();
    heights.sort_unstable();
    let mut counts: Vec<usize> = heights.chunk_by(|a, b| a == b).map(<[u32]>::len).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let two: usize = counts.iter().take(2).sum();
    round3((two as f64 / (used - 1).max(1) as f64).min(1.0))
}

/// The longest run of used bins, the day taken as a circle.
fn longest_run(bins: &[u32; BINS]) -> usize {
    let (mut run, mut longest) = (0, 0);
    for bin in bins.iter().chain(bins.iter()) {
        run = if *bin > 0 { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest.min(BINS)
}

fn round3(x: f64) -> f64 {
    (x * 1000.0).round() / 1000.0
}

fn ceil3(x: f64) -> f64 {
    (x * 1000.0).ceil() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, conn, log};
    use gabion_record::logs::Http;

    fn visits(every: impl Fn(i64) -> i64, count: i64) -> Trial {
        let mut trial = Trial::new();
        for n in 0..count {
            trial.give(&conn(every(n), "10.0.0.1", "1.2.3.4", 443));
        }
        trial.end();
        trial
    }

    /// D9 of the peer: a regular channel is seen whatever the words of its flows' states.
    #[test]
    fn a_day_of_regular_visits_is_a_beacon() {
        let trial = visits(|n| n * 300, 280);
        let found = trial.of(&TYPE);
        // When it crossed, and at the end of the input.
        assert_eq!(found.iter().map(|e| e.measures.count).collect::<Vec<_>>(), [81, 277]);
        assert_eq!(found[0].level, ThreatLevel::High);
        assert!(found[0].confidence > 0.95);
    }

    /// The program that calls is the source's own for that server, beside a browser; the browser for both
    /// takes that away.
    #[test]
    fn what_requests_say_is_in_the_threat() {
        let threat = |agent: &str| {
            let mut trial = Trial::new();
            for n in 0..100 {
                trial.give(&conn(n * 300, "10.0.0.1", "1.2.3.4", 80));
                let elsewhere = format!("5.6.7.{}", n % 5);
                for (dst, user_agent) in [("1.2.3.4", agent), (elsewhere.as_str(), "Firefox")] {
                    let user_agent = user_agent.as_bytes();
                    let h = Http { host: b"a", user_agent, ..Http::default() };
                    trial.record(&log(n * 300 + 1, "10.0.0.1", dst, Body::Http(h)));
                }
            }
            trial.end();
            trial.of(&TYPE)[0].description().clone()
        };
        let said = threat("Modzilla/0.0001");
        assert!(said.contains(", signature for this end only +0.15)"), "{said}");
        assert!(!threat("Firefox").contains("signature"));
    }

    #[test]
    fn irregular_or_few_visits_are_none() {
        let steps = |n: i64| (n * n * 7919) % 80_000;
        let mut order: Vec<i64> = (0..200).map(steps).collect();
        order.sort_unstable();
        let trial = visits(|n| order.get(n as usize).copied().unwrap_or(0), 200);
        assert!(trial.of(&TYPE).iter().all(|e| e.level < ThreatLevel::High));
        assert!(visits(|n| n * 3600, 20).of(&TYPE).is_empty());
    }

    /// Ten thousand destinations and a flood to one: room is bounded, and what is left out is said.
    #[test]
    fn room_is_bounded() {
        let mut trial = Trial::new();
        for n in 0..40_000i64 {
            let dst = format!("9.9.{}.{}", n / 250 % 200, n % 250);
            trial.give(&conn(n / 10, "10.0.0.1", &dst, 443));
            trial.give(&conn(n / 10, "10.0.0.1", "1.2.3.4", 443));
        }
        assert!(trial.profile_bytes("10.0.0.1") < 96 << 10);
        trial.end();
    }

    /// A flow of the year 2020 in 1970 is waited for, not asked about in each hour of the fifty years.
    #[test]
    fn one_flow_of_the_future_wakes_once() {
        const AGE: i64 = 50 * 365 * DAY;
        let mut trial = Trial::new();
        (0..4).for_each(|n| trial.give(&conn(n, "10.0.0.1", "1.2.3.4", 443)));
        trial.give(&conn(AGE, "10.0.0.1", "1.2.3.4", 443));
        // Two hours later, by another's flow, whoever waits is asked.
        trial.give(&conn(2 * HOUR, "10.0.0.2", "9.9.9.9", 443));
        let profile = trial.engine.profile(crate::trial::at("10.0.0.1")).unwrap();
        assert!(profile.timer().seconds() >= AGE, "{}", profile.timer().seconds());
    }

    #[test]
    fn parts_of_the_score_are_ritas() {
        // Bowley's skew of 1..8 is 0; the median 4.5 deviates by 2.
        assert_eq!(regularity(&mut [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], 1.0), 0.778);
        assert_eq!(evenness(&[5; BINS]), 1.0);
        assert_eq!(bimodal(&[7; BINS], 24), 1.0);
        let mut night = [0; BINS];
        night[22..].fill(1);
        night[..3].fill(1);
        assert_eq!(longest_run(&night), 5);
        assert_eq!(score(&[(1, 1), (1, 1), (2, 1)], 0, 10), None);
    }
}
