//! Limits of SNMP, each with its reason.

use gabion_record::limits;

limits! { "proto.snmp";
    /// Variables kept of a message: as many as the largest datagram can hold.
    pub const VARIABLES_MAX: usize = 16 * 1024,
        Spares("the largest message holds no more");
}
