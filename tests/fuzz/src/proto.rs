//! Application protocols: the bytes of two ends, cut anywhere.
//!
//! A script determines which end sends, how much, and where bytes are lost. One parser gets this
//! piece by piece, as from the engine; a second parser gets the same with consecutive pieces of one
//! end joined, and must find the same transactions. Every buffer, number and record of a
//! transaction is read, and records must be JSON.

use crate::script::{Script, put_text};
use crate::seeds::Seeds;
use gabion_proto::{
    Endpoints, Input, Inspect, LogOptions, Outcome, ParseContext, Parser, Requirements,
};
use gabion_proto::{Protocol, registry};
use gabion_record::applayer::Transport;
use gabion_record::json::Json;
use gabion_record::{Addr, Direction};
use std::sync::OnceLock;

/// Most pieces of one input.
const PIECES_MAX: usize = 600;
/// Bytes that the engine keeps for a parser that waits for more; beyond that it ends the direction.
const PENDING_MAX: usize = 1 << 20;
/// Instances of a buffer that are read.
const INSTANCES_MAX: usize = 64;

/// The protocol that GABION_FUZZ_PROTO names, else the one that the first byte selects.
pub fn chosen(data: &[u8]) {
    static NAME: OnceLock<Option<String>> = OnceLock::new();
    let name = NAME.get_or_init(|| std::env::var("GABION_FUZZ_PROTO").ok());
    match name {
        Some(name) => {
            let found = registry().iter().find(|p| p.table.name == name);
            parse(found.unwrap_or_else(|| panic!("there is no protocol {name}")), data);
        }
        None => {
            let Some((first, rest)) = data.split_first() else { return };
            let all = registry();
            if let Some(protocol) = all.get(usize::from(*first) % all.len().max(1)) {
                parse(protocol, rest);
            }
        }
    }
}

/// One piece of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Said(Direction, Vec<u8>),
    Lost(Direction, u64),
}

/// Runs a protocol's parser on a script.
pub fn parse(protocol: &'static Protocol, data: &[u8]) {
    let mut script = Script::new(data);
    let mode = script.u8();
    let transport = match protocol.table.transports {
        [one] => *one,
        all if mode & 1 != 0 => all.first().copied().unwrap_or(Transport::Tcp),
        all => all.last().copied().unwrap_or(Transport::Tcp),
    };
    let is_stream = matches!(transport, Transport::Tcp);
    let pieces = pieces(&mut script, is_stream && protocol.accepts_gaps);
    let needs = if mode & 2 != 0 { everything() } else { Requirements::default() };
    let frees = mode & 4 != 0;
    let as_cut = Run::new(protocol, transport, needs, frees).run(&pieces);
    // A transaction that was freed early does not see later data, so the cuts make a difference.
    if is_stream && !frees {
        let joined = Run::new(protocol, transport, needs, frees).run(&join(&pieces));
        let mut all = [&as_cut, &joined].into_iter().flatten();
        if all.any(|text| {
            depends_on_pieces(protocol, text) || has_bare_response(protocol, text, &pieces)
        }) || has_greeting(protocol, &pieces)
        {
            return;
        }
        if depends_on_an_open_line(protocol, &pieces) {
            let is_like =
                |(one, other): (&String, &String)| without_events(one) == without_events(other);
            assert!(
                as_cut.len().abs_diff(joined.len()) == 1
                    || as_cut.iter().zip(&joined).all(is_like) && as_cut.len() == joined.len(),
                "where the stream is cut makes no difference: {as_cut:?} {joined:?}"
            );
            return;
        }
        let differ = as_cut.iter().zip(&joined).find(|(one, other)| one != other);
        assert_eq!(differ, None, "where the stream is cut makes no difference");
        assert_eq!(as_cut.len(), joined.len(), "where the stream is cut makes no difference");
    }
}

