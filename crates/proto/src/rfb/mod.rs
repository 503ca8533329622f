//! RFB over TCP (RFC 6143), the protocol of VNC: from the versions to the server's description of its
//! screen.
//!
//! A session is one transaction. After the handshake, and after anything unexpected, nothing more is
//! read (as in Suricata).

pub mod limits;
mod log;
mod parser;
mod settings;
mod tables;
mod tx;

pub use parser::RfbParser;
pub use settings::Settings;
pub use tx::{Framebuffer, RfbTx};

use crate::detect::{Probe, ProbePattern};
use crate::protocol::Protocol;
use gabion_record::Direction::{self, ToClient, ToServer};
use std::sync::Arc;

/// RFB in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    patterns: &[
        ProbePattern { check: Some(check), ..ProbePattern::at_start(ToClient, b"RFB ") },
        ProbePattern { check: Some(check), ..ProbePattern::at_start(ToServer, b"RFB ") },
    ],
    first_direction: Some(ToClient),
    configure: |config| Ok(Arc::new(Settings::from_config(config))),
    open: |settings, _| {
        let settings = settings.downcast_ref::<Settings>().copied().unwrap_or_default();
        Box::new(RfbParser::new(settings))
    },
    ..Protocol::plain(tables::TABLE)
};

/// The line of a version, as far as it has come.
fn check(bytes: &[u8], _: Direction) -> Probe {
    if parser::parse_version(bytes).is_some() { Probe::Yes } else { Probe::No }
}
