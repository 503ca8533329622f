//! `gabion listen`: takes in logs and seals them, until told to stop.
//!
//! Five kinds of threads: one drains datagrams, one has all connections, some open slog's envelopes, one
//! seals, and this one watches, says how it goes, and ends it all. (Two more where they are asked for: one
//! answers with metrics, one carries checkpoints off the host.) The order of the
//! beginning matters: the log is opened and descriptors are reserved before anything listens, so that
//! a flood of connections can't take what the log needs. So does the order of the end: listeners first
//! read what is there, connections are answered when their messages are durable, then the log is
//! closed with a statement of all that came and went.
#![allow(
    clippy::disallowed_methods,
    reason = "sockets live by the clock; this is the program's edge"
)]

mod account;
mod batch;
mod connection;
mod datagrams;
mod enduring;
mod envelopes;
mod exposition;
mod gaps;
mod open;
mod options;
mod sealed;
mod sealer;
mod streams;
#[cfg(test)]
mod tests;
mod tls;

pub(crate) use options::ListenOptions;

use crate::exit::{Exit, Fault};
use crate::limits::LISTEN_LAST;
use crate::log::LogFault;
use crate::log::push::{LOOK_EVERY, PushOptions, Pusher};
use account::{Losses, Stage};
use batch::Queue;
use datagrams::Datagrams;
use envelopes::Envelopes;
use gabion_record::ledger::{Ledger, ShedReason, StageLedgers};
use gabion_record::limits::{self, Reached};
use gabion_runtime::metrics::{LedgerSlot, Metrics};
use gabion_runtime::sockets::{self, poll::Waker};
use gabion_runtime::{Signals, StopFlag};
use gaps::Gaps;
use sealer::{Durable, Sealer, Sink};
use std::fmt::Write;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use streams::Streams;

/// Bytes of batches that wait for the sealer, per side: some milliseconds of full speed. Connections can wait
/// longer, and datagrams and envelopes have rooms of their own.
const QUEUE_SHARE: usize = 1 << 20;

/// How often the service manager is told that all is well.
const BEAT: Duration = Duration::from_secs(5);

/// Ends a producer's part in the queue however its thread ends.
struct EndOfProducer(Arc<Queue>);

impl Drop for EndOfProducer {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Runs until a signal asks to stop.
pub(crate) fn run(o: &ListenOptions) -> Result<Exit, Fault> {
    // Buffers of six threads, each of the size of a batch: in pages of 2 MiB they take three times as much.
    gabion_runtime::memory::take_small_pages();
    // Keys, certificates and the log are read before anything is taken in: a request to stop ends that at once.
    let signals = Signals::preparing().map_err(|e| Fault::environment(format!("signals: {e}")))?;
    let wanted = open::Wanted::of(o)?;
    wanted.probe()?;
    let sink = wanted.log(o, signals.stop())?;
    let pushing = Pushing::start(wanted.log_folder(), &o.push)?;
    let ended = run_with(o, &wanted, sink, signals.stop(), &|| signals.begin());
    pushing.map_or(Ok(()), Pushing::end)?;
    ended
}

/// The thread that carries checkpoints off the host. It reads the log as anybody does and holds up nobody.
struct Pushing {
    is_ended: StopFlag,
    thread: JoinHandle<()>,
}

impl Pushing {
    fn start(log: &Path, options: &PushOptions) -> Result<Option<Pushing>, Fault> {
        if options.is_empty() {
            return Ok(None);
        }
        let is_ended = StopFlag::new();
        let flag = is_ended.clone();
        let pusher = Pusher::new(log, options, is_ended.clone());
        let mut pusher = pusher.map_err(LogFault::into_fault)?;
        let thread = spawn("push", move || {
            loop {
                // What is signed before this is carried by this look.
                let is_last = flag.is_set();
                for fault in pusher.look(Some(LOOK_EVERY)) {
                    eprintln!("gabion: {}", fault.text());
                }
                let next = Instant::now() + LOOK_EVERY;
                while Instant::now() < next && !flag.is_set() {
                    thread::sleep(Duration::from_millis(50));
                }
                if is_last {
                    return;
                }
            }
        })?;
        Ok(Some(Pushing { is_ended, thread }))
    }

