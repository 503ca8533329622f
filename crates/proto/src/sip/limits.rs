//! Limits of the SIP parser.

/// Bytes of start line and headers that are waited for on a stream; a longer head ends it. A
/// datagram can't be longer.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a body that are read; what follows is passed over. A megabyte is ten times what a
/// description of any conference takes.
pub const BODY_BYTES_MAX: usize = 256 * 1024;

/// Values kept of the headers that rules ask for (a head of 64 KiB could carry ten thousand).
pub const HEADERS_KEPT_MAX: usize = 256;

/// Lines of one kind kept of a description or of one of its media.
pub const LINES_KEPT_MAX: usize = 1024;

/// Media kept of a description.
pub const MEDIA_KEPT_MAX: usize = 256;

/// Live transactions of a flow; the oldest goes when there are more. The smallest message takes 18
/// bytes, and the engine frees transactions only behind the piece of input they came with.
pub const TXS_PER_FLOW_MAX: usize = 4096;
