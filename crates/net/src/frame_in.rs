//! A frame as a worker takes it, and its fragments as the defragmenter takes them.

use gabion_flow::{DefragOutcome, Fragment};
use gabion_packet::{Decoded, Flags, Network, PacketSet};
use gabion_record::IpProto;

/// One frame of a capture.
#[derive(Clone, Copy, Debug)]
pub struct FrameIn<'a> {
    /// Event time, nanoseconds since 1970.
    pub ts_ns: u64,
    /// The clock by which flows and other state time out, nanoseconds; it never goes back. It
    /// is the event time unless that is stray.
    pub clock_ns: u64,
    /// The clock jumped so far at this frame that the flows it ends are counted.
    pub is_leap: bool,
    /// Number in the capture, from 1.
    pub number: u64,
    /// LINKTYPE.
    pub link: u16,
    /// The interface it came from, 0 for the first and for captures.
    pub device: u16,
    /// Its checksums count as right ([`crate::ChecksumSample`]).
    pub ignores_checksums: bool,
    /// Length before a snap length cut it.
    pub wire_len: u32,
    /// The bytes.
    pub data: &'a [u8],
    /// The outcome of each of its fragments, if they were reassembled before frames were distributed
    /// ([`crate::Dealer`]); none if the worker reassembles them.
    pub fragments: Option<&'a [FragmentOutcome]>,
}

/// The defragmenter's result for one fragment.
#[derive(Clone, Debug, Default)]
pub struct FragmentOutcome {
    pub(crate) defrag: DefragOutcome,
    /// The datagram that it completed; empty if it did not.
    pub(crate) datagram: Box<[u8]>,
}

/// A fragment as the defragmenter takes it.
pub(crate) fn fragment_of<'a>(d: &Decoded, bytes: &'a [u8], f: &FrameIn<'_>) -> Fragment<'a> {
    let v6 = d.network == Network::Ipv6;
    let header = if v6 {
        bytes.get(d.l3 as usize..d.ext.fragment_at as usize).unwrap_or(&[])
    } else {
        d.ip_header(bytes)
    };
    Fragment {
        src: d.src,
        dst: d.dst,
        ip_version: d.ip_version(),
        proto: if v6 { IpProto(d.ext.fragment_next) } else { d.proto },
        id: d.ip_id,
        vlan: d.vlans,
        recursion: d.depth,
        offset: d.fragment_offset.into(),
        more: d.flags.has(Flags::MORE_FRAGMENTS),
        payload: d.payload(bytes),
        header,
        next_header_at: d.ext.fragment_prev.saturating_sub(d.l3) as usize,
        ts_ns: f.clock_ns,
        number: f.number,
    }
}

/// Sets for packets inside of datagrams. A datagram may carry fragments that complete another, and
/// each needs a set while the one around it is still read: as many as there are layers at most.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "a set is large: it moves in and out as it stands on the heap")]
pub(crate) struct SpareSets(Vec<Box<PacketSet>>);

impl SpareSets {
    pub(crate) fn take_packets(&mut self) -> Box<PacketSet> {
        self.0.pop().unwrap_or_else(|| Box::new(PacketSet::new()))
    }

    pub(crate) fn give_back(&mut self, set: Box<PacketSet>) {
        self.0.push(set);
    }
}
