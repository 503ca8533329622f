//! The door every protocol's transactions implement: [`Transaction`], one exchange of a protocol.
//!
//! Its progress decides which buffers may be inspected and logged; a transaction that is complete in
//! both directions and has been inspected and logged is freed by the engine.

use crate::buffer::{Buffer, Inspect};
use crate::files::FileList;
use gabion_record::json::Json;
use gabion_record::{Direction, TakeReport, TakeText, Tree, TxText};
use smallvec::SmallVec;
use std::any::Any;

/// How a log record is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogOptions<'a> {
    /// The record's own configuration (`outputs.eve-log.types.http`). `None` when the type is only
    /// named (`- tls`), which is less than a node without children (`- tls:`).
    pub config: Option<&'a Tree>,
    /// The object goes into an alert, which logs less or more in some protocols.
    pub in_alert: bool,
    /// Which of its [`Transaction::log_parts`] records is wanted.
    pub part: usize,
}

/// One exchange of a protocol: a request with its response, a message, a session's handshake.
pub trait Transaction: Any + Send {
    /// Number of the transaction in its flow, from 0.
    fn id(&self) -> u64;

    /// How far it got in that direction: an index into the protocol's states.
    fn progress(&self, direction: Direction) -> u8;

    /// The same as alerts show it: where parsing stands. Rules may be ahead of it at a flow's end, and behind it in a
    /// part that is not whole.
    fn parsed_progress(&self, direction: Direction) -> u8 {
        self.progress(direction)
    }

    /// Only that direction exists (a DNS query is a transaction of its own): the other one is not
    /// inspected and counts as complete.
    fn only(&self) -> Option<Direction> {
        None
    }

    /// Whether anything came in that direction. False: none of its buffers has anything yet.
    fn has_begun(&self, direction: Direction) -> bool {
        let _ = direction;
        true
    }

    /// Instance `index` of buffer `local` in that direction; `None` when there is no such instance
    /// (or no window of a streaming buffer is due).
    fn buffer(
        &self,
        local: u16,
        direction: Direction,
        index: usize,
        how: Inspect,
    ) -> Option<Buffer<'_>>;

    /// Value `index` of integer `local` in that direction.
    fn integer(&self, local: u16, direction: Direction, index: usize) -> Option<u64> {
        let _ = (local, direction, index);
        None
    }

    /// Codes of the events raised so far, oldest first. Those of a direction are inspected with it.
    fn events(&self) -> &[u16];

    /// Files carried in that direction.
    fn files(&self, direction: Direction) -> Option<&FileList> {
        let _ = direction;
        None
    }

    /// The same, to mark what was logged and stored and to give back content.
    fn files_mut(&mut self, direction: Direction) -> Option<&mut FileList> {
        let _ = direction;
        None
    }

    /// Least progress to server and to client at which the record may be logged; `None`: when
    /// complete in both directions.
    fn log_progress(&self) -> Option<(u8, u8)> {
        None
    }

    /// Writes the record's object members into `json` (already opened) and says whether there was
    /// anything to log. EVE's `event_type` is the protocol's, unless [`Transaction::event_type`]
    /// says otherwise.
    fn log(&self, json: &mut Json, how: LogOptions<'_>) -> bool;

    /// Reports the transaction as a typed record, if it is one that the behaviour engine takes and one that would be
    /// logged.
    fn report(&self, to: TakeReport<'_>) {
        let _ = to;
    }

    /// Gives a part of the transaction as it came, for outputs of plain text.
    fn text(&self, part: TxText<'_>, to: TakeText<'_>) {
        let _ = (part, to);
    }

    /// Key of a second object that follows the transaction's own (`email` after `smtp`).
    fn companion(&self) -> Option<&'static str> {
        None
    }

    /// Writes the members of the second object and says whether there were any.
    fn log_companion(&self, json: &mut Json, how: LogOptions<'_>) -> bool {
        let _ = (json, how);
        false
    }

    /// How many instances a growing buffer has: each has its own windows, and that none is due of
    /// one says nothing of the next.
    fn streams(&self, local: u16, direction: Direction) -> usize {
        let _ = (local, direction);
        1
    }

    /// EVE `event_type` and key of this transaction when it is not the protocol's own.
    fn event_type(&self) -> Option<&'static str> {
        None
    }

    /// Records this transaction is logged as (one, but for DNS in its older format).
    fn log_parts(&self, how: LogOptions<'_>) -> usize {
        let _ = how;
        1
    }

    /// Direction whose sender is the `src` of the record (records go client to server unless a
    /// transaction is only to the client).
    fn log_direction(&self, how: LogOptions<'_>) -> Direction {
        let _ = how;
        self.only().unwrap_or(Direction::ToServer)
    }

    /// The record has the source of the packet with which it is written, whatever its transaction's direction.
    fn is_logged_as_packet(&self) -> bool {
        false
    }

    /// Key shared with a later transaction of the flow that belongs to this one: what a rule's
    /// `config: …, scope tx` set for this one holds for that one too (a DNS query and its response).
    fn pair_key(&self) -> Option<u64> {
        None
    }

    /// The certificates that a side of an encrypted session showed.
    fn certificates(&self, direction: Direction) -> Option<CertificateChain<'_>> {
        let _ = direction;
        None
    }

    /// The client's address as a proxy before the server noted it in a header of that name: the
    /// first one, or the last.
    fn forwarded_for(&self, header: &str, take_last: bool) -> Option<std::net::IpAddr> {
        let _ = (header, take_last);
        None
    }

    /// Numbers in it are in little-endian order: of what rules read with `dce`, which is DCE/RPC's own
    /// affair (its messages state their order).
    fn is_little_endian(&self) -> bool {
        true
    }

    /// Itself, for conditions that know its type.
    fn as_any(&self) -> &dyn Any;

    /// How far it is, all at once: asked of each transaction with each packet.
    fn standing(&self) -> Standing {
        Standing {
            only: self.only(),
            progress: Direction::BOTH.map(|d| self.progress(d)),
            log_progress: self.log_progress(),
            events: self.events().len(),
            has_files: Direction::BOTH.iter().any(|d| self.files(*d).is_some()),
        }
    }
}

