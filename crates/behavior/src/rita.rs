//! RITA's threat score of a pair: where a number lies between its thresholds, and what is added or
//! taken away for what else is known.
//!
//! A number below its base is worth nothing; from there the score rises in three straight pieces,
//! 0.2 to 0.4 to 0.6 to 0.8, and ends there; an end that lists name is worth 0.8 by itself. Then: talked to
//! by at most 2 % of the site's hosts +0.15, by half of them or more −0.15; first talked to at most 7 days
//! ago +0.15, 30 days or more −0.15; requests without a `Host` +0.10; answers whose type does not fit their
//! path +0.15; a user agent or JA3 that the source uses for this end only, among others +0.15; 25 MB or
//! more within a day with an end that lists name +0.15; names below a domain that nothing is connected to
//! +0.15. All numbers are those of RITA v5 (2026).

use crate::intel::indicator::Indicator;
use crate::mime;
use crate::prevalence::Prevalence;
use crate::settings::Settings;
use crate::state::{First, Most, state};
use gabion_record::Ip;
use gabion_record::logs::{Body, Conn, Record, SECOND, TimeNs};
use std::fmt::Write;

/// Of beacons, in hundredths: base, low, medium, high.
pub(crate) const BEACON: [f64; 4] = [50.0, 70.0, 90.0, 100.0];
/// Of the seconds that a pair is connected in all within a day.
pub(crate) const LONG: [f64; 4] = [3_600.0, 14_400.0, 28_800.0, 43_200.0];
/// Of the distinct names below a registered domain within a day.
pub(crate) const DNS: [f64; 4] = [100.0, 500.0, 800.0, 1_000.0];
/// What a pair of a strobe is worth, and one with an end that lists name.
pub(crate) const HIGH: f64 = 0.8;

/// Shares of hosts at most and at least, and what they add.
const RARE: (f64, f64) = (0.02, 0.15);
const COMMON: (f64, f64) = (0.50, -0.15);
/// Days since the first flow at most and at least.
const NEW: (i64, f64) = (7, 0.15);
const OLD: (i64, f64) = (30, -0.15);
/// Requests without a `Host`.
const NAMELESS: f64 = 0.10;
/// Answers whose type does not fit their path.
const MISMATCHED: f64 = 0.15;
/// A signature for one end only.
const OWN_SIGNATURE: f64 = 0.15;
/// Bytes of a day with a listed end, at least.
const LISTED: (u64, f64) = (25_000_000, 0.15);
/// Names below a domain that nothing is connected to.
const UNCONNECTED: f64 = 0.15;
const DAY_NS: i64 = 86_400 * SECOND;

/// Where a number stands between its thresholds.
pub(crate) fn bucket(value: f64, steps: [f64; 4]) -> f64 {
    let [base, low, medium, high] = steps;
    let part = |from: f64, to: f64| (value.min(to) - from) / (to - from) * 0.2;
    match value {
        v if v < base => 0.0,
        v if v < low => 0.2 + part(base, low),
        v if v < medium => 0.4 + part(low, medium),
        _ => 0.6 + part(medium, high),
    }
}

/// Why a score is what it is.
#[derive(Clone, Copy, Debug, Default)]
enum Why {
    #[default]
    Nothing,
    /// A number of hosts among all of the site.
    Hosts(u32, u32),
    /// Days ago.
    FirstSeen(i64),
    /// Requests.
    Nameless(u32),
    /// Answers.
    Mismatched(u32),
    OwnSignature,
    /// Megabytes.
    Listed(u64),
    Unconnected,
}

/// Reasons that a score may have.
const REASONS_MAX: usize = 7;

/// A score with its reasons, which become words where somebody reads them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Score {
    base: f64,
    is_listed: bool,
    sum: f64,
    why: [(Why, f64); REASONS_MAX],
    reasons: usize,
}

impl Score {
    fn from_base(base: f64, is_listed: bool) -> Score {
        let is_listed = is_listed && base <= HIGH;
        let base = if is_listed { HIGH } else { base };
        Score { base, is_listed, sum: base, why: Default::default(), reasons: 0 }
    }

    fn add(&mut self, by: f64, why: Why) {
        self.sum += by;
        if let Some(place) = self.why.get_mut(self.reasons) {
            *place = (why, by);
            self.reasons += 1;
        }
    }

