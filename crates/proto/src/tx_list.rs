//! The transactions of one flow: ids count up, freeing one leaves the others alone.
//!
//! Flows hold one to a few live transactions, so a queue that stays sorted by id is enough: the
//! engine asks for them in order and frees mostly from the front. One that is freed after others
//! leaves a hole, and holes are closed when they are more than what lives: a step each, however long
//! an old transaction stays.

use crate::parted_queue::PartedQueue;
use crate::transaction::{Sparing, Transaction};
use gabion_record::limits::Limit;

/// Holes that are left alone however few live.
const HOLES_FREE: usize = 16;

/// Transactions that were changed, of which a list is kept however few live.
const CHANGED_FREE: usize = 64;

/// Live transactions with their ids, oldest first.
#[derive(Debug)]
pub struct TxList<T> {
    /// The first and the last one live.
    txs: PartedQueue<(u64, Option<T>)>,
    next_id: u64,
    live: usize,
    changed: Changed,
}

/// Transactions that were changed since the last question.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    ids: Vec<u64>,
    /// There are too many of them to note each.
    is_all: bool,
}

impl Changed {
    /// Notes one of the `live` transactions.
    #[inline]
    pub(crate) fn add(&mut self, id: u64, live: usize) {
        if self.is_all || self.ids.last() == Some(&id) {
            return;
        }
        if self.ids.len() > live + CHANGED_FREE {
            self.ids.clear();
            self.is_all = true;
        } else {
            self.ids.push(id);
        }
    }

    /// Any may have changed.
    pub(crate) fn add_all(&mut self) {
        self.is_all = true;
    }

    /// See [`TxList::take_changed`].
    pub(crate) fn take_ids(&mut self, ids: &mut Vec<u64>) -> bool {
        ids.append(&mut self.ids);
        !std::mem::take(&mut self.is_all)
    }
}

impl<T> Default for TxList<T> {
    fn default() -> TxList<T> {
        TxList { txs: PartedQueue::default(), next_id: 0, live: 0, changed: Changed::default() }
    }
}

impl<T> TxList<T> {
    /// Adds what `make` builds for the next id. The oldest goes when there are as many already as the
    /// limit says, which is counted. True when nothing was dropped.
    pub fn push(&mut self, limit: Option<&'static Limit>, make: impl FnOnce(u64) -> T) -> bool {
        let has_room = limit.is_none_or(|limit| limit.has_room(self.live));
        if !has_room {
            self.discard(self.first_id());
        }
        let id = self.next_id;
        self.txs.push_back((id, Some(make(id))));
        self.next_id += 1;
        self.live += 1;
        self.changed.add(id, self.live);
        has_room
    }

    /// Id of the oldest one (the next id when there is none).
    pub fn first_id(&self) -> u64 {
        self.txs.front().map_or(self.next_id, |(id, _)| *id)
    }

    /// The oldest one with its id.
    #[inline]
    pub fn first_live(&self) -> Option<(u64, &T)> {
        let (id, tx) = self.txs.front()?;
        Some((*id, tx.as_ref()?))
    }

    /// Id the next one gets.
    pub fn next_id(&self) -> u64 {
        self.next_id
    }

    /// A transaction that nothing inspects has come and gone: its id is used.
    pub fn skip(&mut self) {
        self.next_id += 1;
    }

    /// Lets the next one get this id, if none has it yet.
    pub fn continue_with(&mut self, id: u64) {
        self.next_id = self.next_id.max(id);
    }

    /// The place of an id if no transaction before it has left the queue, which is nearly always so.
    #[inline]
    fn distance(&self, id: u64) -> Option<usize> {
        usize::try_from(id.checked_sub(self.txs.front()?.0)?).ok()
    }

    #[inline]
    fn position(&self, id: u64) -> Option<usize> {
        let at = self.distance(id)?;
        match self.txs.get(at) {
            Some((found, _)) if *found == id => Some(at),
            _ => self.position_by_search(id),
        }
    }

