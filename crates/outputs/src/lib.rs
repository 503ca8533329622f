//! # outputs: what people and programs read
//!
//! **In**: findings as the plain records of `record::eve` and `record::evidence`. **Out**: EVE lines,
//! `fast.log` lines, IDMEFv2 lines, tables. **Holds**: the formats and nothing else; no engine is known here.
#![forbid(unsafe_code)]

mod already_written;
mod community;
mod dispatch;
mod error;
pub mod eve;
mod event_counts;
mod file_numbers;
pub mod idmef;
pub mod kinds;
pub mod limits;
mod line_file;
mod order;
mod output;
mod output_kind;
mod outputs;
mod packet_order;
pub mod page;
pub mod profile_store;
mod protocol_names;
mod receiver;
mod rotation;
pub mod table;
pub mod timestamp;
pub mod triage;

pub use already_written::AlreadyWritten;
pub use error::{OutputError, SettingError};
pub use event_counts::{AlertSeen, AlertTally, EventCounts, HostAlerts};
pub use kinds::{falco, fast, finding_files, guard_events, packet_log};
pub use line_file::{LineFile, dated};
pub use output::{
    Destination, FlowRecordHead, Format, GuardRecord, Output, Piece, PieceKind, Pieces, Record,
    StatsTexts,
};
pub use outputs::{Outputs, Survey};
pub use packet_order::{LineBatch, WorkerOutputs};

/// The version reported where Suricata reports its own, so that version gates of its tests and of
/// consumers behave: formats follow this release.
pub const VERSION: &str = "8.0.7";
