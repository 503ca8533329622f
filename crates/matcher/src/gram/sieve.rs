//! The first pass of the gram filter: a bitmap of hashed grams, tested at every second position.
//!
//! This is the one place of the filter with unsafe code: unaligned loads from the buffer, loads
//! from the bitmap and the AVX2 form of both. The pass has no branch that depends on data; it
//! writes one bit for each position and leaves candidates to [`super::tier`]. The form is chosen
//! once, when the matcher is built, and called through a pointer.

use super::fold32;

/// Bytes from one position to the next.
pub(super) const STEP: usize = 2;

/// Words of one result, with one bit per position.
pub(super) const WORDS: usize = 8;

/// The form of the first pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// The fastest form that the processor supports.
    #[default]
    Fastest,
    /// The portable form.
    Portable,
}

type Masks = [u64; WORDS];
type Sift = fn(&Bitmap, &[u8], usize, usize, &mut Masks);

/// The set of chosen hashed grams: each sets two bits of one word. The uppermost bits of the hash
/// are the number of the word, and the next two times five bits select the two bits. So a test
/// is one load, and for a gram that was not chosen rarely both bits are set.
#[derive(Clone, Debug)]
pub(super) struct Bitmap {
    words: Vec<u32>,
    hasher: Hasher,
    /// A hash shifted right by this is the number of a word: always in range, because there are
    /// `2^(32 - shift)` words. It is 15 or more, which leaves bits for the two selections.
    shift: u32,
}

/// Hashes a key: `key * multiplier + addend`, the multiplier odd, so that different keys have
/// different hashes.
#[derive(Clone, Copy, Debug)]
struct Hasher {
    multiplier: u32,
    addend: u32,
}

impl Hasher {
    /// Derives both from a seed; the multiplier has neither few nor many bits set.
    fn new(seed: u64) -> Self {
        let mut state = seed;
        loop {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let multiplier = (state >> 32) as u32 | 1;
            if (10..=22).contains(&multiplier.count_ones()) && multiplier >> 28 != 0 {
                return Hasher { multiplier, addend: (seed >> 16) as u32 ^ 0x9e37_79b9 };
            }
        }
    }

    #[inline(always)]
    fn hash(self, key: u32) -> u32 {
        key.wrapping_mul(self.multiplier).wrapping_add(self.addend)
    }
}

/// The bitmap with the chosen form of the pass; grams have `Q` bytes, 3 or 4.
#[derive(Clone, Debug)]
pub(super) struct Sieve<const Q: usize> {
    bitmap: Bitmap,
    sift: Sift,
}

impl<const Q: usize> Sieve<Q> {
    /// An empty bitmap of `2^log_bits` bits (6 to 22).
    pub(super) fn new(log_bits: u32, seed: u64, form: Form) -> Self {
        let log_words = log_bits.clamp(6, 22) - 5;
        let words = vec![0; 1 << log_words];
        let bitmap = Bitmap { words, hasher: Hasher::new(seed), shift: 32 - log_words };
        Sieve { bitmap, sift: choose::<Q>(form) }
    }

    /// The hash of a gram key; different keys have different hashes.
    #[inline(always)]
    pub(super) fn hash(&self, key: u32) -> u32 {
        self.bitmap.hasher.hash(key)
    }

    /// Whether the key passes.
    pub(super) fn may_hold(&self, key: u32) -> bool {
        test(&self.bitmap, key) == 1
    }

