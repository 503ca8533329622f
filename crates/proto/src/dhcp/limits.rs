//! Limits of DHCP, each with its reason.

use gabion_record::limits;

limits! { "proto.dhcp";
    /// Options kept of a message: as many as the largest datagram can hold.
    pub const OPTIONS_MAX: usize = 32 * 1024,
        Spares("the largest message holds no more");
}
