//! Runners of the tests of Suricata, Slips and Falco. The input is a folder of tests or captures with the
//! results of Suricata, Slips or Falco, and a program to test; the output is which of its results are the
//! same.
//!
//! The runners use only the command line and the output of the program, so that Suricata can be run
//! instead of Gabion: a runner is correct if Suricata passes exactly the tests that it is known to
//! pass. They contain no special case for any single test.
//!
//! - [`verify`]: the tests of suricata-verify, one folder each, described by a `test.yaml`.
//! - [`flows`]: expected findings in flow logs, row by row.
//! - [`falco`]: Falco's regression tests, command line by command line.
//! - [`captures`]: alert counts of rules on captures, pair by pair.
//! - [`records`]: EVE records, whole record by whole record.
//! - [`whole`]: every capture is read to its end or refused, and the ledger balances.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods)] // programs that do not end are killed after a time limit

pub mod captures;
pub mod falco;
pub mod flows;
pub mod records;
pub mod schema;
pub mod verify;
pub mod whole;

pub use gabion_corpus::root as corpus;
