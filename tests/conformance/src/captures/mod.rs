//! Alert counts of rules on captures: a sensor's compared with Suricata's, for each pair of file
//! and signature.
//!
//! [`pairs`] reads and compares, [`suites`] lists the comparisons, [`sensor`] runs the program,
//! [`names`] names signatures, [`floors`] stores the required results.

pub mod floors;
pub mod names;
pub mod pairs;
pub mod report;
pub mod sensor;
pub mod suites;
