//! Limits of WebSocket.

use gabion_record::limits;

/// Bytes that a side may have unpacked for each byte of its compressed messages, in addition to
/// [`UNPACKED_BYTES_MAX`]. Text unpacks to some tens of bytes at most; a full packet then costs no more than thirty
/// ordinary ones.
pub(crate) const UNPACKED_BYTES_FROM_ONE: u64 = 64;

/// Bytes of an unpacked message that are kept even if `max-payload-size` is lower. Suricata 8.0.7 keeps 400 to 8,192 of
/// them, by how they are compressed.
pub(crate) const UNPACKED_MESSAGE_BYTES: usize = 8 << 10;

limits! { "proto.websocket";
    /// Bytes of a frame's payload, of a message in several frames and of an unpacked message that are kept
    /// (Suricata's `max-payload-size`).
    pub const PAYLOAD_BYTES_MAX: usize = 0xffff,
        Counts("the end of a payload, as events `skip_end_of_payload` and `reassembly_limit_reached`");

    /// Bytes that a side may have unpacked in addition to 64 for each byte of its compressed messages: four messages
    /// of the default `max-payload-size`, however short they are when compressed.
    pub(crate) const UNPACKED_BYTES_MAX: u64 = 256 << 10,
        Loses("the end of a message that unpacks to more than its side may have unpacked");

    /// Live transactions of a flow: the engine frees one with the packet that it came in.
    pub const TXS_MAX: usize = 8192,
        Loses("the oldest transaction of a flow");
}
