//! Limits of IKE, each with its reason.

use gabion_record::limits;

limits! { "proto.ike";
    /// Payloads of a message that are read: messages have a dozen, and each takes four bytes.
    pub const PAYLOADS_MAX: usize = 1024,
        Loses("payloads of a message");

    /// Transforms of a message that are kept: peers offer some dozens.
    pub const TRANSFORMS_MAX: usize = 256,
        Loses("transforms of a message");
}
