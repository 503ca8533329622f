//! Interning of names that rules share (flowbits, xbits, …) and of values many rules have alike.

use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

/// A map of what rules name. Its hash takes fewer steps than the standard library's.
pub(crate) type NameMap<K, V> = HashMap<K, V, RandomState>;

/// Names with dense numbers, in order of first use.
#[derive(Clone, Debug, Default)]
pub struct Names {
    names: Vec<Box<str>>,
    by_name: NameMap<Box<str>, u32>,
}

impl Names {
    /// The number of a name, given out on first use.
    pub fn intern(&mut self, name: &str) -> u32 {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let id = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.into());
        self.by_name.insert(name.into(), id);
        id
    }

    /// The number of a name that is known already.
    pub fn find(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    /// The name of a number, empty when there is none.
    pub fn get(&self, id: u32) -> &str {
        self.names.get(id as usize).map_or("", |n| n)
    }

    /// How many names there are; numbers are below it.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// Lists of which rules share those that are the same.
#[derive(Debug)]
pub(crate) struct Shared<T> {
    known: HashSet<Arc<[T]>, RandomState>,
}

impl<T> Default for Shared<T> {
    fn default() -> Shared<T> {
        Shared { known: HashSet::default() }
    }
}

impl<T: Eq + Hash> Shared<T> {
    /// Adds lists that others have.
    pub(crate) fn add(&mut self, list: &Arc<[T]>) {
        if !self.known.contains(list) {
            self.known.insert(Arc::clone(list));
        }
    }

    /// The list, or the same one that was there before.
    pub(crate) fn share(&mut self, list: Arc<[T]>) -> Arc<[T]> {
        if let Some(known) = self.known.get(&list) {
            return Arc::clone(known);
        }
        self.known.insert(Arc::clone(&list));
        list
    }
}
