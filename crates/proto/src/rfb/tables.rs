//! What RFB offers to rules.

use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{
    BufferDef, EventDef, Hook, IntegerDef, IntegerWidth, ProtoTable, Transport,
};

/// Integers by their numbers.
pub(super) mod integer {
    pub(crate) const SECURITY_TYPE: u16 = 0;
    pub(crate) const SECURITY_RESULT: u16 = 1;
}

/// Events by their codes.
pub(super) mod event {
    pub(crate) const UNIMPLEMENTED_SECURITY_TYPE: u16 = 0;
    pub(crate) const UNKNOWN_SECURITY_RESULT: u16 = 1;
    pub(crate) const MALFORMED_MESSAGE: u16 = 2;
    pub(crate) const CONFUSED_STATE: u16 = 3;
    pub(crate) const TOO_LONG_STRING: u16 = 4;
}

/// The only frame: an element of the handshake.
pub(super) const PDU_FRAME: u8 = 0;

const fn named(name: &'static str, code: u16) -> EventDef {
    EventDef { name, code }
}

/// What RFB offers.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["rfb"],
    buffers: &[BufferDef {
        name: "rfb.name",
        internal: "rfb.name",
        description: "rfb name",
        hooks: &[Hook::new(ToClient, 0, 0)],
        ..BufferDef::PLAIN
    }],
    integers: &[
        IntegerDef {
            name: "rfb.sectype",
            width: IntegerWidth::U32,
            hooks: &[Hook::new(ToServer, 0, integer::SECURITY_TYPE)],
            ..IntegerDef::PLAIN
        },
        IntegerDef {
            name: "rfb.secresult",
            width: IntegerWidth::U32,
            names: &[("ok", 0), ("fail", 1), ("unknown", 2)],
            hooks: &[Hook::new(ToClient, 0, integer::SECURITY_RESULT)],
            ..IntegerDef::PLAIN
        },
    ],
    events: &[
        named("unimplemented_security_type", event::UNIMPLEMENTED_SECURITY_TYPE),
        named("unknown_security_result", event::UNKNOWN_SECURITY_RESULT),
        named("malformed_message", event::MALFORMED_MESSAGE),
        named("confused_state", event::CONFUSED_STATE),
        named("too_long_string", event::TOO_LONG_STRING),
    ],
    frames: &["pdu"],
    ..ProtoTable::of_requests("rfb", &[Transport::Tcp])
};
