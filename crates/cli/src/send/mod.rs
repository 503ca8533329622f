//! `gabion send`: makes load for log servers, ours and others', over every transport, and says what was
//! sent and what was acknowledged. With counts on both sides, what was lost between is known.
#![allow(
    clippy::disallowed_methods,
    reason = "sockets live by the clock; this is the program's edge"
)]

mod message;
mod options;

pub(crate) use options::SendOptions;

use crate::exit::{Exit, Fault};
use crate::limits::KEY_FILE_BYTES_MAX;
use crate::operator_file;
use crate::standard_output;
use gabion_logs::envelope::EnvelopeSealer;
use gabion_logs::relp;
use gabion_runtime::sockets::datagrams::{DatagramBatch, send_batch};
use message::Messages;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Unanswered RELP frames, as librelp has it.
const WINDOW: u64 = 128;

/// Bytes handed to a connection at once.
const WRITE_BYTES: usize = 64 << 10;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// What one transport did.
#[derive(Debug, Default)]
struct Done {
    sent: u64,
    failed: u64,
    /// Answered, where the transport has answers.
    acknowledged: Option<u64>,
    /// What ended it before its time.
    fault: Option<io::Error>,
}

impl Done {
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

/// Sends over one transport.
type Work = Box<dyn FnOnce(&Load) -> io::Result<Done> + Send>;

/// A transport at work: what it did, in how many seconds.
type Job = thread::JoinHandle<(io::Result<Done>, f64)>;

/// How messages become load.
struct Load {
    messages: Messages,
    count: u64,
    /// When it ends, sent or not.
    ends: Option<Instant>,
    rate: Option<u64>,
    connections: u64,
    connection_each: bool,
    octet_counting: bool,
    slog: Option<EnvelopeSealer>,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// A transport with where it sends to, as the command line has it.
fn to(name: &str, o: &SendOptions) -> String {
    let address = match name {
        "udp" => o.udp,
        "tcp" => o.tcp,
        "tls" => o.tls,
        "relp" => o.relp,
        "slog-udp" => o.slog_udp,
        "slog-tcp" => o.slog_tcp,
        _ => None,
    };
    let address = address.map(|address| address.to_string());
    let path = || o.unix.as_ref().map(|path| path.display().to_string());
    format!("--{name} {}", address.or_else(path).unwrap_or_default())
}

/// Sends over all transports that were named, at the same time.
pub(crate) fn run(o: &SendOptions) -> Result<Exit, Fault> {
    let load = Arc::new(Load::of(o)?);
    let mut jobs: Vec<(&'static str, Job)> = Vec::new();
    let mut start = |name: &'static str, work: Work| {
        let load = Arc::clone(&load);
        let job = thread::spawn(move || {
            let began = Instant::now();
            let done = work(&load);
            (done, began.elapsed().as_secs_f64())
        });
        jobs.push((name, job));
    };
    if let Some(to) = o.udp {
        start("udp", Box::new(move |l| l.udp(to)));
    }
    if let Some(to) = o.tcp {
        start("tcp", Box::new(move |l| l.streams("tcp", to)));
    }
    if let Some(to) = o.tls {
        start("tls", Box::new(move |l| l.streams("tls", to)));
    }
    if let Some(to) = o.relp {
        start("relp", Box::new(move |l| l.relp(to)));
    }
    if let Some(path) = o.unix.clone() {
        start("unix", Box::new(move |l| l.unix(&path)));
    }
    if let Some(to) = o.slog_udp {
        start("slog-udp", Box::new(move |l| l.slog_udp(to)));
    }
    if let Some(to) = o.slog_tcp {
        start("slog-tcp", Box::new(move |l| l.slog_tcp(to)));
    }
    if jobs.is_empty() {
        return Err(Fault::usage(
            "send: nowhere to: name a transport, such as --udp 127.0.0.1:5514",
        ));
    }
    let mut is_whole = true;
    let mut told = String::new();
    let mut json = Vec::new();
    for (name, job) in jobs {
        let (done, seconds) = job
            .join()
            .map_err(|_| Fault::internal(format!("send: {name}: the thread panicked")))?;
        let done = done.map_err(|e| {
            Fault::environment(format!(
                "send: {}: {e}: is the server there: name the address or socket that it listens on",
                to(name, o)
            ))
        })?;
        if let Some(e) = &done.fault {
            eprintln!("gabion: send: {name}: {e}: the rest was not sent");
        }
        is_whole &= done.failed == 0
            && done.fault.is_none()
            && done.acknowledged.is_none_or(|a| a == done.sent);
        let rate = done.sent as f64 / seconds.max(1e-9);
        let _ = write!(told, "{name}: {} sent", done.sent);
        if let Some(n) = done.acknowledged {
            let _ = write!(told, ", {n} acknowledged");
        }
        let _ = writeln!(told, ", {} failed, {seconds:.3} s, {rate:.0}/s", done.failed);
        let acknowledged = done.acknowledged.map_or("null".to_owned(), |n| n.to_string());
        json.push(format!(
            "{{\"transport\":\"{name}\",\"sent\":{},\"acknowledged\":{acknowledged},\"failed\":{},\"seconds\":{seconds:.6}}}",
            done.sent, done.failed
        ));
    }
    if o.json {
        standard_output::line(format_args!("{{\"transports\":[{}]}}", json.join(",")));
    } else {
        standard_output::text(told);
    }
    Ok(if is_whole { Exit::Done } else { Exit::No })
}

impl Load {
    fn of(o: &SendOptions) -> Result<Load, Fault> {
        let slog = match &o.slog_key {
            None => None,
            Some(path) => {
                let wrong = |e: &dyn std::fmt::Display| {
                    Fault::input(format!("{}: {e}: a public key is wanted", path.display()))
                };
                let pem = operator_file::bytes(path, KEY_FILE_BYTES_MAX).map_err(|e| wrong(&e))?;
                Some(EnvelopeSealer::from_pem(&pem).map_err(|e| wrong(&e))?)
            }
        };
        let tls = match &o.tls_ca {
            None => None,
            Some(path) => {
                let shown = o.tls_cert.as_deref().zip(o.tls_key.as_deref());
                Some((client(path, shown)?, server_name(&o.tls_name)?))
            }
        };
        Ok(Load {
            messages: Messages::new(o.text.as_deref(), o.raw, o.size)?,
            // Without end: as many as there are numbers for, a million years of them.
            count: o.count.unwrap_or(if o.seconds.is_some() { u64::MAX >> 8 } else { 10_000 }),
            ends: o.seconds.map(|s| Instant::now() + Duration::from_secs(s)),
            rate: o.rate,
            connections: o.connections,
            connection_each: o.connection_each,
            octet_counting: o.octet_counting,
            slog,
            tls,
        })
    }

