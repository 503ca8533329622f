//! The result of decoding: plain structs of offsets, numbers and flags.
//!
//! A frame is a chain of packets: the one the link carried (the root) and, for each tunnel, the
//! packet found inside. All of them point into the same frame bytes by offset from its start, so a
//! [`PacketSet`] can be kept, reused for the next frame and passed between stages without a
//! lifetime. Nothing here allocates.

use crate::event::EventList;
use crate::limits::{MAX_INNER, MAX_VLANS};
use crate::transport::TransportHeader;
use gabion_record::DecoderEvent;
pub use gabion_record::PacketSource;
use gabion_record::{Addr, IpProto};

/// The network layer that was decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Network {
    /// None, or a protocol whose header could not be trusted.
    #[default]
    None,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// ARP.
    Arp,
}

/// Yes-or-no facts about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags(u32);

impl Flags {
    /// A header is broken beyond use; such packets are counted `decoder.invalid`.
    pub const INVALID: Flags = Flags(1);
    /// [`Decoded::l2`] is an Ethernet header.
    pub const ETHERNET: Flags = Flags(1 << 1);
    /// The packet came after MPLS labels.
    pub const MPLS: Flags = Flags(1 << 2);
    /// An IP fragment: the payload is the fragment's data and no transport was decoded.
    pub const FRAGMENT: Flags = Flags(1 << 3);
    /// The IP header says that more fragments follow.
    pub const MORE_FRAGMENTS: Flags = Flags(1 << 4);
    /// The IPv4 header forbids fragmentation.
    pub const DONT_FRAGMENT: Flags = Flags(1 << 5);
    /// The reserved bit of the IPv4 fragment field is set.
    pub const RESERVED_FRAGMENT_BIT: Flags = Flags(1 << 6);
    /// The packet was reassembled from fragments (or lies inside one that was).
    pub const REASSEMBLED: Flags = Flags(1 << 7);
    /// A packet was found inside: the payload is inspected as part of that one.
    pub const HAS_INNER: Flags = Flags(1 << 8);
    /// A flow is looked up for this packet (the same protocols and broken headers as in Suricata).
    pub const WANTS_FLOW: Flags = Flags(1 << 9);
    /// PPP carried it as VJ-uncompressed TCP: the protocol field holds a slot number.
    pub const VJ_UNCOMPRESSED: Flags = Flags(1 << 10);

    /// Whether all of `other`'s bits are set.
    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Sets `other`'s bits.
    #[inline]
    pub fn set(&mut self, other: Flags) {
        self.0 |= other.0;
    }

    /// Clears `other`'s bits.
    #[inline]
    pub fn unset(&mut self, other: Flags) {
        self.0 &= !other.0;
    }
}

/// IPv4 options that are present, one bit each, as the `ipopts` keyword names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct IpOptions(pub u16);

impl IpOptions {
    /// End of list (0).
    pub const EOL: IpOptions = IpOptions(1);
    /// No operation (1).
    pub const NOP: IpOptions = IpOptions(1 << 1);
    /// Record route (7).
    pub const RECORD_ROUTE: IpOptions = IpOptions(1 << 2);
    /// Timestamp (68).
    pub const TIMESTAMP: IpOptions = IpOptions(1 << 3);
    /// Quick start (25).
    pub const QUICK_START: IpOptions = IpOptions(1 << 4);
    /// Security (130).
    pub const SECURITY: IpOptions = IpOptions(1 << 5);
    /// Loose source route (131).
    pub const LOOSE_ROUTE: IpOptions = IpOptions(1 << 6);
    /// Extended security (133).
    pub const EXTENDED_SECURITY: IpOptions = IpOptions(1 << 7);
    /// Commercial security (134).
    pub const CIPSO: IpOptions = IpOptions(1 << 8);
    /// Stream id (136).
    pub const STREAM_ID: IpOptions = IpOptions(1 << 9);
    /// Strict source route (137).
    pub const STRICT_ROUTE: IpOptions = IpOptions(1 << 10);
    /// Router alert (148).
    pub const ROUTER_ALERT: IpOptions = IpOptions(1 << 11);

