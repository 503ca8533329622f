//! Sets of whole values: fingerprints, methods, status codes.

use crate::anchored::WholeSet;
use crate::buffer::process_seed;
use crate::pattern::{Anchor, Pattern, Scan};
use crate::table::PatternTable;

/// A set of whole values, each with an id; one lookup per buffer.
#[derive(Clone, Debug, Default)]
pub struct ExactSet {
    table: PatternTable,
    whole: WholeSet,
}

impl ExactSet {
    /// Builds the set of (value, whether letters match in either case, id); empty values are left
    /// out.
    pub fn new<'a>(entries: impl IntoIterator<Item = (&'a [u8], bool, u32)>) -> Self {
        let pattern = |(value, nocase, id): (&[u8], bool, u32)| {
            Pattern::new(id, value, nocase).anchored(Anchor::Exact)
        };
        let patterns: Vec<Pattern> = entries.into_iter().map(pattern).collect();
        let (table, sources) = PatternTable::new(&patterns);
        let all: Vec<u32> = sources.indices().collect();
        let whole = WholeSet::new(&sources, &all, process_seed());
        ExactSet { table, whole }
    }

    /// Calls `on_hit` with each id whose value is `value`.
    #[inline]
    pub fn lookup(&self, value: &[u8], on_hit: &mut impl FnMut(u32)) {
        self.whole.scan(&self.table, value, &mut Scan::default(), on_hit);
    }

    /// Number of entries, empty values not counted.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether the set has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.whole.memory_bytes()
    }
}
