//! The order in which profiles are folded when a shard's budget is used up.
//!
//! Profiles are in tiers by what they have shown: activity over several minutes, evidence, an address of
//! the site. Sources of a flood come and go within a minute, however loud they are, so they stay in the
//! lowest tiers and are folded first. Each tier has a share of the budget that no other tier can take: a host
//! that has only just come is not pushed out by those that have been here for long.
//!
//! A profile is looked at only when its turn comes, and moves up then if it has shown more since: each
//! profile moves at most once for each tier, so folding stays constant work for each record.

use crate::limits::{ACTIVE_MINUTES, NAMED_FOLDED_MAX, TIER_SHARES};
use gabion_record::{Ip, saved};
use std::collections::VecDeque;

/// How many tiers there are.
pub(crate) const TIERS: usize = 8;

/// What a profile has shown, as far as it decides when the profile is folded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The address is one of the site's own.
    pub is_own: bool,
    /// Minutes in which it was active.
    pub active_minutes: u32,
    /// Evidence it has given.
    pub findings: u64,
}

impl Shown {
    /// The tier: own addresses above strangers, among them who was active in several minutes, then who
    /// has given evidence.
    #[inline]
    pub(crate) fn tier(self) -> usize {
        usize::from(self.is_own) * 4
            + usize::from(self.is_lasting()) * 2
            + usize::from(self.findings > 0)
    }

    /// A source active in this many minutes is none of a flood that passes by.
    #[inline]
    pub(crate) fn is_lasting(self) -> bool {
        self.active_minutes >= ACTIVE_MINUTES
    }

    /// Worth naming when it has to be folded all the same: an own address, or one that lasted.
    #[inline]
    pub(crate) fn is_notable(self) -> bool {
        self.is_own || self.is_lasting()
    }
}

/// A profile that had to be folded although it was one of the site or had lasted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Folded {
    /// Records and evidence it had shown.
    pub shown: u64,
    /// Whose it was.
    pub ip: Ip,
}

/// Notable profiles that had to be folded: how many, and the few that had shown most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotableFolded {
    /// How many profiles. An address that comes back and is folded again counts again.
    pub count: u64,
    /// Those that had shown most first; unused places show nothing.
    most: [Folded; NAMED_FOLDED_MAX],
}

impl NotableFolded {
    /// Counts a profile that is folded.
    pub fn add(&mut self, folded: Folded) {
        self.count += 1;
        self.keep(folded);
    }

    /// Takes in what another shard folded.
    pub fn merge(&mut self, other: &NotableFolded) {
        self.count += other.count;
        other.each().for_each(|f| self.keep(f));
    }

    /// Those that had shown most, that one first.
    pub fn each(&self) -> impl Iterator<Item = Folded> {
        self.most.into_iter().filter(|f| f.shown > 0)
    }

    /// Each address stands once, with the most it had shown.
    fn keep(&mut self, folded: Folded) {
        let place = match self.most.iter_mut().find(|f| f.shown > 0 && f.ip == folded.ip) {
            Some(same) => Some(same),
            None => self.most.last_mut(),
        };
        if let Some(place) = place
            && (place.shown, std::cmp::Reverse(place.ip))
                < (folded.shown, std::cmp::Reverse(folded.ip))
        {
            *place = folded;
            self.most.sort_unstable_by_key(|f| (std::cmp::Reverse(f.shown), f.ip));
        }
    }
}

/// Profiles of one shard by tier, in each the one that has waited longest first.
#[derive(Debug)]
pub(crate) struct FoldOrder {
    /// One for each tier.
    queues: Vec<VecDeque<Ip>>,
    /// Bytes of each tier's profiles, as weighed.
    weights: [usize; TIERS],
}

impl Default for FoldOrder {
    fn default() -> FoldOrder {
        FoldOrder { queues: vec![VecDeque::new(); TIERS], weights: [0; TIERS] }
    }
}

saved! { Folded { shown, ip } }
saved! { NotableFolded { count, most } }
saved! { FoldOrder { queues, weights } }

impl FoldOrder {
    /// Puts a profile of `bytes` bytes after all others of its tier.
    pub(crate) fn push(&mut self, tier: usize, ip: Ip, bytes: usize) {
        if let (Some(queue), Some(weight)) = (self.queues.get_mut(tier), self.weights.get_mut(tier))
        {
            queue.push_back(ip);
            *weight += bytes;
        }
    }

