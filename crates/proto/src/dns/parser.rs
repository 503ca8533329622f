//! One DNS flow: messages become transactions, one each.
//!
//! A query and its response are transactions of their own, as in Suricata: a response must be
//! inspected and logged whether or not its query was seen. Over TCP messages carry two bytes of
//! length; an announced length of zero is skipped. A message that does not parse ends the direction
//! and leaves its event on the youngest transaction, if there is one.

use super::limits::reached;
use super::message::{HEADER_LEN, Header, Message, ParseError, Section};
use super::name::Name;
use super::tables::{buffer, event, frame, integer};
use super::{Rdata, log, report};
use crate::detect::Probe;
use crate::transaction::EventList;
use crate::tx_list::{TxList, TxTable};
use crate::{Buffer, Input, Inspect, LogOptions, Outcome, ParseContext, Parser, Transaction};
use gabion_record::json::Json;
use gabion_record::{Direction, TakeReport};
use smallvec::SmallVec;
use std::any::Any;

/// A message with its events.
#[derive(Debug)]
pub struct DnsTx {
    /// Number in its flow.
    pub id: u64,
    /// Direction it travelled in: a response travels to the client whatever its QR bit says.
    pub direction: Direction,
    /// The message.
    pub message: Message,
    events: EventList,
    /// Instances of `dns.response.rrname`: all names in and of the records of a response.
    response_names: SmallVec<[Name; 8]>,
}

impl DnsTx {
    /// A transaction of a parsed message, with the events its header and names give rise to.
    pub fn new(id: u64, direction: Direction, message: Message) -> DnsTx {
        let mut events = EventList::default();
        let (header, names) = (message.header, message.name_flags());
        let is_answer = direction == Direction::ToClient;
        // In the order in which Suricata raises them.
        for (is_set, code) in [
            (message.has_invalid_additionals, event::INVALID_ADDITIONALS),
            (message.has_invalid_authorities, event::INVALID_AUTHORITIES),
            (is_answer && !header.is_response(), event::NOT_RESPONSE),
            (header.has_z(), event::Z_FLAG_SET),
            (header.opcode() >= 7, event::INVALID_OPCODE),
            (names.truncated, event::NAME_TOO_LONG),
            (names.infinite_loop, event::INFINITE_LOOP),
            (names.label_limit, event::TOO_MANY_LABELS),
        ] {
            if is_set {
                events.set(code);
            }
        }
        let mut response_names = SmallVec::new();
        if is_answer {
            response_names.extend(message.queries.iter().map(|q| q.name));
            for r in message.records() {
                response_names.push(r.name);
                match r.data {
                    Rdata::Name(name) | Rdata::Soa { mname: name, .. } => response_names.push(name),
                    Rdata::Address(_)
                    | Rdata::Text(_)
                    | Rdata::Texts { .. }
                    | Rdata::Srv { .. }
                    | Rdata::Sshfp { .. }
                    | Rdata::Opt { .. }
                    | Rdata::Other(_) => {}
                }
            }
        }
        DnsTx { id, direction, message, events, response_names }
    }

    fn record_name(&self, section: Section, index: usize) -> Option<Name> {
        self.message.section(section).get(index).map(|r| r.name)
    }
}

impl Transaction for DnsTx {
    fn id(&self) -> u64 {
        self.id
    }

    fn progress(&self, _: Direction) -> u8 {
        1
    }

    fn only(&self) -> Option<Direction> {
        Some(self.direction)
    }

