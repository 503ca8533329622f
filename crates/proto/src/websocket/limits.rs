//! Limits of WebSocket.

use gabion_record::limits;

limits! { "proto.websocket";
    /// Bytes of a frame's payload, of a message in several frames and of an unpacked message that are kept
    /// (Suricata's `max-payload-size`).
    pub const PAYLOAD_BYTES_MAX: usize = 0xffff,
        Counts("the end of a payload, as events `skip_end_of_payload` and `reassembly_limit_reached`");

    /// Live transactions of a flow: the engine frees one with the packet that it came in.
    pub const TXS_MAX: usize = 8192,
        Loses("the oldest transaction of a flow");
}
