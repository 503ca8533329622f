//! Captures with false lengths, nested headers, overlapping fragments and segments, and floods of
//! flows.

use gabion_capture::{CaptureBytes, Source};
use gabion_flow::limits::{FRAGMENTS_PER_DATAGRAM, ISLANDS_MAX, SEGMENTS_MAX};
use gabion_flow::tcp::flags::{ACK, SYN};
use gabion_flow::{
    DefragConfig, Defragmenter, FlowConfig, FlowTable, Fragment, PacketFacts, PacketKey,
    StreamConfig, TcpSegment, TcpSession, TcpTracker,
};
use gabion_packet::limits::{MAX_EVENTS, MAX_INNER, MAX_LAYERS};
use gabion_packet::{DecodeConfig, DecodeCounters, DecoderEvent, Link, PacketSet};
use gabion_record::budget::Budget;
use gabion_record::{Addr, Direction, IpProto};

const PCAP: [u8; 24] =
    [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];

/// Reads a capture to its end; returns the frames, the notes kept, and the most bytes of a frame.
fn read(mut source: Source) -> (u64, usize, usize) {
    let (mut frames, mut longest) = (Vec::new(), 0);
    while let Some(block) = source.next_block(64, &mut frames) {
        longest = frames.iter().map(|f| f.frame(&block.bytes).data.len()).fold(longest, usize::max);
        frames.clear();
    }
    let ledger = source.ledger();
    assert!(ledger.balance().is_ok(), "{ledger:?}");
    (source.frames_total(), source.notes().len(), longest)
}

