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

pub(crate) use captured::is_capture;
pub use captured::{CaptureTap, TappedDone};
pub use checkpoint::Checkpoint;
pub use lists::{ListFiles, Lists};
pub use outcome::{Ran, TeamEnd, Whitelisted};
pub use places::AddressBook;
pub use resume::Resumed;
pub use run::{FlowInputs, FlowRun, FlowsDone};
pub use sink::{FindingOutputs, FindingsDone, Found, GatheredPage, Sink};
