//! One SIP flow: messages become transactions, one each.
//!
//! A datagram is a message. On a stream a message ends where its `Content-Length` says (RFC 3261
//! 18.3), and empty lines before a message are skipped (7.5: they keep connections alive). What is
//! no message ends a stream; the next datagram is tried again.

use super::limits::{BODY_BYTES_MAX, HEAD_BYTES_MAX, reached};
use super::log;
use super::message::{Found, HeaderKind, Message, StartLine};
use super::sdp::Description;
use super::tables::{buffer, event, frame};
use crate::detect::Probe;
use crate::transaction::EventList;
use crate::tx_list::{TxList, TxTable};
use crate::{Buffer, Input, Inspect, LogOptions, Outcome, ParseContext, Parser, Transaction};
use gabion_record::Direction;
use gabion_record::json::Json;
use std::any::Any;

/// A message.
#[derive(Debug)]
pub struct SipTx {
    /// Number in its flow.
    pub id: u64,
    /// Direction it travelled in.
    pub direction: Direction,
    /// Start line and headers.
    pub message: Message,
    /// The session description in its body.
    pub description: Option<Description>,
    events: EventList,
}

impl SipTx {
    fn of_start(&self, local: u16) -> Option<&[u8]> {
        let m = &self.message;
        let span = match (local, m.start) {
            (buffer::PROTOCOL, _) => return Some(m.version()),
            (buffer::METHOD, StartLine::Request { method, .. }) => method,
            (buffer::URI, StartLine::Request { uri, .. }) => uri,
            (buffer::REQUEST_LINE, StartLine::Request { .. })
            | (buffer::RESPONSE_LINE, StartLine::Response { .. }) => m.line,
            (buffer::STAT_CODE, StartLine::Response { code, .. }) => code,
            (buffer::STAT_MSG, StartLine::Response { reason, .. }) => reason,
            _ => return None,
        };
        Some(m.bytes(span))
    }

    fn of_description(&self, local: u16, index: usize) -> Option<&[u8]> {
        let d = self.description.as_ref()?;
        let of_media = |pick: fn(&super::sdp::Section) -> Option<super::message::Span>| {
            d.media.iter().filter_map(|(_, section)| pick(section)).nth(index)
        };
        let single = |span| if index == 0 { span } else { None };
        let span = match local {
            buffer::SDP_ORIGIN => single(Some(d.origin)),
            buffer::SDP_SESSION_NAME => single(Some(d.session_name)),
            buffer::SDP_SESSION_INFO => single(d.session.information),
            buffer::SDP_URI => single(d.uri),
            buffer::SDP_EMAIL => single(d.email),
            buffer::SDP_PHONE_NUMBER => single(d.phone_number),
            buffer::SDP_CONNECTION_DATA => single(d.session.connection),
            buffer::SDP_TIMEZONE => single(d.timezone),
            buffer::SDP_ENCRYPTION_KEY => single(d.session.key),
            buffer::SDP_BANDWIDTH => d.session.bandwidths.get(index).copied(),
            buffer::SDP_ATTRIBUTE => d.session.attributes.get(index).copied(),
            buffer::SDP_TIME => d.times.get(index).map(|(time, _)| *time),
            buffer::SDP_REPEAT_TIME => d.times.iter().filter_map(|(_, r)| *r).nth(index),
            buffer::SDP_MEDIA => d.media.get(index).map(|(media, _)| *media),
            buffer::SDP_MEDIA_INFO => of_media(|s| s.information),
            buffer::SDP_MEDIA_CONNECTION_DATA => of_media(|s| s.connection),
            buffer::SDP_MEDIA_ENCRYPTION_KEY => of_media(|s| s.key),
            _ => None,
        };
        span.map(|span| d.bytes(span))
    }

    fn bytes_held(&self) -> usize {
        let description = self.description.as_ref().map_or(0, Description::bytes_held);
        size_of::<SipTx>() + self.message.bytes_held() + description
    }
}

impl Transaction for SipTx {
    fn id(&self) -> u64 {
        self.id
    }

    fn progress(&self, _: Direction) -> u8 {
        1
    }

    fn only(&self) -> Option<Direction> {
        Some(self.direction)
    }

    fn is_logged_as_packet(&self) -> bool {
        true
    }

