//! State that flows share: bits of hosts and address pairs, reputation of addresses.
//!
//! The result would depend on the number of threads if workers used this state in any order, so several
//! workers use it only in packet order (`ordered`).

use crate::countries::Countries;
use crate::lapsing::Lapsing;
use crate::limits::{HOST_BITS_MAX, reached};
use crate::ordered::Ordered;
use foldhash::fast::RandomState;
use gabion_packet::Decoded;
use gabion_record::Addr;
use gabion_rules::compiled::actions::BitCommand;
use gabion_rules::compiled::packet::*;
use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

/// Scores of addresses and networks by category, as loaded from files.
#[derive(Debug, Default)]
pub struct Reputation {
    hosts: HashMap<(Addr, u32), u8, RandomState>,
    /// The addresses of `hosts`, and those that have scores only in categories that no rule can name.
    listed: HashSet<Addr, RandomState>,
    /// By IP version and prefix length, the longest prefix first.
    networks: Vec<Networks>,
}

/// Networks of one prefix length.
#[derive(Debug)]
struct Networks {
    version: u8,
    prefix: u8,
    /// By masked address and category.
    scores: HashMap<(u128, u32), u8, RandomState>,
}

impl Reputation {
    /// Lists an address, with a score in a category if rules can name it.
    pub fn set_address(&mut self, address: Addr, category: Option<u32>, score: u8) {
        self.listed.insert(address);
        if let Some(category) = category {
            self.hosts.insert((address, category), score);
        }
    }

    /// Gives a network of an IP version a score in a category. One of a single address is a network, too, as in Suricata
    /// 8.0.7.
    pub fn set_network(
        &mut self,
        address: Addr,
        version: u8,
        prefix: u8,
        category: u32,
        score: u8,
    ) {
        let longest_first = |n: &Networks| (n.version, u8::MAX - n.prefix);
        let wanted = (version, u8::MAX - prefix);
        let place = self.networks.binary_search_by_key(&wanted, longest_first);
        let place = place.unwrap_or_else(|place| {
            let networks = Networks { version, prefix, scores: HashMap::default() };
            self.networks.insert(place, networks);
            place
        });
        if let Some(networks) = self.networks.get_mut(place) {
            networks.scores.insert((mask(address, prefix), category), score);
        }
    }

    /// The score of an address: zero in all categories but its own if it is listed itself, and networks count only if it is
    /// not (Suricata 8.0.7).
    fn score(&self, a: Addr, version: u8, category: u32) -> Option<u8> {
        if self.listed.contains(&a) {
            return Some(self.hosts.get(&(a, category)).copied().unwrap_or(0));
        }
        let of_version = self.networks.iter().filter(|n| n.version == version);
        let mut found = of_version.map(|n| n.scores.get(&(mask(a, n.prefix), category)));
        found.find_map(|score| score.copied())
    }
}

/// The owner of a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Owner {
    Host(Addr),
    Pair(Addr, Addr),
}

/// Bits with their time of expiry.
#[derive(Debug, Default)]
pub(crate) struct Bits {
    xbits: Lapsing<(Owner, u32), u64>,
    hostbits: Lapsing<(Addr, u32), u64>,
}

/// A change of a bit that belongs to a host or a pair of hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BitChange {
    pub(crate) bit: u32,
    pub(crate) command: BitCommand,
    /// Seconds after which a set bit expires.
    pub(crate) expire_s: u32,
}

/// Bits and reputations.
#[derive(Debug, Default)]
pub(crate) struct SharedState {
    bits: Ordered<Bits>,
    pub(crate) reputation: Arc<Reputation>,
    countries: Option<Arc<Countries>>,
}

fn pair(a: Addr, b: Addr) -> Owner {
    if a <= b { Owner::Pair(a, b) } else { Owner::Pair(b, a) }
}

fn owner(track: XbitsTrack, h: &Decoded) -> Option<Owner> {
    h.is_ip().then(|| match track {
        XbitsTrack::Source => Owner::Host(h.src),
        XbitsTrack::Destination => Owner::Host(h.dst),
        XbitsTrack::Pair | XbitsTrack::Transaction => pair(h.src, h.dst),
    })
}

