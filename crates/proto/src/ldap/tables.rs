//! What LDAP offers to rules.

use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::applayer::{
    BufferDef, EventDef, Hook, IntegerDef, IntegerWidth, ProtoTable, Transport,
};

/// Operations by their tags (RFC 4511 appendix B), as Suricata's manual names them.
pub(super) const OPERATIONS: &[(&str, u64)] = &[
    ("bind_request", 0),
    ("bind_response", 1),
    ("unbind_request", 2),
    ("search_request", 3),
    ("search_result_entry", 4),
    ("search_result_done", 5),
    ("modify_request", 6),
    ("modify_response", 7),
    ("add_request", 8),
    ("add_response", 9),
    ("del_request", 10),
    ("del_response", 11),
    ("mod_dn_request", 12),
    ("mod_dn_response", 13),
    ("compare_request", 14),
    ("compare_response", 15),
    ("abandon_request", 16),
    ("search_result_reference", 19),
    ("extended_request", 23),
    ("extended_response", 24),
    ("intermediate_response", 25),
];

/// Result codes (RFC 4511 appendix A.1, and the registry of RFC 4520 3.8), as Suricata 8.0.7 writes them.
pub(super) const RESULT_CODES: &[(&str, u64)] = &[
    ("success", 0),
    ("operations_error", 1),
    ("protocol_error", 2),
    ("time_limit_exceeded", 3),
    ("size_limit_exceeded", 4),
    ("compare_false", 5),
    ("compare_true", 6),
    ("auth_method_not_supported", 7),
    ("stronger_auth_required", 8),
    ("referral", 10),
    ("admin_limit_exceeded", 11),
    ("unavailable_critical_extension", 12),
    ("confidentiality_required", 13),
    ("sasl_bind_in_progress", 14),
    ("no_such_attribute", 16),
    ("undefined_attribute_type", 17),
    ("inappropriate_matching", 18),
    ("constraint_violation", 19),
    ("attribute_or_value_exists", 20),
    ("invalid_attribute_syntax", 21),
    ("no_such_object", 32),
    ("alias_problem", 33),
    ("invalid_dns_syntax", 34),
    ("is_leaf", 35),
    ("alias_dereferencing_problem", 36),
    ("inappropriate_authentication", 48),
    ("invalid_credentials", 49),
    ("insufficient_access_rights", 50),
    ("busy", 51),
    ("unavailable", 52),
    ("unwilling_to_perform", 53),
    ("loop_detect", 54),
    ("sort_control_missing", 60),
    ("offset_range_error", 61),
    ("naming_violation", 64),
    ("object_class_violation", 65),
    ("not_allowed_on_non_leaf", 66),
    ("not_allowed_on_rdn", 67),
    ("entry_already_exists", 68),
    ("object_class_mods_prohibited", 69),
    ("results_too_large", 70),
    ("affects_multiple_dsas", 71),
    ("control_error", 76),
    ("other", 80),
    ("server_down", 81),
    ("local_error", 82),
    ("encoding_error", 83),
    ("decoding_error", 84),
    ("timeout", 85),
    ("auth_unknown", 86),
    ("filter_error", 87),
    ("user_canceled", 88),
    ("param_error", 89),
    ("no_memory", 90),
    ("connect_error", 91),
    ("not_supported", 92),
    ("control_not_found", 93),
    ("no_results_returned", 94),
    ("more_results_to_return", 95),
    ("client_loop", 96),
    ("referral_limit_exceeded", 97),
    ("invalid_response", 100),
    ("ambiguous_response", 101),
    ("tls_not_supported", 112),
    ("intermediate_response", 113),
    ("canceled", 118),
    ("no_such_operation", 119),
    ("too_late", 120),
    ("cannot_cancel", 121),
    ("assertion_failed", 122),
    ("authorization_denied", 123),
    ("e_sync_refresh_required", 4096),
    ("no_operation", 16654),
];

