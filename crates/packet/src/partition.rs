//! The key by which frames are spread over workers.
//!
//! All packets that share state must come to one worker: both directions of a conversation, the
//! fragments of a packet, the ICMP error that quotes a packet. The key is therefore a symmetric mix
//! of the two addresses of the packet, or of the packet that the error quotes.
//!
//! A flow inside tunnels may come through several of them (two mirrors of one network, say), and
//! each tunnel is a flow too, so no key of addresses keeps all of them together: frames of tunnels,
//! and of flows that may carry one, share the key [`TUNNELS`].
//!
//! Only the decoder decides what a frame carries: [`decoded_key`] uses its result. A second walk
//! over the headers would sooner or later see less than the decoder, and an attacker could then
//! choose the worker by the encapsulation. [`ordinary_key`] is only a shortcut for the usual
//! frames, which are nearly all traffic. It returns `None` where it is not certain, and a property
//! test (also used by the fuzzers) compares each of its keys with the decoder's.

use crate::config::DecodeConfig;
use crate::decoded::{Decoded, Flags, Network, PacketSet};
use crate::ethernet::ethertype;
use crate::limits::MAX_VLANS;
use crate::link::Link;
use crate::transport::TransportHeader;
use gabion_record::{Addr, IpProto};

/// The key of all tunnels that are decoded, and of frames without IP.
pub const TUNNELS: u32 = 0;

/// The ICMP type whose messages count for the flow that they quote.
const UNREACHABLE: u8 = 3;

/// The key of a frame without tunnels, extension headers and fragments; `None` where only the
/// decoder can determine it.
#[inline]
pub fn ordinary_key(config: &DecodeConfig, link: Link, frame: &[u8]) -> Option<u32> {
    let ip = frame.get(ip_offset(link, frame)?..)?;
    match ip.first()? >> 4 {
        4 => {
            let header = ip.first_chunk::<20>()?;
            if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
                return None;
            }
            let rest = || ip.get(usize::from(header[0] & 15) * 4..).unwrap_or(&[]);
            match IpProto(header[9]) {
                IpProto::TCP => {}
                IpProto::UDP if !may_be_tunnel(config, be16(rest(), 0)?, be16(rest(), 2)?) => {}
                IpProto::ICMP if *rest().first()? != UNREACHABLE => {}
                _ => return None,
            }
            let src = u32::from_be_bytes([header[12], header[13], header[14], header[15]]);
            let dst = u32::from_be_bytes([header[16], header[17], header[18], header[19]]);
            Some(mix(src, dst))
        }
        6 => {
            let header = ip.first_chunk::<40>()?;
            match IpProto(header[6]) {
                IpProto::TCP | IpProto::ICMPV6 => {}
                IpProto::UDP if !may_be_tunnel(config, be16(ip, 40)?, be16(ip, 42)?) => {}
                _ => return None,
            }
            let (src, dst) = header[8..].split_at(16);
            Some(mix(folded(src), folded(dst)))
        }
        _ => None,
    }
}

/// The key of a decoded frame. Fragments have the key of their addresses, as only reassembly shows
/// what the whole datagram is.
pub fn decoded_key(config: &DecodeConfig, set: &PacketSet) -> u32 {
    let root = set.root();
    if set.count() > 1 {
        return TUNNELS;
    }
    let key = |proto, version, src: Addr, dst: Addr, sp, dp| match proto {
        IpProto::IPV4 | IpProto::IPV6 => TUNNELS,
        IpProto::UDP if may_be_tunnel(config, sp, dp) => TUNNELS,
        _ => pair(version, src, dst),
    };
    if !root.flags.has(Flags::WANTS_FLOW) {
        return match root.network {
            Network::Ipv4 | Network::Ipv6 => pair(root.ip_version(), root.src, root.dst),
            Network::None | Network::Arp => TUNNELS,
        };
    }
    if !root.transport.is_some() {
        // IP in IP, after any extension headers, where no usable packet was found inside.
        return TUNNELS;
    }
    match quoted(root) {
        Some(q) => key(q.proto, q.version, q.src, q.dst, q.sp, q.dp),
        None => key(root.proto, root.ip_version(), root.src, root.dst, root.sp, root.dp),
    }
}

/// The packet whose flow an ICMP error counts for. (ICMPv6 errors have flows of their own.)
fn quoted(p: &Decoded) -> Option<&crate::transport::Quoted> {
    let TransportHeader::Icmpv4(icmp) = &p.transport else { return None };
    icmp.quoted.as_ref().filter(|_| icmp.kind == UNREACHABLE)
}

