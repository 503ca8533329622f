//! What moves from listeners to the sealer: batches of messages, through a queue bounded in bytes with
//! a share for each side. Sources that can wait wait for space in theirs; those that can't are informed
//! that there is none and keep what they hold in their own fair queue.

use crate::limits::SPARE_BATCHES_MAX;
use gabion_seal::statement;
use gabion_seal::{Flags, Kind, Record, Source};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A record of a batch without its bytes, which stand in the batch's buffer.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Its place in the batch's sources.
    source: u32,
    time_ns: u64,
    kind: Kind,
    flags: Flags,
    from: usize,
    len: usize,
}

/// Where to report that the messages of a batch are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// The connection.
    pub(crate) connection: u64,
    /// How many of its messages are in the batch.
    pub(crate) messages: u32,
}

/// Messages on their way.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    sources: Vec<Arc<Source>>,
    receipts: Vec<Receipt>,
    messages: u64,
    message_bytes: u64,
}

impl Batch {
    /// Adds one record.
    pub(crate) fn push(&mut self, source: &Arc<Source>, record: Record<'_>) {
        if !self.sources.last().is_some_and(|s| Arc::ptr_eq(s, source)) {
            self.sources.push(Arc::clone(source));
        }
        let Record { time_ns, kind, flags, bytes } = record;
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        let source = (self.sources.len() - 1) as u32;
        self.entries.push(Entry { source, time_ns, kind, flags, from, len: bytes.len() });
        if kind == Kind::Message {
            self.messages += 1;
            self.message_bytes += bytes.len() as u64;
        }
    }

    /// States after a message that was cut how long it was.
    pub(crate) fn note_cut(&mut self, source: &Arc<Source>, time_ns: u64, sent: u64, kept: usize) {
        let text = statement("truncated", |json| {
            json.number("sent", sent);
            json.number("kept", kept);
        });
        let (kind, flags) = (Kind::System, Flags::default());
        self.push(source, Record { time_ns, kind, flags, bytes: &text });
    }

    /// The connection wants to be informed when the message just added is durable.
    pub(crate) fn wants_receipt(&mut self, connection: u64) {
        match self.receipts.last_mut() {
            Some(last) if last.connection == connection => last.messages += 1,
            _ => self.receipts.push(Receipt { connection, messages: 1 }),
        }
    }

    /// Records with their sources.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<Source>, Record<'_>)> {
        self.entries.iter().map(|e| {
            let bytes = &self.bytes[e.from..e.from + e.len];
            let Entry { time_ns, kind, flags, .. } = *e;
            (&self.sources[e.source as usize], Record { time_ns, kind, flags, bytes })
        })
    }

    /// Where to report.
    pub(crate) fn receipts(&self) -> &[Receipt] {
        &self.receipts
    }

    /// Nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Messages, without the log's own statements.
    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }

    /// Their bytes.
    pub(crate) fn message_bytes(&self) -> u64 {
        self.message_bytes
    }

    /// Memory filled, by which it is decided when a batch is sent.
    pub(crate) fn weight(&self) -> usize {
        self.bytes.len() + self.entries.len() * size_of::<Entry>() + self.sources.len() * 8
    }

    /// Memory taken, by which the queue is bounded: buffers grow by doubling.
    fn footprint(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.sources.clear();
        self.receipts.clear();
        self.messages = 0;
        self.message_bytes = 0;
    }
}

/// Which side of the queue a batch comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Connections, which wait.
    Streams = 0,
    /// Datagrams, which can't.
    Datagrams = 1,
    /// Opened envelopes; their workers wait.
    Envelopes = 2,
}

const SIDES: usize = 3;

#[derive(Debug, Default)]
struct State {
    batches: VecDeque<(Side, Batch)>,
    held: [usize; SIDES],
    spare: Vec<Batch>,
    /// No more will be taken: the sealer is gone.
    is_closed: bool,
    /// Messages and bytes that came when the sealer was gone.
    lost: (u64, u64),
    /// Sides that are done.
    ended: usize,
    /// Somebody waits for room, or for a batch.
    waiting_for_room: usize,
    is_taker_waiting: bool,
}

/// The queue before the sealer.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    room: Condvar,
    filled: Condvar,
    share: usize,
    producers: usize,
}

/// What the sealer finds.
#[derive(Debug)]
pub(crate) enum Taken {
    Batch(Side, Batch),
    /// Nothing within the time.
    Nothing,
    /// Nothing any more: all producers are done.
    Ended,
}