    fn buffer(&self, local: u16, d: Direction, index: usize, _: Inspect) -> Option<Buffer<'_>> {
        if d != self.direction {
            return None;
        }
        let header = |kind| self.message.header(kind, index);
        let data = match local {
            buffer::FROM => header(HeaderKind::From)?,
            buffer::TO => header(HeaderKind::To)?,
            buffer::VIA => header(HeaderKind::Via)?,
            buffer::USER_AGENT => header(HeaderKind::UserAgent)?,
            buffer::CONTENT_TYPE => header(HeaderKind::ContentType)?,
            buffer::CONTENT_LENGTH => header(HeaderKind::ContentLength)?,
            _ if index == 0 && local < buffer::FROM => self.of_start(local)?,
            _ => self.of_description(local, index)?,
        };
        Some(Buffer::whole(data))
    }

    fn events(&self) -> &[u16] {
        self.events.codes()
    }

    fn log(&self, json: &mut Json, _: LogOptions<'_>) -> bool {
        log::write(self, json);
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Parser of a SIP flow.
#[derive(Debug)]
pub struct SipParser {
    is_stream: bool,
    txs: TxList<SipTx>,
    /// Bytes of bodies still to be passed over.
    skip: [u64; 2],
    /// What is known of the head that has begun.
    begun: [Begun; 2],
}

/// What is known of the beginning of a head, so that it isn't read from its first byte with each
/// piece that comes.
#[derive(Clone, Copy, Debug, Default)]
struct Begun {
    /// Bytes that hold no end of what is looked for.
    looked: usize,
    /// The first line is there and good.
    has_line: bool,
}

impl Begun {
    /// Whether the end is there of what has begun: of the first line, then of the head.
    fn is_complete(&mut self, bytes: &[u8]) -> bool {
        let end: &[u8] = if self.has_line { b"\r\n\r\n" } else { b"\r\n" };
        let from = self.looked.saturating_sub(end.len() - 1);
        let unseen = bytes.get(from..).unwrap_or_default();
        let found = memchr::memmem::find(unseen, end);
        count_steps(found.unwrap_or(unseen.len()));
        self.has_line |= found.is_some();
        found.is_some()
    }

    /// More is to come.
    fn wait(&mut self, bytes: &[u8]) {
        self.looked = bytes.len();
    }
}

#[cfg(test)]
thread_local! {
    /// Bytes that were examined.
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Bytes are examined.
fn count_steps(bytes: usize) {
    #[cfg(test)]
    STEPS.set(STEPS.get() + bytes);
    #[cfg(not(test))]
    let _ = bytes;
}

/// What was at the beginning of the input.
enum Step {
    Used(usize),
    Needs(usize),
    Wrong,
}

impl SipParser {
    /// A parser of a stream or of datagrams.
    pub fn new(is_stream: bool) -> SipParser {
        SipParser { is_stream, txs: TxList::default(), skip: [0; 2], begun: Default::default() }
    }

    fn push(&mut self, cx: &mut ParseContext<'_>, message: Message, body: &[u8], at: usize) {
        self.note_frames(cx, &message, body.len(), at);
        let direction = cx.direction;
        let description = Description::parse(body);
        let limit = Some(&reached::TXS_PER_FLOW_MAX);
        self.txs.push_sparing(limit, cx.sparing.as_mut(), |id| SipTx {
            id,
            direction,
            message,
            description,
            events: EventList::default(),
        });
    }

    fn note_frames(&self, cx: &mut ParseContext<'_>, m: &Message, body_len: usize, at: usize) {
        let d = cx.direction;
        let [line, headers, body] = match m.start {
            StartLine::Request { .. } => {
                [frame::REQUEST_LINE, frame::REQUEST_HEADERS, frame::REQUEST_BODY]
            }
            StartLine::Response { .. } => {
                [frame::RESPONSE_LINE, frame::RESPONSE_HEADERS, frame::RESPONSE_BODY]
            }
        };
        let tx = Some(self.txs.next_id());
        cx.frames.add(d, frame::PDU, at, (m.head_len + body_len) as u64, tx);
        cx.frames.add(d, line, at, m.line_len as u64, tx);
        // Without the empty line.
        let headers_len = (m.head_len - m.line_len).saturating_sub(2);
        cx.frames.add(d, headers, at + m.line_len, headers_len as u64, tx);
        if body_len > 0 {
            cx.frames.add(d, body, at + m.head_len, body_len as u64, tx);
        }
    }

    fn invalid(&mut self) {
        if let Some(tx) = self.txs.last_mut() {
            tx.events.add(event::INVALID_DATA);
        }
    }

    fn datagram(&mut self, cx: &mut ParseContext<'_>, bytes: &[u8]) -> Outcome {
        match Message::read_message(bytes, cx.direction == Direction::ToClient) {
            Found::Message(message) => {
                let body = bytes.get(message.head_len..).unwrap_or_default();
                self.push(cx, message, body, 0);
                Outcome::Done
            }
            Found::More | Found::Wrong => {
                self.invalid();
                Outcome::Error
            }
        }
    }

    /// Takes a message at the beginning of `bytes`, which is at the offset `at` of the input.
    fn one(&mut self, cx: &mut ParseContext<'_>, bytes: &[u8], at: usize, eof: bool) -> Step {
        if let Some(rest) = bytes.strip_prefix(b"\r\n") {
            return Step::Used(bytes.len() - rest.len());
        }
        let begun = &mut self.begun[cx.direction.index()];
        let found = if begun.is_complete(bytes) {
            // A line or head that is whole is read from its first byte.
            Message::read_message(bytes, cx.direction == Direction::ToClient)
        } else {
            Found::More
        };
        match &found {
            Found::Message(message) => count_steps(2 * message.head_len),
            Found::More | Found::Wrong => {}
        }
        let message = match found {
            Found::Message(message) => message,
            Found::More if bytes.len() <= HEAD_BYTES_MAX => {
                begun.wait(bytes);
                return Step::Needs(bytes.len() + 1);
            }
            Found::More => {
                reached::HEAD_BYTES_MAX.count();
                return Step::Wrong;
            }
            Found::Wrong => return Step::Wrong,
        };
        *begun = Begun::default();
        let head_len = message.head_len;
        let body_len = message.body_len().unwrap_or(0);
        let wanted = usize::try_from(body_len).unwrap_or(usize::MAX).min(BODY_BYTES_MAX);
        if wanted == BODY_BYTES_MAX && body_len > wanted as u64 {
            reached::BODY_BYTES_MAX.count();
        }
        let behind = bytes.get(head_len..).unwrap_or_default();
        if behind.len() < wanted && !eof {
            return Step::Needs(head_len + wanted);
        }
        let body = behind.get(..wanted).unwrap_or(behind);
        let used = head_len + body.len();
        self.skip[cx.direction.index()] = body_len - body.len() as u64;
        self.push(cx, message, body, at);
        Step::Used(used)
    }

    fn stream(&mut self, cx: &mut ParseContext<'_>, bytes: &[u8], eof: bool) -> Outcome {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let skip = &mut self.skip[cx.direction.index()];
            if *skip > 0 {
                let here = (*skip).min(rest.len() as u64);
                *skip -= here;
                at += here as usize;
                continue;
            }
            match self.one(cx, rest, at, eof) {
                Step::Used(len) => at += len,
                Step::Needs(needed) => return Outcome::Incomplete { consumed: at, needed },
                Step::Wrong => {
                    self.invalid();
                    return Outcome::Error;
                }
            }
        }
        Outcome::Done
    }
}

impl Parser for SipParser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        match input {
            Input::Gap { .. } => Outcome::Error,
            Input::Data { bytes, eof } if self.is_stream => self.stream(cx, bytes, eof),
            Input::Data { bytes: [], .. } => Outcome::Done,
            Input::Data { bytes, .. } => self.datagram(cx, bytes),
        }
    }

    fn txs(&self) -> &dyn TxTable {
        &self.txs
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.txs
    }

    fn bytes_held(&self) -> usize {
        size_of::<SipParser>() + self.txs.iter().map(SipTx::bytes_held).sum::<usize>()
    }
}

