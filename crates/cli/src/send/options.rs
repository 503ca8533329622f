//! The command line of `gabion send`.

use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Options of `send`.
#[derive(Debug, Args)]
pub(crate) struct SendOptions {
    /// Send over UDP to this address
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) udp: Option<SocketAddr>,
    /// Send over TCP
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) tcp: Option<SocketAddr>,
    /// Send over TLS; needs --tls-ca
    #[arg(long, value_name = "ADDR:PORT", requires = "tls_ca")]
    pub(crate) tls: Option<SocketAddr>,
    /// Send over RELP and wait for every acknowledgement
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) relp: Option<SocketAddr>,
    /// Send to a local datagram socket
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,
    /// Send slog's envelopes over UDP; needs --slog-key
    #[arg(long, value_name = "ADDR:PORT", requires = "slog_key")]
    pub(crate) slog_udp: Option<SocketAddr>,
    /// Send slog's envelopes over TCP, one a connection; needs --slog-key
    #[arg(long, value_name = "ADDR:PORT", requires = "slog_key")]
    pub(crate) slog_tcp: Option<SocketAddr>,
    /// Messages over each transport
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) count: u64,
    /// Bytes of a message; longer text is cut, shorter is filled up [default: as the text is]
    #[arg(long, value_name = "BYTES")]
    pub(crate) size: Option<usize>,
    /// Messages a second over each transport [default: as fast as it goes]
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<u64>,
    /// Lines to send, one after the other and again, plain or .zst [default: made up]
    #[arg(long, value_name = "FILE")]
    pub(crate) text: Option<PathBuf>,
    /// Send each line as it is, without a header before it
    #[arg(long, requires = "text")]
    pub(crate) raw: bool,
    /// Connections of each transport that has some
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) connections: u64,
    /// A connection for each message, over TCP
    #[arg(long)]
    pub(crate) connection_each: bool,
    /// Count octets instead of ending messages with LF
    #[arg(long)]
    pub(crate) octet_counting: bool,
    /// The public key that slog's envelopes are made for, PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) slog_key: Option<PathBuf>,
    /// Authorities that the server's certificate must come from, PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// The server's name in its certificate
    #[arg(long, value_name = "NAME", default_value = "localhost")]
    pub(crate) tls_name: String,
    /// Print one JSON object instead of lines
    #[arg(long)]
    pub(crate) json: bool,
}
