//! Every limit of this crate, each with its reason. Reaching one is a counted skip.

/// Longest line read, bytes. Zeek's longest real lines (x509.log with hundreds of names) are below
/// 64 KiB; a "line" of more is no log.
pub const LINE_MAX: usize = 1 << 20;

/// Bytes taken from a file at a time: large enough that a system call a chunk costs nothing, small
/// enough that hundreds of open files fit into any budget.
pub const CHUNK: usize = 128 << 10;

/// Headers of one file. A rotated file that was put together of a day's parts has a few dozen.
pub const LAYOUTS_MAX: usize = 4096;

/// Columns of a header that are looked at. The widest log of Zeek (notice.log) has 28.
pub const COLUMNS_MAX: usize = 256;

/// Nesting of JSON that is walked; EVE needs 3.
pub const JSON_DEPTH_MAX: usize = 64;

/// Skips of which line numbers are kept per file and reason, so that a person finds them; the rest
/// is counted.
pub const SKIP_LINES_KEPT: usize = 3;

/// Bytes that a compressed log may become for each of its own read so far, beyond the first mebibyte;
/// logs pack 10 to 30 fold, so more is a bomb.
pub const EXPANSION_MAX: u64 = 2_000;

/// Templates of NetFlow v9 and IPFIX kept, over all exporters. A busy collector sees some hundred.
pub const TEMPLATES_MAX: usize = 4096;

/// Exporters whose sequence numbers are kept. Beyond it all are forgotten once: gaps of one datagram
/// each are then not counted.
pub const EXPORTERS_MAX: usize = 4096;

/// Fields of a template. Real ones have up to 60.
pub const TEMPLATE_FIELDS_MAX: usize = 512;

/// Records that are given out together where they stand in order already: so many that who takes them
/// can look at all their sources before the first is worked on, so few that they stay in the nearest
/// cache.
pub const TOGETHER: usize = 8;
