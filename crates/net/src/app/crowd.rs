//! Flows with many transactions: a packet looks at those that it has changed.
//!
//! A flow can hold thousands of requests that were not answered yet, and a packet of a few bytes
//! would cost as much as all of them if it looked at each. So a flow with many transactions keeps lists
//! of those that are to be looked at. A flow with few looks at all, which is as cheap and needs no lists.

use super::{AppLayer, TxMemory};
use crate::detect::TxDetect;
use crate::limits::CROWD_MIN;
use gabion_proto::Transaction;
use gabion_proto::tx_list::TxList;
use gabion_record::Direction;

/// Whether a transaction may have something to be written, or may be over (with this progress),
/// whichever directions the flow has.
pub(super) fn may_be_logged(tx: &dyn Transaction, last: [u8; 2]) -> bool {
    let is = tx.standing();
    let wanted = is.log_progress.map_or(last, |(to_server, to_client)| [to_server, to_client]);
    let seen = [None, Some(Direction::ToServer), Some(Direction::ToClient)];
    is.events > 0 || is.has_files || seen.iter().any(|seen| is.has_reached(wanted, *seen))
}

impl AppLayer {
    /// Collects the transactions that the parser has changed.
    pub(super) fn note_changes(&mut self, first_new: u64) {
        let Some(parser) = &mut self.parser else { return };
        // The parser drops the oldest ones by itself.
        while !self.txs.is_empty() && self.txs.first_id() < parser.first_tx_id() {
            self.txs.discard(self.txs.first_id());
        }
        let is_few = self.txs.len() <= CROWD_MIN && self.crowd.is_none();
        if is_few || !parser.txs().notes_changes() {
            return;
        }
        let mut changed = std::mem::take(&mut self.crowd.get_or_insert_default().changed);
        let is_known = parser.txs_mut().take_changed(&mut changed);
        if let Some(crowd) = self.crowd.as_deref_mut() {
            let was_begun = std::mem::replace(&mut crowd.is_begun, true);
            if is_known && was_begun {
                // Old ones and new ones each come in order.
                for is_new in [false, true] {
                    for id in changed.iter().filter(|id| (**id >= first_new) == is_new) {
                        crowd.add_changed(*id, self.txs.get_mut(*id), self.is_unlooked);
                    }
                }
            } else {
                let all = self.txs.entries_mut();
                all.for_each(|(id, t)| crowd.add_changed(id, Some(t), self.is_unlooked));
            }
            changed.clear();
            crowd.changed = changed;
        }
    }

    /// Those of many transactions that are to be inspected in a direction, in order. `None`: all are to
    /// be looked at.
    pub(crate) fn take_due(&mut self, d: Direction) -> Option<Vec<u64>> {
        let crowd = self.crowd.as_deref_mut()?;
        crowd.is_unasked[d.index()] = false;
        let mut due = std::mem::take(&mut crowd.due[d.index()]);
        if !due.is_sorted() {
            due.sort_unstable();
        }
        Some(due)
    }

    /// What detection remembers of the transaction that is inspected next, unless detection is done with it.
    pub(crate) fn begin_inspection(&mut self, id: u64, d: Direction) -> Option<&mut TxDetect> {
        let t = self.txs.get_mut(id)?;
        t.is_due[d.index()] = false;
        let detect = &mut t.detect[d.index()];
        (!detect.is_done).then_some(detect)
    }

    /// Passes over a transaction that no rule looks at. `is_done`: it is not to be inspected any more.
    pub(crate) fn pass_over(&mut self, id: u64, d: Direction, is_done: bool) {
        let Some(t) = self.txs.get_mut(id) else { return };
        t.is_due[d.index()] = false;
        let was_done = std::mem::replace(&mut t.detect[d.index()].is_done, is_done);
        t.detect[d.index()].is_done |= was_done;
        // It may be over now.
        if let Some(crowd) = self.crowd.as_deref_mut().filter(|_| is_done && !was_done) {
            crowd.add(id, Some(t), None);
        }
    }

    /// Whether none of the flow's many transactions is inspected, since no rule looks at them.
    pub(crate) fn is_uninspected(&self) -> bool {
        self.is_unlooked && self.crowd.is_some()
    }

    /// A transaction was inspected. `waits`: it is to be inspected with the next packet too, whether or
    /// not it changes.
    pub(crate) fn inspected(&mut self, id: u64, d: Direction, waits: bool) {
        if let Some(crowd) = self.crowd.as_deref_mut() {
            crowd.add(id, self.txs.get_mut(id), waits.then_some(d));
        }
    }

