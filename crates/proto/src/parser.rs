//! The door every protocol implements: [`Parser`] for a flow, [`Transaction`] for one exchange.
//!
//! The engine calls [`Parser::parse`] with each piece of a direction's stream (or each datagram),
//! then looks at the transactions that changed: their progress decides which buffers may be
//! inspected and logged; a transaction that is complete in both directions and has been inspected
//! and logged is freed by the engine.

use crate::files::FileList;
use crate::frames::FrameNotes;
use crate::tx_list::TxTable;
use gabion_record::json::Json;
use gabion_record::{Addr, Direction, Tree};
use smallvec::SmallVec;
use std::any::Any;

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

/// What became of a piece of input.
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
    /// datagram flow goes on with its next datagram (both as in the peer).
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
    /// Registry name of the protocol to expect, or `None` to detect anew.
    pub expected: Option<&'static str>,
    /// Port to use for probing, when another than the flow's.
    pub port: Option<u16>,
}

/// What somebody downstream needs; parsers skip work that nobody asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// JA3 and JA3S.
    pub ja3: bool,
    /// JA4.
    pub ja4: bool,
    /// hassh.
    pub hassh: bool,
    /// MD5 of files.
    pub md5: bool,
    /// SHA-1 of files.
    pub sha1: bool,
    /// SHA-256 of files.
    pub sha256: bool,
    /// What files are by their first bytes.
    pub magic: bool,
    /// Content of files kept until inspected or stored.
    pub file_data: bool,
    /// All files go to the file store.
    pub store_files: bool,
    /// Bytes of a stored file at most, where a protocol limits what it inspects to less (0: no
    /// limit).
    pub store_depth: u64,
    /// Nobody looks into bodies of messages, nor at files in them or events about them: they are
    /// measured as they were sent, and not unpacked.
    pub bodies_unseen: bool,
}

/// What need not be kept of a flow whose transactions no rule looks at: one that is over before
/// another two have come is known by its records alone, and of those a flow has only so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sparing {
    /// Progress to server and to client at which a transaction is over.
    pub last: [u8; 2],
    /// A transaction has a record.
    pub has_records: bool,
    /// So has each of its events.
    pub has_event_records: bool,
    /// Records that the flow may have yet.
    pub left: u64,
    /// Records of transactions that were not kept.
    pub refused: u64,
}

impl Sparing {
    /// Whether a transaction is kept of which another two have come behind. Its records are taken from
    /// those left.
    pub fn keeps(&mut self, is: &Standing) -> bool {
        if !is.has_reached(self.last, None) || is.has_files {
            return true;
        }
        let (events, keeps) = (is.events as u64, !self.refuses(is.events as u64));
        if keeps {
            self.left -= self.records(events);
        }
        keeps
    }

    /// Records of a transaction that is over with so many events.
    fn records(&self, events: u64) -> u64 {
        u64::from(self.has_records) + if self.has_event_records { events } else { 0 }
    }

    /// Whether nobody sees a transaction that is over with so many events: its records are refused.
    pub fn refuses(&mut self, events: u64) -> bool {
        let records = self.records(events);
        let is_seen = records > 0 && records <= self.left;
        if !is_seen {
            self.refused += records;
        }
        !is_seen
    }
}

/// What a parser is given beside the bytes, and where it leaves what concerns the flow.
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
    /// A change requested earlier is still under way (the expected protocol did not come): another
    /// can't be requested.
    pub is_changing: bool,
    /// Raw stream inspection of this direction is due now (a request or response is complete).
    pub trigger_raw: [bool; 2],
    /// The rest of the flow is of no use to any parser (encrypted): stop reassembly.
    pub stop_reassembly: bool,
    /// The rest of the flow is not to be inspected by payload rules (encrypted).
    pub stop_payload_inspection: bool,
    /// Nothing will be inspected behind this input: what is left of both directions is due now.
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
            is_changing: false,
            trigger_raw: [false; 2],
            stop_reassembly: false,
            stop_payload_inspection: false,
            flush: false,
            frames: FrameNotes::default(),
            sparing: None,
        }
    }
}

/// The bytes of a buffer, or of the window of a streaming buffer that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer<'a> {
    /// The bytes.
    pub data: &'a [u8],
    /// Position of the first byte in the whole buffer (0 unless streaming).
    pub start: u64,
    /// No further bytes will come.
    pub is_complete: bool,
}

