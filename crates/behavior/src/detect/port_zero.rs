//! A connection from or to port 0.

use super::{About, Detector, bit};
use crate::context::Context;
use crate::sketch::hash_ip;
use crate::state::Slot;
use gabion_record::evidence::{EvidenceType, Party, ThreatLevel};
use gabion_record::logs::{Body, LogKind, Proto};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("PORT_0_CONNECTION", "T1571");

/// The detector.
#[derive(Debug)]
pub(crate) struct PortZero;

impl Detector for PortZero {
    type Window = ();
    type Kept = ();
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "a TCP, UDP or SCTP flow from or to port 0, not to a multicast address; at the \
            1st, 10th, 100th … time",
        level: "high; 0.8; the destination is the attacker when only its port is 0",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Conn);

    #[inline]
    fn record(_: &mut Slot<()>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Conn(c) = &r.body else { return };
        if (r.src_port != 0 && r.dst_port != 0)
            || c.has_no_ports
            || !matches!(r.proto, Proto::Tcp | Proto::Udp | Proto::Sctp)
            || r.dst.is_multicast()
        {
            return;
        }
        let Some(times) = cx.is_due(&TYPE, hash_ip(r.dst)) else { return };
        let mut finding = cx
            .find(&TYPE)
            .level(ThreatLevel::High, 0.8)
            .source_port(r.src_port)
            .destination_port(r.dst_port)
            .says("Connection on port 0 from {src}:{sport} to {dst}:{port}.")
            .seen(times);
        finding = match r.src_port {
            0 => finding.victim(r.dst),
            _ => {
                finding.0.victim = Some(Party::source(cx.profile));
                finding.by_destination(r.dst)
            }
        };
        cx.say(finding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, conn};
    use gabion_record::evidence::Role;

    #[test]
    fn port_zero_at_either_end() {
        let mut trial = Trial::new();
        trial.give(&conn(0, "10.0.0.1", "1.2.3.4", 0));
        let mut from_zero = conn(0, "10.0.0.1", "1.2.3.5", 80);
        from_zero.src_port = 0;
        trial.give(&from_zero);
        let found = trial.evidence_of(&TYPE);
        assert_eq!(found.len(), 2);
        assert!(found.iter().any(|e| e.attacker.role == Role::Destination));
        assert!(found.iter().any(|e| e.attacker.role == Role::Source));
    }

    #[test]
    fn port_one_multicast_and_icmp_are_none() {
        let mut trial = Trial::new();
        trial.give(&conn(0, "10.0.0.1", "1.2.3.4", 1));
        trial.give(&conn(0, "10.0.0.1", "224.0.0.22", 0));
        let mut icmp = conn(0, "10.0.0.1", "1.2.3.4", 0);
        icmp.proto = Proto::Icmp;
        trial.give(&icmp);
        assert!(trial.evidence_of(&TYPE).is_empty());
    }

    #[test]
    fn a_flood_is_damped() {
        let mut trial = Trial::new();
        for n in 0..5000i64 {
            trial.give(&conn(n / 2, "10.0.0.1", "1.2.3.4", 0));
        }
        assert_eq!(trial.evidence_of(&TYPE).len(), 4);
    }
}
