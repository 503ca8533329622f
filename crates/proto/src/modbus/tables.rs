//! What Modbus offers to rules but its condition, which knows its transactions.

use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{EventDef, Hook, ProtoTable, Transport};

/// Events by their codes.
pub(super) mod event {
    pub(crate) const INVALID_PROTOCOL_ID: u16 = 0;
    pub(crate) const UNSOLICITED_RESPONSE: u16 = 1;
    pub(crate) const INVALID_LENGTH: u16 = 2;
    pub(crate) const INVALID_FUNCTION_CODE: u16 = 3;
    pub(crate) const INVALID_VALUE: u16 = 4;
    pub(crate) const INVALID_EXCEPTION_CODE: u16 = 5;
    pub(crate) const VALUE_MISMATCH: u16 = 6;
    pub(crate) const FLOODED: u16 = 7;
}

const fn named(name: &'static str, code: u16) -> EventDef {
    EventDef { name, code }
}

/// Both directions, at once.
pub(super) const ON_BOTH: &[Hook] = &[Hook::new(ToServer, 0, 0), Hook::new(ToClient, 0, 0)];

/// What Modbus offers but its condition.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["modbus"],
    events: &[
        named("invalid_protocol_id", event::INVALID_PROTOCOL_ID),
        named("unsolicited_response", event::UNSOLICITED_RESPONSE),
        named("invalid_length", event::INVALID_LENGTH),
        named("invalid_function_code", event::INVALID_FUNCTION_CODE),
        named("invalid_value", event::INVALID_VALUE),
        named("invalid_exception_code", event::INVALID_EXCEPTION_CODE),
        named("value_mismatch", event::VALUE_MISMATCH),
        named("flooded", event::FLOODED),
    ],
    ..ProtoTable::of_requests("modbus", &[Transport::Tcp])
};
