//! Limits of PostgreSQL, each with its reason.

use gabion_record::limits;

limits! { "proto.pgsql";
    /// Open transactions of a flow (Suricata's default, `max-tx`): the oldest is closed for the next one.
    pub const OPEN_TXS_MAX: u64 = 1024,
        Counts("open transactions closed, as event `too_many_transactions`");

    /// Messages of a response that are kept (Suricata's default, `max-responses`).
    pub const RESPONSES_MAX: u64 = 64,
        Counts("further messages of the response, as event `too_many_responses`");

    /// Live transactions of a flow, open or not: the engine frees closed ones only after the input that closed them,
    /// and a segment of 64 KiB can hold as many short queries.
    pub const TXS_PER_FLOW_MAX: usize = 16 * 1024,
        Loses("the oldest transaction of a flow");

    /// Parameters kept of a startup message: a client's message may be a megabyte long.
    pub const PARAMETERS_MAX: usize = 1024,
        Loses("parameters");

    /// Bytes of a message by which the protocol is recognized: a longer one is never there as a whole.
    pub const PROBED_BYTES_MAX: usize = 64 * 1024 * 1024,
        Spares("the bytes are those of another protocol");

    /// Bytes of texts that a flow's transactions hold: each of 1,024 open queries may have a megabyte.
    pub const HELD_BYTES_MAX: usize = 8 * 1024 * 1024,
        Loses("texts of messages, which are then logged as empty");
}
