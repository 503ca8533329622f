//! The settings of protocols of which the configuration bounds nothing but a flow's open transactions.

use gabion_record::Tree;

/// `max-tx` of `app-layer.protocols.NAME`; `USUAL` is Suricata's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxSettings<const USUAL: u64> {
    /// Open transactions of a flow.
    pub txs_max: u64,
}

impl<const USUAL: u64> Default for TxSettings<USUAL> {
    fn default() -> Self {
        TxSettings { txs_max: USUAL }
    }
}

impl<const USUAL: u64> TxSettings<USUAL> {
    /// Reads the protocol's part of the configuration; what is missing or wrong keeps the default.
    pub fn from_config(config: Option<&Tree>) -> Self {
        TxSettings { txs_max: config.and_then(|c| c.number("max-tx")).unwrap_or(USUAL) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_wrong_ones_left() {
        let mut t = Tree::default();
        t.set("max-tx", "7");
        assert_eq!(TxSettings::<9>::from_config(Some(&t)), TxSettings { txs_max: 7 });
        t.set("max-tx", "many");
        assert_eq!(TxSettings::<9>::from_config(Some(&t)).txs_max, 9);
        assert_eq!(TxSettings::<9>::from_config(None), TxSettings::default());
    }
}
