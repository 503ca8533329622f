//! Timing wheel over slab indices: one slot per second, lists in two arrays.
//!
//! A flow is inserted once, at the second in which it may time out at the earliest. Packets move
//! its true deadline without touching the wheel; when its slot is due, the owner checks the true
//! deadline and inserts the flow again if it is in the future. So a packet costs nothing here, and
//! a flow costs one visit per timeout period. One bit per slot marks the slots in use, so that the
//! first index in the wheel is found by reading a few words, however full or empty the wheel is.

use crate::limits::WHEEL_SLOTS;

const NONE: u32 = u32::MAX;

/// Words of a bit set with one bit per slot.
const WORDS: usize = WHEEL_SLOTS / 64;

#[derive(Clone, Copy, Debug)]
struct Link {
    prev: u32,
    next: u32,
    /// The slot it is in; NONE if it is in none.
    slot: u32,
    /// The second it was inserted for (may be more than one turn ahead).
    due_s: u64,
}

const UNFILED: Link = Link { prev: NONE, next: NONE, slot: NONE, due_s: 0 };

/// The wheel. Times are whole seconds of event time.
#[derive(Debug)]
pub(crate) struct Wheel {
    heads: Vec<u32>,
    tails: Vec<u32>,
    /// The slots in use.
    filled: [u64; WORDS],
    links: Vec<Link>,
    /// Number of insertions.
    insertions: u64,
    /// Slots up to here (this second excluded) have been visited.
    cursor_s: u64,
    /// See `begin`.
    started: bool,
}

impl Wheel {
    pub(crate) fn new() -> Wheel {
        Wheel {
            heads: vec![NONE; WHEEL_SLOTS],
            tails: vec![NONE; WHEEL_SLOTS],
            filled: [0; WORDS],
            links: Vec::new(),
            insertions: 0,
            cursor_s: 0,
            started: false,
        }
    }

    /// Begins at `now_s`, once: event time has no natural zero.
    #[inline]
    pub(crate) fn begin(&mut self, now_s: u64) {
        if !self.started {
            self.started = true;
            self.cursor_s = now_s;
        }
    }

    /// Inserts `idx` at `due_s` after removing it from its old slot. An index that is due in the
    /// past goes into the next slot to be visited.
    pub(crate) fn insert(&mut self, idx: u32, due_s: u64) {
        let at = idx as usize;
        if at >= self.links.len() {
            self.links.resize(at + 1, UNFILED);
        }
        self.remove(idx);
        self.insertions += 1;
        let due_s = due_s.max(self.cursor_s);
        // Beyond one turn: the last slot of this turn; it will be inserted again from there.
        let visit_s = due_s.min(self.cursor_s + WHEEL_SLOTS as u64 - 1);
        let slot = (visit_s % WHEEL_SLOTS as u64) as usize;
        let tail = self.tails[slot];
        self.links[at] = Link { prev: tail, next: NONE, slot: slot as u32, due_s };
        match tail {
            NONE => {
                self.heads[slot] = idx;
                self.filled[slot / 64] |= 1 << (slot % 64);
            }
            tail => self.links[tail as usize].next = idx,
        }
        self.tails[slot] = idx;
    }

    /// The second that `idx` was inserted for.
    pub(crate) fn due_second(&self, idx: u32) -> Option<u64> {
        self.links.get(idx as usize).filter(|l| l.slot != NONE).map(|l| l.due_s)
    }

    /// Removes `idx`.
    pub(crate) fn remove(&mut self, idx: u32) {
        let Some(link) = self.links.get_mut(idx as usize) else { return };
        let Link { prev, next, slot, .. } = std::mem::replace(link, UNFILED);
        if slot == NONE {
            return;
        }
        match prev {
            NONE => self.heads[slot as usize] = next,
            prev => self.links[prev as usize].next = next,
        }
        match next {
            NONE => self.tails[slot as usize] = prev,
            next => self.links[next as usize].prev = prev,
        }
        if prev == NONE && next == NONE {
            self.filled[slot as usize / 64] &= !(1 << (slot % 64));
        }
    }

