//! Finds literals, names and regular expressions in the buffers that rules inspect.
//!
//! The input is the patterns of rules (bytes, case, anchors, position bounds) and, at run time, one
//! buffer after the other. The output is the ids of the patterns that occur in the buffer, each at
//! most once, in no particular order. The crate does not know rules, protocols or packets and
//! depends on no other crate of the project.
//!
//! - [`BufferMatcher`] holds the patterns of one (direction, buffer) of an engine: it assigns every
//!   pattern to the cheapest structure that can find it and scans them all with one call.
//! - [`NameSet`] and [`ExactSet`] are lookups for whole names, name suffixes and whole values.
//! - [`Needle`] finds one pattern, for the inspection of contents after a hit.
//! - [`regex`] runs Perl-compatible expressions under limits.
//!
//! Matchers are immutable and shared between workers; the state that changes during a scan is in a
//! [`Scratch`] (or [`regex::RegexScratch`]) that each worker owns.
//!
//! Most buffers are shorter than 100 bytes, so the cost of a call counts as much as bytes per
//! second. A scan allocates nothing once its scratch has grown to the largest matcher.

mod anchored;
mod buffer;
mod exact;
mod gram;
pub mod limits;
mod load;
mod names;
mod pattern;
pub mod regex;
mod scratch;
mod single;
mod table;

pub use buffer::{BufferMatcher, Composition};
pub use exact::ExactSet;
pub use gram::frequency;
pub use names::{NameEntry, NameKind, NameSet};
pub use pattern::{Anchor, Matcher, Pattern, Scan};
pub use scratch::Scratch;
pub use single::Needle;
