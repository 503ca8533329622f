//! What the configuration says: `app-layer.protocols.ldap`.

use super::limits::{OPEN_TXS_MAX, RESPONSES_MAX};
use gabion_record::Tree;

/// Settings of LDAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Open transactions of a flow.
    pub txs_max: u64,
    /// Responses of a request.
    pub responses_max: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { txs_max: OPEN_TXS_MAX, responses_max: RESPONSES_MAX }
    }
}

impl Settings {
    /// Reads `app-layer.protocols.ldap`; what is missing or wrong keeps Suricata's default.
    pub fn from_config(config: Option<&Tree>) -> Settings {
        let mut s = Settings::default();
        let Some(c) = config else { return s };
        for (key, slot) in [("max-tx", &mut s.txs_max), ("max-responses", &mut s.responses_max)] {
            if let Some(n) = c.number(key) {
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
        t.set("max-tx", "7");
        t.set("max-responses", "many");
        let expected = Settings { txs_max: 7, ..Settings::default() };
        assert_eq!(Settings::from_config(Some(&t)), expected);
    }
}
