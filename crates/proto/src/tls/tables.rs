//! What TLS offers to rules but its conditions, which know its transaction.

use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{
    BufferDef, BufferNeed, EventDef, Hook, IntegerDef, IntegerWidth, LineLog, LiteralForm,
    OwnOutputs, ProtoTable, Transport,
};

/// Progress of the client.
pub mod client {
    #![allow(missing_docs)]
    pub const HELLO_DONE: u8 = 1;
    pub const CERT_DONE: u8 = 2;
    pub const HANDSHAKE_DONE: u8 = 3;
    pub const FINISHED: u8 = 4;
}

/// Progress of the server.
pub mod server {
    #![allow(missing_docs)]
    pub const HELLO: u8 = 1;
    pub const CERT_DONE: u8 = 2;
    pub const HELLO_DONE: u8 = 3;
    pub const HANDSHAKE_DONE: u8 = 4;
    pub const FINISHED: u8 = 5;
}

/// Buffers by their numbers.
pub mod buffer {
    #![allow(missing_docs)]
    pub const SNI: u16 = 0;
    pub const CERT_SUBJECT: u16 = 1;
    pub const CERT_ISSUER: u16 = 2;
    pub const CERT_SERIAL: u16 = 3;
    pub const CERT_FINGERPRINT: u16 = 4;
    pub const CERTS: u16 = 5;
    pub const ALT_NAME: u16 = 6;
    pub const ALPN: u16 = 7;
    pub const RANDOM: u16 = 8;
    pub const RANDOM_TIME: u16 = 9;
    pub const RANDOM_BYTES: u16 = 10;
    pub const JA3_HASH: u16 = 11;
    pub const JA3_STRING: u16 = 12;
    pub const JA4: u16 = 13;
}

/// Events by their codes.
pub mod event {
    #![allow(missing_docs)]
    pub const INVALID_SSLV2_HEADER: u16 = 0;
    pub const INVALID_TLS_HEADER: u16 = 1;
    pub const INVALID_RECORD_VERSION: u16 = 2;
    pub const INVALID_RECORD_TYPE: u16 = 3;
    pub const INVALID_RECORD_LENGTH: u16 = 4;
    pub const INVALID_HANDSHAKE_MESSAGE: u16 = 5;
    pub const HEARTBEAT_MESSAGE: u16 = 6;
    pub const INVALID_HEARTBEAT_MESSAGE: u16 = 7;
    pub const OVERFLOW_HEARTBEAT_MESSAGE: u16 = 8;
    pub const DATALEAK_HEARTBEAT_MISMATCH: u16 = 9;
    pub const HANDSHAKE_INVALID_LENGTH: u16 = 10;
    pub const MULTIPLE_SNI_EXTENSIONS: u16 = 11;
    pub const INVALID_SNI_TYPE: u16 = 12;
    pub const INVALID_SNI_LENGTH: u16 = 13;
    pub const TOO_MANY_RECORDS_IN_PACKET: u16 = 14;
    pub const INVALID_ALERT_MESSAGE: u16 = 15;
    pub const INVALID_CERTIFICATE: u16 = 16;
    pub const CERTIFICATE_INVALID_LENGTH: u16 = 17;
    pub const CERTIFICATE_INVALID_VERSION: u16 = 18;
    pub const CERTIFICATE_INVALID_SERIAL: u16 = 19;
    pub const CERTIFICATE_INVALID_ALGORITHMIDENTIFIER: u16 = 20;
    pub const CERTIFICATE_INVALID_X509NAME: u16 = 21;
    pub const CERTIFICATE_INVALID_DATE: u16 = 22;
    pub const CERTIFICATE_INVALID_EXTENSIONS: u16 = 23;
    pub const CERTIFICATE_INVALID_DER: u16 = 24;
    pub const CERTIFICATE_INVALID_SUBJECT: u16 = 25;
    pub const CERTIFICATE_INVALID_ISSUER: u16 = 26;
    pub const CERTIFICATE_INVALID_VALIDITY: u16 = 27;
    pub const ERROR_MESSAGE_ENCOUNTERED: u16 = 28;
    pub const INVALID_SSL_RECORD: u16 = 29;
    pub const TOO_MANY_SUBJECT_ALTERNATIVE_NAMES: u16 = 30;
    // Rules may name the next three; nothing raises them, as in Suricata 8.0.7.
    pub const CERTIFICATE_MISSING_ELEMENT: u16 = 31;
    pub const CERTIFICATE_UNKNOWN_ELEMENT: u16 = 32;
    pub const CERTIFICATE_INVALID_STRING: u16 = 33;
}

const fn at_client(progress: u8, local: u16) -> Hook {
    Hook::new(ToServer, progress, local)
}

