//! What the configuration says: `app-layer.protocols.websocket`.

use super::limits::PAYLOAD_BYTES_MAX;
use gabion_record::Tree;

/// Settings of WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a payload that are kept.
    pub payload_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { payload_max: PAYLOAD_BYTES_MAX }
    }
}

impl Settings {
    /// Reads `app-layer.protocols.websocket`; what is missing or wrong keeps Suricata's default.
    pub fn from_config(config: Option<&Tree>) -> Settings {
        let size = config.and_then(|c| c.size("max-payload-size"));
        let payload_max = size.and_then(|n| usize::try_from(n).ok());
        payload_max.map_or_else(Settings::default, |payload_max| Settings { payload_max })
    }
}
