//! Runs over flows: logs, exporters and what captures report go through the behaviour engine.

mod capture_records;
mod captured;
mod checkpoint;
mod exporters;
mod lists;
mod live;
mod outcome;
mod paged;
mod parallel;
mod places;
mod resume;
mod run;
mod sealed_ids;
mod single;
mod sink;
mod source;
mod whitelist;

pub use captured::{CaptureTap, TappedDone, are_captures, is_capture};
pub use checkpoint::Checkpoint;
pub use lists::{ListFiles, Lists};
pub use outcome::{Ran, TeamEnd, Whitelisted};
pub use places::AddressBook;
pub use resume::{Resumed, has_checkpoint};
pub use run::{FlowInputs, FlowRun, FlowsDone, list_logs};
pub use sealed_ids::settle_sealed_ids;
pub use sink::{FindingOutputs, FindingsDone, Found, GatheredPage, Sink, callee_name};
pub use whitelist::load_whitelist;
