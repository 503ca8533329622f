//! Limits of DNP3, each with its reason.

use gabion_record::limits;

limits! { "proto.dnp3";
    /// Live transactions of a flow before event `flooded` (Suricata's default, `max-tx`). Older ones are
    /// ended, whether their message came whole or not.
    pub const OPEN_TXS_MAX: u64 = 32,
        Counts("transactions ended, as event `flooded`");

    /// Live transactions of a flow, ended or not: the engine frees ended ones only after the piece of
    /// input they came with, and a segment of 64 KiB can hold as many frames of 15 bytes.
    pub const TXS_PER_FLOW_MAX: usize = 4 * 1024,
        Loses("the oldest transaction of a flow");

    /// Bytes of a message that are put together from frames: 63 transport sequence numbers with 255
    /// bytes each (Suricata 8.0.7 raises its event from 16,066 bytes on).
    pub const MESSAGE_BYTES_MAX: usize = 63 * 255,
        Counts("the rest of a message, as event `too_long_reassembly`");

    /// Points of a message (Suricata's default, `max-points`).
    pub const POINTS_MAX: u64 = 16_384,
        Counts("objects with more points, as event `too_many_points`");

    /// Points that the records of a flow list, in addition to one for each byte of its frames: a record has some 36 bytes for
    /// each, a frame of 290 bytes may hold 1,880 packed ones, and the largest message of a device is listed whole. A point that
    /// is not packed takes a byte or more.
    pub const LISTED_POINTS_MAX: u64 = 16_384,
        Loses("points in records, of a flow whose messages have more of them than one for each byte of its frames");

    /// Objects of a message (Suricata's default, `max-objects`).
    pub const OBJECTS_MAX: u64 = 2_048,
        Counts("further objects, as event `too_many_objects`");

    /// Bytes of a text that goes up to the end of its point (Suricata 8.0.7 takes no longer ones).
    pub const REST_TEXT_MAX: usize = 255,
        Counts("points with a longer text, as event `unknown_object`");
}