/// Whether a version of SIP is found anywhere: methods that other protocols have too prove little
/// (Suricata's test).
pub fn names_sip(bytes: &[u8], _: Direction) -> Probe {
    if memchr::memmem::find(bytes, b"SIP/").is_some() { Probe::Yes } else { Probe::No }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endpoints;

    /// Bytes examined for each byte of a stream of messages with this many headers, in such pieces.
    fn steps(headers: usize, piece: usize) -> f64 {
        let mut message = b"INVITE sip:a@b SIP/2.0\r\n".to_vec();
        (0..headers).for_each(|n| message.extend_from_slice(format!("h{n}: {n}\r\n").as_bytes()));
        message.extend_from_slice(b"From: a\r\n\r\n");
        let stream = message.repeat(3);
        let mut parser = SipParser::new(true);
        let ends = Endpoints::default();
        STEPS.set(0);
        let (mut from, mut to, mut needed) = (0, 0, 0);
        while to < stream.len() {
            to = (to + piece).min(stream.len());
            if to - from < needed {
                continue;
            }
            let mut cx = ParseContext::new(0, Direction::ToServer, &ends);
            let input = Input::Data { bytes: &stream[from..to], eof: false };
            match parser.parse(&mut cx, input) {
                Outcome::Done => (from, needed) = (to, 0),
                Outcome::Incomplete { consumed, needed: n } => {
                    (from, needed) = (from + consumed, n)
                }
                Outcome::Error => panic!("{headers} headers in pieces of {piece}"),
            }
        }
        assert_eq!(parser.txs.next_id(), 3);
        let froms = parser.txs.iter().filter(|tx| tx.message.header(HeaderKind::From, 0).is_some());
        assert_eq!(froms.count(), 3);
        STEPS.get() as f64 / stream.len() as f64
    }

    /// A head is read once, however many headers it has and whatever pieces it comes in.
    #[test]
    fn heads_in_pieces_are_looked_at_once() {
        for piece in [1, 7, 100, 1_400, 1 << 20] {
            for headers in [1, 100, 1_000, 4_000] {
                // The head, its end's first bytes with each piece, and the line and head once whole.
                let each = steps(headers, piece);
                assert!(each <= 8.0, "{headers} headers in pieces of {piece}: {each} steps a byte");
            }
        }
    }
}