impl<'a> Buffer<'a> {
    /// A buffer that is whole.
    pub const fn whole(data: &'a [u8]) -> Buffer<'a> {
        Buffer { data, start: 0, is_complete: true }
    }
}

/// How the engine asks for a buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inspect {
    /// Bytes of a streaming buffer that were inspected before (end of the last window).
    pub inspected: u64,
    /// The flow or direction has ended: what is there is all there is.
    pub at_end: bool,
    /// Inline mode: inspect every piece at once.
    pub inline: bool,
}

/// How a log record is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogOptions<'a> {
    /// The record's own configuration (`outputs.eve-log.types.http`). `None` when the type is only
    /// named (`- tls`), which is less than a node without children (`- tls:`).
    pub config: Option<&'a Tree>,
    /// The object goes into an alert, which logs less or more in some protocols.
    pub in_alert: bool,
    /// Which of its [`Transaction::log_parts`] records is wanted.
    pub part: usize,
}

/// One exchange of a protocol: a request with its response, a message, a session's handshake.
pub trait Transaction: Any + Send {
    /// Number of the transaction in its flow, from 0.
    fn id(&self) -> u64;

    /// How far it got in that direction: an index into the protocol's states.
    fn progress(&self, direction: Direction) -> u8;

    /// Only that direction exists (a DNS query is a transaction of its own): the other one is not
    /// inspected and counts as complete.
    fn only(&self) -> Option<Direction> {
        None
    }

    /// Instance `index` of buffer `local` in that direction; `None` when there is no such instance
    /// (or no window of a streaming buffer is due).
    fn buffer(
        &self,
        local: u16,
        direction: Direction,
        index: usize,
        how: Inspect,
    ) -> Option<Buffer<'_>>;

    /// Value `index` of integer `local` in that direction.
    fn integer(&self, local: u16, direction: Direction, index: usize) -> Option<u64> {
        let _ = (local, direction, index);
        None
    }

    /// Codes of the events raised so far, oldest first. Those of a direction are inspected with it.
    fn events(&self) -> &[u16];

    /// Files carried in that direction.
    fn files(&self, direction: Direction) -> Option<&FileList> {
        let _ = direction;
        None
    }

    /// The same, to mark what was logged and stored and to give back content.
    fn files_mut(&mut self, direction: Direction) -> Option<&mut FileList> {
        let _ = direction;
        None
    }

    /// Least progress to server and to client at which the record may be logged; `None`: when
    /// complete in both directions.
    fn log_progress(&self) -> Option<(u8, u8)> {
        None
    }

    /// Writes the record's object members into `json` (already opened) and says whether there was
    /// anything to log. EVE's `event_type` is the protocol's, unless [`Transaction::event_type`]
    /// says otherwise.
    fn log(&self, json: &mut Json, how: LogOptions<'_>) -> bool;

    /// Key of a second object that stands behind the transaction's own (`email` behind `smtp`).
    fn companion(&self) -> Option<&'static str> {
        None
    }

    /// Writes the members of the second object and says whether there were any.
    fn log_companion(&self, json: &mut Json, how: LogOptions<'_>) -> bool {
        let _ = (json, how);
        false
    }

    /// How many instances a growing buffer has: each has its own windows, and that none is due of
    /// one says nothing of the next.
    fn streams(&self, local: u16, direction: Direction) -> usize {
        let _ = (local, direction);
        1
    }

    /// EVE `event_type` and key of this transaction when it is not the protocol's own.
    fn event_type(&self) -> Option<&'static str> {
        None
    }

    /// Records this transaction is logged as (one, but for DNS in its older format).
    fn log_parts(&self, how: LogOptions<'_>) -> usize {
        let _ = how;
        1
    }

    /// Direction whose sender is the `src` of the record (records go client to server unless a
    /// transaction is only to the client).
    fn log_direction(&self, how: LogOptions<'_>) -> Direction {
        let _ = how;
        self.only().unwrap_or(Direction::ToServer)
    }

    /// Key shared with a later transaction of the flow that belongs to this one: what a rule's
    /// `config: …, scope tx` set for this one holds for that one too (a DNS query and its response).
    fn pair_key(&self) -> Option<u64> {
        None
    }

    /// The certificates that a side of an encrypted session showed.
    fn certificates(&self, direction: Direction) -> Option<CertificateChain<'_>> {
        let _ = direction;
        None
    }

    /// The client's address as a proxy before the server noted it in a header of that name: the
    /// first one, or the last.
    fn forwarded_for(&self, header: &str, take_last: bool) -> Option<std::net::IpAddr> {
        let _ = (header, take_last);
        None
    }

    /// Itself, for conditions that know its type.
    fn as_any(&self) -> &dyn Any;

    /// How far it is, all at once: asked of each transaction with each packet.
    fn standing(&self) -> Standing {
        Standing {
            only: self.only(),
            progress: Direction::BOTH.map(|d| self.progress(d)),
            log_progress: self.log_progress(),
            events: self.events().len(),
            has_files: Direction::BOTH.iter().any(|d| self.files(*d).is_some()),
        }
    }
}

