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
    assert_eq!(s.raw_view(2560, false), None);
    let view = s.raw_view(2560, true).unwrap();
    assert_eq!((view.offset, view.data.len()), (0, 22));
    let end = view.end();
    s.raw_advance(end);
    let mut tracker = talk.tracker;
    let mut ssn = talk.slot.unwrap();
    tracker.trim(&mut ssn, ToServer);
    assert_eq!(tracker.counters().reassembly_memuse, 0, "all consumed, all released");
}

#[test]
fn inline_data_is_available_at_once() {
    let mut talk = Connection::new(StreamConfig { inline: true, ..StreamConfig::default() });
    talk.handshake();
    let v = talk.send(Direction::ToServer, ACK, b"hello");
    assert_eq!((v.update, v.stream_offset, v.stream_len), (Update::Packet, 0, 5));
    let s = talk.ssn().stream_mut(Direction::ToServer);
    assert_eq!(s.app_next(), AppChunk::Data(b"hello"));
    assert_eq!(s.raw_window(0, 5, 2560).unwrap().data, b"hello");
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
