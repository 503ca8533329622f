//! Keeps the state of threads and file descriptors from system call exit events, and gives rules their fields.
//!
//! * Input: events and lists of `gabion_scap`, one section after the other.
//! * Output: for each event the values of Falco's fields (libs, schema 4.5.1), through [`Fields`](gabion_record::fields::Fields)
//!   of a [`View`]; a value that is absent says why.
//! * Main types: [`State`], which applies events; [`Threads`], the table of threads with its budget; [`fd::FdTable`], the
//!   descriptors of a process; [`thread::Thread`].
//!
//! ```
//! use gabion_record::budget::Budget;
//! use gabion_record::fields::{Argument, Fields, Missing, Scratch, Value, ids};
//! use gabion_scap::host::ProcessEntry;
//! use gabion_scap::table::event_type;
//! use gabion_scap::{Event, LiveValues, Values, types};
//! use gabion_syscall::{Options, State};
//!
//! let mut state = State::new(Options::default(), Budget::standalone("threads", 1 << 20));
//! let shell = ProcessEntry { tid: 7, pid: 7, comm: b"sh".to_vec(), cwd: b"/etc".to_vec(), ..Default::default() };
//! state.add_process(&shell);
//!
//! // open("passwd", O_RDONLY) returned 3.
//! let parameters = [&3_i64.to_le_bytes()[..], b"passwd\0", &1_u32.to_le_bytes(), &[0; 4], &[], &[]];
//! let lengths: Vec<u8> = parameters.iter().flat_map(|p| (p.len() as u16).to_le_bytes()).collect();
//! let bytes = parameters.concat();
//! let values = Values::new(event_type(types::OPEN_X).unwrap(), &lengths, &bytes);
//! let event = Event { number: 1, raw_number: 1, ts_ns: 5, tid: 7, cpu: 0, flags: 0, values, enter: None, live: LiveValues::default() };
//! state.apply(&event);
//!
//! let (view, mut scratch) = (state.view(&event), Scratch::new());
//! assert_eq!(view.field(ids::FD_NAME, Argument::None, &mut scratch), Ok(Value::Text(b"/etc/passwd")));
//! assert_eq!(view.field(ids::PROC_PNAME, Argument::None, &mut scratch), Err(Missing::NeverSeen));
//! ```
//!
//! All tables have a budget or a limit (`limits`); what they remove is counted with its reason. `examples/opens.rs` reads
//! files. Where fields differ from Falco's is in `docs/syscall-differences.md`.
#![forbid(unsafe_code)]

mod accounts;
mod connections;
pub mod container;
mod containers;
mod decode;
pub mod fd;
mod fields;
mod json;
pub mod limits;
mod listing;
mod loss;
mod names;
pub mod path;
mod state;
mod table;
pub mod text;
pub mod thread;

pub use accounts::{Accounts, Interfaces, User};
pub use connections::ConnectionKey;
pub use fields::View;
pub use gabion_scap::Numbers;
pub use gabion_scap::table::changes_state;
pub use loss::LossCounts;
pub use state::{LookUpCounts, Options, State};
pub use table::{Slot, TableCounts, Threads};
