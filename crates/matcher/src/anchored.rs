//! Patterns at the start or the end of the buffer, or equal to it: found by hash lookups.
//!
//! The key of a pattern is its first (or last) bytes, case folded. Its length is the next lower one
//! of a few fixed lengths, or that of the whole pattern if several patterns would share the key. A
//! scan computes the key of each length that occurs in the set from two loads per block, tests a
//! bitmap without branches, and looks up the remaining keys. Keys of 4 bytes and more are tested
//! only if the outermost 4 bytes are those of some pattern (a gate); keys from 8 bytes on, and
//! those beyond 16, 32 and 48 bytes, have such gates too. So the cost of a name does not depend on
//! the number of names, and the worst case is a number of patterns that share a key. `Label`
//! patterns are suffixes whose verification reads one byte more. Patterns of small sets are
//! compared one by one.

use crate::gram::fold64;
use crate::limits::{ANCHOR_FEW, ANCHOR_KEY_MAX, ANCHOR_SHARED_MAX};
use crate::load::{load_first, load_last};
use crate::pattern::{Anchor, Scan};
use crate::table::{PatternTable, Sources};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

const BLOCK: usize = 16;
const BLOCKS: usize = ANCHOR_KEY_MAX / BLOCK;

/// Lengths of keys: close enough that few patterns share a key, few enough to test all of them.
const KEY_LENGTHS: [usize; 15] = [1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64];

/// Random odd multipliers of a set.
#[derive(Clone, Debug, Default)]
struct Multipliers {
    words: [u64; 2 * BLOCKS],
    length: u64,
    gate: u64,
}

impl Multipliers {
    fn new(seed: u64) -> Self {
        let mut state = seed;
        let mut next = || {
            // splitmix64, Steele et al. 2014.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) | 1
        };
        Multipliers { words: core::array::from_fn(|_| next()), length: next(), gate: next() }
    }

    /// The contribution of a (masked) block to a hash.
    #[inline(always)]
    fn block(&self, block: usize, low: u64, high: u64) -> u64 {
        let at = 2 * block;
        low.wrapping_mul(self.words[at]).wrapping_add(high.wrapping_mul(self.words[at + 1]))
    }
}

/// Patterns by hash: a bitmap that rules most hashes out, then buckets.
#[derive(Clone, Debug, Default)]
struct Buckets {
    bits: Vec<u64>,
    bits_shift: u32,
    starts: Vec<u32>,
    bucket_shift: u32,
    entries: Vec<(u32, u32)>,
}

impl Buckets {
    fn new(mut hashed: Vec<(u64, u32)>, gates: &[u64]) -> Self {
        hashed.sort_unstable();
        let log = hashed.len().max(2).next_power_of_two().ilog2();
        let (bits_log, bucket_log) = ((log + 5).clamp(6, 22), log.clamp(1, 20));
        let mut bits = vec![0u64; 1 << (bits_log - 6)];
        let (bits_shift, bucket_shift) = (64 - bits_log, 64 - bucket_log);
        let mut starts = vec![0u32; (1 << bucket_log) + 1];
        for hash in gates.iter().copied().chain(hashed.iter().map(|&(hash, _)| hash)) {
            let bit = hash >> bits_shift;
            bits[(bit / 64) as usize] |= 1 << (bit % 64);
        }
        for &(hash, _) in &hashed {
            starts[(hash >> bucket_shift) as usize + 1] += 1;
        }
        for bucket in 1..starts.len() {
            starts[bucket] += starts[bucket - 1];
        }
        let entries = hashed.into_iter().map(|(hash, index)| ((hash >> 32) as u32, index));
        Buckets { bits, bits_shift, starts, bucket_shift, entries: entries.collect() }
    }

