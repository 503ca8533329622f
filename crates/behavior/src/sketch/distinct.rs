//! Sets of ports and of hosts that are asked how many members they have after every insertion.

use super::hyperloglog::HyperLogLog;
use super::{hash_ip, mix};
use crate::limits::SET_MAX;
use crate::state::{Decoder, State};
use gabion_record::Ip;

/// A set of ports, exact at any size.
#[derive(Debug, Default)]
pub(crate) enum Ports {
    /// None.
    #[default]
    None,
    /// One, without a list.
    One(u16),
    /// A list in the order of arrival.
    List(Vec<u16>),
    /// A bit each, and how many are set.
    Bits(Box<[u64; 1024]>, u32),
}

impl Ports {
    /// Takes a port in; true when it is new.
    #[inline]
    pub(crate) fn insert(&mut self, port: u16) -> bool {
        match self {
            Ports::None => *self = Ports::One(port),
            Ports::One(one) if *one == port => return false,
            Ports::One(one) => *self = Ports::List(vec![*one, port]),
            Ports::List(list) if list.contains(&port) => return false,
            Ports::List(list) if list.len() < SET_MAX => list.push(port),
            Ports::List(list) => {
                let mut bits = Box::new([0u64; 1024]);
                for p in list.iter().copied().chain([port]) {
                    set(&mut bits, p);
                }
                *self = Ports::Bits(bits, SET_MAX as u32 + 1);
            }
            Ports::Bits(bits, count) => {
                let is_new = set(bits, port);
                *count += u32::from(is_new);
                return is_new;
            }
        }
        true
    }

    /// How many.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        match self {
            Ports::None => 0,
            Ports::One(_) => 1,
            Ports::List(list) => list.len() as u32,
            Ports::Bits(_, count) => *count,
        }
    }

    /// All in ascending order.
    pub(crate) fn sorted(&self) -> Vec<u16> {
        match self {
            Ports::None => Vec::new(),
            Ports::One(one) => vec![*one],
            Ports::List(list) => {
                let mut list = list.clone();
                list.sort_unstable();
                list
            }
            Ports::Bits(bits, _) => {
                let is_set =
                    |p: &u16| bits.get(usize::from(p >> 6)).is_some_and(|w| w >> (p & 63) & 1 == 1);
                (0..=u16::MAX).filter(is_set).collect()
            }
        }
    }
}

fn set(bits: &mut [u64; 1024], port: u16) -> bool {
    let Some(word) = bits.get_mut(usize::from(port >> 6)) else { return false };
    let bit = 1u64 << (port & 63);
    let is_new = *word & bit == 0;
    *word |= bit;
    is_new
}

impl State for Ports {
    fn encode(&self, out: &mut Vec<u8>) {
        if let Ports::Bits(bits, _) = self {
            1u8.encode(out);
            bits.iter().for_each(|word| word.encode(out));
            return;
        }
        0u8.encode(out);
        let list = match self {
            Ports::List(list) => list.clone(),
            other => other.sorted(),
        };
        list.encode(out);
    }
    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        if u8::decode(from)? == 0 {
            let list = Vec::<u16>::decode(from)?;
            let mut made = Ports::None;
            let all_new = list.len() <= SET_MAX && list.iter().all(|p| made.insert(*p));
            return all_new.then_some(made);
        }
        let mut bits = Box::new([0u64; 1024]);
        let mut count = 0;
        for word in bits.iter_mut() {
            *word = u64::decode(from)?;
            count += word.count_ones();
        }
        (count as usize > SET_MAX).then_some(Ports::Bits(bits, count))
    }
    fn merge(&mut self, other: Self) {
        for port in other.sorted() {
            self.insert(port);
        }
    }
    fn heap(&self) -> usize {
        match self {
            Ports::None | Ports::One(_) => 0,
            Ports::List(list) => list.capacity() * 2,
            Ports::Bits(..) => 8192,
        }
    }
}

/// A set of hosts (or of anything with a hash), exact up to [`SET_MAX`].
#[derive(Debug, Default)]
pub(crate) enum Hosts {
    /// None.
    #[default]
    None,
    /// One, without a list.
    One(u64),
    /// Hashes in the order of arrival.
    List(Vec<u64>),
    /// A sketch.
    Sketch(Box<HyperLogLog>),
}

impl Hosts {
    /// Takes an address in; true when it is new (of a sketch: when it changed).
    #[inline]
    pub(crate) fn insert(&mut self, ip: Ip) -> bool {
        self.insert_hash(hash_ip(ip))
    }

