//! A Redis server: lines become entries of a list or a stream, or messages of a channel (RESP 2, redis.io/docs).

use super::unix::is_full;
use super::{Lines, PATIENCE, Receive, Sent};
use crate::limits::REDIS_REPLY_BYTES_MAX;
use gabion_record::files::{Endpoint, FileOpener};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long one answer may take in all: then the connection is closed, and lines without an answer are sent again.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// What a line becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedisMode {
    /// The first entry of a list.
    PushFirst,
    /// Its last entry.
    PushLast,
    /// A message of a channel.
    Publish,
    /// An entry of a stream, which keeps a number of them (0: all), exactly or about.
    Stream {
        /// Entries kept.
        len_max: u64,
        /// Exactly that number.
        is_exact: bool,
    },
}

/// A server, and what it is to do with lines.
#[derive(Clone, Debug)]
pub struct RedisSettings {
    /// Its name or address, or the path of its socket.
    pub server: String,
    /// Its port.
    pub port: u16,
    /// What a line becomes.
    pub mode: RedisMode,
    /// The name of the list, channel or stream.
    pub key: String,
    /// Lines that are sent before answers are awaited.
    pub batch: usize,
}

enum Connection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Connection {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Connection::Tcp(stream) => stream.write_all(bytes),
            Connection::Unix(stream) => stream.write_all(bytes),
        }
    }

    fn read_some(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Connection::Tcp(stream) => stream.read(bytes),
            Connection::Unix(stream) => stream.read(bytes),
        }
    }
}

/// Lines to a Redis server.
pub struct RedisReceiver {
    files: FileOpener,
    settings: RedisSettings,
    connection: Option<Connection>,
    /// Commands of a batch.
    request: Vec<u8>,
    /// What came and is not read yet.
    answers: Vec<u8>,
}

impl std::fmt::Debug for RedisReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisReceiver").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// An answer to a command that has one line; none where it is not whole yet. The number is its length.
fn answer(bytes: &[u8]) -> io::Result<Option<(bool, usize)>> {
    let other = || io::Error::other("the answer does not follow the protocol of Redis");
    let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") else {
        return if bytes.len() > REDIS_REPLY_BYTES_MAX { Err(other()) } else { Ok(None) };
    };
    match bytes.first() {
        Some(b'+' | b':') => Ok(Some((true, end + 2))),
        Some(b'-') => Ok(Some((false, end + 2))),
        // The id of an entry of a stream: its length, then the text.
        Some(b'$') => {
            let len = bytes.get(1..end).and_then(|n| std::str::from_utf8(n).ok()?.parse().ok());
            let len: usize = len.filter(|n| *n <= REDIS_REPLY_BYTES_MAX).ok_or_else(other)?;
            let all = end + 2 + len + 2;
            Ok((bytes.len() >= all).then_some((true, all)))
        }
        _ => Err(other()),
    }
}

fn add_command(parts: &[&[u8]], to: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = write!(to, "*{}\r\n", parts.len());
    for part in parts {
        let _ = write!(to, "${}\r\n", part.len());
        to.extend_from_slice(part);
        to.extend_from_slice(b"\r\n");
    }
}

impl RedisReceiver {
    /// Lines as these settings say; `files` connects to the server.
    pub fn new(files: FileOpener, settings: RedisSettings) -> RedisReceiver {
        let (request, answers) = (Vec::new(), Vec::new());
        RedisReceiver { files, settings, connection: None, request, answers }
    }

    /// Adds the command for a line.
    fn add_line(&mut self, line: &[u8]) {
        let (key, to) = (self.settings.key.as_bytes(), &mut self.request);
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        match self.settings.mode {
            RedisMode::PushFirst => add_command(&[b"LPUSH", key, line], to),
            RedisMode::PushLast => add_command(&[b"RPUSH", key, line], to),
            RedisMode::Publish => add_command(&[b"PUBLISH", key, line], to),
            RedisMode::Stream { len_max: 0, .. } => {
                add_command(&[b"XADD", key, b"*", b"eve", line], to);
            }
            RedisMode::Stream { len_max, is_exact } => {
                let about: &[u8] = if is_exact { b"=" } else { b"~" };
                let most = len_max.to_string();
                let most = most.as_bytes();
                add_command(&[b"XADD", key, b"MAXLEN", about, most, b"*", b"eve", line], to);
            }
        }
    }