    #[inline(always)]
    fn may_hold(&self, hash: u64) -> bool {
        let bit = hash >> self.bits_shift;
        self.bits.get((bit / 64) as usize).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    /// Patterns with this hash, and rarely others.
    #[inline]
    fn get(&self, hash: u64) -> impl Iterator<Item = u32> {
        let number = (hash >> self.bucket_shift) as usize;
        let bounds = (self.starts.get(number), self.starts.get(number + 1));
        let range = match bounds {
            (Some(&from), Some(&to)) => from as usize..to as usize,
            _ => 0..0,
        };
        let upper = (hash >> 32) as u32;
        let entries = self.entries.get(range).unwrap_or_default();
        entries.iter().filter(move |entry| entry.0 == upper).map(|entry| entry.1)
    }

    fn memory_bytes(&self) -> usize {
        self.bits.capacity() * 8 + self.starts.capacity() * 4 + self.entries.capacity() * 8
    }
}

/// A length of keys, with the masks of its last block.
#[derive(Clone, Copy, Debug)]
struct KeyLength {
    len: u32,
    low: u64,
    high: u64,
}

/// Patterns at the end of the buffer (`AT_END`) or at its start.
#[derive(Clone, Debug, Default)]
pub(crate) struct SideSet<const AT_END: bool> {
    /// Lengths below 4, ascending: always tested.
    tiny: Vec<KeyLength>,
    /// Lengths from 4 to 7, then from 8 on by block, ascending: tested if their gate lets them
    /// through.
    short: Vec<KeyLength>,
    long: [Vec<KeyLength>; BLOCKS],
    blocks: usize,
    multipliers: Multipliers,
    buckets: Buckets,
    /// All patterns if they are few; then nothing else is used.
    few: Vec<u32>,
    count: usize,
    shortest: usize,
}

impl<const AT_END: bool> SideSet<AT_END> {
    /// Builds the set over those of `indices` whose keys are not shared by too many patterns, and
    /// returns the others; with `keep_all` there are none.
    pub(crate) fn new(
        sources: &Sources<'_>,
        indices: &[u32],
        seed: u64,
        keep_all: bool,
    ) -> (Self, Vec<u32>) {
        let lengths = indices.iter().map(|&index| sources.bytes(index).len());
        let mut set = SideSet {
            multipliers: Multipliers::new(seed),
            shortest: lengths.min().unwrap_or(usize::MAX),
            ..SideSet::default()
        };
        if indices.len() <= ANCHOR_FEW {
            set.few = indices.to_vec();
            set.count = indices.len();
            return (set, Vec::new());
        }
        let coarse = |index: u32| {
            let bytes = sources.bytes(index);
            set.hash_of(bytes, key_length(bytes.len()))
        };
        let mut coarse_counts: HashMap<u64, usize, RandomState> = HashMap::default();
        indices.iter().for_each(|&index| *coarse_counts.entry(coarse(index)).or_default() += 1);
        // If several patterns would share a key, the key of each covers its whole length.
        let length_of = |index: u32| {
            let len = sources.bytes(index).len();
            let is_crowded = coarse_counts.get(&coarse(index)).is_some_and(|&count| count > 2);
            if is_crowded { len.min(ANCHOR_KEY_MAX) } else { key_length(len) }
        };
        let lengths: Vec<usize> = indices.iter().map(|&index| length_of(index)).collect();
        let mut sharing: HashMap<u64, usize, RandomState> = HashMap::default();
        let (mut hashed, mut gates, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (&index, len) in indices.iter().zip(lengths) {
            let bytes = sources.bytes(index);
            let hash = set.hash_of(bytes, len);
            let shared = sharing.entry(hash).or_default();
            *shared += 1;
            if *shared > ANCHOR_SHARED_MAX && !keep_all {
                others.push(index);
                continue;
            }
            hashed.push((hash, index));
            set.add_length(len);
            set.push_gates(bytes, len, &mut gates);
        }
        set.count = hashed.len();
        set.buckets = Buckets::new(hashed, &gates);
        (set, others)
    }

    fn add_length(&mut self, len: usize) {
        let block = (len - 1) / BLOCK;
        self.blocks = self.blocks.max(block + 1);
        let lengths = match len {
            ..4 => &mut self.tiny,
            4..8 => &mut self.short,
            _ => &mut self.long[block],
        };
        if !lengths.iter().any(|known| known.len as usize == len) {
            lengths.push(mask_of::<AT_END>(len));
            lengths.sort_unstable_by_key(|known| known.len);
        }
    }

    /// Adds the gates of the keys of this length.
    fn push_gates(&self, bytes: &[u8], len: usize, gates: &mut Vec<u64>) {
        let (low, high) = block_at::<AT_END>(bytes, 0);
        match len {
            ..4 => {}
            4..8 => gates.push(self.gate_of_four(low, high)),
            _ => gates.push(self.gate_of_eight(low, high)),
        }
        let mut outer = 0u64;
        for block in 0..(len - 1) / BLOCK {
            let (low, high) = block_at::<AT_END>(bytes, block);
            outer = outer.wrapping_add(self.multipliers.block(block, low, high));
            gates.push(self.gate_of_blocks(outer));
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let lengths: usize =
            self.long.iter().chain([&self.tiny, &self.short]).map(Vec::capacity).sum();
        self.buckets.memory_bytes()
            + lengths * size_of::<KeyLength>()
            + self.few.capacity() * size_of::<u32>()
    }

    /// Hash of the `len` outermost bytes; `bytes` has at least `len`.
    fn hash_of(&self, bytes: &[u8], len: usize) -> u64 {
        let mut hash = (len as u64).wrapping_mul(self.multipliers.length);
        for block in 0..len.div_ceil(BLOCK) {
            let (mut low, mut high) = block_at::<AT_END>(bytes, block);
            if (block + 1) * BLOCK > len {
                let mask = mask_of::<AT_END>(len);
                (low, high) = (low & mask.low, high & mask.high);
            }
            hash = hash.wrapping_add(self.multipliers.block(block, low, high));
        }
        hash
    }

    /// Hash of the outermost four bytes of the first block.
    #[inline(always)]
    fn gate_of_four(&self, low: u64, high: u64) -> u64 {
        let outermost = if AT_END { high >> 32 } else { low & u64::from(u32::MAX) };
        outermost.wrapping_mul(self.multipliers.gate)
    }

    /// Hash of the outermost eight bytes of the first block.
    #[inline(always)]
    fn gate_of_eight(&self, low: u64, high: u64) -> u64 {
        (if AT_END { high } else { low }).wrapping_mul(self.multipliers.words[0])
    }

    /// Hash of all bytes of the blocks that `outer` is the hash of.
    #[inline(always)]
    fn gate_of_blocks(&self, outer: u64) -> u64 {
        outer.wrapping_add(self.multipliers.gate)
    }

    /// Reports the patterns that match at this side of `hay`.
    #[inline]
    pub(crate) fn scan(
        &self,
        table: &PatternTable,
        hay: &[u8],
        scan: &mut Scan,
        on_hit: &mut impl FnMut(u32),
    ) {
        if hay.len() < self.shortest {
            return;
        }
        for &index in &self.few {
            check::<AT_END>(table, hay, index, scan, on_hit);
        }
        if self.buckets.entries.is_empty() {
            return;
        }
        let (low, high) = block_at::<AT_END>(hay, 0);
        let first = (0, 0, low, high);
        if !self.tiny.is_empty() {
            self.scan_block(&self.tiny, table, hay, first, scan, on_hit);
        }
        let buckets = &self.buckets;
        if hay.len() >= 4
            && !self.short.is_empty()
            && buckets.may_hold(self.gate_of_four(low, high))
        {
            self.scan_block(&self.short, table, hay, first, scan, on_hit);
        }
        if hay.len() < 8 || !buckets.may_hold(self.gate_of_eight(low, high)) {
            return;
        }
        self.scan_block(&self.long[0], table, hay, first, scan, on_hit);
        let mut outer = self.multipliers.block(0, low, high);
        for (block, lengths) in self.long.iter().enumerate().take(self.blocks).skip(1) {
            if hay.len() <= block * BLOCK || !buckets.may_hold(self.gate_of_blocks(outer)) {
                return;
            }
            let (low, high) = block_at::<AT_END>(hay, block);
            self.scan_block(lengths, table, hay, (block, outer, low, high), scan, on_hit);
            outer = outer.wrapping_add(self.multipliers.block(block, low, high));
        }
    }

    /// Looks up the keys that end in one block: (its number, the hash of the blocks before, its
    /// bytes).
    #[inline]
    #[expect(
        clippy::too_many_arguments,
        reason = "a struct of borrowed parts would be built for each block"
    )]
    fn scan_block(
        &self,
        lengths: &[KeyLength],
        table: &PatternTable,
        hay: &[u8],
        (block, outer, low, high): (usize, u64, u64, u64),
        scan: &mut Scan,
        on_hit: &mut impl FnMut(u32),
    ) {
        let hash_of = |key: &KeyLength| {
            outer
                .wrapping_add(self.multipliers.block(block, low & key.low, high & key.high))
                .wrapping_add(u64::from(key.len).wrapping_mul(self.multipliers.length))
        };
        let mut found = 0u32;
        for (number, length) in lengths.iter().enumerate() {
            let fits = length.len as usize <= hay.len();
            found |= u32::from(self.buckets.may_hold(hash_of(length)) & fits) << number;
        }
        while found != 0 {
            let length = &lengths[found.trailing_zeros() as usize];
            found &= found - 1;
            for index in self.buckets.get(hash_of(length)) {
                check::<AT_END>(table, hay, index, scan, on_hit);
            }
        }
    }
}

/// Reports pattern `index` if it matches at this side of `hay`.
#[inline]
fn check<const AT_END: bool>(
    table: &PatternTable,
    hay: &[u8],
    index: u32,
    scan: &mut Scan,
    on_hit: &mut impl FnMut(u32),
) {
    let record = table.record(index);
    let Some(last) = hay.len().checked_sub(record.len as usize) else { return };
    scan.verified += 1;
    if table.matches_at(index, hay, if AT_END { last } else { 0 }) {
        scan.hits += 1;
        on_hit(record.id);
    }
}

/// Patterns that must equal the whole buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct WholeSet {
    /// Bit n is set if some pattern has length n; the last bit means all longer ones.
    lengths: u64,
    multipliers: Multipliers,
    buckets: Buckets,
    count: usize,
}

