//! Records the network engine hands to outputs, one type an EVE event, and the door they go through.
//!
//! They borrow: a record lives for one call of [`NetSink`]. Objects only the engine can write (a
//! protocol's transaction, flow bits, files) come as [`WriteObject`], so that outputs need no
//! knowledge of protocols, and the engine none of formats. Field meanings follow Suricata's EVE
//! schema (8.0.x).

use crate::alerted::AlertedPacketRecord;
use crate::applayer::LineLog;
use crate::exception::{ExceptionPolicy, ExceptionTrigger};
use crate::flow_state::{EndReason, FlowAction, FlowState, TcpState};
use crate::json::{self, Json};
use crate::ledger::Ledger;
use crate::{
    Addr, Direction, DropReason, IpProto, PacketSource, TakeReport, TakeText, Tree, TxText,
};

/// Something that writes the members of a JSON object that the caller has opened.
pub trait WriteObject {
    /// Writes the members and says whether there were any. `config` is the configuration node of
    /// the record type at the output that asks; `in_alert` means that the object goes into an alert.
    fn write(&self, json: &mut Json, config: Option<&Tree>, in_alert: bool) -> bool;

    /// Reports the object as a typed record, if it is one that the behaviour engine takes.
    fn report(&self, to: TakeReport<'_>) {
        let _ = to;
    }

    /// Gives a part of the object as it came, for outputs of plain text.
    fn text(&self, part: TxText<'_>, to: TakeText<'_>) {
        let _ = (part, to);
    }
}

/// What records come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputName {
    /// A capture, by its path.
    Capture(String),
    /// Interfaces, by their names, in the order of [`Header::device`].
    Interfaces(Vec<String>),
}

/// What all records have in common.
#[derive(Clone, Copy)]
pub struct Header<'a> {
    /// Event time, nanoseconds since 1970.
    pub ts_ns: u64,
    /// Flow, when there is one.
    pub flow_id: Option<u64>,
    /// Flow that announced this one.
    pub parent_id: Option<u64>,
    /// Number of the packet in its capture, from 1; `None` on pseudo packets.
    pub pcap_cnt: Option<u64>,
    /// The interface that it came from, 0 for the first and for captures.
    pub device: u16,
    /// VLAN ids, outermost first.
    pub vlan: &'a [u16],
    /// 4, 6, or 0 when the packet has no IP layer.
    pub ip_version: u8,
    /// Source address.
    pub src: Addr,
    /// Destination address.
    pub dst: Addr,
    /// Ports, for protocols that have them.
    pub ports: Option<(u16, u16)>,
    /// IP protocol.
    pub ip_proto: IpProto,
    /// Type and code of an ICMP packet.
    pub icmp: Option<(u8, u8)>,
    /// Security parameter index of ESP.
    pub spi: Option<u32>,
    /// Where the packet came from; none in records of flows.
    pub pkt_src: Option<PacketSource>,
    /// Flow bits, integers and variables: writes its own keys (`traffic`, `metadata`).
    pub metadata: Option<&'a dyn WriteObject>,
    /// Link layer, for records that log it (`ether`).
    pub ether: Option<EtherHeader>,
}

/// Link-layer addresses of a packet.
#[derive(Clone, Copy, Debug)]
pub struct EtherHeader {
    /// Ether type.
    pub ether_type: u16,
    /// Source address.
    pub src: [u8; 6],
    /// Destination address.
    pub dst: [u8; 6],
}

/// The constant part of a signature in an alert.
#[derive(Clone, Copy)]
pub struct AlertSignature<'a> {
    /// Generator id.
    pub gid: u32,
    /// Signature id.
    pub sid: u32,
    /// Revision.
    pub rev: u32,
    /// Message, empty when the rule has none.
    pub msg: &'a str,
    /// The rule has a `msg`.
    pub has_msg: bool,
    /// Text of its class, empty when it has none.
    pub category: &'a str,
    /// Priority: 1 is the most severe.
    pub severity: u32,
    /// `metadata` as complete JSON object text, empty when there is none.
    pub metadata_json: &'a [u8],
    /// What the rule's `metadata` says of its `confidence`, several values separated by commas; empty when it says
    /// nothing.
    pub confidence: &'a [u8],
    /// References as complete JSON array text, empty when there are none.
    pub references_json: &'a [u8],
    /// The rule as written.
    pub rule: &'a str,
    /// Part of the engine in firewall mode: `fw` or `td` (threat detection).
    pub engine: Option<&'static str>,
}

