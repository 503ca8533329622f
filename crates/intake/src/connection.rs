//! One connection: plain or TLS, the session that is spoken on it, and what it waits for. Bytes are read
//! into a buffer that all connections share; what a connection holds itself is at most one unfinished
//! frame and its unsent answers.

use crate::batch::Batch;
use crate::limits::ANSWER_BYTES_MAX;
use gabion_logs::dialect::Dialect;
use gabion_logs::session::{Finish, Message, Session, Violation};
use gabion_record::ledger::Tally;
use gabion_seal::{Flags, Kind, Record, Source};
use rustls::ServerConnection;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

/// Room in the buffer for what one step of TLS may decrypt: a record and what was held before it.
const TLS_STEP: usize = 40 << 10;

/// Whether a connection may hold more to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadStatus {
    /// All there was is read.
    Drained,
    /// As much as fits was read; there may be more.
    More,
    /// The sender has sent its last byte.
    Eof,
}

/// Why a connection is closed by this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    ByPeer,
    /// It broke the rules of its dialect; the word that counts such connections.
    Violation(&'static str),
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
            Closed::Violation(name) => name,
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
    pub(crate) session: Box<dyn Session>,
    pub(crate) dialect: &'static Dialect,
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
    /// The sender has sent its last byte; answers may be due.
    pub(crate) is_ended: bool,
    /// What is waited for: that it can be read, that it can be written.
    pub(crate) wants: (bool, bool),
    /// Whether a TLS peer showed a certificate that was checked.
    pub(crate) is_authenticated: bool,
}

/// What one reading brought.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// Messages for the log.
    pub(crate) messages: Tally,
    /// Messages that were cut.
    pub(crate) truncated: u64,
    /// Counts that can't be one.
    pub(crate) framing_errors: u64,
    /// An envelope, to be opened.
    pub(crate) envelope: Option<Vec<u8>>,
    /// A rule that the sender broke: what came before it was taken.
    pub(crate) violation: Option<Violation>,
}

/// A socket that was just accepted.
pub(crate) struct Accepted {
    pub(crate) stream: TcpStream,
    pub(crate) tls: Option<Box<ServerConnection>>,
    pub(crate) peer: IpAddr,
    pub(crate) source: Arc<Source>,
    /// The place of its listener among them.
    pub(crate) listener: usize,
}

impl Connection {
    /// One on which this dialect is spoken.
    pub(crate) fn new(
        accepted: Accepted,
        dialect: &'static Dialect,
        session: Box<dyn Session>,
        key: u64,
    ) -> Connection {
        let now = gabion_runtime::clock::now();
        let Accepted { stream, tls, peer, source, listener } = accepted;
        Connection {
            stream,
            tls,
            session,
            dialect,
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
            wants: (true, false),
            is_authenticated: false,
        }
    }

