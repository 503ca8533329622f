//! What DNP3 offers to rules but its conditions, which know its transactions.

use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{BufferDef, EventDef, Hook, OwnOutputs, ProtoTable, Transport};

/// Events by their codes.
pub(super) mod event {
    pub(crate) const FLOODED: u16 = 0;
    pub(crate) const LEN_TOO_SMALL: u16 = 1;
    pub(crate) const BAD_LINK_CRC: u16 = 2;
    pub(crate) const BAD_TRANSPORT_CRC: u16 = 3;
    pub(crate) const UNKNOWN_OBJECT: u16 = 4;
    pub(crate) const TOO_MANY_POINTS: u16 = 5;
    pub(crate) const TOO_MANY_OBJECTS: u16 = 6;
    pub(crate) const TOO_LONG_REASSEMBLY: u16 = 7;
    /// Rules may name it; an object that can't be read is `unknown_object`, as in Suricata 8.0.7.
    pub(crate) const MALFORMED: u16 = 8;
}

const fn named(name: &'static str, code: u16) -> EventDef {
    EventDef { name, code }
}

/// Both directions, at once: a message is inspected as far as it has come.
pub(super) const ON_BOTH: &[Hook] = &[Hook::new(ToServer, 0, 0), Hook::new(ToClient, 0, 0)];

/// Names of function codes that rules may use (IEEE 1815-2012 4.4).
pub(super) const FUNCTION_NAMES: &[(&str, u8)] = &[
    ("confirm", 0),
    ("read", 1),
    ("write", 2),
    ("select", 3),
    ("operate", 4),
    ("direct_operate", 5),
    ("direct_operate_nr", 6),
    ("immed_freeze", 7),
    ("immed_freeze_nr", 8),
    ("freeze_clear", 9),
    ("freeze_clear_nr", 10),
    ("freeze_at_time", 11),
    ("freeze_at_time_nr", 12),
    ("cold_restart", 13),
    ("warm_restart", 14),
    ("initialize_data", 15),
    ("initialize_appl", 16),
    ("start_appl", 17),
    ("stop_appl", 18),
    ("save_config", 19),
    ("enable_unsolicited", 20),
    ("disable_unsolicited", 21),
    ("assign_class", 22),
    ("delay_measure", 23),
    ("record_current_time", 24),
    ("open_file", 25),
    ("close_file", 26),
    ("delete_file", 27),
    ("get_file_info", 28),
    ("authenticate_file", 29),
    ("abort_file", 30),
    ("activate_config", 31),
    ("authenticate_req", 32),
    ("authenticate_err", 33),
    ("response", 129),
    ("unsolicited_response", 130),
    ("authenticate_resp", 131),
];

/// Internal indications with their bits, the first octet in the upper half (IEEE 1815-2012 4.2.2.6).
pub(super) const INDICATION_NAMES: &[(&str, u16)] = &[
    ("all_stations", 0x0100),
    ("class_1_events", 0x0200),
    ("class_2_events", 0x0400),
    ("class_3_events", 0x0800),
    ("need_time", 0x1000),
    ("local_control", 0x2000),
    ("device_trouble", 0x4000),
    ("device_restart", 0x8000),
    ("no_func_code_support", 0x0001),
    ("object_unknown", 0x0002),
    ("parameter_error", 0x0004),
    ("event_buffer_overflow", 0x0008),
    ("already_executing", 0x0010),
    ("config_corrupt", 0x0020),
    ("reserved_2", 0x0040),
    ("reserved_1", 0x0080),
];

/// What DNP3 offers but its conditions.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["dnp3"],
    buffers: &[BufferDef {
        name: "dnp3.data",
        internal: "dnp3_data",
        description: "dnp3 data",
        aliases: &["dnp3_data"],
        hooks: ON_BOTH,
        ..BufferDef::PLAIN
    }],
    events: &[
        named("flooded", event::FLOODED),
        named("len_too_small", event::LEN_TOO_SMALL),
        named("bad_link_crc", event::BAD_LINK_CRC),
        named("bad_transport_crc", event::BAD_TRANSPORT_CRC),
        named("unknown_object", event::UNKNOWN_OBJECT),
        named("too_many_points", event::TOO_MANY_POINTS),
        named("too_many_objects", event::TOO_MANY_OBJECTS),
        named("too_long_reassembly", event::TOO_LONG_REASSEMBLY),
        named("malformed", event::MALFORMED),
    ],
    events_in_capitals: true,
    own_outputs: OwnOutputs { was_script_need: true, ..OwnOutputs::NONE },
    ..ProtoTable::of_requests("dnp3", &[Transport::Tcp])
};
