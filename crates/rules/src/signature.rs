//! A compiled signature: everything the detection engine needs, nothing it does not.
//!
//! Sizes matter (tens of thousands of these are in memory): texts are spans, address and port sets
//! are numbers of shared sets, lists are exact boxes.

use crate::action::Action;
use crate::address::AddressId;
use crate::content::BufferCondition;
use crate::file::FileCondition;
use crate::integer::IntegerMatch;
use crate::packet::{FlowTest, PacketCondition};
use crate::port::PortId;
use crate::post::{PostMatch, Reference, Suppression, Target, Threshold};
use crate::text::Text;
use crate::transform::ChainId;
use gabion_record::applayer::{BufferId, Instances, ProtoId, TxCondition};
use gabion_record::{Direction, IpProto};
use std::sync::Arc;

/// How far the action of a rule reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionScope {
    /// The packet.
    Packet,
    /// The flow.
    Flow,
    /// The flow if the match came from the stream or from state, else the packet.
    FlowIfStateful,
    /// This hook (firewall).
    Hook,
    /// The transaction (firewall).
    Transaction,
}

/// Type of a rule: when it is inspected and how far its action reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleType {
    /// Type not set (Suricata's `unset`).
    NotSet,
    /// Addresses and IP protocol only: once per flow and direction.
    IpOnly,
    /// Like it, but with a negated address: every packet.
    LikeIpOnly,
    /// Protocol detection only.
    PdOnly,
    /// Decoder events only.
    DeOnly,
    /// Packets.
    Pkt,
    /// Packet payloads and reassembled stream.
    PktStream,
    /// Reassembled stream.
    Stream,
    /// The flow's application protocol.
    AppLayer,
    /// Transactions.
    AppTx,
}

impl RuleType {
    /// As Suricata's reports name it.
    pub const fn name(self) -> &'static str {
        match self {
            RuleType::NotSet => "unset",
            RuleType::IpOnly => "ip_only",
            RuleType::LikeIpOnly => "like_ip_only",
            RuleType::PdOnly => "pd_only",
            RuleType::DeOnly => "de_only",
            RuleType::Pkt => "pkt",
            RuleType::PktStream => "pkt_stream",
            RuleType::Stream => "stream",
            RuleType::AppLayer => "app_layer",
            RuleType::AppTx => "app_tx",
        }
    }

    /// How far the action of such a rule reaches, when it does not say so itself.
    pub const fn scope(self) -> ActionScope {
        match self {
            RuleType::IpOnly
            | RuleType::LikeIpOnly
            | RuleType::PdOnly
            | RuleType::AppLayer
            | RuleType::AppTx => ActionScope::Flow,
            RuleType::PktStream | RuleType::Stream => ActionScope::FlowIfStateful,
            RuleType::NotSet | RuleType::DeOnly | RuleType::Pkt => ActionScope::Packet,
        }
    }
}

/// Set of IP protocols: one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct IpProtos(pub [u64; 4]);

impl IpProtos {
    /// All of them.
    pub const ALL: IpProtos = IpProtos([u64::MAX; 4]);

    /// Whether the protocol is in the set.
    #[inline]
    pub const fn contains(&self, proto: IpProto) -> bool {
        self.0[(proto.0 >> 6) as usize] & (1 << (proto.0 & 63)) != 0
    }

    /// Adds a protocol.
    pub fn insert(&mut self, proto: IpProto) {
        self.0[usize::from(proto.0 >> 6)] |= 1 << (proto.0 & 63);
    }

    /// Takes a protocol out.
    pub fn remove(&mut self, proto: IpProto) {
        self.0[usize::from(proto.0 >> 6)] &= !(1 << (proto.0 & 63));
    }
}

/// Network layer a rule is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum RuleNetwork {
    /// Both versions of IP.
    #[default]
    Any,
    /// IPv4 only.
    Ipv4,
    /// IPv6 only.
    Ipv6,
    /// Ethernet frames (`ether`).
    Ether,
    /// ARP.
    Arp,
}

