//! What the configuration says: `app-layer.protocols.mqtt`.

use super::limits::*;
use gabion_record::Tree;

/// Settings of MQTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a message's contents.
    pub message_max: u64,
    /// Live transactions of a flow.
    pub txs_max: u64,
    /// Messages of a transaction.
    pub messages_max: u64,
    /// Topics of a SUBSCRIBE that rules look at (0: all).
    pub subscribe_matched_max: u64,
    /// Topics of an UNSUBSCRIBE that rules look at (0: all).
    pub unsubscribe_matched_max: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            message_max: MESSAGE_BYTES_MAX,
            txs_max: OPEN_TXS_MAX,
            messages_max: MESSAGES_PER_TX_MAX,
            subscribe_matched_max: TOPICS_MATCHED_MAX,
            unsubscribe_matched_max: TOPICS_MATCHED_MAX,
        }
    }
}

impl Settings {
    /// Reads `app-layer.protocols.mqtt`; what is missing or wrong keeps Suricata's default.
    pub fn from_config(config: Option<&Tree>) -> Settings {
        let mut s = Settings::default();
        let Some(c) = config else { return s };
        if let Some(n) = c.size("max-msg-length") {
            s.message_max = n;
        }
        for (key, slot) in [
            ("max-tx", &mut s.txs_max),
            ("max-messages", &mut s.messages_max),
            ("subscribe-topic-match-limit", &mut s.subscribe_matched_max),
            ("unsubscribe-topic-match-limit", &mut s.unsubscribe_matched_max),
        ] {
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
        t.set("max-msg-length", "1 KiB");
        t.set("max-tx", "many");
        t.set("subscribe-topic-match-limit", "7");
        let expected =
            Settings { message_max: 1024, subscribe_matched_max: 7, ..Settings::default() };
        assert_eq!(Settings::from_config(Some(&t)), expected);
    }
}
