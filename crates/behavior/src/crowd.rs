//! The same evidence of constantly changing sources: the first few of each shard are reported, a thousand in all, then
//! the 10th, 100th, 1,000th … of a shard, and each that measures more than all before it.
//!
//! Only evidence at a source's very first record passes here. A source that does anything more is reported as
//! always, so that a flood of spoofed sources hides nobody.

use crate::limits::{CROWD_MAX, reached};
use crate::room::Weight;
use crate::sketch::{Keyed, hash_text, mix};
use gabion_record::evidence::Evidence;
use gabion_record::saved;

/// Said one by one, a type and port in a window of one of 256 shards.
const SAID: u64 = 4;

/// Counts of one window.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    window: i64,
    /// How many there were, and what the largest measured.
    counts: Keyed<u64, (u64, u64), CROWD_MAX>,
    /// Evidence not said.
    pub unreported: u64,
}

saved! { Crowd { window, counts, unreported } }

impl Crowd {
    /// Evidence at the first record of a source: returns how often it was seen, if it is to be reported.
    pub(crate) fn said(&mut self, e: &Evidence) -> Option<u64> {
        if e.window > self.window {
            self.window = e.window;
            self.counts = Keyed::default();
        }
        let port = e.dst_port.map_or(0, |p| u64::from(p) + 1);
        let by_kind = hash_text(e.kind.name.as_bytes());
        let key = mix(by_kind ^ port);
        let (count, most) = match self.counts.get_or_add(key, &reached::CROWD_MAX) {
            Some(count) => count,
            // More ports than there is room for: they are counted together.
            None => match self.counts.get(by_kind) {
                Some(_) => match self.counts.get(by_kind) {
                    Some(count) => count,
                    None => return Some(e.times),
                },
                None => self.counts.replace(by_kind, (SAID, 0), |_, n| *n),
            },
        };
        *count += 1;
        let measured = Weight::from_evidence(e).measured();
        let is_largest = measured > *most;
        *most = measured.max(*most);
        // The largest upload of a flood is reported, whatever source sends it.
        if *count <= SAID || is_largest {
            return Some(e.times);
        }
        let is_step = count.checked_ilog10().is_some_and(|log| 10u64.pow(log) == *count);
        self.unreported += u64::from(!is_step);
        is_step.then_some(*count)
    }
}
