//! The server: takes in logs and hands them to a sink, until it is asked to stop.
//!
//! Four kinds of threads: one drains datagrams, one has all connections, some open slog's envelopes, one
//! seals; the caller's own watches, reports how it goes, and ends it all. (One more where it is asked for answers with
//! metrics.) The order of the beginning matters: the sink is open and descriptors are reserved before anything
//! listens, so that a flood of connections can't take what the log needs. So does the order of the end: listeners
//! first read what is there, connections are answered when their messages are durable, then the log is
//! closed with a statement of all that came and went.

use crate::batch::Queue;
use crate::datagrams::Datagrams;
use crate::envelopes::Envelopes;
use crate::error::{Error, Result};
use crate::gaps::Gaps;
use crate::limits::{BATCHES_WAITING_BYTES_MAX, HELD_BYTES_MAX, LISTEN_LAST, OPENING_MAX};
use crate::losses::Losses;
use crate::notice::{Notice, Report};
use crate::prepare::{Listeners, connections_allowed};
use crate::sealer::{Durable, Sealer};
use crate::sink::Sink;
use crate::sockets::ListenSocket;
use crate::stage::Stage;
use crate::streams::{Bounds, Streams, StreamsTo};
use crate::watch::{Watch, check_balance};
use gabion_logs::envelope::EnvelopeKey;
use gabion_logs::framing::Framing;
use gabion_runtime::metrics::Metrics;
use gabion_runtime::sockets::{self, poll::Waker};
use gabion_runtime::{StopFlag, exposition};
use rustls::ServerConfig;
use std::fmt;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How a server takes in logs.
#[derive(Clone)]
pub struct ServerSettings {
    /// The private key that opens envelopes; sockets that take some are refused without.
    pub envelope_key: Option<Arc<EnvelopeKey>>,
    /// Threads that open envelopes; as many as processors where it is left open.
    pub envelope_workers: Option<usize>,
    /// What is shown to clients of TLS; sockets that take it are refused without.
    pub tls: Option<Arc<ServerConfig>>,
    /// Most connections; descriptors may allow fewer.
    pub connections: usize,
    /// A connection without a byte for this long is closed.
    pub idle: Duration,
    /// A frame that does not end within this closes its connection.
    pub frame_timeout: Duration,
    /// How long what is readable at the end is still read.
    pub drain: Duration,
    /// How lines and counted frames are cut.
    pub framing: Framing,
    /// Receive buffer asked for on sockets of datagrams, bytes.
    pub receive_buffer: usize,
    /// A message is durable after this at the latest; sooner when its sender waits for that.
    pub commit_after: Duration,
    /// How often what came is reported.
    pub report_every: Option<Duration>,
}

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        ServerSettings {
            envelope_key: None,
            envelope_workers: None,
            tls: None,
            connections: 1000,
            idle: Duration::from_secs(600),
            frame_timeout: Duration::from_secs(30),
            drain: LISTEN_LAST,
            framing: Framing::default(),
            receive_buffer: sockets::RECEIVE_BUFFER,
            commit_after: Duration::from_millis(100),
            report_every: None,
        }
    }
}

impl fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSettings")
            .field("connections", &self.connections)
            .field("framing", &self.framing)
            .finish_non_exhaustive()
    }
}

/// A server that is ready to take in logs.
pub struct Server<S> {
    settings: ServerSettings,
    listeners: Listeners,
    exposition: Option<TcpListener>,
    metrics: Metrics,
    bounds: Bounds,
    sink: S,
    report: Report,
}

impl<S> fmt::Debug for Server<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("listeners", &self.listeners.names).finish_non_exhaustive()
    }
}

