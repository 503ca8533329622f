//! TLS handshakes: certificates of nobody, names that do not fit, DNS over HTTPS.

use super::dga::contains;
use super::{About, Detector, bit};
use crate::context::Context;
use crate::names::is_below;
use crate::organizations::ORGANIZATIONS;
use crate::sketch::{hash_ip, hash_text};
use crate::state::Slot;
use crate::text::text;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind};

/// A certificate that vouches for itself.
pub(crate) static SELF_SIGNED: EvidenceType =
    EvidenceType::new("SELF_SIGNED_CERTIFICATE", "T1587.003");
/// A certificate that claims to be of an organization whose names the server does not have.
pub(crate) static INCOMPATIBLE_CN: EvidenceType = EvidenceType::new("INCOMPATIBLE_CN", "T1587.003");
/// DNS over HTTPS.
pub(crate) static DOH: EvidenceType = EvidenceType::new("DOH_USE", "T1572");

/// The detector.
#[derive(Debug)]
pub(crate) struct Tls;

impl Detector for Tls {
    type Window = ();
    type Kept = ();
    const ABOUT: About = About {
        types: &[&SELF_SIGNED, &INCOMPATIBLE_CN, &DOH],
        condition: "a certificate found self-signed; a certificate's subject names google, microsoft, \
            apple, facebook or twitter while the server name asked for is none of theirs (once for \
            each certificate); a flow marked as DNS over HTTPS; at the 1st, 10th, 100th … time",
        level: "SELF_SIGNED_CERTIFICATE both ends low, 0.5; INCOMPATIBLE_CN medium, 0.9; DOH_USE \
            info, 0.9",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Ssl);

    fn record(_: &mut Slot<()>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Ssl(s) = &r.body else { return };
        let status = s.validation_status.to_ascii_lowercase();
        let is_self_signed = contains(&status, b"self signed") || contains(&status, b"self-signed");
        if is_self_signed && let Some(times) = cx.is_due(&SELF_SIGNED, hash_ip(r.dst)) {
            let name = match s.server_name {
                [] => String::new(),
                name => format!(" SNI: {}.", text(name)),
            };
            let finding = cx
                .find(&SELF_SIGNED)
                .level(ThreatLevel::Low, 0.5)
                .port_now(r.dst_port)
                .says("Self-signed certificate. Destination IP: {dst}.{0}")
                .word(name)
                .seen(times);
            cx.say_both(finding, ThreatLevel::Low, ThreatLevel::Low);
        }
        let subject = s.subject.to_ascii_lowercase();
        let claimed = ORGANIZATIONS.iter().find(|(name, _)| contains(&subject, name.as_bytes()));
        if let Some((name, domains)) = claimed
            && !s.server_name.is_empty()
            && !domains.iter().any(|d| is_below(s.server_name, d.as_bytes()))
        {
            let what = hash_text(&subject);
            cx.say_damped(what, |cx| {
                cx.find(&INCOMPATIBLE_CN)
                    .level(ThreatLevel::Medium, 0.9)
                    .victim_now(r.dst)
                    .port_now(r.dst_port)
                    .about(what)
                    .says(
                        "Incompatible certificate CN to IP: {dst} domain: {0}. The certificate is \
                         claiming to belong to {1}.",
                    )
                    .word(text(s.server_name))
                    .word(capital(name))
            });
        }
        if s.is_doh {
            cx.say_damped(hash_ip(r.dst), |cx| {
                cx.find(&DOH)
                    .level(ThreatLevel::Info, 0.9)
                    .victim(r.dst)
                    .says("using DNS over HTTPS. DNS server: {dst}")
            });
        }
    }
}

fn capital(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, log};
    use gabion_record::logs::Ssl;

    fn hello(trial: &mut Trial, second: i64, s: Ssl<'_>) {
        trial.record(&log(second, "10.0.0.1", "1.2.3.4", Body::Ssl(s)));
    }

    #[test]
    fn self_signed_in_both_spellings() {
        let mut trial = Trial::new();
        for (n, status) in
            ["self signed certificate", "self-signed certificate in certificate chain"]
                .iter()
                .enumerate()
        {
            let s = Ssl { validation_status: status.as_bytes(), ..Ssl::default() };
            trial.record(&log(0, "10.0.0.1", &format!("1.2.3.{n}"), Body::Ssl(s)));
        }
        hello(&mut trial, 1, Ssl { validation_status: b"ok", ..Ssl::default() });
        assert_eq!(trial.evidence_of(&SELF_SIGNED).len(), 4);
    }

    /// D48 of Slips: one certificate is reported once, not for each handshake.
    #[test]
    fn a_claimed_name_is_reported_once_by_certificate() {
        let mut trial = Trial::new();
        let s =
            Ssl { subject: b"CN=www.google.com", server_name: b"netflix.com", ..Ssl::default() };
        for n in 0..9 {
            hello(&mut trial, n, s);
        }
        assert_eq!(trial.evidence_of(&INCOMPATIBLE_CN).len(), 1);
        // D24 of Slips: a name that only contains the organization's is not theirs.
        hello(
            &mut trial,
            20,
            Ssl { subject: b"CN=x.google.com", server_name: b"evilgoogle.com", ..s },
        );
        assert_eq!(trial.evidence_of(&INCOMPATIBLE_CN).len(), 2);
    }

    #[test]
    fn names_that_fit_are_none() {
        let mut trial = Trial::new();
        for name in [&b"mail.google.com"[..], b"google.com", b""] {
            let s = Ssl { subject: b"CN=*.google.com", server_name: name, ..Ssl::default() };
            hello(&mut trial, 0, s);
        }
        assert!(trial.evidence_of(&INCOMPATIBLE_CN).is_empty());
    }

    /// D22 of Slips: DNS over HTTPS has a type of its own.
    #[test]
    fn dns_over_https_is_itself() {
        let mut trial = Trial::new();
        hello(&mut trial, 0, Ssl { is_doh: true, ..Ssl::default() });
        assert_eq!(trial.evidence_of(&DOH).len(), 1);
    }
}
