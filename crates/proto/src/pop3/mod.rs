//! POP3 (RFC 1939, 2449, 2595, 5034): commands and their responses.
//!
//! A command with its response is a transaction; responses that nobody asked for, such as the greeting, are
//! one of their own. Messages that are fetched are passed over, as in Suricata.

mod command;
pub mod limits;
mod log;
mod parser;
mod tables;
mod tx;

pub use command::Request;
pub use parser::Pop3Parser;
/// Its settings: the bound of open transactions.
pub type Settings = crate::tx_settings::TxSettings<{ limits::OPEN_TXS_MAX }>;
pub use tx::{Pop3Tx, Response};

use crate::detect::PortProbe;
use crate::protocol::Protocol;
use gabion_record::applayer::Transport;
use std::sync::Arc;

/// POP3 in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    // Elsewhere Suricata 8.0.7 does not look for it.
    probes: &[PortProbe {
        transport: Transport::Tcp,
        ports: "110",
        min_bytes: 0,
        max_bytes: 0,
        probe: parser::probe,
    }],
    configure: |config| Ok(Arc::new(Settings::from_config(config))),
    open: |settings, _| {
        let settings = settings.downcast_ref::<Settings>().copied().unwrap_or_default();
        Box::new(Pop3Parser::new(settings))
    },
    accepts_gaps: true,
    ..Protocol::plain(tables::TABLE)
};
