//! PostgreSQL over TCP (version 3 of its protocol), up to TLS where the server accepts it.
//!
//! `message` reads messages, `parser` makes transactions of them, `tx` is the transaction, `tables` says what
//! rules may ask for, `log` writes EVE.

pub mod limits;
mod log;
mod message;
pub mod parser;
mod settings;
mod tables;
pub mod tx;

pub use parser::PgsqlParser;
pub use settings::Settings;
pub use tx::PgsqlTx;

use crate::detect::PortProbe;
use crate::protocol::Protocol;
use gabion_record::applayer::Transport;
use std::sync::Arc;

/// PostgreSQL in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    is_logged: false,
    probes: &[PortProbe {
        transport: Transport::Tcp,
        ports: "5432",
        min_bytes: 0,
        max_bytes: 0,
        probe: message::probe,
    }],
    accepts_gaps: true,
    stream_depth: Some(0),
    configure: |config| Ok(Arc::new(Settings::from_config(config))),
    open: |settings, _| {
        let settings = settings.downcast_ref::<Settings>().copied().unwrap_or_default();
        Box::new(PgsqlParser::new(settings))
    },
    ..Protocol::plain(tables::TABLE)
};
