//! From options to what is open: the log, reserved descriptors, sockets. Nothing listens before the log
//! can be written, and no log is made or written to before it is known that sockets can be had.

use super::ListenOptions;
use super::account::Stage;
use super::datagrams::DatagramListener;
use super::enduring::EnduringLog;
use super::sealed::LogPlace;
use super::streams::{Bounds, StreamListener};
use super::tls;
use crate::exit::Fault;
use crate::limits::{KEY_FILE_BYTES_MAX, LISTEN_LAST};
use crate::log::folders::state_of;
use crate::operator_file;
use gabion_logs::config::SlogConfig;
use gabion_logs::envelope::EnvelopeKey;
use gabion_logs::framing::Framing;
use gabion_runtime::StopFlag;
use gabion_runtime::metrics::Metrics;
use gabion_runtime::sockets::{self, Inherited, datagrams};
use gabion_seal::record::Transport;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::ServerConfig;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Descriptors that are not for connections: the log, its segments and state, sockets, what the system
/// library opens.
const DESCRIPTORS_RESERVED: u64 = 64;

/// Bytes of unfinished frames of all connections: 16 KiB for each of a thousand, while honest ones hold part
/// of a line. Small enough that intake as a whole stays within its 64 MiB whoever sends what.
const HELD_BYTES: usize = 16 << 20;

/// Connections that wait to be accepted: a burst of them is not refused while a round goes on.
const BACKLOG: i32 = 4096;

/// Payload of a TCP segment that RELP's clients are asked for, as on an Ethernet. librelp corks its
/// socket: what does not fill a segment is held back for 200 ms, or until an answer comes. Where segments
/// are large (the loopback's hold 64 KiB) that is its whole window of 128 messages, every time.
const RELP_SEGMENT: u16 = 1448;

/// What was asked for, options and slog's configuration together.
pub(crate) struct Wanted {
    udp: Vec<SocketAddr>,
    tcp: Vec<SocketAddr>,
    tls: Vec<SocketAddr>,
    relp: Vec<SocketAddr>,
    unix: Vec<PathBuf>,
    slog_udp: Vec<SocketAddr>,
    slog_tcp: Vec<SocketAddr>,
    key: Option<Arc<EnvelopeKey>>,
    tls_config: Option<Arc<ServerConfig>>,
    log: PathBuf,
    state: PathBuf,
    recipients: Vec<PathBuf>,
    origin: String,
    is_compressed: bool,
    metrics: Option<SocketAddr>,
    connections: usize,
    receive_buffer: usize,
    workers: Option<usize>,
    is_quiet: bool,
    /// How long what is readable at the end is still read.
    pub(crate) drain: Duration,
}

/// What is open.
pub(crate) struct Sockets {
    pub(crate) datagrams: Vec<DatagramListener>,
    pub(crate) streams: Vec<StreamListener>,
    pub(crate) key: Option<Arc<EnvelopeKey>>,
    pub(crate) needs_envelopes: bool,
    pub(crate) names: Vec<String>,
}