    /// The score, 0 to 1 in thousandths.
    pub(crate) fn threat(&self) -> f64 {
        (self.sum.clamp(0.0, 1.0) * 1000.0).round() / 1000.0
    }

    /// The score, and after it where it comes from.
    pub(crate) fn words(&self) -> String {
        format!("{:.3} ({})", self.threat(), self.reasons())
    }

    fn reasons(&self) -> String {
        let mut words = format!("{:.3}", self.base);
        if self.is_listed {
            words.push_str(" as listed");
        }
        for (why, by) in self.why.iter().take(self.reasons) {
            // Writing to memory cannot fail.
            let _ = match why {
                Why::Nothing => Ok(()),
                Why::Hosts(hosts, of) => write!(words, ", {hosts} of {of} hosts"),
                Why::FirstSeen(days) => write!(words, ", first seen {days} days ago"),
                Why::Nameless(n) => write!(words, ", {n} requests without host"),
                Why::Mismatched(n) => {
                    write!(words, ", {n} answers of another type than their path")
                }
                Why::OwnSignature => write!(words, ", signature for this end only"),
                Why::Listed(mb) => write!(words, ", {mb} MB with a listed end"),
                Why::Unconnected => write!(words, ", no connection below it"),
            };
            let _ = write!(words, " {by:+.2}");
        }
        words
    }
}

/// The signature of the program that a record's source used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    /// Its hash.
    pub hash: u64,
    /// The source uses it for this end only, and others more widely.
    pub is_own: bool,
}

state! {
    /// What is known of a pair in addition to its flows.
    pub struct PairModifiers {
        /// As it was last: the site's hosts that talk with the end outside, and all.
        hosts: Most<u32>,
        of: Most<u32>,
        first: First,
        /// Requests without a `Host`.
        nameless: u32,
        /// Answers whose type does not fit their path.
        mismatched: u32,
        /// The signature that is for this end only, 0 when there is none.
        signature: Most<u64>,
        /// Bytes both ways since `day`, which begins again after a day.
        bytes: u64,
        day: First,
    }
}

impl PairModifiers {
    /// Prefetches what a flow changes.
    #[inline]
    pub(crate) fn prefetch(&self) -> usize {
        self.hosts.0 as usize ^ self.day.0.0 as usize
    }