    /// Values of the `ipopts` keyword with the bits they match; `any` matches any bit.
    pub const NAMES: &'static [(&'static str, IpOptions)] = &[
        ("rr", IpOptions::RECORD_ROUTE),
        ("lsrr", IpOptions::LOOSE_ROUTE),
        ("eol", IpOptions::EOL),
        ("nop", IpOptions::NOP),
        ("ts", IpOptions::TIMESTAMP),
        ("sec", IpOptions::SECURITY),
        ("ssrr", IpOptions::STRICT_ROUTE),
        ("satid", IpOptions::STREAM_ID),
        ("any", IpOptions(0xffff)),
        ("esec", IpOptions::EXTENDED_SECURITY),
        ("cipso", IpOptions::CIPSO),
        ("qs", IpOptions::QUICK_START),
        ("rtralt", IpOptions::ROUTER_ALERT),
    ];

    /// Whether any of `other`'s options is present.
    #[inline]
    pub const fn any_of(self, other: IpOptions) -> bool {
        self.0 & other.0 != 0
    }
}

/// The IPv6 extension headers of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ExtHeaders {
    bits: u8,
    /// Type of the first routing header.
    pub routing_type: u8,
    /// Next header after the fragment header.
    pub fragment_next: u8,
    /// Offset in the frame of the byte that names the fragment header (the next-header byte before
    /// it): reassembly overwrites it.
    pub fragment_prev: u32,
    /// Offset in the frame of the fragment header.
    pub fragment_at: u32,
}

impl ExtHeaders {
    /// Hop-by-hop options.
    pub const HOP_BY_HOP: u8 = 1;
    /// Destination options.
    pub const DESTINATION: u8 = 1 << 1;
    /// Routing.
    pub const ROUTING: u8 = 1 << 2;
    /// Fragment.
    pub const FRAGMENT: u8 = 1 << 3;
    /// Authentication.
    pub const AUTH: u8 = 1 << 4;
    /// Encapsulating security payload.
    pub const ESP: u8 = 1 << 5;
    /// Mobility, HIP or SHIM6.
    pub const OTHER: u8 = 1 << 6;

    /// Whether a header of this kind (one of the constants) was present.
    #[inline]
    pub const fn has(self, kind: u8) -> bool {
        self.bits & kind != 0
    }

    #[inline]
    pub(crate) fn add(&mut self, kind: u8) {
        self.bits |= kind;
    }
}

/// One decoded packet. Offsets are bytes from the start of the frame (or of the reassembled
/// packet); numbers are in host order.
#[derive(Clone, Copy, Debug)]
pub struct Decoded {
    /// Source address, when [`Decoded::network`] is IP.
    pub src: Addr,
    /// Destination address, when [`Decoded::network`] is IP.
    pub dst: Addr,
    /// Where this packet begins: 0 for the root, the inner header for a packet in a tunnel.
    pub start: u32,
    /// Bytes of this packet from `start`, as far as they were captured.
    pub len: u32,
    /// Ethernet header, with [`Flags::ETHERNET`]: six bytes destination, six source, ethertype.
    pub l2: u32,
    /// IP or ARP header.
    pub l3: u32,
    /// Transport header; 0 without one.
    pub l4: u32,
    /// First byte of the payload: after the transport header, or a fragment's data.
    pub payload: u32,
    /// Bytes of payload, trailing link padding left out.
    pub payload_len: u32,
    /// Yes-or-no facts.
    pub flags: Flags,
    /// IPv4 identification, or that of the IPv6 fragment header.
    pub ip_id: u32,
    /// IPv6 extension headers.
    pub ext: ExtHeaders,
    /// Last ethertype found, also after tags; 0 without one.
    pub ethertype: u16,
    /// VLAN ids, outermost first (12 bits, without priority).
    pub vlans: [u16; MAX_VLANS],
    /// IPv4 total length or IPv6 payload length from the header.
    pub ip_len: u16,
    /// Bytes of IP headers: with options, with extension headers.
    pub ip_header_len: u16,
    /// Fragment offset in bytes.
    pub fragment_offset: u16,
    /// IPv4 options.
    pub ip_options: IpOptions,
    /// Source port; 0 without ports.
    pub sp: u16,
    /// Destination port; 0 without ports.
    pub dp: u16,
    /// How many of `vlans` are set.
    pub vlan_count: u8,
    /// The network layer.
    pub network: Network,
    /// IP protocol number of the transport that was found after any extension headers. If none was
    /// found, the number in the IP header (44 for an IPv6 fragment, as in Suricata's records).
    pub proto: IpProto,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Type of service or traffic class.
    pub tos: u8,
    /// Number of tunnels around this packet: 0 for the root. Part of the flow's key.
    pub depth: u8,
    /// Number of layers from the start of the frame to this packet.
    pub layers: u8,
    /// Where the packet came from.
    pub source: PacketSource,
    /// The transport header.
    pub transport: TransportHeader,
    /// Irregularities in the order in which they were found.
    pub events: EventList,
}

