//! The parser of a flow: both directions, their transactions and what passes between them.
//!
//! Each direction is a small state machine (`super::request`, `super::response`) over the bytes
//! that arrive; a step either continues, asks for more bytes or fails. Requests and responses are
//! matched by order. A server may answer before the request is over, clients may send many requests
//! before the first answer, and either direction may begin in the middle: all of that is counted
//! as events, not as errors, as long as the direction can be followed.

use super::buffers::frame;
use super::decoder::Unpacking;
use super::events::Event;
use super::limits::{SPARE_BYTES_MAX, SPARE_MAX, WARNINGS_MAX};
use super::message::{FileContext, Tx};
use super::settings::{Config, Settings};
use crate::FilePiece;
use crate::files::FileState;
use crate::tx_list::{Changed, TxTable};
use crate::{Endpoints, Input, Outcome, ParseContext, Parser, Transaction};
use gabion_record::Direction;
use std::collections::VecDeque;
use std::sync::Arc;

/// Why a state machine stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// It needs more bytes.
    More,
    /// It waits for the other direction; the rest of the bytes is kept.
    Wait,
    /// What follows isn't HTTP/1 any more.
    Tunnel,
    /// The direction can't be followed any more.
    Fail,
}

/// The state of a direction, between messages and inside of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// Between messages.
    #[default]
    Idle,
    /// In the first line.
    Line,
    /// Behind a request line without protocol: what follows decides whether it is HTTP/0.9.
    Version,
    /// In the header block.
    Headers,
    /// After a CONNECT: the server decides how the flow continues.
    ConnectWait,
    /// Behind an accepted CONNECT.
    ConnectProbe,
    /// Behind a response's header block.
    BodyDetermine,
    /// In a body of known length.
    BodyLength,
    /// In a body that ends with the connection.
    BodyClose,
    /// Before a chunk.
    ChunkSize,
    /// In a chunk.
    ChunkData,
    /// Behind a chunk.
    ChunkEnd,
    /// Behind the message.
    Finalize,
    /// Behind an HTTP/0.9 request nothing can follow.
    Ignore,
}

/// One direction.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) state: State,
    /// Transaction the direction is at.
    pub(crate) id: u64,
    /// Beginning of a line whose end has not come.
    pub(crate) line: Vec<u8>,
    /// Bytes read ahead and returned, or waiting for the other direction.
    pub(crate) carry: Vec<u8>,
    /// Bytes of the body or chunk still to come.
    pub(crate) left: u64,
    /// Nothing more will come.
    pub(crate) is_closed: bool,
    /// Not HTTP/1 any more.
    pub(crate) is_tunnel: bool,
    /// Bytes so far of a line that is no chunk size: it counts twice into the message's length, as
    /// framing and as body (as Suricata has it).
    pub(crate) counts_twice: Option<u64>,
    /// A CR that comes next belongs to the line end before it.
    pub(crate) skips_cr: bool,
    /// The piece at hand began inside of the first line.
    began_in_line: bool,
    has_failed: bool,
}

/// Bytes being read.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    data: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Cursor<'a> {
    /// Nothing to read.
    pub(crate) fn empty() -> Cursor<'static> {
        Cursor { data: &[], at: 0 }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.data.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at >= self.data.len()
    }

    /// Takes `n` bytes (all that are left, if fewer).
    pub(crate) fn take_bytes(&mut self, n: usize) -> &'a [u8] {
        let rest = self.rest();
        let taken = &rest[..n.min(rest.len())];
        self.at += taken.len();
        taken
    }
}

