//! Limits of the program's own readers; those of the engines stand in their crates.

/// Most bytes of a rule file, unpacked when it is packed: six times the largest rule set known
/// (40 MB), so that a packed file of nothing but zeros, or a device, is refused instead of read.
pub(crate) const RULE_FILE_BYTES_MAX: u64 = 256 << 20;

/// zstd: largest window accepted for rules (2^27 = 128 MiB, the format's own recommended bound).
pub(crate) const ZSTD_WINDOW_LOG_MAX: u32 = 27;
