//! Flow keys: they decide which packets belong together.
//!
//! A packet's key is converted to a canonical one in which the two sides have a fixed order, so
//! that both directions hash and compare equal. The flow stores which side is the client.
//!
//! ICMP has no ports: the source port holds type and code, the destination port holds the type of
//! the reply, so that a reply finds the flow of its request. ICMP errors are looked up by the key
//! of the packet they quote.

use crate::packet_key::VLAN_TAG;
use gabion_record::{Addr, IpProto};

/// The key of one packet, from source to destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PacketKey {
    /// Source address.
    pub src: Addr,
    /// Destination address.
    pub dst: Addr,
    /// Source port; see [`PacketKey::with_icmp`] for ICMP; 0 without ports.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// IP protocol.
    pub proto: IpProto,
    /// 4 or 6.
    pub ip_version: u8,
    /// VLAN tags, outermost first: ids with the highest bit set, 0 = none. All 0 when they are not used for tracking.
    pub vlan: [u16; 3],
    /// Layers of encapsulation around the packet.
    pub recursion: u8,
    /// The interface it came from, 0 for the first. 0 when interfaces are not used for tracking.
    pub device: u16,
}

impl PacketKey {
    /// Sets the "ports" of an ICMP packet; `proto` and `ip_version` must be set.
    #[must_use]
    pub fn with_icmp(mut self, icmp_type: u8, code: u8) -> PacketKey {
        let answer = if self.proto == IpProto::ICMPV6 {
            icmpv6_counterpart(icmp_type)
        } else {
            icmpv4_counterpart(icmp_type)
        };
        self.sport = u16::from_be_bytes([icmp_type, code]);
        self.dport = answer.map_or(0, |t| u16::from_be_bytes([t, 0]));
        self
    }

    /// Sets the "ports" of an ESP packet: the two halves of its SPI. Each direction has an SPI of
    /// its own, so each is a flow of its own.
    #[must_use]
    pub fn with_spi(mut self, spi: u32) -> PacketKey {
        self.sport = (spi >> 16) as u16;
        self.dport = spi as u16;
        self
    }

    /// Whether the protocol has ports.
    #[inline]
    pub fn has_ports(&self) -> bool {
        self.proto.has_ports()
    }

    /// Whether the two directions can be distinguished: with ports, and for ICMP.
    #[inline]
    pub(crate) fn is_directed(&self) -> bool {
        self.has_ports() || matches!(self.proto, IpProto::ICMP | IpProto::ICMPV6)
    }

    /// The type of an ICMP packet.
    pub fn icmp_type(&self) -> u8 {
        self.sport.to_be_bytes()[0]
    }

    /// The code of an ICMP packet.
    pub fn icmp_code(&self) -> u8 {
        self.sport.to_be_bytes()[1]
    }

    /// An ICMPv4 message about another packet: it never makes a flow of its own.
    pub fn is_icmp_error(&self) -> bool {
        self.proto == IpProto::ICMP && matches!(self.icmp_type(), 3 | 4 | 5 | 11 | 12)
    }

    /// The canonical key, and whether the packet's source is its second side.
    #[inline]
    pub(crate) fn canonical(&self) -> (FlowKey, bool) {
        let swapped = (self.src, self.sport) > (self.dst, self.dport);
        let (low, high) = ((self.src, self.sport), (self.dst, self.dport));
        let (low, high) = if swapped { (high, low) } else { (low, high) };
        let key = FlowKey {
            low: low.0,
            high: high.0,
            low_port: low.1,
            high_port: high.1,
            vlan: self.vlan.map(|tag| tag & !VLAN_TAG),
            proto: self.proto,
            ip_version: self.ip_version,
            recursion: self.recursion,
            device: self.device,
        };
        (key, swapped)
    }
}

/// The key both directions share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowKey {
    low: Addr,
    high: Addr,
    low_port: u16,
    high_port: u16,
    vlan: [u16; 3],
    proto: IpProto,
    ip_version: u8,
    recursion: u8,
    device: u16,
}

impl FlowKey {
    /// The SPI that [`PacketKey::with_spi`] stored; `swapped` is what [`PacketKey::canonical`]
    /// returned.
    pub(crate) fn spi(&self, swapped: bool) -> u32 {
        let (low, high) = (u32::from(self.low_port), u32::from(self.high_port));
        if swapped { high << 16 | low } else { low << 16 | high }
    }

    fn words(&self) -> [u64; 6] {
        let half = |a: &Addr| {
            let n = a.as_u128();
            ((n >> 64) as u64, n as u64)
        };
        let ((a, b), (c, d)) = (half(&self.low), half(&self.high));
        let [v0, v1, v2] = self.vlan;
        let ports = u64::from(self.low_port) << 48
            | u64::from(self.high_port) << 32
            | u64::from(v0) << 16
            | u64::from(v1);
        let rest = u64::from(self.device) << 40
            | u64::from(v2) << 24
            | u64::from(self.proto.0) << 16
            | u64::from(self.ip_version) << 8
            | u64::from(self.recursion);
        [a, b, c, d, ports, rest]
    }