/// Parser of an HTTP/1 flow.
#[derive(Debug)]
pub(crate) struct Http1 {
    settings: Arc<Settings>,
    config: Option<Arc<Config>>,
    /// Transactions from id `first` on.
    txs: VecDeque<Option<Box<Tx>>>,
    first: u64,
    alive: usize,
    /// Those that may have changed: a packet looks at no others where many are open.
    changed: Changed,
    #[allow(clippy::vec_box)] // They move to `txs` and back: a kilobyte each.
    spare: Vec<Box<Tx>>,
    pub(crate) request: Stream,
    pub(crate) response: Stream,
    pub(crate) files: FileContext,
    /// Nobody looks into bodies.
    pub(crate) bodies_unseen: bool,
    /// Ranges that ended and were not handed on yet.
    pub(crate) pieces: Vec<FilePiece>,
    /// Compression bombs met in this flow.
    pub(crate) bombs: u8,
    /// What bodies of this flow were unpacked to.
    pub(crate) unpacking: Unpacking,
    /// Responses that are over.
    pub(crate) responses: u64,
    warnings: u32,
    /// Requests before this one have released what rules had made of them.
    released: u64,
    /// The response's transaction before the piece at hand, and its events then.
    events_before: (u64, usize),
    /// What is found out when a direction ends is not reported, as in Suricata.
    is_closing: bool,
}

impl Http1 {
    /// The response's transaction before the piece at hand, and its events then.
    pub(crate) fn events_before(&self) -> (u64, usize) {
        self.events_before
    }

    pub(crate) fn new(settings: Arc<Settings>) -> Http1 {
        Http1 {
            settings,
            config: None,
            txs: VecDeque::new(),
            first: 0,
            alive: 0,
            changed: Changed::default(),
            spare: Vec::new(),
            request: Stream::default(),
            response: Stream::default(),
            files: FileContext::default(),
            bodies_unseen: false,
            pieces: Vec::new(),
            bombs: 0,
            unpacking: Unpacking::default(),
            responses: 0,
            warnings: 0,
            released: 0,
            events_before: (0, 0),
            is_closing: false,
        }
    }

    /// The settings that hold for this flow.
    pub(crate) fn config(&mut self, endpoints: &Endpoints) -> Arc<Config> {
        let settings = &self.settings;
        Arc::clone(self.config.get_or_insert_with(|| settings.for_server(endpoints)))
    }

    pub(crate) fn stream(&mut self, direction: Direction) -> &mut Stream {
        match direction {
            Direction::ToServer => &mut self.request,
            Direction::ToClient => &mut self.response,
        }
    }

    fn index(&self, id: u64) -> Option<usize> {
        usize::try_from(id.checked_sub(self.first)?).ok().filter(|i| *i < self.txs.len())
    }

    fn slot(&mut self, id: u64) -> Option<&mut Tx> {
        let i = self.index(id)?;
        self.changed.add(id, self.alive);
        self.txs.get_mut(i)?.as_deref_mut()
    }

    /// Frees what rules had made of the requests that are over: they were inspected with the pieces before, and a client
    /// may send hundreds of them before the first response. What asks once more has it made again.
    fn release_views(&mut self) {
        let over = self.request.id.min(self.first + self.txs.len() as u64);
        for id in self.released.max(self.first)..over {
            let tx = self.index(id).and_then(|i| self.txs.get_mut(i)?.as_deref_mut());
            tx.into_iter().for_each(|tx| tx.request.forget_views());
        }
        self.released = self.released.max(over);
    }

    /// The transaction a direction is at, if it is there.
    pub(crate) fn current(&mut self, direction: Direction) -> Option<&mut Tx> {
        let id = self.stream(direction).id;
        self.slot(id)
    }

    /// The same; one that is gone can't be followed.
    pub(crate) fn tx_at(&mut self, direction: Direction) -> Result<&mut Tx, Halt> {
        self.current(direction).ok_or(Halt::Fail)
    }

    /// Makes the transaction the direction is at, unless the other one made it already.
    pub(crate) fn begin(&mut self, direction: Direction, config: &Arc<Config>) -> Result<(), Halt> {
        let id = self.stream(direction).id;
        if self.index(id).is_some() {
            return Ok(());
        }
        if self.alive >= config.max_tx {
            return Err(Halt::Fail);
        }
        // One that was freed too early can't come back: continue with the next.
        let next = self.first + self.txs.len() as u64;
        let id = id.max(next);
        self.stream(direction).id = id;
        while self.first + self.txs.len() as u64 <= id {
            let next = self.first + self.txs.len() as u64;
            let tx = match self.spare.pop() {
                Some(mut tx) => {
                    tx.reset(next);
                    tx
                }
                None => Box::new(Tx::new(next, Arc::clone(config))),
            };
            self.txs.push_back(Some(tx));
            self.alive += 1;
            self.changed.add(next, self.alive);
        }
        Ok(())
    }

