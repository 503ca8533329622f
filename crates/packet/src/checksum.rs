//! Checksums, computed only on request: for rules that check them, the TCP engine and statistics.
//!
//! The internet checksum (RFC 1071) over the captured bytes. Each function returns `None` if there
//! is nothing to check: the layer is absent, the packet is a fragment, or the sender left the
//! checksum out.

use crate::decoded::{Decoded, Flags, Network};
use crate::limits::MAX_IP_LEN;
use crate::transport::TransportHeader;
use gabion_record::IpProto;

/// Whether the checksum of the IPv4 header is correct.
pub fn ipv4_ok(p: &Decoded, frame: &[u8]) -> Option<bool> {
    if p.network != Network::Ipv4 {
        return None;
    }
    Some(fold(sum(p.ip_header(frame))) == 0xffff)
}

/// Whether the TCP checksum is correct.
pub fn tcp_ok(p: &Decoded, frame: &[u8]) -> Option<bool> {
    p.transport.tcp().and_then(|_| pseudo_ok(p, frame, IpProto::TCP))
}

/// Whether the UDP checksum is correct; `None` where IPv4 carries none (a checksum of zero).
pub fn udp_ok(p: &Decoded, frame: &[u8]) -> Option<bool> {
    let TransportHeader::Udp(udp) = p.transport else { return None };
    if udp.checksum == 0 && p.network == Network::Ipv4 {
        return None;
    }
    pseudo_ok(p, frame, IpProto::UDP)
}

/// Whether the checksum of ICMP in IPv4 is correct.
pub fn icmpv4_ok(p: &Decoded, frame: &[u8]) -> Option<bool> {
    let TransportHeader::Icmpv4(_) = p.transport else { return None };
    (!p.flags.has(Flags::FRAGMENT)).then(|| fold(sum(p.segment(frame))) == 0xffff)
}

/// Whether the ICMPv6 checksum is correct.
pub fn icmpv6_ok(p: &Decoded, frame: &[u8]) -> Option<bool> {
    let TransportHeader::Icmpv6(_) = p.transport else { return None };
    pseudo_ok(p, frame, IpProto::ICMPV6)
}

/// Whether the checksum of the transport layer is correct, whichever protocol it is.
pub fn transport_ok(p: &Decoded, frame: &[u8]) -> Option<bool> {
    match p.transport {
        TransportHeader::Tcp(_) => tcp_ok(p, frame),
        TransportHeader::Udp(_) => udp_ok(p, frame),
        TransportHeader::Icmpv4(_) => icmpv4_ok(p, frame),
        TransportHeader::Icmpv6(_) => icmpv6_ok(p, frame),
        TransportHeader::Sctp(_)
        | TransportHeader::Esp(_)
        | TransportHeader::Gre(_)
        | TransportHeader::None => None,
    }
}

/// Writes the correct TCP checksum into a packet that was changed. Returns false if there is none.
pub fn seal_tcp(p: &Decoded, frame: &mut [u8]) -> bool {
    let at = p.l4 as usize + 16;
    let Some(field) = frame.get_mut(at..at + 2) else { return false };
    field.copy_from_slice(&[0, 0]);
    let Some(total) = pseudo_sum(p, frame, IpProto::TCP) else { return false };
    if let Some(field) = frame.get_mut(at..at + 2) {
        field.copy_from_slice(&(!fold(total)).to_ne_bytes());
    }
    true
}

fn pseudo_ok(p: &Decoded, frame: &[u8], proto: IpProto) -> Option<bool> {
    pseudo_sum(p, frame, proto).map(|total| fold(total) == 0xffff)
}

/// The sum over segment and pseudo header: addresses, protocol, length.
fn pseudo_sum(p: &Decoded, frame: &[u8], proto: IpProto) -> Option<u64> {
    let segment = p.segment(frame);
    // A packet that hardware offload merged was never on the wire and carries no checksum.
    if p.ip_version() == 0 || p.flags.has(Flags::FRAGMENT) || segment.len() > MAX_IP_LEN {
        return None;
    }
    // The twelve zero bytes after an IPv4 address add nothing.
    let total = sum(&p.src.0)
        .wrapping_add(sum(&p.dst.0))
        .wrapping_add(sum(&[0, proto.0]))
        .wrapping_add(sum(&(segment.len() as u32).to_be_bytes()))
        .wrapping_add(sum(segment));
    Some(total)
}

