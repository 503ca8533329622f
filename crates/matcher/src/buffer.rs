//! The matcher of one buffer: assigns each pattern to the structure that finds it at the lowest
//! cost.
//!
//! | pattern | structure | cost per scan |
//! |---|---|---|
//! | is the whole buffer | one lookup | about 5 ns |
//! | at the start or the end | lookups by the outermost bytes | about 10 ns |
//! | one byte, anywhere | byte search | a few ns each |
//! | one or two patterns, anywhere | single searches | about 10 ns each |
//! | all others | gram filter | see [`crate::gram`] |
//!
//! Hot path contract: no allocation once the scratch has grown, no lock, no log.

use crate::anchored::{Side, SideSet, WholeSet, side_of};
use crate::gram::{Form, GramFilter};
use crate::limits::{DIRECT_MAX, VERIFY_BASE, VERIFY_BYTES_EACH};
use crate::pattern::{Anchor, Matcher, Pattern, Scan};
use crate::scratch::Scratch;
use crate::single::Needle;
use crate::table::PatternTable;
use core::hash::{BuildHasher, Hasher};
use foldhash::fast::FixedState;
use std::sync::OnceLock;

/// All patterns that rules search in one (direction, buffer).
#[derive(Clone, Debug, Default)]
pub struct BufferMatcher {
    table: PatternTable,
    fingerprint: u64,
    whole: Option<WholeSet>,
    prefix: Option<SideSet<false>>,
    suffix: Option<SideSet<true>>,
    direct: Vec<(Needle, u32)>,
    filter: Option<GramFilter>,
}

/// Number of patterns in each structure of a [`BufferMatcher`], and its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Composition {
    /// Found by one lookup of the whole buffer.
    pub exact: usize,
    /// Found by lookups of the buffer's last bytes.
    pub suffix: usize,
    /// Found by lookups of the buffer's first bytes.
    pub prefix: usize,
    /// Searched one by one.
    pub direct: usize,
    /// Patterns of two to four bytes, in the gram filter's finer tiers.
    pub short: usize,
    /// Other patterns in the gram filter.
    pub filter: usize,
    /// Bytes of memory held by all structures.
    pub memory_bytes: usize,
}

impl BufferMatcher {
    /// Builds the matcher. Patterns that can't match (empty, or longer than their bounds allow)
    /// are left out.
    pub fn new(patterns: &[Pattern]) -> Self {
        Self::build(patterns, process_seed(), Form::Fastest)
    }

    /// Builds the matcher with the given seed of the hashes and, if `portable`, without the
    /// processor's vector instructions: for tests and experiments.
    pub fn with_seed(patterns: &[Pattern], seed: u64, portable: bool) -> Self {
        Self::build(patterns, seed, if portable { Form::Portable } else { Form::Fastest })
    }

    /// A number that is the same for the same patterns in the same order, and hardly ever for others.
    pub fn fingerprint_of(patterns: &[Pattern]) -> u64 {
        FixedState::default().hash_one(patterns)
    }

    /// [`BufferMatcher::fingerprint_of`] its patterns.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Whether a matcher of these patterns would report the same, by the same ids: so that one matcher serves two rule
    /// sets. The capitals of a pattern for which case does not matter count as a difference.
    pub fn is_of(&self, patterns: &[Pattern]) -> bool {
        self.fingerprint == Self::fingerprint_of(patterns)
            && self.table == PatternTable::new(patterns).0
    }

