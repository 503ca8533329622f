//! What DHCP offers to rules.

use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{EventDef, Hook, IntegerDef, IntegerWidth, ProtoTable, Transport};

/// Integers by their numbers.
pub(super) mod integer {
    pub(crate) const LEASE_TIME: u16 = 0;
    pub(crate) const RENEWAL_TIME: u16 = 1;
    pub(crate) const REBINDING_TIME: u16 = 2;
}

/// Events by their codes.
pub(super) mod event {
    pub(crate) const TRUNCATED_OPTIONS: u16 = 0;
    pub(crate) const MALFORMED_OPTIONS: u16 = 1;
}

const fn both(local: u16) -> [Hook; 2] {
    [Hook::new(ToServer, 0, local), Hook::new(ToClient, 0, local)]
}

const fn seconds(name: &'static str, hooks: &'static [Hook]) -> IntegerDef {
    IntegerDef { name, width: IntegerWidth::U64, hooks, ..IntegerDef::PLAIN }
}

/// What DHCP offers.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["dhcp"],
    integers: &[
        seconds("dhcp.leasetime", &both(integer::LEASE_TIME)),
        seconds("dhcp.renewal_time", &both(integer::RENEWAL_TIME)),
        seconds("dhcp.rebinding_time", &both(integer::REBINDING_TIME)),
    ],
    events: &[
        EventDef { name: "truncated_options", code: event::TRUNCATED_OPTIONS },
        EventDef { name: "malformed_options", code: event::MALFORMED_OPTIONS },
    ],
    ..ProtoTable::of_requests("dhcp", &[Transport::Udp])
};
