//! One MQTT session: messages become transactions.
//!
//! What answers a request is found by the number it carries, whatever its kind and direction (the
//! peer's behaviour); a CONNACK by a number no message can carry. A message that can't be read ends
//! the flow.

use super::limits::{HELD_BYTES_MAX, TXS_PER_FLOW_MAX, reached};
use super::message::{Body, Header, Malformed, Message, Start, kind};
use super::settings::Settings;
use super::tables::{event, frame};
use super::tx::MqttTx;
use crate::parser::EventList;
use crate::tx_list::{TxList, TxTable};
use crate::{Input, Outcome, ParseContext, Parser};
use gabion_record::Direction;
use smallvec::SmallVec;
use std::collections::{HashMap, VecDeque};

/// Number of a CONNECT, beyond those of 16 bits that messages carry.
const CONNECT_ID: u32 = u32::MAX;

/// A transaction that waits for an answer.
#[derive(Clone, Copy, Debug)]
struct Open {
    tx: u64,
    id: Option<u32>,
}

/// Entries of answered transactions that are left among the open ones, however few are open.
const ANSWERED_LEFT: usize = 16;

/// Transactions that wait for the same number.
#[derive(Debug)]
struct Same {
    oldest: u64,
    /// In order.
    others: VecDeque<u64>,
}

/// Transactions that wait for an answer. An answer finds its own in one step, however many wait: a
/// segment can hold hundreds of answers to nothing.
#[derive(Debug, Default)]
struct Waiting {
    /// Oldest first; some were answered since.
    all: VecDeque<Open>,
    /// Those that wait by the number they wait for.
    by_id: HashMap<u32, Same>,
    /// How many of all wait.
    live: usize,
}

impl Waiting {
    fn push(&mut self, open: Open) {
        if self.all.len() > 2 * self.live + ANSWERED_LEFT {
            let by_id = &self.by_id;
            self.all.retain(|o| is_waiting(by_id, o));
        }
        if let Some(id) = open.id {
            self.by_id
                .entry(id)
                .and_modify(|same| same.others.push_back(open.tx))
                .or_insert_with(|| Same { oldest: open.tx, others: VecDeque::new() });
        }
        self.all.push_back(open);
        self.live += 1;
    }

    /// The oldest that waits for this number.
    fn find(&self, id: u32) -> Option<u64> {
        self.by_id.get(&id).map(|same| same.oldest)
    }

    /// The oldest that waits for this number waits no more.
    fn answered(&mut self, id: u32) {
        let Some(same) = self.by_id.get_mut(&id) else { return };
        match same.others.pop_front() {
            Some(next) => same.oldest = next,
            None => drop(self.by_id.remove(&id)),
        }
        self.live -= 1;
    }

    /// Takes the oldest out.
    fn pop_oldest(&mut self) -> Option<u64> {
        while let Some(oldest) = self.all.pop_front() {
            if is_waiting(&self.by_id, &oldest) {
                match oldest.id {
                    Some(id) => self.answered(id),
                    None => self.live -= 1,
                }
                return Some(oldest.tx);
            }
        }
        None
    }

    fn bytes_held(&self) -> usize {
        self.all.capacity() * size_of::<Open>()
            + self.by_id.capacity() * size_of::<(u32, Same)>()
            + self.live * size_of::<u64>()
    }
}

/// Whether a transaction was not answered since. What waits for no number waits until it is closed.
fn is_waiting(by_id: &HashMap<u32, Same>, open: &Open) -> bool {
    let Some(id) = open.id else { return true };
    let is_one =
        |same: &Same| same.oldest == open.tx || same.others.binary_search(&open.tx).is_ok();
    by_id.get(&id).is_some_and(is_one)
}

/// Parser of an MQTT session.
#[derive(Debug)]
pub struct MqttParser {
    settings: Settings,
    txs: TxList<MqttTx>,
    open: Waiting,
    /// Version of the last CONNECT.
    version: u8,
    /// A CONNECT was accepted, or refused, but answered.
    is_connected: bool,
    /// Bytes still to be passed over in each direction.
    skip: [u64; 2],
    /// Bytes of the messages of all live transactions.
    held: usize,
}

