//! Limits of the MQTT parser.

use gabion_record::limits;

limits! { "proto.mqtt";
    /// Bytes of a message's contents that are read; longer ones are passed over (Suricata's default,
    /// `max-msg-length`).
    pub const MESSAGE_BYTES_MAX: u64 = 1024 * 1024,
        Counts("messages passed over, marked `truncated` in the record as Suricata does");

    /// Live transactions of a flow before open ones are closed (Suricata's default, `max-tx`).
    pub const OPEN_TXS_MAX: u64 = 4096,
        Counts("open transactions closed, as event `too_many_transactions`");

    /// Live transactions of a flow, open or not: the engine frees closed ones only after the piece of
    /// input they came with, and a segment of 64 KiB can hold half as many messages.
    pub const TXS_PER_FLOW_MAX: usize = 32 * 1024,
        Loses("the oldest transaction of a flow");

    /// Messages of a transaction (Suricata's default, `max-messages`).
    pub const MESSAGES_PER_TX_MAX: u64 = 1024,
        Counts("answers, as event `too_many_messages`");

    /// Bytes of messages that a flow's transactions hold before open ones are closed and answers are no
    /// longer kept: 4,096 open transactions could each wait with a message of 1 MiB, or keep 1,024 small
    /// answers.
    pub const HELD_BYTES_MAX: usize = 8 * 1024 * 1024,
        Counts("open transactions closed and answers, as events `too_many_transactions` and `too_many_messages`");

    /// Topics of a SUBSCRIBE or UNSUBSCRIBE that rules look at (Suricata's defaults,
    /// `subscribe-topic-match-limit` and `unsubscribe-topic-match-limit`).
    pub const TOPICS_MATCHED_MAX: u64 = 100,
        Spares("rules inspect the first ones only, as configured");

    /// Topics kept of a message, so that its record stays below a megabyte: a message of 1 MiB could
    /// carry a third of a million empty ones.
    pub const TOPICS_KEPT_MAX: usize = 16 * 1024,
        Loses("topics of a message");

    /// Properties kept of a list, of which a message has one or, with those of a will, two (as in Suricata 8.0.7):
    /// 27 are defined, and only user properties may be repeated.
    pub const PROPERTIES_KEPT_MAX: usize = 256,
        Counts("further properties of the list, as event `too_many_properties`");

    /// Bytes of a text that are logged (Suricata's default, `string-log-limit`).
    pub const LOGGED_BYTES_MAX: u64 = 1024,
        Counts("the end of a text, said in the record as Suricata does");
}
