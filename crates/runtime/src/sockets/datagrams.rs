//! Datagrams by the batch: `recvmmsg` with the kernel's count of what it dropped and, on local
//! sockets, who sent; `sendmmsg` for those who make load; options of sockets that no crate has. One system call moves up to
//! [`DatagramBatch::LEN`] datagrams.
//!
//! The kernel shortens the lengths of address and control data on every call, so all headers are
//! written again each time; that also keeps the pointers in them from outliving what they point to.
//!
//! `unsafe` stands here because neither std nor rustix have these calls.
#![allow(unsafe_code)]

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

pub use crate::limits::DATAGRAM_MAX;

/// Room for control data of one datagram: a counter and credentials, with headers and padding.
const CONTROL: usize = 128;

/// The sender on a local socket, as the kernel vouches for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// Process.
    pub pid: i32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// One datagram of the last batch.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Its bytes, cut at [`DATAGRAM_MAX`].
    pub bytes: &'a [u8],
    /// Its length as sent.
    pub len_sent: usize,
    /// Its sender on the network; none on a local socket.
    pub peer: Option<SocketAddr>,
    /// Datagrams dropped on this socket since it was opened, which the kernel reports with this one.
    pub dropped: Option<u32>,
    /// The sending process on a local socket.
    pub credentials: Option<Credentials>,
}

#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL]);

/// Buffers for one batch; reused.
pub struct DatagramBatch {
    bytes: Vec<u8>,
    names: Vec<libc::sockaddr_storage>,
    controls: Vec<Control>,
    /// Per datagram received: length as sent, bytes of name, bytes of control data.
    got: Vec<(usize, usize, usize)>,
}

impl std::fmt::Debug for DatagramBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DatagramBatch({})", self.got.len())
    }
}

impl Default for DatagramBatch {
    fn default() -> DatagramBatch {
        DatagramBatch::new()
    }
}

impl DatagramBatch {
    /// Datagrams in one call.
    pub const LEN: usize = 64;

    /// Buffers of 4 MiB, of which only what is used is ever touched.
    pub fn new() -> DatagramBatch {
        // SAFETY: all-zero bytes are a valid `sockaddr_storage` (plain integers).
        let name: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        DatagramBatch {
            bytes: vec![0; Self::LEN * DATAGRAM_MAX],
            names: vec![name; Self::LEN],
            controls: vec![Control([0; CONTROL]); Self::LEN],
            got: Vec::with_capacity(Self::LEN),
        }
    }

    /// Receives what is there, at most a batch, without waiting. Returns how many; 0 when none.
    ///
    /// # Errors
    /// What the system says, except that there is nothing.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.got.clear();
        let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; Self::LEN];
        // SAFETY: all-zero bytes are a valid `mmsghdr` (null pointers, integers).
        let mut headers: [libc::mmsghdr; Self::LEN] = unsafe { std::mem::zeroed() };
        for (i, buffer) in self.bytes.chunks_exact_mut(DATAGRAM_MAX).enumerate().take(Self::LEN) {
            vectors[i] =
                libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: DATAGRAM_MAX };
            let header = &mut headers[i].msg_hdr;
            header.msg_name = (&raw mut self.names[i]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = &raw mut vectors[i];
            header.msg_iovlen = 1;
            header.msg_control = self.controls[i].0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL;
        }
        // SAFETY: every header points to a name, one vector and a control buffer of the stated
        // lengths, each its own; all of them live in `self` or on this stack until the call returns.
        let n = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                Self::LEN as libc::c_uint,
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
                std::ptr::null_mut(),
            )
        };
        let Ok(n) = usize::try_from(n) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                _ => Err(error),
            };
        };
        for header in headers.iter().take(n) {
            self.got.push((
                header.msg_len as usize,
                header.msg_hdr.msg_namelen as usize,
                header.msg_hdr.msg_controllen,
            ));
        }
        Ok(n)
    }

    /// The datagrams of the last call.
    pub fn iter(&self) -> impl Iterator<Item = Datagram<'_>> {
        self.got.iter().enumerate().map(|(i, &(len_sent, name_len, control_len))| {
            let from = i * DATAGRAM_MAX;
            let control = &self.controls[i].0[..control_len.min(CONTROL)];
            let (dropped, credentials) = read_control(control);
            Datagram {
                bytes: &self.bytes[from..from + len_sent.min(DATAGRAM_MAX)],
                len_sent,
                peer: read_name(&self.names[i], name_len),
                dropped,
                credentials,
            }
        })
    }
}

