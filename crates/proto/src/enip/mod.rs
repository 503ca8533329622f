//! ENIP: EtherNet/IP, the Common Industrial Protocol (CIP) over TCP and UDP (ODVA's CIP volumes 1 and 2).
//!
//! `message` reads the encapsulation and `cip` what it carries, `parser` joins requests and responses to
//! transactions, `tables` says what rules may ask for, `log` writes EVE with the names in `names`.

mod cip;
mod conditions;
pub mod limits;
mod log;
mod message;
mod names;
mod parser;
mod tables;
mod tx;

pub use parser::EnipParser;
/// Its settings: the bound of open transactions.
pub type Settings = crate::tx_settings::TxSettings<{ limits::OPEN_TXS_MAX }>;
pub use tx::EnipTx;

use crate::detect::PortProbe;
use crate::protocol::Protocol;
use gabion_record::applayer::{ProtoTable, Transport};
use std::sync::Arc;

const TABLE: ProtoTable = ProtoTable { conditions: conditions::CONDITIONS, ..tables::TABLE };

const fn port_probe(transport: Transport) -> PortProbe {
    PortProbe { transport, ports: "44818", min_bytes: 0, max_bytes: 0, probe: parser::probe }
}

/// ENIP in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    is_logged: false,
    probes: &[port_probe(Transport::Tcp), port_probe(Transport::Udp)],
    configure: |config| Ok(Arc::new(Settings::from_config(config))),
    open: |settings, transport| {
        let settings = settings.downcast_ref::<Settings>().copied().unwrap_or_default();
        Box::new(EnipParser::new(settings, transport == Transport::Tcp))
    },
    ..Protocol::plain(TABLE)
};
