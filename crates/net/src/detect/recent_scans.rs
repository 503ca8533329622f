//! What searches of buffers found, for later transactions in which a buffer says the same.
//!
//! The requests of a client, and those of a flood, have the same method, host and fields again and again. Comparing a
//! short buffer with one that was searched costs less than searching it. What a search finds depends on the bytes and
//! the patterns alone, so that rules see the same.

use super::pattern_set::PatternSet;
use crate::limits::{SEARCH_FOUND_MAX, SEARCHED_BYTES_MAX, SEARCHES_KEPT};

/// A search.
#[derive(Debug, Default)]
struct Search {
    bytes: Vec<u8>,
    found: Vec<u32>,
}

/// The last searches of each buffer of a rule set: at most 5 KB for each, of one worker.
#[derive(Debug, Default)]
pub(crate) struct RecentScans {
    searches: Vec<Search>,
}

impl RecentScans {
    /// Adds the signatures with a fast pattern in `data` to `candidates`. `number` is the number of the buffer, which has
    /// these `patterns` each time.
    pub(crate) fn scan(
        &mut self,
        number: usize,
        patterns: &PatternSet,
        data: &[u8],
        scratch: &mut gabion_matcher::Scratch,
        candidates: &mut Vec<u32>,
    ) {
        if !patterns.may_match(data.len()) {
            return;
        }
        let Some(search) = self.search_of(number, data) else {
            patterns.scan(data, scratch, |sig| candidates.push(sig));
            return;
        };
        if search.bytes == data {
            candidates.extend_from_slice(&search.found);
            return;
        }
        let before = candidates.len();
        patterns.scan(data, scratch, |sig| candidates.push(sig));
        let found = candidates.get(before..).unwrap_or_default();
        search.bytes.clear();
        search.found.clear();
        if found.len() <= SEARCH_FOUND_MAX {
            search.bytes.extend_from_slice(data);
            search.found.extend_from_slice(found);
        }
    }

    /// Where a search for these bytes is kept. `None`: they are too long.
    fn search_of(&mut self, number: usize, data: &[u8]) -> Option<&mut Search> {
        let last = *data.last().filter(|_| data.len() <= SEARCHED_BYTES_MAX)?;
        let middle = data.get(data.len() / 2).copied().unwrap_or_default();
        let mixed = data.len() ^ usize::from(last) ^ (usize::from(middle) >> 1);
        let at = number * SEARCHES_KEPT + mixed % SEARCHES_KEPT;
        if at >= self.searches.len() {
            self.searches.resize_with((number + 1) * SEARCHES_KEPT, Search::default);
        }
        self.searches.get_mut(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::pattern_set::Matchers;
    use gabion_matcher::Pattern;

    /// Whatever was searched before, and in whichever buffer, the same is found as by a search.
    #[test]
    fn what_is_kept_is_what_a_search_finds() {
        let pattern = |bytes: &[u8], sig| (Pattern::new(0, bytes, false), sig);
        let mut matchers = Matchers::default();
        let many = (0..SEARCH_FOUND_MAX as u32 + 44).map(|sig| pattern(b"ba", sig)).collect();
        let sets = [
            PatternSet::build(vec![pattern(b"ab", 1), pattern(b"xy", 2)], &mut matchers),
            PatternSet::build(many, &mut matchers),
            PatternSet::build(vec![pattern(b"aab", 7)], &mut matchers),
        ];
        let (mut recent, mut scratch) = (RecentScans::default(), gabion_matcher::Scratch::new());
        let (mut state, mut kept) = (1_u32, 0);
        let mut random = |below: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) as usize % below
        };
        for _ in 0..20_000 {
            let number = random(sets.len());
            let mut text: Vec<u8> = (0..random(6)).map(|_| b"ab"[random(2)]).collect();
            text.extend(
                b"xy".repeat([0, 0, 1, SEARCHED_BYTES_MAX / 2, SEARCHED_BYTES_MAX][random(5)]),
            );
            let (mut found, mut expected) = (vec![9], vec![9]);
            kept += usize::from(recent.searches.iter().any(|s| s.bytes == text));
            recent.scan(number, &sets[number], &text, &mut scratch, &mut found);
            sets[number].scan(&text, &mut scratch, |sig| expected.push(sig));
            assert_eq!(found, expected, "{number} {text:?}");
        }
        let is_bounded =
            |s: &Search| s.bytes.len() <= SEARCHED_BYTES_MAX && s.found.len() <= SEARCH_FOUND_MAX;
        assert!(recent.searches.iter().all(is_bounded) && kept > 1_000, "{kept}");
    }
}