    /// Hash for the table, keyed by the process's random seed.
    #[inline]
    pub(crate) fn hash(&self, seed: &[u64; 4]) -> u64 {
        let [a, b, c, d, e, f] = self.words();
        let x = fold(a ^ seed[0], c ^ seed[1]);
        let y = fold(b ^ seed[2], d ^ seed[3]);
        fold(e ^ x ^ seed[1], f ^ y ^ seed[2])
    }

    /// A function of the content alone: the same on every run and worker.
    pub(crate) fn id(&self, start_ns: u64, client_is_high: bool, salt: u64) -> u64 {
        let mut h = start_ns ^ u64::from(client_is_high) ^ salt.rotate_left(17);
        for w in self.words() {
            h = mix(h ^ w);
        }
        // 53 bits: readers of JSON that hold numbers as doubles keep every digit.
        (h >> 11).max(1)
    }
}

/// Folded multiplication: the XOR of both halves of the 128-bit product.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let p = u128::from(a).wrapping_mul(u128::from(b));
    (p as u64) ^ ((p >> 64) as u64)
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The ICMP type that answers a type (echo, timestamp, information, address mask).
pub(crate) fn icmpv4_counterpart(icmp_type: u8) -> Option<u8> {
    pair(icmp_type, &[(8, 0), (13, 14), (15, 16), (17, 18)])
}

/// The ICMPv6 type that answers a type (echo, router and neighbor discovery, listener query and
/// report, node information).
pub(crate) fn icmpv6_counterpart(icmp_type: u8) -> Option<u8> {
    pair(icmp_type, &[(128, 129), (133, 134), (135, 136), (130, 131), (139, 140)])
}

fn pair(icmp_type: u8, pairs: &[(u8, u8)]) -> Option<u8> {
    pairs.iter().find_map(|(a, b)| match icmp_type {
        t if t == *a => Some(*b),
        t if t == *b => Some(*a),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(src: [u8; 4], sport: u16, dst: [u8; 4], dport: u16) -> PacketKey {
        PacketKey {
            src: Addr::v4(src),
            dst: Addr::v4(dst),
            sport,
            dport,
            proto: IpProto::TCP,
            ip_version: 4,
            ..PacketKey::default()
        }
    }

    #[test]
    fn both_directions_share_a_key() {
        let (a, swapped_a) = key([10, 0, 0, 1], 4000, [10, 0, 0, 2], 80).canonical();
        let (b, swapped_b) = key([10, 0, 0, 2], 80, [10, 0, 0, 1], 4000).canonical();
        assert_eq!(a, b);
        assert_ne!(swapped_a, swapped_b);
        // Same address on both sides: the ports decide.
        let (a, swapped_a) = key([10, 0, 0, 1], 4000, [10, 0, 0, 1], 80).canonical();
        let (b, swapped_b) = key([10, 0, 0, 1], 80, [10, 0, 0, 1], 4000).canonical();
        assert_eq!(a, b);
        assert_ne!(swapped_a, swapped_b);
    }

    /// Suricata 8.0.7 with a SYN without a tag, and the rest of the session with a tag of id 0: one flow.
    #[test]
    fn a_tag_with_the_id_0_is_as_none() {
        let base = key([10, 0, 0, 1], 4000, [10, 0, 0, 2], 80);
        let tagged = PacketKey { vlan: [VLAN_TAG, 0, 0], ..base };
        assert_eq!(base.canonical(), tagged.canonical());
    }

    #[test]
    fn every_field_distinguishes_flows() {
        let base = key([10, 0, 0, 1], 4000, [10, 0, 0, 2], 80);
        let others = [
            PacketKey { proto: IpProto::UDP, ..base },
            PacketKey { ip_version: 6, ..base },
            PacketKey { vlan: [7, 0, 0], ..base },
            PacketKey { vlan: [0, 7, 0], ..base },
            PacketKey { vlan: [0, 0, 7], ..base },
            PacketKey { recursion: 1, ..base },
            PacketKey { device: 1, ..base },
            PacketKey { sport: 4001, ..base },
            PacketKey { dst: Addr::v4([10, 0, 0, 3]), ..base },
        ];
        let seed = [1, 2, 3, 4];
        for other in others {
            assert_ne!(base.canonical().0, other.canonical().0);
            assert_ne!(base.canonical().0.hash(&seed), other.canonical().0.hash(&seed));
        }
    }

    #[test]
    fn icmp_replies_find_the_flow_of_their_requests() {
        let request = PacketKey { proto: IpProto::ICMP, ..key([1, 1, 1, 1], 0, [2, 2, 2, 2], 0) }
            .with_icmp(8, 0);
        let reply = PacketKey { proto: IpProto::ICMP, ..key([2, 2, 2, 2], 0, [1, 1, 1, 1], 0) }
            .with_icmp(0, 0);
        assert_eq!(request.canonical().0, reply.canonical().0);
        let other = PacketKey { proto: IpProto::ICMP, ..key([2, 2, 2, 2], 0, [1, 1, 1, 1], 0) }
            .with_icmp(14, 0);
        assert_ne!(request.canonical().0, other.canonical().0);
        assert!(!request.is_icmp_error());
        for t in 0..=255 {
            for counterpart in [icmpv4_counterpart, icmpv6_counterpart] {
                if let Some(answer) = counterpart(t) {
                    assert_eq!(counterpart(answer), Some(t));
                }
            }
        }
    }
}
