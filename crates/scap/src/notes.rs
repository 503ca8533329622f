//! What was wrong with an input, in words and numbers.

use crate::limits;

/// One thing that was wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Where in the (unpacked) input, in bytes.
    pub offset: u64,
    /// What, in Falco's words where it has some.
    pub what: String,
}

/// The first notes of an input, and how many more there were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    first: Vec<Note>,
    further: u64,
}

impl Notes {
    pub(crate) fn add(&mut self, note: impl FnOnce() -> Note) {
        if self.first.len() < limits::NOTES_MAX {
            self.first.push(note());
        } else {
            self.further += 1;
            limits::reached::NOTES_MAX.count();
        }
    }

    /// The first notes.
    #[must_use]
    pub fn first(&self) -> &[Note] {
        &self.first
    }

    /// The number of notes that were not kept.
    #[must_use]
    pub const fn further(&self) -> u64 {
        self.further
    }
}

/// Events of types that the event table does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownTypes {
    by_type: Vec<(u16, u64)>,
    others: u64,
}

impl UnknownTypes {
    pub(crate) fn add(&mut self, kind: u16) {
        let known = self.by_type.iter_mut().find(|(known, _)| *known == kind);
        if let Some((_, count)) = known {
            *count += 1;
        } else if self.by_type.len() < limits::UNKNOWN_TYPES_MAX {
            self.by_type.push((kind, 1));
        } else {
            self.others += 1;
            limits::reached::UNKNOWN_TYPES_MAX.count();
        }
    }

    /// Each type with the number of its events, in the order of the input.
    #[must_use]
    pub fn by_type(&self) -> &[(u16, u64)] {
        &self.by_type
    }

    /// Events of further types.
    #[must_use]
    pub const fn others(&self) -> u64 {
        self.others
    }
}
