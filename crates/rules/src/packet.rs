//! Conditions on the packet, its flow, and state that flows and hosts share.

use crate::integer::IntegerMatch;
use crate::text::Text;
use gabion_record::applayer::{DetectionEvent, ProtoId};
use gabion_record::{DecoderEvent, StreamEvent};

/// One condition that is decided from the packet and what hangs on it, in the order written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PacketCondition {
    /// `flow`: state and direction (the direction is in the header too).
    Flow(FlowTest),
    /// `tcp.flags`.
    TcpFlags(TcpFlagsTest),
    /// `tcp.seq`.
    TcpSeq(u32),
    /// `tcp.ack`.
    TcpAck(u32),
    /// `tcp.window`.
    TcpWindow {
        /// The window.
        size: u16,
        /// Must differ.
        negated: bool,
    },
    /// `tcp.mss`.
    TcpMss(IntegerMatch),
    /// `tcp.wscale`.
    TcpWscale(IntegerMatch),
    /// `tcp.session`: phases of the TCP session, any of them.
    TcpSession(TcpPhases),
    /// `ttl` (hop limit of IPv6).
    Ttl(IntegerMatch),
    /// `tos` (traffic class of IPv6).
    Tos {
        /// The value.
        value: u8,
        /// Must differ.
        negated: bool,
    },
    /// `id` of IPv4.
    IpId(u16),
    /// `ipopts`.
    IpOption(IpOption),
    /// `fragbits`.
    FragBits(FragBitsTest),
    /// `fragoffset`.
    FragOffset {
        /// Comparison.
        op: FragOffsetOp,
        /// The offset in units of eight bytes, as the header has it.
        value: u16,
    },
    /// `sameip`.
    SameIp,
    /// `ip_proto`; several make one condition (all must hold).
    IpProto {
        /// Comparison.
        op: IpProtoOp,
        /// The protocol.
        proto: u8,
    },
    /// `l3_proto`.
    L3Proto(L3Proto),
    /// `itype`.
    IcmpType(IntegerMatch),
    /// `icode`.
    IcmpCode(IntegerMatch),
    /// `icmp_id`.
    IcmpId(u16),
    /// `icmp_seq`.
    IcmpSeq(u16),
    /// `icmpv6.mtu`.
    Icmpv6Mtu(IntegerMatch),
    /// `dsize`.
    Dsize(IntegerMatch),
    /// `vlan.id`.
    VlanId {
        /// Which of the stacked headers.
        layer: VlanLayer,
        /// Comparison.
        id: IntegerMatch,
    },
    /// `vlan.layers`.
    VlanLayers(IntegerMatch),
    /// `stream_size`.
    StreamSize {
        /// Whose stream.
        side: StreamSide,
        /// Comparison in bytes.
        size: IntegerMatch,
    },
    /// `flow.age` in seconds.
    FlowAge(IntegerMatch),
    /// `flow.pkts`, `flow.pkts_toserver`, `flow.pkts_toclient`.
    FlowPackets(FlowSide, IntegerMatch),
    /// `flow.bytes`, `flow.bytes_toserver`, `flow.bytes_toclient`.
    FlowBytes(FlowSide, IntegerMatch),
    /// `flowbits:isset|isnotset`.
    Flowbits(FlowbitsTest),
    /// `flowint` that compares.
    Flowint(FlowintTest),
    /// `xbits:isset|isnotset`.
    Xbits(XbitsTest),
    /// `hostbits:isset|isnotset`.
    Hostbits(HostbitsTest),
    /// `iprep`.
    IpReputation(IpReputationTest),
    /// `geoip`: countries of the addresses.
    GeoIp(GeoIpTest),
    /// `flowvar`, `pktvar`: a captured text holds another.
    Variable(VariableTest),
    /// `rpc`.
    Rpc(RpcTest),
    /// `app-layer-protocol`.
    AppProtocol(AppProtocolTest),
    /// `decode-event`: name without `decoder.` (`ipv4.trunc_pkt`).
    DecodeEvent(DecoderEvent),
    /// `stream-event`: name without `stream.` (`pkt_invalid_ack`).
    StreamEvent(StreamEvent),
    /// `app-layer-event` of no protocol (`applayer_mismatch_protocol_both_directions`).
    DetectionEvent(DetectionEvent),
    /// `ipv4-csum` and its like.
    Checksum {
        /// Whose checksum.
        of: ChecksumOf,
        /// Wanted valid (else wanted invalid).
        valid: bool,
    },
    /// `lua` on each packet: number in [`crate::Ruleset::scripts`].
    Lua {
        /// The script.
        script: u32,
        /// `!` before its name.
        negated: bool,
    },
}

