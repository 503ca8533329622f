//! Queues between workers, bounded in items and in bytes, that keep the ledger of their stage.
//!
//! What moves is a batch, so the cost of a message (one short lock and the queue's own work, on
//! each side) is divided by 64 to 256 frames. A message says itself what it holds ([`Load`]). A
//! source that can wait uses [`Sender::send`], which waits for room: backpressure. One that can't
//! uses [`Sender::try_send`], which gives the message back and counts it as shed.
//!
//! The ledger of a channel ([`Edge::ledger`]): `received` is what senders brought, `passed` what
//! the receiver took, `shed` what was refused or lost with its reason, `in_flight` the room taken
//! in the queue, which is what grants further room. All of them stand under one lock, so that the
//! ledger balances at every moment, not only at rest.
//!
//! The queue itself is crossbeam's: it has a slot for each message that got room, so that putting
//! one in never waits and can be done under the lock. A message larger than the whole bound is let
//! in when the queue is empty, so that it can pass at all.
//!
//! End: when all senders are gone the receiver gets what is left and then nothing more. When the
//! receiver is gone, what is left in the queue and all that still comes is shed: `worker_lost` if
//! its thread panicked, else `stopped`.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use crossbeam_channel as queue;
use gabion_record::ledger::{Ledger, ShedReason, Tally};

use crate::limits;

/// What a message holds, for bounds and ledger.
pub trait Load {
    /// Items in the stage's unit (frames, records); 0 for a message that only says something.
    fn items(&self) -> u64;
    /// Their bytes.
    fn bytes(&self) -> u64;
}

/// The bounds of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Most items under way.
    pub items: u64,
    /// Most bytes under way.
    pub bytes: u64,
}

/// A message that was not taken, with the reason under which it was counted.
#[derive(PartialEq, Eq)]
pub struct Refused<T> {
    /// The message itself. It is already counted as shed at this stage.
    pub message: T,
    /// `ring_full` from [`Sender::try_send`]; `worker_lost` or `stopped` if the receiver is gone.
    pub reason: ShedReason,
}

/// The message need not be printable.
impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Refused({})", self.reason)
    }
}

/// Why there is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Empty {
    /// None at the moment.
    Yet,
    /// None any more: all senders are gone.
    Ended,
}

/// The state under the lock.
#[derive(Debug, Default)]
struct Book {
    ledger: Ledger,
    held: Tally,
    messages: u64,
    items_peak: u64,
    bytes_peak: u64,
    waits: u64,
    /// Senders waiting for room now.
    waiting: u64,
    /// Times this lock was taken, and times somebody else held it then.
    locks: u64,
    contended: u64,
    /// Set when the receiver is gone.
    end: Option<ShedReason>,
}

/// One channel as its observers see it: name, bounds, ledger.
#[derive(Debug)]
pub struct Edge {
    name: String,
    capacity: Capacity,
    messages_max: u64,
    book: Mutex<Book>,
    room: Condvar,
}

impl Edge {
    /// The stage's name, e.g. `reader>worker`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its bounds.
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// The stage's ledger at this moment.
    pub fn ledger(&self) -> Ledger {
        let book = self.lock();
        let mut ledger = book.ledger.clone();
        ledger.set_in_flight(book.held.items, book.held.bytes);
        ledger
    }

    /// Messages in the queue, one being taken included.
    pub fn queued(&self) -> u64 {
        self.lock().messages
    }

    /// Most items and most bytes that were ever in the queue at once.
    pub fn peak(&self) -> Tally {
        let book = self.lock();
        Tally::new(book.items_peak, book.bytes_peak)
    }

    /// How often a sender had to wait for room.
    pub fn waits(&self) -> u64 {
        self.lock().waits
    }

    /// How often the lock of this stage was taken, and how often somebody else held it then.
    pub fn locks(&self) -> (u64, u64) {
        let book = self.lock();
        (book.locks, book.contended)
    }

