//! What multicast DNS offers to rules.

use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{BufferDef, EventDef, Hook, ProtoTable, Transport};

/// Buffers by their numbers.
pub(super) mod buffer {
    pub(crate) const QUERIES: u16 = 0;
    pub(crate) const ANSWERS: u16 = 1;
    pub(crate) const AUTHORITIES: u16 = 2;
    pub(crate) const ADDITIONALS: u16 = 3;
    pub(crate) const RESPONSE: u16 = 4;
}

/// Events by their codes.
pub(super) mod event {
    pub(crate) const MALFORMED_DATA: u16 = 0;
    pub(crate) const Z_FLAG_SET: u16 = 1;
    pub(crate) const INVALID_OPCODE: u16 = 2;
    pub(crate) const NAME_TOO_LONG: u16 = 3;
    pub(crate) const INFINITE_LOOP: u16 = 4;
    pub(crate) const TOO_MANY_LABELS: u16 = 5;
    pub(crate) const INVALID_ADDITIONALS: u16 = 6;
    pub(crate) const INVALID_AUTHORITIES: u16 = 7;
    /// Names of events of DNS: nothing raises them here, as in Suricata 8.0.7.
    pub(crate) const NOT_REQUEST: u16 = 8;
    pub(crate) const NOT_RESPONSE: u16 = 9;
}

const fn both(local: u16) -> [Hook; 2] {
    [Hook::new(ToServer, 1, local), Hook::new(ToClient, 1, local)]
}

const fn names(name: &'static str, hooks: &'static [Hook]) -> BufferDef {
    BufferDef { name, internal: name, description: name, multi: true, hooks, ..BufferDef::PLAIN }
}

/// What multicast DNS offers.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["mdns"],
    buffers: &[
        names("mdns.queries.rrname", &both(buffer::QUERIES)),
        names("mdns.answers.rrname", &both(buffer::ANSWERS)),
        names("mdns.authorities.rrname", &both(buffer::AUTHORITIES)),
        names("mdns.additionals.rrname", &both(buffer::ADDITIONALS)),
        BufferDef {
            description: "mdns response rdata",
            ..names("mdns.response.rrname", &[Hook::new(ToServer, 1, buffer::RESPONSE)])
        },
    ],
    events: &[
        EventDef { name: "malformed_data", code: event::MALFORMED_DATA },
        EventDef { name: "z_flag_set", code: event::Z_FLAG_SET },
        EventDef { name: "invalid_opcode", code: event::INVALID_OPCODE },
        EventDef { name: "name_too_long", code: event::NAME_TOO_LONG },
        EventDef { name: "infinite_loop", code: event::INFINITE_LOOP },
        EventDef { name: "too_many_labels", code: event::TOO_MANY_LABELS },
        EventDef { name: "invalid_additionals", code: event::INVALID_ADDITIONALS },
        EventDef { name: "invalid_authorities", code: event::INVALID_AUTHORITIES },
        EventDef { name: "not_request", code: event::NOT_REQUEST },
        EventDef { name: "not_response", code: event::NOT_RESPONSE },
    ],
    frames: &["pdu"],
    ..ProtoTable::of_requests("mdns", &[Transport::Udp])
};
