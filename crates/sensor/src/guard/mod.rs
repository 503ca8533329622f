//! The guard: what it measures live, and reports about recordings.

mod allow_list;
mod enforce;
mod events;
mod files;
mod host;
mod host_counters;
mod page;
mod probes;
mod recorder;
mod report;
mod second;
mod watch;

pub use allow_list::{AllowError, GuardAllowed};
pub use enforce::{GuardEnforce, GuardVerdicts};
pub use report::{GuardReport, GuardReported};
pub use second::{GuardCpuSecond, GuardSecond};
pub use watch::{GuardNews, GuardWatch, GuardWatched};