/// What a new transaction is like.
struct Opening {
    events: SmallVec<[u16; 2]>,
    /// Number it waits for; `None`: it is complete.
    waits: Option<Option<u32>>,
}

impl MqttParser {
    /// A parser.
    pub fn new(settings: Settings) -> MqttParser {
        MqttParser {
            settings,
            txs: TxList::default(),
            open: Waiting::default(),
            version: 0,
            is_connected: false,
            skip: [0; 2],
            held: 0,
        }
    }

    /// The peer closes the oldest that is open; closed ones are about to go anyway.
    fn close_oldest(&mut self) {
        while let Some(oldest) = self.open.pop_oldest() {
            if let Some(tx) = self.txs.get_mut(oldest) {
                tx.is_complete = true;
                tx.events.add(event::TOO_MANY_TRANSACTIONS);
                return;
            }
        }
    }

    fn push(&mut self, direction: Direction, message: Option<Message>, opening: Opening) {
        self.held += message.as_ref().map_or(0, Message::cost);
        if self.txs.len() as u64 > self.settings.txs_max || self.held > HELD_BYTES_MAX {
            self.close_oldest();
        }
        if self.txs.len() >= TXS_PER_FLOW_MAX {
            let gone = self.txs.iter().next().map_or(0, MqttTx::message_bytes);
            self.held = self.held.saturating_sub(gone);
        }
        let messages = match message {
            Some(message) => SmallVec::from_buf([message]),
            None => SmallVec::new(),
        };
        let mut events = EventList::default();
        opening.events.iter().for_each(|code| events.add(*code));
        let matched = [self.settings.subscribe_matched_max, self.settings.unsubscribe_matched_max];
        let version = self.version;
        if let Some(id) = opening.waits {
            self.open.push(Open { tx: self.txs.next_id(), id });
        }
        self.txs.push(Some(&reached::TXS_PER_FLOW_MAX), |id| MqttTx {
            id,
            direction,
            messages,
            version,
            matched_max: matched.map(|n| match n {
                0 => usize::MAX,
                n => usize::try_from(n).unwrap_or(usize::MAX),
            }),
            is_complete: opening.waits.is_none(),
            events,
        });
    }

    /// Adds an answer to the transaction that waits for it. Gives the message back when none does.
    fn answer(&mut self, id: u32, message: Message, is_last: bool) -> Option<Message> {
        let Some(at) = self.open.find(id) else { return Some(message) };
        let Some(tx) = self.txs.get_mut(at) else {
            self.open.answered(id);
            return Some(message);
        };
        if is_last {
            tx.is_complete = true;
            self.open.answered(id);
        } else if tx.messages.len() as u64 >= self.settings.messages_max
            || self.held > HELD_BYTES_MAX
        {
            tx.events.add(event::TOO_MANY_MESSAGES);
            return None;
        }
        self.held += message.cost();
        tx.messages.push(message);
        None
    }

