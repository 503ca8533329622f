//! The parsers of NFS: over TCP records with marks, over UDP a message a datagram.

use super::Settings;
use super::frames::{self, Body, Place};
use super::limits::WHOLE_RECORD_BYTES_MAX;
use super::procedure::v3;
use super::resume::{Found, find_record};
use super::rpc::{self, MARK_BYTES, Message};
use super::session::{Malformed, Rest, Session};
use super::tables::event;
use crate::files::FileWants;
use crate::tx_list::TxTable;
use crate::{Input, Outcome, ParseContext, Parser};
use gabion_record::Direction;

/// Bytes of a record in which everything is that comes before the bytes of a file: headers, with the
/// largest credentials and verifier, a handle and some numbers.
pub(super) const HEAD_BYTES: usize = 1200;

/// Bytes of a message's number and type.
const TYPE_BYTES: usize = 8;

/// Bytes of the shortest message: a reply without results.
pub(super) const MESSAGE_BYTES_MIN: usize = 24;

/// One direction of a stream.
#[derive(Debug, Default)]
struct Side {
    /// More of a part of a file comes.
    rest: Option<Rest>,
    /// Bytes to pass over.
    skip: usize,
    /// Bytes were lost: a record may begin anywhere.
    is_torn: bool,
}

/// Parser of NFS over TCP.
#[derive(Debug)]
pub struct Stream {
    session: Session,
    sides: [Side; 2],
}

/// Parser of NFS over UDP. What waits when the flow ends has no record (Suricata 8.0.7).
#[derive(Debug)]
pub struct Datagrams {
    session: Session,
}

/// What begins a stream's input.
enum Next {
    /// That many bytes were used.
    Used(usize),
    /// A message was taken, whose first bytes are that many; whether the stream is inspected after it.
    Taken(usize, bool),
    /// That many bytes are needed.
    Needs(usize),
    /// It can't be read.
    Wrong,
}

impl Stream {
    /// A parser.
    pub fn new(settings: Settings) -> Stream {
        Stream { session: Session::new(settings), sides: Default::default() }
    }

    fn take_next(&mut self, cx: &mut ParseContext<'_>, bytes: &[u8], at: usize) -> Next {
        let direction = cx.direction;
        let side = &mut self.sides[direction.index()];
        if let Some(rest) = &mut side.rest {
            let n = rest.len.min(bytes.len());
            self.session.add_rest(rest, bytes.get(..n).unwrap_or_default());
            if rest.len == 0 {
                side.rest = None;
            }
            return Next::Used(n);
        }
        if side.skip > 0 {
            let n = side.skip.min(bytes.len());
            side.skip -= n;
            return Next::Used(n);
        }
        // Suricata 8.0.7 takes each fragment for a record.
        let Some((_, len)) = rpc::parse_mark(bytes) else { return Next::Needs(MARK_BYTES) };
        if len < MESSAGE_BYTES_MIN {
            return Next::Wrong;
        }
        let Some(start) = bytes.get(MARK_BYTES..MARK_BYTES + TYPE_BYTES) else {
            return Next::Needs(MARK_BYTES + TYPE_BYTES);
        };
        if rpc::has_no_type(start) {
            return Next::Wrong;
        }
        let place = Place { at, mark_len: MARK_BYTES, len };
        let head_len = len.min(HEAD_BYTES);
        let Some(head) = bytes.get(MARK_BYTES..MARK_BYTES + head_len) else {
            return Next::Needs(MARK_BYTES + head_len);
        };
        let message = rpc::parse_message(head).filter(|message| is_right_way(message, direction));
        let Some(message) = message else {
            frames::note_record(cx, place);
            side.skip = len - head_len;
            self.session.add_event(event::MALFORMED_DATA);
            return Next::Used(MARK_BYTES + head_len);
        };
        if self.carries_file(&message) {
            return self.take_part(cx, place, &message, head_len);
        }
        let whole_len = len.min(WHOLE_RECORD_BYTES_MAX);
        let Some(whole) = bytes.get(MARK_BYTES..MARK_BYTES + whole_len) else {
            return Next::Needs(MARK_BYTES + whole_len);
        };
        match rpc::parse_message(whole) {
            Some(message) => self.take_part(cx, place, &message, whole_len),
            None => Next::Wrong,
        }
    }

    /// A message of which these bytes are there has parts of files, which may come later.
    fn take_part(
        &mut self,
        cx: &mut ParseContext<'_>,
        place: Place,
        message: &Message<'_>,
        there: usize,
    ) -> Next {
        note_frames(cx, &mut self.session, place, message);
        // Suricata inspects the stream after replies, of WRITE after the call.
        let is_due = match message {
            Message::Call(call) => (call.version, call.procedure) == (3, v3::WRITE),
            Message::Reply(reply) => !self.session.is_write(reply.xid),
        };
        let rest = match take_message(&mut self.session, message) {
            Ok(rest) => rest,
            Err(Malformed) => return Next::Wrong,
        };
        let side = &mut self.sides[cx.direction.index()];
        let behind = place.len - there;
        // A part can't be longer than its record.
        side.rest = rest.filter(|rest| rest.len <= behind);
        side.skip = behind - side.rest.map_or(0, |rest| rest.len);
        Next::Taken(MARK_BYTES + there, is_due)
    }