    /// Notes an irregularity of the present transaction of a direction, or of the previous one.
    pub(crate) fn warn(&mut self, direction: Direction, event: Event) {
        self.warnings = self.warnings.saturating_add(1);
        if self.warnings > WARNINGS_MAX || self.is_closing {
            return;
        }
        let is_last = self.warnings == WARNINGS_MAX;
        let id = self.stream(direction).id;
        let id = if self.index(id).is_some() { id } else { id.saturating_sub(1) };
        if let Some(tx) = self.slot(id) {
            tx.raise(event);
            if is_last {
                tx.raise(Event::TooManyWarnings);
            }
        }
    }

    /// The position of a direction: its state, its transaction and the stream offset of the first byte
    /// that belongs to nothing yet. `used` bytes of input and carry were read.
    fn standing(
        &mut self,
        cx: &ParseContext<'_>,
        direction: Direction,
        used: usize,
        carried: usize,
    ) -> (State, u64, u64) {
        let at = cx.frames.at[direction.index()];
        let stream = self.stream(direction);
        let kept = carried + stream.carry.len() + stream.line.len();
        (stream.state, stream.id, (at + used as u64).saturating_sub(kept as u64))
    }

    /// Hides a first line that is complete from rules, if its message began with an earlier piece and the piece at hand ends
    /// with it: Suricata 8.0.7 looks at a transaction when a message begins and when its header block grows, not when its
    /// line ends.
    pub(crate) fn hide_line(&mut self, direction: Direction, is_last: bool) {
        let stream = self.stream(direction);
        let is_complete = matches!(stream.state, State::Headers | State::Version);
        if !is_complete || !is_last || !stream.began_in_line || stream.is_closed {
            return;
        }
        if let Some(tx) = self.current(direction) {
            tx.message_mut(direction).is_line_hidden = true;
        }
    }

    /// More of a header block has come: a line that was hidden is shown, and views of the block are made again.
    pub(crate) fn head_grows(&mut self, direction: Direction) {
        if let Some(tx) = self.current(direction) {
            let m = tx.message_mut(direction);
            m.is_line_hidden = false;
            m.forget_views();
        }
    }

