//! Limits of ENIP, each with its reason.

use gabion_record::limits;

limits! { "proto.enip";
    /// Live transactions of a flow (Suricata's default, `max-tx`). Beyond, all of them are ended and the message is
    /// left out (Suricata 8.0.7).
    pub const OPEN_TXS_MAX: u64 = 1024,
        Counts("messages left out, as event `too_many_transactions`");

    /// Bytes of messages that a flow's transactions hold before the same happens: each may hold 64 KiB, and unanswered
    /// requests stay until the flow ends.
    pub const HELD_BYTES_MAX: usize = 8 * 1024 * 1024,
        Counts("messages left out, as event `too_many_transactions`");
}
