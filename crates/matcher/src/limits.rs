//! Every limit of this crate, with the reason for its value.

/// Bytes at the start (or end) of an anchored pattern that its lookup key covers at most; keys
/// need more only where many patterns share that much.
pub const ANCHOR_KEY_MAX: usize = 64;

/// Anchored patterns that may share one lookup key; further ones go to the gram filter, which
/// tells them apart by another part of theirs.
pub const ANCHOR_SHARED_MAX: usize = 8;

/// Anchored patterns of one side that are compared one by one: cheaper than any lookup.
pub const ANCHOR_FEW: usize = 3;

/// Bytes of a pattern among which its gram is chosen: an offset of 12 bits, and far more than it
/// takes to find a rare one.
pub const GRAM_BYTES_MAX: usize = 4096;

/// Smallest bitmap of a gram filter, as a power of two of bits: 512 bytes.
pub const BITMAP_LOG_MIN: u32 = 12;
/// Largest bitmap of a gram filter: 512 KiB, so that it stays within a second-level cache.
pub const BITMAP_LOG_MAX: u32 = 22;

/// Patterns of two bytes that one filter of half bytes holds: three or four in each of its eight
/// groups, beyond which chance hits grow fast.
pub const PAIRS_MAX: usize = 28;

/// Patterns with a gram of which one byte is any that share the bitmap of the others: each takes
/// about 2 KiB bits of it, so that it stays below 128 KiB.
pub const ANY_MAX: usize = 160;

/// Patterns without an anchor that are searched one by one rather than by the gram filter: a
/// single search is cheaper than the filter's pass.
pub const DIRECT_MAX: usize = 2;

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
