//! # proto: application protocols
//!
//! **In**: the bytes of each direction of a flow, in order, with event time. **Out**: transactions
//! that carry typed buffers, numbers, files, events and their own log record. **Holds**: one parser
//! per flow ([`Parser`]), made by the protocol that detection found.
//!
//! A protocol is one folder (`mod.rs`, parser, buffers, log) and one line in [`mod@registry`]. It knows
//! nothing of rules, flows or outputs: rules reach its buffers by the tables in
//! `record::applayer`, and its log record is written into a JSON object somebody else has opened.
//!
//! Parsers are incremental (any split of the input gives the same transactions), bounded (every
//! table has a limit in [`limits`]) and never panic on input.
#![forbid(unsafe_code)]

pub mod datagrams;
pub mod detect;
pub mod detected;
pub mod dhcp;
pub mod dns;
pub mod files;
pub mod frames;
pub mod ftp;
pub mod http1;
pub mod limits;
pub mod magic;
pub mod mdns;
pub mod mqtt;
pub mod ntp;
pub mod parser;
pub mod registry;
pub mod sip;
pub mod smtp;
pub mod snmp;
pub mod ssh;
pub mod tftp;
pub mod tls;
pub mod tx_list;

pub use parser::{
    Buffer, CertificateChain, Endpoints, Expectation, FilePiece, Input, Inspect, LogOptions,
    Outcome, ParseContext, Parser, ProtocolChange, Requirements, Sparing, Standing, Transaction,
};
pub use registry::{Protocol, registry};
