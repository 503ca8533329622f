//! The load generator: sends messages to log servers, ours and others', over every dialect, and counts what was
//! sent and what was acknowledged. With counts on both sides, what was lost between is known.

mod message;

use crate::error::{Error, Result};
use crate::limits::KEY_FILE_BYTES_MAX;
use crate::sockets::{Endpoint, Place};
use crate::tls::ClientTls;
use gabion_logs::dialect::Dialect;
use gabion_logs::envelope::EnvelopeSealer;
use gabion_logs::relp;
use gabion_runtime::operator_file;
use gabion_runtime::sockets::datagrams::{DatagramBatch, send_batch};
use gabion_seal::Transport;
use message::Messages;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Unanswered RELP frames, as librelp has it.
const WINDOW: u64 = 128;

/// Bytes handed to a connection at once.
const WRITE_BYTES: usize = 64 << 10;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// What came of the messages of one dialect.
#[derive(Debug, Default)]
pub struct Done {
    /// Messages that were sent.
    pub sent: u64,
    /// Messages that were not.
    pub failed: u64,
    /// Messages that were answered, where there are answers.
    pub acknowledged: Option<u64>,
    /// What ended it before its time.
    pub fault: Option<io::Error>,
}

impl Done {
    /// Whether all was sent, and answered where there are answers.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.failed == 0 && self.fault.is_none() && self.acknowledged.is_none_or(|a| a == self.sent)
    }

    /// With those of another connection.
    fn and(mut self, other: Done) -> Done {
        self.sent += other.sent;
        self.failed += other.failed;
        if let Some(n) = other.acknowledged {
            *self.acknowledged.get_or_insert(0) += n;
        }
        self.fault = self.fault.or(other.fault);
        self
    }
}

/// Messages that were sent to one endpoint.
#[derive(Debug)]
pub struct Sent {
    /// Where to.
    pub endpoint: Endpoint,
    /// What came of them; an error where nothing could be sent at all.
    pub done: io::Result<Done>,
    /// How long it took.
    pub seconds: f64,
}

/// What load is made of.
#[derive(Clone, Debug, Default)]
pub struct LoadSettings {
    /// A file of lines to send, plain or packed by zstd; made up where it is left open.
    pub text: Option<PathBuf>,
    /// Lines are sent as they are, without a header.
    pub is_raw: bool,
    /// Bytes of a message.
    pub size: Option<usize>,
    /// Messages to each endpoint.
    pub count: u64,
    /// How long it lasts, sent or not.
    pub lasts: Option<Duration>,
    /// Messages a second to each endpoint.
    pub rate: Option<u64>,
    /// Connections to each endpoint that has some; at least one.
    pub connections: u64,
    /// A connection for each message, over TCP.
    pub connection_each: bool,
    /// Octets are counted instead of ending messages with LF.
    pub octet_counting: bool,
    /// The public key that envelopes are made for, PEM.
    pub envelope_key: Option<PathBuf>,
    /// How TLS is spoken.
    pub tls: Option<ClientTls>,
}

/// How messages become load.
pub struct Load {
    messages: Messages,
    settings: LoadSettings,
    /// When it ends, sent or not.
    ends: Option<Instant>,
    slog: Option<EnvelopeSealer>,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Load").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Load {
    /// Reads the files that it is made of.
    ///
    /// # Errors
    /// What is wrong with one.
    pub fn new(settings: LoadSettings) -> Result<Load> {
        let slog = match &settings.envelope_key {
            None => None,
            Some(path) => {
                let wrong =
                    |e: &dyn fmt::Display| Error::file(path, e, "name a file with a public key");
                let pem = operator_file::bytes(path, KEY_FILE_BYTES_MAX).map_err(|e| wrong(&e))?;
                Some(EnvelopeSealer::from_pem(&pem).map_err(|e| wrong(&e))?)
            }
        };
        let tls = settings.tls.as_ref().map(ClientTls::load).transpose()?;
        let messages = Messages::new(settings.text.as_deref(), settings.is_raw, settings.size)?;
        Ok(Load { messages, settings, ends: None, slog, tls })
    }

