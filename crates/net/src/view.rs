//! A packet in the stages of a worker: its headers and bytes, and what is known about it so far.

use gabion_flow::StreamEvent;
use gabion_packet::Decoded;
use gabion_record::applayer::DetectionEvent;
use gabion_record::{Direction, PacketSource};

/// The packet at hand, as the stages see it.
#[derive(Clone, Copy)]
pub(crate) struct PacketView<'a> {
    /// Headers.
    pub(crate) headers: &'a Decoded,
    /// The bytes that the offsets in `headers` refer to.
    pub(crate) frame: &'a [u8],
    /// Payload.
    pub(crate) payload: &'a [u8],
    /// Event time.
    pub(crate) ts_ns: u64,
    /// The clock by which flows and other state time out.
    pub(crate) clock_ns: u64,
    /// LINKTYPE of the capture at hand.
    pub(crate) link: u16,
    /// The interface it came from, 0 for the first and for captures.
    pub(crate) device: u16,
    /// Number of the packet in the input, pseudo packets carry that of their origin.
    pub(crate) number: u64,
    /// Number to show, when it is a real packet.
    pub(crate) pcap_cnt: Option<u64>,
    /// Its checksums count as right.
    pub(crate) ignores_checksums: bool,
    /// Direction in its flow.
    pub(crate) direction: Option<Direction>,
    /// A pseudo packet, which the engine makes at a flow's end.
    pub(crate) is_pseudo: bool,
    /// TCP connection is established (others: both directions seen).
    pub(crate) is_established: bool,
    /// Stream events of this packet.
    pub(crate) stream_events: &'a [StreamEvent],
    /// Protocol detection events of this packet.
    pub(crate) detection_events: &'a [DetectionEvent],
    /// Where it comes from.
    pub(crate) pkt_src: PacketSource,
    /// Its payload is not to be inspected (encrypted flow).
    pub(crate) no_payload: bool,
    /// Its TCP session took no notice of it, since it broke the rules: Suricata asks no rule of an application
    /// protocol about it, and inspects neither stream data nor transactions with it.
    pub(crate) is_refused: bool,
    /// Link layer in front of a reassembled datagram, for records that carry the packet.
    pub(crate) prefix: &'a [u8],
    /// The packet around it, in a tunnel.
    pub(crate) outer: Option<&'a Decoded>,
    /// The packet the frame carried.
    pub(crate) root: &'a Decoded,
    /// Number of the frame in the capture.
    pub(crate) frame_number: u64,
}

impl PacketView<'_> {
    /// A pseudo packet of a flow's end.
    #[inline]
    pub(crate) fn is_flow_end(&self) -> bool {
        self.is_pseudo && self.number == 0
    }

    /// 4, 6 or 0.
    pub(crate) fn version(&self) -> u8 {
        self.headers.ip_version()
    }
}