    fn carries_file(&self, message: &Message<'_>) -> bool {
        match message {
            Message::Call(call) => {
                matches!((call.version, call.procedure), (3, v3::WRITE) | (4, 1))
            }
            Message::Reply(reply) => self.session.is_read(reply.xid),
        }
    }

    fn lose(&mut self, direction: Direction, len: u64) {
        let side = &mut self.sides[direction.index()];
        let mut left = usize::try_from(len).unwrap_or(usize::MAX);
        if let Some(rest) = &mut side.rest {
            let n = rest.len.min(left);
            self.session.lose_rest(rest, n);
            left -= n;
            if rest.len == 0 {
                side.rest = None;
            }
        }
        let n = side.skip.min(left);
        side.skip -= n;
        side.is_torn |= left > n;
    }
}

/// Whether calls go to the server and replies to the client; others Suricata 8.0.7 can't read.
pub(super) fn is_right_way(message: &Message<'_>, direction: Direction) -> bool {
    match message {
        Message::Call(_) => direction == Direction::ToServer,
        Message::Reply(_) => direction == Direction::ToClient,
    }
}

/// Notes the frames of a message, which for a reply depend on its call.
fn note_frames(
    cx: &mut ParseContext<'_>,
    session: &mut Session,
    place: Place,
    message: &Message<'_>,
) {
    if cx.frames.wanted == 0 {
        return;
    }
    let body = match message {
        Message::Call(call) => {
            let body = Body::from_call(call.version, &call.credentials, place);
            session.keep_body(call.xid, body);
            body
        }
        Message::Reply(reply) => session.take_body(reply.xid),
    };
    frames::note_record(cx, place);
    frames::note_message(cx, place, message, body);
}

fn take_message(session: &mut Session, message: &Message<'_>) -> Result<Option<Rest>, Malformed> {
    match message {
        Message::Call(call) => session.take_call(call),
        Message::Reply(reply) => Ok(session.take_reply(reply)),
    }
}

impl Parser for Stream {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        self.session.want(FileWants::from(cx.requirements));
        let direction = cx.direction;
        let bytes = match input {
            Input::Data { bytes, .. } => bytes,
            Input::Gap { len } => {
                self.lose(direction, len);
                return Outcome::Done;
            }
        };
        let side = &mut self.sides[direction.index()];
        let mut rest = bytes;
        if side.is_torn {
            match find_record(bytes, direction) {
                Found::At(at) => rest = bytes.get(at..).unwrap_or_default(),
                Found::Needs { at, needed } => return Outcome::Incomplete { consumed: at, needed },
                Found::Nothing => return Outcome::Done,
            }
            side.is_torn = false;
        }
        while !rest.is_empty() {
            match self.take_next(cx, rest, bytes.len() - rest.len()) {
                Next::Used(n) => rest = rest.get(n..).unwrap_or_default(),
                Next::Taken(n, is_due) => {
                    cx.trigger_raw[direction.index()] |= is_due;
                    rest = rest.get(n..).unwrap_or_default();
                }
                Next::Needs(needed) => {
                    let consumed = bytes.len() - rest.len();
                    return Outcome::Incomplete { consumed, needed };
                }
                Next::Wrong => {
                    self.session.add_event(event::MALFORMED_DATA);
                    Direction::BOTH.into_iter().for_each(|d| self.session.end(d));
                    return Outcome::Error;
                }
            }
        }
        Outcome::Done
    }

    fn txs(&self) -> &dyn TxTable {
        &self.session.txs
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.session.txs
    }

    fn free(&mut self, id: u64) {
        self.session.forget(id);
        self.session.txs.discard(id);
    }

    fn finish(&mut self, direction: Direction) {
        self.session.end(direction);
    }

    fn bytes_held(&self) -> usize {
        self.session.bytes_held()
    }
}

impl Datagrams {
    /// A parser.
    pub fn new(settings: Settings) -> Datagrams {
        Datagrams { session: Session::new(settings) }
    }
}

impl Parser for Datagrams {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        let Input::Data { bytes, .. } = input else { return Outcome::Error };
        if bytes.is_empty() {
            return Outcome::Done;
        }
        // Suricata 8.0.7 logs all hashes of files over UDP, whether the configuration asks for them or not.
        let wants = FileWants::from(cx.requirements);
        self.session.want(FileWants { md5: true, sha1: true, sha256: true, ..wants });
        let place = Place { at: 0, mark_len: 0, len: bytes.len() };
        let message =
            rpc::parse_message(bytes).filter(|message| is_right_way(message, cx.direction));
        let taken = match &message {
            Some(message) => {
                note_frames(cx, &mut self.session, place, message);
                take_message(&mut self.session, message)
            }
            None => {
                frames::note_record(cx, place);
                Err(Malformed)
            }
        };
        if taken.is_err() {
            self.session.add_malformed();
        }
        Outcome::Done
    }

    fn txs(&self) -> &dyn TxTable {
        &self.session.txs
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.session.txs
    }

    fn free(&mut self, id: u64) {
        self.session.forget(id);
        self.session.txs.discard(id);
    }

    fn bytes_held(&self) -> usize {
        self.session.bytes_held()
    }
}
