//! One tier of the gram filter: which grams stand for each pattern, and what happens at the
//! positions that the sieve lets through.
//!
//! Hot path contract: no allocation, no lock, no log; the scratch has grown before.

use super::sieve::{Form, STEP, Sieve, WORDS, key_at};
use super::{fold32, frequency};
use crate::limits::{BITMAP_LOG_MAX, BITMAP_LOG_MIN, GRAM_BYTES_MAX};
use crate::load::load32;
use crate::pattern::Scan;
use crate::scratch::Scratch;
use crate::table::{PatternTable, Sources};

/// A chosen gram: 16 bytes, so that a lookup costs one cache line as a rule.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Hash of the gram; equal hashes mean equal grams.
    hash: u32,
    /// Four folded bytes of the pattern, `near_at` from the gram.
    near: u32,
    pattern: u32,
    /// Offset of the gram in the pattern; -1 when its first byte is the one before the pattern.
    offset: i16,
    near_at: i8,
    has_near: bool,
}

/// What stands for a pattern at positions of one parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// The gram at this offset.
    Gram(usize),
    /// Any byte, then the pattern's first two: the gram begins one byte before the pattern.
    AnyThenPair,
    /// The pattern's last two bytes, then any byte.
    PairThenAny,
}

/// Patterns found by grams of `Q` bytes.
#[derive(Clone, Debug)]
pub(super) struct Tier<const Q: usize> {
    sieve: Sieve<Q>,
    /// Where the entries of a bucket begin, by the uppermost bits of the hash; one more at the end.
    starts: Vec<u32>,
    bucket_shift: u32,
    /// Sorted by hash.
    entries: Vec<Entry>,
    /// Whether there are grams whose first byte is any.
    has_any_first: bool,
    /// Whether there are grams whose last byte is any.
    has_any_last: bool,
    count: usize,
}

/// The two last bytes of a three-byte key, and its two first ones.
const LAST_PAIR: u32 = 0x00ff_ff00;
const FIRST_PAIR: u32 = 0x0000_ffff;

impl<const Q: usize> Tier<Q> {
    /// Builds the tier; none without patterns. For grams of four bytes, each pattern has five or
    /// more; for grams of three, two or more.
    pub(super) fn new(
        sources: &Sources<'_>,
        indices: &[u32],
        seed: u64,
        form: Form,
    ) -> Option<Self> {
        if indices.is_empty() {
            return None;
        }
        let crowd = Crowd::<Q>::new(sources, indices);
        let parities = |&index: &u32| (0..STEP).map(move |parity| (index, parity));
        let chosen: Vec<(u32, Choice)> = indices
            .iter()
            .flat_map(parities)
            .map(|(index, parity)| (index, crowd.choose(sources.bytes(index), parity)))
            .collect();
        let grams: usize = chosen.iter().map(|(_, choice)| choice.grams()).sum();
        let log_bits = (grams * 24).next_power_of_two().ilog2();
        let log_bits = log_bits.clamp(BITMAP_LOG_MIN, BITMAP_LOG_MAX);
        let mut sieve = Sieve::new(log_bits, multiplier_of(seed), form);
        let mut entries = Vec::with_capacity(chosen.len());
        for &(index, choice) in &chosen {
            let bytes = sources.bytes(index);
            entries.push(match choice {
                Choice::Gram(offset) => {
                    let hash = sieve.hash(key_at::<Q>(bytes, offset));
                    sieve.set(hash);
                    entry_of::<Q>(bytes, offset, hash, index)
                }
                Choice::AnyThenPair => {
                    let pair = key_at::<Q>(&[0, bytes[0], bytes[1]], 0);
                    let with = |any: u8| sieve.hash(pair | fold32(u32::from(any)));
                    let hashes: Vec<u32> = (0..=255).map(with).collect();
                    hashes.into_iter().for_each(|hash| sieve.set(hash));
                    pair_entry(sieve.hash(pair), index, -1)
                }
                Choice::PairThenAny => {
                    let at = bytes.len() - 2;
                    let pair = key_at::<Q>(&[bytes[at], bytes[at + 1], 0], 0);
                    let with = |any: u8| sieve.hash(pair | fold32(u32::from(any) << 16));
                    let hashes: Vec<u32> = (0..=255).map(with).collect();
                    hashes.into_iter().for_each(|hash| sieve.set(hash));
                    pair_entry(sieve.hash(pair), index, at as i16)
                }
            });
        }
        entries.sort_unstable_by_key(|entry| (entry.hash, entry.pattern, entry.offset));
        let bucket_shift = 32 - (entries.len().max(8)).ilog2().min(20);
        let mut starts = vec![0u32; (1 << (32 - bucket_shift)) + 1];
        for entry in &entries {
            starts[(entry.hash >> bucket_shift) as usize + 1] += 1;
        }
        for bucket in 1..starts.len() {
            starts[bucket] += starts[bucket - 1];
        }
        Some(Tier {
            sieve,
            starts,
            bucket_shift,
            entries,
            has_any_first: chosen.iter().any(|(_, choice)| *choice == Choice::AnyThenPair),
            has_any_last: chosen.iter().any(|(_, choice)| *choice == Choice::PairThenAny),
            count: indices.len(),
        })
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.sieve.memory_bytes()
            + self.starts.capacity() * size_of::<u32>()
            + self.entries.capacity() * size_of::<Entry>()
    }

