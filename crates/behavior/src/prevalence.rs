//! How many of the site's own hosts talk with an address outside, and since when one has.
//!
//! RITA's prevalence and first-seen. No profile can know either, so the site stage counts them before
//! profiles are parted: of flows where both sides talked, so that neither a scan nor spoofed sources
//! fill the table. An address has its hosts exactly up to eight, then a small HyperLogLog of 64
//! registers (a standard error of 13 %: what is asked is whether it is two hosts of a hundred or half of
//! them). When the table is full, an address that one host talked to and that has been silent for an hour goes,
//! as far as two looks find one: those taken in first are looked at first, and one that stays goes to the end. When
//! there is none, the new one is not taken in, and nothing is reported about it.

use crate::limits::{OUTSIDE_LOOKS, OUTSIDE_MAX, SET_MAX, reached};
use crate::sketch::{Hosts, hash_ip};
use crate::steps;
use foldhash::fast::FixedState;
use gabion_record::Ip;
use gabion_record::logs::{SECOND, TimeNs};
use gabion_record::saved;
use gabion_record::saved::Saved;
use hashbrown::HashMap;
use std::collections::VecDeque;

/// Hosts kept exactly.
const EXACT: usize = 8;
/// Registers of the sketch.
const REGISTERS: usize = 64;
/// Silence after which an address that one host talked to may go.
const SILENT_NS: i64 = 3600 * SECOND;

/// What is known of an address outside at a flow with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prevalence {
    /// The site's hosts that talked with it so far, this one too; 0 when that is not known.
    pub hosts: u32,
    /// All of the site's hosts that talked with anybody outside.
    pub of: u32,
    /// When the first of them did.
    pub first: TimeNs,
}

impl Prevalence {
    /// The share of the site's hosts that talk with it, when it is known.
    pub fn share(&self) -> Option<f64> {
        let is_known = self.hosts > 0 && self.of > 0;
        is_known.then(|| (f64::from(self.hosts) / f64::from(self.of)).min(1.0))
    }
}

/// Who talked with one address.
#[derive(Debug)]
enum Talkers {
    Few([u32; EXACT], u8),
    /// Registers, and what they come to.
    Many(Box<[u8; REGISTERS]>, u32),
}

#[derive(Debug)]
struct Outside {
    first: TimeNs,
    last: TimeNs,
    talkers: Talkers,
}

impl Saved for Talkers {
    fn save(&self, out: &mut Vec<u8>) {
        match self {
            Talkers::Few(list, len) => {
                false.save(out);
                list.save(out);
                len.save(out);
            }
            Talkers::Many(registers, count) => {
                true.save(out);
                registers.save(out);
                count.save(out);
            }
        }
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Some(if bool::load(from)? {
            Talkers::Many(Saved::load(from)?, Saved::load(from)?)
        } else {
            Talkers::Few(Saved::load(from)?, Saved::load(from)?)
        })
    }
}

saved! {
    Outside { first, last, talkers }
    Outsides { all, order, inside, of, unknown }
}

impl Talkers {
    fn insert(&mut self, hash: u64) {
        match self {
            Talkers::Few(list, len) => {
                let tag = hash as u32;
                let used = list.get(..usize::from(*len)).unwrap_or_default();
                if used.contains(&tag) {
                    return;
                }
                if let Some(place) = list.get_mut(usize::from(*len)) {
                    *place = tag;
                    *len += 1;
                    return;
                }
                let mut registers = Box::new([0; REGISTERS]);
                for tag in list.iter().chain([&tag]) {
                    raise(&mut registers, *tag);
                }
                let count = estimate(&registers);
                *self = Talkers::Many(registers, count);
            }
            Talkers::Many(registers, count) => {
                if raise(registers, hash as u32) {
                    *count = estimate(registers);
                }
            }
        }
    }

    fn count(&self) -> u32 {
        match self {
            Talkers::Few(_, len) => u32::from(*len),
            Talkers::Many(_, count) => (*count).max(EXACT as u32 + 1),
        }
    }
}

/// True when it changed something.
fn raise(registers: &mut [u8; REGISTERS], tag: u32) -> bool {
    let bits = REGISTERS.ilog2();
    let rank = ((tag << bits).leading_zeros() as u8 + 1).min(32 - bits as u8);
    let Some(register) = registers.get_mut((tag >> (32 - bits)) as usize) else { return false };
    let is_more = rank > *register;
    *register = rank.max(*register);
    is_more
}

