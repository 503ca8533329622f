//! One private address talks to another.

use super::{About, Detector, bit};
use crate::context::Context;
use crate::sketch::hash_ip;
use crate::state::Slot;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind, Proto};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("CONNECTION_TO_PRIVATE_IP", "T1021");

/// The detector.
#[derive(Debug)]
pub(crate) struct PrivateIp;

impl Detector for PrivateIp {
    type Window = ();
    type Kept = ();
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "a flow between private addresses, but DNS and DHCP with the gateway or a DHCP \
            server; at the 1st, 10th, 100th … time",
        level: "info; 1",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Conn);

    #[inline]
    fn record(_: &mut Slot<()>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        if !r.dst.is_private() || !r.src.is_private() {
            return;
        }
        let is_service = r.proto == Proto::Udp && matches!(r.dst_port, 53 | 67 | 68);
        if is_service && (cx.facts.gateway == Some(r.dst) || cx.facts.is_dhcp_server) {
            return;
        }
        let Body::Conn(c) = &r.body else { return };
        let what = hash_ip(r.dst) ^ u64::from(r.dst_port);
        let Some(times) = cx.is_due(&TYPE, what) else { return };
        let how = if r.proto.is_icmp() || c.has_no_ports {
            format!("protocol: {}", r.proto.name().to_uppercase())
        } else {
            format!("on destination port: {}", r.dst_port)
        };
        let mut finding = cx
            .find(&TYPE)
            .victim(r.dst)
            .level(ThreatLevel::Info, 1.0)
            .says("Connecting to private IP: {dst} {0}")
            .word(how)
            .seen(times);
        if !c.has_no_ports && !r.proto.is_icmp() {
            finding = finding.source_port(r.src_port).destination_port(r.dst_port);
        }
        cx.say(finding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, conn, has_values};

    #[test]
    fn private_to_private_is_reported_and_damped() {
        let mut trial = Trial::new();
        for n in 0..15 {
            trial.give(&conn(n, "10.0.0.1", "10.0.0.2", 445));
        }
        let found = trial.evidence_of(&TYPE);
        assert_eq!(found.len(), 2);
        assert!(has_values(&found[0], &["10.0.0.2", "445"]), "{}", found[0].description());
    }

    #[test]
    fn public_ends_are_not() {
        let mut trial = Trial::new();
        trial.give(&conn(0, "10.0.0.1", "8.8.8.8", 445));
        trial.give(&conn(0, "8.8.8.8", "10.0.0.1", 445));
        trial.give(&conn(0, "10.0.0.1", "100.64.0.1", 445));
        assert!(trial.evidence_of(&TYPE).is_empty());
    }

    #[test]
    fn a_sweep_of_private_hosts_is_bounded() {
        let mut trial = Trial::new();
        for n in 0..5000 {
            trial.give(&conn(n / 100, "10.0.0.1", &format!("10.1.{}.{}", n / 250, n % 250), 445));
        }
        assert!(trial.evidence_of(&TYPE).len() < 140, "{}", trial.evidence_of(&TYPE).len());
    }
}
