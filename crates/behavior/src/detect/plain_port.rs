//! Ports 80 and 443 used for something else.
//!
//! Only where the input has a field for the application: its absence says something there and
//! nothing elsewhere. A flow is excused by one between the same hosts that was recognized, up to five
//! minutes before or after; what waits for one, waits in event time.

use super::{About, Detector, bit};
use crate::ahead::Ahead;
use crate::context::Context;
use crate::context::Waking;
use crate::evidence::Times;
use crate::limits::{RECOGNIZED_MAX, WAITING_MAX, reached};
use crate::sketch::{Keyed, hash_ip};
use crate::state::{Slot, state};
use crate::text::text;
use gabion_record::Ip;
use gabion_record::evidence::{EvidenceType, Party, ThreatLevel};
use gabion_record::logs::{Body, Conn, LogKind, Proto, Record, SECOND, Service, TimeNs};

/// Port 443 without TLS.
pub(crate) static NON_SSL: EvidenceType = EvidenceType::new("NON_SSL_PORT_443_CONNECTION", "T1571");
/// Port 80 without HTTP.
pub(crate) static NON_HTTP: EvidenceType =
    EvidenceType::new("NON_HTTP_PORT_80_CONNECTION", "T1571");

/// The detector.
#[derive(Debug)]
pub(crate) struct PlainPort;

/// How far away a recognized flow excuses.
const SPAN: i64 = 300 * SECOND;

state! {
    /// Flows recognized and flows that wait, by destination and port.
    pub struct Flows {
        recognized: Keyed<u64, TimeNs, RECOGNIZED_MAX>,
        waiting: Keyed<(Ip, u32), Wait, WAITING_MAX>,
    }
}

state! {
    /// A flow that waits to be excused.
    pub struct Wait {
        at: TimeNs,
        window: i64,
        uid: String,
        times: u64,
        repeat: u64,
    }
}

/// Whether the application is the one that the port stands for.
#[inline]
fn is_recognized(r: &Record<'_>, c: &Conn<'_>) -> bool {
    c.service.includes(if r.dst_port == 443 { Service::Ssl } else { Service::Http })
}

impl Detector for PlainPort {
    type Window = ();
    type Kept = Flows;
    const ABOUT: About = About {
        types: &[&NON_SSL, &NON_HTTP],
        condition: "an established TCP flow with bytes to port 443 (80) that is not recognized as TLS \
            (HTTP), and none between the same hosts is within 5 min before or after; not from inputs that do not name the application; at the 1st, 10th, 100th … time",
        level: "443: medium, 0.8; 80: the source low, the destination medium, 0.8",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Conn) | bit(LogKind::Ssl) | bit(LogKind::Http);

    /// Of a flow that is what its port says it only remembers that.
    #[inline]
    fn speaks_first(cx: &Context<'_, '_>) -> bool {
        let r = cx.record;
        matches!(r.dst_port, 80 | 443) && !matches!(&r.body, Body::Conn(c) if is_recognized(r, c))
    }

    #[inline]
    fn prefetch(_: &Slot<()>, kept: &Slot<Flows>, ahead: &Ahead) -> usize {
        if !matches!(ahead.dst_port, 80 | 443) {
            return 0;
        }
        let key = hash_ip(ahead.dst) ^ u64::from(ahead.dst_port);
        kept.peek().map_or(0, |flows| flows.recognized.prefetch(key, |at| at.0 as usize))
    }

    #[inline]
    fn record(_: &mut Slot<()>, kept: &mut Slot<Flows>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        if !matches!(r.dst_port, 80 | 443) || r.proto != Proto::Tcp {
            return;
        }
        let key = (r.dst, u32::from(r.dst_port));
        let is_recognized = match &r.body {
            Body::Ssl(_) => r.dst_port == 443,
            Body::Http(_) => r.dst_port == 80,
            Body::Conn(c) => {
                if !c.knows_service
                    || !c.is_established
                    || c.orig_bytes.saturating_add(c.resp_bytes) == 0
                {
                    return;
                }
                is_recognized(r, c)
            }
            _ => return,
        };
        if is_recognized {
            let flows = kept.make();
            if !flows.waiting.is_empty() {
                flows.waiting.remove(key);
            }
            let excuses = |at: &TimeNs| r.ts.since(*at) <= SPAN;
            let (key, limit) = (hash_ip(r.dst) ^ u64::from(key.1), &reached::RECOGNIZED_MAX);
            let at = flows.recognized.get_or_renew(key, limit, excuses, |_, ts| *ts);
            *at = (*at).max(r.ts);
            return;
        }
        let flows = kept.make();
        let is_excused = flows
            .recognized
            .get(hash_ip(r.dst) ^ u64::from(key.1))
            .is_some_and(|at| r.ts.since(*at).abs() <= SPAN);
        if is_excused
            || flows.waiting.get(key).is_some()
            || r.is_late
            || !reached::WAITING_MAX.has_room(flows.waiting.len())
        {
            return;
        }
        let kind = if r.dst_port == 443 { &NON_SSL } else { &NON_HTTP };
        let Some(times) = cx.is_due(kind, hash_ip(r.dst)) else { return };
        let wait = Wait {
            at: r.ts,
            window: cx.facts.window,
            uid: text(r.uid),
            times: times.count,
            repeat: times.repeat,
        };
        flows.waiting.add(key, wait, &reached::WAITING_MAX);
        cx.wake(r.ts.plus(SPAN));
    }

