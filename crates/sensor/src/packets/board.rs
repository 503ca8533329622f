//! What a run shows of itself to other threads while it lasts: its interfaces, and what the kernel counted at each.

use super::before_socket::BeforeSocket;
use super::input::KernelCounts;
use std::sync::{Mutex, PoisonError};

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