    /// Runs a direction over `bytes`, after what it had kept.
    fn run(&mut self, cx: &mut ParseContext<'_>, direction: Direction, bytes: &[u8]) -> Outcome {
        let stream = self.stream(direction);
        stream.began_in_line = stream.state == State::Line;
        let mut used = 0;
        loop {
            let carry = std::mem::take(&mut self.stream(direction).carry);
            let is_carry = !carry.is_empty();
            let data =
                if is_carry { carry.as_slice() } else { bytes.get(used..).unwrap_or_default() };
            let mut cursor = Cursor { data, at: 0 };
            let carried = if is_carry { data.len() } else { 0 };
            let halt = loop {
                let watched = cx.frames.wanted != 0;
                let before =
                    watched.then(|| self.standing(cx, direction, used + cursor.at, carried));
                let step = match direction {
                    Direction::ToServer => self.request_step(cx, &mut cursor),
                    Direction::ToClient => self.response_step(cx, &mut cursor),
                };
                if let Some(before) = before {
                    let after = self.standing(cx, direction, used + cursor.at, carried);
                    note_frame(cx, direction, before, after);
                }
                if let Err(halt) = step {
                    break halt;
                }
                if !self.stream(direction).carry.is_empty() {
                    break Halt::More;
                }
            };
            let at = cursor.at;
            if !is_carry {
                used += at;
            }
            match halt {
                Halt::More => {
                    if is_carry {
                        let read_ahead = std::mem::take(&mut self.stream(direction).carry);
                        let unread = carry.get(at..).unwrap_or_default();
                        let is_stuck = read_ahead.is_empty() && at == 0;
                        let stream = self.stream(direction);
                        stream.carry = read_ahead;
                        if is_stuck {
                            stream.carry.extend_from_slice(unread);
                            stream.carry.extend_from_slice(bytes.get(used..).unwrap_or_default());
                            return Outcome::Done;
                        }
                        stream.carry.extend_from_slice(unread);
                    }
                    let more = self.stream(direction).carry.is_empty() && used >= bytes.len();
                    let stuck = !is_carry && at == 0 && self.stream(direction).carry.is_empty();
                    if more || stuck {
                        return Outcome::Done;
                    }
                }
                Halt::Wait => {
                    let rest = if is_carry { carry.get(at..) } else { None }.unwrap_or_default();
                    let mut kept = rest.to_vec();
                    kept.extend_from_slice(bytes.get(used..).unwrap_or_default());
                    if !crate::limits::reached::PENDING_BYTES_MAX.holds(kept.len()) {
                        kept.clear();
                    }
                    self.stream(direction).carry = kept;
                    return Outcome::Done;
                }
                Halt::Tunnel => {
                    self.stream(direction).is_tunnel = true;
                    let left = bytes.len().saturating_sub(used);
                    if cx.change.is_some() && left > 0 {
                        return Outcome::Incomplete { consumed: used, needed: left };
                    }
                    return Outcome::Done;
                }
                Halt::Fail => {
                    self.stream(direction).has_failed = true;
                    return Outcome::Error;
                }
            }
        }
    }

    fn data(&mut self, cx: &mut ParseContext<'_>, direction: Direction, bytes: &[u8]) -> Outcome {
        let stream = self.stream(direction);
        if stream.has_failed {
            return Outcome::Error;
        }
        if stream.is_tunnel {
            return Outcome::Done;
        }
        let outcome = self.run(cx, direction, bytes);
        // A response may set free what the request direction had to keep.
        if direction == Direction::ToClient
            && !self.request.carry.is_empty()
            && !self.request.has_failed
            && !self.request.is_tunnel
        {
            self.run(cx, Direction::ToServer, &[]);
        }
        outcome
    }

    /// Nothing more will come in a direction.
    fn close(&mut self, cx: &mut ParseContext<'_>, direction: Direction) {
        let both = [Direction::ToServer, Direction::ToClient];
        let closing = match direction {
            Direction::ToServer => &both[..1],
            // A server that has closed reads no more.
            Direction::ToClient => &both[..],
        };
        for d in closing {
            let stream = self.stream(*d);
            if !stream.is_closed && !stream.has_failed && !stream.is_tunnel {
                stream.is_closed = true;
                self.is_closing = true;
                self.run(cx, *d, &[]);
                self.is_closing = false;
            }
        }
    }

    fn gap(&mut self, cx: &mut ParseContext<'_>, direction: Direction, len: u64) -> Outcome {
        let stream = self.stream(direction);
        if stream.has_failed {
            return Outcome::Error;
        }
        if stream.is_tunnel {
            return Outcome::Done;
        }
        // Nothing was seen before it: the message's beginning is lost, and the rest is read as a new one.
        if stream.id == 0 && stream.state == State::Idle && self.txs.is_empty() {
            return Outcome::Done;
        }
        let is_invalid = match direction {
            Direction::ToServer => self.request_gap(cx, len),
            Direction::ToClient => self.response_gap(cx, len),
        };
        if is_invalid {
            self.warn(direction, Event::InvalidGap);
        }
        Outcome::Done
    }
}

/// A message begins where a direction leaves the state between messages, and ends where it comes
/// back to it.
fn note_frame(
    cx: &mut ParseContext<'_>,
    direction: Direction,
    before: (State, u64, u64),
    after: (State, u64, u64),
) {
    let kind = match direction {
        Direction::ToServer => frame::REQUEST,
        Direction::ToClient => frame::RESPONSE,
    };
    let is_between = |s: State| matches!(s, State::Idle | State::Ignore);
    match (is_between(before.0), is_between(after.0)) {
        (true, false) => cx.frames.begin(direction, kind, before.2, Some(after.1)),
        (false, true) => cx.frames.end(direction, kind, after.2),
        _ => {}
    }
}

