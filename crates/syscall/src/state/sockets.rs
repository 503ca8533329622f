//! Events of sockets: what they are connected to, and which end the process is.

use gabion_record::{Ip, IpProto};
use gabion_scap::{Address, Event, Param, Tuple, types};

use super::{EventFd, State};
use crate::connections::ConnectionKey;
use crate::decode::Raw;
use crate::fd::{self, Connection, End, Ends, Fd, FdKind, L4Proto, Role};
use crate::text::Texts;
use crate::thread::Thread;

/// `EINPROGRESS` as a result.
const EINPROGRESS: i64 = -115;

/// Families of sockets, as the event table numbers them.
mod family {
    pub(super) const UNIX: i64 = 1;
    pub(super) const INET: i64 = 2;
    pub(super) const INET6: i64 = 10;
    pub(super) const NETLINK: i64 = 16;
}

/// Types of sockets.
const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;
const SOCK_RAW: u32 = 3;
/// The bits of a socket's type that are not flags.
const SOCK_TYPE_MASK: u32 = 0xff;
/// `SOCK_CLOEXEC`.
const SOCK_CLOEXEC: u32 = 0o2_000_000;

fn kind_of(domain: i64) -> FdKind {
    match domain {
        family::UNIX => FdKind::Unix,
        family::INET => FdKind::Ipv4,
        family::INET6 => FdKind::Ipv6,
        family::NETLINK => FdKind::Netlink,
        _ => FdKind::Unknown,
    }
}

fn l4proto_of(kind: u32, protocol: u32) -> L4Proto {
    let kind = kind & SOCK_TYPE_MASK;
    match (u8::try_from(protocol).map(IpProto), kind) {
        (_, SOCK_RAW) => L4Proto::Raw,
        (Ok(IpProto::TCP), _) => L4Proto::Tcp,
        (Ok(IpProto::UDP), _) => L4Proto::Udp,
        (Ok(IpProto::ICMP | IpProto::ICMPV6), _) => L4Proto::Icmp,
        // Of 0 the kind decides.
        (Ok(IpProto(0)), SOCK_STREAM) => L4Proto::Tcp,
        (Ok(IpProto(0)), SOCK_DGRAM) => L4Proto::Udp,
        _ => L4Proto::NotApplicable,
    }
}

fn v4_end((ip, port): ([u8; 4], u16)) -> End {
    End { ip: Ip::v4(u32::from_be_bytes(ip)), port }
}

fn v6_end((ip, port): ([u8; 16], u16)) -> End {
    End { ip: Ip::from_bytes(ip), port }
}

/// The two ends of a tuple of IP.
pub(crate) fn ends_of(tuple: &Tuple<'_>) -> Option<(End, End)> {
    match *tuple {
        Tuple::V4(source, dest) => Some((v4_end(source), v4_end(dest))),
        Tuple::V6(source, dest) => {
            // The address of nothing belongs to either version: it is IPv4's unless the other end is of IPv6.
            let (mut source, mut dest) = (v6_end(source), v6_end(dest));
            let is_v4 = |end: &End| end.ip.is_v4() || end.ip.number() == 0;
            if is_v4(&source) && is_v4(&dest) {
                for end in [&mut source, &mut dest].into_iter().filter(|end| !end.ip.is_v4()) {
                    end.ip = Ip::v4(0);
                }
            }
            Some((source, dest))
        }
        Tuple::Unix(..) | Tuple::Other(_) => None,
    }
}

/// Sets a socket's ends and its name.
fn set_ends(fd: &mut Fd, texts: &Texts, (source, dest): (End, End), space: &mut Vec<u8>) {
    fd.kind = if source.ip.is_v4() && dest.ip.is_v4() { FdKind::Ipv4 } else { FdKind::Ipv6 };
    fd.ends = Ends::Both { source, dest };
    name_by_ends(fd, texts, space);
}

