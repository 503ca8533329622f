//! The account of a source of system calls: what was read, merged and shed.

use crate::Error;
use gabion_probe::host::HostCounts;
use gabion_probe::syscalls::{Class, ClassCounts, Counts as LiveCounts};
use gabion_record::ledger::{Ledger, ShedReason, StageLedgers};
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

/// What the kernel recorded of this host, and what was read of that.
#[derive(Clone, Debug, Default)]
pub struct LiveAccount {
    /// The counters of the kernel's programs.
    pub counts: LiveCounts,
    /// The same for each CPU, of all classes together.
    pub by_cpu: Vec<ClassCounts>,
    /// Records that were read and are events.
    pub read: u64,
    /// What existed before the first event.
    pub before: HostCounts,
}

impl LiveAccount {
    /// The ledgers of the stages: the programs in the kernel by class of calls, and the reader of their rings.
    #[must_use]
    pub fn ledgers(&self) -> StageLedgers {
        let mut ledgers = StageLedgers::new();
        for (class, counts) in Class::ALL.into_iter().zip(&self.counts.classes) {
            let mut ledger = Ledger::new();
            ledger.receive(counts.received, 0);
            ledger.pass(counts.passed, 0);
            ledger.shed(ShedReason::RingFull, counts.shed_ring, 0);
            ledger.shed(ShedReason::LimitReached, counts.shed_size, 0);
            ledgers.add(&format!("kernel.{}", class.name()), None, &ledger);
        }
        let mut ledger = Ledger::new();
        ledger.receive(self.counts.unmapped_ia32, 0);
        ledger.shed(ShedReason::UnknownEvent, self.counts.unmapped_ia32, 0);
        ledgers.add("kernel.ia32", None, &ledger);
        let mut ledger = Ledger::new();
        let passed = self.counts.total().passed;
        ledger.receive(passed, self.counts.bytes);
        ledger.pass(self.read, self.counts.bytes);
        ledger.shed(ShedReason::UnreadableRecord, self.counts.undecodable, 0);
        ledger.set_in_flight(self.waiting(), 0);
        ledgers.add("kernel>events", None, &ledger);
        ledgers
    }

    /// The counts of all classes together.
    #[must_use]
    pub fn total(&self) -> ClassCounts {
        self.counts.total()
    }

    /// Calls that did not become events, for whatever reason.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        let total = self.counts.total();
        total.shed_ring + total.shed_size + self.counts.undecodable
    }

    /// What the programs in the kernel could not do as they should, with the number of times; only what happened.
    pub fn faults(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = [
            ("readings at the entry without memory", self.counts.storage_failed),
            ("calls of 32 bits that programs of 64 bits do not have", self.counts.unmapped_ia32),
        ];
        all.into_iter().filter(|(_, count)| *count > 0)
    }

    /// Names of classes of which calls were shed, with their number.
    pub fn shed_by_class(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let of = |(class, counts): (Class, &ClassCounts)| {
            (class.name(), counts.shed_ring + counts.shed_size)
        };
        Class::ALL.into_iter().zip(&self.counts.classes).map(of).filter(|(_, shed)| *shed > 0)
    }

    /// Records that wait in the rings.
    pub(super) fn waiting(&self) -> u64 {
        self.counts.total().passed.saturating_sub(self.read + self.counts.undecodable)
    }
}

/// The account of a source of system calls.
#[derive(Clone, Debug)]
pub enum CallAccount {
    /// A scap file.
    File(Box<ScapAccount>),
    /// This host.
    Live(Box<LiveAccount>),
}

impl CallAccount {
    /// The ledgers of the stages.
    #[must_use]
    pub fn ledgers(&self) -> StageLedgers {
        match self {
            CallAccount::File(account) => account.ledgers(),
            CallAccount::Live(account) => account.ledgers(),
        }
    }

    /// Calls that were received, and those of them that did not become events for want of space.
    #[must_use]
    pub fn received_and_dropped(&self) -> (u64, u64) {
        match self {
            CallAccount::File(account) => (account.read.events.received().items, 0),
            CallAccount::Live(account) => (account.total().received, account.dropped()),
        }
    }

    /// What is wrong with the input, one line each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        match self {
            CallAccount::File(account) => account.notes(),
            CallAccount::Live(_) => Vec::new(),
        }
    }

    /// The account of a file; an empty one for a live source.
    pub(super) fn into_file(self) -> ScapAccount {
        match self {
            CallAccount::File(account) => *account,
            CallAccount::Live(_) => ScapAccount::default(),
        }
    }
}

/// Checks the ledgers of a file.
///
/// # Errors
/// A stage has lost track of an event.
pub fn check_balance(account: &ScapAccount) -> Result<(), Error> {
    balanced(&account.ledgers())
}

/// Whether all ledgers balance.
///
/// # Errors
/// A stage has lost track of something.
pub(crate) fn balanced(ledgers: &StageLedgers) -> Result<(), Error> {
    ledgers.balance().map_err(|(stage, fault)| Error::Unbalanced { stage, what: fault.into() })
}
