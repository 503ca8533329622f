//! A port at which another program accepts: lines one after the other.

use super::unix::send_stream;
use super::{Lines, PATIENCE, Receive, Sent};
use gabion_record::files::{Endpoint, FileOpener};
use std::io::{self, ErrorKind};
use std::net::TcpStream;

/// Lines to a server's port.
#[derive(Debug)]
pub struct TcpReceiver {
    files: FileOpener,
    endpoint: Endpoint,
    stream: Option<TcpStream>,
    /// Bytes of the next line that are written already.
    begun: usize,
}

impl TcpReceiver {
    /// The server's name or address, and its port; `files` connects to it.
    pub fn new(files: FileOpener, server: String, port: u16) -> TcpReceiver {
        let endpoint = Endpoint::Tcp { server, port };
        TcpReceiver { files, endpoint, stream: None, begun: 0 }
    }
}

impl Receive for TcpReceiver {
    fn connect(&mut self) -> io::Result<()> {
        if self.stream.is_none() {
            self.begun = 0;
            let stream = TcpStream::from(self.files.connect(&self.endpoint)?);
            stream.set_write_timeout(Some(PATIENCE))?;
            self.stream = Some(stream);
        }
        Ok(())
    }

    fn send(&mut self, lines: &Lines) -> (Sent, io::Result<()>) {
        match &mut self.stream {
            None => (Sent::default(), Err(ErrorKind::NotConnected.into())),
            Some(stream) => send_stream(stream, lines, &mut self.begun),
        }
    }

    fn close(&mut self) {
        self.stream = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::direct_opener;
    use std::io::Read;
    use std::net::TcpListener;

    /// One that goes and comes back gets lines from their beginning.
    #[test]
    fn a_server_that_comes_back_gets_whole_lines() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut sender = TcpReceiver::new(direct_opener(), "localhost".to_owned(), port);
        let mut receive = |line: &[u8]| {
            sender.connect().unwrap();
            let (mut reader, _) = listener.accept().unwrap();
            assert_eq!(sender.send(&Lines::from_list(&[line])).0.lines, 1);
            let mut bytes = vec![0; line.len()];
            reader.read_exact(&mut bytes).unwrap();
            assert_eq!(bytes, line);
            drop(reader);
            while sender.send(&Lines::from_list(&[b"lost\n"])).1.is_ok() {}
            sender.close();
        };
        receive(b"one\n");
        receive(b"two\n");
        drop(listener);
        assert!(sender.connect().is_err());
    }
}
