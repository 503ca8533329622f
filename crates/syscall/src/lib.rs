//! Keeps the state of threads and file descriptors from system call exit events, and gives rules their fields.
//!
//! The input is events and process lists of `gabion_scap`; the output is, for each event, the values of Falco's fields
//! through `gabion_record`'s `Fields`. All tables have a budget; what they drop is counted with its reason.
#![forbid(unsafe_code)]

mod accounts;
pub mod container;
mod containers;
mod decode;
pub mod fd;
mod fields;
pub mod limits;
mod names;
pub mod path;
mod state;
mod table;
pub mod text;
pub mod thread;

pub use accounts::{Accounts, Interfaces, User};
pub use fields::View;
pub use state::{Options, State};
pub use table::{Slot, TableCounts, Threads};
