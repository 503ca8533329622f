//! Runs over scap files: events of system calls, read, merged, applied to the state of threads, printed and rewritten;
//! and recordings of this host's calls.

mod account;
mod events;
mod input;
mod recording;
mod replay;
mod rewrite;
mod summary;

pub use account::{ScapAccount, check_balance};
pub use events::{EventPrinter, EventStyle};
pub use input::{are_scap, is_scap};
pub use recording::{Recorded, Recording};
pub use replay::Replay;
pub use rewrite::{Rewritten, rewrite};
pub use summary::{Summary, summarize};