/// How far a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// See [`Transaction::only`].
    pub only: Option<Direction>,
    /// [`Transaction::progress`] to server and to client.
    pub progress: [u8; 2],
    /// See [`Transaction::log_progress`].
    pub log_progress: Option<(u8, u8)>,
    /// How many [`Transaction::events`] there are.
    pub events: usize,
    /// There are [`Transaction::files`] in some direction.
    pub has_files: bool,
}

impl Standing {
    /// Whether it has come so far in both directions. `seen` is the only direction there is of a
    /// one-sided flow: nothing will come in the other.
    pub fn has_reached(&self, wanted: [u8; 2], seen: Option<Direction>) -> bool {
        Direction::BOTH
            .iter()
            .all(|d| self.is_without(*d, seen) || self.progress[d.index()] >= wanted[d.index()])
    }

    /// Whether nothing is to come in a direction.
    pub fn is_without(&self, direction: Direction, seen: Option<Direction>) -> bool {
        self.only.or(seen).is_some_and(|only| only != direction)
    }
}

/// Certificates that a side showed.
#[derive(Clone, Copy, Debug)]
pub struct CertificateChain<'a> {
    /// All of them, DER.
    pub chain: &'a [Vec<u8>],
    /// Subject of the first.
    pub subject: &'a [u8],
    /// Its issuer.
    pub issuer: &'a [u8],
    /// Its SHA-1, hex pairs with colons.
    pub fingerprint: &'a [u8],
}

/// What need not be kept of a flow whose transactions no rule looks at: one that is over before
/// another two have come is known by its records alone, and a flow has a bounded number of those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sparing {
    /// Progress to server and to client at which a transaction is over.
    pub last: [u8; 2],
    /// A transaction has a record.
    pub has_records: bool,
    /// So has each of its events.
    pub has_event_records: bool,
    /// Records that the flow may have yet.
    pub left: u64,
    /// Records of transactions that were not kept.
    pub refused: u64,
}

impl Sparing {
    /// Whether a transaction is kept of which another two have come after it. Its records are taken from
    /// those left.
    pub fn keeps(&mut self, is: &Standing) -> bool {
        if !is.has_reached(self.last, None) || is.has_files {
            return true;
        }
        let (events, keeps) = (is.events as u64, !self.refuses(is.events as u64));
        if keeps {
            self.left -= self.records(events);
        }
        keeps
    }

    /// Records of a transaction that is over with this many events.
    fn records(&self, events: u64) -> u64 {
        u64::from(self.has_records) + if self.has_event_records { events } else { 0 }
    }

    /// Whether nothing inspects a transaction that is over with this many events: its records are refused.
    pub fn refuses(&mut self, events: u64) -> bool {
        let records = self.records(events);
        let is_seen = records > 0 && records <= self.left;
        if !is_seen {
            self.refused += records;
        }
        !is_seen
    }
}

/// Event codes of a transaction: a short list with a limit.
#[derive(Clone, Debug, Default)]
pub struct EventList {
    codes: SmallVec<[u16; 4]>,
}

impl EventList {
    /// Adds an event (each code once, at most [`crate::limits::EVENTS_PER_TX_MAX`]).
    pub fn set(&mut self, code: u16) {
        if !self.codes.contains(&code)
            && crate::limits::reached::EVENTS_PER_TX_MAX.has_room(self.codes.len())
        {
            self.codes.push(code);
        }
    }

    /// Adds an event each time it occurs, at most
    /// [`crate::limits::EVENT_OCCURRENCES_PER_TX_MAX`] in all.
    pub fn add(&mut self, code: u16) {
        if crate::limits::reached::EVENT_OCCURRENCES_PER_TX_MAX.has_room(self.codes.len()) {
            self.codes.push(code);
        }
    }

    /// Drops all but the oldest ones.
    pub fn keep_oldest(&mut self, kept: usize) {
        self.codes.truncate(kept);
    }

    /// The codes, oldest first.
    pub fn codes(&self) -> &[u16] {
        &self.codes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{EVENT_OCCURRENCES_PER_TX_MAX, EVENTS_PER_TX_MAX, reached};

    #[test]
    fn events_beyond_the_limits_are_counted() {
        let (mut kinds, mut occurrences) = (EventList::default(), EventList::default());
        for n in 0..EVENTS_PER_TX_MAX as u16 + 3 {
            kinds.set(n);
            kinds.set(n.min(7));
        }
        for _ in 0..EVENT_OCCURRENCES_PER_TX_MAX + 5 {
            occurrences.add(1);
        }
        assert_eq!(kinds.codes().len(), EVENTS_PER_TX_MAX);
        assert_eq!(occurrences.codes().len(), EVENT_OCCURRENCES_PER_TX_MAX);
        let counts = gabion_record::limits::take_reached();
        assert_eq!(counts.times_reached(&reached::EVENTS_PER_TX_MAX), 3);
        assert_eq!(counts.times_reached(&reached::EVENT_OCCURRENCES_PER_TX_MAX), 5);
    }
}
