//! # flowlog: logs of flows, in whatever format, to records in order of time
//!
//! What comes in: Zeek's logs (TSV and JSON, plain or compressed, single or a folder of them),
//! Suricata's EVE, Argus's and nfdump's flows (text, CSV, binary). What goes out: [`gabion_record::logs::Record`]s that
//! borrow from the line they were read from, in the order (time, kind of log, text), and what was
//! skipped, why, and in which line. What it holds: the lines that wait for earlier ones, under a
//! budget; nothing else grows with the input.
//!
//! ```
//! use gabion_flowlog::{Line, Reader};
//!
//! let log = "#path\tconn\n#fields\tts\tuid\tid.orig_h\tid.resp_h\tid.resp_p\n\
//!     1700000000.5\tC1\t10.0.0.1\t192.0.2.7\t443\n";
//! let mut reader = Reader::new("conn.log", None);
//! let (mut ports, mut scratch) = (Vec::new(), Vec::new());
//! for line in log.lines() {
//!     if let Line::Record(_when, layout) = reader.line(line.as_bytes()) {
//!         let record = reader.record(layout, line.as_bytes(), &mut scratch)?;
//!         ports.push(record.dst_port);
//!     }
//! }
//! assert_eq!(ports, [443]);
//! # Ok::<(), gabion_flowlog::Skip>(())
//! ```
//!
//! `examples/records.rs` reads files. The crate opens none by itself: its caller hands in a
//! [`FileOpener`](gabion_record::files::FileOpener).
//!
//! - [`Reader`]: the lines of one log. A format is one file and one row of the table in `formats`.
//! - [`Feed`]: many logs as one stream. A file is opened when its time comes, by what the caller hands in.
//! - [`Follow`]: logs that grow, are rotated and compressed.
//! - [`Intake`]: lines handed over one by one, while they are made; [`RecordIntake`]: the same of records.
//! - [`netflow`]: datagrams of exporters, version 5, version 9 and IPFIX.
//! - [`source`]: files and pipes, plain or compressed, as lines; [`json`]: the members of a line of JSON.
//!
//! No input panics, and nothing is allocated per record once buffers have grown.
#![forbid(unsafe_code)]

mod columns;
mod error;
mod feed;
mod field;
mod folders;
mod follow;
mod format;
mod formats;
mod growing;
mod intake;
pub mod json;
pub mod limits;
pub mod netflow;
mod nfcapd;
mod reader;
mod record_intake;
mod skip;
mod sorter;
pub mod source;
mod survey;

pub use error::InputError;
pub use feed::{Feed, InputReport, OpenOnce, Options, Taker};
pub use follow::{Follow, Taken};
pub use formats::zeek::kind_of;
pub use formats::{Format, Row};
pub use intake::{Each, Intake};
pub use reader::{LayoutId, Line, Reader};
pub use record_intake::RecordIntake;
pub use skip::{Skip, Skips};
pub use survey::{Job, RunJobs, in_turn};
