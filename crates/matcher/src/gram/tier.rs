//! One tier of the gram filter: the choice of grams for each pattern, and the verification of the
//! positions that the sieve lets through.
//!
//! Hot path contract: no allocation, no lock, no log; the scratch has grown before.

use super::sieve::{Form, STEP, Sieve, WORDS, key_at};
use super::{fold32, frequency};
use crate::limits::{BITMAP_LOG_MAX, BITMAP_LOG_MIN, GRAM_BYTES_MAX};
use crate::load::load32;
use crate::pattern::{Pattern, Scan};
use crate::scratch::Scratch;
use crate::table::{PatternTable, Sources};

/// A chosen gram: 16 bytes, so that a lookup usually costs one cache line.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Hash of the gram; equal hashes mean equal grams.
    hash: u32,
    /// Four folded bytes of the pattern, `near_at` from the gram.
    near: u32,
    pattern: u32,
    /// Offset of the gram in the pattern; -1 when its first byte is the one before the pattern.
    offset: i16,
    /// Offset of `near` from the gram; [`NO_NEAR`] for patterns with fewer than four bytes.
    near_at: i8,
    /// Largest position of the gram that the pattern's bounds allow, in units of
    /// [`UNTIL_UNIT`], rounded up; 255 for all beyond.
    until: u8,
}

const NO_NEAR: i8 = i8::MIN;
const UNTIL_UNIT: usize = 4;

/// The gram that represents a pattern at positions of one parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// The gram at this offset.
    Gram(usize),
    /// Any byte, then the pattern's first: the gram begins one byte before the pattern.
    AnyThenFirst,
    /// The pattern's last bytes, then any byte.
    LastThenAny,
}

/// Patterns found by grams of `Q` bytes.
#[derive(Clone, Debug)]
pub(super) struct Tier<const Q: usize> {
    sieve: Sieve<Q>,
    /// Grams without a wildcard.
    exact: Buckets,
    /// Grams whose first byte is a wildcard. These and the next are few, so that a lookup finds them in the
    /// first-level cache.
    any_first: Buckets,
    /// Grams whose last byte is a wildcard.
    any_last: Buckets,
}

/// Entries by the hash of their gram.
#[derive(Clone, Debug)]
struct Buckets {
    /// Where the entries of a bucket begin, by the uppermost bits of the hash; one more at the end.
    starts: Vec<u32>,
    shift: u32,
    /// Sorted by hash.
    entries: Vec<Entry>,
}

impl Buckets {
    fn new(mut entries: Vec<Entry>) -> Self {
        entries.sort_unstable_by_key(|entry| (entry.hash, entry.pattern, entry.offset));
        let shift = 32 - (entries.len().max(8) * 2).next_power_of_two().ilog2().min(20);
        let mut starts = vec![0u32; (1 << (32 - shift)) + 1];
        for entry in &entries {
            starts[(entry.hash >> shift) as usize + 1] += 1;
        }
        for bucket in 1..starts.len() {
            starts[bucket] += starts[bucket - 1];
        }
        Buckets { starts, shift, entries }
    }

    fn memory_bytes(&self) -> usize {
        self.starts.capacity() * size_of::<u32>() + self.entries.capacity() * size_of::<Entry>()
    }

    /// Where the bucket of a hash begins and ends.
    #[inline(always)]
    fn bounds(&self, hash: u32) -> (u32, u32) {
        let number = (hash >> self.shift) as usize;
        match (self.starts.get(number), self.starts.get(number + 1)) {
            (Some(&from), Some(&to)) => (from, to),
            _ => (0, 0),
        }
    }

    #[inline(always)]
    fn of_hash(&self, hash: u32) -> &[Entry] {
        let (from, to) = self.bounds(hash);
        self.entries.get(from as usize..to as usize).unwrap_or_default()
    }

    /// Whether there is a gram with this hash.
    fn has_hash(&self, hash: u32) -> bool {
        self.of_hash(hash).iter().any(|entry| entry.hash == hash)
    }
}

impl<const Q: usize> Tier<Q> {
    /// Masks of all but the first byte of a key, and of all but the last.
    const BUT_FIRST: u32 = Self::ALL & !0xff;
    const BUT_LAST: u32 = Self::ALL >> 8;
    const ALL: u32 = u32::MAX >> (32 - 8 * Q as u32);

