//! What POP3 offers to rules.

use gabion_record::applayer::{EventDef, ProtoTable, Transport};

/// Events by their codes.
pub(super) mod event {
    pub(crate) const TOO_MANY_TRANSACTIONS: u16 = 0;
    pub(crate) const REQUEST_TOO_LONG: u16 = 1;
    pub(crate) const INCORRECT_ARGUMENT_COUNT: u16 = 2;
    pub(crate) const UNKNOWN_COMMAND: u16 = 3;
    pub(crate) const RESPONSE_TOO_LONG: u16 = 4;
}

const fn named(name: &'static str, code: u16) -> EventDef {
    EventDef { name, code }
}

/// What POP3 offers.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["pop3"],
    events: &[
        named("too_many_transactions", event::TOO_MANY_TRANSACTIONS),
        named("request_too_long", event::REQUEST_TOO_LONG),
        named("incorrect_argument_count", event::INCORRECT_ARGUMENT_COUNT),
        named("unknown_command", event::UNKNOWN_COMMAND),
        named("response_too_long", event::RESPONSE_TOO_LONG),
    ],
    ..ProtoTable::of_requests("pop3", &[Transport::Tcp])
};
