//! Why a run can't be made, or ended before its end.

use std::io;
use std::path::PathBuf;

/// Why a run can't be made, or ended before its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An input is not there.
    #[error("{}: {source}: name a capture, a log or a folder of them", .path.display())]
    NoInput {
        /// The input.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// An input is no scap file that can be read.
    #[error("{}: {source}: name a capture of system calls (scap)", .path.display())]
    Scap {
        /// The input.
        path: PathBuf,
        /// What is wrong with it.
        source: gabion_scap::Error,
    },
    /// A capture of system calls is named together with something else.
    #[error("{} is a capture of system calls: read it alone", .path.display())]
    ScapAndOther {
        /// The capture.
        path: PathBuf,
    },
    /// A filter of events is wrong.
    #[error("filter: {0}: write a condition of Falco's rules, such as proc.name=cat")]
    Filter(#[source] gabion_condition::compile::FilterError),
    /// A template of lines is wrong.
    #[error("format: {0}: write fields of Falco's rules, such as %proc.name")]
    Format(#[source] gabion_condition::format::FormatError),
    /// A folder of captures can't be listed.
    #[error("{}: {source}: name a folder that can be read", .path.display())]
    UnreadableFolder {
        /// The folder.
        path: PathBuf,
        /// The error of the operating system.
        source: gabion_capture::Error,
    },
    /// A folder of logs can't be listed.
    #[error("{}: {source}: name logs", .path.display())]
    UnreadableLogs {
        /// The folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A folder of captures is empty.
    #[error("{}: holds no files: name a capture or a folder of captures", .path.display())]
    EmptyFolder {
        /// The folder.
        path: PathBuf,
    },
    /// Captures and logs are named together.
    #[error(
        "{} is a capture, {} is read as a log: read one after the other",
        .capture.display(),
        .log.display()
    )]
    CaptureAndLog {
        /// A capture.
        capture: PathBuf,
        /// A log.
        log: PathBuf,
    },
    /// What can be read only once is named twice.
    #[error("{}: is named twice but can be read only once: name it once", .path.display())]
    NamedTwice {
        /// The pipe.
        path: PathBuf,
    },
    /// A list of what is bad is not there.
    #[error("lists: {what}: name a file or folder of lists")]
    NoList {
        /// The path, and the error of the operating system.
        what: String,
    },
    /// A list of what is bad can't be read.
    #[error("lists: {what}")]
    UnreadableList {
        /// The path, and why not.
        what: String,
    },
    /// The whitelist can't be read.
    #[error("whitelist: {}: {source}: name another file", .path.display())]
    Whitelist {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The database of countries can't be read.
    #[error("configuration: geoip-database: {0}")]
    Countries(#[source] gabion_settings::Error),
    /// A checkpoint can't be gone on from.
    #[error("{}: {why}", .path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// A recording of the guard can't be read from its file.
    #[error("{}: {source}: name a recording", .path.display())]
    UnreadableRecording {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file is no recording of the guard.
    #[error("{}: {source}: name a recording of gabion guard watch --record", .path.display())]
    Recording {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: gabion_guard::recording::Error,
    },
    /// A live source is not to be had here.
    #[error("{0}")]
    Probe(#[from] gabion_probe::Error),
    /// An interface can't be throttled.
    #[error("--interface {interface}: {why}")]
    Guarded {
        /// The interface.
        interface: String,
        /// Why not, and what to do.
        why: String,
    },
    /// The allow-list of the throttle can't be used.
    #[error("--allow: {0}")]
    AllowList(#[from] crate::guard::AllowError),
    /// A network namespace can't be entered.
    #[error("--netns {}: {source}", .path.display())]
    Namespace {
        /// Its file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// An output can't be opened or written.
    #[error("{0}")]
    Output(String),
    /// The folder of outputs, or a file in it, can't be made.
    #[error("{0}")]
    Folder(String),
    /// Findings can't be sealed.
    #[error("{source}{}", unsealed(*.lost))]
    Seal {
        /// The error of the log.
        source: gabion_seal::Error,
        /// Findings that are not sealed.
        lost: u64,
    },
    /// The address that exporters of flows send to can't be listened on.
    #[error("netflow: {address}: {source}: choose another address")]
    Listen {
        /// The address.
        address: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The thread of the only worker can't be started.
    #[error("{name}: {source}: free some memory")]
    Thread {
        /// Its name.
        name: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The threads of several workers can't be started.
    #[error("workers: {0}")]
    Threads(#[source] io::Error),
    /// The reader of flows failed.
    #[error("reader: failed: {0}: report it")]
    Reader(String),
    /// The only worker failed or makes no progress.
    #[error("{0}")]
    Lost(String),
    /// The ledger of a run does not balance.
    #[error("ledger: {stage}: {what}: this is a fault of gabion, report it")]
    Unbalanced {
        /// The stage.
        stage: String,
        /// What is wrong with it.
        what: String,
    },
}

fn unsealed(lost: u64) -> String {
    match lost {
        0 => String::new(),
        n => format!(": {n} findings are not sealed"),
    }
}
