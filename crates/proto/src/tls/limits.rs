//! Limits of the TLS parser.

/// Largest record taken: 2^14 and the 1,024 that compression may add in SSL 3.0 to TLS 1.1 (the
/// peer's limit; longer ones end the direction).
pub const RECORD_BYTES_MAX: usize = (1 << 14) + 1024;

/// Largest handshake message put together over records. Longer ones are skipped; certificate chains
/// stay well below.
pub const HANDSHAKE_BYTES_MAX: usize = 128 * 1024;

/// Largest certificate that is read (a few KiB is usual).
pub const CERT_BYTES_MAX: usize = 64 * 1024;

/// Certificates of a chain that are kept.
pub const CHAIN_CERTS_MAX: usize = 16;

/// Values kept of each list of a hello (ciphers, extensions, groups, algorithms). JA4 stops
/// counting at 99; a record full of them would hold 8,000, and repeated hellos any number.
pub const HELLO_LIST_MAX: usize = 16 * 1024;

/// Protocol names of ALPN that are kept for each side.
pub const ALPN_MAX: usize = 64;

/// Names of a certificate (subjectAltName) that are kept.
pub const ALT_NAMES_MAX: usize = 1024;

/// Longest SSL 2.0 record taken whole (the header allows 32,767).
pub const SSLV2_RECORD_BYTES_MAX: usize = 32 * 1024;