/// What was done, or would have been done inline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Verdict {
    /// Nothing.
    #[default]
    Alert,
    /// Passed without further inspection.
    Pass,
    /// Accepted by the firewall.
    Accept,
    /// Dropped.
    Drop,
}

/// Counters and ends of a flow as alerts show it.
#[derive(Clone, Copy, Debug)]
pub struct FlowSummary {
    /// Packets to server and to client.
    pub pkts: [u64; 2],
    /// Bytes to server and to client.
    pub bytes: [u64; 2],
    /// First packet, nanoseconds since 1970.
    pub start_ns: u64,
    /// Client address.
    pub client: Addr,
    /// Server address.
    pub server: Addr,
    /// Client and server port, for protocols that have them.
    pub ports: Option<(u16, u16)>,
    /// 4 or 6.
    pub ip_version: u8,
}

/// An application-layer object inside another record.
#[derive(Clone, Copy)]
pub struct AppObject<'a> {
    /// Key of the object (`http`).
    pub key: &'a str,
    /// Writes its members.
    pub object: &'a dyn WriteObject,
}

/// Outer packet of a tunnel.
#[derive(Clone, Copy)]
pub struct Tunnel {
    /// Version of the outer IP layer.
    pub ip_version: u8,
    /// Outer source.
    pub src: Addr,
    /// Outer destination.
    pub dst: Addr,
    /// Outer ports.
    pub ports: (u16, u16),
    /// Outer IP protocol.
    pub ip_proto: IpProto,
    /// Layers above this packet.
    pub depth: u8,
    /// Number of the outer packet.
    pub pcap_cnt: Option<u64>,
    /// Where the outer packet came from.
    pub pkt_src: PacketSource,
}

/// Names of the protocols of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppProtoNames {
    /// `app_proto`, unless nothing is known.
    pub app_proto: Option<&'static str>,
    /// Different in the direction to the server.
    pub to_server: Option<&'static str>,
    /// Different in the direction to the client.
    pub to_client: Option<&'static str>,
    /// Before a change of protocol.
    pub original: Option<&'static str>,
    /// Announced by a change of protocol, when another came.
    pub expected: Option<&'static str>,
}

/// An alert.
#[derive(Clone, Copy)]
pub struct AlertRecord<'a> {
    /// Common part; direction is that of the packet.
    pub header: Header<'a>,
    /// The signature.
    pub signature: AlertSignature<'a>,
    /// Table and policy of a firewall rule.
    pub firewall: Option<FirewallObject<'a>>,
    /// Blocked rather than allowed.
    pub is_blocked: bool,
    /// The packet was rejected.
    pub is_reject: bool,
    /// Dropped packet alert: what `[Drop]`/`[wDrop]` shows in `fast.log`.
    pub drop_mark: Option<bool>,
    /// Address and port of the attack's source and target when the rule names them.
    pub source_target: Option<((Addr, u16), (Addr, u16))>,
    /// Members of `context` from datasets with JSON.
    pub context_json: &'a [u8],
    /// Transaction.
    pub tx_id: Option<u64>,
    /// The transaction was guessed.
    pub is_tx_guessed: bool,
    /// Names of the transaction's states.
    pub progress: Option<(&'static str, &'static str)>,
    /// The transaction's object.
    pub app: Option<AppObject<'a>>,
    /// Files of the transaction: writes a complete JSON array.
    pub files: Option<&'a dyn WriteObject>,
    /// Protocols of the flow.
    pub app_proto: AppProtoNames,
    /// Direction of the packet in its flow.
    pub direction: Option<Direction>,
    /// The flow.
    pub flow: Option<FlowSummary>,
    /// Payload of the packet, or the stream data that matched.
    pub payload: &'a [u8],
    /// `payload` is stream data.
    pub is_stream: bool,
    /// Length of the packet's own payload.
    pub payload_len: usize,
    /// The frame.
    pub packet: &'a [u8],
    /// LINKTYPE of the frame.
    pub link: u16,
    /// Outer packet.
    pub tunnel: Option<Tunnel>,
    /// Frame of the protocol that matched: complete JSON object text.
    pub frame_json: &'a [u8],
    /// The outcome of the packet, where it is logged.
    pub verdict: Option<VerdictRecord>,
    /// The client behind a proxy, in HTTP.
    pub forwarded_for: Option<ForwardedFor<'a>>,
    /// The ledger of this packet's path over the alert's window.
    pub loss: Option<&'a Ledger>,
    /// Asked before the alert is written, in packet order; none when it is written for sure.
    pub question: Option<Question>,
}

