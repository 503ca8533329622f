//! Datagrams of all dialects that come in some: UDP, the local socket, slog's envelopes. One thread drains all of them by the
//! batch, because senders do not wait: what is not read in time is lost in the kernel.
//!
//! When the sealer is behind, messages wait here by sources (`gabion_logs::fairness`), and it is the
//! longest line that loses. What the kernel dropped is read with each datagram and, when none comes,
//! from the kernel, so that losses at the end of a burst are seen too.

use crate::batch::{Batch, Queue, Side};
use crate::envelopes::{Envelope, Envelopes};
use crate::limits::{DATAGRAM_SENDERS_MAX, DATAGRAMS_WAITING_BYTES_MAX, LISTEN_LAST};
use crate::losses::Losses;
use crate::notice::{Notice, Report};
use crate::stage::{Stage, now_ns};
use crate::throttle::Throttle;
use gabion_logs::dialect::{Carrier, Dialect};
use gabion_logs::fairness::FairQueue;
use gabion_record::ledger::ShedReason;
use gabion_runtime::StopFlag;
use gabion_runtime::sockets::datagrams::{self, Datagram, DatagramBatch};
use gabion_runtime::sockets::poll::{Interest, Poll};
use gabion_runtime::sockets::{RECEIVE_BUFFER_ENOUGH, udp_drops};
use gabion_seal::{Flags, Kind, Record, Source};
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes at which a batch is sent.
const BATCH_BYTES: usize = 64 << 10;

/// Silence after which the kernel's table is read.
const IDLE: Duration = Duration::from_millis(200);

/// Pause between readings that were no full batch.
const PAUSE: Duration = Duration::from_micros(500);

/// How long what still comes at the end is taken in. Then the kernel refuses what comes, and counts it; what
/// it holds is read to its end.
const GRACE: Duration = Duration::from_millis(250);

/// The sender of a datagram, as far as the kernel knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Peer {
    Ip(IpAddr),
    Process { pid: i32, uid: u32, gid: u32 },
    Unknown,
}

/// One socket.
pub(crate) struct DatagramListener {
    pub(crate) socket: OwnedFd,
    pub(crate) dialect: &'static Dialect,
    /// Its number in records.
    pub(crate) number: u16,
    pub(crate) name: Arc<str>,
    pub(crate) stage: Stage,
    /// Drops that the kernel has reported so far.
    dropped: u32,
    inode: u64,
    /// Messages and bytes that wait because the sealer is behind.
    waiting: (u64, u64),
    /// The service manager keeps it open for the next process, which will read what is left.
    is_inherited: bool,
    /// Nothing is read from it any more.
    is_left: bool,
}

impl DatagramListener {
    pub(crate) fn new(
        socket: OwnedFd,
        dialect: &'static Dialect,
        number: u16,
        name: Arc<str>,
        stage: Stage,
    ) -> io::Result<DatagramListener> {
        let inode = rustix::fs::fstat(&socket)?.st_ino;
        Ok(DatagramListener {
            socket,
            dialect,
            number,
            name,
            stage,
            dropped: 0,
            inode,
            waiting: (0, 0),
            is_inherited: false,
            is_left: false,
        })
    }

    /// The service manager opened it and keeps it open.
    pub(crate) fn set_inherited(&mut self) {
        self.is_inherited = true;
    }

    /// What comes from now on is not for this process: the kernel drops and counts it, a local sender is
    /// informed, and the next process reads what comes to a socket that outlives this one.
    fn refuse_further(&mut self) -> io::Result<()> {
        if self.is_inherited {
            self.is_left = true;
            return Ok(());
        }
        match self.dialect.carrier {
            Carrier::Local => Ok(rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Read)?),
            Carrier::Udp | Carrier::Tcp | Carrier::Tls => {
                datagrams::refuse_further(self.socket.as_fd())
            }
        }
    }

    /// One message more waits, or one less.
    fn waits(&mut self, change: i64, bytes: u64) {
        self.waiting.0 = self.waiting.0.saturating_add_signed(change);
        self.waiting.1 =
            if change > 0 { self.waiting.1 + bytes } else { self.waiting.1.saturating_sub(bytes) };
    }

    /// The kernel reports its count of drops in all.
    fn count_drops(&mut self, reported: u32, losses: &Losses) {
        let new = reported.wrapping_sub(self.dropped);
        // An older number, reported late.
        if new == 0 || new > u32::MAX / 2 {
            return;
        }
        self.dropped = reported;
        self.stage.ledger.receive(u64::from(new), 0);
        self.stage.ledger.shed(ShedReason::KernelDrop, u64::from(new), 0);
        losses.add(now_ns(), &self.name, "", ShedReason::KernelDrop.name(), u64::from(new));
    }
}

