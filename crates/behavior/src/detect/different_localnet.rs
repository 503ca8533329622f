//! A private address outside the local network.

use super::{About, Detector, bit};
use crate::context::Context;
use crate::limits::{LOCAL_RESOLVERS_MAX, reached};
use crate::sketch::{Keyed, hash_ip};
use crate::state::{Slot, state};
use gabion_record::Ip;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind, Proto};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("DIFFERENT_LOCALNET", "T1021");

/// The detector.
#[derive(Debug)]
pub(crate) struct DifferentLocalnet;

/// Queries that a private resolver outside the local network answers before it counts as ours.
const FORGIVEN: u32 = 4;

state! {
    /// Resolvers of a profile.
    pub struct Resolvers {
        answered: Keyed<Ip, u32, LOCAL_RESOLVERS_MAX>,
    }
}

impl Detector for DifferentLocalnet {
    type Window = ();
    type Kept = Resolvers;
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "an IPv4 flow to a private address where one end is private and outside the local \
            network; a resolver there is forgiven once it has answered; at the 1st, 10th, 100th … \
            time",
        level: "the destination outside: high, the destination is the attacker; the source outside: \
            low; 1",
        settings: &["parameters.client_ips"],
    };
    const KINDS: u32 = bit(LogKind::Conn) | bit(LogKind::Dns) | bit(LogKind::Arp);

    #[inline]
    fn record(_: &mut Slot<()>, kept: &mut Slot<Resolvers>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Some(local) = cx.facts.local else { return };
        if !r.dst.is_private() || !is_usual(r.src) || !is_usual(r.dst) {
            return;
        }
        let is_dns = r.proto == Proto::Udp && r.dst_port == 53;
        match &r.body {
            Body::Dns(d) if is_dns => {
                if !d.answers.is_empty() && !local.contains(r.dst) {
                    let limit = &reached::LOCAL_RESOLVERS_MAX;
                    let answered = kept.make().answered.get_or_add(r.dst, limit);
                    if let Some(n) = answered {
                        *n = n.saturating_add(1);
                    }
                    return;
                }
                // The first are forgiven, and all of a resolver that answers.
                let n = kept.get().and_then(|k| k.answered.get(r.dst).copied()).unwrap_or(0);
                if n > FORGIVEN {
                    return;
                }
            }
            Body::Dns(_) => return,
            Body::Conn(_) if is_dns => return,
            _ => {}
        }
        if !local.contains(r.dst) {
            say(cx, true);
        }
        if r.src.is_private() && !local.contains(r.src) {
            say(cx, false);
        }
    }
}

/// An address of a host: IPv4, neither none nor all nor loopback nor multicast.
fn is_usual(ip: Ip) -> bool {
    ip.is_v4()
        && !ip.is_unspecified()
        && !ip.is_broadcast()
        && !ip.is_loopback()
        && !ip.is_multicast()
}

fn say(cx: &mut Context<'_, '_>, is_destination: bool) {
    let r = cx.record;
    let what = hash_ip(r.dst) ^ u64::from(r.dst_port) << 1 ^ u64::from(is_destination);
    let Some(times) = cx.is_due(&TYPE, what) else { return };
    let Some(local) = cx.facts.local else { return };
    let port = match r.proto {
        Proto::Arp => "using ARP".to_owned(),
        proto => format!("on port: {}/{}", r.dst_port, proto.name().to_uppercase()),
    };
    let mut finding = if is_destination {
        cx.find(&TYPE).level(ThreatLevel::High, 1.0).by_destination(r.dst).says(
            "A connection to a private IP ({dst}) outside of the used local network {0}. From IP: {src} \
             {1}",
        )
    } else {
        cx.find(&TYPE).level(ThreatLevel::Low, 1.0).victim(r.dst).says(
            "A connection from a private IP ({src}) outside of the used local network {0}. To IP: {dst} \
             {1}",
        )
    }
    .word(local.to_string())
    .word(port)
    .seen(times);
    if r.proto != Proto::Arp {
        finding = finding.source_port(r.src_port).destination_port(r.dst_port);
    }
    cx.say(finding);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, conn};

    #[test]
    fn both_ends_are_looked_at() {
        let mut trial = Trial::new();
        trial.give(&conn(0, "192.168.1.5", "192.168.1.6", 445));
        assert!(trial.evidence_of(&TYPE).is_empty());
        trial.give(&conn(1, "192.168.1.5", "10.0.2.2", 445));
        trial.give(&conn(2, "10.9.9.9", "192.168.1.5", 445));
        let levels: Vec<_> = trial.evidence_of(&TYPE).iter().map(|e| e.level).collect();
        assert_eq!(levels, [ThreatLevel::High, ThreatLevel::Low]);
    }

    #[test]
    fn public_and_special_addresses_are_none() {
        let mut trial = Trial::new();
        trial.give(&conn(0, "192.168.1.5", "8.8.8.8", 445));
        trial.give(&conn(0, "192.168.1.5", "255.255.255.255", 67).udp());
        trial.give(&conn(0, "192.168.1.5", "10.0.0.1", 53).udp());
        assert!(trial.evidence_of(&TYPE).is_empty());
    }

    #[test]
    fn a_sweep_of_other_networks_is_damped() {
        let mut trial = Trial::new();
        for n in 0..3000 {
            trial.give(&conn(n, "192.168.1.5", &format!("10.0.{}.{}", n / 250, n % 250), 445));
        }
        assert!(trial.evidence_of(&TYPE).len() < 140);
    }
}
