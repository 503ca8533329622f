//! One PostgreSQL session: messages become transactions.
//!
//! The rules of this file were measured with Suricata 8.0.7. A message belongs to a new transaction if the session is
//! in the state of a request once the message was taken into account, else to the youngest that is still there: so
//! the answer to the first of two queries goes to the second. Messages of the extended query protocol, notices and
//! notifications change no state and are not logged, but they open a transaction in the state of a request.

use super::Settings;
use super::limits::reached;
use super::message::{self, Head, InvalidLength, Opening, split_text, split_u32};
use super::tables::event;
use super::tx::{Message, PgsqlTx, Startup, Text};
use crate::tx_list::{TxList, TxTable};
use crate::{Input, Outcome, ParseContext, Parser, ProtocolChange};
use gabion_record::Direction::{self, ToClient, ToServer};

/// Port whose probes are asked when TLS follows.
const TLS_PORT: u16 = 443;

/// Where the session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing was understood yet.
    Idle,
    SslRequested,
    /// The client has asked: startup, query, password, end.
    Requested,
    /// The server has asked for a password.
    WantsPassword,
    /// The server has named mechanisms of SASL.
    WantsSasl,
    /// The server has answered SASL's first message.
    WantsSaslResponse,
    /// The server waits for the client's copy.
    CopyIn,
    /// The first message of the client's copy.
    FirstCopied,
    /// Further ones.
    Copied,
    /// The server has answered.
    Answered,
}

impl State {
    /// A message in this state opens a transaction.
    fn opens(self) -> bool {
        matches!(self, State::Idle | State::SslRequested | State::Requested | State::FirstCopied)
    }
}

/// What a message came to.
enum Step {
    Done,
    /// An element ends too early: Suricata waits for the rest of it for good.
    Stuck,
    /// A message of a known kind with contents that are not: a number of a transaction is used for it.
    Refused,
    /// A message of a response that has as many as are kept: nothing of it is kept.
    Dropped,
}

/// Parser of a session.
#[derive(Debug)]
pub struct PgsqlParser {
    settings: Settings,
    txs: TxList<PgsqlTx>,
    state: State,
    /// Every transaction before this one is complete.
    first_open: u64,
    is_stuck: [bool; 2],
    /// Nothing more comes in the direction.
    has_ended: [bool; 2],
    /// Bytes of the texts of all live transactions.
    held: usize,
}

impl PgsqlParser {
    /// A parser.
    pub fn new(settings: Settings) -> PgsqlParser {
        PgsqlParser {
            settings,
            txs: TxList::default(),
            state: State::Idle,
            first_open: 0,
            is_stuck: [false; 2],
            has_ended: [false; 2],
            held: 0,
        }
    }

    fn open(&mut self) -> Option<&mut PgsqlTx> {
        if self.txs.len() as u64 > self.settings.txs_max {
            let is_open = |(_, tx): &(u64, &PgsqlTx)| !tx.is_complete;
            let oldest = self.txs.entries_from(self.first_open).find(is_open).map(|(id, _)| id);
            self.first_open = oldest.map_or(self.txs.next_id(), |id| id + 1);
            if let Some(tx) = oldest.and_then(|id| self.txs.get_mut(id)) {
                tx.is_complete = true;
                tx.events.add(event::TOO_MANY_TRANSACTIONS);
            }
        }
        if self.txs.len() >= super::limits::TXS_PER_FLOW_MAX {
            let gone = self.txs.first_live().map_or(0, |(_, tx)| tx.text_bytes);
            self.held = self.held.saturating_sub(gone);
        }
        let has_ended = self.has_ended;
        let make = |id| PgsqlTx { has_ended, ..PgsqlTx::new(id) };
        self.txs.push(Some(&reached::TXS_PER_FLOW_MAX), make);
        self.txs.last_mut()
    }

    /// The transaction of a message after which the session is in this state.
    fn tx_in(&mut self, state: State) -> Option<&mut PgsqlTx> {
        self.state = state;
        if state.opens() { self.open() } else { self.txs.last_mut() }
    }

    /// The transaction of a message that changes no state.
    fn tx(&mut self) -> Option<&mut PgsqlTx> {
        self.tx_in(self.state)
    }

