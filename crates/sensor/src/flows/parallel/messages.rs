//! What passes between the reader, the workers and the writer, and what all of them know.

#[cfg(test)]
use super::acted_fault;
use gabion_behavior::Kept;
use gabion_behavior::intel::Intel;
use gabion_behavior::stages::{Found, Learned, Shard, ShardCounts, Shards, Turn};
use gabion_record::Ip;
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_record::limits::Reached;
use gabion_record::logs::TimeNs;
use gabion_runtime::fanout::{Losses, Spares};
use gabion_runtime::{Load, Receiver};
use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// Records of a batch, over all workers: some milliseconds of work.
pub(super) const BATCH_RECORDS: u64 = 8_192;

/// Bytes of one worker's part that end a batch.
pub(super) const BATCH_BYTES: usize = 512 << 10;

/// How long one look for findings waits before events are looked at.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// A run by several workers.
pub(crate) struct Plan {
    /// Most workers.
    pub(crate) workers: usize,
    /// Bytes for seeds and profiles.
    pub(crate) budget: usize,
    /// The input has an end: all workers begin at once.
    pub(crate) is_finite: bool,
    /// Profiles are to be kept at the end of their windows.
    pub(crate) keeps_windows: bool,
    /// Profiles of an earlier run, for the first worker; of a run without an end.
    pub(crate) shards: Option<Shards>,
    /// This many workers from these batches on, whatever the judgement.
    #[cfg(test)]
    pub(crate) changes: Vec<(u64, usize)>,
    /// A fault to act out.
    #[cfg(test)]
    pub(crate) fault: Option<acted_fault::Fault>,
}

pub(super) type Moved = (Option<Box<Shard>>, Vec<(i64, Ip)>);

/// On its way from the reader to the writer, past the workers.
#[derive(Default)]
pub(super) struct SideChannel {
    /// What evidence is to say of the input.
    pub(super) state: Option<String>,
    /// What batches taught the whitelist, in their order: as much as there are batches under way.
    pub(super) learned: VecDeque<(u64, Vec<Learned>)>,
    /// Windows that began in batches, in their order.
    pub(super) turns: VecDeque<(u64, Vec<Turn>)>,
    /// Checkpoints under way: the batch that each begins with, and what the reader has to say.
    pub(super) saves: VecDeque<Save>,
    /// The last of them is all that is left to do.
    pub(super) is_saved: bool,
}

/// A checkpoint under way.
pub(super) struct Save {
    /// Its first batch. One for each shard follows, and one that ends it.
    pub(super) batch: u64,
    pub(super) source: Vec<u8>,
    pub(super) front: Vec<u8>,
    /// Limits that the reader reached since its last report.
    pub(super) limits: Reached,
}

pub(super) type SharedSide = Arc<Mutex<SideChannel>>;

/// Memory of batches that were worked on, to be filled again: memory that is freed and allocated again costs
/// a reader more than what it puts there.
pub(super) type Spare = Spares<Vec<u8>>;

/// The same of findings that were written.
pub(super) type SpareFound = Spares<Found>;

/// What goes to a worker.
pub(super) enum Work {
    Batch {
        number: u64,
        records: u64,
        bytes: Vec<u8>,
        watermark: TimeNs,
        start: TimeNs,
    },
    Lists(Arc<Intel>),
    Release(usize, mpsc::SyncSender<Moved>),
    Adopt {
        shard: usize,
        holder: usize,
        from: mpsc::Receiver<Moved>,
    },
    /// What each shard is, for a checkpoint that begins with that batch.
    Save {
        number: u64,
        start: TimeNs,
    },
    /// Nothing follows; with `is_saved` nothing is decided either.
    End {
        number: u64,
        watermark: TimeNs,
        start: TimeNs,
        is_saved: bool,
    },
}

impl Load for Work {
    fn items(&self) -> u64 {
        match self {
            Work::Batch { records, .. } => *records,
            _ => 0,
        }
    }
    fn bytes(&self) -> u64 {
        match self {
            Work::Batch { bytes, .. } => bytes.len() as u64,
            _ => 0,
        }
    }
}

/// What a worker found in one batch.
pub(super) struct Part {
    pub(super) worker: usize,
    pub(super) batch: u64,
    pub(super) start: TimeNs,
    pub(super) found: Found,
    pub(super) kept: Vec<Kept>,
    /// A shard, for a checkpoint.
    pub(super) saved: Option<(usize, Vec<u8>)>,
    /// Limits that were reached in this batch.
    pub(super) limits: Reached,
    pub(super) is_end: bool,
}

impl Part {
    /// One without anything in it.
    pub(super) fn empty(worker: usize, batch: u64, start: TimeNs) -> Part {
        let (found, kept, limits) = (Found::default(), Vec::new(), Reached::new());
        Part { worker, batch, start, found, kept, saved: None, limits, is_end: false }
    }
}

impl Load for Part {
    fn items(&self) -> u64 {
        self.found.count()
    }
    fn bytes(&self) -> u64 {
        let saved = self.saved.as_ref().map_or(0, |s| s.1.len());
        (self.found.bytes() + self.kept.iter().map(|k| k.bytes.len()).sum::<usize>() + saved) as u64
    }
}

/// What all know of the workers.
pub(super) struct Workers {
    pub(super) losses: Losses,
    each: Vec<Known>,
}

impl Workers {
    pub(super) fn new(losses: Losses) -> Workers {
        let each = (0..losses.workers()).map(|_| Known::default()).collect();
        Workers { losses, each }
    }

    pub(super) fn get(&self, worker: usize) -> Option<&Known> {
        self.each.get(worker)
    }

    pub(super) fn is_lost(&self, worker: usize) -> bool {
        self.losses.is_lost(worker)
    }
}

/// What all know of a worker.
#[derive(Default)]
pub(super) struct Known {
    /// Records it is working on.
    pub(super) held: AtomicU64,
    /// What it had counted after its last batch.
    pub(super) given: Mutex<Given>,
    /// What waited for it when it found itself abandoned.
    pub(super) left: Mutex<Option<Receiver<Work>>>,
}

/// What a worker counted.
#[derive(Clone, Default)]
pub(super) struct Given {
    pub(super) counts: ShardCounts,
    pub(super) sources: Ledger,
    /// Bytes of its profiles.
    pub(super) used: usize,
}

impl Given {
    pub(super) fn from_shards(shards: &Shards) -> Given {
        Given { counts: shards.counts(), sources: shards.ledger(), used: shards.weight() }
    }
}

impl Known {
    /// What it counted before it was lost: the sources it held are shed.
    pub(super) fn given(&self) -> Given {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let held = given.sources.in_flight();
        given.sources.set_in_flight(0, 0);
        given.sources.shed(ShedReason::WorkerLost, held.items, held.bytes);
        given
    }
}
