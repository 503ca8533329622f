//! Ethernet, its tags, and the other links that name their content by ethertype.
//!
//! Ethernet II (IEEE 802.3), 802.1Q/ad VLAN tags, 802.1ah (provider backbone), Cisco VN-Tag, Cisco
//! Fabric Path (DCE), Cisco HDLC, Linux cooked captures, BSD loopback, raw IP; and ARP (RFC 826).

use crate::counters::Counter;
use crate::decode::{Outcome, Reject, Run};
use crate::decoded::{Decoded, Flags, Network};
use crate::layer::Layer;
use crate::limits::MAX_VLANS;
use crate::{ipv4, ipv6, mpls, nsh, ppp};
use gabion_record::DecoderEvent;

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET_LEN: usize = 14;

/// Ethertypes that are decoded.
pub(crate) mod ethertype {
    pub(crate) const IPV4: u16 = 0x0800;
    pub(crate) const ARP: u16 = 0x0806;
    pub(crate) const BRIDGE: u16 = 0x6558;
    pub(crate) const VLAN: u16 = 0x8100;
    pub(crate) const IPV6: u16 = 0x86dd;
    pub(crate) const MPLS_UNICAST: u16 = 0x8847;
    pub(crate) const MPLS_MULTICAST: u16 = 0x8848;
    pub(crate) const PPPOE_DISCOVERY: u16 = 0x8863;
    pub(crate) const PPPOE_SESSION: u16 = 0x8864;
    pub(crate) const PROVIDER_BRIDGE: u16 = 0x88a8;
    pub(crate) const ERSPAN: u16 = 0x88be;
    pub(crate) const BACKBONE: u16 = 0x88e7;
    pub(crate) const DCE: u16 = 0x8903;
    pub(crate) const VNTAG: u16 = 0x8926;
    pub(crate) const NSH: u16 = 0x894f;
    pub(crate) const QINQ: u16 = 0x9100;
}

/// Whether the ethertype is one that is decoded, regardless of whether the layer after it was
/// valid.
type Known = bool;