const fn at_server(progress: u8, local: u16) -> Hook {
    Hook::new(ToClient, progress, local)
}

const fn hello(local: u16) -> [Hook; 2] {
    [at_client(client::HELLO_DONE, local), at_server(server::HELLO, local)]
}

const fn cert(local: u16) -> [Hook; 2] {
    [at_client(client::CERT_DONE, local), at_server(server::CERT_DONE, local)]
}

const fn def(
    name: &'static str,
    description: &'static str,
    aliases: &'static [&'static str],
    hooks: &'static [Hook],
) -> BufferDef {
    BufferDef { name, internal: name, description, aliases, hooks, ..BufferDef::PLAIN }
}

const BUFFERS: &[BufferDef] = &[
    def(
        "tls.sni",
        "TLS Server Name Indication (SNI) extension",
        &["tls_sni"],
        &[at_client(client::HELLO_DONE, buffer::SNI)],
    ),
    def(
        "tls.cert_subject",
        "TLS certificate subject",
        &["tls_cert_subject"],
        &cert(buffer::CERT_SUBJECT),
    ),
    def(
        "tls.cert_issuer",
        "TLS certificate issuer",
        &["tls_cert_issuer"],
        &cert(buffer::CERT_ISSUER),
    ),
    BufferDef {
        form: LiteralForm::Serial,
        ..def(
            "tls.cert_serial",
            "TLS certificate serial number",
            &["tls_cert_serial"],
            &cert(buffer::CERT_SERIAL),
        )
    },
    BufferDef {
        form: LiteralForm::Fingerprint,
        ..def(
            "tls.cert_fingerprint",
            "TLS certificate fingerprint",
            &["tls_cert_fingerprint"],
            &cert(buffer::CERT_FINGERPRINT),
        )
    },
    BufferDef { multi: true, ..def("tls.certs", "TLS certificate", &[], &cert(buffer::CERTS)) },
    BufferDef {
        multi: true,
        ..def(
            "tls.subjectaltname",
            "TLS Subject Alternative Name",
            &[],
            &[at_server(server::CERT_DONE, buffer::ALT_NAME)],
        )
    },
    BufferDef { multi: true, ..def("tls.alpn", "TLS APLN", &[], &hello(buffer::ALPN)) },
    def(
        "tls.random",
        "TLS Random",
        &[],
        &[at_client(0, buffer::RANDOM), at_server(0, buffer::RANDOM)],
    ),
    def("tls.random_time", "TLS Random Time", &[], &hello(buffer::RANDOM_TIME)),
    def("tls.random_bytes", "TLS Random Bytes", &[], &hello(buffer::RANDOM_BYTES)),
    BufferDef {
        form: LiteralForm::Md5,
        ..def(
            "ja3.hash",
            "TLS JA3 hash",
            &["ja3_hash"],
            &[at_client(client::HELLO_DONE, buffer::JA3_HASH)],
        )
        .needing(BufferNeed::Ja3)
    },
    def(
        "ja3.string",
        "TLS JA3 string",
        &["ja3_string"],
        &[at_client(client::HELLO_DONE, buffer::JA3_STRING)],
    )
    .needing(BufferNeed::Ja3),
    BufferDef {
        form: LiteralForm::Md5,
        ..def("ja3s.hash", "TLS JA3S hash", &[], &[at_server(server::HELLO, buffer::JA3_HASH)])
            .needing(BufferNeed::Ja3)
    },
    def("ja3s.string", "TLS JA3S string", &[], &[at_server(server::HELLO, buffer::JA3_STRING)])
        .needing(BufferNeed::Ja3),
    def("ja4.hash", "TLS JA4 hash", &[], &[at_client(client::HELLO_DONE, buffer::JA4)]),
];

const INTEGERS: &[IntegerDef] = &[IntegerDef {
    name: "tls.cert_chain_len",
    width: IntegerWidth::U32,
    hooks: &[at_server(server::CERT_DONE, 0)],
    ..IntegerDef::PLAIN
}];

pub(super) const ANYTIME: &[Hook] = &[at_client(0, 0), at_server(0, 0)];
pub(super) const ON_CERT: &[Hook] = &cert(0);
pub(super) const ON_SERVER_CERT: &[Hook] = &[at_server(server::CERT_DONE, 0)];

const fn named(name: &'static str, code: u16) -> EventDef {
    EventDef { name, code }
}