    /// Sends to all endpoints at the same time.
    ///
    /// # Errors
    /// When a thread panicked.
    pub fn send(mut self, endpoints: Vec<Endpoint>) -> Result<Vec<Sent>> {
        self.ends = self.settings.lasts.map(|lasts| Instant::now() + lasts);
        let load = Arc::new(self);
        let start = |endpoint: Endpoint| {
            let load = Arc::clone(&load);
            thread::spawn(move || {
                let began = Instant::now();
                let done = load.send_to(endpoint.dialect, &endpoint.place);
                Sent { endpoint, done, seconds: began.elapsed().as_secs_f64() }
            })
        };
        let names: Vec<_> = endpoints.iter().map(|endpoint| endpoint.dialect.name()).collect();
        let jobs: Vec<_> = endpoints.into_iter().map(start).collect();
        let ended = jobs.into_iter().zip(names).map(|(job, name)| {
            job.join().map_err(|_| Error::Panicked { thread: format!("send: {name}") })
        });
        ended.collect()
    }

    fn send_to(&self, dialect: &Dialect, place: &Place) -> io::Result<Done> {
        let address = match place {
            Place::Address(address) => *address,
            Place::Path(path) => return self.unix(path),
        };
        match dialect.transport {
            Transport::Udp => self.udp(address),
            Transport::Tcp | Transport::Tls => self.streams(dialect.name(), address),
            Transport::Relp => self.relp(address),
            Transport::SlogUdp => self.slog_udp(address),
            Transport::SlogTcp => self.slog_tcp(address),
            // A server may speak what no load is made of.
            _ => Err(io::Error::other("no load is made in this dialect")),
        }
    }

    /// Whether the time is over.
    fn is_over(&self) -> bool {
        self.ends.is_some_and(|ends| Instant::now() >= ends)
    }

    /// Waits until message `number` is due.
    fn pace(&self, began: Instant, number: u64) {
        let Some(rate) = self.settings.rate else { return };
        let due = began + Duration::from_secs_f64(number as f64 / rate as f64);
        let now = Instant::now();
        if due > now {
            thread::sleep(due - now);
        }
    }

    /// Messages sent between two looks at the clock.
    fn burst(&self) -> u64 {
        // A hundredth of a second of them, so that a rate is kept smoothly.
        self.settings
            .rate
            .map_or(DatagramBatch::LEN as u64, |r| (r / 100).clamp(1, DatagramBatch::LEN as u64))
    }

    fn datagrams(
        &self,
        tag: &str,
        mut send: impl FnMut(&[&[u8]]) -> io::Result<usize>,
    ) -> io::Result<Done> {
        let mut done = Done::default();
        let began = Instant::now();
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        let mut number = 0;
        while number < self.settings.count && !self.is_over() {
            self.pace(began, number);
            bytes.clear();
            ends.clear();
            for n in number..(number + self.burst()).min(self.settings.count) {
                self.messages.write(tag, n, &mut bytes);
                ends.push(bytes.len());
            }
            let mut from = 0;
            let all: Vec<&[u8]> =
                ends.iter().map(|end| &bytes[std::mem::replace(&mut from, *end)..*end]).collect();
            let mut rest = all.as_slice();
            while !rest.is_empty() {
                match send(rest) {
                    Ok(n) => {
                        done.sent += n as u64;
                        rest = &rest[n.min(rest.len())..];
                    }
                    Err(e)
                        if matches!(
                            e.kind(),
                            io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
                        ) => {}
                    Err(_) => {
                        done.failed += 1;
                        rest = &rest[1..];
                    }
                }
            }
            number += ends.len() as u64;
        }
        Ok(done)
    }

    fn udp(&self, to: SocketAddr) -> io::Result<Done> {
        let socket = connected(to)?;
        self.datagrams("udp", |batch| send_batch(socket.as_fd(), batch))
    }

