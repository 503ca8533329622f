//! Fingerprints of millions of indicators, and where in their files they stand.
//!
//! An indicator is a 64-bit hash and a [`Place`]; its text stays in its file. A small filter answers
//! nearly all questions for what is not listed. For the rest one cache line is read: fingerprints stand
//! in their order in lines of twelve, each in the line that its highest bits say or, where that is full,
//! in one of the next. Of the hash a line keeps 32 bits, beside the level, and where its places begin in
//! a list that is read only for evidence. A line is compared as a whole, so that the processor need not
//! wait for it before it begins the next question.

use crate::sketch::mix;

/// Parts that fingerprints are gathered in, by their highest byte, so that sorting them needs room for
/// one part only.
const PARTS: usize = 256;
/// Bits of the filter for each fingerprint.
const FILTER_BITS: usize = 12;
/// Entries that a line has room for.
const WAYS: usize = 12;
/// Entries of a line on average: with six one line in a hundred is full, which costs a second read.
const FILL: usize = 6;
/// Fingerprints that are asked for together.
pub const TOGETHER: usize = 8;

/// Where an indicator stands: the file, the offset in it, and what matters before its text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(u64);

/// Offsets that a place can name: 4 TiB.
pub const OFFSET_MAX: u64 = 1 << 42;
/// Files that a place can name.
pub const FILES_MAX: usize = 1 << 16;

impl Place {
    /// A place; the level is the higher part, so that the larger of two places is the graver one.
    pub fn new(file: u16, offset: u64, level: u8) -> Place {
        Place(u64::from(level & 7) << 58 | (offset % OFFSET_MAX) << 16 | u64::from(file))
    }

    /// The number of its file.
    pub fn file(self) -> usize {
        (self.0 & 0xffff) as usize
    }

    /// Bytes before it in the file.
    pub fn offset(self) -> u64 {
        self.0 >> 16 & (OFFSET_MAX - 1)
    }

    /// The number of its level.
    pub fn level(self) -> u8 {
        (self.0 >> 58) as u8 & 7
    }
}

/// A fingerprint that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The number of its level.
    pub level: u8,
    /// Its number, for [`Index::place`].
    at: u32,
}

/// One cache line of entries.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line {
    /// The lower halves of fingerprints, in their order; 0 behind the last.
    tags: [u32; WAYS],
    levels: [u8; WAYS],
    /// Entries in the lines before.
    before: u32,
}

const _: () = assert!(size_of::<Line>() == 64);

/// A bit for each entry of a line.
const BITS: [u32; WAYS] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];

/// What is listed, by fingerprint.
#[derive(Debug, Default)]
pub struct Index {
    /// Entries as they came, until the index is closed.
    parts: Vec<Vec<(u64, Place)>>,
    lines: Vec<Line>,
    /// Lines that fingerprints may have as their own.
    homes: usize,
    places: Vec<Place>,
    filter: Vec<u64>,
}

fn part_of(hash: u64) -> usize {
    (hash >> 56) as usize % PARTS
}

/// Four bits of one word.
#[inline]
fn mask(hash: u64) -> u64 {
    let h = mix(hash);
    1 << (h & 63) | 1 << (h >> 6 & 63) | 1 << (h >> 12 & 63) | 1 << (h >> 18 & 63)
}

/// A number below `n` that grows with the hash.
#[inline]
fn scale(hash: u64, n: usize) -> usize {
    ((u128::from(hash) * n as u128) >> 64) as usize
}

/// What a line keeps of a fingerprint; 0 is nobody's.
#[inline]
fn tag_of(hash: u64) -> u32 {
    (hash as u32).max(1)
}

impl Index {
    /// Takes a fingerprint in; it is found after [`Index::close`].
    pub fn add(&mut self, hash: u64, place: Place) {
        if self.parts.is_empty() {
            self.parts.resize_with(PARTS, Vec::new);
        }
        if let Some(part) = self.parts.get_mut(part_of(hash)) {
            part.push((hash, place));
        }
    }

    /// Sorts, keeps the graver of two of one fingerprint, and makes the lines.
    pub fn close(&mut self) {
        let most = self.parts.iter().map(Vec::len).sum::<usize>();
        let empty = Line { tags: [0; WAYS], levels: [0; WAYS], before: 0 };
        self.homes = most / FILL + 1;
        self.lines = vec![empty; self.homes + 1];
        self.places = Vec::with_capacity(most);
        self.filter = vec![0; most * FILTER_BITS / 64 + 1];
        let words = self.filter.len();
        // Each entry stands first in its own line or behind the entry before it.
        let mut next = 0;
        for mut part in std::mem::take(&mut self.parts) {
            part.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
            part.dedup_by_key(|e| e.0);
            for (hash, place) in part {
                let at = next.max(scale(hash, self.homes) * WAYS);
                next = at + 1;
                if at / WAYS == self.lines.len() {
                    // The last run goes on behind the end.
                    self.lines.push(empty);
                }
                if let Some(line) = self.lines.get_mut(at / WAYS) {
                    if at % WAYS == 0 {
                        line.before = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
                    }
                    if let Some(tag) = line.tags.get_mut(at % WAYS) {
                        *tag = tag_of(hash);
                    }
                    if let Some(level) = line.levels.get_mut(at % WAYS) {
                        *level = place.level();
                    }
                }
                self.places.push(place);
                if let Some(word) = self.filter.get_mut(scale(hash, words)) {
                    *word |= mask(hash);
                }
            }
        }
        self.places.shrink_to_fit();
    }

