//! Limits of the DNS parser.

use gabion_record::limits;

limits! { "proto.dns";
    /// Bytes of an assembled name; longer ones are cut and flagged (Suricata's and dnsmasq's figure;
    /// the standard allows 255).
    pub const NAME_BYTES_MAX: usize = 1025,
        Counts("names, cut and flagged in the record as Suricata does");

    /// Labels and pointers followed in one name (Suricata's figure).
    pub const NAME_STEPS_MAX: usize = 255,
        Counts("names, cut and flagged in the record as Suricata does");

    /// Bytes of names and data kept of one message. Compression can blow 64 KiB up to megabytes; names
    /// beyond this are kept empty and flagged as too long.
    pub const ARENA_BYTES_MAX: usize = 1024 * 1024,
        Loses("names and data of a message");

    /// Strings of TXT records kept of one message: as many as the largest message can hold.
    pub const TXT_STRINGS_MAX: usize = 65_536,
        Spares("the largest message holds no more");

    /// Live transactions of a flow; the oldest goes when there are more. A TCP segment can carry some
    /// thousand messages, and the engine frees them only after it.
    pub const TXS_PER_FLOW_MAX: usize = 8192,
        Loses("the oldest transaction of a flow");
}
