//! Fingerprints of millions of indicators, and where in their files they stand.
//!
//! An indicator is a 64-bit hash and a [`Place`]; its text stays in its file. A small filter answers
//! nearly all questions for what is not listed. For the rest one cache line is read: fingerprints stand
//! in their order in lines of twelve, each in the line that its highest bits say or, where that is full,
//! in one of the next. Of the hash a line keeps 32 bits, with the level, and where its places begin in
//! a list that is read only for evidence. A line is compared as a whole, so that the processor need not
//! wait for it before it begins the next question.

use super::filter::{Filter, scale};
use super::memory::{LINE, Memory};
use crate::limits::LIST_OFFSET_MAX;

/// Parts that fingerprints are gathered in, by their highest byte, so that sorting them needs room for
/// one part only.
const PARTS: usize = 256;
/// Entries that fit into a line.
const WAYS: usize = 12;
/// Entries of a line on average: with six one line in a hundred is full, which costs a second read.
const FILL: usize = 6;
/// Ends of names that there is room for at first.
const ENDS_MIN: usize = 1 << 10;

/// Where an indicator stands: the file, the offset in it, and what matters before its text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(u64);

impl Place {
    /// A place; the level is the higher part, so that the larger of two places is the graver one.
    pub(crate) fn new(file: u16, offset: u64, level: u8) -> Place {
        Place(u64::from(level & 7) << 58 | (offset % LIST_OFFSET_MAX) << 16 | u64::from(file))
    }

    /// The number of its file.
    pub(crate) fn file(self) -> usize {
        (self.0 & 0xffff) as usize
    }

    /// Bytes before it in the file.
    pub(crate) fn offset(self) -> u64 {
        self.0 >> 16 & (LIST_OFFSET_MAX - 1)
    }

    /// The number of its level.
    pub(crate) fn level(self) -> u8 {
        (self.0 >> 58) as u8 & 7
    }
}

/// A fingerprint that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The number of its level.
    pub level: u8,
    /// Its number, for [`Index::place`].
    at: u32,
}

/// A cache line of entries: the lower halves of fingerprints, in their order and 0 after the last; the
/// level of each; the number of entries in the lines before.
type Line = [u8; LINE];

/// Where the levels begin in a line.
const LEVELS: usize = WAYS * 4;
/// Where the number of entries before begins in it.
const BEFORE: usize = LEVELS + WAYS;

const _: () = assert!(BEFORE + 4 == LINE);

/// A bit for each entry of a line; the lowest bit is nobody's, since what is made of a comparison that
/// gives just 1 is no longer done for four entries at once.
const BITS: [[u32; 4]; WAYS / 4] = [[2, 4, 8, 16], [32, 64, 128, 256], [512, 1024, 2048, 4096]];

/// The bits of a line's entries that keep a tag.
#[inline]
fn equals(line: &Line, tag: u32) -> u32 {
    let mut found = [0; 4];
    for (four, bits) in line.as_chunks::<16>().0.iter().zip(BITS) {
        for ((sum, entry), bit) in found.iter_mut().zip(four.as_chunks::<4>().0).zip(bits) {
            *sum |= if u32::from_le_bytes(*entry) == tag { bit } else { 0 };
        }
    }
    found.iter().fold(0, |sum, bits| sum | bits)
}

/// The entry of a line that keeps a tag.
#[inline]
fn within(line: &Line, tag: u32) -> Option<Found> {
    let found = equals(line, tag);
    if found == 0 {
        return None;
    }
    let at = found.trailing_zeros() - 1;
    let level = line.get(LEVELS + at as usize).copied().unwrap_or(0);
    Some(Found { level, at: number_at(line, BEFORE).saturating_add(at) })
}

#[inline]
fn is_full(line: &Line) -> bool {
    number_at(line, LEVELS - 4) != 0
}

/// What is listed, by fingerprint.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Entries as they came, until the index is closed.
    parts: Vec<Vec<(u64, Place)>>,
    /// Ends of names as they came, until the index is closed.
    ends: Vec<u32>,
    lines: Memory,
    /// Lines that fingerprints may have as their own.
    homes: usize,
    places: Vec<Place>,
    filter: Filter,
    filter_of_ends: Filter,
}

fn part_of(hash: u64) -> usize {
    (hash >> 56) as usize % PARTS
}

/// What a line keeps of a fingerprint; 0 is nobody's.
#[inline]
fn tag_of(hash: u64) -> u32 {
    (hash as u32).max(1)
}