impl Parser for Http1 {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        self.files.wants = cx.requirements.into();
        self.files.store_depth = cx.requirements.store_depth;
        self.bodies_unseen = cx.requirements.bodies_unseen;
        self.config(cx.endpoints);
        let direction = cx.direction;
        if direction == Direction::ToServer && self.released < self.request.id {
            self.release_views();
        }
        let id = self.response.id;
        let tx = self.index(id).and_then(|i| self.txs.get(i)?.as_deref());
        self.events_before = (id, tx.map_or(0, |tx| tx.events.codes().len()));
        let outcome = match input {
            Input::Gap { len } => self.gap(cx, direction, len),
            Input::Data { bytes, eof } => {
                let mut outcome = Outcome::Done;
                if !bytes.is_empty() {
                    outcome = self.data(cx, direction, bytes);
                }
                if eof && outcome == Outcome::Done {
                    self.close(cx, direction);
                }
                outcome
            }
        };
        cx.pieces.append(&mut self.pieces);
        outcome
    }

    fn add_whole(&mut self, piece: &FilePiece, content: &[u8]) {
        let mut files = self.files;
        if let Some(tx) = self.slot(piece.tx)
            && let Some(file) = tx.response.open_file(&piece.name, Direction::ToClient, &mut files)
        {
            file.append(content);
            file.close(FileState::Closed);
        }
        self.files = files;
    }

    fn txs(&self) -> &dyn TxTable {
        self
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        self
    }

    fn finish(&mut self, direction: Direction) {
        let endpoints = Endpoints::default();
        let mut cx = ParseContext::new(0, direction, &endpoints);
        if self.config.is_some() {
            self.close(&mut cx, direction);
        }
        self.changed.add_all();
        for tx in self.txs.iter_mut().flatten() {
            match direction {
                Direction::ToServer => tx.request.end(),
                Direction::ToClient => tx.response.end(),
            }
        }
    }

    fn bytes_held(&self) -> usize {
        let txs: usize = self.txs.iter().flatten().map(|t| t.bytes_held()).sum();
        let spare: usize = self.spare.iter().map(|t| t.bytes_held()).sum();
        let streams = [&self.request, &self.response];
        let kept: usize = streams.iter().map(|s| s.line.capacity() + s.carry.capacity()).sum();
        size_of::<Http1>() + txs + spare + kept
    }

    fn bytes_made(&self) -> u64 {
        self.unpacking.bytes_made()
    }
}

impl TxTable for Http1 {
    fn first_id(&self) -> u64 {
        self.first
    }

    fn next_id(&self) -> u64 {
        self.first + self.txs.len() as u64
    }

    fn at(&self, id: u64) -> Option<&dyn Transaction> {
        let tx = self.txs.get(self.index(id)?)?.as_deref()?;
        Some(tx)
    }

    fn at_mut(&mut self, id: u64) -> Option<&mut dyn Transaction> {
        Some(self.slot(id)?)
    }

    fn give_up(&mut self, id: u64) {
        let Some(i) = self.index(id) else { return };
        if let Some(mut tx) = self.txs.get_mut(i).and_then(Option::take) {
            self.alive -= 1;
            tx.request.decoder = None;
            tx.response.started_mut().into_iter().for_each(|response| response.decoder = None);
            if self.spare.len() < SPARE_MAX && tx.bytes_held() < SPARE_BYTES_MAX {
                self.spare.push(tx);
            }
        }
        while let Some(None) = self.txs.front() {
            self.txs.pop_front();
            self.first += 1;
        }
    }

    fn notes_changes(&self) -> bool {
        true
    }

    fn take_changed(&mut self, ids: &mut Vec<u64>) -> bool {
        self.changed.take_ids(ids)
    }
}
