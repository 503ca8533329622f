//! What PostgreSQL offers to rules.

use gabion_record::Direction::ToServer;
use gabion_record::applayer::{BufferDef, EventDef, Hook, ProtoTable, Transport};

/// Buffers by their numbers.
pub(super) mod buffer {
    pub(crate) const QUERY: u16 = 0;
}

/// Events by their codes.
pub(super) mod event {
    pub(crate) const TOO_MANY_TRANSACTIONS: u16 = 0;
    pub(crate) const MALFORMED_REQUEST: u16 = 1;
    pub(crate) const MALFORMED_RESPONSE: u16 = 2;
    pub(crate) const INVALID_LENGTH: u16 = 3;
    pub(crate) const TOO_MANY_RESPONSES: u16 = 4;
}

const fn named(name: &'static str, code: u16) -> EventDef {
    EventDef { name, code }
}

/// What PostgreSQL offers.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["pgsql"],
    buffers: &[BufferDef {
        name: "pgsql.query",
        internal: "pgsql.query",
        description: "pgsql query request content",
        hooks: &[Hook::new(ToServer, 1, buffer::QUERY)],
        ..BufferDef::PLAIN
    }],
    events: &[
        named("too_many_transactions", event::TOO_MANY_TRANSACTIONS),
        named("malformed_request", event::MALFORMED_REQUEST),
        named("malformed_response", event::MALFORMED_RESPONSE),
        named("invalid_length", event::INVALID_LENGTH),
        named("too_many_responses", event::TOO_MANY_RESPONSES),
    ],
    ..ProtoTable::of_requests("pgsql", &[Transport::Tcp])
};
