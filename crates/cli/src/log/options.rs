//! The options of `gabion log`.

use super::push::PushOptions;
use super::times;
use crate::values;
use clap::{Args, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What to do with a sealed log.
#[derive(Debug, Subcommand)]
pub(crate) enum LogVerb {
    /// Create a key: of a reader, or the first key of a log's signer
    Keygen(Keygen),
    /// Create a log
    Init(Init),
    /// Seal standard input, one record per line
    Append(Append),
    /// Seal the entries of systemd's journal as they come; continues where it ended, also after a kill
    FollowJournal(FollowJournal),
    /// Print records: by number, time, source, text; needs a reader's key
    Show(Show),
    /// Verify the log's files; exit code 0 needs an anchor (see docs/sealed-log-format.md)
    Verify(Verify),
    /// Write a proof of one record that anybody can check with the log's public key
    Prove(Prove),
    /// Check a proof; exit code 20 when it does not hold
    CheckProof(CheckProof),
    /// Print the newest signed checkpoint, with a proof that an older one is its beginning; or carry it to
    /// witnesses and files of anchors
    Checkpoint(CheckpointOptions),
    /// Keep checkpoints off the host, to verify against later
    Anchor(Anchor),
    /// Compare two checkpoints or files of them: exit code 22 when they exclude each other
    Compare(Compare),
    /// Print all records for another program
    Export(Export),
    /// Check a file that slog wrote, as slog does, and seal its records
    ImportSlog(ImportSlog),
    /// Open the log as a writer does: repairs the end after a crash, refuses any other damage
    Recover(Recover),
    /// Print how large the log is, what is in it and who can read it
    Stat(Stat),
    /// Remove old segments, leaving what verification needs
    Prune(Prune),
    /// Add and remove readers
    Rewrap(Rewrap),
    /// Destroy the keys of segments: their content can't be read any more, the tree stays whole
    Shred(Shred),
    /// Protect segments from pruning, or release them
    Hold(Hold),
}

/// A log and its signer's state.
#[derive(Debug, Args)]
pub(crate) struct LogFolder {
    /// The log's folder
    #[arg(value_name = "LOG")]
    pub(crate) log: PathBuf,
    /// The signer's state [default: LOG.state]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
}

/// A log and the keys of its readers.
#[derive(Debug, Args)]
pub(crate) struct Reading {
    /// The log's folder
    #[arg(value_name = "LOG")]
    pub(crate) log: PathBuf,
    /// A reader's private key (repeatable)
    #[arg(long = "key", value_name = "FILE")]
    pub(crate) keys: Vec<PathBuf>,
    /// The log's public key, kept off the host, which must be the one of the log: a file, or the key
    #[arg(long, value_name = "FILE|KEY", value_parser = values::bytes())]
    pub(crate) vkey: Option<OsString>,
}

/// The output of a verb.
#[derive(Debug, Args)]
pub(crate) struct Output {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Kinds of reader's keys.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum KeyType {
    /// X25519, for HPKE
    X25519,
    /// RSA of 4096 bits, for OAEP
    Rsa4096,
}

/// Options of `log keygen`.
#[derive(Debug, Args)]
pub(crate) struct Keygen {
    /// Where to write it; nothing that is there is overwritten
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Kind of a reader's key
    #[arg(long = "type", value_enum, default_value = "x25519")]
    pub(crate) kind: KeyType,
    /// Make the first key of a signer instead, in the state folder that `init` is given
    #[arg(long, requires = "origin")]
    pub(crate) signer: bool,
    /// Name of the signer's log
    #[arg(long, value_name = "NAME", value_parser = values::origin)]
    pub(crate) origin: Option<String>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Settings of a new log, in addition to its folders and readers.
#[derive(Clone, Debug, Args)]
pub(crate) struct NewLogOptions {
    /// Sign a checkpoint every N chunks at most, in a new log
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = values::number::<u64>(1, u64::from(u32::MAX)))]
    pub(crate) checkpoint_chunks: u64,
    /// Sign a checkpoint every S seconds at most, in a new log
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = values::seconds)]
    pub(crate) checkpoint_seconds: u64,
    /// Make a log where locks may not hold for other machines
    #[arg(long)]
    pub(crate) allow_network_fs: bool,
}

/// Options of `log init`.
#[derive(Debug, Args)]
pub(crate) struct Init {
    #[command(flatten)]
    pub(crate) folder: LogFolder,
    /// Name of the log in its checkpoints, such as `host.example/log`
    #[arg(long, value_name = "NAME", value_parser = values::origin)]
    pub(crate) origin: String,
    /// Public key of a reader (repeatable)
    #[arg(long = "recipient", value_name = "FILE", required = true)]
    pub(crate) recipients: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) new: NewLogOptions,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// How chunks are made.
