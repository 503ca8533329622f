//! What heads of packets say that were sampled in an incident: the largest flow, how many flows are new, and what the
//! packets have in common.

use crate::sample::Heads;
use gabion_record::IpProto;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};

/// Share of the packets that have to agree for something that the line names.
const COMMON: f64 = 0.9;
/// Share of packets of a single destination or source that is named with its address.
const SINGLE: f64 = 0.5;
/// Lengths of prefixes that are named, the longest first, of an address with 128 bits: IPv4 has the last 32.
const PREFIXES_V4: [u8; 3] = [24, 16, 8];
const PREFIXES_V6: [u8; 4] = [64, 56, 48, 32];

/// The head of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHead {
    /// When it arrived, in nanoseconds.
    pub at_ns: u64,
    /// Its source.
    pub source: IpAddr,
    /// Its destination.
    pub destination: IpAddr,
    /// Ports of source and destination; zeros where the protocol has none.
    pub ports: (u16, u16),
    /// Its length in bytes.
    pub length: u16,
    /// The protocol of its payload.
    pub protocol: u8,
}

type Flow = (IpAddr, IpAddr, (u16, u16), u8);

impl PacketHead {
    fn flow(&self) -> Flow {
        (self.source, self.destination, self.ports, self.protocol)
    }
}

impl Heads {
    /// What a sample says. `of_all` are heads of all packets of a short time, `of_flows` those of some flows with all
    /// their packets, both in the order of arrival.
    #[must_use]
    pub fn from_packets(of_all: &[PacketHead], of_flows: &[PacketHead]) -> Heads {
        let mut flows: HashMap<Flow, u64> = HashMap::new();
        of_all.iter().for_each(|head| *flows.entry(head.flow()).or_default() += 1);
        let (followed, new_flows) = new_flows(of_flows);
        Heads {
            packets: of_all.len() as u64,
            largest_flow: flows.values().copied().max().unwrap_or(0),
            followed,
            new_flows,
            attributes: attributes(of_all, of_flows),
        }
    }
}

/// Packets of the second half of the time, and how many of them begin a flow. In the first half every flow is new once.
fn new_flows(heads: &[PacketHead]) -> (u64, u64) {
    let (Some(first), Some(last)) = (heads.first(), heads.last()) else { return (0, 0) };
    let half = first.at_ns + last.at_ns.saturating_sub(first.at_ns) / 2;
    let mut seen = HashSet::new();
    let (mut packets, mut new) = (0, 0);
    for head in heads {
        let is_new = seen.insert(head.flow());
        if head.at_ns > half {
            packets += 1;
            new += u64::from(is_new);
        }
    }
    (packets, new)
}

/// Attributes for people, the most useful first.
fn attributes(of_all: &[PacketHead], of_flows: &[PacketHead]) -> Vec<String> {
    if of_all.is_empty() {
        return Vec::new();
    }
    let mut all = Vec::new();
    if let Some(to) = ends(of_all, |head| head.destination) {
        let each =
            packets_each(of_flows).map_or_else(String::new, |n| format!(", {n} packets each"));
        all.push(format!("to {to}{each}"));
    }
    match ends(of_all, |head| head.source) {
        Some(from) => all.push(format!("from {from}")),
        None => all.push("sources random: new clients will fail".to_owned()),
    }
    all.push(kind(of_all));
    all
}

/// Where most packets go to or come from: an address, or the longest prefix; none where they have nothing in common.
fn ends(heads: &[PacketHead], of: fn(&PacketHead) -> IpAddr) -> Option<String> {
    let all = heads.len() as f64;
    let (address, n) = most(heads.iter().map(of))?;
    if n as f64 > all * SINGLE {
        return Some(address.to_string());
    }
    let lengths: &[u8] = if address.is_ipv4() { &PREFIXES_V4 } else { &PREFIXES_V6 };
    for bits in lengths {
        let (prefix, n) = most(heads.iter().map(|head| prefix(of(head), *bits)))?;
        if n as f64 >= all * COMMON {
            let addresses: HashSet<IpAddr> = heads.iter().map(of).collect();
            let random = if addresses.len() as f64 * 20.0 > all { ", random" } else { "" };
            return Some(format!("{prefix}/{bits}{random}"));
        }
    }
    None
}

/// An address with all bits after the prefix cleared.
fn prefix(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0);
            IpAddr::V4((u32::from(v4) & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask))
        }
    }
}