impl SharedState {
    /// State with these scores.
    pub(crate) fn new(
        reputation: Arc<Reputation>,
        countries: Option<Arc<Countries>>,
        bits: Ordered<Bits>,
    ) -> SharedState {
        SharedState { reputation, countries, bits }
    }

    /// Other scores and countries; bits stay.
    pub(crate) fn adopt(&mut self, reputation: Arc<Reputation>, countries: Option<Arc<Countries>>) {
        self.reputation = reputation;
        self.countries = countries;
    }

    pub(crate) fn country_matches(&self, t: &GeoIpTest, h: &Decoded) -> bool {
        let Some(countries) = self.countries.as_ref().filter(|_| h.is_ip()) else { return false };
        let holds = |a: Addr| t.holds(countries.country_of(a, h.ip_version()));
        match t.side {
            ReputationSide::Source => holds(h.src),
            ReputationSide::Destination => holds(h.dst),
            ReputationSide::Any => holds(h.src) || holds(h.dst),
            ReputationSide::Both => holds(h.src) && holds(h.dst),
        }
    }

    fn is_set<K: std::hash::Hash + Eq>(map: &Lapsing<K, u64>, key: &K, now_ns: u64) -> bool {
        map.get(key).is_some_and(|until| *until >= now_ns)
    }

    pub(crate) fn xbit_matches(&self, t: &XbitsTest, h: &Decoded, now_ns: u64) -> bool {
        let Some(o) = owner(t.track, h) else { return !t.isset };
        self.bits.with_value(|b| Self::is_set(&b.xbits, &(o, t.bit), now_ns)) == t.isset
    }

    pub(crate) fn hostbit_matches(&self, t: &HostbitsTest, h: &Decoded, now_ns: u64) -> bool {
        let any = self.bits.with_value(|b| {
            let set = |a: Addr| Self::is_set(&b.hostbits, &(a, t.bit), now_ns);
            match t.track {
                HostbitsTrack::Source => set(h.src),
                HostbitsTrack::Destination => set(h.dst),
                HostbitsTrack::Both => set(h.src) && set(h.dst),
            }
        });
        any == t.isset
    }

    /// Sets or clears a bit. A bit that does not fit after expired bits are removed is counted.
    fn change<K: std::hash::Hash + Eq>(
        map: &mut Lapsing<K, u64>,
        key: K,
        change: BitChange,
        now_ns: u64,
    ) {
        let until = now_ns.saturating_add(u64::from(change.expire_s) * 1_000_000_000);
        let set = Self::is_set(map, &key, now_ns);
        match change.command {
            BitCommand::Unset => {
                map.remove(&key);
            }
            BitCommand::Toggle if set => {
                map.remove(&key);
            }
            // Suricata 8.0.7: a bit that is set keeps its time.
            BitCommand::Set if set => {}
            BitCommand::Set | BitCommand::Toggle => {
                match map.entry(key, HOST_BITS_MAX, |until| *until < now_ns, || until) {
                    Some((held, _)) => *held = until,
                    None => reached::HOST_BITS_MAX.count(),
                }
            }
        }
    }

    pub(crate) fn set_xbit(
        &mut self,
        change: BitChange,
        track: XbitsTrack,
        h: &Decoded,
        now_ns: u64,
    ) {
        let Some(o) = owner(track, h) else { return };
        self.bits.write(|b| Self::change(&mut b.xbits, (o, change.bit), change, now_ns));
    }

    /// Until when a bit is set on a host, in nanoseconds since 1970.
    pub(crate) fn hostbit_until(&mut self, host: Addr, bit: u32) -> Option<u64> {
        self.bits.out_of_order(|b| b.hostbits.get(&(host, bit)).copied())
    }

    /// Sets or clears a bit on one host.
    pub(crate) fn change_hostbit(&mut self, host: Addr, change: BitChange, now_ns: u64) {
        let key = (host, change.bit);
        self.bits.out_of_order(|b| Self::change(&mut b.hostbits, key, change, now_ns));
    }

    pub(crate) fn set_hostbit(
        &mut self,
        change: BitChange,
        track: HostbitsTrack,
        h: &Decoded,
        now_ns: u64,
    ) {
        let hosts: &[Addr] = match track {
            HostbitsTrack::Source => &[h.src],
            HostbitsTrack::Destination => &[h.dst],
            HostbitsTrack::Both => &[h.src, h.dst],
        };
        self.bits.write(|b| {
            for host in hosts {
                Self::change(&mut b.hostbits, (*host, change.bit), change, now_ns);
            }
        });
    }

