//! The limits of this crate, each with the reason for its value.

/// Bytes at the start (or end) of an anchored pattern that its lookup key may cover; a longer key
/// would help only if many patterns shared this many bytes.
pub const ANCHOR_KEY_MAX: usize = 64;

/// Anchored patterns that may share one lookup key; further ones go to the gram filter, which
/// distinguishes them by other bytes.
pub const ANCHOR_SHARED_MAX: usize = 8;

/// Anchored patterns of one side that are compared one by one, which is cheaper than any lookup.
pub const ANCHOR_FEW: usize = 3;

/// Bytes of a pattern among which its gram is chosen: offsets fit 12 bits, and far fewer bytes are
/// enough to find a rare gram.
pub const GRAM_BYTES_MAX: usize = 4096;

/// Smallest bitmap of a gram filter, as a power of two of bits: 512 bytes.
pub const BITMAP_LOG_MIN: u32 = 12;
/// Largest bitmap of a gram filter: 512 KiB, so that it stays within a second-level cache.
pub const BITMAP_LOG_MAX: u32 = 22;

/// Patterns of two bytes that one filter of half bytes holds: three or four in each of its eight
/// groups, as false hits grow fast beyond that.
pub const PAIRS_MAX: usize = 28;

/// Zeros of a pattern that is searched by runs of zeros; those of rules have two to eight, and longer ones have
/// grams without a wildcard.
pub const ZEROS_MAX: usize = 8;

/// Patterns with a wildcard in their gram that share the bitmap of the others: each takes about
/// 4.5 Ki bits of it, so that it stays below 256 KiB.
pub const ANY_MAX: usize = 160;

/// Patterns without an anchor that are searched one by one and not by the gram filter, as single
/// searches are cheaper than the filter's pass.
pub const DIRECT_MAX: usize = 2;

/// Verifications allowed for every buffer before it counts as overloaded ([`crate::Scan`]).
pub const VERIFY_BASE: u32 = 8;

/// Bytes of the buffer that allow one further verification.
pub const VERIFY_BYTES_EACH: u32 = 16;

/// Backtracking steps of one regular expression search; Suricata's built-in value.
pub const REGEX_MATCH_LIMIT: u32 = 3500;

/// Nested backtracking points of one search; Suricata's built-in value.
pub const REGEX_DEPTH_LIMIT: u32 = 1500;

/// Heap for backtracking frames of the interpreter in KiB: depth limit times the largest frame
/// seen in rule sets (about 1 KiB), rounded up.
pub const REGEX_HEAP_KIB: u32 = 4096;

/// Initial stack of a worker for compiled expressions, in bytes: as PCRE2's documentation advises
/// (32 KiB are enough for nearly all expressions, 512 KiB to 1 MiB are "more than enough").
pub const REGEX_JIT_STACK_START: usize = 32 * 1024;
/// Maximum stack of a worker for compiled expressions; see [`REGEX_JIT_STACK_START`].
pub const REGEX_JIT_STACK_MAX: usize = 512 * 1024;

/// Compiled size of an expression in the linear-time fallback, in bytes; larger ones are not
/// accepted.
pub const REGEX_FALLBACK_BYTES_MAX: usize = 4 << 20;
