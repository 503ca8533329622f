//! DNS over UDP and TCP (RFC 1035): every message is a transaction of its own.
//!
//! [`message`] and [`name`] parse messages and know nothing of transports, so that multicast DNS and
//! DNS over HTTPS can use them; [`parser`] makes transactions of them, [`tables`] says what rules
//! may ask for, [`log`] writes EVE.

pub mod limits;
pub mod log;
pub mod message;
pub mod name;
pub mod parser;
pub mod tables;

pub use message::{Message, Rdata, Record, Section};
pub use parser::{DnsParser, DnsTx};

use crate::detect::PortProbe;
use crate::registry::{Protocol, Settings};
use gabion_record::applayer::Transport;
use std::sync::Arc;

/// DNS in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    table: tables::TABLE,
    config_name: "dns",
    is_default_on: true,
    patterns: &[],
    probes: &[
        PortProbe {
            transport: Transport::Udp,
            ports: "53",
            min_bytes: 0,
            max_bytes: 0,
            probe: parser::probe_datagram,
        },
        PortProbe {
            transport: Transport::Tcp,
            ports: "53",
            min_bytes: 0,
            max_bytes: 0,
            probe: parser::probe_stream,
        },
    ],
    first_direction: None,
    accepts_gaps: true,
    stream_depth: None,
    auto_trigger_raw: true,
    event_type: "dns",
    is_logged: true,
    configure: |_| Ok(Arc::new(()) as Settings),
    open: |_, transport| Box::new(DnsParser::new(transport == Transport::Tcp)),
};
