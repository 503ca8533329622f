//! Why a log server, a push of checkpoints or the load generator can't begin or continue.

use gabion_record::ledger::Imbalance;
use gabion_seal::durable::DurableError;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Short form used in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why it can't begin or continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no socket to listen on.
    #[error("there is no socket to listen on")]
    NoSocket,
    /// A socket takes envelopes, and there is no key that opens them.
    #[error("envelopes can't be opened without a key")]
    NoEnvelopeKey,
    /// A socket takes TLS, and there is no certificate to show.
    #[error("TLS without a certificate and its key")]
    NoCertificate,
    /// A file that was named does not hold what it should.
    #[error("{}: {why}: {advice}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
        /// What to do.
        advice: &'static str,
    },
    /// A file of lines has none.
    #[error("{}: there is no line in it", path.display())]
    NoLine {
        /// The file.
        path: PathBuf,
    },
    /// The server's key does not belong to its certificate.
    #[error(
        "{}: the key of another certificate than {} begins with: give key and certificate of one pair",
        key.display(),
        certificates.display()
    )]
    OtherKey {
        /// The file of the key.
        key: PathBuf,
        /// The file of the certificates.
        certificates: PathBuf,
    },
    /// A name that no server's certificate can have.
    #[error("{name}: {why}: name the server as its certificate does")]
    ServerName {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// Metrics would be served to other machines, too.
    #[error("--metrics: {address}: is not the machine's own address: use 127.0.0.1")]
    ForeignAddress {
        /// The address.
        address: SocketAddr,
    },
    /// An address can't be bound.
    #[error("{transport} {address}: {source}: {}", bind_advice(source))]
    Bind {
        /// Of which kind of socket.
        transport: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// A local socket can't be made.
    #[error("{}: {source}: name another path", path.display())]
    LocalSocket {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Sockets of the service manager are none.
    #[error("sockets of the service manager: {0}")]
    Inherited(#[source] io::Error),
    /// A part of the server, a socket or a thread, can't begin or continue.
    #[error("{what}: {source}")]
    Io {
        /// Which.
        what: String,
        /// What the system says.
        source: io::Error,
    },
    /// A thread can't be made.
    #[error("{thread}: the thread cannot be started: {source}")]
    NoThread {
        /// Its name.
        thread: String,
        /// What the system says.
        source: io::Error,
    },
    /// The log can't be written.
    #[error(transparent)]
    Log(#[from] DurableError),
    /// It was asked to stop while the log's disk was full.
    #[error(
        "{}: the disk is full: what could not be stored was not acknowledged; make space and start again",
        log.display()
    )]
    StoppedWhileFull {
        /// The log.
        log: PathBuf,
    },
    /// A sink of the embedding program's own can't continue.
    #[error("{0}")]
    Sink(String),
    /// A thread panicked.
    #[error("{thread}: the thread panicked")]
    Panicked {
        /// Its name.
        thread: String,
    },
    /// TLS can't be set up with what it is built with.
    #[error("TLS: {0}")]
    Tls(rustls::Error),
    /// A stage of the ledger lost account.
    #[error("{stage}: the ledger is out of balance: {imbalance}")]
    Unbalanced {
        /// Which.
        stage: String,
        /// By how much.
        imbalance: Imbalance,
    },
    /// The workers that open envelopes got others than listeners handed on.
    #[error("listeners handed on {handed_on} envelopes, their workers got {received}")]
    LostEnvelopes {
        /// By listeners.
        handed_on: u64,
        /// By workers.
        received: u64,
    },
    /// The sealer got other messages than listeners handed on.
    #[error("listeners handed on {handed_on} messages, the sealer got {received}")]
    LostMessages {
        /// By listeners and workers.
        handed_on: u64,
        /// By the sealer.
        received: u64,
    },
}

/// Where the cause of an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The operator asked for something that can't be.
    Settings,
    /// The files that were named are at fault.
    Input,
    /// The machine is at fault: disks, addresses, privileges.
    Environment,
    /// The program is at fault.
    Internal,
}

impl Error {
    /// Where its cause is.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Error::NoSocket
            | Error::NoEnvelopeKey
            | Error::NoCertificate
            | Error::ForeignAddress { .. }
            | Error::ServerName { .. } => ErrorKind::Settings,
            Error::File { .. } | Error::NoLine { .. } | Error::OtherKey { .. } => ErrorKind::Input,
            Error::Bind { .. }
            | Error::LocalSocket { .. }
            | Error::Inherited(_)
            | Error::Io { .. }
            | Error::NoThread { .. }
            | Error::Log(
                DurableError::Open { .. }
                | DurableError::Failed { .. }
                | DurableError::FullAtEnd { .. },
            )
            | Error::StoppedWhileFull { .. }
            | Error::Sink(_) => ErrorKind::Environment,
            Error::Log(_)
            | Error::Panicked { .. }
            | Error::Tls(_)
            | Error::Unbalanced { .. }
            | Error::LostEnvelopes { .. }
            | Error::LostMessages { .. } => ErrorKind::Internal,
        }
    }

    /// A file does not hold what it should.
    pub(crate) fn file(
        path: &std::path::Path,
        why: impl std::fmt::Display,
        advice: &'static str,
    ) -> Error {
        Error::File { path: path.to_owned(), why: why.to_string(), advice }
    }

    /// A part can't begin or continue.
    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Error {
        Error::Io { what: what.into(), source }
    }
}

fn bind_advice(e: &io::Error) -> &'static str {
    match e.kind() {
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need CAP_NET_BIND_SERVICE or an inherited socket"
        }
        io::ErrorKind::AddrInUse => "stop the program that has it, or name another",
        _ => "name another",
    }
}