    /// No code panics while it holds this lock; if it did, counters would still be sound.
    fn lock(&self) -> MutexGuard<'_, Book> {
        let (mut book, was_held) = match self.book.try_lock() {
            Ok(book) => (book, false),
            Err(TryLockError::Poisoned(error)) => (error.into_inner(), false),
            Err(TryLockError::WouldBlock) => {
                (self.book.lock().unwrap_or_else(PoisonError::into_inner), true)
            }
        };
        book.locks += 1;
        book.contended += u64::from(was_held);
        book
    }

    fn has_room(&self, book: &Book, items: u64, bytes: u64) -> bool {
        if book.messages == 0 {
            return true;
        }
        book.messages < self.messages_max
            && book.held.items.saturating_add(items) <= self.capacity.items
            && book.held.bytes.saturating_add(bytes) <= self.capacity.bytes
    }

    fn taken(&self, items: u64, bytes: u64) {
        let mut book = self.lock();
        book.ledger.pass(items, bytes);
        book.leave(items, bytes);
        if book.waiting > 0 && self.is_low(&book) {
            self.room.notify_all();
        }
    }

    /// Whether enough was taken out for a sender to be woken: it would else be woken for each
    /// message, and a change of threads costs as much as some frames.
    fn is_low(&self, book: &Book) -> bool {
        let low = |most: u64| most - most / 4;
        book.messages < low(self.messages_max)
            && book.held.items <= low(self.capacity.items)
            && book.held.bytes <= low(self.capacity.bytes)
    }
}

impl Book {
    fn enter(&mut self, items: u64, bytes: u64) {
        self.messages += 1;
        self.held.add(items, bytes);
        self.items_peak = self.items_peak.max(self.held.items);
        self.bytes_peak = self.bytes_peak.max(self.held.bytes);
    }

    fn leave(&mut self, items: u64, bytes: u64) {
        self.messages = self.messages.saturating_sub(1);
        self.held.items = self.held.items.wrapping_sub(items);
        self.held.bytes = self.held.bytes.wrapping_sub(bytes);
    }
}

/// Makes a channel. The name is that of the stage; the edge goes into the metrics' registry.
///
/// A message's load must not change while it is under way.
pub fn channel<T: Load>(name: &str, capacity: Capacity) -> (Sender<T>, Receiver<T>, Arc<Edge>) {
    let messages_max = capacity.items.clamp(1, limits::CHANNEL_MESSAGES_MAX);
    let edge = Arc::new(Edge {
        name: name.to_owned(),
        capacity,
        messages_max,
        book: Mutex::new(Book::default()),
        room: Condvar::new(),
    });
    let (put, take) = queue::bounded(messages_max as usize);
    let sender = Sender { edge: Arc::clone(&edge), put };
    (sender, Receiver { edge: Arc::clone(&edge), take }, edge)
}

/// The sending end; clones send into the same queue.
#[derive(Debug)]
pub struct Sender<T: Load> {
    edge: Arc<Edge>,
    put: queue::Sender<T>,
}

impl<T: Load> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Sender { edge: Arc::clone(&self.edge), put: self.put.clone() }
    }
}

impl<T: Load> Sender<T> {
    /// Sends without waiting.
    ///
    /// # Errors
    /// The message, counted as shed: `ring_full`, or why the receiver is gone.
    pub fn try_send(&self, message: T) -> Result<(), Refused<T>> {
        let (items, bytes) = (message.items(), message.bytes());
        let mut book = self.edge.lock();
        book.ledger.receive(items, bytes);
        if let Some(reason) = book.end {
            return refuse(book, message, reason);
        }
        if !self.edge.has_room(&book, items, bytes) {
            return refuse(book, message, ShedReason::RingFull);
        }
        self.put_in(book, message, items, bytes)
    }

    /// Sends, waiting for room as long as the receiver lives.
    ///
    /// # Errors
    /// The message, counted as shed, with why the receiver is gone.
    pub fn send(&self, message: T) -> Result<(), Refused<T>> {
        let (items, bytes) = (message.items(), message.bytes());
        let mut book = self.edge.lock();
        let mut has_waited = false;
        while book.end.is_none() && !self.edge.has_room(&book, items, bytes) {
            if !has_waited {
                has_waited = true;
                book.waits += 1;
            }
            book.waiting += 1;
            book = self.edge.room.wait(book).unwrap_or_else(PoisonError::into_inner);
            book.waiting -= 1;
        }
        // What waited outside was not yet received: only now does it count.
        book.ledger.receive(items, bytes);
        match book.end {
            Some(reason) => refuse(book, message, reason),
            None => self.put_in(book, message, items, bytes),
        }
    }

