//! What QUIC offers to rules.

use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{
    BufferDef, BufferNeed, EventDef, Hook, LiteralForm, ProtoTable, Transport,
};

/// Buffers by their numbers.
pub(super) mod buffer {
    pub(crate) const VERSION: u16 = 0;
    pub(crate) const SNI: u16 = 1;
    pub(crate) const UA: u16 = 2;
    pub(crate) const CYU_HASH: u16 = 3;
    pub(crate) const CYU_STRING: u16 = 4;
    pub(crate) const JA3_HASH: u16 = 5;
    pub(crate) const JA3_STRING: u16 = 6;
    pub(crate) const JA4: u16 = 7;
}

/// Events by their codes.
pub(super) mod event {
    pub(crate) const FAILED_DECRYPT: u16 = 0;
    pub(crate) const ERROR_ON_DATA: u16 = 1;
    pub(crate) const CRYPTO_FRAG_TOO_LONG: u16 = 2;
    /// Rules may name it; nothing raises it, as in Suricata 8.0.7.
    pub(crate) const ERROR_ON_HEADER: u16 = 3;
}

const fn to_server(local: u16) -> [Hook; 1] {
    [Hook::new(ToServer, 1, local)]
}

const fn to_client(local: u16) -> [Hook; 1] {
    [Hook::new(ToClient, 1, local)]
}

const fn def(
    name: &'static str,
    internal: &'static str,
    description: &'static str,
    hooks: &'static [Hook],
) -> BufferDef {
    BufferDef { name, internal, description, hooks, ..BufferDef::PLAIN }
}

/// JA3 and JA4 are TLS's definitions, with the places where QUIC has them.
const BUFFERS: &[BufferDef] = &[
    def(
        "quic.version",
        "quic_version",
        "quic version",
        &[Hook::new(ToServer, 1, buffer::VERSION), Hook::new(ToClient, 1, buffer::VERSION)],
    ),
    def("quic.sni", "quic_sni", "quic sni", &to_server(buffer::SNI)),
    def("quic.ua", "quic_ua", "quic ua", &to_server(buffer::UA)),
    BufferDef {
        multi: true,
        form: LiteralForm::Md5,
        ..def("quic.cyu.hash", "quic.cyu.hash", "quic.cyu.hash", &to_server(buffer::CYU_HASH))
    },
    BufferDef {
        multi: true,
        ..def(
            "quic.cyu.string",
            "quic.cyu.string",
            "quic.cyu.string",
            &to_server(buffer::CYU_STRING),
        )
    },
    BufferDef {
        aliases: &["ja3_hash"],
        form: LiteralForm::Md5,
        ..def("ja3.hash", "ja3.hash", "TLS JA3 hash", &to_server(buffer::JA3_HASH))
            .needing(BufferNeed::Ja3)
    },
    BufferDef {
        aliases: &["ja3_string"],
        ..def("ja3.string", "ja3.string", "TLS JA3 string", &to_server(buffer::JA3_STRING))
            .needing(BufferNeed::Ja3)
    },
    BufferDef {
        form: LiteralForm::Md5,
        ..def("ja3s.hash", "ja3s.hash", "TLS JA3S hash", &to_client(buffer::JA3_HASH))
            .needing(BufferNeed::Ja3)
    },
    def("ja3s.string", "ja3s.string", "TLS JA3S string", &to_client(buffer::JA3_STRING))
        .needing(BufferNeed::Ja3),
    def("ja4.hash", "ja4.hash", "TLS JA4 hash", &to_server(buffer::JA4)),
];

const EVENTS: &[EventDef] = &[
    EventDef { name: "failed_decrypt", code: event::FAILED_DECRYPT },
    EventDef { name: "error_on_data", code: event::ERROR_ON_DATA },
    EventDef { name: "crypto_frag_too_long", code: event::CRYPTO_FRAG_TOO_LONG },
    EventDef { name: "error_on_header", code: event::ERROR_ON_HEADER },
];

/// What QUIC offers.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["quic"],
    buffers: BUFFERS,
    events: EVENTS,
    ..ProtoTable::of_requests("quic", &[Transport::Udp])
};