/// Flajolet et al. 2007, with linear counting for few.
fn estimate(registers: &[u8; REGISTERS]) -> u32 {
    let m = REGISTERS as f64;
    let sum: f64 = registers.iter().map(|r| 1.0 / f64::from(1u32 << (*r).min(31))).sum();
    let raw = 0.709 * m * m / sum;
    let zeros = registers.iter().filter(|r| **r == 0).count();
    let about = if raw <= 2.5 * m && zeros > 0 { m * (m / zeros as f64).ln() } else { raw };
    about.round() as u32
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Outsides {
    all: HashMap<Ip, Outside, FixedState>,
    /// All of them: the next one to be looked at for eviction is first.
    order: VecDeque<Ip>,
    inside: Hosts,
    /// How many those are.
    of: u32,
    /// Flows with addresses that did not fit.
    pub unknown: u64,
}

impl Outsides {
    /// Takes a flow between one of the site's hosts and an address outside in; what is known then.
    pub(crate) fn see(&mut self, host: Ip, outside: Ip, ts: TimeNs) -> Prevalence {
        let hash = hash_ip(host);
        if self.inside.insert_hash(hash) {
            self.of = u32::try_from(self.inside.len()).unwrap_or(u32::MAX);
        }
        if !self.has_room(outside, ts) {
            self.unknown += 1;
            reached::OUTSIDE_MAX.count();
            return Prevalence::default();
        }
        let order = &mut self.order;
        let entry = self.all.entry(outside).or_insert_with(|| {
            order.push_back(outside);
            Outside { first: ts, last: ts, talkers: Talkers::Few([0; EXACT], 0) }
        });
        entry.first = entry.first.min(ts);
        entry.last = entry.last.max(ts);
        entry.talkers.insert(hash);
        Prevalence { hosts: entry.talkers.count(), of: self.of, first: entry.first }
    }

    /// Prefetches what is known of an address, before its flow's turn.
    #[inline]
    pub(crate) fn prefetch(&self, outside: Ip) -> usize {
        self.all.get(&outside).map_or(0, |o| usize::from(o.first == o.last))
    }

    /// Whether an address is there or may come in.
    fn has_room(&mut self, outside: Ip, ts: TimeNs) -> bool {
        if self.all.len() < OUTSIDE_MAX || self.all.contains_key(&outside) {
            return true;
        }
        for _ in 0..OUTSIDE_LOOKS {
            let Some(ip) = self.order.pop_front() else { break };
            steps::add(1);
            let may_go = |o: &Outside| o.talkers.count() <= 1 && ts.since(o.last) >= SILENT_NS;
            if self.all.get(&ip).is_none_or(may_go) {
                self.all.remove(&ip);
                return true;
            }
            self.order.push_back(ip);
        }
        false
    }
}

const _: () = assert!(EXACT < SET_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_exact_then_about_and_the_first_moment_stays() {
        let mut all = Outsides::default();
        let out = Ip::v4(0x0909_0909);
        for n in 0..1000u32 {
            let at = TimeNs(i64::from(n) * SECOND);
            let seen = all.see(Ip::v4(0x0a00_0000 + n), out, at);
            assert_eq!(seen.first, TimeNs(0));
            if n < EXACT as u32 {
                assert_eq!((seen.hosts, seen.of), (n + 1, n + 1));
            }
            if n % 100 == 99 {
                let share = seen.share().unwrap();
                assert!((0.6..=1.0).contains(&share), "{n} {share}");
            }
        }
        let rare = all.see(Ip::v4(0x0a00_0001), Ip::v4(0x0808_0808), TimeNs(SECOND));
        assert_eq!(rare.hosts, 1);
        assert!(rare.share().unwrap() < 0.002);
        // The same again is the same.
        assert_eq!(all.see(Ip::v4(0x0a00_0001), Ip::v4(0x0808_0808), TimeNs(SECOND)), rare);
    }

    /// A flood of addresses outside: the table is bounded, shared addresses stay, those that did not fit are
    /// counted and nothing is reported about them.
    #[test]
    fn a_flood_of_addresses_is_bounded() {
        let mut all = Outsides::default();
        let shared = Ip::v4(0x0909_0909);
        all.see(Ip::v4(0x0a00_0001), shared, TimeNs(0));
        all.see(Ip::v4(0x0a00_0002), shared, TimeNs(0));
        for n in 0..4 * OUTSIDE_MAX as u32 {
            let at = TimeNs(i64::from(n) * SECOND / 16);
            all.see(Ip::v4(0x0a00_0001), Ip::v4(0x2000_0000 + n), at);
        }
        assert!(all.all.len() <= OUTSIDE_MAX && all.unknown > 0);
        assert_eq!(all.see(Ip::v4(0x0a00_0001), shared, TimeNs(SECOND)).hosts, 2);
        assert_eq!(Prevalence::default().share(), None);
    }
}
