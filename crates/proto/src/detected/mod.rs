//! Protocols that are recognized but not parsed yet: flows carry their name, rules bound to them are
//! inspected by payload, and nothing else is claimed. Each moves to a folder of its own when its
//! parser is written.

use crate::detect::{PortProbe, Probe, ProbePattern};
use crate::protocol::Protocol;
use gabion_record::Direction;
use gabion_record::applayer::{ProtoTable, Transport};

const fn detected(
    table: ProtoTable,
    patterns: &'static [ProbePattern],
    probes: &'static [PortProbe],
) -> Protocol {
    Protocol {
        patterns,
        probes,
        accepts_gaps: true,
        auto_trigger_raw: false,
        is_logged: false,
        ..Protocol::plain(table)
    }
}

use Direction::{ToClient, ToServer};

/// IMAP: a capability request and the greeting (RFC 9051).
pub const IMAP: &Protocol = &Protocol {
    // Suricata has no records of it.
    eve_type: "",
    ..detected(
        ProtoTable { rule_names: &["imap"], ..ProtoTable::of_requests("imap", &[Transport::Tcp]) },
        &[
            // Suricata 8.0.7 finds it from 17 bytes on, up to 5 bytes from the beginning.
            ProbePattern {
                depth: 17,
                check: Some(|bytes, _| if bytes.len() < 17 { Probe::No } else { Probe::Yes }),
                ..ProbePattern::at_start(ToServer, b"1 capability").in_any_case()
            },
            ProbePattern::at_start(ToClient, b"* OK "),
        ],
        &[],
    )
};