impl Decoded {
    /// A packet with nothing decoded.
    pub const fn new() -> Decoded {
        Decoded {
            src: Addr([0; 16]),
            dst: Addr([0; 16]),
            start: 0,
            len: 0,
            l2: 0,
            l3: 0,
            l4: 0,
            payload: 0,
            payload_len: 0,
            flags: Flags(0),
            ip_id: 0,
            ext: ExtHeaders {
                bits: 0,
                routing_type: 0,
                fragment_next: 0,
                fragment_prev: 0,
                fragment_at: 0,
            },
            ethertype: 0,
            vlans: [0; MAX_VLANS],
            ip_len: 0,
            ip_header_len: 0,
            fragment_offset: 0,
            ip_options: IpOptions(0),
            sp: 0,
            dp: 0,
            vlan_count: 0,
            network: Network::None,
            proto: IpProto(0),
            ttl: 0,
            tos: 0,
            depth: 0,
            layers: 0,
            source: PacketSource::Wire,
            transport: TransportHeader::None,
            events: EventList::new(),
        }
    }

    /// Resets the packet without overwriting the storage of its events.
    pub(crate) fn reset(&mut self) {
        let mut events = self.events;
        events.clear();
        *self = Decoded { events, ..Decoded::new() };
    }

    /// 4, 6, or 0 where no IP header could be trusted.
    #[inline]
    pub const fn ip_version(&self) -> u8 {
        match self.network {
            Network::Ipv4 => 4,
            Network::Ipv6 => 6,
            Network::None | Network::Arp => 0,
        }
    }

    /// Whether the packet has an IP header.
    #[inline]
    pub const fn is_ip(&self) -> bool {
        self.ip_version() != 0
    }

    /// VLAN ids, outermost first.
    #[inline]
    pub fn vlan_ids(&self) -> &[u16] {
        self.vlans.get(..usize::from(self.vlan_count)).unwrap_or(&[])
    }

