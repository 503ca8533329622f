//! # outputs: what people and machines are given
//!
//! **In**: findings as the plain records of `record::eve` and `record::evidence`. **Out**: EVE lines,
//! `fast.log` lines, IDMEFv2 lines, tables. **Holds**: the formats and nothing else; no engine is known here.
#![forbid(unsafe_code)]

mod certificates;
pub mod community;
pub mod eve;
pub mod fast;
pub mod files;
mod format;
pub mod idmef;
pub mod limits;
mod line_file;
pub mod names;
pub mod page;
pub mod rank;
pub mod rotation;
pub mod sequence;
mod stats_log;
pub mod store;
pub mod table;
mod tally;
pub mod timestamp;
pub mod told;
pub mod wire;

pub use line_file::dated;

/// The version reported where the peer reports its own, so that version gates of its tests and of
/// consumers behave: formats follow this release.
pub const VERSION: &str = "8.0.7";
