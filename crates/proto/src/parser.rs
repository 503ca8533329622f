//! The door every protocol implements: [`Parser`] for a flow.
//!
//! The engine calls [`Parser::parse`] with each piece of a direction's stream (or each datagram),
//! then looks at the transactions that changed.

use crate::frames::FrameNotes;
use crate::requirements::Requirements;
use crate::transaction::{Sparing, Transaction};
use crate::tx_list::TxTable;
use gabion_record::{Addr, Direction};

/// One piece of input of one direction.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Bytes that follow what was consumed before (a whole datagram over UDP). `eof` is true when
    /// no more bytes will come in this direction; the slice may then be empty.
    Data {
        /// The bytes.
        bytes: &'a [u8],
        /// Nothing follows.
        eof: bool,
    },
    /// That many bytes are lost for good. Only given to protocols that accept gaps.
    Gap {
        /// Bytes lost.
        len: u64,
    },
}

/// The outcome of a piece of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it was used.
    Done,
    /// `consumed` bytes were used; call again with the rest once at least `needed` bytes (counted
    /// from the first unused one) are there.
    Incomplete {
        /// Bytes used.
        consumed: usize,
        /// Bytes to wait for, at least one more than is left.
        needed: usize,
    },
    /// A stream can't be followed any more: no further input will be given in either direction. A
    /// datagram flow continues with its next datagram (both as in Suricata).
    Error,
}

/// Addresses and ports of the flow, client first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Endpoints {
    /// 4 or 6.
    pub ip_version: u8,
    /// Client address.
    pub client: Addr,
    /// Server address.
    pub server: Addr,
    /// Client port.
    pub client_port: u16,
    /// Server port.
    pub server_port: u16,
    /// Over TCP (else UDP).
    pub is_tcp: bool,
}

/// A flow that this one announces (an FTP data channel).
#[derive(Clone, Debug)]
pub struct Expectation {
    /// Direction of this flow whose sender will open the announced one, when known.
    pub direction: Direction,
    /// Side that listens: `None` port of the other side is open.
    pub client_port: Option<u16>,
    /// Port that will be connected to.
    pub server_port: Option<u16>,
    /// The listening address, when announced as another than the flow's own.
    pub address: Option<Addr>,
    /// Protocol of the announced flow (registry name).
    pub proto: &'static str,
    /// What the announced flow's parser is given on opening (file name, command…).
    pub payload: Vec<u8>,
}

/// A range of a file, of which other flows may carry the rest.
#[derive(Clone, Debug)]
pub struct FilePiece {
    /// Transaction that carried it.
    pub tx: u64,
    /// What it is a part of: the same for all parts.
    pub key: Vec<u8>,
    /// Name of the file.
    pub name: Vec<u8>,
    /// Place of its first byte.
    pub start: u64,
    /// Bytes of the whole file.
    pub whole: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A change of protocol in mid-flow (STARTTLS, CONNECT, upgrade).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolChange {
    /// Registry name of the protocol to expect, or `None` to detect it again.
    pub expected: Option<&'static str>,
    /// Port to use for probing, when another than the flow's.
    pub port: Option<u16>,
}

/// What a parser is given in addition to the bytes, and where it leaves what concerns the flow.
#[derive(Debug)]
pub struct ParseContext<'a> {
    /// Event time, nanoseconds since 1970.
    pub ts_ns: u64,
    /// Direction of the input.
    pub direction: Direction,
    /// The flow's addresses and ports.
    pub endpoints: &'a Endpoints,
    /// What is needed downstream.
    pub requirements: Requirements,
    /// EVE name of the protocol this flow had before it changed to the present one.
    pub changed_from: Option<&'static str>,
    /// Flows announced by this input.
    pub expectations: Vec<Expectation>,
    /// Ranges of files that ended with this input.
    pub pieces: Vec<FilePiece>,
    /// Protocol change requested by this input; the engine switches when the input is done.
    pub change: Option<ProtocolChange>,
    /// What the parser of the protocol that such a change expects is given, see [`Parser::expect`].
    pub handover: Vec<u8>,
    /// The flow turned out to be of this protocol (its registry name), which the same parser reads: its rules
    /// and records hold from now on.
    pub renamed: Option<&'static str>,
    /// Protocols that are parsed, one bit each by their place in the registry.
    pub parsed: u64,
    /// A change requested earlier is still under way (the expected protocol did not come): another
    /// can't be requested.
    pub is_changing: bool,
    /// Raw stream inspection of this direction is due now (a request or response is complete).
    pub trigger_raw: [bool; 2],
    /// The rest of the flow is of no use to any parser (encrypted): stop reassembly.
    pub stop_reassembly: bool,
    /// The rest of the flow is not to be inspected by payload rules (encrypted).
    pub stop_payload_inspection: bool,
    /// Stream data that is there is inspected once more, later data never (encrypted).
    pub stop_raw: bool,
    /// Nothing will be inspected after this input: what is left of both directions is due now.
    pub flush: bool,
    /// Frames that begin or end in this input.
    pub frames: FrameNotes,
    /// No rule looks at the transactions: what of them need not be kept.
    pub sparing: Option<Sparing>,
}

