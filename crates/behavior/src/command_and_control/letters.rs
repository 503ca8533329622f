//! Flows as letters, after Stratosphere's alphabet, which Slips uses too.

use crate::limits::{GAP_HOURS_MAX, LETTERS_MAX};
use gabion_record::logs::SECOND;

/// Letters by regularity (unknown, strong … none) and then by size and duration.
const SETS: [&[u8; 9]; 5] = [b"123456789", b"abcdefghi", b"ABCDEFGHI", b"rstuvwxyz", b"RSTUVWXYZ"];
/// Kinds of gaps and the longest of each, seconds.
const GAPS: [(u8, i64); 4] = [(b'.', 5), (b',', 60), (b'+', 300), (b'*', 3600)];

/// One flow of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// As written.
    pub letter: u8,
    /// Regularity: 0 unknown, 1 strong to 4 none.
    pub class: u8,
    /// 0 small to 2 large.
    pub size: u8,
    /// 0 short to 2 long.
    pub duration: u8,
    /// Full hours before it.
    pub hours: u32,
    /// Index of its gap, 4 for none.
    pub gap: u8,
}

/// Appends a flow. `gap` is the time since the one before, `before` the gap before that.
pub(crate) fn push(
    text: &mut Vec<u8>,
    gap: Option<i64>,
    before: Option<i64>,
    bytes: u64,
    duration: i64,
) {
    let class = match (before, gap) {
        (Some(a), Some(b)) => regularity(a, b),
        _ => 0,
    };
    let size = usize::from(bytes > 250) + usize::from(bytes > 1100);
    let long = usize::from(duration > SECOND / 10) + usize::from(duration > 10 * SECOND);
    let gap = gap.unwrap_or(0);
    let zeros = (gap / (3600 * SECOND)).clamp(0, GAP_HOURS_MAX);
    let letter = SETS.get(class).and_then(|set| set.get(size * 3 + long)).copied();
    let kind = GAPS.iter().find(|(_, most)| gap > 0 && gap <= most * SECOND);
    text.extend(std::iter::repeat_n(b'0', zeros as usize));
    text.extend(letter);
    text.extend(kind.map(|k| k.0));
    text.truncate(LETTERS_MAX);
}

/// How alike two gaps are.
fn regularity(a: i64, b: i64) -> usize {
    let (low, high) = (a.min(b), a.max(b));
    let ratio = if low <= 0 { 1.0 } else { high as f64 / low as f64 };
    1 + usize::from(ratio > 1.05) + usize::from(ratio > 1.3) + usize::from(ratio > 5.0)
}

/// Reads a string back.
pub(crate) fn tokens(text: &[u8]) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::new();
    let mut hours = 0;
    for b in text.iter().take(LETTERS_MAX) {
        if *b == b'0' {
            hours += 1;
            continue;
        }
        if let Some(gap) = GAPS.iter().position(|g| g.0 == *b) {
            if let Some(last) = out.last_mut() {
                last.gap = gap as u8;
            }
            continue;
        }
        let place = |set: &&[u8; 9]| set.iter().position(|l| l == b);
        let found = SETS.iter().enumerate().find_map(|(class, set)| Some((class, place(set)?)));
        if let Some((class, at)) = found {
            let (size, duration) = ((at / 3) as u8, (at % 3) as u8);
            out.push(Token { letter: *b, class: class as u8, size, duration, hours, gap: 4 });
            hours = 0;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slips' table of letters and gaps.
    #[test]
    fn flows_become_the_letters_of_slips() {
        let s = SECOND;
        for (gap, before, bytes, duration, letters) in [
            (None, None, 250, s / 10, "1"),
            (Some(3 * s), None, 251, s / 10, "4."),
            (Some(20 * s), Some(20 * s), 1100, s, "e,"),
            (Some(21 * s), Some(20 * s), 1101, s, "h,"),
            (Some(22 * s), Some(20 * s), 9999, 11 * s, "I,"),
            (Some(300 * s), Some(70 * s), 10, s, "s+"),
            (Some(3600 * s), Some(s), 10, 0, "0R*"),
            (Some(2 * 3600 * s + 1), Some(2 * 3600 * s), 10, 0, "00a"),
            (Some(0), Some(5 * s), 10, 0, "a"),
            (Some(i64::MAX), Some(0), 10, 0, "000000000000000000000000a"),
        ] {
            let mut text = Vec::new();
            push(&mut text, gap, before, bytes, duration);
            assert_eq!(String::from_utf8_lossy(&text), letters);
        }
        let read = tokens(b"q1.00H,,b");
        assert_eq!(read.len(), 3);
        assert_eq!((read[1].class, read[1].size, read[1].duration, read[1].hours), (2, 2, 1, 2));
        assert_eq!((read[0].gap, read[1].gap, read[2].gap), (0, 1, 4));
    }

    #[test]
    fn a_string_ends_somewhere() {
        let mut text = Vec::new();
        for _ in 0..1000 {
            push(&mut text, Some(i64::MAX), Some(1), u64::MAX, i64::MAX);
        }
        assert_eq!(text.len(), LETTERS_MAX);
    }
}
