//! What MQTT offers to rules but its conditions, which know its transactions.

use super::message::{connect_flag, kind};
use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{BufferDef, EventDef, Hook, IntegerDef, ProtoTable, Transport};

/// Buffers by their numbers.
pub(super) mod buffer {
    pub(crate) const CLIENT_ID: u16 = 0;
    pub(crate) const PROTOCOL: u16 = 1;
    pub(crate) const USERNAME: u16 = 2;
    pub(crate) const PASSWORD: u16 = 3;
    pub(crate) const WILL_TOPIC: u16 = 4;
    pub(crate) const WILL_MESSAGE: u16 = 5;
    pub(crate) const PUBLISH_TOPIC: u16 = 6;
    pub(crate) const PUBLISH_MESSAGE: u16 = 7;
    pub(crate) const SUBSCRIBE_TOPIC: u16 = 8;
    pub(crate) const UNSUBSCRIBE_TOPIC: u16 = 9;
}

/// Integers by their numbers.
pub(super) mod integer {
    pub(crate) const TYPE: u16 = 0;
    pub(crate) const QOS: u16 = 1;
    pub(crate) const FLAGS: u16 = 2;
    pub(crate) const CONNECT_FLAGS: u16 = 3;
    pub(crate) const VERSION: u16 = 4;
    pub(crate) const REASON_CODE: u16 = 5;
    pub(crate) const SESSION_PRESENT: u16 = 6;
}

/// Events by their codes.
pub mod event {
    #![allow(missing_docs)]
    pub const MISSING_CONNECT: u16 = 0;
    pub const MISSING_PUBLISH: u16 = 1;
    pub const MISSING_SUBSCRIBE: u16 = 2;
    pub const MISSING_UNSUBSCRIBE: u16 = 3;
    pub const DOUBLE_CONNECT: u16 = 4;
    pub const UNINTRODUCED_MESSAGE: u16 = 5;
    pub const INVALID_QOS_LEVEL: u16 = 6;
    pub const MISSING_MSG_ID: u16 = 7;
    pub const UNASSIGNED_MSG_TYPE: u16 = 8;
    pub const TOO_MANY_TRANSACTIONS: u16 = 9;
    pub const MALFORMED_TRAFFIC: u16 = 10;
    pub const TOO_MANY_MESSAGES: u16 = 11;
    pub const TOO_MANY_PROPERTIES: u16 = 12;
}

/// Frames by their numbers.
pub(super) mod frame {
    pub(crate) const PDU: u8 = 0;
    pub(crate) const HEADER: u8 = 1;
    pub(crate) const DATA: u8 = 2;
}

const fn named(name: &'static str, code: u16) -> EventDef {
    EventDef { name, code }
}

const EVENTS: &[EventDef] = &[
    named("missing_connect", event::MISSING_CONNECT),
    named("missing_publish", event::MISSING_PUBLISH),
    named("missing_subscribe", event::MISSING_SUBSCRIBE),
    named("missing_unsubscribe", event::MISSING_UNSUBSCRIBE),
    named("double_connect", event::DOUBLE_CONNECT),
    named("unintroduced_message", event::UNINTRODUCED_MESSAGE),
    named("invalid_qos_level", event::INVALID_QOS_LEVEL),
    named("missing_msg_id", event::MISSING_MSG_ID),
    named("unassigned_msg_type", event::UNASSIGNED_MSG_TYPE),
    named("too_many_transactions", event::TOO_MANY_TRANSACTIONS),
    named("malformed_traffic", event::MALFORMED_TRAFFIC),
    named("too_many_messages", event::TOO_MANY_MESSAGES),
    named("too_many_properties", event::TOO_MANY_PROPERTIES),
];

pub(super) const fn to_server(local: u16) -> [Hook; 1] {
    [Hook::new(ToServer, 0, local)]
}

pub(super) const fn to_client(local: u16) -> [Hook; 1] {
    [Hook::new(ToClient, 0, local)]
}

pub(super) const fn both(local: u16) -> [Hook; 2] {
    [Hook::new(ToServer, 0, local), Hook::new(ToClient, 0, local)]
}

const fn def(name: &'static str, description: &'static str, hooks: &'static [Hook]) -> BufferDef {
    BufferDef { name, internal: name, description, hooks, ..BufferDef::PLAIN }
}

const BUFFERS: &[BufferDef] = &[
    def("mqtt.connect.clientid", "MQTT CONNECT clientid", &to_server(buffer::CLIENT_ID)),
    def(
        "mqtt.connect.protocol_string",
        "MQTT CONNECT protocol string",
        &to_server(buffer::PROTOCOL),
    ),
    def("mqtt.connect.username", "MQTT CONNECT username", &to_server(buffer::USERNAME)),
    def("mqtt.connect.password", "MQTT CONNECT password", &to_server(buffer::PASSWORD)),
    def("mqtt.connect.willtopic", "MQTT CONNECT will topic", &to_server(buffer::WILL_TOPIC)),
    def("mqtt.connect.willmessage", "MQTT CONNECT will message", &to_server(buffer::WILL_MESSAGE)),
    def("mqtt.publish.topic", "MQTT PUBLISH topic", &both(buffer::PUBLISH_TOPIC)),
    def("mqtt.publish.message", "MQTT PUBLISH message", &both(buffer::PUBLISH_MESSAGE)),
    BufferDef {
        multi: true,
        ..def("mqtt.subscribe.topic", "subscribe topic query", &to_server(buffer::SUBSCRIBE_TOPIC))
    },
    BufferDef {
        multi: true,
        ..def(
            "mqtt.unsubscribe.topic",
            "unsubscribe topic query",
            &to_server(buffer::UNSUBSCRIBE_TOPIC),
        )
    },
];

const INTEGERS: &[IntegerDef] = &[
    IntegerDef {
        name: "mqtt.type",
        multi: true,
        names: kind::NAMES,
        hooks: &both(integer::TYPE),
        ..IntegerDef::PLAIN
    },
    IntegerDef {
        name: "mqtt.flags",
        multi: true,
        bits: &[("dup", 8), ("retain", 1)],
        hooks: &to_server(integer::FLAGS),
        ..IntegerDef::PLAIN
    },
    IntegerDef {
        // By the standard's bits; Suricata 8.0.7 has those of `will` and `will_retain` exchanged.
        name: "mqtt.connect.flags",
        bits: &[
            ("username", connect_flag::USERNAME as u64),
            ("password", connect_flag::PASSWORD as u64),
            ("will_retain", connect_flag::WILL_RETAIN as u64),
            ("will", connect_flag::WILL as u64),
            ("clean_session", connect_flag::CLEAN_SESSION as u64),
        ],
        hooks: &to_server(integer::CONNECT_FLAGS),
        ..IntegerDef::PLAIN
    },
    IntegerDef {
        name: "mqtt.protocol_version",
        hooks: &to_server(integer::VERSION),
        ..IntegerDef::PLAIN
    },
    IntegerDef {
        name: "mqtt.reason_code",
        multi: true,
        hooks: &both(integer::REASON_CODE),
        ..IntegerDef::PLAIN
    },
];

/// What MQTT offers but its conditions.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["mqtt"],
    buffers: BUFFERS,
    integers: INTEGERS,
    events: EVENTS,
    frames: &["pdu", "header", "data"],
    ..ProtoTable::of_requests("mqtt", &[Transport::Tcp])
};
