//! Limits of the TLS parser.

use gabion_record::limits;

limits! { "proto.tls";
    /// Largest record taken: 2^14 and the 1,024 that compression may add in SSL 3.0 to TLS 1.1
    /// (Suricata's limit; longer ones end the direction).
    pub const RECORD_BYTES_MAX: usize = (1 << 14) + 1024,
        Counts("the rest of a direction, as event `invalid_record_length`");

    /// Largest handshake message put together over records: as many bytes as are reassembled of a stream by default.
    /// Longer ones are skipped; certificate chains stay well below.
    pub const HANDSHAKE_BYTES_MAX: usize = 1024 * 1024,
        Loses("a handshake message");

    /// Longest text of a rule that is taken for a date: Suricata 8.0.7 has a buffer of 20 bytes.
    pub const DATE_BYTES_MAX: usize = 19,
        Refuses("a rule with a longer date");

    /// Largest certificate that is read (a few KiB is usual): one that fills the largest handshake message.
    pub const CERT_BYTES_MAX: usize = HANDSHAKE_BYTES_MAX,
        Counts("a certificate, as event `invalid_certificate`");

    /// Certificates of a chain that are kept: as many as a handshake message of the largest size can
    /// hold.
    pub const CHAIN_CERTS_MAX: usize = 32 * 1024,
        Spares("the largest message holds no more");

    /// Values kept of each list of a hello (ciphers, extensions, groups, algorithms). JA4 stops
    /// counting at 99; a record full of them would hold 8,000, and repeated hellos any number.
    pub const HELLO_LIST_MAX: usize = 16 * 1024,
        Loses("values of a list of a hello");

    /// Protocol names of ALPN that are kept for each side: as many as the largest list can hold.
    pub const ALPN_MAX: usize = 32 * 1024,
        Spares("the largest list holds no more");

    /// Names of a certificate (subjectAltName) that are kept (as in Suricata 8.0.7).
    pub const ALT_NAMES_MAX: usize = 4096,
        Counts("further names of the certificate, as event `too_many_subject_alternative_names`");
}
