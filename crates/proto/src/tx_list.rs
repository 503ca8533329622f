//! The transactions of one flow: ids count up, freeing one leaves the others alone.
//!
//! Flows hold one to a few live transactions, so a deque that stays sorted by id is enough: the
//! engine asks for them in order and frees mostly from the front.

use crate::Transaction;
use gabion_record::limits::Limit;
use std::collections::VecDeque;

/// Live transactions with their ids, oldest first.
#[derive(Debug)]
pub struct TxList<T> {
    txs: VecDeque<(u64, T)>,
    next_id: u64,
}

impl<T> Default for TxList<T> {
    fn default() -> TxList<T> {
        TxList { txs: VecDeque::new(), next_id: 0 }
    }
}

impl<T> TxList<T> {
    /// Adds what `make` builds for the next id. The oldest goes when there are as many already as the
    /// limit says, which is counted. True when nothing had to go.
    pub fn push(&mut self, limit: Option<&'static Limit>, make: impl FnOnce(u64) -> T) -> bool {
        let has_room = limit.is_none_or(|limit| limit.has_room(self.txs.len()));
        if !has_room {
            self.txs.pop_front();
        }
        if self.txs.capacity() == 0 {
            // Most flows never hold a second one.
            self.txs.reserve_exact(1);
        }
        let id = self.next_id;
        self.txs.push_back((id, make(id)));
        self.next_id += 1;
        has_room
    }

    /// Id of the oldest one (the next id when there is none).
    pub fn first_id(&self) -> u64 {
        self.txs.front().map_or(self.next_id, |(id, _)| *id)
    }

    /// Id the next one gets.
    pub fn next_id(&self) -> u64 {
        self.next_id
    }

    fn position(&self, id: u64) -> Option<usize> {
        // Without holes the id is a plain distance from the front.
        let guess = usize::try_from(id.checked_sub(self.first_id())?).ok()?;
        if self.txs.get(guess).is_some_and(|(at, _)| *at == id) {
            return Some(guess);
        }
        self.txs.binary_search_by_key(&id, |(at, _)| *at).ok()
    }

    /// The one of that id.
    pub fn get(&self, id: u64) -> Option<&T> {
        self.txs.get(self.position(id)?).map(|(_, tx)| tx)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        let at = self.position(id)?;
        self.txs.get_mut(at).map(|(_, tx)| tx)
    }

    /// The youngest.
    pub fn last_mut(&mut self) -> Option<&mut T> {
        self.txs.back_mut().map(|(_, tx)| tx)
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.txs.iter().map(|(_, tx)| tx)
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.txs.iter_mut().map(|(_, tx)| tx)
    }

    /// Takes one out.
    pub fn free(&mut self, id: u64) -> Option<T> {
        let at = self.position(id)?;
        self.txs.remove(at).map(|(_, tx)| tx)
    }

    /// How many are alive.
    pub fn len(&self) -> usize {
        self.txs.len()
    }

    /// None is alive.
    pub fn is_empty(&self) -> bool {
        self.txs.is_empty()
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
    /// Gives one up.
    fn give_up(&mut self, id: u64);
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

    fn give_up(&mut self, id: u64) {
        self.free(id);
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

    #[test]
    fn the_oldest_goes_at_the_limit() {
        let mut l = TxList::default();
        assert!(l.push(Some(&reached::ONE), |id| id));
        assert!(!l.push(Some(&reached::ONE), |id| id));
        assert_eq!(gabion_record::limits::take().of(&reached::ONE), 1);
        assert_eq!(ONE, TABLE.len());
        assert_eq!((l.first_id(), l.len()), (1, 1));
    }
}
