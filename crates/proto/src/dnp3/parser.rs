//! One DNP3 connection: frames become messages, and each message a transaction.
//!
//! A frame with a wrong checksum is left out and the next one is read; bytes that begin no frame end the
//! flow (Suricata 8.0.7).

use super::limits::{LISTED_POINTS_MAX, MESSAGE_BYTES_MAX, reached};
use super::link::{HEADER_LEN, LinkHeader, START, is_header_intact, take_user_data};
use super::settings::Settings;
use super::tables::event;
use super::tx::{Dnp3Tx, REQUEST_HEADER_LEN, RESPONSE_HEADER_LEN};
use crate::detect::Probe;
use crate::tx_list::{TxList, TxTable};
use crate::{Input, Outcome, ParseContext, Parser};
use gabion_record::Direction;

/// Transport header (IEEE 1815-2012 8.2.1): the last frame of a message.
const LAST: u8 = 0x80;

/// The first frame of a message.
const FIRST: u8 = 0x40;

/// The frame's number.
const SEQUENCE: u8 = 0x3f;

/// The word in the greetings of servers.
const GREETING: &[u8] = b"DNP3";

/// A message of which frames are to come.
#[derive(Clone, Copy, Debug)]
struct Open {
    tx: u64,
    /// Number of the next frame.
    sequence: u8,
    source: u16,
    destination: u16,
}

/// Parser of a connection.
#[derive(Debug, Default)]
pub struct Dnp3Parser {
    settings: Settings,
    txs: TxList<Dnp3Tx>,
    open: [Option<Open>; 2],
    /// There are more transactions than there should be, and an event has reported it.
    is_flooded: bool,
    /// User data of the frame at hand.
    data: Vec<u8>,
    /// Bytes of all frames so far.
    bytes: u64,
    /// Points that records list so far.
    listed_points: u64,
    /// The next input of a direction continues a frame.
    is_within_frame: [bool; 2],
}

impl Dnp3Parser {
    /// A parser.
    pub fn new(settings: Settings) -> Dnp3Parser {
        Dnp3Parser { settings, ..Dnp3Parser::default() }
    }

    fn push(&mut self, tx: Dnp3Tx) -> u64 {
        let (id, bounds) = (self.txs.next_id(), self.settings.bounds);
        self.txs.push(Some(&reached::TXS_PER_FLOW_MAX), |id| Dnp3Tx { id, bounds, ..tx });
        if self.txs.len() as u64 <= self.settings.txs_max {
            self.is_flooded = false;
            return id;
        }
        if !std::mem::replace(&mut self.is_flooded, true)
            && let Some(tx) = self.txs.get_mut(id)
        {
            tx.events.add(event::FLOODED);
        }
        let old = id.checked_sub(self.settings.txs_max).and_then(|old| self.txs.get_mut(old));
        if let Some(old) = old.filter(|old| !old.is_over) {
            old.is_over = true;
            old.bytes = Vec::new();
        }
        id
    }

    /// Adds an event to the youngest transaction, or to one of its own.
    fn raise(&mut self, direction: Direction, code: u16) {
        if let Some(tx) = self.txs.last_mut() {
            return tx.events.add(code);
        }
        let mut tx = Dnp3Tx::new(direction, LinkHeader::default(), 0);
        tx.is_over = true;
        tx.events.add(code);
        self.push(tx);
    }

    /// Takes a frame that is all there.
    fn take_frame(&mut self, direction: Direction, link: LinkHeader, frame: &[u8]) {
        let header_len = match direction {
            Direction::ToServer => REQUEST_HEADER_LEN,
            Direction::ToClient => RESPONSE_HEADER_LEN,
        };
        if link.data_len().is_none_or(|len| link.has_user_data() && len < 1 + header_len) {
            return self.raise(direction, event::LEN_TOO_SMALL);
        }
        if !link.has_user_data() {
            return;
        }
        let mut data = std::mem::take(&mut self.data);
        data.clear();
        if take_user_data(frame, &mut data) {
            if let Some((transport, message)) = data.split_first() {
                self.take_segment(direction, link, *transport, message);
            }
        } else {
            self.raise(direction, event::BAD_TRANSPORT_CRC);
        }
        self.data = data;
    }

