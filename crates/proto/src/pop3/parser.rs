//! One POP3 session: lines become commands and responses.
//!
//! A line that is neither ends the flow, as in Suricata. Which responses have several lines is known by
//! their commands, so that it does not matter how a response is split (Suricata 8.0.7 looks for the end in
//! what came with the first line).

use super::Settings;
use super::command::{Lines, Oddity, Request, examine, is_base64, parse_request};
use super::limits::{LINE_BYTES_MAX, REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX, reached};
use super::tables::event;
use super::tx::{Pop3Tx, Response};
use crate::detect::Probe;
use crate::tx_list::{TxList, TxTable};
use crate::{Input, Outcome, ParseContext, Parser, ProtocolChange};
use gabion_record::Direction::{self, ToClient, ToServer};

/// The end of a line.
const LINE_END: &[u8] = b"\r\n";

/// A line that is neither a command nor a response.
struct Malformed;

/// A response of several lines that has begun.
#[derive(Debug)]
struct Begun {
    response: Response,
    bytes: usize,
}

/// Parser of a session.
#[derive(Debug, Default)]
pub struct Pop3Parser {
    settings: Settings,
    txs: TxList<Pop3Tx>,
    /// The oldest transaction that may wait for a response.
    waits_from: u64,
    begun: Option<Begun>,
    /// The next line of the client is data of an authentication.
    expects_data: bool,
    /// A command came.
    has_request: bool,
    /// The client's first line is no command: its lines are not read.
    is_client_unread: bool,
    /// Bytes of the line at hand that hold no end of it, by direction.
    searched: [usize; 2],
}

/// Input in which the end of a response of several lines may be.
struct Ends<'a> {
    bytes: &'a [u8],
    /// Where the last one is, once it was looked for.
    last: Option<Option<usize>>,
}

impl Ends<'_> {
    /// Whether one is at this place or after it, where a line begins.
    fn has_one_from(&mut self, at: usize) -> bool {
        let is_end = |w: &[u8]| w == b"\r\n.\r\n";
        let last = *self.last.get_or_insert_with(|| self.bytes.windows(5).rposition(is_end));
        last.is_some_and(|last| last + LINE_END.len() >= at)
    }
}

/// A server's demand for the data of an authentication.
const CONTINUATION: &[u8] = b"+ ";

/// The first line of a response without its end: whether it is positive, and what follows.
fn parse_status(line: &[u8]) -> Option<(bool, &[u8])> {
    if line == CONTINUATION {
        return Some((true, b""));
    }
    let (is_positive, rest) = match line.strip_prefix(b"+OK") {
        Some(rest) => (true, rest),
        None => (false, line.strip_prefix(b"-ERR")?),
    };
    match rest.split_first() {
        None => Some((is_positive, rest)),
        Some((b' ', header)) => Some((is_positive, header)),
        Some(_) => None,
    }
}

impl Pop3Parser {
    /// A parser.
    pub fn new(settings: Settings) -> Pop3Parser {
        Pop3Parser { settings, ..Pop3Parser::default() }
    }

    fn push(&mut self, request: Option<Request>, lines: Lines) -> u64 {
        let id = self.txs.next_id();
        self.txs.push(Some(&reached::TXS_PER_FLOW_MAX), |id| Pop3Tx::new(id, request, lines));
        if self.txs.len() as u64 > self.settings.txs_max {
            let waiting = self.next_waiting().filter(|waiting| *waiting != id);
            if let Some(tx) = waiting.and_then(|waiting| self.txs.get_mut(waiting)) {
                tx.is_complete = true;
                tx.events.set(event::TOO_MANY_TRANSACTIONS);
            }
        }
        id
    }

    /// The oldest transaction that waits for a response.
    fn next_waiting(&mut self) -> Option<u64> {
        let found = self.txs.entries_from(self.waits_from).find(|(_, tx)| !tx.is_complete);
        let found = found.map(|(id, _)| id);
        self.waits_from = found.unwrap_or(self.txs.next_id());
        found
    }

    fn take_request(&mut self, line: &[u8]) -> Result<(), Malformed> {
        if std::mem::take(&mut self.expects_data) {
            if !is_base64(line) {
                return Err(Malformed);
            }
            let request = Request { command: b"<SASL DATA>".to_vec(), arguments: Vec::new() };
            self.push(Some(request), Lines::One);
            return Ok(());
        }
        let request = parse_request(line).ok_or(Malformed)?;
        let (oddity, lines) = examine(&request);
        self.has_request = true;
        self.expects_data = request.command == b"AUTH";
        let id = self.push(Some(request), lines);
        let Some(tx) = self.txs.get_mut(id) else { return Ok(()) };
        match oddity {
            Some(Oddity::ArgumentCount) => tx.events.set(event::INCORRECT_ARGUMENT_COUNT),
            Some(Oddity::UnknownCommand) => tx.events.set(event::UNKNOWN_COMMAND),
            None => {}
        }
        if line.len() + LINE_END.len() > REQUEST_BYTES_MAX {
            tx.events.set(event::REQUEST_TOO_LONG);
        }
        Ok(())
    }