    /// Whether transactions with nothing in this direction wait to be passed over by a packet of it.
    pub(super) fn has_unasked(&self, d: Direction) -> bool {
        self.crowd.as_deref().is_some_and(|crowd| crowd.is_unasked[d.index()])
            && self.txs.iter().any(|t| self.is_unlooked || t.only.is_some_and(|only| only != d))
    }

    /// Those of many transactions that have changed, in order. `None`: any may have changed.
    pub(crate) fn news(&mut self) -> Option<Vec<u64>> {
        let crowd = self.crowd.as_deref_mut()?;
        if !crowd.news.is_sorted() {
            crowd.news.sort_unstable();
        }
        Some(std::mem::take(&mut crowd.news))
    }

    /// Returns the list that [`AppLayer::news`] has handed out.
    pub(crate) fn put_back_news(&mut self, news: Vec<u64>) {
        if let Some(crowd) = self.crowd.as_deref_mut() {
            crowd.news = news;
        }
    }

    /// The flow has few transactions again.
    pub(super) fn leave_crowd(&mut self) {
        self.crowd = None;
        for t in self.txs.iter_mut() {
            (t.is_due, t.is_news) = ([false; 2], false);
        }
    }
}

/// Which of many transactions are to be looked at: those that changed. Most packets change one of them,
/// and a look at all would cost as much as the flow has open transactions.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    /// The lists have the transactions that existed when it began.
    is_begun: bool,
    /// To be inspected, by direction.
    due: [Vec<u64>; 2],
    /// Transactions without inspection in a direction have changed, and no packet of it has come since.
    is_unasked: [bool; 2],
    /// Changed or inspected: they may have something to be written, or may be over.
    pub(super) news: Vec<u64>,
    /// A reused list for what the parser reports.
    changed: Vec<u64>,
}

impl Crowd {
    /// Its lists get all transactions with the next change.
    pub(super) fn begin_again(&mut self) {
        self.is_begun = false;
    }

    /// The parser has changed a transaction.
    fn add_changed(&mut self, id: u64, memory: Option<&mut TxMemory>, is_unlooked: bool) {
        let Some(t) = memory else { return };
        for d in Direction::BOTH {
            if t.only.is_some_and(|only| only != d) {
                // It has nothing to inspect.
                t.detect[d.index()].is_done = true;
                self.is_unasked[d.index()] = true;
            } else if is_unlooked {
                self.is_unasked[d.index()] = true;
            } else if !std::mem::replace(&mut t.is_due[d.index()], true) {
                self.due[d.index()].push(id);
            }
        }
        // A transaction that only waits is no news until it changes.
        if std::mem::replace(&mut t.is_begun, true) {
            self.add(id, Some(t), None);
        }
    }

    /// A transaction has changed; it may be due again in a direction.
    fn add(&mut self, id: u64, memory: Option<&mut TxMemory>, due: Option<Direction>) {
        let Some(t) = memory else { return };
        if !std::mem::replace(&mut t.is_news, true) {
            self.news.push(id);
        }
        if let Some(d) = due
            && !std::mem::replace(&mut t.is_due[d.index()], true)
        {
            self.due[d.index()].push(id);
        }
    }