    /// Whether the time is over.
    fn is_over(&self) -> bool {
        self.ends.is_some_and(|ends| Instant::now() >= ends)
    }

    /// Waits until message `number` is due.
    fn pace(&self, began: Instant, number: u64) {
        let Some(rate) = self.rate else { return };
        let due = began + Duration::from_secs_f64(number as f64 / rate as f64);
        let now = Instant::now();
        if due > now {
            thread::sleep(due - now);
        }
    }

    /// Messages sent between two looks at the clock.
    fn burst(&self) -> u64 {
        // A hundredth of a second of them, so that a rate is kept smoothly.
        self.rate
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
        while number < self.count && !self.is_over() {
            self.pace(began, number);
            bytes.clear();
            ends.clear();
            for n in number..(number + self.burst()).min(self.count) {
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
        let share = self.count.div_ceil(self.connections);
        thread::scope(|scope| {
            let jobs: Vec<_> = (0..self.connections)
                .map(|c| {
                    let (from, to) =
                        ((c * share).min(self.count), ((c + 1) * share).min(self.count));
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
        if self.connection_each {
            return self.shared(|from, until| {
                let mut done = Done::default();
                let began = Instant::now();
                for number in from..until {
                    if self.is_over() {
                        break;
                    }
                    self.pace(began, (number - from) * self.connections);
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
            // What a broken connection swallowed before it broke, nobody can tell.
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
            let is_due = self.rate.is_some() && (number - from).is_multiple_of(self.burst());
            if is_due || bytes.len() >= WRITE_BYTES {
                stream.write_all(&bytes)?;
                bytes.clear();
                *given = number;
                if self.is_over() {
                    break;
                }
            }
            if is_due {
                self.pace(began, (number - from) * self.connections);
            }
            self.frame(tag, number, &mut bytes);
            number += 1;
        }
        stream.write_all(&bytes)?;
        *given = number;
        stream.flush()
    }

    fn frame(&self, tag: &str, number: u64, out: &mut Vec<u8>) {
        if self.octet_counting {
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

    /// One RELP session's messages behind its opening; `number` is the next to be sent.
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
            self.pace(began, (*number - from) * self.connections);
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
        for number in 0..self.count {
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
                self.pace(began, (number - from) * self.connections);
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
    /// Reads until so many good answers came.
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
    /// client away says so only now: its alert comes behind the client's own handshake.
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

/// A client that trusts these authorities, and shows a certificate where there is one (with its key).
fn client(authorities: &Path, shown: Option<(&Path, &Path)>) -> Result<Arc<ClientConfig>, Fault> {
    let wrong = |e: &dyn std::fmt::Display| {
        Fault::input(format!("{}: {e}: certificates are wanted", authorities.display()))
    };
    let mut roots = RootCertStore::empty();
    let pem = operator_file::bytes(authorities, KEY_FILE_BYTES_MAX).map_err(|e| wrong(&e))?;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        roots.add(certificate.map_err(|e| wrong(&e))?).map_err(|e| wrong(&e))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Fault::internal(format!("TLS: {e}")))?
        .with_root_certificates(roots);
    let config = match shown {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let wrong = |path: &Path, e: &dyn std::fmt::Display| {
                Fault::input(format!("{}: {e}: a PEM file is wanted", path.display()))
            };
            let read = |path: &Path| {
                operator_file::bytes(path, KEY_FILE_BYTES_MAX).map_err(|e| wrong(path, &e))
            };
            let chain: Result<Vec<_>, _> =
                CertificateDer::pem_slice_iter(&read(certificate)?).collect();
            let chain = chain.map_err(|e| wrong(certificate, &e))?;
            let private = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|e| wrong(key, &e))?;
            config.with_client_auth_cert(chain, private).map_err(|e| wrong(certificate, &e))?
        }
    };
    Ok(Arc::new(config))
}

fn server_name(name: &str) -> Result<ServerName<'static>, Fault> {
    ServerName::try_from(name.to_owned()).map_err(|e| {
        Fault::usage(format!("--tls-name: {name}: {e}: name the server as its certificate does"))
    })
}
