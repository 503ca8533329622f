//! Working memory of a scan: the patterns that were already found in this buffer.

/// Working memory of a worker, which any number of matchers use in turn.
///
/// It holds one bit for each pattern of the largest matcher. Bits are cleared at the beginning of
/// the next scan, through the list of those that were set: a scan without hits costs nothing, and a
/// scan that ended with a panic has no effect on the next.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    seen: Vec<u64>,
    marked: Vec<u32>,
}

impl Scratch {
    /// An empty scratch; it grows at the first scan of each larger matcher.
    pub fn new() -> Self {
        Self::default()
    }

    /// Grows the scratch for a matcher of `patterns` patterns, so that scans never allocate.
    pub fn reserve(&mut self, patterns: usize) {
        if self.seen.len() * 64 < patterns {
            self.seen.resize(patterns.div_ceil(64), 0);
            self.marked.reserve(patterns.saturating_sub(self.marked.len()));
        }
    }

    /// Begins a scan over a matcher of `patterns` patterns.
    #[inline]
    pub(crate) fn begin(&mut self, patterns: usize) {
        for &index in &self.marked {
            if let Some(word) = self.seen.get_mut(index as usize / 64) {
                *word = 0;
            }
        }
        self.marked.clear();
        if self.seen.len() * 64 < patterns {
            self.reserve(patterns);
        }
    }

    /// Whether pattern `index` was marked in this scan.
    #[inline]
    pub(crate) fn is_marked(&self, index: u32) -> bool {
        self.seen.get(index as usize / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// Marks pattern `index`. Returns false if it was marked before.
    #[inline]
    pub(crate) fn mark(&mut self, index: u32) -> bool {
        let Some(word) = self.seen.get_mut(index as usize / 64) else { return false };
        let bit = 1u64 << (index % 64);
        if *word & bit != 0 {
            return false;
        }
        *word |= bit;
        self.marked.push(index);
        true
    }
}
