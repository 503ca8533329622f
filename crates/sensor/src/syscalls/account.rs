//! The account of a scap file: what was read, merged and shed.

use crate::Error;
use gabion_record::ledger::StageLedgers;
use gabion_record::thousands::thousands;
use gabion_scap::{Counts, MergeCounts};

/// What was read of one scap file and what was made of it.
#[derive(Clone, Debug, Default)]
pub struct ScapAccount {
    /// What the reader counted.
    pub read: Counts,
    /// What the merger counted; nothing if events were taken as they are.
    pub merged: Option<MergeCounts>,
}

impl ScapAccount {
    /// The ledgers of the stages.
    #[must_use]
    pub fn ledgers(&self) -> StageLedgers {
        let mut ledgers = StageLedgers::new();
        ledgers.add("lists", None, &self.read.lists);
        ledgers.add("events", None, &self.read.events);
        if let Some(merged) = &self.merged {
            ledgers.add("events>merger", None, &merged.ledger);
        }
        ledgers
    }

    /// What is wrong with the input, one line each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let notes = &self.read.notes;
        let mut lines: Vec<String> =
            notes.first().iter().map(|n| format!("at byte {}: {}", n.offset, n.what)).collect();
        if notes.further() > 0 {
            lines.push(format!("{} further notes", thousands(notes.further())));
        }
        let unknown = &self.read.unknown_types;
        if !unknown.by_type().is_empty() {
            let types: Vec<String> = unknown
                .by_type()
                .iter()
                .map(|(kind, n)| format!("{kind} ({})", thousands(*n)))
                .collect();
            let others = match unknown.others() {
                0 => String::new(),
                n => format!(", {} of further types", thousands(n)),
            };
            lines.push(format!(
                "events of types that the event table (schema {}) does not have: {}{others}",
                gabion_scap::table::SCHEMA,
                types.join(", ")
            ));
        }
        lines
    }

    /// Events that passed on.
    #[must_use]
    pub fn passed(&self) -> u64 {
        match &self.merged {
            Some(merged) => merged.ledger.passed().items - merged.merged,
            None => self.read.events.passed().items,
        }
    }
}

/// Checks the ledgers of a file.
///
/// # Errors
/// A stage has lost track of an event.
pub fn check_balance(account: &ScapAccount) -> Result<(), Error> {
    account
        .ledgers()
        .balance()
        .map_err(|(stage, fault)| Error::Unbalanced { stage, what: fault.into() })
}