    /// Builds the tier; `None` without patterns. Each pattern has `Q - 1` bytes or more.
    pub(super) fn new(
        sources: &Sources<'_>,
        indices: &[u32],
        seed: u64,
        form: Form,
    ) -> Option<Self> {
        if indices.is_empty() {
            return None;
        }
        let counts = GramCounts::<Q>::new(sources, indices);
        let mut costs = Vec::new();
        let mut chosen: Vec<(u32, Choice, Option<usize>)> = Vec::new();
        for &index in indices {
            let bytes = sources.bytes(index);
            counts.costs(bytes, &mut costs);
            for parity in 0..STEP {
                let choice = choose::<Q>(bytes, &costs, parity);
                chosen.push((index, choice, near_of::<Q>(bytes, &costs, choice)));
            }
        }
        let bits: usize = chosen.iter().map(|(_, choice, _)| choice.bits()).sum();
        let log_bits = bits.next_power_of_two().ilog2();
        let log_bits = log_bits.clamp(BITMAP_LOG_MIN, BITMAP_LOG_MAX);
        let enter_all = |seed: u64| {
            let mut sieve = Sieve::new(log_bits, seed, form);
            let [mut exact, mut any_first, mut any_last] = [const { Vec::new() }; 3];
            for &(index, choice, near) in &chosen {
                let pattern = sources.pattern(index);
                let hash = enter_gram(&mut sieve, &pattern.bytes, choice);
                let entries = match choice {
                    Choice::Gram(_) => &mut exact,
                    Choice::AnyThenFirst => &mut any_first,
                    Choice::LastThenAny => &mut any_last,
                };
                entries.push(entry_of::<Q>(pattern, choice, near, hash, index));
            }
            let [exact, any_first, any_last] = [exact, any_first, any_last].map(Buckets::new);
            Tier { sieve, exact, any_first, any_last }
        };
        // Padding must not pass by chance, because a buffer with padding has much of it.
        let mut seeds = (0..SEEDS_TRIED).map(|n| seed.wrapping_add(n)).map(enter_all);
        let tier = seeds.find(|tier| !tier.passes_padding());
        Some(tier.unwrap_or_else(|| enter_all(seed)))
    }

    /// Whether a run of some padding byte passes the sieve without being a chosen gram.
    fn passes_padding(&self) -> bool {
        PADDING.iter().any(|&byte| {
            let key = key_at::<Q>(&[byte; Q], 0);
            let has = |buckets: &Buckets, key: u32| buckets.has_hash(self.sieve.hash(key));
            self.sieve.may_hold(key)
                && !has(&self.exact, key)
                && !has(&self.any_first, key & Self::BUT_FIRST)
                && !has(&self.any_last, key & Self::BUT_LAST)
        })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let buckets = [&self.exact, &self.any_first, &self.any_last];
        self.sieve.memory_bytes() + buckets.map(Buckets::memory_bytes).iter().sum::<usize>()
    }