#[inline]
fn number_at(line: &Line, at: usize) -> u32 {
    line.as_chunks().0.get(at / 4).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn write(line: &mut Line, at: usize, number: u32) {
    if let Some(bytes) = line.as_chunks_mut().0.get_mut(at / 4) {
        *bytes = number.to_le_bytes();
    }
}

/// Where each entry goes: into its own line, or after the entry before it.
struct Slots {
    homes: usize,
    next: usize,
}

impl Slots {
    fn take_slot(&mut self, hash: u64) -> usize {
        let at = self.next.max(scale(hash, self.homes) * WAYS);
        self.next = at + 1;
        at
    }
}

impl Index {
    /// Takes a fingerprint in; it is found after [`Index::close`].
    pub(crate) fn add(&mut self, hash: u64, place: Place) {
        if self.parts.is_empty() {
            self.parts.resize_with(PARTS, Vec::new);
        }
        if let Some(part) = self.parts.get_mut(part_of(hash)) {
            part.push((hash, place));
        }
    }

    /// Takes in how a name ends, by the higher half of its hash, for [`Index::has_end`].
    pub(crate) fn add_end(&mut self, hash: u64) {
        let end = (hash >> 32) as u32;
        if self.ends.last() == Some(&end) {
            return;
        }
        if self.ends.len() == self.ends.capacity() {
            // Few ends may stand for many names: space is reserved only for those that differ.
            self.ends.sort_unstable();
            self.ends.dedup();
            self.ends.reserve_exact(self.ends.len() / 2 + ENDS_MIN);
        }
        self.ends.push(end);
    }

    /// Sorts, keeps the graver of two of one fingerprint, and makes the lines.
    pub(crate) fn close(&mut self) {
        self.ends.sort_unstable();
        self.ends.dedup();
        self.filter_of_ends = Filter::new(self.ends.len());
        for end in std::mem::take(&mut self.ends) {
            self.filter_of_ends.add(u64::from(end) << 32);
        }
        for part in &mut self.parts {
            part.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
            part.dedup_by_key(|e| e.0);
        }
        let count = self.parts.iter().map(Vec::len).sum::<usize>();
        self.homes = count / FILL + 1;
        // The last run may continue after the end.
        let mut slots = Slots { homes: self.homes, next: 0 };
        let last = self.parts.iter().flatten().fold(0, |_, e| slots.take_slot(e.0));
        self.lines = Memory::new(self.homes.max(last / WAYS + 1) + 1);
        self.places = Vec::with_capacity(count);
        self.filter = Filter::new(count);
        let mut slots = Slots { homes: self.homes, next: 0 };
        for part in std::mem::take(&mut self.parts) {
            for (hash, place) in part {
                let at = slots.take_slot(hash);
                if let Some(line) = self.lines.pieces_mut::<LINE>().get_mut(at / WAYS) {
                    if at.is_multiple_of(WAYS) {
                        write(line, BEFORE, u32::try_from(self.places.len()).unwrap_or(u32::MAX));
                    }
                    write(line, at % WAYS * 4, tag_of(hash));
                    if let Some(level) = line.get_mut(LEVELS + at % WAYS) {
                        *level = place.level();
                    }
                }
                self.places.push(place);
                self.filter.add(hash);
            }
        }
    }

    /// Whether a listed name may end so.
    #[inline]
    pub(crate) fn has_end(&self, hash: u64) -> bool {
        self.filter_of_ends.passes(hash >> 32 << 32)
    }

    /// Whether the fingerprint is listed.
    #[inline]
    pub(crate) fn get(&self, hash: u64) -> Option<Found> {
        if self.filter.passes(hash) { self.search(hash) } else { None }
    }

    #[inline]
    fn search(&self, hash: u64) -> Option<Found> {
        let home = scale(hash, self.homes);
        let line = self.lines.pieces::<LINE>().get(home)?;
        match within(line, tag_of(hash)) {
            // Only a full line continues in the next.
            None if is_full(line) => self.search_behind(home, hash),
            found => found,
        }
    }

    /// Searches in the lines after one.
    #[cold]
    #[inline(never)]
    fn search_behind(&self, home: usize, hash: u64) -> Option<Found> {
        for line in self.lines.pieces::<LINE>().get(home + 1..)? {
            match within(line, tag_of(hash)) {
                None if is_full(line) => {}
                found => return found,
            }
        }
        None
    }

    /// Where a fingerprint's indicator stands.
    pub(crate) fn place(&self, found: Found) -> Option<Place> {
        self.places.get(found.at as usize).copied()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        let filters = self.filter.bytes() + self.filter_of_ends.bytes();
        self.lines.len() + self.places.capacity() * size_of::<Place>() + filters
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
        assert_eq!((index.get(1), index.has_end(1)), (None, false));
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
    }

    /// Ends of names that come many times, in any order, take room once.
    #[test]
    fn ends_of_names_are_kept_once() {
        let mut index = Index::default();
        for n in 0..300_000u64 {
            index.add_end(mix(n % 5_000));
            index.add_end(mix(n % 5_000));
        }
        assert!(index.ends.capacity() < 10_000, "{}", index.ends.capacity());
        index.close();
        assert!((0..5_000).all(|n| index.has_end(mix(n))));
        assert!((5_000..55_000).filter(|n| index.has_end(mix(*n))).count() < 1_500);
        assert!(index.bytes() < 10_000);
    }

    /// Fingerprints that all want the same line, the last one among them, are found after it.
    #[test]
    fn a_full_line_continues_in_the_next() {
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
