//! Limits of the SSH parser.

use gabion_record::limits;

limits! { "proto.ssh";
    /// Bytes of an identification line taken in the regular way (RFC 4253 4.2 allows 255 with its end);
    /// longer ones are an event.
    pub const BANNER_BYTES_MAX: usize = 256,
        Counts("event `long_banner`; more of it is kept, see below");

    /// Bytes of an identification line that are kept when it is longer: enough for what is logged,
    /// and for rules to look at.
    pub const LONG_BANNER_BYTES_MAX: usize = 2048,
        Counts("the end of an identification line, as event `long_banner`");

    /// Largest key exchange record put together for hassh (Suricata's figure).
    pub const KEX_BYTES_MAX: usize = 65_535,
        Counts("a key exchange without hassh, as event `long_kex_record`");

    /// Bytes of hassh texts kept of one side: repeated key exchanges add up.
    pub const HASSH_BYTES_MAX: usize = 128 * 1024,
        Loses("hassh of further key exchanges");

    /// Bytes of a version that are logged: Suricata's own.
    pub const LOGGED_MAX: usize = 256,
        Counts("the end of a version; the record says how many bytes it left out");
}
