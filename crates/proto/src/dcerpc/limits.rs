//! Limits of DCE/RPC, each with its reason.

use gabion_record::limits;

limits! { "proto.dcerpc";
    /// Interfaces of a bind, and decisions of its answer: as many as their number, a byte, can say.
    pub const INTERFACES_PER_BIND_MAX: usize = 255,
        Spares("a message holds no more");

    /// Contexts of an association that calls may name: a client that alters its context again and again
    /// adds some each time. Suricata sets no bound; Windows uses some dozens.
    pub const CONTEXTS_MAX: usize = 256,
        Loses("further contexts of an association");

    /// Live transactions of a flow before one more ends the wait of the oldest (Suricata's default,
    /// `max-tx`).
    pub const OPEN_TXS_MAX: u64 = 1024,
        Loses("the wait for what the oldest transaction of a flow lacks, which is logged as it is");

    /// Live transactions of a flow, done or not: the engine frees those that are done only after the
    /// piece of input they came with, and 64 KiB hold some 2,700 calls.
    pub const TXS_PER_FLOW_MAX: usize = 8 * 1024,
        Loses("the oldest transaction of a flow");

    /// Bytes of stub data kept of a call, and of its answer (Suricata's default, `max-stub-size`).
    pub const STUB_BYTES_MAX: u64 = 1024 * 1024,
        Loses("the end of the stub data of a call or answer");
}
