//! Address sets of rule headers: sorted ranges, negation resolved, shared between rules.

use gabion_record::Addr;

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
    /// A negation took part in it: a rule that is otherwise IP-only becomes `like_ip_only`.
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
}

#[inline]
fn in_ranges<T: Ord + Copy>(ranges: &[(T, T)], value: T) -> bool {
    let at = ranges.partition_point(|r| r.1 < value);
    ranges.get(at).is_some_and(|r| r.0 <= value)
}
