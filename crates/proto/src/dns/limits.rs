//! Limits of the DNS parser.

/// Bytes of an assembled name; longer ones are cut and flagged (the peer's and dnsmasq's figure;
/// the standard allows 255).
pub const NAME_BYTES_MAX: usize = 1025;

/// Labels and pointers followed in one name (the peer's figure).
pub const NAME_STEPS_MAX: usize = 255;

/// Bytes of names and data kept of one message. Compression can blow 64 KiB up to megabytes; names
/// beyond this are kept empty and flagged as too long.
pub const ARENA_BYTES_MAX: usize = 1024 * 1024;

/// Strings of TXT records kept of one message (a message of empty strings would have 65,000, each
/// a row of the log).
pub const TXT_STRINGS_MAX: usize = 4096;

/// Live transactions of a flow; the oldest goes when there are more. A TCP segment can carry some
/// thousand messages, and the engine frees them only after it.
pub const TXS_PER_FLOW_MAX: usize = 8192;