    /// Reads once into the shared buffer; how much, and whether there may be more.
    pub(crate) fn read_socket(&mut self, buffer: &mut [u8]) -> io::Result<(usize, ReadStatus)> {
        let Some(tls) = self.tls.as_mut() else {
            return match self.stream.read(buffer) {
                Ok(0) => Ok((0, ReadStatus::Eof)),
                Ok(n) if n == buffer.len() => Ok((n, ReadStatus::More)),
                Ok(n) => Ok((n, ReadStatus::Drained)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok((0, ReadStatus::Drained)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok((0, ReadStatus::More)),
                Err(e) => Err(e),
            };
        };
        let (mut got, mut status) = (0, ReadStatus::More);
        // What is decrypted is taken out after every step: TLS takes in nothing while 16 KiB of it wait.
        while status == ReadStatus::More && buffer.len() - got >= TLS_STEP {
            match tls.read_tls(&mut self.stream) {
                Ok(0) => status = ReadStatus::Eof,
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => status = ReadStatus::Drained,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // What came before the fault is kept; the fault shows again at the next reading.
                Err(_) if got > 0 => return Ok((got, ReadStatus::More)),
                Err(e) => return Err(e),
            }
            if let Err(e) = tls.process_new_packets() {
                // The alert gives the client the reason.
                let _ = tls.write_tls(&mut self.stream);
                if got > 0 {
                    return Ok((got, ReadStatus::More));
                }
                return Err(io::Error::new(io::ErrorKind::InvalidData, e));
            }
            while got < buffer.len() {
                match tls.reader().read(&mut buffer[got..]) {
                    Ok(0) => {
                        status = ReadStatus::Eof;
                        break;
                    }
                    Ok(n) => got += n,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    // An end without farewell is an end all the same; what was sent is kept.
                    Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                        status = ReadStatus::Eof;
                        break;
                    }
                    Err(e) => return Err(e),
                }
            }
        }
        Ok((got, status))
    }

    /// Sends what is to be sent, as far as the other side takes it.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        self.session.take_replies(&mut self.out);
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

    /// Gives bytes to the session; messages go into the batch.
    pub(crate) fn take_bytes(
        &mut self,
        bytes: &[u8],
        time_ns: u64,
        now: Instant,
        batch: &mut Batch,
    ) -> Taken {
        let taken = self.hand_on(time_ns, batch, |session, take| session.feed(bytes, take));
        let frames = taken.messages.items + u64::from(taken.envelope.is_some());
        self.frames += frames;
        self.note_frame(now, frames > 0);
        taken
    }

    /// No more bytes come: what is held becomes messages, where it is one.
    pub(crate) fn finish(&mut self, why: Finish, time_ns: u64, batch: &mut Batch) -> Taken {
        let taken = self.hand_on(time_ns, batch, |session, take| {
            session.finish(why, take);
            Ok(())
        });
        self.frames += taken.messages.items + u64::from(taken.envelope.is_some());
        self.within_frame = None;
        taken
    }

    /// Lets the session work; what it hands out goes into the batch.
    fn hand_on(
        &mut self,
        time_ns: u64,
        batch: &mut Batch,
        work: impl FnOnce(&mut dyn Session, &mut dyn FnMut(Message<'_>)) -> Result<(), Violation>,
    ) -> Taken {
        let mut taken = Taken::default();
        let errors = self.session.framing_errors();
        let own_flags = self.flags();
        let (source, key) = (&self.source, self.key);
        let worked = work(self.session.as_mut(), &mut |message| {
            if message.is_envelope {
                taken.envelope = Some(message.bytes.to_vec());
                return;
            }
            let Message { bytes, len_sent, flags, .. } = message;
            let flags = flags.with(own_flags);
            batch.push(source, Record { time_ns, kind: Kind::Message, flags, bytes });
            if message.is_answered {
                batch.wants_receipt(key);
            }
            if flags.has(Flags::TRUNCATED) {
                taken.truncated += 1;
                batch.note_cut(source, time_ns, len_sent, bytes.len());
            }
            taken.messages.add(1, bytes.len() as u64);
        });
        taken.violation = worked.err();
        taken.framing_errors = self.session.framing_errors() - errors;
        taken
    }

    fn flags(&self) -> Flags {
        if self.is_authenticated { Flags::AUTHENTICATED } else { Flags::default() }
    }

    /// A sender at full speed is always inside some frame; slow is one whose frame does not end.
    fn note_frame(&mut self, now: Instant, has_ended_some: bool) {
        let is_within = self.session.is_within_frame();
        self.within_frame = match self.within_frame {
            _ if !is_within => None,
            Some(since) if !has_ended_some => Some(since),
            _ => Some(now),
        };
    }

    /// Whether it has not sent a frame yet. One that waits for its answer has: it is this side that is silent.
    pub(crate) fn is_silent(&self) -> bool {
        self.frames == 0
    }

    /// Whether a handshake is not over yet.
    pub(crate) fn is_opening(&self) -> bool {
        self.tls.as_ref().is_some_and(|t| t.is_handshaking()) || self.session.is_opening()
    }

    /// Whether to read on.
    pub(crate) fn wants_input(&self) -> bool {
        !self.is_ended && self.out.len() < ANSWER_BYTES_MAX && self.session.wants_input()
    }

    /// Whether there is something to send.
    pub(crate) fn wants_output(&self) -> bool {
        !self.out.is_empty() || self.tls.as_ref().is_some_and(|t| t.wants_write())
    }

    /// Whether its sender waits for an answer, or for the rest of one.
    pub(crate) fn owes_an_answer(&self) -> bool {
        self.wants_output() || self.session.unanswered() > 0
    }

    /// Whether nothing is left to do: the sender is done, and so are the answers. A sender that has gone waits for
    /// none, but where it was to go before its answer.
    pub(crate) fn is_done(&self) -> bool {
        let is_over = self.session.is_over() || self.is_ended && !self.session.awaits_last_answer();
        is_over && !self.wants_output()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_logs::limits::RELP_WINDOW;
    use gabion_logs::session::SessionSettings;
    use gabion_seal::Transport;
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
        let dialect = Dialect::named("relp").expect("a row of the table");
        let session = dialect.begin(&SessionSettings::default()).expect("spoken over connections");
        let accepted = Accepted { stream, tls: None, peer: peer.ip(), source, listener: 0 };
        let mut connection = Connection::new(accepted, dialect, session, 1);
        feed_bytes(&mut connection, b"1 open 30 relp_version=0\ncommands=syslog\n");
        (connection, client)
    }

    fn feed_bytes(connection: &mut Connection, bytes: &[u8]) {
        let mut batch = Batch::default();
        let taken = connection.take_bytes(bytes, 0, connection.opened, &mut batch);
        assert_eq!(taken.violation, None);
    }

    /// A client that sends more than fits into the window is read no further until something is durable: no more
    /// waits than the window and what one turn brought.
    #[test]
    fn a_client_that_sends_more_than_the_window_is_read_no_further() {
        let (mut connection, _client) = relp();
        let mut sent = 2..;
        let mut turns = 0;
        while connection.wants_input() {
            let turn: String =
                sent.by_ref().take(100).map(|n| format!("{n} syslog 3 abc\n")).collect();
            feed_bytes(&mut connection, turn.as_bytes());
            turns += 1;
            assert!(turns <= RELP_WINDOW / 100 + 1, "{turns}");
        }
        let unanswered = connection.session.unanswered();
        let window = RELP_WINDOW as u64;
        assert!((window..window + 100).contains(&unanswered), "{unanswered}");
        connection.session.durable(unanswered);
        connection.write().unwrap();
        assert!(connection.wants_input() && connection.session.unanswered() == 0);
    }

    /// A client that reads no answers is read no further when some of them wait, and its connection holds only those.
    #[test]
    fn a_client_that_reads_no_answers_is_read_no_further() {
        let (mut connection, client) = relp();
        rustix::net::sockopt::set_socket_recv_buffer_size(&client, 4096).unwrap();
        let most = ANSWER_BYTES_MAX;
        let mut number = 1;
        while connection.wants_input() {
            number += 1;
            feed_bytes(&mut connection, format!("{number} syslog 3 abc\n").as_bytes());
            connection.session.durable(1);
            connection.write().unwrap();
            assert!(number < 1_000_000, "its answers are held without a bound");
        }
        assert!((most..most + 100).contains(&connection.out.len()), "{}", connection.out.len());
        assert!(connection.wants_output() && !connection.is_done());
    }
}
