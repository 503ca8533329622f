//! Alerts of network rules, so that a host's score and timeline hold what both engines say of it.
//!
//! They come from the network engine that reads the same capture, or from the `alert` events of an `eve.json` that
//! Suricata wrote. The host is the client of the flow, whichever packet completed the alert: who called out to a
//! controller is the one to look at, and so is who attacks a server.

use super::dga::contains;
use super::{About, Detector, bit};
use crate::context::Closing;
use crate::context::Context;
use crate::evidence::Times;
use crate::repeats::{Repeats, is_power_of_ten};
use crate::sketch::{hash_ip, mix};
use crate::state::Slot;
use crate::text::text;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind, RuleAlert as Alert};

/// A rule alerted.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("RULE_ALERT", "T1190");

/// The detector.
#[derive(Debug)]
pub(crate) struct RuleAlert;

impl Detector for RuleAlert {
    type Window = Repeats;
    type Kept = ();
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "a network rule alerted on a flow of the host: rules that `gabion read` was given with --behavior, or `alert` events of an eve.json; at the 1st, 10th, 100th … alert of the same rule about the \
            same two hosts",
        level: "by the rule's priority: 1 high, 2 medium, 3 low, others info; by the rule's metadata `confidence`: \
            High 1, Medium 0.7, Low 0.4; 0.8 where it says nothing",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::RuleAlert);

    fn record(window: &mut Slot<Repeats>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::RuleAlert(alert) = &r.body else { return };
        let rule = mix(u64::from(alert.gid) << 32 | u64::from(alert.sid));
        // Counted apart from all else: a scan that fills the room of repeats must not hide what a rule says of it.
        let (count, key) =
            window.make().count_own(&TYPE, rule ^ hash_ip(r.dst)).unwrap_or_default();
        if count > 0 && !is_power_of_ten(count) {
            return;
        }
        let mut finding = cx
            .find(&TYPE)
            .level(level(alert), confidence(alert))
            .victim(r.dst)
            .about(rule)
            .port_now(r.dst_port)
            .says("Rule alert: {0} ({1}), flow from {src} to {dst}:{port}.");
        if count > 0 {
            finding = finding.seen(Times { count, repeat: mix(key ^ hash_ip(cx.profile)) });
        }
        cx.say_in_words(finding, |finding| {
            let rule = format!("{}:{}", alert.gid, alert.sid);
            finding.word(text(alert.signature)).word(rule)
        });
    }

    fn close_window(window: &mut Slot<Repeats>, closing: &mut Closing<'_>) {
        if let Some(repeats) = window.peek() {
            closing.say_repeats(repeats);
        }
    }
}

/// After Suricata's priorities.
fn level(alert: &Alert<'_>) -> ThreatLevel {
    match alert.severity {
        1 => ThreatLevel::High,
        2 => ThreatLevel::Medium,
        3 => ThreatLevel::Low,
        _ => ThreatLevel::Info,
    }
}

fn confidence(alert: &Alert<'_>) -> f64 {
    let says = |word: &[u8]| contains(&alert.confidence.to_ascii_lowercase(), word);
    match () {
        () if says(b"high") => 1.0,
        () if says(b"medium") => 0.7,
        () if says(b"low") => 0.4,
        () => 0.8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, conn, has_values, log};

    fn alert(trial: &mut Trial, second: i64, sid: u32, severity: u8, confidence: &[u8]) {
        let signature = b"ET MALWARE a call home";
        let body = Alert { signature, gid: 1, sid, severity, confidence, ..Alert::default() };
        trial.record(&log(second, "10.0.0.1", "1.2.3.4", Body::RuleAlert(body)));
    }

    #[test]
    fn an_alert_is_a_finding_of_the_client_with_the_level_of_its_priority() {
        let mut trial = Trial::new();
        alert(&mut trial, 0, 2_000_001, 1, b"[\"High\"]");
        alert(&mut trial, 1, 2_000_002, 2, b"[\"Medium\"]");
        alert(&mut trial, 2, 2_000_003, 3, b"");
        alert(&mut trial, 3, 2_000_004, 255, b"[\"Low\"]");
        let got: Vec<_> =
            trial.evidence_of(&TYPE).iter().map(|e| (e.level, e.confidence)).collect();
        let (high, medium) = (ThreatLevel::High, ThreatLevel::Medium);
        let want = [(high, 1.0), (medium, 0.7), (ThreatLevel::Low, 0.8), (ThreatLevel::Info, 0.4)];
        assert_eq!(got, want);
        let first = &trial.evidence_of(&TYPE)[0];
        assert_eq!(first.profile, gabion_record::Ip::v4(0x0a00_0001));
        let values = ["MALWARE", "1:2000001", "10.0.0.1"];
        assert!(has_values(first, &values), "{}", first.description());
    }

    /// A rule that alerts for each packet is a finding that grows, not one of each packet.
    #[test]
    fn repeats_grow_one_finding() {
        let mut trial = Trial::new();
        for n in 0..500 {
            alert(&mut trial, n, 2_000_001, 1, b"");
        }
        let ids: std::collections::HashSet<_> =
            trial.evidence_of(&TYPE).iter().map(|e| e.id).collect();
        assert_eq!((ids.len(), trial.evidence_of(&TYPE).len()), (1, 3));
    }

    /// A scan of many ports fills the table in which repeats of all types are counted: what rules alert about the
    /// scanner is reported all the same, each rule for itself.
    #[test]
    fn a_scan_hides_no_alert_of_a_rule() {
        let mut trial = Trial::new();
        for n in 0..400 {
            trial.give(&conn(n, "10.0.0.1", "1.2.3.4", 2000 + n as u16).refused());
        }
        for n in 0..200 {
            alert(&mut trial, 400 + i64::from(n), 2_000_001 + n, 1, b"");
        }
        assert_eq!(trial.evidence_of(&TYPE).len(), 200);
    }
}
