//! The guard: reports about recordings of softirq and RCU starvation.

mod events;
mod files;
mod page;
mod report;

pub use report::{GuardReport, GuardReported};