    fn buffer(&self, local: u16, at: Direction, index: usize, _: Inspect) -> Option<Buffer<'_>> {
        if at != self.direction {
            return None;
        }
        let is_answer = at == Direction::ToClient;
        let name = match local {
            buffer::QUERIES => self.message.queries.get(index).map(|q| q.name),
            buffer::ANSWERS => self.record_name(Section::Answers, index),
            buffer::AUTHORITIES if is_answer => self.record_name(Section::Authorities, index),
            buffer::ADDITIONALS if is_answer => self.record_name(Section::Additionals, index),
            buffer::RESPONSE => self.response_names.get(index).copied(),
            _ => None,
        }?;
        Some(Buffer::whole(self.message.name(name)))
    }

    fn integer(&self, local: u16, at: Direction, index: usize) -> Option<u64> {
        if at != self.direction {
            return None;
        }
        let header = self.message.header;
        match (local, index) {
            (integer::OPCODE, 0) => Some(header.opcode().into()),
            (integer::RCODE, 0) => Some(header.rcode().into()),
            // Of a query only the questions count, of a response only the answers (Suricata 8.0.7).
            (integer::RRTYPE, _) => match at {
                Direction::ToServer => self.message.queries.get(index).map(|q| q.rrtype.into()),
                Direction::ToClient => {
                    let answers = self.message.section(Section::Answers);
                    answers.get(index).map(|record| record.rrtype.into())
                }
            },
            _ => None,
        }
    }

    fn events(&self) -> &[u16] {
        self.events.codes()
    }

    fn log_progress(&self) -> Option<(u8, u8)> {
        None
    }

    fn log(&self, json: &mut Json, how: LogOptions<'_>) -> bool {
        log::write(self, json, how)
    }

    fn report(&self, to: TakeReport<'_>) {
        report::report(&self.message, self.direction, to);
    }

    fn log_parts(&self, how: LogOptions<'_>) -> usize {
        log::parts(self, how)
    }

    fn log_direction(&self, how: LogOptions<'_>) -> Direction {
        log::direction(self, how)
    }

    fn pair_key(&self) -> Option<u64> {
        Some(self.message.header.id.into())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Parser of a DNS flow.
#[derive(Debug, Default)]
pub struct DnsParser {
    is_tcp: bool,
    /// Bytes were lost in that direction and no message has begun since.
    is_behind_gap: [bool; 2],
    txs: TxList<DnsTx>,
}

impl DnsParser {
    /// A parser of datagrams or of a stream.
    pub fn new(is_tcp: bool) -> DnsParser {
        DnsParser { is_tcp, ..DnsParser::default() }
    }

    /// Takes one message. False ends the direction.
    fn message(&mut self, bytes: &[u8], direction: Direction) -> bool {
        let is_query = direction == Direction::ToServer;
        let broken = match Message::parse(bytes) {
            Ok(m) if is_query && m.header.is_response() => event::NOT_REQUEST,
            Ok(m) => {
                self.txs.push(Some(&reached::TXS_PER_FLOW_MAX), |id| DnsTx::new(id, direction, m));
                return true;
            }
            Err(ParseError::Malformed) => event::MALFORMED_DATA,
            Err(ParseError::NotDns) => return false,
        };
        if let Some(tx) = self.txs.last_mut() {
            tx.events.set(broken);
        }
        false
    }

    /// Takes a message that begins `at` bytes after the start of the input.
    fn framed_message(&mut self, cx: &mut ParseContext<'_>, bytes: &[u8], at: usize) -> bool {
        let id = self.txs.next_id();
        let is_good = self.message(bytes, cx.direction);
        let tx = (self.txs.next_id() > id).then_some(id);
        cx.frames.add(cx.direction, frame::PDU, at, bytes.len() as u64, tx);
        is_good
    }

    fn stream(&mut self, cx: &mut ParseContext<'_>, bytes: &[u8]) -> Outcome {
        let direction = cx.direction;
        if self.is_behind_gap[direction.index()] {
            match probe_stream(bytes, direction) {
                Probe::Yes | Probe::YesReversed | Probe::More => {
                    self.is_behind_gap[direction.index()] = false;
                }
                Probe::No | Probe::YesIfOther => return Outcome::Done,
            }
        }
        let mut rest = bytes;
        while let Some((head, tail)) = rest.split_at_checked(2) {
            let len = usize::from(u16::from_be_bytes([head[0], head[1]]));
            let Some((message, tail)) = tail.split_at_checked(len) else {
                return Outcome::Incomplete { consumed: bytes.len() - rest.len(), needed: len + 2 };
            };
            let at = bytes.len() - rest.len() + 2;
            if len > 0 && !self.framed_message(cx, message, at) {
                return Outcome::Error;
            }
            rest = tail;
        }
        if rest.is_empty() {
            Outcome::Done
        } else {
            Outcome::Incomplete { consumed: bytes.len() - rest.len(), needed: 2 }
        }
    }
}

impl Parser for DnsParser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        match input {
            Input::Gap { .. } => {
                self.is_behind_gap[cx.direction.index()] = true;
                Outcome::Done
            }
            Input::Data { bytes: [], .. } => Outcome::Done,
            Input::Data { bytes, .. } if self.is_tcp => self.stream(cx, bytes),
            Input::Data { bytes, .. } if self.framed_message(cx, bytes, 0) => Outcome::Done,
            Input::Data { .. } => Outcome::Error,
        }
    }

    fn txs(&self) -> &dyn TxTable {
        &self.txs
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.txs
    }

    fn bytes_held(&self) -> usize {
        let txs = self.txs.iter().map(|tx| {
            let names = if tx.response_names.spilled() { tx.response_names.capacity() } else { 0 };
            size_of::<DnsTx>() + tx.message.bytes_held() + names * size_of::<Name>()
        });
        size_of::<DnsParser>() + txs.sum::<usize>()
    }
}

