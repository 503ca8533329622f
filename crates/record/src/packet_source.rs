//! Where packets come from: the wire, a tunnel, the engine itself.

/// Where a packet came from, as records name it (`pkt_src`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketSource {
    /// The frame itself.
    Wire,
    /// Found inside GRE (ERSPAN too).
    Gre,
    /// Found inside IPv4.
    Ipv4,
    /// Found inside IPv6.
    Ipv6,
    /// Found inside Teredo.
    Teredo,
    /// Found inside Geneve.
    Geneve,
    /// Found inside VXLAN.
    Vxlan,
    /// Reassembled from IP fragments.
    Defrag,
    /// Made by the engine at the end of a flow, of what was not inspected yet.
    FlowEnd,
    /// Made by the engine where a protocol wants what there is to be inspected at once.
    StreamFlush,
}

impl PacketSource {
    /// The text of `pkt_src`.
    pub const fn name(self) -> &'static str {
        match self {
            PacketSource::Wire => "wire/pcap",
            PacketSource::Gre => "gre tunnel",
            PacketSource::Ipv4 => "ipv4 tunnel",
            PacketSource::Ipv6 => "ipv6 tunnel",
            PacketSource::Teredo => "teredo tunnel",
            PacketSource::Geneve => "geneve encapsulation",
            PacketSource::Vxlan => "vxlan encapsulation",
            PacketSource::Defrag => "defrag",
            PacketSource::FlowEnd => "stream (flow timeout)",
            PacketSource::StreamFlush => "stream (detect/log)",
        }
    }
}