    fn message(&mut self, direction: Direction, message: Message) {
        let mut events: SmallVec<[u16; 2]> = SmallVec::new();
        let qos = message.header.qos();
        let kind = message.header.kind();
        let mut has_to_be_connected = !matches!(message.body, Body::Skipped(_));
        let mut waits = None;
        let message = match message.body {
            Body::Skipped(_) => message,
            Body::Connect(ref connect) => {
                self.version = connect.version;
                has_to_be_connected = false;
                waits = Some(Some(CONNECT_ID));
                if self.is_connected {
                    events.push(event::DOUBLE_CONNECT);
                }
                message
            }
            Body::Connack { .. } => {
                has_to_be_connected = false;
                let Some(message) = self.answer(CONNECT_ID, message, true) else {
                    self.is_connected = true;
                    return;
                };
                events.push(event::MISSING_CONNECT);
                message
            }
            Body::Publish { id, .. } => {
                match (qos, id) {
                    (0, _) => {}
                    (1 | 2, Some(id)) => waits = Some(Some(id.into())),
                    (1 | 2, None) => {
                        waits = Some(None);
                        events.push(event::MISSING_MSG_ID);
                    }
                    _ => {
                        waits = Some(None);
                        events.push(event::INVALID_QOS_LEVEL);
                    }
                }
                message
            }
            Body::Subscribe { id, .. } | Body::Unsubscribe { id, .. } => {
                match qos {
                    0 => {}
                    1 | 2 => waits = Some(Some(id.into())),
                    _ => {
                        waits = Some(None);
                        events.push(event::INVALID_QOS_LEVEL);
                    }
                }
                message
            }
            Body::PublishAnswer { id, .. } | Body::SubscribeAnswer { id, .. } => {
                let is_last = !matches!(kind, kind::PUBREC | kind::PUBREL);
                let Some(message) = self.answer(id.into(), message, is_last) else { return };
                events.push(match kind {
                    kind::SUBACK => event::MISSING_SUBSCRIBE,
                    kind::UNSUBACK => event::MISSING_UNSUBSCRIBE,
                    _ => event::MISSING_PUBLISH,
                });
                message
            }
            Body::Plain if kind == kind::UNASSIGNED => {
                has_to_be_connected = false;
                events.push(event::UNASSIGNED_MSG_TYPE);
                message
            }
            Body::Plain | Body::Reason { .. } => message,
        };
        if has_to_be_connected && !self.is_connected {
            events.push(event::UNINTRODUCED_MESSAGE);
        }
        self.push(direction, Some(message), Opening { events, waits });
    }

    /// Takes what stands at the beginning of `bytes`, which is so far into the input. `Ok`: bytes
    /// used, or how many it takes.
    fn one(
        &mut self,
        cx: &mut ParseContext<'_>,
        bytes: &[u8],
        at: usize,
    ) -> Result<Step, Malformed> {
        let d = cx.direction;
        let header = match Header::read(bytes) {
            Start::Header(header) => header,
            Start::More => return Ok(Step::Needs(bytes.len() + 1)),
            Start::Wrong => return Err(Malformed),
        };
        if u64::from(header.len) > self.settings.message_max {
            cx.frames.add(d, frame::PDU, at, header.total_len(), None);
            self.skip[d.index()] = header.total_len();
            self.message(d, Message::skipped(header));
            return Ok(Step::Used(0));
        }
        let total = usize::try_from(header.total_len()).map_err(|_| Malformed)?;
        let Some(contents) = bytes.get(usize::from(header.header_len)..total) else {
            return Ok(Step::Needs(total));
        };
        let message = Message::read(header, contents, self.version)?;
        let header_len = usize::from(header.header_len);
        cx.frames.add(d, frame::PDU, at, header.total_len(), None);
        // The peer places these two at the input's first message, whichever message they are of.
        cx.frames.add(d, frame::HEADER, 0, header_len as u64, None);
        cx.frames.add(d, frame::DATA, header_len, header.len.into(), None);
        self.message(d, message);
        Ok(Step::Used(total))
    }
}

enum Step {
    Used(usize),
    Needs(usize),
}

impl Parser for MqttParser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        let Input::Data { bytes, .. } = input else { return Outcome::Error };
        let d = cx.direction;
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let skip = &mut self.skip[d.index()];
            if *skip > 0 {
                let here = (*skip).min(rest.len() as u64);
                *skip -= here;
                at += here as usize;
                continue;
            }
            match self.one(cx, rest, at) {
                Ok(Step::Used(len)) => at += len,
                Ok(Step::Needs(needed)) => return Outcome::Incomplete { consumed: at, needed },
                Err(Malformed) => {
                    let events = SmallVec::from_slice(&[event::MALFORMED_TRAFFIC]);
                    self.push(d, None, Opening { events, waits: None });
                    return Outcome::Error;
                }
            }
        }
        Outcome::Done
    }

    fn txs(&self) -> &dyn TxTable {
        &self.txs
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.txs
    }

    fn free(&mut self, id: u64) {
        let gone = self.txs.get(id).map_or(0, MqttTx::message_bytes);
        self.held = self.held.saturating_sub(gone);
        self.txs.discard(id);
    }

    fn bytes_held(&self) -> usize {
        // What the messages take is kept up to date: here hundreds may have come at once.
        size_of::<MqttParser>() + self.open.bytes_held() + self.txs.bytes_held() + self.held
    }
}
