//! Connections of all dialects that have some, in clear or over TLS; all in one thread, by readiness.
//!
//! Every ready connection is read once a round, at most one buffer: that is the turn it gets (deficit
//! round robin with the buffer as quantum), so a sender at full speed does not hold up one that sends a
//! line. When the sealer is behind, handing on the batch waits, nothing is read, and TCP slows the
//! senders down. Nothing is ever dropped here but what a limit says, and that is counted.
//!
//! When there are as many connections as may be, a new one displaces the one that has been there
//! longest without a single frame; else one of the address that holds the most, if the newcomer's
//! holds fewer; else it is refused.

use crate::batch::{Batch, Queue, Receipt, Side};
use crate::connection::{Accepted, Closed, Connection, ReadStatus, Taken};
use crate::envelopes::{Envelope, Envelopes};
use crate::limits::{ANSWERS_LAST, PAUSE_MAX};
use crate::notice::{Notice, Report};
use crate::sealer::Durable;
use crate::stage::{Stage, now_ns};
use crate::throttle::Throttle;
use gabion_logs::dialect::{self, Dialect, Manner};
use gabion_logs::framing::Framing;
use gabion_logs::session::{Finish, SessionSettings, Violation};
use gabion_record::ledger::ShedReason;
use gabion_runtime::StopFlag;
use gabion_runtime::metrics::{Counter, Gauge, Metrics};
use gabion_runtime::sockets::poll::{Interest, Poll, Ready, Waker};
use gabion_seal::Source;
use rustls::{ServerConfig, ServerConnection};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a connection is read at a time, its turn.
const TURN_BYTES: usize = 64 << 10;

/// Bytes at which a batch is sent within a round.
const BATCH_BYTES: usize = 64 << 10;

/// Connections accepted of one listener in a round.
const ACCEPTS: usize = 64;

/// How often connections are looked through for what is overdue.
const LOOK: Duration = Duration::from_millis(250);

/// Pause of a listener whose connections all wait for us.
const BEHIND: Duration = Duration::from_millis(10);

/// An envelope for which its workers had no room yet.
pub(crate) struct Postponed {
    listener: usize,
    peer: String,
    envelope: Envelope,
}

const KEY_WAKER: u64 = 0;
const KEY_CONNECTIONS: u64 = 1 << 16;

/// What bounds connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Most connections.
    pub(crate) connections: usize,
    /// A connection without a byte for so long is closed.
    pub(crate) idle: Duration,
    /// A frame that does not end within this closes its connection.
    pub(crate) frame: Duration,
    /// A handshake (TLS, RELP's open, an envelope) that takes longer does too.
    pub(crate) opening: Duration,
    /// Bytes of unfinished frames of all connections.
    pub(crate) held_bytes: usize,
    /// Longest time that what is readable at the end is still read and made durable.
    pub(crate) drain: Duration,
    /// How lines and counted frames are cut.
    pub(crate) framing: Framing,
}

/// One listening socket.
pub(crate) struct StreamListener {
    pub(crate) socket: TcpListener,
    pub(crate) dialect: &'static Dialect,
    pub(crate) number: u16,
    pub(crate) name: Arc<str>,
    pub(crate) stage: Stage,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// Until when nothing is accepted.
    pub(crate) paused: Option<Instant>,
    pub(crate) pause: Duration,
}