#[derive(Debug, Args)]
pub(crate) struct SealOptions {
    /// Pad chunks, so that their length reveals less (12 % at most)
    #[arg(long)]
    pub(crate) pad: bool,
    /// Do not compress: lengths then reveal nothing about content but its length
    #[arg(long)]
    pub(crate) no_compress: bool,
    /// Round the visible times to whole seconds
    #[arg(long)]
    pub(crate) hide_times: bool,
    /// A class of records with keys of its own, that can be shredded alone (repeatable, in order)
    #[arg(long = "class", value_name = "NAME", value_parser = values::text())]
    pub(crate) classes: Vec<String>,
}

/// Options of `log append`.
#[derive(Debug, Args)]
pub(crate) struct Append {
    #[command(flatten)]
    pub(crate) folder: LogFolder,
    #[command(flatten)]
    pub(crate) seal: SealOptions,
    /// Put the records into this class
    #[arg(long, value_name = "NAME", value_parser = values::text())]
    pub(crate) into: Option<String>,
    /// Standard input is in journald's export format, one record for each entry
    #[arg(long, conflicts_with = "raw")]
    pub(crate) journal_export: bool,
    /// Lines may end in CR, which is kept; empty ones are records too
    #[arg(long)]
    pub(crate) raw: bool,
    /// Print one JSON object about what was sealed
    #[arg(long)]
    pub(crate) json: bool,
    /// Print nothing
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Options of `log follow-journal`.
#[derive(Debug, Args)]
pub(crate) struct FollowJournal {
    #[command(flatten)]
    pub(crate) folder: LogFolder,
    #[command(flatten)]
    pub(crate) seal: SealOptions,
    /// The program that reads the journal
    #[arg(long, value_name = "PROGRAM", default_value = "journalctl")]
    pub(crate) journalctl: PathBuf,
    /// Print one JSON object about what was sealed at the end
    #[arg(long)]
    pub(crate) json: bool,
    /// Print nothing at the end
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Further arguments for journalctl, such as matches, --unit or --directory
    #[arg(last = true, value_name = "ARGUMENT")]
    pub(crate) args: Vec<String>,
}

/// Which records.
#[derive(Debug, Args)]
pub(crate) struct Select {
    /// Received at or after this time, in journalctl's forms: 2026-11-23, '2026-11-23 04:00', 04:00, yesterday, today,
    /// @SECONDS, 2h, '1 day ago'; without a zone UTC
    #[arg(short = 'S', long, value_name = "TIME", allow_hyphen_values = true, value_parser = times::time)]
    pub(crate) since: Option<u64>,
    /// Received before this time
    #[arg(short = 'U', long, value_name = "TIME", allow_hyphen_values = true, value_parser = times::time)]
    pub(crate) until: Option<u64>,
    /// Only records of this host, as the message names it, or of this address where it names none (repeatable)
    #[arg(long = "host", value_name = "HOST", value_parser = values::text())]
    pub(crate) hosts: Vec<String>,
    /// Only entries of the journal of this unit of systemd (repeatable)
    #[arg(short = 'u', long = "unit", value_name = "UNIT", value_parser = values::text())]
    pub(crate) units: Vec<String>,
    /// Only records of this program: the tag of a syslog message, or the journal's identifier (repeatable)
    #[arg(short = 't', long = "identifier", value_name = "NAME", value_parser = values::text())]
    pub(crate) identifiers: Vec<String>,
    /// Only records of this severity or worse, or in a range: emerg, alert, crit, err, warning, notice, info, debug, 0 to 7,
    /// err..alert
    #[arg(short = 'p', long, value_name = "SEVERITY", value_parser = gabion_logs::view::parse_severities)]
    pub(crate) priority: Option<gabion_logs::view::Severities>,
    /// Only records from this sender (address with or without port), or of this identity
    #[arg(long, value_name = "TEXT", value_parser = values::text())]
    pub(crate) source: Option<String>,
    /// Only records that contain this text
    #[arg(short = 'g', long, value_name = "TEXT", value_parser = values::text())]
    pub(crate) grep: Option<String>,
    /// A record's number, or A-B
    #[arg(long, value_name = "A-B", value_parser = values::records)]
    pub(crate) record: Option<(u64, u64)>,
    /// Only records of this kind: message, finding, system
    #[arg(long, value_name = "KIND", value_parser = values::record_kind)]
    pub(crate) kind: Option<gabion_seal::Kind>,
}

/// Options of `log show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) select: Select,
    /// Continue as the log is written
    #[arg(short = 'f', long, conflicts_with = "reverse")]
    pub(crate) follow: bool,
    /// Print only the last N
    #[arg(short = 'n', long, value_name = "N", value_parser = values::number::<u64>(0, u64::MAX))]
    pub(crate) lines: Option<u64>,
    /// Print the newest first
    #[arg(short = 'r', long)]
    pub(crate) reverse: bool,
    /// Print text for people, made safe for terminals, instead of JSON lines
    #[arg(long)]
    pub(crate) text: bool,
    /// Print JSON lines (the default)
    #[arg(long, conflicts_with = "text")]
    pub(crate) json: bool,
}

