//! What the behaviour engine did in a run.

use gabion_behavior::{Counts, Engine, Profile};
use gabion_record::ledger::Ledger;
use gabion_runtime::Panicked;

/// What the engine did.
pub struct Ran {
    /// What it counted.
    pub counts: Counts,
    /// Sources: come, gone, folded, held.
    pub sources: Ledger,
    /// Of the workers, where there are several.
    pub team: Option<TeamEnd>,
    /// The panic that ended the engine, if one did.
    pub failed: Option<Panicked>,
    /// Bytes for seeds and profiles.
    pub budget: usize,
    /// Bytes of profiles at the end.
    pub used: usize,
    /// Entries of the whitelist that hid something.
    pub whitelisted: Vec<Whitelisted>,
}

/// An entry of the whitelist that hid something.
pub struct Whitelisted {
    /// Its line in the file.
    pub line: u32,
    /// Its text.
    pub text: String,
    /// Records that it hid.
    pub records: u64,
    /// Evidence that it hid.
    pub evidence: u64,
}

impl Whitelisted {
    pub(super) fn all(entries: Vec<gabion_behavior::Whitelisted<'_>>) -> Vec<Whitelisted> {
        let one = |hidden: gabion_behavior::Whitelisted<'_>| Whitelisted {
            line: hidden.entry.line,
            text: hidden.entry.text.clone(),
            records: hidden.records,
            evidence: hidden.evidence,
        };
        entries.into_iter().map(one).collect()
    }
}

impl Ran {
    pub(super) fn from_engine(engine: &Engine, budget: usize) -> Ran {
        let (counts, sources) = (engine.counts(), engine.ledger());
        let whitelisted = Whitelisted::all(engine.whitelisted());
        let used = engine.profiles().map(Profile::bytes).sum();
        Ran { counts, sources, team: None, failed: None, budget, used, whitelisted }
    }

    /// Workers that were lost.
    pub fn lost(&self) -> usize {
        self.team.as_ref().map_or(0, |t| t.lost)
    }

    /// Whether none of this number of workers was left to continue.
    pub fn is_cut(&self, workers: usize) -> bool {
        self.failed.is_some() || (self.lost() > 0 && self.lost() >= workers)
    }
}

/// What is to be reported about the workers themselves.
pub struct TeamEnd {
    /// Records between the reader and the workers.
    pub parcels: Ledger,
    /// Workers that were lost on the way.
    pub lost: usize,
    /// Records that they were working on then.
    pub lost_records: u64,
    /// Shards of theirs that started again with another worker.
    pub restarted: u64,
    /// How often the number of workers changed.
    pub changes: u64,
}