/// What the compiler and the reports must know of a packet condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacketFacts {
    /// The keyword it was made of, by its main name.
    pub keyword: &'static str,
    /// It is of one packet alone: a rule that has it is inspected packet by packet.
    pub is_packet_bound: bool,
}

impl PacketCondition {
    /// The keyword it was made of, by its main name.
    pub fn keyword(&self) -> &'static str {
        self.facts().keyword
    }

    /// What must be known of it. A new condition is one line here.
    pub fn facts(&self) -> PacketFacts {
        let bound = |keyword| PacketFacts { keyword, is_packet_bound: true };
        let free = |keyword| PacketFacts { keyword, is_packet_bound: false };
        match self {
            PacketCondition::Flow(_) => free("flow"),
            PacketCondition::TcpFlags(_) => bound("tcp.flags"),
            PacketCondition::TcpSeq(_) => bound("tcp.seq"),
            PacketCondition::TcpAck(_) => bound("tcp.ack"),
            PacketCondition::TcpWindow { .. } => bound("tcp.window"),
            PacketCondition::TcpMss(_) => bound("tcp.mss"),
            PacketCondition::TcpWscale(_) => bound("tcp.wscale"),
            PacketCondition::TcpSession(_) => bound("tcp.session"),
            PacketCondition::Ttl(_) => bound("ttl"),
            PacketCondition::Tos { .. } => bound("tos"),
            PacketCondition::IpId(_) => bound("id"),
            PacketCondition::IpOption(_) => bound("ipopts"),
            PacketCondition::FragBits(_) => bound("fragbits"),
            PacketCondition::FragOffset { .. } => bound("fragoffset"),
            PacketCondition::SameIp => bound("sameip"),
            PacketCondition::IpProto { .. } => bound("ip_proto"),
            PacketCondition::L3Proto(_) => free("l3_proto"),
            PacketCondition::IcmpType(_) => bound("itype"),
            PacketCondition::IcmpCode(_) => bound("icode"),
            PacketCondition::IcmpId(_) => bound("icmp_id"),
            PacketCondition::IcmpSeq(_) => bound("icmp_seq"),
            PacketCondition::Icmpv6Mtu(_) => bound("icmpv6.mtu"),
            PacketCondition::Dsize(_) => bound("dsize"),
            PacketCondition::VlanId { .. } => bound("vlan.id"),
            PacketCondition::VlanLayers(_) => bound("vlan.layers"),
            PacketCondition::StreamSize { .. } => free("stream_size"),
            PacketCondition::FlowAge(_) => bound("flow.age"),
            PacketCondition::FlowPackets(..) => bound("flow.pkts"),
            PacketCondition::FlowBytes(..) => bound("flow.bytes"),
            PacketCondition::Flowbits(_) => free("flowbits"),
            PacketCondition::Flowint(_) => free("flowint"),
            PacketCondition::Xbits(_) => free("xbits"),
            PacketCondition::Hostbits(_) => free("hostbits"),
            PacketCondition::IpReputation(_) => free("iprep"),
            PacketCondition::GeoIp(_) => free("geoip"),
            PacketCondition::Variable(v) => free(if v.of_packet { "pktvar" } else { "flowvar" }),
            PacketCondition::Rpc(_) => bound("rpc"),
            PacketCondition::AppProtocol(_) => free("app-layer-protocol"),
            PacketCondition::DecodeEvent(_) => free("decode-event"),
            PacketCondition::StreamEvent(_) => free("stream-event"),
            PacketCondition::DetectionEvent(_) => free("app-layer-event"),
            PacketCondition::Checksum { of, .. } => free(of.keyword()),
            PacketCondition::Lua { .. } => free("lua"),
        }
    }
}

/// `flow` keyword.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowTest {
    /// `established`.
    pub established: bool,
    /// `not_established`.
    pub not_established: bool,
    /// `stateless`.
    pub stateless: bool,
    /// `to_server`, `from_client`.
    pub to_server: bool,
    /// `to_client`, `from_server`.
    pub to_client: bool,
    /// `only_stream`.
    pub only_stream: bool,
    /// `no_stream`.
    pub no_stream: bool,
    /// `only_frag`.
    pub only_frag: bool,
    /// `no_frag`.
    pub no_frag: bool,
}

impl FlowTest {
    /// Whether it asks for more than a direction or a kind of inspection.
    pub const fn has_state(self) -> bool {
        self.established || self.not_established || self.stateless || self.only_frag || self.no_frag
    }
}

