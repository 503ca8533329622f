//! What the configuration says: `app-layer.protocols.http2`.

use super::limits::*;
use gabion_record::Tree;

/// Settings of HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Live transactions of a flow.
    pub streams_max: u64,
    /// Bytes of a dynamic table.
    pub table_bytes_max: u64,
    /// Bytes of a header block in several frames.
    pub reassembly_bytes_max: u64,
    /// Frames of a transaction.
    pub frames_max: u64,
    /// Bytes that a frame of a body may unpack to.
    pub bomb_bytes_max: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            streams_max: STREAMS_MAX,
            table_bytes_max: TABLE_BYTES_MAX,
            reassembly_bytes_max: REASSEMBLY_BYTES_MAX,
            frames_max: FRAMES_MAX,
            bomb_bytes_max: BOMB_BYTES_MAX,
        }
    }
}

impl Settings {
    /// Reads `app-layer.protocols.http2`; what is missing or wrong keeps Suricata's default.
    pub fn from_config(config: Option<&Tree>) -> Settings {
        let mut s = Settings::default();
        let Some(c) = config else { return s };
        for (key, slot) in [
            ("max-streams", &mut s.streams_max),
            ("max-table-size", &mut s.table_bytes_max),
            ("max-reassembly-size", &mut s.reassembly_bytes_max),
            ("max-frames", &mut s.frames_max),
            ("compression-bomb-limit", &mut s.bomb_bytes_max),
        ] {
            if let Some(n) = c.size(key) {
                *slot = n;
            }
        }
        s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_wrong_ones_left() {
        let mut t = Tree::default();
        t.set("max-streams", "7");
        t.set("compression-bomb-limit", "2 KiB");
        t.set("max-frames", "many");
        let expected = Settings { streams_max: 7, bomb_bytes_max: 2048, ..Settings::default() };
        assert_eq!(Settings::from_config(Some(&t)), expected);
    }
}
