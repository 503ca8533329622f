//! # outputs: what people and machines are given
//!
//! **In**: findings as the plain records of `record::eve` and `record::evidence`. **Out**: EVE lines,
//! `fast.log` lines, IDMEFv2 lines, tables. **Holds**: the formats and nothing else; no engine is known here.
#![forbid(unsafe_code)]

pub mod already_written;
mod certificate_store;
pub mod community;
pub mod eve;
mod event_counts;
pub mod fast;
pub mod files;
mod format;
pub mod idmef;
pub mod limits;
mod line_file;
pub mod packet_log;
pub mod packet_order;
pub mod page;
pub mod profile_store;
pub mod protocol_names;
pub mod rotation;
mod stats_log;
pub mod table;
pub mod timestamp;
pub mod triage;

pub use line_file::dated;

/// The version reported where the peer reports its own, so that version gates of its tests and of
/// consumers behave: formats follow this release.
pub const VERSION: &str = "8.0.7";