/// Options of `log verify`.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The log's folder
    #[arg(value_name = "LOG")]
    pub(crate) log: PathBuf,
    /// A checkpoint, or a file of them, kept off the host (repeatable)
    #[arg(long = "anchor", value_name = "FILE")]
    pub(crate) anchors: Vec<PathBuf>,
    /// The log's public key, kept off the host: a file, or the key itself
    #[arg(long, value_name = "FILE|KEY", value_parser = values::bytes())]
    pub(crate) vkey: Option<OsString>,
    /// Public key of a trusted witness: a file, or the key itself (repeatable)
    #[arg(long = "witness", value_name = "FILE|KEY", value_parser = values::bytes())]
    pub(crate) witnesses: Vec<OsString>,
    /// A reader's private key: every record is opened and compared too (repeatable)
    #[arg(long = "key", value_name = "FILE")]
    pub(crate) keys: Vec<PathBuf>,
    /// The newest signed time may be no older than this, such as `90s`, `15m`, `2h` or `7d`
    #[arg(long, value_name = "AGE", allow_hyphen_values = true, value_parser = times::age)]
    pub(crate) max_age: Option<u64>,
    /// Check the signature of every commit mark, not only of those after the last checkpoint
    #[arg(long)]
    pub(crate) deep: bool,
    /// Threads [default: all]
    #[arg(long, value_name = "N", value_parser = values::number::<u8>(1, 255))]
    pub(crate) jobs: Option<u8>,
    /// Exit with 0 though the log was not compared with a copy kept elsewhere
    #[arg(long)]
    pub(crate) allow_unanchored: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Print the verdict alone
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Options of `log prove`.
#[derive(Debug, Args)]
pub(crate) struct Prove {
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Number of the record
    #[arg(long, value_name = "N", value_parser = values::any)]
    pub(crate) record: Option<u64>,
    /// Id of a finding, instead of its number
    #[arg(long, value_name = "ID", conflicts_with = "record", value_parser = values::finding)]
    pub(crate) finding: Option<String>,
    /// Where to write the proof [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Leave the content out: prove only that the record exists, and its position
    #[arg(long)]
    pub(crate) redact_bytes: bool,
    /// Print one JSON object about the proof
    #[arg(long, requires = "output")]
    pub(crate) json: bool,
}