    /// A profile of that tier is weighed again.
    #[inline]
    pub(crate) fn reweigh(&mut self, tier: usize, before: usize, now: usize) {
        if let Some(weight) = self.weights.get_mut(tier) {
            *weight = (*weight + now).saturating_sub(before);
        }
    }

    /// The lowest tier that has more than its share of the budget, else the lowest that has any profile.
    pub(crate) fn next_tier(&self, budget: usize) -> Option<usize> {
        let share = budget / TIER_SHARES;
        let with_profiles =
            || (0..TIERS).filter(|t| self.queues.get(*t).is_some_and(|q| !q.is_empty()));
        with_profiles()
            .find(|t| self.weights.get(*t).is_some_and(|w| *w > share))
            .or_else(|| with_profiles().next())
    }

    /// Takes the profile of a tier that has waited longest.
    pub(crate) fn pop(&mut self, tier: usize) -> Option<Ip> {
        self.queues.get_mut(tier)?.pop_front()
    }

    /// Puts back one that was taken and is still of that tier.
    pub(crate) fn put_back(&mut self, tier: usize, ip: Ip) {
        if let Some(queue) = self.queues.get_mut(tier) {
            queue.push_back(ip);
        }
    }

    /// Keeps only those that are still there.
    pub(crate) fn retain(&mut self, mut is_here: impl FnMut(&Ip) -> bool) {
        for queue in &mut self.queues {
            queue.retain(|ip| is_here(ip));
        }
    }

    /// All addresses, tier by tier, in the order they would be folded.
    pub(crate) fn each(&self) -> impl Iterator<Item = (usize, Ip)> {
        self.queues
            .iter()
            .enumerate()
            .flat_map(|(tier, queue)| queue.iter().map(move |ip| (tier, *ip)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(is_own: bool, active_minutes: u32, findings: u64) -> Shown {
        Shown { is_own, active_minutes, findings }
    }

    #[test]
    fn loud_strangers_go_before_lasting_ones_and_before_the_site() {
        let order = [
            shown(false, 1, 0),
            shown(false, 1, 1_000),
            shown(false, ACTIVE_MINUTES, 0),
            shown(false, ACTIVE_MINUTES, 1),
            shown(true, 1, 0),
            shown(true, 1, 1),
            shown(true, ACTIVE_MINUTES, 0),
            shown(true, ACTIVE_MINUTES, 1),
        ];
        assert!(order.iter().map(|s| s.tier()).eq(0..TIERS));
    }

    #[test]
    fn those_that_had_shown_most_are_named_in_any_order() {
        let all: Vec<Folded> =
            (0..40).map(|n| Folded { shown: n * 7 % 41 + 1, ip: Ip::v4(n as u32) }).collect();
        let (mut one, mut other, mut sum) =
            <(NotableFolded, NotableFolded, NotableFolded)>::default();
        for (n, folded) in all.iter().enumerate() {
            if n % 3 == 0 { one.add(*folded) } else { other.add(*folded) }
        }
        sum.merge(&other);
        sum.merge(&one);
        one.merge(&other);
        assert_eq!(one, sum);
        let mut most = all.clone();
        most.sort_unstable_by_key(|f| (std::cmp::Reverse(f.shown), f.ip));
        assert!(one.each().eq(most.into_iter().take(NAMED_FOLDED_MAX)));
        one.add(Folded { shown: 1_000, ip: Ip::v4(3) });
        one.add(Folded { shown: 900, ip: Ip::v4(3) });
        assert_eq!(one.each().filter(|f| f.ip == Ip::v4(3)).count(), 1);
        assert_eq!((one.count, one.each().count()), (42, NAMED_FOLDED_MAX));
    }

    #[test]
    fn a_tier_keeps_its_share() {
        let mut order = FoldOrder::default();
        let budget = 1600;
        order.push(0, Ip::v4(1), 90);
        order.push(7, Ip::v4(2), 1600);
        // The lowest tier is within its share, so the highest gives.
        assert_eq!(order.next_tier(budget), Some(7));
        order.push(0, Ip::v4(3), 90);
        assert_eq!(order.next_tier(budget), Some(0));
        assert_eq!(order.pop(0), Some(Ip::v4(1)));
        order.reweigh(0, 90, 0);
        assert_eq!(order.next_tier(budget), Some(7));
    }
}
