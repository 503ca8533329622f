//! What the tests of BPF programs share: they need root, BTF and clang at build time, and are skipped by name where one of
//! them is missing.
//!
//! Attached programs see the whole machine, so tests of one process run one after the other.

#![forbid(unsafe_code)]

use std::sync::{Mutex, MutexGuard, PoisonError};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Waits until no other test has programs attached. `None`, after a line that names the test and the reason, if this
/// machine can't run it.
#[must_use]
pub fn live(test: &str, needed: &[&str]) -> Option<MutexGuard<'static, ()>> {
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for feature in gabion_probe::features::all() {
        let is_needed = needed.contains(&feature.name);
        if let (true, Err(error)) = (is_needed, &feature.result) {
            eprintln!("skipped: {test}: {error}");
            return None;
        }
    }
    Some(guard)
}
