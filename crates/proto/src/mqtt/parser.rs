//! One MQTT session: messages become transactions.
//!
//! The answer to a request is found by the number it carries, whatever its kind and direction
//! (Suricata's behaviour); a CONNACK by a number no message can carry. A message that can't be read ends
//! the flow.

use super::limits::{HELD_BYTES_MAX, TXS_PER_FLOW_MAX, reached};
use super::message::{Body, Header, Malformed, Message, Start, kind};
use super::settings::Settings;
use super::tables::{event, frame};
use super::tx::MqttTx;
use crate::transaction::EventList;
use crate::tx_list::{TxList, TxTable, YOUNGEST_KEPT};
use crate::{Input, Outcome, ParseContext, Parser, Sparing, Transaction};
use smallvec::SmallVec;
use std::collections::hash_map::Entry;
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

/// Transactions that wait for an answer. An answer finds its own in one step, however many wait: a
/// segment can hold hundreds of answers to nothing.
#[derive(Debug, Default)]
struct Waiting {
    /// Oldest first; some were answered since.
    all: VecDeque<Open>,
    /// The oldest of those that wait for a number.
    by_id: HashMap<u32, u64>,
    /// The others that wait for a number, in order: few clients use one twice.
    others: HashMap<u32, VecDeque<u64>>,
    /// How many of all wait.
    live: usize,
}

impl Waiting {
    fn push(&mut self, open: Open) {
        if self.all.len() > 2 * self.live + ANSWERED_LEFT {
            let mut all = std::mem::take(&mut self.all);
            all.retain(|o| self.is_waiting(o));
            self.all = all;
        }
        if let Some(id) = open.id {
            match self.by_id.entry(id) {
                Entry::Occupied(_) => self.others.entry(id).or_default().push_back(open.tx),
                Entry::Vacant(free) => drop(free.insert(open.tx)),
            }
        }
        self.all.push_back(open);
        self.live += 1;
    }

    /// The oldest that waits for this number.
    fn find(&self, id: u32) -> Option<u64> {
        self.by_id.get(&id).copied()
    }

    /// The oldest that waits for this number waits no more.
    fn answered(&mut self, id: u32) {
        let Some(oldest) = self.by_id.get_mut(&id) else { return };
        let next = if self.others.is_empty() {
            None
        } else {
            self.others.get_mut(&id).and_then(VecDeque::pop_front)
        };
        match next {
            Some(next) => *oldest = next,
            None => {
                self.by_id.remove(&id);
                self.others.remove(&id);
            }
        }
        self.live -= 1;
    }

    /// Whether a transaction was not answered since. What waits for no number waits until it is closed.
    fn is_waiting(&self, open: &Open) -> bool {
        let Some(id) = open.id else { return true };
        self.by_id.get(&id) == Some(&open.tx)
            || self.others.get(&id).is_some_and(|others| others.binary_search(&open.tx).is_ok())
    }

    /// Takes the oldest out.
    fn pop_oldest(&mut self) -> Option<u64> {
        while let Some(oldest) = self.all.pop_front() {
            if self.is_waiting(&oldest) {
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
            + self.by_id.capacity() * size_of::<(u32, u64)>()
            + self.others.capacity() * size_of::<(u32, VecDeque<u64>)>()
            + self.live * size_of::<u64>()
    }
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
    /// Transactions of the input at hand that were not kept: they count as live until it ends.
    spared: usize,
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
            spared: 0,
        }
    }

    /// There are as many as may be open: an open one is closed for the next.
    fn is_crowded(&self) -> bool {
        let live = self.txs.len() + self.spared;
        live as u64 > self.settings.txs_max || self.held > HELD_BYTES_MAX
    }

    /// Suricata closes the oldest that is open; closed ones are about to go anyway.
    fn close_oldest(&mut self, sparing: Option<&mut Sparing>) {
        let next_id = self.txs.next_id();
        while let Some(oldest) = self.open.pop_oldest() {
            if let Some(tx) = self.txs.get_mut(oldest) {
                tx.is_complete = true;
                tx.events.add(event::TOO_MANY_TRANSACTIONS);
                if oldest + (YOUNGEST_KEPT as u64) < next_id
                    && sparing.is_some_and(|sparing| !sparing.keeps(&tx.standing()))
                {
                    self.spared += 1;
                    self.free(oldest);
                }
                return;
            }
        }
    }

