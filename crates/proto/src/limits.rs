//! Limits that several protocols share; each protocol's own stand in its folder.

/// Bytes of unparsed input kept per direction while a parser waits for more (a TLS record is the
/// largest unit anybody waits for whole: 16 KiB and its header, twice for safety).
pub const PENDING_BYTES_MAX: usize = 64 * 1024;

/// Events kept per transaction; further ones are counted only.
pub const EVENTS_PER_TX_MAX: usize = 16;

/// Occurrences of events kept per transaction by protocols that report each (an SMTP session without
/// a greeting reports every line).
pub const EVENT_OCCURRENCES_PER_TX_MAX: usize = 64;

/// Files alive per flow and direction.
pub const FILES_PER_FLOW_MAX: usize = 1024;
