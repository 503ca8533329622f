//! GRE tunnels, found and ended.

use super::{About, Detector, bit};
use crate::context::Context;
use crate::sketch::hash_ip;
use crate::state::Slot;
use crate::text::text;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind};

/// A tunnel in use.
pub(crate) static TUNNEL: EvidenceType = EvidenceType::new("GRE_TUNNEL", "T1572");
/// A tunnel looked for.
pub(crate) static SCAN: EvidenceType = EvidenceType::new("GRE_SCAN", "T1572");

/// The detector.
#[derive(Debug)]
pub(crate) struct Gre;

impl Detector for Gre {
    type Window = ();
    type Kept = ();
    const ABOUT: About = About {
        types: &[&TUNNEL, &SCAN],
        condition: "a line of tunnel.log of Tunnel::GRE: GRE_SCAN when it is Tunnel::DISCOVER, else \
            GRE_TUNNEL; at the 1st, 10th, 100th … time by destination",
        level: "low; 1",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Tunnel);

    fn record(_: &mut Slot<()>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Tunnel(t) = &r.body else { return };
        if t.tunnel_type != b"Tunnel::GRE" {
            return;
        }
        let (kind, what) = match t.action {
            b"Tunnel::DISCOVER" => (&SCAN, "scan"),
            _ => (&TUNNEL, "tunnel"),
        };
        cx.say_damped(hash_ip(r.dst), |cx| {
            cx.find(kind)
                .level(ThreatLevel::Low, 1.0)
                .victim(r.dst)
                .says("GRE {0} from {profile} to {dst} tunnel action: {1}")
                .word(what)
                .word(text(t.action))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, log};
    use gabion_record::logs::Tunnel;

    fn see(trial: &mut Trial, second: i64, kind: &str, action: &str) {
        let body = Tunnel { tunnel_type: kind.as_bytes(), action: action.as_bytes() };
        trial.record(&log(second, "10.0.0.1", "1.2.3.4", Body::Tunnel(body)));
    }

    #[test]
    fn found_and_ended() {
        let mut trial = Trial::new();
        see(&mut trial, 0, "Tunnel::GRE", "Tunnel::DISCOVER");
        see(&mut trial, 1, "Tunnel::GRE", "Tunnel::EXPIRE");
        assert_eq!((trial.evidence_of(&SCAN).len(), trial.evidence_of(&TUNNEL).len()), (1, 1));
    }

    #[test]
    fn other_tunnels_are_none() {
        let mut trial = Trial::new();
        see(&mut trial, 0, "Tunnel::VXLAN", "Tunnel::DISCOVER");
        assert!(trial.said.is_empty());
    }

    #[test]
    fn repeats_are_damped() {
        let mut trial = Trial::new();
        for n in 0..500 {
            see(&mut trial, n, "Tunnel::GRE", "Tunnel::DISCOVER");
        }
        assert_eq!(trial.evidence_of(&SCAN).len(), 3);
    }
}
