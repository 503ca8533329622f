//! Limits of the example protocol.

use gabion_record::limits;

limits! { "proto.template";
    /// Live transactions of a flow: each is small, and the engine frees one when it is logged.
    pub const TXS_MAX: usize = 256,
        Loses("the oldest transaction of a flow");
}
