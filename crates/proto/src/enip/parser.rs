//! One ENIP flow: requests and their responses become transactions.

use super::Settings;
use super::limits::HELD_BYTES_MAX;
use super::message::{HEADER_LEN, Header, Message, Parts};
use super::tables::{COMMANDS, STATUSES, event, frame, name_of};
use super::tx::EnipTx;
use crate::detect::Probe;
use crate::tx_list::{TxList, TxTable};
use crate::{Input, Outcome, ParseContext, Parser};
use gabion_record::Direction::{self, ToClient, ToServer};

/// Bytes from which on Suricata 8.0.7 decides about a flow.
const PROBED_BYTES_MIN: usize = 7;

/// Parser of a flow.
#[derive(Debug)]
pub struct EnipParser {
    settings: Settings,
    is_stream: bool,
    txs: TxList<EnipTx>,
    /// Every transaction before this one is done.
    first_open: u64,
    /// Bytes of the messages of all live transactions.
    held: usize,
}

impl EnipParser {
    /// A parser of a stream, or of datagrams.
    pub fn new(settings: Settings, is_stream: bool) -> EnipParser {
        EnipParser { settings, is_stream, txs: TxList::default(), first_open: 0, held: 0 }
    }

    /// Adds a message to the transaction that waits for it, or a transaction for it, and returns its number.
    fn push(&mut self, direction: Direction, message: Message) -> Option<u64> {
        let (cost, is_invalid) = (message.bytes_held(), message.is_invalid());
        let waiting = match direction {
            ToServer => None,
            ToClient => self.find_request(&message),
        };
        let id = match waiting {
            Some(id) => {
                let tx = self.txs.get_mut(id)?;
                tx.response = Some(message);
                tx.is_done = true;
                id
            }
            None => {
                if !self.has_room() {
                    return None;
                }
                let id = self.txs.next_id();
                self.txs.push(None, |id| EnipTx::new(id, direction, message));
                id
            }
        };
        self.held = self.held.saturating_add(cost);
        if is_invalid && let Some(tx) = self.txs.get_mut(id) {
            tx.events.add(event::INVALID_PDU);
        }
        Some(id)
    }

    /// The oldest request that a response answers. What waited before it, all if there is none, is answered no more
    /// (Suricata 8.0.7).
    fn find_request(&mut self, response: &Message) -> Option<u64> {
        let is_it = |tx: &EnipTx| {
            !tx.is_done
                && tx.response.is_none()
                && tx.request.as_ref().is_some_and(|r| r.is_answered_by(response))
        };
        let open = self.txs.entries_from(self.first_open);
        let found = open.filter(|(_, tx)| is_it(tx)).map(|(id, _)| id).next();
        self.end_before(found.unwrap_or(self.txs.next_id()));
        found
    }

    /// Ends the transactions before this one.
    fn end_before(&mut self, id: u64) {
        for old in self.first_open.max(self.txs.first_id())..id {
            if let Some(tx) = self.txs.get_mut(old) {
                tx.is_done = true;
            }
        }
        self.first_open = id;
    }

    /// Whether there may be another transaction. If not, all are ended.
    fn has_room(&mut self) -> bool {
        if (self.txs.len() as u64) < self.settings.txs_max && self.held <= HELD_BYTES_MAX {
            return true;
        }
        self.end_before(self.txs.next_id());
        let first = self.txs.first_id();
        if let Some(tx) = self.txs.get_mut(first) {
            tx.events.add(event::TOO_MANY_TRANSACTIONS);
        }
        false
    }

