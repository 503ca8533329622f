//! Plays made-up sessions to a parser and returns what it made of them.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

use gabion_proto::{Endpoints, Input, LogOptions, Outcome, ParseContext, Protocol, Requirements};
use gabion_record::applayer::Transport;
use gabion_record::json::Json;
use gabion_record::{Direction, Tree};

/// A segment of the client.
pub fn c(bytes: &[u8]) -> (Direction, Vec<u8>) {
    (Direction::ToServer, bytes.to_vec())
}

/// A segment of the server.
pub fn s(bytes: &[u8]) -> (Direction, Vec<u8>) {
    (Direction::ToClient, bytes.to_vec())
}

/// What a session came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Events of the first transaction, by name, in order.
    pub events: Vec<&'static str>,
    /// Its progress to server and to client when the session was over.
    pub progress: [u8; 2],
    /// Its record, empty when there is none.
    pub record: String,
    /// All transactions: events, and the record.
    pub all: Vec<(Vec<&'static str>, String)>,
    /// The parser gave up.
    pub is_error: bool,
    /// Payload need not be inspected any more.
    pub is_payload_over: bool,
    /// The stream need not be put together any more.
    pub is_stream_over: bool,
}

/// Feeds segments in pieces of at most `piece` bytes (0: whole), then the ends of both directions.
pub fn play(
    protocol: &Protocol,
    settings: Option<&Tree>,
    segments: &[(Direction, Vec<u8>)],
    piece: usize,
) -> Outcomes {
    let settings = (protocol.configure)(settings).expect("settings");
    let mut parser = (protocol.open)(&settings, Transport::Tcp);
    let ends = Endpoints { is_tcp: true, ..Endpoints::default() };
    let mut out = Outcomes::default();
    let mut pending: [Vec<u8>; 2] = Default::default();
    let mut needed = [0; 2];
    let closing = Direction::BOTH.map(|d| (d, Vec::new()));
    for (i, (d, segment)) in segments.iter().chain(&closing).enumerate() {
        let eof = i >= segments.len();
        let size = if piece == 0 { segment.len().max(1) } else { piece };
        let mut pieces: Vec<&[u8]> = segment.chunks(size).collect();
        if eof {
            pieces.push(&[]);
        }
        for bytes in pieces {
            let held = &mut pending[d.index()];
            held.extend_from_slice(bytes);
            if out.is_error || (held.len() < needed[d.index()] && !eof) {
                continue;
            }
            let mut cx = ParseContext::new(1_700_000_000_000_000_000, *d, &ends);
            cx.requirements = Requirements { ja3: true, hassh: true, ..Requirements::default() };
            match parser.parse(&mut cx, Input::Data { bytes: held, eof }) {
                Outcome::Done => {
                    held.clear();
                    needed[d.index()] = 0;
                }
                Outcome::Incomplete { consumed, needed: n } => {
                    held.drain(..consumed);
                    assert!(n > held.len(), "waits for bytes that are there");
                    needed[d.index()] = n;
                }
                Outcome::Error => out.is_error = true,
            }
            out.is_payload_over |= cx.stop_payload_inspection;
            out.is_stream_over |= cx.stop_reassembly;
            assert!(parser.bytes_held() < 1 << 20, "holds too much");
        }
    }
    if !out.is_error {
        Direction::BOTH.into_iter().for_each(|d| parser.finish(d));
    }
    let mut config = Tree::default();
    config.set("extended", "yes");
    let name = |code: &u16| {
        let event = protocol.table.events.iter().find(|e| e.code == *code);
        event.map_or("?", |e| e.name)
    };
    for tx in (parser.first_tx_id()..parser.next_tx_id()).filter_map(|id| parser.tx(id)) {
        let mut json = Json::new();
        json.open();
        let mut record = String::new();
        if tx.log(&mut json, LogOptions { config: Some(&config), ..LogOptions::default() }) {
            json.close();
            record = String::from_utf8(json.take_bytes()).expect("text");
        }
        out.all.push((tx.events().iter().map(name).collect(), record));
    }
    let Some(tx) = parser.tx(0) else { return out };
    out.progress = Direction::BOTH.map(|d| tx.progress(d));
    (out.events, out.record) = out.all.first().cloned().unwrap_or_default();
    // Whatever rules ask for, there is an answer and no panic.
    for d in Direction::BOTH {
        for local in 0..20 {
            for index in 0..3 {
                let _ = tx.buffer(local, d, index, gabion_proto::Inspect::default());
                let _ = tx.integer(local, d, index);
            }
        }
    }
    out
}

/// Plays a session whole and in small pieces, which must come to the same.
pub fn play_all(
    protocol: &Protocol,
    settings: Option<&Tree>,
    segments: &[(Direction, Vec<u8>)],
) -> Outcomes {
    let whole = play(protocol, settings, segments, 0);
    for piece in [1, 2, 3, 5, 7, 16, 61] {
        assert_eq!(play(protocol, settings, segments, piece), whole, "in pieces of {piece}");
    }
    whole
}
