//! Decoder events: the named irregularities a frame can show, in one table.
//!
//! The table is what the `decode-event:` keyword accepts, what anomaly records call
//! `decoder.<name>`, and what statistics count as `decoder.event.<name>`; all three are generated
//! from it. The order is that of Suricata's statistics, which have no `arp.*`. Some of these events
//! are raised by the reassembly of IP fragments and by the capture (`*.frag_*`,
//! `afpacket.trunc_pkt`); they are here because they share the namespace. Six names exist only
//! because rules may use them; they are never raised here, and Suricata does not raise them on the
//! captures of the corpus either: `ipv4.opt_unknown`, `ipv6.pkt_too_small`, `ipv6.exthdr_dupl_eh`
//! (an ESP header ends the walk), `gre.version1_malformed_sre_hdr`, `udp.hlen_invalid` and
//! `arp.invalid_pkt`.

macro_rules! decoder_events {
    ($($variant:ident = $name:literal, $meaning:literal;)+) => {
        /// A named irregularity found while decoding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DecoderEvent {
            $(#[doc = $meaning] $variant,)+
        }

        impl DecoderEvent {
            /// Every event, in the order of the table.
            pub const ALL: &'static [DecoderEvent] = &[$(DecoderEvent::$variant,)+];

            /// The name as rules write it after `decode-event:`.
            pub const fn name(self) -> &'static str {
                match self { $(DecoderEvent::$variant => $name,)+ }
            }

            /// A short description of the irregularity.
            pub const fn meaning(self) -> &'static str {
                match self { $(DecoderEvent::$variant => $meaning,)+ }
            }
        }
    };
}