    /// Keeps a text for the youngest transaction, unless the flow holds too much.
    fn text(&mut self, bytes: &[u8]) -> Text {
        if !reached::HELD_BYTES_MAX.holds(self.held + bytes.len()) {
            return Text::default();
        }
        self.held += bytes.len();
        bytes.into()
    }

    /// Adds the bytes of texts that were kept since `before` to the youngest transaction.
    fn settle(&mut self, before: usize) {
        let added = self.held.saturating_sub(before);
        match self.txs.last_mut() {
            Some(tx) => tx.text_bytes += added,
            None => self.held = before,
        }
    }

    fn opening(&mut self, body: &[u8]) -> Step {
        match message::read_opening(body) {
            Opening::Ssl => {
                if let Some(tx) = self.tx_in(State::SslRequested) {
                    tx.request().message = Some("SSL Request");
                }
            }
            Opening::Cancel { process, key } => {
                if let Some(tx) = self.tx_in(State::Requested) {
                    tx.request().message = Some("cancel_request");
                    tx.request().cancel = Some((process, key));
                    tx.is_complete = true;
                }
            }
            Opening::Startup { major, minor, user, parameters } => {
                let user = self.text(user);
                let parameters =
                    parameters.iter().map(|(k, v)| (self.text(k), self.text(v))).collect();
                if let Some(tx) = self.tx_in(State::Requested) {
                    tx.request().startup =
                        Some(Startup { version: (major, minor), user, parameters });
                }
            }
            Opening::Unknown => {
                if let Some(tx) = self.tx() {
                    tx.events.add(event::MALFORMED_REQUEST);
                }
            }
            Opening::Malformed => return Step::Refused,
        }
        Step::Done
    }

    fn request(&mut self, kind: u8, body: &[u8]) -> Step {
        match (kind, self.state) {
            (b'Q', _) => match split_text(body) {
                None => return Step::Stuck,
                Some(([], _)) => return Step::Refused,
                Some((query, _)) => {
                    let query = self.text(query);
                    if let Some(tx) = self.tx_in(State::Requested) {
                        tx.request().query = Some(query);
                    }
                }
            },
            (b'X', _) => {
                if let Some(tx) = self.tx_in(State::Requested) {
                    tx.request().message = Some("termination_message");
                    tx.is_complete = true;
                }
            }
            (b'p', State::WantsPassword) => match split_text(body) {
                None => return Step::Stuck,
                Some(([], _)) => return Step::Refused,
                Some((password, _)) => {
                    let password = self.text(password);
                    if let Some(tx) = self.tx_in(State::Requested) {
                        tx.request().password = Some(password);
                    }
                }
            },
            (b'p', State::WantsSasl) => {
                let sasl = sasl_start(body).map(|(name, text)| (name, self.text(text)));
                let raw = self.text(if sasl.is_none() { body } else { b"" });
                if let Some(tx) = self.tx_in(State::Requested) {
                    match sasl {
                        Some(sasl) => tx.request().sasl = Some(sasl),
                        None => tx.request().sasl_response = Some(raw),
                    }
                }
            }
            (b'p', State::WantsSaslResponse) => {
                let text = self.text(body);
                if let Some(tx) = self.tx_in(State::Requested) {
                    tx.request().sasl_response = Some(text);
                }
            }
            (b'd', State::CopyIn | State::FirstCopied | State::Copied) => {
                let is_first = self.state == State::CopyIn;
                let state = if is_first { State::FirstCopied } else { State::Copied };
                if let Some(tx) = self.tx_in(state) {
                    tx.add_row(body.len() as u64);
                }
            }
            (b'c' | b'f', _) => {
                let text = self.text(if kind == b'f' { body } else { b"" });
                if let Some(tx) = self.tx_in(State::Answered) {
                    let rows = tx.rows;
                    let request = tx.request();
                    request.copied = Some(rows).filter(|rows| rows.0 > 0).or(request.copied);
                    match kind {
                        b'c' => request.message = Some("copy_done"),
                        _ => request.copy_fail = Some(text),
                    }
                }
            }
            _ => drop(self.tx()),
        }
        Step::Done
    }

