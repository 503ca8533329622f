//! # intake: a log server
//!
//! In come syslog over UDP, TCP, TLS and RELP, local datagrams and slog's envelopes, on sockets that are open already;
//! out goes a sealed log, in which each message is durable before its sender hears so. What can't be kept is counted,
//! by source and reason, in the log itself.
//!
//! ```
//! use gabion_intake::{Endpoint, Place, SealedLog, Server, ServerSettings, bind};
//! use gabion_logs::dialect::Dialect;
//! use gabion_runtime::StopFlag;
//! use gabion_seal::durable::{LogFolder, OnFull};
//! use gabion_seal::storage::Files;
//! use gabion_seal::{Init, Policy, SecretKey};
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let (log, state) = (folder.path().join("log"), folder.path().join("log.state"));
//! let reader = SecretKey::generate()?;
//! let files = gabion_runtime::files::direct_opener();
//! Init::new("host.example/log", 0)
//!     .create(&mut Files::create_folder(&files, &log)?, Files::create_folder(&files, &state)?)?;
//!
//! let (stop, report) = (StopFlag::new(), Arc::new(|notice: &_| eprintln!("{notice}")) as _);
//! let recipients = vec![reader.recipient().clone()];
//! let to = LogFolder { files, log, state, recipients, policy: Policy::default() };
//! let sink = SealedLog::open(to, None, OnFull::Block, stop.clone(), &report)?;
//! let dialect = Dialect::named("tcp").expect("syslog over TCP");
//! let place = Place::Address("127.0.0.1:0".parse()?);
//! let sockets = bind(&[Endpoint { dialect, place }])?;
//! let server = Server::new(ServerSettings::default(), sockets, None, sink, report)?;
//! stop.set(); // a signal does that
//! server.run(&stop)?;
//! # Ok(()) }
//! ```
//!
//! * [`Server`] is the way of a message: its listeners (datagrams in one thread, all connections in another), the
//!   workers that open envelopes, a queue bounded in bytes, the sealer, and receipts back to the connections.
//! * [`SealedLog`] is where messages end up; [`Sink`] is the door for something else.
//! * [`Endpoint`], [`bind`], [`inherited`], [`probe`]: sockets, opened apart from what reads them.
//! * [`Pusher`] carries checkpoints to witnesses and files of anchors.
//! * [`Load`] sends to log servers; [`LiveCounts`] asks a running one for its counts.
//! * [`seal_input()`] seals one input, [`JournalProgram`] the entries of systemd's journal as they are written.
//!
//! What happens is reported as values ([`Notice`]); nothing is printed here, and no option of a command line is known.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "sockets and commits live by the clock")]

mod batch;
mod blocks;
mod connection;
mod datagrams;
mod envelopes;
mod error;
mod follow_journal;
mod gaps;
pub mod limits;
mod live_counts;
mod losses;
mod notice;
mod prepare;
mod push;
mod seal_input;
mod sealed_log;
mod sealer;
mod send;
mod server;
mod sink;
mod sockets;
mod stage;
mod streams;
mod throttle;
mod tls;
mod watch;

pub use error::{Error, ErrorKind, Result};
pub use follow_journal::{FollowError, Followed, JournalProgram};
pub use live_counts::{LiveCounts, LiveCountsError};
pub use notice::{Notice, Report};
pub use push::{
    CarryFault, HttpClient, LOOK_EVERY, PushError, PushSettings, Pusher, Pushing, Url, UrlError,
};
pub use seal_input::{InputForm, SealInputError, SealedInput, seal_input};
pub use sealed_log::SealedLog;
pub use send::{Done, Load, LoadSettings, Sent};
pub use server::{Server, ServerSettings};
pub use sink::Sink;
pub use sockets::{Endpoint, ListenSocket, Place, bind, bind_metrics, inherited, probe};
pub use tls::{ClientTls, ServerTls};
