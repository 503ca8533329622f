//! SIP over UDP and TCP (RFC 3261) with the session descriptions it carries (SDP, RFC 4566).
//!
//! Every message is a transaction of its own, as in the peer. [`message`] reads messages, [`sdp`]
//! descriptions, [`parser`] makes transactions, [`tables`] says what rules may ask for, [`log`]
//! writes EVE.

pub mod limits;
pub mod log;
pub mod message;
pub mod parser;
pub mod sdp;
pub mod tables;

pub use message::{Message, StartLine};
pub use parser::{SipParser, SipTx};
pub use sdp::Description;

use crate::detect::ProbePattern;
use crate::registry::{Protocol, Settings};
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::applayer::Transport;
use std::sync::Arc;

const fn start(direction: Direction, bytes: &'static [u8]) -> ProbePattern {
    let depth = bytes.len() as u16;
    ProbePattern { direction, bytes, nocase: false, offset: 0, depth, check: None }
}

/// A method that other protocols have too.
const fn shared(bytes: &'static [u8]) -> ProbePattern {
    ProbePattern { check: Some(parser::names_sip), ..start(ToServer, bytes) }
}

/// SIP in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    table: tables::TABLE,
    config_name: "sip",
    is_default_on: true,
    patterns: &[
        start(ToServer, b"REGISTER"),
        start(ToServer, b"INVITE"),
        shared(b"ACK"),
        start(ToServer, b"BYE"),
        start(ToServer, b"CANCEL"),
        shared(b"UPDATE"),
        start(ToServer, b"REFER"),
        start(ToServer, b"PRACK"),
        shared(b"SUBSCRIBE"),
        shared(b"NOTIFY"),
        start(ToServer, b"PUBLISH"),
        start(ToServer, b"MESSAGE"),
        shared(b"INFO"),
        shared(b"OPTIONS"),
        start(ToClient, b"SIP/2.0"),
    ],
    probes: &[],
    accepts_gaps: false,
    stream_depth: None,
    first_direction: None,
    auto_trigger_raw: true,
    event_type: "sip",
    is_logged: true,
    configure: |_| Ok(Arc::new(()) as Settings),
    open: |_, transport| Box::new(SipParser::new(transport == Transport::Tcp)),
};