    fn unix(&self, path: &Path) -> io::Result<Done> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        self.datagrams("unix", |batch| send_batch(socket.as_fd(), batch))
    }

    /// Shares the messages among connections, each in its thread.
    fn shared(&self, work: impl Fn(u64, u64) -> io::Result<Done> + Sync) -> io::Result<Done> {
        let share = self.settings.count.div_ceil(self.settings.connections);
        thread::scope(|scope| {
            let jobs: Vec<_> = (0..self.settings.connections)
                .map(|c| {
                    let (from, to) = (
                        (c * share).min(self.settings.count),
                        ((c + 1) * share).min(self.settings.count),
                    );
                    let work = &work;
                    scope.spawn(move || work(from, to))
                })
                .collect();
            let mut all = Done::default();
            for job in jobs {
                all = all.and(job.join().map_err(|_| io::Error::other("a thread panicked"))??);
            }
            Ok(all)
        })
    }

    fn streams(&self, tag: &str, to: SocketAddr) -> io::Result<Done> {
        if self.settings.connection_each {
            return self.shared(|from, until| {
                let mut done = Done::default();
                let began = Instant::now();
                for number in from..until {
                    if self.is_over() {
                        break;
                    }
                    self.pace(began, (number - from) * self.settings.connections);
                    let mut bytes = Vec::new();
                    self.frame(tag, number, &mut bytes);
                    let sent = self
                        .connect(tag, to)
                        .and_then(|mut c| c.write_all(&bytes).and_then(|()| c.flush()));
                    match sent {
                        Ok(()) => done.sent += 1,
                        Err(_) => done.failed += 1,
                    }
                }
                Ok(done)
            });
        }
        self.shared(|from, until| {
            let mut stream = self.connect(tag, to)?;
            let mut given = from;
            let all = self.stream(tag, &mut stream, from, until, &mut given);
            let fault = all.and_then(|()| stream.finish()).err();
            // Nobody knows what a broken connection swallowed before it broke.
            let sent = given - from;
            let failed = if fault.is_some() { until - given } else { 0 };
            Ok(Done { sent, failed, fault, ..Done::default() })
        })
    }

    /// Sends one connection's share; `given` is how far it came.
    fn stream(
        &self,
        tag: &str,
        stream: &mut Wire,
        from: u64,
        until: u64,
        given: &mut u64,
    ) -> io::Result<()> {
        let began = Instant::now();
        let mut bytes = Vec::with_capacity(WRITE_BYTES * 2);
        let mut number = from;
        while number < until {
            let is_due =
                self.settings.rate.is_some() && (number - from).is_multiple_of(self.burst());
            if is_due || bytes.len() >= WRITE_BYTES {
                stream.write_all(&bytes)?;
                bytes.clear();
                *given = number;
                if self.is_over() {
                    break;
                }
            }
            if is_due {
                self.pace(began, (number - from) * self.settings.connections);
            }
            self.frame(tag, number, &mut bytes);
            number += 1;
        }
        stream.write_all(&bytes)?;
        *given = number;
        stream.flush()
    }

    fn frame(&self, tag: &str, number: u64, out: &mut Vec<u8>) {
        if self.settings.octet_counting {
            let mut message = Vec::new();
            self.messages.write(tag, number, &mut message);
            out.extend_from_slice(format!("{} ", message.len()).as_bytes());
            out.append(&mut message);
        } else {
            self.messages.write(tag, number, out);
            out.push(b'\n');
        }
    }

    fn connect(&self, tag: &str, to: SocketAddr) -> io::Result<Wire> {
        let stream = TcpStream::connect(to)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        if tag != "tls" {
            return Ok(Wire::Plain(stream));
        }
        let (config, name) = self.tls.clone().ok_or_else(|| io::Error::other("no authorities"))?;
        let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Ok(Wire::Tls(Box::new(StreamOwned::new(session, stream))))
    }

    fn relp(&self, to: SocketAddr) -> io::Result<Done> {
        self.shared(|from, until| {
            let mut stream = TcpStream::connect(to)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let mut answers = Answers::default();
            let offer = b"relp_version=0\nrelp_software=gabion,1\ncommands=syslog";
            let mut out = Vec::new();
            relp::write_frame(&mut out, 1, b"open", offer);
            stream.write_all(&out)?;
            answers.wait(&mut stream, 1)?;
            let mut number = from;
            let all = self.session(&mut stream, &mut answers, from, until, &mut number);
            Ok(Done {
                sent: number - from,
                failed: if all.is_err() { until - number } else { 0 },
                acknowledged: Some(answers.good - 1),
                fault: all.err(),
            })
        })
    }

    /// One RELP session's messages after its opening; `number` is the next to be sent.
    fn session(
        &self,
        stream: &mut TcpStream,
        answers: &mut Answers,
        from: u64,
        until: u64,
        number: &mut u64,
    ) -> io::Result<()> {
        let began = Instant::now();
        let (mut out, mut message) = (Vec::new(), Vec::new());
        while *number < until && !self.is_over() {
            out.clear();
            // As much as the window lets through, and the rate.
            let unanswered = *number - from - (answers.good - 1);
            let some = (WINDOW - unanswered).min(until - *number).min(self.burst().max(1) * 2);
            for _ in 0..some {
                message.clear();
                self.messages.write("relp", *number, &mut message);
                let txnr = u32::try_from((*number - from) % 999_999_998).unwrap_or(0) + 2;
                relp::write_frame(&mut out, txnr, b"syslog", &message);
                *number += 1;
            }
            self.pace(began, (*number - from) * self.settings.connections);
            stream.write_all(&out)?;
            let sent = *number - from + 1;
            answers
                .wait(stream, sent.saturating_sub(WINDOW / 2).max(answers.good + 1).min(sent))?;
        }
        answers.wait(stream, *number - from + 1)
    }

    fn envelope(&self, tag: &str, number: u64) -> io::Result<Vec<u8>> {
        let sealer = self.slog.as_ref().ok_or_else(|| io::Error::other("no key for envelopes"))?;
        let mut line = Vec::new();
        self.messages.write(tag, number, &mut line);
        sealer
            .seal("2021-01-15T20:22:07.538+01", "client", "/var/log/messages", &line)
            .map_err(io::Error::other)
    }

    fn slog_udp(&self, to: SocketAddr) -> io::Result<Done> {
        let socket = connected(to)?;
        let mut done = Done::default();
        let began = Instant::now();
        for number in 0..self.settings.count {
            if self.is_over() {
                break;
            }
            self.pace(began, number);
            match socket.send(&self.envelope("slog-udp", number)?) {
                Ok(_) => done.sent += 1,
                Err(_) => done.failed += 1,
            }
        }
        Ok(done)
    }

    fn slog_tcp(&self, to: SocketAddr) -> io::Result<Done> {
        self.shared(|from, until| {
            let mut done = Done { acknowledged: Some(0), ..Done::default() };
            let began = Instant::now();
            for number in from..until {
                if self.is_over() {
                    break;
                }
                self.pace(began, (number - from) * self.settings.connections);
                let envelope = self.envelope("slog-tcp", number)?;
                let answered = TcpStream::connect(to).and_then(|mut stream| {
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.write_all(&envelope)?;
                    let mut answer = [0; 2];
                    stream.read_exact(&mut answer)?;
                    Ok(&answer == b"OK")
                });
                match answered {
                    Ok(is_ok) => {
                        done.sent += 1;
                        done.acknowledged = done.acknowledged.map(|n| n + u64::from(is_ok));
                    }
                    Err(_) => done.failed += 1,
                }
            }
            Ok(done)
        })
    }
}

