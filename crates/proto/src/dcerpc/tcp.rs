//! An association over TCP: messages of both sides become transactions.
//!
//! As in Suricata 8.0.7, a bind, an alter_context and each fragment of a call is a transaction of its
//! own, and each answer or fragment of it answers the oldest message of its kind and call that was not
//! answered yet; an answer that nothing waits for is a transaction, too. A message that can't be read ends
//! the flow, and so does the next message of a side that lost bytes. (Suricata 8.0.7 also ends the flow
//! where a call or answer is followed in its segment by more bytes than its own body has; here any split
//! gives the same transactions.)

use super::contexts::Contexts;
use super::limits::reached;
use super::pdu::{self, HEADER_BYTES, Header, kind};
use super::settings::Settings;
use super::tables::frame;
use super::tx::{CallNumber, DcerpcTx};
use super::waiting::Waiting;
use crate::tx_list::{TxList, TxTable};
use crate::{Input, Outcome, ParseContext, Parser};
use gabion_record::Direction::{self, ToClient, ToServer};

/// The version of the connection-oriented protocol (C706 12.6.3.1).
const VERSION: u8 = 5;

/// Parser of an association.
#[derive(Debug)]
pub struct Association {
    settings: Settings,
    txs: TxList<DcerpcTx>,
    contexts: Contexts,
    /// Transactions that wait for an answer, by the call's number and the type of the answer.
    unanswered: Waiting<(u32, u8)>,
    /// Transactions whose call did not come, or had no stub data, by its number.
    uncalled: Waiting<u32>,
    /// All transactions before this one are done.
    done_before: u64,
    /// Bytes of a direction were lost.
    is_torn: [bool; 2],
}

/// A message that can't be read.
struct Malformed;

impl Association {
    /// A parser.
    pub fn new(settings: Settings) -> Association {
        Association {
            settings,
            txs: TxList::default(),
            contexts: Contexts::default(),
            unanswered: Waiting::default(),
            uncalled: Waiting::default(),
            done_before: 0,
            is_torn: [false; 2],
        }
    }

    /// Takes a whole message. The direction whose stream data it makes due, as in Suricata 8.0.7, if any: by its type,
    /// whichever side sent it.
    fn take_message(
        &mut self,
        header: &Header,
        message: &[u8],
    ) -> Result<Option<Direction>, Malformed> {
        match header.kind {
            kind::BIND | kind::ALTER_CONTEXT => {
                let mut offers = pdu::parse_offers(header, message).ok_or(Malformed)?;
                if !header.is_little {
                    // Over TCP Suricata takes two numbers of 16 bits, the major version first; in pipes it does not.
                    offers.iter_mut().for_each(|o| o.version = (o.version.1, o.version.0));
                }
                self.contexts.offer(header.call_id, &offers);
                self.take_bind(header);
                Ok(Some(ToServer))
            }
            kind::BIND_ACK | kind::ALTER_CONTEXT_RESP => {
                let acks = pdu::parse_acks(header, message).ok_or(Malformed)?;
                self.contexts.decide(header.call_id, &acks);
                self.take_answer(header, &[]);
                Ok(Some(ToClient))
            }
            kind::REQUEST => {
                let call = pdu::parse_request(header, message).ok_or(Malformed)?;
                let number = (call.context_id, call.opnum.unwrap_or_default());
                self.take_call(header, number, call.stub);
                Ok((!call.stub.is_empty()).then_some(ToServer))
            }
            kind::RESPONSE => {
                self.take_answer(header, message.get(HEADER_BYTES..).unwrap_or_default());
                Ok(Some(ToClient))
            }
            // Suricata 8.0.7 passes over all others: faults, refusals, and numbers that are no type.
            _ => Ok(None),
        }
    }

    fn take_bind(&mut self, header: &Header) {
        let answer = match header.kind {
            kind::BIND => kind::BIND_ACK,
            _ => kind::ALTER_CONTEXT_RESP,
        };
        let id = self.add_tx(header);
        self.unanswered.push((header.call_id, answer), id);
        self.complete(id, ToServer, header.kind);
    }

    /// Takes a fragment of a call: one without stub data waits for the next.
    fn take_call(&mut self, header: &Header, number: (u16, u16), stub: &[u8]) {
        let id = match self.uncalled.first(header.call_id) {
            Some(id) => id,
            None => {
                let id = self.add_tx(header);
                self.unanswered.push((header.call_id, kind::RESPONSE), id);
                self.uncalled.push(header.call_id, id);
                id
            }
        };
        let Some(tx) = self.txs.get_mut(id) else { return };
        (tx.call, tx.is_little) = (Some(number), header.is_little);
        if stub.is_empty() {
            return self.resolve(id);
        }
        tx.side_mut(ToServer).add_stub(stub, self.settings.stub_max);
        self.uncalled.remove(header.call_id, id);
        self.complete(id, ToServer, kind::REQUEST);
    }

    fn take_answer(&mut self, header: &Header, stub: &[u8]) {
        let key = (header.call_id, header.kind);
        let id = match self.unanswered.first(key) {
            Some(id) => id,
            None => {
                let id = self.add_tx(header);
                self.unanswered.push(key, id);
                if header.kind == kind::RESPONSE {
                    self.uncalled.push(header.call_id, id);
                }
                id
            }
        };
        if header.kind == kind::RESPONSE {
            if stub.is_empty() {
                return;
            }
            if let Some(tx) = self.txs.get_mut(id) {
                tx.side_mut(ToClient).add_stub(stub, self.settings.stub_max);
            }
        }
        self.unanswered.remove(key, id);
        self.complete(id, ToClient, header.kind);
    }