    /// Number of insertions so far.
    pub(crate) fn insertions(&self) -> u64 {
        self.insertions
    }

    /// Removes the next index whose slot is before `now_s`. The caller inserts it again if its true
    /// deadline is in the future.
    pub(crate) fn pop_due(&mut self, now_s: u64) -> Option<u32> {
        if !self.started {
            return None;
        }
        // After a leap of more than a turn every slot is visited once: all are mapped to the turn
        // before now.
        self.cursor_s = self.cursor_s.max(now_s.saturating_sub(WHEEL_SLOTS as u64));
        while self.cursor_s < now_s {
            let slot = (self.cursor_s % WHEEL_SLOTS as u64) as usize;
            match self.heads[slot] {
                NONE => self.cursor_s += 1,
                idx => {
                    self.remove(idx);
                    return Some(idx);
                }
            }
        }
        None
    }

    /// The second from which on [`Wheel::pop_due`] has slots to visit; 0 before the beginning.
    #[inline]
    pub(crate) fn next_visit_s(&self) -> u64 {
        if self.started { self.cursor_s.saturating_add(1) } else { 0 }
    }

    /// The index that is due first (by slot); it stays in the wheel.
    pub(crate) fn first(&self) -> Option<u32> {
        let from = (self.cursor_s % WHEEL_SLOTS as u64) as usize;
        let (word, bit) = (from / 64, from % 64);
        // From the cursor to the end of its word, the other words, and the rest of the first.
        let ahead = self.filled[word] & (u64::MAX << bit);
        let others = (1..=WORDS).map(|n| (word + n) % WORDS).map(|w| (w, self.filled[w]));
        let (word, bits) =
            std::iter::once((word, ahead)).chain(others).find(|(_, bits)| *bits != 0)?;
        Some(self.heads[word * 64 + bits.trailing_zeros() as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wheel compared with a plain list of (index, due), with random insertions, removals and
    /// leaps.
    #[test]
    fn behaves_as_a_sorted_list() {
        let mut wheel = Wheel::new();
        let mut model: Vec<(u32, u64)> = Vec::new();
        let mut seed = 3_u64;
        let mut now = 1_000_000_u64;
        wheel.begin(now);
        for step in 0..20_000_u32 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let idx = (seed >> 33) as u32 % 200;
            match seed >> 61 {
                0 => {
                    wheel.remove(idx);
                    model.retain(|m| m.0 != idx);
                }
                1 | 2 => {
                    now += if step % 97 == 0 { 5_000 } else { (seed >> 40) % 20 };
                    while let Some(idx) = wheel.pop_due(now) {
                        let at = model.iter().position(|m| m.0 == idx).unwrap();
                        // Far deadlines come out early and are inserted again.
                        let (_, due) = model.swap_remove(at);
                        if due >= now {
                            model.push((idx, due));
                            wheel.insert(idx, due);
                            assert!(due >= now);
                        }
                    }
                    assert!(model.iter().all(|m| m.1 >= now), "something due stayed");
                }
                _ => {
                    let due = now + (seed >> 40) % 3_000;
                    model.retain(|m| m.0 != idx);
                    model.push((idx, due));
                    wheel.insert(idx, due);
                    assert_eq!(wheel.due_second(idx), Some(due));
                }
            }
            assert_eq!(wheel.first().is_some(), !model.is_empty());
            // The first index is in the first slot in use, here found by the simplest search.
            let slot = |s: u64| (s % WHEEL_SLOTS as u64) as usize;
            let plainly = (0..WHEEL_SLOTS as u64).map(|n| wheel.heads[slot(wheel.cursor_s + n)]);
            assert_eq!(wheel.first(), plainly.into_iter().find(|idx| *idx != NONE));
        }
    }
}
