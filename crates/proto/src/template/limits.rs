//! Limits of the example protocol.

use gabion_record::limits;

/// Digits of a message's length: with more it is longer than anything that is waited for.
pub(crate) const LENGTH_DIGITS: usize = 5;

limits! { "proto.template";
    /// Live transactions of a flow, as in Suricata: with this many the flow is not parsed any further.
    pub const TXS_MAX: usize = 256,
        Loses("the rest of a flow");
}
