//! From open sockets to listeners: receive buffers, credentials, lengths of queues, numbers and names; and how many
//! connections descriptors allow.

use crate::datagrams::DatagramListener;
use crate::error::{Error, Result};
use crate::notice::{Notice, Report};
use crate::server::ServerSettings;
use crate::sockets::ListenSocket;
use crate::stage::Stage;
use crate::streams::StreamListener;
use gabion_logs::dialect::{Carrier, Manner};
use gabion_runtime::metrics::Metrics;
use gabion_runtime::sockets::{self, datagrams};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Descriptors that are not for connections: the log, its segments and state, sockets, what the system
/// library opens.
const DESCRIPTORS_RESERVED: u64 = 64;

/// Connections that wait to be accepted: a burst of them is not refused while a round continues.
const BACKLOG: i32 = 4096;

/// Listeners of both sides.
#[derive(Default)]
pub(crate) struct Listeners {
    pub(crate) datagrams: Vec<DatagramListener>,
    pub(crate) streams: Vec<StreamListener>,
    /// Some hand on envelopes.
    pub(crate) take_envelopes: bool,
    /// By their numbers.
    pub(crate) names: Vec<String>,
}

impl Listeners {
    /// Prepares these sockets, numbered in their order.
    pub(crate) fn new(
        sockets: Vec<ListenSocket>,
        settings: &ServerSettings,
        metrics: &Metrics,
        report: &Report,
    ) -> Result<Listeners> {
        let mut listeners = Listeners::default();
        for socket in sockets {
            let name = format!("{} {}", socket.dialect.name(), socket.place);
            let failed = |e: io::Error| Error::io(name.clone(), e);
            let number = u16::try_from(listeners.names.len()).unwrap_or(u16::MAX);
            listeners.take_envelopes |= socket.dialect.is_enveloped;
            let stage =
                || Stage::new(metrics, &format!("listen.{}.{number}", socket.dialect.name()));
            match socket.dialect.carrier {
                Carrier::Udp | Carrier::Local => {
                    prepare_datagrams(&socket, &name, settings, report)?;
                    let mut listener = DatagramListener::new(
                        socket.descriptor,
                        socket.dialect,
                        number,
                        name.as_str().into(),
                        stage(),
                    )
                    .map_err(failed)?;
                    if socket.is_inherited {
                        listener.set_inherited();
                    }
                    listeners.datagrams.push(listener);
                }
                Carrier::Tcp | Carrier::Tls => {
                    // The system library asks for a short one.
                    rustix::net::listen(&socket.descriptor, BACKLOG)
                        .map_err(|e| failed(e.into()))?;
                    if let Manner::Sessions { segment_bytes: Some(bytes), .. } =
                        socket.dialect.manner
                    {
                        // Being refused this costs speed, no more.
                        let _ = datagrams::limit_segments(socket.descriptor.as_fd(), bytes);
                    }
                    let tls = match socket.dialect.carrier {
                        Carrier::Tls => Some(settings.tls.clone().ok_or(Error::NoCertificate)?),
                        Carrier::Tcp | Carrier::Udp | Carrier::Local => None,
                    };
                    listeners.streams.push(StreamListener {
                        socket: TcpListener::from(socket.descriptor),
                        dialect: socket.dialect,
                        number,
                        name: name.as_str().into(),
                        stage: stage(),
                        tls,
                        paused: None,
                        pause: Duration::from_millis(10),
                    });
                }
            }
            listeners.names.push(name);
        }
        if listeners.names.is_empty() {
            return Err(Error::NoSocket);
        }
        // An inherited socket may want one that nobody named.
        if listeners.take_envelopes && settings.envelope_key.is_none() {
            return Err(Error::NoEnvelopeKey);
        }
        Ok(listeners)
    }
}

fn prepare_datagrams(
    socket: &ListenSocket,
    name: &str,
    settings: &ServerSettings,
    report: &Report,
) -> Result<()> {
    let failed = |e: io::Error| Error::io(name, e);
    let descriptor: &OwnedFd = &socket.descriptor;
    match socket.dialect.carrier {
        Carrier::Local => {
            rustix::net::sockopt::set_socket_passcred(descriptor, true)
                .map_err(|e| failed(e.into()))?;
            sockets::enlarge_receive_buffer(descriptor, settings.receive_buffer).map_err(failed)?;
        }
        Carrier::Udp | Carrier::Tcp | Carrier::Tls => {
            let bytes = sockets::enlarge_receive_buffer(descriptor, settings.receive_buffer)
                .map_err(failed)?;
            datagrams::count_drops(descriptor.as_fd()).map_err(failed)?;
            let is_small = bytes < sockets::RECEIVE_BUFFER_ENOUGH;
            report(&Notice::ReceiveBuffer { socket: name.to_owned(), bytes, is_small });
        }
    }
    Ok(())
}

/// As many connections as descriptors allow, after asking for more of them.
pub(crate) fn connections_allowed(wanted: usize) -> usize {
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
