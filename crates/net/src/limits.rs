//! Limits of the engine.

/// Alerts of one packet that are written (`packet-alert-max`), unless configured.
pub const PACKET_ALERTS_MAX: usize = 15;

/// Announced flows that wait at most; the oldest go first.
pub const EXPECTATIONS_MAX: usize = 65_536;

/// Files waiting for pieces that are looked at when there is no room for another piece, beside those
/// that are given up: so few that refusing costs no more than taking.
pub const RANGES_LOOKED_AT: usize = 1;

/// Seconds an announced flow is waited for.
pub const EXPECTATION_SECONDS: u64 = 30;

/// Flows ended at a time; then whoever calls may say that it is alive, and goes on.
pub const END_AT_A_TIME: usize = 1_024;

/// Pieces of data behind holes that are inspected at a flow's end.
pub const END_PIECES_MAX: usize = 64;

/// Frames kept per flow and direction: a peer that sends tiny records is not followed beyond.
pub const FRAMES_PER_DIRECTION: usize = 1024;

/// Bytes of a frame that are held whole; of a longer one only what was not inspected.
pub const HOLD_BYTES_MAX: u64 = 64 * 1024;

/// MAC addresses kept per flow and side.
pub const MACS_PER_SIDE: usize = 10;

/// Bytes of a script's state (`security.lua.max-bytes`), unless configured: the peer's.
pub const SCRIPT_BYTES_MAX: u64 = 500_000;

/// Instructions of one run of a script (`security.lua.max-instructions`), unless configured: the
/// peer's.
pub const SCRIPT_INSTRUCTIONS_MAX: u64 = 500_000;

/// Bytes that one substitution of a script may build outside of its state.
pub const SCRIPT_RESULT_BYTES_MAX: u64 = 4 << 20;

/// Bytes that a parser takes before it is weighed again at the earliest: what it holds is then known
/// to some KiB, for a hundredth of what parsing costs.
pub const WEIGH_BYTES: u32 = 4 << 10;

/// Transactions after which it is weighed at the earliest: small ones may hold a hundred times what
/// they came from.
pub const WEIGH_TXS: u64 = 4;

/// Bytes of a line that a script prints, so that no line grows without bound.
pub const SCRIPT_LINE_BYTES_MAX: usize = 64 << 10;

/// Byte variables, flow variables or flow integers that one script may register: the peer's.
pub const SCRIPT_VARIABLES_MAX: usize = 15;

/// Header fields that a script is shown.
pub const SCRIPT_FIELDS_MAX: usize = 1024;

/// Outcomes of scripts' transforms kept while one packet is inspected.
pub const SCRIPT_TRANSFORMED_MAX: usize = 64;

/// Rules in the lists of those that fit addresses and ports, kept per worker from flow to flow: four
/// megabytes. Lists asked for beyond it are made anew.
pub const FITTING_RULES_MAX: usize = 1 << 20;
