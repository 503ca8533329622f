//! `gabion listen`: from options to the settings of a log server, what is printed of it, and how it ends.
//!
//! Nothing listens before the log can be written, and no log is made or written to before it is known that sockets can
//! be had.

mod options;

pub(crate) use options::ListenOptions;

use crate::exit::{Exit, Fault, Message, about};
use crate::log::folders::state_of;
use crate::log::{LogFault, init, push_fault};
use crate::{direct_opener, operator_file};
use gabion_intake::limits::KEY_FILE_BYTES_MAX;
use gabion_intake::{
    Endpoint, Error, ErrorKind, Notice, Place, Pushing, Report, SealedLog, Server, ServerSettings,
    ServerTls,
};
use gabion_logs::config::SlogConfig;
use gabion_logs::dialect::{self, Dialect};
use gabion_logs::envelope::EnvelopeKey;
use gabion_logs::framing::Framing;
use gabion_runtime::Signals;
use gabion_seal::Created;
use gabion_seal::durable::{LogFolder, OnFull};
use gabion_seal::{Policy, Recipient, Transport, guard_secrets};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Runs until a signal asks to stop.
pub(crate) fn run(o: &ListenOptions) -> Result<Exit, Fault> {
    // Buffers of six threads, each of the size of a batch: in pages of 2 MiB they take three times as much.
    gabion_runtime::memory::take_small_pages();
    // Keys, certificates and the log are read before anything is taken in: a request to stop ends that at once.
    let signals = Signals::preparing().map_err(|e| Fault::environment(about("signals", &e)))?;
    let wanted = Wanted::from_options(o)?;
    gabion_intake::probe(&wanted.endpoints, o.metrics).map_err(into_fault)?;
    let report = report(o.quiet);
    let stop = signals.stop();
    let log = wanted.log(o)?;
    let spill = o.spill.as_deref().map(|folder| wanted.spill(&log, folder));
    make_all(&log, spill.as_ref(), o)?;
    let on_full = match o.on_full {
        options::OnFull::Block => OnFull::Block,
        options::OnFull::Drop => OnFull::Drop,
    };
    let (log, spill) = (log.folder, spill.map(|spill| spill.folder));
    let sink = SealedLog::open(log, spill, on_full, stop.clone(), &report).map_err(into_fault)?;
    let pushing =
        Pushing::start(&direct_opener(), &wanted.log, &o.push.settings(), Arc::clone(&report));
    let pushing = pushing.map_err(into_fault)?;
    let ended = listen(wanted, o, sink, report, &signals);
    pushing.map_or(Ok(()), |pushing| pushing.end().map_err(into_fault))?;
    ended.map(|()| Exit::Done).map_err(into_fault)
}

/// Opens what listens, and takes in logs.
fn listen(
    wanted: Wanted,
    o: &ListenOptions,
    sink: SealedLog,
    report: Report,
    signals: &Signals,
) -> gabion_intake::Result<()> {
    let mut sockets = gabion_intake::inherited()?;
    sockets.extend(gabion_intake::bind(&wanted.endpoints)?);
    let metrics = o.metrics.map(gabion_intake::bind_metrics).transpose()?;
    let server = Server::new(wanted.settings, sockets, metrics, sink, report)?;
    signals.begin();
    server.run(signals.stop())
}

/// What was asked for, options and slog's configuration together.
struct Wanted {
    endpoints: Vec<Endpoint>,
    settings: ServerSettings,
    log: PathBuf,
    state: PathBuf,
    recipients: Vec<PathBuf>,
    origin: String,
}

/// A log to write, and how it is called where it has to be made.
struct WantedLog {
    folder: LogFolder,
    origin: String,
}

