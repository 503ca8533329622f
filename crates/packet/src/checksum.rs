//! Checksums, computed only for those who ask: rules on them, the TCP engine, statistics.
//!
//! The internet checksum (RFC 1071) over the bytes there are. Each function answers `None` where
//! the question has no answer: the layer is not there, the packet is a fragment, or the sender left
//! the checksum out.

use crate::decoded::{Decoded, Flags, Network};
use crate::ipv4::protocol;
use crate::transport::Transport;

/// Whether the checksum of the IPv4 header is right.
pub fn ipv4_ok(p: &Decoded, frame: &[u8]) -> Option<bool> {
    if p.network != Network::Ipv4 {
        return None;
    }
    Some(fold(sum(p.ip_header(frame))) == 0xffff)
}

/// Whether the TCP checksum is right.
pub fn tcp_ok(p: &Decoded, frame: &[u8]) -> Option<bool> {
    match p.transport {
        Transport::Tcp(_) => pseudo_ok(p, frame, protocol::TCP),
        _ => None,
    }
}

/// Whether the UDP checksum is right; `None` where IPv4 carries none (a checksum of zero).
pub fn udp_ok(p: &Decoded, frame: &[u8]) -> Option<bool> {
    match p.transport {
        Transport::Udp(udp) if udp.checksum == 0 && p.network == Network::Ipv4 => None,
        Transport::Udp(_) => pseudo_ok(p, frame, protocol::UDP),
        _ => None,
    }
}

/// Whether the checksum of ICMP in IPv4 is right.
pub fn icmpv4_ok(p: &Decoded, frame: &[u8]) -> Option<bool> {
    match p.transport {
        Transport::Icmpv4(_) if !p.flags.has(Flags::FRAGMENT) => {
            Some(fold(sum(p.segment(frame))) == 0xffff)
        }
        _ => None,
    }
}

/// Whether the ICMPv6 checksum is right.
pub fn icmpv6_ok(p: &Decoded, frame: &[u8]) -> Option<bool> {
    match p.transport {
        Transport::Icmpv6(_) => pseudo_ok(p, frame, protocol::ICMPV6),
        _ => None,
    }
}

/// Whether the checksum of the transport layer is right, whichever it is.
pub fn transport_ok(p: &Decoded, frame: &[u8]) -> Option<bool> {
    match p.transport {
        Transport::Tcp(_) => tcp_ok(p, frame),
        Transport::Udp(_) => udp_ok(p, frame),
        Transport::Icmpv4(_) => icmpv4_ok(p, frame),
        Transport::Icmpv6(_) => icmpv6_ok(p, frame),
        Transport::Sctp(_) | Transport::Esp(_) | Transport::Gre(_) | Transport::None => None,
    }
}

/// The sum over segment and pseudo header: addresses, protocol, length.
fn pseudo_ok(p: &Decoded, frame: &[u8], proto: u8) -> Option<bool> {
    if p.flags.has(Flags::FRAGMENT) || p.ip_version() == 0 {
        return None;
    }
    let segment = p.segment(frame);
    // The twelve zero bytes behind an IPv4 address add nothing.
    let total = sum(&p.src.0)
        .wrapping_add(sum(&p.dst.0))
        .wrapping_add(sum(&[0, proto]))
        .wrapping_add(sum(&(segment.len() as u32).to_be_bytes()))
        .wrapping_add(sum(segment));
    Some(fold(total) == 0xffff)
}

/// The sum of the 16-bit words in the machine's byte order; the checksum does not mind the order
/// as long as all of it is summed in the same one. Eight bytes at a time.
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
