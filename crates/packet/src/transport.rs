//! The transport header of a packet as plain numbers.

use gabion_record::{Addr, IpProto};

/// The transport layer of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub enum TransportHeader {
    /// None decoded: a fragment, a protocol that is not decoded, or a header that is broken.
    #[default]
    None,
    /// TCP.
    Tcp(Tcp),
    /// UDP.
    Udp(Udp),
    /// ICMP in IPv4.
    Icmpv4(Icmp),
    /// ICMPv6.
    Icmpv6(Icmp),
    /// SCTP.
    Sctp(Sctp),
    /// IPsec ESP.
    Esp(Esp),
    /// GRE.
    Gre(Gre),
}

impl TransportHeader {
    /// Whether a transport header was decoded.
    #[inline]
    pub const fn is_some(&self) -> bool {
        !matches!(self, TransportHeader::None)
    }

    /// The TCP header, if the transport is TCP.
    #[inline]
    pub const fn tcp(&self) -> Option<&Tcp> {
        match self {
            TransportHeader::Tcp(tcp) => Some(tcp),
            TransportHeader::None
            | TransportHeader::Udp(_)
            | TransportHeader::Icmpv4(_)
            | TransportHeader::Icmpv6(_)
            | TransportHeader::Sctp(_)
            | TransportHeader::Esp(_)
            | TransportHeader::Gre(_) => None,
        }
    }

    /// The ICMP header of either version.
    #[inline]
    pub const fn icmp(&self) -> Option<&Icmp> {
        match self {
            TransportHeader::Icmpv4(icmp) | TransportHeader::Icmpv6(icmp) => Some(icmp),
            TransportHeader::None
            | TransportHeader::Tcp(_)
            | TransportHeader::Udp(_)
            | TransportHeader::Sctp(_)
            | TransportHeader::Esp(_)
            | TransportHeader::Gre(_) => None,
        }
    }
}

/// A TCP header (RFC 9293).
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp {
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Window as sent, not scaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Checksum as sent.
    pub checksum: u16,
    /// FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128.
    pub flags: u8,
    /// The four reserved bits between header length and flags.
    pub reserved: u8,
    /// Header length in bytes, options included.
    pub header_len: u8,
    /// Options.
    pub options: TcpOptions,
}

impl Tcp {
    /// No more data from the sender.
    pub const FIN: u8 = 1;
    /// Synchronize sequence numbers.
    pub const SYN: u8 = 2;
    /// Reset.
    pub const RST: u8 = 4;
    /// Push.
    pub const PSH: u8 = 8;
    /// The acknowledgment field is valid.
    pub const ACK: u8 = 16;
    /// The urgent pointer is valid.
    pub const URG: u8 = 32;
    /// Congestion echo.
    pub const ECE: u8 = 64;
    /// Congestion window reduced.
    pub const CWR: u8 = 128;

    /// Whether all of these flags are set.
    #[inline]
    pub const fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }
}

/// The well-formed TCP options; of repeated options the first counts. Broken and repeated ones
/// raise events and are not stored here.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpOptions {
    /// Which options are present: the constants of this type.
    pub present: u16,
    /// Maximum segment size.
    pub mss: u16,
    /// Window scale; 0 for a shift above 14, as in Suricata.
    pub window_scale: u8,
    /// Blocks of the selective acknowledgment.
    pub sack_blocks: u8,
    /// Length of the fast open cookie; 0 for a request for one.
    pub fast_open_len: u8,
    /// Offset of the first selective acknowledgment block from the TCP header's start.
    pub sack_at: u8,
    /// Offset of the fast open cookie from the TCP header's start.
    pub fast_open_at: u8,
    /// Timestamp value.
    pub ts_value: u32,
    /// Timestamp echo reply.
    pub ts_echo: u32,
}

impl TcpOptions {
    /// Maximum segment size (2).
    pub const MSS: u16 = 1;
    /// Window scale (3).
    pub const WINDOW_SCALE: u16 = 1 << 1;
    /// Selective acknowledgment permitted (4).
    pub const SACK_OK: u16 = 1 << 2;
    /// Selective acknowledgment blocks (5).
    pub const SACK: u16 = 1 << 3;
    /// Timestamps (8).
    pub const TIMESTAMP: u16 = 1 << 4;
    /// Fast open (34, or the experimental form in 253 and 254).
    pub const FAST_OPEN: u16 = 1 << 5;
    /// MD5 signature (19).
    pub const MD5: u16 = 1 << 6;
    /// Authentication (29).
    pub const AUTH: u16 = 1 << 7;

    /// Whether an option is present.
    #[inline]
    pub const fn has(&self, option: u16) -> bool {
        self.present & option != 0
    }
}

/// A UDP header.
#[derive(Clone, Copy, Debug, Default)]
pub struct Udp {
    /// Length as sent, header included.
    pub len: u16,
    /// Checksum as sent; 0 for none.
    pub checksum: u16,
}

/// An ICMP header of either version.
#[derive(Clone, Copy, Debug, Default)]
pub struct Icmp {
    /// Type.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// Checksum as sent.
    pub checksum: u16,
    /// Identifier; meaningful with [`Icmp::has_id`].
    pub id: u16,
    /// Sequence number; meaningful with [`Icmp::has_id`].
    pub seq: u16,
    /// Whether this type carries identifier and sequence number.
    pub has_id: bool,
    /// Maximum transmission unit of "packet too big" (ICMPv6) and "fragmentation needed" (ICMPv4).
    pub mtu: u32,
    /// The packet an error quotes.
    pub quoted: Option<Quoted>,
    /// Bytes at the end of the message that are no part of the payload.
    pub left_out: u8,
}

/// Addresses and ports of the packet that an ICMP error quotes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quoted {
    /// Source address of the quoted packet.
    pub src: Addr,
    /// Destination address of the quoted packet.
    pub dst: Addr,
    /// Offset of the quoted IP header in the frame.
    pub at: u32,
    /// Source port; 0 where it was not quoted.
    pub sp: u16,
    /// Destination port; 0 where it was not quoted.
    pub dp: u16,
    /// IP version: 4 or 6.
    pub version: u8,
    /// IP protocol.
    pub proto: IpProto,
    /// Whether ports (or ICMP type and code) were quoted.
    pub has_ports: bool,
    /// Type and code, if the quoted packet is ICMP itself.
    pub icmp: [u8; 2],
}

/// An SCTP common header (RFC 9260).
#[derive(Clone, Copy, Debug, Default)]
pub struct Sctp {
    /// Verification tag.
    pub tag: u32,
    /// Checksum as sent.
    pub checksum: u32,
}

/// An ESP header (RFC 4303).
#[derive(Clone, Copy, Debug, Default)]
pub struct Esp {
    /// Security parameters index.
    pub spi: u32,
    /// Sequence number.
    pub seq: u32,
}

/// A GRE header (RFC 2784, RFC 2890, RFC 2637).
#[derive(Clone, Copy, Debug, Default)]
pub struct Gre {
    /// The first two bytes: flags and version.
    pub flags: u16,
    /// Ethertype of what it carries.
    pub protocol: u16,
    /// Key, with the key flag.
    pub key: u32,
}

impl Gre {
    /// Version: 0, or 1 for PPTP.
    pub const fn version(&self) -> u8 {
        (self.flags & 7) as u8
    }
}