struct Waiting {
    time_ns: u64,
    flags: Flags,
    bytes: Vec<u8>,
}

/// The thread's state.
pub(crate) struct Datagrams {
    listeners: Vec<DatagramListener>,
    queue: Arc<Queue>,
    envelopes: Option<Arc<Envelopes>>,
    losses: Losses,
    report: Report,
    sources: HashMap<(usize, Peer), Arc<Source>>,
    last: Option<((usize, Peer), Arc<Source>)>,
    batch: Batch,
    waiting: FairQueue<(usize, Peer), Waiting>,
    /// The sealer's queue was full; what comes waits by sources.
    is_behind: bool,
    /// Away while its datagrams are looked at.
    received: Option<DatagramBatch>,
    complaint: Throttle,
    /// All sockets have buffers that outlast a pause.
    may_pause: bool,
}

impl Datagrams {
    pub(crate) fn new(
        listeners: Vec<DatagramListener>,
        queue: Arc<Queue>,
        envelopes: Option<Arc<Envelopes>>,
        losses: Losses,
        report: Report,
    ) -> Datagrams {
        let may_pause = listeners.iter().all(|l| {
            rustix::net::sockopt::socket_recv_buffer_size(&l.socket)
                .is_ok_and(|n| n >= RECEIVE_BUFFER_ENOUGH || l.dialect.carrier == Carrier::Local)
        });
        Datagrams {
            listeners,
            queue,
            envelopes,
            losses,
            report,
            sources: HashMap::new(),
            last: None,
            batch: Batch::default(),
            waiting: FairQueue::new(DATAGRAMS_WAITING_BYTES_MAX),
            is_behind: false,
            received: Some(DatagramBatch::new()),
            complaint: Throttle::new(Duration::from_secs(10)),
            may_pause,
        }
    }

    /// Works until it is asked to stop, then reads what is there, and ends.
    pub(crate) fn run(mut self, stop: &StopFlag) -> io::Result<()> {
        let poll = Poll::new()?;
        for (i, listener) in self.listeners.iter().enumerate() {
            poll.add(&listener.socket, i as u64, Interest::READ)?;
        }
        let mut ready = Vec::new();
        let mut looked = Instant::now();
        let mut heard = Instant::now();
        let mut stopped: Option<Instant> = None;
        let mut refuses = false;
        loop {
            let wait = match stopped {
                Some(_) => Duration::ZERO,
                None if self.is_behind => Duration::from_millis(1),
                None => Duration::from_millis(50),
            };
            poll.wait(wait, &mut ready)?;
            gabion_record::limits::publish();
            let mut came = 0;
            for event in &ready {
                came += self.receive(usize::try_from(event.key).unwrap_or(usize::MAX));
            }
            self.pass_on();
            let now = Instant::now();
            if came > 0 {
                heard = now;
                // A wake-up for each datagram costs more than the datagram. Where the buffers hold
                // what comes meanwhile, a short pause makes batches of them.
                if came < DatagramBatch::LEN && self.may_pause && stopped.is_none() {
                    std::thread::sleep(PAUSE);
                }
            }
            let is_idle = now - heard >= IDLE;
            if now - looked >= if is_idle { IDLE } else { Duration::from_secs(1) } {
                looked = now;
                if is_idle {
                    self.look_for_drops();
                }
                self.publish();
            }
            let is_done = came == 0 && self.batch.is_empty() && self.waiting.is_empty();
            match stopped {
                None if stop.is_set() => stopped = Some(now),
                Some(since) if !refuses && (is_done || now - since > GRACE) => {
                    refuses = true;
                    self.refuse_further();
                }
                Some(_) if refuses && is_done => break,
                Some(since) if now - since > LISTEN_LAST => {
                    self.shed_waiting();
                    if came == 0 {
                        break;
                    }
                }
                _ => {}
            }
        }
        if !self.batch.is_empty() {
            // Counted as passed: waits for room if need be, as the end of the whole waits for the sealer.
            self.queue.put(Side::Datagrams, std::mem::take(&mut self.batch));
        }
        self.look_for_drops();
        for listener in &mut self.listeners {
            listener.stage.ledger.set_in_flight(0, 0);
            listener.stage.publish_last();
        }
        Ok(())
    }

