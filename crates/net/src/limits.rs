//! Limits of the engine.

/// Alerts of one packet that are written (`packet-alert-max`), unless configured.
pub const PACKET_ALERTS_MAX: usize = 15;

/// Announced flows that wait at most; the oldest go first.
pub const EXPECTATIONS_MAX: usize = 65_536;

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
