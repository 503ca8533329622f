//! The key by which frames are spread over workers.
//!
//! Both directions of a conversation must give the same key, and so must the fragments of a packet
//! and the ICMP error that quotes one: the key is a symmetric mix of the two addresses of the
//! outermost IP layer, or of the quoted packet. It reads a few fields of the raw frame, without a
//! decode and without trusting any length.
//!
//! A flow inside of tunnels may come by several of them (two mirrors of one network, say), and each
//! tunnel is a flow too, so no key of addresses keeps all of them together: frames of tunnels share
//! one key.

use crate::config::{DecodeConfig, TunnelPorts};
use crate::ethernet::ethertype;
use crate::ipv4::protocol;
use crate::limits::MAX_PARTITION_TAGS;
use crate::link::Link;

/// A key that is the same for both directions of an IP pair; 0 for all frames without IP and all
/// tunnels that decoders of this configuration look into.
#[inline]
pub fn partition_key(config: &DecodeConfig, link: Link, frame: &[u8]) -> u32 {
    ip_offset(link, frame).and_then(|ip| ip_key(frame.get(ip..)?, Some(config))).unwrap_or(0)
}

/// Whether what follows the IP header is a tunnel.
fn is_tunnel(config: &DecodeConfig, proto: u8, is_first: bool, rest: &[u8]) -> bool {
    match proto {
        protocol::IPV4 | protocol::IPV6 | protocol::GRE => true,
        protocol::UDP if is_first => {
            let port = |at| be16(rest, at).unwrap_or(0);
            let (sp, dp) = (port(0), port(2));
            let either = |ports: &TunnelPorts| ports.names(sp) || ports.names(dp);
            either(&config.vxlan) || either(&config.geneve) || either(&config.teredo)
        }
        _ => false,
    }
}

/// Where the outermost IP header begins.
fn ip_offset(link: Link, frame: &[u8]) -> Option<usize> {
    match link {
        Link::Ethernet => behind_ethertype(frame, 12),
        Link::Raw | Link::Ipv4 | Link::Ipv6 => Some(0),
        Link::Null => Some(4),
        Link::LinuxCooked => behind_ethertype(frame, 14),
        Link::LinuxCooked2 => match be16(frame, 0)? {
            ethertype::IPV4 | ethertype::IPV6 => Some(20),
            _ => None,
        },
        Link::CiscoHdlc => behind_ethertype(frame, 2),
        Link::Pppoe => Some(6 + if frame.get(6)? & 1 != 0 { 1 } else { 2 }),
        Link::Ppp => {
            let at = if frame.first() == Some(&0xff) { 2 } else { 0 };
            Some(at + if frame.get(at)? & 1 != 0 { 1 } else { 2 })
        }
    }
}

/// Passes tags and labels from the ethertype at `at`.
fn behind_ethertype(frame: &[u8], mut at: usize) -> Option<usize> {
    for _ in 0..MAX_PARTITION_TAGS {
        at = match be16(frame, at)? {
            ethertype::IPV4 | ethertype::IPV6 => return Some(at + 2),
            ethertype::VLAN | ethertype::PROVIDER_BRIDGE | ethertype::QINQ => at + 4,
            ethertype::VNTAG => at + 6,
            ethertype::BACKBONE => at + 18,
            ethertype::DCE => at + 16,
            ethertype::PPPOE_SESSION => {
                let protocol = at + 8;
                return Some(protocol + if frame.get(protocol)? & 1 != 0 { 1 } else { 2 });
            }
            ethertype::MPLS_UNICAST | ethertype::MPLS_MULTICAST => {
                return behind_labels(frame, at + 2);
            }
            ethertype::NSH => {
                let base = at + 2;
                return Some(base + usize::from(be16(frame, base)? & 0x3f) * 4);
            }
            _ => return None,
        };
    }
    None
}

fn behind_labels(frame: &[u8], mut at: usize) -> Option<usize> {
    for _ in 0..MAX_PARTITION_TAGS {
        let is_last = frame.get(at + 2)? & 1 != 0;
        at += 4;
        if is_last {
            return match frame.get(at)? >> 4 {
                0 => behind_ethertype(frame, at + 4 + 12),
                _ => Some(at),
            };
        }
    }
    None
}