/// Records that claim gigabytes, mapped or from a pipe: no memory of that size is ever allocated.
#[test]
fn captures_with_false_lengths() {
    let mut lying = PCAP.to_vec();
    for len in [u32::MAX, 1 << 30, 0x7fff_ffff] {
        lying.extend_from_slice(&[0; 8]);
        lying.extend_from_slice(&len.to_le_bytes());
        lying.extend_from_slice(&len.to_le_bytes());
        lying.extend_from_slice(&[0; 60]);
    }
    let mut ng = vec![0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0];
    ng.extend_from_slice(&[0xff; 8]);
    ng.extend_from_slice(&28u32.to_le_bytes());
    ng.extend_from_slice(&[6, 0, 0, 0, 0xf0, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    for bytes in [lying, ng] {
        let mapped = Source::from_bytes(CaptureBytes::from_vec(bytes.clone())).unwrap();
        let piped = Source::from_reader(Box::new(std::io::Cursor::new(bytes))).unwrap();
        for source in [mapped, piped] {
            let (frames, notes, longest) = read(source);
            assert!(frames <= 3 && notes <= 16 && longest <= 262_144, "{frames} {notes} {longest}");
        }
    }
}

/// A packed capture that unpacks to far more than it is: read in blocks, whatever its size.
#[test]
fn packed_captures_are_read_in_blocks() {
    let mut plain = PCAP.to_vec();
    for n in 0..200_000u32 {
        plain.extend_from_slice(&n.to_le_bytes());
        plain.extend_from_slice(&[0; 4]);
        plain.extend_from_slice(&60u32.to_le_bytes());
        plain.extend_from_slice(&60u32.to_le_bytes());
        plain.extend_from_slice(&[0; 60]);
    }
    let packed = zstd::encode_all(plain.as_slice(), 3).unwrap();
    assert!(packed.len() < plain.len() / 8);
    let mut source = Source::from_reader(Box::new(std::io::Cursor::new(packed))).unwrap();
    let (mut frames, mut largest) = (Vec::new(), 0);
    while let Some(block) = source.next_block(256, &mut frames) {
        largest = largest.max(block.bytes.len());
        frames.clear();
    }
    assert_eq!(source.frames_total(), 200_000);
    assert!(largest <= 2 * gabion_capture::limits::STREAM_BLOCK, "{largest}");
}

fn decode(link: Link, frame: &[u8]) -> PacketSet {
    let (mut set, mut counters) = (PacketSet::new(), DecodeCounters::default());
    gabion_packet::decode(&mut set, &mut counters, &DecodeConfig::DEFAULT, link, frame);
    set
}

fn ipv4(proto: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let len = (20 + payload.len()) as u16;
    let mut p = vec![0x45, 0, 0, 0, 0, 7, 0, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    p[2..4].copy_from_slice(&len.to_be_bytes());
    p[6..8].copy_from_slice(&fragment.to_be_bytes());
    p.extend_from_slice(payload);
    p
}

/// IP in IP in IP, nested tags and labels, endless extension headers: decoding stops at a depth
/// with an event, and the packets and events of one frame are limited.
#[test]
fn nested_headers_stop_at_a_depth() {
    let nested =
        (0..1_000).fold(Vec::new(), |inner, _| ipv4(4, 0, &inner[..inner.len().min(60_000)]));
    let mut tags = vec![0u8; 12];
    tags.extend_from_slice(&[0x81, 0, 0, 1].repeat(5_000));
    let mut labels = vec![0u8; 12];
    labels.extend_from_slice(&[0x88, 0x47]);
    labels.extend_from_slice(&[0, 0, 0, 64].repeat(5_000));
    let mut chain = vec![0x60, 0, 0, 0, 0, 0, 60, 64];
    chain.extend_from_slice(&[0; 32]);
    for _ in 0..7_000 {
        chain.extend_from_slice(&[60, 0, 1, 4, 0, 0, 0, 0]);
    }
    let len = (chain.len() - 40) as u16;
    chain[4..6].copy_from_slice(&len.to_be_bytes());
    let cases =
        [(Link::Raw, nested), (Link::Ethernet, tags), (Link::Ethernet, labels), (Link::Raw, chain)];
    for (link, frame) in cases {
        let set = decode(link, &frame);
        let packets = set.iter().count();
        assert!(packets <= MAX_INNER + 1, "{packets}");
        for p in set.iter() {
            assert!(p.layers <= MAX_LAYERS && p.events.as_slice().len() <= MAX_EVENTS);
        }
    }
    let deep = (0..64).fold(Vec::new(), |inner, _| ipv4(4, 0, &inner));
    let set = decode(Link::Raw, &deep);
    let too_deep = set.iter().any(|p| p.events.contains(DecoderEvent::TooManyLayers));
    assert!(too_deep || set.root().events.contains(DecoderEvent::TooManyLayers));
}

fn fragment(id: u32, recursion: u8, offset: u32, more: bool, payload: &[u8]) -> Fragment<'_> {
    Fragment {
        src: Addr::v4([10, 0, 0, 1]),
        dst: Addr::v4([10, 0, 0, 2]),
        ip_version: 4,
        proto: IpProto::UDP,
        id,
        vlan: [0; 3],
        recursion,
        offset,
        more,
        header: &[0x45, 0, 0, 0, 0, 7, 0x20, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2],
        next_header_at: 0,
        payload,
        ts_ns: 1,
        number: 1,
    }
}

/// Fragments in a tunnel are never mixed with those of the tunnel, and a reused identification
/// begins a new datagram.
#[test]
fn fragments_in_fragments_and_reused_identifications() {
    let mut d = Defragmenter::new(DefragConfig::default(), Budget::standalone("defrag", 1 << 20));
    assert!(!d.fragment(&fragment(7, 0, 0, true, b"outside.")).is_complete);
    assert!(!d.fragment(&fragment(7, 1, 8, false, b"inside")).is_complete);
    assert!(d.fragment(&fragment(7, 0, 8, false, b"end")).is_complete);
    assert!(d.datagram().ends_with(b"outside.end"));
    for round in [b"first...", b"second.."] {
        d.fragment(&fragment(9, 0, 0, true, round));
        assert!(d.fragment(&fragment(9, 0, 8, false, b"!")).is_complete);
        assert!(d.datagram().ends_with(&[&round[..], b"!"].concat()));
    }
}

/// Floods of fragments that never become datagrams, and of small overlapping ones: the budget
/// holds, and one datagram keeps a limited number.
#[test]
fn floods_of_fragments_stay_within_the_budget() {
    let budget_bytes = 1 << 20;
    let mut d =
        Defragmenter::new(DefragConfig::default(), Budget::standalone("defrag", budget_bytes));
    for id in 0..50_000 {
        d.fragment(&fragment(id, 0, 0, true, &[1; 64]));
        assert!(d.counters().memuse <= budget_bytes);
    }
    let mut d =
        Defragmenter::new(DefragConfig::default(), Budget::standalone("defrag", budget_bytes));
    for n in 0..3 * FRAGMENTS_PER_DATAGRAM as u32 {
        d.fragment(&fragment(1, 0, (n % 4_000) * 8, true, &[n as u8; 16]));
        assert!(d.counters().memuse <= budget_bytes);
    }
    let counts = gabion_record::limits::take_reached();
    let reached = counts.iter().find(|(l, _)| l.full_name() == "flow.fragments_per_datagram");
    assert!(reached.is_some_and(|(_, times)| times > 0));
}

struct Wire {
    tracker: TcpTracker,
    slot: Option<Box<TcpSession>>,
}

impl Wire {
    /// A session after the handshake; `bytes` is the budget of stream data.
    fn open(bytes: u64) -> Wire {
        let budget = |name| Budget::standalone(name, bytes);
        let tracker = TcpTracker::new(StreamConfig::default(), budget("session"), budget("data"));
        let mut wire = Wire { tracker, slot: None };
        wire.send(Direction::ToServer, SYN, 0, &[]);
        wire.send(Direction::ToClient, SYN | ACK, 0, &[]);
        wire.send(Direction::ToServer, ACK, 1, &[]);
        wire
    }

    fn send(&mut self, side: Direction, flags: u8, seq: u32, payload: &[u8]) {
        let (src, dst) = (Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2]));
        let is_client = side == Direction::ToServer;
        let segment = TcpSegment {
            seq,
            ack: u32::from(flags & ACK != 0),
            flags,
            window: 65_535,
            payload,
            ts_ns: 1_000_000_000,
            checksum_ok: true,
            src: if is_client { src } else { dst },
            dst: if is_client { dst } else { src },
            ip_version: 4,
            ..TcpSegment::default()
        };
        let _ = self.tracker.handle(&mut self.slot, &segment, side);
    }
}

