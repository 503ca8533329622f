//! The machinery around the engines: what is allowed to know threads, clocks and signals, so that
//! engines need not.
//!
//! * [`mod@channel`]: queues bounded in items and bytes that keep the ledger of what they carry.
//! * [`fanout`]: several workers of a stage: which are lost, which stall, buffers that are used again.
//! * [`files`]: what opens files for sources and outputs, with the rights of this process.
//! * [`input`]: pipes and standard input, read so that a request to stop is heard.
//! * [`files::NamedFiles`]: the files that a command reads and writes; outputs that would destroy one are refused.
//! * [`operator_file`]: files that an operator names: read whole, with a limit; devices are refused.
//! * [`jobs`]: work in parts that a caller waits for.
//! * [`output`]: files and streams that are written: links of others are refused, a request to stop is heard.
//! * [`processors`]: how many there are, and binding threads to some.
//! * [`allocator`]: when free memory goes back to the system.
//! * [`memory`]: how much memory there is for us, from cgroups or the machine, and the root of the
//!   budget tree.
//! * [`message`]: messages about errors, with advice about the error of the operating system that they come from.
//! * [`clock`]: event time fed by the data; a tick counter for the cost of rules.
//! * [`daemon`]: the file with the number of a running process; running as another user, without a way back.
//! * [`supervisor`]: workers as threads that beat; panics and stalls become events for the owner.
//! * [`metrics`]: counters and gauges, and everything as text for Prometheus.
//! * [`exposition`]: the listener that answers with this text.
//! * [`receivers`]: lines for sockets, the system's log and Redis, through spools that are bounded.
//! * [`signals`]: stop, reload and rotate as flags.
//! * [`sockets`]: datagrams by the batch, waiting for many descriptors, inherited sockets.
//!
//! Nothing here decides what to do about a lost worker or a full queue beyond counting it: the
//! owner (the command line's wiring) does.
//!
//! `unsafe` stands in `clock::ticks` (reading the processor's time stamp counter), in
//! `sockets::datagrams` (system calls that neither std nor rustix have) and in `allocator` (options of mimalloc).
#![deny(unsafe_code)]

pub mod allocator;
pub mod channel;
pub mod clock;
pub mod daemon;
pub mod exposition;
pub mod fanout;
pub mod files;
pub mod input;
pub mod jobs;
pub mod limits;
pub mod memory;
pub mod message;
pub mod metrics;
pub mod operator_file;
pub mod output;
pub mod processors;
pub mod receivers;
pub mod signals;
pub mod sockets;
pub mod supervisor;

pub use channel::{Capacity, Edge, Load, Receiver, Refused, Sender, channel};
pub use clock::{EventClock, ticks};
pub use metrics::{Counter, Gauge, Metrics};
pub use signals::{Signals, StopFlag};
pub use supervisor::{Event, EventKind, Panicked, Patience, Pulse, Supervisor, Worker};
