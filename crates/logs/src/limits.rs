//! Every limit of log intake, with its reason. Reaching one is counted where it is reached.

/// Bytes of a message that are kept; the rest is cut and flagged. rsyslog keeps 8 KiB, syslog-ng
/// 64 KiB: cutting less than either peer would be the worse evidence.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// The largest count that octet counting may state. Above it the digits are text: a sender whose
/// lines begin with a number must not make the receiver swallow what follows.
pub const OCTET_COUNT_MAX: u64 = 1024 * 1024;

/// Digits of a count, as syslog-ng allows.
pub const OCTET_COUNT_DIGITS_MAX: usize = 10;

/// Digits of RELP's transaction number and data length.
pub const RELP_NUMBER_DIGITS_MAX: usize = 9;

/// Letters of a RELP command.
pub const RELP_COMMAND_MAX: usize = 32;

/// Data of a RELP frame, librelp's default limit.
pub const RELP_DATA_MAX: usize = 128 * 1024;

/// The largest transaction number; the next one is 1.
pub const RELP_TXNR_MAX: u32 = 999_999_999;

/// Unanswered RELP frames behind which a connection is not read any more. librelp's clients stop
/// at 128 on their own.
pub const RELP_WINDOW: usize = 1024;

/// Structured data elements and parameters that a reader hands out; more stay in the raw bytes.
pub const SD_PARAMS_MAX: usize = 256;

/// Bytes that a `z`-packed body (rsyslog's extension) may grow to.
pub const UNPACKED_MAX: usize = 64 * 1024;

/// Bytes of a slog envelope. slog reads 2,048 by default; the largest line of 64 KiB in hex and a
/// wrapped key of 8,192 bits stay below this.
pub const ENVELOPE_BYTES_MAX: usize = 160 * 1024;

/// Envelopes that the replay window remembers: 28 MiB, taken at the start.
pub const REPLAY_ENVELOPES_MAX: usize = 1_000_000;

/// How long an envelope is remembered: a day, in seconds.
pub const REPLAY_AGE_S: u32 = 24 * 3600;

/// Bytes of a slog configuration file.
pub const CONFIG_BYTES_MAX: usize = 1024 * 1024;

/// Sources that a fair queue tells apart; further ones share one place.
pub const QUEUE_SOURCES_MAX: usize = 4096;

/// What a source may send on in one turn of the fair queue, bytes.
pub const QUEUE_QUANTUM: usize = 16 * 1024;

/// Senders whose sequence numbers (`meta sequenceId`) are followed; the one heard of longest ago
/// makes room.
pub const SEQUENCES_MAX: usize = 4096;