/// How `tcp.flags` and `fragbits` compare bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BitsOp {
    /// Exactly these.
    Exactly,
    /// `+`: these, and perhaps others.
    AtLeast,
    /// `*`: any of these.
    AnyOf,
    /// `!`: not all of these (none of these for exact comparison of the rest).
    NotThese,
}

/// `tcp.flags`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpFlagsTest {
    /// Flags as in the header's 13th byte.
    pub flags: u8,
    /// Comparison.
    pub op: BitsOp,
    /// Flags left out of the comparison (after the comma).
    pub ignored: u8,
}

/// `fragbits`: bits as in the header's flags (reserved 4, don't fragment 2, more fragments 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragBitsTest {
    /// Bits.
    pub bits: u8,
    /// Comparison.
    pub op: BitsOp,
}

/// Phases of `tcp.session`, any of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TcpPhases {
    /// `setup`.
    pub setup: bool,
    /// `established`.
    pub established: bool,
    /// `closing`.
    pub closing: bool,
}

/// Options of `ipopts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpOption {
    /// `rr`
    RecordRoute,
    /// `lsrr`
    LooseSourceRoute,
    /// `lsrre`
    LooseSourceRouteExtended,
    /// `eol`
    EndOfList,
    /// `nop`
    Nop,
    /// `ts`
    Timestamp,
    /// `sec`
    Security,
    /// `ssrr`
    StrictSourceRoute,
    /// `satid`
    StreamId,
    /// `esec`
    ExtendedSecurity,
    /// `cipso`
    Cipso,
    /// `qs`
    QuickStart,
    /// `rtralt`
    RouterAlert,
    /// `any`
    Any,
}

impl IpOption {
    /// Every option with its name in rules.
    pub const ALL: &'static [(IpOption, &'static str)] = &[
        (IpOption::RecordRoute, "rr"),
        (IpOption::LooseSourceRoute, "lsrr"),
        (IpOption::LooseSourceRouteExtended, "lsrre"),
        (IpOption::EndOfList, "eol"),
        (IpOption::Nop, "nop"),
        (IpOption::Timestamp, "ts"),
        (IpOption::Security, "sec"),
        (IpOption::StrictSourceRoute, "ssrr"),
        (IpOption::StreamId, "satid"),
        (IpOption::ExtendedSecurity, "esec"),
        (IpOption::Cipso, "cipso"),
        (IpOption::QuickStart, "qs"),
        (IpOption::RouterAlert, "rtralt"),
        (IpOption::Any, "any"),
    ];

    /// The name in rules.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(o, _)| *o == self).map_or("", |(_, name)| name)
    }
}

/// Comparison of `fragoffset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FragOffsetOp {
    /// Equal.
    Equal,
    /// `<`
    Less,
    /// `>`
    Greater,
}

/// Comparison of `ip_proto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpProtoOp {
    /// Equal.
    Equal,
    /// `!`
    Differs,
    /// `<`
    Less,
    /// `>`
    Greater,
}

/// `l3_proto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum L3Proto {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// Either.
    Ip,
}

/// Which of stacked VLAN headers `vlan.id` looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VlanLayer {
    /// One of them.
    Any,
    /// Each of them.
    All,
    /// That one: from the outside from 0, or from the inside from -1.
    At(i8),
}

/// Sides of `stream_size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamSide {
    /// `server`
    Server,
    /// `client`
    Client,
    /// `both`: each of them.
    Both,
    /// `either`: one of them.
    Either,
}

/// Sides of the flow counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowSide {
    /// To the server.
    ToServer,
    /// To the client.
    ToClient,
    /// `either`: one of them.
    Either,
}

/// `flowbits:isset|isnotset`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlowbitsTest {
    /// Wanted set (else wanted not set).
    pub isset: bool,
    /// Numbers in [`crate::Ruleset::flowbits`]; with several, one of them is enough.
    pub bits: Box<[u32]>,
}

/// `flowint` that compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowintTest {
    /// Number in [`crate::Ruleset::flowints`].
    pub variable: u32,
    /// Comparison.
    pub op: FlowintOp,
    /// Right side (unused for `isset` and `notset`).
    pub value: FlowintValue,
}

/// Comparisons of `flowint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowintOp {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `==`
    Equal,
    /// `!=`
    Differs,
    /// `>=`
    GreaterOrEqual,
    /// `>`
    Greater,
    /// `isset`
    IsSet,
    /// `isnotset`, `notset`
    IsNotSet,
}

/// Right side of a `flowint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowintValue {
    /// As written.
    Number(u32),
    /// Number in [`crate::Ruleset::flowints`].
    Variable(u32),
}

