//! Why a run can't be made, or ended before its end.

use gabion_behavior::RestoreError;
use gabion_capture::filter::FilterError;
use gabion_outputs::OutputError;
use gabion_record::ledger::{Imbalance, Tally};
use std::io;
use std::net::SocketAddr;
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
    /// A capture of system calls is not there.
    #[error("{}: {source}: name a capture of system calls (scap)", .path.display())]
    NoScap {
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
    #[error("filter: {text}: {source}: write a condition of Falco's rules, such as proc.name=cat")]
    Filter {
        /// The filter.
        text: String,
        /// What is wrong with it.
        source: gabion_condition::compile::FilterError,
    },
    /// A template of lines is wrong.
    #[error("--format: {text}: {source}: write fields of Falco's rules, such as %proc.name")]
    Format {
        /// The template.
        text: String,
        /// What is wrong with it.
        source: gabion_condition::format::FormatError,
    },
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
    #[error("lists: {}: {source}: name a file or folder of lists", .path.display())]
    NoList {
        /// The list.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A list of what is bad can't be read.
    #[error("lists: {}: {source}", .path.display())]
    UnreadableList {
        /// The list.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A list of what is bad is packed.
    #[error("lists: {}: {PACKED_LIST}", .path.display())]
    PackedList {
        /// The list.
        path: PathBuf,
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
    /// A checkpoint can't be read.
    #[error("{}: {source}", .path.display())]
    UnreadableCheckpoint {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A checkpoint has a wrong checksum.
    #[error("{}: it is damaged: start again with --overwrite, or in another folder (-l)", .path.display())]
    DamagedCheckpoint {
        /// The file.
        path: PathBuf,
    },
    /// A checkpoint has the form of another version.
    #[error(
        "{}: it was written by {} version of Gabion (form {version}, this version reads {reads}): continue from it \
         with that version, or start again with --overwrite, or in another folder (-l)",
        .path.display(),
        written_by(*.version, *.reads)
    )]
    OtherCheckpoint {
        /// The file.
        path: PathBuf,
        /// Its form.
        version: u32,
        /// The form that is read.
        reads: u32,
    },
    /// A checkpoint does not fit the run.
    #[error("{}: {source}", .path.display())]
    UnfitCheckpoint {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: RestoreError,
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
    #[error("--interface {interface}: {source}")]
    Guarded {
        /// The interface.
        interface: String,
        /// Why not, and what to do.
        source: crate::guard::GuardRefusal,
    },
    /// The allow-list of the throttle can't be used.
    #[error("--allow: {0}")]
    AllowList(#[from] crate::guard::AllowError),
    /// A change of the host can't be made or undone.
    #[error("{0}")]
    HostChange(#[from] crate::guard::ChangeError),
    /// A network namespace can't be entered.
    #[error("--netns {}: {source}: name a network namespace, such as one in /run/netns", .path.display())]
    Namespace {
        /// Its file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// An output can't be opened or written.
    #[error("{0}")]
    Output(#[from] OutputError),
    /// A file of the run can't be written.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A recording can't be written.
    #[error("{}: {source}: choose another file with --record", .path.display())]
    RecordingFile {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file is named as input and as output.
    #[error("{}: is read and cannot be written at the same time: name another file", .path.display())]
    SameFile {
        /// The file.
        path: PathBuf,
    },
    /// The page about a recording can't be written.
    #[error("{}: {source}: choose another folder", .path.display())]
    Page {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The mode of the packet log is none that there is.
    #[error("pcap-log.mode: {mode} is not supported: normal or multi")]
    PacketLogMode {
        /// The mode.
        mode: String,
    },
    /// The packet log can't be packed like that.
    #[error("pcap-log.compression: {name} is not supported: none or lz4")]
    PacketLogCompression {
        /// The compression.
        name: String,
    },
    /// The folder of the packet log is not there.
    #[error("pcap-log.dir: {} is not a folder", .path.display())]
    PacketLogFolder {
        /// The folder.
        path: PathBuf,
    },
    /// The filter of the packet log is wrong.
    #[error("pcap-log.bpf-filter: {0}")]
    PacketLogFilter(FilterError),
    /// The folder of outputs can't be made, or a file in it can't be read.
    #[error("{}: {source}", .path.display())]
    Folder {
        /// The folder or the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file in the folder of outputs can't be made.
    #[error("{0}")]
    FolderOutput(#[source] OutputError),
    /// Findings can't be sealed.
    #[error("{source}{}", unsealed(*.lost))]
    Seal {
        /// The error of the log.
        source: gabion_seal::Error,
        /// Findings that are not sealed.
        lost: u64,
    },
    /// The address that exporters of flows send to can't be listened on.
    #[error(
        "netflow: {}: {source}: choose another address",
        .address.map(|address| address.to_string()).unwrap_or_default()
    )]
    Listen {
        /// The address, where the socket has one.
        address: Option<SocketAddr>,
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
    /// The reader of flows panicked.
    #[error("reader: failed: {message}: report it")]
    Reader {
        /// The message of the panic.
        message: String,
    },
    /// The only worker panicked.
    #[error("{who}: failed: {message}: report it")]
    Panicked {
        /// Its name.
        who: String,
        /// The message of the panic.
        message: String,
    },
    /// The only worker makes no progress.
    #[error(
        "{who}: abandoned: it made no progress: what was found before is written, what was read is not known: report it"
    )]
    Abandoned {
        /// Its name.
        who: &'static str,
    },
    /// The only worker left no result.
    #[error("{who}: failed: report it")]
    Gone {
        /// Its name.
        who: &'static str,
    },
    /// The ledger of a run does not balance.
    #[error("ledger: {stage}: {what}: this is a fault of gabion, report it")]
    Unbalanced {
        /// The stage.
        stage: String,
        /// What is wrong with it.
        what: LostTrack,
    },
}

/// How a stage lost track of what went through it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LostTrack {
    /// Its own account does not balance.
    #[error("{0}")]
    Ledger(#[from] Imbalance),
    /// It received something else than the stage before it passed on.
    #[error("received {received}, but {from} passed on {passed}")]
    Between {
        /// The stage before it.
        from: &'static str,
        /// What that stage passed on.
        passed: Tally,
        /// What was received.
        received: Tally,
    },
}

/// What is wrong with a packed list.
pub(crate) const PACKED_LIST: &str = "packed lists are not read: unpack it";

fn written_by(version: u32, reads: u32) -> &'static str {
    if version < reads { "an older" } else { "a newer" }
}

fn unsealed(lost: u64) -> String {
    match lost {
        0 => String::new(),
        n => format!(": {n} findings are not sealed"),
    }
}
