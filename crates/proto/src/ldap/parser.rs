//! One LDAP session: requests and their responses become transactions, found by the number that both carry.

use super::limits::HELD_BYTES_MAX;
use super::message::{Fault, Message, Operation, message_len};
use super::settings::Settings;
use super::tables::{event, frame};
use super::tx::LdapTx;
use crate::tx_list::{TxList, TxTable};
use crate::{Input, Outcome, ParseContext, Parser, ProtocolChange};
use gabion_record::Direction::{self, ToClient, ToServer};

/// The extension that asks for TLS (RFC 4511 4.14.1).
const START_TLS: &[u8] = b"1.3.6.1.4.1.1466.20037";

/// Port whose probes are asked when TLS follows.
const TLS_PORT: u16 = 443;

/// Parser of a session.
#[derive(Debug)]
pub struct LdapParser {
    settings: Settings,
    is_stream: bool,
    txs: TxList<LdapTx>,
    /// Every transaction before this one is complete.
    first_open: u64,
    /// Bytes of the messages of all live transactions.
    held: usize,
    /// A message of the direction lacks an element: Suricata waits for it for good.
    is_stuck: [bool; 2],
    /// Bytes of the direction were lost and no message has come since.
    is_behind_gap: [bool; 2],
    /// Nothing more comes in the direction.
    has_ended: [bool; 2],
    /// The server has granted TLS: what the client sends next begins it.
    is_tls_granted: bool,
}

impl LdapParser {
    /// A parser of a stream, or of datagrams.
    pub fn new(settings: Settings, is_stream: bool) -> LdapParser {
        LdapParser {
            settings,
            is_stream,
            txs: TxList::default(),
            first_open: 0,
            held: 0,
            is_stuck: [false; 2],
            is_behind_gap: [false; 2],
            has_ended: [false; 2],
            is_tls_granted: false,
        }
    }

    /// A transaction more. `None`: there are too many, which ends the flow.
    fn push(&mut self) -> Option<&mut LdapTx> {
        if self.txs.len() as u64 > self.settings.txs_max {
            for tx in self.txs.iter_mut() {
                if !tx.is_complete {
                    tx.events.add(event::TOO_MANY_TRANSACTIONS);
                }
                tx.is_complete = true;
            }
            return None;
        }
        let has_ended = self.has_ended;
        self.txs.push(None, |id| LdapTx { has_ended, ..LdapTx::new(id) });
        self.txs.last_mut()
    }

    /// The event of a message that can't be read is left on the youngest transaction, if there is one.
    fn fail(&mut self, code: u16) -> Outcome {
        if let Some(tx) = self.txs.last_mut() {
            tx.events.add(code);
        }
        Outcome::Error
    }

    /// False: the flow can't be followed any more.
    fn request(&mut self, message: Message) -> bool {
        let cost = message.cost();
        let Some(tx) = self.push() else { return false };
        tx.is_complete = matches!(message.operation, Operation::Unbind | Operation::Abandon(_));
        tx.request = Some(message);
        self.held += cost;
        true
    }

    /// The oldest transaction that waits for a response to this number.
    fn waiting(&mut self, number: u32) -> Option<u64> {
        let mut open = self.txs.entries_from(self.first_open).filter(|(_, tx)| !tx.is_complete);
        let is_it = |tx: &LdapTx| tx.request.as_ref().is_some_and(|r| r.id == number);
        let first = open.next();
        let found = first.into_iter().chain(open).find(|(_, tx)| is_it(tx)).map(|(id, _)| id);
        self.first_open = first.map_or(self.txs.next_id(), |(id, _)| id);
        found
    }

    /// False: the flow can't be followed any more.
    fn response(&mut self, message: Message) -> bool {
        let is_last = !message.is_continued();
        let cost = message.cost();
        let Some(id) = self.waiting(message.id) else {
            // A server may send a notice (RFC 4511 4.4).
            let is_notice = matches!(message.operation, Operation::ExtendedResult { .. });
            let Some(tx) = self.push() else { return false };
            tx.is_complete = true;
            tx.add_response(message);
            if !is_notice {
                tx.events.add(event::REQUEST_NOT_FOUND);
            }
            self.held += cost;
            return true;
        };
        let has_space = self.held <= HELD_BYTES_MAX;
        let Some(tx) = self.txs.get_mut(id) else { return true };
        self.is_tls_granted |= self.is_stream && starts_tls(tx, &message);
        tx.is_complete |= is_last;
        if tx.responses.len() as u64 >= self.settings.responses_max || !has_space {
            tx.events.add(event::TOO_MANY_RESPONSES);
        } else {
            tx.add_response(message);
            self.held += cost;
        }
        true
    }

