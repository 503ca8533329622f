//! # Runs
//!
//! What a run of the engines consists of, from its sources to its outputs, with all its threads. Captures go
//! through the network engine by [`packets::PacketRun`], logs of flows through the behaviour engine by
//! [`flows::FlowRun`], system calls through Falco's rules by [`falco::FalcoRun`]. Every front door makes its runs of
//! these; the answer does not depend on the number of workers.
//!
//! ```
//! use gabion_runtime::files::direct_opener;
//! use gabion_sensor::Notices;
//! use gabion_sensor::flows::{FlowInputs, FlowRun, ListFiles, Lists, Sink};
//! use gabion_sensor::packets::InputOpener;
//! # let folder = tempfile::tempdir()?;
//! # let log = folder.path().join("conn.log");
//! # let line = |n| format!("{{\"ts\":{n}.0,\"uid\":\"C{n}\",\"id.orig_h\":\"10.0.0.1\",\"id.resp_h\":\
//! #     \"10.0.0.2\",\"id.resp_p\":{n},\"proto\":\"tcp\",\"conn_state\":\"REJ\"}}\n");
//! # std::fs::write(&log, (1..1000).map(line).collect::<String>())?;
//! let opener = InputOpener::new(direct_opener()).into(); // opens files with the rights of this process
//! let run = FlowRun {
//!     inputs: FlowInputs::Files { paths: FlowInputs::list_logs(&[log])?, opener },
//!     format: None,
//!     settings: gabion_behavior::Settings::default(),
//!     lists: Lists::watch(ListFiles::default(), None, Notices::default()),
//!     stop: gabion_runtime::StopFlag::new(),
//!     workers: 2,
//!     budget: 64 << 20,
//!     earlier: None,
//!     notices: Notices::default(),
//!     news: Notices::default(),
//! };
//! let mut sink = Sink::default();
//! let done = run.read_logs(&mut sink)?;
//! done.ran.sources.balance()?; // what came in is passed, shed or still held
//! assert!(!sink.finish().found.evidence.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! * One module for each kind of run, which opens the names of that run: [`packets`], [`flows`], [`syscalls`],
//!   [`falco`], [`guard`]. `packets::run` and `flows::run` read from top to bottom as what a run is: sources,
//!   workers, engine, outputs, ledger.
//! * Several workers are one [`Fanout`](gabion_runtime::fanout::Fanout): a worker that panics or stalls is lost
//!   with what it held, which the ledger counts, and the others continue.
//! * What a person should know while a run lasts goes to [`packets::Watch`] and [`Notices`]; why a run can't be made is an
//!   [`Error`].
#![forbid(unsafe_code)]

pub mod commands;
mod error;
pub mod falco;
pub mod flows;
pub mod guard;
pub mod limits;
mod notices;
pub mod packets;
mod sealed_findings;
pub mod syscalls;

pub use error::{Error, LostTrack};
pub use notices::{Notice, Notices};
pub use sealed_findings::{FindingLog, OpenedLog, Sealer};
