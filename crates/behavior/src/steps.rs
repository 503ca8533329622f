//! Steps that tables take: a look-up, and entries that are looked at or moved to make room. Tests count them, so
//! that no input makes work grow faster than itself. A run over a table that has some dozens of entries at most is
//! one step. Outside of tests nothing is counted.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Entries were looked up, looked at, or moved.
#[inline]
pub(crate) fn add(entries: usize) {
    #[cfg(test)]
    STEPS.with(|steps| steps.set(steps.get() + entries as u64));
    #[cfg(not(test))]
    let _ = entries;
}

/// How many there were since this was asked last.
#[cfg(test)]
pub(crate) fn take_count() -> u64 {
    STEPS.replace(0)
}
