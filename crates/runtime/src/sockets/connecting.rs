//! Connects to receivers of lines: programs that listen at a Unix socket or at a port.

use gabion_record::files::Endpoint;
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Duration;

/// How long an address has to answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// Connects to a receiver.
///
/// # Errors
/// What the system says, for TCP about the last address of the server's name.
pub(crate) fn connect(to: &Endpoint) -> io::Result<OwnedFd> {
    match to {
        Endpoint::StreamAt(path) => Ok(UnixStream::connect(path)?.into()),
        Endpoint::DatagramsAt(path) => {
            let socket = UnixDatagram::unbound()?;
            socket.connect(path)?;
            Ok(socket.into())
        }
        Endpoint::Tcp { server, port } => Ok(connect_tcp(server, *port)?.into()),
    }
}

/// Connects to the first address of a server that answers in time.
fn connect_tcp(server: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::from(ErrorKind::NotFound);
    for address in (server, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(e) => last = e,
        }
    }
    Err(last)
}