    /// Takes the part of a message that a frame carries.
    fn take_segment(&mut self, direction: Direction, link: LinkHeader, transport: u8, part: &[u8]) {
        let d = direction.index();
        let id = if transport & FIRST != 0 {
            // The function code follows the control octet; a confirmation is no transaction.
            if direction == Direction::ToServer && part.get(1) == Some(&0) {
                return;
            }
            self.push(Dnp3Tx::new(direction, link, transport))
        } else {
            let is_next = |open: &Open| {
                open.sequence == transport & SEQUENCE
                    && (open.source, open.destination) == (link.source, link.destination)
            };
            let Some(open) = self.open[d].filter(is_next) else { return };
            open.tx
        };
        self.open[d] = None;
        let Some(tx) = self.txs.get_mut(id).filter(|tx| !tx.is_over) else { return };
        if tx.bytes.len().saturating_add(part.len()) > MESSAGE_BYTES_MAX {
            tx.events.add(event::TOO_LONG_REASSEMBLY);
            (tx.is_done, tx.is_over) = (true, true);
            return;
        }
        tx.bytes.extend_from_slice(part);
        if transport & LAST != 0 {
            tx.finish((LISTED_POINTS_MAX + self.bytes).saturating_sub(self.listed_points));
            self.listed_points += tx.listed_points;
        } else {
            self.open[d] = Some(Open {
                tx: id,
                sequence: transport.wrapping_add(1) & SEQUENCE,
                source: link.source,
                destination: link.destination,
            });
        }
    }

    fn take_frames(&mut self, cx: &ParseContext<'_>, bytes: &[u8]) -> Outcome {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let Some(link) = LinkHeader::from_bytes(rest) else {
                return Outcome::Incomplete { consumed: at, needed: HEADER_LEN };
            };
            if !rest.starts_with(&START) {
                return Outcome::Error;
            }
            let Some(frame) = rest.get(..link.frame_len()) else {
                return Outcome::Incomplete { consumed: at, needed: link.frame_len() };
            };
            self.bytes += frame.len() as u64;
            if is_header_intact(frame) {
                self.take_frame(cx.direction, link, frame);
            } else {
                self.raise(cx.direction, event::BAD_LINK_CRC);
            }
            at += frame.len();
        }
        Outcome::Done
    }
}

impl Parser for Dnp3Parser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        let Input::Data { bytes, .. } = input else { return Outcome::Error };
        let d = cx.direction;
        // Some servers greet with a text. Suricata 8.0.7 leaves out whatever comes with the word in it, be it
        // frames, unless it is the rest of one: how the input is split decides here.
        let is_greeting = |bytes: &[u8]| bytes.windows(GREETING.len()).any(|w| w == GREETING);
        if d == Direction::ToClient && !self.is_within_frame[d.index()] && is_greeting(bytes) {
            return Outcome::Done;
        }
        let outcome = self.take_frames(cx, bytes);
        self.is_within_frame[d.index()] = matches!(outcome, Outcome::Incomplete { .. });
        outcome
    }

    fn txs(&self) -> &dyn TxTable {
        &self.txs
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.txs
    }

    fn bytes_held(&self) -> usize {
        size_of::<Dnp3Parser>()
            + self.data.capacity()
            + self.txs.iter().map(Dnp3Tx::bytes_held).sum::<usize>()
    }
}

/// The beginning of a frame. Its direction bit says which side sent it: the client is the master.
pub(super) fn probe(bytes: &[u8], direction: Direction) -> Probe {
    let Some(link) = LinkHeader::from_bytes(bytes) else {
        let is_possible = bytes.iter().zip(&START).all(|(a, b)| a == b);
        return if is_possible { Probe::More } else { Probe::No };
    };
    if !bytes.starts_with(&START) || link.data_len().is_none() {
        return Probe::No;
    }
    if link.is_from_master() == (direction == Direction::ToServer) {
        Probe::Yes
    } else {
        Probe::YesReversed
    }
}