impl Wanted {
    /// Reads files, checks what was asked for, opens nothing.
    pub(crate) fn of(o: &ListenOptions) -> Result<Wanted, Fault> {
        let config = match &o.slog_config {
            Some(path) => read_slog_config(path)?,
            None => SlogConfig::default(),
        };
        let any = |port: Option<u16>| port.map(|p| SocketAddr::from((Ipv4Addr::UNSPECIFIED, p)));
        let both = |stated: &[SocketAddr], port: Option<u16>| -> Vec<SocketAddr> {
            stated.iter().copied().chain(any(port)).collect()
        };
        let tls_config = match (&o.tls_cert, &o.tls_key) {
            (Some(cert), Some(key)) => {
                let authorities = o.tls_client_ca.as_deref();
                Some(tls::server(cert, key, authorities, o.tls_require_client)?)
            }
            _ => None,
        };
        let log = o.log.clone().or_else(|| config.storage_folder.as_ref().map(PathBuf::from));
        let log = log.ok_or_else(|| Fault::usage("listen: no log: name its folder with --log"))?;
        let state = state_of(&log, o.state.as_deref());
        let mut recipients = o.recipient.clone();
        if recipients.is_empty() {
            recipients.extend(config.storage_public_key.as_ref().map(PathBuf::from));
        }
        if recipients.is_empty() {
            let text = "listen: nobody could read the log: name a public key with --recipient";
            return Err(Fault::usage(text));
        }
        let key = o.slog_key.clone().or(config.comms_private_key.as_ref().map(PathBuf::from));
        let key = key.map(|path| read_envelope_key(&path)).transpose()?;
        let has_envelopes = !o.slog_udp.is_empty()
            || !o.slog_tcp.is_empty()
            || config.udp_port.is_some()
            || config.tcp_port.is_some();
        if has_envelopes && key.is_none() {
            return Err(without_key());
        }
        if let Some(address) = o.metrics
            && !address.ip().is_loopback()
        {
            let text =
                format!("--metrics: {address}: is not the machine's own address: use 127.0.0.1");
            return Err(Fault::usage(text));
        }
        // Before anything is made.
        if let Some(authorities) = &o.push.witness_ca {
            crate::log::push::trust(Some(authorities)).map_err(Fault::input)?;
        }
        Ok(Wanted {
            udp: both(&o.udp, config.udp_syslog),
            tcp: both(&o.tcp, config.tcp_syslog),
            tls: o.tls.clone(),
            relp: o.relp.clone(),
            unix: o.unix.clone(),
            slog_udp: both(&o.slog_udp, config.udp_port),
            slog_tcp: both(&o.slog_tcp, config.tcp_port),
            key: key.map(Arc::new),
            tls_config,
            log,
            state,
            recipients,
            origin: o.origin.clone().unwrap_or_else(default_origin),
            is_compressed: !o.no_compress,
            metrics: o.metrics,
            connections: o.connections,
            receive_buffer: o.receive_buffer,
            workers: o.slog_workers,
            is_quiet: o.quiet,
            drain: LISTEN_LAST,
        })
    }

    /// Opens the log, or makes it.
    pub(crate) fn log(&self, o: &ListenOptions, stop: &StopFlag) -> Result<EnduringLog, Fault> {
        let place = LogPlace {
            log: self.log.clone(),
            state: self.state.clone(),
            recipients: self.recipients.clone(),
            origin: self.origin.clone(),
            new: o.new.clone(),
            is_compressed: self.is_compressed,
        };
        let aside = o.spill.as_ref().map(|spill| LogPlace {
            log: spill.clone(),
            state: state_of(spill, None),
            origin: format!("{}/spill", self.origin),
            ..place.clone()
        });
        EnduringLog::open(place, aside, o.on_full, stop.clone())
    }

    /// The log's folder.
    pub(crate) fn log_folder(&self) -> &Path {
        &self.log
    }

    /// What connections may take.
    pub(crate) fn bounds(&self, o: &ListenOptions) -> Bounds {
        let connections = connections_allowed(self.connections);
        if connections < self.connections {
            eprintln!(
                "gabion: listen: {connections} connections at most, as many as descriptors allow: raise LimitNOFILE (ulimit -n)"
            );
        }
        Bounds {
            connections,
            idle: Duration::from_secs(o.idle),
            frame: Duration::from_secs(o.frame_timeout),
            opening: Duration::from_secs(10),
            held_bytes: HELD_BYTES,
            drain: self.drain,
            framing: Framing { nul_ends_line: o.nul, ..Framing::default() },
        }
    }

    /// Threads that open envelopes.
    pub(crate) fn envelope_workers(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        self.workers.unwrap_or(processors).clamp(1, 64)
    }

    /// The socket for metrics.
    pub(crate) fn metrics_socket(&self) -> Result<Option<TcpListener>, Fault> {
        let Some(address) = self.metrics else { return Ok(None) };
        let socket = TcpListener::bind(address).map_err(|e| unbound("--metrics", address, &e))?;
        socket.set_nonblocking(true).map_err(|e| unbound("--metrics", address, &e))?;
        Ok(Some(socket))
    }

