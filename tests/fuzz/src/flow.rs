//! Streams and fragments: TCP segments and IP fragments in any order, of any length, with overlaps.
//!
//! In the honest mode each byte is a function of its offset: whatever the order, overlaps or
//! losses, a delivered byte must be the byte of its offset. In the other mode segments have
//! arbitrary content, and only general properties are checked.

use crate::script::Script;
use crate::seeds::Seeds;
use gabion_flow::tcp::flags::{ACK, FIN, PSH, RST, SYN};
use gabion_flow::{
    AppChunk, DefragConfig, Defragmenter, Fragment, StreamConfig, TcpOptions, TcpSegment,
    TcpSession, TcpTracker,
};
use gabion_record::budget::Budget;
use gabion_record::{Addr, Direction, IpProto};

/// The byte of an honest sender at an offset.
fn honest(side: usize, place: u32) -> u8 {
    let mixed = place.wrapping_mul(0x9e37_79b1) ^ (side as u32 + 1).wrapping_mul(0x85eb_ca6b);
    (mixed >> 13) as u8
}

const ENDS: [Addr; 2] = [Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2])];
/// Initial sequence numbers; the second wraps early.
const FIRST_SEQ: [u32; 2] = [1_000, u32::MAX - 200];

struct Wire {
    tracker: TcpTracker,
    slot: Option<Box<TcpSession>>,
    next: [u32; 2],
    ts_ns: u64,
    is_honest: bool,
    /// Whether the sequence numbers are still those of the honest mode.
    is_checked: bool,
}

/// One connection with segments from the script.
pub fn streams(data: &[u8]) {
    let mut script = Script::new(data);
    let mode = script.u8();
    let config = StreamConfig {
        inline: mode & 2 != 0,
        midstream: mode & 4 != 0,
        async_oneside: mode & 8 != 0,
        ..StreamConfig::default()
    };
    let budget_bytes = if mode & 16 != 0 { 2_000 } else { 1 << 20 };
    let budget = |name| Budget::standalone(name, budget_bytes);
    let mut wire = Wire {
        tracker: TcpTracker::new(config, budget("session"), budget("data")),
        slot: None,
        next: FIRST_SEQ,
        ts_ns: 1_000_000_000,
        is_honest: mode & 1 != 0,
        is_checked: mode & 1 != 0,
    };
    if mode & 1 != 0 || mode & 32 != 0 {
        wire.handshake();
    }
    for _ in 0..400 {
        if script.is_done() {
            break;
        }
        wire.step(&mut script);
    }
    wire.end();
}

impl Wire {
    fn handshake(&mut self) {
        for (side, flags) in [(0, SYN), (1, SYN | ACK), (0, ACK)] {
            self.send(side, flags, 0, 0, &[], 8192, None);
        }
    }

    fn step(&mut self, script: &mut Script<'_>) {
        let head = script.u8();
        let side = usize::from(head & 1);
        let (ahead, acked) = match head & 6 {
            0 => (0, 0),
            2 => (i32::from(script.u8() as i8), 0),
            4 => (i32::from(script.u16() as i16), i32::from(script.u8() as i8)),
            _ => (script.u32() as i32, script.u32() as i32),
        };
        let mut flags = match head & 24 {
            0 => ACK,
            8 => ACK | PSH,
            16 => ACK | FIN,
            _ => script.u8(),
        };
        if self.is_honest {
            // A second SYN begins a new numbering, and a RST may be accepted or not: both are fine,
            // but only one numbering can be checked.
            flags &= !SYN;
        }
        let window = if head & 32 != 0 { script.u16() } else { 8192 };
        let ts_val = (head & 64 != 0).then(|| script.u32());
        let said = script.text();
        let made: Vec<u8>;
        let payload = if self.is_honest {
            let from = self.next[side].wrapping_add(ahead as u32);
            made = (0..said.len() as u32).map(|i| honest(side, from.wrapping_add(i))).collect();
            &made
        } else {
            said
        };
        self.ts_ns += 1_000_000 * u64::from(head >> 5);
        self.send(side, flags, ahead, acked, payload, window, ts_val);
    }

    #[expect(clippy::too_many_arguments, reason = "each is a field of the segment")]
    fn send(
        &mut self,
        side: usize,
        flags: u8,
        ahead: i32,
        acked: i32,
        payload: &[u8],
        window: u16,
        ts_val: Option<u32>,
    ) {
        let direction = if side == 0 { Direction::ToServer } else { Direction::ToClient };
        let seq = self.next[side].wrapping_add(ahead as u32);
        let ack = if flags & ACK != 0 { self.next[1 - side].wrapping_add(acked as u32) } else { 0 };
        let segment = TcpSegment {
            seq,
            ack,
            flags,
            window,
            payload,
            ts_ns: self.ts_ns,
            checksum_ok: true,
            src: ENDS[side],
            dst: ENDS[1 - side],
            ip_version: 4,
            options: TcpOptions { ts_val, ..TcpOptions::default() },
            ..TcpSegment::default()
        };
        let _ = self.tracker.handle(&mut self.slot, &segment, direction);
        let used = payload.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
        let end = seq.wrapping_add(used);
        if (end.wrapping_sub(self.next[side]) as i32) > 0 && ahead.unsigned_abs() < 1 << 20 {
            self.next[side] = end;
        }
        if flags & (RST | FIN) != 0 {
            // After a FIN the offset of a byte no longer follows from its number.
            self.is_checked = false;
        }
        for direction in Direction::BOTH {
            self.read(direction);
        }
        if let Some(session) = &mut self.slot {
            for direction in Direction::BOTH {
                self.tracker.trim(session, direction);
            }
        }
    }

