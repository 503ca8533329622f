//! Limits of POP3, each with its reason.

use gabion_record::limits;

limits! { "proto.pop3";
    /// Bytes of a command line with its end (RFC 2449 4 has 255 octets, Suricata 8.0.7 one more). Longer ones
    /// are read all the same.
    pub const REQUEST_BYTES_MAX: usize = 256,
        Counts("long lines, as event `request_too_long`");

    /// Bytes of the first line of a response with its end (RFC 2449 4). Longer ones are read all the same.
    pub const RESPONSE_BYTES_MAX: usize = 512,
        Counts("long lines, as event `response_too_long`");

    /// Bytes of a line that is waited for; a longer one ends the flow. The engine holds twice as much.
    pub const LINE_BYTES_MAX: usize = 32 * 1024,
        Counts("the rest of the flow: the parser ends, as Suricata's does at a line of 64 KiB");

    /// Live transactions of a flow before event `too_many_transactions` (Suricata's default, `max-tx`).
    pub const OPEN_TXS_MAX: u64 = 256,
        Counts("requests whose response is no longer awaited, as event `too_many_transactions`");

    /// Live transactions of a flow, answered or not: the engine frees answered ones only after the
    /// piece of input they came with, and a segment of 64 KiB can hold as many lines.
    pub const TXS_PER_FLOW_MAX: usize = 4 * 1024,
        Loses("the oldest transaction of a flow");

    /// Bytes of the lines kept of a response of several lines. A list of a large mailbox has some
    /// hundred KiB, and the line of a record should stay below a MiB.
    pub const LISTED_BYTES_MAX: usize = 512 * 1024,
        Loses("further lines of a response");
}
