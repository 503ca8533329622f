//! What workers find of a segment's items, before it is known what that means.

use crate::format::data_key::ClassKeys;
use crate::format::index::{self, Entry};
use crate::format::segment::{self, FLAG_PADDED};
use crate::format::tree::Hash;
use crate::statement::Statement;

/// What workers need of a segment.
pub(super) struct SegmentFacts {
    pub(super) name: String,
    pub(super) hash: Hash,
    pub(super) is_padded: bool,
    /// Keys by class; `None` when no content is to be opened.
    pub(super) keys: Option<Vec<Option<ClassKeys>>>,
}

/// What a worker found out about an item.
pub(super) enum Facts {
    Chunk(ChunkFacts),
    Index(IndexFacts),
    None,
}

/// What a worker found of a chunk.
#[derive(Debug, Default)]
pub(super) struct ChunkFacts {
    pub(super) leaf: Hash,
    pub(super) is_body_good: bool,
    /// Why its content contradicts its head.
    pub(super) content: Option<String>,
    /// No key for its class.
    pub(super) is_closed: bool,
    /// Sources of the records, when they were opened with a key.
    pub(super) sources: Option<index::Sources>,
    /// Records opened and compared.
    pub(super) opened: u32,
    /// Statements in clear, with their record numbers.
    pub(super) statements: Vec<(u64, Statement)>,
}

/// What is known of an index by itself.
#[derive(Debug)]
pub(super) enum IndexFacts {
    /// Its form is not that of an index.
    Malformed,
    /// There is no key to look inside.
    Closed,
    /// It does not open under the segment's key.
    Forged,
    /// What it says.
    Open(Vec<Entry>),
}

impl IndexFacts {
    /// Of the bytes that stand at this offset.
    pub(super) fn from_bytes(bytes: &[u8], at: u64, segment: &SegmentFacts) -> IndexFacts {
        if !index::is_formed(bytes, at) {
            return IndexFacts::Malformed;
        }
        let Some(keys) = segment.keys.as_ref().and_then(|k| k.first()?.as_ref()) else {
            return IndexFacts::Closed;
        };
        index::decode(bytes, keys, &segment.hash).map_or(IndexFacts::Forged, IndexFacts::Open)
    }
}

/// Whether a segment's chunks are padded.
pub(super) const fn is_padded(header: &segment::Header) -> bool {
    header.flags & FLAG_PADDED != 0
}