    /// Whether the filter lets a fingerprint pass: surely so when it is listed.
    #[inline]
    fn passes(&self, hash: u64) -> bool {
        let word = self.filter.get(scale(hash, self.filter.len())).copied().unwrap_or(0);
        let mask = mask(hash);
        word & mask == mask
    }

    /// Whether the fingerprint is listed.
    #[inline]
    pub fn get(&self, hash: u64) -> Option<Found> {
        if self.passes(hash) { self.search(hash) } else { None }
    }

    /// Which is the last of these that is listed: of at most [`TOGETHER`], whose words of the filter are
    /// fetched at once rather than one after the other.
    #[inline]
    pub fn last_of(&self, hashes: &[u64]) -> Option<(usize, Found)> {
        let pass = |sum: u32, (at, hash): (usize, &u64)| sum | u32::from(self.passes(*hash)) << at;
        let passed = hashes.iter().enumerate().take(TOGETHER).fold(0, pass);
        // Steps that a processor foresees, so that the line of the one that is listed is on its way too.
        let listed = |(at, hash): (usize, &u64)| {
            if passed >> at & 1 == 1 { Some((at, self.search(*hash)?)) } else { None }
        };
        hashes.iter().enumerate().rev().find_map(listed)
    }

    #[inline]
    fn search(&self, hash: u64) -> Option<Found> {
        let tag = tag_of(hash);
        for line in self.lines.get(scale(hash, self.homes)..)? {
            let same = |sum: u32, (t, bit): (&u32, u32)| sum | if *t == tag { bit } else { 0 };
            let found = line.tags.iter().zip(BITS).fold(0, same);
            if found != 0 {
                let at = found.trailing_zeros();
                let level = line.levels.get(at as usize).copied().unwrap_or(0);
                return Some(Found { level, at: line.before.saturating_add(at) });
            }
            // Only a full line goes on in the next.
            if line.tags[WAYS - 1] == 0 {
                break;
            }
        }
        None
    }

    /// Where a fingerprint's indicator stands.
    pub fn place(&self, found: Found) -> Option<Place> {
        self.places.get(found.at as usize).copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        let lines = self.lines.capacity() * size_of::<Line>();
        lines + (self.places.capacity() + self.filter.capacity()) * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sketch::mix;

    fn place(index: &Index, hash: u64) -> Option<Place> {
        let found = index.get(hash)?;
        let place = index.place(found)?;
        assert_eq!(found.level, place.level());
        Some(place)
    }

    #[test]
    fn what_is_in_is_found_and_nothing_else() {
        let mut index = Index::default();
        assert_eq!((index.get(1), index.last_of(&[1, 2])), (None, None));
        for n in 0..50_000u64 {
            index.add(mix(n), Place::new((n % 7) as u16, n * 31, (n % 5) as u8));
        }
        index.add(mix(5), Place::new(1, 99, 4));
        index.close();
        assert_eq!(index.len(), 50_000);
        assert_eq!(place(&index, mix(5)), Some(Place::new(1, 99, 4)), "the graver one");
        for n in 6..50_000 {
            let wanted = Place::new((n % 7) as u16, n * 31, (n % 5) as u8);
            assert_eq!(place(&index, mix(n)), Some(wanted), "{n}");
        }
        assert!((50_000..200_000).all(|n| index.get(mix(n)).is_none()));
        assert!(index.bytes() < 50_000 * 22, "{}", index.bytes());
        let asked = [mix(7), mix(8), mix(70_000), mix(80_000)];
        assert_eq!(index.last_of(&asked), index.get(mix(8)).map(|found| (1, found)));
        assert_eq!(index.last_of(&asked[2..]), None);
    }

    /// Fingerprints that all want the same line, the last one among them, are found behind it.
    #[test]
    fn a_line_that_is_full_goes_on_in_the_next() {
        let mut index = Index::default();
        for n in 1..=40 {
            index.add(n, Place::new(1, n, 0));
            index.add(u64::MAX - n, Place::new(2, n, 0));
        }
        index.close();
        for n in 1..=40 {
            assert_eq!(place(&index, n), Some(Place::new(1, n, 0)), "{n}");
            assert_eq!(place(&index, u64::MAX - n), Some(Place::new(2, n, 0)), "{n}");
        }
        assert_eq!((index.get(41), index.get(1 << 63)), (None, None));
    }
}
