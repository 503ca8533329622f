//! How often things were seen in a window, so that a repeat is reported at the 1st, 10th, 100th … time only.

use crate::limits::{REPEATED_TYPES_MAX, REPEATS_MAX, reached};
use crate::sketch::{Keyed, mix};
use crate::state::{State, state};
use gabion_record::evidence::EvidenceType;

/// Stands for the type of evidence that only reports how often something was seen by now.
pub(crate) static REPEATED: EvidenceType = EvidenceType::new("REPEATED", "T1");

state! {
    /// How often each thing was seen in a window, to say it at the 1st, 10th, 100th … time.
    pub struct Repeats {
        things: Keyed<u64, u64, REPEATS_MAX>,
        /// What came when the table of things was full, by type.
        others: Keyed<u64, u64, REPEATED_TYPES_MAX>,
    }
}

impl Repeats {
    /// Counts one; returns the times so far if it is to be reported now, and the hash under which it is counted.
    #[inline]
    pub(crate) fn count(&mut self, kind: &'static EvidenceType, what: u64) -> Option<(u64, u64)> {
        let by_kind = mix(kind.hash);
        let mut key = mix(by_kind ^ what);
        let times = match self.things.get_or_add(key, &reached::REPEATS_MAX) {
            Some(times) => times,
            None => {
                key = by_kind;
                self.others.get_or_add(by_kind, &reached::REPEATED_TYPES_MAX)?
            }
        };
        *times += 1;
        is_power_of_ten(*times).then_some((*times, key))
    }

    /// The same of a type that counts its things by itself, so that no other type's take their room; `None` where
    /// there is no space for this one, which is then reported each time.
    pub(crate) fn count_own(
        &mut self,
        kind: &'static EvidenceType,
        what: u64,
    ) -> Option<(u64, u64)> {
        let key = mix(mix(kind.hash) ^ what);
        let times = self.things.get_or_add(key, &reached::REPEATS_MAX)?;
        *times += 1;
        Some((*times, key))
    }

    /// Looks at where the things stand, so that they are in the cache when one comes: see [`State::prefetch`].
    #[inline]
    pub(crate) fn prefetch(&self) -> usize {
        State::prefetch(&self.things)
    }

    /// Things that were seen more often than was reported, and how often.
    pub(crate) fn grown(&self) -> impl Iterator<Item = (u64, u64)> {
        self.things.iter().copied().filter(|(_, times)| !is_power_of_ten(*times))
    }
}

pub(crate) fn is_power_of_ten(n: u64) -> bool {
    matches!(n.checked_ilog10(), Some(log) if 10u64.pow(log) == n)
}
