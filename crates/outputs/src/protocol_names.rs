//! Names of numbers as Suricata's outputs write them: IP protocols, link types, TCP flags.

use gabion_record::IpProto;

/// Names of IP protocols by number: the keywords of IANA's registry, with Suricata's words for 4 and
/// 89 and for the private ranges.
#[rustfmt::skip]
const IP_PROTOCOLS: [&str; 144] = [
    "HOPOPT", "ICMP", "IGMP", "GGP", "IP-in-IP", "ST", "TCP", "CBT", "EGP", "IGP", "BBN-RCC-MON",
    "NVP-II", "PUP", "ARGUS", "EMCON", "XNET", "CHAOS", "UDP", "MUX", "DCN-MEAS", "HMP", "PRM",
    "XNS-IDP", "TRUNK-1", "TRUNK-2", "LEAF-1", "LEAF-2", "RDP", "IRTP", "ISO-TP4", "NETBLT",
    "MFE-NSP", "MERIT-INP", "DCCP", "3PC", "IDPR", "XTP", "DDP", "IDPR-CMTP", "TP++", "IL",
    "IPv6", "SDRP", "IPv6-Route", "IPv6-Frag", "IDRP", "RSVP", "GRE", "DSR", "BNA", "ESP", "AH",
    "I-NLSP", "SwIPe", "NARP", "MOBILE", "TLSP", "SKIP", "IPv6-ICMP", "IPv6-NoNxt", "IPv6-Opts",
    "Any", "CFTP", "Any", "SAT-EXPAK", "KRYPTOLAN", "RVD", "IPPC", "Any", "SAT-MON", "VISA",
    "IPCU", "CPNX", "CPHB", "WSN", "PVP", "BR-SAT-MON", "SUN-ND", "WB-MON", "WB-EXPAK", "ISO-IP",
    "VMTP", "SECURE-VMTP", "VINES", "TTP", "NSFNET-IGP", "DGP", "TCF", "EIGRP", "OSPF",
    "Sprite-RPC", "LARP", "MTP", "AX.25", "IPIP", "MICP", "SCC-SP", "ETHERIP", "ENCAP", "Any",
    "GMTP", "IFMP", "PNNI", "PIM", "ARIS", "SCPS", "QNX", "A/N", "IPComp", "SNP", "Compaq-Peer",
    "IPX-in-IP", "VRRP", "PGM", "Any", "L2TP", "DDX", "IATP", "STP", "SRP", "UTI", "SMP", "SM",
    "PTP", "IS-IS", "FIRE", "CRTP", "CRUDP", "SSCOPMCE", "IPLT", "SPS", "PIPE", "SCTP", "FC",
    "RSVP-E2E-IGNORE", "Mobility", "UDPLite", "MPLS-in-IP", "manet", "HIP", "Shim6", "WESP",
    "ROHC", "Ethernet",
];

/// Name of an IP protocol in EVE (`TCP`, `IPv6-ICMP`); others are written as three digits.
pub(crate) fn ip_protocol(protocol: IpProto) -> Option<&'static str> {
    IP_PROTOCOLS.get(usize::from(protocol.0)).copied()
}

/// Name of a LINKTYPE as libpcap gives it, for `packet_info`.
pub(crate) fn link_type(link: u16) -> Option<&'static str> {
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
pub(crate) const TCP_FLAGS: [(u8, &str); 8] = [
    (0x02, "syn"),
    (0x01, "fin"),
    (0x04, "rst"),
    (0x08, "psh"),
    (0x10, "ack"),
    (0x20, "urg"),
    (0x40, "ecn"),
    (0x80, "cwr"),
];