/// An address of the network out of what the kernel wrote.
fn read_name(name: &libc::sockaddr_storage, len: usize) -> Option<SocketAddr> {
    match libc::c_int::from(name.ss_family) {
        libc::AF_INET if len >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: the family says that the storage, which is larger and as aligned, holds one.
            let v4 = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::new(IpAddr::V4(ip), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 if len >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: as above.
            let v6 = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr).to_canonical();
            Some(SocketAddr::new(ip, u16::from_be(v6.sin6_port)))
        }
        _ => None,
    }
}

/// Drop counter and credentials out of control data: each item is a header (length, level, type)
/// and its data, padded to 8 bytes.
fn read_control(mut control: &[u8]) -> (Option<u32>, Option<Credentials>) {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    let (mut dropped, mut credentials) = (None, None);
    let int = |b: &[u8], at: usize| -> Option<i32> {
        Some(i32::from_ne_bytes(b.get(at..at + 4)?.try_into().ok()?))
    };
    while control.len() >= HEADER {
        let Some(len) = control.get(..size_of::<usize>()).and_then(|b| b.try_into().ok()) else {
            break;
        };
        let len = usize::from_ne_bytes(len);
        let (Some(level), Some(kind)) = (int(control, HEADER - 8), int(control, HEADER - 4)) else {
            break;
        };
        let Some(item) = control.get(HEADER..len) else { break };
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                dropped = int(item, 0).map(i32::cast_unsigned);
            }
            (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) => {
                if let (Some(pid), Some(uid), Some(gid)) =
                    (int(item, 0), int(item, 4), int(item, 8))
                {
                    credentials = Some(Credentials {
                        pid,
                        uid: uid.cast_unsigned(),
                        gid: gid.cast_unsigned(),
                    });
                }
            }
            _ => {}
        }
        control = control.get(len.next_multiple_of(8)..).unwrap_or_default();
    }
    (dropped, credentials)
}

/// An option that is switched on.
const ON: libc::c_int = 1;

/// Asks the kernel to report with each datagram how many it has dropped on this socket.
///
/// # Errors
/// What the system says.
pub fn count_drops(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, ON)
}

/// Datagrams that the kernel has dropped on this socket since it was opened, of whatever family; the counter
/// that is reported with the next datagram, but there when none comes. 32 bits that turn over.
#[must_use]
pub fn drops(socket: BorrowedFd<'_>) -> Option<u32> {
    // `struct sk_meminfo` (linux/sock_diag.h): nine numbers, the last of which are drops.
    const DROPS: usize = 8;
    let mut numbers = [0u32; DROPS + 1];
    let mut len = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which is what the array holds, and then says how many.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            numbers.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    (done == 0 && len as usize == size_of_val(&numbers)).then_some(numbers[DROPS])
}

/// Makes a listening socket ask its peers for segments of at most n bytes of payload.
///
/// # Errors
/// What the system says.
pub fn limit_segments(socket: BorrowedFd<'_>, bytes: u16) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, libc::c_int::from(bytes))
}

/// From now on the kernel drops each datagram that comes to this UDP socket, and counts it among the socket's
/// drops; what it holds can still be read, and is finite. For the end of a listener: a sender at full
/// speed can neither keep it reading for ever nor lose what nobody counts.
///
/// # Errors
/// What the system says.
pub fn refuse_further(socket: BorrowedFd<'_>) -> io::Result<()> {
    // One instruction: take no byte of any datagram (`man 7 socket`, SO_ATTACH_FILTER).
    let mut none =
        [libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 }];
    let program = libc::sock_fprog { len: 1, filter: none.as_mut_ptr() };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program)
}

