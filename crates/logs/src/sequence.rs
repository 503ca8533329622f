//! Follows `meta sequenceId` of RFC 5424 per originator: numbers that are missing are messages that were
//! lost before they came here, which nothing on this machine can count otherwise.

use crate::limits::SEQUENCES_MAX;
use std::collections::HashMap;

/// The largest number; the next one is 1.
const LAST: u32 = i32::MAX as u32;

/// Numbers skipped beyond which it is no loss but a new beginning.
const GAP_MAX: u32 = 1 << 20;

/// The last number of each originator.
#[derive(Debug, Default)]
pub struct Sequences {
    last: HashMap<Vec<u8>, (u32, u64)>,
    heard: u64,
}

impl Sequences {
    /// Takes the next number of an originator (source and host); how many are missing before it. A
    /// number that goes back is a restart or a message that was overtaken, and no loss.
    pub fn missing(&mut self, originator: &[u8], number: u32) -> u32 {
        self.heard += 1;
        let heard = self.heard;
        let Some(last) = self.last.get_mut(originator) else {
            if self.last.len() >= SEQUENCES_MAX
                && let Some(oldest) =
                    self.last.iter().min_by_key(|(_, l)| l.1).map(|(k, _)| k.clone())
            {
                self.last.remove(&oldest);
            }
            self.last.insert(originator.to_vec(), (number, heard));
            return 0;
        };
        let expected = if last.0 >= LAST { 1 } else { last.0 + 1 };
        let skipped = number.checked_sub(expected);
        *last = (number, heard);
        skipped.filter(|n| *n <= GAP_MAX).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_told_and_restarts_are_none() {
        let mut sequences = Sequences::default();
        let steps = [(1, 0), (2, 0), (5, 2), (6, 0), (1, 0), (2, 0), (LAST, 0), (1, 0), (3, 1)];
        for (number, missing) in steps {
            assert_eq!(sequences.missing(b"h", number), missing, "{number}");
        }
        assert_eq!(sequences.missing(b"other", 9), 0);
    }
}