    /// Takes the first line of a response; `has_end` finds out whether the end of further ones came with it. True: it is
    /// a whole response after which Suricata inspects the stream; a demand for data is none.
    fn take_status(
        &mut self,
        cx: &mut ParseContext<'_>,
        line: &[u8],
        has_end: impl FnOnce() -> bool,
    ) -> Result<bool, Malformed> {
        let (is_positive, header) = parse_status(line).ok_or(Malformed)?;
        let id = match self.next_waiting() {
            Some(id) => id,
            None => self.push(None, Lines::One),
        };
        let response = Response { is_positive, header: header.to_vec(), lines: Vec::new() };
        let Some(tx) = self.txs.get_mut(id) else { return Ok(true) };
        if line.len() + LINE_END.len() > RESPONSE_BYTES_MAX {
            tx.events.set(event::RESPONSE_TOO_LONG);
        }
        let is_command = |name: &[u8]| tx.request.as_ref().is_some_and(|r| r.command == name);
        if is_positive && is_command(b"STLS") {
            cx.change = Some(ProtocolChange { expected: Some(crate::tls::NAME), port: None });
        }
        if !is_positive && is_command(b"AUTH") {
            self.expects_data = false;
        }
        let has_more = is_positive
            && match tx.lines {
                Lines::One => false,
                Lines::Several | Lines::Message => true,
                Lines::Unknown => has_end(),
            };
        if has_more {
            self.begun = Some(Begun { response, bytes: 0 });
        } else {
            tx.response = Some(response);
            tx.is_complete = true;
        }
        Ok(!has_more && line != CONTINUATION)
    }

    /// Takes a further line of a response. True: it ends a response after which Suricata inspects the stream, which no mail
    /// is.
    fn take_line(&mut self, line: &[u8]) -> bool {
        let Some(id) = self.next_waiting() else {
            // Its transaction is gone: only the end of the response is of interest.
            if line == b"." {
                self.begun = None;
            }
            return self.begun.is_none();
        };
        let Some(tx) = self.txs.get_mut(id) else { return false };
        if line == b"." {
            tx.is_complete = true;
            let begun = self.begun.take();
            if tx.lines != Lines::Message {
                tx.response = begun.map(|b| b.response);
                return true;
            }
        } else if let Some(begun) = self.begun.as_mut().filter(|_| tx.lines != Lines::Message) {
            let line = line.strip_prefix(b".").unwrap_or(line);
            let cost = line.len() + size_of::<Vec<u8>>();
            if reached::LISTED_BYTES_MAX.holds(begun.bytes.saturating_add(cost)) {
                begun.bytes += cost;
                begun.response.lines.push(line.to_vec());
            }
        }
        false
    }

    fn take_lines(&mut self, cx: &mut ParseContext<'_>, bytes: &[u8]) -> Result<usize, Malformed> {
        let d = cx.direction;
        let mut at = 0;
        let mut ends = Ends { bytes, last: None };
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let from = std::mem::take(&mut self.searched[d.index()]);
            let unsearched = rest.get(from..).unwrap_or_default();
            let Some(len) = unsearched.windows(LINE_END.len()).position(|w| w == LINE_END) else {
                self.searched[d.index()] = rest.len() - 1;
                break;
            };
            let line = rest.get(..from + len).unwrap_or_default();
            at += line.len() + LINE_END.len();
            let is_due = match d {
                ToServer => {
                    self.take_request(line)?;
                    false
                }
                ToClient if self.begun.is_some() => self.take_line(line),
                ToClient => self.take_status(cx, line, || ends.has_one_from(at))?,
            };
            cx.trigger_raw[d.index()] |= is_due;
            if cx.change.is_some() {
                break;
            }
        }
        Ok(at)
    }
}

impl Parser for Pop3Parser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        // What is lost has no answer or command: the next lines are read as any others.
        let Input::Data { bytes, .. } = input else { return Outcome::Done };
        if cx.direction == ToServer && self.is_client_unread {
            return Outcome::Done;
        }
        match self.take_lines(cx, bytes) {
            Ok(at) if at == bytes.len() => Outcome::Done,
            Ok(at) if bytes.len().saturating_sub(at) <= LINE_BYTES_MAX => {
                Outcome::Incomplete { consumed: at, needed: bytes.len() - at + 1 }
            }
            // Suricata takes such a client for one of another protocol and goes by the server.
            Err(Malformed) if cx.direction == ToServer && !self.has_request => {
                self.is_client_unread = true;
                Outcome::Done
            }
            Ok(_) | Err(Malformed) => Outcome::Error,
        }
    }

    fn txs(&self) -> &dyn TxTable {
        &self.txs
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.txs
    }

    fn finish(&mut self, direction: Direction) {
        self.txs.iter_mut().for_each(|tx| tx.has_ended[direction.index()] = true);
    }

    fn bytes_held(&self) -> usize {
        size_of::<Pop3Parser>()
            + self.begun.as_ref().map_or(0, |b| b.bytes + b.response.header.len())
            + self.txs.iter().map(Pop3Tx::bytes_held).sum::<usize>()
    }
}

/// Whether the first line of a direction is a command or a response.
pub(super) fn probe(bytes: &[u8], direction: Direction) -> Probe {
    let line = match bytes.windows(LINE_END.len()).position(|w| w == LINE_END) {
        Some(len) => bytes.get(..len).unwrap_or_default(),
        None if bytes.len() > RESPONSE_BYTES_MAX => return Probe::No,
        None => return Probe::More,
    };
    let is_line = match direction {
        ToServer => parse_request(line).is_some(),
        ToClient => parse_status(line).is_some(),
    };
    if is_line { Probe::Yes } else { Probe::No }
}
