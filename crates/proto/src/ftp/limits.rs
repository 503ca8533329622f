//! Limits of the FTP parsers.

/// Bytes of a command or reply line, line end included, unless configured; longer ones are cut (the
/// peer's figure).
pub const LINE_BYTES_MAX: usize = 4096;

/// Live transactions of a flow, unless configured; one more ends the flow's parsing (the peer's
/// figure).
pub const TXS_PER_FLOW_MAX: u64 = 1024;

/// Reply lines kept of a transaction: a server can stay preliminary for ever.
pub const REPLIES_MAX: usize = 512;

/// Bytes of reply lines kept of a transaction.
pub const REPLY_BYTES_MAX: usize = 256 * 1024;

/// Most a configuration may ask for as a line's limit: a line is held whole until it ends.
pub const CONFIGURED_LINE_MAX: u64 = 1024 * 1024;