impl WholeSet {
    pub(crate) fn new(sources: &Sources<'_>, indices: &[u32], seed: u64) -> Self {
        let mut set = WholeSet { multipliers: Multipliers::new(seed), ..WholeSet::default() };
        let mut hashed = Vec::with_capacity(indices.len());
        for &index in indices {
            let bytes = sources.bytes(index);
            set.lengths |= 1 << bytes.len().min(63);
            hashed.push((set.hash_of(bytes), index));
        }
        set.count = hashed.len();
        set.buckets = Buckets::new(hashed, &[]);
        set
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.buckets.memory_bytes()
    }

    /// Hash of the length and up to 16 bytes at both ends.
    #[inline(always)]
    fn hash_of(&self, bytes: &[u8]) -> u64 {
        let (first, second) = block_at::<false>(bytes, 0);
        let (third, fourth) = block_at::<true>(bytes, 0);
        self.multipliers
            .block(0, first, second)
            .wrapping_add(self.multipliers.block(1, third, fourth))
            .wrapping_add((bytes.len() as u64).wrapping_mul(self.multipliers.length))
    }

    /// Reports the patterns that `hay` is equal to.
    #[inline]
    pub(crate) fn scan(
        &self,
        table: &PatternTable,
        hay: &[u8],
        scan: &mut Scan,
        on_hit: &mut impl FnMut(u32),
    ) {
        if self.lengths >> hay.len().min(63) & 1 == 0 {
            return;
        }
        let hash = self.hash_of(hay);
        if !self.buckets.may_hold(hash) {
            return;
        }
        for index in self.buckets.get(hash) {
            scan.verified += 1;
            if table.record(index).len as usize == hay.len() && table.matches_at(index, hay, 0) {
                scan.hits += 1;
                on_hit(table.record(index).id);
            }
        }
    }
}

