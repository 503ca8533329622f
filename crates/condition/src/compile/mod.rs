//! From the tree of a condition to a program that is evaluated for each event.

mod apply;
mod error;
mod fields;
mod glob;
mod number;
mod program;
mod services;
mod shared;
mod test;
mod text;
mod types;

pub(crate) use apply::{Applied, Texts, collect_texts, collect_value};
pub use error::{CompileError, Fault};
pub use fields::{OwnedArgument, resolve_field};
pub use program::{Builder, Evaluator, Filter, FilterError, NodeId, Program};
pub use types::TypeSet;