fn set_option<T>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: T,
) -> io::Result<()> {
    // SAFETY: the option's value, and what it points to, live until the call returns; the kernel reads as
    // as many bytes as the length says.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends datagrams on a connected socket, as many as it takes in one call; returns how many.
///
/// # Errors
/// What the system says when not even the first was taken.
pub fn send_batch(socket: BorrowedFd<'_>, datagrams: &[&[u8]]) -> io::Result<usize> {
    let mut vectors =
        [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; DatagramBatch::LEN];
    // SAFETY: all-zero bytes are a valid `mmsghdr`.
    let mut headers: [libc::mmsghdr; DatagramBatch::LEN] = unsafe { std::mem::zeroed() };
    let n = datagrams.len().min(DatagramBatch::LEN);
    for (i, datagram) in datagrams.iter().take(n).enumerate() {
        vectors[i] =
            libc::iovec { iov_base: datagram.as_ptr().cast_mut().cast(), iov_len: datagram.len() };
        headers[i].msg_hdr.msg_iov = &raw mut vectors[i];
        headers[i].msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: the first `n` headers each point to one vector over borrowed bytes, which the kernel
    // only reads; all live until the call returns.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            n as libc::c_uint,
            libc::MSG_NOSIGNAL,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Takes over a descriptor that the starter of this process left open for it.
///
/// # Errors
/// When there is no such descriptor.
pub(super) fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: asking for the flags of any number is harmless.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open (checked above), and by the protocol of socket activation it is
    // this process's alone; the caller takes each number once.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    // SAFETY: as above; it must not be inherited further.
    unsafe { libc::fcntl(number, libc::F_SETFD, flags | libc::FD_CLOEXEC) };
    Ok(descriptor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn a_socket_that_refuses_counts_what_it_drops_and_gives_what_it_holds() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let inode = rustix::fs::fstat(&socket).unwrap().st_ino;
        for text in [&b"one"[..], b"two"] {
            sender.send_to(text, address).unwrap();
        }
        refuse_further(socket.as_fd()).unwrap();
        for _ in 0..3 {
            sender.send_to(b"late", address).unwrap();
        }
        let mut batch = DatagramBatch::new();
        assert_eq!(batch.receive(socket.as_fd()).unwrap(), 2);
        let texts: Vec<&[u8]> = batch.iter().map(|d| d.bytes).collect();
        assert_eq!(texts, [&b"one"[..], b"two"]);
        assert_eq!(batch.receive(socket.as_fd()).unwrap(), 0);
        assert_eq!(crate::sockets::udp_drops(inode), Some(3));
        assert_eq!(drops(socket.as_fd()), Some(3));
    }

    #[test]
    fn a_batch_comes_as_it_was_sent() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let client = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        client.connect(server.local_addr().expect("bound")).expect("connected");
        count_drops(server.as_fd()).expect("an option of every kernel");
        let long = vec![b'x'; 60_000];
        let sent = send_batch(client.as_fd(), &[b"one", b"", &long]).expect("sent");
        assert_eq!(sent, 3);
        let mut batch = DatagramBatch::new();
        assert_eq!(batch.receive(server.as_fd()).expect("received"), 3);
        let lens: Vec<usize> = batch.iter().map(|d| d.bytes.len()).collect();
        assert_eq!(lens, [3, 0, 60_000]);
        assert!(batch.iter().all(|d| d.peer == client.local_addr().ok()));
        assert_eq!(batch.receive(server.as_fd()).expect("nothing there"), 0);
    }

    #[test]
    fn drops_are_reported_with_the_next_datagram() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        rustix::net::sockopt::set_socket_recv_buffer_size(&server, 4096).expect("an option");
        count_drops(server.as_fd()).expect("an option of every kernel");
        let client = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        client.connect(server.local_addr().expect("bound")).expect("connected");
        for _ in 0..100 {
            client.send(&[7; 200]).expect("sent");
        }
        let mut batch = DatagramBatch::new();
        let mut got = 0;
        loop {
            match batch.receive(server.as_fd()).expect("received") {
                0 => break,
                n => got += n,
            }
        }
        assert_eq!(drops(server.as_fd()).expect("a count") as usize, 100 - got);
        client.send(b"last").expect("sent");
        assert_eq!(batch.receive(server.as_fd()).expect("received"), 1);
        let dropped = batch.iter().find_map(|d| d.dropped).expect("a count");
        assert_eq!(got + dropped as usize, 100);
    }

    #[test]
    fn the_kernel_names_local_senders() {
        let (a, b) = UnixDatagram::pair().expect("a pair");
        rustix::net::sockopt::set_socket_passcred(&b, true).expect("an option");
        a.send(b"hello").expect("sent");
        let mut batch = DatagramBatch::new();
        assert_eq!(batch.receive(b.as_fd()).expect("received"), 1);
        let datagram = batch.iter().next().expect("one");
        assert_eq!(datagram.credentials.map(|c| c.pid), i32::try_from(std::process::id()).ok());
        assert_eq!(datagram.peer, None);
    }
}
