//! The application layer of a flow: finds the protocol, feeds its parser, and keeps its
//! transactions until they are inspected, logged and freed.

mod allowance;
mod charge;
mod counters;
mod crowd;
mod detection;
mod effects;
mod input;
mod protocols;

use allowance::LookAllowance;
pub(crate) use allowance::RecordAllowance;
use charge::Charge;
pub use counters::AppCounters;
use crowd::Crowd;
pub use detection::{is_detected, is_parsed};
pub(crate) use effects::{AppInput, Effects, Taken, Then};
pub use protocols::Protocols;

use crate::bits::Bits;
use crate::detect::TxDetect;
use crate::frames::FlowFrames;
use crate::limits::{CROWD_MIN, PARSER_PENDING_MAX};
use gabion_proto::registry::protocol;
use gabion_proto::tx_list::TxList;
use gabion_proto::{Parser, ProtocolChange, Transaction};
use gabion_record::Direction;
use gabion_record::applayer::{ProtoId, Transport};
use gabion_record::eve::Wants;
use smallvec::SmallVec;

/// What the engine remembers of a transaction.
#[derive(Debug, Default)]
pub(crate) struct TxMemory {
    pub(crate) detect: [TxDetect; 2],
    pub(crate) is_logged: bool,
    /// Events that anomaly records were written for.
    pub(crate) events_logged: u32,
    /// A `config` rule switched its record off.
    pub(crate) no_log: bool,
    /// Alerts that name it by guess.
    guesses: u8,
    /// `xbits` of the transaction.
    pub(crate) bits: Option<Box<Bits>>,
    /// It is in the lists of a [`Crowd`]: to be inspected, by direction, and as news.
    is_due: [bool; 2],
    is_news: bool,
    /// See [`Transaction::only`].
    only: Option<Direction>,
    /// It had something to be logged when it was made, or it has changed since.
    is_begun: bool,
}

/// What one side of a flow has sent, as far as its protocol is concerned.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    /// The protocol as seen in its data.
    proto: ProtoId,
    /// No further byte of it can show the protocol.
    is_done: bool,
    /// It has sent data.
    is_seen: bool,
    /// Bytes to wait for before the parser is called again.
    needed: usize,
    /// Its data is not needed any more.
    is_disabled: bool,
    /// The parser has seen its end.
    is_closed: bool,
    /// Stream offset of the first byte that was not parsed; maintained only if frames are wanted.
    offset: u64,
    /// How often looking for a protocol has ended.
    decisions: u8,
}

/// The application layer of one flow.
#[derive(Default)]
pub(crate) struct AppLayer {
    /// The protocol.
    pub(crate) proto: ProtoId,
    sides: [Side; 2],
    /// Before a change.
    pub(crate) original: ProtoId,
    /// Before a change, until it is known which protocol follows.
    left: ProtoId,
    /// Announced by a change.
    pub(crate) expected: ProtoId,
    /// The server's port that a change has named: that of a tunnel's other end.
    announced_port: Option<u16>,
    pub(crate) parser: Option<Box<dyn Parser>>,
    /// Frames that are neither inspected nor logged yet.
    pub(crate) frames: Option<Box<FlowFrames>>,
    /// Direction of the flow's first data.
    first_seen: Option<Direction>,
    change: Option<ProtocolChange>,
    /// Whose data, not used by the protocol before, waits for the next one.
    begins_next: Option<Direction>,
    announced: Option<Vec<u8>>,
    /// What the protocol before leaves to the one that it announced.
    handover: Vec<u8>,
    txs: TxList<TxMemory>,
    /// Which of them are to be looked at, if there are many.
    crowd: Option<Box<Crowd>>,
    /// Records of its transactions so far.
    pub(crate) records: RecordAllowance,
    /// What of its transactions was inspected again.
    looks: LookAllowance,
    /// Bytes of the flow's packets so far.
    pub(crate) sent: u64,
    /// Transactions seen since the last change of protocol.
    tx_total: u64,
    only_one_direction_raised: bool,
    /// The session was picked up in the middle: its sides may be reversed.
    pub(crate) is_midstream: bool,
    /// The parser has had input.
    is_fed: bool,
    /// The parser could not follow a stream, or could not continue after lost bytes.
    has_failed: bool,
    /// No rule looks at transactions of its protocol.
    is_unlooked: bool,
    /// Transactions with these keys are not logged either.
    silent_pairs: SmallVec<[u64; 1]>,
    charge: Charge,
}