/// An exception (docs/fuzzing.md lists all four), as in Suricata: bytes after a complete HTTP/1 message in the same
/// segment that are not another message count as more of its body, with an event; in a segment of
/// their own they begin a message.
fn depends_on_pieces(protocol: &Protocol, text: &str) -> bool {
    let table = &protocol.table;
    let behind = ["request_body_unexpected", "response_body_unexpected"];
    let mut codes = table.events.iter().filter(|e| behind.contains(&e.name)).map(|e| e.code);
    let events = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let has =
        |code: u16| events.is_some_and(|(list, _)| list.split(", ").any(|n| n == code.to_string()));
    table.name == "http1" && codes.any(has)
}

/// Another exception, as in Suricata: a response without a status line ends with its segment. Later
/// bytes from the server are then unexpected, while in one segment they are the rest of that
/// response.
fn has_bare_response(protocol: &Protocol, text: &str, pieces: &[Piece]) -> bool {
    let is_bare = |piece: &Piece| match piece {
        Piece::Said(Direction::ToClient, bytes) => !bytes.trim_ascii_start().starts_with(b"HTTP/"),
        _ => false,
    };
    protocol.table.name == "http1" && !text.contains("\"status\":") && pieces.iter().any(is_bare)
}

/// An exception of DNP3, as in Suricata: a server's input with the word in it is a greeting, unless it is the rest of a
/// frame. So its cuts decide.
fn has_greeting(protocol: &Protocol, pieces: &[Piece]) -> bool {
    let has_word = |piece: &Piece| match piece {
        Piece::Said(Direction::ToClient, bytes) => bytes.windows(4).any(|word| word == b"DNP3"),
        _ => false,
    };
    protocol.table.name == "dnp3" && join(pieces).iter().any(has_word)
}

/// The same exception without an event: an unterminated line after a complete HTTP/1 message in the
/// same segment stays unparsed, and the message is complete only at the end of the stream, when
/// events are no longer reported (as observed in Suricata 8.0.7); in a segment of its own it ends
/// the message and begins another.
fn depends_on_an_open_line(protocol: &Protocol, pieces: &[Piece]) -> bool {
    let last = |side| {
        pieces.iter().rev().find_map(|piece| match piece {
            Piece::Said(by, bytes) if *by == side && !bytes.is_empty() => Some(bytes),
            _ => None,
        })
    };
    protocol.table.name == "http1"
        && Direction::BOTH.into_iter().filter_map(last).any(|bytes| !bytes.ends_with(b"\n"))
}

/// A transaction's text without its events.
fn without_events(text: &str) -> (&str, &str) {
    let (head, rest) = text.split_once('[').unwrap_or((text, ""));
    (head, rest.split_once(']').map_or(rest, |(_, record)| record))
}

fn pieces(script: &mut Script<'_>, has_gaps: bool) -> Vec<Piece> {
    let mut all = Vec::new();
    while !script.is_done() && all.len() < PIECES_MAX {
        let head = script.u8();
        let side = if head & 1 == 0 { Direction::ToServer } else { Direction::ToClient };
        if has_gaps && head & 0xf0 == 0xf0 {
            all.push(Piece::Lost(side, 1 + u64::from(script.u16())));
        } else {
            all.push(Piece::Said(side, script.text().to_vec()));
        }
    }
    all
}

fn join(pieces: &[Piece]) -> Vec<Piece> {
    let mut all: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (all.last_mut(), piece) {
            (Some(Piece::Said(last, before)), Piece::Said(now, more)) if last == now => {
                before.extend_from_slice(more);
            }
            _ => all.push(piece.clone()),
        }
    }
    all
}

/// Requirements with everything that a parser can provide.
#[must_use]
pub fn everything() -> Requirements {
    Requirements {
        ja3: true,
        hassh: true,
        md5: true,
        sha1: true,
        sha256: true,
        file_data: true,
        ..Requirements::default()
    }
}

/// A parser with the progress of each direction.
struct Run {
    protocol: &'static Protocol,
    parser: Box<dyn Parser>,
    needs: Requirements,
    is_stream: bool,
    /// Whether transactions are freed as soon as they are complete, as in the engine.
    frees: bool,
    ends: Endpoints,
    pending: [Vec<u8>; 2],
    needed: [usize; 2],
    is_dead: [bool; 2],
    texts: Vec<String>,
}