    /// The closing checkpoint is there: it is carried too.
    fn end(self) -> Result<(), Fault> {
        self.is_ended.set();
        self.thread.join().map_err(|_| Fault::internal("push: the thread panicked"))
    }
}

/// The whole with any sink.
fn run_with<S: Sink + Send + 'static>(
    o: &ListenOptions,
    wanted: &open::Wanted,
    sink: S,
    stop: &StopFlag,
    prepared: &dyn Fn(),
) -> Result<Exit, Fault> {
    let environment = |e: io::Error| Fault::environment(format!("listen: {e}"));
    let metrics = Metrics::new();
    let opened = wanted.sockets(&metrics)?;
    let exposition = wanted.metrics_socket()?;
    prepared();
    let workers = if opened.needs_envelopes { wanted.envelope_workers() } else { 0 };
    let envelopes = (workers > 0).then(|| Arc::new(Envelopes::new(opened.key, &metrics)));
    let losses = Losses::default();
    let waker = Waker::new().map_err(environment)?;
    let durable = Durable::new(waker.clone());
    let queue = Arc::new(Queue::new(QUEUE_SHARE, 2 + workers));
    let sealer = Sealer {
        sink,
        queue: Arc::clone(&queue),
        durable: durable.clone(),
        stage: Stage::new(&metrics, "seal"),
        losses: losses.clone(),
        gaps: Gaps::new(opened.names.iter().map(|n| n.as_str().into()).collect(), &metrics),
        metrics: metrics.clone(),
        commit_after: Duration::from_millis(o.commit_after),
    };
    let streams = Streams::new(
        opened.streams,
        wanted.bounds(o),
        Arc::clone(&queue),
        durable,
        waker,
        envelopes.clone(),
        &metrics,
    )
    .map_err(environment)?;
    let datagrams =
        Datagrams::new(opened.datagrams, Arc::clone(&queue), envelopes.clone(), losses.clone());
    let sealing = spawn("seal", move || sealer.run())?;
    let producer = |name: &str, work: Box<dyn FnOnce() -> io::Result<()> + Send>| {
        let end = EndOfProducer(Arc::clone(&queue));
        spawn(name, move || {
            let _end = end;
            work()
        })
    };
    let flag = stop.clone();
    let receiving = producer("datagrams", Box::new(move || datagrams.run(&flag)))?;
    let flag = stop.clone();
    let connecting = producer("streams", Box::new(move || streams.run(&flag)))?;
    let mut opening = Vec::new();
    if let Some(envelopes) = &envelopes {
        for n in 0..workers {
            let (envelopes, to) = (Arc::clone(envelopes), Arc::clone(&queue));
            let losses = losses.clone();
            let work = move || {
                envelopes.work(&to, &losses);
                Ok(())
            };
            opening.push(producer(&format!("envelopes-{n}"), Box::new(work))?);
        }
    }
    let serving = match exposition {
        Some(listener) => {
            let (metrics, stop) = (metrics.clone(), stop.clone());
            Some(spawn("metrics", move || exposition::serve(&listener, &metrics, &stop))?)
        }
        None => None,
    };
    if !o.quiet {
        eprintln!("gabion: listening: {}", opened.names.join(", "));
    }
    sockets::notify("READY=1");
    let mut watch = Watch {
        metrics: &metrics,
        envelopes: envelopes.as_ref(),
        said: Instant::now(),
        beat: Instant::now(),
        limits: Limits::of(&metrics),
    };
    while !stop.is_set() {
        thread::sleep(Duration::from_millis(50));
        if sealing.is_finished() || receiving.is_finished() || connecting.is_finished() {
            // Whatever ended before its time: nothing may be taken in that can't be kept.
            stop.set();
        }
        watch.look(o.stats);
    }
    sockets::notify("STOPPING=1");
    // Listeners have handed on by then what they do; most of it was opened meanwhile.
    let until = Instant::now() + LISTEN_LAST + LISTEN_LAST / 4;
    let mut ends = Vec::new();
    ends.push(join("streams", connecting));
    ends.push(join("datagrams", receiving));
    if let Some(envelopes) = &envelopes {
        envelopes.end(until);
        ends.extend(opening.into_iter().map(|worker| join("envelopes", worker)));
        envelopes.publish();
    }
    let sealed =
        sealing.join().unwrap_or_else(|_| Err(Fault::internal("seal: the thread panicked")));
    if let Some(serving) = serving {
        let _ = serving.join();
    }
    watch.limits.look();
    let ledgers = metrics.stage_ledgers();
    if !o.quiet {
        eprintln!("gabion: listen: {}", told(&ledgers));
        watch.limits.say();
    }
    sealed?;
    ends.into_iter().collect::<Result<(), Fault>>()?;
    balanced(&ledgers, queue.lost().0)?;
    Ok(Exit::Done)
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Fault> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|e| Fault::environment(format!("{name}: no thread: {e}")))
}

