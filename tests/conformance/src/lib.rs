//! Runners of the peers' own tests: what comes in is a folder of tests or captures with what the
//! peer answered, and a program to try; what goes out is which of its answers are the same.
//!
//! The runners know the program only from outside, by its command line and what it writes, so that
//! the peer itself can be put in our place: a runner is right when the peer passes exactly the tests
//! it is known to pass. They know nothing of any single test.
//!
//! - [`verify`]: the tests of suricata-verify, one folder each, described by a `test.yaml`.
//! - [`flows`]: what is to be found in logs of flows, row by row.
//! - [`captures`]: which rules fire how often on which capture, pair by pair.
//! - [`whole`]: every capture read to its end or refused, the ledger added up.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods)] // programs that do not end are ended by the clock

use std::path::PathBuf;

pub mod captures;
pub mod flows;

pub mod schema;
pub mod verify;
pub mod whole;

/// The folder of shared tests and captures: `GABION_CORPUS`, else `../shared/corpus` beside the
/// repository.
#[must_use]
pub fn corpus() -> PathBuf {
    match std::env::var_os("GABION_CORPUS") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"),
    }
}