fn name_by_ends(fd: &mut Fd, texts: &Texts, space: &mut Vec<u8>) {
    space.clear();
    fd::write_ends(&fd.ends, space);
    fd.set_name(texts, space);
}

/// The name of a connected Unix socket: the kernel's addresses of both ends and the path, as in Falco.
fn name_unix(fd: &mut Fd, texts: &Texts, path: &[u8], space: &mut Vec<u8>) {
    space.clear();
    fd::write_ends(&fd.ends, space);
    if !path.is_empty() {
        space.push(b' ');
        space.extend_from_slice(path);
    }
    fd.set_name(texts, space);
}

/// The names of the connection that a descriptor has.
fn connection_key(fd: &Fd, netns: u32) -> Option<ConnectionKey> {
    let Ends::Both { source, dest } = fd.ends else { return None };
    let (local, remote) = if fd.role == Role::Server { (dest, source) } else { (source, dest) };
    Some(ConnectionKey { netns, l4proto: fd.l4proto, local, remote })
}

impl State {
    /// socket, socketpair.
    pub(super) fn socket_exit(&mut self, event: &Event<'_>, args: &Raw<'_>) {
        let Some(result) = args.number(0).filter(|result| *result >= 0) else { return };
        if event.kind().number == types::SOCKETPAIR_X {
            let (source, dest) = (args.u64(3).unwrap_or(0), args.u64(4).unwrap_or(0));
            for (place, source, dest) in [(1, source, dest), (2, dest, source)] {
                let Some(number) = args.number(place) else { continue };
                self.set_fd(number, |fd, _, _| {
                    fd.kind = FdKind::Unix;
                    fd.ends = Ends::Unix { source, dest };
                });
                self.set_event_fd(number);
            }
            return;
        }
        let domain = args.u32(1).map_or(0, i64::from);
        let (kind, protocol) = (args.u32(2).unwrap_or(0), args.u32(3).unwrap_or(0));
        self.set_fd(result, |fd, _, _| {
            fd.kind = kind_of(domain);
            fd.is_cloexec = kind & SOCK_CLOEXEC != 0;
            if fd.kind.is_ip() {
                fd.l4proto = l4proto_of(kind, protocol);
            }
        });
        self.set_event_fd(result);
    }

    /// bind: the socket has an address of its own.
    pub(super) fn bind_exit(&mut self, event: &Event<'_>, args: &Raw<'_>) {
        if args.number(0).is_none_or(|result| result < 0) {
            return;
        }
        let (Some(number), Some(Param::Address(address))) =
            (self.current.fd_number, event.param(1))
        else {
            return;
        };
        self.change_fd(number, |fd, texts, space| match address {
            Address::V4(..) | Address::V6(..) => {
                let end = match address {
                    Address::V4(ip, port) => v4_end((ip, port)),
                    Address::V6(ip, port) => v6_end((ip, port)),
                    _ => return,
                };
                if end.port == 0 {
                    // The kernel chooses a port later: the socket may still become a client's.
                    space.clear();
                    fd::write_ends(&Ends::Server(end), space);
                    fd.set_name(texts, space);
                    return;
                }
                fd.kind = if end.ip.is_v4() { FdKind::Ipv4Server } else { FdKind::Ipv6Server };
                fd.ends = Ends::Server(end);
                fd.role = Role::Server;
                name_by_ends(fd, texts, space);
            }
            Address::Unix(path) => fd.set_name(texts, path),
            Address::Other(_) => {}
        });
        self.current.is_name_changed = !matches!(address, Address::Other(_));
    }

