//! The store compared with a plain map of bytes: random segments, overlaps, policies, trims.
//!
//! The map keeps every byte and every segment separately and applies the overlap rule to each byte;
//! the store must hold the same bytes at the same offsets and release its whole budget.

use super::overlap::new_wins;
use super::pool::BufferPool;
use super::store::{Store, StoreRules, Stored};
use crate::policy::OsPolicy;
use gabion_record::budget::Budget;
use std::collections::BTreeMap;

#[derive(Default)]
struct Model {
    bytes: BTreeMap<u64, u8>,
    segments: Vec<(u64, u64)>,
    base: u64,
}

impl Model {
    fn insert(&mut self, start: u64, data: &[u8], policy: OsPolicy) -> Option<(bool, bool)> {
        let end = start + data.len() as u64;
        if end <= self.base {
            return None;
        }
        let start = start.max(self.base);
        let data = &data[data.len() - (end - start) as usize..];
        let over = |s: &(u64, u64), at: u64| s.0 <= at && at < s.1;
        let (mut overlap, mut differs) = (false, false);
        let mut won = Vec::new();
        for (n, byte) in data.iter().enumerate() {
            let at = start + n as u64;
            let mut wins = true;
            for s in self.segments.iter().filter(|s| over(s, at)) {
                overlap = true;
                differs |= self.bytes.get(&at) != Some(byte);
                wins &= self.bytes.get(&at) == Some(byte) || new_wins(policy, *s, (start, end));
            }
            if wins {
                won.push((at, *byte));
            }
        }
        self.bytes.extend(won);
        let duplicate = self.segments.contains(&(start, end));
        if !duplicate {
            self.segments.push((start, end));
        }
        Some((overlap, differs && (!duplicate || policy == OsPolicy::First)))
    }

    fn trim(&mut self, to: u64) {
        self.base = self.base.max(to);
        self.bytes = self.bytes.split_off(&self.base);
        self.segments.retain(|s| s.1 > to);
    }

    /// The runs of bytes, as (start, bytes).
    fn runs(&self) -> Vec<(u64, Vec<u8>)> {
        let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
        for (at, byte) in &self.bytes {
            match runs.last_mut() {
                Some((start, run)) if *start + run.len() as u64 == *at => run.push(*byte),
                _ => runs.push((*at, vec![*byte])),
            }
        }
        runs
    }
}

fn runs_of(store: &Store) -> Vec<(u64, Vec<u8>)> {
    let mut runs = Vec::new();
    let mut at = store.base();
    while let Some(next) = store.next_data(at) {
        let bytes = store.bytes_from(next).to_vec();
        at = next + bytes.len() as u64;
        runs.push((next, bytes));
    }
    runs
}

fn rules(overlaps: OsPolicy) -> StoreRules {
    StoreRules { overlaps, regions_max: 8 }
}

const POLICIES: [OsPolicy; 8] = [
    OsPolicy::First,
    OsPolicy::Last,
    OsPolicy::Bsd,
    OsPolicy::Linux,
    OsPolicy::OldLinux,
    OsPolicy::Solaris,
    OsPolicy::Windows,
    OsPolicy::Vista,
];

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % n
    }
}

#[test]
fn the_store_holds_what_a_map_of_bytes_holds() {
    let budget = Budget::standalone("data", 1 << 20);
    let mut pool = BufferPool::default();
    for round in 0..240_u64 {
        let policy = POLICIES[(round % 8) as usize];
        let mut random = Random(round);
        let (mut store, mut model) = (Store::default(), Model::default());
        for _ in 0..60 {
            let start = model.base.saturating_sub(5) + random.below(80);
            let len = 1 + random.below(20);
            let data: Vec<u8> = (0..len).map(|_| b'a' + random.below(3) as u8).collect();
            let stored = store.insert(start, &data, rules(policy), &budget, &mut pool);
            match model.insert(start, &data, policy) {
                None => assert_eq!(stored, Stored::Before),
                Some((overlap, differs)) => {
                    let Stored::Kept { overlap: o, differs: d, .. } = stored else {
                        panic!("{stored:?}")
                    };
                    assert_eq!((o, d), (overlap, differs), "round {round}");
                }
            }
            if random.below(6) == 0 {
                // Anywhere up to the end of data, or into a hole, as after a gap.
                let to = model.base + random.below(30);
                let to = to.min(store.end());
                store.trim(to, &budget, &mut pool);
                model.trim(to);
            }
            assert_eq!(runs_of(&store), model.runs(), "round {round}, {policy:?}");
        }
        store.reset(&budget, &mut pool);
        assert_eq!(budget.used(), 0, "round {round}");
    }
}