/// Whether a datagram between these ports may carry a tunnel that is decoded: then the whole flow
/// goes to the worker of the tunnels, whatever each of its datagrams carries.
#[inline]
fn may_be_tunnel(config: &DecodeConfig, sp: u16, dp: u16) -> bool {
    [&config.vxlan, &config.geneve, &config.teredo].iter().any(|t| t.has(sp) || t.has(dp))
}

/// Where the IP header begins after a plain link header and VLAN tags.
#[inline]
fn ip_offset(link: Link, frame: &[u8]) -> Option<usize> {
    let mut at = match link {
        Link::Ethernet => 12,
        Link::LinuxCooked => 14,
        Link::CiscoHdlc => 2,
        Link::Raw | Link::Ipv4 | Link::Ipv6 => return Some(0),
        Link::LinuxCooked2 => {
            let is_ip = matches!(be16(frame, 0)?, ethertype::IPV4 | ethertype::IPV6);
            return is_ip.then_some(20);
        }
        Link::Null | Link::Ppp | Link::Pppoe => return None,
    };
    for _ in 0..=MAX_VLANS {
        let version = match be16(frame, at)? {
            ethertype::IPV4 => 4,
            ethertype::IPV6 => 6,
            ethertype::VLAN | ethertype::PROVIDER_BRIDGE | ethertype::QINQ => {
                at += 4;
                continue;
            }
            _ => return None,
        };
        return (frame.get(at + 2)? >> 4 == version).then_some(at + 2);
    }
    None
}

/// The key of two addresses, the same in both directions.
fn pair(version: u8, src: Addr, dst: Addr) -> u32 {
    if version == 4 {
        let word = |addr: Addr| u32::from_be_bytes(addr.v4_bytes());
        return mix(word(src), word(dst));
    }
    mix(folded(&src.0), folded(&dst.0))
}

/// An IPv6 address in one word.
#[inline]
fn folded(addr: &[u8]) -> u32 {
    let words = addr.chunks_exact(4).map(|w| w.iter().fold(0, |n, b| n << 8 | u32::from(*b)));
    words.zip(FOLD).fold(0, |all, (word, by)| all ^ word.wrapping_mul(by))
}

/// Odd factors of the words of an IPv6 address, so that none hides another.
pub(crate) const FOLD: [u32; 4] = [1, 0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d];
/// Factors of the mix (xxHash's primes of 32 bits).
pub(crate) const MIX: [u32; 3] = [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d];

/// Symmetric in its arguments; all bits of both reach the upper half of the key. Words of 32 bits are enough, so that a
/// program of the kernel computes the same.
#[inline]
fn mix(a: u32, b: u32) -> u32 {
    let both = (a ^ b).wrapping_mul(MIX[0]) ^ a.wrapping_add(b);
    let both = (both ^ (both >> 15)).wrapping_mul(MIX[1]);
    let both = (both ^ (both >> 13)).wrapping_mul(MIX[2]);
    both ^ (both >> 16)
}

/// The worker of a key, of this many: the upper half of a product is fair for any number of workers.
#[inline]
pub fn worker_of_key(key: u32, workers: usize) -> usize {
    ((u64::from(key >> 16) * workers as u64) >> 16) as usize
}

#[inline]
fn be16(frame: &[u8], at: usize) -> Option<u16> {
    let [a, b] = *frame.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes([a, b]))
}