/// What is counted in addition to messages.
pub(crate) struct Counts {
    open: Gauge,
    accepted: Counter,
    refused: Counter,
    accept_errors: Counter,
    framing_errors: Counter,
    truncated: Counter,
    closed: Vec<(&'static str, Counter)>,
}

impl Counts {
    pub(crate) fn new(metrics: &Metrics) -> Counts {
        let kinds = [
            Closed::ByPeer,
            Closed::Tls,
            Closed::Reset,
            Closed::Idle,
            Closed::Slow,
            Closed::Displaced,
            Closed::Full,
        ];
        let violations = dialect::ALL.iter().filter_map(|dialect| match dialect.manner {
            Manner::Sessions { violation, .. } => violation.map(Closed::Violation),
            Manner::Datagrams => None,
        });
        let closed = |kind: Closed| {
            let help = "Connections closed, by reason";
            let labels = [("reason", kind.name())];
            (kind.name(), metrics.counter("gabion_listen_closed_total", help, &labels))
        };
        let counter = |name, help| metrics.counter(name, help, &[]);
        Counts {
            open: metrics.gauge("gabion_listen_connections", "Connections open now", &[]),
            accepted: counter("gabion_listen_accepted_total", "Connections accepted"),
            refused: counter("gabion_listen_refused_total", "Connections refused at the limit"),
            accept_errors: counter("gabion_listen_accept_errors_total", "Errors of accepting"),
            framing_errors: counter(
                "gabion_listen_framing_errors_total",
                "Counts that can't be one",
            ),
            truncated: counter("gabion_listen_truncated_total", "Messages cut at the limit"),
            closed: kinds.into_iter().chain(violations).map(closed).collect(),
        }
    }

    fn closed(&self, why: Closed) {
        if let Some((_, counter)) = self.closed.iter().find(|(n, _)| *n == why.name()) {
            counter.add(1);
        }
    }
}

/// What the thread hands on to, and where it hears what is durable.
pub(crate) struct StreamsTo {
    pub(crate) queue: Arc<Queue>,
    pub(crate) durable: Durable,
    pub(crate) waker: Waker,
    pub(crate) envelopes: Option<Arc<Envelopes>>,
    pub(crate) report: Report,
}

/// The thread's state.
pub(crate) struct Streams {
    listeners: Vec<StreamListener>,
    bounds: Bounds,
    to: StreamsTo,
    counts: Counts,
    poll: Poll,
    connections: HashMap<u64, Connection>,
    next_key: u64,
    batch: Batch,
    buffer: Vec<u8>,
    /// Closed in order to accept and close one connection when descriptors run out.
    spare: Option<File>,
    /// Bytes of unfinished frames of all connections.
    held: usize,
    /// Envelopes for which there was no room; their connections wait.
    postponed: Vec<Postponed>,
    complaint: Throttle,
}

impl Streams {
    pub(crate) fn new(
        listeners: Vec<StreamListener>,
        bounds: Bounds,
        to: StreamsTo,
        metrics: &Metrics,
    ) -> io::Result<Streams> {
        Ok(Streams {
            listeners,
            bounds,
            to,
            counts: Counts::new(metrics),
            poll: Poll::new()?,
            connections: HashMap::new(),
            next_key: KEY_CONNECTIONS,
            batch: Batch::default(),
            buffer: vec![0; TURN_BYTES],
            spare: File::open("/dev/null").ok(),
            held: 0,
            postponed: Vec::new(),
            complaint: Throttle::new(Duration::from_secs(10)),
        })
    }

    /// Works until it is asked to stop; then takes no more connections, reads what is there, waits until it
    /// is durable, answers, and ends.
    pub(crate) fn run(mut self, stop: &StopFlag) -> io::Result<()> {
        self.poll.add(&self.to.waker, KEY_WAKER, Interest::READ)?;
        for (i, listener) in self.listeners.iter().enumerate() {
            listener.socket.set_nonblocking(true)?;
            self.poll.add(&listener.socket, 1 + i as u64, Interest::READ)?;
        }
        let mut ready = Vec::new();
        let mut receipts = Vec::new();
        let mut looked = Instant::now();
        while !stop.is_set() {
            self.poll.wait(Duration::from_millis(50), &mut ready)?;
            self.round(&ready, &mut receipts);
            gabion_record::limits::publish();
            let now = Instant::now();
            self.open_paused(now);
            if now - looked >= LOOK {
                looked = now;
                self.look_through(now);
                self.publish();
            }
        }
        self.drain(&mut ready, &mut receipts)?;
        self.publish();
        for listener in &mut self.listeners {
            listener.stage.publish_last();
        }
        Ok(())
    }

