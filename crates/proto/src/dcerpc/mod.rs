//! DCE/RPC (C706, MS-RPCE): over TCP, over UDP, and inside the pipes of SMB.
//!
//! [`pdu`] reads the messages of the connection-oriented protocol, [`contexts`] knows the interfaces of
//! an association, [`pipe`] follows one pipe of another protocol.

pub mod contexts;
pub mod limits;
pub mod pdu;
pub mod pipe;
pub mod uuid;

use crate::detect::ProbePattern;
use crate::protocol::Protocol;
use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{ProtoTable, Transport};

/// DCE/RPC in the registry: version 5.0 of the connection-oriented protocol (C706 12.6.3.1).
pub const PROTOCOL: &Protocol = &Protocol {
    patterns: &[
        ProbePattern::at_start(ToServer, b"\x05\x00"),
        ProbePattern::at_start(ToClient, b"\x05\x00"),
    ],
    accepts_gaps: true,
    auto_trigger_raw: false,
    is_logged: false,
    ..Protocol::plain(ProtoTable {
        rule_names: &["dcerpc"],
        is_counted_by_transport: true,
        ..ProtoTable::of_requests("dcerpc", &[Transport::Tcp])
    })
};