#[test]
fn segments_in_any_split_and_order_give_the_same_stream() {
    let budget = Budget::standalone("data", 1 << 20);
    let mut pool = BufferPool::default();
    let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
    let mut random = Random(5);
    for _ in 0..300 {
        let mut cuts: Vec<usize> =
            (0..random.below(12)).map(|_| random.below(1000) as usize).collect();
        cuts.extend([0, 1000]);
        cuts.sort_unstable();
        cuts.dedup();
        let mut parts: Vec<(usize, usize)> = cuts.windows(2).map(|w| (w[0], w[1])).collect();
        for at in (1..parts.len()).rev() {
            parts.swap(at, random.below(at as u64 + 1) as usize);
        }
        let mut store = Store::default();
        for (a, b) in parts {
            let stored =
                store.insert(a as u64, &bytes[a..b], rules(OsPolicy::Bsd), &budget, &mut pool);
            assert_eq!(stored, Stored::Kept { overlap: false, differs: false, lost: false });
        }
        assert_eq!(store.bytes_from(0), bytes);
        store.reset(&budget, &mut pool);
    }
    assert_eq!(budget.used(), 0);
}

#[test]
fn tiny_segments_cost_no_more_than_the_bounds_allow() {
    use crate::limits::{ISLANDS_MAX, SEGMENTS_MAX};
    let budget = Budget::standalone("data", 64 << 20);
    let mut pool = BufferPool::default();
    let mut store = Store::default();
    // Every other byte: each an island of its own, up to the bound.
    let mut refused = 0;
    for n in 0..ISLANDS_MAX as u64 + 100 {
        let stored = store.insert(2 + 2 * n, b"x", rules(OsPolicy::Bsd), &budget, &mut pool);
        refused += u64::from(matches!(stored, Stored::TooMany { .. }));
    }
    assert_eq!(refused, 100);
    assert_eq!(
        gabion_record::limits::take_reached().times_reached(&crate::limits::reached::ISLANDS_MAX),
        100
    );
    // One byte at a time in order: neighbours are merged, nothing is refused.
    let mut store = Store::default();
    for n in 0..3 * SEGMENTS_MAX as u64 {
        let stored = store.insert(n, b"y", rules(OsPolicy::Bsd), &budget, &mut pool);
        assert!(matches!(stored, Stored::Kept { .. }));
        assert!(store.segment_count() <= SEGMENTS_MAX);
    }
    assert_eq!(store.end(), 3 * SEGMENTS_MAX as u64);
}

#[test]
fn regions_far_apart_are_bounded() {
    let budget = Budget::standalone("data", 64 << 20);
    let mut pool = BufferPool::default();
    let mut store = Store::default();
    let far = 2 * crate::limits::REGION_GAP;
    let kinds: Vec<bool> = (0..10)
        .map(|n| {
            let stored = store.insert(n * far, b"z", rules(OsPolicy::Bsd), &budget, &mut pool);
            matches!(stored, Stored::Kept { .. })
        })
        .collect();
    assert_eq!(kinds.iter().filter(|k| **k).count(), 8);
    assert_eq!(store.regions_seen(), 8);
}

#[test]
fn a_full_budget_refuses_new_data_and_keeps_the_stored() {
    let budget = Budget::standalone("data", 200);
    let mut pool = BufferPool::default();
    let mut store = Store::default();
    assert!(matches!(
        store.insert(0, &[1; 100], rules(OsPolicy::Bsd), &budget, &mut pool),
        Stored::Kept { .. }
    ));
    let refused = store.insert(100, &[2; 100], rules(OsPolicy::Bsd), &budget, &mut pool);
    assert_eq!(refused, Stored::NoMemory);
    assert_eq!(store.bytes_from(0), [1; 100]);
    store.trim(100, &budget, &mut pool);
    assert_eq!(budget.used(), 0);
    assert!(matches!(
        store.insert(100, &[2; 100], rules(OsPolicy::Bsd), &budget, &mut pool),
        Stored::Kept { .. }
    ));
}