/// What a threshold must know of a match, to decide later whether it alerts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Question {
    /// Index of the signature.
    pub rule: u32,
    /// Its packet: the same number for all alerts of a packet.
    pub packet: u64,
    /// Source of the packet.
    pub src: Addr,
    /// Its destination.
    pub dst: Addr,
    /// 4, 6, or 0 without addresses.
    pub ip_version: u8,
    /// Its flow.
    pub flow: Option<u64>,
    /// Event time, nanoseconds since 1970.
    pub ts_ns: u64,
}

/// The `firewall` object of an alert.
#[derive(Clone, Copy, Debug)]
pub struct FirewallObject<'a> {
    /// Table, where it has a name.
    pub hook: Option<&'a str>,
    /// Action with its scope and secondary actions.
    pub policy: &'a str,
}

/// The `verdict` object.
#[derive(Clone, Copy, Debug)]
pub struct VerdictRecord {
    /// `alert`, `pass`, `drop`.
    pub action: Verdict,
    /// Side a reject went to: `to_client`, `to_server`, `both`.
    pub reject_target: Option<&'static str>,
    /// What was sent (`tcp-reset`, `icmp-prohib`).
    pub reject: &'static [&'static str],
}

/// A record of a protocol's transaction.
#[derive(Clone, Copy)]
pub struct AppRecord<'a> {
    /// Common part; `src` is the side the record starts from.
    pub header: Header<'a>,
    /// `event_type` and key of the object.
    pub event_type: &'a str,
    /// Name in the output's `types` list.
    pub type_name: &'a str,
    /// Transaction.
    pub tx_id: u64,
    /// `tx_id` is at the top rather than inside the object.
    pub tx_id_on_top: bool,
    /// Writes the members of the object.
    pub object: &'a dyn WriteObject,
    /// Protocols of the flow, for outputs that show them (EVE does in alerts, files and flows only).
    pub app_proto: AppProtoNames,
    /// The object has members, whatever the settings of the type.
    pub is_never_empty: bool,
    /// The log of lines that the transaction belongs in.
    pub line_log: Option<LineLog>,
    /// The client behind a proxy, in HTTP, and the direction of `header`.
    pub forwarded_for: Option<(Direction, ForwardedFor<'a>)>,
}

/// A file that is complete or was cut.
#[derive(Clone, Copy)]
pub struct FileRecord<'a> {
    /// Common part; `src` is the side that sent the file.
    pub header: Header<'a>,
    /// The transaction's object.
    pub app: Option<AppObject<'a>>,
    /// Protocols of the flow.
    pub app_proto: AppProtoNames,
    /// The file.
    pub file: FileFacts<'a>,
    /// The client behind a proxy, in HTTP, and the direction of `header`.
    pub forwarded_for: Option<(Direction, ForwardedFor<'a>)>,
}

/// Facts of a file.
#[derive(Clone, Copy, Debug)]
pub struct FileFacts<'a> {
    /// Name as on the wire.
    pub name: &'a [u8],
    /// Rules that asked to store it.
    pub sids: &'a [u32],
    /// Parts were lost.
    pub has_gaps: bool,
    /// `CLOSED`, `TRUNCATED`, `UNKNOWN`, `ERROR`.
    pub state: &'static str,
    /// Hashes.
    pub md5: Option<[u8; 16]>,
    /// Hashes.
    pub sha1: Option<[u8; 20]>,
    /// Hashes.
    pub sha256: Option<[u8; 32]>,
    /// Content is in the file store.
    pub is_stored: bool,
    /// Content is on its way to the file store.
    pub is_storing: bool,
    /// Which of the stored files it is.
    pub file_id: Option<FileKey>,
    /// Bytes.
    pub size: u64,
    /// Range, when it is part of a larger file.
    pub range: Option<(u64, u64)>,
    /// Transaction.
    pub tx_id: u64,
    /// Text of libmagic, when known.
    pub magic: Option<&'a str>,
}

