//! What ENIP offers to rules but its condition, which knows its transactions.

use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{
    BufferDef, EventDef, Hook, IntegerDef, IntegerWidth, ProtoTable, Transport,
};

/// Commands of the encapsulation (CIP volume 2, 2-3).
pub(super) const COMMANDS: &[(&str, u64)] = &[
    ("nop", 0x00),
    ("list_services", 0x04),
    ("list_identity", 0x63),
    ("register_session", 0x65),
    ("unregister_session", 0x66),
    ("send_r_r_data", 0x6f),
    ("send_unit_data", 0x70),
    ("indicate_status", 0x72),
    ("cancel", 0x73),
];

/// States of a command (CIP volume 2, 2-3).
pub(super) const STATUSES: &[(&str, u64)] = &[
    ("success", 0x00),
    ("invalid_cmd", 0x01),
    ("no_resources", 0x02),
    ("incorrect_data", 0x03),
    ("invalid_session", 0x64),
    ("invalid_length", 0x65),
    ("unsupported_prot_rev", 0x69),
    ("encap_header_error", 0x6a),
];

/// The name of a value.
pub(super) fn name_of(names: &[(&'static str, u64)], value: u64) -> Option<&'static str> {
    names.iter().find(|(_, n)| *n == value).map(|(name, _)| *name)
}

/// Events by their codes.
pub(super) mod event {
    pub(crate) const TOO_MANY_TRANSACTIONS: u16 = 0;
    pub(crate) const INVALID_PDU: u16 = 1;
}

/// Frames by their numbers.
pub(super) mod frame {
    pub(crate) const HDR: u8 = 0;
    pub(crate) const DATA: u8 = 1;
    pub(crate) const PDU: u8 = 2;
    pub(crate) const CIP: u8 = 3;
    pub(crate) const ITEM: u8 = 4;
}

/// Buffers by their numbers.
pub(super) mod buffer {
    pub(crate) const PRODUCT_NAME: u16 = 0;
    pub(crate) const SERVICE_NAME: u16 = 1;
}

/// Integers by their numbers.
pub(super) mod integer {
    pub(crate) const COMMAND: u16 = 0;
    pub(crate) const STATUS: u16 = 1;
    pub(crate) const PROTOCOL_VERSION: u16 = 2;
    pub(crate) const CAPABILITIES: u16 = 3;
    pub(crate) const VENDOR: u16 = 4;
    pub(crate) const DEVICE_TYPE: u16 = 5;
    pub(crate) const PRODUCT_CODE: u16 = 6;
    pub(crate) const REVISION: u16 = 7;
    pub(crate) const IDENTITY_STATUS: u16 = 8;
    pub(crate) const SERIAL: u16 = 9;
    pub(crate) const STATE: u16 = 10;
    pub(crate) const CLASS: u16 = 11;
    pub(crate) const INSTANCE: u16 = 12;
    pub(crate) const ATTRIBUTE: u16 = 13;
    pub(crate) const CIP_STATUS: u16 = 14;
    pub(crate) const CIP_EXTENDED_STATUS: u16 = 15;
}

/// Both directions, at once: a message is inspected when it has come.
pub(super) const fn both(local: u16) -> [Hook; 2] {
    [Hook::new(ToServer, 0, local), Hook::new(ToClient, 0, local)]
}

const fn bytes(name: &'static str, description: &'static str, hooks: &'static [Hook]) -> BufferDef {
    BufferDef { name, internal: name, description, hooks, ..BufferDef::PLAIN }
}

const fn number(
    name: &'static str,
    width: IntegerWidth,
    multi: bool,
    hooks: &'static [Hook],
) -> IntegerDef {
    IntegerDef { name, width, multi, hooks, ..IntegerDef::PLAIN }
}

use IntegerWidth::{U8, U16, U32};

/// What ENIP offers but its condition.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["enip"],
    buffers: &[
        bytes("enip.product_name", "ENIP product name", &both(buffer::PRODUCT_NAME)),
        bytes("enip.service_name", "ENIP service name", &both(buffer::SERVICE_NAME)),
    ],
    integers: &[
        IntegerDef {
            names: COMMANDS,
            ..number("enip_command", U16, false, &both(integer::COMMAND))
        },
        IntegerDef { names: STATUSES, ..number("enip.status", U32, false, &both(integer::STATUS)) },
        number("enip.protocol_version", U16, false, &both(integer::PROTOCOL_VERSION)),
        number("enip.capabilities", U16, false, &both(integer::CAPABILITIES)),
        number("enip.vendor_id", U16, false, &both(integer::VENDOR)),
        number("enip.device_type", U16, false, &both(integer::DEVICE_TYPE)),
        number("enip.product_code", U16, false, &both(integer::PRODUCT_CODE)),
        number("enip.revision", U16, false, &both(integer::REVISION)),
        number("enip.identity_status", U16, false, &both(integer::IDENTITY_STATUS)),
        number("enip.serial", U32, false, &both(integer::SERIAL)),
        number("enip.state", U8, false, &both(integer::STATE)),
        number("enip.cip_class", U32, true, &both(integer::CLASS)),
        number("enip.cip_instance", U32, true, &both(integer::INSTANCE)),
        number("enip.cip_attribute", U32, true, &both(integer::ATTRIBUTE)),
        number("enip.cip_status", U8, true, &both(integer::CIP_STATUS)),
        number("enip.cip_extendedstatus", U16, true, &both(integer::CIP_EXTENDED_STATUS)),
    ],
    events: &[
        EventDef { name: "too_many_transactions", code: event::TOO_MANY_TRANSACTIONS },
        EventDef { name: "invalid_pdu", code: event::INVALID_PDU },
    ],
    frames: &["hdr", "data", "pdu", "cip", "enip.item"],
    ..ProtoTable::of_requests("enip", &[Transport::Tcp, Transport::Udp])
};
