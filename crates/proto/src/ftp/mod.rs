//! FTP (RFC 959, 2428, 3659): commands, replies, and the data connections they announce.
//!
//! Each command is a transaction that ends with the first reply line that is not preliminary, as in
//! Suricata: further lines belong to it while it is still there. `parser` follows the control
//! connection, `command` knows commands and ports, `tx` is the transaction. The connections it
//! announces are a protocol of their own, [`crate::ftp_data`].

pub mod command;
mod conditions;
pub mod limits;
mod parser;
mod settings;
mod tables;
mod tx;

pub use parser::FtpParser;
pub use settings::Settings;
pub use tables::event;
pub use tx::{FtpTx, Reply};

use crate::detect::{PortProbe, Probe, ProbePattern};
use crate::protocol::Protocol;
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::applayer::{ProtoTable, Transport};
use std::sync::Arc;

const TABLE: ProtoTable = ProtoTable { conditions: conditions::CONDITIONS, ..tables::TABLE };

/// FTP in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    patterns: &[
        ProbePattern::at_start(ToServer, b"USER "),
        ProbePattern::at_start(ToServer, b"PASS "),
        ProbePattern::at_start(ToServer, b"PORT "),
        ProbePattern::at_start(ToServer, b"FEAT"),
        ProbePattern::at_start(ToClient, b"220 ("),
    ],
    probes: &[PortProbe {
        transport: Transport::Tcp,
        ports: "21",
        min_bytes: 5,
        max_bytes: 0,
        probe,
    }],
    first_direction: Some(Direction::ToClient),
    auto_trigger_raw: false,
    sizes: &[("memcap", 0), ("max-tx", 1024), ("max-line-length", 4096)],
    configure: |config| Ok(Arc::new(Settings::from_config(config))),
    open: |settings, _| {
        let settings = settings.downcast_ref::<Settings>().copied().unwrap_or_default();
        Box::new(FtpParser::new(settings))
    },
    ..Protocol::plain(TABLE)
};

/// Whether a server's first bytes are an FTP greeting: `220` and a blank or hyphen.
fn probe(bytes: &[u8], direction: Direction) -> Probe {
    let is_greeting = bytes.starts_with(b"220 ") || bytes.starts_with(b"220-");
    if is_greeting && direction == ToClient { Probe::Yes } else { Probe::No }
}
