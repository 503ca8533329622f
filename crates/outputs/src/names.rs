//! Names of numbers as the peer's outputs write them: IP protocols, link types, TCP flags.

/// Name of an IP protocol in EVE (`TCP`, `IPv6-ICMP`); others are written as three digits.
pub fn ip_protocol(number: u8) -> Option<&'static str> {
    Some(match number {
        0 => "HOPOPT",
        1 => "ICMP",
        2 => "IGMP",
        4 => "IPIP",
        6 => "TCP",
        17 => "UDP",
        33 => "DCCP",
        41 => "IPv6",
        43 => "IPv6-Route",
        44 => "IPv6-Frag",
        47 => "GRE",
        50 => "ESP",
        51 => "AH",
        58 => "IPv6-ICMP",
        59 => "IPv6-NoNxt",
        60 => "IPv6-Opts",
        89 => "OSPFIGP",
        92 => "MTP",
        103 => "PIM",
        132 => "SCTP",
        _ => return None,
    })
}

/// Name of a LINKTYPE as libpcap gives it, for `packet_info`.
pub fn link_type(link: u16) -> Option<&'static str> {
    Some(match link {
        0 => "NULL",
        1 => "EN10MB",
        9 => "PPP",
        12 | 14 | 101 => "RAW",
        50 => "PPP_SERIAL",
        51 => "PPP_ETHER",
        104 => "C_HDLC",
        108 => "LOOP",
        113 => "LINUX_SLL",
        228 => "IPv4",
        229 => "IPv6",
        276 => "LINUX_SLL2",
        _ => return None,
    })
}

/// TCP flag bits with their keys in EVE, in the order EVE writes them.
pub const TCP_FLAGS: [(u8, &str); 8] = [
    (0x02, "syn"),
    (0x01, "fin"),
    (0x04, "rst"),
    (0x08, "psh"),
    (0x10, "ack"),
    (0x20, "urg"),
    (0x40, "ecn"),
    (0x80, "cwr"),
];
