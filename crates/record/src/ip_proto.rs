//! Protocol numbers of IP.

/// The number of a protocol carried by IP (IANA, Assigned Internet Protocol Numbers).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IpProto(pub u8);

impl IpProto {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: IpProto = IpProto(0);
    /// ICMP.
    pub const ICMP: IpProto = IpProto(1);
    /// IGMP.
    pub const IGMP: IpProto = IpProto(2);
    /// IPv4 in IP.
    pub const IPV4: IpProto = IpProto(4);
    /// TCP.
    pub const TCP: IpProto = IpProto(6);
    /// UDP.
    pub const UDP: IpProto = IpProto(17);
    /// IPv6 in IP.
    pub const IPV6: IpProto = IpProto(41);
    /// IPv6 routing header.
    pub const ROUTING: IpProto = IpProto(43);
    /// IPv6 fragment header.
    pub const FRAGMENT: IpProto = IpProto(44);
    /// GRE.
    pub const GRE: IpProto = IpProto(47);
    /// ESP.
    pub const ESP: IpProto = IpProto(50);
    /// Authentication header.
    pub const AUTH: IpProto = IpProto(51);
    /// ICMPv6.
    pub const ICMPV6: IpProto = IpProto(58);
    /// IPv6: nothing follows.
    pub const NONE: IpProto = IpProto(59);
    /// IPv6 destination options.
    pub const DESTINATION: IpProto = IpProto(60);
    /// SCTP.
    pub const SCTP: IpProto = IpProto(132);
    /// IPv6 mobility header.
    pub const MOBILITY: IpProto = IpProto(135);
    /// Host identity protocol.
    pub const HIP: IpProto = IpProto(139);
    /// Shim6.
    pub const SHIM6: IpProto = IpProto(140);

    /// Whether its packets have ports.
    #[inline]
    pub const fn has_ports(self) -> bool {
        matches!(self, IpProto::TCP | IpProto::UDP | IpProto::SCTP)
    }
}

impl From<u8> for IpProto {
    fn from(number: u8) -> IpProto {
        IpProto(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_protocols_have_ports() {
        let with_ports: Vec<u8> = (0..=u8::MAX).filter(|n| IpProto(*n).has_ports()).collect();
        assert_eq!(with_ports, [6, 17, 132]);
    }
}
