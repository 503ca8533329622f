//! Limits of HTTP/2, each with its reason.

use gabion_record::limits;

/// Bytes that a side may have decoded of indices for each byte of the connection's frames, in addition to
/// [`DECODED_BYTES_MAX`].
pub(crate) const DECODED_BYTES_FROM_ONE: u64 = 8;

/// Bytes of a connection's frames, of both sides, for each transaction beyond [`SHORT_STREAMS_MAX`]; a request of as many
/// is a transaction however many there are. A request and its answer are longer together;
/// a packet of 116 requests of 12 bytes each would cost what 140 ordinary packets cost.
pub(crate) const BYTES_OF_STREAM: u64 = 80;

limits! { "proto.http2";
    /// Streams, and frames of the whole connection, that begin with a frame of fewer than 80 bytes, in addition to one for
    /// each 80 bytes of the connection's frames.
    pub const SHORT_STREAMS_MAX: u64 = 128,
        Loses("streams that begin with a frame of fewer than 80 bytes, of a flow with more of them than one for each 80 bytes, and their answers: event `too_many_streams`");

    /// Live transactions of a flow (Suricata's `max-streams`).
    pub const STREAMS_MAX: u64 = 4096,
        Counts("the connection, as event `too_many_streams`");

    /// Bytes of a dynamic table that are kept (Suricata's `max-table-size`): of a larger one the first entries.
    pub const TABLE_BYTES_MAX: u64 = 65_536,
        Counts("further entries of the table, as event `header_table_overflow`");

    /// Bytes of a header block in several frames (Suricata's `max-reassembly-size`).
    pub const REASSEMBLY_BYTES_MAX: u64 = 102_400,
        Counts("the header block, as event `reassembly_limit_reached`");

    /// Frames of a transaction that rules and records know (Suricata's `max-frames`).
    pub const FRAMES_MAX: u64 = 65_536,
        Counts("further frames of a transaction, as event `too_many_frames`");

    /// Bytes that a body may unpack to although it packs that well (Suricata's `compression-bomb-limit`).
    pub const BOMB_BYTES_MAX: u64 = 1 << 20,
        Counts("the end of a body, as event `compression_bomb`");

    /// Bytes that a side may have decoded of indices of the header tables, in addition to 8 for each byte of the connection's
    /// frames; each field counts 32 bytes more (RFC 9113 6.5.2). A byte may stand for an entry of 64 KiB.
    pub const DECODED_BYTES_MAX: u64 = 1 << 18,
        Loses("fields given by an index that stand for more than their flow may have decoded");

    /// Bytes of a frame that is waited for; of a longer one the data is taken as it comes (as Suricata, which
    /// takes what is there then).
    pub const WHOLE_FRAME_BYTES_MAX: usize = 65_535,
        Counts("the frame, as event `long_frame_data`");

    /// Bytes of a DNS message in a body: more than one can have (RFC 1035 4.2.2).
    pub const DNS_BYTES_MAX: usize = 65_535,
        Counts("the message, as events `dns_request_too_long` and `dns_response_too_long`");

    /// Numbers of window updates of a transaction, each kept once.
    pub const WINDOWS_MAX: usize = 256,
        Loses("numbers of window updates of a transaction");

    /// Settings of a transaction: as many as the largest frame that is waited for has.
    pub const SETTINGS_MAX: usize = 10_922,
        Loses("settings of a transaction");
}