    /// Reports the patterns of the tier that occur in `hay`.
    #[inline]
    pub(super) fn scan(
        &self,
        table: &PatternTable,
        hay: &[u8],
        scratch: &mut Scratch,
        scan: &mut Scan,
        on_hit: &mut impl FnMut(u32),
    ) {
        let mut verifier = Verifier { table, hay, scratch, scan, closed: [NO_KEY; CLOSED] };
        let positions = hay.len().checked_sub(Q).map_or(0, |room| room / STEP + 1);
        let mut batch = Batch::default();
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
                    if at >= resume && batch.add(at) == BATCH {
                        resume = self.check_batch(&mut verifier, &mut batch, resume, on_hit);
                    }
                }
            }
            from += count;
        }
        self.check_batch(&mut verifier, &mut batch, resume, on_hit);
        // The last bytes at an even offset have no further byte to form a gram with.
        if !self.any_last.entries.is_empty()
            && let Some(at) = hay.len().checked_sub(Q - 1)
            && at.is_multiple_of(STEP)
        {
            let hash = self.sieve.hash(part_key::<Q>(&hay[at..], 0));
            verifier.check(self.any_last.of_hash(hash), hash, at, on_hit);
        }
    }

    /// Looks up the grams of a batch from `resume` on, reports the patterns there, and returns the position to
    /// continue at.
    #[inline]
    fn check_batch(
        &self,
        verifier: &mut Verifier<'_>,
        batch: &mut Batch,
        mut resume: usize,
        on_hit: &mut impl FnMut(u32),
    ) -> usize {
        let candidates = &mut batch.candidates[..batch.count.min(BATCH)];
        batch.count = 0;
        // These loads do not wait for one another, and verification finds its lines in the cache.
        for candidate in candidates.iter_mut() {
            candidate.key = key_at::<Q>(verifier.hay, candidate.at);
            candidate.hash = self.sieve.hash(candidate.key);
            (candidate.from, candidate.to) = self.exact.bounds(candidate.hash);
        }
        for candidate in candidates.iter_mut() {
            let first = self.exact.entries.get(candidate.from as usize);
            candidate.first = first.map_or(0, |first| first.hash);
        }
        for candidate in candidates.iter() {
            if candidate.at >= resume {
                resume = self.check_candidate(verifier, candidate, on_hit);
            }
        }
        resume
    }

    /// Reports the patterns of a candidate, and returns the position to continue at (0: the next one).
    #[inline]
    fn check_candidate(
        &self,
        verifier: &mut Verifier<'_>,
        candidate: &Candidate,
        on_hit: &mut impl FnMut(u32),
    ) -> usize {
        let &Candidate { at, key, hash, from, to, first } = candidate;
        let slot = (hash >> (32 - CLOSED.ilog2())) as usize;
        if verifier.closed[slot] != key {
            let is_alone = to.wrapping_sub(from) <= 1;
            let mut is_open = (from != to && !(is_alone && first != hash)) && {
                let entries = &self.exact.entries;
                let bucket = entries.get(from as usize..to as usize).unwrap_or_default();
                verifier.check(bucket, hash, at, on_hit)
            };
            if !self.any_first.entries.is_empty() {
                let hash = self.sieve.hash(key & Self::BUT_FIRST);
                is_open |= verifier.check(self.any_first.of_hash(hash), hash, at, on_hit);
            }
            if !self.any_last.entries.is_empty() {
                let hash = self.sieve.hash(key & Self::BUT_LAST);
                is_open |= verifier.check(self.any_last.of_hash(hash), hash, at, on_hit);
            }
            if is_open {
                return 0;
            }
            verifier.closed[slot] = key;
        }
        // All positions of a run of one byte have the same gram.
        if is_run::<Q>(verifier.hay, at) { end_of_run(verifier.hay, at) + 1 - Q } else { 0 }
    }
}

/// Candidates that are looked up together. One misses the cache twice; those of a batch miss it at the same time.
const BATCH: usize = 8;

/// A position that the sieve let through, and its bucket.
#[derive(Clone, Copy, Debug, Default)]
struct Candidate {
    at: usize,
    key: u32,
    hash: u32,
    from: u32,
    to: u32,
    /// Hash of the bucket's first entry.
    first: u32,
}

/// Candidates in the order of their positions.
#[derive(Default)]
struct Batch {
    candidates: [Candidate; BATCH],
    count: usize,
}

impl Batch {
    /// Adds a position to a batch that is not full. Returns how many there are.
    #[inline(always)]
    fn add(&mut self, at: usize) -> usize {
        if let Some(free) = self.candidates.get_mut(self.count) {
            free.at = at;
            self.count += 1;
        }
        self.count
    }
}

/// The state of a scan.
struct Verifier<'a> {
    table: &'a PatternTable,
    hay: &'a [u8],
    scratch: &'a mut Scratch,
    scan: &'a mut Scan,
    /// Grams whose patterns can no longer match; the last one of each hash class.
    closed: [u32; CLOSED],
}

/// Grams remembered as closed; a power of two.
const CLOSED: usize = 8;
/// A number that cannot be a key, as folding changes it.
const NO_KEY: u32 = 0x4040_4040;

impl Verifier<'_> {
    /// Reports the patterns of a bucket that match around a gram at `at`. Returns whether any of
    /// them may still match later: it was not reported yet and its bounds are not passed.
    #[inline]
    fn check(
        &mut self,
        bucket: &[Entry],
        hash: u32,
        at: usize,
        on_hit: &mut impl FnMut(u32),
    ) -> bool {
        let mut is_open = false;
        for entry in bucket {
            if entry.hash != hash || entry.is_past(at) || self.scratch.is_marked(entry.pattern) {
                continue;
            }
            is_open = true;
            if !entry.is_near(self.hay, at) {
                continue;
            }
            let Some(start) = at.checked_add_signed(-isize::from(entry.offset)) else { continue };
            let record = self.table.record(entry.pattern);
            if !record.may_begin_at(self.hay, start) || !record.begins_at(self.hay, start) {
                continue;
            }
            self.scan.verified += 1;
            if self.table.continues_at(record, self.hay, start) && self.scratch.mark(entry.pattern)
            {
                self.scan.hits += 1;
                on_hit(record.id);
            }
        }
        is_open
    }
}

