//! Sets of event types: which events can satisfy a condition, found by its comparisons of `evt.type`.

use gabion_record::fields::events::{self, TYPES};

const WORDS: usize = TYPES.div_ceil(64);

/// A set of event types of Falco's event table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeSet([u64; WORDS]);

impl TypeSet {
    /// No type.
    pub const NONE: TypeSet = TypeSet([0; WORDS]);

    /// All types that the table has.
    pub fn all() -> TypeSet {
        let mut set = TypeSet::NONE;
        (0..TYPES).for_each(|number| set.insert(number as u16));
        set
    }

    /// Adds a type; a number above the table is ignored.
    pub fn insert(&mut self, number: u16) {
        if let Some(word) =
            self.0.get_mut(number as usize / 64).filter(|_| (number as usize) < TYPES)
        {
            *word |= 1 << (number % 64);
        }
    }

    /// Whether it has the type.
    #[inline]
    pub fn contains(&self, number: u16) -> bool {
        self.0.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// The types of both.
    #[must_use]
    pub fn union(self, other: TypeSet) -> TypeSet {
        TypeSet(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// The types that both have.
    #[must_use]
    pub fn intersection(self, other: TypeSet) -> TypeSet {
        TypeSet(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// All types that it does not have.
    #[must_use]
    pub fn complement(self) -> TypeSet {
        let all = TypeSet::all();
        TypeSet(std::array::from_fn(|i| all.0[i] & !self.0[i]))
    }

    /// The number of types.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The types in rising order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        (0..TYPES as u16).filter(|number| self.contains(*number))
    }

    /// The names of the events, each once, as Falco describes rules: with the names of all calls without a type of their
    /// own where those are in the set.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = Vec::new();
        for number in self.iter() {
            let Some(row) = events::types().get(number as usize) else { continue };
            if number == events::GENERIC_EXIT || number == events::GENERIC_EXIT - 1 {
                names.extend(events::calls().iter().filter(|c| c.is_generic()).map(|c| c.name));
            } else {
                names.push(row.name);
            }
        }
        names.sort_unstable();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_exactly_what_was_inserted() {
        let mut set = TypeSet::NONE;
        let last = TYPES as u16 - 1;
        for number in [0, 63, 64, last, last + 1, u16::MAX] {
            set.insert(number);
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, last]);
        assert_eq!(set.complement().len(), TYPES - 4);
        assert!(set.complement().intersection(set).is_empty());
        assert_eq!(TypeSet::all().len(), TYPES);
        assert!(TypeSet::all().names().contains(&"getppid"));
    }
}
