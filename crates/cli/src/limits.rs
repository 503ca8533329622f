//! Limits of the program's own readers; those of the engines stand in their crates.

/// Most bytes of a rule file, unpacked when it is packed: six times the largest rule set known
/// (40 MB), so that a packed file of nothing but zeros, or a device, is refused instead of read.
pub(crate) const RULE_FILE_BYTES_MAX: u64 = 256 << 20;

/// zstd: largest window accepted for rules (2^27 = 128 MiB, the format's own recommended bound).
pub(crate) const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// Most bytes of a configuration with all that it includes: Suricata's own is 100 KiB.
pub(crate) const CONFIGURATION_BYTES_MAX: u64 = 64 << 20;

/// Most files of a configuration, each include counted as often as it is met: files that include the
/// next one twice would be 2^30 of them after thirty. Configurations have some ten.
pub(crate) const CONFIGURATION_FILES_MAX: u32 = 1000;

/// Most bytes of a file that a configuration or a rule names and that is read whole (classes,
/// references, thresholds, reputation, whitelists, datasets, hashes, expected alerts): the largest known
/// lists of hashes are some 100 MB.
pub(crate) const NAMED_FILE_BYTES_MAX: u64 = 256 << 20;

/// Most bytes of a database of countries: the largest in use have 250 MB.
pub(crate) const COUNTRIES_BYTES_MAX: u64 = 1 << 30;

/// Most bytes of a list of indicators that comes through a pipe, which is kept in memory; files are read
/// piece by piece.
pub(crate) const PIPED_LIST_BYTES_MAX: u64 = 256 << 20;

/// Most bytes of a list of indicators in a file: larger than all that is known to be bad by a factor of
/// ten, so that a file without an end is one that is cut off and said.
pub(crate) const LIST_BYTES_MAX: u64 = 16 << 30;
