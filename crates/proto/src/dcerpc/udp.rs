//! Calls over UDP: datagrams of a flow become transactions.
//!
//! As in Suricata 8.0.7 fragments are joined in the order in which they come, and a datagram that is
//! neither a call nor an answer, or is cut, is an error. What waits when the flow ends has no record.

use super::datagram::{DATAGRAM_HEADER_BYTES, Datagram, datagram_flag};
use super::limits::{TXS_PER_FLOW_MAX, reached};
use super::pdu::kind;
use super::settings::Settings;
use super::tx::{CallNumber, DcerpcTx};
use super::uuid::Uuid;
use super::waiting::Waiting;
use crate::tx_list::{TxList, TxTable};
use crate::{Input, Outcome, ParseContext, Parser};
use gabion_record::Direction::{self, ToClient, ToServer};

/// Parser of calls over UDP.
#[derive(Debug)]
pub struct Datagrams {
    settings: Settings,
    txs: TxList<DcerpcTx>,
    /// Transactions that wait for more of the call, or of its answer, by activity and number.
    open: [Waiting<(Uuid, u32)>; 2],
    /// All transactions before this one are done.
    done_before: u64,
}

impl Datagrams {
    /// A parser.
    pub fn new(settings: Settings) -> Datagrams {
        Datagrams { settings, txs: TxList::default(), open: Default::default(), done_before: 0 }
    }

    fn take_datagram(&mut self, direction: Direction, head: &Datagram, stub: &[u8]) {
        let key = (head.activity, head.sequence);
        let id = match self.open[direction.index()].first(key) {
            Some(id) => id,
            None => self.add_tx(head),
        };
        let Some(tx) = self.txs.get_mut(id) else { return };
        let side = tx.side_mut(direction);
        side.add_stub(stub, self.settings.stub_max);
        let is_fragment = head.flags & datagram_flag::FRAGMENT != 0;
        if !is_fragment || head.flags & datagram_flag::LAST_FRAGMENT != 0 {
            side.kind = Some(head.kind);
            self.open[direction.index()].remove(key, id);
        }
    }

    /// Adds a transaction. If as many wait as may, the oldest of them waits no more.
    fn add_tx(&mut self, head: &Datagram) -> u64 {
        if self.txs.len() as u64 > self.settings.txs_max {
            let mut waiting = self.txs.entries_from(self.done_before);
            let oldest = waiting.find(|(_, tx)| !tx.is_done()).map(|(id, _)| id);
            drop(waiting);
            if let Some(id) = oldest {
                self.done_before = id + 1;
                self.give_up_waiting(id);
            }
        }
        if self.txs.len() >= TXS_PER_FLOW_MAX {
            self.forget(self.txs.first_id());
        }
        let id = self.txs.next_id();
        let number = CallNumber::Activity { activity: head.activity, sequence: head.sequence };
        let is_little = head.is_little;
        self.txs.push(Some(&reached::TXS_PER_FLOW_MAX), |id| DcerpcTx::new(id, number, is_little));
        self.open.iter_mut().for_each(|open| open.push((head.activity, head.sequence), id));
        id
    }

    fn give_up_waiting(&mut self, id: u64) {
        reached::OPEN_TXS_MAX.count();
        self.forget(id);
        if let Some(tx) = self.txs.get_mut(id) {
            tx.complete();
        }
    }

    /// A transaction waits for nothing any more.
    fn forget(&mut self, id: u64) {
        let Some(tx) = self.txs.get(id) else { return };
        let CallNumber::Activity { activity, sequence } = tx.number else { return };
        let is_open = Direction::BOTH.map(|d| tx.side(d).kind.is_none());
        for (open, _) in self.open.iter_mut().zip(is_open).filter(|(_, is_open)| *is_open) {
            open.remove((activity, sequence), id);
        }
    }

    fn end(&mut self, direction: Direction) {
        for tx in self.txs.iter_mut() {
            tx.side_mut(direction).has_ended = true;
        }
    }
}

impl Parser for Datagrams {
    fn parse(&mut self, _: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        let Input::Data { bytes, .. } = input else { return Outcome::Error };
        if bytes.is_empty() {
            return Outcome::Done;
        }
        let head = Datagram::parse(bytes);
        let stub = head.and_then(|h| bytes.get(DATAGRAM_HEADER_BYTES..)?.get(..usize::from(h.len)));
        let (Some(head), Some(stub)) = (head, stub) else { return self.refuse() };
        // The type says who speaks, whichever way the datagram goes.
        match head.kind {
            kind::REQUEST => self.take_datagram(ToServer, &head, stub),
            kind::RESPONSE => self.take_datagram(ToClient, &head, stub),
            _ => return self.refuse(),
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
        self.forget(id);
        self.txs.discard(id);
    }

    fn bytes_held(&self) -> usize {
        size_of::<Datagrams>()
            + self.open.iter().map(Waiting::bytes_held).sum::<usize>()
            + self.txs.iter().map(DcerpcTx::bytes_held).sum::<usize>()
    }
}

impl Datagrams {
    /// A datagram that is none of ours ends what is open.
    fn refuse(&mut self) -> Outcome {
        Direction::BOTH.into_iter().for_each(|d| self.end(d));
        Outcome::Error
    }
}
