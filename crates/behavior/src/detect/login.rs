//! Logins by telnet, rlogin and rsh.

use super::{About, Detector, bit};
use crate::context::Context;
use crate::sketch::{hash_ip, hash_text};
use crate::state::Slot;
use crate::text::text;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind, Service};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("LOGIN", "T1021");

/// The detector.
#[derive(Debug)]
pub(crate) struct Login;

impl Detector for Login {
    type Window = ();
    type Kept = ();
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "a line of login.log; at the 1st, 10th, 100th … time by destination, user and \
            outcome",
        level: "info; 1; the destination is reported as the attacker",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Login);

    fn record(_: &mut Slot<()>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Login(l) = &r.body else { return };
        let outcome = match (l.is_success, l.is_confused) {
            (true, _) => "successful",
            (_, true) => "confused",
            _ => "failed",
        };
        let what = hash_ip(r.dst) ^ hash_text(l.user) ^ hash_text(outcome.as_bytes());
        cx.say_damped(what, |cx| {
            let by = if l.service.is_empty() { Service::Telnet.name() } else { l.service };
            let by = text(by);
            cx.find(&TYPE)
                .level(ThreatLevel::Info, 1.0)
                .by_destination(r.dst)
                .about(what)
                .says("{0} {1} login.  for user {2} destination IP: {dst}.")
                .word(outcome)
                .word(by)
                .word(text(l.user))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, has_values, log};
    use gabion_record::logs::Login as LoginLog;

    fn see(trial: &mut Trial, second: i64, is_success: bool) {
        let body = LoginLog { is_success, user: b"root", ..LoginLog::default() };
        trial.record(&log(second, "10.0.0.1", "1.2.3.4", Body::Login(body)));
    }

    #[test]
    fn outcomes_are_reported() {
        let mut trial = Trial::new();
        see(&mut trial, 0, true);
        see(&mut trial, 1, false);
        let found = trial.evidence_of(&TYPE);
        assert_eq!(found.len(), 2);
        for (evidence, outcome) in found.iter().zip(["successful", "failed"]) {
            let values = [outcome, "telnet", "root", "1.2.3.4"];
            assert!(has_values(evidence, &values), "{}", evidence.description());
        }
    }

    /// D39 of Slips: there is no place for a password in a record.
    #[test]
    fn a_user_of_hostile_text_is_cleaned() {
        let mut trial = Trial::new();
        let user = [b"a\x1b[31m\n".as_slice(), &[b'x'; 5000]].concat();
        let body = LoginLog { user: &user, ..LoginLog::default() };
        trial.record(&log(0, "10.0.0.1", "1.2.3.4", Body::Login(body)));
        let said = &trial.evidence_of(&TYPE)[0].description();
        assert!(said.len() < 600 && !said.contains('\x1b') && !said.contains('\n'));
    }

    #[test]
    fn guesses_are_damped() {
        let mut trial = Trial::new();
        for n in 0..100 {
            see(&mut trial, n, false);
        }
        assert_eq!(trial.evidence_of(&TYPE).len(), 3);
    }
}
