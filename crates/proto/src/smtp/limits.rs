//! Limits of the SMTP and MIME parsers.

/// Bytes of a command, a reply or a header line; what is longer is cut and raises `truncated_line`
/// (the peer's figure; RFC 5321 allows 512, RFC 5322 998). Body lines are not cut but taken in
/// pieces of this size.
pub const LINE_BYTES_MAX: usize = 4096;

/// Live transactions of a flow; the oldest goes when there are more. A segment of pipelined
/// `RSET` lines can start some hundred before the engine frees any.
pub const TXS_PER_FLOW_MAX: usize = 1024;

/// Commands that wait for their replies; later ones are not matched (the peer's list ends at the
/// range of 16 bits; servers answer long before).
pub const COMMANDS_WAITING_MAX: usize = 4096;

/// Recipients kept of a transaction (RFC 5321 4.5.3.1.8: servers must take 100).
pub const RECIPIENTS_MAX: usize = 4096;

/// Header fields kept of a message, and of each of its parts while it is read.
pub const HEADERS_MAX: usize = 1024;

/// Bytes of a header value that folded lines may add up to. The configured depth bounds each line
/// only, as in the peer.
pub const HEADER_VALUE_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a header name from which on it raises an event (the peer's figure).
pub const HEADER_NAME_BYTES_MAX: usize = 75;

/// Bytes of a file name kept (the peer's figure).
pub const FILE_NAME_BYTES_MAX: usize = 255;

/// Bytes of a boundary kept (the peer's figure; RFC 2046 allows 70).
pub const BOUNDARY_BYTES_MAX: usize = 254;

/// Boundaries that may be open at a time: nesting of multiparts. Deeper parts are read as text of
/// the innermost.
pub const NESTING_MAX: usize = 256;

/// Parameters of a header value looked at (`filename*0` to `filename*N`).
pub const PARAMETERS_MAX: usize = 256;

/// Bytes of a line beyond which it raises `mime_long_line` (RFC 5322 2.1.1).
pub const TEXT_LINE_MAX: usize = 998;

/// Bytes of an encoded line beyond which it raises `mime_long_enc_line` (RFC 2045 6.7 and 6.8).
pub const ENCODED_LINE_MAX: usize = 76;

/// Names of attachments kept of a message.
pub const ATTACHMENTS_MAX: usize = 1024;

/// URLs kept of a message, and their bytes in all.
pub const URLS_MAX: usize = 1024;
/// See [`URLS_MAX`].
pub const URL_BYTES_MAX: usize = 256 * 1024;

/// Decoded text kept while its line end is awaited, for URLs that an encoded line breaks in two.
pub const TEXT_PENDING_MAX: usize = 4096;
