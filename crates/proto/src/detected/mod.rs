//! Protocols that are recognized but not parsed yet: flows carry their name, rules bound to them are
//! inspected by payload, and nothing else is claimed. Each moves to a folder of its own when its
//! parser is written.

use crate::detect::{PortProbe, ProbePattern};
use crate::registry::{Protocol, Settings};
use crate::tx_list::TxTable;
use crate::{Input, Outcome, ParseContext, Parser};
use gabion_record::Direction;
use gabion_record::applayer::{ProtoTable, Transport};
use std::sync::Arc;

const fn at(direction: Direction, offset: u16, bytes: &'static [u8]) -> ProbePattern {
    ProbePattern {
        direction,
        bytes,
        nocase: false,
        offset,
        depth: offset + bytes.len() as u16,
        check: None,
    }
}

const fn detected(
    table: ProtoTable,
    config_name: &'static str,
    patterns: &'static [ProbePattern],
    probes: &'static [PortProbe],
) -> Protocol {
    Protocol {
        table,
        config_name,
        is_default_on: true,
        patterns,
        probes,
        accepts_gaps: true,
        stream_depth: None,
        first_direction: None,
        auto_trigger_raw: false,
        event_type: table.name,
        is_logged: false,
        configure: |_| Ok(Arc::new(()) as Settings),
        open: |_, _| Box::new(Recognized::default()),
    }
}

use Direction::{ToClient, ToServer};

/// SMB: the four bytes of each dialect behind the NetBIOS session header (MS-SMB2 2.2.1).
pub const SMB: &Protocol = &detected(
    ProtoTable { rule_names: &["smb"], ..ProtoTable::of_requests("smb", &[Transport::Tcp]) },
    "smb",
    &[
        at(ToServer, 4, b"\xffSMB"),
        at(ToServer, 4, b"\xfeSMB"),
        at(ToClient, 4, b"\xffSMB"),
        at(ToClient, 4, b"\xfeSMB"),
    ],
    &[],
);

/// DCE/RPC over TCP: version 5.0 of the connection-oriented protocol (C706 12.6.3.1).
pub const DCERPC: &Protocol = &detected(
    ProtoTable {
        rule_names: &["dcerpc"],
        is_counted_by_transport: true,
        ..ProtoTable::of_requests("dcerpc", &[Transport::Tcp])
    },
    "dcerpc",
    &[at(ToServer, 0, b"\x05\x00"), at(ToClient, 0, b"\x05\x00")],
    &[],
);

/// IMAP: a capability request and the greeting (RFC 9051).
pub const IMAP: &Protocol = &detected(
    ProtoTable { rule_names: &["imap"], ..ProtoTable::of_requests("imap", &[Transport::Tcp]) },
    "imap",
    &[
        ProbePattern {
            direction: ToServer,
            bytes: b"1 capability",
            nocase: true,
            offset: 0,
            depth: 12,
            check: None,
        },
        at(ToClient, 0, b"* OK "),
    ],
    &[],
);

/// RFB: the version line (RFC 6143 7.1.1).
pub const RFB: &Protocol = &detected(
    ProtoTable { rule_names: &["rfb"], ..ProtoTable::of_requests("rfb", &[Transport::Tcp]) },
    "rfb",
    &[at(ToServer, 0, b"RFB "), at(ToClient, 0, b"RFB ")],
    &[],
);

/// A parser that takes everything and says nothing.
#[derive(Debug, Default)]
struct Recognized {
    none: (),
}

impl Parser for Recognized {
    fn parse(&mut self, _cx: &mut ParseContext<'_>, _input: Input<'_>) -> Outcome {
        Outcome::Done
    }

    fn txs(&self) -> &dyn TxTable {
        &self.none
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.none
    }

    fn bytes_held(&self) -> usize {
        0
    }

    fn follows(&self) -> bool {
        false
    }
}