    fn round(&mut self, ready: &[Ready], receipts: &mut Vec<Receipt>) {
        for event in ready {
            match event.key {
                KEY_WAKER => self.to.waker.clear_wake(),
                key if key < KEY_CONNECTIONS => {
                    self.accept((key - 1) as usize);
                }
                key => {
                    if event.write {
                        self.write(key);
                    }
                    if event.read {
                        self.read_connection(key);
                    }
                }
            }
        }
        self.answer(receipts);
        self.offer_postponed();
        self.pass_on(true);
    }

    /// Sessions whose messages are durable answer them.
    fn answer(&mut self, receipts: &mut Vec<Receipt>) {
        self.to.durable.take_receipts(receipts);
        for receipt in receipts.drain(..) {
            let Some(connection) = self.connections.get_mut(&receipt.connection) else { continue };
            connection.session.durable(u64::from(receipt.messages));
            self.write(receipt.connection);
        }
    }

    fn pass_on(&mut self, is_round_over: bool) {
        if !self.batch.is_empty() && (is_round_over || self.batch.weight() >= BATCH_BYTES) {
            let batch = std::mem::take(&mut self.batch);
            self.batch = self.to.queue.put(Side::Streams, batch).unwrap_or_default();
        }
    }

    /// Accepts some; whether there may be more.
    fn accept(&mut self, at: usize) -> bool {
        for _ in 0..ACCEPTS {
            let is_behind = self.is_behind();
            let Some(listener) = self.listeners.get_mut(at) else { return false };
            if is_behind && listener.dialect.is_enveloped {
                // Every place is taken by an envelope that waits for us: a new connection waits in the kernel.
                listener.paused = Some(Instant::now() + BEHIND);
                let none = Interest { read: false, write: false };
                let _ = self.poll.change(&listener.socket, 1 + at as u64, none);
                return false;
            }
            match listener.socket.accept() {
                Ok((stream, peer)) => {
                    listener.pause = Duration::from_millis(10);
                    self.counts.accepted.add(1);
                    if let Err(e) = self.admit(at, stream, peer)
                        && let Some(times) = self.complaint.happened()
                    {
                        (self.to.report)(&Notice::NotTaken { error: e, times });
                    }
                }
                Err(e) => match e.kind() {
                    io::ErrorKind::WouldBlock => return false,
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => {
                        // No descriptor, mostly. The client of a failed accept does not exist.
                        self.counts.accept_errors.add(1);
                        if self.spare.take().is_some() {
                            drop(listener.socket.accept());
                            self.spare = File::open("/dev/null").ok();
                        }
                        let name = Arc::clone(&listener.name);
                        listener.paused = Some(Instant::now() + listener.pause);
                        listener.pause = (listener.pause * 2).min(PAUSE_MAX);
                        let none = Interest { read: false, write: false };
                        let _ = self.poll.change(&listener.socket, 1 + at as u64, none);
                        if let Some(times) = self.complaint.happened() {
                            let listener = name;
                            (self.to.report)(&Notice::NotAccepted { listener, error: e, times });
                        }
                        return false;
                    }
                },
            }
        }
        true
    }

    /// No place is free, nor will be before envelopes are opened.
    fn is_behind(&self) -> bool {
        self.connections.len() >= self.bounds.connections
            && !self.connections.values().any(Connection::is_silent)
    }

    fn admit(&mut self, at: usize, stream: TcpStream, address: SocketAddr) -> io::Result<()> {
        let peer = address.ip().to_canonical();
        if self.connections.len() >= self.bounds.connections && !self.displace(peer) {
            self.counts.refused.add(1);
            return Ok(());
        }
        stream.set_nonblocking(true)?;
        let listener = &self.listeners[at];
        let tls = match &listener.tls {
            Some(config) => {
                let session =
                    ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
                Some(Box::new(session))
            }
            None => None,
        };
        let dialect = listener.dialect;
        let wrapped_len = self.to.envelopes.as_ref().and_then(|e| e.wrapped_len());
        let settings = SessionSettings { framing: self.bounds.framing, wrapped_len };
        let session = dialect.begin(&settings);
        let session = session.ok_or_else(|| io::Error::other("no dialect of connections"))?;
        if let Manner::Sessions { segment_bytes: Some(_), .. } = dialect.manner {
            stream.set_nodelay(true)?;
        }
        let key = self.next_key;
        self.next_key += 1;
        let source = Source::new(dialect.transport, listener.number, &peer.to_string(), "");
        self.poll.add(&stream, key, Interest::READ)?;
        let accepted = Accepted { stream, tls, peer, source: Arc::new(source), listener: at };
        self.connections.insert(key, Connection::new(accepted, dialect, session, key));
        // Mostly it has sent something already.
        self.read_connection(key);
        Ok(())
    }

