//! # seal: a log that nobody reads without a key and nobody alters unseen
//!
//! In come records (time, source, kind, flags, bytes); out come files that a stranger can verify years
//! later at the speed of the disk. `docs/sealed-log-format.md` describes every byte, what survives a
//! crash and why, and what each verdict promises. Cryptography is `aws-lc-rs` (and the HPKE of `rustls`,
//! which is built on it); this crate composes it and makes none of its own.
//!
//! ## Writing and verifying
//!
//! ```
//! use gabion_seal::storage::Files;
//! use gabion_seal::verify::{Options, Verdict, verify};
//! use gabion_seal::{Flags, Init, Kind, Policy, Record, SecretKey, Source, Transport, Writer};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let (log_folder, state_folder) = (folder.path().join("log"), folder.path().join("log.state"));
//! let now_ns = 1_700_000_000_000_000_000; // the caller has the clock
//! let reader = SecretKey::generate()?; // a host that only writes needs its `recipient()` alone
//! let files = gabion_runtime::files::direct_opener(); // opens with the rights of this process
//! let mut log = Files::create_folder(&files, &log_folder)?;
//! Init::new("host.example/log", now_ns).create(&mut log, Files::create_folder(&files, &state_folder)?)?;
//!
//! let (log, state) = (Files::open(&files, &log_folder)?, Files::open(&files, &state_folder)?);
//! let recipients = vec![reader.recipient().clone()];
//! let (mut writer, _recovered) = Writer::open(log, state, recipients, Policy::default(), now_ns)?;
//! let source = Source::new(Transport::Udp, 1, "192.0.2.1:514", ""); // once per sender
//! let record = Record { time_ns: now_ns, kind: Kind::Message, flags: Flags::default(), bytes: b"<13>text" };
//! let ticket = writer.append(&record, &source)?; // flushes by itself at 1 MiB of sealed bytes
//! writer.tick(now_ns)?; // every 50 ms: what is due by time
//! writer.commit(now_ns)?; // before anything is acknowledged: seals, writes, syncs
//! assert!(ticket < writer.durable());
//! writer.close(now_ns)?; // closing statement, last checkpoint
//!
//! let options = Options { keys: std::slice::from_ref(&reader), jobs: 1, ..Options::default() };
//! let report = verify(&Files::open(&files, &log_folder)?, &options, &mut |_read, _all| {})?;
//! // Without a checkpoint that left the host, nobody knows whether the end was cut off.
//! assert_eq!((report.verdict(), report.places.len()), (Verdict::Unanchored, 0));
//! # Ok(()) }
//! ```
//! The writer is one thread's; errors of the storage stop it for good (`Error::Stopped`), and
//! `Writer::into_unsynced` returns what is not durable, to be offered again to a writer that is opened again;
//! `durable::DurableWriter` does that, and continues when a disk is full. `Writer::state` adds the log's own
//! statements in clear; what names sources (losses) is a record of kind `System` like any other.
//!
//! ## Where to find what
//!
//! [`verify::verify`] judges a log with or without a recipient's key. The example `seal_and_verify` does both:
//! `cargo run -p gabion-seal --example seal_and_verify`.
//!
//! Records and keys are at the root; [`reader`] reads, [`proof`] proves one record to somebody else, [`checkpoints`]
//! and [`witness`] are about what was signed, [`durable`] is the writer for a full or failing disk, [`storage`] is the
//! interface to where a log is kept, [`files`] is for programs that describe or repair a log, [`slog`] reads the files
//! of slog.
//!
//! # Features
//!
//! - `slog`, on by default: the files that slog's server stored (`flate2`, `serde`).
#![deny(unsafe_code)]

pub mod checkpoints;
mod create;
pub mod durable;
mod error;
pub mod files;
// For the tests and fuzz targets of the format.
#[doc(hidden)]
pub mod format;
mod identity;
mod leaves;
pub mod limits;
mod locked;
mod note;
mod own_id;
pub mod proof;
pub mod reader;
mod recipient;
mod record;
mod secrets;
#[cfg(feature = "slog")]
pub mod slog;
mod statement;
pub mod storage;
mod text;
mod unlock;
pub mod verify;
pub mod witness;
mod writer;

pub use create::{CreateError, Created, NewLog, store_recipients};
pub use error::{Error, Mismatch, Result};
pub use format::tree::sha256;
pub use identity::Identity;
pub use recipient::{Recipient, SecretKey, Stanza};
pub use record::{Flags, Kind, Record, Source, SourceView, Transport};
pub use secrets::{Locked, guard_secrets};
pub use statement::{
    Statement, class_number as statement_class, statement, text_member as statement_member,
};
pub use writer::{Init, Opened, Policy, Tally, Ticket, Unsynced, Writer};
