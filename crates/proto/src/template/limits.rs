//! Limits of the example protocol.

use gabion_record::limits;

limits! { "proto.template";
    /// Live transactions of a flow, as in Suricata: with this many the flow is not parsed any further.
    pub const TXS_MAX: usize = 256,
        Loses("the rest of a flow");
}
