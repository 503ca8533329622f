//! Limits of the HTTP/1 parser, each with its reason. Those that the configuration may change are in
//! `settings`; these are the ones it may not.

use gabion_record::limits;

/// Output of a decoder handed on at a time: small enough that a bomb is noticed early.
pub(crate) const DECODED_PIECE_BYTES: usize = 8 * 1024;

/// Bytes that a flow may have unpacked for each packed byte that it sent, all layers together, in addition to
/// [`UNPACKED_BYTES_MAX`]. Text unpacks to some tens of bytes at most; a full packet then costs no more than thirty
/// ordinary ones.
pub(crate) const UNPACKED_BYTES_FROM_ONE: u64 = 64;

/// Bits of brotli's windows: the smallest that a larger one is cut to, and the largest there is.
pub(crate) const BROTLI_WINDOW_BITS_MIN: u8 = 18;
/// See above (RFC 7932 9.1).
pub(crate) const BROTLI_WINDOW_BITS_MAX: u8 = 24;

/// Input of a brotli stream that is kept until its flow has sent enough for the stream's window: the largest, 16 MiB,
/// is earned by then (see [`UNPACKED_BYTES_FROM_ONE`]).
pub(crate) const BROTLI_KEPT_BYTES_MAX: usize = 256 << 10;

/// Bytes that a decoder of deflate data takes: its window of 32 KiB, and tables.
pub(crate) const INFLATE_BYTES: usize = 44 << 10;

/// Bytes that a decoder of brotli takes in addition to its window, for tables of codes above all.
pub(crate) const BROTLI_STATE_BYTES: usize = 64 << 10;

/// Length of a header that names the client of a proxy (Suricata's `XFF_CHAIN_MINLEN`, `XFF_CHAIN_MAXLEN`).
pub(crate) const FORWARDED_LEN: std::ops::Range<usize> = 7..256;

limits! { "proto.http1";
    /// Bytes that a flow may have unpacked in addition to 64 for each packed byte that it sent: more than the
    /// default limits of bodies let anybody see. (A window of brotli holds 16 bytes less than a power of
    /// two.)
    pub(crate) const UNPACKED_BYTES_MAX: u64 = (256 << 10) - 16,
        Loses("the end of a body that unpacks to more than its flow may have unpacked");

    /// Output to input ratio above which a large body is a bomb: only lzma reaches it (Suricata's number).
    pub(crate) const BOMB_RATIO_MAX: u64 = 2048,
        Counts("the end of a body, as event `compression_bomb`");

    /// Lines of a header block taken before it is examined again: a folded field is walked again each
    /// time, and what is after the block's end is copied for nothing.
    pub(crate) const LINES_AT_ONCE_MAX: usize = 64,
        Spares("the further lines are taken with the next examination");

    /// Bytes of a header block (request or response, trailers included) that are kept. Single fields
    /// are bound by the configurable field limit and their number by the headers limit; this bounds
    /// the product of the two, which would be 18 MB.
    pub(crate) const HEADER_BLOCK_BYTES_MAX: usize = 1 << 20,
        Counts("the message, as events `request_field_too_long` and `response_field_too_long`");

    /// Lines a field value may be folded over. A line more is read as the next field, so that a block
    /// of nothing but folds costs linear time (Suricata's number).
    pub(crate) const FOLDS_MAX: usize = 128,
        Spares("a line more is read as the next field, as Suricata does");

    /// Repetitions of fields that are joined to the first one of their name in one message; further
    /// ones are ignored (Suricata's number), which bounds the copying.
    pub(crate) const REPETITIONS_MAX: u16 = 64,
        Loses("repeated fields that are joined");

    /// White space a request line without protocol may be followed by and still be HTTP/0.9.
    pub(crate) const HTTP09_SPACE_MAX: usize = 16,
        Spares("the line is read as one of a later version, as Suricata does");

    /// Largest chunk of a chunked body that is believed (31 bits, as Suricata).
    pub(crate) const CHUNK_BYTES_MAX: u64 = i32::MAX as u64,
        Counts("the length of a chunk, as events `invalid_request_chunk_len` and `invalid_response_chunk_len`");

    /// Bytes of body a message keeps that no rule has asked for, when its body limit is "unlimited":
    /// enough for the first inspection window of a rule that asks late.
    pub(crate) const UNREAD_BODY_BYTES_MAX: usize = 256 * 1024,
        Spares("what no rule has asked for by then is released");

    /// Bytes of a file's name that are kept (Suricata's limit; beyond it an event).
    pub(crate) const FILE_NAME_BYTES_MAX: usize = 65535,
        Counts("the end of a file name, as event `file_name_too_long`");

    /// Undecodable input kept at the head of an encoded body while its true encoding is looked for.
    pub(crate) const ENCODING_HEAD_BYTES_MAX: usize = 64 * 1024,
        Spares("the body is decoded by the encoding that was chosen by then");

    /// Encodings over one another that are undone, whatever the configuration allows: each takes some ten KiB of the
    /// stack while it works, and 44 KiB of memory. Suricata's default is 2.
    pub(crate) const ENCODING_LAYERS_MAX: u32 = 32,
        Counts("further encodings, as event `too_many_encoding_layers`");

    /// Times another encoding is tried before the body is taken as it is.
    pub(crate) const ENCODING_RETRIES_MAX: u8 = 3,
        Spares("the body is taken as it is");

    /// Bytes a multipart boundary may have (RFC 2046 5.1.1).
    pub(crate) const BOUNDARY_BYTES_MAX: usize = 70,
        Loses("the parts of a body whose boundary is longer");

    /// Bytes of one part's header block.
    pub(crate) const PART_HEADER_BYTES_MAX: usize = 16 * 1024,
        Counts("the header of a part, as event `multipart_invalid_header`");

    /// Warnings of a flow after which one more is raised and no further recorded (Suricata's number).
    pub(crate) const WARNINGS_MAX: u32 = 512,
        Counts("events of a flow, as event `too_many_warnings`");

    /// Transactions of a flow kept to be used again.
    pub(crate) const SPARE_MAX: usize = 4,
        Spares("further ones are allocated");

    /// Bytes that such a transaction may hold.
    pub(crate) const SPARE_BYTES_MAX: usize = 64 * 1024,
        Spares("a larger one is freed, and a new one allocated");

    /// Bytes made of a Flash file, whatever it says and the configuration allows.
    pub(crate) const FLASH_BYTES_MAX: usize = 16 << 20,
        Loses("the end of an unpacked Flash file");
}