    /// Takes in a flow of the pair, and what the site knows at it.
    #[inline]
    pub(crate) fn see(&mut self, c: &Conn<'_>, ts: TimeNs, known: &Prevalence) {
        if known.hosts > 0 {
            (self.hosts, self.of) = (Most(known.hosts), Most(known.of));
            self.first.see(known.first);
        }
        if ts.since(self.day.0) > DAY_NS {
            (self.bytes, self.day) = (0, First::default());
        }
        self.day.see(ts);
        let bytes =
            c.orig_ip_bytes.max(c.orig_bytes).saturating_add(c.resp_ip_bytes.max(c.resp_bytes));
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Takes a request or a handshake of the pair in.
    pub(crate) fn ask(&mut self, r: &Record<'_>, signature: Option<Signature>) {
        if let Body::Http(h) = &r.body {
            self.nameless = self.nameless.saturating_add(u32::from(h.host.is_empty()));
            self.mismatched = self.mismatched.saturating_add(u32::from(mime::is_mismatched(h)));
        }
        match signature {
            Some(Signature { hash, is_own: true }) => self.signature = Most(hash),
            Some(Signature { hash, is_own: false }) if hash == self.signature.0 => {
                self.signature = Most(0)
            }
            _ => {}
        }
    }

    /// The score of a pair with `dst` that is worth `base` by itself, and where it comes from.
    pub(crate) fn score(&self, base: f64, dst: Ip, now: TimeNs, settings: &Settings) -> Score {
        let intel = &settings.intel;
        // The entry itself is asked for, since its time may be over.
        let is_listed = !dst.is_ignored()
            && intel.ip(dst).is_some_and(|m| intel.entry(&m, &Indicator::Ip(dst), now).is_some());
        let mut sum = Score::from_base(base, is_listed);
        let known = Prevalence { hosts: self.hosts.0, of: self.of.0, first: self.first.0 };
        if let Some(share) = known.share() {
            let by = match share {
                s if s <= RARE.0 => RARE.1,
                s if s >= COMMON.0 => COMMON.1,
                _ => 0.0,
            };
            sum.add(by, Why::Hosts(known.hosts, known.of));
            let days = now.since(known.first).max(0) / DAY_NS;
            let by = match now.since(known.first) {
                ns if ns <= NEW.0 * DAY_NS => NEW.1,
                ns if ns >= OLD.0 * DAY_NS => OLD.1,
                _ => 0.0,
            };
            sum.add(by, Why::FirstSeen(days));
        }
        if self.nameless > 0 {
            sum.add(NAMELESS, Why::Nameless(self.nameless));
        }
        if self.mismatched > 0 {
            sum.add(MISMATCHED, Why::Mismatched(self.mismatched));
        }
        if self.signature.0 != 0 {
            sum.add(OWN_SIGNATURE, Why::OwnSignature);
        }
        if is_listed && self.bytes >= LISTED.0 {
            sum.add(LISTED.1, Why::Listed(self.bytes / 1_000_000));
        }
        sum
    }
}

/// The score of one flow's pair that is worth `base` by itself, with what the site knows of its other end; 0 where it
/// is worth nothing by itself.
pub(crate) fn of_flow(
    base: f64,
    known: &Prevalence,
    dst: Ip,
    now: TimeNs,
    settings: &Settings,
) -> f64 {
    if base <= 0.0 {
        return 0.0;
    }
    let mut modifiers = PairModifiers::default();
    modifiers.see(&Conn::default(), now, known);
    modifiers.score(base, dst, now, settings).threat()
}

/// The score of a domain below which `names` names were asked for. `connections` are those to names below
/// it, `None` if the input has no log that names the destinations of connections.
pub(crate) fn of_names(
    names: u64,
    connections: Option<u64>,
    domain: &[u8],
    now: TimeNs,
    settings: &Settings,
) -> Score {
    let intel = &settings.intel;
    let asked = Indicator::Domain(domain);
    let is_listed = intel.domain(domain).is_some_and(|m| intel.entry(&m, &asked, now).is_some());
    let mut sum = Score::from_base(bucket(names as f64, DNS), is_listed);
    if connections == Some(0) {
        sum.add(UNCONNECTED, Why::Unconnected);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intel::Purpose;
    use crate::intel::tests::intel;
    use crate::trial::log;
    use gabion_record::logs::{Http, List};
    use std::sync::Arc;

    const THERE: &str = "1.2.3.4";

    fn there() -> Ip {
        crate::trial::at(THERE)
    }

    fn flow(bytes: u64) -> Conn<'static> {
        Conn { orig_bytes: bytes, ..Conn::default() }
    }

    fn ask(modifiers: &mut PairModifiers, h: Http<'_>, signature: Option<Signature>) {
        modifiers.ask(&log(0, "10.0.0.1", THERE, Body::Http(h)), signature);
    }

    fn named(host: &[u8]) -> Http<'_> {
        Http { host, ..Http::default() }
    }

    fn score(modifiers: &PairModifiers, base: f64, now: TimeNs) -> (f64, String) {
        both(&modifiers.score(base, there(), now, &Settings::default()))
    }

    fn both(score: &Score) -> (f64, String) {
        (score.threat(), score.reasons())
    }

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
    fn further_knowledge_adds_and_takes_away() {
        let day = |n: i64| TimeNs(n * DAY_NS);
        let mut modifiers = PairModifiers::default();
        modifiers.see(&flow(1), day(3), &Prevalence { hosts: 1, of: 1, first: day(0) });
        (0..330).for_each(|_| ask(&mut modifiers, named(b""), None));
        ask(&mut modifiers, named(b"example.com"), None);
        let (worth, words) = score(&modifiers, 0.8, day(3));
        assert_eq!(worth, 0.9);
        assert_eq!(
            words,
            "0.800, 1 of 1 hosts -0.15, first seen 3 days ago +0.15, 330 requests without host +0.10"
        );
        for (hosts, of, days, worth) in [
            (2, 100, 10, 0.55),
            (3, 100, 10, 0.4),
            (49, 100, 7, 0.55),
            (50, 100, 8, 0.25),
            (50, 100, 30, 0.1),
            (1, 100, 0, 0.7),
        ] {
            let mut modifiers = PairModifiers::default();
            modifiers.see(&flow(1), day(days), &Prevalence { hosts, of, first: day(0) });
            assert!((score(&modifiers, 0.4, day(days)).0 - worth).abs() < 1e-9, "{hosts} {days}");
        }
        assert_eq!(score(&PairModifiers::default(), 0.4, day(3)), (0.4, "0.400".to_owned()));
    }