/// Many tiny segments in the wrong order, and the same offset again and again with different bytes:
/// the memory of one stream is limited, bytes stay within the budget, and contradictions are
/// counted.
#[test]
fn tiny_segments_out_of_order_and_overlapping() {
    let budget_bytes = 4 << 20;
    let mut wire = Wire::open(budget_bytes);
    for n in (1..30_000u32).rev() {
        wire.send(Direction::ToServer, ACK, 1 + 2 * (n % 32_000), &[n as u8]);
    }
    let c = wire.tracker.counters();
    assert!(c.reassembly_memuse <= budget_bytes, "{}", c.reassembly_memuse);
    let kept = ISLANDS_MAX as u64 * 64 + SEGMENTS_MAX as u64 * gabion_flow::limits::SEGMENT_COST;
    assert!(c.reassembly_memuse <= kept + (1 << 20), "{}", c.reassembly_memuse);
    assert!(c.insert_data_normal_fail > 0, "holes beyond the limit are counted");

    let mut wire = Wire::open(budget_bytes);
    wire.send(Direction::ToServer, ACK, 1_001, &[0; 64]);
    for n in 0..20_000u32 {
        wire.send(Direction::ToServer, ACK, 1_001 + n % 50, &[n as u8 | 1; 16]);
    }
    let c = wire.tracker.counters();
    assert!(c.overlap_diff_data > 0);
    assert!(c.reassembly_memuse <= kept + (1 << 20), "{}", c.reassembly_memuse);
}

/// A stream that is never acknowledged, and an endless window: depth and budget end it.
#[test]
fn endless_streams_stay_within_the_budget() {
    let budget_bytes = 1 << 20;
    let mut wire = Wire::open(budget_bytes);
    for n in 0..10_000u32 {
        wire.send(Direction::ToServer, ACK, 1 + n * 1_400, &[7; 1_400]);
        assert!(wire.tracker.counters().reassembly_memuse <= budget_bytes);
    }
}

/// Flows that differ only in the version of IP, or in the position of zeros in the address, are
/// distinct; a flood of flows stays within the budget.
#[test]
fn similar_flows_are_distinct_and_floods_are_bounded() {
    let table = |bytes| {
        FlowTable::<u32>::new(FlowConfig::default(), Budget::standalone("flow", bytes), 42, false)
    };
    let key = |src, dst, ip_version, sport| PacketKey {
        src,
        dst,
        sport,
        dport: 53,
        proto: IpProto::UDP,
        ip_version,
        ..PacketKey::default()
    };
    let facts =
        PacketFacts { ts_ns: 1, clock_ns: 1, bytes: 100, ttl: 64, ..PacketFacts::default() };
    let (a, b) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let wide = |last: [u8; 4]| {
        let mut bytes = [0u8; 16];
        bytes[..4].copy_from_slice(&last);
        let mut other = [0u8; 16];
        other[12..].copy_from_slice(&last);
        [Addr::v6(bytes), Addr::v6(other)]
    };
    let mut t = table(64 << 20);
    t.packet(&key(Addr::v4(a), Addr::v4(b), 4, 1), &facts);
    t.packet(&key(wide(a)[0], wide(b)[0], 6, 1), &facts);
    t.packet(&key(wide(a)[1], wide(b)[1], 6, 1), &facts);
    assert_eq!(t.len(), 3);

    let budget_bytes = 8 << 20;
    let mut t = table(budget_bytes);
    for n in 0..200_000u32 {
        let [_, x, y, z] = n.to_be_bytes();
        t.packet(&key(Addr::v4([10, x, y, z]), Addr::v4(b), 4, 9), &facts);
        while t.pop_displaced().is_some() {}
        assert!(t.counters().memuse <= budget_bytes);
    }
    let c = t.counters();
    assert_eq!(
        c.total,
        c.active + c.get_used,
        "each flow is in the table or was evicted and counted"
    );
}
