//! Reads and writes scap files: events of system calls with the state of the host before the first one.
//!
//! The input is the bytes of a file or pipe; the output is events and lists of processes, file descriptors, interfaces
//! and users, in file order. The crate holds the event table (schema 4.5.1 of Falco's libs), the decoder of events, the
//! reader, the writer and the merger, which turns the enter and exit events of old files into exit events alone.
#![forbid(unsafe_code)]

mod event;
pub mod host;
mod parameter;
pub mod table;

pub use event::{Event, Raws, Values, is_enter_of_falco};
pub use parameter::{Address, Fds, Param, Tuple};
pub use table::types;