    /// Takes the message at the beginning of `bytes`, which is at this offset of the input.
    fn one(&mut self, cx: &mut ParseContext<'_>, bytes: &[u8], at: usize) -> Step {
        let len = match message_len(bytes) {
            Ok(Some(len)) => len,
            Ok(None) => return Step::Needs(bytes.len() + 1),
            Err(fault) => return Step::Fails(fault),
        };
        let Some(whole) = bytes.get(..len) else { return Step::Needs(len) };
        let message = match Message::parse(whole) {
            Ok(message) => message,
            Err(fault) => return Step::Fails(fault),
        };
        cx.frames.add(cx.direction, frame::PDU, at, len as u64, None);
        let is_followed = match cx.direction {
            ToServer => self.request(message),
            ToClient => self.response(message),
        };
        cx.trigger_raw[cx.direction.index()] = true;
        if is_followed { Step::Used(len) } else { Step::Ends }
    }

    fn stream(&mut self, cx: &mut ParseContext<'_>, bytes: &[u8]) -> Outcome {
        if self.is_tls_granted && cx.direction == ToServer && !bytes.is_empty() {
            cx.change =
                Some(ProtocolChange { expected: Some(crate::tls::NAME), port: Some(TLS_PORT) });
            return Outcome::Incomplete { consumed: 0, needed: bytes.len() + 1 };
        }
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            if self.is_stuck[cx.direction.index()] {
                break;
            }
            match self.one(cx, rest, at) {
                Step::Used(len) => {
                    self.is_behind_gap[cx.direction.index()] = false;
                    at += len;
                }
                Step::Needs(needed) => return Outcome::Incomplete { consumed: at, needed },
                // What follows lost bytes may be the rest of a message: Suricata leaves it out.
                Step::Fails(_) if self.is_behind_gap[cx.direction.index()] => return Outcome::Done,
                Step::Fails(Fault::Missing) => self.is_stuck[cx.direction.index()] = true,
                Step::Fails(Fault::Wrong) => return self.fail(event::INVALID_DATA),
                Step::Ends => return Outcome::Error,
            }
        }
        Outcome::Done
    }

    /// Of a client's datagram only the first message is read, of a server's all that are whole (Suricata 8.0.7).
    fn datagram(&mut self, cx: &mut ParseContext<'_>, bytes: &[u8]) -> Outcome {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match self.one(cx, rest, at) {
                Step::Used(len) => at += len,
                Step::Ends => return Outcome::Error,
                Step::Needs(_) | Step::Fails(_) if at == 0 => {
                    return self.fail(event::INCOMPLETE_DATA);
                }
                Step::Needs(_) | Step::Fails(_) => break,
            }
            if cx.direction == ToServer {
                break;
            }
        }
        Outcome::Done
    }
}

/// The outcome of a message.
enum Step {
    /// Bytes it took.
    Used(usize),
    /// Bytes it takes.
    Needs(usize),
    /// It can't be read.
    Fails(Fault),
    /// The flow can't be followed any more.
    Ends,
}

/// Whether an answer grants the request for TLS.
fn starts_tls(tx: &LdapTx, answer: &Message) -> bool {
    let Some(request) = &tx.request else { return false };
    let Operation::Extended { name, .. } = &request.operation else { return false };
    request.bytes(*name) == START_TLS && answer.result().is_some_and(|r| r.code == 0)
}

impl Parser for LdapParser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        match input {
            Input::Data { bytes, eof } if self.is_stream => {
                let outcome = self.stream(cx, bytes);
                if eof {
                    self.finish(cx.direction);
                }
                outcome
            }
            Input::Data { bytes, .. } => self.datagram(cx, bytes),
            Input::Gap { .. } => {
                self.is_behind_gap[cx.direction.index()] = true;
                Outcome::Done
            }
        }
    }

    fn txs(&self) -> &dyn TxTable {
        &self.txs
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.txs
    }

    fn free(&mut self, id: u64) {
        if let Some(tx) = self.txs.free(id) {
            self.held = self.held.saturating_sub(tx.message_bytes());
        }
    }

    fn finish(&mut self, direction: Direction) {
        self.has_ended[direction.index()] = true;
        for tx in self.txs.iter_mut() {
            tx.has_ended[direction.index()] = true;
        }
    }

    fn bytes_held(&self) -> usize {
        size_of::<LdapParser>() + self.txs.bytes_held() + self.held
    }
}