impl AppLayer {
    /// Whether transactions of it may be inspected again.
    #[inline]
    pub(crate) fn may_inspect_again(&self) -> bool {
        self.looks.has_room(self.sent)
    }

    /// Counts bytes that were inspected again.
    pub(crate) fn count_inspected_again(&mut self, bytes: u64) {
        self.looks.add(bytes);
    }

    /// Protocol as seen in one direction.
    pub(crate) fn proto_in(&self, d: Direction) -> ProtoId {
        self.sides[d.index()].proto
    }

    /// Whether the protocol is decided in one direction.
    pub(crate) fn is_detected(&self, d: Direction) -> bool {
        let side = self.sides[d.index()];
        side.proto != ProtoId::UNKNOWN || side.is_done
    }

    /// How often looking for a protocol has ended in one direction.
    #[inline]
    pub(crate) fn decisions(&self, d: Direction) -> u8 {
        self.sides[d.index()].decisions
    }

    /// Nothing of it was parsed, and its protocol is not known.
    pub(crate) fn is_undetected(&self) -> bool {
        self.proto == ProtoId::UNKNOWN && self.announced.is_none()
    }

    /// Whether data of a direction is still needed.
    pub(crate) fn is_off(&self, d: Direction) -> bool {
        self.proto == ProtoId::FAILED || self.sides[d.index()].is_disabled
    }

    /// Bytes of a direction with which the parser is called again, counted from the first that it has not
    /// used; 0: any number.
    pub(crate) fn needed_bytes(&self, d: Direction) -> u64 {
        self.sides[d.index()].needed.min(PARSER_PENDING_MAX) as u64
    }

    /// Whether no data of either direction is needed.
    pub(crate) fn is_all_off(&self) -> bool {
        self.proto == ProtoId::FAILED || self.sides.iter().all(|s| s.is_disabled)
    }

    /// Whether no transaction can change any more: both sides have ended, or the parser has failed.
    pub(crate) fn is_closed(&self) -> bool {
        self.has_failed || self.sides.iter().all(|s| s.is_closed)
    }

    /// After data of a side and what the other side sent before it: if the parser has failed, neither is needed.
    pub(crate) fn settle_failure(&mut self) {
        if self.has_failed {
            self.disable();
        }
    }

    /// Marks both sides' data as not needed any more.
    fn disable(&mut self) {
        for side in &mut self.sides {
            side.is_disabled = true;
        }
    }

    /// Notes where in the stream each side's data begins that was not parsed yet.
    pub(crate) fn note_offsets(&mut self, offsets: [u64; 2]) {
        for (side, offset) in self.sides.iter_mut().zip(offsets) {
            side.offset = offset;
        }
    }

    /// Transactions seen, if there were any.
    pub(crate) fn tx_count(&self) -> Option<u64> {
        (self.tx_total > 0).then_some(self.tx_total)
    }

    /// Client and server turned out to be reversed.
    pub(crate) fn swap_directions(&mut self) {
        self.sides.swap(0, 1);
        self.first_seen = self.first_seen.map(Direction::opposite);
        self.begins_next = self.begins_next.map(Direction::opposite);
    }

    /// Progress at which a transaction is complete.
    pub(crate) fn last_state(&self, d: Direction) -> u8 {
        protocol(self.proto).map_or(1, |p| p.table.last_state(d))
    }

    /// The flow was announced by another: its protocol is known before its first byte.
    pub(crate) fn announce(&mut self, proto: ProtoId, payload: Vec<u8>) {
        for side in &mut self.sides {
            side.proto = proto;
        }
        self.expected = proto;
        self.announced = Some(payload);
    }