/// Options of `log check-proof`.
#[derive(Debug, Args)]
pub(crate) struct CheckProof {
    /// The proof
    #[arg(value_name = "PROOF")]
    pub(crate) proof: PathBuf,
    /// The log's public key: a file, or the key itself
    #[arg(long, value_name = "FILE|KEY", value_parser = values::bytes())]
    pub(crate) vkey: OsString,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Options of `log checkpoint`.
#[derive(Debug, Args)]
pub(crate) struct CheckpointOptions {
    /// The log's folder
    #[arg(value_name = "LOG")]
    pub(crate) log: PathBuf,
    /// The log's public key, kept off the host, which must be the one of the log: a file, or the key
    #[arg(long, value_name = "FILE|KEY", value_parser = values::bytes())]
    pub(crate) vkey: Option<OsString>,
    /// Add a proof that the first SIZE chunks of the log have not changed since
    #[arg(long, value_name = "SIZE", value_parser = values::any)]
    pub(crate) since: Option<u64>,
    #[command(flatten)]
    pub(crate) push: PushOptions,
    /// Continue to carry each new checkpoint to where these options say
    #[arg(long, conflicts_with_all = ["since", "json"])]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Options of `log anchor`.
#[derive(Debug, Args)]
pub(crate) struct Anchor {
    /// The word `add`: what to do
    #[arg(value_name = "add", value_parser = ["add"], hide_possible_values = true)]
    pub(crate) what: String,
    /// The anchor file, off the host or on a medium of its own
    #[arg(value_name = "ANCHORS")]
    pub(crate) anchors: PathBuf,
    /// A checkpoint, or a log's folder whose newest one is taken
    #[arg(value_name = "NOTE|LOG")]
    pub(crate) note: PathBuf,
    /// The log's public key, which must be the one of the log's folder; not with a checkpoint alone
    #[arg(long, value_name = "FILE|KEY", value_parser = values::bytes())]
    pub(crate) vkey: Option<OsString>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Options of `log compare`.
#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// A checkpoint or a file of them
    #[arg(value_name = "A")]
    pub(crate) one: PathBuf,
    /// Another
    #[arg(value_name = "B")]
    pub(crate) other: PathBuf,
    /// The log that both checkpoints come from: different sizes are compared in it
    #[arg(long, value_name = "LOG")]
    pub(crate) log: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Forms of `log export`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One JSON object for each record, with the bytes in base64 too
    Json,
    /// The messages' own bytes, each after its length (RFC 6587)
    Rfc5424,
    /// journald's export format
    Journal,
}

/// Options of `log export`.
#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) select: Select,
    /// Form
    #[arg(long, value_enum, default_value = "json")]
    pub(crate) format: ExportFormat,
    /// The same as --format json
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `log import-slog`.
#[derive(Debug, Args)]
pub(crate) struct ImportSlog {
    /// slog's file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// slog's private storage key
    #[arg(long, value_name = "FILE")]
    pub(crate) priv_key: PathBuf,
    /// File with slog's storage password; every line must be encrypted with it
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// Open the wrapped password of every line, not only where the password of the line before does not open it
    #[arg(long)]
    pub(crate) check_wraps: bool,
    /// How many lines there should be
    #[arg(long, value_name = "N", value_parser = values::any)]
    pub(crate) expect_lines: Option<u64>,
    /// Hash of the line that should be the last
    #[arg(long, value_name = "HEX", value_parser = values::hash)]
    pub(crate) expect_last: Option<String>,
    /// Seal the records into this log; without it they are only checked
    #[arg(long, value_name = "LOG")]
    pub(crate) log: Option<PathBuf>,
    /// The signer's state of that log
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Options of `log recover`.
#[derive(Debug, Args)]
pub(crate) struct Recover {
    #[command(flatten)]
    pub(crate) folder: LogFolder,
    /// If the damage was not caused by a crash, move the damaged log aside and continue in a new one that names it
    #[arg(long)]
    pub(crate) accept_loss: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Options of `log stat`.
#[derive(Debug, Args)]
pub(crate) struct Stat {
    /// The log's folder
    #[arg(value_name = "LOG")]
    pub(crate) log: Option<PathBuf>,
    /// Ask a running `gabion listen`, at the address of its --metrics, how many messages it received, sealed and
    /// lost
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "log", value_parser = values::server)]
    pub(crate) socket: Option<SocketAddr>,
    /// The log's public key, kept off the host, which must be the one of the log: a file, or the key
    #[arg(long, value_name = "FILE|KEY", value_parser = values::bytes())]
    pub(crate) vkey: Option<OsString>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Options of `log prune`.
#[derive(Debug, Args)]
pub(crate) struct Prune {
    #[command(flatten)]
    pub(crate) folder: LogFolder,
    /// Keep segments with records younger than this, such as `90d`
    #[arg(long, value_name = "AGE", allow_hyphen_values = true, value_parser = times::age)]
    pub(crate) keep: u64,
    /// Only print what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Options of `log rewrap`.
#[derive(Debug, Args)]
pub(crate) struct Rewrap {
    #[command(flatten)]
    pub(crate) folder: LogFolder,
    /// A reader's private key that opens the segments (repeatable)
    #[arg(long = "key", value_name = "FILE", required = true)]
    pub(crate) keys: Vec<PathBuf>,
    /// Public key to add (repeatable)
    #[arg(long = "add", value_name = "FILE")]
    pub(crate) add: Vec<PathBuf>,
    /// Id of a reader to remove (repeatable)
    #[arg(long = "remove", value_name = "ID", value_parser = values::reader)]
    pub(crate) remove: Vec<String>,
    /// Only future segments: those that are there stay as they are
    #[arg(long)]
    pub(crate) future_only: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Options of `log shred`.
#[derive(Debug, Args)]
pub(crate) struct Shred {
    #[command(flatten)]
    pub(crate) folder: LogFolder,
    /// First chunk of a segment (repeatable); with --class alone, all segments
    #[arg(long = "segment", value_name = "CHUNK", value_parser = values::any)]
    pub(crate) segments: Vec<u64>,
    /// Only this class of records, by name; without it --segment is needed
    #[arg(long, value_name = "NAME", value_parser = values::text())]
    pub(crate) class: Option<String>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Options of `log hold`.
#[derive(Debug, Args)]
pub(crate) struct Hold {
    #[command(flatten)]
    pub(crate) folder: LogFolder,
    /// First chunk of a segment (repeatable)
    #[arg(long = "segment", value_name = "CHUNK", required = true, value_parser = values::any)]
    pub(crate) segments: Vec<u64>,
    /// Release them
    #[arg(long)]
    pub(crate) release: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}