    /// Tries whether everything that is to listen can be had, and lets go of it again. Nobody is answered meanwhile:
    /// what is not open yet accepts no connection.
    ///
    /// # Errors
    /// Those of [`Wanted::sockets`] and [`Wanted::metrics_socket`], as far as they can be known before.
    pub(crate) fn probe(&self) -> Result<(), Fault> {
        let streams = [("tcp", &self.tcp), ("tls", &self.tls), ("relp", &self.relp)];
        let streams = streams.into_iter().chain([("slog-tcp", &self.slog_tcp)]);
        let streams =
            streams.flat_map(|(name, all)| all.iter().map(move |address| (name, *address)));
        let streams: Vec<_> = streams.chain(self.metrics.map(|a| ("--metrics", a))).collect();
        let datagrams = [("udp", &self.udp), ("slog-udp", &self.slog_udp)].into_iter();
        let datagrams = datagrams.flat_map(|(name, all)| all.iter().map(move |a| (name, *a)));
        let datagrams: Vec<_> = datagrams.collect();
        let is_any = streams.len() > usize::from(self.metrics.is_some())
            || !datagrams.is_empty()
            || !self.unix.is_empty();
        if !is_any && std::env::var_os("LISTEN_FDS").is_none() {
            return Err(without_socket());
        }
        // Held until all were tried, so that one that is named twice is found out.
        let mut held = Vec::new();
        for (at, (name, address)) in streams.iter().enumerate() {
            let twice = address.port() != 0
                && streams.get(..at).is_some_and(|before| before.iter().any(|b| b.1 == *address));
            let bound = match twice {
                true => Err(io::ErrorKind::AddrInUse.into()),
                false => unheard(*address),
            };
            held.push(bound.map_err(|e| unbound(name, *address, &e))?);
        }
        for (name, address) in datagrams {
            let bound = UdpSocket::bind(address).map_err(|e| unbound(name, address, &e))?;
            held.push(bound.into());
        }
        for path in &self.unix {
            // What is there already is looked at when it is replaced.
            if std::fs::symlink_metadata(path).is_err() {
                let socket = UnixDatagram::bind(path).map_err(|e| unix_fault(path, &e))?;
                std::fs::remove_file(path).map_err(|e| unix_fault(path, &e))?;
                drop(socket);
            }
        }
        Ok(())
    }

    /// Opens everything that listens, inherited sockets first.
    pub(crate) fn sockets(&self, metrics: &Metrics) -> Result<Sockets, Fault> {
        let mut opening = Opening {
            wanted: self,
            metrics,
            open: Sockets {
                datagrams: Vec::new(),
                streams: Vec::new(),
                key: self.key.clone(),
                needs_envelopes: false,
                names: Vec::new(),
            },
        };
        opening.inherit()?;
        for address in &self.udp {
            opening.udp(*address, Transport::Udp, "udp")?;
        }
        for address in &self.slog_udp {
            opening.udp(*address, Transport::SlogUdp, "slog-udp")?;
        }
        for path in &self.unix {
            opening.unix(path)?;
        }
        for (addresses, transport, name) in [
            (&self.tcp, Transport::Tcp, "tcp"),
            (&self.tls, Transport::Tls, "tls"),
            (&self.relp, Transport::Relp, "relp"),
            (&self.slog_tcp, Transport::SlogTcp, "slog-tcp"),
        ] {
            for address in addresses {
                let socket = TcpListener::bind(address).map_err(|e| unbound(name, *address, &e))?;
                opening.stream(socket, transport, name)?;
            }
        }
        let open = opening.open;
        if open.names.is_empty() {
            return Err(without_socket());
        }
        // An inherited socket may want one that no option asked for.
        if open.needs_envelopes && open.key.is_none() {
            return Err(without_key());
        }
        Ok(open)
    }
}

struct Opening<'a> {
    wanted: &'a Wanted,
    metrics: &'a Metrics,
    open: Sockets,
}