    pub(crate) fn reputation_matches(&self, t: &IpReputationTest, h: &Decoded) -> bool {
        let version = h.ip_version();
        let holds = |a: Addr| {
            let s = self.reputation.score(a, version, t.category);
            match t.test {
                ReputationTest::IsSet => s.is_some(),
                // Of one side a score of zero counts as none, too, of any and both it does not (Suricata 8.0.7).
                ReputationTest::IsNotSet => match t.side {
                    ReputationSide::Source | ReputationSide::Destination => s.unwrap_or(0) == 0,
                    ReputationSide::Any | ReputationSide::Both => s.is_none(),
                },
                ReputationTest::Score(m) => s.is_some_and(|s| m.matches(u64::from(s))),
            }
        };
        h.is_ip()
            && match t.side {
                ReputationSide::Any => holds(h.src) || holds(h.dst),
                ReputationSide::Source => holds(h.src),
                ReputationSide::Destination => holds(h.dst),
                ReputationSide::Both => holds(h.src) && holds(h.dst),
            }
    }
}

fn mask(a: Addr, prefix: u8) -> u128 {
    match prefix {
        0 => 0,
        n => a.as_u128() & (u128::MAX << (128 - u32::from(n.min(128)))),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn change_of(command: BitCommand, expire_s: u32) -> BitChange {
        BitChange { bit: 1, command, expire_s }
    }

    /// Sets a bit of each kind for each of these; returns the work.
    pub(crate) fn set_bits(hosts: impl Iterator<Item = Addr>) -> u64 {
        let (mut all, now_ns) = (Bits::default(), 1_000_000_000);
        for host in hosts {
            let owner = (Owner::Host(host), 1);
            SharedState::change(&mut all.xbits, owner, change_of(BitCommand::Set, 60), now_ns);
            SharedState::change(
                &mut all.hostbits,
                (host, 1),
                change_of(BitCommand::Set, 60),
                now_ns,
            );
        }
        all.xbits.steps() + all.hostbits.steps()
    }

    #[test]
    fn a_full_table_of_bits_counts_what_it_refuses() {
        let mut bits = Bits::default();
        let mut set = |n: u32, now_ns| {
            let owner = (Owner::Host(Addr::v4(n.to_be_bytes())), 1);
            SharedState::change(&mut bits.xbits, owner, change_of(BitCommand::Set, 30), now_ns);
            bits.xbits.len()
        };
        for n in 0..HOST_BITS_MAX as u32 {
            set(n, 0);
        }
        assert_eq!((set(7, 1), set(u32::MAX, 1)), (HOST_BITS_MAX, HOST_BITS_MAX));
        assert_eq!(gabion_record::limits::take_reached().times_reached(&reached::HOST_BITS_MAX), 1);
        // Expired bits free space.
        assert!(set(u32::MAX, 31_000_000_000) < HOST_BITS_MAX);
        assert!(gabion_record::limits::take_reached().is_empty());
    }

    #[test]
    fn a_bit_is_set_until_it_expires() {
        let mut all = Bits::default();
        let key = (Addr::v4([1, 2, 3, 4]), 7);
        let second = |s: u64| s * 1_000_000_000;
        let mut change = |command, now| {
            let of = change_of(command, 10);
            SharedState::change(&mut all.hostbits, key, of, second(now));
            [now, now + 10, now + 11].map(|s| SharedState::is_set(&all.hostbits, &key, second(s)))
        };
        assert_eq!(change(BitCommand::Set, 100), [true, true, false]);
        assert_eq!(change(BitCommand::Set, 105), [true, false, false], "it keeps its time");
        assert_eq!(change(BitCommand::Toggle, 106), [false; 3]);
        assert_eq!(change(BitCommand::Toggle, 107), [true, true, false]);
        assert_eq!(change(BitCommand::Unset, 108), [false; 3]);
        assert_eq!(change(BitCommand::Set, 109), [true, true, false]);
        assert_eq!(change(BitCommand::Set, 120), [true, true, false], "it had expired");
    }
}