const EVENTS: &[EventDef] = &[
    named("invalid_sslv2_header", event::INVALID_SSLV2_HEADER),
    named("invalid_tls_header", event::INVALID_TLS_HEADER),
    named("invalid_record_version", event::INVALID_RECORD_VERSION),
    named("invalid_record_type", event::INVALID_RECORD_TYPE),
    named("invalid_record_length", event::INVALID_RECORD_LENGTH),
    named("invalid_handshake_message", event::INVALID_HANDSHAKE_MESSAGE),
    named("heartbeat_message", event::HEARTBEAT_MESSAGE),
    named("invalid_heartbeat_message", event::INVALID_HEARTBEAT_MESSAGE),
    named("overflow_heartbeat_message", event::OVERFLOW_HEARTBEAT_MESSAGE),
    named("dataleak_heartbeat_mismatch", event::DATALEAK_HEARTBEAT_MISMATCH),
    named("handshake_invalid_length", event::HANDSHAKE_INVALID_LENGTH),
    named("multiple_sni_extensions", event::MULTIPLE_SNI_EXTENSIONS),
    named("invalid_sni_type", event::INVALID_SNI_TYPE),
    named("invalid_sni_length", event::INVALID_SNI_LENGTH),
    named("too_many_records_in_packet", event::TOO_MANY_RECORDS_IN_PACKET),
    named("invalid_alert_message", event::INVALID_ALERT_MESSAGE),
    named("invalid_certificate", event::INVALID_CERTIFICATE),
    named("certificate_invalid_length", event::CERTIFICATE_INVALID_LENGTH),
    named("certificate_invalid_version", event::CERTIFICATE_INVALID_VERSION),
    named("certificate_invalid_serial", event::CERTIFICATE_INVALID_SERIAL),
    named(
        "certificate_invalid_algorithmidentifier",
        event::CERTIFICATE_INVALID_ALGORITHMIDENTIFIER,
    ),
    named("certificate_invalid_x509name", event::CERTIFICATE_INVALID_X509NAME),
    named("certificate_invalid_date", event::CERTIFICATE_INVALID_DATE),
    named("certificate_invalid_extensions", event::CERTIFICATE_INVALID_EXTENSIONS),
    named("certificate_invalid_der", event::CERTIFICATE_INVALID_DER),
    named("certificate_invalid_subject", event::CERTIFICATE_INVALID_SUBJECT),
    named("certificate_invalid_issuer", event::CERTIFICATE_INVALID_ISSUER),
    named("certificate_invalid_validity", event::CERTIFICATE_INVALID_VALIDITY),
    named("error_message_encountered", event::ERROR_MESSAGE_ENCOUNTERED),
    named("too_many_subject_alternative_names", event::TOO_MANY_SUBJECT_ALTERNATIVE_NAMES),
    named("certificate_missing_element", event::CERTIFICATE_MISSING_ELEMENT),
    named("certificate_unknown_element", event::CERTIFICATE_UNKNOWN_ELEMENT),
    named("certificate_invalid_string", event::CERTIFICATE_INVALID_STRING),
    named("invalid_ssl_record", event::INVALID_SSL_RECORD),
];

/// Frames, in the order of their numbers.
pub mod frame {
    /// A record.
    pub const PDU: u8 = 0;
    /// A record's header.
    pub const HDR: u8 = 1;
    /// A record without its header.
    pub const DATA: u8 = 2;
    /// An alert.
    pub const ALERT: u8 = 3;
    /// A heartbeat.
    pub const HEARTBEAT: u8 = 4;
    /// The header of an SSL 2.0 record.
    pub const SSL2_HDR: u8 = 5;
    /// An SSL 2.0 record.
    pub const SSL2_PDU: u8 = 6;
}

const FRAMES: &[&str] = &["pdu", "hdr", "data", "alert", "heartbeat", "ssl2.hdr", "ssl2.pdu"];

/// What TLS offers but its conditions.
pub const TABLE: ProtoTable = ProtoTable {
    name: "tls",
    eve_name: "tls",
    rule_names: &["tls"],
    transports: &[Transport::Tcp],
    is_counted_by_transport: false,
    has_uncounted_txs: true,
    states_to_server: &[
        "client_in_progress",
        "client_hello_done",
        "client_cert_done",
        "client_handshake_done",
        "client_finished",
    ],
    states_to_client: &[
        "server_in_progress",
        "server_hello",
        "server_cert_done",
        "server_hello_done",
        "server_handshake_done",
        "server_finished",
    ],
    buffers: BUFFERS,
    integers: INTEGERS,
    conditions: &[],
    events: EVENTS,
    events_from: [0; 2],
    events_in_capitals: true,
    frames: FRAMES,
    any_version: None,
    own_outputs: OwnOutputs { line_log: Some(LineLog::Tls), ..OwnOutputs::SCRIPTS },
    advises_modifiers: false,
    has_memory_counters: false,
    other_keywords: &["tls_store"],
    refuses_file_names: false,
};
