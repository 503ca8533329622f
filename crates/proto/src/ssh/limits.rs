//! Limits of the SSH parser.

/// Bytes of an identification line taken in the regular way (RFC 4253 4.2 allows 255 with its end);
/// longer ones are an event.
pub const BANNER_BYTES_MAX: usize = 256;

/// Bytes of an identification line that are kept when it is longer: enough for what is logged,
/// and for rules to look at.
pub const LONG_BANNER_BYTES_MAX: usize = 2048;

/// Largest key exchange record put together for hassh (the peer's figure).
pub const KEX_BYTES_MAX: usize = 65_535;

/// Bytes of hassh texts kept of one side: repeated key exchanges add up.
pub const HASSH_BYTES_MAX: usize = 128 * 1024;
