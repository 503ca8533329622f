//! A host whose SSH program changes.

use super::{About, Detector, bit};
use crate::context::Context;
use crate::sketch::hash_text;
use crate::state::{Slot, state};
use crate::text::text;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("MULTIPLE_SSH_VERSIONS", "T1036");

/// The detector.
#[derive(Debug)]
pub(crate) struct SshVersions;

state! {
    /// The first versions seen, of client and server.
    pub struct Versions {
        client: String,
        server: String,
    }
}

impl Detector for SshVersions {
    type Window = ();
    type Kept = Versions;
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "the major or minor version of a host's SSH client or server differs from the first \
            seen; at the 1st, 10th, 100th … time",
        level: "medium; 0.9",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Software);

    fn record(_: &mut Slot<()>, kept: &mut Slot<Versions>, cx: &mut Context<'_, '_>) {
        let Body::Software(s) = &cx.record.body else { return };
        let (role, version) = match s.software_type {
            b"SSH::CLIENT" => ("client", &mut kept.make().client),
            b"SSH::SERVER" => ("server", &mut kept.make().server),
            _ => return,
        };
        let now = format!("{}.{}", text(s.major), text(s.minor));
        if version.is_empty() {
            *version = now;
            return;
        }
        if *version == now {
            return;
        }
        let was = version.clone();
        cx.say_damped(u64::from(role == "client"), |cx| {
            cx.find(&TYPE)
                .level(ThreatLevel::Medium, 0.9)
                .about(hash_text(role.as_bytes()))
                .says("SSH {0} version changing from {1} to {2}")
                .word(role)
                .word(was.replace('.', "_"))
                .word(now.replace('.', "_"))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, has_values, log};
    use gabion_record::logs::Software;

    fn see(trial: &mut Trial, second: i64, kind: &str, major: &str) {
        let body = Software {
            software_type: kind.as_bytes(),
            major: major.as_bytes(),
            minor: b"1",
            ..Software::default()
        };
        trial.record(&log(second, "10.0.0.1", "10.0.0.1", Body::Software(body)));
    }

    #[test]
    fn a_change_is_reported() {
        let mut trial = Trial::new();
        see(&mut trial, 0, "SSH::CLIENT", "8");
        see(&mut trial, 1, "SSH::CLIENT", "9");
        let found = &trial.evidence_of(&TYPE)[0];
        assert!(has_values(found, &["client", "8_1", "9_1"]), "{}", found.description());
    }

    #[test]
    fn client_server_and_others_are_apart() {
        let mut trial = Trial::new();
        see(&mut trial, 0, "SSH::CLIENT", "8");
        see(&mut trial, 1, "SSH::SERVER", "9");
        see(&mut trial, 2, "HTTP::SERVER", "2");
        see(&mut trial, 3, "SSH::CLIENT", "8");
        assert!(trial.evidence_of(&TYPE).is_empty());
    }

    #[test]
    fn to_and_fro_is_damped() {
        let mut trial = Trial::new();
        for n in 0..1000 {
            see(&mut trial, n, "SSH::CLIENT", if n % 2 == 0 { "8" } else { "9" });
        }
        assert_eq!(trial.evidence_of(&TYPE).len(), 3);
    }
}
