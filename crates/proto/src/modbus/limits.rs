//! Limits of Modbus, each with its reason.

use gabion_record::limits;

limits! { "proto.modbus";
    /// Live transactions of a flow (Suricata's default, `request-flood`). The next one gets the event, and the flow is
    /// left at the one after it (Suricata 8.0.7).
    pub const OPEN_TXS_MAX: u64 = 500,
        Counts("the rest of the flow, as event `flooded`");

    /// Bytes of a message from its unit on (MODBUS Messaging on TCP/IP Implementation Guide V1.0b 3.1.3: 260 with the
    /// header).
    pub const MESSAGE_BYTES_MAX: u16 = 254,
        Counts("the message, as event `invalid_length`");
}