    /// The same where some before it are left out: the distance from the back, or a search.
    fn position_by_search(&self, id: u64) -> Option<usize> {
        let is_it = |at: &usize| self.txs.get(*at).is_some_and(|(found, _)| *found == id);
        let distance = usize::try_from(self.txs.back()?.0.checked_sub(id)?).ok()?;
        let from_back = self.txs.len().checked_sub(distance + 1);
        from_back
            .filter(is_it)
            .or_else(|| Some(self.txs.partition_point(|(at, _)| *at < id)).filter(is_it))
    }

    /// The one of that id.
    #[inline]
    pub fn get(&self, id: u64) -> Option<&T> {
        match self.txs.get(self.distance(id)?) {
            Some((found, tx)) if *found == id => tx.as_ref(),
            _ => self.txs.get(self.position_by_search(id)?)?.1.as_ref(),
        }
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        let at = self.position(id)?;
        self.changed.add(id, self.live);
        self.txs.get_mut(at)?.1.as_mut()
    }

    /// The same for a change that nobody sees: it is not among those that were changed.
    pub(crate) fn get_unnoted(&mut self, id: u64) -> Option<&mut T> {
        let at = self.position(id)?;
        self.txs.get_mut(at)?.1.as_mut()
    }

    /// The youngest.
    pub fn last_mut(&mut self) -> Option<&mut T> {
        let (id, tx) = self.txs.back_mut()?;
        self.changed.add(*id, self.live);
        tx.as_mut()
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.txs.iter().filter_map(|(_, tx)| tx.as_ref())
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.changed.add_all();
        self.txs.iter_mut().filter_map(|(_, tx)| tx.as_mut())
    }

    /// All of them with their ids, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = (u64, &T)> {
        self.txs.iter().filter_map(|(id, tx)| Some((*id, tx.as_ref()?)))
    }

    /// The same, to be changed.
    pub fn entries_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        self.changed.add_all();
        self.txs.iter_mut().filter_map(|(id, tx)| Some((*id, tx.as_mut()?)))
    }

    /// Those from this id on with their ids.
    #[inline]
    pub fn entries_from(&self, id: u64) -> impl Iterator<Item = (u64, &T)> {
        let at = if id <= self.first_id() {
            0
        } else {
            match self.position(id) {
                Some(at) => at,
                None => self.txs.partition_point(|(at, _)| *at < id),
            }
        };
        self.txs.iter_from(at).filter_map(|(id, tx)| Some((*id, tx.as_ref()?)))
    }

    /// Takes one out.
    pub fn free(&mut self, id: u64) -> Option<T> {
        let at = self.position(id)?;
        let tx = self.txs.get_mut(at)?.1.take()?;
        self.live -= 1;
        self.close_holes();
        Some(tx)
    }

    /// Gives one up.
    pub fn discard(&mut self, id: u64) {
        if let Some((_, slot)) = self.position(id).and_then(|at| self.txs.get_mut(at))
            && slot.is_some()
        {
            *slot = None;
            self.live -= 1;
            self.close_holes();
        }
    }

    /// Takes out those of which this is true.
    pub fn free_where(&mut self, mut is_over: impl FnMut(u64, &mut T) -> bool) {
        let before = self.live;
        let live = &mut self.live;
        self.txs.for_each_mut(|(id, slot)| {
            if slot.as_mut().is_some_and(|tx| is_over(*id, tx)) {
                *slot = None;
                *live -= 1;
            }
        });
        if self.live != before {
            self.close_holes();
        }
    }

    fn close_holes(&mut self) {
        while self.txs.front().is_some_and(|(_, tx)| tx.is_none()) {
            self.txs.pop_front();
        }
        while self.txs.back().is_some_and(|(_, tx)| tx.is_none()) {
            self.txs.pop_back();
        }
        if self.txs.len() > 2 * self.live + HOLES_FREE {
            self.txs.retain(|(_, tx)| tx.is_some());
        }
    }

    /// Hands over the ids of those that were changed since this was asked last, in no order, some more
    /// than once. False: it may have been any.
    pub fn take_changed(&mut self, ids: &mut Vec<u64>) -> bool {
        self.changed.take_ids(ids)
    }

    /// How many are alive.
    pub fn len(&self) -> usize {
        self.live
    }

    /// None is alive.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Bytes of the list itself, whatever they hold.
    pub fn bytes_held(&self) -> usize {
        self.txs.bytes_held()
    }
}

