//! What SNMP offers to rules.

use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{
    BufferDef, EventDef, Hook, IntegerDef, IntegerWidth, ProtoTable, Transport,
};

/// Types of PDUs by number (RFC 1157, 3416).
pub(super) const PDU_NAMES: &[&str] = &[
    "get_request",
    "get_next_request",
    "response",
    "set_request",
    "trap_v1",
    "get_bulk_request",
    "inform_request",
    "trap_v2",
    "report",
];

/// Notifications of version 1 have a shape of their own.
pub(super) const TRAP_V1: u8 = 4;

/// Tag of an agent's address (RFC 1155 3.2.3.3).
pub(super) const IP_ADDRESS: u8 = 0x40;

/// Generic traps (RFC 1157 4.1.6).
pub(super) const TRAP_NAMES: &[(&str, u64)] = &[
    ("coldStart", 0),
    ("warmStart", 1),
    ("linkDown", 2),
    ("linkUp", 3),
    ("authenticationFailure", 4),
    ("egpNeighborLoss", 5),
    ("enterpriseSpecific", 6),
];

/// Buffers by their numbers.
pub(super) mod buffer {
    pub(crate) const COMMUNITY: u16 = 0;
    pub(crate) const USM: u16 = 1;
}

/// Integers by their numbers.
pub(super) mod integer {
    pub(crate) const VERSION: u16 = 0;
    pub(crate) const PDU_TYPE: u16 = 1;
    pub(crate) const TRAP_TYPE: u16 = 2;
}

/// Events by their codes.
pub(super) mod event {
    pub(crate) const MALFORMED_DATA: u16 = 0;
    pub(crate) const UNKNOWN_SECURITY_MODEL: u16 = 1;
    pub(crate) const VERSION_MISMATCH: u16 = 2;
}

const fn both(local: u16) -> [Hook; 2] {
    [Hook::new(ToServer, 1, local), Hook::new(ToClient, 1, local)]
}

const fn bytes(name: &'static str, description: &'static str, hooks: &'static [Hook]) -> BufferDef {
    BufferDef { name, internal: name, description, hooks, ..BufferDef::PLAIN }
}

const fn number(name: &'static str, hooks: &'static [Hook]) -> IntegerDef {
    IntegerDef { name, width: IntegerWidth::U32, hooks, ..IntegerDef::PLAIN }
}

/// What SNMP offers.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["snmp"],
    buffers: &[
        bytes("snmp.community", "SNMP Community identifier", &both(buffer::COMMUNITY)),
        bytes("snmp.usm", "SNMP USM", &both(buffer::USM)),
    ],
    integers: &[
        number("snmp.version", &both(integer::VERSION)),
        number("snmp.pdu_type", &both(integer::PDU_TYPE)),
        IntegerDef { names: TRAP_NAMES, ..number("snmp.trap_type", &both(integer::TRAP_TYPE)) },
    ],
    events: &[
        EventDef { name: "malformed_data", code: event::MALFORMED_DATA },
        EventDef { name: "unknown_security_model", code: event::UNKNOWN_SECURITY_MODEL },
        EventDef { name: "version_mismatch", code: event::VERSION_MISMATCH },
    ],
    ..ProtoTable::of_requests("snmp", &[Transport::Udp])
};