/// The sum of the 16-bit words in the machine's byte order; the checksum does not depend on the
/// order as long as all words are summed in the same one. Four bytes at a time.
fn sum(bytes: &[u8]) -> u64 {
    let mut total = 0u64;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        total += u64::from(u32::from_ne_bytes(*word));
    }
    let mut last = [0u8; 4];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    total + u64::from(u32::from_ne_bytes(last))
}

/// Adds the carries back in until 16 bits are left.
fn fold(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total >> 16) + (total & 0xffff);
    }
    total as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build;

    /// Puts a correct checksum at `at` of the segment (computed the slow way) and returns the
    /// packet.
    fn with_checksum(proto: IpProto, v6: bool, segment: &[u8], at: usize) -> Vec<u8> {
        let mut segment = segment.to_vec();
        segment[at..at + 2].copy_from_slice(&[0, 0]);
        let len = (segment.len() as u32).to_be_bytes();
        let bare = |inside: &[u8]| {
            if v6 { build::ipv6(proto, inside) } else { build::ipv4(proto, &[], inside) }
        };
        let packet = bare(&segment);
        let pair = if v6 { &packet[8..40] } else { &packet[12..20] };
        let sum = match (proto, v6) {
            (IpProto::ICMP, _) => build::checksum(&[&segment]),
            _ => build::checksum(&[pair, &len, &[0, proto.0], &segment]),
        };
        segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        bare(&segment)
    }

    #[test]
    fn correct_sums_are_accepted_and_any_flipped_bit_is_detected() {
        let content: Vec<u8> = (0..97u8).collect();
        let echo = build::join(&[&[8, 0, 0, 0, 0, 1, 0, 2], &content]);
        let echo6 = build::join(&[&[128, 0, 0, 0, 0, 1, 0, 2], &content]);
        let solicitation = build::join(&[&[135, 0, 0, 0, 0, 0, 0, 0], &content]);
        let cases = [
            with_checksum(IpProto::TCP, false, &build::tcp(&[], &content), 16),
            with_checksum(IpProto::TCP, true, &build::tcp(&[], &content), 16),
            with_checksum(IpProto::UDP, false, &build::udp(1, 2, &content), 6),
            with_checksum(IpProto::UDP, true, &build::udp(1, 2, &content), 6),
            with_checksum(IpProto::ICMP, false, &echo, 2),
            with_checksum(IpProto::ICMPV6, true, &echo6, 2),
            // Its payload lacks bytes of which the checksum is made all the same.
            with_checksum(IpProto::ICMPV6, true, &solicitation, 2),
        ];
        for packet in cases {
            let p = build::raw(&packet);
            assert_eq!(transport_ok(&p, &packet), Some(true), "{:?}", p.transport);
            assert_eq!(ipv4_ok(&p, &packet), (p.ip_version() == 4).then_some(true));
            for at in p.payload as usize..packet.len() {
                let mut broken = packet.clone();
                broken[at] ^= 0x10;
                assert_eq!(transport_ok(&p, &broken), Some(false));
            }
        }
    }

    #[test]
    fn a_changed_packet_gets_a_correct_sum_again() {
        for v6 in [false, true] {
            let mut packet = with_checksum(IpProto::TCP, v6, &build::tcp(&[], b"EVIL"), 16);
            let p = build::raw(&packet);
            packet[p.payload as usize..].copy_from_slice(b"GOOD");
            assert_eq!(tcp_ok(&p, &packet), Some(false));
            assert!(seal_tcp(&p, &mut packet));
            assert_eq!(tcp_ok(&p, &packet), Some(true));
            assert!(!seal_tcp(&p, &mut packet[..20]));
        }
    }

    /// RFC 768: a UDP checksum of zero in IPv4 says that there is none.
    #[test]
    fn an_absent_checksum_is_none() {
        let packet = build::ipv4(17, &[], &build::udp(1, 2, b"x"));
        assert_eq!(udp_ok(&build::raw(&packet), &packet), None);
        let packet = build::ipv6(17, &build::udp(1, 2, b"x"));
        assert_eq!(udp_ok(&build::raw(&packet), &packet), Some(false));
        let fragment = build::ipv4_fragment(17, &[], 0x2000, &build::udp(1, 2, b"x"));
        assert_eq!(transport_ok(&build::raw(&fragment), &fragment), None);
    }

    /// The example of RFC 1071 section 3: the sum of 00 01 f2 03 f4 f5 f6 f7 is dd f2.
    #[test]
    fn the_sum_is_that_of_the_standard() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&bytes)).to_ne_bytes(), [0xdd, 0xf2]);
    }
}
