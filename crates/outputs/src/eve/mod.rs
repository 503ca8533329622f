//! EVE: one JSON object a line for each finding.

mod beginning;
pub(crate) mod output;
mod own_members;
mod settings;
mod writer;

pub(crate) use output::KIND;
pub use output::{alerts_output, events_output};
pub use own_members::{OwnMember, own_members};
pub use settings::{AlertSettings, EveSettings, Xff};
pub use writer::EveWriter;
