//! Fingerprints of millions of indicators, and where in their files they stand: sixteen bytes each.
//!
//! An indicator is a 64-bit hash and a [`Place`]; its text stays in its file. A small filter, which
//! fits into a cache, answers nearly all questions for what is not listed; for the rest one run of memory
//! is read: fingerprints stand in their order, each as near as can be to where its value says.

use crate::sketch::mix;

/// Parts that the fingerprints are kept in, so that growing and sorting needs room for one part only.
const PARTS: usize = 256;
/// Bits of the filter for each fingerprint.
const FILTER_BITS: usize = 12;
/// Fingerprints for each place that stays free: more room makes shorter runs.
const ROOM: usize = 6;

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

/// An entry's fingerprint and place; [`FREE`] where there is none.
type Entry = (u64, Place);

const FREE: Entry = (u64::MAX, Place(u64::MAX));

/// One part: entries as they came, and when closed at their places.
#[derive(Debug, Default)]
struct Part {
    places: Vec<Entry>,
    /// Places that fingerprints may have as their own.
    homes: usize,
}

/// What is listed, by fingerprint.
#[derive(Debug, Default)]
pub struct Index {
    parts: Vec<Part>,
    filter: Vec<u64>,
    len: usize,
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

/// A number below `n`, by the upper bits of the hash's lower half.
#[inline]
fn scale(hash: u64, n: usize) -> usize {
    ((u128::from(hash << 8) * n as u128) >> 64) as usize
}

impl Index {
    /// Takes a fingerprint in; it is found after [`Index::close`].
    pub fn add(&mut self, hash: u64, place: Place) {
        if self.parts.is_empty() {
            self.parts.resize_with(PARTS, Part::default);
        }
        if let Some(part) = self.parts.get_mut(part_of(hash)) {
            part.places.push((hash, place));
            self.len += 1;
        }
    }

    /// Sorts, keeps the graver of two of one fingerprint, and makes the filter.
    pub fn close(&mut self) {
        self.len = 0;
        for part in &mut self.parts {
            part.places.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
            part.places.dedup_by_key(|e| e.0);
            self.len += part.places.len();
            *part = spread(&part.places);
        }
        self.filter = vec![0; self.len * FILTER_BITS / 64 + 1];
        let words = self.filter.len();
        for entry in self.parts.iter().flat_map(|p| &p.places).filter(|e| **e != FREE) {
            if let Some(word) = self.filter.get_mut(word_of(entry.0, words)) {
                *word |= mask(entry.0);
            }
        }
    }

    /// Where the fingerprint stands.
    #[inline]
    pub fn get(&self, hash: u64) -> Option<Place> {
        let word = self.filter.get(word_of(hash, self.filter.len()))?;
        let mask = mask(hash);
        if word & mask != mask { None } else { self.search(hash) }
    }

    fn search(&self, hash: u64) -> Option<Place> {
        let part = self.parts.get(part_of(hash))?;
        let run = part
            .places
            .get(scale(hash, part.homes)..)?
            .iter()
            .take_while(|e| **e != FREE && e.0 <= hash);
        run.filter(|e| e.0 == hash).map(|e| e.1).next()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        let parts: usize =
            self.parts.iter().map(|p| p.places.capacity() * size_of::<Entry>()).sum();
        parts + self.filter.capacity() * 8
    }
}

/// Gives sorted entries room: each stands at its own place or behind the one before it.
fn spread(sorted: &[Entry]) -> Part {
    let homes = sorted.len() + sorted.len() / ROOM + 1;
    let mut places = vec![FREE; homes + ROOM];
    let mut next = 0;
    for entry in sorted {
        let at = scale(entry.0, homes).max(next);
        next = at + 1;
        match places.get_mut(at) {
            Some(place) => *place = *entry,
            // The last run goes on behind the end.
            None => places.push(*entry),
        }
    }
    places.shrink_to_fit();
    Part { places, homes }
}

#[inline]
fn word_of(hash: u64, words: usize) -> usize {
    ((u128::from(hash) * words as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_is_found_and_nothing_else() {
        let mut index = Index::default();
        assert_eq!(index.get(1), None);
        for n in 0..50_000u64 {
            index.add(mix(n), Place::new((n % 7) as u16, n * 31, 2));
        }
        index.add(mix(5), Place::new(1, 99, 4));
        index.close();
        assert_eq!(index.len(), 50_000);
        assert_eq!(index.get(mix(5)), Some(Place::new(1, 99, 4)), "the graver one");
        for n in 6..50_000 {
            let place = index.get(mix(n)).unwrap();
            assert_eq!((place.file() as u64, place.offset(), place.level()), (n % 7, n * 31, 2));
        }
        assert!((50_000..200_000).all(|n| index.get(mix(n)).is_none()));
        assert!(index.bytes() < 50_000 * 22, "{}", index.bytes());
    }
}