/// The name of a value.
pub(super) fn name_of(names: &[(&'static str, u64)], value: u64) -> Option<&'static str> {
    let at = names.binary_search_by_key(&value, |(_, n)| *n).ok()?;
    names.get(at).map(|(name, _)| *name)
}

/// Buffers by their numbers.
pub(super) mod buffer {
    pub(crate) const REQUEST_DN: u16 = 0;
    pub(crate) const RESPONSES_DN: u16 = 1;
    pub(crate) const RESPONSES_MESSAGE: u16 = 2;
    pub(crate) const REQUEST_ATTRIBUTE: u16 = 3;
    pub(crate) const RESPONSES_ATTRIBUTE: u16 = 4;
}

/// Integers by their numbers.
pub(super) mod integer {
    pub(crate) const REQUEST_OPERATION: u16 = 0;
    pub(crate) const RESPONSES_OPERATION: u16 = 1;
    pub(crate) const RESPONSES_COUNT: u16 = 2;
    pub(crate) const RESULT_CODE: u16 = 3;
}

/// Events by their codes.
pub(super) mod event {
    pub(crate) const TOO_MANY_TRANSACTIONS: u16 = 0;
    pub(crate) const INVALID_DATA: u16 = 1;
    pub(crate) const REQUEST_NOT_FOUND: u16 = 2;
    pub(crate) const TOO_MANY_RESPONSES: u16 = 3;
    pub(crate) const INCOMPLETE_DATA: u16 = 4;
}

/// Frames by their numbers.
pub(super) mod frame {
    pub(crate) const PDU: u8 = 0;
}

const fn hook(direction: Direction, local: u16) -> [Hook; 1] {
    [Hook::new(direction, 0, local)]
}

const fn bytes(name: &'static str, description: &'static str, hooks: &'static [Hook]) -> BufferDef {
    BufferDef { name, internal: name, description, hooks, ..BufferDef::PLAIN }
}

const BUFFERS: &[BufferDef] = &[
    bytes(
        "ldap.request.dn",
        "LDAP REQUEST DISTINGUISHED_NAME",
        &hook(ToServer, buffer::REQUEST_DN),
    ),
    BufferDef {
        multi: true,
        ..bytes(
            "ldap.responses.dn",
            "LDAP RESPONSES DISTINGUISHED_NAME",
            &hook(ToClient, buffer::RESPONSES_DN),
        )
    },
    BufferDef {
        multi: true,
        ..bytes(
            "ldap.responses.message",
            "LDAP RESPONSES DISTINGUISHED_NAME",
            &hook(ToClient, buffer::RESPONSES_MESSAGE),
        )
    },
    BufferDef {
        multi: true,
        ..bytes(
            "ldap.request.attribute_type",
            "LDAP REQUEST ATTRIBUTE TYPE",
            &hook(ToServer, buffer::REQUEST_ATTRIBUTE),
        )
    },
    BufferDef {
        multi: true,
        ..bytes(
            "ldap.responses.attribute_type",
            "LDAP RESPONSES ATTRIBUTE TYPE",
            &hook(ToClient, buffer::RESPONSES_ATTRIBUTE),
        )
    },
];

const INTEGERS: &[IntegerDef] = &[
    IntegerDef {
        name: "ldap.request.operation",
        names: OPERATIONS,
        hooks: &hook(ToServer, integer::REQUEST_OPERATION),
        ..IntegerDef::PLAIN
    },
    IntegerDef {
        name: "ldap.responses.operation",
        multi: true,
        is_indexed: true,
        names: OPERATIONS,
        hooks: &hook(ToClient, integer::RESPONSES_OPERATION),
        ..IntegerDef::PLAIN
    },
    IntegerDef {
        name: "ldap.responses.count",
        width: IntegerWidth::U32,
        hooks: &hook(ToClient, integer::RESPONSES_COUNT),
        ..IntegerDef::PLAIN
    },
    IntegerDef {
        name: "ldap.responses.result_code",
        width: IntegerWidth::U32,
        multi: true,
        is_indexed: true,
        names: RESULT_CODES,
        hooks: &hook(ToClient, integer::RESULT_CODE),
        ..IntegerDef::PLAIN
    },
];

const fn named(name: &'static str, code: u16) -> EventDef {
    EventDef { name, code }
}

/// What LDAP offers.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["ldap"],
    buffers: BUFFERS,
    integers: INTEGERS,
    events: &[
        named("too_many_transactions", event::TOO_MANY_TRANSACTIONS),
        named("invalid_data", event::INVALID_DATA),
        named("request_not_found", event::REQUEST_NOT_FOUND),
        named("too_many_responses", event::TOO_MANY_RESPONSES),
        named("incomplete_data", event::INCOMPLETE_DATA),
    ],
    frames: &["pdu"],
    ..ProtoTable::of_requests("ldap", &[Transport::Tcp, Transport::Udp])
};
