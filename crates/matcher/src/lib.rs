//! Finding literals, names and regular expressions in the buffers that rules inspect.
//!
//! What comes in: patterns of rules (bytes, case, anchoring facts, position bounds) and, at run
//! time, one buffer after the other. What goes out: the ids of the patterns that stand in the
//! buffer, each at most once, in no promised order. The crate knows nothing of rules, protocols
//! or packets and depends on no other crate of the project.
//!
//! - [`BufferMatcher`] is what an engine builds, one for each (direction, buffer): it sends every
//!   pattern to the cheapest structure that can find it and scans them all with one call.
//! - [`NameSet`] and [`ExactSet`] are lookups for whole names, name suffixes and whole values.
//! - [`Needle`] searches one pattern, for the inspection of contents after a hit.
//! - [`regex`] runs Perl-compatible expressions under limits.
//!
//! Everything built is immutable and shared between workers; what changes during a scan is in a
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