/// The part before the parenthesis.
#[derive(Clone, Debug)]
pub struct Header {
    /// IP protocols.
    pub protos: IpProtos,
    /// Network layer.
    pub network: RuleNetwork,
    /// Application protocols the flow must have one of; empty: any.
    pub apps: Box<[ProtoId]>,
    /// `pkthdr`: packets that could not be decoded too.
    pub pkthdr: bool,
    /// `tcp-pkt`: packet payloads only.
    pub packets_only: bool,
    /// `tcp-stream`: reassembled stream only.
    pub stream_only: bool,
    /// Source addresses.
    pub src: AddressId,
    /// Source ports.
    pub src_ports: PortId,
    /// Destination addresses.
    pub dst: AddressId,
    /// Destination ports.
    pub dst_ports: PortId,
    /// `<>` was written; the rule is in the set twice, sides swapped in the second.
    pub bidirectional: bool,
    /// This is the swapped one.
    pub swapped: bool,
    /// `=>`: both directions of one transaction must match, each with its own buffers.
    pub transactional: bool,
    /// `flow` keyword, all of them together.
    pub flow: FlowTest,
}

/// Yes/no facts of a signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SignatureFlags(pub u32);

impl SignatureFlags {
    /// `noalert`, or a rule that can't alert (`config`).
    pub const NOALERT: SignatureFlags = SignatureFlags(1);
    /// Inspects single packets.
    pub const NEED_PACKET: SignatureFlags = SignatureFlags(1 << 1);
    /// Inspects reassembled stream.
    pub const NEED_STREAM: SignatureFlags = SignatureFlags(1 << 2);
    /// Inspected in packets to the server.
    pub const TO_SERVER: SignatureFlags = SignatureFlags(1 << 3);
    /// Inspected in packets to the client.
    pub const TO_CLIENT: SignatureFlags = SignatureFlags(1 << 4);
    /// Has application-layer conditions or protocol.
    pub const APP_LAYER: SignatureFlags = SignatureFlags(1 << 5);
    /// Has a fast pattern or another prefilter.
    pub const PREFILTER: SignatureFlags = SignatureFlags(1 << 6);
    /// Has `dsize`.
    pub const DSIZE: SignatureFlags = SignatureFlags(1 << 7);
    /// Has `filestore`.
    pub const FILESTORE: SignatureFlags = SignatureFlags(1 << 8);
    /// Source addresses are any.
    pub const SRC_ANY: SignatureFlags = SignatureFlags(1 << 9);
    /// Destination addresses are any.
    pub const DST_ANY: SignatureFlags = SignatureFlags(1 << 10);
    /// Source ports are any.
    pub const SP_ANY: SignatureFlags = SignatureFlags(1 << 11);
    /// Destination ports are any.
    pub const DP_ANY: SignatureFlags = SignatureFlags(1 << 12);
    /// A payload is needed.
    pub const PAYLOAD: SignatureFlags = SignatureFlags(1 << 13);
    /// Only packets without payload can match (`dsize:0`).
    pub const NO_PAYLOAD: SignatureFlags = SignatureFlags(1 << 14);
    /// A flow is needed.
    pub const FLOW: SignatureFlags = SignatureFlags(1 << 15);
    /// TCP flags SYN, FIN or RST are needed.
    pub const TCP_INIT: SignatureFlags = SignatureFlags(1 << 16);
    /// Unusual TCP flags are needed.
    pub const TCP_UNUSUAL: SignatureFlags = SignatureFlags(1 << 17);
    /// A decoder, stream or engine event is needed.
    pub const ENGINE_EVENT: SignatureFlags = SignatureFlags(1 << 18);
    /// A real packet is needed (no pseudo packet of the flow's end).
    pub const REAL_PACKET: SignatureFlags = SignatureFlags(1 << 19);
    /// `bypass`.
    pub const BYPASS: SignatureFlags = SignatureFlags(1 << 20);
    /// `tls_store`.
    pub const TLS_STORE: SignatureFlags = SignatureFlags(1 << 21);
    /// Looks at files.
    pub const FILES: SignatureFlags = SignatureFlags(1 << 22);
    /// Uses a content with offset or depth on the raw payload.
    pub const PAYLOAD_OFFSET: SignatureFlags = SignatureFlags(1 << 23);
    /// Rule of the firewall tables.
    pub const FIREWALL: SignatureFlags = SignatureFlags(1 << 24);
    /// Has a prefilter keyword instead of a pattern.
    pub const PREFILTER_KEYWORD: SignatureFlags = SignatureFlags(1 << 25);

    /// Whether all of these are set.
    #[inline]
    pub const fn has(self, flags: SignatureFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Sets these.
    pub fn set(&mut self, flags: SignatureFlags) {
        self.0 |= flags.0;
    }

    /// Clears these.
    pub fn clear(&mut self, flags: SignatureFlags) {
        self.0 &= !flags.0;
    }
}

/// A place in the handling of packets or transactions at which a rule is inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleHook {
    /// Before the flow is looked up (`ip:pre_flow`).
    PreFlow,
    /// Before the stream engine (`tcp:pre_stream`).
    PreStream,
    /// First packet of a flow (`tcp:flow_start`).
    FlowStart,
    /// Every packet (`tcp:all`).
    AllPackets,
    /// A state of a protocol's transactions.
    App {
        /// Protocol.
        proto: ProtoId,
        /// Direction.
        direction: Direction,
        /// State, a progress value of that direction.
        progress: u8,
        /// `<`: from the first state up to this one.
        up_to: bool,
    },
}

