//! Whole values: fingerprints, methods, status codes.

use crate::fold;
use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// A set of whole values, each with the ids that go with it. One lookup a buffer; two when values
/// of both kinds of case are in it.
#[derive(Clone, Debug, Default)]
pub struct ExactSet {
    cased: HashMap<Box<[u8]>, Vec<u32>, RandomState>,
    folded: HashMap<Box<[u8]>, Vec<u32>, RandomState>,
    longest_folded: usize,
    entries: usize,
}

impl ExactSet {
    /// Builds the set of (value, whether letters match in either case, id).
    pub fn new<'a>(entries: impl IntoIterator<Item = (&'a [u8], bool, u32)>) -> Self {
        let mut set = ExactSet::default();
        for (value, nocase, id) in entries {
            set.entries += 1;
            if nocase {
                set.longest_folded = set.longest_folded.max(value.len());
                set.folded.entry(fold::lower(value).into()).or_default().push(id);
            } else {
                set.cased.entry(value.into()).or_default().push(id);
            }
        }
        set
    }

    /// Calls `on_hit` with each id whose value is `value`.
    #[inline]
    pub fn lookup(&self, value: &[u8], on_hit: &mut impl FnMut(u32)) {
        if let Some(ids) = self.cased.get(value) {
            ids.iter().for_each(|&id| on_hit(id));
        }
        if !self.folded.is_empty() && value.len() <= self.longest_folded {
            let ids = self.folded.get(fold::lower(value).as_slice());
            ids.into_iter().flatten().for_each(|&id| on_hit(id));
        }
    }

    /// Entries it was built from.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether it was built from nothing.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }
}
