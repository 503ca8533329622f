//! The files of a log: their names, and what segments consist of, for programs that describe or repair a log.

pub use crate::create::{RECIPIENTS_FILE, SEED_FILE};
pub use crate::format::epoch::EpochKey;
pub use crate::format::segment::{Aead, file_name as segment_file_name};
pub use crate::format::walk::{Item, Walk};
pub use crate::identity::FILE as IDENTITY_FILE;
pub use crate::writer::{HOLD_FILE, Summary as SegmentSummary, held, segments};
