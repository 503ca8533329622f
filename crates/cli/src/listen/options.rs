//! The command line of `gabion listen`.

use super::enduring::OnFull;
use crate::log::push::PushOptions;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Options of `listen`.
#[derive(Debug, Args)]
pub(crate) struct ListenOptions {
    /// Syslog over UDP (repeatable)
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) udp: Vec<SocketAddr>,
    /// Syslog over TCP, counted or by lines (repeatable)
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) tcp: Vec<SocketAddr>,
    /// Syslog over TLS; needs --tls-cert and --tls-key (repeatable)
    #[arg(long, value_name = "ADDR:PORT", requires = "tls_cert")]
    pub(crate) tls: Vec<SocketAddr>,
    /// RELP: a message is acknowledged when it is durable (repeatable)
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) relp: Vec<SocketAddr>,
    /// A local datagram socket such as /dev/log (repeatable)
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Vec<PathBuf>,
    /// slog's envelopes over UDP (repeatable)
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) slog_udp: Vec<SocketAddr>,
    /// slog's envelopes over TCP (repeatable)
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) slog_tcp: Vec<SocketAddr>,
    /// The private key that opens slog's envelopes, PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) slog_key: Option<PathBuf>,
    /// A slog server's configuration (Key=value) to take ports, key and folder from
    #[arg(long, value_name = "FILE")]
    pub(crate) slog_config: Option<PathBuf>,
    /// The server's certificate and those up to its root, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key, PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Clients may show a certificate of these authorities; its name is kept with each message
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// Clients must show one
    #[arg(long, requires = "tls_client_ca")]
    pub(crate) tls_require_client: bool,
    /// The folder of the sealed log; it is made when it is not there
    #[arg(long, value_name = "DIR")]
    pub(crate) log: Option<PathBuf>,
    /// The folder of the signer's secret state [default: DIR with .state behind it]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Public keys of those who may read (repeatable)
    #[arg(long, value_name = "FILE")]
    pub(crate) recipient: Vec<PathBuf>,
    /// Name of a new log in its signatures [default: the host's name with /log behind it]
    #[arg(long, value_name = "NAME")]
    pub(crate) origin: Option<String>,
    /// What to do when the log's disk is full
    #[arg(long, value_enum, value_name = "POLICY", default_value = "block")]
    pub(crate) on_full: OnFull,
    /// A second log, on another disk, that takes over while the first one's is full or fails; it is made
    /// when it is not there, its state in DIR with .state behind it
    #[arg(long, value_name = "DIR")]
    pub(crate) spill: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) push: PushOptions,
    /// Don't compress before encrypting: sizes then tell nothing of what was written
    #[arg(long)]
    pub(crate) no_compress: bool,
    /// Messages are durable after so long at the latest; sooner when a sender waits for it
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) commit_after: u64,
    /// Say every so many seconds what came and what was lost
    #[arg(long, value_name = "SECONDS")]
    pub(crate) stats: Option<u64>,
    /// Metrics for Prometheus on this address, which must be the machine's own
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Most connections; descriptors may allow fewer
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) connections: usize,
    /// A connection without a byte for so many seconds is closed
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub(crate) idle: u64,
    /// A frame that does not end within so many seconds closes its connection
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) frame_timeout: u64,
    /// NUL ends a message over TCP too
    #[arg(long)]
    pub(crate) nul: bool,
    /// Receive buffer asked for on UDP sockets, bytes
    #[arg(long, value_name = "BYTES", default_value_t = gabion_runtime::sockets::RECEIVE_BUFFER)]
    pub(crate) receive_buffer: usize,
    /// Workers that open envelopes [default: number of processors]
    #[arg(long, value_name = "N")]
    pub(crate) slog_workers: Option<usize>,
    /// Print nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
