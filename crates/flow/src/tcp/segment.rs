//! Input and output of the TCP tracker for each packet.

use crate::events::{EventList, StreamEvent};
use crate::policy::ExceptionTrigger;
use gabion_record::flow_state::FlowState;
use gabion_record::{Addr, Direction, DropReason};

pub use gabion_record::flow_state::TcpState;

/// TCP flag bits.
pub mod flags {
    /// FIN.
    pub const FIN: u8 = 0x01;
    /// SYN.
    pub const SYN: u8 = 0x02;
    /// RST.
    pub const RST: u8 = 0x04;
    /// PSH.
    pub const PSH: u8 = 0x08;
    /// ACK.
    pub const ACK: u8 = 0x10;
    /// URG.
    pub const URG: u8 = 0x20;
    /// ECE.
    pub const ECE: u8 = 0x40;
    /// CWR.
    pub const CWR: u8 = 0x80;
}

/// The options the tracker looks at.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpOptions<'a> {
    /// Timestamp value (TSval).
    pub ts_val: Option<u32>,
    /// Timestamp echo reply (TSecr); valid only with `ts_val`.
    pub ts_ecr: u32,
    /// Window scale; values above 14 count as 14.
    pub wscale: Option<u8>,
    /// SACK permitted.
    pub sack_ok: bool,
    /// SACK blocks: pairs of big-endian sequence numbers, as on the wire.
    pub sack: &'a [u8],
    /// TCP Fast Open, with or without cookie.
    pub fast_open: bool,
    /// MD5 signature (RFC 2385) or TCP-AO (RFC 5925).
    pub signed: bool,
}

/// A TCP packet of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpSegment<'a> {
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Flag bits, see [`flags`].
    pub flags: u8,
    /// Window as on the wire.
    pub window: u16,
    /// Urgent pointer.
    pub urgent_pointer: u16,
    /// Options.
    pub options: TcpOptions<'a>,
    /// Payload.
    pub payload: &'a [u8],
    /// Event time, nanoseconds since 1970.
    pub ts_ns: u64,
    /// The checksum is correct or was not checked.
    pub checksum_ok: bool,
    /// Sender; its stack receives the other direction.
    pub src: Addr,
    /// Receiver.
    pub dst: Addr,
    /// 4 or 6.
    pub ip_version: u8,
    /// Number of the packet in the input, for simulations.
    pub number: u64,
}

impl TcpSegment<'_> {
    /// Whether it ends its sender's side.
    #[inline]
    pub fn is_last(&self) -> bool {
        self.has(flags::FIN)
    }

    /// Whether any of these flags is set.
    #[inline]
    pub fn has(&self, bits: u8) -> bool {
        self.flags & bits != 0
    }

    /// Whether all of these flags are set.
    #[inline]
    pub fn has_all(&self, bits: u8) -> bool {
        self.flags & bits == bits
    }

    /// Payload length; an IP payload is never longer than 65,535.
    #[inline]
    pub fn len(&self) -> u32 {
        self.payload.len() as u32
    }

    /// Whether there is no payload.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.payload.is_empty()
    }

    /// Sequence number after the payload.
    #[inline]
    pub fn end(&self) -> u32 {
        self.seq.wrapping_add(self.len())
    }

    /// Event time in seconds, as Suricata compares timestamps.
    #[inline]
    pub(crate) fn seconds(&self) -> u32 {
        (self.ts_ns / 1_000_000_000) as u32
    }
}

/// How urgent data is handled (`stream.reassembly.urgent.policy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum UrgentPolicy {
    /// The last byte of an urgent segment is not part of the stream.
    #[default]
    Oob,
    /// Urgent data is treated like other data.
    Inline,
    /// Urgent packets are dropped.
    Drop,
    /// Urgent segments are left out: a gap.
    Gap,
}

/// The directions whose application layer is due after a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Update {
    /// No direction.
    #[default]
    None,
    /// The data of the other direction, which this packet acknowledged.
    Opposing,
    /// The packet's own direction.
    Packet,
    /// The other direction, then the packet's own.
    Both,
}

impl Update {
    /// The directions that are due, in order, for a packet of direction `dir`.
    pub fn directions(self, dir: Direction) -> impl Iterator<Item = Direction> {
        let (first, second) = match self {
            Update::None => (None, None),
            Update::Opposing => (Some(dir.opposite()), None),
            Update::Packet => (None, Some(dir)),
            Update::Both => (Some(dir.opposite()), Some(dir)),
        };
        first.into_iter().chain(second)
    }
}

/// The tracker's result for a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpVerdict {
    /// Irregularities, in the order in which they were found.
    pub events: EventList,
    /// The packet broke the rules: it changed nothing.
    pub is_invalid: bool,
    /// It broke the rules, but Suricata inspects with it what is due.
    pub is_still_inspected: bool,
    /// The checksum is wrong: the packet was ignored.
    pub is_bad_checksum: bool,
    /// The payload was added to the stream.
    pub is_stream_added: bool,
    /// The session is established or beyond.
    pub is_established: bool,
    /// The state changed; the flow's state follows.
    pub flow_state: Option<FlowState>,
    /// The session is in another state than before.
    pub is_state_changed: bool,
    /// The directions whose application layer is due.
    pub update: Update,
    /// A limit was reached.
    pub exception: Option<ExceptionTrigger>,
    /// Drop the packet (inline).
    pub drop: Option<DropReason>,
    /// Inline: earlier bytes replace some of the packet's; rewrite it from
    /// [`TcpVerdict::stream_offset`].
    pub must_rewrite: bool,
    /// Stream offset of the payload, if it was added.
    pub stream_offset: u64,
    /// Number of payload bytes in the stream.
    pub stream_len: u32,
    /// A reset was accepted: the remaining data should be inspected.
    pub is_reset: bool,
    /// The packet's data was seen before.
    pub is_retransmission: bool,
    /// The packet only repeats an acknowledgment.
    pub is_dup_ack: bool,
    /// The packet only changes the window.
    pub is_window_update: bool,
    /// The packet is a keep-alive or the answer to one.
    pub is_keepalive: bool,
    /// Stop tracking the flow (`stream.bypass`).
    pub wants_bypass: bool,
    /// The session shows that client and server are the other way round: call
    /// `Flow::swap_directions` before anything else; the packet goes to the client.
    pub must_swap: bool,
    /// A new session was created for the packet.
    pub is_new_session: bool,
}

impl TcpVerdict {
    pub(crate) fn event(&mut self, event: StreamEvent) {
        self.events.push(event);
    }
}