    pub(super) fn set(&mut self, hash: u32) {
        let shift = self.bitmap.shift;
        if let Some(word) = self.bitmap.words.get_mut((hash >> shift) as usize) {
            let bit = |down: u32| 1 << (hash >> (shift - down) & 31);
            *word |= bit(5) | bit(10);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bitmap.words.capacity() * 4
    }

    /// Sets bit `k` of `masks` where the gram at `from + k * STEP` may be a chosen one, for
    /// `count` positions. All of them must have `Q` bytes in `hay`; `masks` must be zero and is
    /// left zero beyond `count`.
    #[inline(always)]
    pub(super) fn sift(&self, hay: &[u8], from: usize, count: usize, masks: &mut Masks) {
        debug_assert!(count == 0 || from + (count - 1) * STEP + Q <= hay.len());
        (self.sift)(&self.bitmap, hay, from, count, masks);
    }
}

/// The folded bytes of the gram at `at`, in the lower bytes of a number; 0 beyond the end.
#[inline(always)]
pub(super) fn key_at<const Q: usize>(hay: &[u8], at: usize) -> u32 {
    let gram = hay.get(at..at + Q).unwrap_or_default();
    let key = match *gram {
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
        [a, b, c] => u32::from_le_bytes([a, b, c, 0]),
        _ => 0,
    };
    fold32(key)
}

fn choose<const Q: usize>(form: Form) -> Sift {
    #[cfg(target_arch = "x86_64")]
    if form == Form::Fastest && std::arch::is_x86_feature_detected!("avx2") {
        return |bitmap, hay, from, count, masks| {
            // SAFETY: the check above shows that the processor has AVX2; nothing else is required.
            unsafe { avx2::sift::<Q>(bitmap, hay, from, count, masks) }
        };
    }
    let _ = form;
    |bitmap, hay, from, count, masks| portable::<Q>(bitmap, hay, from, 0, count, masks)
}

/// Whether the bits of the key are set, as 0 or 1.
#[inline(always)]
fn test(bitmap: &Bitmap, key: u32) -> u64 {
    let hash = bitmap.hasher.hash(key);
    let number = (hash >> bitmap.shift) as usize;
    debug_assert!(number < bitmap.words.len());
    // SAFETY: there are 2^(32 - shift) words and `number` is less than that (see the fields).
    let word = unsafe { *bitmap.words.get_unchecked(number) };
    let lifted = |down: u32| word >> (hash >> (bitmap.shift - down) & 31);
    u64::from(lifted(5) & lifted(10) & 1)
}

/// Positions `first` up to `count`.
#[inline(always)]
fn portable<const Q: usize>(
    bitmap: &Bitmap,
    hay: &[u8],
    from: usize,
    first: usize,
    count: usize,
    masks: &mut Masks,
) {
    for (word, mask) in masks.iter_mut().enumerate().skip(first / 64) {
        let end = count.min(word * 64 + 64);
        let begin = first.max(word * 64);
        if begin >= end {
            return;
        }
        let mut bits = 0;
        for k in begin..end {
            let at = from + k * STEP;
            let key = if at + 4 <= hay.len() {
                // SAFETY: the four bytes from `at` lie within `hay`; the read may be unaligned.
                let four = unsafe { hay.as_ptr().add(at).cast::<u32>().read_unaligned() };
                fold32(u32::from_le(four) & (u32::MAX >> (8 * (4 - Q))))
            } else {
                key_at::<Q>(hay, at)
            };
            bits |= test(bitmap, key) << (k % 64);
        }
        *mask |= bits;
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    //! Eight grams at a time: their four bytes are at even offsets in two vectors that were loaded
    //! two bytes apart. The last step overlaps the one before, so that nothing is read beyond the
    //! end; shorter buffers are left to the portable form.

    use super::{Bitmap, Hasher, Masks, STEP, portable};
    use core::arch::x86_64::*;

    /// Positions of a wide step and of a narrow one.
    const WIDE: usize = 16;
    const NARROW: usize = 8;
    /// Bytes that these steps read.
    const WIDE_REACH: usize = 34;
    const NARROW_REACH: usize = 18;

    #[target_feature(enable = "avx2")]
    pub(super) fn sift<const Q: usize>(
        bitmap: &Bitmap,
        hay: &[u8],
        from: usize,
        count: usize,
        masks: &mut Masks,
    ) {
        let room = hay.len().saturating_sub(from);
        let mut k = 0;
        while k + WIDE <= count && k * STEP + WIDE_REACH <= room {
            masks[k / 64] |= wide::<Q>(bitmap, hay, from + k * STEP) << (k % 64);
            k += WIDE;
        }
        if k + NARROW <= count && k * STEP + NARROW_REACH <= room {
            masks[k / 64] |= narrow::<Q>(bitmap, hay, from + k * STEP) << (k % 64);
            k += NARROW;
        }
        // One more step, which ends at the last readable position.
        if k < count && count >= NARROW && room >= NARROW_REACH {
            let last = ((room - NARROW_REACH) / STEP).min(count - NARROW);
            let mask = narrow::<Q>(bitmap, hay, from + last * STEP);
            let (word, bit) = (last / 64, last % 64);
            masks[word] |= mask << bit;
            if bit + NARROW > 64 {
                masks[word + 1] |= mask >> (64 - bit);
            }
            k = k.max(last + NARROW);
        }
        if k < count {
            portable::<Q>(bitmap, hay, from, k, count, masks);
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn wide<const Q: usize>(bitmap: &Bitmap, hay: &[u8], at: usize) -> u64 {
        debug_assert!(at + WIDE_REACH <= hay.len());
        let first = hay.as_ptr().wrapping_add(at);
        // SAFETY: the caller has left WIDE_REACH bytes from `at`, 2 + 32 of which are read here;
        // the load may be unaligned.
        let even = unsafe { _mm256_loadu_si256(first.cast()) };
        // SAFETY: as above.
        let odd = unsafe { _mm256_loadu_si256(first.wrapping_add(2).cast()) };
        let even = _mm256_srli_epi32::<16>(test::<Q>(bitmap, even));
        let words = _mm256_blend_epi16::<0xaa>(even, test::<Q>(bitmap, odd));
        let bits = _mm256_movemask_epi8(_mm256_packs_epi16(words, _mm256_setzero_si256())) as u32;
        u64::from(bits & 0xff | bits >> 8 & 0xff00)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn narrow<const Q: usize>(bitmap: &Bitmap, hay: &[u8], at: usize) -> u64 {
        debug_assert!(at + NARROW_REACH <= hay.len());
        let first = hay.as_ptr().wrapping_add(at);
        // SAFETY: the caller has left NARROW_REACH bytes from `at`, 2 + 16 of which are read
        // here; the load may be unaligned.
        let even = unsafe { _mm_loadu_si128(first.cast()) };
        // SAFETY: as above.
        let odd = unsafe { _mm_loadu_si128(first.wrapping_add(2).cast()) };
        let found = test::<Q>(bitmap, _mm256_set_m128i(odd, even));
        let even = _mm_srli_epi32::<16>(_mm256_castsi256_si128(found));
        let odd = _mm256_extracti128_si256::<1>(found);
        let words = _mm_blend_epi16::<0xaa>(even, odd);
        u64::from(_mm_movemask_epi8(_mm_packs_epi16(words, _mm_setzero_si128())) as u32 & 0xff)
    }

    /// The sign bit of each lane is set if its gram may be a chosen one; the other bits have no meaning.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn test<const Q: usize>(bitmap: &Bitmap, grams: __m256i) -> __m256i {
        let keys = match Q {
            4 => grams,
            _ => _mm256_and_si256(grams, _mm256_set1_epi32(0x00ff_ffff)),
        };
        let halves = _mm256_and_si256(_mm256_srli_epi32::<1>(keys), _mm256_set1_epi32(0x2020_2020));
        let folded = _mm256_or_si256(keys, halves);
        let Hasher { multiplier, addend } = bitmap.hasher;
        let products = _mm256_mullo_epi32(folded, _mm256_set1_epi32(multiplier as i32));
        let hashes = _mm256_add_epi32(products, _mm256_set1_epi32(addend as i32));
        let down = |bits: u32| _mm256_srl_epi32(hashes, _mm_cvtsi32_si128(bits as i32));
        let words = words_at(bitmap, down(bitmap.shift));
        // Each of the two bits is shifted to the sign bit of its lane.
        let lifted = |bits: u32| {
            let up = _mm256_andnot_si256(down(bitmap.shift - bits), _mm256_set1_epi32(31));
            _mm256_sllv_epi32(words, up)
        };
        _mm256_and_si256(lifted(5), lifted(10))
    }

    /// The words with these numbers, each less than `2^(32 - shift)`. They are loaded one by one: a
    /// gather instruction takes several times as long on processors whose microcode guards it (Intel's
    /// "gather data sampling"), where a scan took half as long again with it, and half as long again on
    /// an AMD EPYC too. The numbers are taken out of the vector in pairs: a detour through memory makes
    /// a scan 6 to 13 % slower (EPYC).
    #[inline]
    #[target_feature(enable = "avx2")]
    fn words_at(bitmap: &Bitmap, numbers: __m256i) -> __m256i {
        let (low, high) = (_mm256_castsi256_si128(numbers), _mm256_extracti128_si256::<1>(numbers));
        let pairs = [
            _mm_cvtsi128_si64(low),
            _mm_extract_epi64::<1>(low),
            _mm_cvtsi128_si64(high),
            _mm_extract_epi64::<1>(high),
        ];
        let word = |number: u32| {
            debug_assert!((number as usize) < bitmap.words.len());
            // SAFETY: there are 2^(32 - shift) words, so that each number is within them.
            unsafe { *bitmap.words.get_unchecked(number as usize) as i32 }
        };
        let first = |pair: usize| word(pairs[pair] as u32);
        let second = |pair: usize| word((pairs[pair] as u64 >> 32) as u32);
        _mm256_setr_epi32(
            first(0),
            second(0),
            first(1),
            second(1),
            first(2),
            second(2),
            first(3),
            second(3),
        )
    }
}
