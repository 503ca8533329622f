//! What NTP offers to rules.

use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{BufferDef, EventDef, Hook, IntegerDef, ProtoTable, Transport};

/// Integers by their numbers.
pub(super) mod integer {
    pub(crate) const VERSION: u16 = 0;
    pub(crate) const MODE: u16 = 1;
    pub(crate) const STRATUM: u16 = 2;
}

/// Events by their codes.
pub(super) mod event {
    pub(crate) const MALFORMED_DATA: u16 = 0;
    /// Rules may name it; nothing raises it, as in Suricata 8.0.7.
    pub(crate) const UNSOLICITED_RESPONSE: u16 = 1;
}

const fn both(local: u16) -> [Hook; 2] {
    [Hook::new(ToServer, 1, local), Hook::new(ToClient, 1, local)]
}

const fn number(name: &'static str, hooks: &'static [Hook]) -> IntegerDef {
    IntegerDef { name, hooks, ..IntegerDef::PLAIN }
}

/// What NTP offers.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["ntp"],
    buffers: &[BufferDef {
        name: "ntp.reference_id",
        internal: "ntp.reference_id",
        description: "NTP reference ID",
        hooks: &both(0),
        ..BufferDef::PLAIN
    }],
    integers: &[
        number("ntp.version", &both(integer::VERSION)),
        IntegerDef {
            names: &[
                ("reserved", 0),
                ("symmetric_active", 1),
                ("symmetric_passive", 2),
                ("client", 3),
                ("server", 4),
                ("broadcast", 5),
                ("control", 6),
                ("private", 7),
            ],
            ..number("ntp.mode", &both(integer::MODE))
        },
        number("ntp.stratum", &both(integer::STRATUM)),
    ],
    events: &[
        EventDef { name: "malformed_data", code: event::MALFORMED_DATA },
        EventDef { name: "unsolicited_response", code: event::UNSOLICITED_RESPONSE },
    ],
    ..ProtoTable::of_requests("ntp", &[Transport::Udp])
};