/// A stored file, until it has its number: files are numbered in the order in which records name
/// them, which only the writer of all records in order can know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileKey(u64);

impl FileKey {
    /// File `number` of a flow.
    pub fn new(flow: u64, number: u32) -> FileKey {
        FileKey(flow.rotate_left(24) ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The file whose number a text leaves open.
    pub fn from_later(later: json::Later) -> FileKey {
        FileKey(later.key)
    }
}

impl FileFacts<'_> {
    /// Members of a `fileinfo` object or of an entry of an alert's `files`.
    pub fn write(&self, j: &mut Json) {
        if !self.name.is_empty() {
            j.field("filename", self.name);
        }
        if !self.sids.is_empty() {
            j.open_array_key("sid");
            for s in self.sids {
                j.item_number(*s);
            }
            j.close_array();
        }
        if let Some(m) = self.magic {
            j.field("magic", m);
        }
        j.boolean("gaps", self.has_gaps);
        j.field_plain("state", self.state);
        if let Some(h) = &self.md5 {
            j.hex("md5", h);
        }
        if let Some(h) = &self.sha1 {
            j.hex("sha1", h);
        }
        if let Some(h) = &self.sha256 {
            j.hex("sha256", h);
        }
        if self.is_stored {
            j.boolean("stored", true);
            if let Some(id) = self.file_id {
                j.number_later("file_id", id.0);
            }
        } else {
            j.boolean("stored", false);
            if self.is_storing {
                j.boolean("storing", true);
            }
        }
        j.number("size", self.size);
        if let Some((start, end)) = self.range {
            j.number("start", start);
            j.number("end", end);
        }
        j.number("tx_id", self.tx_id);
    }
}

/// TCP facts of a flow that ended.
#[derive(Clone, Copy, Debug)]
pub struct FlowTcp {
    /// All flags seen.
    pub flags: u8,
    /// Flags to server and to client.
    pub flags_by_direction: [u8; 2],
    /// State; `None` where no session was kept.
    pub state: TcpState,
    /// Gaps to server and to client.
    pub has_gap: [bool; 2],
    /// Most out-of-order regions held, to server and to client.
    pub regions_max: [u32; 2],
}

/// A flow that ended.
#[derive(Clone, Copy)]
pub struct FlowRecord<'a> {
    /// Common part: initiator first; `ts_ns` is the time of the record.
    pub header: Header<'a>,
    /// Protocols.
    pub app_proto: AppProtoNames,
    /// Counters.
    pub summary: FlowSummary,
    /// Last packet, nanoseconds since 1970.
    pub end_ns: u64,
    /// State at its end.
    pub state: FlowState,
    /// Why it ended.
    pub reason: EndReason,
    /// An alert was written for it.
    pub is_alerted: bool,
    /// Alerts of it wait for an answer: one may have been written though `is_alerted` is false.
    pub is_alert_asked: bool,
    /// What was done with all of it.
    pub action: Option<FlowAction>,
    /// Transactions, where a parser counted them.
    pub tx_count: Option<u64>,
    /// Exception policies that applied, and what called for them.
    pub exception_policies: &'a [(ExceptionTrigger, ExceptionPolicy)],
    /// TCP.
    pub tcp: Option<FlowTcp>,
    /// ICMP answer type and code.
    pub icmp_response: Option<(u8, u8)>,
    /// Least and greatest TTL to server and to client.
    pub ttl: [(u8, u8); 2],
    /// MAC addresses seen, from source and destination side.
    pub macs: (&'a [[u8; 6]], &'a [[u8; 6]]),
}

/// Kind of an anomaly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnomalyKind {
    /// Broken headers.
    Decode,
    /// TCP.
    Stream,
    /// A protocol's parser.
    AppLayer,
    /// Protocol detection.
    Detection,
}

/// A named irregularity.
#[derive(Clone, Copy)]
pub struct AnomalyRecord<'a> {
    /// Common part.
    pub header: Header<'a>,
    /// Kind.
    pub kind: AnomalyKind,
    /// Name of the event (lower case, with its prefix for decoders and streams).
    pub event: &'a str,
    /// Protocol.
    pub app_proto: Option<&'static str>,
    /// Transaction.
    pub tx_id: Option<u64>,
    /// The packet from its link layer on, for those with `packethdr`.
    pub packet: &'a [u8],
    /// LINKTYPE of the capture.
    pub link: u16,
    /// The event's name is written in capitals.
    pub in_capitals: bool,
}