    /// The next answer: whether the server took the line.
    fn next_answer(&mut self) -> io::Result<bool> {
        let began = crate::clock::now();
        loop {
            if let Some((is_taken, len)) = answer(&self.answers)? {
                self.answers.drain(..len);
                return Ok(is_taken);
            }
            let mut piece = [0; 4096];
            let connection = self.connection.as_mut().ok_or(ErrorKind::NotConnected)?;
            match connection.read_some(&mut piece) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.answers.extend_from_slice(piece.get(..n).unwrap_or_default()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if is_full(&e) && began.elapsed() < ANSWER_WAIT => {}
                Err(e) => return Err(e),
            }
        }
    }
}

impl Receive for RedisReceiver {
    fn connect(&mut self) -> io::Result<()> {
        if self.connection.is_some() {
            return Ok(());
        }
        self.answers.clear();
        let of = &self.settings;
        self.connection = Some(if of.server.starts_with('/') {
            let endpoint = Endpoint::StreamAt(of.server.clone().into());
            let stream = UnixStream::from(self.files.connect(&endpoint)?);
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Connection::Unix(stream)
        } else {
            let endpoint = Endpoint::Tcp { server: of.server.clone(), port: of.port };
            let stream = TcpStream::from(self.files.connect(&endpoint)?);
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.set_nodelay(true)?;
            Connection::Tcp(stream)
        });
        Ok(())
    }

    fn send(&mut self, lines: &Lines) -> (Sent, io::Result<()>) {
        let mut sent = Sent::default();
        let batch: Vec<&[u8]> = lines.iter().take(self.settings.batch.max(1)).collect();
        self.request.clear();
        batch.iter().for_each(|line| self.add_line(line));
        let request = std::mem::take(&mut self.request);
        let written = match &mut self.connection {
            Some(connection) => connection.write_all(&request),
            None => Err(ErrorKind::NotConnected.into()),
        };
        self.request = request;
        if let Err(e) = written {
            return (sent, Err(e));
        }
        for line in batch {
            match self.next_answer() {
                Ok(true) => {}
                Ok(false) => {
                    sent.refused = (sent.refused.0 + 1, sent.refused.1 + line.len() as u64)
                }
                Err(e) => return (sent, Err(e)),
            }
            sent.lines += 1;
        }
        (sent, Ok(()))
    }

    fn close(&mut self) {
        self.connection = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn answers_are_read_in_pieces() {
        let cases: [(&[u8], bool); 4] = [
            (b"+OK\r\n", true),
            (b":12\r\n", true),
            (b"-ERR no\r\n", false),
            (b"$3\r\n1-0\r\n", true),
        ];
        for (bytes, is_taken) in cases {
            for cut in 0..bytes.len() {
                assert_eq!(answer(&bytes[..cut]).unwrap(), None, "{cut}");
            }
            assert_eq!(answer(bytes).unwrap(), Some((is_taken, bytes.len())));
        }
        for wrong in [&b"HTTP/1.0 400\r\n"[..], b"$999999999\r\n", b"$x\r\n", b"\r\n"] {
            assert!(answer(wrong).is_err());
        }
        assert!(answer(&vec![b'+'; REDIS_REPLY_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn a_batch_is_sent_before_its_answers_are_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let wanted = b"*3\r\n$5\r\nRPUSH\r\n$1\r\nk\r\n$1\r\na\r\n*3\r\n$5\r\nRPUSH\r\n$1\r\nk\r\n$2\r\nbc\r\n";
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut all = vec![0; wanted.len()];
            stream.read_exact(&mut all).unwrap();
            stream.write_all(b":1\r\n-OOM command not allowed\r\n").unwrap();
            all
        });
        let mut sender = RedisReceiver::new(
            crate::files::direct_opener(),
            RedisSettings {
                server: "127.0.0.1".to_owned(),
                port,
                mode: RedisMode::PushLast,
                key: "k".to_owned(),
                batch: 2,
            },
        );
        sender.connect().unwrap();
        let (sent, result) = sender.send(&Lines::from_list(&[b"a\n", b"bc\n", b"d\n"]));
        assert!(result.is_ok());
        assert_eq!(sent, Sent { lines: 2, refused: (1, 3) });
        assert_eq!(server.join().unwrap(), wanted);
    }
}
