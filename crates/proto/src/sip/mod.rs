//! SIP over UDP and TCP (RFC 3261) with the session descriptions it carries (SDP, RFC 4566).
//!
//! Every message is a transaction of its own, as in Suricata. [`message`] reads messages, [`sdp`]
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
use crate::protocol::Protocol;
use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::Transport;

/// A method that other protocols have too.
const fn shared(bytes: &'static [u8]) -> ProbePattern {
    ProbePattern { check: Some(parser::names_sip), ..ProbePattern::at_start(ToServer, bytes) }
}

/// SIP in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    patterns: &[
        ProbePattern::at_start(ToServer, b"REGISTER"),
        ProbePattern::at_start(ToServer, b"INVITE"),
        shared(b"ACK"),
        ProbePattern::at_start(ToServer, b"BYE"),
        ProbePattern::at_start(ToServer, b"CANCEL"),
        shared(b"UPDATE"),
        ProbePattern::at_start(ToServer, b"REFER"),
        ProbePattern::at_start(ToServer, b"PRACK"),
        shared(b"SUBSCRIBE"),
        shared(b"NOTIFY"),
        ProbePattern::at_start(ToServer, b"PUBLISH"),
        ProbePattern::at_start(ToServer, b"MESSAGE"),
        shared(b"INFO"),
        shared(b"OPTIONS"),
        ProbePattern::at_start(ToClient, b"SIP/2.0"),
    ],
    open: |_, transport| Box::new(SipParser::new(transport == Transport::Tcp)),
    ..Protocol::plain(tables::TABLE)
};
