//! A certificate of one organization for the name of another.

use super::{About, Detector, bit};
use crate::context::Context;
use crate::names::is_below;
use crate::organizations::ORGANIZATIONS;
use crate::sketch::hash_text;
use crate::state::Slot;
use crate::text::text;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("CN_URL_MISMATCH", "T1587.003");

/// The detector.
#[derive(Debug)]
pub(crate) struct CertificateName;

impl Detector for CertificateName {
    type Window = ();
    type Kept = ();
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "the common name of a server's certificate does not cover the server name asked \
            for, and both names belong to organizations that are known (google, microsoft, apple, \
            facebook, twitter, by their domains) and different; once for each certificate and name, \
            then at the 10th, 100th … time",
        level: "source low, destination medium; 0.8",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Ssl);

    fn record(_: &mut Slot<()>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Ssl(s) = &r.body else { return };
        if cx.profile != r.src || s.server_name.is_empty() {
            return;
        }
        let Some(name) = common_name(s.subject) else { return };
        if covers(name, s.server_name) {
            return;
        }
        let (Some(of_name), Some(of_server)) = (organization(name), organization(s.server_name))
        else {
            return;
        };
        if of_name == of_server {
            return;
        }
        let what = hash_text(name) ^ hash_text(s.server_name);
        let Some(times) = cx.is_due(&TYPE, what) else { return };
        let finding = cx
            .find(&TYPE)
            .level(ThreatLevel::Low, 0.8)
            .port_now(r.dst_port)
            .about(what)
            .says(
                "a CN mismatch. The common name (CN) '{0}' in the SSL certificate for the domain '{1}' \
                 does not match the server's domain.",
            )
            .word(text(name))
            .word(text(s.server_name))
            .seen(times);
        cx.say_both(finding, ThreatLevel::Low, ThreatLevel::Medium);
    }
}

/// The common name of a subject.
fn common_name(subject: &[u8]) -> Option<&[u8]> {
    let at = subject.windows(3).position(|w| w == b"CN=")?;
    let rest = subject.get(at + 3..)?;
    let end = rest.iter().position(|b| *b == b',').unwrap_or(rest.len());
    rest.get(..end).filter(|name| !name.is_empty())
}

/// Whether a name, with `*` for one label, covers a server.
fn covers(name: &[u8], server: &[u8]) -> bool {
    match name.strip_prefix(b"*.") {
        Some(parent) => is_below(server, parent),
        None => server.eq_ignore_ascii_case(name),
    }
}

fn organization(name: &[u8]) -> Option<&'static str> {
    let name = name.strip_prefix(b"*.").unwrap_or(name);
    let is_theirs = |domains: &[&str]| domains.iter().any(|d| is_below(name, d.as_bytes()));
    ORGANIZATIONS.iter().find(|(_, domains)| is_theirs(domains)).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, log};
    use gabion_record::logs::Ssl;

    fn reported(subject: &str, server: &str, times: i64) -> usize {
        let mut trial = Trial::new();
        for n in 0..times {
            let s = Ssl {
                subject: subject.as_bytes(),
                server_name: server.as_bytes(),
                ..Ssl::default()
            };
            trial.record(&log(n, "10.0.0.1", "1.2.3.4", Body::Ssl(s)));
        }
        trial.evidence_of(&TYPE).len()
    }

    #[test]
    fn a_certificate_of_another_organization_is_reported_once() {
        assert_eq!(reported("CN=*.microsoft.com,O=Microsoft", "www.google.com", 9), 2);
    }

    #[test]
    fn names_that_fit_or_that_nobody_knows_are_none() {
        for (subject, server) in [
            ("CN=*.google.com", "www.google.com"),
            ("CN=www.google.com", "fonts.gstatic.com"),
            ("CN=shop.example", "www.google.com"),
            ("CN=*.microsoft.com", "shop.example"),
            ("CN=evilmicrosoft.com", "www.google.com"),
            ("O=Microsoft", "www.google.com"),
            ("CN=", "www.google.com"),
            ("CN=*.", "www.google.com"),
            ("CN=*.microsoft.com", ""),
        ] {
            assert_eq!(reported(subject, server, 2), 0, "{subject} {server}");
        }
    }

    #[test]
    fn odd_subjects_break_nothing() {
        assert_eq!(reported(&"CN=".repeat(10_000), "www.google.com", 1), 0);
        assert_eq!(reported("CN", &"a.".repeat(5000), 1), 0);
    }
}