/// Where a sticky buffer's bytes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BufferRef {
    /// Packet payload, reassembled stream, or both: see the signature's flags.
    Payload,
    /// A header or address of the packet.
    Packet(PacketBuffer),
    /// A buffer of a transaction.
    App(BufferId),
    /// A frame: number in [`crate::Ruleset::frames`].
    Frame(u16),
}

impl BufferRef {
    /// The buffer of a transaction that it is, if it is one.
    #[inline]
    pub const fn app(self) -> Option<BufferId> {
        match self {
            BufferRef::App(id) => Some(id),
            BufferRef::Payload | BufferRef::Packet(_) | BufferRef::Frame(_) => None,
        }
    }
}

/// Buffers of the packet itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketBuffer {
    /// `ip.src`: 4 or 16 bytes.
    IpSource,
    /// `ip.dst`: 4 or 16 bytes.
    IpDestination,
    /// `ipv4.hdr`
    Ipv4Header,
    /// `ipv6.hdr`
    Ipv6Header,
    /// `tcp.hdr`
    TcpHeader,
    /// `udp.hdr`
    UdpHeader,
    /// `icmpv4.hdr`
    Icmpv4Header,
    /// `icmpv6.hdr`
    Icmpv6Header,
}

impl PacketBuffer {
    /// The keyword, which is also the name in Suricata's reports.
    pub const fn name(self) -> &'static str {
        match self {
            PacketBuffer::IpSource => "ip.src",
            PacketBuffer::IpDestination => "ip.dst",
            PacketBuffer::Ipv4Header => "ipv4.hdr",
            PacketBuffer::Ipv6Header => "ipv6.hdr",
            PacketBuffer::TcpHeader => "tcp.hdr",
            PacketBuffer::UdpHeader => "udp.hdr",
            PacketBuffer::Icmpv4Header => "icmpv4.hdr",
            PacketBuffer::Icmpv6Header => "icmpv6.hdr",
        }
    }
}

/// A buffer with the conditions on it, tried in order.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferInspection {
    /// The buffer.
    pub buffer: BufferRef,
    /// Transforms that run first. A buffer with another chain is another buffer to the matcher.
    pub chain: ChainId,
    /// Number of this naming among the namings of the same buffer, for buffers with several
    /// instances: each naming may match in another instance.
    pub instance: u8,
    /// Inspected to the server, to the client.
    pub directions: [bool; 2],
    /// The conditions.
    pub conditions: Box<[BufferCondition]>,
}

/// A condition on a transaction that is no buffer.
#[derive(Clone, Debug)]
pub struct TxInspection {
    /// The keyword.
    pub keyword: &'static str,
    /// The condition.
    pub test: TxTest,
}

/// What [`TxInspection`] tests.
#[derive(Clone, Debug)]
pub enum TxTest {
    /// A number the protocol knows under [`Engine::local`].
    Integer(IntegerMatch, Instances),
    /// A condition of the protocol's own making.
    Condition(Arc<dyn TxCondition>),
    /// `app-layer-event`: this code is among the transaction's events.
    Event(u16),
    /// Files of the transaction: one of them meets all of these.
    Files(Box<[FileCondition]>),
    /// Always true: the rule's hook, reached when the engine's progress is.
    Reached,
    /// `app-layer-state`: progress of the transaction in the engine's direction.
    State(IntegerMatch),
    /// `lua` on a transaction: number in [`crate::Ruleset::scripts`].
    Lua {
        /// The script.
        script: u32,
        /// `!` before its name.
        negated: bool,
    },
}

/// One step of a transaction's inspection. A rule matches in a direction when all its engines of
/// that protocol and direction have matched; those of one inspection but of other protocols are
/// alternatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Engine {
    /// Protocol ([`ProtoId::UNKNOWN`]: any).
    pub proto: ProtoId,
    /// Direction.
    pub direction: Direction,
    /// Least progress at which it runs.
    pub progress: u8,
    /// The protocol's own number of the buffer or integer.
    pub local: u16,
    /// What is inspected.
    pub run: EngineRun,
    /// It holds the fast pattern.
    pub is_fast_pattern: bool,
    /// It stands for the rule's hook and asks nothing but that the state is reached.
    pub is_hook: bool,
}