    fn wake(kept: &mut Slot<Flows>, waking: &mut Waking<'_>) {
        let Some(flows) = kept.get() else { return };
        let mut due = Vec::new();
        let mut next = None::<TimeNs>;
        flows.waiting.retain(|key, wait| {
            let at = wait.at.plus(SPAN);
            if !waking.is_end && at > waking.now {
                next = Some(next.map_or(at, |n| n.min(at)));
                return true;
            }
            due.push((*key, std::mem::take(wait)));
            false
        });
        if let Some(next) = next {
            *waking.timer = (*waking.timer).min(next);
        }
        for ((dst, port), wait) in due {
            say(waking, dst, port == 443, &wait);
        }
    }
}

const TO: &str = "{0} established connection to port {port}. destination IP: {dst}";
const FROM: &str =
    "{0} established connection to port {port}. destination IP: {dst} from IP: {src}";

fn say(waking: &mut Waking<'_>, dst: Ip, is_443: bool, wait: &Wait) {
    let (kind, name, port) =
        if is_443 { (&NON_SSL, "non-SSL", 443) } else { (&NON_HTTP, "non-HTTP", 80) };
    let begin = |waking: &Waking<'_>| {
        let times = Times { count: wait.times, repeat: wait.repeat };
        let mut finding =
            waking.find(kind, wait.at, wait.window).destination_port(port).seen(times);
        if !wait.uid.is_empty() {
            finding.0.uids.push(wait.uid.clone());
        }
        finding
    };
    let level = if is_443 { ThreatLevel::Medium } else { ThreatLevel::Low };
    let mut of_src = begin(waking).level(level, 0.8).says(TO).word(name);
    of_src.0.victim = Some(Party::destination(dst));
    waking.say(of_src);
    if !is_443 {
        let of_dst =
            begin(waking).level(ThreatLevel::Medium, 0.8).by_destination(dst).says(FROM).word(name);
        waking.say(of_dst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, conn};

    #[test]
    fn a_flow_that_nothing_excuses() {
        let mut trial = Trial::new();
        trial.give(&conn(0, "10.0.0.1", "1.2.3.4", 443));
        trial.give(&conn(0, "10.0.0.1", "1.2.3.4", 80));
        trial.give(&conn(299, "10.0.0.1", "9.9.9.9", 22));
        assert!(trial.evidence_of(&NON_SSL).is_empty());
        trial.give(&conn(302, "10.0.0.1", "9.9.9.9", 22));
        assert_eq!((trial.evidence_of(&NON_SSL).len(), trial.evidence_of(&NON_HTTP).len()), (1, 2));
    }

    /// D12 of Slips: the newest recognized flow is the one that counts.
    #[test]
    fn recognized_flows_near_by_excuse() {
        for second in [0, 250, 310, 600] {
            let mut trial = Trial::new();
            let mut tls = conn(second, "10.0.0.1", "1.2.3.4", 443);
            tls.service = "ssl";
            let plain = conn(300, "10.0.0.1", "1.2.3.4", 443);
            let mut both = [tls, plain];
            both.sort_by_key(|c| c.ts);
            both.iter().for_each(|c| trial.give(c));
            trial.end();
            assert!(trial.evidence_of(&NON_SSL).is_empty(), "{second}");
        }
    }

    /// D47 of Slips: flows of Argus or nfdump have no application and say nothing.
    #[test]
    fn inputs_without_an_application_are_not_asked() {
        let mut trial = Trial::new();
        let c = conn(0, "10.0.0.1", "1.2.3.4", 80);
        let mut r = c.record();
        if let Body::Conn(inner) = &mut r.body {
            inner.knows_service = false;
        }
        trial.record(&r);
        trial.give(&conn(1, "10.0.0.1", "1.2.3.4", 80).refused());
        trial.end();
        assert!(trial.said.iter().all(|e| e.kind != &NON_HTTP));
    }

    #[test]
    fn a_flood_of_destinations_is_bounded() {
        let mut trial = Trial::new();
        for n in 0..20_000 {
            trial.give(&conn(n / 1000, "10.0.0.1", &format!("1.2.{}.{}", n / 250, n % 250), 443));
        }
        assert!(trial.profile_bytes("10.0.0.1") < 64 << 10);
    }
}