    /// Reports the patterns of the tier that stand in `hay`.
    #[inline]
    pub(super) fn scan(
        &self,
        table: &PatternTable,
        hay: &[u8],
        scratch: &mut Scratch,
        scan: &mut Scan,
        on_hit: &mut impl FnMut(u32),
    ) {
        let mut verifier = Verifier { table, hay, scratch, scan };
        let positions = hay.len().checked_sub(Q).map_or(0, |room| room / STEP + 1);
        let (mut from, mut resume) = (0, 0);
        while from < positions {
            let count = (positions - from).min(WORDS * 64);
            let mut masks = [0u64; WORDS];
            self.sieve.sift(hay, from * STEP, count, &mut masks);
            for (word, &mask) in masks[..count.div_ceil(64)].iter().enumerate() {
                let mut mask = mask;
                while mask != 0 {
                    let at = (from + word * 64 + mask.trailing_zeros() as usize) * STEP;
                    mask &= mask - 1;
                    if at >= resume {
                        resume = self.candidate(&mut verifier, at, on_hit);
                    }
                }
            }
            from += count;
        }
        // Two last bytes at an even offset have no byte behind them to make a gram with.
        if self.has_any_last && hay.len() >= 2 && hay.len().is_multiple_of(2) {
            let at = hay.len() - 2;
            let hash = self.sieve.hash(key_at::<Q>(&[hay[at], hay[at + 1], 0], 0));
            verifier.check(self.bucket(hash), hash, at, on_hit);
        }
    }

    /// Looks up the gram at `at`, reports what stands there, and answers where to go on.
    #[inline]
    fn candidate(
        &self,
        verifier: &mut Verifier<'_>,
        at: usize,
        on_hit: &mut impl FnMut(u32),
    ) -> usize {
        let hashes = self.hashes(key_at::<Q>(verifier.hay, at));
        for hash in hashes.into_iter().flatten() {
            verifier.check(self.bucket(hash), hash, at, on_hit);
        }
        if is_run::<Q>(verifier.hay, at) { self.end_of_run(verifier, at, hashes) } else { 0 }
    }

    /// Under which hashes the patterns of a gram are found.
    #[inline(always)]
    fn hashes(&self, key: u32) -> [Option<u32>; 3] {
        let pair = |is_used: bool, mask: u32| is_used.then(|| self.sieve.hash(key & mask));
        [
            Some(self.sieve.hash(key)),
            pair(Q == 3 && self.has_any_first, LAST_PAIR),
            pair(Q == 3 && self.has_any_last, FIRST_PAIR),
        ]
    }

