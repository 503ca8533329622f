//! What the configuration says: `app-layer.protocols.ftp`.

use super::limits::*;
use gabion_record::Tree;

/// Settings of FTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a line.
    pub line_max: usize,
    /// Live transactions of a flow.
    pub txs_max: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { line_max: LINE_BYTES_MAX, txs_max: TXS_PER_FLOW_MAX }
    }
}

impl Settings {
    /// Reads `app-layer.protocols.ftp`; what is missing or wrong keeps Suricata's default.
    /// `memcap` is of no use here: transactions and lines have limits of their own.
    pub fn from_config(config: Option<&Tree>) -> Settings {
        let mut s = Settings::default();
        let Some(c) = config else { return s };
        if let Some(n) = c.size("max-line-length").filter(|n| *n > 0) {
            s.line_max = usize::try_from(n.min(CONFIGURED_LINE_MAX)).unwrap_or(LINE_BYTES_MAX);
        }
        if let Some(n) = c.number("max-tx").filter(|n| *n > 0) {
            s.txs_max = n;
        }
        s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_values_keep_the_defaults() {
        let mut t = Tree::default();
        for path in ["memcap", "max-tx", "max-line-length"] {
            t.set(path, "suricata");
        }
        assert_eq!(Settings::from_config(Some(&t)), Settings::default());
        t.set("max-line-length", "2kb");
        t.set("max-tx", "7");
        assert_eq!(Settings::from_config(Some(&t)), Settings { line_max: 2048, txs_max: 7 });
    }
}
