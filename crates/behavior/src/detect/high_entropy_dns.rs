//! A TXT answer that looks like compressed data.

use super::dga::contains;
use super::{About, Detector, bit};
use crate::context::Context;
use crate::sketch::hash_text;
use crate::state::Slot;
use crate::text::text;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("HIGH_ENTROPY_DNS_ANSWER", "T1071.004");

/// The detector.
#[derive(Debug)]
pub(crate) struct HighEntropyDns;

impl Detector for HighEntropyDns {
    type Window = ();
    type Kept = ();
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "a TXT answer of 5 bits a character (Shannon) or more; at the 1st, 10th, 100th … \
            time by name",
        level: "the destination medium, the source low; 0.6",
        settings: &["flow_alerts.entropy_threshold"],
    };
    const KINDS: u32 = bit(LogKind::Dns);

    fn record(_: &mut Slot<()>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Dns(d) = &r.body else { return };
        for answer in d.answers.iter() {
            if !contains(answer, b"TXT") {
                continue;
            }
            let bits = entropy(answer);
            if bits < cx.settings.entropy {
                continue;
            }
            let what = hash_text(d.query);
            let Some(times) = cx.is_due(&TYPE, what) else { continue };
            let finding = cx
                .find(&TYPE)
                .level(ThreatLevel::Medium, 0.6)
                .about(what)
                .says(
                    "A DNS TXT answer with high entropy. query: {0} answer: \"{1}\" entropy: {2} ",
                )
                .word(text(d.query))
                .word(text(answer))
                .word(format!("{bits:.2}"))
                .seen(times);
            cx.say_both(finding, ThreatLevel::Low, ThreatLevel::Medium);
        }
    }
}

/// Bits a character, over all characters of the text.
fn entropy(text: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    for b in text {
        if let Some(count) = counts.get_mut(usize::from(*b)) {
            *count += 1;
        }
    }
    let all = text.len().max(1) as f64;
    counts.iter().filter(|n| **n > 0).map(|n| f64::from(*n) / all).map(|p| -p * p.log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, log};
    use gabion_record::logs::{Dns, List};

    fn answer(trial: &mut Trial, second: i64, answer: &str) {
        let answers = List { raw: answer.as_bytes(), is_json: false };
        let body = Dns { query: b"t.example", rcode: b"NOERROR", answers, ..Dns::default() };
        trial.record(&log(second, "10.0.0.1", "8.8.8.8", Body::Dns(body)));
    }

    const RANDOM: &str = "TXT 43 aB3dE5gH7jK9mN1pQrS2tU4vW6xY8zA0cFiLoZbT5wE";

    #[test]
    fn random_text_is_reported_for_both_ends() {
        let mut trial = Trial::new();
        answer(&mut trial, 0, RANDOM);
        let found = trial.evidence_of(&TYPE);
        assert_eq!(found.len(), 2);
        assert!(
            found[0].related == [found[1].report_id] && found[1].related == [found[0].report_id]
        );
    }

    #[test]
    fn prose_and_other_types_are_not() {
        let mut trial = Trial::new();
        answer(&mut trial, 0, "TXT 27 v=spf1 include:_spf.a.example ~all");
        answer(&mut trial, 1, RANDOM.strip_prefix("TXT").unwrap());
        assert!(trial.evidence_of(&TYPE).is_empty());
    }

    #[test]
    fn a_tunnel_is_damped() {
        let mut trial = Trial::new();
        for n in 0..1000 {
            answer(&mut trial, n, RANDOM);
        }
        assert_eq!(trial.evidence_of(&TYPE).len(), 8);
    }
}