    fn ssl_answer(&mut self, cx: &mut ParseContext<'_>, is_accepted: bool) {
        let responses_max = self.settings.responses_max;
        if let Some(tx) = self.tx_in(State::Answered) {
            if let Some(response) = tx.next_response(responses_max) {
                response.ssl_accepted = Some(is_accepted);
            }
            tx.is_complete = true;
        }
        cx.trigger_raw[ToClient.index()] = true;
        if is_accepted {
            cx.change =
                Some(ProtocolChange { expected: Some(crate::tls::NAME), port: Some(TLS_PORT) });
        }
    }

    fn authentication(&mut self, body: &[u8]) -> Step {
        let Some((kind, rest)) = split_u32(body) else { return Step::Stuck };
        let plain = |text| Some(Message::Plain(text));
        let (state, message) = match kind {
            0 => (State::Answered, plain("authentication_ok")),
            3 => (State::WantsPassword, plain("authentication_cleartext_password")),
            5 if rest.len() == 4 => (State::WantsPassword, None),
            5 => return Step::Refused,
            10 if message::are_known_mechanisms(rest) => {
                (State::WantsSasl, plain("authentication_sasl"))
            }
            10 => return Step::Refused,
            11 => (State::WantsSaslResponse, plain("authentication_sasl_continue")),
            12 => (State::Answered, None),
            // SSPI is known, and not logged.
            9 => {
                self.tx();
                return Step::Done;
            }
            _ => {
                if let Some(tx) = self.tx() {
                    tx.events.add(event::MALFORMED_RESPONSE);
                }
                return Step::Done;
            }
        };
        let text = self.text(if matches!(kind, 5 | 12) { rest } else { b"" });
        let responses_max = self.settings.responses_max;
        let Some(tx) = self.tx_in(state) else { return Step::Done };
        tx.is_complete |= kind != 0;
        let Some(response) = tx.next_response(responses_max) else { return Step::Dropped };
        match kind {
            5 => response.salt = Some(text),
            12 => response.sasl_final = Some(text),
            _ => response.message = message,
        }
        Step::Done
    }

    fn error(&mut self, body: &[u8]) -> Step {
        let Some(fields) = message::read_error(body) else { return Step::Stuck };
        let fields: Vec<_> = fields.into_iter().map(|(k, text)| (k, self.text(text))).collect();
        let responses_max = self.settings.responses_max;
        let Some(tx) = self.tx_in(State::Answered) else { return Step::Done };
        let Some(response) = tx.next_response(responses_max) else { return Step::Dropped };
        for (kind, text) in fields {
            if kind == b'M' {
                response.message = Some(Message::OfError(text));
            } else if let Some(field) = response.error.iter_mut().find(|f| f.0 == kind) {
                field.1 = text;
            } else {
                response.error.push((kind, text));
            }
        }
        Step::Done
    }

    fn parameter(&mut self, body: &[u8]) -> Step {
        let found = split_text(body).and_then(|(name, rest)| Some((name, split_text(rest)?.0)));
        let Some((name, value)) = found else { return Step::Stuck };
        if name.is_empty() {
            return Step::Refused;
        }
        let parameter = (self.text(name), self.text(value));
        let responses_max = self.settings.responses_max;
        let Some(tx) = self.tx_in(State::Answered) else { return Step::Done };
        let Some(response) = tx.next_response(responses_max) else { return Step::Dropped };
        response.parameters.push(parameter);
        Step::Done
    }

    fn copy_start(&mut self, kind: u8, body: &[u8]) {
        let columns = message::copy_columns(body);
        let state = if kind == b'G' { State::CopyIn } else { State::Answered };
        let responses_max = self.settings.responses_max;
        let Some(tx) = self.tx_in(state) else { return };
        if columns.is_none() {
            tx.events.add(event::MALFORMED_RESPONSE);
        }
        tx.is_complete |= kind == b'G';
        let found = Some((columns.unwrap_or(0), columns.is_none()));
        let Some(response) = tx.next_response(responses_max) else { return };
        match kind {
            b'G' => response.copy_in = found,
            _ => response.copy_out = found,
        }
    }

