//! Passes an adversary's bytes to a parser as the engine does, and measures their cost.
//!
//! The cost is work and memory, never time: bytes passed to the parser (bytes that it does not
//! consume and sees again count again, which shows quadratic parsers), bytes it holds, live
//! transactions. The tests set bounds to them; `docs/adversarial.md` lists the test for each input.
#![forbid(unsafe_code)]

use gabion_proto::{
    Endpoints, Input, LogOptions, Outcome, ParseContext, Parser, Requirements, Transaction,
};
use gabion_proto::{Protocol, registry};
use gabion_record::applayer::Transport;
use gabion_record::json::Json;
use gabion_record::{Addr, Direction};
use std::collections::BTreeSet;

/// The cost of a connection.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Bytes sent.
    pub said: u64,
    /// Bytes passed to the parser, counted again if it did not consume them.
    pub offered: u64,
    /// Most bytes held by the parser at any time.
    pub held_max: usize,
    /// Most bytes that waited before the parser.
    pub waiting_max: usize,
    /// Most live transactions.
    pub alive_max: u64,
    /// Transactions created.
    pub made: u64,
    /// Names of the events raised.
    pub events: BTreeSet<&'static str>,
    /// Directions that ended with an error.
    pub errors: u32,
}

/// A connection whose bytes go to a parser.
pub struct Connection {
    protocol: &'static Protocol,
    parser: Box<dyn Parser>,
    ends: Endpoints,
    transport: Transport,
    waiting: [Vec<u8>; 2],
    needed: [usize; 2],
    is_dead: [bool; 2],
    is_freed: bool,
    /// The cost so far.
    pub account: Account,
}

impl Connection {
    /// Creates a connection with a protocol's parser and default settings.
    ///
    /// # Panics
    /// If there is no such protocol.
    #[must_use]
    pub fn with_protocol(name: &str, transport: Transport) -> Connection {
        let protocol = registry().iter().find(|p| p.table.name == name);
        let protocol = protocol.unwrap_or_else(|| panic!("there is no protocol {name}"));
        let settings = (protocol.configure)(None).expect("the defaults are valid settings");
        Connection {
            protocol,
            parser: (protocol.open)(&settings, transport),
            ends: Endpoints {
                ip_version: 4,
                client: Addr::v4([10, 0, 0, 1]),
                server: Addr::v4([10, 0, 0, 2]),
                client_port: 40_000,
                server_port: 80,
                is_tcp: transport == Transport::Tcp,
            },
            transport,
            waiting: [Vec::new(), Vec::new()],
            needed: [0; 2],
            is_dead: [false; 2],
            is_freed: false,
            account: Account::default(),
        }
    }

    /// Frees complete transactions, as the engine does.
    #[must_use]
    pub fn freeing(mut self) -> Connection {
        self.is_freed = true;
        self
    }

    /// The client sends bytes.
    pub fn client(&mut self, bytes: &[u8]) {
        self.send(Direction::ToServer, bytes);
    }

    /// The server sends bytes.
    pub fn server(&mut self, bytes: &[u8]) {
        self.send(Direction::ToClient, bytes);
    }

    /// Sends bytes in pieces of `piece` bytes.
    pub fn in_pieces(&mut self, side: Direction, bytes: &[u8], piece: usize) {
        for part in bytes.chunks(piece.max(1)) {
            self.send(side, part);
        }
    }

    /// Sends bytes in one segment or datagram.
    pub fn send(&mut self, side: Direction, bytes: &[u8]) {
        let i = side.index();
        if self.is_dead[i] {
            return;
        }
        self.account.said += bytes.len() as u64;
        if self.transport != Transport::Tcp {
            self.feed(side, bytes, false);
            return;
        }
        self.waiting[i].extend_from_slice(bytes);
        self.account.waiting_max = self.account.waiting_max.max(self.waiting[i].len());
        if self.waiting[i].len() < self.needed[i] {
            return;
        }
        let all = std::mem::take(&mut self.waiting[i]);
        self.needed[i] = 0;
        match self.feed(side, &all, false) {
            Outcome::Done => {}
            Outcome::Incomplete { consumed, needed } => {
                self.needed[i] = needed;
                self.waiting[i] = all.get(consumed..).unwrap_or_default().to_vec();
            }
            Outcome::Error => {
                self.is_dead[i] = true;
                self.account.errors += 1;
            }
        }
    }

    /// Ends both sides.
    pub fn end(&mut self) {
        for side in Direction::BOTH {
            let all = std::mem::take(&mut self.waiting[side.index()]);
            if !self.is_dead[side.index()] && self.transport == Transport::Tcp {
                self.feed(side, &all, true);
            }
            self.parser.finish(side);
        }
        self.measure();
    }

    fn feed(&mut self, side: Direction, bytes: &[u8], eof: bool) -> Outcome {
        self.account.offered += bytes.len() as u64;
        let ends = self.ends;
        let mut cx = ParseContext::new(1_700_000_000_000_000_000, side, &ends);
        cx.requirements = Requirements {
            file_data: true,
            md5: true,
            sha1: true,
            sha256: true,
            ja3: true,
            hassh: true,
            ..Requirements::default()
        };
        let outcome = self.parser.parse(&mut cx, Input::Data { bytes, eof });
        self.measure();
        outcome
    }

    fn measure(&mut self) {
        let (first, next) = (self.parser.first_tx_id(), self.parser.next_tx_id());
        let a = &mut self.account;
        a.held_max = a.held_max.max(self.parser.bytes_held());
        a.made = a.made.max(next);
        a.alive_max = a.alive_max.max(next - first);
        // Only the youngest change; checking all of them each time would be quadratic in this test.
        for id in first.max(next.saturating_sub(4))..next {
            self.note(id);
        }
        if self.is_freed {
            for id in first..next {
                let Some(tx) = self.parser.tx(id) else { continue };
                let table = &self.protocol.table;
                let is_complete = Direction::BOTH.into_iter().all(|d| {
                    tx.only().is_some_and(|only| only != d) || tx.progress(d) >= table.last_state(d)
                });
                if !is_complete {
                    break;
                }
                self.note(id);
                self.parser.free(id);
            }
        }
    }

    fn note(&mut self, id: u64) {
        let Some(tx) = self.parser.tx(id) else { return };
        for code in tx.events() {
            let def = self.protocol.table.events.iter().find(|e| e.code == *code);
            self.account.events.extend(def.map(|d| d.name));
        }
    }

    /// The live transactions.
    pub fn transactions(&self) -> impl Iterator<Item = &dyn Transaction> {
        (self.parser.first_tx_id()..self.parser.next_tx_id()).filter_map(|id| self.parser.tx(id))
    }

    /// The record of a transaction as it would be logged.
    #[must_use]
    pub fn record(tx: &dyn Transaction) -> String {
        let mut json = Json::new();
        json.open();
        tx.log(&mut json, LogOptions::default());
        json.close();
        String::from_utf8(json.take_bytes()).unwrap_or_default()
    }
}
