//! Faults that workers act out in tests.

use super::capture::BATCH;
use std::time::Duration;

/// Something a worker does that it should not, at the first batch from this frame on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActedFault {
    Panic {
        worker: usize,
        from: u64,
    },
    Stall {
        worker: usize,
        from: u64,
    },
    /// A stall that ends.
    Pause {
        worker: usize,
        at: u64,
        millis: u64,
    },
}

/// The number of the thread that reads for several workers.
pub(crate) const READER: usize = usize::MAX;

pub(crate) fn act(fault: Option<ActedFault>, n: usize, first: u64) {
    match fault {
        Some(ActedFault::Panic { worker, from }) if worker == n && first >= from => {
            panic!("acted out");
        }
        Some(ActedFault::Stall { worker, from }) if worker == n && first >= from => loop {
            std::thread::sleep(Duration::from_millis(50));
        },
        Some(ActedFault::Pause { worker, at, millis })
            if worker == n && (at..at + BATCH as u64).contains(&first) =>
        {
            std::thread::sleep(Duration::from_millis(millis));
        }
        _ => {}
    }
}