impl Opening<'_> {
    fn inherit(&mut self) -> Result<(), Fault> {
        let inherited = sockets::inherited()
            .map_err(|e| Fault::environment(format!("sockets of the service manager: {e}")))?;
        for (descriptor, kind, name) in inherited {
            let is_stream = kind == Inherited::Tcp;
            match (kind, name.as_str()) {
                (Inherited::Udp, "slog-udp" | "slog") => {
                    self.datagram(descriptor, Transport::SlogUdp, "slog-udp")?;
                }
                (Inherited::Udp, _) => self.datagram(descriptor, Transport::Udp, "udp")?,
                (Inherited::UnixDatagram, _) => self.local(descriptor, "inherited")?,
                (Inherited::Tcp, name) => {
                    let (transport, name) = match name {
                        "tls" => (Transport::Tls, "tls"),
                        "relp" => (Transport::Relp, "relp"),
                        "slog-tcp" | "slog" => (Transport::SlogTcp, "slog-tcp"),
                        _ => (Transport::Tcp, "tcp"),
                    };
                    self.stream(TcpListener::from(descriptor), transport, name)?;
                }
            }
            if let Some(listener) = self.open.datagrams.last_mut().filter(|_| !is_stream) {
                listener.set_inherited();
            }
        }
        Ok(())
    }

    fn name(&mut self, kind: &str, place: &str) -> (u16, Arc<str>, Stage) {
        let number = u16::try_from(self.open.names.len()).unwrap_or(u16::MAX);
        let name = format!("{kind} {place}");
        let stage = Stage::new(self.metrics, &format!("listen.{kind}.{number}"));
        self.open.names.push(name.clone());
        (number, name.into(), stage)
    }

    fn udp(&mut self, address: SocketAddr, transport: Transport, kind: &str) -> Result<(), Fault> {
        let socket = UdpSocket::bind(address).map_err(|e| unbound(kind, address, &e))?;
        self.datagram(socket.into(), transport, kind)
    }

    fn datagram(&mut self, socket: OwnedFd, transport: Transport, kind: &str) -> Result<(), Fault> {
        let place = local_address(&socket);
        let failed = |e: io::Error| Fault::environment(format!("{kind} {place}: {e}"));
        let got =
            sockets::enlarge_receive_buffer(&socket, self.wanted.receive_buffer).map_err(failed)?;
        datagrams::count_drops(socket.as_fd()).map_err(failed)?;
        if got < sockets::RECEIVE_BUFFER_ENOUGH {
            eprintln!(
                "gabion: {kind} {place}: receive buffer of {got} bytes only: a pause of milliseconds loses messages: raise net.core.rmem_max"
            );
        } else if !self.wanted.is_quiet {
            eprintln!("gabion: {kind} {place}: receive buffer of {got} bytes");
        }
        self.open.needs_envelopes |= transport == Transport::SlogUdp;
        let (number, name, stage) = self.name(kind, &place);
        let listener =
            DatagramListener::new(socket, transport, number, name, stage).map_err(failed)?;
        self.open.datagrams.push(listener);
        Ok(())
    }

    fn unix(&mut self, path: &Path) -> Result<(), Fault> {
        let failed = |e: io::Error| unix_fault(path, &e);
        // A socket that nobody listens on any more is in the way; anything else is not ours to remove.
        if let Ok(found) = std::fs::symlink_metadata(path) {
            use std::os::unix::fs::FileTypeExt;
            let is_dead = found.file_type().is_socket()
                && UnixDatagram::unbound().is_ok_and(|s| s.connect(path).is_err());
            if is_dead {
                std::fs::remove_file(path).map_err(failed)?;
            }
        }
        let socket = UnixDatagram::bind(path).map_err(failed)?;
        // Whoever logs is not the user that listens.
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).map_err(failed)?;
        self.local(socket.into(), &path.display().to_string())
    }

    fn local(&mut self, socket: OwnedFd, place: &str) -> Result<(), Fault> {
        let failed = |e: io::Error| Fault::environment(format!("unix {place}: {e}"));
        rustix::net::sockopt::set_socket_passcred(&socket, true).map_err(|e| failed(e.into()))?;
        sockets::enlarge_receive_buffer(&socket, self.wanted.receive_buffer).map_err(failed)?;
        let (number, name, stage) = self.name("unix", place);
        let listener =
            DatagramListener::new(socket, Transport::Unix, number, name, stage).map_err(failed)?;
        self.open.datagrams.push(listener);
        Ok(())
    }

    fn stream(
        &mut self,
        socket: TcpListener,
        transport: Transport,
        kind: &str,
    ) -> Result<(), Fault> {
        let place = socket.local_addr().map_or_else(|_| String::new(), |a| a.to_string());
        // The system library asks for a short one.
        rustix::net::listen(&socket, BACKLOG)
            .map_err(|e| Fault::environment(format!("{kind} {place}: {e}")))?;
        if transport == Transport::Relp {
            // Being refused this costs speed, no more.
            let _ = datagrams::limit_segments(socket.as_fd(), RELP_SEGMENT);
        }
        let tls = if transport == Transport::Tls {
            let config = self.wanted.tls_config.clone();
            Some(config.ok_or_else(|| Fault::usage("tls: name --tls-cert and --tls-key"))?)
        } else {
            None
        };
        self.open.needs_envelopes |= transport == Transport::SlogTcp;
        let (number, name, stage) = self.name(kind, &place);
        self.open.streams.push(StreamListener {
            socket,
            transport,
            number,
            name,
            stage,
            tls,
            paused: None,
            pause: Duration::from_millis(10),
        });
        Ok(())
    }
}

