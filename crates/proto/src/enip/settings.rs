//! What the configuration says: `app-layer.protocols.enip`.

use super::limits::OPEN_TXS_MAX;
use gabion_record::Tree;

/// Settings of ENIP.
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
    /// Reads `app-layer.protocols.enip`; what is missing or wrong keeps the default.
    pub fn from_config(config: Option<&Tree>) -> Settings {
        let txs_max = config.and_then(|c| c.number("max-tx")).unwrap_or(OPEN_TXS_MAX);
        Settings { txs_max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_wrong_ones_left() {
        let mut t = Tree::default();
        t.set("max-tx", "7");
        assert_eq!(Settings::from_config(Some(&t)), Settings { txs_max: 7 });
        t.set("max-tx", "many");
        assert_eq!(Settings::from_config(Some(&t)), Settings::default());
    }
}
