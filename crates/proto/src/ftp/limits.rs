//! Limits of the FTP parsers.

use gabion_record::limits;

limits! { "proto.ftp";
    /// Bytes of a command or reply line, line end included, unless configured; longer ones are cut
    /// (Suricata's figure).
    pub const LINE_BYTES_MAX: usize = 4096,
        Counts("lines, cut and marked so in the record as Suricata does");

    /// Live transactions of a flow, unless configured; one more ends the flow's parsing (Suricata's
    /// figure).
    pub const TXS_PER_FLOW_MAX: u64 = 1024,
        Counts("commands without a transaction, as event `too_many_transactions`");

    /// Reply lines kept of a transaction: a server can stay preliminary for ever, and no answer that a
    /// person reads has as many.
    pub const REPLIES_MAX: usize = 512,
        Loses("reply lines of a command");

    /// Bytes of reply lines kept of a transaction.
    pub const REPLY_BYTES_MAX: usize = 256 * 1024,
        Loses("reply lines of a command");

    /// Most a configuration may ask for as a line's limit: a line is held whole until it ends.
    pub const CONFIGURED_LINE_MAX: u64 = 1024 * 1024,
        Spares("a larger setting counts as this one");
}
