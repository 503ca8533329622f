//! Addresses of a network asked for by name, one after the other.

use super::{About, Detector, bit};
use crate::context::Context;
use crate::names::is_below;
use crate::sketch::hash_text;
use crate::state::{Slot, state};
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind, SECOND, TimeNs};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("DNS_ARPA_SCAN", "T1018");

/// The detector.
#[derive(Debug)]
pub(crate) struct ArpaScan;

/// Distinct names.
const NAMES: usize = 10;
/// Within so long.
const SPAN: i64 = 2 * SECOND;

state! {
    /// The last distinct names and when they were asked for.
    pub struct Asked {
        last: Vec<(u64, TimeNs)>,
    }
}

impl Detector for ArpaScan {
    type Window = ();
    type Kept = Asked;
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "10 distinct names below in-addr.arpa asked for within any 2 s",
        level: "medium; 0.7",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Dns);

    fn record(_: &mut Slot<()>, kept: &mut Slot<Asked>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Dns(d) = &r.body else { return };
        if r.is_late || !is_below(d.query, b"in-addr.arpa") {
            return;
        }
        let asked = kept.make();
        asked.last.retain(|(_, ts)| r.ts.since(*ts) <= SPAN);
        let name = hash_text(&d.query.to_ascii_lowercase());
        if asked.last.iter().any(|(n, _)| *n == name) {
            return;
        }
        asked.last.push((name, r.ts));
        if asked.last.len() < NAMES {
            return;
        }
        let first = asked.last.first().map_or(r.ts, |a| a.1);
        asked.last.clear();
        cx.say_damped(0, |cx| {
            cx.find(&TYPE)
                .level(ThreatLevel::Medium, 0.7)
                .victim_now(r.dst)
                .since(first, NAMES as u64)
                .hosts(NAMES as u64)
                .says("Doing DNS ARPA scan. Scanned {hosts} hosts within 2 seconds.")
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, log};
    use gabion_record::logs::Dns;

    fn ask(trial: &mut Trial, ns: i64, n: u32) {
        let query = format!("{n}.2.0.192.in-addr.arpa");
        let body = Body::Dns(Dns { query: query.as_bytes(), ..Dns::default() });
        let mut r = log(0, "10.0.0.1", "8.8.8.8", body);
        r.ts = TimeNs(ns);
        trial.record(&r);
    }

    /// D7 of Slips: an early query hides no later scan.
    #[test]
    fn a_query_long_before_hides_nothing() {
        let mut trial = Trial::new();
        ask(&mut trial, 0, 200);
        for n in 0..15 {
            ask(&mut trial, 195 * SECOND + i64::from(n) * SECOND / 20, n);
        }
        assert_eq!(trial.evidence_of(&TYPE).len(), 1);
    }

    #[test]
    fn nine_names_and_slow_names_are_none() {
        let mut trial = Trial::new();
        for n in 0..9 {
            ask(&mut trial, i64::from(n), n);
        }
        for n in 0..100 {
            ask(&mut trial, 10 * SECOND + i64::from(n) * SECOND / 4, n);
        }
        assert!(trial.evidence_of(&TYPE).is_empty());
    }

    #[test]
    fn one_name_many_times_is_one_name() {
        let mut trial = Trial::new();
        for n in 0..1000 {
            ask(&mut trial, n, (n % 9) as u32);
        }
        assert!(trial.evidence_of(&TYPE).is_empty());
    }
}