/// Ethernet II.
#[inline]
pub(crate) fn decode(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> Outcome {
    run.counters.count(Counter::Ethernet);
    if layer.len() < ETHERNET_LEN {
        p.invalid(DecoderEvent::EthernetPacketTooSmall);
        return Err(Reject);
    }
    run.enter_layer(p)?;
    p.l2 = layer.at;
    p.flags.set(Flags::ETHERNET);
    decode_ethertype(run, p, layer.be16(12), layer.after(ETHERNET_LEN));
    Ok(())
}

/// The layer that an ethertype names.
#[inline]
pub(crate) fn decode_ethertype(
    run: &mut Run<'_>,
    p: &mut Decoded,
    kind: u16,
    inside: Layer<'_>,
) -> Known {
    p.ethertype = kind;
    let _ = match kind {
        ethertype::IPV4 => ipv4::decode(run, p, inside),
        ethertype::IPV6 => ipv6::decode(run, p, inside),
        ethertype::VLAN | ethertype::PROVIDER_BRIDGE | ethertype::QINQ => {
            if usize::from(p.vlan_count) >= MAX_VLANS {
                p.event(DecoderEvent::VlanTooManyLayers);
                Ok(())
            } else {
                decode_vlan(run, p, inside)
            }
        }
        ethertype::ARP => decode_arp(run, p, inside),
        ethertype::PPPOE_SESSION => ppp::decode_pppoe_session(run, p, inside),
        ethertype::PPPOE_DISCOVERY => ppp::decode_pppoe_discovery(run, p, inside),
        ethertype::MPLS_UNICAST | ethertype::MPLS_MULTICAST => mpls::decode(run, p, inside),
        ethertype::BACKBONE => decode_backbone(run, p, inside),
        ethertype::DCE => decode_dce(run, p, inside),
        ethertype::VNTAG => decode_vntag(run, p, inside),
        ethertype::NSH => nsh::decode(run, p, inside),
        _ => {
            run.counters.count(Counter::UnknownEthertype);
            p.event(DecoderEvent::EthernetUnknownType);
            return false;
        }
    };
    true
}

/// A VLAN tag: two bytes of priority and id, two of ethertype.
pub(crate) fn decode_vlan(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> Outcome {
    run.counters.count(match p.vlan_count {
        0 => Counter::Vlan,
        1 => Counter::VlanQinQ,
        _ => Counter::VlanQinQinQ,
    });
    if layer.len() < 4 {
        p.invalid(DecoderEvent::VlanHeaderTooSmall);
        return Err(Reject);
    }
    run.enter_layer(p)?;
    if !push_vlan(p, layer.be16(0) & 0x0fff) {
        p.event(DecoderEvent::VlanTooManyLayers);
        return Err(Reject);
    }
    if decode_ethertype(run, p, layer.be16(2), layer.after(4)) {
        return Ok(());
    }
    p.invalid(DecoderEvent::VlanUnknownType);
    Err(Reject)
}

/// Records a VLAN id. Returns false if no more ids fit.
pub(crate) fn push_vlan(p: &mut Decoded, id: u16) -> bool {
    let Some(place) = p.vlans.get_mut(usize::from(p.vlan_count)) else {
        return false;
    };
    *place = id;
    p.vlan_count += 1;
    true
}

/// 802.1ah: four bytes of service tag, then a customer's Ethernet header.
fn decode_backbone(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> Outcome {
    const LEN: usize = 18;
    run.counters.count(Counter::Ieee8021ah);
    if layer.len() < LEN {
        p.invalid(DecoderEvent::Ieee8021ahHeaderTooSmall);
        return Err(Reject);
    }
    run.enter_layer(p)?;
    decode_ethertype(run, p, layer.be16(16), layer.after(LEN));
    Ok(())
}

/// Cisco Fabric Path: two bytes of forwarding tag, then another Ethernet header.
fn decode_dce(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> Outcome {
    const LEN: usize = 2;
    if layer.len() < LEN {
        p.invalid(DecoderEvent::DcePacketTooSmall);
        return Err(Reject);
    }
    decode(run, p, layer.after(LEN))
}

/// Cisco VN-Tag: four bytes of tag, two of ethertype.
fn decode_vntag(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> Outcome {
    const LEN: usize = 6;
    run.counters.count(Counter::Vntag);
    if layer.len() < LEN {
        p.invalid(DecoderEvent::VntagHeaderTooSmall);
        return Err(Reject);
    }
    run.enter_layer(p)?;
    if decode_ethertype(run, p, layer.be16(4), layer.after(LEN)) {
        return Ok(());
    }
    p.invalid(DecoderEvent::VntagUnknownType);
    Err(Reject)
}

/// Linux cooked capture: the ethertype is its last field (LINKTYPE_LINUX_SLL).
pub(crate) fn decode_linux_cooked(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> Outcome {
    const LEN: usize = 16;
    run.counters.count(Counter::Sll);
    if layer.len() < LEN {
        p.invalid(DecoderEvent::SllPacketTooSmall);
        return Err(Reject);
    }
    run.enter_layer(p)?;
    decode_ethertype(run, p, layer.be16(14), layer.after(LEN));
    Ok(())
}

/// Linux cooked capture, version 2: the ethertype comes first (LINKTYPE_LINUX_SLL2).
pub(crate) fn decode_linux_cooked2(
    run: &mut Run<'_>,
    p: &mut Decoded,
    layer: Layer<'_>,
) -> Outcome {
    const LEN: usize = 20;
    run.counters.count(Counter::Sll2);
    if layer.len() < LEN {
        p.invalid(DecoderEvent::Sll2PacketTooSmall);
        return Err(Reject);
    }
    run.enter_layer(p)?;
    decode_ethertype(run, p, layer.be16(0), layer.after(LEN));
    Ok(())
}

/// Cisco HDLC: address, control, ethertype.
pub(crate) fn decode_cisco_hdlc(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> Outcome {
    const LEN: usize = 4;
    run.counters.count(Counter::CiscoHdlc);
    if layer.len() < LEN {
        p.invalid(DecoderEvent::ChdlcPacketTooSmall);
        return Err(Reject);
    }
    run.enter_layer(p)?;
    decode_ethertype(run, p, layer.be16(2), layer.after(LEN));
    Ok(())
}

/// BSD loopback: the address family in the byte order of the machine that wrote it.
pub(crate) fn decode_null(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> Outcome {
    const LEN: usize = 4;
    run.counters.count(Counter::Null);
    if layer.len() < LEN {
        p.invalid(DecoderEvent::NullPacketTooSmall);
        return Err(Reject);
    }
    run.enter_layer(p)?;
    let written = layer.be32(0).swap_bytes();
    let family = if written > 0xffff { written.swap_bytes() } else { written };
    let inside = layer.after(LEN);
    match family {
        2 => ipv4::decode(run, p, inside),
        // NetBSD and OpenBSD, FreeBSD, macOS, Linux, Windows
        24 | 28 | 30 | 10 | 23 => ipv6::decode(run, p, inside),
        _ => {
            p.event(DecoderEvent::NullUnsupportedType);
            Ok(())
        }
    }
}

/// IP without a link layer: the version nibble selects IPv4 or IPv6.
pub(crate) fn decode_raw(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> Outcome {
    run.counters.count(Counter::Raw);
    if layer.len() < ipv4::MIN_LEN {
        p.invalid(DecoderEvent::Ipv4PacketTooSmall);
        return Err(Reject);
    }
    run.enter_layer(p)?;
    match layer.u8(0) >> 4 {
        4 => ipv4::decode(run, p, layer),
        6 => ipv6::decode(run, p, layer),
        _ => {
            p.event(DecoderEvent::RawInvalidVersion);
            Ok(())
        }
    }
}

/// ARP for IPv4 over Ethernet (RFC 826).
pub(crate) fn decode_arp(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> Outcome {
    run.counters.count(Counter::Arp);
    if layer.len() < Arp::LEN {
        p.invalid(DecoderEvent::ArpPacketTooSmall);
        return Err(Reject);
    }
    if layer.be16(0) != 1 {
        p.invalid(DecoderEvent::ArpUnsupportedHardware);
        return Err(Reject);
    }
    if layer.be16(2) != ethertype::IPV4 {
        p.invalid(DecoderEvent::ArpUnsupportedProtocol);
        return Err(Reject);
    }
    if layer.u8(4) != 6 {
        p.invalid(DecoderEvent::ArpInvalidHardwareSize);
        return Err(Reject);
    }
    if layer.u8(5) != 4 {
        p.invalid(DecoderEvent::ArpInvalidProtocolSize);
        return Err(Reject);
    }
    if !matches!(layer.be16(6), 1..=4 | 8..=10) {
        p.invalid(DecoderEvent::ArpUnsupportedOpcode);
        return Err(Reject);
    }
    p.network = Network::Arp;
    p.l3 = layer.at;
    Ok(())
}

/// The fields of an ARP packet for IPv4 over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// 1 request, 2 reply, 3 and 4 reverse, 8 and 9 inverse, 10 NAK.
    pub operation: u16,
    /// Sender's hardware address.
    pub sender_mac: [u8; 6],
    /// Sender's IPv4 address.
    pub sender_ip: [u8; 4],
    /// Target's hardware address.
    pub target_mac: [u8; 6],
    /// Target's IPv4 address.
    pub target_ip: [u8; 4],
}

impl Arp {
    /// Bytes of ARP for IPv4 over Ethernet.
    const LEN: usize = 28;

    /// The ARP fields of a packet; `None` if the packet is not ARP.
    pub fn parse(p: &Decoded, frame: &[u8]) -> Option<Arp> {
        if p.network != Network::Arp {
            return None;
        }
        let arp = frame.get(p.l3 as usize..)?.first_chunk::<28>()?;
        let [_, _, _, _, _, _, o0, o1, rest @ ..] = *arp;
        let [s0, s1, s2, s3, s4, s5, rest @ ..] = rest;
        let [i0, i1, i2, i3, rest @ ..] = rest;
        let [t0, t1, t2, t3, t4, t5, target_ip @ ..] = rest;
        Some(Arp {
            operation: u16::from_be_bytes([o0, o1]),
            sender_mac: [s0, s1, s2, s3, s4, s5],
            sender_ip: [i0, i1, i2, i3],
            target_mac: [t0, t1, t2, t3, t4, t5],
            target_ip,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{self, events, join};
    use crate::link::Link;

    fn inside() -> Vec<u8> {
        build::ipv4(17, &[], &build::udp(1, 2, b"x"))
    }

    /// Each link and tag that leads to IPv4, with the counter that Suricata keeps for it.
    #[test]
    fn links_and_tags_lead_to_ip() {
        let ip = inside();
        let ip6 = build::ipv6(17, &build::udp(1, 2, b"x"));
        let tagged = |head: &[u8]| build::ethernet_tagged(head, &ip);
        let cases: Vec<(Link, Vec<u8>, Counter, &[u16])> = vec![
            (Link::Ethernet, build::ethernet(0x0800, &ip), Counter::Ethernet, &[]),
            (Link::Ethernet, tagged(&[0x81, 0, 0x60, 5, 8, 0]), Counter::Vlan, &[5]),
            (
                Link::Ethernet,
                tagged(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0]),
                Counter::VlanQinQ,
                &[5, 6],
            ),
            (
                Link::Ethernet,
                tagged(&[0x91, 0, 0, 5, 0x81, 0, 0, 6, 0x81, 0, 0, 7, 8, 0]),
                Counter::VlanQinQinQ,
                &[5, 6, 7],
            ),
            (Link::Ethernet, tagged(&[0x89, 0x26, 0, 0, 0, 0, 8, 0]), Counter::Vntag, &[]),
            (
                Link::Ethernet,
                tagged(&join(&[&[0x88, 0xe7], &[0; 16], &[8, 0]])),
                Counter::Ieee8021ah,
                &[],
            ),
            (
                Link::Ethernet,
                tagged(&join(&[&[0x89, 0x03, 0, 1], &[0; 12], &[8, 0]])),
                Counter::Ethernet,
                &[],
            ),
            (Link::Null, join(&[&[2, 0, 0, 0], &ip]), Counter::Null, &[]),
            (Link::Null, join(&[&[0, 0, 0, 2], &ip]), Counter::Null, &[]),
            (Link::Null, join(&[&[30, 0, 0, 0], &ip6]), Counter::Null, &[]),
            (Link::Raw, ip.clone(), Counter::Raw, &[]),
            (Link::Ipv6, ip6.clone(), Counter::Raw, &[]),
            (Link::LinuxCooked, join(&[&[0; 14], &[8, 0], &ip]), Counter::Sll, &[]),
            (Link::LinuxCooked2, join(&[&[8, 0], &[0; 18], &ip]), Counter::Sll2, &[]),
            (Link::CiscoHdlc, join(&[&[0x0f, 0, 8, 0], &ip]), Counter::CiscoHdlc, &[]),
        ];
        for (link, frame, counter, vlans) in cases {
            let (set, counters) = build::run(link, &frame);
            let p = set.root();
            assert_eq!(p.payload(&frame), b"x", "{link:?} {frame:?}");
            assert_eq!((p.vlan_ids(), events(p).len()), (vlans, 0), "{frame:?}");
            assert!(counters.get(counter) > 0, "{counter:?}");
            assert_eq!(p.flags.has(Flags::ETHERNET), link == Link::Ethernet);
        }
    }

    #[test]
    fn broken_links_raise_events() {
        let vlan = [0x81, 0, 0, 5];
        let four = join(&[&vlan, &vlan, &vlan, &vlan, &[8, 0]]);
        let cases: Vec<(Link, Vec<u8>, &[&str], bool)> = vec![
            (Link::Ethernet, vec![0; 13], &["ethernet.pkt_too_small"], true),
            (Link::Ethernet, build::ethernet(0x1234, &[]), &["ethernet.unknown_ethertype"], false),
            (Link::Ethernet, build::ethernet(0x8100, &[0; 3]), &["vlan.header_too_small"], true),
            (
                Link::Ethernet,
                build::ethernet(0x8100, &[0, 5, 0x12, 0x34]),
                &["ethernet.unknown_ethertype", "vlan.unknown_type"],
                true,
            ),
            (
                Link::Ethernet,
                build::ethernet_tagged(&four, &inside()),
                &["vlan.too_many_layers"],
                false,
            ),
            (Link::Ethernet, build::ethernet(0x8926, &[0; 5]), &["vntag.header_too_small"], true),
            (
                Link::Ethernet,
                build::ethernet(0x8926, &[0, 0, 0, 0, 0x12, 0x34]),
                &["ethernet.unknown_ethertype", "vntag.unknown_type"],
                true,
            ),
            (
                Link::Ethernet,
                build::ethernet(0x88e7, &[0; 17]),
                &["ieee8021ah.header_too_small"],
                true,
            ),
            (Link::Ethernet, build::ethernet(0x8903, &[0]), &["dce.pkt_too_small"], true),
            (Link::Null, vec![2, 0, 0], &["ltnull.pkt_too_small"], true),
            (Link::Null, vec![99, 0, 0, 0, 1], &["ltnull.unsupported_type"], false),
            (Link::Raw, vec![0x45; 19], &["ipv4.pkt_too_small"], true),
            (Link::Raw, vec![0x55; 20], &["ipraw.invalid_ip_version"], false),
            (Link::LinuxCooked, vec![0; 15], &["sll.pkt_too_small"], true),
            (Link::LinuxCooked2, vec![0; 19], &["sll2.pkt_too_small"], true),
            (Link::CiscoHdlc, vec![0; 3], &["chdlc.pkt_too_small"], true),
        ];
        for (link, frame, expected, is_invalid) in cases {
            let (set, counters) = build::run(link, &frame);
            assert_eq!(events(set.root()), expected, "{link:?} {frame:?}");
            assert_eq!(counters.get(Counter::Invalid), u64::from(is_invalid), "{expected:?}");
        }
    }

    #[test]
    fn addresses_are_those_of_the_last_ethernet_header() {
        let frame = build::ethernet(0x0800, &inside());
        let (set, _) = build::run(Link::Ethernet, &frame);
        assert_eq!(set.root().dst_mac(&frame), Some([2, 0, 0, 0, 0, 1]));
        assert_eq!(set.root().src_mac(&frame), Some([2, 0, 0, 0, 0, 2]));
        assert_eq!(build::raw(&inside()).src_mac(&inside()), None);
    }

    #[test]
    fn arp_is_parsed_for_ipv4_over_ethernet() {
        let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 2];
        arp.extend([1, 1, 1, 1, 1, 1, 10, 0, 0, 1, 2, 2, 2, 2, 2, 2, 10, 0, 0, 2]);
        let frame = build::ethernet(0x0806, &arp);
        let (set, _) = build::run(Link::Ethernet, &frame);
        let expected = Arp {
            operation: 2,
            sender_mac: [1; 6],
            sender_ip: [10, 0, 0, 1],
            target_mac: [2; 6],
            target_ip: [10, 0, 0, 2],
        };
        assert_eq!(Arp::parse(set.root(), &frame), Some(expected));
        let cases = [
            (0, 9, "arp.unsupported_hardware"),
            (2, 9, "arp.unsupported_protocol"),
            (4, 9, "arp.invalid_hardware_size"),
            (5, 9, "arp.invalid_protocol_size"),
            (7, 99, "arp.unsupported_opcode"),
        ];
        for (at, byte, event) in cases {
            let mut broken = arp.clone();
            broken[at] = byte;
            let frame = build::ethernet(0x0806, &broken);
            let (set, _) = build::run(Link::Ethernet, &frame);
            assert_eq!(events(set.root()), [event]);
            assert_eq!(Arp::parse(set.root(), &frame), None);
        }
        let (set, _) = build::run(Link::Ethernet, &build::ethernet(0x0806, &arp[..27]));
        assert_eq!(events(set.root()), ["arp.pkt_too_small"]);
    }
}