    /// 25 MB of one day with an address that a list names, just less, and as much over two days.
    #[test]
    fn much_with_a_listed_end_adds() {
        let list =
            intel(&[("own", Purpose::Indicators, "1.2.3.4,high,x\nbad.example,high,y\n")], 17);
        let settings = Settings { intel: Arc::new(list), ..Settings::default() };
        let after = |flows: &[(i64, u64)]| {
            let mut modifiers = PairModifiers::default();
            for (second, bytes) in flows {
                let ts = TimeNs(second * SECOND);
                modifiers.see(&flow(*bytes), ts, &Prevalence::default());
            }
            both(&modifiers.score(0.3, there(), TimeNs(0), &settings))
        };
        let (worth, words) = after(&[(0, 24_000_000), (86_400, 1_000_000)]);
        assert_eq!(
            (worth, words.as_str()),
            (0.95, "0.800 as listed, 25 MB with a listed end +0.15")
        );
        assert_eq!(after(&[(0, 24_999_999)]), (0.8, "0.800 as listed".to_owned()));
        assert_eq!(after(&[(0, 24_000_000), (86_401, 1_000_000)]).0, 0.8);
        assert_eq!(after(&[(i64::MAX / SECOND, u64::MAX), (i64::MIN / SECOND, u64::MAX)]).0, 0.95);
        let mut modifiers = PairModifiers::default();
        modifiers.see(&flow(30_000_000), TimeNs(0), &Prevalence::default());
        assert_eq!(score(&modifiers, 0.3, TimeNs(0)), (0.3, "0.300".to_owned()));
        // A tunnel below a listed domain, by the same rule.
        assert_eq!(of_names(500, None, b"bad.example", TimeNs(0), &settings).threat(), 0.8);
    }

    /// A program that came as a picture adds, one refused does not.
    #[test]
    fn answers_of_another_type_add() {
        let mut modifiers = PairModifiers::default();
        let resp_mime_types = List { raw: b"application/x-dosexec", is_json: false };
        let picture = Http { host: b"a", uri: b"/a.png", resp_mime_types, ..Http::default() };
        ask(&mut modifiers, Http { status: 404, ..picture }, None);
        assert_eq!(score(&modifiers, 0.4, TimeNs(0)).0, 0.4);
        ask(&mut modifiers, Http { status: 200, ..picture }, None);
        let (worth, words) = score(&modifiers, 0.4, TimeNs(0));
        assert_eq!(worth, 0.55);
        assert!(words.ends_with("1 answers of another type than their path +0.15"), "{words}");
    }

    /// A signature is the pair's own until the source uses it elsewhere; another one does not excuse it.
    #[test]
    fn a_signature_of_its_own_adds_while_it_is_one() {
        let mut modifiers = PairModifiers::default();
        let worth = |modifiers: &PairModifiers| score(modifiers, 0.4, TimeNs(0)).0;
        ask(&mut modifiers, named(b"a"), Some(Signature { hash: 7, is_own: false }));
        assert_eq!(worth(&modifiers), 0.4);
        ask(&mut modifiers, named(b"a"), Some(Signature { hash: 8, is_own: true }));
        ask(&mut modifiers, named(b"a"), Some(Signature { hash: 7, is_own: false }));
        assert_eq!(worth(&modifiers), 0.55);
        ask(&mut modifiers, named(b"a"), Some(Signature { hash: 8, is_own: false }));
        assert_eq!(worth(&modifiers), 0.4);
    }

    /// All that adds adds up to one at most.
    #[test]
    fn no_score_is_above_one() {
        let mut modifiers = PairModifiers::default();
        modifiers.see(
            &flow(u64::MAX),
            TimeNs(0),
            &Prevalence { hosts: 1, of: 1000, first: TimeNs(0) },
        );
        modifiers.see(
            &flow(u64::MAX),
            TimeNs(0),
            &Prevalence { hosts: 1, of: 1000, first: TimeNs(0) },
        );
        (0..3).for_each(|_| {
            ask(&mut modifiers, named(b""), Some(Signature { hash: 9, is_own: true }))
        });
        assert_eq!(score(&modifiers, 0.8, TimeNs(0)).0, 1.0);
    }
}
