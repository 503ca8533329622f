//! One Modbus connection: requests and their responses become transactions.

use super::limits::reached;
use super::message::{Message, Read, read_message};
use super::settings::Settings;
use super::tables::event;
use super::tx::ModbusTx;
use crate::detect::Probe;
use crate::tx_list::{TxList, TxTable};
use crate::{Input, Outcome, ParseContext, Parser};
use gabion_record::Direction;

/// Parser of a connection.
#[derive(Debug, Default)]
pub struct ModbusParser {
    settings: Settings,
    txs: TxList<ModbusTx>,
    /// The event that there are too many transactions was raised.
    is_flooded: bool,
    /// Bytes of a message without a possible length that are passed over yet, by direction.
    skipped: [usize; 2],
    /// Bytes of the messages of all live transactions.
    held: usize,
}

impl ModbusParser {
    /// A parser.
    pub fn new(settings: Settings) -> ModbusParser {
        ModbusParser { settings, ..ModbusParser::default() }
    }

    /// Adds a message to the oldest transaction that lacks it, or to one of its own. False: there are too many.
    fn take_message(&mut self, direction: Direction, message: Message) -> bool {
        let lacks = |tx: &ModbusTx| {
            tx.message(direction).is_none()
                && tx.message(direction.opposite()).is_some_and(|other| other.belongs_to(&message))
        };
        let found = self.txs.entries().find(|(_, tx)| lacks(tx)).map(|(id, _)| id);
        let id = match found {
            Some(id) => id,
            None => {
                let is_full = self.txs.len() as u64 >= self.settings.txs_max;
                if is_full && self.is_flooded {
                    reached::OPEN_TXS_MAX.count();
                    return false;
                }
                let id = self.txs.next_id();
                self.txs.push(None, ModbusTx::new);
                if is_full && let Some(tx) = self.txs.get_mut(id) {
                    tx.events.add(event::FLOODED);
                }
                self.is_flooded = is_full;
                id
            }
        };
        self.held = self.held.saturating_add(message.bytes_held());
        if let Some(tx) = self.txs.get_mut(id) {
            tx.add(direction, message);
        }
        true
    }
}

impl Parser for ModbusParser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        let Input::Data { bytes, .. } = input else { return Outcome::Error };
        let d = cx.direction.index();
        let mut at = self.skipped[d].min(bytes.len());
        self.skipped[d] -= at;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match read_message(rest, cx.direction) {
                Read::Incomplete(needed) => return Outcome::Incomplete { consumed: at, needed },
                Read::Whole(message, len) => {
                    if !self.take_message(cx.direction, message) {
                        return Outcome::Error;
                    }
                    let used = len.min(rest.len());
                    self.skipped[d] = len - used;
                    at += used;
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
        if let Some(tx) = self.txs.free(id) {
            self.held = self.held.saturating_sub(tx.bytes_held());
        }
    }

    fn bytes_held(&self) -> usize {
        size_of::<ModbusParser>() + self.txs.bytes_held() + self.held
    }
}

/// A whole message of a function that is known.
pub(super) fn probe(bytes: &[u8], direction: Direction) -> Probe {
    match read_message(bytes, direction) {
        Read::Incomplete(_) => Probe::More,
        Read::Whole(message, _) => {
            if message.is_recognizable() {
                Probe::Yes
            } else {
                Probe::No
            }
        }
    }
}
