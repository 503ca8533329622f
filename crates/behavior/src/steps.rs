//! Steps that tables take beside the look-up of a record's own entry: tests count them, so that no input makes
//! work grow faster than itself. Outside of tests nothing is counted.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Entries were looked at, or moved, to make room.
#[inline]
pub(crate) fn add(entries: usize) {
    #[cfg(test)]
    STEPS.with(|steps| steps.set(steps.get() + entries as u64));
    #[cfg(not(test))]
    let _ = entries;
}

/// How many there were since this was asked last.
#[cfg(test)]
pub(crate) fn take() -> u64 {
    STEPS.replace(0)
}
