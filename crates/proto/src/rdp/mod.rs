//! RDP (MS-RDPBCGR) until it is encrypted: the connection, its negotiation, MCS's connect messages, and the
//! certificates of a TLS handshake. Each is a transaction.

mod client;
mod handshake;
mod layouts;
pub mod limits;
mod message;
mod parser;

pub use parser::{RdpParser, RdpTx};

use crate::detect::{PortProbe, Probe};
use crate::protocol::Protocol;
use gabion_record::Direction;
use gabion_record::applayer::{ProtoTable, Transport};

const TABLE: ProtoTable =
    ProtoTable { rule_names: &["rdp"], ..ProtoTable::of_requests("rdp", &[Transport::Tcp]) };

/// RDP in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    probes: &[PortProbe {
        transport: Transport::Tcp,
        ports: "3389",
        min_bytes: 0,
        max_bytes: 0,
        probe: probe_connection,
    }],
    open: |_, _| Box::<RdpParser>::default(),
    ..Protocol::plain(TABLE)
};

/// Whether bytes begin with a packet: nothing else decides in Suricata 8.0.7, for either side.
fn probe_connection(bytes: &[u8], _: Direction) -> Probe {
    if bytes.first() == Some(&message::VERSION) { Probe::Yes } else { Probe::No }
}
