//! Sockets to listen on: tried, bound, taken over from a service manager. What is open is handed to the server as
//! descriptors, so that they may be opened by another user, or another process, than the one that reads.

use crate::error::{Error, Result};
use gabion_logs::dialect::{Carrier, Dialect};
use gabion_runtime::sockets::{self, Inherited};
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Where a socket is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An address of the network.
    Address(SocketAddr),
    /// A path of the machine.
    Path(PathBuf),
}

/// Where a dialect is spoken: what a server listens on, or what load is sent to.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// What is spoken there.
    pub dialect: &'static Dialect,
    /// Where.
    pub place: Place,
}

/// A socket that is open.
#[derive(Debug)]
pub struct ListenSocket {
    /// What is spoken there.
    pub dialect: &'static Dialect,
    /// The socket: one of datagrams, or one that listens.
    pub descriptor: OwnedFd,
    /// Where it is, for people.
    pub place: String,
    /// It outlives this process, and the next one reads what is left in it.
    pub is_inherited: bool,
}

impl Endpoint {
    /// Datagrams before connections: the order in which sockets are bound and numbered.
    fn rank(&self) -> u8 {
        match self.dialect.carrier {
            Carrier::Udp => 0,
            Carrier::Local => 1,
            Carrier::Tcp | Carrier::Tls => 2,
        }
    }

    fn bind(&self) -> Result<ListenSocket> {
        let transport = self.dialect.name();
        let (descriptor, place) = match (&self.place, self.dialect.carrier) {
            (Place::Path(path), _) => (bind_local(path)?.into(), path.display().to_string()),
            (Place::Address(address), Carrier::Udp | Carrier::Local) => {
                let bound = UdpSocket::bind(address);
                let socket = bound.map_err(|e| unbound(transport, *address, e))?;
                let place = socket.local_addr().map_or_else(|_| String::new(), |a| a.to_string());
                (socket.into(), place)
            }
            (Place::Address(address), Carrier::Tcp | Carrier::Tls) => {
                let bound = TcpListener::bind(address);
                let socket = bound.map_err(|e| unbound(transport, *address, e))?;
                let place = socket.local_addr().map_or_else(|_| String::new(), |a| a.to_string());
                (socket.into(), place)
            }
        };
        Ok(ListenSocket { dialect: self.dialect, descriptor, place, is_inherited: false })
    }
}

/// Tries whether everything that is to listen can be had, and the address of the metrics too, and lets go of it again.
/// Nobody is answered meanwhile: what is not open yet accepts no connection.
///
/// # Errors
/// Those of [`bind`], as far as they can be known before.
pub fn probe(addresses: &[Endpoint], metrics: Option<SocketAddr>) -> Result<()> {
    if addresses.is_empty() && std::env::var_os("LISTEN_FDS").is_none() {
        return Err(Error::NoSocket);
    }
    let (mut streams, mut datagrams, mut paths) = (Vec::new(), Vec::new(), Vec::new());
    for address in addresses {
        match (&address.place, address.dialect.carrier) {
            (Place::Path(path), _) => paths.push(path),
            (Place::Address(at), Carrier::Udp | Carrier::Local) => {
                datagrams.push((address.dialect.name(), *at));
            }
            (Place::Address(at), Carrier::Tcp | Carrier::Tls) => {
                streams.push((address.dialect.name(), *at));
            }
        }
    }
    streams.extend(metrics.map(|at| (METRICS, at)));
    // Held until all were tried, so that one that is named twice is found out.
    let mut held: Vec<OwnedFd> = Vec::new();
    for (n, (name, address)) in streams.iter().enumerate() {
        let is_twice = address.port() != 0
            && streams.get(..n).is_some_and(|before| before.iter().any(|b| b.1 == *address));
        let bound =
            if is_twice { Err(io::ErrorKind::AddrInUse.into()) } else { bind_silent(*address) };
        held.push(bound.map_err(|e| unbound(name, *address, e))?);
    }
    for (name, address) in datagrams {
        held.push(UdpSocket::bind(address).map_err(|e| unbound(name, address, e))?.into());
    }
    paths.into_iter().try_for_each(|path| probe_local(path))
}

