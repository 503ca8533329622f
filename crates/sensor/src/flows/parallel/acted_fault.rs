//! Faults that workers act out in tests.

use std::time::Duration;

/// A fault that a worker acts out at a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) worker: usize,
    pub(crate) batch: u64,
    pub(crate) kind: FaultKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    Panics,
    /// Until it is abandoned.
    Stalls,
    /// Each batch up to this one takes this many milliseconds longer.
    IsSlow(u64),
}

/// Acts a fault out.
pub(crate) fn act(fault: Option<Fault>, batch: u64, is_abandoned: impl Fn() -> bool) {
    let Some(fault) = fault else { return };
    match fault.kind {
        FaultKind::Panics if batch == fault.batch => panic!("acted fault"),
        FaultKind::Stalls if batch == fault.batch => {
            while !is_abandoned() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        FaultKind::IsSlow(ms) if batch < fault.batch => {
            std::thread::sleep(Duration::from_millis(ms));
        }
        _ => {}
    }
}
