//! Taking in logs: what comes over a wire, cut into messages, and what a message says.
//!
//! In: bytes of a connection or datagrams, with event time. Out: messages as they stood on the wire
//! (the evidence, which is kept), replies, and, for the reader of a log, their fields.
//!
//! * [`dialect`]: the table of all that is spoken over sockets; [`session`]: what a server asks of each.
//! * [`framing`]: TCP streams into messages, octet counting and lines.
//! * [`relp`]: RELP, in which nothing is answered before it is durable.
//! * [`slog_tcp`]: slog's envelopes, one a connection.
//! * [`envelope`], [`replay`], [`evidence`]: slog's encrypted messages, those that come twice, and how
//!   both stand in a record.
//! * [`config`]: the configuration of a slog server.
//! * [`journal`]: entries of systemd's journal in its export format.
//! * [`fairness`]: a queue in which a flood loses its own messages and nobody else's.
//! * [`view`]: which records the reader of a log sees, and how each is written.
//! * [`syslog`]: what a message says, for the reader of a log; [`sequence`]: what its sender lost.
#![forbid(unsafe_code)]

pub mod config;
pub mod dialect;
pub mod envelope;
pub mod evidence;
pub mod fairness;
pub mod framing;
pub mod journal;
pub mod limits;
pub mod replay;
pub mod sequence;
pub mod session;
pub mod syslog;
pub mod view;

pub use dialect::{relp, slog_tcp};
