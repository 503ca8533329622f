//! The limits of the probe, each with its reason.

/// Bytes of a verifier's log that a message shows: its last lines hold the reason, the rest repeats the program.
pub const VERIFIER_LINES_SHOWN: usize = 2;

/// CPUs that the arrays of the instruments have space for; those above are not measured, which is reported once.
pub const CPUS_MEASURED: usize = 1024;
