//! Follows `meta sequenceId` of RFC 5424 per originator: numbers that are missing are messages that were
//! lost before they came here, which nothing on this machine can count otherwise.

use crate::limits::{SEQUENCE_GAP_MAX, SEQUENCES_MAX, reached};
use std::collections::{HashMap, VecDeque};

/// The largest number; the next one is 1.
const LAST: u32 = i32::MAX as u32;

/// The last number of each originator.
#[derive(Debug, Default)]
pub struct Sequences {
    last: HashMap<Vec<u8>, (u32, u64)>,
    /// Originators, each with the `heard` it had when it was put here: one that was heard of since goes to
    /// the end again before it makes room. So a flood of new ones walks no table.
    queue: VecDeque<(Vec<u8>, u64)>,
    heard: u64,
    /// Originators that were looked at to make room.
    looks: u64,
}

impl Sequences {
    /// Takes the next number of an originator (source and host); how many are missing before it. A
    /// number that goes back is a restart or a message that was overtaken, and no loss.
    pub fn missing(&mut self, originator: &[u8], number: u32) -> u32 {
        self.heard += 1;
        let heard = self.heard;
        let Some(last) = self.last.get_mut(originator) else {
            while self.last.len() >= SEQUENCES_MAX
                && let Some((oldest, then)) = self.queue.pop_front()
            {
                self.looks += 1;
                match self.last.get(&oldest).filter(|last| last.1 != then) {
                    Some(last) => self.queue.push_back((oldest, last.1)),
                    None => {
                        reached::SEQUENCES_MAX.count();
                        self.last.remove(&oldest);
                    }
                }
            }
            self.last.insert(originator.to_vec(), (number, heard));
            self.queue.push_back((originator.to_vec(), heard));
            return 0;
        };
        let expected = if last.0 >= LAST { 1 } else { last.0 + 1 };
        let skipped = number.checked_sub(expected);
        *last = (number, heard);
        skipped.filter(|n| *n <= SEQUENCE_GAP_MAX).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_heard_of_again_is_kept_in_a_flood_of_new_ones() {
        let mut sequences = Sequences::default();
        for n in 0..4 * SEQUENCES_MAX as u32 {
            sequences.missing(&n.to_be_bytes(), 1);
            // Heard of all the time: what it misses is known.
            assert_eq!(sequences.missing(b"steady", 2 * n + 1), u32::from(n > 0));
            assert!(sequences.last.len() <= SEQUENCES_MAX);
            assert_eq!(sequences.queue.len(), sequences.last.len());
        }
        let forgotten =
            gabion_record::limits::take_reached().times_reached(&reached::SEQUENCES_MAX);
        assert_eq!(forgotten, 3 * SEQUENCES_MAX as u64 + 1);
    }

    /// However those heard of before and new ones follow each other: looks stay below two a message.
    #[test]
    fn a_flood_of_originators_costs_no_more_looks_than_messages() {
        const MESSAGES: u64 = 300_000;
        let patterns: [fn(u64) -> u64; 4] = [
            |n| n,
            |n| n % (SEQUENCES_MAX as u64 + 1),
            |n| if n.is_multiple_of(2) { n } else { n % SEQUENCES_MAX as u64 },
            // All are heard of again, and then one is new.
            |n| if n.is_multiple_of(SEQUENCES_MAX as u64) { n } else { n % SEQUENCES_MAX as u64 },
        ];
        for (at, pattern) in patterns.into_iter().enumerate() {
            let mut sequences = Sequences::default();
            (0..MESSAGES).for_each(|n| {
                sequences.missing(&pattern(n).to_be_bytes(), 1);
            });
            assert!(sequences.looks <= 2 * MESSAGES, "{at}: {}", sequences.looks);
            assert!(sequences.last.len() <= SEQUENCES_MAX);
        }
    }

    #[test]
    fn gaps_are_reported_and_restarts_are_none() {
        let mut sequences = Sequences::default();
        let steps = [(1, 0), (2, 0), (5, 2), (6, 0), (1, 0), (2, 0), (LAST, 0), (1, 0), (3, 1)];
        for (number, missing) in steps {
            assert_eq!(sequences.missing(b"h", number), missing, "{number}");
        }
        assert_eq!(sequences.missing(b"other", 9), 0);
    }
}
