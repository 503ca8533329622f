//! HTTP/2 and WebSocket: floods of small frames, endless header blocks and numbers, fragments with other frames
//! between them.

use gabion_adversarial::Connection;
use gabion_proto::{http2, websocket};
use gabion_record::Direction;
use gabion_record::applayer::Transport;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn tcp(name: &str) -> Connection {
    Connection::with_protocol(name, Transport::Tcp)
}

/// A frame of HTTP/2 (RFC 9113 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Frames that cost their sender a few bytes, a hundred thousand of each kind: settings, pings, window updates,
/// priorities, resets, empty data, empty continuations.
#[test]
fn floods_of_small_frames_are_bounded() {
    let all_settings: Vec<u8> =
        (0..2000_u16).flat_map(|n| [0, 3, 0, 0, (n >> 8) as u8, n as u8]).collect();
    for (what, flood) in [
        ("settings", frame(4, 0, 0, &[0, 3, 0, 0, 0, 100])),
        ("many settings", frame(4, 0, 0, &all_settings)),
        ("empty settings", frame(4, 0, 0, b"")),
        ("settings of a stream", frame(4, 0, 1, &[0, 3, 0, 0, 0, 100])),
        ("pings", frame(6, 0, 0, &[7; 8])),
        ("windows", frame(8, 0, 1, &[0, 0, 0, 1])),
        ("priorities", frame(2, 0, 1, &[0, 0, 0, 0, 1])),
        ("resets", frame(3, 0, 1, &[0, 0, 0, 8])),
        ("empty data", frame(0, 0, 1, b"")),
        ("continuations", frame(9, 0, 1, b"")),
        ("unknown frames", frame(99, 0, 1, b"x")),
    ] {
        for freeing in [false, true] {
            let mut talk = tcp("http2");
            if freeing {
                talk = talk.freeing();
            }
            talk.client(PREFACE);
            let piece = flood.repeat((16_000 / flood.len()).max(1));
            let rounds = 100_000 * flood.len().min(100) / piece.len();
            (0..rounds).for_each(|_| talk.client(&piece));
            talk.end();
            let a = &talk.account;
            assert!(a.alive_max <= http2::limits::STREAMS_MAX + 1, "{what}: {a:?}");
            assert!(a.held_max < 8 << 20, "{what}: {a:?}");
            assert!(a.offered <= 2 * a.said + 100, "{what}: {a:?}");
        }
    }
}

/// Streams that are opened and reset at once: as many as may be alive, then the connection is left.
#[test]
fn a_rapid_reset_is_bounded() {
    let mut talk = tcp("http2");
    talk.client(PREFACE);
    for n in 0..100_000_u32 {
        let opened = frame(1, 5, 2 * n + 1, b"\x82\x86\x84");
        talk.client(&[opened, frame(3, 0, 2 * n + 1, b"\0\0\0\x08")].concat());
    }
    talk.end();
    let a = &talk.account;
    assert!(a.alive_max <= http2::limits::STREAMS_MAX + 1 && a.held_max < 16 << 20, "{a:?}");
    assert!(a.events.contains("too_many_streams"), "{a:?}");
    // The engine frees those that are over: nothing is left of them.
    let mut talk = tcp("http2").freeing();
    talk.client(PREFACE);
    for n in 0..50_000_u32 {
        let id = 2 * n + 1;
        talk.client(&[frame(1, 5, id, b"\x82\x86\x84"), frame(3, 0, id, b"\0\0\0\x08")].concat());
        talk.server(&frame(1, 5, id, b"\x88"));
    }
    assert!(talk.account.held_max < 1 << 20, "{:?}", talk.account);
}

/// Header blocks of endless numbers, of table sizes, and of the one entry that fills the table, over many streams.
#[test]
fn header_blocks_are_read_in_a_line_of_steps() {
    let mut entry = b"\x40\x01n\x7f\xff\x1d".to_vec();
    entry.extend([b'v'; 3966]);
    for (what, first, block) in [
        ("numbers", &b""[..], vec![0xff; 16_000]),
        ("sizes", b"", b"\x3f\xe1\x1f\x20".repeat(4000)),
        ("names", &entry, vec![0xbe; 16_000]),
        ("huffman", b"", [&b"\0\x81\x1f\xff\x7d"[..], &[0x63; 15_000]].concat()),
    ] {
        let mut talk = tcp("http2");
        talk.client(PREFACE);
        talk.client(&frame(1, 4, 1, &[b"\x82", first].concat()));
        for n in 1..300_u32 {
            talk.client(&frame(1, 5, 2 * n + 1, &block));
        }
        talk.end();
        let a = &talk.account;
        // What a byte stands for is counted for the flow: 16 bytes for each, and a megabyte.
        let sent = 300 * 16_000;
        let bound = http2::limits::DECODED_BYTES_MAX as usize + 24 * sent + (4 << 20);
        assert!(a.held_max < bound, "{what}: {a:?}");
        assert!(a.offered <= 2 * a.said, "{what}: {a:?}");
    }
}

/// A message in endless fragments, with pings between them, and in single bytes.
#[test]
fn websocket_fragments_are_bounded() {
    let ping = b"\x89\x04ping";
    let part = [&b"\x00\x7e\x01\x00"[..], &[b'x'; 256]].concat();
    for side in Direction::BOTH {
        let mut talk = tcp("websocket").freeing();
        talk.send(side, &[b"\x01\x01a", &ping[..]].concat());
        for _ in 0..20_000 {
            talk.send(side, &[&part[..], ping].concat());
        }
        let a = &talk.account;
        assert!(a.held_max < 4 * websocket::limits::PAYLOAD_BYTES_MAX, "{side:?}: {a:?}");
        assert!(a.offered <= 2 * a.said, "{side:?}: {a:?}");
        let mut talk = tcp("websocket");
        talk.in_pieces(side, &[&part[..], ping].concat().repeat(200), 1);
        let a = &talk.account;
        assert!(a.offered <= 12 * a.said, "{side:?}: {a:?}");
        assert!(a.alive_max <= websocket::limits::TXS_MAX as u64, "{side:?}: {a:?}");
    }
}