fn join(name: &str, thread: JoinHandle<io::Result<()>>) -> Result<(), Fault> {
    match thread.join() {
        Ok(Ok(())) => Ok(()),
        Ok(Err(e)) => Err(Fault::environment(format!("{name}: {e}"))),
        Err(_) => Err(Fault::internal(format!("{name}: the thread panicked"))),
    }
}

/// Says now and then how it goes.
struct Watch<'a> {
    metrics: &'a Metrics,
    envelopes: Option<&'a Arc<Envelopes>>,
    said: Instant,
    beat: Instant,
    limits: Limits,
}

impl Watch<'_> {
    fn look(&mut self, every: Option<u64>) {
        if self.beat.elapsed() >= BEAT {
            self.beat = Instant::now();
            sockets::notify("WATCHDOG=1");
            self.limits.look();
        }
        let Some(every) = every else { return };
        if self.said.elapsed() < Duration::from_secs(every.max(1)) {
            return;
        }
        self.said = Instant::now();
        if let Some(envelopes) = self.envelopes {
            envelopes.publish();
        }
        eprintln!("gabion: listen: {}", told(&self.metrics.stage_ledgers()));
    }
}

/// Fixed limits that threads have reached: a stage of the ledger, and named at the end.
struct Limits {
    reached: Reached,
    slot: LedgerSlot,
}

impl Limits {
    fn of(metrics: &Metrics) -> Limits {
        Limits { reached: Reached::new(), slot: metrics.ledger("limits", None) }
    }

    /// Takes up what threads have counted since.
    fn look(&mut self) {
        let new = limits::take_all();
        if new.is_empty() {
            return;
        }
        self.reached.merge(&new);
        let mut ledger = Ledger::new();
        ledger.receive(self.reached.total(), 0);
        ledger.shed(ShedReason::LimitReached, self.reached.total(), 0);
        self.slot.publish_last(&ledger);
    }

    /// Names them.
    fn say(&self) {
        for (limit, times) in self.reached.iter() {
            let (name, what) = (limit.full_name(), limit.meaning.text());
            eprintln!(
                "gabion: listen: limit {name} of {} reached {times} times: {what}",
                limit.value
            );
        }
    }
}

/// One line: what came, what was sealed, what was lost and why.
fn told(ledgers: &StageLedgers) -> String {
    let mut line = String::new();
    for entry in ledgers.by_stage() {
        let ledger = &entry.ledger;
        if ledger.received().items == 0 {
            continue;
        }
        if !line.is_empty() {
            line.push_str("; ");
        }
        let _ = write!(
            line,
            "{}: {} received, {} passed",
            entry.stage,
            ledger.received().items,
            ledger.passed().items
        );
        for (reason, tally) in ledger.sheds() {
            let _ = write!(line, ", {} {}", tally.items, reason.name());
        }
    }
    if line.is_empty() { "nothing came".to_owned() } else { line }
}

/// Every stage balances, and what listeners handed on is what the sealer got.
fn balanced(ledgers: &StageLedgers, lost: u64) -> Result<(), Fault> {
    if let Err((stage, e)) = ledgers.balance() {
        return Err(Fault::internal(format!("{stage}: the ledger is out of balance: {e}")));
    }
    let (mut clear, mut envelopes, mut sealed) = (0, 0, 0);
    let mut workers = (0, 0);
    for entry in ledgers.by_stage() {
        let (received, passed) = (entry.ledger.received().items, entry.ledger.passed().items);
        match entry.stage.as_str() {
            "seal" => sealed = received,
            "listen.envelopes" => workers = (received, passed),
            stage if stage.starts_with("listen.slog") => envelopes += passed,
            _ => clear += passed,
        }
    }
    if envelopes != workers.0 {
        let text =
            format!("listeners handed on {envelopes} envelopes, their workers got {}", workers.0);
        return Err(Fault::internal(text));
    }
    if clear + workers.1 != sealed + lost {
        let text =
            format!("listeners handed on {} messages, the sealer got {sealed}", clear + workers.1);
        return Err(Fault::internal(text));
    }
    Ok(())
}