    /// Waits until a message of this load would be taken, with fewer than n messages before
    /// it, but not longer than that. False: there is no room yet. For the only sender of a channel,
    /// who has to look after other things too while it waits.
    pub fn await_room(&self, items: u64, bytes: u64, messages: u64, longest: Duration) -> bool {
        let mut book = self.edge.lock();
        let has_room = |book: &Book| {
            book.end.is_some()
                || book.messages == 0
                || (book.messages < messages && self.edge.has_room(book, items, bytes))
        };
        if has_room(&book) {
            return true;
        }
        book.waits += 1;
        book.waiting += 1;
        let waited = self.edge.room.wait_timeout(book, longest);
        let mut book = waited.unwrap_or_else(PoisonError::into_inner).0;
        book.waiting -= 1;
        has_room(&book)
    }

    /// The observers' side.
    pub fn edge(&self) -> &Arc<Edge> {
        &self.edge
    }

    fn put_in(
        &self,
        mut book: MutexGuard<'_, Book>,
        message: T,
        items: u64,
        bytes: u64,
    ) -> Result<(), Refused<T>> {
        // Not more messages than slots have room, so this never finds the queue full; if it is
        // gone nevertheless, the message counts as lost instead of vanishing.
        match self.put.try_send(message) {
            Ok(()) => {
                book.enter(items, bytes);
                Ok(())
            }
            Err(error) => refuse(book, error.into_inner(), ShedReason::WorkerLost),
        }
    }
}

fn refuse<T: Load>(
    mut book: MutexGuard<'_, Book>,
    message: T,
    reason: ShedReason,
) -> Result<(), Refused<T>> {
    book.ledger.shed(reason, message.items(), message.bytes());
    Err(Refused { message, reason })
}

/// The receiving end. Dropping it sheds what is left.
#[derive(Debug)]
pub struct Receiver<T: Load> {
    edge: Arc<Edge>,
    take: queue::Receiver<T>,
}

impl<T: Load> Receiver<T> {
    /// Waits for the next message; none when all senders are gone and the queue is empty.
    pub fn recv(&self) -> Option<T> {
        self.take.recv().ok().map(|message| self.taken(message))
    }

    /// The next message if there is one.
    ///
    /// # Errors
    /// Whether one may still come.
    pub fn try_recv(&self) -> Result<T, Empty> {
        match self.take.try_recv() {
            Ok(message) => Ok(self.taken(message)),
            Err(queue::TryRecvError::Empty) => Err(Empty::Yet),
            Err(queue::TryRecvError::Disconnected) => Err(Empty::Ended),
        }
    }

    /// Waits for the next message, but not longer than that.
    ///
    /// # Errors
    /// Whether one may still come.
    pub fn recv_timeout(&self, longest: Duration) -> Result<T, Empty> {
        match self.take.recv_timeout(longest) {
            Ok(message) => Ok(self.taken(message)),
            Err(queue::RecvTimeoutError::Timeout) => Err(Empty::Yet),
            Err(queue::RecvTimeoutError::Disconnected) => Err(Empty::Ended),
        }
    }

    /// The observers' side.
    pub fn edge(&self) -> &Arc<Edge> {
        &self.edge
    }

    fn taken(&self, message: T) -> T {
        self.edge.taken(message.items(), message.bytes());
        message
    }
}