/// Youngest transactions of a flow that are kept though nothing inspects them, since an alert of the
/// packet that brought them may name one.
pub const YOUNGEST_KEPT: usize = 2;

impl<T: Transaction> TxList<T> {
    /// As [`TxList::push`]. Where transactions need not be kept, the youngest but two is examined, and
    /// handed out if it is over and nothing inspects it: so they take no memory, however many a packet
    /// brings.
    pub fn push_sparing(
        &mut self,
        limit: Option<&'static Limit>,
        sparing: Option<&mut Sparing>,
        make: impl FnOnce(u64) -> T,
    ) -> Option<T> {
        self.push(limit, make);
        let sparing = sparing?;
        let at = self.txs.len().checked_sub(YOUNGEST_KEPT + 1)?;
        let (id, tx) = self.txs.get(at)?;
        if *id + YOUNGEST_KEPT as u64 + 1 != self.next_id || sparing.keeps(&tx.as_ref()?.standing())
        {
            return None;
        }
        let (_, gone) = self.txs.remove(at)?;
        self.live -= 1;
        self.close_holes();
        gone
    }
}

/// Transactions by their ids, whatever their type: what a parser shows of them.
pub trait TxTable {
    /// Id of the oldest one (the next id when there is none).
    fn first_id(&self) -> u64;
    /// Id the next one gets.
    fn next_id(&self) -> u64;
    /// The one of that id.
    fn at(&self, id: u64) -> Option<&dyn Transaction>;
    /// The same, to be changed.
    fn at_mut(&mut self, id: u64) -> Option<&mut dyn Transaction>;
    /// The first that is there from an id on, at most the next one's.
    fn first_from(&self, id: u64) -> u64 {
        id
    }
    /// Gives one up.
    fn give_up(&mut self, id: u64);
    /// Whether it knows which of them were changed.
    fn notes_changes(&self) -> bool {
        false
    }
    /// Hands over the ids of those that may have changed since this was asked last, see
    /// [`TxList::take_changed`]. False: it may have been any.
    fn take_changed(&mut self, ids: &mut Vec<u64>) -> bool {
        let _ = ids;
        false
    }
}

impl<T: Transaction> TxTable for TxList<T> {
    fn first_id(&self) -> u64 {
        self.first_id()
    }

    fn next_id(&self) -> u64 {
        self.next_id()
    }

    fn at(&self, id: u64) -> Option<&dyn Transaction> {
        self.get(id).map(|tx| tx as &dyn Transaction)
    }

    fn at_mut(&mut self, id: u64) -> Option<&mut dyn Transaction> {
        self.get_mut(id).map(|tx| tx as &mut dyn Transaction)
    }

    fn first_from(&self, id: u64) -> u64 {
        self.entries_from(id).next().map_or(self.next_id, |(id, _)| id)
    }

    fn give_up(&mut self, id: u64) {
        self.discard(id);
    }

    fn notes_changes(&self) -> bool {
        true
    }

    fn take_changed(&mut self, ids: &mut Vec<u64>) -> bool {
        self.take_changed(ids)
    }
}

/// The one transaction of a flow that is one exchange, while it is there: a handshake.
impl<T: Transaction> TxTable for Option<Box<T>> {
    fn first_id(&self) -> u64 {
        u64::from(self.is_none())
    }

    fn next_id(&self) -> u64 {
        1
    }

    fn at(&self, id: u64) -> Option<&dyn Transaction> {
        self.as_deref().filter(|_| id == 0).map(|tx| tx as &dyn Transaction)
    }

    fn at_mut(&mut self, id: u64) -> Option<&mut dyn Transaction> {
        self.as_deref_mut().filter(|_| id == 0).map(|tx| tx as &mut dyn Transaction)
    }

    fn give_up(&mut self, id: u64) {
        if id == 0 {
            *self = None;
        }
    }
}

/// No transactions: of protocols that are not parsed.
impl TxTable for () {
    fn first_id(&self) -> u64 {
        0
    }

    fn next_id(&self) -> u64 {
        0
    }

