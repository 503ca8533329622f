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

use crate::protocol::Protocol;
use std::sync::Arc;

/// WebSocket in the registry. Nothing but an Upgrade leads to it.
pub const PROTOCOL: &Protocol = &Protocol {
    configure: |config| Ok(Arc::new(Settings::from_config(config))),
    open: |settings, _| {
        let settings = settings.downcast_ref::<Settings>().copied().unwrap_or_default();
        Box::new(WebSocketParser::new(settings))
    },
    ..Protocol::plain(tables::TABLE)
};
