//! A connection that lasts.

use super::{About, Detector, bit};
use crate::context::Context;
use crate::evidence::Times;
use crate::sketch::hash_text;
use crate::state::Slot;
use gabion_record::evidence::{CallKind, EvidenceType, ThreatLevel, Topic};
use gabion_record::logs::{Body, LogKind, SECOND};

/// Its evidence.
pub(crate) static TYPE: EvidenceType =
    EvidenceType::new("LONG_CONNECTION", "T1071").about(Topic::Call(CallKind::Long));

/// The detector.
#[derive(Debug)]
pub(crate) struct LongConnection;

impl Detector for LongConnection {
    type Window = ();
    type Kept = ();
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "a flow lasts longer than 1,500 s, neither end is multicast; of one that is still open \
            (`open_conn.log`) at the 1st, 10th, 100th … time that it is seen",
        level: "low; confidence: its part of a day, 1 at most",
        settings: &["flow_alerts.long_connection_threshold"],
    };
    const KINDS: u32 = bit(LogKind::Conn) | bit(LogKind::OpenConn);

    #[inline]
    fn record(_: &mut Slot<()>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let (c, is_open) = match &r.body {
            Body::Conn(c) => (c, false),
            Body::OpenConn(open) => (&open.so_far, true),
            _ => return,
        };
        let seconds = c.duration_ns as f64 / SECOND as f64;
        if seconds <= cx.settings.long_connection_s || r.src.is_multicast() || r.dst.is_multicast()
        {
            return;
        }
        // An open one is in each log until it ends.
        let times = if is_open {
            match cx.is_due(&TYPE, hash_text(r.uid)) {
                None => return,
                times => times,
            }
        } else {
            None
        };
        let sure = ((seconds / 86_400.0).min(1.0) * 100.0).round() / 100.0;
        let finding = cx
            .find(&TYPE)
            .level(ThreatLevel::Low, sure)
            .victim(r.dst)
            .destination_port(r.dst_port)
            .lasting(c.duration_ns)
            .says(
                "Long Connection. Connection from {profile} to destination address: {dst} took {mins} \
                 mins",
            );
        cx.say(finding.seen(times.unwrap_or(Times { count: 1, repeat: 0 })));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, conn, has_values};
    use gabion_record::logs::OpenConn;

    /// A flow that is still open is reported once, and counts as no flow.
    #[test]
    fn an_open_flow_is_reported_before_it_ends() {
        let mut trial = Trial::new();
        for n in 0..5 {
            let open = conn(0, "10.0.0.1", "1.2.3.4", 4444).lasting(1000.0 + 400.0 * f64::from(n));
            let mut r = open.record();
            if let Body::Conn(c) = r.body {
                r.body = Body::OpenConn(OpenConn { so_far: c });
            }
            r.ts = gabion_record::logs::TimeNs(i64::from(n) * SECOND);
            trial.record(&r);
        }
        let found = trial.evidence_of(&TYPE);
        assert_eq!(found.len(), 1);
        assert!(has_values(&found[0], &["30"]), "{}", found[0].description());
        assert_eq!(trial.said.len(), 1);
        assert_eq!(trial.engine.counts().flows, 0);
    }

    #[test]
    fn above_at_and_far_above_the_threshold() {
        for (seconds, found) in [(1500.0, 0), (1500.5, 1), (9.0e9, 1)] {
            let mut trial = Trial::new();
            trial.give(&conn(0, "10.0.0.1", "1.2.3.4", 443).lasting(seconds));
            trial.give(&conn(0, "10.0.0.1", "224.0.0.5", 443).lasting(seconds));
            let evidence = trial.evidence_of(&TYPE);
            assert_eq!(evidence.len(), found, "{seconds}");
            assert!(evidence.iter().all(|e| e.confidence <= 1.0));
        }
    }

    /// A connection of twelve hours is written twelve hours late, and seen.
    #[test]
    fn a_late_record_is_judged_by_itself() {
        let mut trial = Trial::new();
        trial.give(&conn(50_000, "10.0.0.1", "1.2.3.4", 443));
        let mut late = conn(5, "10.0.0.1", "1.2.3.4", 443).lasting(43_200.0);
        late.is_late = true;
        trial.give(&late);
        assert_eq!(trial.evidence_of(&TYPE).len(), 1);
    }
}
