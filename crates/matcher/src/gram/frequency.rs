//! Approximate frequencies of trigrams in traffic: rare trigrams are good places to search for a
//! pattern.
//!
//! The table holds one level (0 to 15) for each of 32,768 slots, two levels per byte; a slot has
//! the highest level among the trigrams with its hash. Level 0 is fewer than 16 occurrences in the
//! 13 million positions that were counted, each further level twice as many.
//! `examples/trigram_frequency.rs` wrote it. Wrong levels cost time, never a match.

/// Slots of the table.
pub const LEVELS: usize = 1 << 15;

static TABLE: &[u8; LEVELS / 2] = include_bytes!("frequency.bin");

/// The three bytes in one number, folded as in the filter.
pub fn folded(bytes: &[u8]) -> u32 {
    let at = |index: usize| u32::from(bytes.get(index).copied().unwrap_or(0));
    super::fold32(at(0) | at(1) << 8 | at(2) << 16)
}

/// The slot of a folded trigram.
pub fn slot_of(trigram: u32) -> usize {
    (trigram.wrapping_mul(0x9e37_79b1) >> 17) as usize
}

/// The level of a number of occurrences.
pub fn level_of(count: u32) -> u8 {
    match count / 16 {
        0 => 0,
        sixteens => (sixteens.ilog2() as u8 + 1).min(15),
    }
}

/// How common a byte is in traffic, from 0 (hardly ever) to 255.
///
/// The order is that of the bench capture's payloads, and bytes that encrypted traffic makes
/// equally frequent have the rank of their class: zero, text, then all others.
pub(crate) const fn byte_rank(byte: u8) -> u8 {
    match byte {
        0 | b' ' | b'e' => 255,
        b'a' | b't' | b'o' | b'i' | b'n' | b's' | b'r' | b'0' | b'1' => 240,
        b'.' | b'/' | b'-' | b'c' | b'd' | b'l' | b'm' | b'p' | b'u' | b'h' => 220,
        b'\r' | b'\n' | b':' | b'=' | b'"' | b'2'..=b'9' | 255 => 200,
        b'b' | b'f' | b'g' | b'v' | b'w' | b'y' | b'A'..=b'Z' => 170,
        b'k' | b'x' | b',' | b';' | b'<' | b'>' | b'(' | b')' | b'_' | b'?' | b'&' | b'%' => 140,
        b'j' | b'q' | b'z' | b'!'..=b'~' => 110,
        1..=31 => 90,
        127..=254 => 60,
    }
}

/// The level of a folded trigram.
pub(super) fn level(trigram: u32) -> u32 {
    let slot = slot_of(trigram);
    u32::from(TABLE[slot / 2] >> (slot % 2 * 4) & 15)
}
