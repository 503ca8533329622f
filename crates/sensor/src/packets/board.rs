//! What a run shows of itself to other threads while it lasts: its interfaces, and what the kernel counted at each.

use super::before_socket::BeforeSocket;
use super::input::KernelCounts;
use gabion_record::ledger::Ledger;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// An interface that is read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounts {
    /// Its name.
    pub name: String,
    /// Frames that reached the socket.
    pub offered: u64,
    /// Those of them that the kernel dropped, as there was no room in the ring.
    pub dropped: u64,
}

/// What was counted at a ring of an interface.
#[derive(Debug)]
struct RingOf {
    interface: String,
    ring: usize,
    counts: KernelCounts,
}

/// What a run shows of itself.
#[derive(Debug, Default)]
pub struct Board {
    rings: Mutex<Vec<RingOf>>,
    /// By worker: records that were left out while its ring ran full.
    records: Mutex<Vec<Ledger>>,
    /// The longest time that a worker took to go over to another engine, in nanoseconds.
    adoption_ns: AtomicU64,
}

impl Board {
    /// Notes what the kernel has counted so far at a ring of an interface.
    pub(crate) fn note_ring(&self, interface: &str, ring: usize, counts: KernelCounts) {
        let mut all = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        match all.iter_mut().find(|of| of.ring == ring && of.interface == interface) {
            Some(of) => of.counts = counts,
            None => all.push(RingOf { interface: interface.to_owned(), ring, counts }),
        }
    }

    /// Notes which records a worker has left out so far.
    pub(crate) fn note_records(&self, worker: usize, ledger: &Ledger) {
        let mut all = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() <= worker {
            all.resize(worker + 1, Ledger::new());
        }
        if let Some(known) = all.get_mut(worker) {
            known.clone_from(ledger);
        }
    }

    /// Records that were left out so far by all workers.
    pub(crate) fn records(&self) -> Ledger {
        let mut sum = Ledger::new();
        let all = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().for_each(|ledger| sum.merge(ledger));
        sum
    }

    /// Notes how long a worker took to go over to another engine.
    pub(crate) fn note_adoption(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.adoption_ns.fetch_max(took, Relaxed);
    }

    /// The longest time that took.
    pub(crate) fn longest_adoption(&self) -> Duration {
        Duration::from_nanos(self.adoption_ns.load(Relaxed))
    }

    /// The interfaces, with what was counted so far.
    pub fn interfaces(&self) -> Vec<InterfaceCounts> {
        let mut found: Vec<InterfaceCounts> = Vec::new();
        for of in self.rings.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let KernelCounts { offered, dropped, .. } = of.counts;
            match found.iter_mut().find(|interface| interface.name == of.interface) {
                Some(interface) => {
                    interface.offered += offered;
                    interface.dropped += dropped;
                }
                None => {
                    found.push(InterfaceCounts { name: of.interface.clone(), offered, dropped });
                }
            }
        }
        found
    }

    /// What was counted so far at all rings; None before the first count. What was lost before the sockets is counted
    /// by interface, and counts once however many rings it has.
    pub(crate) fn kernel_counts(&self) -> Option<KernelCounts> {
        let all = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sum: Option<KernelCounts> = None;
        for (n, of) in all.iter().enumerate() {
            let is_known = all.iter().take(n).any(|other| other.interface == of.interface);
            let before = if is_known { BeforeSocket::default() } else { of.counts.before };
            sum.get_or_insert_default().add(&KernelCounts { before, ..of.counts });
        }
        sum
    }
}
