//! What the configuration says: `app-layer.protocols.rfb`.

use super::limits::TEXT_BYTES_MAX;
use gabion_record::Tree;

/// Settings of RFB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes kept of a text.
    pub text_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { text_bytes_max: TEXT_BYTES_MAX }
    }
}

impl Settings {
    /// Reads `app-layer.protocols.rfb`; what is missing, wrong or more than 32 bits keeps Suricata's default.
    pub fn from_config(config: Option<&Tree>) -> Settings {
        let bytes = config.and_then(|c| c.size("max-string-length"));
        let bytes = bytes.and_then(|n| u32::try_from(n).ok());
        Settings { text_bytes_max: bytes.map_or(TEXT_BYTES_MAX, |n| n as usize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_wrong_ones_left() {
        for (value, expected) in [
            ("100", 100),
            ("0", 0),
            ("1kb", 1024),
            ("4294967295", u32::MAX as usize),
            ("4294967296", TEXT_BYTES_MAX),
            ("many", TEXT_BYTES_MAX),
        ] {
            let mut t = Tree::default();
            t.set("max-string-length", value);
            assert_eq!(Settings::from_config(Some(&t)).text_bytes_max, expected, "{value}");
        }
        assert_eq!(Settings::from_config(None), Settings::default());
    }
}
