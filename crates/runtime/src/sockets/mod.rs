//! Sockets as log intake needs them: opened with large buffers or inherited from the service manager,
//! waited for in one place, drained by the batch, and asked what the kernel dropped.
//!
//! * [`datagrams`]: batches of datagrams (`unsafe` stands there).
//! * [`packets`]: sockets that see every frame of an interface (`unsafe` stands there).
//! * [`poll`]: waiting for many descriptors, and waking a waiting thread.

mod connecting;
pub mod datagrams;
pub mod packets;
pub mod poll;

use rustix::net::{AddressFamily, SocketType, sockopt};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::Path;

pub use crate::limits::{RECEIVE_BUFFER, RECEIVE_BUFFER_ENOUGH};
pub(crate) use connecting::connect;

/// Asks for a large receive buffer, past the system's limit when allowed; never makes one smaller that
/// was given along with an inherited socket. Returns what there is, in bytes as the kernel counts (twice
/// the payload).
///
/// # Errors
/// What the system says.
pub fn enlarge_receive_buffer(socket: impl AsFd, bytes: usize) -> io::Result<usize> {
    // The kernel takes an int and doubles it.
    let bytes = bytes.min(1 << 29);
    let has = sockopt::socket_recv_buffer_size(&socket)?;
    if has < bytes.saturating_mul(2)
        && sockopt::set_socket_recv_buffer_size_force(&socket, bytes).is_err()
    {
        let most = std::fs::read_to_string("/proc/sys/net/core/rmem_max").ok();
        let most = most.and_then(|m| m.trim().parse().ok()).unwrap_or(bytes);
        if bytes.min(most).saturating_mul(2) > has {
            sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
        }
    }
    Ok(sockopt::socket_recv_buffer_size(&socket)?)
}

/// Reports the state to the service manager (`READY=1`, `WATCHDOG=1`, `STOPPING=1`), if there is one that
/// wants to know.
pub fn notify(state: &str) {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;
    let Ok(place) = std::env::var("NOTIFY_SOCKET") else { return };
    let address = match place.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&place),
    };
    // It is no fault of ours when nobody listens.
    if let (Ok(address), Ok(socket)) = (address, UnixDatagram::unbound()) {
        let _ = socket.send_to_addr(state.as_bytes(), &address);
    }
}

/// A socket for datagrams to the one at a path, such as the system's log. A receiver that is slow is not waited for.
///
/// # Errors
/// What the system says, also that nobody receives there.
pub fn connect_datagrams(path: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// What a descriptor is, as far as listeners are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inherited {
    /// A UDP socket.
    Udp,
    /// A listening TCP socket.
    Tcp,
    /// A local datagram socket.
    UnixDatagram,
}

/// The sockets that the service manager opened for this process (`LISTEN_FDS`), with their names.
/// To be called once.
///
/// # Errors
/// A descriptor that is none, or no socket that listeners know.
pub fn inherited() -> io::Result<Vec<(OwnedFd, Inherited, String)>> {
    let own = std::process::id().to_string();
    if std::env::var("LISTEN_PID").as_deref() != Ok(own.as_str()) {
        return Ok(Vec::new());
    }
    let count = std::env::var("LISTEN_FDS").ok().and_then(|n| n.parse::<i32>().ok()).unwrap_or(0);
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut sockets = Vec::new();
    for number in 3..3 + count.clamp(0, 256) {
        let descriptor = datagrams::adopt(number)?;
        let name = names.next().unwrap_or_default().to_owned();
        let domain = sockopt::socket_domain(&descriptor)?;
        let kind = sockopt::socket_type(&descriptor)?;
        let inherited = match (domain, kind) {
            (AddressFamily::INET | AddressFamily::INET6, SocketType::DGRAM) => Inherited::Udp,
            (AddressFamily::INET | AddressFamily::INET6, SocketType::STREAM) => Inherited::Tcp,
            (AddressFamily::UNIX, SocketType::DGRAM) => Inherited::UnixDatagram,
            _ => {
                let message =
                    format!("inherited descriptor {number} ({name}) is not a socket to listen on");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        };
        sockets.push((descriptor, inherited, name));
    }
    Ok(sockets)
}

/// Datagrams that the kernel dropped on the UDP socket of this inode, by its table; the same counter
/// as the one reported with datagrams, but there when none comes any more.
pub fn udp_drops(inode: u64) -> Option<u32> {
    ["/proc/net/udp", "/proc/net/udp6"].iter().find_map(|path| {
        let table = std::fs::read_to_string(path).ok()?;
        drops_in(&table, inode)
    })
}

fn drops_in(table: &str, inode: u64) -> Option<u32> {
    // sl local rem st tx:rx tr:tm retrnsmt uid timeout inode ref pointer drops
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let found = fields.nth(9)?.parse::<u64>().ok()?;
        (found == inode).then(|| fields.nth(2)?.parse::<u64>().ok()).flatten().map(|d| d as u32)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_table_is_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
            3126: 0100007F:0202 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 81234 2 00000000a5 45732\n";
        assert_eq!(drops_in(table, 81234), Some(45732));
        assert_eq!(drops_in(table, 1), None);
    }

    #[test]
    fn a_buffer_is_as_large_as_allowed() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let got = enlarge_receive_buffer(&socket, 1 << 20).expect("an option");
        let inode = rustix::fs::fstat(&socket).expect("a descriptor").st_ino;
        assert!(got >= 200_000, "{got}");
        assert_eq!(udp_drops(inode), Some(0));
    }
}