impl Run {
    fn new(
        protocol: &'static Protocol,
        transport: Transport,
        needs: Requirements,
        frees: bool,
    ) -> Run {
        let settings = (protocol.configure)(None).expect("the defaults are valid settings");
        let is_tcp = matches!(transport, Transport::Tcp);
        Run {
            protocol,
            parser: (protocol.open)(&settings, transport),
            needs,
            is_stream: is_tcp,
            frees,
            ends: Endpoints {
                ip_version: 4,
                client: Addr::v4([10, 0, 0, 1]),
                server: Addr::v4([10, 0, 0, 2]),
                client_port: 40_000,
                server_port: 80,
                is_tcp,
            },
            pending: [Vec::new(), Vec::new()],
            needed: [0; 2],
            is_dead: [false; 2],
            texts: Vec::new(),
        }
    }

    /// The texts of the transactions, in order of their numbers.
    fn run(mut self, pieces: &[Piece]) -> Vec<String> {
        for piece in pieces {
            match piece {
                Piece::Said(side, bytes) => self.send(*side, bytes, false),
                Piece::Lost(side, len) => self.lose(*side, *len),
            }
        }
        for side in Direction::BOTH {
            if self.is_stream {
                self.send(side, &[], true);
            }
            self.parser.finish(side);
        }
        self.collect_transactions(true);
        self.texts.sort();
        self.texts
    }

    fn send(&mut self, side: Direction, bytes: &[u8], eof: bool) {
        let i = side.index();
        if self.is_dead[i] {
            return;
        }
        if !self.is_stream {
            let _ = self.feed(side, Input::Data { bytes, eof: false });
            return;
        }
        self.pending[i].extend_from_slice(bytes);
        let all = std::mem::take(&mut self.pending[i]);
        let is_due = all.len() >= self.needed[i] && !all.is_empty() || eof;
        if !is_due {
            self.pending[i] = all;
            return;
        }
        self.needed[i] = 0;
        match self.feed(side, Input::Data { bytes: &all, eof }) {
            Outcome::Done => {}
            Outcome::Incomplete { consumed, needed } => {
                assert!(consumed <= all.len(), "used {consumed} of {}", all.len());
                let rest = all.get(consumed..).unwrap_or_default();
                let is_over = eof || self.is_dead[i];
                assert!(is_over || needed > rest.len(), "{needed} wanted, {} there", rest.len());
                self.needed[i] = needed;
                self.is_dead[i] |= rest.len() > PENDING_MAX;
                self.pending[i] = rest.to_vec();
            }
            Outcome::Error => self.is_dead[i] = true,
        }
    }

    fn lose(&mut self, side: Direction, len: u64) {
        let i = side.index();
        if self.is_dead[i] {
            return;
        }
        // Waiting bytes are lost together with the bytes after them.
        let waiting = std::mem::take(&mut self.pending[i]).len() as u64;
        self.needed[i] = 0;
        if self.feed(side, Input::Gap { len: len + waiting }) == Outcome::Error {
            self.is_dead[i] = true;
        }
    }

    fn feed(&mut self, side: Direction, input: Input<'_>) -> Outcome {
        let ends = self.ends;
        let mut cx = ParseContext::new(1_700_000_000_000_000_000, side, &ends);
        cx.requirements = self.needs;
        let outcome = self.parser.parse(&mut cx, input);
        if cx.change.is_some() || cx.stop_reassembly {
            // Another protocol's parser, or none, would get the rest.
            self.is_dead = [true; 2];
        }
        self.collect_transactions(false);
        outcome
    }

    /// Reads all data of the transactions; keeps the text of complete ones and frees them.
    fn collect_transactions(&mut self, at_end: bool) {
        let (first, next) = (self.parser.first_tx_id(), self.parser.next_tx_id());
        assert!(first <= next, "transactions {first} to {next}");
        for id in first..next {
            self.read_transaction(id);
            let Some(tx) = self.parser.tx(id) else { continue };
            let table = &self.protocol.table;
            let is_complete = Direction::BOTH.into_iter().all(|d| {
                tx.only().is_some_and(|only| only != d) || tx.progress(d) >= table.last_state(d)
            });
            if is_complete && self.frees || at_end {
                let mut text = format!("{id} {:?}", tx.events());
                let mut how = LogOptions::default();
                for part in 0..tx.log_parts(how) {
                    how.part = part;
                    text.push_str(&record(tx, how));
                }
                self.texts.push(text);
                self.parser.free(id);
            }
        }
    }