    fn at(&self, _: u64) -> Option<&dyn Transaction> {
        None
    }

    fn at_mut(&mut self, _: u64) -> Option<&mut dyn Transaction> {
        None
    }

    fn give_up(&mut self, _: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    gabion_record::limits! { "proto";
        /// Transactions of a list.
        const ONE: usize = 1, Loses("the oldest");
    }

    #[test]
    fn ids_stay_when_others_go() {
        let mut l = TxList::default();
        for _ in 0..5 {
            assert!(l.push(None, |id| id * 10));
        }
        assert_eq!(l.free(1), Some(10));
        assert_eq!(l.free(0), Some(0));
        assert_eq!((l.first_id(), l.next_id(), l.len()), (2, 5, 3));
        assert_eq!(l.free(3), Some(30));
        assert_eq!((l.get(2), l.get(3), l.get(4)), (Some(&20), None, Some(&40)));
        assert_eq!(l.get(7), None);
    }

    /// With an old one that stays, the others come and go in steps that do not grow.
    #[test]
    fn holes_are_closed() {
        let mut l = TxList::default();
        l.push(None, |id| id);
        for round in 0..1000 {
            for _ in 0..40 {
                l.push(None, |id| id);
            }
            for id in l.next_id() - 40..l.next_id() {
                assert_eq!(l.free(id), Some(id));
            }
            assert_eq!((l.len(), l.first_id(), l.next_id()), (1, 0, 1 + 40 * (round + 1)));
            assert!(l.txs.len() <= 2 + HOLES_FREE, "{}", l.txs.len());
        }
        for _ in 0..100 {
            l.push(None, |id| id);
        }
        let next = l.next_id();
        (next - 99..next - 1).for_each(|id| l.discard(id));
        assert_eq!(l.entries().map(|(id, _)| id).collect::<Vec<_>>(), [0, next - 100, next - 1]);
        for (from, first) in
            [(0, Some(0)), (1, Some(next - 100)), (next - 99, Some(next - 1)), (next, None)]
        {
            assert_eq!(l.entries_from(from).next().map(|(id, _)| id), first);
        }
        assert_eq!(l.iter().rev().count(), 3);
        assert!(l.bytes_held() >= 3 * size_of::<(u64, Option<u64>)>());
        (0..next).for_each(|id| l.discard(id));
        assert_eq!((l.len(), l.first_id()), (0, next));
        l.continue_with(next + 7);
        l.push(None, |id| id);
        assert_eq!((l.first_id(), l.len()), (next + 7, 1));
    }

    #[test]
    fn what_changed_is_known() {
        let mut l = TxList::default();
        let mut ids = Vec::new();
        assert!((0..100).all(|_| l.push(None, |id| id)));
        assert!(l.take_changed(&mut ids));
        assert_eq!(ids, (0..100).collect::<Vec<_>>());
        ids.clear();
        assert!(l.take_changed(&mut ids) && ids.is_empty());
        assert_eq!((l.get(3), l.entries_from(5).count(), l.iter().count()), (Some(&3), 95, 100));
        assert_eq!([7, 7, 99, 200].map(|id| l.get_mut(id).is_some()), [true, true, true, false]);
        l.last_mut();
        l.free(9);
        assert!(l.take_changed(&mut ids));
        assert_eq!(ids, [7, 99]);
        // However often they change, the list is no longer than they are.
        assert!((0..10_000).all(|n| l.get_mut(n % 2).is_some()));
        ids.clear();
        assert!(!l.take_changed(&mut ids) && ids.len() <= 100 + CHANGED_FREE);
        assert!(l.take_changed(&mut ids));
        l.iter_mut().for_each(|_| {});
        assert!(!l.take_changed(&mut ids));
    }

    #[test]
    fn the_oldest_goes_at_the_limit() {
        let mut l = TxList::default();
        assert!(l.push(Some(&reached::ONE), |id| id));
        assert!(!l.push(Some(&reached::ONE), |id| id));
        assert_eq!(gabion_record::limits::take_reached().times_reached(&reached::ONE), 1);
        assert_eq!(ONE, TABLE.len());
        assert_eq!((l.first_id(), l.len()), (1, 1));
    }
}
