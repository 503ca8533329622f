//! A packet with all its alerts and what rules have set, for outputs that show them together.

use crate::Direction;
use crate::eve::{AlertSignature, AppProtoNames, FlowSummary, Header};

/// Names what rules have set, one by one.
pub type Variables<'a> = dyn Fn(&mut dyn FnMut(Variable<'_>)) + 'a;

/// A packet with all its alerts, for outputs that show them together.
#[derive(Clone, Copy)]
pub struct AlertedPacketRecord<'a> {
    /// Common part; direction is that of the packet.
    pub header: Header<'a>,
    /// Sequence number and acknowledgement of TCP.
    pub tcp: Option<(u32, u32)>,
    /// Direction of the packet in its flow.
    pub direction: Option<Direction>,
    /// The flow.
    pub flow: Option<FlowSummary>,
    /// The flow is dropped.
    pub is_flow_dropped: bool,
    /// The payload of the flow's packets is not inspected any more.
    pub is_payload_over: bool,
    /// Nothing of the flow's streams is parsed any more.
    pub is_parsing_over: bool,
    /// Protocols of the flow.
    pub app_proto: AppProtoNames,
    /// Names what rules have set.
    pub variables: &'a Variables<'a>,
    /// The frame.
    pub packet: &'a [u8],
    /// The packet's payload.
    pub payload: &'a [u8],
    /// Stream data that was inspected with it.
    pub stream: &'a [u8],
    /// The alerts.
    pub alerts: &'a [PacketAlert<'a>],
}

/// An alert of a packet.
#[derive(Clone, Copy)]
pub struct PacketAlert<'a> {
    /// The signature.
    pub signature: AlertSignature<'a>,
    /// Where it matched.
    pub found_in: FoundIn,
    /// The transaction.
    pub tx_id: Option<u64>,
}

/// Where a rule matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundIn {
    /// In the packet.
    Packet,
    /// In stream data.
    Stream,
    /// In a transaction.
    State,
}

/// Something that a rule has set for a flow or a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variable<'a> {
    /// A bit of the flow.
    Bit(&'a str),
    /// An integer of the flow.
    Integer(&'a str, u32),
    /// A text that was captured for the flow.
    FlowText(&'a str, &'a [u8]),
    /// A text that was captured for the packet.
    PacketText(&'a str),
}
