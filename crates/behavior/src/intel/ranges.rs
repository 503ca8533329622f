//! Ranges of addresses with a value each: the narrowest range that holds an address answers.
//!
//! When closed, ranges are cut into pieces that do not overlap, so that a question is a binary search
//! within the addresses that share their first sixteen bits.

use gabion_record::Ip;

/// Ranges with values, which are numbers of something kept elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    /// Before closing: first, last, value.
    open: Vec<(u128, u128, u32)>,
    v4: Pieces<u32>,
    v6: Pieces<u128>,
    /// First piece of IPv4 for each first half of an address.
    heads: Vec<u32>,
}

/// Pieces by their first address; a value of `u32::MAX` is none.
#[derive(Debug, Default)]
struct Pieces<T> {
    firsts: Vec<T>,
    values: Vec<u32>,
}

const NONE: u32 = u32::MAX;
const V4: u128 = 0xffff_0000_0000;

impl<T: Copy + Ord> Pieces<T> {
    fn push(&mut self, first: T, value: u32) {
        if self.firsts.last() == Some(&first) {
            self.values.pop();
            self.firsts.pop();
        }
        if self.values.last().copied().unwrap_or(NONE) != value {
            self.firsts.push(first);
            self.values.push(value);
        }
    }

    fn get(&self, from: usize, to: usize, at: T) -> Option<u32> {
        let n = self.firsts.get(from..to)?.partition_point(|first| *first <= at) + from;
        self.values.get(n.checked_sub(1)?).copied().filter(|v| *v != NONE)
    }
}

impl Ranges {
    /// Adds a range, both ends in it.
    pub(crate) fn add(&mut self, first: Ip, last: Ip, value: u32) {
        if first <= last && value != NONE {
            self.open.push((first.number(), last.number(), value));
        }
    }

    /// Cuts the ranges into pieces.
    pub(crate) fn close(&mut self) {
        let mut open = std::mem::take(&mut self.open);
        // Wider ones first; of two alike the first given answers.
        open.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)).then(b.2.cmp(&a.2)));
        let mut held: Vec<(u128, u32)> = Vec::new();
        for (first, last, value) in open {
            self.end(&mut held, first);
            self.piece(first, value);
            held.push((last, value));
        }
        self.end(&mut held, u128::MAX);
        self.v4.firsts.shrink_to_fit();
        self.v4.values.shrink_to_fit();
        if !self.v4.firsts.is_empty() {
            let firsts = &self.v4.firsts;
            self.heads = (0..=65_536u64)
                .map(|head| firsts.partition_point(|f| u64::from(*f) < head << 16) as u32)
                .collect();
        }
    }

    /// Ends the range that is held before `until`; a wider one continues after it.
    fn end(&mut self, held: &mut Vec<(u128, u32)>, until: u128) {
        while let Some(&(last, _)) = held.last() {
            if last >= until {
                return;
            }
            held.pop();
            // Ranges that overlap in part: what ended already is passed over.
            while held.last().is_some_and(|(l, _)| *l <= last) {
                held.pop();
            }
            let value = held.last().map_or(NONE, |h| h.1);
            self.piece(last.saturating_add(1), value);
        }
    }

    fn piece(&mut self, first: u128, value: u32) {
        match u32::try_from(first.wrapping_sub(V4)) {
            Ok(first) => self.v4.push(first, value),
            Err(_) => self.v6.push(first, value),
        }
    }

    /// The value of the narrowest range that holds the address.
    #[inline]
    pub(crate) fn get(&self, ip: Ip) -> Option<u32> {
        match ip.as_v4() {
            Some(n) => {
                let head = (n >> 16) as usize;
                let from = *self.heads.get(head)? as usize;
                let to = *self.heads.get(head + 1)? as usize;
                // The piece that reaches into these addresses began before them.
                self.v4.get(from.saturating_sub(1), to, n)
            }
            None if self.v6.firsts.is_empty() => None,
            None => self.v6.get(0, self.v6.firsts.len(), ip.number()),
        }
    }

    /// Pieces.
    pub(crate) fn len(&self) -> usize {
        self.v4.firsts.len() + self.v6.firsts.len()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes they take.
    pub(crate) fn bytes(&self) -> usize {
        self.v4.firsts.capacity() * 8 + self.v6.firsts.capacity() * 20 + self.heads.capacity() * 4
    }
}