    #[inline(always)]
    fn bucket(&self, hash: u32) -> &[Entry] {
        let number = (hash >> self.bucket_shift) as usize;
        let bounds = (self.starts.get(number), self.starts.get(number + 1));
        let (Some(&from), Some(&to)) = bounds else { return &[] };
        self.entries.get(from as usize..to as usize).unwrap_or_default()
    }

    /// Where to go on behind a candidate in a run of one byte: every position of the run has the
    /// same gram, so that it can be skipped when none of the gram's patterns can match any more.
    #[cold]
    fn end_of_run(&self, verifier: &Verifier<'_>, at: usize, hashes: [Option<u32>; 3]) -> usize {
        let is_open = |hash: u32| {
            self.bucket(hash).iter().any(|entry| entry.hash == hash && verifier.is_open(entry, at))
        };
        if hashes.into_iter().flatten().any(is_open) {
            return 0;
        }
        let rest = &verifier.hay[at..];
        let run = rest.iter().take_while(|&&byte| byte == rest[0]).count();
        at + run + 1 - Q
    }
}

/// A scan under way.
struct Verifier<'a> {
    table: &'a PatternTable,
    hay: &'a [u8],
    scratch: &'a mut Scratch,
    scan: &'a mut Scan,
}

impl Verifier<'_> {
    /// Reports those patterns of a bucket that stand around a gram at `at`.
    #[inline]
    fn check(&mut self, bucket: &[Entry], hash: u32, at: usize, on_hit: &mut impl FnMut(u32)) {
        for entry in bucket {
            if entry.hash != hash
                || !entry.is_near(self.hay, at)
                || self.scratch.is_marked(entry.pattern)
            {
                continue;
            }
            let Some(start) = at.checked_add_signed(-isize::from(entry.offset)) else { continue };
            let record = self.table.record(entry.pattern);
            if !record.may_stand(self.hay, start) || !record.begins_at(self.hay, start) {
                continue;
            }
            self.scan.verified += 1;
            if self.table.continues_at(record, self.hay, start) && self.scratch.mark(entry.pattern)
            {
                self.scan.hits += 1;
                on_hit(record.id);
            }
        }
    }

    /// Whether the pattern may still match behind a gram at `at`.
    fn is_open(&self, entry: &Entry, at: usize) -> bool {
        let record = self.table.record(entry.pattern);
        let next = (at + 1).saturating_add_signed(-isize::from(entry.offset));
        !self.scratch.is_marked(entry.pattern)
            && next + record.len as usize <= self.hay.len().min(record.max_end as usize)
    }
}

impl Entry {
    #[inline(always)]
    fn is_near(&self, hay: &[u8], at: usize) -> bool {
        if !self.has_near {
            return true;
        }
        let near = at.wrapping_add_signed(isize::from(self.near_at));
        load32(hay, near).is_some_and(|four| fold32(four) == self.near)
    }
}

impl Choice {
    /// Grams of three bytes that it stands for, in the eyes of the bitmap.
    fn grams(self) -> usize {
        match self {
            Choice::Gram(_) => 1,
            // Folding leaves 192 of 256 bytes apart.
            Choice::AnyThenPair | Choice::PairThenAny => 192,
        }
    }
}

/// Whether both parities of the pattern have a gram of four bytes that is not a run of one byte,
/// or the whole pattern is one.
pub(super) fn has_grams_at_both_parities(bytes: &[u8]) -> bool {
    let bytes = &bytes[..bytes.len().min(GRAM_BYTES_MAX)];
    let has = |parity: usize| {
        bytes.windows(4).skip(parity).step_by(STEP).any(|gram| !is_folded_run(gram))
    };
    is_folded_run(bytes) || (has(0) && has(1))
}

fn is_folded_run(bytes: &[u8]) -> bool {
    let fold = |byte: u8| fold32(u32::from(byte));
    bytes.iter().all(|&byte| fold(byte) == fold(bytes[0]))
}