    /// Reads the stream as the application layer and payload rules do.
    fn read(&mut self, direction: Direction) {
        let side = direction.index();
        let is_checked = self.is_checked;
        let Some(session) = &mut self.slot else { return };
        let stream = session.stream_mut(direction);
        let from = stream.app_offset();
        let consumed = match stream.app_next() {
            AppChunk::Data(bytes) => {
                assert!(!bytes.is_empty(), "data is not empty");
                if is_checked {
                    check(side, from, bytes);
                }
                bytes.len()
            }
            AppChunk::Gap(_) | AppChunk::Eof | AppChunk::None => 0,
        };
        stream.app_consume(consumed);
        let next = stream.raw_views(2_560, false).map(|views| {
            assert!(!views.pieces.is_empty(), "something is due");
            for view in views.pieces.iter().filter(|_| is_checked) {
                check(side, view.offset, view.data);
            }
            views.next
        });
        if let Some(next) = next {
            stream.raw_advance(next);
        }
    }

    fn end(mut self) {
        if let Some(session) = &mut self.slot {
            let _ = session.finish().count();
        }
        for direction in Direction::BOTH {
            self.read(direction);
        }
        self.tracker.recycle(self.slot.take());
        let counters = self.tracker.counters();
        assert_eq!(counters.reassembly_memuse, 0, "stream bytes are released");
        assert_eq!(counters.active_sessions, 0, "the session is released");
    }
}

fn check(side: usize, from: u64, bytes: &[u8]) {
    let first = FIRST_SEQ[side].wrapping_add(1).wrapping_add(from as u32);
    for (i, byte) in bytes.iter().enumerate() {
        let place = first.wrapping_add(i as u32);
        assert_eq!(*byte, honest(side, place), "byte {i} of {} from {from} on", bytes.len());
    }
}

/// Scripts of plain, reordered and repeated segments.
pub fn stream_seeds(_: &Seeds) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for mode in [0u8, 1, 3, 5, 9, 17, 32, 36] {
        for ahead in [None, Some(3u8), Some(0xf0)] {
            let mut out = vec![mode];
            for step in 0u8..24 {
                out.push(step & 1 | if ahead.is_some() { 2 } else { 0 });
                out.extend(ahead.map(|a| a.wrapping_add(step)));
                crate::script::put_text(&mut out, &vec![step; usize::from(step) * 3]);
            }
            seeds.push(out);
        }
    }
    seeds
}

/// Fragments of a few datagrams.
pub fn fragments(data: &[u8]) {
    let mut script = Script::new(data);
    let mode = script.u8();
    let is_honest = mode & 1 != 0;
    let budget_bytes = if mode & 2 != 0 { 4_000 } else { 1 << 20 };
    let mut defrag =
        Defragmenter::new(DefragConfig::default(), Budget::standalone("defrag", budget_bytes));
    let header = ipv4_header();
    let mut ts_ns = 1_000_000_000;
    for number in 1..=400 {
        if script.is_done() {
            break;
        }
        let head = script.u8();
        let offset = u32::from(script.u16() & 0x1fff) * 8;
        let said = script.text();
        let made: Vec<u8> = (0..said.len() as u32).map(|i| honest(0, offset + i)).collect();
        ts_ns += u64::from(head >> 5) * 1_000_000_000;
        let fragment = Fragment {
            src: ENDS[0],
            dst: ENDS[1],
            ip_version: 4,
            proto: IpProto::UDP,
            id: u32::from(head & 7),
            vlan: [0; 3],
            recursion: 0,
            offset,
            more: head & 8 != 0,
            header: &header,
            next_header_at: 9,
            payload: if is_honest { &made } else { said },
            ts_ns,
            number,
        };
        let outcome = defrag.fragment(&fragment);
        if outcome.is_complete {
            check_datagram(defrag.datagram(), header.len(), is_honest);
        }
        assert!(defrag.counters().memuse <= budget_bytes, "the budget holds");
    }
}

fn check_datagram(datagram: &[u8], header: usize, is_honest: bool) {
    assert!(datagram.len() >= header && datagram.len() <= 65_535, "{} bytes", datagram.len());
    let total = datagram.get(2..4).map(|b| usize::from(u16::from_be_bytes([b[0], b[1]])));
    assert_eq!(total, Some(datagram.len()), "the header has the datagram's length");
    if is_honest {
        for (place, byte) in datagram.iter().skip(header).enumerate() {
            assert_eq!(*byte, honest(0, place as u32), "byte {place}");
        }
    }
}

fn ipv4_header() -> [u8; 20] {
    [0x45, 0, 0, 60, 0, 1, 0x20, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]
}

/// Datagrams with fragments in order, in reverse and with overlaps.
pub fn fragment_seeds(_: &Seeds) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for mode in 0u8..4 {
        for order in 0..3u16 {
            let mut out = vec![mode];
            for step in 0..8u16 {
                let place = if order == 1 { 7 - step } else { step };
                out.push(u8::from(place != 7) << 3);
                out.extend_from_slice(&(place * 3).to_le_bytes());
                let len = if order == 2 { 32 } else { 24 };
                crate::script::put_text(&mut out, &vec![place as u8; len]);
            }
            seeds.push(out);
        }
    }
    seeds
}
