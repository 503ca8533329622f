//! Fast patterns of rules in one place, and the matchers that places with the same patterns share.

use foldhash::fast::FixedState;
use gabion_matcher::{Anchor, BufferMatcher, Pattern};
use hashbrown::HashMap;
use std::sync::Arc;

/// The matchers that are there already, of this rule set and of the one before: places with the same patterns share one,
/// and a set that is loaded again needs no second one of most.
#[derive(Debug, Default)]
pub(crate) struct Matchers {
    /// By their fingerprints.
    known: HashMap<u64, Arc<BufferMatcher>, FixedState>,
}

impl Matchers {
    /// Those of a detector's sets, to be continued with.
    pub(super) fn from_sets<'s>(sets: impl Iterator<Item = &'s PatternSet>) -> Matchers {
        let shared = sets.filter_map(|set| set.matcher.as_ref());
        Matchers { known: shared.map(|m| (m.fingerprint(), Arc::clone(m))).collect() }
    }

    fn for_patterns(&mut self, patterns: &[Pattern]) -> Arc<BufferMatcher> {
        let fingerprint = BufferMatcher::fingerprint_of(patterns);
        match self.known.get(&fingerprint) {
            Some(known) if known.is_of(patterns) => Arc::clone(known),
            _ => {
                let made = Arc::new(BufferMatcher::new(patterns));
                self.known.insert(fingerprint, Arc::clone(&made));
                made
            }
        }
    }
}

/// Signatures that share one literal.
#[derive(Debug, Default)]
pub(crate) struct PatternSet {
    pub(super) matcher: Option<Arc<BufferMatcher>>,
    first: Box<[u32]>,
    sigs: Box<[u32]>,
    shortest: usize,
}

impl PatternSet {
    pub(super) fn build(mut entries: Vec<(Pattern, u32)>, matchers: &mut Matchers) -> PatternSet {
        if entries.is_empty() {
            return PatternSet { shortest: usize::MAX, ..PatternSet::default() };
        }
        fn key(p: &Pattern) -> (&[u8], bool, Anchor, u32, u32) {
            (&p.bytes, p.nocase, p.anchor, p.min_start, p.max_end)
        }
        entries.sort_unstable_by(|(p, a), (q, b)| key(p).cmp(&key(q)).then(a.cmp(b)));
        let (mut first, mut sigs) = (Vec::new(), Vec::with_capacity(entries.len()));
        let mut patterns: Vec<Pattern> = Vec::new();
        for (mut p, sig) in entries {
            if patterns.last().is_none_or(|q| key(q) != key(&p)) {
                p.id = patterns.len() as u32;
                first.push(sigs.len() as u32);
                patterns.push(p);
            }
            sigs.push(sig);
        }
        first.push(sigs.len() as u32);
        PatternSet {
            matcher: Some(matchers.for_patterns(&patterns)),
            first: first.into(),
            sigs: sigs.into(),
            shortest: patterns.iter().map(|p| p.bytes.len()).min().unwrap_or(usize::MAX),
        }
    }

    /// Whether as many bytes may hold a pattern.
    #[inline]
    pub(super) fn may_match(&self, len: usize) -> bool {
        len >= self.shortest
    }

    /// Calls `on_sig` for each signature with a fast pattern in `hay`.
    #[inline]
    pub(crate) fn scan(
        &self,
        hay: &[u8],
        scratch: &mut gabion_matcher::Scratch,
        mut on_sig: impl FnMut(u32),
    ) -> bool {
        use gabion_matcher::Matcher;
        if hay.len() < self.shortest {
            return false;
        }
        let Some(m) = &self.matcher else { return false };
        m.scan(hay, scratch, &mut |id| {
            let i = id as usize;
            if let (Some(a), Some(b)) = (self.first.get(i), self.first.get(i + 1)) {
                for s in &self.sigs[*a as usize..*b as usize] {
                    on_sig(*s);
                }
            }
        })
        .overload
    }

    /// Bytes held, but for the matcher, which others may share.
    pub(super) fn own_bytes(&self) -> usize {
        4 * (self.first.len() + self.sigs.len())
    }
}
