//! Address sets of rule headers: sorted ranges, negation resolved, shared between rules.
//!
//! The two versions of IP are worked out each on its own, as Suricata does: `!10.0.0.0/8` is every
//! other IPv4 address and no IPv6 address at all, since no item said anything about IPv6.

use crate::diagnostic::{Checked, Refusal};
use crate::list::{Items, ListReader};
use crate::ranges::{normalize, subtract};
use crate::vars::RuleVars;
use gabion_record::Addr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Number of an address set in [`crate::Ruleset::addresses`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressId(pub u32);

impl AddressId {
    /// The set that holds every address; it is always there.
    pub const ANY: AddressId = AddressId(0);
}

/// A set of IPv4 and IPv6 addresses as sorted, disjoint, inclusive ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AddressSet {
    /// IPv4 ranges.
    pub v4: Vec<(u32, u32)>,
    /// IPv6 ranges.
    pub v6: Vec<(u128, u128)>,
    /// A negation took part in it (or a range of IPv6 addresses that is no network): a rule that
    /// is otherwise IP-only becomes `like_ip_only`.
    pub has_negation: bool,
}

impl AddressSet {
    /// Every address.
    pub fn any() -> AddressSet {
        AddressSet { v4: vec![(0, u32::MAX)], v6: vec![(0, u128::MAX)], has_negation: false }
    }

    /// Whether it holds every address.
    pub fn is_any(&self) -> bool {
        self.v4 == [(0, u32::MAX)] && self.v6 == [(0, u128::MAX)]
    }

    /// Whether it holds the address; `version` is 4 or 6.
    #[inline]
    pub fn contains(&self, version: u8, address: Addr) -> bool {
        if version == 6 {
            in_ranges(&self.v6, address.as_u128())
        } else {
            in_ranges(&self.v4, address.v4_u32())
        }
    }

    /// Reads the text of a header's address part.
    pub(crate) fn parse(text: &str, vars: &RuleVars) -> Checked<AddressSet> {
        let items = AddressItems { vars };
        let mut reader = ListReader::new(&items);
        let sides = reader.read_list(text)?;
        Ok(AddressSet {
            v4: sides.v4,
            v6: sides.v6,
            has_negation: reader.negated || sides.has_odd_range,
        })
    }
}

#[inline]
fn in_ranges<T: Ord + Copy>(ranges: &[(T, T)], value: T) -> bool {
    let at = ranges.partition_point(|r| r.1 < value);
    ranges.get(at).is_some_and(|r| r.0 <= value)
}

#[derive(Default)]
struct Sides {
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
    has_odd_range: bool,
}

struct AddressItems<'v> {
    vars: &'v RuleVars,
}

impl Items for AddressItems<'_> {
    type Set = Sides;

    fn add(&self, text: &str, set: &mut Sides) -> Checked<()> {
        if text.eq_ignore_ascii_case("any") {
            set.v4.push((0, u32::MAX));
            set.v6.push((0, u128::MAX));
            return Ok(());
        }
        match item(text) {
            Some(Item::V4(from, to)) => set.v4.push((from, to)),
            Some(Item::V6(from, to, is_network)) => {
                set.v6.push((from, to));
                set.has_odd_range |= !is_network;
            }
            None => {
                let said = format!("failed to parse address \"{text}\"");
                return Err(Refusal::new("detect", said));
            }
        }
        Ok(())
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.vars.address(name)
    }

    fn resolve(&self, positive: Sides, negative: &Sides) -> Checked<Sides> {
        let no4 = normalize(negative.v4.clone());
        let no6 = normalize(negative.v6.clone());
        if no4 == [(0, u32::MAX)] && (no6 == [(0, u128::MAX)] || no6.is_empty())
            || no6 == [(0, u128::MAX)] && no4.is_empty()
        {
            return Err(Refusal::new(
                "detect",
                "Complete IP space negated. Rule address range is NIL. Probably have a !any or \
                 an address range that supplies a NULL address range",
            ));
        }
        let mut yes4 = normalize(positive.v4);
        let mut yes6 = normalize(positive.v6);
        if yes4.is_empty() && !no4.is_empty() {
            yes4 = vec![(0, u32::MAX)];
        }
        if yes6.is_empty() && !no6.is_empty() {
            yes6 = vec![(0, u128::MAX)];
        }
        let v4 = subtract(&yes4, &no4);
        let v6 = subtract(&yes6, &no6);
        if v4.is_empty() && v6.is_empty() {
            return Err(Refusal::new(
                "detect",
                "no addresses left after merging addresses and negated addresses",
            ));
        }
        Ok(Sides { v4, v6, has_odd_range: positive.has_odd_range || negative.has_odd_range })
    }

    fn join(&self, from: Sides, to: &mut Sides) {
        to.v4.extend(from.v4);
        to.v6.extend(from.v6);
        to.has_odd_range |= from.has_odd_range;
    }
}