impl<T: Load> Drop for Receiver<T> {
    fn drop(&mut self) {
        let reason =
            if std::thread::panicking() { ShedReason::WorkerLost } else { ShedReason::Stopped };
        let mut left = Vec::new();
        let mut book = self.edge.lock();
        book.end = Some(reason);
        // Senders put in under the lock, so nothing comes after this.
        while let Ok(message) = self.take.try_recv() {
            let (items, bytes) = (message.items(), message.bytes());
            book.ledger.shed(reason, items, bytes);
            book.leave(items, bytes);
            left.push(message);
        }
        self.edge.room.notify_all();
        // The messages themselves are dropped outside of the lock.
        drop(book);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Batch(u64, u64);

    impl Load for Batch {
        fn items(&self) -> u64 {
            self.0
        }
        fn bytes(&self) -> u64 {
            self.1
        }
    }

    const SMALL: Capacity = Capacity { items: 10, bytes: 100 };

    #[test]
    fn items_and_bytes_bound_the_queue() {
        let (tx, rx, edge) = channel("a>b", SMALL);
        assert_eq!(tx.try_send(Batch(4, 40)), Ok(()));
        let full = |batch| Err(Refused { message: batch, reason: ShedReason::RingFull });
        assert_eq!(tx.try_send(Batch(7, 1)), full(Batch(7, 1)));
        assert_eq!(tx.try_send(Batch(1, 61)), full(Batch(1, 61)));
        assert_eq!(tx.try_send(Batch(6, 60)), Ok(()));
        assert_eq!(tx.try_send(Batch(0, 0)), Ok(()));
        assert_eq!(tx.try_send(Batch(1, 0)), full(Batch(1, 0)));
        let ledger = edge.ledger();
        ledger.balance().unwrap();
        assert_eq!(ledger.in_flight(), Tally::new(10, 100));
        assert_eq!(ledger.shed_for(ShedReason::RingFull), Tally::new(9, 62));
        assert_eq!(rx.try_recv(), Ok(Batch(4, 40)));
        assert_eq!(edge.ledger().passed(), Tally::new(4, 40));
        assert_eq!((edge.queued(), edge.peak()), (2, Tally::new(10, 100)));
    }

    #[test]
    fn a_message_larger_than_the_bound_passes_alone() {
        let (tx, rx, edge) = channel("a>b", SMALL);
        assert_eq!(tx.try_send(Batch(1000, 100_000)), Ok(()));
        assert!(tx.try_send(Batch(1, 1)).is_err());
        assert_eq!(rx.recv(), Some(Batch(1000, 100_000)));
        assert_eq!(tx.try_send(Batch(1, 1)), Ok(()));
        edge.ledger().balance().unwrap();
    }

    #[test]
    fn room_is_waited_for_a_while() {
        let (tx, rx, _) = channel("a>b", SMALL);
        let soon = Duration::from_millis(1);
        assert!(tx.await_room(1000, 1000, 1, soon), "an empty queue takes everything");
        tx.send(Batch(5, 5)).unwrap();
        assert!(tx.await_room(5, 5, 2, soon));
        assert!(!tx.await_room(6, 5, 2, soon));
        assert!(!tx.await_room(1, 1, 1, soon), "messages are bounded too");
        let taker = std::thread::spawn(move || {
            while rx.edge().waits() < 3 {
                std::thread::yield_now();
            }
            assert_eq!(rx.recv(), Some(Batch(5, 5)));
            rx
        });
        assert!(tx.await_room(6, 5, 2, Duration::from_secs(60)));
        drop(taker.join());
        assert!(tx.await_room(1, 1, 1, soon), "nobody waits for a receiver that is gone");
    }

    #[test]
    fn the_end_of_the_senders_is_seen_after_what_they_sent() {
        let (tx, rx, edge) = channel("a>b", SMALL);
        let other = tx.clone();
        tx.send(Batch(1, 1)).unwrap();
        drop(tx);
        assert_eq!(rx.recv_timeout(Duration::ZERO), Ok(Batch(1, 1)));
        assert_eq!(rx.try_recv(), Err(Empty::Yet));
        drop(other);
        assert_eq!(rx.try_recv(), Err(Empty::Ended));
        assert_eq!(rx.recv(), None);
        assert!(edge.ledger().is_complete());
    }

    #[test]
    fn a_receiver_that_goes_sheds_what_is_left_and_what_comes() {
        let (tx, rx, edge) = channel("a>b", SMALL);
        tx.send(Batch(3, 30)).unwrap();
        tx.send(Batch(2, 20)).unwrap();
        assert_eq!(rx.recv(), Some(Batch(3, 30)));
        drop(rx);
        let gone = Err(Refused { message: Batch(1, 1), reason: ShedReason::Stopped });
        assert_eq!(tx.send(Batch(1, 1)), gone);
        assert_eq!(tx.try_send(Batch(1, 1)), gone);
        let ledger = edge.ledger();
        ledger.balance().unwrap();
        assert_eq!(ledger.shed_for(ShedReason::Stopped), Tally::new(4, 22));
        assert_eq!(ledger.in_flight(), Tally::default());
    }

    #[test]
    fn a_receiver_lost_in_a_panic_frees_waiting_senders() {
        let (tx, rx, edge) = channel("a>b", SMALL);
        tx.send(Batch(10, 10)).unwrap();
        let sender = std::thread::spawn(move || tx.send(Batch(10, 10)));
        let worker = std::thread::spawn(move || {
            while rx.edge().waits() == 0 {
                std::thread::yield_now();
            }
            let _rx = rx;
            std::panic::resume_unwind(Box::new("lost"));
        });
        assert!(worker.join().is_err());
        let refused = sender.join().unwrap().unwrap_err();
        assert_eq!(refused.reason, ShedReason::WorkerLost);
        let ledger = edge.ledger();
        ledger.balance().unwrap();
        assert_eq!(ledger.shed_for(ShedReason::WorkerLost), Tally::new(20, 20));
    }
}
