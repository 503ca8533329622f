//! POP3 (RFC 1939, 2449, 2595, 5034): commands and their responses.
//!
//! A command with its response is a transaction; responses that nobody asked for, such as the greeting, are
//! one of their own. Messages that are fetched are passed over, as in Suricata.

mod command;
pub mod limits;
mod log;
mod parser;
mod settings;
mod tables;
mod tx;

pub use command::Request;
pub use parser::Pop3Parser;
pub use settings::Settings;
pub use tx::{Pop3Tx, Response};

use crate::detect::ProbePattern;
use crate::protocol::Protocol;
use gabion_record::Direction::{ToClient, ToServer};
use std::sync::Arc;

/// POP3 in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    patterns: &[
        ProbePattern::at_start(ToClient, b"+OK "),
        ProbePattern::at_start(ToClient, b"-ERR "),
        ProbePattern::at_start(ToServer, b"CAPA\r\n"),
        ProbePattern::at_start(ToServer, b"STLS\r\n"),
    ],
    first_direction: Some(ToClient),
    configure: |config| Ok(Arc::new(Settings::from_config(config))),
    open: |settings, _| {
        let settings = settings.downcast_ref::<Settings>().copied().unwrap_or_default();
        Box::new(Pop3Parser::new(settings))
    },
    ..Protocol::plain(tables::TABLE)
};
