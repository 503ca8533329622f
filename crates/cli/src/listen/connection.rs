//! One connection: its transport (plain or TLS), its protocol, and what it waits for. Bytes are read
//! into a buffer that all connections share; what a connection holds itself is at most one unfinished
//! frame and its unsent answers.

use super::batch::Batch;
use gabion_logs::framing::{Frame, Framer, Framing};
use gabion_logs::relp::{RelpServer, Violation};
use gabion_record::ledger::Tally;
use gabion_seal::record::{Flags, Kind, Source, Transport};
use rustls::ServerConnection;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

/// Room in the buffer for what one step of TLS may decrypt: a record and what was held before it.
const TLS_STEP: usize = 40 << 10;

/// What speaks on a connection.
#[derive(Debug)]
pub(crate) enum Protocol {
    Syslog(Framer),
    Relp(RelpServer),
    /// One envelope, answered `OK`.
    Slog {
        held: Vec<u8>,
        wrapped_len: usize,
    },
}

/// What came of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// All there was.
    All,
    /// As much as fits; there may be more.
    Part,
    /// The peer has sent its last byte.
    End,
}

/// Why a connection is closed by this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    ByPeer,
    Relp(Violation),
    Tls,
    Reset,
    Idle,
    Slow,
    Displaced,
    Full,
}

impl Closed {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Closed::ByPeer => "by_peer",
            Closed::Relp(_) => "relp_violation",
            Closed::Tls => "tls_failure",
            Closed::Reset => "reset",
            Closed::Idle => "idle",
            Closed::Slow => "slow",
            Closed::Displaced => "displaced",
            Closed::Full => "memory_full",
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) tls: Option<Box<ServerConnection>>,
    pub(crate) protocol: Protocol,
    pub(crate) transport: Transport,
    pub(crate) listener: usize,
    pub(crate) peer: IpAddr,
    pub(crate) source: Arc<Source>,
    pub(crate) identity: String,
    /// Its key among the connections, never used twice.
    pub(crate) key: u64,
    pub(crate) opened: Instant,
    pub(crate) heard: Instant,
    /// Since when a frame is unfinished.
    pub(crate) within_frame: Option<Instant>,
    pub(crate) frames: u64,
    /// Bytes of its unfinished frame as last counted among those of all.
    pub(crate) held_counted: usize,
    /// Answers not yet sent.
    pub(crate) out: Vec<u8>,
    /// The peer has sent its last byte; answers may be due.
    pub(crate) is_ended: bool,
    /// An envelope was taken and waits for its answer.
    pub(crate) awaits_answer: bool,
    pub(crate) wants: (bool, bool),
    /// Whether a TLS peer showed a certificate that was checked.
    pub(crate) is_authenticated: bool,
}

/// What frames of one reading became.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) messages: Tally,
    /// Messages that were cut.
    pub(crate) truncated: u64,
}

impl Connection {
    /// One that was just taken, from whom and by which listener.
    pub(crate) fn new(
        (stream, tls): (TcpStream, Option<Box<ServerConnection>>),
        protocol: Protocol,
        (transport, listener): (Transport, usize),
        (peer, source): (IpAddr, Arc<Source>),
        key: u64,
    ) -> Connection {
        let now = gabion_runtime::clock::now();
        Connection {
            stream,
            tls,
            protocol,
            transport,
            listener,
            peer,
            source,
            identity: String::new(),
            key,
            opened: now,
            heard: now,
            within_frame: None,
            frames: 0,
            held_counted: 0,
            out: Vec::new(),
            is_ended: false,
            awaits_answer: false,
            wants: (true, false),
            is_authenticated: false,
        }
    }

    /// Reads once into the shared buffer; how much, and whether there may be more.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Came)> {
        let Some(tls) = self.tls.as_mut() else {
            return match self.stream.read(buffer) {
                Ok(0) => Ok((0, Came::End)),
                Ok(n) if n == buffer.len() => Ok((n, Came::Part)),
                Ok(n) => Ok((n, Came::All)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok((0, Came::All)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok((0, Came::Part)),
                Err(e) => Err(e),
            };
        };
        let (mut got, mut came) = (0, Came::Part);
        // What is decrypted is taken out after every step: TLS takes in nothing while 16 KiB of it wait.
        while came == Came::Part && buffer.len() - got >= TLS_STEP {
            match tls.read_tls(&mut self.stream) {
                Ok(0) => came = Came::End,
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => came = Came::All,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // What came before the fault is kept; the fault shows again at the next reading.
                Err(_) if got > 0 => return Ok((got, Came::Part)),
                Err(e) => return Err(e),
            }
            if let Err(e) = tls.process_new_packets() {
                // The alert tells the peer why.
                let _ = tls.write_tls(&mut self.stream);
                if got > 0 {
                    return Ok((got, Came::Part));
                }
                return Err(io::Error::new(io::ErrorKind::InvalidData, e));
            }
            while got < buffer.len() {
                match tls.reader().read(&mut buffer[got..]) {
                    Ok(0) => {
                        came = Came::End;
                        break;
                    }
                    Ok(n) => got += n,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    // An end without farewell is an end all the same; what was sent is kept.
                    Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                        came = Came::End;
                        break;
                    }
                    Err(e) => return Err(e),
                }
            }
        }
        Ok((got, came))
    }

