//! What SIP offers to rules.

use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{BufferDef, EventDef, Hook, ProtoTable, Transport};

/// Buffers by their numbers.
pub(super) mod buffer {
    pub(crate) const METHOD: u16 = 0;
    pub(crate) const URI: u16 = 1;
    pub(crate) const PROTOCOL: u16 = 2;
    pub(crate) const STAT_CODE: u16 = 3;
    pub(crate) const STAT_MSG: u16 = 4;
    pub(crate) const REQUEST_LINE: u16 = 5;
    pub(crate) const RESPONSE_LINE: u16 = 6;
    pub(crate) const FROM: u16 = 7;
    pub(crate) const TO: u16 = 8;
    pub(crate) const VIA: u16 = 9;
    pub(crate) const USER_AGENT: u16 = 10;
    pub(crate) const CONTENT_TYPE: u16 = 11;
    pub(crate) const CONTENT_LENGTH: u16 = 12;
    pub(crate) const SDP_ORIGIN: u16 = 13;
    pub(crate) const SDP_SESSION_NAME: u16 = 14;
    pub(crate) const SDP_SESSION_INFO: u16 = 15;
    pub(crate) const SDP_URI: u16 = 16;
    pub(crate) const SDP_EMAIL: u16 = 17;
    pub(crate) const SDP_PHONE_NUMBER: u16 = 18;
    pub(crate) const SDP_CONNECTION_DATA: u16 = 19;
    pub(crate) const SDP_BANDWIDTH: u16 = 20;
    pub(crate) const SDP_TIME: u16 = 21;
    pub(crate) const SDP_REPEAT_TIME: u16 = 22;
    pub(crate) const SDP_TIMEZONE: u16 = 23;
    pub(crate) const SDP_ENCRYPTION_KEY: u16 = 24;
    pub(crate) const SDP_ATTRIBUTE: u16 = 25;
    pub(crate) const SDP_MEDIA: u16 = 26;
    pub(crate) const SDP_MEDIA_INFO: u16 = 27;
    pub(crate) const SDP_MEDIA_CONNECTION_DATA: u16 = 28;
    pub(crate) const SDP_MEDIA_ENCRYPTION_KEY: u16 = 29;
}

/// Events by their codes.
pub mod event {
    #![allow(missing_docs)]
    pub const INCOMPLETE_DATA: u16 = 0;
    pub const INVALID_DATA: u16 = 1;
}

/// Frames by their numbers.
pub(super) mod frame {
    pub(crate) const PDU: u8 = 0;
    pub(crate) const REQUEST_LINE: u8 = 1;
    pub(crate) const RESPONSE_LINE: u8 = 2;
    pub(crate) const REQUEST_HEADERS: u8 = 3;
    pub(crate) const RESPONSE_HEADERS: u8 = 4;
    pub(crate) const REQUEST_BODY: u8 = 5;
    pub(crate) const RESPONSE_BODY: u8 = 6;
}

const FRAMES: &[&str] = &[
    "pdu",
    "request.line",
    "response.line",
    "request.headers",
    "response.headers",
    "request.body",
    "response.body",
];

const EVENTS: &[EventDef] = &[
    EventDef { name: "incomplete_data", code: event::INCOMPLETE_DATA },
    EventDef { name: "invalid_data", code: event::INVALID_DATA },
];

const fn to_server(local: u16) -> [Hook; 1] {
    [Hook::new(ToServer, 0, local)]
}

const fn to_client(local: u16) -> [Hook; 1] {
    [Hook::new(ToClient, 0, local)]
}

const fn both(local: u16) -> [Hook; 2] {
    [Hook::new(ToServer, 0, local), Hook::new(ToClient, 0, local)]
}

const fn def(name: &'static str, hooks: &'static [Hook]) -> BufferDef {
    BufferDef { name, internal: name, description: name, hooks, ..BufferDef::PLAIN }
}

const fn multi(name: &'static str, hooks: &'static [Hook]) -> BufferDef {
    BufferDef { multi: true, ..def(name, hooks) }
}

const BUFFERS: &[BufferDef] = &[
    BufferDef {
        description: "sip request method",
        ..def("sip.method", &to_server(buffer::METHOD))
    },
    BufferDef { description: "sip request uri", ..def("sip.uri", &to_server(buffer::URI)) },
    def("sip.protocol", &both(buffer::PROTOCOL)),
    def("sip.stat_code", &to_client(buffer::STAT_CODE)),
    def("sip.stat_msg", &to_client(buffer::STAT_MSG)),
    def("sip.request_line", &to_server(buffer::REQUEST_LINE)),
    def("sip.response_line", &to_client(buffer::RESPONSE_LINE)),
    multi("sip.from", &both(buffer::FROM)),
    multi("sip.to", &both(buffer::TO)),
    multi("sip.via", &both(buffer::VIA)),
    BufferDef {
        internal: "sip.ua",
        description: "sip.ua",
        ..multi("sip.user_agent", &both(buffer::USER_AGENT))
    },
    multi("sip.content_type", &both(buffer::CONTENT_TYPE)),
    multi("sip.content_length", &both(buffer::CONTENT_LENGTH)),
    def("sdp.origin", &both(buffer::SDP_ORIGIN)),
    def("sdp.session_name", &both(buffer::SDP_SESSION_NAME)),
    def("sdp.session_info", &both(buffer::SDP_SESSION_INFO)),
    def("sdp.uri", &both(buffer::SDP_URI)),
    def("sdp.email", &both(buffer::SDP_EMAIL)),
    def("sdp.phone_number", &both(buffer::SDP_PHONE_NUMBER)),
    def("sdp.connection_data", &both(buffer::SDP_CONNECTION_DATA)),
    multi("sdp.bandwidth", &both(buffer::SDP_BANDWIDTH)),
    multi("sdp.time", &both(buffer::SDP_TIME)),
    multi("sdp.repeat_time", &both(buffer::SDP_REPEAT_TIME)),
    def("sdp.timezone", &both(buffer::SDP_TIMEZONE)),
    BufferDef {
        // So it is spelled in Suricata's reports.
        description: "sdp.encription_key",
        ..def("sdp.encryption_key", &both(buffer::SDP_ENCRYPTION_KEY))
    },
    multi("sdp.attribute", &both(buffer::SDP_ATTRIBUTE)),
    multi("sdp.media.media", &both(buffer::SDP_MEDIA)),
    multi("sdp.media.media_info", &both(buffer::SDP_MEDIA_INFO)),
    multi("sdp.media.connection_data", &both(buffer::SDP_MEDIA_CONNECTION_DATA)),
    multi("sdp.media.encryption_key", &both(buffer::SDP_MEDIA_ENCRYPTION_KEY)),
];

/// What SIP offers.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["sip"],
    buffers: BUFFERS,
    events: EVENTS,
    frames: FRAMES,
    ..ProtoTable::of_requests("sip", &[Transport::Udp, Transport::Tcp])
};
