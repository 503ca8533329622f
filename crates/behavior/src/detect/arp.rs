//! ARP: scans, hosts outside, replies nobody asked for, addresses taken over.

use super::dga::contains;
use super::{About, Detector, bit};
use crate::context::Context;
use crate::sketch::hash_ip;
use crate::state::{Slot, state};
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Arp as ArpLog, Body, LogKind, Mac, Record, SECOND, TimeNs};

/// Many hosts asked for.
pub(crate) static SCAN: EvidenceType = EvidenceType::new("ARP_SCAN", "T1018");
/// A host outside the local network asked for.
pub(crate) static OUTSIDE: EvidenceType = EvidenceType::new("ARP_OUTSIDE_LOCALNET", "T1557.002");
/// A reply to all that nobody asked for.
pub(crate) static UNSOLICITED: EvidenceType = EvidenceType::new("UNSOLICITED_ARP", "T1557.002");
/// An address taken over.
pub(crate) static MITM: EvidenceType = EvidenceType::new("MITM_ARP_ATTACK", "T1557.002");

/// The detector.
#[derive(Debug)]
pub(crate) struct Arp;

/// Hosts asked for within so long are a scan.
const SPAN: i64 = 30 * SECOND;

state! {
    /// The last distinct hosts asked for and when.
    pub struct Asked {
        last: Vec<(u64, TimeNs)>,
    }
}

impl Detector for Arp {
    type Window = ();
    type Kept = Asked;
    const ABOUT: About = About {
        types: &[&SCAN, &OUTSIDE, &UNSOLICITED, &MITM],
        condition: "requests for 5 distinct hosts within any 30 s, not by the gateway; a request for an \
            address outside all private blocks and another network than the source's; a reply to all \
            hardware addresses; a reply to all whose hardware address was another's; at the 1st, 10th, \
            100th … time",
        level: "ARP_SCAN low, 0.8; ARP_OUTSIDE_LOCALNET low, 0.6; UNSOLICITED_ARP low, 0.8; \
            MITM_ARP_ATTACK critical, 0.2",
        settings: &["arp.arp_scan_threshold"],
    };
    const KINDS: u32 = bit(LogKind::Arp);

    fn record(_: &mut Slot<()>, kept: &mut Slot<Asked>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Arp(a) = &r.body else { return };
        let is_reply = contains(a.operation, b"reply");
        let to_all = |mac: Option<Mac>| mac == Some(Mac::BROADCAST);
        if is_reply && (to_all(a.dst_hw) || a.dst_hw == Some(Mac::ZERO)) {
            taken_over(a, cx);
        } else if contains(a.operation, b"request") {
            scan(r, kept, cx);
        }
        if contains(a.operation, b"request") {
            outside(r, cx);
        }
        let is_real = |mac: Option<Mac>| mac.is_some_and(|m| m != Mac::ZERO);
        if is_reply
            && to_all(a.dst_mac)
            && to_all(a.dst_hw)
            && is_real(a.src_mac)
            && is_real(a.src_hw)
        {
            cx.say_damped(hash_ip(r.dst), |cx| {
                cx.find(&UNSOLICITED)
                    .level(ThreatLevel::Low, 0.8)
                    .about(hash_ip(r.dst))
                    .says("broadcasting unsolicited ARP")
            });
        }
    }
}

fn taken_over(a: &ArpLog<'_>, cx: &mut Context<'_, '_>) {
    let (Some(owner), Some(mac)) = (cx.facts.mac_owner, a.src_mac.or(a.src_hw)) else { return };
    cx.say_damped(hash_ip(owner), |cx| {
        cx.find(&MITM)
            .level(ThreatLevel::Critical, 0.2)
            .victim(owner)
            .says(
                "{src} performing a MITM ARP attack. The MAC {0}, now belonging to {src}, was seen before \
                 for IP {dst}.",
            )
            .word(mac.to_string())
    });
}