    /// Sends what is to be sent, as far as the peer takes it.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        if let Protocol::Relp(relp) = &mut self.protocol {
            self.out.append(relp.replies());
        }
        if let Some(tls) = self.tls.as_mut() {
            if !self.out.is_empty() && !tls.is_handshaking() {
                let n = tls.writer().write(&self.out)?;
                self.out.drain(..n);
            }
            while tls.wants_write() {
                match tls.write_tls(&mut self.stream) {
                    Ok(_) => {}
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    Err(e) => return Err(e),
                }
            }
            return Ok(());
        }
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.out.drain(..n);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Gives bytes to the protocol; messages go into the batch.
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        time_ns: u64,
        now: Instant,
        batch: &mut Batch,
    ) -> Result<Taken, Violation> {
        let mut taken = Taken::default();
        let flags = self.flags();
        let (source, key) = (&self.source, self.key);
        match &mut self.protocol {
            Protocol::Syslog(framer) => {
                framer.feed(bytes, &mut |f| {
                    take_frame(&f, source, time_ns, flags, batch, &mut taken)
                });
            }
            Protocol::Relp(relp) => relp.feed(bytes, &mut |message| {
                let max = Framing::default().message_bytes_max;
                let (kept, flags) = match message.get(..max) {
                    Some(kept) if kept.len() < message.len() => {
                        taken.truncated += 1;
                        (kept, flags.with(Flags::TRUNCATED))
                    }
                    _ => (message, flags),
                };
                batch.push(source, time_ns, Kind::Message, flags, kept);
                batch.wants_receipt(key);
                if kept.len() < message.len() {
                    batch.note_cut(source, time_ns, message.len() as u64, kept.len());
                }
                taken.messages.add(1, kept.len() as u64);
            })?,
            Protocol::Slog { held, .. } => {
                let room = gabion_logs::limits::ENVELOPE_BYTES_MAX.saturating_sub(held.len());
                held.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
            }
        }
        self.frames += taken.messages.items;
        self.note_frame(now, taken.messages.items > 0);
        Ok(taken)
    }

    /// The peer went or fell silent inside a frame: what is held becomes messages.
    pub(crate) fn finish(&mut self, time_ns: u64, batch: &mut Batch) -> Taken {
        let mut taken = Taken::default();
        let flags = self.flags();
        let source = &self.source;
        if let Protocol::Syslog(framer) = &mut self.protocol {
            framer.finish(&mut |f| take_frame(&f, source, time_ns, flags, batch, &mut taken));
        }
        self.within_frame = None;
        taken
    }

    fn flags(&self) -> Flags {
        if self.is_authenticated { Flags::AUTHENTICATED } else { Flags::default() }
    }

    /// A sender at full speed is always inside some frame; slow is one whose frame does not end.
    fn note_frame(&mut self, now: Instant, has_ended_some: bool) {
        let is_within = match &self.protocol {
            Protocol::Syslog(framer) => framer.is_within_frame(),
            Protocol::Relp(relp) => relp.is_within_frame(),
            Protocol::Slog { held, .. } => !held.is_empty() && !self.awaits_answer,
        };
        self.within_frame = match self.within_frame {
            _ if !is_within => None,
            Some(since) if !has_ended_some => Some(since),
            _ => Some(now),
        };
    }

    /// The envelope, when it is all there (by its length, a line end, or the end of the stream).
    pub(crate) fn envelope(&mut self) -> Option<Vec<u8>> {
        let Protocol::Slog { held, wrapped_len } = &mut self.protocol else { return None };
        if self.awaits_answer || held.is_empty() {
            return None;
        }
        let is_whole = self.is_ended
            || held.len() >= gabion_logs::limits::ENVELOPE_BYTES_MAX
            || held.ends_with(b"\n")
            || memchr::memchr(b',', held).is_some_and(|comma| {
                held[comma + 1..].iter().filter(|b| !b.is_ascii_whitespace()).count()
                    >= *wrapped_len
            });
        is_whole.then(|| std::mem::take(held))
    }

    /// Bytes held of an unfinished frame.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.protocol {
            Protocol::Syslog(framer) => framer.held_bytes(),
            Protocol::Relp(relp) => relp.held_bytes(),
            Protocol::Slog { held, .. } => held.len(),
        }
    }

    /// Whether to read on.
    pub(crate) fn wants_input(&self) -> bool {
        !self.is_ended
            && self.out.len() < 64 * 1024
            && match &self.protocol {
                Protocol::Syslog(_) => true,
                Protocol::Relp(relp) => relp.wants_input(),
                Protocol::Slog { .. } => !self.awaits_answer,
            }
    }

    /// Whether there is something to send.
    pub(crate) fn wants_output(&self) -> bool {
        !self.out.is_empty() || self.tls.as_ref().is_some_and(|t| t.wants_write())
    }

    /// Whether nothing is left to do: the peer is done, and so are the answers.
    pub(crate) fn is_done(&self) -> bool {
        let is_over = match &self.protocol {
            Protocol::Syslog(_) => self.is_ended,
            // A peer that has gone waits for no answer.
            Protocol::Relp(relp) => relp.is_closed() || self.is_ended,
            Protocol::Slog { .. } => self.is_ended && !self.awaits_answer,
        };
        is_over && !self.wants_output()
    }
}

