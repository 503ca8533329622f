//! slog's envelopes: opening one costs a private RSA operation, a thousand times what a clear message
//! costs. So they have workers of their own, of low priority, behind a fair queue: a flood of envelopes
//! takes what processor time the clear listeners leave, and each source its turn.

use crate::batch::{Batch, Queue, Side};
use crate::limits::ENVELOPES_WAITING_BYTES_MAX;
use crate::losses::Losses;
use crate::stage::Stage;
use gabion_logs::envelope::{EnvelopeKey, Suspicion};
use gabion_logs::fairness::FairQueue;
use gabion_logs::replay::ReplayWindow;
use gabion_record::hex::to_hex;
use gabion_record::ledger::ShedReason;
use gabion_runtime::clock::now;
use gabion_runtime::metrics::{Counter, Metrics};
use gabion_seal::statement;
use gabion_seal::{Flags, Kind, Record, Source};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Opened envelopes of one batch.
const BATCH_MESSAGES: u64 = 32;

/// One envelope on its way.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) source: Arc<Source>,
    pub(crate) time_ns: u64,
    pub(crate) bytes: Vec<u8>,
    /// The connection that waits for its answer.
    pub(crate) receipt: Option<u64>,
}

#[derive(Debug)]
struct State {
    waiting: FairQueue<String, Envelope>,
    stage: Stage,
    /// No more will come, and what waits is opened until then.
    ended: Option<Instant>,
}

/// The queue of envelopes, its window and its counts.
#[derive(Debug)]
pub(crate) struct Envelopes {
    state: Mutex<State>,
    filled: Condvar,
    window: Mutex<ReplayWindow>,
    /// What the age of remembered envelopes counts from.
    started: Instant,
    key: Option<Arc<EnvelopeKey>>,
    opened: Counter,
    replayed: Counter,
    /// By reason, in the order of their numbers.
    suspicious: Vec<Counter>,
}

