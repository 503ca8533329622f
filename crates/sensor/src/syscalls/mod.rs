//! Runs over scap files: events of system calls, read, merged, applied to the state of threads, printed and rewritten;
//! and recordings of this host's calls.

mod account;
mod calls;
mod events;
mod input;
mod live;
mod recording;
mod rewrite;
mod statistics;
mod summary;

pub(crate) use account::balanced;
pub use account::{CallAccount, LiveAccount, ScapAccount, check_balance};
pub(crate) use calls::{Calls, Latest, Moment};
pub use events::{EventPrinter, EventStyle};
pub use input::{are_scap, is_scap};
pub(crate) use live::LiveSettings;
pub use recording::{Recorded, Recording};
pub use rewrite::{Rewritten, rewrite};
pub use statistics::LiveStatistics;
pub(crate) use summary::summarize_with;
pub use summary::{Summary, summarize};