    /// connect: the kernel's tuple is preferred to the address that the process gave.
    pub(super) fn connect_exit(&mut self, event: &Event<'_>, args: &Raw<'_>) {
        let Some(result) = args.number(0) else { return };
        let Some(number) = self.current.fd_number else { return };
        if result < 0 && result != EINPROGRESS {
            self.change_fd(number, |fd, _, _| {
                // A socket that was connected stays so.
                if fd.connection != Connection::Connected {
                    fd.connection = Connection::Failed;
                }
            });
            return;
        }
        let tuple = match event.param(1) {
            Some(Param::Tuple(tuple)) => Some(tuple),
            _ => None,
        };
        // The kernel's tuple of an IPv4 connection of an IPv6 socket may lack the other end.
        let given = match event.param(3) {
            Some(Param::Address(Address::V4(ip, port))) => Some(v4_end((ip, port))),
            Some(Param::Address(Address::V6(ip, port))) => Some(v6_end((ip, port))),
            _ => None,
        };
        let as_falco = self.options.as_falco;
        let before = self.event_fd().map(|fd| fd.name.clone());
        self.change_fd(number, |fd, texts, space| {
            fd.connection = Connection::Connected;
            match tuple {
                Some(Tuple::Unix(source, dest, path)) => {
                    fd.kind = FdKind::Unix;
                    fd.ends = Ends::Unix { source, dest };
                    name_unix(fd, texts, path, space);
                    fd.role = Role::Client;
                }
                Some(tuple) => {
                    let Some((source, mut dest)) = ends_of(&tuple) else { return };
                    fd.role = Role::Client;
                    let is_v4_in_v6 = fd.kind == FdKind::Ipv6 && source.ip.is_v4();
                    if as_falco && (is_v4_in_v6 || fd.l4proto == L4Proto::NotApplicable) {
                        fd.kind = FdKind::Ipv4;
                        fd.l4proto = L4Proto::NotApplicable;
                        fd.ends = Ends::Both { source, dest };
                        fd.set_name(texts, b"<unknown>");
                        return;
                    }
                    if !as_falco && dest.ip.is_unspecified() {
                        dest = given.unwrap_or(dest);
                    }
                    if fd.l4proto == L4Proto::Unknown {
                        fd.l4proto = L4Proto::Tcp;
                    }
                    set_ends(fd, texts, (source, dest), space);
                }
                None => {}
            }
        });
        let after = self.event_fd().map(|fd| fd.name.clone());
        self.current.is_name_changed = before != after;
        self.note_connection(event, number);
    }

    /// Notes the thread of the connection that a descriptor has now.
    fn note_connection(&mut self, event: &Event<'_>, number: i64) {
        let (Some(main), Some(fd)) = (self.main_thread(), self.event_fd()) else { return };
        let Some(key) = connection_key(fd, event.live.netns) else { return };
        let owner = (event.tid, main.tid, number);
        self.connections.add(key, owner, self.threads.limit() / 8);
        self.threads.extra_held = self.connections.held();
    }

    /// The thread that has a connection, if its descriptor still has these ends.
    pub fn thread_of_connection(&self, key: &ConnectionKey) -> Option<&Thread> {
        let owner = self.connections.get(key)?;
        let fd = self.threads.get(owner.main)?.fds.get(owner.fd)?;
        let found = connection_key(fd, key.netns).filter(|found| found == key);
        found.and_then(|_| self.threads.get(owner.tid).or_else(|| self.threads.get(owner.main)))
    }

    /// accept, accept4: a new descriptor of a server.
    pub(super) fn accept_exit(&mut self, event: &Event<'_>, args: &Raw<'_>) {
        let Some(number) = args.number(0) else { return };
        if number < 0 {
            // Falco shows the tuple of a failed call, which has none, as its name.
            let texts = self.threads.texts.clone();
            self.own_fd = Fd::default();
            fd::set_names(&texts, &mut self.own_fd, b"NULL", b"NULL");
            self.current.fd_number = Some(-1);
            self.current.fd = EventFd::Own;
            return;
        }
        let Some(Param::Tuple(tuple)) = event.param(1) else {
            self.current.fd_number = Some(number);
            return;
        };
        self.set_fd(number, |fd, texts, space| {
            fd.role = Role::Server;
            fd.connection = Connection::Connected;
            match tuple {
                Tuple::Unix(source, dest, path) => {
                    fd.kind = FdKind::Unix;
                    fd.ends = Ends::Unix { source, dest };
                    name_unix(fd, texts, path, space);
                }
                tuple => {
                    if let Some((source, dest)) = ends_of(&tuple) {
                        fd.l4proto = L4Proto::Tcp;
                        set_ends(fd, texts, (source, dest), space);
                    }
                }
            }
        });
        self.set_event_fd(number);
        self.current.is_name_changed = true;
        self.note_connection(event, number);
    }