impl Envelopes {
    pub(crate) fn new(key: Option<Arc<EnvelopeKey>>, metrics: &Metrics) -> Envelopes {
        let stage = Stage::new(metrics, "listen.envelopes");
        let count = |result: &str| {
            let help = "Envelopes by what came of them";
            metrics.counter("gabion_listen_envelopes_total", help, &[("result", result)])
        };
        Envelopes {
            state: Mutex::new(State {
                waiting: FairQueue::new(ENVELOPES_WAITING_BYTES_MAX),
                stage,
                ended: None,
            }),
            filled: Condvar::new(),
            window: Mutex::default(),
            started: now(),
            key,
            opened: count("opened"),
            replayed: count("replayed"),
            suspicious: Suspicion::ALL.iter().map(|why| count(why.name())).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Length of a wrapped password, by which the end of an envelope is known.
    pub(crate) fn wrapped_len(&self) -> Option<usize> {
        self.key.as_ref().map(|key| key.wrapped_len())
    }

    /// Takes an envelope that can't wait; the longest line loses when there is no room.
    pub(crate) fn put(&self, peer: &str, envelope: Envelope, listener: &Arc<str>, losses: &Losses) {
        let mut state = self.lock();
        let bytes = envelope.bytes.len();
        state.stage.ledger.receive(1, bytes as u64);
        let State { waiting, stage, .. } = &mut *state;
        waiting.push(peer.to_owned(), bytes + 128, envelope, &mut |peer, _, shed| {
            stage.ledger.shed(ShedReason::RingFull, 1, shed.bytes.len() as u64);
            losses.add(shed.time_ns, listener, &peer, ShedReason::RingFull.name(), 1);
        });
        drop(state);
        self.filled.notify_one();
    }

    /// Takes an envelope if there is room, else gives it back: its connection waits.
    pub(crate) fn offer(&self, peer: &str, envelope: Envelope) -> Result<(), Envelope> {
        let mut state = self.lock();
        let bytes = envelope.bytes.len();
        if !state.waiting.has_room(bytes + 128) {
            return Err(envelope);
        }
        state.stage.ledger.receive(1, bytes as u64);
        state.waiting.push(peer.to_owned(), bytes + 128, envelope, &mut |_, _, _| {});
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// No more will come, and what waits is opened until then.
    pub(crate) fn end(&self, until: Instant) {
        self.lock().ended = Some(until);
        self.filled.notify_all();
    }

    /// Leaves a copy of the ledger for readers.
    pub(crate) fn publish(&self) {
        let mut state = self.lock();
        let (items, bytes) = (state.waiting.len() as u64, state.waiting.bytes() as u64);
        state.stage.ledger.set_in_flight(items, bytes.saturating_sub(128 * items));
        state.stage.publish_last();
    }

    /// What waits when the time is over: counted as stopped. Its sender over a connection gets no answer, and knows.
    fn shed_waiting(state: &mut State, losses: &Losses) {
        let listener: Arc<str> = "envelopes".into();
        while let Some((peer, _, envelope)) = state.waiting.pop() {
            let reason = ShedReason::Stopped;
            state.stage.ledger.shed(reason, 1, envelope.bytes.len() as u64);
            if envelope.receipt.is_none() {
                losses.add(envelope.time_ns, &listener, &peer, reason.name(), 1);
            }
        }
    }

    /// A worker: opens what comes until no more will.
    pub(crate) fn work(&self, queue: &Queue, losses: &Losses) {
        // Clear listeners go first; not being allowed to say so is no fault.
        let _ = rustix::process::nice(3);
        let mut batch = Batch::default();
        loop {
            gabion_record::limits::publish();
            let next = {
                let mut state = self.lock();
                loop {
                    if state.ended.is_some_and(|until| now() >= until) {
                        Envelopes::shed_waiting(&mut state, losses);
                    }
                    if let Some((_, _, envelope)) = state.waiting.pop() {
                        state.stage.ledger.pass(1, envelope.bytes.len() as u64);
                        break Some(envelope);
                    }
                    if state.ended.is_some() || !batch.is_empty() {
                        break None;
                    }
                    state = self
                        .filled
                        .wait_timeout(state, Duration::from_millis(500))
                        .unwrap_or_else(PoisonError::into_inner)
                        .0;
                }
            };
            let has_next = next.is_some();
            if let Some(envelope) = next {
                self.open(&envelope, &mut batch);
            }
            if !batch.is_empty() && (!has_next || batch.messages() >= BATCH_MESSAGES) {
                batch = queue.put(Side::Envelopes, batch).unwrap_or_default();
            } else if !has_next && batch.is_empty() && self.lock().ended.is_some() {
                break;
            }
        }
    }

    fn open(&self, envelope: &Envelope, batch: &mut Batch) {
        let opened = match &self.key {
            Some(key) => key.open(&envelope.bytes),
            None => Err(Suspicion::KeyMissing),
        };
        let mut again = None;
        let (flags, body) = match opened {
            Ok(opened) => {
                self.opened.add(1);
                let mut flags = Flags::OPENED;
                let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
                let passed = now().duration_since(self.started);
                let first = window.first_seen(&opened.id, envelope.time_ns, passed);
                if let Some(first_ns) = first {
                    again = Some((opened.id, first_ns));
                    self.replayed.add(1);
                    flags = flags.with(Flags::REPLAYED);
                }
                (flags, gabion_logs::evidence::of_opened(&opened.inner, &envelope.bytes))
            }
            Err(why) => {
                if let Some(counter) = self.suspicious.get(why as usize) {
                    counter.add(1);
                }
                let flags = Flags::SUSPICIOUS.0 | gabion_logs::evidence::suspicion_bits(why);
                (Flags(flags), envelope.bytes.clone())
            }
        };
        let time_ns = envelope.time_ns;
        let record = Record { time_ns, kind: Kind::Message, flags, bytes: &body };
        batch.push(&envelope.source, record);
        if let Some((id, first_ns)) = again {
            let finding = statement("replay", |json| {
                json.field("peer", envelope.source.peer());
                json.field("envelope", to_hex(&id));
                json.number("first_received", first_ns);
                json.number("received", envelope.time_ns);
            });
            let (kind, flags) = (Kind::Finding, Flags::default());
            batch.push(&envelope.source, Record { time_ns, kind, flags, bytes: &finding });
        }
        if let Some(connection) = envelope.receipt {
            batch.wants_receipt(connection);
        }
    }
}