impl<S: Sink + Send + 'static> Server<S> {
    /// With sockets that are open, in the order in which they are numbered, and one for metrics where some are wanted.
    ///
    /// # Errors
    /// When a socket can't be used, or lacks the key or certificate that it needs.
    pub fn new(
        settings: ServerSettings,
        sockets: Vec<ListenSocket>,
        exposition: Option<TcpListener>,
        sink: S,
        report: Report,
    ) -> Result<Server<S>> {
        let metrics = Metrics::new();
        let listeners = Listeners::new(sockets, &settings, &metrics, &report)?;
        let connections = connections_allowed(settings.connections);
        if connections < settings.connections {
            report(&Notice::FewerConnections { connections });
        }
        let bounds = Bounds {
            connections,
            idle: settings.idle,
            frame: settings.frame_timeout,
            opening: OPENING_MAX,
            held_bytes: HELD_BYTES_MAX,
            drain: settings.drain,
            framing: settings.framing,
        };
        Ok(Server { settings, listeners, exposition, metrics, bounds, sink, report })
    }

    /// Takes in logs until the flag is set, or until nothing can be kept any more.
    ///
    /// # Errors
    /// When it could not continue, or when the account of what came does not balance.
    pub fn run(self, stop: &StopFlag) -> Result<()> {
        let Server { settings, listeners, exposition, metrics, bounds, sink, report } = self;
        let workers = if listeners.take_envelopes { settings.workers() } else { 0 };
        let key = settings.envelope_key.clone();
        let envelopes = (workers > 0).then(|| Arc::new(Envelopes::new(key, &metrics)));
        let losses = Losses::default();
        let failed = |e: io::Error| Error::io("listen", e);
        let waker = Waker::new().map_err(failed)?;
        let durable = Durable::new(waker.clone());
        let queue = Arc::new(Queue::new(BATCHES_WAITING_BYTES_MAX, 2 + workers));
        let names = listeners.names.iter().map(|n| n.as_str().into()).collect();
        let sealer = Sealer {
            sink,
            queue: Arc::clone(&queue),
            durable: durable.clone(),
            stage: Stage::new(&metrics, "seal"),
            losses: losses.clone(),
            gaps: Gaps::new(names, &metrics),
            metrics: metrics.clone(),
            commit_after: settings.commit_after,
        };
        let to = StreamsTo {
            queue: Arc::clone(&queue),
            durable,
            waker,
            envelopes: envelopes.clone(),
            report: Arc::clone(&report),
        };
        let streams = Streams::new(listeners.streams, bounds, to, &metrics).map_err(failed)?;
        let datagrams = Datagrams::new(
            listeners.datagrams,
            Arc::clone(&queue),
            envelopes.clone(),
            losses.clone(),
            Arc::clone(&report),
        );
        let sealing = spawn("seal", move || sealer.run())?;
        let flag = stop.clone();
        let receiving = producer(&queue, "datagrams", move || datagrams.run(&flag))?;
        let flag = stop.clone();
        let connecting = producer(&queue, "streams", move || streams.run(&flag))?;
        let mut opening = Vec::new();
        if let Some(envelopes) = &envelopes {
            for n in 0..workers {
                let (envelopes, to) = (Arc::clone(envelopes), Arc::clone(&queue));
                let losses = losses.clone();
                let work = move || {
                    envelopes.work(&to, &losses);
                    Ok(())
                };
                opening.push(producer(&queue, &format!("envelopes-{n}"), work)?);
            }
        }
        let serving = match exposition {
            Some(listener) => {
                let (metrics, stop) = (metrics.clone(), stop.clone());
                Some(spawn("metrics", move || exposition::serve(&listener, &metrics, &stop))?)
            }
            None => None,
        };
        report(&Notice::Listening(listeners.names));
        sockets::notify("READY=1");
        let mut watch = Watch::new(&metrics, envelopes.as_ref(), &report, settings.report_every);
        while !stop.is_set() {
            thread::sleep(Duration::from_millis(50));
            if sealing.is_finished() || receiving.is_finished() || connecting.is_finished() {
                // Whatever ended before its time: nothing may be taken in that can't be kept.
                stop.set();
            }
            watch.tick();
        }
        sockets::notify("STOPPING=1");
        // Listeners have handed on by then what they do; most of it was opened meanwhile.
        let until = Instant::now() + LISTEN_LAST + LISTEN_LAST / 4;
        let mut ends = vec![join("streams", connecting), join("datagrams", receiving)];
        if let Some(envelopes) = &envelopes {
            envelopes.end(until);
            ends.extend(opening.into_iter().map(|worker| join("envelopes", worker)));
            envelopes.publish();
        }
        let sealed = sealing.join().unwrap_or_else(|_| Err(panicked("seal")));
        if let Some(serving) = serving {
            let _ = serving.join();
        }
        let ledgers = watch.finish();
        sealed?;
        ends.into_iter().collect::<Result<()>>()?;
        check_balance(&ledgers, queue.lost().0)
    }
}

impl ServerSettings {
    /// Threads that open envelopes.
    fn workers(&self) -> usize {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        self.envelope_workers.unwrap_or(processors).clamp(1, 64)
    }
}

/// Ends a producer's part in the queue however its thread ends.
struct EndOfProducer(Arc<Queue>);

impl Drop for EndOfProducer {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A thread that puts batches into the queue.
fn producer(
    queue: &Arc<Queue>,
    name: &str,
    work: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Result<JoinHandle<io::Result<()>>> {
    let end = EndOfProducer(Arc::clone(queue));
    spawn(name, move || {
        let _end = end;
        work()
    })
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map_err(|source| Error::NoThread { thread: name.to_owned(), source })
}

fn join(name: &str, thread: JoinHandle<io::Result<()>>) -> Result<()> {
    match thread.join() {
        Ok(ended) => ended.map_err(|e| Error::io(name, e)),
        Err(_) => Err(panicked(name)),
    }
}

fn panicked(thread: &str) -> Error {
    Error::Panicked { thread: thread.to_owned() }
}

#[cfg(test)]
mod tests;