    /// Calls that send or receive: the tuple of a datagram may give its socket another name.
    pub(super) fn transfer_exit(&mut self, event: &Event<'_>, args: &Raw<'_>) {
        if args.number(0).is_none_or(|result| result < 0) {
            return;
        }
        let kind = event.kind().number;
        let (is_read, place) = match kind {
            types::SEND_X | types::SENDTO_X | types::SENDMSG_X | types::SENDMMSG_X => (false, 4),
            types::RECV_X => (true, 4),
            types::RECVFROM_X | types::RECVMSG_X => {
                (true, if kind == types::RECVFROM_X { 2 } else { 3 })
            }
            _ => (true, 4),
        };
        let (Some(number), Some(Param::Tuple(tuple))) =
            (self.current.fd_number, event.param(place))
        else {
            return;
        };
        if self.current.fd == EventFd::None {
            // A datagram describes its socket, even if the call that made it was never seen.
            if is_read || number < 0 || ends_of(&tuple).is_none() {
                return;
            }
            self.set_fd(number, |fd, _, _| fd.connection = Connection::Connected);
            self.set_event_fd(number);
        }
        let before = self.event_fd().map(|fd| fd.name.clone());
        let Some((source, dest)) = ends_of(&tuple) else {
            if let Tuple::Unix(source, dest, path) = tuple {
                self.change_fd(number, |fd, texts, space| {
                    fd.ends = Ends::Unix { source, dest };
                    name_unix(fd, texts, path, space);
                });
                self.current.is_name_changed = before != self.event_fd().map(|fd| fd.name.clone());
            }
            return;
        };
        if self.event_fd().is_some_and(|fd| fd.l4proto == L4Proto::Tcp) {
            return;
        }
        // The tuple of what was received has the sender first; the name has the client first.
        let (mut own, other) = if is_read { (dest, source) } else { (source, dest) };
        if own.ip.is_unspecified() {
            own.ip = self.interfaces.source_for(other.ip).unwrap_or(own.ip);
        }
        self.change_fd(number, |fd, texts, space| {
            if fd.l4proto == L4Proto::Unknown {
                fd.l4proto = L4Proto::Udp;
            }
            fd.connection = Connection::Connected;
            if fd.role == Role::None {
                fd.role = if is_read { Role::Server } else { Role::Client };
            }
            let (source, dest) = if fd.role == Role::Server { (other, own) } else { (own, other) };
            set_ends(fd, texts, (source, dest), space);
        });
        self.current.is_name_changed = before != self.event_fd().map(|fd| fd.name.clone());
    }

    /// shutdown, and getsockopt of `SO_ERROR`: whether the socket is still connected.
    pub(super) fn socket_status_exit(&mut self, event: &Event<'_>, args: &Raw<'_>) {
        let (Some(result), Some(number)) = (args.number(0), self.current.fd_number) else { return };
        if result < 0 {
            return;
        }
        if event.kind().number == types::SHUTDOWN_X {
            return;
        }
        const SOL_SOCKET: i64 = 1;
        const SO_ERROR: i64 = 4;
        if args.number(2) != Some(SOL_SOCKET) || args.number(3) != Some(SO_ERROR) {
            return;
        }
        let error = event.param(4).and_then(|value| value.as_i64());
        self.change_fd(number, |fd, _, _| {
            fd.connection = match error {
                Some(0) => Connection::Connected,
                Some(EINPROGRESS) => Connection::Pending,
                Some(_) => Connection::Failed,
                None => fd.connection,
            };
        });
    }
}