enum Item {
    V4(u32, u32),
    V6(u128, u128, bool),
}

/// An address, a network, or a range.
fn item(text: &str) -> Option<Item> {
    if let Some((address, mask)) = text.split_once('/') {
        return match address.parse().ok()? {
            IpAddr::V4(a) => {
                let mask = mask_v4(mask)?;
                let from = u32::from(a) & mask;
                Some(Item::V4(from, from | !mask))
            }
            IpAddr::V6(a) => {
                let bits: u32 = mask.parse().ok().filter(|b| *b <= 128)?;
                let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
                let from = u128::from(a) & mask;
                Some(Item::V6(from, from | !mask, true))
            }
        };
    }
    if let Some((from, to)) = text.split_once('-') {
        if let (Ok(from), Ok(to)) = (from.parse::<Ipv4Addr>(), to.parse::<Ipv4Addr>()) {
            let (from, to) = (u32::from(from), u32::from(to));
            return (from <= to).then_some(Item::V4(from, to));
        }
        let from = u128::from(from.parse::<Ipv6Addr>().ok()?);
        let to = u128::from(to.parse::<Ipv6Addr>().ok()?);
        return (from <= to).then_some(Item::V6(from, to, false));
    }
    match text.parse().ok()? {
        IpAddr::V4(a) => Some(Item::V4(u32::from(a), u32::from(a))),
        IpAddr::V6(a) => Some(Item::V6(u128::from(a), u128::from(a), true)),
    }
}

fn mask_v4(text: &str) -> Option<u32> {
    if let Ok(mask) = text.parse::<Ipv4Addr>() {
        let bits = u32::from(mask);
        return (bits.leading_ones() + bits.trailing_zeros() >= 32).then_some(bits);
    }
    let bits: u32 = text.parse().ok().filter(|b| *b <= 32)?;
    Some(u32::MAX.checked_shl(32 - bits).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars() -> RuleVars {
        let pair = |n: &str, v: &str| (n.to_string(), v.to_string());
        RuleVars {
            addresses: vec![
                pair("HOME_NET", "[192.168.0.0/16,10.0.0.0/8]"),
                pair("EXTERNAL_NET", "!$HOME_NET"),
            ],
            ports: vec![],
        }
    }

    fn holds(text: &str, address: &str) -> bool {
        let ip: IpAddr = address.parse().unwrap();
        let set = AddressSet::parse(text, &vars()).unwrap();
        set.contains(if ip.is_ipv4() { 4 } else { 6 }, Addr::from_ip(ip))
    }

    // What is refused, and that a negation says nothing of the other version, was measured with
    // Suricata 8.0.7.
    #[test]
    fn lists_negation_and_variables() {
        for (text, address, wanted) in [
            ("any", "1.2.3.4", true),
            ("any", "::1", true),
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/255.0.0.0", "11.0.0.1", false),
            ("10.0.0.1-10.0.0.9", "10.0.0.9", true),
            ("[10.0.0.0/8,!10.1.0.0/16]", "10.1.2.3", false),
            ("$EXTERNAL_NET", "8.8.8.8", true),
            ("$EXTERNAL_NET", "10.0.0.1", false),
            ("$EXTERNAL_NET", "::1", false),
            ("!$EXTERNAL_NET", "10.0.0.1", true),
            ("![$HOME_NET,1.2.3.4]", "1.2.3.4", false),
            ("![1.1.1.1,!2.2.2.2]", "2.2.2.2", true),
            ("[any,!10.0.0.0/8]", "::1", true),
            ("fe80::/10", "fe80::1", true),
            ("[10.0.0.1,]", "10.0.0.1", true),
            ("[ 1.1.1.1, 2.2.2.2]", "2.2.2.2", true),
        ] {
            assert_eq!(holds(text, address), wanted, "{text} {address}");
        }
    }

    #[test]
    fn what_is_refused() {
        for text in [
            "!any",
            "[10.0.0.0/8,!10.0.0.0/8]",
            "10.0.0.9-10.0.0.1",
            "10.0.0.1/33",
            "10.0.0",
            "[]",
            "[,10.0.0.1]",
            "!0.0.0.0/0",
            "$NOPE",
            "[1.1.1.1",
            "1.1.1.1 ",
        ] {
            let padded = if text == "1.1.1.1 " { "[1.1.1.1 ,2.2.2.2]" } else { text };
            assert!(AddressSet::parse(padded, &vars()).is_err(), "{text}");
        }
    }
}
