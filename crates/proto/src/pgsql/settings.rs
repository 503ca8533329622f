//! What the configuration says: `app-layer.protocols.pgsql`.

use super::limits::*;
use gabion_record::Tree;
use std::ops::RangeInclusive;

/// Values of `max-responses` that Suricata 8.0.7 takes; it keeps its default for others.
const RESPONSES: RangeInclusive<u64> = 21..=64;

/// Settings of PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Open transactions of a flow.
    pub txs_max: u64,
    /// Messages of a response that are kept.
    pub responses_max: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { txs_max: OPEN_TXS_MAX, responses_max: RESPONSES_MAX }
    }
}

impl Settings {
    /// Reads `app-layer.protocols.pgsql`; what is missing or wrong keeps Suricata's default.
    pub fn from_config(config: Option<&Tree>) -> Settings {
        let number = |key| config.and_then(|c| c.number(key));
        let responses = number("max-responses").filter(|n| RESPONSES.contains(n));
        Settings {
            txs_max: number("max-tx").unwrap_or(OPEN_TXS_MAX),
            responses_max: responses.unwrap_or(RESPONSES_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_wrong_ones_left() {
        for (tx, responses, expected) in [
            ("7", "21", (7, 21)),
            ("7", "64", (7, 64)),
            ("many", "20", (OPEN_TXS_MAX, RESPONSES_MAX)),
            ("8", "65", (8, RESPONSES_MAX)),
            ("8", "-1", (8, RESPONSES_MAX)),
        ] {
            let mut t = Tree::default();
            t.set("max-tx", tx);
            t.set("max-responses", responses);
            let s = Settings::from_config(Some(&t));
            assert_eq!((s.txs_max, s.responses_max), expected, "{tx} {responses}");
        }
        assert_eq!(Settings::from_config(None), Settings::default());
    }
}
