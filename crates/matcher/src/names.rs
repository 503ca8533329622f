//! Sets of host names with lookups of whole names and suffixes.

use crate::anchored::{SideSet, WholeSet};
use crate::buffer::process_seed;
use crate::pattern::{Anchor, Pattern, Scan};
use crate::table::PatternTable;

/// The names that an entry matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameKind {
    /// The name itself only.
    Exact,
    /// The name itself and every name below it: `evil.com` matches `evil.com` and `a.evil.com` but
    /// not `notevil.com`. A leading dot in the entry (`.evil.com`, the `dotprefix` form) means the
    /// same and is removed.
    Suffix,
}

/// One entry of a [`NameSet`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameEntry {
    /// The name.
    pub name: Vec<u8>,
    /// Which names the entry matches.
    pub kind: NameKind,
    /// Whether letters match in either case.
    pub nocase: bool,
    /// The id that is reported on a match.
    pub id: u32,
}

/// A set of names. A lookup costs one hash for each length of suffix that occurs in the set (16
/// up to 16 bytes, 8 above), whatever the number of entries and of labels.
#[derive(Clone, Debug, Default)]
pub struct NameSet {
    table: PatternTable,
    whole: WholeSet,
    suffix: SideSet<true>,
}

impl NameSet {
    /// Builds the set; empty names are left out.
    pub fn new(entries: impl IntoIterator<Item = NameEntry>) -> Self {
        let pattern = |entry: NameEntry| {
            let (name, anchor) = match entry.kind {
                NameKind::Exact => (entry.name.as_slice(), Anchor::Exact),
                NameKind::Suffix => {
                    (entry.name.strip_prefix(b".").unwrap_or(&entry.name), Anchor::Label)
                }
            };
            Pattern::new(entry.id, name, entry.nocase).anchored(anchor)
        };
        let patterns: Vec<Pattern> = entries.into_iter().map(pattern).collect();
        let (table, sources) = PatternTable::new(&patterns);
        let all = sources.indices();
        let (exact, below): (Vec<u32>, Vec<u32>) =
            all.partition(|&index| sources.pattern(index).anchor == Anchor::Exact);
        let seed = process_seed();
        let whole = WholeSet::new(&sources, &exact, seed);
        let (suffix, _) = SideSet::new(&sources, &below, seed.rotate_left(17), true);
        NameSet { table, whole, suffix }
    }

    /// Calls `on_hit` with the id of each entry that matches `name`. A trailing dot is part of the
    /// name and not removed.
    #[inline]
    pub fn lookup(&self, name: &[u8], on_hit: &mut impl FnMut(u32)) {
        let mut scan = Scan::default();
        self.whole.scan(&self.table, name, &mut scan, on_hit);
        self.suffix.scan(&self.table, name, &mut scan, on_hit);
    }

    /// Number of entries, empty names not counted.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether the set has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.whole.memory_bytes() + self.suffix.memory_bytes()
    }
}
