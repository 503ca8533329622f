//! Small exact sets that become sketches, and tables with a bound: all that profiles count with.
//!
//! Every update is O(1); all of it merges and encodes.

pub(crate) mod distinct;
pub(crate) mod hyperloglog;
pub(crate) mod keyed;
pub(crate) mod sieve;

pub(crate) use distinct::{Hosts, Ports};
pub(crate) use keyed::Keyed;
pub(crate) use sieve::Sieve;

use gabion_record::{Ip, fnv};

/// A well-mixed hash of a number (the finalizer of SplitMix64, Steele et al. 2014). It is the same in
/// every process, since sketches are kept and merged.
#[inline]
pub(crate) const fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Hash of an address.
#[inline]
pub(crate) const fn hash_ip(ip: Ip) -> u64 {
    let (high, low) = ip.halves();
    if high == 0 { mix(low) } else { mix(mix(high) ^ low) }
}

/// Hash of bytes, eight at a time.
#[inline]
pub(crate) fn hash_words(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let whole = words.iter().fold(bytes.len() as u64, |h, w| mix(h ^ u64::from_le_bytes(*w)));
    fnv::add_all(whole, rest)
}

/// Hash of a text (FNV-1a over it, mixed).
#[inline]
pub(crate) fn hash_text(text: &[u8]) -> u64 {
    mix(fnv::add_all(fnv::BASIS, text))
}