    /// Makes room for a newcomer, if somebody has less right to it.
    fn displace(&mut self, newcomer: IpAddr) -> bool {
        // One whose bytes were not looked at yet may have sent a frame.
        for _ in 0..ACCEPTS {
            let silent =
                self.connections.values().filter(|c| c.is_silent()).min_by_key(|c| c.opened);
            let Some(key) = silent.map(|c| c.key) else { break };
            self.read_connection(key);
            match self.connections.get(&key) {
                None => return true,
                Some(connection) if connection.is_silent() => {
                    self.close(key, Closed::Displaced);
                    return true;
                }
                Some(_) => {}
            }
        }
        let mut held: HashMap<IpAddr, usize> = HashMap::new();
        for connection in self.connections.values() {
            *held.entry(connection.peer).or_default() += 1;
        }
        let own = held.get(&newcomer).copied().unwrap_or(0);
        let most = held.into_iter().max_by_key(|(_, n)| *n).filter(|(_, count)| *count > own + 1);
        let Some((most, _)) = most else { return false };
        let may_go = |c: &&Connection| c.peer == most && !c.session.awaits_last_answer();
        let of_most = self.connections.values().filter(may_go);
        let Some(key) = of_most.min_by_key(|c| c.heard).map(|c| c.key) else { return false };
        self.close(key, Closed::Displaced);
        true
    }

    fn read_connection(&mut self, key: u64) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        if !connection.wants_input() {
            self.settle(key);
            return;
        }
        let now = Instant::now();
        let (n, status) = match connection.read_socket(&mut self.buffer) {
            Ok(read) => read,
            Err(e) => {
                let is_tls = e.kind() == io::ErrorKind::InvalidData;
                self.close(key, if is_tls { Closed::Tls } else { Closed::Reset });
                return;
            }
        };
        if n > 0 {
            connection.heard = now;
            if connection.tls.is_some() && connection.identity.is_empty() && connection.frames == 0
            {
                note_identity(connection, &self.listeners);
            }
        }
        let taken = connection.take_bytes(&self.buffer[..n], now_ns(), now, &mut self.batch);
        let violation = taken.violation;
        self.count_taken(key, taken);
        if let Some(violation) = violation {
            self.close_for(key, violation);
            return;
        }
        if status == ReadStatus::Eof
            && let Some(connection) = self.connections.get_mut(&key)
        {
            connection.is_ended = true;
            let taken = connection.finish(Finish::EndOfStream, now_ns(), &mut self.batch);
            self.count_taken(key, taken);
        }
        self.count_held(key);
        self.pass_on(false);
        self.settle(key);
    }

    /// Counts what a connection that is there has brought; an envelope is passed on.
    fn count_taken(&mut self, key: u64, taken: Taken) {
        let Some(connection) = self.connections.get(&key) else { return };
        let (listener, peer) = (connection.listener, connection.peer);
        let source = Arc::clone(&connection.source);
        self.count_messages(listener, &taken);
        let Some(bytes) = taken.envelope else { return };
        let envelope = Envelope { source, time_ns: now_ns(), bytes, receipt: Some(key) };
        let peer = peer.to_string();
        self.postponed.push(Postponed { listener, peer, envelope });
        self.offer_postponed();
    }