/// What an [`Engine`] inspects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EngineRun {
    /// Index in [`Signature::buffers`].
    Buffer(u16),
    /// Index in [`Signature::tx`].
    Tx(u16),
}

/// Where the fast pattern is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastPattern {
    /// Index in [`Signature::buffers`].
    pub inspection: u16,
    /// Index in its conditions; that one is a content.
    pub condition: u16,
}

/// What firewall rules have in addition to the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirewallPart {
    /// Scope of the action.
    pub scope: ActionScope,
    /// Secondary `alert`.
    pub alerts: bool,
    /// Secondary `pass` with its scope.
    pub passes: Option<ActionScope>,
    /// Position in the file: firewall tables keep it.
    pub order: u32,
}

/// A compiled rule.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Position in the internal order: lower is earlier.
    pub index: u32,
    /// Generator, 1 unless written.
    pub gid: u32,
    /// Signature id.
    pub sid: u32,
    /// Revision, 0 when absent.
    pub rev: u32,
    /// Action.
    pub action: Action,
    /// Type.
    pub kind: RuleType,
    /// Facts.
    pub flags: SignatureFlags,
    /// Priority, 1 is the most urgent; 3 unless class or rule say otherwise.
    pub priority: u32,
    /// Class, index in [`crate::Ruleset::classes`].
    pub class: Option<u16>,
    /// File, index in [`crate::Ruleset::files`].
    pub file: u16,
    /// Line in the file, from 1.
    pub line: u32,
    /// The rule as written.
    pub raw: Text,
    /// Message; `None` when absent.
    pub msg: Option<Text>,
    /// References.
    pub references: Box<[Reference]>,
    /// Metadata: one span per option, see [`crate::Ruleset::metadata`].
    pub metadata: Box<[Text]>,
    /// Header.
    pub header: Header,
    /// Hook, when written.
    pub hook: Option<RuleHook>,
    /// Firewall facts.
    pub firewall: Option<Box<FirewallPart>>,
    /// Conditions on packet, flow and shared state.
    pub packet: Arc<[PacketCondition]>,
    /// Conditions on buffers; the payload is one of them.
    pub buffers: Arc<[BufferInspection]>,
    /// Conditions on what `base64_decode` decoded.
    pub base64_data: Box<[BufferCondition]>,
    /// Conditions on transactions.
    pub tx: Box<[TxInspection]>,
    /// Steps of a transaction's inspection, in order.
    pub engines: Arc<[Engine]>,
    /// Fast pattern.
    pub fast_pattern: Option<FastPattern>,
    /// Prefilter keyword: index in [`Signature::packet`].
    pub prefilter: Option<u8>,
    /// What happens after a match.
    pub post_match: Box<[PostMatch]>,
    /// `threshold`.
    pub threshold: Option<Threshold>,
    /// `detection_filter`.
    pub detection_filter: Option<Threshold>,
    /// `rate_filter` of the threshold file.
    pub rate_filter: Option<Threshold>,
    /// `suppress` of the threshold file.
    pub suppressions: Box<[Suppression]>,
    /// `target`.
    pub target: Option<Target>,
    /// How many byte variables it has.
    pub byte_variables: u8,
    /// Why it can never match here, when it uses what this sensor does not have (the keyword).
    pub inert: Option<&'static str>,
}

impl Signature {
    /// Whether it is inspected in that direction.
    #[inline]
    pub fn inspects(&self, direction: Direction) -> bool {
        self.flags.has(match direction {
            Direction::ToServer => SignatureFlags::TO_SERVER,
            Direction::ToClient => SignatureFlags::TO_CLIENT,
        })
    }

    /// The inspection of the raw payload, if there is one.
    pub fn payload(&self) -> Option<&BufferInspection> {
        self.buffers.iter().find(|b| b.buffer == BufferRef::Payload)
    }

    /// The inspection with the fast pattern.
    pub fn fast_buffer(&self) -> Option<&BufferInspection> {
        self.buffers.get(usize::from(self.fast_pattern?.inspection))
    }

    /// The content that is the fast pattern.
    pub fn fast_content(&self) -> Option<&crate::content::Content> {
        let at = usize::from(self.fast_pattern?.condition);
        self.fast_buffer()?.conditions.get(at)?.content()
    }

    /// How far the action reaches.
    pub fn scope(&self) -> ActionScope {
        self.firewall.as_ref().map_or(self.kind.scope(), |f| f.scope)
    }
}
