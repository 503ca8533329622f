//! What the configuration says: `app-layer.protocols.dcerpc`.

use super::limits::{OPEN_TXS_MAX, STUB_BYTES_MAX};
use gabion_record::Tree;

/// Settings of DCE/RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Live transactions of a flow.
    pub txs_max: u64,
    /// Bytes of stub data kept of a call, and of its answer.
    pub stub_max: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { txs_max: OPEN_TXS_MAX, stub_max: STUB_BYTES_MAX }
    }
}

impl Settings {
    /// Reads `app-layer.protocols.dcerpc`; what is missing or wrong keeps Suricata's default.
    pub fn from_config(config: Option<&Tree>) -> Settings {
        let mut s = Settings::default();
        let Some(c) = config else { return s };
        if let Some(n) = c.number("max-tx") {
            s.txs_max = n;
        }
        if let Some(n) = c.size("max-stub-size") {
            s.stub_max = n;
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
        t.set("max-tx", "many");
        t.set("max-stub-size", "2 KiB");
        let expected = Settings { stub_max: 2048, ..Settings::default() };
        assert_eq!(Settings::from_config(Some(&t)), expected);
        t.set("max-tx", "7");
        assert_eq!(Settings::from_config(Some(&t)).txs_max, 7);
    }
}
