//! SMTP and FTP sessions: records, events and files against Suricata's, in any split.

mod ftp;
mod smtp;

use gabion_proto::{
    Endpoints, Expectation, Input, LogOptions, Outcome, ParseContext, Parser, ProtocolChange,
    Transaction,
};
use gabion_proto::{Protocol, Settings};
use gabion_record::applayer::Transport;
use gabion_record::json::Json;
use gabion_record::{Direction, Tree};

/// What the client or the server says.
#[derive(Clone, Copy)]
pub(crate) enum Says<'a> {
    C(&'a [u8]),
    S(&'a [u8]),
    /// Nothing, for so long that all transactions that are over were logged and freed.
    Wait,
}

/// The outcome of a session.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// Objects of the transactions, companions after them.
    pub(crate) records: Vec<String>,
    /// Names of events in the order raised, with their transactions.
    pub(crate) events: Vec<(u64, &'static str)>,
    /// Names, contents and states of files.
    pub(crate) files: Vec<(String, Vec<u8>, &'static str)>,
    /// Progress of each transaction.
    pub(crate) progress: Vec<[u8; 2]>,
    pub(crate) changes: Vec<Option<&'static str>>,
    pub(crate) expectations: usize,
    pub(crate) has_failed: bool,
}

/// Plays a session, each saying cut into pieces of at most `piece` bytes (0: uncut), and ends it.
pub(crate) fn play(
    protocol: &Protocol,
    config: Option<&Tree>,
    session: &[Says<'_>],
    piece: usize,
) -> Heard {
    let settings: Settings = (protocol.configure)(config).expect("settings");
    let mut parser = (protocol.open)(&settings, Transport::Tcp);
    let mut heard = Heard::default();
    let mut announced: Vec<Expectation> = Vec::new();
    let mut pending = [Vec::new(), Vec::new()];
    for says in session {
        let (d, bytes) = match says {
            Says::C(b) => (Direction::ToServer, *b),
            Says::S(b) => (Direction::ToClient, *b),
            Says::Wait => {
                free(protocol, parser.as_mut(), &mut heard);
                continue;
            }
        };
        for part in bytes.chunks(if piece == 0 { bytes.len().max(1) } else { piece }) {
            pending[d.index()].extend_from_slice(part);
            if !heard.has_failed {
                give(parser.as_mut(), d, &mut pending, false, &mut heard, &mut announced);
            }
        }
    }
    for d in Direction::BOTH {
        if !heard.has_failed {
            give(parser.as_mut(), d, &mut pending, true, &mut heard, &mut announced);
        }
        parser.finish(d);
    }
    heard.expectations = announced.len();
    for id in parser.first_tx_id()..parser.next_tx_id() {
        if let Some(tx) = parser.tx(id) {
            collect(protocol, tx, &mut heard);
        }
    }
    heard
}

fn give(
    parser: &mut dyn Parser,
    d: Direction,
    pending: &mut [Vec<u8>; 2],
    eof: bool,
    heard: &mut Heard,
    announced: &mut Vec<Expectation>,
) {
    let ends = Endpoints { ip_version: 4, is_tcp: true, ..Endpoints::default() };
    let mut cx = ParseContext::new(0, d, &ends);
    cx.requirements.file_data = true;
    let bytes = &mut pending[d.index()];
    match parser.parse(&mut cx, Input::Data { bytes, eof }) {
        Outcome::Done => bytes.clear(),
        Outcome::Incomplete { consumed, needed } => {
            bytes.drain(..consumed);
            assert!(needed > bytes.len());
        }
        Outcome::Error => heard.has_failed = true,
    }
    announced.append(&mut cx.expectations);
    if let Some(ProtocolChange { expected, .. }) = cx.change {
        heard.changes.push(expected);
    }
}

fn free(protocol: &Protocol, parser: &mut dyn Parser, heard: &mut Heard) {
    for id in parser.first_tx_id()..parser.next_tx_id() {
        let Some(tx) = parser.tx(id) else { continue };
        if Direction::BOTH.iter().all(|d| tx.progress(*d) > 0) {
            collect(protocol, tx, heard);
            parser.txs_mut().give_up(id);
        }
    }
}

fn collect(protocol: &Protocol, tx: &dyn Transaction, heard: &mut Heard) {
    let name = |code| protocol.table.events.iter().find(|e| e.code == code).map_or("?", |e| e.name);
    heard.events.extend(tx.events().iter().map(|code| (tx.id(), name(*code))));
    heard.progress.push(Direction::BOTH.map(|d| tx.progress(d)));
    for list in Direction::BOTH.into_iter().filter_map(|d| tx.files(d)) {
        for f in &list.files {
            let name = String::from_utf8_lossy(&f.name).into_owned();
            heard.files.push((name, f.content().0.to_vec(), f.state.name()));
        }
    }
    let mut json = Json::new();
    json.open();
    tx.log(&mut json, LogOptions::default());
    json.close();
    let mut text = String::from_utf8(json.take_bytes()).expect("records are text");
    let mut json = Json::new();
    json.open();
    if tx.companion().is_some() && tx.log_companion(&mut json, LogOptions::default()) {
        json.close();
        text.push_str(&String::from_utf8(json.take_bytes()).expect("records are text"));
    }
    heard.records.push(text);
}

/// The session in every way of cutting it gives the same.
pub(crate) fn in_any_split(
    protocol: &Protocol,
    config: Option<&Tree>,
    session: &[Says<'_>],
) -> Heard {
    let whole = play(protocol, config, session, 0);
    for piece in [1, 2, 3, 5, 7, 64, 1000, 4095, 4096, 4097] {
        let parts = play(protocol, config, session, piece);
        assert_eq!(parts, whole, "pieces of {piece}");
    }
    whole
}