    /// Adds a transaction. If as many wait as may, the oldest of them waits no more.
    fn add_tx(&mut self, header: &Header) -> u64 {
        if self.txs.len() as u64 > self.settings.txs_max {
            let mut waiting = self.txs.entries_from(self.done_before);
            let oldest = waiting.find(|(_, tx)| !tx.is_done()).map(|(id, _)| id);
            drop(waiting);
            if let Some(id) = oldest {
                self.done_before = id + 1;
                self.give_up_waiting(id);
            }
        }
        let id = self.txs.next_id();
        if self.txs.len() >= super::limits::TXS_PER_FLOW_MAX {
            self.forget(self.txs.first_id());
        }
        let number = CallNumber::Association { call_id: header.call_id, minor: header.minor };
        let is_little = header.is_little;
        self.txs.push(Some(&reached::TXS_PER_FLOW_MAX), |id| DcerpcTx::new(id, number, is_little));
        id
    }

    /// A side of a transaction is complete.
    fn complete(&mut self, id: u64, direction: Direction, kind: u8) {
        if let Some(tx) = self.txs.get_mut(id) {
            tx.side_mut(direction).kind = Some(kind);
        }
        self.resolve(id);
    }

    fn give_up_waiting(&mut self, id: u64) {
        reached::OPEN_TXS_MAX.count();
        self.forget(id);
        if let Some(tx) = self.txs.get_mut(id) {
            tx.complete();
        }
        self.resolve(id);
    }

    /// A transaction waits for nothing any more.
    fn forget(&mut self, id: u64) {
        let Some(tx) = self.txs.get(id) else { return };
        let CallNumber::Association { call_id, .. } = tx.number else { return };
        if tx.side(ToServer).kind.is_none() {
            self.uncalled.remove(call_id, id);
        }
        if tx.side(ToClient).kind.is_none() {
            let answer = match tx.side(ToServer).kind {
                Some(kind::BIND) => kind::BIND_ACK,
                Some(kind::ALTER_CONTEXT) => kind::ALTER_CONTEXT_RESP,
                _ => kind::RESPONSE,
            };
            self.unanswered.remove((call_id, answer), id);
        }
    }

    /// Looks up the interfaces of a transaction as they are now.
    fn resolve(&mut self, id: u64) {
        let contexts = &self.contexts;
        let Some(tx) = self.txs.get_mut(id) else { return };
        tx.interfaces.clear();
        let CallNumber::Association { call_id, .. } = tx.number else { return };
        match tx.side(ToServer).kind {
            Some(kind::BIND) => tx.interfaces.extend(contexts.offered_by(call_id)),
            Some(kind::ALTER_CONTEXT) => {}
            Some(_) => {
                let context_id = tx.call.map_or(0, |(context_id, _)| context_id);
                tx.interfaces.extend(contexts.find(context_id));
            }
            None => {
                let found = tx.call.and_then(|(context_id, _)| contexts.find(context_id));
                tx.interfaces.extend(found);
            }
        }
    }

    /// Nothing more comes in a direction.
    fn end(&mut self, direction: Direction) {
        let open: Vec<u64> =
            self.txs.entries().filter(|(_, tx)| !tx.is_done()).map(|(id, _)| id).collect();
        for id in open {
            if let Some(tx) = self.txs.get_mut(id) {
                tx.side_mut(direction).has_ended = true;
            }
            self.resolve(id);
        }
    }

    /// Frames of the message that begins `at` bytes after the start of the input.
    fn note_frames(cx: &mut ParseContext<'_>, at: usize, header: &Header) {
        let (direction, len) = (cx.direction, u64::from(header.len));
        let head = HEADER_BYTES as u64;
        cx.frames.add(direction, frame::HEADER, at, head, None);
        cx.frames.add(direction, frame::PDU, at, len, None);
        if len > head {
            cx.frames.add(direction, frame::DATA, at + HEADER_BYTES, len - head, None);
        }
    }
}

impl Parser for Association {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        let torn = &mut self.is_torn[cx.direction.index()];
        let bytes = match input {
            Input::Data { bytes, .. } => bytes,
            Input::Gap { .. } => {
                *torn = true;
                return Outcome::Done;
            }
        };
        let mut is_readable = !*torn || bytes.is_empty();
        let mut rest = bytes;
        while is_readable && !rest.is_empty() {
            let consumed = bytes.len() - rest.len();
            let Some(header) = Header::parse(rest) else {
                return Outcome::Incomplete { consumed, needed: HEADER_BYTES };
            };
            let len = usize::from(header.len);
            if header.version != VERSION || len < HEADER_BYTES {
                is_readable = false;
                break;
            }
            let Some((message, behind)) = rest.split_at_checked(len) else {
                return Outcome::Incomplete { consumed, needed: len };
            };
            Association::note_frames(cx, consumed, &header);
            match self.take_message(&header, message) {
                Ok(due) => due.into_iter().for_each(|d| cx.trigger_raw[d.index()] = true),
                Err(Malformed) => is_readable = false,
            }
            rest = behind;
        }
        if is_readable {
            return Outcome::Done;
        }
        Direction::BOTH.into_iter().for_each(|d| self.end(d));
        Outcome::Error
    }

    fn txs(&self) -> &dyn TxTable {
        &self.txs
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.txs
    }

    fn free(&mut self, id: u64) {
        self.forget(id);
        self.txs.discard(id);
    }

    fn finish(&mut self, direction: Direction) {
        self.end(direction);
    }

    fn bytes_held(&self) -> usize {
        size_of::<Association>()
            + self.contexts.bytes_held()
            + self.unanswered.bytes_held()
            + self.uncalled.bytes_held()
            + self.txs.iter().map(DcerpcTx::bytes_held).sum::<usize>()
    }
}