/// A packet that was dropped inline.
#[derive(Clone, Copy)]
pub struct DropRecord<'a> {
    /// Common part.
    pub header: Header<'a>,
    /// Why.
    pub reason: DropReason,
    /// Its headers.
    pub ip: IpFacts,
    /// UDP length.
    pub udp_len: Option<u16>,
    /// ICMP id and sequence.
    pub icmp: Option<(u16, u16)>,
    /// Direction.
    pub direction: Option<Direction>,
    /// Firewall mode, in which the verdict is always logged.
    pub is_firewalled: bool,
    /// Signatures with drop action that matched.
    pub alerts: &'a [(AlertSignature<'a>, bool)],
    /// The transaction that the first of them names, and whether it was guessed.
    pub tx: Option<(u64, bool)>,
    /// The outcome of the packet.
    pub verdict: Option<VerdictRecord>,
}

/// Headers of a packet in records that show them.
#[derive(Clone, Copy, Debug)]
pub struct IpFacts {
    /// Length of the IP packet.
    pub len: u32,
    /// Type of service.
    pub tos: u8,
    /// Time to live.
    pub ttl: u8,
    /// IP identification (IPv4) or flow label (IPv6).
    pub id: u32,
    /// TCP header facts.
    pub tcp: Option<TcpFacts>,
}

/// TCP header facts of a packet.
#[derive(Clone, Copy, Debug)]
pub struct TcpFacts {
    /// Sequence number.
    pub seq: u32,
    /// Acknowledged.
    pub ack: u32,
    /// Window as on the wire.
    pub window: u16,
    /// Flags.
    pub flags: u8,
    /// Urgent pointer.
    pub urgent: u16,
    /// Header length in 32-bit words times four: bytes.
    pub header_len: u8,
}

/// A TCP packet and the session as it left it, for the `stream` type.
#[derive(Clone, Copy)]
pub struct StreamRecord<'a> {
    /// Common part; direction is that of the packet.
    pub header: Header<'a>,
    /// Direction in its flow.
    pub direction: Direction,
    /// Its headers.
    pub ip: IpFacts,
    /// What is to be noted of it: bits of [`PACKET_NOTES`].
    pub notes: u16,
    /// Writes the members of `session`; none when there is no session.
    pub session: &'a dyn WriteObject,
    /// Irregularities, with their prefix.
    pub events: &'a [String],
}

/// What EVE's `stream` type notes of packets, in its order: a name in records (with hyphens in
/// settings), and a bit by the place in this list.
pub const PACKET_NOTES: &[&str] = &[
    "retransmission",
    "spurious_retransmission",
    "event_set",
    "state_update",
    "tcp_session_reuse",
    "dsack",
    "keepalive",
    "window_update",
    "dup_ack",
    "ack_unseen_data",
];

/// The settings of a `stream` type that choose packets by a note, as Suricata has them; in addition
/// there is `all`.
pub const PACKET_NOTES_CHOSEN: &[&str] =
    &["spurious_retransmission", "event_set", "state_update", "tcp_session_reuse"];

/// The bit of a note; 0 for a name that is none.
pub fn packet_note(name: &str) -> u16 {
    PACKET_NOTES.iter().position(|n| *n == name).map_or(0, |at| 1 << at)
}

/// A packet logged because a rule tagged it.
#[derive(Clone, Copy)]
pub struct PacketRecord<'a> {
    /// Common part.
    pub header: Header<'a>,
    /// The frame.
    pub packet: &'a [u8],
    /// LINKTYPE of the frame.
    pub link: u16,
}

/// A frame of a protocol's stream, for the `frame` type.
#[derive(Clone, Copy)]
pub struct FrameRecord<'a> {
    /// Common part; direction is that of the packet.
    pub header: Header<'a>,
    /// Protocol of the flow.
    pub app_proto: AppProtoNames,
    /// Complete JSON object text.
    pub frame_json: &'a [u8],
}