    fn count_messages(&mut self, listener: usize, taken: &Taken) {
        if let Some(listener) = self.listeners.get_mut(listener) {
            listener.stage.ledger.receive(taken.messages.items, taken.messages.bytes);
            listener.stage.ledger.pass(taken.messages.items, taken.messages.bytes);
        }
        self.counts.truncated.add(taken.truncated);
        self.counts.framing_errors.add(taken.framing_errors);
    }

    /// Closes a connection whose sender broke a rule of its dialect.
    fn close_for(&mut self, key: u64, _: Violation) {
        let dialect = self.connections.get(&key).map(|c| c.dialect.manner);
        let why = match dialect {
            Some(Manner::Sessions { violation: Some(name), .. }) => Closed::Violation(name),
            Some(Manner::Sessions { violation: None, .. } | Manner::Datagrams) | None => {
                Closed::ByPeer
            }
        };
        self.close(key, why);
    }

    /// Envelopes go to their workers as far as there is room; connections of others wait.
    fn offer_postponed(&mut self) {
        let Some(envelopes) = self.to.envelopes.clone() else { return };
        let mut rest = Vec::new();
        for Postponed { listener, peer, envelope } in self.postponed.drain(..) {
            let len = envelope.bytes.len() as u64;
            match envelopes.offer(&peer, envelope) {
                Ok(()) => {
                    // Its connection may be gone meanwhile: the message is here all the same.
                    let ledger = &mut self.listeners[listener].stage.ledger;
                    ledger.receive(1, len);
                    ledger.pass(1, len);
                }
                Err(envelope) => rest.push(Postponed { listener, peer, envelope }),
            }
        }
        self.postponed = rest;
    }