impl Queue {
    /// A queue of n bytes a side, ended when all its producers are done.
    pub(crate) fn new(share: usize, producers: usize) -> Queue {
        Queue {
            state: Mutex::new(State::default()),
            room: Condvar::new(),
            filled: Condvar::new(),
            share,
            producers,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a batch in, waiting for space; returns an empty one. `None` when the sealer is gone:
    /// the batch is lost and its messages with it.
    pub(crate) fn put(&self, side: Side, batch: Batch) -> Option<Batch> {
        let mut state = self.lock();
        while !state.is_closed && state.held[side as usize] > self.share {
            state.waiting_for_room += 1;
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting_for_room -= 1;
        }
        self.enter(&mut state, side, batch)
    }

    /// Puts a batch in if there is room, else gives it back.
    pub(crate) fn offer(&self, side: Side, batch: Batch) -> Result<Option<Batch>, Batch> {
        let mut state = self.lock();
        if !state.is_closed && state.held[side as usize] > self.share {
            return Err(batch);
        }
        Ok(self.enter(&mut state, side, batch))
    }

    fn enter(&self, state: &mut State, side: Side, batch: Batch) -> Option<Batch> {
        if state.is_closed {
            state.lost.0 += batch.messages();
            state.lost.1 += batch.message_bytes();
            return None;
        }
        state.held[side as usize] += batch.footprint();
        state.batches.push_back((side, batch));
        if state.is_taker_waiting {
            self.filled.notify_one();
        }
        Some(state.spare.pop().unwrap_or_default())
    }

    /// A producer is done.
    pub(crate) fn end(&self) {
        self.lock().ended += 1;
        self.filled.notify_all();
    }

    /// Takes the next batch.
    pub(crate) fn take_batch(&self, longest: Duration) -> Taken {
        let mut state = self.lock();
        if state.batches.is_empty() && state.ended < self.producers && !longest.is_zero() {
            state.is_taker_waiting = true;
            let (guard, _) =
                self.filled.wait_timeout(state, longest).unwrap_or_else(PoisonError::into_inner);
            state = guard;
            state.is_taker_waiting = false;
        }
        match state.batches.pop_front() {
            Some((side, batch)) => Taken::Batch(side, batch),
            None if state.ended >= self.producers => Taken::Ended,
            None => Taken::Nothing,
        }
    }

    /// The sealer is done with a batch: its room is free, its memory can be used again.
    pub(crate) fn recycle(&self, side: Side, mut batch: Batch) {
        let footprint = batch.footprint();
        batch.clear();
        let mut state = self.lock();
        state.held[side as usize] = state.held[side as usize].saturating_sub(footprint);
        if state.spare.len() < SPARE_BATCHES_MAX {
            state.spare.push(batch);
        }
        if state.waiting_for_room > 0 {
            self.room.notify_all();
        }
    }

    /// Messages and bytes that came when the sealer was gone.
    pub(crate) fn lost(&self) -> (u64, u64) {
        self.lock().lost
    }

    /// The sealer is gone; returns what was left in the queue.
    pub(crate) fn close(&self) -> Vec<Batch> {
        let mut state = self.lock();
        state.is_closed = true;
        let left = state.batches.drain(..).map(|(_, b)| b).collect();
        self.room.notify_all();
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_seal::Transport;

    fn batch(n: usize) -> Batch {
        let source = Arc::new(Source::new(Transport::Tcp, 0, "127.0.0.1", ""));
        let mut batch = Batch::default();
        for _ in 0..n {
            let (kind, flags) = (Kind::Message, Flags::default());
            batch.push(&source, Record { time_ns: 0, kind, flags, bytes: b"hello" });
            batch.wants_receipt(3);
        }
        batch
    }

    #[test]
    fn a_side_that_is_full_does_not_hinder_another() {
        let queue = Queue::new(100, 2);
        queue.offer(Side::Datagrams, batch(10)).expect("room");
        assert!(queue.offer(Side::Datagrams, batch(1)).is_err());
        queue.put(Side::Streams, batch(1)).expect("room");
        let Taken::Batch(side, first) = queue.take_batch(Duration::ZERO) else { panic!("a batch") };
        assert_eq!((side, first.messages(), first.message_bytes()), (Side::Datagrams, 10, 50));
        assert_eq!(first.receipts(), [Receipt { connection: 3, messages: 10 }]);
        assert_eq!(first.iter().count(), 10);
        queue.recycle(side, first);
        assert!(queue.offer(Side::Datagrams, batch(1)).is_ok());
        queue.end();
        queue.end();
        assert!(matches!(queue.take_batch(Duration::ZERO), Taken::Batch(Side::Streams, _)));
        assert!(matches!(queue.take_batch(Duration::ZERO), Taken::Batch(Side::Datagrams, _)));
        assert!(matches!(queue.take_batch(Duration::ZERO), Taken::Ended));
    }
}
