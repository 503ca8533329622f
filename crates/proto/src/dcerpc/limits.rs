//! Limits of DCE/RPC, each with its reason.

use gabion_record::limits;

limits! { "proto.dcerpc";
    /// Interfaces of a bind, and decisions of its answer: as many as their number, a byte, can say.
    pub const INTERFACES_PER_BIND_MAX: usize = 255,
        Spares("a message holds no more");

    /// Contexts of an association that calls may name: a client that alters its context again and again
    /// adds some each time.
    pub const CONTEXTS_MAX: usize = 1024,
        Loses("the oldest context of an association");

    /// Bytes of a message that waits for its end in a pipe: as many as its length, 16 bits, can say.
    pub const PIPE_MESSAGE_BYTES_MAX: usize = 65_535,
        Spares("a message holds no more");
}