/// How far a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// See [`Transaction::only`].
    pub only: Option<Direction>,
    /// [`Transaction::progress`] to server and to client.
    pub progress: [u8; 2],
    /// See [`Transaction::log_progress`].
    pub log_progress: Option<(u8, u8)>,
    /// How many [`Transaction::events`] there are.
    pub events: usize,
    /// There are [`Transaction::files`] in some direction.
    pub has_files: bool,
}

impl Standing {
    /// Whether it has come so far in both directions. `seen` is the only direction there is of a
    /// one-sided flow: nothing will come in the other.
    pub fn has_reached(&self, wanted: [u8; 2], seen: Option<Direction>) -> bool {
        Direction::BOTH
            .iter()
            .all(|d| self.is_without(*d, seen) || self.progress[d.index()] >= wanted[d.index()])
    }

    /// Whether nothing is to come in a direction.
    pub fn is_without(&self, direction: Direction, seen: Option<Direction>) -> bool {
        self.only.or(seen).is_some_and(|only| only != direction)
    }
}

/// Certificates that a side showed.
#[derive(Clone, Copy, Debug)]
pub struct CertificateChain<'a> {
    /// All of them, DER.
    pub chain: &'a [Vec<u8>],
    /// Subject of the first.
    pub subject: &'a [u8],
    /// Its issuer.
    pub issuer: &'a [u8],
    /// Its SHA-1, hex pairs with colons.
    pub fingerprint: &'a [u8],
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

    /// Bytes that it has made beside those it was given: what bodies were unpacked to, and what that
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

    /// What this parser was told by an expectation, see [`Expectation::payload`].
    fn expect(&mut self, payload: &[u8]) {
        let _ = payload;
    }
}

/// Event codes of a transaction: a short list with a limit.
#[derive(Clone, Debug, Default)]
pub struct EventList {
    codes: SmallVec<[u16; 4]>,
}

impl EventList {
    /// Adds an event (each code once, at most [`crate::limits::EVENTS_PER_TX_MAX`]).
    pub fn set(&mut self, code: u16) {
        if !self.codes.contains(&code)
            && crate::limits::reached::EVENTS_PER_TX_MAX.has_room(self.codes.len())
        {
            self.codes.push(code);
        }
    }

    /// Adds an event each time it occurs, at most
    /// [`crate::limits::EVENT_OCCURRENCES_PER_TX_MAX`] in all.
    pub fn add(&mut self, code: u16) {
        if crate::limits::reached::EVENT_OCCURRENCES_PER_TX_MAX.has_room(self.codes.len()) {
            self.codes.push(code);
        }
    }

    /// The codes, oldest first.
    pub fn codes(&self) -> &[u16] {
        &self.codes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{EVENT_OCCURRENCES_PER_TX_MAX, EVENTS_PER_TX_MAX, reached};

    #[test]
    fn events_beyond_the_limits_are_counted() {
        let (mut kinds, mut occurrences) = (EventList::default(), EventList::default());
        for n in 0..EVENTS_PER_TX_MAX as u16 + 3 {
            kinds.set(n);
            kinds.set(n.min(7));
        }
        for _ in 0..EVENT_OCCURRENCES_PER_TX_MAX + 5 {
            occurrences.add(1);
        }
        assert_eq!(kinds.codes().len(), EVENTS_PER_TX_MAX);
        assert_eq!(occurrences.codes().len(), EVENT_OCCURRENCES_PER_TX_MAX);
        let counts = gabion_record::limits::take();
        assert_eq!(counts.of(&reached::EVENTS_PER_TX_MAX), 3);
        assert_eq!(counts.of(&reached::EVENT_OCCURRENCES_PER_TX_MAX), 5);
    }
}