    /// Rules were loaded again: transactions that are not done yet are inspected from their beginning.
    pub(crate) fn forget_rules(&mut self, protocols: &Protocols) {
        self.is_unlooked = protocols.is_unlooked(self.proto);
        for detect in self.txs.iter_mut().flat_map(|t| &mut t.detect) {
            detect.forget_rules();
        }
        if let Some(crowd) = self.crowd.as_deref_mut() {
            crowd.begin_again();
        }
    }

    fn open(&mut self, proto: ProtoId, transport: Transport, protocols: &Protocols) {
        self.proto = proto;
        self.is_unlooked = protocols.is_unlooked(proto);
        if proto.is_known() {
            self.parser = protocols.open(proto, transport).filter(|p| p.follows());
            if let (Some(p), Some(payload)) = (&mut self.parser, self.announced.take()) {
                p.expect(&payload);
            }
            let handover = std::mem::take(&mut self.handover);
            if let Some(p) = &mut self.parser
                && (proto == self.expected || self.expected == ProtoId::UNKNOWN)
                && !handover.is_empty()
            {
                p.expect(&handover);
            }
        }
    }

    /// Whether a change of protocol waits for the next data.
    pub(crate) fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    /// Whether a change of protocol is under way: it is not known yet which one follows.
    #[inline]
    pub(crate) fn is_between_protocols(&self) -> bool {
        self.change.is_some() || self.left != ProtoId::UNKNOWN
    }

    /// The protocol that rules see: during a change still the one before.
    #[inline]
    pub(crate) fn proto_for_rules(&self) -> ProtoId {
        if self.proto == ProtoId::UNKNOWN { self.left } else { self.proto }
    }

    /// The first transaction from an id on that is not wholly inspected in a direction.
    pub(crate) fn next_uninspected(&self, from: u64, d: Direction) -> Option<u64> {
        if let Some((id, t)) = self.txs.first_live()
            && id >= from
            && !t.detect[d.index()].is_done
        {
            return Some(id);
        }
        let mut all = self.txs.entries_from(from);
        all.find(|(_, t)| !t.detect[d.index()].is_done).map(|(id, _)| id)
    }

    /// Ids of the transactions that are remembered.
    pub(crate) fn tx_ids(&self) -> std::ops::Range<u64> {
        self.txs.first_id()..self.txs.next_id()
    }

    /// Whether any transaction is left. Most packets come when none is.
    #[inline]
    pub(crate) fn has_txs(&self) -> bool {
        !self.txs.is_empty()
    }

    /// Takes the transactions' memories out, for [`AppLayer::put_back_txs`].
    pub(crate) fn take_txs(&mut self) -> TxList<TxMemory> {
        std::mem::take(&mut self.txs)
    }

    pub(crate) fn put_back_txs(&mut self, txs: TxList<TxMemory>) {
        self.txs = txs;
    }

    pub(crate) fn tx_known(&self, id: u64) -> Option<&TxMemory> {
        self.txs.get(id)
    }

    pub(crate) fn tx_memory(&mut self, id: u64) -> Option<&mut TxMemory> {
        self.txs.get_mut(id)
    }

    pub(crate) fn tx_detect(&mut self, id: u64, d: Direction) -> Option<&mut TxDetect> {
        self.tx_memory(id).map(|t| &mut t.detect[d.index()])
    }

    /// A `config` rule switched a transaction's record off.
    pub(crate) fn silence(&mut self, id: u64) {
        let pair = |a: &AppLayer, id| a.parser.as_deref().and_then(|p| p.tx(id)?.pair_key());
        let key = pair(self, id);
        if let Some(m) = self.tx_memory(id) {
            m.no_log = true;
        }
        if let Some(key) = key {
            self.silent_pairs.push(key);
        }
    }

    /// Whether a transaction is left that was not inspected in this direction or not logged.
    pub(crate) fn has_open_work(&self, d: Direction, detection: bool) -> bool {
        self.txs.iter().any(|t| !t.is_logged || (detection && !t.detect[d.index()].is_done))
            || (detection && self.has_unasked(d))
    }