impl<'a> ParseContext<'a> {
    /// A context for one call.
    pub fn new(ts_ns: u64, direction: Direction, endpoints: &'a Endpoints) -> ParseContext<'a> {
        ParseContext {
            ts_ns,
            direction,
            endpoints,
            requirements: Requirements::default(),
            changed_from: None,
            expectations: Vec::new(),
            pieces: Vec::new(),
            change: None,
            handover: Vec::new(),
            renamed: None,
            parsed: u64::MAX,
            is_changing: false,
            trigger_raw: [false; 2],
            stop_reassembly: false,
            stop_payload_inspection: false,
            stop_raw: false,
            flush: false,
            frames: FrameNotes::default(),
            sparing: None,
        }
    }
}

impl ParseContext<'_> {
    /// Whether a protocol of the registry is parsed.
    pub fn is_parsed(&self, name: &str) -> bool {
        let at = crate::registry().iter().position(|p| p.table.name == name);
        at.is_some_and(|at| self.parsed.checked_shr(at as u32).is_some_and(|bits| bits & 1 != 0))
    }
}

/// Parser of one flow.
pub trait Parser: Send {
    /// Takes input of `cx.direction`.
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome;

    /// Its transactions.
    fn txs(&self) -> &dyn TxTable;

    /// The same, to be changed.
    fn txs_mut(&mut self) -> &mut dyn TxTable;

    /// Id of the oldest transaction that is still there (equal to [`Parser::next_tx_id`] when none).
    fn first_tx_id(&self) -> u64 {
        self.txs().first_id()
    }

    /// Id the next transaction will get.
    fn next_tx_id(&self) -> u64 {
        self.txs().next_id()
    }

    /// A transaction that is still there.
    fn tx(&self, id: u64) -> Option<&dyn Transaction> {
        self.txs().at(id)
    }

    /// The same, to be changed.
    fn tx_mut(&mut self, id: u64) -> Option<&mut dyn Transaction> {
        self.txs_mut().at_mut(id)
    }

    /// Frees a transaction; ids of others do not change.
    fn free(&mut self, id: u64) {
        self.txs_mut().give_up(id);
    }

    /// The direction has ended (FIN, RST, time-out, end of capture): mark transactions complete.
    fn finish(&mut self, direction: Direction) {
        let _ = direction;
    }

    /// Bytes held, for the budget.
    fn bytes_held(&self) -> usize;

    /// Bytes that it has made in addition to those it was given: what bodies were unpacked to, and what that
    /// takes. Only grows: where it has grown, the parser may hold as much more.
    fn bytes_made(&self) -> u64 {
        0
    }

    /// Whether it reads at all; a protocol that is only recognized does not, and its flows are left
    /// alone once it is known.
    fn follows(&self) -> bool {
        true
    }

    /// The ranges of a file are complete with a piece of this flow: its transaction gets the whole.
    fn add_whole(&mut self, piece: &FilePiece, content: &[u8]) {
        let _ = (piece, content);
    }

    /// What an expectation hands to this parser, see [`Expectation::payload`], or the protocol before this one,
    /// see [`ParseContext::handover`].
    fn expect(&mut self, payload: &[u8]) {
        let _ = payload;
    }
}
