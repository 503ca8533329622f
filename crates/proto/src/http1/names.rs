//! The places of the fields of a large header block, by their names.
//!
//! A block of a thousand fields fits into three packets. Looking through all of them for each field
//! that is added, and for each field that a rule asks for, would cost a hundred times as much as
//! reading the block does. So a block with many fields gets a hash table; one with few is looked
//! through, which is as fast and needs none.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// Fields of a block that are looked through one by one.
const FEW: usize = 32;

/// Bytes of a name that are hashed at a time.
const PIECE: usize = 32;

/// Places of fields by name: open addressing, so that of equal names the first one is found first.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// Place of a field, from 1; 0 is free. A power of two of them, or none.
    slots: Vec<u32>,
}

#[cfg(test)]
thread_local! {
    /// Fields that were examined.
    pub(super) static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A field is examined.
fn count_step() {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
}

/// The first of `count` fields with the name that is looked for, where no places are noted: `is_it` says which has it.
pub(super) fn find_among(count: usize, is_it: impl Fn(usize) -> bool) -> Option<usize> {
    (0..count).find(|at| {
        count_step();
        is_it(*at)
    })
}

/// Hash of a name in lower case without NUL bytes, by a key of this process: the sender of the names
/// can't make them collide.
fn keyed(name: &[u8]) -> u64 {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    let mut hasher = KEY.get_or_init(RandomState::new).build_hasher();
    let (mut piece, mut len) = ([0; PIECE], 0);
    for b in name.iter().filter(|b| **b != 0) {
        if let Some(place) = piece.get_mut(len) {
            *place = b.to_ascii_lowercase();
        }
        len += 1;
        if len == PIECE {
            hasher.write(&piece);
            len = 0;
        }
    }
    hasher.write(piece.get(..len).unwrap_or_default());
    hasher.finish()
}

/// Whether the places of the fields of a block of that many fields are noted.
pub(super) fn are_many(fields: usize) -> bool {
    fields > FEW
}

impl Names {
    /// Forgets all and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
    }

    pub(super) fn bytes_held(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
    }

    /// The first of `count` fields with this name: `is_it` says which has it.
    pub(super) fn find(
        &self,
        name: &[u8],
        count: usize,
        is_it: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if self.slots.is_empty() {
            return find_among(count, is_it);
        }
        self.chain(name).map_while(|(_, at)| at).find(|at| {
            count_step();
            is_it(*at)
        })
    }

    /// Slots from that of a name on, each with the field that is there.
    fn chain(&self, name: &[u8]) -> impl Iterator<Item = (usize, Option<usize>)> {
        let mask = self.slots.len().wrapping_sub(1);
        let first = keyed(name) as usize & mask;
        (0..self.slots.len()).map(move |n| {
            let slot = first.wrapping_add(n) & mask;
            let field = self.slots.get(slot).and_then(|at| at.checked_sub(1));
            (slot, field.map(|at| at as usize))
        })
    }

    /// Adds the last of `count` fields, which are many; `name` gives the name of each.
    pub(super) fn add<'n>(&mut self, count: usize, name: impl Fn(usize) -> &'n [u8]) {
        let mut from = count - 1;
        if self.slots.len() < 2 * count {
            self.slots.clear();
            self.slots.resize((4 * count).next_power_of_two(), 0);
            from = 0;
        }
        for at in from..count {
            let free = self.chain(name(at)).find(|(_, field)| field.is_none());
            if let Some(slot) = free.and_then(|(slot, _)| self.slots.get_mut(slot)) {
                *slot = u32::try_from(at + 1).unwrap_or(0);
            }
        }
    }
}