decoder_events! {
    AfPacketTruncated = "afpacket.trunc_pkt", "The interface delivered less than the whole frame.";
    Ipv4PacketTooSmall = "ipv4.pkt_too_small", "Fewer than 20 bytes for an IPv4 header.";
    Ipv4HeaderTooSmall = "ipv4.hlen_too_small", "IPv4 header length below 20 bytes.";
    Ipv4LenBelowHeader = "ipv4.iplen_smaller_than_hlen", "IPv4 total length below the header length.";
    Ipv4Truncated = "ipv4.trunc_pkt", "IPv4 total length beyond the end of the packet.";
    Ipv4OptInvalid = "ipv4.opt_invalid", "IPv4 option of an unknown type.";
    Ipv4OptInvalidLen = "ipv4.opt_invalid_len", "IPv4 option with an impossible length.";
    Ipv4OptMalformed = "ipv4.opt_malformed", "IPv4 option whose content breaks its rules.";
    Ipv4OptPadRequired = "ipv4.opt_pad_required", "IPv4 options not padded to eight bytes.";
    Ipv4OptEolRequired = "ipv4.opt_eol_required", "IPv4 options end without an end-of-list.";
    Ipv4OptDuplicate = "ipv4.opt_duplicate", "Duplicate IPv4 option.";
    Ipv4OptUnknown = "ipv4.opt_unknown", "IPv4 option of a known class and unknown kind.";
    Ipv4WrongVersion = "ipv4.wrong_ip_version", "Not version 4 where IPv4 was announced.";
    Ipv4Icmpv6 = "ipv4.icmpv6", "ICMPv6 carried by IPv4.";
    Ipv4FragTooLarge = "ipv4.frag_pkt_too_large", "IPv4 fragments reach beyond 65,535 bytes.";
    Ipv4FragOverlap = "ipv4.frag_overlap", "IPv4 fragments overlap.";
    Ipv4FragIgnored = "ipv4.frag_ignored", "IPv4 fragment not reassembled: a limit was reached.";
    Icmpv4PacketTooSmall = "icmpv4.pkt_too_small", "Fewer bytes than an ICMP header.";
    Icmpv4UnknownType = "icmpv4.unknown_type", "Unknown ICMP type.";
    Icmpv4UnknownCode = "icmpv4.unknown_code", "ICMP code not defined for the type.";
    Icmpv4QuotedTruncated = "icmpv4.ipv4_trunc_pkt", "ICMP error quotes less than an IPv4 header.";
    Icmpv4QuotedVersion = "icmpv4.ipv4_unknown_ver", "ICMP error quotes something not IPv4.";
    Icmpv6UnknownType = "icmpv6.unknown_type", "Unknown ICMPv6 type.";
    Icmpv6UnknownCode = "icmpv6.unknown_code", "ICMPv6 code not defined for the type.";
    Icmpv6PacketTooSmall = "icmpv6.pkt_too_small", "Fewer bytes than an ICMPv6 header.";
    Icmpv6QuotedVersion = "icmpv6.ipv6_unknown_version", "ICMPv6 error quotes something not IPv6.";
    Icmpv6QuotedTruncated = "icmpv6.ipv6_trunc_pkt", "ICMPv6 error quotes less than an IPv6 header.";
    Icmpv6MldHopLimit = "icmpv6.mld_message_with_invalid_hl", "Multicast listener message with a hop limit other than 1.";
    Icmpv6UnassignedType = "icmpv6.unassigned_type", "ICMPv6 type that IANA has not assigned.";
    Icmpv6ExperimentationType = "icmpv6.experimentation_type", "ICMPv6 type kept for private experiments.";
    Ipv6PacketTooSmall = "ipv6.pkt_too_small", "Fewer than 40 bytes for an IPv6 header.";
    Ipv6Truncated = "ipv6.trunc_pkt", "IPv6 payload length beyond the end of the packet.";
    Ipv6ExtTruncated = "ipv6.trunc_exthdr", "IPv6 extension header beyond the packet's end.";
    Ipv6DuplFragment = "ipv6.exthdr_dupl_fh", "Second fragment header.";
    Ipv6UselessFragment = "ipv6.exthdr_useless_fh", "Fragment header on a packet that is not fragmented.";
    Ipv6DuplRouting = "ipv6.exthdr_dupl_rh", "Second routing header.";
    Ipv6DuplHopByHop = "ipv6.exthdr_dupl_hh", "Second hop-by-hop header.";
    Ipv6DuplDestination = "ipv6.exthdr_dupl_dh", "Third destination options header.";
    Ipv6DuplAuth = "ipv6.exthdr_dupl_ah", "Second authentication header.";
    Ipv6DuplEsp = "ipv6.exthdr_dupl_eh", "Second ESP header.";
    Ipv6OptInvalidLen = "ipv6.exthdr_invalid_optlen", "Option of an extension header with an impossible length.";
    Ipv6WrongVersion = "ipv6.wrong_ip_version", "Not version 6 where IPv6 was announced.";
    Ipv6AuthReserved = "ipv6.exthdr_ah_res_not_null", "Reserved field of the authentication header is set.";
    Ipv6HopUnknownOpt = "ipv6.hopopts_unknown_opt", "Unknown hop-by-hop option.";
    Ipv6HopOnlyPadding = "ipv6.hopopts_only_padding", "Hop-by-hop header with nothing but padding.";
    Ipv6DstUnknownOpt = "ipv6.dstopts_unknown_opt", "Unknown destination option.";
    Ipv6DstOnlyPadding = "ipv6.dstopts_only_padding", "Destination options header with nothing but padding.";
    Ipv6RoutingType0 = "ipv6.rh_type_0", "Routing header of type 0 (RFC 5095 forbids it).";
    Ipv6ZeroLenPadN = "ipv6.zero_len_padn", "PadN option of length zero.";
    Ipv6FragmentReserved = "ipv6.fh_non_zero_reserved_field", "Reserved field of the fragment header is set.";
    Ipv6DataAfterNone = "ipv6.data_after_none_header", "Bytes after next header 59 (none).";
    Ipv6UnknownNextHeader = "ipv6.unknown_next_header", "IPv6 next header that is not decoded.";
    Ipv6Icmpv4 = "ipv6.icmpv4", "ICMPv4 carried by IPv6.";
    Ipv6FragTooLarge = "ipv6.frag_pkt_too_large", "IPv6 fragments reach beyond 65,535 bytes.";
    Ipv6FragOverlap = "ipv6.frag_overlap", "IPv6 fragments overlap.";
    Ipv6FragInvalidLen = "ipv6.frag_invalid_length", "IPv6 fragment that is not the last one and whose length is not a multiple of eight.";
    Ipv6FragIgnored = "ipv6.frag_ignored", "IPv6 fragment not reassembled: a limit was reached.";
    Ipv4InIpv6TooSmall = "ipv6.ipv4_in_ipv6_too_small", "IPv4 in IPv6 with fewer than 20 bytes.";
    Ipv4InIpv6WrongVersion = "ipv6.ipv4_in_ipv6_wrong_version", "IPv4 in IPv6 that is not version 4.";
    Ipv6InIpv6TooSmall = "ipv6.ipv6_in_ipv6_too_small", "IPv6 in IPv6 with fewer than 40 bytes.";
    Ipv6InIpv6WrongVersion = "ipv6.ipv6_in_ipv6_wrong_version", "IPv6 in IPv6 that is not version 6.";
    TcpPacketTooSmall = "tcp.pkt_too_small", "Fewer than 20 bytes for a TCP header.";
    TcpHeaderTooSmall = "tcp.hlen_too_small", "TCP header length beyond the end of the packet.";
    TcpInvalidOptLen = "tcp.invalid_optlen", "TCP header length leaves an impossible length for options.";
    TcpOptInvalidLen = "tcp.opt_invalid_len", "TCP option with an impossible length.";
    TcpOptDuplicate = "tcp.opt_duplicate", "Duplicate TCP option.";
    UdpPacketTooSmall = "udp.pkt_too_small", "UDP length beyond the end of the packet.";
    UdpHeaderTooSmall = "udp.hlen_too_small", "Fewer than 8 bytes for a UDP header.";
    UdpHeaderInvalid = "udp.hlen_invalid", "Retired by Suricata; kept because rules may still name it.";
    UdpLenInvalid = "udp.len_invalid", "UDP length below its own header.";
    SllPacketTooSmall = "sll.pkt_too_small", "Fewer bytes than a Linux cooked header.";
    Sll2PacketTooSmall = "sll2.pkt_too_small", "Fewer bytes than a Linux cooked header, version 2.";
    EthernetPacketTooSmall = "ethernet.pkt_too_small", "Fewer than 14 bytes for an Ethernet header.";
    EthernetUnknownType = "ethernet.unknown_ethertype", "Ethertype that is not decoded.";
    PppPacketTooSmall = "ppp.pkt_too_small", "Fewer bytes than a PPP header.";
    PppVjuTooSmall = "ppp.vju_pkt_too_small", "PPP with uncompressed VJ TCP too short for IPv4.";
    PppIpv4TooSmall = "ppp.ip4_pkt_too_small", "PPP with IPv4 too short for its header.";
    PppIpv6TooSmall = "ppp.ip6_pkt_too_small", "PPP with IPv6 too short for its header.";
    PppWrongType = "ppp.wrong_type", "Unknown PPP protocol number.";
    PppUnsupportedProto = "ppp.unsup_proto", "Known PPP protocol that is not decoded.";
    PppoePacketTooSmall = "pppoe.pkt_too_small", "Fewer bytes than a PPPoE header.";
    PppoeWrongCode = "pppoe.wrong_code", "Unknown PPPoE discovery code.";
    PppoeMalformedTags = "pppoe.malformed_tags", "PPPoE discovery tags beyond the packet's end.";
    GrePacketTooSmall = "gre.pkt_too_small", "Fewer than 4 bytes for a GRE header.";
    GreWrongVersion = "gre.wrong_version", "GRE version other than 0 and 1.";
    GreV0Recursion = "gre.version0_recur", "GRE version 0 with recursion control.";
    GreV0Flags = "gre.version0_flags", "GRE version 0 with reserved flags.";
    GreV0HeaderTooBig = "gre.version0_hdr_too_big", "GRE version 0 header beyond the packet's end.";
    GreV0MalformedRoute = "gre.version0_malformed_sre_hdr", "GRE version 0 source route beyond the packet's end.";
    GreV1Checksum = "gre.version1_chksum", "GRE version 1 with a checksum.";
    GreV1Route = "gre.version1_route", "GRE version 1 with routing.";
    GreV1StrictRoute = "gre.version1_ssr", "GRE version 1 with a strict source route.";
    GreV1Recursion = "gre.version1_recur", "GRE version 1 with recursion control.";
    GreV1Flags = "gre.version1_flags", "GRE version 1 with reserved flags.";
    GreV1NoKey = "gre.version1_no_key", "GRE version 1 without a key.";
    GreV1WrongProtocol = "gre.version1_wrong_protocol", "GRE version 1 that does not carry PPP.";
    GreV1MalformedRoute = "gre.version1_malformed_sre_hdr", "GRE version 1 source route beyond the packet's end.";
    GreV1HeaderTooBig = "gre.version1_hdr_too_big", "GRE version 1 header beyond the packet's end.";
    VlanHeaderTooSmall = "vlan.header_too_small", "Fewer than 4 bytes for a VLAN tag.";
    VlanUnknownType = "vlan.unknown_type", "VLAN tag followed by an ethertype that is not decoded.";
    VlanTooManyLayers = "vlan.too_many_layers", "More than three VLAN tags.";
    Ieee8021ahHeaderTooSmall = "ieee8021ah.header_too_small", "Fewer than 18 bytes for an 802.1ah header.";
    VntagHeaderTooSmall = "vntag.header_too_small", "Fewer than 6 bytes for a VN-Tag.";
    VntagUnknownType = "vntag.unknown_type", "VN-Tag followed by an ethertype that is not decoded.";
    RawInvalidVersion = "ipraw.invalid_ip_version", "Raw IP that is neither version 4 nor 6.";
    NullPacketTooSmall = "ltnull.pkt_too_small", "Fewer than 4 bytes for a loopback header.";
    NullUnsupportedType = "ltnull.unsupported_type", "Loopback address family that is not decoded.";
    SctpPacketTooSmall = "sctp.pkt_too_small", "Fewer than 12 bytes for an SCTP header.";
    EspPacketTooSmall = "esp.pkt_too_small", "Fewer than 8 bytes for an ESP header.";
    MplsHeaderTooSmall = "mpls.header_too_small", "MPLS label stack beyond the packet's end.";
    MplsPacketTooSmall = "mpls.pkt_too_small", "Fewer than 4 bytes after the MPLS labels.";
    MplsRouterAlert = "mpls.bad_label_router_alert", "Router alert as the last MPLS label.";
    MplsImplicitNull = "mpls.bad_label_implicit_null", "Implicit null label on the wire.";
    MplsReservedLabel = "mpls.bad_label_reserved", "Reserved MPLS label.";
    MplsUnknownPayload = "mpls.unknown_payload_type", "Bytes after the MPLS labels that are not decoded.";
    VxlanUnknownPayload = "vxlan.unknown_payload_type", "VXLAN payload with an ethertype that is not decoded.";
    GeneveUnknownPayload = "geneve.unknown_payload_type", "Geneve payload of a type that is not decoded.";
    ErspanHeaderTooSmall = "erspan.header_too_small", "Fewer than 8 bytes for an ERSPAN header.";
    ErspanUnsupportedVersion = "erspan.unsupported_version", "ERSPAN version that is not decoded.";
    ErspanTooManyVlans = "erspan.too_many_vlan_layers", "ERSPAN adds a VLAN beyond the third.";
    DcePacketTooSmall = "dce.pkt_too_small", "Cisco Fabric Path header beyond the packet's end.";
    ChdlcPacketTooSmall = "chdlc.pkt_too_small", "Fewer than 4 bytes for a Cisco HDLC header.";
    NshHeaderTooSmall = "nsh.header_too_small", "Fewer than 8 bytes for a network service header.";
    NshUnsupportedVersion = "nsh.unsupported_version", "Network service header of a version that is not decoded.";
    NshBadHeaderLen = "nsh.bad_header_length", "Network service header with an impossible length.";
    NshReservedType = "nsh.reserved_type", "Network service header with metadata type 0.";
    NshUnsupportedType = "nsh.unsupported_type", "Network service header with a metadata type that is not decoded.";
    NshUnknownPayload = "nsh.unknown_payload", "Network service header with a payload that is not decoded.";
    ArpPacketTooSmall = "arp.pkt_too_small", "Fewer than 28 bytes for an ARP packet.";
    ArpUnsupportedHardware = "arp.unsupported_hardware", "ARP for hardware other than Ethernet.";
    ArpUnsupportedProtocol = "arp.unsupported_protocol", "ARP for a protocol other than IPv4.";
    ArpInvalidPacket = "arp.invalid_pkt", "ARP that contradicts itself.";
    ArpInvalidHardwareSize = "arp.invalid_hardware_size", "ARP hardware address not six bytes long.";
    ArpInvalidProtocolSize = "arp.invalid_protocol_size", "ARP protocol address not four bytes long.";
    ArpUnsupportedOpcode = "arp.unsupported_opcode", "Unknown ARP operation.";
    TooManyLayers = "too_many_layers", "More layers in one frame than are decoded.";
}

impl DecoderEvent {
    /// How many events there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Index in [`DecoderEvent::ALL`], for tables by event.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The event with this name; `None` for an unknown name.
    pub fn from_name(name: &str) -> Option<DecoderEvent> {
        Self::ALL.iter().copied().find(|event| event.name() == name)
    }

    /// The counter's path in statistics below `decoder.`: `event.<name>`, but the event without a
    /// layer has no prefix (Suricata 8.0).
    pub fn counter_name(self) -> String {
        if self == DecoderEvent::TooManyLayers {
            self.name().to_string()
        } else {
            format!("event.{}", self.name())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found_again() {
        for (place, event) in DecoderEvent::ALL.iter().enumerate() {
            assert_eq!(event.index(), place);
            assert_eq!(DecoderEvent::from_name(event.name()), Some(*event), "{}", event.name());
        }
        assert_eq!(DecoderEvent::from_name("ipv4.nothing"), None);
    }

    #[test]
    fn counters_of_events_have_suricatas_paths() {
        assert_eq!(DecoderEvent::Ipv4Truncated.counter_name(), "event.ipv4.trunc_pkt");
        assert_eq!(DecoderEvent::TooManyLayers.counter_name(), "too_many_layers");
    }
}