impl Wanted {
    /// Reads files, checks what was asked for, opens nothing.
    fn from_options(o: &ListenOptions) -> Result<Wanted, Fault> {
        let config = match &o.slog_config {
            Some(path) => read_slog_config(path)?,
            None => SlogConfig::default(),
        };
        let tls = match (&o.tls_cert, &o.tls_key) {
            (Some(certificates), Some(key)) => {
                let files = ServerTls {
                    certificates: certificates.clone(),
                    key: key.clone(),
                    client_authorities: o.tls_client_ca.clone(),
                    is_client_required: o.tls_require_client,
                };
                Some(files.load().map_err(into_fault)?)
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
            return Err(Fault::usage("listen: --recipient is missing: name a reader's public key"));
        }
        let key =
            o.slog_key.clone().or_else(|| config.comms_private_key.as_ref().map(PathBuf::from));
        let key = key.map(|path| read_envelope_key(&path)).transpose()?;
        let endpoints = endpoints(o, &config);
        if endpoints.iter().any(|endpoint| endpoint.dialect.is_enveloped) && key.is_none() {
            return Err(into_fault(Error::NoEnvelopeKey));
        }
        if let Some(address) = o.metrics
            && !address.ip().is_loopback()
        {
            let text =
                format!("--metrics: {address}: is not the machine's own address: use 127.0.0.1");
            return Err(Fault::usage(text));
        }
        if o.spill.as_ref() == Some(&log) {
            let why = "is the log itself: name a folder on another disk";
            return Err(Fault::usage(format!("--spill {}: {why}", log.display())));
        }
        o.push.settings().check().map_err(into_fault)?;
        let settings = ServerSettings {
            envelope_key: key.map(Arc::new),
            envelope_workers: o.slog_workers,
            tls,
            connections: o.connections,
            idle: Duration::from_secs(o.idle),
            frame_timeout: Duration::from_secs(o.frame_timeout),
            framing: Framing { nul_ends_line: o.nul, ..Framing::default() },
            receive_buffer: o.receive_buffer,
            commit_after: Duration::from_millis(o.commit_after),
            report_every: o.stats.map(Duration::from_secs),
            ..ServerSettings::default()
        };
        let origin = o.origin.clone().unwrap_or_else(default_origin);
        Ok(Wanted { endpoints, settings, log, state, recipients, origin })
    }

    /// The log to write.
    fn log(&self, o: &ListenOptions) -> Result<WantedLog, Fault> {
        let mut policy = Policy::default();
        if o.no_compress {
            policy.manner.level = None;
        }
        let folder = LogFolder {
            files: direct_opener(),
            log: self.log.clone(),
            state: self.state.clone(),
            recipients: read_recipients(&self.recipients)?,
            policy,
        };
        Ok(WantedLog { folder, origin: self.origin.clone() })
    }

    /// The log that takes over where the first one can't be written.
    fn spill(&self, log: &WantedLog, folder: &Path) -> WantedLog {
        let folder = LogFolder {
            log: folder.to_owned(),
            state: state_of(folder, None),
            ..log.folder.clone()
        };
        WantedLog { folder, origin: format!("{}/spill", self.origin) }
    }
}

/// Makes the logs that are not there, and keeps secrets out of swap. A log to spill into is made too, so that it is
/// known now whether it can.
fn make_all(log: &WantedLog, spill: Option<&WantedLog>, o: &ListenOptions) -> Result<(), Fault> {
    if let Some(text) = guard_secrets().complaint() {
        eprintln!("gabion: {text}");
    }
    let make = |wanted: &WantedLog| {
        let LogFolder { log, state, recipients, .. } = &wanted.folder;
        if log.join("log.id").exists() {
            return Ok(None);
        }
        let made = init::make((log, state), &wanted.origin, recipients, &o.new);
        made.map(Some).map_err(LogFault::into_fault)
    };
    // Both are made before anything is written to one: if one can't be made, the other is removed.
    let made = make(log)?;
    if let Some(spill) = spill {
        make(spill).inspect_err(|_| made.iter().for_each(Created::remove))?;
    }
    Ok(())
}

/// Where options and slog's configuration ask to listen.
fn endpoints(o: &ListenOptions, config: &SlogConfig) -> Vec<Endpoint> {
    let port = |dialect: &Dialect| match dialect.transport {
        Transport::Udp => config.udp_syslog,
        Transport::Tcp => config.tcp_syslog,
        Transport::SlogUdp => config.udp_port,
        Transport::SlogTcp => config.tcp_port,
        // slog knows of no other.
        _ => None,
    };
    let mut all = o.listeners.0.clone();
    for dialect in dialect::ALL {
        all.extend(port(dialect).map(|port| {
            let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
            Endpoint { dialect, place: Place::Address(address) }
        }));
    }
    // Those of one dialect are next to each other, in the order of the table of dialects.
    all.sort_by_key(|endpoint| {
        dialect::ALL.iter().position(|d| d.name() == endpoint.dialect.name())
    });
    all
}

/// Prints what a server reports; where quiet is wanted, what is routine is left out.
fn report(is_quiet: bool) -> Report {
    Arc::new(move |notice| {
        if is_quiet && notice.is_routine() {
            return;
        }
        match notice {
            Notice::Push(fault) => eprintln!("gabion: {}", push_fault(fault).text()),
            other => eprintln!("gabion: {other}"),
        }
    })
}

/// The fault that an error of the server ends the program with; a missing option is named.
fn into_fault(e: Error) -> Fault {
    match e {
        Error::NoSocket => Fault::usage(
            "listen: nothing to listen on: name a socket, such as --udp 127.0.0.1:5514",
        ),
        Error::NoEnvelopeKey => {
            Fault::usage("listen: envelopes can't be opened without a key: name it with --slog-key")
        }
        Error::NoCertificate => Fault::usage("tls: name --tls-cert and --tls-key"),
        e => by_kind(&e),
    }
}

/// The exit code that goes with an error of the log server or the load generator.
pub(crate) fn by_kind(e: &Error) -> Fault {
    let text = Message::from(e);
    match e.kind() {
        ErrorKind::Settings => Fault::usage(text),
        ErrorKind::Input => Fault::input(text),
        ErrorKind::Environment => Fault::environment(text),
        ErrorKind::Internal => Fault::internal(text),
    }
}

/// The public keys of readers.
fn read_recipients(paths: &[PathBuf]) -> Result<Vec<Recipient>, Fault> {
    let mut recipients = Vec::new();
    for path in paths {
        let text = operator_file::text(path, KEY_FILE_BYTES_MAX).map_err(|e| {
            Fault::input(format!("{}: {e}: name a recipient's public key", path.display()))
        })?;
        let keys = Recipient::parse_file(&text).map_err(|e| {
            Fault::input(format!("{}: {e}: name a file with public keys", path.display()))
        })?;
        recipients.extend(keys);
    }
    Ok(recipients)
}

fn read_envelope_key(path: &Path) -> Result<EnvelopeKey, Fault> {
    let pem = operator_file::bytes(path, KEY_FILE_BYTES_MAX)
        .map_err(|e| Fault::input(format!("{}: {e}: name a private key", path.display())))?;
    EnvelopeKey::from_pem(&pem)
        .map_err(|e| Fault::input(format!("{}: {e}: name another", path.display())))
}

fn read_slog_config(path: &Path) -> Result<SlogConfig, Fault> {
    let text = operator_file::text(path, gabion_runtime::limits::NAMED_FILE_BYTES_MAX)
        .map_err(|e| Fault::input(format!("{}: {e}: name a slog configuration", path.display())))?;
    let config = SlogConfig::parse(&text)
        .map_err(|e| Fault::input(format!("{}:{}: {e}", path.display(), e.line)))?;
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