    /// Takes the message at the beginning of `bytes`, which is at this place of the input. `Err`: the bytes it takes.
    fn take_message(
        &mut self,
        cx: &mut ParseContext<'_>,
        bytes: &[u8],
        at: usize,
    ) -> Result<usize, usize> {
        let header = Header::from_bytes(bytes).ok_or(HEADER_LEN)?;
        let len = HEADER_LEN + usize::from(header.data_len);
        let data = bytes.get(HEADER_LEN..len).ok_or(len)?;
        let wants_parts = cx.frames.wants(frame::CIP) || cx.frames.wants(frame::ITEM);
        let mut parts = Parts::default();
        let message = Message::parse(header, data, wants_parts.then_some(&mut parts));
        let is_invalid = message.is_invalid();
        let tx = self.push(cx.direction, message);
        let (direction, data_at) = (cx.direction, at + HEADER_LEN);
        cx.frames.add(direction, frame::HDR, at, HEADER_LEN as u64, tx);
        cx.frames.add(direction, frame::DATA, data_at, data.len() as u64, tx);
        cx.frames.add(direction, frame::PDU, at, len as u64, tx);
        if !is_invalid {
            for (place, len) in parts.items {
                cx.frames.add(direction, frame::ITEM, data_at + place, len as u64, tx);
            }
            for (place, len) in parts.cips {
                cx.frames.add(direction, frame::CIP, data_at + place, len as u64, tx);
            }
        }
        Ok(len)
    }
}

impl Parser for EnipParser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        let Input::Data { bytes, .. } = input else { return Outcome::Error };
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match self.take_message(cx, rest, at) {
                Ok(len) => at += len,
                Err(needed) if self.is_stream => {
                    return Outcome::Incomplete { consumed: at, needed };
                }
                Err(_) => return Outcome::Error,
            }
            // Of a datagram only the first message is read (Suricata 8.0.7).
            if !self.is_stream {
                break;
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
        size_of::<EnipParser>() + self.txs.bytes_held() + self.held
    }
}

/// A header with a command and a status that there are. Suricata 8.0.7 does not wait for the rest of a header, and asks
/// more of three commands.
pub(super) fn probe(bytes: &[u8], _: Direction) -> Probe {
    if bytes.len() < PROBED_BYTES_MIN {
        return Probe::More;
    }
    let Some(header) = Header::from_bytes(bytes) else { return Probe::No };
    let is_allowed = match name_of(COMMANDS, header.command.into()) {
        Some("nop") => header.options == 0,
        Some("register_session") => header.data_len == 4,
        Some("unregister_session") => matches!(header.data_len, 0 | 4),
        Some(_) => true,
        None => false,
    };
    if is_allowed && name_of(STATUSES, header.status.into()).is_some() {
        Probe::Yes
    } else {
        Probe::No
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which first bytes Suricata 8.0.7 takes for ENIP.
    #[test]
    fn probes() {
        let header = |command: u8, len: u8, status: u8, options: u8| {
            let mut bytes = vec![command, 0, len, 0, 1, 0, 0, 0, status];
            bytes.resize(20, 0);
            bytes.push(options);
            bytes.resize(HEADER_LEN, 0);
            bytes
        };
        let cases = [
            (header(0x63, 0, 0, 0), Probe::Yes),
            (header(0x63, 9, 3, 5), Probe::Yes),
            (header(0x63, 0, 50, 0), Probe::No),
            (header(0x50, 0, 0, 0), Probe::No),
            (header(0, 1, 0, 0), Probe::Yes),
            (header(0, 0, 0, 9), Probe::No),
            (header(0x65, 4, 0, 9), Probe::Yes),
            (header(0x65, 2, 0, 0), Probe::No),
            (header(0x66, 0, 0, 0), Probe::Yes),
            (header(0x66, 4, 0, 0), Probe::Yes),
            (header(0x66, 1, 0, 0), Probe::No),
            (header(0x63, 0, 0, 0)[..23].to_vec(), Probe::No),
            (header(0x63, 0, 0, 0)[..7].to_vec(), Probe::No),
            (header(0x63, 0, 0, 0)[..6].to_vec(), Probe::More),
        ];
        for (bytes, expected) in cases {
            assert_eq!(probe(&bytes, ToServer), expected, "{bytes:?}");
        }
    }
}