/// The host, pair or transaction that an `xbits` belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum XbitsTrack {
    /// `track ip_src`
    Source,
    /// `track ip_dst`
    Destination,
    /// `track ip_pair`
    Pair,
    /// `track tx`
    Transaction,
}

/// `xbits:isset|isnotset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct XbitsTest {
    /// Number in [`crate::Ruleset::xbits`].
    pub bit: u32,
    /// Wanted set (else wanted not set).
    pub isset: bool,
    /// Whose.
    pub track: XbitsTrack,
}

/// The host or pair that a `hostbits` belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostbitsTrack {
    /// `src`
    Source,
    /// `dst`
    Destination,
    /// `both`
    Both,
}

/// `hostbits:isset|isnotset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HostbitsTest {
    /// Number in [`crate::Ruleset::hostbits`].
    pub bit: u32,
    /// Wanted set (else wanted not set).
    pub isset: bool,
    /// Whose.
    pub track: HostbitsTrack,
}

/// Sides of `iprep`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReputationSide {
    /// `any`: one of them.
    Any,
    /// `src`
    Source,
    /// `dst`
    Destination,
    /// `both`: each of them.
    Both,
}

/// `iprep`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IpReputationTest {
    /// Whose reputation.
    pub side: ReputationSide,
    /// Number of the category in [`crate::Ruleset::categories`].
    pub category: u32,
    /// Comparison; the score is 0 to 127.
    pub test: ReputationTest,
}

/// Comparison of `iprep`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReputationTest {
    /// The host has a score in the category.
    IsSet,
    /// It has none.
    IsNotSet,
    /// It has one, and it compares.
    Score(IntegerMatch),
}

/// `geoip`: an address without a country never matches, negated or not (Suricata's rule).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GeoIpTest {
    /// Whose country.
    pub side: ReputationSide,
    /// None of these instead of one of these.
    pub negated: bool,
    /// ISO codes as the rule has them.
    pub countries: Box<[Box<str>]>,
}

impl GeoIpTest {
    /// Whether an address of this country matches.
    pub fn holds(&self, country: Option<&str>) -> bool {
        country.is_some_and(|c| self.countries.iter().any(|k| **k == *c) != self.negated)
    }
}

/// `flowvar`, `pktvar`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VariableTest {
    /// The packet's variable (else the flow's).
    pub of_packet: bool,
    /// Number of its name in [`crate::Ruleset::variables`].
    pub name: u32,
    /// What its text must hold.
    pub value: Box<[u8]>,
}

/// `rpc`: `None` is `*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RpcTest {
    /// Program.
    pub program: Option<u32>,
    /// Version.
    pub version: Option<u32>,
    /// Procedure.
    pub procedure: Option<u32>,
}

/// Which of a flow's protocols `app-layer-protocol` looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum AppProtocolMode {
    /// That of the packet's direction.
    #[default]
    Direction,
    /// `final`
    Final,
    /// `original`
    Original,
    /// `either`
    Either,
    /// `to_server`
    ToServer,
    /// `to_client`
    ToClient,
}

/// `app-layer-protocol`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AppProtocolTest {
    /// The protocols, one of them is enough ([`ProtoId::FAILED`] for `failed`,
    /// [`ProtoId::UNKNOWN`] for `unknown`).
    pub protocols: Box<[ProtoId]>,
    /// The name written.
    pub name: Text,
    /// Must be none of them.
    pub negated: bool,
    /// Which protocol is examined.
    pub mode: AppProtocolMode,
}

/// Whose checksum a `…-csum` keyword looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChecksumOf {
    /// `ipv4-csum`
    Ipv4,
    /// `tcpv4-csum`
    TcpV4,
    /// `tcpv6-csum`
    TcpV6,
    /// `udpv4-csum`
    UdpV4,
    /// `udpv6-csum`
    UdpV6,
    /// `icmpv4-csum`
    IcmpV4,
    /// `icmpv6-csum`
    IcmpV6,
}

impl ChecksumOf {
    /// The keyword.
    pub const fn keyword(self) -> &'static str {
        match self {
            ChecksumOf::Ipv4 => "ipv4-csum",
            ChecksumOf::TcpV4 => "tcpv4-csum",
            ChecksumOf::TcpV6 => "tcpv6-csum",
            ChecksumOf::UdpV4 => "udpv4-csum",
            ChecksumOf::UdpV6 => "udpv6-csum",
            ChecksumOf::IcmpV4 => "icmpv4-csum",
            ChecksumOf::IcmpV6 => "icmpv6-csum",
        }
    }
}
