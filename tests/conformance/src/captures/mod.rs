//! Which rules fire how often on which capture: what a sensor says against what the peer said, pair
//! by pair of file and signature.
//!
//! [`pairs`] reads and compares, [`suites`] names the comparisons that are kept, [`sensor`] runs the
//! program, [`names`] finds what a signature is about, [`floors`] keeps what was reached.

pub mod floors;
pub mod names;
pub mod pairs;
pub mod report;
pub mod sensor;
pub mod suites;
