//! What the configuration says: `app-layer.protocols.modbus`.

use super::limits::OPEN_TXS_MAX;
use gabion_record::Tree;

/// Settings of Modbus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Live transactions of a flow.
    pub txs_max: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { txs_max: OPEN_TXS_MAX }
    }
}

impl Settings {
    /// Reads `request-flood`; what is missing or wrong keeps Suricata's default.
    pub fn from_config(config: Option<&Tree>) -> Settings {
        Settings { txs_max: config.and_then(|c| c.number("request-flood")).unwrap_or(OPEN_TXS_MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_wrong_ones_left() {
        let mut t = Tree::default();
        t.set("request-flood", "7");
        assert_eq!(Settings::from_config(Some(&t)), Settings { txs_max: 7 });
        t.set("request-flood", "many");
        assert_eq!(Settings::from_config(Some(&t)), Settings::default());
        assert_eq!(Settings::from_config(None), Settings::default());
    }
}
