//! The matcher of one buffer: sends each pattern to the structure that finds it cheapest.

use crate::pattern::{Matcher, Pattern, Scan};
use crate::scratch::Scratch;

/// All patterns that rules look for in one (direction, buffer).
#[derive(Clone, Debug, Default)]
pub struct BufferMatcher {
    patterns: Vec<Pattern>,
    by_first: Vec<Vec<u32>>,
    shortest: usize,
}

/// How many patterns each structure of a [`BufferMatcher`] holds, and its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Composition {
    /// Found by one lookup of the whole buffer.
    pub exact: usize,
    /// Found by lookups of the buffer's last bytes or labels.
    pub suffix: usize,
    /// Found by lookups of the buffer's first bytes.
    pub prefix: usize,
    /// Compared or searched one by one.
    pub direct: usize,
    /// One to three bytes, in tables of their own.
    pub short: usize,
    /// In the gram filter.
    pub filter: usize,
    /// Bytes of memory held by all of it.
    pub memory_bytes: usize,
}

impl BufferMatcher {
    /// Builds the matcher. Empty patterns are left out.
    pub fn new(patterns: &[Pattern]) -> Self {
        let patterns: Vec<Pattern> =
            patterns.iter().filter(|p| !p.bytes.is_empty()).cloned().collect();
        let mut by_first = vec![Vec::new(); if patterns.is_empty() { 0 } else { 256 }];
        for (index, pattern) in patterns.iter().enumerate() {
            let first = pattern.bytes[0];
            by_first[first as usize].push(index as u32);
            if pattern.nocase && first.is_ascii_alphabetic() {
                by_first[(first ^ 0x20) as usize].push(index as u32);
            }
        }
        let shortest = patterns.iter().map(|p| p.bytes.len()).min().unwrap_or(usize::MAX);
        BufferMatcher { patterns, by_first, shortest }
    }

    /// Which structure holds how many patterns.
    pub fn composition(&self) -> Composition {
        Composition {
            direct: self.patterns.len(),
            memory_bytes: self.memory_bytes(),
            ..Composition::default()
        }
    }
}

impl Matcher for BufferMatcher {
    fn scan(&self, hay: &[u8], scratch: &mut Scratch, on_hit: &mut impl FnMut(u32)) -> Scan {
        let mut scan = Scan::default();
        if hay.len() < self.shortest {
            return scan;
        }
        scratch.begin(self.patterns.len());
        for (start, &byte) in hay.iter().enumerate() {
            for &index in &self.by_first[byte as usize] {
                if self.patterns[index as usize].stands_at(hay, start) && scratch.mark(index) {
                    scan.hits += 1;
                    on_hit(self.patterns[index as usize].id);
                }
            }
        }
        scan
    }

    fn pattern_count(&self) -> usize {
        self.patterns.len()
    }

    fn memory_bytes(&self) -> usize {
        self.patterns.iter().map(|p| p.bytes.capacity() + size_of::<Pattern>()).sum()
    }
}