    fn answer(&mut self, kind: u8, body: &[u8]) -> Step {
        let responses_max = self.settings.responses_max;
        match kind {
            _ if self.state == State::SslRequested => return Step::Refused,
            b'R' => return self.authentication(body),
            b'E' => return self.error(body),
            b'S' => return self.parameter(body),
            b'G' | b'H' => self.copy_start(kind, body),
            b'K' => {
                let key = split_u32(body).and_then(|(p, rest)| Some((p, split_u32(rest)?.0)));
                let tx = self.tx_in(State::Answered);
                if let Some(response) = tx.and_then(|tx| tx.next_response(responses_max)) {
                    response.key = key;
                }
            }
            b'Z' if !matches!(body, b"I" | b"T" | b"E") => return Step::Refused,
            b'Z' => {
                if let Some(tx) = self.tx_in(State::Answered) {
                    tx.next_response(responses_max);
                    tx.is_complete = true;
                }
            }
            b'T' => {
                let (count, is_right) = message::count_fields(body);
                if let Some(tx) = self.tx_in(State::Answered) {
                    if !is_right {
                        tx.events.add(event::MALFORMED_RESPONSE);
                    }
                    if let Some(response) = tx.next_response(responses_max) {
                        response.fields = Some((count, !is_right));
                    }
                }
            }
            b'D' | b'd' if self.state != State::Idle => {
                let size = match kind {
                    b'D' => message::row_size(body),
                    _ => Some(body.len() as u64),
                };
                if let Some(tx) = self.tx_in(State::Answered) {
                    if size.is_none() {
                        tx.events.add(event::MALFORMED_RESPONSE);
                    }
                    tx.add_row(size.unwrap_or(0));
                }
            }
            b'c' => {
                let tx = self.tx_in(State::Answered);
                if let Some((response, rows)) = tx.and_then(|tx| tx.sum_rows(responses_max)) {
                    response.copied = rows.or(response.copied);
                    response.message = Some(Message::Plain("copy_done"));
                }
            }
            b'C' => {
                let Some((command, _)) = split_text(body) else { return Step::Stuck };
                let command = self.text(command);
                let Some(tx) = self.tx_in(State::Answered) else { return Step::Done };
                let Some((response, rows)) = tx.sum_rows(responses_max) else {
                    return Step::Dropped;
                };
                response.rows = rows.or(response.rows);
                response.command = Some(command);
            }
            _ => drop(self.tx()),
        }
        Step::Done
    }

    /// Takes what is at the beginning of `bytes`: how many bytes it took, or how many it takes.
    fn one(
        &mut self,
        cx: &mut ParseContext<'_>,
        bytes: &[u8],
    ) -> Result<Result<usize, usize>, InvalidLength> {
        let d = cx.direction;
        if let (ToClient, State::SslRequested, Some(first @ (b'S' | b'N'))) =
            (d, self.state, bytes.first())
        {
            self.ssl_answer(cx, *first == b'S');
            return Ok(Ok(1));
        }
        let Some(head) = Head::from_bytes(bytes, d)? else { return Ok(Err(bytes.len() + 1)) };
        if !head.has_valid_length(d) {
            return Err(InvalidLength);
        }
        let total = usize::try_from(head.total).map_err(|_| InvalidLength)?;
        let at = total.saturating_sub(usize::try_from(head.body).map_err(|_| InvalidLength)?);
        let Some(body) = bytes.get(at..total) else { return Ok(Err(total)) };
        let before = self.held;
        let step = match (head.kind, d) {
            (None, _) => self.opening(body),
            (Some(kind), ToServer) => self.request(kind, body),
            (Some(kind), ToClient) => self.answer(kind, body),
        };
        if matches!(step, Step::Dropped) {
            self.held = before;
        }
        self.settle(before);
        match step {
            // An answer that ends a transaction makes stream data due.
            Step::Done | Step::Dropped => {
                let is_over = self.txs.last_mut().is_some_and(|tx| tx.is_complete);
                cx.trigger_raw[ToClient.index()] |= d == ToClient && is_over;
            }
            Step::Stuck => self.is_stuck[d.index()] = true,
            Step::Refused => self.txs.skip(),
        }
        Ok(Ok(total))
    }

