//! Sockets that see every frame of an interface (packet(7)): found by name, opened, bound.
//!
//! A socket is opened without a protocol, so that nothing comes before its reader has memory for it; binding begins
//! the flow of frames.
//!
//! `unsafe` stands here because neither std nor rustix have these addresses and options.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// An interface as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkInterface {
    /// Its number, which a new interface with the same name does not have.
    pub index: u32,
    /// Kind of hardware (`ARPHRD_*`).
    pub hardware: u16,
    /// Largest packet, in bytes.
    pub mtu: u32,
    /// Whether it is up.
    pub is_up: bool,
}

/// A request about the interface with this name.
fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all-zero bytes are a valid `ifreq` (integers and a union of them).
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let (bytes, room) = (name.as_bytes(), request.ifr_name.len());
    if bytes.is_empty() || bytes.len() >= room || bytes.contains(&0) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(request)
}

fn ask(socket: BorrowedFd<'_>, call: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: the calls of `find_interface` read and write one `ifreq`, which `request` is.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), call, std::ptr::from_mut(request)) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Looks an interface up by its name.
///
/// # Errors
/// `NotFound` or `ENODEV` if there is none, `InvalidInput` if no interface can have the name.
pub fn find_interface(socket: BorrowedFd<'_>, name: &str) -> io::Result<NetworkInterface> {
    let mut r = request(name)?;
    ask(socket, libc::SIOCGIFINDEX, &mut r)?;
    // SAFETY: the kernel has written this member of the union for this call; so below.
    let index = unsafe { r.ifr_ifru.ifru_ifindex };
    ask(socket, libc::SIOCGIFHWADDR, &mut r)?;
    // SAFETY: as above.
    let hardware = unsafe { r.ifr_ifru.ifru_hwaddr.sa_family };
    ask(socket, libc::SIOCGIFMTU, &mut r)?;
    // SAFETY: as above.
    let mtu = unsafe { r.ifr_ifru.ifru_mtu };
    ask(socket, libc::SIOCGIFFLAGS, &mut r)?;
    // SAFETY: as above.
    let flags = unsafe { r.ifr_ifru.ifru_flags };
    Ok(NetworkInterface {
        index: u32::try_from(index).unwrap_or(0),
        hardware,
        mtu: u32::try_from(mtu).unwrap_or(0),
        is_up: i32::from(flags) & libc::IFF_UP != 0,
    })
}

/// What an interface says of itself (ethtool(8)). What its driver does not say is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceHardware {
    /// Places for received packets in its ring: those in use, and the most there can be.
    pub ring: Option<(u32, u32)>,
    /// Queues of received packets: those in use, and the most there can be.
    pub queues: Option<(u32, u32)>,
    /// Packets are put together by the kernel (GRO).
    pub gro: Option<bool>,
    /// Packets are put together by the interface (LRO).
    pub lro: Option<bool>,
}

/// Asks an interface about its ring, queues and offloads.
///
/// # Errors
/// `InvalidInput` if no interface can have the name; that there is none shows in the answer.
pub fn interface_hardware(socket: BorrowedFd<'_>, name: &str) -> io::Result<InterfaceHardware> {
    /// Commands of linux/ethtool.h, the call that takes them, and the flag of LRO.
    const RING: u32 = 0x10;
    const CHANNELS: u32 = 0x3c;
    const GRO: u32 = 0x2b;
    const FLAGS: u32 = 0x25;
    const SIOCETHTOOL: libc::Ioctl = 0x8946;
    const LRO: u32 = 1 << 15;
    let mut request = request(name)?;
    // All these structures begin with the command and consist of words; none has more than nine.
    let mut ask_for = |command: u32| -> Option<[u32; 9]> {
        let mut words = [0; 9];
        words[0] = command;
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        ask(socket, SIOCETHTOOL, &mut request).ok().map(|()| words)
    };
    let ring = ask_for(RING).map(|w| (w[5], w[1]));
    let queues = ask_for(CHANNELS).map(|w| (w[5] + w[8], w[1] + w[4]));
    let gro = ask_for(GRO).map(|w| w[1] != 0);
    let lro = ask_for(FLAGS).map(|w| w[1] & LRO != 0);
    Ok(InterfaceHardware { ring, queues, gro, lro })
}

/// A socket that gets no frame yet.
///
/// # Errors
/// `PermissionDenied` without CAP_NET_RAW.
pub fn open_packet_socket() -> io::Result<OwnedFd> {
    // SAFETY: the call takes integers; the descriptor that it returns belongs to nobody else.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// Binds it to an interface: from now on it gets every frame that comes and goes there.
///
/// # Errors
/// The error of the system call.
pub fn bind_packet_socket(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: i32::try_from(index).map_err(|_| io::ErrorKind::InvalidInput)?,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the pointer and the length are those of `address`, which the kernel only reads.
    let done = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Asks the interface for frames that are addressed to others, as long as the socket is open.
///
/// # Errors
/// The error of the system call.
pub fn join_promiscuous(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    let membership = libc::packet_mreq {
        mr_ifindex: i32::try_from(index).map_err(|_| io::ErrorKind::InvalidInput)?,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    // SAFETY: the pointer and the length are those of `membership`, which the kernel only reads.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            (&raw const membership).cast(),
            size_of_val(&membership) as libc::socklen_t,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn the_loopback_is_found_and_names_that_no_interface_has_are_refused() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let lo = find_interface(socket.as_fd(), "lo").unwrap();
        assert!(lo.index > 0 && lo.hardware == libc::ARPHRD_LOOPBACK && lo.is_up, "{lo:?}");
        for name in ["", "sixteen-letters!", "no\0name"] {
            let error = find_interface(socket.as_fd(), name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}");
        }
        let hardware = interface_hardware(socket.as_fd(), "lo").unwrap();
        assert!(hardware.gro.is_some() && hardware.ring.is_none(), "{hardware:?}");
        let error = find_interface(socket.as_fd(), "nothere0").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }
}