    /// Takes a batch or some of one socket; how many came.
    fn receive(&mut self, at: usize) -> usize {
        let mut all = 0;
        let mut received = self.received.take().unwrap_or_default();
        // Not for ever: another socket waits too.
        for _ in 0..8 {
            let Some(listener) = self.listeners.get(at).filter(|l| !l.is_left) else { break };
            let n = match received.receive(listener.socket.as_fd()) {
                Ok(n) => n,
                Err(e) => {
                    if let Some(times) = self.complaint.happened() {
                        let listener = Arc::clone(&listener.name);
                        (self.report)(&Notice::NotReceived { listener, error: e, times });
                    }
                    break;
                }
            };
            all += n;
            let time_ns = now_ns();
            for datagram in received.iter() {
                self.take_datagram(at, &datagram, time_ns);
            }
            if self.batch.weight() >= BATCH_BYTES {
                self.pass_on();
            }
            if n < DatagramBatch::LEN {
                break;
            }
        }
        self.received = Some(received);
        all
    }

    fn take_datagram(&mut self, at: usize, datagram: &Datagram<'_>, time_ns: u64) {
        let Some(listener) = self.listeners.get_mut(at) else { return };
        if let Some(reported) = datagram.dropped {
            listener.count_drops(reported, &self.losses);
        }
        let len = datagram.bytes.len() as u64;
        listener.stage.ledger.receive(1, len);
        if datagram.bytes.iter().all(|b| matches!(b, 0 | b'\n' | b'\r')) {
            listener.stage.ledger.shed(ShedReason::EmptyMessage, 1, len);
            return;
        }
        let peer = match (datagram.peer, datagram.credentials) {
            (Some(address), _) => Peer::Ip(address.ip()),
            (None, Some(c)) => Peer::Process { pid: c.pid, uid: c.uid, gid: c.gid },
            (None, None) => Peer::Unknown,
        };
        let mut flags = Flags::default();
        if datagram.len_sent > datagram.bytes.len() {
            flags = flags.with(Flags::TRUNCATED);
        }
        if listener.dialect.is_enveloped {
            let source = self.source(at, peer);
            self.pass_envelope(at, peer, source, time_ns, datagram.bytes);
            return;
        }
        if !self.is_behind {
            let source = self.source(at, peer);
            let (kind, bytes) = (Kind::Message, datagram.bytes);
            self.batch.push(&source, Record { time_ns, kind, flags, bytes });
            if datagram.len_sent > datagram.bytes.len() {
                self.batch.note_cut(
                    &source,
                    time_ns,
                    datagram.len_sent as u64,
                    datagram.bytes.len(),
                );
            }
            self.count_passed(at, 1, len);
            return;
        }
        let item = Waiting { time_ns, flags, bytes: datagram.bytes.to_vec() };
        self.listeners[at].waits(1, len);
        let (listeners, losses) = (&mut self.listeners, &self.losses);
        self.waiting.push((at, peer), datagram.bytes.len() + 96, item, &mut |key, _, item| {
            let listener = &mut listeners[key.0];
            let len = item.bytes.len() as u64;
            listener.waits(-1, len);
            listener.stage.ledger.shed(ShedReason::RingFull, 1, len);
            losses.add(
                item.time_ns,
                &listener.name,
                &peer_text(key.1),
                ShedReason::RingFull.name(),
                1,
            );
        });
    }

