//! A Unix socket that another program listens at: of datagrams, one for each line, or of a stream.

use super::{Lines, PATIENCE, Receive, Sent};
use crate::clock;
use gabion_record::files::{Endpoint, FileOpener};
use std::io::{self, ErrorKind, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;

enum Socket {
    Datagrams(UnixDatagram),
    Stream(UnixStream),
}

/// Lines to a Unix socket.
pub struct UnixReceiver {
    files: FileOpener,
    endpoint: Endpoint,
    socket: Option<Socket>,
    /// Bytes of the next line that are written already.
    begun: usize,
}

impl std::fmt::Debug for UnixReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnixReceiver").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl UnixReceiver {
    /// A socket of datagrams at this path; `files` connects to it.
    pub fn datagrams(files: FileOpener, path: PathBuf) -> UnixReceiver {
        UnixReceiver { files, endpoint: Endpoint::DatagramsAt(path), socket: None, begun: 0 }
    }

    /// A socket of a stream at this path; `files` connects to it.
    pub fn stream(files: FileOpener, path: PathBuf) -> UnixReceiver {
        UnixReceiver { files, endpoint: Endpoint::StreamAt(path), socket: None, begun: 0 }
    }
}

/// Whether the receiver is there and merely has no room.
pub(super) fn is_full(e: &io::Error) -> bool {
    // ENOBUFS.
    e.kind() == ErrorKind::WouldBlock
        || e.kind() == ErrorKind::TimedOut
        || e.raw_os_error() == Some(105)
}

/// Sends a datagram for each line as `dress` makes it of the line. It returns after a moment, as a receiver that takes a few
/// lines a second would hold it up for minutes, and nobody would learn that it takes some.
pub(super) fn send_datagrams(
    socket: &UnixDatagram,
    lines: &Lines,
    mut dress: impl FnMut(&[u8], &mut Vec<u8>),
) -> (Sent, io::Result<()>) {
    let (mut sent, mut datagram) = (Sent::default(), Vec::new());
    let began = clock::now();
    for line in lines.iter() {
        if began.elapsed() > PATIENCE {
            break;
        }
        datagram.clear();
        dress(line, &mut datagram);
        match socket.send(&datagram) {
            Ok(_) => {}
            // EMSGSIZE: no datagram can be so long.
            Err(e) if e.raw_os_error() == Some(90) => {
                sent.refused = (sent.refused.0 + 1, sent.refused.1 + line.len() as u64);
            }
            Err(e) if e.kind() == ErrorKind::Interrupted || is_full(&e) => break,
            Err(e) => return (sent, Err(e)),
        }
        sent.lines += 1;
    }
    (sent, Ok(()))
}

impl Receive for UnixReceiver {
    fn connect(&mut self) -> io::Result<()> {
        if self.socket.is_some() {
            return Ok(());
        }
        self.begun = 0;
        let socket = self.files.connect(&self.endpoint)?;
        self.socket = Some(if matches!(self.endpoint, Endpoint::DatagramsAt(_)) {
            let socket = UnixDatagram::from(socket);
            socket.set_write_timeout(Some(PATIENCE))?;
            Socket::Datagrams(socket)
        } else {
            let socket = UnixStream::from(socket);
            socket.set_write_timeout(Some(PATIENCE))?;
            Socket::Stream(socket)
        });
        Ok(())
    }

    fn send(&mut self, lines: &Lines) -> (Sent, io::Result<()>) {
        let begun = &mut self.begun;
        match &mut self.socket {
            None => (Sent::default(), Err(ErrorKind::NotConnected.into())),
            Some(Socket::Datagrams(socket)) => {
                send_datagrams(socket, lines, |line, to| to.extend_from_slice(line))
            }
            Some(Socket::Stream(stream)) => send_stream(stream, lines, begun),
        }
    }

    fn close(&mut self) {
        self.socket = None;
    }
}