/// Whether a datagram is DNS.
pub fn probe_datagram(bytes: &[u8], direction: Direction) -> Probe {
    // A header alone is a message too: the answer to what could not be read.
    if bytes.len() < HEADER_LEN {
        return Probe::No;
    }
    probe_message(bytes, direction)
}

/// Whether a stream begins with a DNS message.
pub fn probe_stream(bytes: &[u8], direction: Direction) -> Probe {
    let Some((head, rest)) = bytes.split_at_checked(2) else { return Probe::More };
    if rest.len() < HEADER_LEN {
        return Probe::More;
    }
    let len = usize::from(u16::from_be_bytes([head[0], head[1]]));
    match rest.get(..len) {
        Some(message) => probe_message(message, direction),
        None => match Header::parse(rest) {
            Some(header) if header.is_plausible(len) => answer(header, direction),
            _ => Probe::No,
        },
    }
}

fn probe_message(bytes: &[u8], direction: Direction) -> Probe {
    match Message::parse(bytes) {
        Ok(m) => answer(m.header, direction),
        Err(_) => Probe::No,
    }
}

fn answer(header: Header, direction: Direction) -> Probe {
    if header.is_response() == (direction == Direction::ToClient) {
        Probe::Yes
    } else {
        Probe::YesReversed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endpoints;

    const QUERY: &[u8] = b"\0\x02\x01\0\0\x01\0\0\0\0\0\0\x01a\x01b\0\0\x01\0\x01";
    const RESPONSE: &[u8] = b"\0\x02\x81\x80\0\x01\0\0\0\0\0\0\x01a\x01b\0\0\x01\0\x01";

    fn framed(messages: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        for m in messages {
            out.extend((m.len() as u16).to_be_bytes());
            out.extend_from_slice(m);
        }
        out
    }

    /// Feeds `pieces` as the engine does: what is not used comes again with more.
    fn feed(parser: &mut DnsParser, direction: Direction, pieces: &[&[u8]]) -> Outcome {
        let ends = Endpoints { is_tcp: true, ..Endpoints::default() };
        let (mut pending, mut last) = (Vec::new(), Outcome::Done);
        for piece in pieces {
            pending.extend_from_slice(piece);
            let mut cx = ParseContext::new(0, direction, &ends);
            last = parser.parse(&mut cx, Input::Data { bytes: &pending, eof: false });
            match last {
                Outcome::Done => pending.clear(),
                Outcome::Incomplete { consumed, needed } => {
                    pending.drain(..consumed);
                    assert!(needed > pending.len());
                }
                Outcome::Error => return last,
            }
        }
        last
    }

    #[test]
    fn any_split_gives_the_same_transactions() {
        let stream = framed(&[QUERY, b"", QUERY, QUERY]);
        for i in 0..=stream.len() {
            for j in i..=stream.len() {
                let mut p = DnsParser::new(true);
                let parts = [&stream[..i], &stream[i..j], &stream[j..]];
                assert_eq!(feed(&mut p, Direction::ToServer, &parts), Outcome::Done);
                assert_eq!(p.next_tx_id(), 3);
            }
        }
    }

    #[test]
    fn what_breaks_a_direction_marks_the_youngest_transaction() {
        // Each in one segment after a good message; events as Suricata 8.0.7 raised them.
        let loop_ = [&QUERY[..12], b"\xc0\x0c\0\x01\0\x01"].concat();
        let count = [&QUERY[..6], b"\0\x14\0\0\0\0", &QUERY[12..]].concat();
        for (message, events) in [
            (&loop_[..], &[event::MALFORMED_DATA][..]),
            (RESPONSE, &[event::NOT_REQUEST]),
            (&count, &[]),
            (b"\0\x01\x01\0", &[]),
        ] {
            let mut p = DnsParser::new(true);
            let stream = framed(&[QUERY, message, QUERY]);
            assert_eq!(feed(&mut p, Direction::ToServer, &[&stream]), Outcome::Error);
            assert_eq!(p.next_tx_id(), 1);
            assert_eq!(p.tx(0).unwrap().events(), events);
        }
    }

    #[test]
    fn flags_that_are_events() {
        let mut m = QUERY.to_vec();
        m[2..4].copy_from_slice(&[0x79, 0x40]);
        let mut p = DnsParser::new(true);
        feed(&mut p, Direction::ToClient, &[&framed(&[&m])]);
        let tx = p.tx(0).unwrap();
        let expected = [event::NOT_RESPONSE, event::Z_FLAG_SET, event::INVALID_OPCODE];
        assert_eq!((tx.events(), tx.only()), (&expected[..], Some(Direction::ToClient)));
    }

    #[test]
    fn probes_find_the_direction() {
        use Probe::{More, No, Yes, YesReversed};
        let server = Direction::ToServer;
        assert_eq!(probe_datagram(QUERY, server), Yes);
        assert_eq!(probe_datagram(QUERY, Direction::ToClient), YesReversed);
        assert_eq!(probe_datagram(RESPONSE, server), YesReversed);
        assert_eq!(probe_datagram(&QUERY[..12], server), No);
        assert_eq!(probe_datagram(&QUERY[..QUERY.len() - 1], server), No);
        let stream = framed(&[QUERY]);
        assert_eq!(probe_stream(&stream, server), Yes);
        assert_eq!(probe_stream(&stream[..14], server), Yes);
        assert_eq!(probe_stream(&stream[..13], server), More);
        assert_eq!(probe_stream(b"GET / HTTP/1.1\r\n", server), No);
    }

    #[test]
    fn behind_a_gap_the_next_message_is_found() {
        let ends = Endpoints { is_tcp: true, ..Endpoints::default() };
        let mut p = DnsParser::new(true);
        let mut cx = ParseContext::new(0, Direction::ToServer, &ends);
        assert_eq!(p.parse(&mut cx, Input::Gap { len: 9 }), Outcome::Done);
        assert_eq!(
            feed(&mut p, Direction::ToServer, &[b"in the middle of some message"]),
            Outcome::Done
        );
        assert_eq!(feed(&mut p, Direction::ToServer, &[&framed(&[QUERY])]), Outcome::Done);
        assert_eq!(p.next_tx_id(), 1);
    }
}
