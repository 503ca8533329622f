//! What a server reports while it runs, for people: values here, text by `Display`, printed by the embedding program.

use crate::push::PushError;
use gabion_seal::durable::DurableEvent;
use std::fmt;
use std::io;
use std::sync::Arc;

/// Is called with each notice, from any thread.
pub type Report = Arc<dyn Fn(&Notice) + Send + Sync>;

/// Something that happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice {
    /// The server listens on these sockets.
    Listening(Vec<String>),
    /// What came and what happened to it so far.
    Progress(String),
    /// What came and what happened to it in all.
    Summary(String),
    /// A limit was reached.
    LimitReached {
        /// Its name.
        name: String,
        /// Its value.
        value: u64,
        /// How often.
        times: u64,
        /// What that means.
        meaning: &'static str,
    },
    /// Descriptors allow fewer connections than were asked for.
    FewerConnections {
        /// How many they allow.
        connections: usize,
    },
    /// What a socket's receive buffer holds.
    ReceiveBuffer {
        /// The socket.
        socket: String,
        /// Bytes.
        bytes: usize,
        /// It is too small for a pause of milliseconds.
        is_small: bool,
    },
    /// A connection could not be taken.
    NotTaken {
        /// What the system says.
        error: io::Error,
        /// How often since this was last reported.
        times: u64,
    },
    /// Connections can't be accepted.
    NotAccepted {
        /// The listener.
        listener: Arc<str>,
        /// What the system says.
        error: io::Error,
        /// How often since this was last reported.
        times: u64,
    },
    /// Datagrams can't be read.
    NotReceived {
        /// The listener.
        listener: Arc<str>,
        /// What the system says.
        error: io::Error,
        /// How often since this was last reported.
        times: u64,
    },
    /// At the end the system does not refuse what comes.
    NotRefused {
        /// The listener.
        listener: Arc<str>,
        /// What the system says.
        error: io::Error,
    },
    /// Something happened to the log.
    Log(DurableEvent),
    /// A checkpoint was not carried off the host.
    Push(PushError),
}

impl Notice {
    /// Whether all is as it should be: nothing that an operator who wants quiet has to read.
    #[must_use]
    pub const fn is_routine(&self) -> bool {
        match self {
            Notice::Listening(_) | Notice::Summary(_) | Notice::LimitReached { .. } => true,
            Notice::ReceiveBuffer { is_small, .. } => !*is_small,
            Notice::Progress(_)
            | Notice::FewerConnections { .. }
            | Notice::NotTaken { .. }
            | Notice::NotAccepted { .. }
            | Notice::NotReceived { .. }
            | Notice::NotRefused { .. }
            | Notice::Log(_)
            | Notice::Push(_) => false,
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Listening(sockets) => write!(f, "listening: {}", sockets.join(", ")),
            Notice::Progress(summary) | Notice::Summary(summary) => write!(f, "listen: {summary}"),
            Notice::LimitReached { name, value, times, meaning } => {
                write!(f, "listen: limit {name} of {value} reached {times} times: {meaning}")
            }
            Notice::FewerConnections { connections } => write!(
                f,
                "listen: {connections} connections at most, as many as descriptors allow: raise LimitNOFILE (ulimit -n)"
            ),
            Notice::ReceiveBuffer { socket, bytes, is_small: true } => write!(
                f,
                "{socket}: receive buffer of {bytes} bytes only: a pause of milliseconds loses messages: raise net.core.rmem_max"
            ),
            Notice::ReceiveBuffer { socket, bytes, is_small: false } => {
                write!(f, "{socket}: receive buffer of {bytes} bytes")
            }
            Notice::NotTaken { error, times } => {
                write!(f, "a connection could not be taken: {error} ({times} times)")
            }
            Notice::NotAccepted { listener, error, times } => {
                write!(f, "{listener}: accepting: {error} ({times} times)")
            }
            Notice::NotReceived { listener, error, times } => {
                write!(f, "{listener}: {error} ({times} times)")
            }
            Notice::NotRefused { listener, error } => {
                write!(f, "{listener}: can't be made to refuse: {error}")
            }
            Notice::Log(event) => event.fmt(f),
            Notice::Push(error) => error.fmt(f),
        }
    }
}