/// Content of a file on its way to the file store.
#[derive(Clone, Copy)]
pub struct FileChunk<'a> {
    /// The file's record; hashes are there with the last chunk.
    pub record: FileRecord<'a>,
    /// Flow and file number: the key under which chunks belong together.
    pub key: (u64, u32),
    /// The bytes that follow those of the last chunk.
    pub bytes: &'a [u8],
    /// Nothing follows.
    pub is_last: bool,
}

/// New bytes of a TCP stream or of a body.
#[derive(Clone, Copy)]
pub struct StreamDataRecord<'a> {
    /// Common part; `src` is the client.
    pub header: Header<'a>,
    /// Direction of the bytes.
    pub direction: Direction,
    /// The transaction of the body, none for the stream itself.
    pub tx_id: Option<u64>,
    /// The bytes that follow those of the last record.
    pub bytes: &'a [u8],
}

/// Certificates that a rule asked to store.
#[derive(Clone, Copy)]
pub struct CertificateRecord<'a> {
    /// Common part; `src` is the client.
    pub header: Header<'a>,
    /// The client's, not the server's.
    pub is_client: bool,
    /// The chain, DER.
    pub chain: &'a [Vec<u8>],
    /// Subject of the first certificate.
    pub subject: &'a [u8],
    /// Its issuer.
    pub issuer: &'a [u8],
    /// Its SHA-1, hex pairs with colons.
    pub fingerprint: &'a [u8],
}

/// Names the client that a proxy forwarded for: by the header of that name, its last address instead
/// of its first.
pub type ForwardedFor<'a> = &'a dyn Fn(&str, bool) -> Option<std::net::IpAddr>;

/// A frame that has gone its way, for packet logs.
#[derive(Clone, Copy, Debug)]
pub struct WireRecord<'a> {
    /// Event time, nanoseconds since 1970.
    pub ts_ns: u64,
    /// LINKTYPE.
    pub link: u16,
    /// Length before a snap length cut it.
    pub wire_len: u32,
    /// The bytes.
    pub data: &'a [u8],
    /// Facts of its flow.
    pub facts: WireFacts,
}

/// The outcome of a frame and its flow; of a tunnel's frame that of the innermost packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireFacts {
    /// Flow.
    pub flow: Option<u64>,
    /// Packets of that flow so far, this one included.
    pub flow_packets: u64,
    /// It alerted itself.
    pub has_alert: bool,
    /// Its flow has alerted.
    pub flow_has_alert: bool,
    /// A tag asks for it.
    pub is_tagged: bool,
    /// A pass rule let its flow go.
    pub is_passed: bool,
    /// Its direction is reassembled no further.
    pub is_beyond_depth: bool,
    /// It carries TCP payload.
    pub has_segment: bool,
}

