//! What Echo offers to rules.

use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{BufferDef, EventDef, Hook, ProtoTable, Transport};

/// Events by their codes.
pub(super) mod event {
    pub(crate) const LONG_TEXT: u16 = 0;
}

/// What Echo offers.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["echo7"],
    buffers: &[BufferDef {
        name: "echo7.text",
        internal: "echo7.text",
        description: "text of an echo",
        hooks: &[Hook::new(ToServer, 1, 0), Hook::new(ToClient, 1, 0)],
        ..BufferDef::PLAIN
    }],
    events: &[EventDef { name: "long_text", code: event::LONG_TEXT }],
    ..ProtoTable::of_requests("echo7", &[Transport::Udp])
};