    fn pass_envelope(
        &mut self,
        at: usize,
        peer: Peer,
        source: Arc<Source>,
        time_ns: u64,
        bytes: &[u8],
    ) {
        let Some(envelopes) = &self.envelopes else { return };
        let len = bytes.len() as u64;
        let envelope = Envelope { source, time_ns, bytes: bytes.to_vec(), receipt: None };
        let text = peer_text(peer);
        let listener = &mut self.listeners[at];
        // What the envelopes' own queue sheds is counted there, by its stage.
        envelopes.put(&text, envelope, &listener.name, &self.losses);
        listener.stage.ledger.pass(1, len);
    }

    fn count_passed(&mut self, at: usize, items: u64, bytes: u64) {
        self.listeners[at].stage.ledger.pass(items, bytes);
    }

    fn source(&mut self, at: usize, peer: Peer) -> Arc<Source> {
        let key = (at, peer);
        if let Some((last, source)) = &self.last
            && *last == key
        {
            return Arc::clone(source);
        }
        if self.sources.len() >= DATAGRAM_SENDERS_MAX {
            self.sources.clear();
        }
        let listener = &self.listeners[at];
        let source = Arc::clone(self.sources.entry(key).or_insert_with(|| {
            let (address, identity) = match peer {
                Peer::Ip(ip) => (ip.to_string(), String::new()),
                Peer::Process { .. } => (String::new(), peer_text(peer)),
                Peer::Unknown => (String::new(), String::new()),
            };
            Arc::new(Source::new(listener.dialect.transport, listener.number, &address, &identity))
        }));
        self.last = Some((key, Arc::clone(&source)));
        source
    }

    /// Hands on what there is, as far as there is room; what came while there was none follows by
    /// turns.
    fn pass_on(&mut self) {
        loop {
            if self.batch.is_empty() && !self.fill() {
                self.is_behind = false;
                return;
            }
            match self.queue.offer(Side::Datagrams, std::mem::take(&mut self.batch)) {
                Ok(spare) => self.batch = spare.unwrap_or_default(),
                Err(full) => {
                    self.batch = full;
                    self.is_behind = true;
                    return;
                }
            }
        }
    }

    /// Fills the batch with what waits; whether there was anything.
    fn fill(&mut self) -> bool {
        while self.batch.weight() < BATCH_BYTES
            && let Some(((at, peer), _, item)) = self.waiting.pop()
        {
            let source = self.source(at, peer);
            let Waiting { time_ns, flags, ref bytes } = item;
            self.batch.push(&source, Record { time_ns, kind: Kind::Message, flags, bytes });
            let len = item.bytes.len() as u64;
            self.listeners[at].waits(-1, len);
            self.count_passed(at, 1, len);
        }
        !self.batch.is_empty()
    }

    fn refuse_further(&mut self) {
        for listener in &mut self.listeners {
            if let Err(e) = listener.refuse_further() {
                // It is read as long as the rest, no more: what comes later is not counted.
                listener.is_left = true;
                let listener = Arc::clone(&listener.name);
                (self.report)(&Notice::NotRefused { listener, error: e });
            }
        }
    }

    fn shed_waiting(&mut self) {
        while let Some((key, _, item)) = self.waiting.pop() {
            let listener = &mut self.listeners[key.0];
            let (len, reason) = (item.bytes.len() as u64, ShedReason::Stopped);
            listener.waits(-1, len);
            listener.stage.ledger.shed(reason, 1, len);
            let (name, peer) = (&listener.name, peer_text(key.1));
            self.losses.add(item.time_ns, name, &peer, reason.name(), 1);
        }
    }

    fn look_for_drops(&mut self) {
        for listener in &mut self.listeners {
            // A kernel without the option has a table of UDP's sockets.
            let reported = datagrams::drops(listener.socket.as_fd());
            if let Some(reported) = reported.or_else(|| udp_drops(listener.inode)) {
                listener.count_drops(reported, &self.losses);
            }
        }
    }

    fn publish(&mut self) {
        for listener in &mut self.listeners {
            listener.stage.ledger.set_in_flight(listener.waiting.0, listener.waiting.1);
            listener.stage.publish();
        }
    }
}

fn peer_text(peer: Peer) -> String {
    match peer {
        Peer::Ip(ip) => ip.to_string(),
        Peer::Process { pid, uid, gid } => format!("pid={pid} uid={uid} gid={gid}"),
        Peer::Unknown => String::new(),
    }
}
