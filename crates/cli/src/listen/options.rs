//! The command line of `gabion listen`.

use crate::log::options::NewLogOptions;
use crate::log::push::PushOptions;
use crate::values::{self, place};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use gabion_intake::{Endpoint, Place};
use gabion_logs::dialect::{self, Carrier, Dialect};
use std::net::SocketAddr;
use std::path::PathBuf;

const EXAMPLE: &str = "\
Example:
  gabion log keygen --out keys
  gabion listen --udp 0.0.0.0:514 --tcp 0.0.0.0:514 --relp 0.0.0.0:2514 \\
    --log /var/lib/gabion/log --recipient keys/recipient.pub";

/// Options of `listen`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct ListenOptions {
    #[command(flatten)]
    pub(crate) listeners: Listeners,
    /// The private key that opens slog's envelopes, PEM
    #[arg(long, value_name = "FILE", help_heading = "slog's envelopes")]
    pub(crate) slog_key: Option<PathBuf>,
    /// A slog server's configuration (Key=value) to take ports, key and folder from
    #[arg(long, value_name = "FILE", help_heading = "slog's envelopes")]
    pub(crate) slog_config: Option<PathBuf>,
    /// The server's certificate and those up to its root, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "TLS")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key, PEM
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Clients may show a certificate of these authorities; its name is kept with each message
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "TLS")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// Clients must show one
    #[arg(long, requires = "tls_client_ca", help_heading = "TLS")]
    pub(crate) tls_require_client: bool,
    /// The folder of the sealed log; it is made when it is not there
    #[arg(long, value_name = "DIR", help_heading = "The log")]
    pub(crate) log: Option<PathBuf>,
    /// The folder of the signer's secret state [default: DIR.state]
    #[arg(long, value_name = "DIR", help_heading = "The log")]
    pub(crate) state: Option<PathBuf>,
    /// Public keys of readers; required, unless --slog-config names one (repeatable)
    #[arg(long, value_name = "FILE", help_heading = "The log")]
    pub(crate) recipient: Vec<PathBuf>,
    /// Name of a new log in its signatures [default: HOSTNAME/log]
    #[arg(long, value_name = "NAME", value_parser = values::origin, help_heading = "The log")]
    pub(crate) origin: Option<String>,
    #[command(flatten, next_help_heading = "The log")]
    pub(crate) new: NewLogOptions,
    /// What to do when the log's disk is full
    #[arg(
        long,
        value_enum,
        value_name = "POLICY",
        default_value = "block",
        help_heading = "The log"
    )]
    pub(crate) on_full: OnFull,
    /// A second log, on another disk, that takes over while the first one's is full or fails; it is made
    /// when it is not there, its state in DIR.state
    #[arg(long, value_name = "DIR", help_heading = "The log")]
    pub(crate) spill: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Checkpoints off the host")]
    pub(crate) push: PushOptions,
    /// Don't compress before encrypting: sizes then reveal how much was written, and nothing about the content
    #[arg(long, help_heading = "The log")]
    pub(crate) no_compress: bool,
    /// Maximum delay before messages are flushed to disk; shorter when a sender waits for it
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = values::number::<u64>(1, 10_000), help_heading = "The log")]
    pub(crate) commit_after: u64,
    /// Report what was received and what was lost every N seconds
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds, help_heading = "Monitoring")]
    pub(crate) stats: Option<u64>,
    /// Metrics for Prometheus on this address, which must be the machine's own
    #[arg(long, value_parser = place, value_name = "ADDR:PORT", help_heading = "Monitoring")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Maximum number of connections; the limit of descriptors may allow fewer
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = values::number::<usize>(1, u64::from(u32::MAX)), help_heading = "Limits")]
    pub(crate) connections: usize,
    /// Close a connection that is idle for N seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = values::seconds, help_heading = "Limits")]
    pub(crate) idle: u64,
    /// Close a connection whose frame is not complete within N seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = values::seconds, help_heading = "Limits")]
    pub(crate) frame_timeout: u64,
    /// End a message over TCP at a NUL, too
    #[arg(long, help_heading = "Listeners")]
    pub(crate) nul: bool,
    /// Receive buffer requested for UDP sockets, bytes
    #[arg(long, value_name = "BYTES", default_value_t = gabion_runtime::sockets::RECEIVE_BUFFER, value_parser = values::number::<usize>(1, 1 << 31), help_heading = "Limits")]
    pub(crate) receive_buffer: usize,
    /// Workers that open envelopes [default: number of processors]
    #[arg(long, value_name = "N", value_parser = values::threads, help_heading = "slog's envelopes")]
    pub(crate) slog_workers: Option<usize>,
    /// Print nothing but errors
    #[arg(short, long, help_heading = "Monitoring")]
    pub(crate) quiet: bool,
}

/// What is done when the log's disk is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnFull {
    /// Senders that can wait are made to wait; messages of others are dropped by the kernel, which counts them
    Block,
    /// Messages are received, shed and counted by source; none of them is acknowledged
    Drop,
}

/// An option for each dialect of the table: where it is listened for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listeners(pub(crate) Vec<Endpoint>);

/// What an operator reads of a dialect's option.
fn help(dialect: &Dialect) -> String {
    let needs = match dialect.carrier {
        Carrier::Tls => "; needs --tls-cert and --tls-key",
        Carrier::Udp | Carrier::Local | Carrier::Tcp => "",
    };
    format!("{}{needs} (repeatable)", dialect.about)
}

impl Args for Listeners {
    fn augment_args(command: Command) -> Command {
        dialect::ALL.iter().fold(command, |command, dialect| {
            let arg = Arg::new(dialect.name())
                .long(dialect.name())
                .action(ArgAction::Append)
                .help_heading("Listeners")
                .help(help(dialect));
            command.arg(match dialect.carrier {
                Carrier::Local => arg.value_name("PATH").value_parser(clap::value_parser!(PathBuf)),
                Carrier::Tls => {
                    arg.value_name("ADDR:PORT").value_parser(place).requires("tls_cert")
                }
                Carrier::Udp | Carrier::Tcp => arg.value_name("ADDR:PORT").value_parser(place),
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Listeners::augment_args(command)
    }
}

impl FromArgMatches for Listeners {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Listeners, clap::Error> {
        let mut listeners = Listeners::default();
        listeners.update_from_arg_matches(matches)?;
        Ok(listeners)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0 = dialect::ALL.iter().flat_map(|dialect| endpoints(dialect, matches)).collect();
        Ok(())
    }
}

/// Where the command line asks for a dialect.
fn endpoints(dialect: &'static Dialect, matches: &ArgMatches) -> Vec<Endpoint> {
    let places: Vec<Place> = match dialect.carrier {
        Carrier::Local => {
            let paths = matches.get_many::<PathBuf>(dialect.name());
            paths.into_iter().flatten().cloned().map(Place::Path).collect()
        }
        Carrier::Udp | Carrier::Tcp | Carrier::Tls => {
            let addresses = matches.get_many::<SocketAddr>(dialect.name());
            addresses.into_iter().flatten().copied().map(Place::Address).collect()
        }
    };
    places.into_iter().map(|place| Endpoint { dialect, place }).collect()
}
