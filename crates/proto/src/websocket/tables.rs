//! What WebSocket offers to rules.

use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{
    BufferDef, EventDef, Hook, IntegerDef, IntegerWidth, ProtoTable, Transport,
};

/// Buffers by their numbers.
pub(super) mod buffer {
    pub(crate) const PAYLOAD: u16 = 0;
}

/// Integers by their numbers.
pub(super) mod integer {
    pub(crate) const OPCODE: u16 = 0;
    pub(crate) const MASK: u16 = 1;
    pub(crate) const FLAGS: u16 = 2;
}

/// Events by their codes.
pub(super) mod event {
    pub(crate) const SKIP_END_OF_PAYLOAD: u16 = 0;
    pub(crate) const MESSAGE_TOO_LONG: u16 = 1;
}

/// Frames by their numbers.
pub(super) mod frame {
    pub(crate) const HEADER: u8 = 0;
    pub(crate) const PDU: u8 = 1;
    pub(crate) const DATA: u8 = 2;
}

/// Names of opcodes (RFC 6455 5.2), in lower case as Suricata writes them.
pub(super) const OPCODES: &[(&str, u64)] =
    &[("continuation", 0), ("text", 1), ("binary", 2), ("close", 8), ("ping", 9), ("pong", 10)];

const fn both(local: u16) -> [Hook; 2] {
    [Hook::new(ToServer, 0, local), Hook::new(ToClient, 0, local)]
}

const BUFFERS: &[BufferDef] = &[BufferDef {
    name: "websocket.payload",
    internal: "websocket.payload",
    description: "WebSocket payload",
    hooks: &both(buffer::PAYLOAD),
    ..BufferDef::PLAIN
}];

const INTEGERS: &[IntegerDef] = &[
    IntegerDef {
        name: "websocket.opcode",
        names: OPCODES,
        hooks: &both(integer::OPCODE),
        ..IntegerDef::PLAIN
    },
    IntegerDef {
        name: "websocket.mask",
        width: IntegerWidth::U32,
        hooks: &both(integer::MASK),
        ..IntegerDef::PLAIN
    },
    IntegerDef {
        name: "websocket.flags",
        bits: &[("fin", 0x80), ("comp", 0x40)],
        hooks: &both(integer::FLAGS),
        ..IntegerDef::PLAIN
    },
];

const EVENTS: &[EventDef] = &[
    EventDef { name: "skip_end_of_payload", code: event::SKIP_END_OF_PAYLOAD },
    EventDef { name: "reassembly_limit_reached", code: event::MESSAGE_TOO_LONG },
];

/// What WebSocket offers.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["websocket"],
    buffers: BUFFERS,
    integers: INTEGERS,
    events: EVENTS,
    frames: &["header", "pdu", "data"],
    ..ProtoTable::of_requests("websocket", &[Transport::Tcp])
};
