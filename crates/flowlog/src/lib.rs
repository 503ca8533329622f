//! # flowlog: logs of flows, in whatever format, to records in order of time
//!
//! What comes in: Zeek's logs (TSV and JSON, plain or packed, single or a folder of them),
//! Suricata's EVE, Argus's and nfdump's flows (text, CSV, binary). What goes out: [`gabion_record::logs::Record`]s that
//! borrow from the line they were read from, in the order (time, kind of log, text), and what was
//! skipped, why, and in which line. What it holds: the lines that wait for earlier ones, under a
//! budget; nothing else grows with the input.
//!
//! - [`reader`]: the lines of one log; a format is one file beside it and one line in its table.
//! - [`feed`]: many logs as one stream; opens what it is told to read and nothing else.
//! - [`follow`]: logs that grow, are rotated and packed.
//! - [`netflow`]: datagrams of exporters, version 5, version 9 and IPFIX.
//! - [`intake`]: lines handed over one by one, while they are made.
//!
//! No input panics, and nothing is allocated per record once buffers have grown.
#![forbid(unsafe_code)]

mod argus;
mod columns;
mod eve;
pub mod feed;
pub mod field;
mod folders;
pub mod follow;
mod format;
mod formats;
mod growing;
pub mod intake;
pub mod json;
pub mod limits;
pub mod netflow;
mod nfcapd;
mod nfdump;
pub mod reader;
pub mod skip;
pub mod sorter;
pub mod source;
mod survey;
mod zeek;

pub use feed::{Feed, InputReport, Options};
pub use follow::Follow;
pub use formats::{Format, Row};
pub use intake::Intake;
pub use reader::Reader;
pub use skip::{Skip, Skips};
pub use survey::{Job, RunJobs, in_turn};
pub use zeek::kind_of;