    /// Whether a transaction is left that is not complete in both directions.
    pub(crate) fn has_unfinished_tx(&self) -> bool {
        let Some(parser) = self.parser.as_deref() else { return false };
        let last = Direction::BOTH.map(|d| self.last_state(d));
        let is_unfinished = |tx: &dyn Transaction| !tx.standing().has_reached(last, None);
        self.tx_ids().any(|id| parser.txs().at(id).is_some_and(is_unfinished))
    }

    /// The youngest transaction, if it goes in that direction.
    pub(crate) fn newest_tx(&self, d: Direction) -> Option<u64> {
        let id = self.txs.next_id().checked_sub(1)?;
        let tx = self.parser.as_deref()?.tx(id)?;
        tx.only().is_none_or(|only| only == d).then_some(id)
    }

    /// The only transaction that a direction takes part in, if there is exactly one.
    pub(crate) fn only_live_tx(&self, direction: Option<Direction>) -> Option<u64> {
        let parser = self.parser.as_deref()?;
        let takes_part = |id: &u64| {
            let tx = parser.txs().at(*id);
            tx.is_some_and(|tx| direction.is_none_or(|d| !tx.standing().is_without(d, None)))
        };
        let mut live = (self.txs.first_id()..self.txs.next_id()).filter(takes_part);
        live.next().filter(|_| live.next().is_none())
    }

    /// Counts an alert that names a transaction by guess. False: there were enough of them.
    pub(crate) fn count_guess(&mut self, id: u64, most: u8) -> bool {
        let Some(memory) = self.txs.get_mut(id).filter(|m| m.guesses < most) else { return false };
        memory.guesses += 1;
        true
    }

    /// Frees transactions that are complete, inspected and logged. `seen`: the only direction there
    /// is of a one-sided flow.
    pub(crate) fn free_finished(&mut self, detection: bool, wants: Wants, seen: Option<Direction>) {
        let logging = wants.app;
        let detection = detection && !self.is_uninspected();
        let files = wants.files || wants.file_store;
        let Some(parser) = &mut self.parser else { return };
        if self.txs.is_empty() {
            return;
        }
        let known = protocol(self.proto);
        let last = Direction::BOTH.map(|d| known.map_or(1, |p| p.table.last_state(d)));
        let are_files_logged = |tx: &dyn Transaction| {
            let all =
                |d: &Direction| tx.files(*d).is_none_or(|l| l.files.iter().all(|f| f.is_logged));
            !files || Direction::BOTH.iter().all(all)
        };
        let is_over = |tx: &dyn Transaction, t: &TxMemory| {
            if logging && !t.is_logged {
                return false;
            }
            let is = tx.standing();
            let is_inspected =
                |d: &Direction| is.is_without(*d, seen) || t.detect[d.index()].is_done;
            is.has_reached(last, seen)
                && (!detection || Direction::BOTH.iter().all(is_inspected))
                && (!is.has_files || are_files_logged(tx))
        };
        let Some(crowd) = self.crowd.as_deref_mut() else {
            self.txs.free_where(|id, t| {
                let is_over = parser.txs().at(id).is_none_or(|tx| is_over(tx, t));
                if is_over {
                    parser.free(id);
                }
                is_over
            });
            return;
        };
        crowd.news.retain(|id| {
            let Some(t) = self.txs.get_mut(*id) else { return false };
            t.is_news = false;
            match parser.txs().at(*id) {
                Some(tx) if !is_over(tx, t) => {
                    // A file is logged with a packet of its own direction.
                    t.is_news = !are_files_logged(tx);
                    t.is_news
                }
                _ => {
                    parser.free(*id);
                    self.txs.discard(*id);
                    false
                }
            }
        });
        if self.txs.len() < CROWD_MIN / 2 {
            self.leave_crowd();
        } else {
            crowd.prune(&self.txs);
        }
    }
}