/// The key of an IP packet. Without `config` it is one that an ICMP error quotes.
fn ip_key(ip: &[u8], config: Option<&DecodeConfig>) -> Option<u32> {
    match ip.first()? >> 4 {
        4 => {
            let header = ip.first_chunk::<20>()?;
            let rest = || ip.get(usize::from(header[0] & 15) * 4..).unwrap_or(&[]);
            if let Some(config) = config {
                // Fragments behind the first could not follow what stands in it.
                let is_whole = u16::from_be_bytes([header[6], header[7]]) & 0x3fff == 0;
                match header[9] {
                    protocol::TCP => {}
                    protocol::ICMP if is_whole => {
                        let icmp = rest();
                        if let Some(3 | 4 | 5 | 11 | 12) = icmp.first()
                            && let Some(key) = icmp.get(8..).and_then(|quote| ip_key(quote, None))
                        {
                            return Some(key);
                        }
                    }
                    proto if is_tunnel(config, proto, is_whole, rest()) => return None,
                    _ => {}
                }
            }
            let src = u32::from_le_bytes([header[12], header[13], header[14], header[15]]);
            let dst = u32::from_le_bytes([header[16], header[17], header[18], header[19]]);
            Some(mix(u64::from(src), u64::from(dst)))
        }
        6 => {
            let header = ip.first_chunk::<40>()?;
            if let Some(config) = config
                && leads_to_tunnel(config, header[6], ip.get(40..).unwrap_or(&[]))
            {
                return None;
            }
            let half = |at: usize| {
                let bytes = header.get(at..).and_then(|rest| rest.first_chunk::<8>());
                bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
            };
            Some(mix(half(8) ^ half(16).rotate_left(29), half(24) ^ half(32).rotate_left(29)))
        }
        _ => None,
    }
}

/// Whether a tunnel follows, behind extension headers that are passed over. (ICMPv6 errors have flows
/// of their own: what they quote does not matter.)
fn leads_to_tunnel(config: &DecodeConfig, mut proto: u8, mut rest: &[u8]) -> bool {
    let mut is_first = true;
    for _ in 0..MAX_PARTITION_TAGS {
        let len = match (proto, rest) {
            (protocol::HOP_BY_HOP | protocol::DESTINATION | protocol::ROUTING, [_, len, ..]) => {
                (usize::from(*len) + 1) * 8
            }
            (protocol::FRAGMENT, _) => {
                is_first = false;
                8
            }
            _ => break,
        };
        let Some((next, behind)) = rest.first().zip(rest.get(len..)) else { return false };
        (proto, rest) = (*next, behind);
    }
    is_tunnel(config, proto, is_first, rest)
}

