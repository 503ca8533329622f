//! Whole connections through table and tracker, driven as by the engine.

use gabion_flow::tcp::flags::{ACK, FIN, SYN};
use gabion_flow::*;
use gabion_record::budget::Budget;
use gabion_record::{Addr, Direction};

const CLIENT: Addr = Addr::v4([10, 0, 0, 1]);
const SERVER: Addr = Addr::v4([10, 0, 0, 2]);

/// A connection of two hosts, from the client's SYN on.
struct Connection {
    tracker: TcpTracker,
    slot: Option<Box<TcpSession>>,
    seq: [u32; 2],
    ts_ns: u64,
}

impl Connection {
    fn new(cfg: StreamConfig) -> Connection {
        let budget = |name| Budget::standalone(name, 64 << 20);
        Connection {
            tracker: TcpTracker::new(cfg, budget("ssn"), budget("data")),
            slot: None,
            seq: [1000, 5000],
            ts_ns: 1_000_000_000_000,
        }
    }

    fn send(&mut self, dir: Direction, flags: u8, payload: &[u8]) -> TcpVerdict {
        self.ts_ns += 1_000_000;
        let n = dir.index();
        let (src, dst) = if n == 0 { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        let ack = if flags & ACK != 0 { self.seq[1 - n] } else { 0 };
        let seg = TcpSegment {
            seq: self.seq[n],
            ack,
            flags,
            window: 8192,
            payload,
            ts_ns: self.ts_ns,
            checksum_ok: true,
            src,
            dst,
            ip_version: 4,
            ..TcpSegment::default()
        };
        let used = payload.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
        self.seq[n] = self.seq[n].wrapping_add(used);
        self.tracker.handle(&mut self.slot, &seg, dir)
    }

    fn handshake(&mut self) {
        use Direction::{ToClient, ToServer};
        assert!(self.send(ToServer, SYN, b"").events.is_empty());
        assert!(self.send(ToClient, SYN | ACK, b"").events.is_empty());
        let v = self.send(ToServer, ACK, b"");
        assert!(v.events.is_empty() && v.is_established);
        assert_eq!(v.flow_state, Some(FlowState::Established));
    }

    fn ssn(&mut self) -> &mut TcpSession {
        self.slot.as_deref_mut().unwrap()
    }
}

#[test]
fn data_reaches_the_parser_when_it_is_acknowledged() {
    use Direction::{ToClient, ToServer};
    let mut talk = Connection::new(StreamConfig::default());
    talk.handshake();
    let v = talk.send(ToServer, ACK, b"GET / HTTP/1.0\r\n\r\n");
    assert!(v.is_stream_added && v.events.is_empty());
    assert_eq!(talk.ssn().stream_mut(ToServer).app_next(), AppChunk::None);
    let v = talk.send(ToClient, ACK, b"");
    assert_eq!(v.update, Update::Opposing);
    let s = talk.ssn().stream_mut(ToServer);
    assert_eq!(s.app_next(), AppChunk::Data(b"GET / HTTP/1.0\r\n\r\n"));
    s.app_consume(4);
    assert_eq!(s.app_next(), AppChunk::None, "nothing new arrived");
    talk.send(ToServer, ACK, b"more");
    talk.send(ToClient, ACK, b"");
    let s = talk.ssn().stream_mut(ToServer);
    assert_eq!(s.app_next(), AppChunk::Data(b"/ HTTP/1.0\r\n\r\nmore"));
    s.app_consume(18);
    assert_eq!(s.raw_views(2560, false), None);
    assert_eq!(pieces_of(s.raw_views(2560, true)), Some((vec![(0, 22)], 22)));
    s.raw_advance(22);
    let mut tracker = talk.tracker;
    let mut ssn = talk.slot.unwrap();
    tracker.trim(&mut ssn, ToServer);
    assert_eq!(tracker.counters().reassembly_memuse, 0, "all consumed, all released");
}

/// Bytes that never came are named wherever they are missing, those that were released are not.
#[test]
fn missing_bytes_are_written_as_such() {
    use Direction::{ToClient, ToServer};
    let mut talk = Connection::new(StreamConfig::default());
    talk.handshake();
    talk.seq[0] += 4;
    talk.send(ToServer, ACK, b"GOOD");
    talk.seq[0] += 2;
    talk.send(ToServer, ACK, b"DATA");
    talk.send(ToClient, ACK, b"");
    let written = |talk: &mut Connection| {
        let mut out = Vec::new();
        talk.ssn().stream(ToServer).write_with_gaps(&mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(written(&mut talk), "[4 bytes missing]GOOD[2 bytes missing]DATA");
    let range = |talk: &mut Connection, from, to, most| {
        let mut out = Vec::new();
        talk.ssn().stream(ToServer).write_range(from, to, most, &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(range(&mut talk, 5, 9, 100), "OOD[1 bytes missing]");
    assert_eq!(range(&mut talk, 12, 17, 100), "TA[3 bytes missing]");
    assert_eq!(range(&mut talk, 0, 14, 6), "[4 byt");
    // Once the parser and rules are behind the first gap it is still known.
    let s = talk.ssn().stream_mut(ToServer);
    while let AppChunk::Gap(_) = s.app_next() {}
    let next = s.raw_views(2560, true).unwrap().next;
    s.raw_advance(next);
    let mut ssn = talk.slot.take().unwrap();
    talk.tracker.trim(&mut ssn, ToServer);
    talk.slot = Some(ssn);
    assert!(written(&mut talk).starts_with("[4 bytes missing]GOOD"));
}

#[test]
fn inline_data_is_available_at_once() {
    let mut talk = Connection::new(StreamConfig { inline: true, ..StreamConfig::default() });
    talk.handshake();
    let v = talk.send(Direction::ToServer, ACK, b"hello");
    assert_eq!((v.update, v.stream_offset, v.stream_len), (Update::Packet, 0, 5));
    let s = talk.ssn().stream_mut(Direction::ToServer);
    assert_eq!(s.app_next(), AppChunk::Data(b"hello"));
    assert_eq!(s.raw_window(0, 5, 2560).unwrap().pieces[0].data, b"hello");
}

#[test]
fn both_fins_close_the_connection() {
    use Direction::{ToClient, ToServer};
    for first in [ToServer, ToClient] {
        let mut talk = Connection::new(StreamConfig::default());
        talk.handshake();
        assert!(talk.send(first, ACK | FIN, b"").events.is_empty());
        let second = first.opposite();
        assert!(talk.send(second, ACK, b"").events.is_empty());
        assert!(talk.send(second, ACK | FIN, b"").events.is_empty());
        let v = talk.send(first, ACK, b"");
        assert!(v.events.is_empty(), "{:?}", v.events);
        assert_eq!(talk.ssn().state(), TcpState::Closed);
        assert_eq!(talk.ssn().stream_mut(ToServer).app_next(), AppChunk::Eof);
        assert_eq!(talk.ssn().stream_mut(ToServer).app_next(), AppChunk::None);
    }
}

/// Offset and length of pieces for payload rules, and where the next inspection begins.
type Pieces = (Vec<(u64, usize)>, u64);

fn pieces_of(views: Option<RawViews<'_>>) -> Option<Pieces> {
    let views = views?;
    Some((views.pieces.iter().map(|v| (v.offset, v.data.len())).collect(), views.next))
}

/// Inspects what is due for payload rules.
fn due(talk: &mut Connection) -> Option<Pieces> {
    let s = talk.ssn().stream_mut(Direction::ToServer);
    let found = pieces_of(s.raw_views(2560, false))?;
    s.raw_advance(found.1);
    Some(found)
}

/// Suricata 8.0.7 inspects the same bytes (`docs/semantics.md`, "When stream data is inspected").
#[test]
fn what_is_behind_a_hole_is_inspected_twice() {
    use Direction::{ToClient, ToServer};
    let long = [b'a'; 3000];
    let mut talk = Connection::new(StreamConfig::default());
    talk.handshake();
    talk.send(ToServer, ACK, &long);
    talk.send(ToClient, ACK, b"");
    assert_eq!(due(&mut talk), Some((vec![(0, 3000)], 3000)));
    talk.seq[0] += 500;
    talk.send(ToServer, ACK, &long);
    talk.send(ToClient, ACK, b"");
    assert_eq!(due(&mut talk), Some((vec![(3500, 3000)], 3500)));
    assert_eq!(due(&mut talk), Some((vec![(3500, 3000)], 6500)));
    assert_eq!(due(&mut talk), None);
    // Both sides of a hole at once.
    let mut talk = Connection::new(StreamConfig::default());
    talk.handshake();
    talk.send(ToServer, ACK, &long);
    talk.seq[0] += 500;
    talk.send(ToServer, ACK, &long);
    talk.send(ToClient, ACK, b"");
    assert_eq!(due(&mut talk), Some((vec![(0, 3000), (3500, 3000)], 3500)));
    assert_eq!(due(&mut talk), Some((vec![(3500, 3000)], 6500)));
    // What was acknowledged counts, not where it is: a hole makes later data due.
    talk.seq[0] += 3000;
    talk.send(ToClient, ACK, b"");
    assert_eq!(due(&mut talk), None);
    talk.send(ToServer, ACK, b"tail");
    assert_eq!(due(&mut talk), Some((vec![(9500, 4)], 9500)));
}
