//! Every limit of this crate, with the reason for its value.

/// Labels of a name that are looked up, counted from its end. RFC 1035 allows 127 in 255 bytes;
/// the deepest names in rule sets have eight, and each label costs a lookup.
pub const NAME_LABELS_MAX: usize = 32;

/// Bytes of a name that are looked at, counted from its end: RFC 1035's 255, with room for the
/// host headers that carry longer ones.
pub const NAME_BYTES_MAX: usize = 512;

/// Verifications that every buffer may cost before it counts as overloaded ([`crate::Scan`]).
pub const VERIFY_BASE: u32 = 8;

/// One further verification for so many bytes of the buffer.
pub const VERIFY_BYTES_EACH: u32 = 16;

/// Backtracking steps of one regular expression search; the peer's built-in value.
pub const REGEX_MATCH_LIMIT: u32 = 3500;

/// Nested backtracking points of one search; the peer's built-in value.
pub const REGEX_DEPTH_LIMIT: u32 = 1500;

/// Heap for backtracking frames of the interpreter in KiB: depth limit times the largest frame
/// seen in rule sets (about 1 KiB), rounded up.
pub const REGEX_HEAP_KIB: u32 = 4096;

/// Stack of compiled expressions, at the start of a worker and at most: the library's own advice
/// (32 KiB suffices for nearly all, 512 KiB to 1 MiB is "more than enough").
pub const REGEX_JIT_STACK_START: usize = 32 * 1024;
/// See [`REGEX_JIT_STACK_START`].
pub const REGEX_JIT_STACK_MAX: usize = 512 * 1024;

/// Compiled size of an expression in the linear-time net, in bytes; above it the net declines.
pub const REGEX_NET_BYTES_MAX: usize = 4 << 20;
