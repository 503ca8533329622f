//! The guard: what it measures live, and reports about recordings.

mod allow_list;
mod device_counters;
mod enforce;
mod events;
mod exposed;
mod files;
mod heads;
mod health;
mod host;
mod host_changes;
mod host_counters;
mod measuring;
mod page;
mod probes;
mod recorder;
mod refusal;
mod report;
mod second;
mod status;
mod undo_folder;
mod verdicts;
mod watch;
mod writer;

pub use allow_list::{AllowError, GuardAllowed};
pub use enforce::GuardEnforce;
pub use health::GuardHealth;
pub use host_changes::GuardAlso;
pub use refusal::GuardRefusal;
pub use report::{GuardReport, GuardReported};
pub use second::{GuardCpuSecond, GuardSecond};
pub use status::{GuardState, GuardStatus};
pub use undo_folder::ChangeError;
pub use verdicts::GuardVerdicts;
pub use watch::{GuardNews, GuardWatch, GuardWatched};
