//! FTP (RFC 959, 2428, 3659): commands, replies, and the data connections they announce.
//!
//! Each command is a transaction that ends with the first reply line that is not preliminary, as in
//! the peer: further lines belong to it while it is still there. `parser` follows the control
//! connection, `command` knows commands and ports, `tx` is the transaction; `data` is the parser of
//! announced connections, a protocol of its own (`ftp-data`).

pub mod command;
mod data_channel;
pub mod limits;
mod parser;
mod settings;
mod tables;
mod tx;

pub use data_channel::{FtpData, FtpDataTx};
pub use parser::FtpParser;
pub use settings::Settings;
pub use tables::event;
pub use tx::{FtpTx, Reply};

use crate::detect::{PortProbe, Probe, ProbePattern};
use crate::registry::Protocol;
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::applayer::Transport;
use std::sync::Arc;

const fn pattern(direction: Direction, bytes: &'static [u8]) -> ProbePattern {
    let depth = bytes.len() as u16;
    ProbePattern { direction, bytes, nocase: false, offset: 0, depth, check: None }
}

/// FTP in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    table: tables::TABLE,
    config_name: "ftp",
    is_default_on: true,
    patterns: &[
        pattern(ToServer, b"USER "),
        pattern(ToServer, b"PASS "),
        pattern(ToServer, b"PORT "),
        pattern(ToServer, b"FEAT"),
        pattern(ToClient, b"220 ("),
    ],
    probes: &[PortProbe {
        transport: Transport::Tcp,
        ports: "21",
        min_bytes: 5,
        max_bytes: 0,
        probe,
    }],
    accepts_gaps: false,
    stream_depth: None,
    first_direction: Some(Direction::ToClient),
    auto_trigger_raw: false,
    event_type: "ftp",
    is_logged: true,
    configure: |config| Ok(Arc::new(Settings::read(config))),
    open: |settings, _| {
        let settings = settings.downcast_ref::<Settings>().copied().unwrap_or_default();
        Box::new(FtpParser::new(settings))
    },
};

/// Data connections in the registry: known by their announcement only.
pub const DATA_PROTOCOL: &Protocol = &Protocol {
    table: tables::DATA_TABLE,
    config_name: "ftp-data",
    is_default_on: true,
    patterns: &[],
    probes: &[],
    accepts_gaps: true,
    stream_depth: None,
    first_direction: None,
    auto_trigger_raw: true,
    event_type: "ftp_data",
    is_logged: true,
    configure: |_| Ok(Arc::new(())),
    open: |_, _| Box::new(FtpData::default()),
};

/// Whether a server's first bytes are an FTP greeting: `220` and a blank or hyphen.
fn probe(bytes: &[u8], direction: Direction) -> Probe {
    let is_greeting = bytes.starts_with(b"220 ") || bytes.starts_with(b"220-");
    if is_greeting && direction == ToClient { Probe::Yes } else { Probe::No }
}
