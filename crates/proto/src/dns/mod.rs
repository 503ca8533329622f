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
pub(crate) mod report;
pub mod tables;

pub use message::{Message, Rdata, Record, Section};
pub use parser::{DnsParser, DnsTx};

use crate::detect::PortProbe;
use crate::protocol::Protocol;
use gabion_record::applayer::Transport;

/// DNS in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
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
    accepts_gaps: true,
    is_never_empty: true,
    eve_logger: "output-json-dns",
    check_eve_options: log::check_options,
    eve_version_variable: Some("SURICATA_EVE_DNS_VERSION"),
    open: |_, transport| Box::new(DnsParser::new(transport == Transport::Tcp)),
    ..Protocol::plain(tables::TABLE)
};