    /// Forgets freed transactions in directions without inspection.
    pub(super) fn prune(&mut self, txs: &TxList<TxMemory>) {
        for list in &mut self.due {
            if list.len() > 2 * (txs.len() + CROWD_MIN) {
                list.retain(|id| txs.get(*id).is_some());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::{AppCounters, AppInput, Effects, Protocols};
    use gabion_proto::registry::protocol;
    use gabion_proto::{Endpoints, Input, Requirements};
    use gabion_record::Tree;
    use gabion_record::applayer::{ProtoId, Transport};
    use gabion_record::eve::Wants;

    /// A flow of MQTT whose client has sent its CONNECT.
    fn session(protocols: &Protocols) -> AppLayer {
        let all = gabion_proto::registry();
        let at = all.iter().position(|p| p.table.name == "mqtt").unwrap();
        let mut app = AppLayer::default();
        app.open(ProtoId(at as u8 + 1), Transport::Tcp, protocols);
        assert_eq!(protocol(app.proto).unwrap().table.name, "mqtt");
        say(&mut app, protocols, b"\x10\x0d\0\x04MQTT\x04\x02\0\x3c\0\x01a");
        app
    }

    /// One packet of the client, inspected and logged; returns the number of transactions looked at.
    fn say(app: &mut AppLayer, protocols: &Protocols, bytes: &[u8]) -> usize {
        let (ends, mut effects) = (Endpoints::default(), Effects::default());
        let mut counters = AppCounters::default();
        let (d, transport) = (Direction::ToServer, Transport::Tcp);
        let (effects, counters) = (&mut effects, &mut counters);
        let mut input =
            AppInput { protocols, endpoints: &ends, ts_ns: 0, transport, effects, counters };
        app.parse(&mut input, d, Input::Data { bytes, eof: false });
        let all: Vec<u64> = app.txs.entries().map(|(id, _)| id).collect();
        let due = app.take_due(d).unwrap_or_else(|| all.clone());
        for id in &due {
            let is_over = app.parser.as_ref().unwrap().tx(*id).is_some_and(|tx| tx.progress(d) > 0);
            app.begin_inspection(*id, d).unwrap().is_done = is_over;
            app.inspected(*id, d, false);
        }
        let news = app.news();
        let written = news.clone().unwrap_or(all);
        for id in &written {
            let is_over = app.parser.as_ref().unwrap().tx(*id).is_some_and(|tx| tx.progress(d) > 0);
            app.tx_memory(*id).unwrap().is_logged = is_over;
        }
        news.into_iter().for_each(|news| app.put_back_news(news));
        app.free_finished(true, Wants { app: true, ..Wants::default() }, None);
        due.len() + written.len()
    }

    fn publish(id: u16) -> Vec<u8> {
        let [high, low] = id.to_be_bytes();
        vec![0x32, 6, 0, 1, b'a', high, low, b'b']
    }

    /// However many wait for an answer, a packet looks at those it has changed, and at no more of them
    /// when they are many than when they are few.
    #[test]
    fn a_packet_looks_at_what_it_has_changed() {
        let tree = Tree::default();
        let protocols = Protocols::new(&tree, Requirements::default()).unwrap();
        for waiting in [10_u16, 100, 1_000, 4_000] {
            let mut app = session(&protocols);
            for id in 1..=waiting {
                say(&mut app, &protocols, &publish(id));
            }
            let open = app.txs.len();
            assert_eq!(open, usize::from(waiting) + 1);
            let mut looks = 0;
            for _ in 0..1_000 {
                // Two pings, and an answer to nothing: three transactions that are over at once.
                looks += say(&mut app, &protocols, b"\xc0\0\xc0\0\x40\x02\xff\xff");
            }
            assert_eq!(app.txs.len(), open, "what is over is freed");
            let most = 1_000 * 2 * (3 + if open > CROWD_MIN { 0 } else { open });
            assert!(looks <= most, "{waiting} wait: {looks} looks");
            // All are answered: none is forgotten.
            for id in 1..=waiting {
                let [high, low] = id.to_be_bytes();
                say(&mut app, &protocols, &[0x40, 2, high, low]);
            }
            assert_eq!(app.txs.len(), 1, "the introduction is not answered");
            assert!(app.crowd.is_none());
        }
    }

    /// Transactions that are not seen in one direction leave nothing in the lists.
    #[test]
    fn lists_stay_as_short_as_the_flow_is() {
        let tree = Tree::default();
        let protocols = Protocols::new(&tree, Requirements::default()).unwrap();
        let mut app = session(&protocols);
        for id in 1..=200 {
            say(&mut app, &protocols, &publish(id));
        }
        for _ in 0..5_000 {
            say(&mut app, &protocols, b"\xc0\0\xc0\0");
        }
        let crowd = app.crowd.as_deref().unwrap();
        for list in crowd.due.iter().chain([&crowd.news]) {
            assert!(list.len() <= 2 * (app.txs.len() + CROWD_MIN), "{}", list.len());
        }
    }

    /// Transactions without rules and records are not kept; an alert may name the youngest.
    #[test]
    fn what_nobody_sees_is_not_kept() {
        let tree = Tree::default();
        let mut protocols = Protocols::new(&tree, Requirements::default()).unwrap();
        let count = gabion_proto::registry().len() + 1;
        protocols.leave(vec![true; count], Wants { app: true, ..Wants::default() });
        let mut app = session(&protocols);
        // The records that a flow without bytes may have, and the two youngest.
        let pings = b"\xc0\0".repeat(700);
        let looks = say(&mut app, &protocols, &pings);
        let kept = crate::limits::FLOW_RECORDS_MAX as usize + 2;
        assert!(looks <= 2 * (kept + 1), "{looks}");
        assert_eq!(app.tx_total, 701);
        assert_eq!(app.txs.next_id(), 701);
        assert_eq!(app.newest_tx(Direction::ToServer), None, "all but the first are over and free");
        protocols.leave(vec![false; count], Wants { app: true, ..Wants::default() });
        let mut app = session(&protocols);
        // With the CONNECT, which was not answered.
        assert_eq!(say(&mut app, &protocols, &pings), 2 * 701, "a rule looks at all");
    }
}
