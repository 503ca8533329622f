//! What HTTP/2 offers to rules but its buffers and conditions.

use super::buffers;
use super::conditions::CONDITIONS;
use super::dns;
use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{
    BufferDef, EventDef, Hook, IntegerDef, IntegerWidth, ProtoTable, Transport,
};

/// Numbers of a frame; DNS's are before them.
pub(crate) mod integer {
    pub(crate) const PRIORITY: u16 = 16;
    pub(crate) const WINDOW: u16 = 17;
    pub(crate) const SIZE_UPDATE: u16 = 18;
}

/// Events by their codes.
pub(crate) mod event {
    pub(crate) const INVALID_FRAME_DATA: u16 = 2;
    pub(crate) const INVALID_HEADER: u16 = 3;
    pub(crate) const INVALID_FRAME_LENGTH: u16 = 4;
    pub(crate) const LONG_FRAME_DATA: u16 = 6;
    pub(crate) const STREAM_ID_REUSE: u16 = 7;
    pub(crate) const INVALID_HTTP1_SETTINGS: u16 = 8;
    pub(crate) const FAILED_DECOMPRESSION: u16 = 9;
    pub(crate) const INVALID_RANGE: u16 = 10;
    pub(crate) const TOO_MANY_STREAMS: u16 = 12;
    pub(crate) const AUTHORITY_HOST_MISMATCH: u16 = 13;
    pub(crate) const USERINFO_IN_URI: u16 = 14;
    pub(crate) const BLOCK_TOO_LONG: u16 = 15;
    pub(crate) const DNS_REQUEST_TOO_LONG: u16 = 16;
    pub(crate) const DNS_RESPONSE_TOO_LONG: u16 = 17;
    pub(crate) const DATA_STREAM_ZERO: u16 = 18;
    pub(crate) const TOO_MANY_FRAMES: u16 = 19;
    pub(crate) const COMPRESSION_BOMB: u16 = 20;
    pub(crate) const HEADER_TABLE_OVERFLOW: u16 = 21;
}

/// Names of the events, by their codes.
const EVENT_NAMES: [&str; 22] = [
    "invalid_frame_header",
    "invalid_client_magic",
    "invalid_frame_data",
    "invalid_header",
    "invalid_frame_length",
    "extra_header_data",
    "long_frame_data",
    "stream_id_reuse",
    "invalid_http1_settings",
    "failed_decompression",
    "invalid_range",
    "header_integer_overflow",
    "too_many_streams",
    "authority_host_mismatch",
    "userinfo_in_uri",
    "reassembly_limit_reached",
    "dns_request_too_long",
    "dns_response_too_long",
    "data_stream_zero",
    "too_many_frames",
    "compression_bomb",
    "header_table_overflow",
];

const EVENTS: [EventDef; EVENT_NAMES.len()] = {
    let mut events = [EventDef { name: "", code: 0 }; EVENT_NAMES.len()];
    let mut at = 0;
    while at < EVENT_NAMES.len() {
        events[at] = EventDef { name: EVENT_NAMES[at], code: at as u16 };
        at += 1;
    }
    events
};

/// Frames by their numbers.
pub(crate) mod frame {
    pub(crate) const HEADER: u8 = 0;
    pub(crate) const DATA: u8 = 1;
    pub(crate) const PDU: u8 = 2;
}

const fn both(local: u16) -> [Hook; 2] {
    [Hook::new(ToServer, 0, local), Hook::new(ToClient, 0, local)]
}

const INTEGERS: [IntegerDef; 3] = [
    IntegerDef {
        name: "http2.priority",
        multi: true,
        hooks: &both(integer::PRIORITY),
        ..IntegerDef::PLAIN
    },
    IntegerDef {
        name: "http2.window",
        width: IntegerWidth::U32,
        multi: true,
        hooks: &both(integer::WINDOW),
        ..IntegerDef::PLAIN
    },
    IntegerDef {
        name: "http2.size_update",
        width: IntegerWidth::U64,
        multi: true,
        hooks: &both(integer::SIZE_UPDATE),
        ..IntegerDef::PLAIN
    },
];

/// Suricata names only the first and the last state.
const STATES: [[&str; 8]; 2] = [
    ["request_started", "", "", "", "", "", "", "request_complete"],
    ["response_started", "", "", "", "", "", "", "response_complete"],
];

/// What HTTP/2 offers.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["http", "http2", "doh2"],
    states_to_server: &STATES[0],
    states_to_client: &STATES[1],
    buffers: &buffers::BUFFERS,
    integers: &INTEGERS,
    conditions: CONDITIONS,
    events: &EVENTS,
    frames: &["hdr", "data", "pdu"],
    advises_modifiers: true,
    refuses_file_names: true,
    ..ProtoTable::of_requests("http2", &[Transport::Tcp])
};

const DOH2_BUFFERS: [BufferDef; buffers::BUFFERS.len() + dns::BUFFERS.len()] = {
    let mut all = [BufferDef::PLAIN; buffers::BUFFERS.len() + dns::BUFFERS.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = match at.checked_sub(buffers::BUFFERS.len()) {
            Some(n) => dns::BUFFERS[n],
            None => buffers::BUFFERS[at],
        };
        at += 1;
    }
    all
};

const DOH2_INTEGERS: [IntegerDef; INTEGERS.len() + dns::INTEGERS.len()] = {
    let mut all = [IntegerDef::PLAIN; INTEGERS.len() + dns::INTEGERS.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = match at.checked_sub(INTEGERS.len()) {
            Some(n) => dns::INTEGERS[n],
            None => INTEGERS[at],
        };
        at += 1;
    }
    all
};

/// What a connection offers in which DNS was found.
pub(crate) const DOH2_TABLE: ProtoTable = ProtoTable {
    name: "doh2",
    eve_name: "doh2",
    rule_names: &["doh2", "http2", "dns"],
    buffers: &DOH2_BUFFERS,
    integers: &DOH2_INTEGERS,
    advises_modifiers: false,
    refuses_file_names: false,
    ..TABLE
};