/// Protocol and port of the destination, and the length, as far as most packets agree.
fn kind(heads: &[PacketHead]) -> String {
    let all = heads.len() as f64;
    let (protocol, _) = most(heads.iter().map(|head| head.protocol)).unwrap_or((0, 0));
    let name = match IpProto(protocol) {
        IpProto::ICMP => "ICMP".to_owned(),
        IpProto::TCP => "TCP".to_owned(),
        IpProto::UDP => "UDP".to_owned(),
        IpProto::ICMPV6 => "ICMPv6".to_owned(),
        IpProto::SCTP => "SCTP".to_owned(),
        IpProto(other) => format!("protocol {other}"),
    };
    let port = most(heads.iter().map(|head| (head.protocol, head.ports.1)));
    let port = port.filter(|((_, port), n)| *port > 0 && *n as f64 > all * SINGLE);
    let name = port.map_or(name.clone(), |((_, port), _)| format!("{name}:{port}"));
    let length =
        most(heads.iter().map(|head| head.length)).filter(|(_, n)| *n as f64 > all * SINGLE);
    length.map_or(name.clone(), |(length, _)| format!("{length} bytes {name}"))
}

/// Packets of a flow, from those flows whose packets are all there.
fn packets_each(of_flows: &[PacketHead]) -> Option<u64> {
    let mut flows: HashMap<Flow, u64> = HashMap::new();
    of_flows.iter().for_each(|head| *flows.entry(head.flow()).or_default() += 1);
    // Flows at the borders of the sample are cut off: the middle one of many is whole.
    let mut counts: Vec<u64> = flows.into_values().collect();
    counts.sort_unstable();
    (counts.len() >= 20).then(|| counts.get(counts.len() / 2).copied()).flatten()
}

/// The most frequent of some values, and how often it is there.
fn most<T: Hash + Eq + Ord + Copy>(values: impl Iterator<Item = T>) -> Option<(T, u64)> {
    let mut counts: HashMap<T, u64> = HashMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    counts.into_iter().max_by_key(|(value, n)| (*n, std::cmp::Reverse(*value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A packet of flow `n` of `all`, each of which goes to an address of its own.
    fn head(at: u64, n: u32) -> PacketHead {
        PacketHead {
            at_ns: at,
            source: "10.0.0.1".parse().unwrap(),
            destination: IpAddr::V4((0x0500_0000 | n.wrapping_mul(0x9e_3779) & 0xff_ffff).into()),
            ports: (1024, 9),
            length: 60,
            protocol: 17,
        }
    }

    #[test]
    fn a_flood_of_new_flows_to_random_destinations_is_described() {
        let heads: Vec<PacketHead> = (0..10_000).map(|n| head(n, n as u32 / 10)).collect();
        let found = Heads::from_packets(&heads, &heads);
        assert_eq!((found.packets, found.largest_flow), (10_000, 10));
        assert_eq!((found.followed, found.new_flows), (5000, 500));
        let wanted = ["to 5.0.0.0/8, random, 10 packets each", "from 10.0.0.1", "60 bytes UDP:9"];
        assert_eq!(found.attributes, wanted);
    }

    #[test]
    fn one_large_flow_is_found_and_old_flows_are_not_new() {
        let heads: Vec<PacketHead> =
            (0..1000).map(|n| head(n, if n % 4 == 0 { n as u32 % 20 } else { 7 })).collect();
        let found = Heads::from_packets(&heads, &heads);
        assert!(found.largest_flow >= 750);
        assert_eq!((found.followed, found.new_flows), (500, 0));
        assert!(found.attributes[0].starts_with("to 5."), "{:?}", found.attributes);
        assert!(!found.attributes[0].contains('/'));
    }

    #[test]
    fn sources_without_anything_in_common_are_random() {
        let of = |n: u64| PacketHead {
            source: IpAddr::V4((n as u32).wrapping_mul(0x9e37_79b1).into()),
            destination: "2001:db8::1".parse().unwrap(),
            ..head(n, 0)
        };
        let heads: Vec<PacketHead> = (1..2000).map(of).collect();
        let found = Heads::from_packets(&heads, &[]);
        assert_eq!(found.attributes[0], "to 2001:db8::1");
        assert_eq!(found.attributes[1], "sources random: new clients will fail");
        assert_eq!(Heads::from_packets(&[], &[]), Heads::default());
    }

    #[test]
    fn prefixes_have_their_other_bits_cleared() {
        assert_eq!(prefix("10.1.2.3".parse().unwrap(), 8).to_string(), "10.0.0.0");
        assert_eq!(prefix("2001:db8:1:2::3".parse().unwrap(), 32).to_string(), "2001:db8::");
    }

    proptest! {
        #[test]
        fn a_sample_is_never_more_than_its_packets(flows in prop::collection::vec((0u64..1000, 0u32..50), 0..300)) {
            let mut heads: Vec<PacketHead> = flows.iter().map(|(at, n)| head(*at, *n)).collect();
            heads.sort_by_key(|head| head.at_ns);
            let found = Heads::from_packets(&heads, &heads);
            prop_assert!(found.new_flows <= found.followed && found.followed <= found.packets);
            prop_assert!(found.largest_flow <= found.packets);
        }
    }
}
