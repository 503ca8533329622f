//! Mail servers that refuse a login.

use super::dga::contains;
use super::{About, Detector, bit};
use crate::context::Context;
use crate::sketch::hash_ip;
use crate::state::{Slot, state};
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind, SECOND, TimeNs};

/// One refusal.
pub(crate) static BAD: EvidenceType = EvidenceType::new("BAD_SMTP_LOGIN", "T1110.001");
/// Several.
pub(crate) static BRUTEFORCE: EvidenceType =
    EvidenceType::new("SMTP_LOGIN_BRUTEFORCE", "T1110.001");

/// The detector.
#[derive(Debug)]
pub(crate) struct Smtp;

/// Refusals.
const LOGINS: usize = 3;
/// Within so long.
const SPAN: i64 = 10 * SECOND;

state! {
    /// The last refusals.
    pub struct Refused {
        last: Vec<TimeNs>,
    }
}

impl Detector for Smtp {
    type Window = ();
    type Kept = Refused;
    const ABOUT: About = About {
        types: &[&BAD, &BRUTEFORCE],
        condition: "a mail server's last reply contains `bad smtp-auth user` (at the 1st, 10th, 100th … \
            time); 3 of these within any 10 s",
        level: "high; 1",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Smtp);

    fn record(_: &mut Slot<()>, kept: &mut Slot<Refused>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Smtp(s) = &r.body else { return };
        if !contains(s.last_reply, b"bad smtp-auth user") {
            return;
        }
        cx.say_damped(hash_ip(r.dst), |cx| {
            cx.find(&BAD)
                .level(ThreatLevel::High, 1.0)
                .victim(r.dst)
                .says("doing bad SMTP login to {dst} ")
        });
        if r.is_late {
            return;
        }
        let last = &mut kept.make().last;
        last.retain(|ts| r.ts.since(*ts) <= SPAN);
        last.push(r.ts);
        if last.len() < LOGINS {
            return;
        }
        let first = last.first().copied().unwrap_or(r.ts);
        last.clear();
        cx.say_damped(hash_ip(r.dst), |cx| {
            cx.find(&BRUTEFORCE)
                .level(ThreatLevel::High, 1.0)
                .victim(r.dst)
                .since(first, LOGINS as u64)
                .says("doing SMTP login bruteforce to {dst}. {count} logins in 10 seconds. ")
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, log};
    use gabion_record::logs::Smtp as SmtpLog;

    fn refuse(trial: &mut Trial, second: i64, reply: &str, is_late: bool) {
        let body = SmtpLog { last_reply: reply.as_bytes() };
        let mut r = log(second, "10.0.0.1", "1.2.3.4", Body::Smtp(body));
        r.is_late = is_late;
        trial.record(&r);
    }

    const BAD_LOGIN: &str = "554 5.7.1 bad smtp-auth user";

    #[test]
    fn three_refusals_within_ten_seconds() {
        let mut trial = Trial::new();
        for second in [0, 5, 10] {
            refuse(&mut trial, second, BAD_LOGIN, false);
        }
        assert_eq!((trial.evidence_of(&BAD).len(), trial.evidence_of(&BRUTEFORCE).len()), (1, 1));
    }

    #[test]
    fn two_slow_or_other_replies_are_none() {
        let mut trial = Trial::new();
        for second in [0, 5, 11, 16, 22] {
            refuse(&mut trial, second, BAD_LOGIN, false);
        }
        refuse(&mut trial, 23, "250 ok", false);
        assert!(trial.evidence_of(&BRUTEFORCE).is_empty());
    }

    /// D8 of Slips: spans are of event time, and none is negative.
    #[test]
    fn late_records_enter_no_span() {
        let mut trial = Trial::new();
        refuse(&mut trial, 1000, BAD_LOGIN, false);
        for n in 0..5 {
            refuse(&mut trial, n * 100, BAD_LOGIN, true);
        }
        assert!(trial.evidence_of(&BRUTEFORCE).is_empty());
    }
}
