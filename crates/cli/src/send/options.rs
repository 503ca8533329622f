//! The command line of `gabion send`.

use crate::limits::{SEND_BYTES_MAX, SEND_CONNECTIONS_MAX};
use crate::values::{self, server};
use clap::Args;
use gabion_intake::{Endpoint, Place};
use gabion_logs::dialect::{self, Dialect};
use gabion_seal::Transport;
use std::net::SocketAddr;
use std::path::PathBuf;

const EXAMPLE: &str = "\
Examples:
  gabion send --udp 127.0.0.1:5514 --tcp 127.0.0.1:5514 --count 100000
  gabion send --relp 127.0.0.1:2514 --seconds 60 --connections 8 --rate 5000

Exit code 1: a message was not sent, or was not acknowledged on a transport with acknowledgements.";

/// Options of `send`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct SendOptions {
    /// Send over UDP to this address
    #[arg(long, value_parser = server, value_name = "ADDR:PORT")]
    pub(crate) udp: Option<SocketAddr>,
    /// Send over TCP
    #[arg(long, value_parser = server, value_name = "ADDR:PORT")]
    pub(crate) tcp: Option<SocketAddr>,
    /// Send over TLS; needs --tls-ca
    #[arg(long, value_parser = server, value_name = "ADDR:PORT", requires = "tls_ca")]
    pub(crate) tls: Option<SocketAddr>,
    /// Send over RELP and wait for every acknowledgement
    #[arg(long, value_parser = server, value_name = "ADDR:PORT")]
    pub(crate) relp: Option<SocketAddr>,
    /// Send to a local datagram socket
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,
    /// Send slog's envelopes over UDP; needs --slog-key
    #[arg(long, value_parser = server, value_name = "ADDR:PORT", requires = "slog_key")]
    pub(crate) slog_udp: Option<SocketAddr>,
    /// Send slog's envelopes over TCP, one per connection; needs --slog-key
    #[arg(long, value_parser = server, value_name = "ADDR:PORT", requires = "slog_key")]
    pub(crate) slog_tcp: Option<SocketAddr>,
    /// Messages over each transport [default: 10,000; with --seconds unlimited]
    #[arg(long, value_name = "N", value_parser = values::number::<u64>(1, u64::MAX >> 8))]
    pub(crate) count: Option<u64>,
    /// Stop after N seconds, however many messages were sent
    #[arg(long, value_name = "N", value_parser = values::seconds)]
    pub(crate) seconds: Option<u64>,
    /// Bytes of a message; longer text is cut, shorter text is padded [default: the text's length]
    #[arg(long, value_name = "BYTES", value_parser = values::number::<usize>(1, SEND_BYTES_MAX))]
    pub(crate) size: Option<usize>,
    /// Messages a second over each transport [default: as fast as possible]
    #[arg(long, value_name = "N", value_parser = values::number::<u64>(1, u64::from(u32::MAX)))]
    pub(crate) rate: Option<u64>,
    /// File of lines to send, repeated as needed, plain or .zst [default: generated text]
    #[arg(long, value_name = "FILE")]
    pub(crate) text: Option<PathBuf>,
    /// Send each line as it is, without a header before it
    #[arg(long, requires = "text")]
    pub(crate) raw: bool,
    /// Connections of each transport that uses connections
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = values::number::<u64>(1, SEND_CONNECTIONS_MAX))]
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
    #[arg(long, value_name = "NAME", default_value = "localhost", value_parser = values::text())]
    pub(crate) tls_name: String,
    /// The certificate that is shown to the server, and those up to its root, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "tls_ca")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Print one JSON object instead of lines
    #[arg(long)]
    pub(crate) json: bool,
}

impl SendOptions {
    /// Where messages are sent to, in the order of the dialects' table.
    pub(crate) fn endpoints(&self) -> Vec<Endpoint> {
        let address = |option: Option<SocketAddr>| option.map(Place::Address);
        let place = |transport: Transport| match transport {
            Transport::Udp => address(self.udp),
            Transport::Tcp => address(self.tcp),
            Transport::Tls => address(self.tls),
            Transport::Relp => address(self.relp),
            Transport::Unix => self.unix.clone().map(Place::Path),
            Transport::SlogUdp => address(self.slog_udp),
            Transport::SlogTcp => address(self.slog_tcp),
            // Nothing is sent in a dialect that has no option here.
            _ => None,
        };
        let endpoint = |dialect: &'static Dialect| {
            let place = place(dialect.transport)?;
            Some(Endpoint { dialect, place })
        };
        dialect::ALL.iter().filter_map(endpoint).collect()
    }
}