/// Where the network engine's findings go.
pub trait NetSink {
    /// An alert.
    fn alert(&mut self, record: &AlertRecord<'_>);
    /// A packet with its alerts, after they were given one by one; only when [`Wants::alerted_packets`].
    fn alerted_packet(&mut self, record: &AlertedPacketRecord<'_>) {
        let _ = record;
    }
    /// A protocol's record.
    fn app(&mut self, record: &AppRecord<'_>);
    /// A file's record.
    fn file(&mut self, record: &FileRecord<'_>);
    /// Content for the file store.
    fn file_chunk(&mut self, record: &FileChunk<'_>);
    /// A flow's record.
    fn flow(&mut self, record: &FlowRecord<'_>);
    /// An anomaly.
    fn anomaly(&mut self, record: &AnomalyRecord<'_>);
    /// A dropped packet.
    fn dropped(&mut self, record: &DropRecord<'_>);
    /// A tagged packet.
    fn packet(&mut self, record: &PacketRecord<'_>);
    /// A frame.
    fn frame(&mut self, record: &FrameRecord<'_>) {
        let _ = record;
    }
    /// A TCP packet with its session; only when [`Wants::streams`].
    fn stream(&mut self, record: &StreamRecord<'_>) {
        let _ = record;
    }
    /// A frame, after everything else that it gave rise to; only when [`Wants::wire`].
    fn wire(&mut self, record: &WireRecord<'_>) {
        let _ = record;
    }
    /// New bytes of a stream or body; only when [`Wants::stream_data`] or [`Wants::body_data`].
    fn stream_data(&mut self, record: &StreamDataRecord<'_>) {
        let _ = record;
    }
    /// Certificates for the store.
    fn certificates(&mut self, record: &CertificateRecord<'_>) {
        let _ = record;
    }
    /// A packet with variables that rules captured (`metadata` type).
    fn metadata(&mut self, header: &Header<'_>) {
        let _ = header;
    }
    /// ARP record (`arp` type): object members come from the engine.
    fn arp(&mut self, header: &Header<'_>, object: &dyn WriteObject);
    /// What comes now belongs to a flow that ends, whose first packet had this number. Said by
    /// workers of a team, whose records are put in order.
    fn ending(&mut self, first_number: u64) {
        let _ = first_number;
    }
    /// Whether an output writes transactions of this type, or of this log of lines.
    fn logs_transactions(&self, event_type: &str, line_log: Option<LineLog>) -> bool {
        let _ = (event_type, line_log);
        false
    }
    /// The configuration node of a record type at the first output that writes it.
    fn type_config(&self, event_type: &str) -> Option<&Tree> {
        let _ = event_type;
        None
    }
}

/// What a sink wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Alerts.
    pub alerts: bool,
    /// Records of transactions.
    pub app: bool,
    /// File records.
    pub files: bool,
    /// File content.
    pub file_store: bool,
    /// Content of files is kept while they pass, for outputs that look into them.
    pub file_data: bool,
    /// Every file is stored, whether a rule asks for it or not.
    pub store_all_files: bool,
    /// Flow records.
    pub flows: bool,
    /// Anomalies of decoders.
    pub anomaly_decode: bool,
    /// Anomalies of streams.
    pub anomaly_stream: bool,
    /// Anomalies of protocols.
    pub anomaly_app: bool,
    /// Dropped packets.
    pub drops: bool,
    /// Every packet of a dropped flow, not only the first of each direction.
    pub drops_all: bool,
    /// Tagged packets.
    pub packets: bool,
    /// ARP.
    pub arp: bool,
    /// Hashes in file records.
    pub md5: bool,
    /// Hashes in file records.
    pub sha1: bool,
    /// Hashes in file records.
    pub sha256: bool,
    /// What files are by their first bytes, in file records.
    pub magic: bool,
    /// JA3 in TLS records.
    pub ja3: bool,
    /// MAC addresses in flow records.
    pub macs: bool,
    /// Frames of protocols.
    pub frames: bool,
    /// All frames read, for packet logs.
    pub wire: bool,
    /// Certificates that rules ask to store.
    pub certificates: bool,
    /// Packets with captured variables.
    pub metadata: bool,
    /// TCP packets with their sessions.
    pub streams: bool,
    /// Packets with all their alerts.
    pub alerted_packets: bool,
    /// Bytes of TCP streams.
    pub stream_data: bool,
    /// Bytes of HTTP's bodies.
    pub body_data: bool,
    /// What bodies of messages hold, in alerts or for scripts: the files in them, and themselves.
    pub bodies: bool,
    /// Evidence and alerts about hosts, of the behaviour engine.
    pub evidence: bool,
}

impl Wants {
    /// Adds what another sink wants.
    pub fn join(&mut self, o: Wants) {
        self.alerts |= o.alerts;
        self.app |= o.app;
        self.files |= o.files;
        self.file_store |= o.file_store;
        self.file_data |= o.file_data;
        self.store_all_files |= o.store_all_files;
        self.flows |= o.flows;
        self.anomaly_decode |= o.anomaly_decode;
        self.anomaly_stream |= o.anomaly_stream;
        self.anomaly_app |= o.anomaly_app;
        self.drops |= o.drops;
        self.drops_all |= o.drops_all;
        self.packets |= o.packets;
        self.arp |= o.arp;
        self.md5 |= o.md5;
        self.sha1 |= o.sha1;
        self.sha256 |= o.sha256;
        self.magic |= o.magic;
        self.ja3 |= o.ja3;
        self.macs |= o.macs;
        self.frames |= o.frames;
        self.wire |= o.wire;
        self.certificates |= o.certificates;
        self.metadata |= o.metadata;
        self.streams |= o.streams;
        self.alerted_packets |= o.alerted_packets;
        self.stream_data |= o.stream_data;
        self.body_data |= o.body_data;
        self.bodies |= o.bodies;
        self.evidence |= o.evidence;
    }
}
