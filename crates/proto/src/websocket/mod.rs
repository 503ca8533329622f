//! WebSocket (RFC 6455), to which HTTP/1 changes by Upgrade, with compressed messages (RFC 7692).
//!
//! Each frame is a transaction of the direction that sent it. The last frame of a message in several frames has the
//! whole message, whatever control frames are between them.

mod inflater;
pub mod limits;
mod parser;
mod settings;
mod tables;
mod tx;

pub use parser::WebSocketParser;
pub use settings::Settings;
pub use tx::WebSocketTx;

use crate::detect::{PortProbe, Probe};
use crate::protocol::Protocol;
use gabion_record::Direction;
use gabion_record::applayer::Transport;
use std::sync::Arc;

/// WebSocket in the registry. Nothing but an Upgrade leads to it: the probe is for no port of its own.
pub const PROTOCOL: &Protocol = &Protocol {
    probes: &[PortProbe {
        transport: Transport::Tcp,
        ports: "",
        min_bytes: 0,
        max_bytes: 0,
        probe,
    }],
    configure: |config| Ok(Arc::new(Settings::from_config(config))),
    open: |settings, _| {
        let settings = settings.downcast_ref::<Settings>().copied().unwrap_or_default();
        Box::new(WebSocketParser::new(settings))
    },
    ..Protocol::plain(tables::TABLE)
};

/// No extension that is in use has a meaning for these bits (RFC 6455 5.2): Suricata 8.0.7 looks at nothing else.
const RESERVED: u8 = 0x30;

/// Whether the first frame of either side may be one.
fn probe(bytes: &[u8], _: Direction) -> Probe {
    match bytes.first() {
        None => Probe::More,
        Some(first) if first & RESERVED == 0 => Probe::Yes,
        Some(_) => Probe::No,
    }
}
