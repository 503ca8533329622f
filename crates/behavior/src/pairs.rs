//! What a profile keeps of pairs of hosts, and how their letters are scored.

pub use crate::command_and_control::features::GROUPS;
pub use crate::command_and_control::{Model, Score};
pub use crate::detect::beacon::Calls;
pub use crate::detect::command_control::{FIRST, Tuple};