/// Symmetric in its arguments; all bits of both reach all bits of the key.
fn mix(a: u64, b: u64) -> u32 {
    let both = (a ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ a.wrapping_add(b);
    let both = both.wrapping_mul(0xd6e8_feb8_6659_fd93);
    (both >> 32) as u32
}

fn be16(frame: &[u8], at: usize) -> Option<u16> {
    let [a, b] = *frame.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes([a, b]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{self, join};

    fn key_of(link: Link, frame: &[u8]) -> u32 {
        partition_key(&DecodeConfig::DEFAULT, link, frame)
    }

    /// The packet with its addresses exchanged.
    fn turned(packet: &[u8]) -> Vec<u8> {
        let (at, len) = if packet[0] >> 4 == 4 { (12, 4) } else { (8, 16) };
        let mut turned = packet.to_vec();
        turned[at..at + len].copy_from_slice(&packet[at + len..at + 2 * len]);
        turned[at + len..at + 2 * len].copy_from_slice(&packet[at..at + len]);
        turned
    }

    #[test]
    fn both_directions_have_one_key_behind_any_link_and_tag() {
        let v4 = build::ipv4(17, &[], &build::udp(1, 2, b"x"));
        let v6 = build::ipv6(17, &build::udp(1, 2, b"x"));
        for (packet, kind) in [(&v4, 0x0800u16), (&v6, 0x86dd)] {
            let key = key_of(Link::Raw, packet);
            assert_ne!(key, 0);
            let kind = kind.to_be_bytes();
            let mac = [0u8; 12];
            let ppp: &[u8] = if packet[0] >> 4 == 4 { &[0, 0x21] } else { &[0x57] };
            let pppoe = join(&[&[0x11, 0, 0, 1, 0, 9], ppp]);
            let heads: Vec<(Link, Vec<u8>)> = vec![
                (Link::Raw, vec![]),
                (Link::Ethernet, join(&[&mac, &kind])),
                (Link::Ethernet, join(&[&mac, &[0x81, 0, 0, 5], &kind])),
                (Link::Ethernet, join(&[&mac, &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6], &kind])),
                (Link::Ethernet, join(&[&mac, &[0x89, 0x26, 0, 0, 0, 0], &kind])),
                (Link::Ethernet, join(&[&mac, &[0x88, 0xe7], &[0; 16], &kind])),
                (Link::Ethernet, join(&[&mac, &[0x89, 0x03, 0, 0], &mac, &kind])),
                (Link::Ethernet, join(&[&mac, &[0x88, 0x64], &pppoe])),
                (Link::Ethernet, join(&[&mac, &[0x88, 0x47, 0, 1, 0, 9, 0, 1, 1, 9]])),
                (Link::Ethernet, join(&[&mac, &[0x88, 0x47, 0, 1, 1, 9, 0, 0, 0, 0], &mac, &kind])),
                (Link::Ethernet, join(&[&mac, &[0x89, 0x4f, 0, 2, 1, 1, 0, 0, 0, 0]])),
                (Link::Null, vec![2, 0, 0, 0]),
                (Link::LinuxCooked, join(&[&[0; 14], &kind])),
                (Link::LinuxCooked2, join(&[&kind, &[0; 18]])),
                (Link::CiscoHdlc, join(&[&[0x0f, 0], &kind])),
                (Link::Ppp, join(&[&[0xff, 3], ppp])),
                (Link::Ppp, ppp.to_vec()),
                (Link::Pppoe, pppoe),
            ];
            for (link, head) in heads {
                for packet in [packet, &turned(packet)] {
                    let frame = join(&[&head, packet]);
                    assert_eq!(key_of(link, &frame), key, "{link:?} {head:?}");
                }
            }
        }
        assert_ne!(key_of(Link::Raw, &v4), key_of(Link::Raw, &v6));
    }

    #[test]
    fn an_icmp_error_goes_with_what_it_quotes() {
        let quoted = build::ipv4(17, &[], &build::udp(1, 2, b"x"));
        let mut error = build::ipv4(1, &[], &join(&[&[3, 3, 0, 0, 0, 0, 0, 0], &quoted]));
        // From a router on the way.
        error[12..16].copy_from_slice(&[192, 0, 2, 1]);
        let key = key_of(Link::Raw, &quoted);
        assert_eq!(key_of(Link::Raw, &error), key);
        // Its fragments stay together by their own addresses.
        error[6] = 0x20;
        assert_ne!(key_of(Link::Raw, &error), key);
    }

    #[test]
    fn tunnels_share_a_key() {
        let inner = build::ipv4(17, &[], &build::udp(1, 2, b"x"));
        let bare = key_of(Link::Raw, &inner);
        let overlay = |port| build::udp(50_000, port, &inner);
        for (packet, is_tunnel) in [
            (build::ipv4(4, &[], &inner), true),
            (build::ipv4(47, &[], &join(&[&[0, 0, 8, 0], &inner])), true),
            (build::ipv6(4, &inner), true),
            (build::ipv6(60, &join(&[&[4, 0, 0, 0, 0, 0, 0, 0], &inner])), true),
            (build::ipv4(17, &[], &overlay(4789)), true),
            (build::ipv4(17, &[], &overlay(6081)), true),
            (build::ipv6(17, &overlay(3544)), true),
            (build::ipv4(17, &[], &overlay(53)), false),
            (build::ipv6(17, &overlay(53)), false),
        ] {
            assert_eq!(key_of(Link::Raw, &packet) == 0, is_tunnel);
        }
        assert_ne!(bare, 0);
    }

    #[test]
    fn frames_without_ip_share_a_key() {
        assert_eq!(key_of(Link::Ethernet, &build::ethernet(0x0806, &[0; 28])), 0);
        assert_eq!(key_of(Link::Ethernet, &[]), 0);
    }
}
