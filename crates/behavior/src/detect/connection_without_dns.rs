//! A connection to an address that no name led to.

use super::{About, Detector, bit};
use crate::context::Context;
use crate::context::Waking;
use crate::evidence::Times;
use crate::limits::{WAITING_MAX, reached};
use crate::sketch::{Keyed, hash_ip};
use crate::state::{Slot, state};
use crate::text::text;
use gabion_record::Ip;
use gabion_record::evidence::{EvidenceType, Party, ThreatLevel};
use gabion_record::logs::{Body, LogKind, SECOND, Service, TimeNs};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("CONNECTION_WITHOUT_DNS", "T1071");

/// The detector.
#[derive(Debug)]
pub(crate) struct ConnectionWithoutDns;

/// The answer's line may come after the connection's.
const PATIENCE: i64 = 15 * SECOND;

state! {
    /// Connections that wait for their name.
    pub struct Nameless {
        waiting: Keyed<Ip, Visit, WAITING_MAX>,
    }
}

state! {
    /// One of them.
    pub struct Visit {
        at: TimeNs,
        window: i64,
        port: u16,
        uid: String,
        times: u64,
        repeat: u64,
    }
}

impl Detector for ConnectionWithoutDns {
    type Window = ();
    type Kept = Nameless;
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "a flow to a public address that was no answer to any query of the site in the last \
            24 h nor in the next 15 s; only where other logs than flows are read; not DNS or ICMP; at \
            the 1st, 10th, 100th … time",
        level: "info; 0.8",
        settings: &["parameters.client_ips"],
    };
    const KINDS: u32 = bit(LogKind::Conn) | bit(LogKind::Dns);

    fn record(_: &mut Slot<()>, kept: &mut Slot<Nameless>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        match &r.body {
            Body::Conn(c) => {
                if !cx.facts.has_other_logs
                    || cx.facts.is_resolved
                    || r.is_late
                    || r.proto.is_icmp()
                    || c.service == Service::Dns
                    || r.dst_port == 53
                    || r.dst.is_ignored()
                    || cx.facts.is_dhcp_server
                    || cx.settings.client_ips.iter().any(|net| net.contains(r.dst))
                {
                    return;
                }
                let waiting = &mut kept.make().waiting;
                if waiting.get(r.dst).is_some() || !reached::WAITING_MAX.has_room(waiting.len()) {
                    return;
                }
                let Some(times) = cx.is_due(&TYPE, hash_ip(r.dst)) else { return };
                let visit = Visit {
                    at: r.ts,
                    window: cx.facts.window,
                    port: r.dst_port,
                    uid: text(r.uid),
                    times: times.count,
                    repeat: times.repeat,
                };
                waiting.add(r.dst, visit, &reached::WAITING_MAX);
                cx.wake(r.ts.plus(PATIENCE));
            }
            Body::Dns(d) => {
                let Some(nameless) = kept.get() else { return };
                for ip in d.answers.iter().filter_map(Ip::parse) {
                    nameless.waiting.remove(ip);
                }
            }
            _ => {}
        }
    }

    fn wake(kept: &mut Slot<Nameless>, waking: &mut Waking<'_>) {
        let Some(nameless) = kept.get() else { return };
        let mut due = Vec::new();
        let mut next = None::<TimeNs>;
        nameless.waiting.retain(|ip, visit| {
            let at = visit.at.plus(PATIENCE);
            if !waking.is_end && at > waking.now {
                next = Some(next.map_or(at, |n| n.min(at)));
                return true;
            }
            due.push((*ip, std::mem::take(visit)));
            false
        });
        if let Some(next) = next {
            *waking.timer = (*waking.timer).min(next);
        }
        for (ip, visit) in due {
            let mut finding = waking.find(&TYPE, visit.at, visit.window);
            finding.0.victim = Some(Party::destination(ip));
            finding = finding
                .port_now(visit.port)
                .seen(Times { count: visit.times, repeat: visit.repeat });
            if !visit.uid.is_empty() {
                finding.0.uids.push(visit.uid);
            }
            waking.say(
                finding
                    .level(ThreatLevel::Info, 0.8)
                    .says("A connection without DNS resolution to Destination IP: {dst}"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, conn, log};
    use gabion_record::logs::{Dns, List, Weird};

    fn ask(trial: &mut Trial, second: i64, answers: &str) {
        let answers = List { raw: answers.as_bytes(), is_json: false };
        let body = Dns { query: b"a.example", answers, ..Dns::default() };
        trial.record(&log(second, "10.0.0.1", "8.8.8.8", Body::Dns(body)));
    }

    #[test]
    fn a_connection_that_no_name_led_to() {
        let mut trial = Trial::new();
        ask(&mut trial, 0, "5.5.5.5");
        trial.give(&conn(1, "10.0.0.1", "1.2.3.4", 443));
        trial.give(&conn(2, "10.0.0.1", "5.5.5.5", 443));
        trial.give(&conn(20, "10.0.0.1", "10.0.0.7", 443));
        assert_eq!(trial.evidence_of(&TYPE).len(), 1);
    }

    /// D14 of Slips: the fifteen seconds are of event time.
    #[test]
    fn an_answer_soon_after_is_soon_enough() {
        let mut trial = Trial::new();
        ask(&mut trial, 0, "5.5.5.5");
        trial.give(&conn(1, "10.0.0.1", "1.2.3.4", 443));
        ask(&mut trial, 10, "1.2.3.4");
        trial.end();
        assert!(trial.evidence_of(&TYPE).is_empty());
    }

    /// D13 of Slips: a day is counted back from now, however long the run.
    #[test]
    fn after_a_day_of_run_answers_still_count() {
        let mut trial = Trial::new();
        for hour in 0..60 {
            ask(&mut trial, hour * 3600, "1.2.3.4");
            trial.give(&conn(hour * 3600 + 60, "10.0.0.1", "1.2.3.4", 443));
        }
        trial.end();
        assert!(trial.evidence_of(&TYPE).is_empty());
    }

    #[test]
    fn without_other_logs_nothing_is_known_and_floods_are_bounded() {
        let mut trial = Trial::new();
        trial.give(&conn(1, "10.0.0.1", "1.2.3.4", 443));
        trial.end();
        assert!(trial.evidence_of(&TYPE).is_empty());
        trial.record(&log(2, "10.0.0.2", "8.8.8.8", Body::Weird(Weird::default())));
        for n in 0..10_000 {
            trial.give(&conn(3, "10.0.0.1", &format!("4.4.{}.{}", n / 250, n % 250), 443));
        }
        trial.end();
        assert!(trial.evidence_of(&TYPE).len() <= WAITING_MAX);
    }
}