    fn build(patterns: &[Pattern], seed: u64, form: Form) -> Self {
        let (table, sources) = PatternTable::new(patterns);
        let (mut whole, mut first, mut last) = (Vec::new(), Vec::new(), Vec::new());
        let (mut free, mut direct) = (Vec::new(), Vec::new());
        for index in sources.indices() {
            match side_of(sources.pattern(index).anchor) {
                Some(Side::Both) => whole.push(index),
                Some(Side::Start) => first.push(index),
                Some(Side::End) => last.push(index),
                None if sources.bytes(index).len() == 1 => direct.push(index),
                None => free.push(index),
            }
        }
        let fingerprint = Self::fingerprint_of(patterns);
        let mut matcher = BufferMatcher { fingerprint, ..BufferMatcher::default() };
        if !whole.is_empty() {
            matcher.whole = Some(WholeSet::new(&sources, &whole, seed.rotate_left(7)));
        }
        if !first.is_empty() {
            let (set, others) = SideSet::new(&sources, &first, seed.rotate_left(13), false);
            matcher.prefix = Some(set);
            free.extend(others);
        }
        if !last.is_empty() {
            let (set, others) = SideSet::new(&sources, &last, seed.rotate_left(29), false);
            matcher.suffix = Some(set);
            free.extend(others);
        }
        // Patterns that are searched one by one have no anchor, as only their first occurrence is
        // found.
        let is_free = |index: &u32| sources.pattern(*index).anchor == Anchor::None;
        let is_pair = |index: &u32| sources.bytes(*index).len() == 2 && is_free(index);
        if free.len() <= DIRECT_MAX && free.iter().all(is_free) {
            direct.append(&mut free);
        } else if free.iter().filter(|index| is_pair(index)).count() <= DIRECT_MAX {
            direct.extend(free.extract_if(.., |index| is_pair(index)));
        }
        if !free.is_empty() {
            matcher.filter = Some(GramFilter::new(&sources, &free, seed, form));
        }
        let needle = |index: u32| {
            let pattern = sources.pattern(index);
            (Needle::new(&pattern.bytes, pattern.nocase), index)
        };
        matcher.direct = direct.into_iter().map(needle).collect();
        matcher.table = table;
        matcher
    }

    /// The number of patterns in each structure.
    pub fn composition(&self) -> Composition {
        let short = self.filter.as_ref().map_or(0, GramFilter::short_count);
        Composition {
            exact: self.whole.as_ref().map_or(0, WholeSet::count),
            suffix: self.suffix.as_ref().map_or(0, SideSet::count),
            prefix: self.prefix.as_ref().map_or(0, SideSet::count),
            direct: self.direct.len(),
            short,
            filter: self.filter.as_ref().map_or(0, GramFilter::count) - short,
            memory_bytes: self.memory_bytes(),
        }
    }

    fn scan_direct(&self, hay: &[u8], scan: &mut Scan, on_hit: &mut impl FnMut(u32)) {
        for (needle, index) in &self.direct {
            let record = self.table.record(*index);
            let end = hay.len().min(record.max_end as usize);
            if needle.find_in(&hay[..end], record.min_start as usize).is_some() {
                scan.hits += 1;
                on_hit(record.id);
            }
        }
    }
}

impl Matcher for BufferMatcher {
    #[inline]
    fn scan(&self, hay: &[u8], scratch: &mut Scratch, on_hit: &mut impl FnMut(u32)) -> Scan {
        let mut scan = Scan::default();
        if hay.len() < self.table.shortest() {
            return scan;
        }
        if let Some(whole) = &self.whole {
            whole.scan(&self.table, hay, &mut scan, on_hit);
        }
        if let Some(prefix) = &self.prefix {
            prefix.scan(&self.table, hay, &mut scan, on_hit);
        }
        if let Some(suffix) = &self.suffix {
            suffix.scan(&self.table, hay, &mut scan, on_hit);
        }
        if !self.direct.is_empty() {
            self.scan_direct(hay, &mut scan, on_hit);
        }
        if let Some(filter) = &self.filter {
            scratch.begin(self.table.len());
            filter.scan(&self.table, hay, scratch, &mut scan, on_hit);
        }
        let allowance = u64::from(VERIFY_BASE) + hay.len() as u64 / u64::from(VERIFY_BYTES_EACH);
        scan.overload = u64::from(scan.verified) > allowance;
        scan
    }

    fn pattern_count(&self) -> usize {
        self.table.len()
    }

    fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
            + self.whole.as_ref().map_or(0, WholeSet::memory_bytes)
            + self.prefix.as_ref().map_or(0, SideSet::memory_bytes)
            + self.suffix.as_ref().map_or(0, SideSet::memory_bytes)
            + self.filter.as_ref().map_or(0, GramFilter::memory_bytes)
            + self.direct.iter().map(|(needle, _)| needle.memory_bytes()).sum::<usize>()
    }
}

/// A random number per process, so that nobody can craft traffic with hash collisions.
pub(crate) fn process_seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| std::hash::RandomState::new().build_hasher().finish())
}