    /// Reads every buffer, number and file of a transaction, and its record as for an alert.
    fn read_transaction(&self, id: u64) {
        let Some(tx) = self.parser.tx(id) else { return };
        for def in self.protocol.table.buffers {
            for hook in def.hooks {
                let how = Inspect::default();
                let all = (0..INSTANCES_MAX)
                    .map_while(|at| tx.buffer(hook.local, hook.direction, at, how))
                    .map(|buffer| buffer.data.len())
                    .sum::<usize>();
                assert!(all <= 1 << 28, "{}: {all} bytes", def.name);
                let at_end = Inspect { at_end: true, ..how };
                let _ = tx.buffer(hook.local, hook.direction, 0, at_end);
            }
        }
        for def in self.protocol.table.integers {
            for hook in def.hooks {
                let _ = (0..INSTANCES_MAX)
                    .map_while(|at| tx.integer(hook.local, hook.direction, at))
                    .count();
            }
        }
        for side in Direction::BOTH {
            let _ = tx.files(side);
        }
        let _ = record(tx, LogOptions { in_alert: true, ..LogOptions::default() });
    }
}

fn record(tx: &dyn gabion_proto::Transaction, how: LogOptions<'_>) -> String {
    let mut json = Json::new();
    json.open();
    if !tx.log(&mut json, how) {
        return String::new();
    }
    json.close();
    let text = String::from_utf8(json.take_bytes()).expect("a record is text");
    let parsed: Result<serde_json::Value, _> = serde_json::from_str(&text);
    assert!(parsed.is_ok(), "a record is JSON: {parsed:?}: {text}");
    text
}

/// Connections of captures on the protocol's ports, and those that begin with one of its literals.
pub fn seeds(protocol: &'static Protocol, seeds: &Seeds) -> Vec<Vec<u8>> {
    let is_tcp = |t: &Transport| matches!(t, Transport::Tcp);
    let fits = |talk: &&crate::seeds::Talk| {
        let is_carried = protocol.table.transports.iter().any(|t| is_tcp(t) == talk.is_tcp);
        is_carried && (by_port(protocol, talk.ports) || by_literal(protocol, talk))
    };
    let mut all = Vec::new();
    for talk in seeds.talks.iter().filter(fits).take(400) {
        let first_is_tcp = protocol.table.transports.first().is_some_and(is_tcp);
        for mode in [0u8, 6] {
            let mut out = vec![mode | u8::from(talk.is_tcp == first_is_tcp)];
            for (side, bytes) in &talk.parts {
                if out.len() + bytes.len() > 12_000 {
                    break;
                }
                out.push(side.index() as u8);
                put_text(&mut out, bytes);
            }
            all.push(out);
        }
    }
    all
}

fn by_port(protocol: &Protocol, ports: [u16; 2]) -> bool {
    protocol.probes.iter().any(|probe| {
        let named = probe.ports.trim_matches(['[', ']']).split(',');
        named.filter_map(|p| p.trim().parse::<u16>().ok()).any(|p| ports.contains(&p))
    })
}

fn by_literal(protocol: &Protocol, talk: &crate::seeds::Talk) -> bool {
    let said = |side| talk.parts.iter().find(|(d, _)| *d == side).map(|(_, bytes)| bytes);
    protocol.patterns.iter().any(|pattern| {
        let Some(bytes) = said(pattern.direction) else { return false };
        let window = bytes.get(..bytes.len().min(usize::from(pattern.depth))).unwrap_or_default();
        window.windows(pattern.bytes.len()).any(|w| w.eq_ignore_ascii_case(pattern.bytes))
    })
}
