//! Lists of rules whose addresses and ports fit, kept from flow to flow.
//!
//! Rules without a pattern are grouped by the addresses they name; a search through all groups
//! costs hundreds of tests. But addresses fall into few rows of the address index and ports into few
//! intervals, so the same list is needed again and again: it is made once and shared by all flows
//! that need it. The number of rules in the lists of one worker is limited; when it is reached, all
//! lists are discarded and made again on demand.

use super::address_index::Row;
use crate::limits::FITTING_RULES_MAX;
use foldhash::fast::RandomState;
use gabion_rules::SignatureFlags;
use hashbrown::HashMap;
use std::sync::Arc;

/// What a list of fitting rules depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Question {
    /// Which lists of groups: transport class and direction, or those on addresses only.
    pub(super) lists: u8,
    /// Whether the packet has ports.
    pub(super) has_ports: bool,
    /// Number of the interval that holds the destination port, and of that of the source port.
    pub(super) ports: (u32, u32),
    /// Rows of source and destination.
    pub(super) rows: (Row, Row),
}

/// A rule of a list, with what it requires of packets: most packets do not meet that of most rules, which are
/// left out without a look at anything else of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fit {
    pub(super) sig: u32,
    pub(super) flags: SignatureFlags,
}

/// Answers so far.
#[derive(Debug, Default)]
pub(crate) struct Fitting {
    known: HashMap<Question, Arc<[Fit]>, RandomState>,
    /// Rules in all of them.
    held: usize,
}

impl Fitting {
    pub(super) fn get(&self, question: &Question) -> Option<Arc<[Fit]>> {
        self.known.get(question).map(Arc::clone)
    }

    pub(super) fn insert(&mut self, question: Question, rules: &[Fit]) -> Arc<[Fit]> {
        // An entry costs about as much as sixteen rules, whether it holds any or not.
        self.held += rules.len() + 16;
        if self.held > FITTING_RULES_MAX {
            self.known.clear();
            self.held = rules.len() + 16;
        }
        let list: Arc<[Fit]> = rules.into();
        self.known.insert(question, Arc::clone(&list));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_kept_up_to_the_limit() {
        let mut all = Fitting::default();
        let question = |n: u32| Question {
            lists: 0,
            has_ports: true,
            ports: (n, 0),
            rows: (Row::NONE, Row::NONE),
        };
        let fit = |sig| Fit { sig, flags: SignatureFlags::default() };
        let list = all.insert(question(0), &[fit(1), fit(2)]);
        assert_eq!(*list, [fit(1), fit(2)]);
        assert_eq!(all.get(&question(0)), Some(list));
        let long = vec![fit(0); FITTING_RULES_MAX / 4];
        for n in 1..9 {
            all.insert(question(n), &long);
            assert!(all.held <= FITTING_RULES_MAX);
        }
        assert_eq!(all.get(&question(0)), None);
        assert!(all.get(&question(8)).is_some());
    }
}