    fn write(&mut self, key: u64) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        if connection.write().is_err() {
            self.close(key, Closed::Reset);
            return;
        }
        self.settle(key);
    }

    /// Sends answers at once, waits for what is needed, closes what is done.
    fn settle(&mut self, key: u64) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        connection.session.take_replies(&mut connection.out);
        if connection.wants_output() && connection.write().is_err() {
            self.close(key, Closed::Reset);
            return;
        }
        if connection.is_done() {
            self.close(key, Closed::ByPeer);
            return;
        }
        let wants = (connection.wants_input(), connection.wants_output());
        if wants != connection.wants {
            connection.wants = wants;
            let interest = Interest { read: wants.0, write: wants.1 };
            let _ = self.poll.change(&connection.stream, key, interest);
        }
    }

    fn close(&mut self, key: u64, why: Closed) {
        let Some(mut connection) = self.connections.remove(&key) else { return };
        self.held = self.held.saturating_sub(connection.held_counted);
        let taken = connection.finish(Finish::Abandoned, now_ns(), &mut self.batch);
        self.count_messages(connection.listener, &taken);
        self.counts.closed(why);
        if let Some(tls) = connection.tls.as_mut() {
            tls.send_close_notify();
            let _ = tls.write_tls(&mut connection.stream);
        }
        let _ = self.poll.remove(connection.stream.as_fd());
    }

    /// Counts what a connection holds now, and makes room when all together hold too much: the oldest
    /// unfinished frames go, an eighth of them at once.
    fn count_held(&mut self, key: u64) {
        if let Some(connection) = self.connections.get_mut(&key) {
            let now = connection.session.held_bytes();
            self.held = (self.held + now).saturating_sub(connection.held_counted);
            connection.held_counted = now;
        }
        if self.held <= self.bounds.held_bytes {
            return;
        }
        let mut held_by: Vec<_> = self
            .connections
            .values()
            .filter(|c| c.held_counted > 0)
            .map(|c| (c.within_frame, c.key))
            .collect();
        held_by.sort_unstable();
        for (_, key) in held_by {
            if self.held <= self.bounds.held_bytes / 8 * 7 {
                break;
            }
            self.close(key, Closed::Full);
        }
    }

    /// Closes what is overdue, and opens listeners that paused.
    fn look_through(&mut self, now: Instant) {
        let bounds = self.bounds;
        let mut overdue = Vec::new();
        for connection in self.connections.values() {
            let is_slow = connection.is_opening() && now - connection.opened > bounds.opening
                || connection.within_frame.is_some_and(|since| now - since > bounds.frame);
            if is_slow {
                overdue.push((connection.key, Closed::Slow));
            } else if now - connection.heard > bounds.idle {
                overdue.push((connection.key, Closed::Idle));
            }
        }
        for (key, why) in overdue {
            self.close(key, why);
        }
        self.open_paused(now);
        self.pass_on(true);
    }

    /// Opens listeners that have paused long enough; whether one still pauses.
    fn open_paused(&mut self, now: Instant) -> bool {
        let mut is_one_paused = false;
        for (i, listener) in self.listeners.iter_mut().enumerate() {
            if listener.paused.is_some_and(|until| now >= until) {
                listener.paused = None;
                let _ = self.poll.change(&listener.socket, 1 + i as u64, Interest::READ);
            }
            is_one_paused |= listener.paused.is_some();
        }
        is_one_paused
    }

    fn publish(&self) {
        self.counts.open.set(self.connections.len() as u64);
        for listener in &self.listeners {
            listener.stage.publish();
        }
    }

    /// The end: no more connections; what is readable is read; what was taken is waited for.
    fn drain(&mut self, ready: &mut Vec<Ready>, receipts: &mut Vec<Receipt>) -> io::Result<()> {
        let until = Instant::now() + self.bounds.drain;
        // What waits to be accepted has perhaps sent already, and gone: it is taken in, in rounds as
        // ever, so that those that are done make room.
        loop {
            let waits_for_us = self.open_paused(Instant::now());
            let longest = if waits_for_us { BEHIND } else { Duration::ZERO };
            self.poll.wait(longest, ready)?;
            let is_quiet = !waits_for_us && !ready.iter().any(|r| r.key != KEY_WAKER && r.read);
            self.round(ready, receipts);
            // What is read when nothing becomes durable any more is lost here; unread, its sender has it.
            if is_quiet || Instant::now() > until || self.to.durable.is_over() {
                break;
            }
        }
        for listener in &self.listeners {
            let _ = self.poll.remove(&listener.socket);
        }
        // Nothing more is read; answers go out as soon as their messages are durable. A client that does not take them
        // is not waited for long.
        let mut given = None;
        while self.connections.values().any(Connection::owes_an_answer)
            && !self.to.durable.is_over()
        {
            let waits = self.connections.values().any(|c| c.session.unanswered() > 0);
            if !waits && given.is_none() {
                given = Some(Instant::now() + ANSWERS_LAST);
            }
            if Instant::now() >= given.unwrap_or(until) {
                break;
            }
            self.poll.wait(Duration::from_millis(20), ready)?;
            for event in &*ready {
                match event.key {
                    KEY_WAKER => self.to.waker.clear_wake(),
                    key if event.write => self.write(key),
                    _ => {}
                }
            }
            self.answer(receipts);
            self.offer_postponed();
        }
        let keys: Vec<u64> = self.connections.keys().copied().collect();
        for key in keys {
            if let Some(connection) = self.connections.get_mut(&key) {
                connection.session.shut();
                let _ = connection.write();
            }
            self.close(key, Closed::ByPeer);
        }
        for Postponed { listener, envelope, .. } in std::mem::take(&mut self.postponed) {
            // Never answered, so its sender knows.
            let len = envelope.bytes.len() as u64;
            let ledger = &mut self.listeners[listener].stage.ledger;
            ledger.receive(1, len);
            ledger.shed(ShedReason::Stopped, 1, len);
        }
        self.pass_on(true);
        Ok(())
    }
}

/// The name in the certificate that a TLS peer has shown, once it is known.
fn note_identity(connection: &mut Connection, listeners: &[StreamListener]) {
    let Some(tls) = &connection.tls else { return };
    let Some(certificate) = tls.peer_certificates().and_then(|c| c.first()) else { return };
    let name = crate::tls::peer_name(certificate);
    let number = listeners[connection.listener].number;
    connection.source = Arc::new(Source::new(
        connection.dialect.transport,
        number,
        &connection.peer.to_string(),
        &name,
    ));
    connection.identity = name;
    connection.is_authenticated = true;
}