/// First and last address of a network written as `a.b.c.d/n`, a range `a-b`, or one address.
pub(crate) fn bounds(text: &[u8]) -> Option<(Ip, Ip)> {
    if let Some(at) = text.iter().position(|b| *b == b'-') {
        let first = Ip::parse(text.get(..at)?.trim_ascii())?;
        let last = Ip::parse(text.get(at + 1..)?.trim_ascii())?;
        return (first <= last && first.is_v4() == last.is_v4()).then_some((first, last));
    }
    let net = gabion_record::Net::parse(text)?;
    let bits = 128 - u32::from(net.len_mapped());
    let rest = if bits == 128 { u128::MAX } else { (1 << bits) - 1 };
    let last = net.base().number() | rest;
    Some((net.base(), Ip::from_bytes(last.to_be_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Ip {
        Ip::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_narrowest_range_answers() {
        let mut r = Ranges::default();
        let given = [
            "10.0.0.0/8",
            "10.1.0.0/16",
            "10.1.2.0/24",
            "10.1.255.0/24",
            "0.0.0.0/32",
            "255.255.255.255/32",
            "2001:db8::/32",
            "2001:db8:1::/48",
            "192.0.2.5-192.0.2.9",
            "10.0.0.0/8",
        ];
        for (n, text) in given.iter().enumerate() {
            let (first, last) = bounds(text.as_bytes()).unwrap();
            r.add(first, last, n as u32);
        }
        r.close();
        for (text, value) in [
            ("9.255.255.255", None),
            ("10.0.0.0", Some(0)),
            ("10.1.0.1", Some(1)),
            ("10.1.2.3", Some(2)),
            ("10.1.3.0", Some(1)),
            ("10.1.255.255", Some(3)),
            ("10.2.0.0", Some(0)),
            ("10.255.255.255", Some(0)),
            ("11.0.0.0", None),
            ("0.0.0.0", Some(4)),
            ("0.0.0.1", None),
            ("255.255.255.255", Some(5)),
            ("2001:db8:2::1", Some(6)),
            ("2001:db8:1::1", Some(7)),
            ("2001:db9::", None),
            ("192.0.2.4", None),
            ("192.0.2.5", Some(8)),
            ("192.0.2.9", Some(8)),
            ("192.0.2.10", None),
        ] {
            assert_eq!(r.get(ip(text)), value, "{text}");
        }
        assert_eq!(bounds(b"10.0.0.9-10.0.0.1"), None);
    }

    /// Against a search through all ranges, for any nesting of networks.
    #[test]
    fn pieces_say_what_a_search_says() {
        let mut seed = 7u64;
        let mut random = |n: u32| {
            seed = crate::sketch::mix(seed);
            (seed % u64::from(n)) as u32
        };
        let mut nets = Vec::new();
        let mut r = Ranges::default();
        for n in 0..500 {
            let len = 96 + 16 + random(17) as u8;
            let net = gabion_record::Net::new(Ip::v4(0x0a00_0000 + random(1 << 18)), len);
            let (first, last) = bounds(net.to_string().as_bytes()).unwrap();
            r.add(first, last, n);
            nets.push((net, n));
        }
        r.close();
        for _ in 0..20_000 {
            let ip = Ip::v4(0x0a00_0000 + random(1 << 19));
            let narrow = nets
                .iter()
                .filter(|(net, _)| net.contains(ip))
                .max_by_key(|(net, n)| (net.len_mapped(), u32::MAX - n))
                .map(|(_, n)| *n);
            assert_eq!(r.get(ip), narrow, "{ip}");
        }
    }
}