    /// Takes a hash in.
    #[inline]
    pub(crate) fn insert_hash(&mut self, hash: u64) -> bool {
        match self {
            Hosts::None => *self = Hosts::One(hash),
            Hosts::One(one) if *one == hash => return false,
            Hosts::One(one) => *self = Hosts::List(vec![*one, hash]),
            Hosts::List(list) if list.contains(&hash) => return false,
            Hosts::List(list) if list.len() < SET_MAX => list.push(hash),
            Hosts::List(list) => {
                let mut sketch = Box::<HyperLogLog>::default();
                for h in list.iter().copied().chain([hash]) {
                    sketch.insert(mix(h));
                }
                *self = Hosts::Sketch(sketch);
            }
            Hosts::Sketch(sketch) => return sketch.insert(mix(hash)),
        }
        true
    }

    /// How many (of a sketch: about).
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        match self {
            Hosts::None => 0,
            Hosts::One(_) => 1,
            Hosts::List(list) => list.len() as u64,
            // A sketch never says less than what made it one.
            Hosts::Sketch(sketch) => sketch.estimate().max(SET_MAX as u64 + 1),
        }
    }

    /// Whether the count is an estimate.
    pub(crate) fn is_estimate(&self) -> bool {
        matches!(self, Hosts::Sketch(_))
    }
}

impl State for Hosts {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Hosts::None => 0u8.encode(out),
            Hosts::One(one) => {
                1u8.encode(out);
                vec![*one].encode(out);
            }
            Hosts::List(list) => {
                1u8.encode(out);
                list.encode(out);
            }
            Hosts::Sketch(sketch) => {
                2u8.encode(out);
                sketch.encode(out);
            }
        }
    }
    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        match u8::decode(from)? {
            0 => Some(Hosts::None),
            1 => {
                let list = Vec::<u64>::decode(from)?;
                let mut made = Hosts::None;
                let is_right =
                    list.len() <= SET_MAX && list.iter().all(|hash| made.insert_hash(*hash));
                is_right.then_some(made)
            }
            2 => HyperLogLog::decode(from).map(|s| Hosts::Sketch(Box::new(s))),
            _ => None,
        }
    }
    fn merge(&mut self, other: Self) {
        match other {
            Hosts::None => {}
            Hosts::One(one) => {
                self.insert_hash(one);
            }
            Hosts::List(list) => list.into_iter().for_each(|hash| {
                self.insert_hash(hash);
            }),
            Hosts::Sketch(theirs) => {
                let mut sketch = theirs;
                match std::mem::take(self) {
                    Hosts::None => {}
                    Hosts::One(one) => {
                        sketch.insert(mix(one));
                    }
                    Hosts::List(list) => list.into_iter().for_each(|hash| {
                        sketch.insert(mix(hash));
                    }),
                    Hosts::Sketch(mine) => sketch.merge(*mine),
                }
                *self = Hosts::Sketch(sketch);
            }
        }
    }
    fn heap(&self) -> usize {
        match self {
            Hosts::None | Hosts::One(_) => 0,
            Hosts::List(list) => list.capacity() * 8,
            Hosts::Sketch(sketch) => size_of::<HyperLogLog>() + sketch.heap(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_exact_and_return_from_their_encoding() {
        for count in [0u32, 1, 2, 128, 129, 3000] {
            let mut ports = Ports::default();
            for n in 0..count {
                let port = (n * 21) as u16;
                assert!(ports.insert(port) && !ports.insert(port));
            }
            assert_eq!(ports.len(), count);
            let mut bytes = Vec::new();
            ports.encode(&mut bytes);
            let mut back = Ports::decode(&mut Decoder(&bytes)).unwrap();
            assert_eq!(back.sorted(), ports.sorted());
            back.merge(ports);
            assert_eq!(back.len(), count);
            for cut in (0..bytes.len()).step_by(37) {
                assert!(Ports::decode(&mut Decoder(&bytes[..cut])).is_none());
            }
        }
    }

    #[test]
    fn hosts_are_exact_then_about() {
        let mut hosts = Hosts::default();
        for n in 0..100_000u32 {
            hosts.insert(Ip::v4(n));
            let exact = u64::from(n) + 1;
            if exact <= SET_MAX as u64 {
                assert_eq!(hosts.len(), exact);
            }
        }
        assert!(hosts.is_estimate() && hosts.len().abs_diff(100_000) < 5_000);
        let mut small = Hosts::default();
        small.insert(Ip::v4(7));
        let before = hosts.len();
        small.merge(hosts);
        assert_eq!(small.len(), before);
    }
}