/// Sends lines one after the other, as far as the receiver has room, for a moment at most; `begun` has the bytes of the next
/// line that are written already.
pub(super) fn send_stream(
    stream: &mut impl Write,
    lines: &Lines,
    begun: &mut usize,
) -> (Sent, io::Result<()>) {
    let mut sent = Sent::default();
    let began = clock::now();
    for line in lines.iter() {
        if began.elapsed() > PATIENCE {
            break;
        }
        match write_rest(stream, line, begun) {
            Ok(true) => sent.lines += 1,
            Ok(false) => break,
            Err(e) => return (sent, Err(e)),
        }
    }
    (sent, Ok(()))
}

/// Writes the rest of a line. Returns whether all of it is written; if not, the receiver has no room.
fn write_rest(stream: &mut impl Write, line: &[u8], begun: &mut usize) -> io::Result<bool> {
    while let Some(rest) = line.get(*begun..).filter(|rest| !rest.is_empty()) {
        match stream.write(rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => *begun += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if is_full(&e) => return Ok(false),
            Err(e) => return Err(e),
        }
    }
    *begun = 0;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::direct_opener;
    use std::io::Read;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_datagram_has_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("eve.sock");
        let receiver = UnixDatagram::bind(&path).unwrap();
        let mut sender = UnixReceiver::datagrams(direct_opener(), path);
        sender.connect().unwrap();
        let huge = vec![b'x'; 4 << 20];
        let (sent, result) = sender.send(&Lines::from_list(&[b"one\n", &huge, b"two\n"]));
        assert!(result.is_ok());
        assert_eq!(sent, Sent { lines: 3, refused: (1, 4 << 20) });
        let mut bytes = [0; 64];
        for wanted in [&b"one\n"[..], b"two\n"] {
            let n = receiver.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..n], wanted);
        }
    }

    /// A receiver that takes a line now and then: a call returns after a moment, with what was taken.
    #[test]
    fn a_slow_receiver_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("eve.sock");
        let receiver = UnixDatagram::bind(&path).unwrap();
        let mut sender = UnixReceiver::datagrams(direct_opener(), path);
        sender.connect().unwrap();
        std::thread::spawn(move || {
            while receiver.recv(&mut [0; 64]).is_ok() {
                std::thread::sleep(PATIENCE / 5);
            }
        });
        let lines: Vec<&[u8]> = vec![b"line\n"; 1_000];
        let began = clock::now();
        let (sent, result) = sender.send(&Lines::from_list(&lines));
        assert!(result.is_ok() && sent.lines > 0 && sent.lines < 999, "{sent:?}");
        // 1,000 lines would take 100 seconds.
        assert!(began.elapsed() < 20 * PATIENCE, "{:?}", began.elapsed());
    }

    /// A reader that is slow gets each line once; one that goes and comes back gets the line that was cut again.
    #[test]
    fn a_stream_continues_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("eve.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let mut sender = UnixReceiver::stream(direct_opener(), path);
        sender.connect().unwrap();
        let (mut reader, _) = listener.accept().unwrap();
        let line: Vec<u8> =
            (0..1_000_000u32).map(|n| b'a' + (n % 26) as u8).chain([b'\n']).collect();
        let lines = Lines::from_list(&[&line]);
        let (sent, result) = sender.send(&lines);
        assert!(result.is_ok() && sent.lines == 0, "it does not fit");
        let reading = std::thread::spawn(move || {
            let mut all = vec![0; 1_000_001];
            reader.read_exact(&mut all).unwrap();
            all
        });
        let mut again = sender.send(&lines);
        while again.0.lines == 0 {
            again.1.unwrap();
            again = sender.send(&lines);
        }
        assert_eq!(reading.join().unwrap(), line);
        // The reader is gone.
        while sender.send(&Lines::from_list(&[b"lost\n"])).1.is_ok() {}
        sender.close();
        sender.connect().unwrap();
        let (mut reader, _) = listener.accept().unwrap();
        assert_eq!(sender.send(&Lines::from_list(&[b"three\n"])).0.lines, 1);
        let mut bytes = [0; 6];
        reader.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"three\n");
    }
}