impl Entry {
    #[inline(always)]
    fn is_near(&self, hay: &[u8], at: usize) -> bool {
        if self.near_at == NO_NEAR {
            return true;
        }
        let near = at.wrapping_add_signed(isize::from(self.near_at));
        load32(hay, near).is_some_and(|four| fold32(four) == self.near)
    }

    /// Whether a gram at `at` is past the bounds of the pattern.
    #[inline(always)]
    fn is_past(&self, at: usize) -> bool {
        self.until != u8::MAX && at > usize::from(self.until) * UNTIL_UNIT
    }
}

impl Choice {
    /// Offset of the gram's first byte in the pattern.
    fn offset<const Q: usize>(self, bytes: &[u8]) -> isize {
        match self {
            Choice::Gram(offset) => offset as isize,
            Choice::AnyThenFirst => -1,
            Choice::LastThenAny => (bytes.len() + 1 - Q) as isize,
        }
    }

    /// Bits of the bitmap for this choice: enough for few false hits, and fewer for each of the 192
    /// grams (one per folded byte) of a gram with a wildcard.
    fn bits(self) -> usize {
        match self {
            Choice::Gram(_) => 48,
            Choice::AnyThenFirst | Choice::LastThenAny => 192 * 24,
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

/// Where the run of one byte that holds `at` ends.
#[cold]
fn end_of_run(hay: &[u8], at: usize) -> usize {
    let rest = hay.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|&byte| Some(byte) == rest.first()).count()
}

/// Sets the bits of a choice and returns the hash under which it is looked up.
fn enter_gram<const Q: usize>(sieve: &mut Sieve<Q>, bytes: &[u8], choice: Choice) -> u32 {
    let (key, any_at) = match choice {
        Choice::Gram(offset) => (key_at::<Q>(bytes, offset), None),
        Choice::AnyThenFirst => (part_key::<Q>(bytes, 1), Some(0)),
        Choice::LastThenAny => {
            (part_key::<Q>(&bytes[bytes.len() + 1 - Q..], 0), Some(8 * (Q as u32 - 1)))
        }
    };
    match any_at {
        None => sieve.set(sieve.hash(key)),
        Some(shift) => {
            (0..=255u32).for_each(|any| sieve.set(sieve.hash(key | fold32(any << shift))));
        }
    }
    sieve.hash(key)
}

/// The key of a gram with one wildcard: the other bytes are the first of `bytes`, placed from the
/// `skip`-th on, and the wildcard is zero.
fn part_key<const Q: usize>(bytes: &[u8], skip: usize) -> u32 {
    let mut gram = [0; Q];
    gram[skip..].iter_mut().zip(bytes).take(Q - 1).for_each(|(to, from)| *to = *from);
    key_at::<Q>(&gram, 0)
}

fn entry_of<const Q: usize>(
    pattern: &Pattern,
    choice: Choice,
    near: Option<usize>,
    hash: u32,
    index: u32,
) -> Entry {
    let bytes = pattern.bytes.as_slice();
    let offset = choice.offset::<Q>(bytes);
    let near_at = near.and_then(|near| i8::try_from(near as isize - offset).ok());
    let last_start = (pattern.max_end as usize).saturating_sub(bytes.len());
    let last_at = last_start.saturating_add_signed(offset).div_ceil(UNTIL_UNIT);
    Entry {
        hash,
        near: near.and_then(|near| load32(bytes, near)).map_or(0, fold32),
        pattern: index,
        offset: offset as i16,
        near_at: near_at.unwrap_or(NO_NEAR),
        until: u8::try_from(last_at).unwrap_or(u8::MAX),
    }
}

/// Number of hash seeds to try.
const SEEDS_TRIED: u64 = 4;

/// Usual padding bytes.
const PADDING: &[u8] = b"\0\xff \x01.-_=*#0AX\n\t\x90";

/// The gram that represents the pattern if its offset has this parity relative to the positions:
/// the one with the lowest expected cost.
fn choose<const Q: usize>(bytes: &[u8], costs: &[u64], parity: usize) -> Choice {
    let best = (parity..costs.len()).step_by(STEP).min_by_key(|&offset| costs[offset]);
    let is_run = |from: usize, len: usize| is_folded_run(&bytes[from..from + len]);
    if let Some(offset) = best
        && !is_run(offset, Q)
    {
        return Choice::Gram(offset);
    }
    // The pattern is too short for a gram at this parity, or has only runs there.
    let last_at = bytes.len() + 1 - Q;
    let fits_first = parity == 1;
    let fits_last = last_at % STEP == parity && last_at < GRAM_BYTES_MAX;
    let rank = |from: usize| rank_of(&bytes[from..from + Q - 1]);
    match (fits_first && !is_run(0, Q - 1), fits_last && !is_run(last_at, Q - 1)) {
        (true, true) if rank(last_at) < rank(0) => Choice::LastThenAny,
        (true, _) => Choice::AnyThenFirst,
        (_, true) => Choice::LastThenAny,
        (false, false) => match best {
            Some(offset) => Choice::Gram(offset),
            None if fits_first => Choice::AnyThenFirst,
            None => Choice::LastThenAny,
        },
    }
}

/// How common two or three bytes are in traffic.
fn rank_of(bytes: &[u8]) -> u32 {
    match bytes.len() {
        3 => frequency::level(frequency::folded(bytes)),
        _ => bytes.iter().map(|&byte| u32::from(frequency::byte_rank(byte))).sum(),
    }
}

/// Offset of four further bytes that distinguish the pattern from others with the same gram: the
/// cheapest ones outside of the gram, else those that overlap it least.
fn near_of<const Q: usize>(bytes: &[u8], costs: &[u64], choice: Choice) -> Option<usize> {
    let last = bytes.len().checked_sub(4)?;
    let offset = choice.offset::<Q>(bytes);
    let is_reached = |near: usize| (near as isize - offset).unsigned_abs() < 120;
    let is_outside = |near: usize| {
        let near = near as isize;
        near + 4 <= offset || near >= offset + Q as isize
    };
    let outside =
        (0..=last.min(costs.len() - 1)).filter(|&near| is_reached(near) && is_outside(near));
    let overlapping = if offset * 2 > last as isize { 0 } else { last };
    let near = outside.min_by_key(|&near| costs[near]).unwrap_or(overlapping);
    is_reached(near).then_some(near)
}

#[inline(always)]
fn is_run<const Q: usize>(hay: &[u8], at: usize) -> bool {
    match hay.get(at..at + Q) {
        Some([first, rest @ ..]) => rest.iter().all(|byte| byte == first),
        _ => false,
    }
}

/// Approximate number of patterns of the tier that contain a gram, by a hash of 16 bits.
struct GramCounts<const Q: usize> {
    counts: Vec<u16>,
}

impl<const Q: usize> GramCounts<Q> {
    fn new(sources: &Sources<'_>, indices: &[u32]) -> Self {
        let mut counts = vec![0u16; 1 << 16];
        for &index in indices {
            let bytes = sources.bytes(index);
            for gram in bytes[..bytes.len().min(GRAM_BYTES_MAX)].windows(Q) {
                let count = &mut counts[Self::slot(key_at::<Q>(gram, 0))];
                *count = count.saturating_add(1);
            }
        }
        GramCounts { counts }
    }

    fn slot(key: u32) -> usize {
        (key.wrapping_mul(0x9e37_79b1) >> 16) as usize
    }

    /// The expected cost of each gram of a pattern.
    fn costs(&self, bytes: &[u8], costs: &mut Vec<u64>) {
        let bytes = &bytes[..bytes.len().min(GRAM_BYTES_MAX)];
        costs.clear();
        costs.extend(bytes.windows(Q).map(|gram| self.cost(gram)));
    }

    fn cost(&self, gram: &[u8]) -> u64 {
        let level = gram.windows(3).map(|three| frequency::level(frequency::folded(three))).min();
        let level = if is_run::<Q>(gram, 0) { 15 } else { level.unwrap_or(15) };
        u64::from(self.counts[Self::slot(key_at::<Q>(gram, 0))]) * (4 + (1 << level))
    }
}
