//! What the judge of a log knows so far: where it is, what was signed, how far the log is good, and which
//! segments it has met.

use super::report::Place;
use crate::checkpoints::{self, Entry};
use crate::format::index;
use crate::format::retain::Stub;
use crate::format::segment;
use crate::format::tree::{Hash, Range};
use crate::identity::Identity;
use crate::statement::PrunedSegment;
use std::collections::{BTreeMap, BTreeSet};

/// An epoch: the key that signs sizes above `start` up to `end`.
#[derive(Debug)]
pub(super) struct Epoch {
    pub(super) number: u64,
    pub(super) key: [u8; 32],
    pub(super) start: u64,
    pub(super) end: Option<u64>,
    pub(super) is_closed: bool,
}

/// Damage whose meaning is decided at the end.
#[derive(Debug)]
pub(super) struct Damage {
    pub(super) chunk: u64,
    pub(super) place: Place,
}

/// A checkpoint that no key known at its place had signed.
#[derive(Debug)]
pub(super) struct Unknown {
    pub(super) entry: Box<Entry>,
    pub(super) epoch: u64,
}

/// The readers of a segment, by the last statement about it.
#[derive(Debug, Default)]
pub(super) struct Readers {
    pub(super) keys: Option<Hash>,
    pub(super) ids: BTreeSet<[u8; 8]>,
    pub(super) classes: Vec<(u8, [u8; 32])>,
}

/// Where in the log the judge is.
#[derive(Debug, Default)]
pub(super) struct Position {
    /// The next chunk.
    pub(super) chunk: u64,
    /// The next record.
    pub(super) record: u64,
    /// The segment's number.
    pub(super) segment_number: u64,
    /// Subtree roots of the chunks so far; `None` once a chunk is lost.
    pub(super) range: Option<Range>,
    /// The segment.
    pub(super) current: Option<segment::Header>,
    /// Chunks of the segment as its index should have them; kept where it can be opened.
    pub(super) heads: Vec<(index::Entry, bool)>,
    /// How far into the segment items were gone through.
    pub(super) reached: u64,
    /// Damage has ended the log: nothing after it can be put in order.
    pub(super) is_cut: bool,
}

/// What checkpoints say, and who signs them.
pub(super) struct Signed<'a> {
    /// Who signs the log.
    pub(super) identity: Identity,
    pub(super) notes: checkpoints::Reader<'a>,
    /// The next checkpoint of the file, and the last one taken.
    pub(super) next_note: Option<Box<Entry>>,
    pub(super) last_note: Option<Box<Entry>>,
    /// Size of the last checkpoint of the file.
    pub(super) signed_file_size: u64,
    /// Where a checkpoint is torn at the end of the file.
    pub(super) torn_note: Option<u64>,
    /// Epochs announced so far.
    pub(super) epochs: Vec<Epoch>,
    /// Checkpoints that no key known at their place had signed.
    pub(super) unknown: Vec<Unknown>,
    /// Roots at the sizes of anchors.
    pub(super) anchors: BTreeMap<u64, Option<Hash>>,
}

/// How far the log is good, by chunks.
#[derive(Debug, Default)]
pub(super) struct Extent {
    /// Size of the last checkpoint that agreed with the tree.
    pub(super) agreed: u64,
    /// Chunks that a checkpoint or a commit mark covers.
    pub(super) covered: u64,
    /// The same without the last commit mark: a crash can hurt what that one covers, and nothing before.
    pub(super) settled: u64,
    /// Size of the largest checkpoint that a chunk names.
    pub(super) named: u64,
    /// Newest time of a record.
    pub(super) newest_ns: u64,
    /// Times of records can be compared.
    pub(super) has_clock: bool,
    /// Records below the last checkpoint.
    pub(super) records_signed: u64,
    /// The writer has stated that it stopped.
    pub(super) has_stop: bool,
}

/// Segments met, pruned, and who can read them.
#[derive(Debug, Default)]
pub(super) struct Segments {
    pub(super) readers: BTreeMap<u64, Readers>,
    /// First chunks of segments whose keys were destroyed.
    pub(super) shredded: BTreeSet<u64>,
    /// Statements about pruned segments, with their chunks.
    pub(super) prunes: Vec<(u64, PrunedSegment)>,
    /// Stubs by first chunk, with their hashes.
    pub(super) stubs: Vec<(u64, Stub, Hash)>,
    /// Segments that are there, by first chunk.
    pub(super) present: Vec<(u64, String)>,
    /// Damage whose meaning is decided at the end.
    pub(super) damages: Vec<Damage>,
}
