//! Port sets of rule headers: sorted ranges, negation resolved, shared between rules.

/// Number of a port set in [`crate::Ruleset::ports`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(pub u32);

impl PortId {
    /// The set that holds every port; it is always there.
    pub const ANY: PortId = PortId(0);
}

/// A set of ports as sorted, disjoint, inclusive ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortSet {
    /// The ranges.
    pub ranges: Vec<(u16, u16)>,
}

impl PortSet {
    /// Every port.
    pub fn any() -> PortSet {
        PortSet { ranges: vec![(0, u16::MAX)] }
    }

    /// Whether it holds every port.
    pub fn is_any(&self) -> bool {
        self.ranges == [(0, u16::MAX)]
    }

    /// Whether it holds the port.
    #[inline]
    pub fn contains(&self, port: u16) -> bool {
        let at = self.ranges.partition_point(|r| r.1 < port);
        self.ranges.get(at).is_some_and(|r| r.0 <= port)
    }
}
