//! Reads and writes scap files: events of system calls with the state of the host before the first one.
//!
//! The input is the bytes of a file or pipe; the output is events and lists of processes, file descriptors, interfaces
//! and users, in file order. The crate holds the event table (schema 4.5.1 of Falco's libs), the decoder of events, the
//! reader, the writer and the merger, which turns the enter and exit events of old files into exit events alone.
#![forbid(unsafe_code)]

mod block;
mod convert;
mod decoder;
mod error;
mod event;
mod fields;
pub mod host;
pub mod limits;
mod lists;
mod made;
mod merger;
mod notes;
mod parameter;
mod raw_event;
mod reader;
pub mod table;
mod waiting;
mod writer;

pub use block::is_scap;
pub use convert::{ConvertError, Converted, convert};
pub use decoder::{Counts, Decoder, Item};
pub use error::Error;
pub use event::{Event, Raws, Values, is_enter_of_falco};
pub use merger::{MergeCounts, Merger};
pub use notes::{Note, Notes, UnknownTypes};
pub use parameter::{Address, Fds, Param, Tuple};
pub use reader::Reader;
pub use table::types;
pub use writer::Writer;
