//! Reads and writes scap files: events of system calls with the state of the host before the first one.
//!
//! * Input: the bytes of a file or pipe, plain or inside gzip, of any age.
//! * Output: [`Item`]s in the order of the file, that is lists of processes, descriptors, interfaces and users, then
//!   [`Event`]s, whose parameters are borrowed; and ledgers that count what could not be read, by reason.
//! * Main types: [`Decoder`], the parser without I/O, and [`Reader`], which feeds it; [`Merger`], which turns the enter
//!   and exit events of old files into exit events alone; [`Writer`] and [`convert()`]; [`table`], the event table
//!   (schema 4.5.1 of Falco's libs); [`Param`], a parameter as a value.
//!
//! ```
//! use gabion_scap::{Event, Item, LiveValues, Merger, Param, Reader, Values, Writer, table, types};
//!
//! // A file with one event: thread 7 closed descriptor 3.
//! let mut writer = Writer::new(Vec::new());
//! writer.section()?;
//! let kind = table::event_type(types::CLOSE_X).unwrap();
//! let parameters = [0_i64.to_le_bytes(), 3_i64.to_le_bytes()].concat();
//! let values = Values::new(kind, &[8, 0, 8, 0], &parameters);
//! let event = Event { number: 0, raw_number: 0, ts_ns: 5, tid: 7, cpu: 0, flags: 0, values, enter: None, live: LiveValues::default() };
//! writer.event(&event)?;
//! let file = writer.finish()?;
//!
//! let mut reader = Reader::new(std::io::Cursor::new(file))?;
//! let mut merger = Merger::new();
//! while let Some(item) = reader.next_item()? {
//!     if let Item::Event(event) = item
//!         && let Some(event) = merger.merge(&event)
//!     {
//!         assert_eq!((event.kind().name, event.param_named("fd")), ("close", Some(Param::Fd(3))));
//!     }
//! }
//! assert!(reader.counts().events.is_complete());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `examples/calls.rs` reads files. The crate has no features, and `unsafe` code nowhere. `docs/scap-differences.md`
//! lists where it reads files otherwise than Falco does.
#![forbid(unsafe_code)]

mod block;
mod convert;
mod decoder;
mod error;
mod event;
mod fields;
mod fuzz;
pub mod host;
pub mod limits;
mod lists;
mod live;
mod made;
mod merger;
mod notes;
mod parameter;
mod raw_event;
mod reader;
pub mod table;
mod text;
mod waiting;
mod writer;

pub use block::is_scap;
pub use convert::{ConvertError, Converted, convert};
pub use decoder::{Counts, Decoder, Item};
pub use error::Error;
pub use event::{Event, Raws, Values, is_enter_of_falco};
pub use live::{Cause, LiveValues, Numbers, READ_AT_EXIT, Toctou, is_checked, is_read_at_exit};
pub use merger::{MergeCounts, Merger};
pub use notes::{Note, Notes, UnknownTypes};
pub use parameter::{Address, Fds, Param, Tuple};
pub use reader::Reader;
pub use table::types;
pub use writer::Writer;

/// Reads arbitrary bytes whole and in pieces, and checks that both agree. For fuzzers and tests.
#[doc(hidden)]
pub fn fuzz_read(data: &[u8]) -> Result<usize, Error> {
    fuzz::read_both_ways(data)
}

/// Rewrites arbitrary bytes twice, and checks that the second result is the first. For fuzzers and tests.
#[doc(hidden)]
pub fn fuzz_rewrite(data: &[u8]) -> Result<u64, Error> {
    fuzz::rewrite_twice(data)
}
