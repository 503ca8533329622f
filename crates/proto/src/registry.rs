//! The registry: one line a protocol.

use crate::Parser;
use crate::detect::{PortProbe, ProbePattern};
use gabion_record::Tree;
use gabion_record::applayer::{Catalog, ProtoId, ProtoTable, Transport};
use std::any::Any;
use std::sync::Arc;

/// A protocol's settings after it has read its part of the configuration.
pub type Settings = Arc<dyn Any + Send + Sync>;

/// Everything the engine knows of a protocol.
#[derive(Debug)]
pub struct Protocol {
    /// What it offers to rules, and its names.
    pub table: ProtoTable,
    /// Path below `app-layer.protocols` of its configuration (`http`, `dns`).
    pub config_name: &'static str,
    /// Parsed unless the configuration says otherwise.
    pub is_default_on: bool,
    /// Literals that give it away.
    pub patterns: &'static [ProbePattern],
    /// Probes by port.
    pub probes: &'static [PortProbe],
    /// The parser goes on behind a gap.
    pub accepts_gaps: bool,
    /// Bytes a direction is reassembled at most, when it is not the stream's default (0: no limit).
    pub stream_depth: Option<u64>,
    /// Direction whose bytes must come first (`None`: either).
    pub first_direction: Option<gabion_record::Direction>,
    /// Raw stream inspection is triggered at the end of each of its messages by the engine itself.
    pub auto_trigger_raw: bool,
    /// EVE `event_type` of its transactions, and the key of their object.
    pub event_type: &'static str,
    /// EVE logs its transactions unless the configuration says otherwise.
    pub is_logged: bool,
    /// Reads its settings out of its own part of the configuration (`None`: all defaults).
    pub configure: fn(Option<&Tree>) -> Result<Settings, String>,
    /// Makes a parser for a flow.
    pub open: fn(&Settings, Transport) -> Box<dyn Parser>,
}

/// All protocols, in the order of their ids. A further protocol is one line here.
pub fn registry() -> &'static [&'static Protocol] {
    &[
        crate::http1::PROTOCOL,
        crate::ftp::PROTOCOL,
        crate::smtp::PROTOCOL,
        crate::tls::PROTOCOL,
        crate::ssh::PROTOCOL,
        crate::ftp::DATA_PROTOCOL,
        crate::dns::PROTOCOL,
        crate::mqtt::PROTOCOL,
        crate::sip::PROTOCOL,
        crate::snmp::PROTOCOL,
        crate::ntp::PROTOCOL,
        crate::tftp::PROTOCOL,
        crate::dhcp::PROTOCOL,
        crate::mdns::PROTOCOL,
        crate::detected::SMB,
        crate::detected::DCERPC,
        crate::detected::IMAP,
        crate::detected::RFB,
    ]
}

/// The tables of all protocols for the rule language.
pub fn catalog() -> Catalog {
    let tables: Vec<ProtoTable> = registry().iter().map(|p| p.table).collect();
    Catalog::new(&tables)
}

/// The protocol of an id.
pub fn protocol(id: ProtoId) -> Option<&'static Protocol> {
    registry().get(usize::from(id.0).checked_sub(1)?).copied()
}