    fn push(&mut self, cx: &mut ParseContext<'_>, message: Option<Message>, opening: Opening) {
        let direction = cx.direction;
        self.held += message.as_ref().map_or(0, Message::cost);
        if self.is_crowded() {
            self.close_oldest(cx.sparing.as_mut());
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
        if messages.iter().any(|message| message.has_too_many_properties) {
            events.add(event::TOO_MANY_PROPERTIES);
        }
        let matched = [self.settings.subscribe_matched_max, self.settings.unsubscribe_matched_max];
        let version = self.version;
        if let Some(id) = opening.waits {
            self.open.push(Open { tx: self.txs.next_id(), id });
        }
        let limit = Some(&reached::TXS_PER_FLOW_MAX);
        let spared = self.txs.push_sparing(limit, cx.sparing.as_mut(), |id| MqttTx {
            id,
            direction,
            messages,
            version,
            matched_max: matched.map(|n| match n {
                0 => u32::MAX,
                n => u32::try_from(n).unwrap_or(u32::MAX),
            }),
            is_complete: opening.waits.is_none(),
            events,
        });
        if let Some(gone) = spared {
            self.spared += 1;
            self.held = self.held.saturating_sub(gone.message_bytes());
        }
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
        if message.has_too_many_properties {
            tx.events.set(event::TOO_MANY_PROPERTIES);
        }
        self.held += message.cost();
        tx.messages.push(message);
        None
    }

    fn message(&mut self, cx: &mut ParseContext<'_>, message: Message) {
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
        self.push(cx, Some(message), Opening { events, waits });
    }

    /// A message at the beginning of `bytes` that becomes a transaction of its own, over at once, however
    /// it is read: its length, and its events.
    fn single(&self, bytes: &[u8]) -> Option<(Header, u64)> {
        let Start::Header(header) = Header::from_bytes(bytes) else { return None };
        if u64::from(header.len) > self.settings.message_max {
            return None;
        }
        let total = usize::try_from(header.total_len()).ok()?;
        let contents = bytes.get(usize::from(header.header_len)..total)?;
        let unintroduced = u64::from(!self.is_connected);
        let events = match (header.kind(), contents) {
            (kind::UNASSIGNED, _) => 1,
            (kind::PINGREQ | kind::PINGRESP, _) => unintroduced,
            (kind::PUBACK | kind::PUBREC | kind::PUBREL | kind::PUBCOMP, [high, low, ..])
                if self.version != 5 =>
            {
                let id = u16::from_be_bytes([*high, *low]);
                self.open.find(id.into()).is_none().then_some(1 + unintroduced)?
            }
            (kind::PUBLISH, [high, low, rest @ ..]) if self.version != 5 && header.qos() == 0 => {
                let topic = u16::from_be_bytes([*high, *low]);
                (rest.len() >= usize::from(topic)).then_some(unintroduced)?
            }
            _ => return None,
        };
        Some((header, events))
    }

    /// Passes over messages that become transactions which are over at once and which nothing inspects, as long as
    /// two such ones follow (the youngest are kept). Returns the bytes they take.
    fn pass_over(&mut self, cx: &mut ParseContext<'_>, bytes: &[u8], at: usize) -> usize {
        let mut used = 0;
        let single = |parser: &MqttParser, from: usize| {
            let (header, events) = parser.single(bytes.get(from..)?)?;
            Some((header, events, from + header.total_len() as usize))
        };
        let Some(mut first) = cx.sparing.and_then(|_| single(self, 0)) else { return 0 };
        let Some(mut second) = single(self, first.2) else { return 0 };
        while let Some(third) = single(self, second.2) {
            let (header, events, end) = first;
            let is_spared = |sparing: &mut Sparing| sparing.refuses(events);
            if self.is_crowded() || !cx.sparing.as_mut().is_some_and(is_spared) {
                break;
            }
            self.note_frames(cx, header, at + used);
            self.txs.skip();
            self.spared += 1;
            used = end;
            (first, second) = (second, third);
        }
        used
    }

    fn note_frames(&self, cx: &mut ParseContext<'_>, header: Header, at: usize) {
        let (d, header_len) = (cx.direction, usize::from(header.header_len));
        cx.frames.add(d, frame::PDU, at, header.total_len(), None);
        // Suricata places these two at the input's first message, whichever message they are of.
        cx.frames.add(d, frame::HEADER, 0, header_len as u64, None);
        cx.frames.add(d, frame::DATA, header_len, header.len.into(), None);
    }

    /// Takes what is at the beginning of `bytes`, which is at this offset of the input. `Ok`: bytes
    /// used, or how many it takes.
    fn one(
        &mut self,
        cx: &mut ParseContext<'_>,
        bytes: &[u8],
        at: usize,
    ) -> Result<Step, Malformed> {
        let d = cx.direction;
        let header = match Header::from_bytes(bytes) {
            Start::Header(header) => header,
            Start::More => return Ok(Step::Needs(bytes.len() + 1)),
            Start::Wrong => return Err(Malformed),
        };
        if u64::from(header.len) > self.settings.message_max {
            cx.frames.add(d, frame::PDU, at, header.total_len(), None);
            self.skip[d.index()] = header.total_len();
            self.message(cx, Message::skipped(header));
            return Ok(Step::Used(0));
        }
        let total = usize::try_from(header.total_len()).map_err(|_| Malformed)?;
        let Some(contents) = bytes.get(usize::from(header.header_len)..total) else {
            return Ok(Step::Needs(total));
        };
        let message = Message::parse(header, contents, self.version)?;
        self.note_frames(cx, header, at);
        self.message(cx, message);
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
        self.spared = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let skip = &mut self.skip[d.index()];
            if *skip > 0 {
                let here = (*skip).min(rest.len() as u64);
                *skip -= here;
                at += here as usize;
                continue;
            }
            match self.pass_over(cx, rest, at) {
                0 => {}
                passed => {
                    at += passed;
                    continue;
                }
            }
            match self.one(cx, rest, at) {
                Ok(Step::Used(len)) => at += len,
                Ok(Step::Needs(needed)) => return Outcome::Incomplete { consumed: at, needed },
                Err(Malformed) => {
                    let events = SmallVec::from_slice(&[event::MALFORMED_TRAFFIC]);
                    self.push(cx, None, Opening { events, waits: None });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endpoints;
    use gabion_record::Direction;

    fn sparing(left: u64, has_event_records: bool) -> Sparing {
        Sparing { last: [1; 2], has_records: true, has_event_records, left, refused: 0 }
    }

    /// What the engine does after a piece of input: transactions that are over, but for the youngest two, are reported
    /// as far as the records left allow, and freed. Returns how many were reported.
    fn settle(parser: &mut MqttParser, sparing: &mut Sparing) -> u64 {
        let mut reported = 0;
        for id in parser.first_tx_id()..parser.next_tx_id().saturating_sub(2) {
            let Some(is) = parser.tx(id).map(Transaction::standing) else { continue };
            if is.has_reached([1; 2], None) {
                reported += u64::from(sparing.keeps(&is));
                parser.free(id);
            }
        }
        reported
    }

    /// What is left of a session in these pieces: ids and events, how many transactions there were, how
    /// many were reported, and how many were not.
    fn run(pieces: &[Vec<u8>], spares: bool) -> (Vec<(u64, Vec<u16>)>, [u64; 3]) {
        let mut parser = MqttParser::new(Settings { txs_max: 20, ..Settings::default() });
        let ends = Endpoints::default();
        let (mut reported, mut refused) = (0, 0);
        for piece in pieces {
            let mut cx = ParseContext::new(0, Direction::ToServer, &ends);
            cx.sparing = spares.then(|| sparing(5, false));
            parser.parse(&mut cx, Input::Data { bytes: piece, eof: false });
            refused += cx.sparing.map_or(0, |s| s.refused);
            let mut left = sparing(5, false);
            reported += settle(&mut parser, &mut left);
            refused += left.refused;
        }
        let kept = parser.txs.iter().map(|tx| (tx.id, tx.events().to_vec())).collect();
        (kept, [parser.next_tx_id(), reported, refused])
    }

    /// What a parser spares itself is what the engine would free after it: what is left is the same,
    /// and as many are reported.
    #[test]
    fn what_is_spared_is_what_nobody_sees() {
        let messages: [&[u8]; 9] = [
            b"\xc0\0",
            b"\xd0\x01x",
            b"\0\0",
            b"\x40\x02\0\x01",
            b"\x62\x02\0\x02",
            b"\x30\x04\0\x01ab",
            b"\x32\x06\0\x01a\0\x01b",
            b"\x82\x06\0\x02\0\x01a\0",
            b"\x10\x0d\0\x04MQTT\x04\x02\0\x3c\0\x01a",
        ];
        let mut state = 3_u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % n
        };
        for _ in 0..500 {
            let mut piece = || {
                let count = 1 + random(60);
                let kinds = 1 + random(messages.len() as u64);
                (0..count).flat_map(|_| messages[random(kinds) as usize].to_vec()).collect()
            };
            let pieces: Vec<Vec<u8>> = (0..5).map(|_| piece()).collect();
            assert_eq!(run(&pieces, true), run(&pieces, false), "{pieces:x?}");
        }
    }

    /// However many messages a packet brings that nothing inspects, none of them is kept for a moment.
    #[test]
    fn messages_that_nobody_sees_take_no_room() {
        for (message, events) in
            [(&b"\xc0\0"[..], 1), (b"\0\0", 1), (b"\x40\x02\0\x01", 2), (b"\x30\x04\0\x01ab", 1)]
        {
            let mut parser = MqttParser::new(Settings::default());
            let ends = Endpoints::default();
            let mut cx = ParseContext::new(0, Direction::ToServer, &ends);
            cx.sparing = Some(sparing(0, true));
            let bytes = message.repeat(10_000);
            parser.parse(&mut cx, Input::Data { bytes: &bytes, eof: false });
            assert_eq!((parser.next_tx_id(), parser.txs.len()), (10_000, 2));
            assert!(parser.txs.bytes_held() < 4_096, "{}", parser.txs.bytes_held());
            let refused = cx.sparing.map(|s| s.refused);
            assert_eq!(refused, Some((10_000 - 2) * (1 + events)), "{message:x?}");
        }
    }
}