/// Whether the shortcut's key for a frame, if it returns one, is the decoder's. For a frame without
/// any state to keep, every key is correct. For fuzzers and tests.
pub(crate) fn shortcut_agrees(
    config: &DecodeConfig,
    link: Link,
    frame: &[u8],
    set: &PacketSet,
) -> bool {
    let has_state = |p: &Decoded| p.flags.has(Flags::WANTS_FLOW) || p.flags.has(Flags::FRAGMENT);
    match ordinary_key(config, link, frame) {
        None => true,
        Some(_) if !set.iter().any(has_state) => true,
        Some(key) => {
            let is_fragment = set.iter().any(|p| p.flags.has(Flags::FRAGMENT));
            !is_fragment && key == decoded_key(config, set)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{self, join};

    /// The decoder's key; the shortcut returns the same key or none.
    fn key_of(link: Link, frame: &[u8]) -> u32 {
        let (set, _) = build::run(link, frame);
        let key = decoded_key(&DecodeConfig::DEFAULT, &set);
        assert!(shortcut_agrees(&DecodeConfig::DEFAULT, link, frame, &set), "{link:?} {frame:?}");
        key
    }

    /// The packet with its addresses swapped.
    fn swapped(packet: &[u8]) -> Vec<u8> {
        let (at, len) = if packet[0] >> 4 == 4 { (12, 4) } else { (8, 16) };
        let mut turned = packet.to_vec();
        turned[at..at + len].copy_from_slice(&packet[at + len..at + 2 * len]);
        turned[at + len..at + 2 * len].copy_from_slice(&packet[at..at + len]);
        turned
    }

    #[test]
    fn both_directions_have_one_key_after_any_link_and_tag() {
        let v4 = build::ipv4(17, &[], &build::udp(1, 2, b"x"));
        let v6 = build::ipv6(17, &build::udp(1, 2, b"x"));
        for (packet, kind) in [(&v4, 0x0800u16), (&v6, 0x86dd)] {
            let key = key_of(Link::Raw, packet);
            assert_ne!(key, 0);
            let kind = kind.to_be_bytes();
            let mac = [0u8; 12];
            let nsh = if packet[0] >> 4 == 4 { 1 } else { 2 };
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
                (Link::Ethernet, join(&[&mac, &[0x89, 0x4f, 0, 2, 2, nsh, 0, 0, 0, 0]])),
                (Link::Null, vec![if nsh == 1 { 2 } else { 30 }, 0, 0, 0]),
                (Link::LinuxCooked, join(&[&[0; 14], &kind])),
                (Link::LinuxCooked2, join(&[&kind, &[0; 18]])),
                (Link::CiscoHdlc, join(&[&[0x0f, 0], &kind])),
                (Link::Ppp, join(&[&[0xff, 3], ppp])),
                (Link::Ppp, ppp.to_vec()),
                (Link::Pppoe, pppoe),
            ];
            for (link, head) in heads {
                for packet in [packet, &swapped(packet)] {
                    let frame = join(&[&head, packet]);
                    assert_eq!(key_of(link, &frame), key, "{link:?} {head:?}");
                }
            }
        }
        assert_ne!(key_of(Link::Raw, &v4), key_of(Link::Raw, &v6));
    }

    #[test]
    fn an_icmp_error_has_the_key_of_the_packet_it_quotes() {
        let quoted = build::ipv4(17, &[], &build::udp(1, 2, b"x"));
        let mut error = build::ipv4(1, &[], &join(&[&[3, 3, 0, 0, 0, 0, 0, 0], &quoted]));
        // From a router on the way.
        error[12..16].copy_from_slice(&[192, 0, 2, 1]);
        let key = key_of(Link::Raw, &quoted);
        assert_eq!(key_of(Link::Raw, &error), key);
        // An error that quotes a tunnel has the key of the tunnels.
        let tunnel = build::ipv4(4, &[], &quoted);
        let error = build::ipv4(1, &[], &join(&[&[3, 3, 0, 0, 0, 0, 0, 0], &tunnel]));
        assert_eq!(key_of(Link::Raw, &error), TUNNELS);
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
            assert_eq!(key_of(Link::Raw, &packet) == TUNNELS, is_tunnel);
        }
        assert_ne!(bare, TUNNELS);
    }

    /// The key is that of the innermost packet that the decoder finds: only its limit on layers
    /// ends the walk.
    #[test]
    fn no_encapsulation_hides_what_the_decoder_finds() {
        let inner = build::ipv4(17, &[], &build::udp(1, 2, b"x"));
        let bare = key_of(Link::Raw, &inner);
        let ethernet = build::ethernet(0x0800, &inner);
        let labels = |n: usize| join(&[&[0, 1, 0, 9].repeat(n), &[0, 1, 1, 9]]);
        let nsh = |next: u8, inside: &[u8]| join(&[&[0, 2, 2, next, 0, 0, 1, 0], inside]);
        let mpls = |n: usize| build::ethernet(0x8847, &join(&[&labels(n), &inner]));
        let nsh_in_nsh =
            build::ethernet(0x894f, &nsh(3, &build::ethernet(0x894f, &nsh(1, &inner))));
        for frame in [
            mpls(0),
            mpls(8),
            mpls(200),
            build::ethernet(0x894f, &nsh(3, &ethernet)),
            build::ethernet(0x894f, &nsh(5, &join(&[&labels(9), &inner]))),
            nsh_in_nsh,
            build::ethernet(0x8926, &join(&[&[0; 4], &[0x88, 0xe7], &[0; 16], &[8, 0], &inner])),
        ] {
            assert_eq!(key_of(Link::Ethernet, &frame), bare, "{frame:?}");
        }
        let options =
            |n: usize| join(&[&[60, 0, 1, 4, 0, 0, 0, 0].repeat(n), &[4, 0, 1, 4, 0, 0, 0, 0]]);
        let auth = [4, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut cut = build::ipv6(60, &join(&[&options(0), &inner]));
        cut[48 + 3] = 0xff;
        assert_eq!(build::run(Link::Raw, &cut).0.count(), 1);
        assert_eq!(key_of(Link::Raw, &cut), TUNNELS, "the outer flow is that of a tunnel");
        for (next, headers) in
            [(60, options(0)), (60, options(8)), (60, options(100)), (51, auth.to_vec())]
        {
            let packet = build::ipv6(next, &join(&[&headers, &inner]));
            assert_eq!(build::run(Link::Raw, &packet).0.count(), 2);
            assert_eq!(key_of(Link::Raw, &packet), TUNNELS, "{packet:?}");
        }
    }

    /// Frames of many kinds with some bytes changed, cut at random: the shortcut returns the
    /// decoder's key or none.
    #[test]
    fn the_shortcut_never_differs_from_the_decoder() {
        let inner = build::ipv4(17, &[], &build::udp(1, 53, b"x"));
        let segment = build::ipv4(6, &[], &build::tcp(&[1, 1, 1, 1], b"data"));
        let error = build::ipv4(1, &[], &join(&[&[3, 3, 0, 0, 0, 0, 0, 0], &inner]));
        let packets = [
            build::ipv4(4, &[], &inner),
            build::ipv4(17, &[1, 1, 1, 0], &build::udp(9, 4789, &inner)),
            build::ipv4_fragment(17, &[], 0x2000, &build::udp(9, 9, &inner)),
            build::ipv6(17, &build::udp(1, 2, b"x")),
            build::ipv6(44, &join(&[&[17, 0, 0, 1, 0, 0, 0, 1], &inner])),
            build::ipv6(60, &join(&[&[6, 0, 1, 4, 0, 0, 0, 0], &build::tcp(&[], b"")])),
            inner,
            segment,
            error,
        ];
        let links = [
            (Link::Ethernet, vec![0; 12]),
            (Link::Ethernet, join(&[&[0; 12], &[0x81, 0, 0, 5]])),
            (Link::Ethernet, join(&[&[0; 12], &[0x88, 0xa8, 0, 5].repeat(3)])),
            (Link::Ethernet, join(&[&[0; 12], &[0x81, 0, 0, 5].repeat(4)])),
            (Link::LinuxCooked, vec![0; 14]),
            (Link::CiscoHdlc, vec![0x0f, 0]),
        ];
        let mut state = 20u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let (mut set, mut counters) = (PacketSet::new(), crate::DecodeCounters::new());
        let mut answered = 0;
        for round in 0..40_000 {
            let packet = &packets[random(packets.len())];
            let (link, head) = &links[random(links.len())];
            let kind: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
            let mut frame = match round % 8 {
                0 => packet.clone(),
                _ => join(&[head, &kind, packet]),
            };
            let link = if round % 8 == 0 { Link::Raw } else { *link };
            for _ in 0..random(4) {
                let at = random(frame.len());
                frame[at] = [random(256) as u8, 4, 6, 17, 1, 3, 41, 44][random(8)];
            }
            frame.truncate(frame.len() - random(2) * random(frame.len()));
            let config = match round % 3 {
                0 => DecodeConfig { teredo: crate::TunnelPorts::ANY, ..DecodeConfig::DEFAULT },
                1 => DecodeConfig { max_layers: 3, ..DecodeConfig::DEFAULT },
                _ => DecodeConfig::DEFAULT,
            };
            crate::decode(&mut set, &mut counters, &config, link, &frame);
            assert!(shortcut_agrees(&config, link, &frame, &set), "{link:?} {frame:?}");
            answered += usize::from(ordinary_key(&config, link, &frame).is_some());
        }
        assert!(answered > 4_000, "{answered}");
    }

    #[test]
    fn frames_without_ip_share_a_key() {
        assert_eq!(key_of(Link::Ethernet, &build::ethernet(0x0806, &[0; 28])), 0);
        assert_eq!(key_of(Link::Ethernet, &[]), 0);
    }
}