/// Binds everything that is to listen.
///
/// # Errors
/// The first that can't be bound.
pub fn bind(addresses: &[Endpoint]) -> Result<Vec<ListenSocket>> {
    let mut sorted: Vec<&Endpoint> = addresses.iter().collect();
    sorted.sort_by_key(|address| address.rank());
    sorted.into_iter().map(Endpoint::bind).collect()
}

/// The sockets that the service manager opened for this process. To be called once.
///
/// # Errors
/// A descriptor that is no socket to listen on.
pub fn inherited() -> Result<Vec<ListenSocket>> {
    let mut all = Vec::new();
    for (descriptor, kind, name) in sockets::inherited().map_err(Error::Inherited)? {
        let carrier = match kind {
            Inherited::Udp => Carrier::Udp,
            Inherited::UnixDatagram => Carrier::Local,
            Inherited::Tcp => Carrier::Tcp,
        };
        let dialect = Dialect::inherited(carrier, &name).ok_or(Error::NoSocket)?;
        let place = match carrier {
            Carrier::Local => "inherited".to_owned(),
            Carrier::Udp | Carrier::Tcp | Carrier::Tls => local_address(&descriptor),
        };
        // A listener is closed to those that come when this process ends; datagrams wait for the next one.
        let is_inherited = matches!(carrier, Carrier::Udp | Carrier::Local);
        all.push(ListenSocket { dialect, descriptor, place, is_inherited });
    }
    Ok(all)
}

/// What the socket of metrics is called.
const METRICS: &str = "--metrics";

/// The socket for metrics, at an address of this machine.
///
/// # Errors
/// When it is an address for other machines, too, or can't be bound.
pub fn bind_metrics(address: SocketAddr) -> Result<TcpListener> {
    if !address.ip().is_loopback() {
        return Err(Error::ForeignAddress { address });
    }
    let socket = TcpListener::bind(address).map_err(|e| unbound(METRICS, address, e))?;
    socket.set_nonblocking(true).map_err(|e| unbound(METRICS, address, e))?;
    Ok(socket)
}

fn bind_local(path: &Path) -> Result<UnixDatagram> {
    let failed = |e: io::Error| local_fault(path, e);
    // A socket that nobody listens on any more is in the way; anything else is not ours to remove.
    if std::fs::symlink_metadata(path).is_ok_and(|found| is_dead_socket(path, &found)) {
        std::fs::remove_file(path).map_err(failed)?;
    }
    let socket = UnixDatagram::bind(path).map_err(failed)?;
    // The programs that log do not run as the user that listens.
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).map_err(failed)?;
    Ok(socket)
}

/// Whether a socket is there that no program listens on.
fn is_dead_socket(path: &Path, found: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    found.file_type().is_socket() && UnixDatagram::unbound().is_ok_and(|s| s.connect(path).is_err())
}

fn probe_local(path: &Path) -> Result<()> {
    if let Ok(found) = std::fs::symlink_metadata(path) {
        // A dead socket is replaced once the log is open; anything else is not ours to remove.
        let in_use = || local_fault(path, io::ErrorKind::AddrInUse.into());
        return if is_dead_socket(path, &found) { Ok(()) } else { Err(in_use()) };
    }
    let socket = UnixDatagram::bind(path).map_err(|e| local_fault(path, e))?;
    std::fs::remove_file(path).map_err(|e| local_fault(path, e))?;
    drop(socket);
    Ok(())
}

/// A socket that is bound to an address and does not listen.
fn bind_silent(address: SocketAddr) -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // As the system library does for those that listen.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    Ok(socket)
}

fn local_address(socket: &OwnedFd) -> String {
    let address = rustix::net::getsockname(socket).ok().and_then(|a| SocketAddr::try_from(a).ok());
    address.map_or_else(String::new, |a| a.to_string())
}

fn local_fault(path: &Path, source: io::Error) -> Error {
    Error::LocalSocket { path: path.to_owned(), source }
}

fn unbound(transport: &'static str, address: SocketAddr, source: io::Error) -> Error {
    Error::Bind { transport, address, source }
}
