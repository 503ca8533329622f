//! A device that was known by another address.

use super::{About, Detector, bit};
use crate::context::Context;
use crate::state::Slot;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("DEVICE_CHANGING_IP", "T1036");

/// The detector.
#[derive(Debug)]
pub(crate) struct DeviceChangingIp;

impl Detector for DeviceChangingIp {
    type Window = ();
    type Kept = ();
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "a private IPv4 source has a hardware address that was another's first; at the \
            1st, 10th, 100th … flow of a window",
        level: "medium; 0.8",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Conn);

    #[inline]
    fn record(_: &mut Slot<()>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let Some(owner) = cx.facts.mac_owner else { return };
        let Body::Conn(c) = &cx.record.body else { return };
        let Some(mac) = c.src_mac else { return };
        let Some(times) = cx.is_due(&TYPE, 0) else { return };
        let finding = cx
            .find(&TYPE)
            .level(ThreatLevel::Medium, 0.8)
            .victim(owner)
            .says(
                "A device changing IPs. IP {profile} was found with MAC address {0} but the MAC belongs \
                 originally to IP: {dst}. ",
            )
            .word(mac.to_string())
            .seen(times);
        cx.say(finding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, conn};
    use gabion_record::logs::Mac;

    /// D26 of Slips: hardware addresses of conn.log are read.
    #[test]
    fn the_second_address_of_a_device_is_reported_once() {
        let mac = |n| Some(Mac([2, 0, 0, 0, 0, n]));
        let mut trial = Trial::new();
        let mut first = conn(0, "10.0.0.1", "1.2.3.4", 80);
        first.src_mac = mac(1);
        trial.give(&first);
        for n in 1..5 {
            let mut second = conn(n, "10.0.0.2", "1.2.3.4", 80);
            second.src_mac = mac(1);
            trial.give(&second);
            let mut other = conn(n, "10.0.0.3", "1.2.3.4", 80);
            other.src_mac = mac(3);
            trial.give(&other);
        }
        let found = trial.evidence_of(&TYPE);
        assert_eq!((found.len(), found[0].profile.to_string()), (1, "10.0.0.2".into()));
    }

    #[test]
    fn public_addresses_share_the_routers() {
        let mut trial = Trial::new();
        for n in 1..50 {
            let mut c = conn(n, &format!("8.8.8.{n}"), "10.0.0.1", 80);
            c.src_mac = Some(Mac([2, 0, 0, 0, 0, 9]));
            trial.give(&c);
        }
        assert!(trial.evidence_of(&TYPE).is_empty());
    }

    #[test]
    fn all_zero_and_broadcast_belong_to_nobody() {
        let mut trial = Trial::new();
        for (n, mac) in [Mac::ZERO, Mac::BROADCAST].into_iter().cycle().take(6).enumerate() {
            let mut c = conn(n as i64, &format!("10.0.0.{}", n + 1), "10.0.0.99", 80);
            c.src_mac = Some(mac);
            trial.give(&c);
        }
        assert!(trial.evidence_of(&TYPE).is_empty());
    }
}