fn take_frame(
    frame: &Frame<'_>,
    source: &Arc<Source>,
    time_ns: u64,
    flags: Flags,
    batch: &mut Batch,
    taken: &mut Taken,
) {
    let mut flags = flags;
    if frame.is_truncated() {
        flags = flags.with(Flags::TRUNCATED);
        taken.truncated += 1;
    }
    if frame.is_incomplete {
        flags = flags.with(Flags::INCOMPLETE);
    }
    if frame.is_frame_error {
        flags = flags.with(Flags::FRAME_ERROR);
    }
    batch.push(source, time_ns, Kind::Message, flags, frame.bytes);
    if frame.is_truncated() {
        batch.note_cut(source, time_ns, frame.len_sent, frame.bytes.len());
    }
    taken.messages.add(1, frame.bytes.len() as u64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_logs::limits::RELP_WINDOW;
    use gabion_logs::relp::RelpServer;
    use std::net::TcpListener;

    /// A session of RELP, opened, and its client's side, which reads nothing.
    fn relp() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, peer) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        // What the kernel takes is not at issue here.
        rustix::net::sockopt::set_socket_send_buffer_size(&stream, 4096).unwrap();
        let source = Arc::new(Source::new(Transport::Relp, 0, "127.0.0.1", ""));
        let protocol = Protocol::Relp(RelpServer::new());
        let from = (peer.ip(), source);
        let mut connection =
            Connection::new((stream, None), protocol, (Transport::Relp, 0), from, 1);
        take(&mut connection, b"1 open 30 relp_version=0\ncommands=syslog\n");
        (connection, client)
    }

    fn take(connection: &mut Connection, bytes: &[u8]) {
        let mut batch = Batch::default();
        connection.take(bytes, 0, connection.opened, &mut batch).unwrap();
    }

    fn relp_of(connection: &mut Connection) -> &mut RelpServer {
        match &mut connection.protocol {
            Protocol::Relp(relp) => relp,
            other => panic!("{other:?}"),
        }
    }

    /// Who sends more than fits into the window is read no further until something is durable: no more waits than the
    /// window and what one turn brought.
    #[test]
    fn a_client_that_sends_more_than_the_window_is_read_no_further() {
        let (mut connection, _client) = relp();
        let mut sent = 2..;
        let mut turns = 0;
        while connection.wants_input() {
            let turn: String =
                sent.by_ref().take(100).map(|n| format!("{n} syslog 3 abc\n")).collect();
            take(&mut connection, turn.as_bytes());
            turns += 1;
            assert!(turns <= RELP_WINDOW / 100 + 1, "{turns}");
        }
        let unanswered = relp_of(&mut connection).unanswered();
        assert!((RELP_WINDOW..RELP_WINDOW + 100).contains(&unanswered), "{unanswered}");
        relp_of(&mut connection).durable(unanswered as u64);
        connection.write().unwrap();
        assert!(connection.wants_input() && relp_of(&mut connection).unanswered() == 0);
    }

    /// Who reads no answers is read no further when some of them wait, and its connection holds no more than those.
    #[test]
    fn a_client_that_reads_no_answers_is_read_no_further() {
        let (mut connection, client) = relp();
        rustix::net::sockopt::set_socket_recv_buffer_size(&client, 4096).unwrap();
        let most = 64 * 1024;
        let mut number = 1;
        while connection.wants_input() {
            number += 1;
            take(&mut connection, format!("{number} syslog 3 abc\n").as_bytes());
            relp_of(&mut connection).durable(1);
            connection.write().unwrap();
            assert!(number < 1_000_000, "its answers are held without a bound");
        }
        assert!((most..most + 100).contains(&connection.out.len()), "{}", connection.out.len());
        assert!(connection.wants_output() && !connection.is_done());
    }
}