fn scan(r: &Record<'_>, kept: &mut Slot<Asked>, cx: &mut Context<'_, '_>) {
    if r.is_late || r.src.is_unspecified() || cx.facts.gateway == Some(r.src) || r.src == r.dst {
        return;
    }
    let threshold = cx.settings.arp_scan.max(1) as usize;
    let last = &mut kept.make().last;
    last.retain(|(_, ts)| r.ts.since(*ts) <= SPAN);
    let host = hash_ip(r.dst);
    if last.iter().any(|(h, _)| *h == host) {
        return;
    }
    last.push((host, r.ts));
    if last.len() < threshold {
        return;
    }
    let (first, count) = (last.first().map_or(r.ts, |l| l.1), last.len() as u64);
    last.clear();
    cx.say_damped(0, |cx| {
        cx.find(&SCAN)
            .level(ThreatLevel::Low, 0.8)
            .since(first, count)
            .hosts(count)
            .says("performing an arp scan. Confidence 0.8.")
    });
}

/// D37 of Slips: networks are compared by their bits, not by the text of addresses.
fn outside(r: &Record<'_>, cx: &mut Context<'_, '_>) {
    let (Some(src), Some(dst)) = (r.src.as_v4(), r.dst.as_v4()) else { return };
    let is_inside = r.dst.rfc1918().is_some() || src >> 24 == dst >> 24;
    if src == 0 || dst == 0 || is_inside || r.dst.is_multicast() || r.dst.is_link_local() {
        return;
    }
    cx.say_damped(hash_ip(r.dst), |cx| {
        cx.find(&OUTSIDE).level(ThreatLevel::Low, 0.6).victim(r.dst).says(
            "{profile} sending ARP packet to a destination address outside of local network: {dst}. ",
        )
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, log};

    fn request(trial: &mut Trial, second: i64, dst: &str) {
        let body = ArpLog { operation: b"request", dst_hw: Some(Mac::ZERO), ..ArpLog::default() };
        trial.record(&log(second, "192.168.1.5", dst, Body::Arp(body)));
    }

    #[test]
    fn five_hosts_within_half_a_minute() {
        let mut trial = Trial::new();
        for n in 0..4 {
            request(&mut trial, n, &format!("192.168.1.{}", 10 + n));
        }
        assert!(trial.evidence_of(&SCAN).is_empty());
        request(&mut trial, 30, "192.168.1.99");
        assert_eq!(trial.evidence_of(&SCAN).len(), 1);
    }

    #[test]
    fn slow_and_repeated_requests_are_none() {
        let mut trial = Trial::new();
        for n in 0..50 {
            request(&mut trial, n * 8, &format!("192.168.1.{n}"));
            request(&mut trial, n * 8, &format!("192.168.1.{n}"));
        }
        assert!(trial.evidence_of(&SCAN).is_empty());
    }

    /// D37: "1" is the beginning of 10, 172 and 192 as texts and of none of them as networks.
    #[test]
    fn outside_is_by_network() {
        let mut trial = Trial::new();
        request(&mut trial, 0, "10.1.1.1");
        request(&mut trial, 0, "192.0.9.9");
        assert!(trial.evidence_of(&OUTSIDE).is_empty());
        request(&mut trial, 0, "69.220.152.0");
        request(&mut trial, 0, "19.1.1.1");
        assert_eq!(trial.evidence_of(&OUTSIDE).len(), 2);
    }

    #[test]
    fn a_storm_is_damped_and_an_address_taken_over_is_reported() {
        let mut trial = Trial::new();
        for n in 0..60_000i64 {
            request(&mut trial, n / 1000, &format!("192.168.{}.{}", n / 250 % 200, n % 250));
        }
        assert!(trial.evidence_of(&SCAN).len() <= 6);
        assert!(trial.profile_bytes("192.168.1.5") < 16 << 10);
        let mac = Some(Mac([2, 0, 0, 0, 0, 1]));
        let all = Some(Mac::BROADCAST);
        let operation = &b"reply"[..];
        let reply = ArpLog { operation, src_mac: mac, src_hw: mac, dst_mac: all, dst_hw: all };
        trial.record(&log(70, "192.168.1.5", "192.168.1.1", Body::Arp(reply)));
        trial.record(&log(71, "192.168.1.6", "192.168.1.1", Body::Arp(reply)));
        assert_eq!((trial.evidence_of(&MITM).len(), trial.evidence_of(&UNSOLICITED).len()), (1, 2));
    }
}
