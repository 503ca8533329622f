//! System calls of the whole machine, read at their exit.
//!
//! [`Session::start`] loads `bpf/syscalls.bpf.c` and attaches it for the calls of an [`Interest`]; [`Session::poll`]
//! returns what happened since the last time, in order of time, as events of the event table. `recipes.tsv` says what the
//! record of each call holds, [`toctou`] whether its name can be trusted.

mod decode;
mod fuzz;
mod interest;
mod order;
mod recipes;
mod session;
pub mod toctou;
mod translate;

pub(crate) use translate::open_flags_with_access as open_flags;

pub use crate::object::ProgramRuns;
pub use decode::{Call, Decoder};
pub(crate) use fuzz::{records as fuzz_records, seeds as fuzz_seeds};
pub use interest::Interest;
pub use recipes::Class;
pub(crate) use session::random;
pub use session::{ClassCounts, Counts, Session, Settings};
