//! Which thread has a connection: by network namespace and the two ends, for a join with flows of packets.
//!
//! Entries are made by connect and accept. They are found only while their descriptor still has these ends, so that what
//! closed or ended needs no search; the table is bounded, and the oldest entry leaves for a new one.

use std::collections::VecDeque;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::fd::{End, L4Proto};
use crate::limits::{CONNECTIONS_MAX, reached};

/// The names of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionKey {
    /// The network namespace by its inode; 0 if it is not known, as in files.
    pub netns: u32,
    /// TCP, or what else the socket is.
    pub l4proto: L4Proto,
    /// The end of the thread.
    pub local: End,
    /// The other end.
    pub remote: End,
}

/// The descriptor of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) tid: i64,
    /// The main thread, which has the descriptors.
    pub(crate) main: i64,
    pub(crate) fd: i64,
    /// The number of the entry, by which the queue of ages knows that it is still the same.
    number: u64,
}

/// Bytes of an entry in the map and in the queue.
const ENTRY_COST: u64 =
    (size_of::<(ConnectionKey, Owner)>() + size_of::<(u64, ConnectionKey)>() + 16) as u64;

/// See the opening of this file.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    by_key: HashMap<ConnectionKey, Owner, RandomState>,
    /// Entries from the oldest on; replaced ones stay until their turn.
    ages: VecDeque<(u64, ConnectionKey)>,
    next: u64,
}

impl Connections {
    /// Bytes held.
    pub(crate) fn held(&self) -> u64 {
        (self.ages.len() as u64).saturating_mul(ENTRY_COST)
    }

    /// Notes the thread of a connection. `bytes_max` bounds the table besides its number of entries.
    pub(crate) fn add(
        &mut self,
        key: ConnectionKey,
        (tid, main, fd): (i64, i64, i64),
        bytes_max: u64,
    ) {
        let known = self.by_key.get(&key);
        if known.is_some_and(|owner| (owner.tid, owner.fd) == (tid, fd)) {
            return;
        }
        while !self.ages.is_empty()
            && (!reached::CONNECTIONS_MAX.has_room(self.ages.len())
                || self.held().saturating_add(ENTRY_COST) > bytes_max)
        {
            self.remove_oldest();
        }
        self.next += 1;
        let number = self.next;
        self.by_key.insert(key, Owner { tid, main, fd, number });
        self.ages.push_back((number, key));
    }

    /// The descriptor of a connection; one whose namespace was not known counts for every namespace.
    pub(crate) fn get(&self, key: &ConnectionKey) -> Option<Owner> {
        let owner = self.by_key.get(key);
        owner.or_else(|| self.by_key.get(&ConnectionKey { netns: 0, ..*key })).copied()
    }

    fn remove_oldest(&mut self) {
        if let Some((number, key)) = self.ages.pop_front()
            && self.by_key.get(&key).is_some_and(|owner| owner.number == number)
        {
            self.by_key.remove(&key);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.by_key.clear();
        self.ages.clear();
    }
}

const _: () = assert!(CONNECTIONS_MAX > 0, "a table without entries could never hold one");

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_record::Ip;

    fn key(port: u16) -> ConnectionKey {
        let end = |port| End { ip: Ip::v4(0x0a00_0001), port };
        ConnectionKey { netns: 5, l4proto: L4Proto::Tcp, local: end(port), remote: end(80) }
    }

    #[test]
    fn the_oldest_connection_leaves_for_a_new_one() {
        let (mut table, bytes) = (Connections::default(), 10 * ENTRY_COST);
        for port in 1..=100 {
            table.add(key(port), (7, 7, i64::from(port)), bytes);
            assert!(table.held() <= bytes);
        }
        assert!(table.get(&key(90)).is_none() && table.get(&key(91)).is_some());
        table.add(key(91), (8, 8, 3), bytes);
        assert_eq!(table.get(&key(91)).map(|owner| owner.tid), Some(8));
        (92..=100).for_each(|port| table.add(key(port), (9, 9, 1), bytes));
        assert_eq!(table.get(&key(91)).map(|owner| owner.tid), Some(8), "it is young again");
        table.clear();
        assert!(table.get(&key(100)).is_none() && table.held() == 0);
    }

    #[test]
    fn a_number_of_connections_is_the_most() {
        let _ = gabion_record::limits::take_reached();
        let mut table = Connections::default();
        for fd in 0..CONNECTIONS_MAX as i64 + 3 {
            let mut key = key(1);
            key.netns = fd as u32 + 1;
            table.add(key, (7, 7, fd), u64::MAX);
        }
        assert_eq!(table.by_key.len(), CONNECTIONS_MAX);
        assert_eq!(
            gabion_record::limits::take_reached().times_reached(&reached::CONNECTIONS_MAX),
            3
        );
    }
}