    /// The packet's bytes within its frame.
    #[inline]
    pub fn bytes<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        range(frame, self.start, self.len)
    }

    /// The payload's bytes within its frame.
    #[inline]
    pub fn payload<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        range(frame, self.payload, self.payload_len)
    }

    /// The IP header's bytes with options; extension headers left out.
    pub fn ip_header<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        match self.network {
            Network::Ipv4 => range(frame, self.l3, u32::from(self.ip_header_len)),
            Network::Ipv6 => range(frame, self.l3, 40),
            Network::None | Network::Arp => &[],
        }
    }

    /// The transport header's bytes; empty without one.
    pub fn transport_header<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        if self.l4 == 0 && !self.transport.is_some() {
            return &[];
        }
        range(frame, self.l4, self.payload.saturating_sub(self.l4))
    }

    /// Transport header and payload, as far as the IP length reaches.
    pub fn segment<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let header = self.payload.saturating_sub(self.l4);
        let mut len = header.saturating_add(self.payload_len);
        if let TransportHeader::Icmpv6(icmp) = self.transport {
            len = len.saturating_add(u32::from(icmp.left_out));
        }
        range(frame, self.l4, len)
    }

    /// Chunks of an SCTP packet, counted as far as their lengths hold (RFC 9260 section 3.2).
    pub fn sctp_chunk_count(&self, frame: &[u8]) -> u32 {
        if !matches!(self.transport, TransportHeader::Sctp(_)) {
            return 0;
        }
        let mut rest = self.payload(frame);
        let mut count = 0;
        while let [_, _, high, low, ..] = *rest {
            let len = usize::from(u16::from_be_bytes([high, low]));
            if len < 4 || len > rest.len() {
                break;
            }
            count += 1;
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        }
        count
    }

    /// Source MAC address of the last Ethernet header.
    pub fn src_mac(&self, frame: &[u8]) -> Option<[u8; 6]> {
        self.mac(frame, 6)
    }

    /// Destination MAC address of the last Ethernet header.
    pub fn dst_mac(&self, frame: &[u8]) -> Option<[u8; 6]> {
        self.mac(frame, 0)
    }

    fn mac(&self, frame: &[u8], at: usize) -> Option<[u8; 6]> {
        if !self.flags.has(Flags::ETHERNET) {
            return None;
        }
        let from = (self.l2 as usize).checked_add(at)?;
        frame.get(from..)?.first_chunk::<6>().copied()
    }

    /// Raises an event that leaves the packet usable.
    #[inline]
    pub(crate) fn event(&mut self, event: DecoderEvent) {
        self.events.push(event);
    }

    /// Raises an event that makes the packet invalid.
    #[cold]
    pub(crate) fn invalid(&mut self, event: DecoderEvent) {
        self.events.push(event);
        self.flags.set(Flags::INVALID);
    }
}

impl Default for Decoded {
    fn default() -> Decoded {
        Decoded::new()
    }
}

fn range(frame: &[u8], from: u32, len: u32) -> &[u8] {
    let from = from as usize;
    frame.get(from..from.saturating_add(len as usize)).unwrap_or(&[])
}

/// The packets of one frame: the root and those found inside it, outermost first. Reused from
/// frame to frame.
#[derive(Clone, Debug)]
pub struct PacketSet {
    pub(crate) root: Decoded,
    pub(crate) inner: [Decoded; MAX_INNER],
    pub(crate) inner_count: u8,
}

impl PacketSet {
    /// A set with nothing decoded.
    pub const fn new() -> PacketSet {
        PacketSet { root: Decoded::new(), inner: [Decoded::new(); MAX_INNER], inner_count: 0 }
    }

    /// The packet the link carried.
    #[inline]
    pub fn root(&self) -> &Decoded {
        &self.root
    }

    /// The packets in tunnels, outermost first: each lies inside the one before.
    #[inline]
    pub fn inner(&self) -> &[Decoded] {
        self.inner.get(..usize::from(self.inner_count)).unwrap_or(&[])
    }

    /// Every packet, outermost first.
    #[inline]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Decoded> {
        std::iter::once(&self.root).chain(self.inner().iter())
    }

    /// Every packet in the order in which Suricata processes them: innermost first, the root last.
    #[inline]
    pub fn in_processing_order(&self) -> impl Iterator<Item = &Decoded> {
        self.iter().rev()
    }

    /// Number of packets, including the root.
    #[inline]
    pub fn count(&self) -> usize {
        usize::from(self.inner_count) + 1
    }

    /// One packet by its position in [`PacketSet::iter`].
    #[inline]
    pub fn get(&self, place: usize) -> Option<&Decoded> {
        match place.checked_sub(1) {
            None => Some(&self.root),
            Some(place) => self.inner().get(place),
        }
    }
}

impl Default for PacketSet {
    fn default() -> PacketSet {
        PacketSet::new()
    }
}
