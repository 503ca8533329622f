//! Limits of Kerberos, each with its reason.

use gabion_record::limits;

limits! { "proto.krb5";
    /// Largest record over TCP that is read: what a stream holds back for a parser that waits. Tickets with many
    /// groups have some 64 KiB.
    pub const RECORD_BYTES_MAX: usize = 1024 * 1024 - 8,
        Loses("a record, which is skipped");

    /// Parts of a name that are kept: names have one or two.
    pub const NAME_PARTS_MAX: usize = 64,
        Loses("parts of a name");

    /// Live transactions of a flow: the engine frees one with the segment it came in, unless its record waits.
    pub const TXS_MAX: usize = 1024,
        Loses("the oldest transaction of a flow");
}