    fn messages(&mut self, cx: &mut ParseContext<'_>, bytes: &[u8]) -> Outcome {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            if self.is_stuck[cx.direction.index()] {
                break;
            }
            match self.one(cx, rest) {
                Ok(Ok(len)) => at += len,
                Ok(Err(needed)) => return Outcome::Incomplete { consumed: at, needed },
                Err(InvalidLength) => {
                    if let Some(tx) = self.open() {
                        tx.is_complete = true;
                        tx.events.add(event::INVALID_LENGTH);
                    }
                    return Outcome::Error;
                }
            }
            if cx.change.is_some() && at < bytes.len() {
                return Outcome::Incomplete { consumed: at, needed: bytes.len() - at + 1 };
            }
        }
        Outcome::Done
    }
}

/// The mechanism of SASL's first message and what follows it.
fn sasl_start(body: &[u8]) -> Option<(&'static str, &[u8])> {
    let (mechanism, rest) = split_text(body)?;
    let (len, text) = split_u32(rest)?;
    (text.len() == len as usize).then_some((message::mechanism_name(mechanism)?, text))
}

impl Parser for PgsqlParser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        let Input::Data { bytes, eof } = input else { return Outcome::Done };
        let outcome = self.messages(cx, bytes);
        if eof {
            self.finish(cx.direction);
        }
        outcome
    }

    fn txs(&self) -> &dyn TxTable {
        &self.txs
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.txs
    }

    fn free(&mut self, id: u64) {
        if let Some(tx) = self.txs.free(id) {
            self.held = self.held.saturating_sub(tx.text_bytes);
        }
    }

    fn finish(&mut self, direction: Direction) {
        self.has_ended[direction.index()] = true;
        for tx in self.txs.iter_mut() {
            tx.has_ended[direction.index()] = true;
        }
    }

    fn bytes_held(&self) -> usize {
        let txs: usize = self.txs.iter().map(PgsqlTx::bytes_held).sum();
        size_of::<PgsqlParser>() + self.txs.bytes_held() + txs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endpoints;
    use crate::pgsql::limits::{HELD_BYTES_MAX, PARAMETERS_MAX, RESPONSES_MAX, TXS_PER_FLOW_MAX};

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 4).to_be_bytes();
        [&[kind][..], &length, body].concat()
    }

    fn feed(parser: &mut PgsqlParser, direction: Direction, bytes: &[u8]) {
        let ends = Endpoints::default();
        let mut cx = ParseContext::new(0, direction, &ends);
        assert_eq!(parser.parse(&mut cx, Input::Data { bytes, eof: false }), Outcome::Done);
    }

    #[test]
    fn what_a_flow_holds_is_bounded() {
        let mut parser = PgsqlParser::new(Settings::default());
        let ends = message(b'X', b"").repeat(TXS_PER_FLOW_MAX + 5);
        feed(&mut parser, ToServer, &ends);
        assert_eq!(parser.txs.len(), TXS_PER_FLOW_MAX);
        let long = message(b'Q', &[&vec![b'q'; HELD_BYTES_MAX / 4][..], b"\0"].concat());
        (0..6).for_each(|_| feed(&mut parser, ToServer, &long));
        assert!(parser.held <= HELD_BYTES_MAX && parser.bytes_held() < HELD_BYTES_MAX * 2);
        let mut parser = PgsqlParser::new(Settings::default());
        feed(&mut parser, ToServer, &message(b'Q', b"q\0"));
        let responses = RESPONSES_MAX as usize;
        feed(&mut parser, ToClient, &message(b'S', b"a\0b\0").repeat(responses + 3));
        assert_eq!(parser.held, 1 + 2 * responses, "nothing is kept of messages that are dropped");
        let start =
            [b"\0\x03\0\0user\0u\0".to_vec(), b"n\0v\0".repeat(PARAMETERS_MAX + 7)].concat();
        let start = [&(start.len() as u32 + 4).to_be_bytes()[..], &start].concat();
        feed(&mut PgsqlParser::new(Settings::default()), ToServer, &start);
        let counts = gabion_record::limits::take_reached();
        assert_eq!(counts.times_reached(&reached::TXS_PER_FLOW_MAX), 11);
        assert_eq!(counts.times_reached(&reached::HELD_BYTES_MAX), 2);
        assert_eq!(counts.times_reached(&reached::PARAMETERS_MAX), 7);
        assert_eq!(counts.times_reached(&reached::RESPONSES_MAX), 3);
    }
}