fn pair_entry(hash: u32, pattern: u32, offset: i16) -> Entry {
    Entry { hash, near: 0, pattern, offset, near_at: 0, has_near: false }
}

fn entry_of<const Q: usize>(bytes: &[u8], offset: usize, hash: u32, pattern: u32) -> Entry {
    // The four bytes behind the gram if there are any, else those before it, else the last four.
    let near = if offset + Q + 4 <= bytes.len() {
        Some(offset + Q)
    } else if offset >= 4 {
        Some(offset - 4)
    } else {
        bytes.len().checked_sub(4)
    };
    let near_at = near.map_or(0, |near| near as isize - offset as isize);
    Entry {
        hash,
        near: near.and_then(|near| load32(bytes, near)).map_or(0, fold32),
        pattern,
        offset: offset as i16,
        near_at: near_at as i8,
        has_near: near.is_some(),
    }
}

#[inline(always)]
fn is_run<const Q: usize>(hay: &[u8], at: usize) -> bool {
    match hay.get(at..at + Q) {
        Some([first, rest @ ..]) => rest.iter().all(|byte| byte == first),
        _ => false,
    }
}

/// An odd number with neither few nor many bits set, so that it spreads keys.
fn multiplier_of(seed: u64) -> u32 {
    let mut state = seed;
    loop {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let multiplier = (state >> 32) as u32 | 1;
        if (10..=22).contains(&multiplier.count_ones()) && multiplier >> 28 != 0 {
            return multiplier;
        }
    }
}

/// How many patterns of the tier contain a gram, roughly (by a hash of 16 bits).
struct Crowd<const Q: usize> {
    counts: Vec<u16>,
}

impl<const Q: usize> Crowd<Q> {
    fn new(sources: &Sources<'_>, indices: &[u32]) -> Self {
        let mut counts = vec![0u16; 1 << 16];
        for &index in indices {
            let bytes = sources.bytes(index);
            for gram in bytes[..bytes.len().min(GRAM_BYTES_MAX)].windows(Q) {
                let count = &mut counts[Self::slot(key_at::<Q>(gram, 0))];
                *count = count.saturating_add(1);
            }
        }
        Crowd { counts }
    }

    fn slot(key: u32) -> usize {
        (key.wrapping_mul(0x9e37_79b1) >> 16) as usize
    }

    /// What stands for the pattern where its offset has this parity relative to the positions:
    /// the gram that is expected to cost least.
    fn choose(&self, bytes: &[u8], parity: usize) -> Choice {
        let end = bytes.len().min(GRAM_BYTES_MAX);
        let offsets = (parity..(end + 1).saturating_sub(Q)).step_by(STEP);
        let best = offsets.min_by_key(|&offset| self.cost(&bytes[offset..offset + Q]));
        let is_run = |offset: usize| is_folded_run(&bytes[offset..offset + Q]);
        match best {
            Some(offset) if Q != 3 || !is_run(offset) => return Choice::Gram(offset),
            _ => {}
        }
        // Too short for a gram at this parity, or nothing but runs there.
        let pair_at = bytes.len() - 2;
        let is_pair_run = |at: usize| is_folded_run(&bytes[at..at + 2]);
        let fits_last = pair_at % STEP == parity && pair_at < GRAM_BYTES_MAX;
        if parity == 1 && !is_pair_run(0) {
            Choice::AnyThenPair
        } else if fits_last && !is_pair_run(pair_at) {
            Choice::PairThenAny
        } else if let Some(offset) = best {
            Choice::Gram(offset)
        } else if parity == 1 {
            Choice::AnyThenPair
        } else {
            Choice::PairThenAny
        }
    }

    fn cost(&self, gram: &[u8]) -> u64 {
        let level = gram.windows(3).map(|three| frequency::level(frequency::folded(three))).min();
        let level = if is_run::<Q>(gram, 0) { 15 } else { level.unwrap_or(15) };
        u64::from(self.counts[Self::slot(key_at::<Q>(gram, 0))]) * (4 + (1 << level))
    }
}