/// The structure that an anchored pattern belongs to.
pub(crate) fn side_of(anchor: Anchor) -> Option<Side> {
    match anchor {
        Anchor::None => None,
        Anchor::Start => Some(Side::Start),
        Anchor::End | Anchor::Label => Some(Side::End),
        Anchor::Exact => Some(Side::Both),
    }
}

/// The side of the buffer to which a pattern is anchored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Start,
    End,
    Both,
}

/// Length of the key of a pattern of `len` bytes (1 or more).
fn key_length(len: usize) -> usize {
    KEY_LENGTHS.iter().copied().take_while(|&key| key <= len).last().unwrap_or(1)
}

/// The part of its last block that a key of `len` bytes covers.
fn mask_of<const AT_END: bool>(len: usize) -> KeyLength {
    let bits = 8 * ((len - 1) % BLOCK + 1) as u32;
    let mask = if AT_END { u128::MAX << (128 - bits) } else { u128::MAX >> (128 - bits) };
    KeyLength { len: len as u32, low: mask as u64, high: (mask >> 64) as u64 }
}

/// The `block`-th 16 bytes from the start or the end, folded, as two numbers; zero beyond the end.
#[inline(always)]
fn block_at<const AT_END: bool>(bytes: &[u8], block: usize) -> (u64, u64) {
    let word = if AT_END {
        load_last(&bytes[..bytes.len().saturating_sub(block * BLOCK)])
    } else {
        load_first(bytes.get(block * BLOCK..).unwrap_or_default())
    };
    (fold64(word as u64), fold64((word >> 64) as u64))
}