/// Answers of a RELP server, counted.
#[derive(Debug, Default)]
struct Answers {
    held: Vec<u8>,
    good: u64,
}

impl Answers {
    /// Reads until n good answers came.
    fn wait(&mut self, stream: &mut TcpStream, wanted: u64) -> io::Result<()> {
        let mut piece = [0; 16 << 10];
        while self.good < wanted {
            let n = stream.read(&mut piece)?;
            if n == 0 {
                return Err(io::Error::other("the server closed the session"));
            }
            self.held.extend_from_slice(&piece[..n]);
            let mut at = 0;
            loop {
                let frame =
                    relp::read_frame(&self.held[at..]).map_err(|e| io::Error::other(e.name()))?;
                let Some(frame) = frame else { break };
                match (frame.command, frame.data.get(..3)) {
                    (b"rsp", Some(b"200")) => self.good += 1,
                    _ => return Err(io::Error::other("the server refused a message")),
                }
                at += frame.len;
            }
            self.held.drain(..at);
        }
        Ok(())
    }
}

/// A connection, clear or not.
enum Wire {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Wire {
    /// Says that this is the end, and waits until the server says so too: closing a connection on
    /// which something lies unread resets it, and what was on its way is lost. A server that turns a
    /// client away says so only now: its alert comes after the client's own handshake.
    fn finish(&mut self) -> io::Result<()> {
        let mut rest = [0; 4096];
        match self {
            Wire::Plain(stream) => {
                stream.shutdown(Shutdown::Write)?;
                while matches!(stream.read(&mut rest), Ok(n) if n > 0) {}
                Ok(())
            }
            Wire::Tls(stream) => {
                stream.conn.send_close_notify();
                stream.flush()?;
                stream.sock.shutdown(Shutdown::Write)?;
                loop {
                    match stream.read(&mut rest) {
                        Ok(0) => return Ok(()),
                        Ok(_) => {}
                        // A server may just go.
                        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                        Err(e) => return Err(e),
                    }
                }
            }
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.write(bytes),
            Wire::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Wire::Plain(stream) => stream.flush(),
            Wire::Tls(stream) => stream.flush(),
        }
    }
}

fn connected(to: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    Ok(socket)
}