/// As many connections as descriptors allow, after asking for more of them.
fn connections_allowed(wanted: usize) -> usize {
    let needed = (wanted as u64).saturating_add(DESCRIPTORS_RESERVED);
    let limit = getrlimit(Resource::Nofile);
    let mut current = limit.current.unwrap_or(u64::MAX);
    if current < needed {
        let raised = needed.min(limit.maximum.unwrap_or(u64::MAX));
        let asked = Rlimit { current: Some(raised), maximum: limit.maximum };
        if setrlimit(Resource::Nofile, asked).is_ok() {
            current = raised;
        }
    }
    // With very few descriptors, half of them.
    let reserved = DESCRIPTORS_RESERVED.min(current / 2);
    usize::try_from(current - reserved).unwrap_or(usize::MAX).min(wanted)
}

fn read_envelope_key(path: &Path) -> Result<EnvelopeKey, Fault> {
    let pem = operator_file::bytes(path, KEY_FILE_BYTES_MAX)
        .map_err(|e| Fault::input(format!("{}: {e}: a private key is wanted", path.display())))?;
    EnvelopeKey::from_pem(&pem)
        .map_err(|e| Fault::input(format!("{}: {e}: name another", path.display())))
}

/// A socket that is bound to an address and does not listen.
fn unheard(address: SocketAddr) -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // As the system library does for those that listen.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    Ok(socket)
}

fn unix_fault(path: &Path, e: &io::Error) -> Fault {
    Fault::environment(format!("{}: {e}: name another path", path.display()))
}

fn without_socket() -> Fault {
    Fault::usage("listen: nothing to listen on: name a socket, such as --udp 127.0.0.1:5514")
}

fn without_key() -> Fault {
    Fault::usage("listen: envelopes can't be opened without a key: name it with --slog-key")
}

fn read_slog_config(path: &Path) -> Result<SlogConfig, Fault> {
    let text =
        operator_file::text(path, gabion_runtime::limits::NAMED_FILE_BYTES_MAX).map_err(|e| {
            Fault::input(format!("{}: {e}: a slog configuration is wanted", path.display()))
        })?;
    let config = SlogConfig::parse(&text)
        .map_err(|(line, e)| Fault::input(format!("{}:{line}: {e}", path.display())))?;
    if !config.has_known_keys() {
        let wrong = "no key that a slog server knows, such as TCPport=8001";
        return Err(Fault::input(format!("{}: {wrong}", path.display())));
    }
    if !config.without_effect.is_empty() {
        let keys = config.without_effect.join(", ");
        eprintln!("gabion: {}: {keys}: has no effect here", path.display());
    }
    if !config.unknown.is_empty() {
        eprintln!("gabion: {}: {}: not known", path.display(), config.unknown.join(", "));
    }
    Ok(config)
}

fn default_origin() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{name}/log")
}

fn local_address(socket: &OwnedFd) -> String {
    let address = rustix::net::getsockname(socket).ok().and_then(|a| SocketAddr::try_from(a).ok());
    address.map_or_else(String::new, |a| a.to_string())
}

fn unbound(kind: &str, address: SocketAddr, e: &io::Error) -> Fault {
    let what = match e.kind() {
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need CAP_NET_BIND_SERVICE or an inherited socket"
        }
        io::ErrorKind::AddrInUse => "stop who has it, or name another",
        _ => "name another",
    };
    Fault::environment(format!("{kind} {address}: {e}: {what}"))
}
