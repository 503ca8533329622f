//! Limits of LDAP, each with its reason.

use gabion_record::limits;

limits! { "proto.ldap";
    /// Filters within filters of a search (Suricata 8.0.7 reads 31 and refuses 32).
    pub const FILTER_DEPTH_MAX: usize = 31,
        Refuses("the message, as event `invalid_data`");

    /// Live transactions of a flow before all are closed and the flow is not followed any more (Suricata 8.0.7 does so
    /// with the 258th, although its configuration file names 1,024 as the default of `max-tx`).
    pub const OPEN_TXS_MAX: u64 = 256,
        Counts("open transactions closed, as event `too_many_transactions`");

    /// Responses of a request (Suricata's default, `max-responses`).
    pub const RESPONSES_MAX: u64 = 1024,
        Counts("further responses, as event `too_many_responses`");

    /// Bytes of messages that a flow's transactions hold before responses are no longer kept: 1,024 requests with
    /// 1,024 responses each could hold any amount.
    pub const HELD_BYTES_MAX: usize = 8 * 1024 * 1024,
        Counts("further responses, as event `too_many_responses`");
}
