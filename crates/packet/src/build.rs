//! Frames built by hand for the tests of the decoders: each function puts one header before its
//! content.

use crate::config::DecodeConfig;
use crate::counters::DecodeCounters;
use crate::decode::decode;
use crate::decoded::{Decoded, PacketSet};
use crate::link::Link;
use gabion_record::IpProto;

/// Decodes one frame with the default settings.
pub(crate) fn run(link: Link, frame: &[u8]) -> (PacketSet, DecodeCounters) {
    let (mut set, mut counters) = (PacketSet::new(), DecodeCounters::new());
    decode(&mut set, &mut counters, &DecodeConfig::DEFAULT, link, frame);
    (set, counters)
}

/// The root packet of a frame that is raw IP.
pub(crate) fn raw(packet: &[u8]) -> Decoded {
    *run(Link::Raw, packet).0.root()
}

/// The names of the packet's events.
pub(crate) fn events(p: &Decoded) -> Vec<&'static str> {
    p.events.as_slice().iter().map(|event| event.name()).collect()
}

/// The concatenation of byte strings.
pub(crate) fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

pub(crate) fn ethernet(kind: u16, inside: &[u8]) -> Vec<u8> {
    join(&[&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], &kind.to_be_bytes(), inside])
}

/// A packet from 10.0.0.1 to 10.0.0.2 with a correct checksum; the caller pads the options.
pub(crate) fn ipv4(proto: impl Into<IpProto>, options: &[u8], inside: &[u8]) -> Vec<u8> {
    ipv4_fragment(proto, options, 0, inside)
}

/// The same packet with the given fragment field.
pub(crate) fn ipv4_fragment(
    proto: impl Into<IpProto>,
    options: &[u8],
    field: u16,
    inside: &[u8],
) -> Vec<u8> {
    let header_len = 20 + options.len();
    let total = (header_len + inside.len()) as u16;
    let mut packet = vec![0x40 | (header_len / 4) as u8, 0];
    packet.extend(total.to_be_bytes());
    packet.extend([0x12, 0x34]);
    packet.extend(field.to_be_bytes());
    packet.extend([64, proto.into().0, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend(options);
    let sum = checksum(&[&packet]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(inside);
    packet
}

/// A packet from fd00::1 to fd00::2.
pub(crate) fn ipv6(next: impl Into<IpProto>, inside: &[u8]) -> Vec<u8> {
    ipv6_with(next, 64, inside)
}

/// The same packet with the given hop limit.
pub(crate) fn ipv6_with(next: impl Into<IpProto>, hop_limit: u8, inside: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((inside.len() as u16).to_be_bytes());
    packet.extend([next.into().0, hop_limit]);
    for last in [1, 2] {
        packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    packet.extend(inside);
    packet
}

pub(crate) fn udp(sp: u16, dp: u16, inside: &[u8]) -> Vec<u8> {
    let len = (8 + inside.len()) as u16;
    join(&[&sp.to_be_bytes(), &dp.to_be_bytes(), &len.to_be_bytes(), &[0, 0], inside])
}

/// A SYN from port 1000 to port 80 with these options, which the caller pads.
pub(crate) fn tcp(options: &[u8], inside: &[u8]) -> Vec<u8> {
    let doff = ((20 + options.len()) / 4) as u8;
    let mut segment = vec![0x03, 0xe8, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, doff << 4, 2, 0x20, 0];
    segment.extend([0, 0, 0, 0]);
    segment.extend(options);
    segment.extend(inside);
    segment
}

/// The internet checksum computed the slow way, to check the fast way in tests.
pub(crate) fn checksum(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let mut sum = 0u32;
    for word in bytes.chunks(2) {
        sum += u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Ethernet addresses, then tags up to the last ethertype, then the content.
pub(crate) fn ethernet_tagged(tags: &[u8], inside: &[u8]) -> Vec<u8> {
    join(&[&[0; 12], tags, inside])
}
