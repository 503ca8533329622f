//! The one thread that writes: takes batches, appends their messages, commits in groups, and leaves
//! receipts for connections.
//!
//! A commit costs a wait for the disk, so as many messages as there are share one: while somebody
//! waits for an answer, all that is in the queue at that moment; else a mebibyte or the time that messages may wait.

use crate::batch::{Batch, Queue, Receipt, Side, Taken};
use crate::error::Result;
use crate::gaps::Gaps;
use crate::losses::Losses;
use crate::sink::{Sink, own_source};
use crate::stage::{Stage, now_ns};
use gabion_record::ledger::ShedReason;
use gabion_runtime::metrics::Metrics;
use gabion_runtime::sockets::poll::Waker;
use gabion_seal::durable::Dropped;
use gabion_seal::statement;
use gabion_seal::{Flags, Kind, Record};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes after which a commit is due.
const COMMIT_BYTES: u64 = 1 << 20;

/// How often a sink is asked to do what is due by time when nothing comes.
const TICK: Duration = Duration::from_millis(200);

/// Where the sealer leaves receipts for what is durable, for the thread that has the connections.
#[derive(Clone, Debug)]
pub(crate) struct Durable {
    receipts: Arc<Mutex<Vec<Receipt>>>,
    /// Nothing becomes durable any more.
    is_over: Arc<AtomicBool>,
    waker: Waker,
}

impl Durable {
    pub(crate) fn new(waker: Waker) -> Durable {
        Durable { receipts: Arc::default(), is_over: Arc::default(), waker }
    }

    /// Whether the sealer has ended: a thread that waits for more waits for nothing.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn notify(&self, receipts: &mut Vec<Receipt>) {
        if receipts.is_empty() {
            return;
        }
        self.receipts.lock().unwrap_or_else(PoisonError::into_inner).append(receipts);
        self.waker.wake();
    }

    /// Takes what became durable since.
    pub(crate) fn take_receipts(&self, into: &mut Vec<Receipt>) {
        into.append(&mut self.receipts.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Says that nothing becomes durable any more, however the sealer's thread ends.
struct EndOfSealing(Durable);

impl Drop for EndOfSealing {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
        self.0.waker.wake();
    }
}

/// The sealer and what it holds.
pub(crate) struct Sealer<S> {
    pub(crate) sink: S,
    pub(crate) queue: Arc<Queue>,
    pub(crate) durable: Durable,
    pub(crate) stage: Stage,
    pub(crate) losses: Losses,
    pub(crate) gaps: Gaps,
    pub(crate) metrics: Metrics,
    /// A message is durable after this at the latest.
    pub(crate) commit_after: Duration,
}

impl<S: Sink> Sealer<S> {
    /// Works until all producers are done, then closes the log. What can't be stored is counted as
    /// shed.
    pub(crate) fn run(mut self) -> Result<()> {
        let _over = EndOfSealing(self.durable.clone());
        let done = self.work().and_then(|()| self.close());
        if done.is_err() {
            let held = self.stage.ledger.received();
            let (passed, shed) = (self.stage.ledger.passed(), self.stage.ledger.shed_total());
            let items = held.items - passed.items - shed.items;
            let bytes = held.bytes - passed.bytes - shed.bytes;
            self.stage.ledger.shed(ShedReason::OutputFailed, items, bytes);
        }
        // Also when all went well: producers that come late must not wait for room.
        for batch in self.queue.close() {
            self.stage.ledger.receive(batch.messages(), batch.message_bytes());
            self.stage.ledger.shed(
                ShedReason::OutputFailed,
                batch.messages(),
                batch.message_bytes(),
            );
        }
        self.stage.ledger.set_in_flight(0, 0);
        self.stage.publish_last();
        done
    }

    fn work(&mut self) -> Result<()> {
        let mut receipts = Vec::new();
        let mut open = (0u64, 0u64);
        let mut due: Option<Instant> = None;
        loop {
            let wait = match due {
                _ if !receipts.is_empty() => Duration::ZERO,
                Some(due) => due.saturating_duration_since(Instant::now()),
                None => TICK,
            };
            gabion_record::limits::publish();
            let is_end = match self.queue.take_batch(wait) {
                Taken::Batch(side, batch) => {
                    self.append(side, batch, &mut receipts, &mut open)?;
                    due.get_or_insert_with(|| Instant::now() + self.commit_after);
                    if open.1 < COMMIT_BYTES && due.is_some_and(|d| Instant::now() < d) {
                        continue;
                    }
                    false
                }
                Taken::Nothing => false,
                Taken::Ended => true,
            };
            // Losses wait as long as they could not be stored either.
            if !self.sink.is_full() {
                self.losses.record_due(&mut self.sink, is_end)?;
            }
            if due.is_some() || is_end {
                self.sink.commit()?;
                let dropped = self.sink.take_dropped();
                self.stage.ledger.shed(ShedReason::OutputFailed, dropped.messages, dropped.bytes);
                self.stage.ledger.pass(
                    open.0.saturating_sub(dropped.messages),
                    open.1.saturating_sub(dropped.bytes),
                );
                if dropped != Dropped::default() {
                    // A sender that waits for an answer gets none, and sends again.
                    receipts.clear();
                }
                open = (0, 0);
                due = None;
                self.stage.ledger.set_in_flight(0, 0);
                self.stage.publish();
                self.durable.notify(&mut receipts);
            }
            if is_end {
                return Ok(());
            }
            self.sink.tick()?;
        }
    }

    /// The log's last word on this run: what came, what was kept, what was lost and why.
    fn close(&mut self) -> Result<()> {
        self.stage.publish_last();
        let stages = self.metrics.stage_ledgers().by_stage();
        let closing = statement("intake", |json| {
            json.open_array_key("stages");
            for entry in &stages {
                json.open();
                json.field("stage", &entry.stage);
                json.number("received", entry.ledger.received().items);
                json.number("passed", entry.ledger.passed().items);
                for (reason, tally) in entry.ledger.sheds() {
                    json.number(reason.name(), tally.items);
                }
                json.close();
            }
            json.close_array();
        });
        let (kind, flags) = (Kind::System, Flags::default());
        let record = Record { time_ns: now_ns(), kind, flags, bytes: &closing };
        self.sink.append(&own_source(), &record)?;
        self.sink.close()
    }

    fn append(
        &mut self,
        side: Side,
        batch: Batch,
        receipts: &mut Vec<Receipt>,
        open: &mut (u64, u64),
    ) -> Result<()> {
        self.stage.ledger.receive(batch.messages(), batch.message_bytes());
        open.0 += batch.messages();
        open.1 += batch.message_bytes();
        for (source, mut record) in batch.iter() {
            if std::str::from_utf8(record.bytes).is_err() {
                record.flags = record.flags.with(Flags::NOT_UTF8);
            }
            if record.kind == Kind::Message {
                self.gaps.count_missing(source, record.time_ns, record.bytes, &self.losses);
            }
            self.sink.append(source, &record)?;
        }
        receipts.extend_from_slice(batch.receipts());
        self.stage.ledger.set_in_flight(open.0, open.1);
        self.queue.recycle(side, batch);
        Ok(())
    }
}
