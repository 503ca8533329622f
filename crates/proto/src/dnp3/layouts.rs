//! What a point of each object holds: names and widths of its fields.
//!
//! Names, widths and their order are those of Suricata's records (8.0.7; each field found by setting one
//! bit of a point at a time), the meaning is in IEEE 1815-2012 annex A.

/// Bits of an octet with their names, lowest first.
type Bits = &'static [(&'static str, u8)];

/// A field of a point. Numbers are little endian.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field {
    /// An octet of named bits.
    Flags(Bits),
    /// 8 bits.
    U8(&'static str),
    /// 16 bits.
    U16(&'static str),
    /// 24 bits.
    U24(&'static str),
    /// 32 bits.
    U32(&'static str),
    /// 48 bits.
    U48(&'static str),
    /// 16 bits with a sign.
    I16(&'static str),
    /// 32 bits with a sign.
    I32(&'static str),
    /// A float of 32 bits.
    F32(&'static str),
    /// A float of 64 bits.
    F64(&'static str),
    /// 16 bits that are the length of a later field: its number.
    Len(&'static str, usize),
    /// A text of the length of that number.
    Text(&'static str, usize),
    /// Bytes of the length of that number.
    Data(&'static str, usize),
    /// A text up to the end of the point, whose size came before it.
    RestText(&'static str),
    /// Bytes up to the end of the point, whose size came before it.
    RestData(&'static str),
    /// Four bytes that are a text, which ends at the first zero.
    Code(&'static str),
}

/// How points of an object lie one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) enum Layout {
    /// Each point is a number of that many bits; an octet holds several.
    Packed(&'static str, u8),
    /// Each point has these fields.
    Fields(&'static [Field]),
    /// The same, and each point's size has to be in front of it.
    Sized(&'static [Field]),
}

use Field::{
    Code, Data, F32, F64, Flags, I16, I32, Len, RestData, RestText, Text, U8, U16, U24, U32, U48,
};
use Layout::{Fields, Packed, Sized};

const BINARY: Bits = &[
    ("online", 1),
    ("restart", 1),
    ("comm_lost", 1),
    ("remote_forced", 1),
    ("local_forced", 1),
    ("chatter_filter", 1),
    ("reserved", 1),
    ("state", 1),
];
const DOUBLE_BIT: Bits = &[
    ("online", 1),
    ("restart", 1),
    ("comm_lost", 1),
    ("remote_forced", 1),
    ("local_forced", 1),
    ("chatter_filter", 1),
    ("state", 2),
];
const BINARY_OUTPUT: Bits = &[
    ("online", 1),
    ("restart", 1),
    ("comm_lost", 1),
    ("remote_forced", 1),
    ("local_forced", 1),
    ("reserved0", 1),
    ("reserved1", 1),
    ("state", 1),
];
const CONTROL: Bits = &[("op_type", 4), ("qu", 1), ("cr", 1), ("tcc", 2)];
const CONTROL_STATUS: Bits = &[("status_code", 7), ("reserved", 1)];
const COMMANDED: Bits = &[("status_code", 7), ("commanded_state", 1)];
const COUNTER: Bits = &[
    ("online", 1),
    ("restart", 1),
    ("comm_lost", 1),
    ("remote_forced", 1),
    ("local_forced", 1),
    ("rollover", 1),
    ("discontinuity", 1),
    ("reserved0", 1),
];
const DELTA_COUNTER: Bits = &[
    ("online", 1),
    ("restart", 1),
    ("comm_lost", 1),
    ("remote_forced", 1),
    ("local_forced", 1),
    ("rollover", 1),
    ("reserved0", 1),
    ("reserved1", 1),
];
const FROZEN_COUNTER: Bits = &[
    ("online", 1),
    ("restart", 1),
    ("comm_lost", 1),
    ("remote_forced", 1),
    ("local_forced", 1),
    ("rollover", 1),
    ("discontinuity", 1),
    ("reserved1", 1),
];
const ANALOG: Bits = &[
    ("online", 1),
    ("restart", 1),
    ("comm_lost", 1),
    ("remote_forced", 1),
    ("local_forced", 1),
    ("over_range", 1),
    ("reference_err", 1),
    ("reserved0", 1),
];
const ANALOG_STATUS: Bits = &[("status_code", 7), ("reserved0", 1)];
const BUFFER_STATE: Bits = &[("fill_percentage", 7), ("overflow_state", 1)];
const DATA_SET: Bits = &[
    ("rd", 1),
    ("wr", 1),
    ("st", 1),
    ("ev", 1),
    ("df", 1),
    ("padding0", 1),
    ("padding1", 1),
    ("padding2", 1),
];
const STATISTIC: Bits = &[
    ("online", 1),
    ("restart", 1),
    ("comm_lost", 1),
    ("remote_forced", 1),
    ("local_forced", 1),
    ("reserved0", 1),
    ("discontinuity", 1),
    ("reserved1", 1),
];

/// The layout of the points of an object; `None`: it has none that is known.
pub(super) fn find_layout(group: u8, variation: u8) -> Option<Layout> {
    Some(match (group, variation) {
        (1, 1) | (10, 1) | (80, 1) => Packed("state", 1),
        (1, 2) => Fields(&[Flags(BINARY)]),
        (2, 1) => Fields(&[U8("state")]),
        (2, 2) => Fields(&[Flags(BINARY), U48("timestamp")]),
        (2, 3) => Fields(&[Flags(BINARY), U16("timestamp")]),
        (3, 1) => Packed("state", 2),
        (3, 2) | (4, 1) => Fields(&[Flags(DOUBLE_BIT)]),
        (4, 2) => Fields(&[Flags(DOUBLE_BIT), U48("timestamp")]),
        (4, 3) => Fields(&[Flags(DOUBLE_BIT), U16("relative_time_ms")]),
        (10, 2) | (11, 1) => Fields(&[Flags(BINARY_OUTPUT)]),
        (11, 2) => Fields(&[Flags(BINARY_OUTPUT), U48("timestamp")]),
        (12, 1) | (12, 2) => Fields(&[
            Flags(CONTROL),
            U8("count"),
            U32("ontime"),
            U32("offtime"),
            Flags(CONTROL_STATUS),
        ]),
        (12, 3) => Packed("point", 1),
        (13, 1) => Fields(&[Flags(COMMANDED)]),
        (13, 2) => Fields(&[Flags(COMMANDED), U48("timestamp")]),
        (20, 1) | (21, 1) | (22, 1) | (23, 1) => Fields(&[Flags(COUNTER), U32("count")]),
        (20, 2) | (21, 2) | (22, 2) => Fields(&[Flags(COUNTER), U16("count")]),
        (20, 3) | (21, 3) | (22, 3) | (23, 3) => Fields(&[Flags(DELTA_COUNTER), U32("count")]),
        (20, 4) | (21, 4) | (22, 4) | (23, 2) | (23, 4) => {
            Fields(&[Flags(DELTA_COUNTER), U16("count")])
        }
        (20, 5) | (20, 7) | (21, 9) | (21, 11) => Fields(&[U32("count")]),
        (20, 6) | (20, 8) | (21, 10) | (21, 12) => Fields(&[U16("count")]),
        (21, 5) => Fields(&[Flags(FROZEN_COUNTER), U32("count"), U48("timestamp")]),
        (21, 6) => Fields(&[Flags(FROZEN_COUNTER), U16("count"), U48("timestamp")]),
        (21, 7) | (22, 5) | (22, 7) | (23, 7) => {
            Fields(&[Flags(DELTA_COUNTER), U32("count"), U48("timestamp")])
        }
        (21, 8) | (22, 8) | (23, 8) => {
            Fields(&[Flags(DELTA_COUNTER), U16("count"), U48("timestamp")])
        }
        (22, 6) | (23, 6) => Fields(&[Flags(COUNTER), U16("count"), U48("timestamp")]),
        (23, 5) => Fields(&[Flags(COUNTER), U32("count"), U48("timestamp")]),
        (30, 1) | (31, 1) | (32, 1) | (33, 1) | (40, 1) | (42, 1) => {
            Fields(&[Flags(ANALOG), I32("value")])
        }
        (30, 2) | (31, 2) | (32, 2) | (33, 2) | (40, 2) | (42, 2) => {
            Fields(&[Flags(ANALOG), I16("value")])
        }
        (30, 3) | (31, 5) => Fields(&[I32("value")]),
        (30, 4) | (31, 6) => Fields(&[I16("value")]),
        (30, 5) | (31, 7) | (32, 5) | (33, 5) | (40, 3) | (42, 5) => {
            Fields(&[Flags(ANALOG), F32("value")])
        }
        (30, 6) | (31, 8) | (32, 6) | (33, 6) | (40, 4) | (42, 6) => {
            Fields(&[Flags(ANALOG), F64("value")])
        }
        (31, 3) | (32, 3) | (33, 3) | (42, 3) => {
            Fields(&[Flags(ANALOG), I32("value"), U48("timestamp")])
        }
        (31, 4) | (32, 4) | (33, 4) | (42, 4) => {
            Fields(&[Flags(ANALOG), I16("value"), U48("timestamp")])
        }
        (32, 7) | (33, 7) | (42, 7) => Fields(&[Flags(ANALOG), F32("value"), U48("timestamp")]),
        (32, 8) | (33, 8) | (42, 8) => Fields(&[Flags(ANALOG), F64("value"), U48("timestamp")]),
        (34, 1) => Fields(&[U16("deadband_value")]),
        (34, 2) => Fields(&[U32("deadband_value")]),
        (34, 3) => Fields(&[F32("deadband_value")]),
        (41, 1) => Fields(&[I32("value"), U8("control_status")]),
        (41, 2) => Fields(&[I16("value"), U8("control_status")]),
        (41, 3) => Fields(&[F32("value"), U8("control_status")]),
        (41, 4) => Fields(&[F64("value"), U8("control_status")]),
        (43, 1) => Fields(&[Flags(ANALOG_STATUS), I32("commanded_value")]),
        (43, 2) => Fields(&[Flags(ANALOG_STATUS), I16("commanded_value")]),
        (43, 3) => Fields(&[Flags(ANALOG_STATUS), I32("commanded_value"), U48("timestamp")]),
        (43, 4) => Fields(&[Flags(ANALOG_STATUS), I16("commanded_value"), U48("timestamp")]),
        (43, 5) => Fields(&[Flags(ANALOG_STATUS), F32("commanded_value")]),
        (43, 6) => Fields(&[Flags(ANALOG_STATUS), F64("commanded_value")]),
        (43, 7) => Fields(&[Flags(ANALOG_STATUS), F32("commanded_value"), U48("timestamp")]),
        (43, 8) => Fields(&[Flags(ANALOG_STATUS), F64("commanded_value"), U48("timestamp")]),
        (50, 1) | (50, 3) | (51, 1) | (51, 2) => Fields(&[U48("timestamp")]),
        (50, 2) => Fields(&[U48("timestamp"), U32("interval")]),
        (50, 4) => Fields(&[U48("timestamp"), U32("interval_count"), U8("interval_units")]),
        (52, 1) => Fields(&[U16("delay_secs")]),
        (52, 2) => Fields(&[U16("delay_ms")]),
        (70, 1) => Fields(&[
            Len("filename_size", 0),
            U8("filetype_code"),
            U8("attribute_code"),
            U16("start_record"),
            U16("end_record"),
            U32("file_size"),
            U48("created_timestamp"),
            U16("permission"),
            U32("file_id"),
            U32("owner_id"),
            U32("group_id"),
            U8("file_function_code"),
            U8("status_code"),
            Text("filename", 0),
            Len("data_size", 1),
            Text("data", 1),
        ]),
        (70, 2) => Fields(&[
            U16("username_offset"),
            Len("username_size", 0),
            U16("password_offset"),
            Len("password_size", 1),
            U32("authentication_key"),
            Text("username", 0),
            Text("password", 1),
        ]),
        (70, 3) => Fields(&[
            U16("filename_offset"),
            Len("filename_size", 0),
            U48("created"),
            U16("permissions"),
            U32("authentication_key"),
            U32("file_size"),
            U16("operational_mode"),
            U16("maximum_block_size"),
            U16("request_id"),
            Text("filename", 0),
        ]),
        (70, 4) => Sized(&[
            U32("file_handle"),
            U32("file_size"),
            U16("maximum_block_size"),
            U16("request_id"),
            U8("status_code"),
            RestText("optional_text"),
        ]),
        (70, 5) => Sized(&[U32("file_handle"), U32("block_number"), RestText("file_data")]),
        (70, 6) => Sized(&[
            U32("file_handle"),
            U32("block_number"),
            U8("status_code"),
            RestText("optional_text"),
        ]),
        (70, 7) => Fields(&[
            U16("filename_offset"),
            Len("filename_size", 0),
            U16("file_type"),
            U32("file_size"),
            U48("created_timestamp"),
            U16("permissions"),
            U16("request_id"),
            Text("filename", 0),
        ]),
        (70, 8) => Sized(&[RestText("file_specification")]),
        (81, 1) => Fields(&[Flags(BUFFER_STATE), U8("group"), U8("variation")]),
        (83, 1) => Fields(&[
            Code("data->vendor_code"),
            U16("object_id"),
            Len("length", 0),
            Data("data->data_objects", 0),
        ]),
        (86, 2) => Fields(&[Flags(DATA_SET)]),
        (102, 1) => Fields(&[U8("value")]),
        (120, 1) => Sized(&[
            U32("csq"),
            U16("usr"),
            U8("mal"),
            U8("reason"),
            RestData("data->challenge_data"),
        ]),
        (120, 2) => Sized(&[U32("csq"), U16("usr"), RestData("data->mac_value")]),
        (120, 3) => Fields(&[U32("csq"), U16("user_number")]),
        (120, 4) => Fields(&[U16("user_number")]),
        (120, 5) => Sized(&[
            U32("ksq"),
            U16("user_number"),
            U8("key_wrap_alg"),
            U8("key_status"),
            U8("mal"),
            Len("challenge_data_len", 0),
            Data("data->challenge_data", 0),
            RestData("data->mac_value"),
        ]),
        (120, 6) => Sized(&[U24("ksq"), U16("usr"), RestData("data->wrapped_key_data")]),
        (120, 7) => Sized(&[
            U32("sequence_number"),
            U16("usr"),
            U16("association_id"),
            U8("error_code"),
            U48("time_of_error"),
            RestText("error_text"),
        ]),
        (120, 8) => {
            Sized(&[U8("key_change_method"), U8("certificate_type"), RestData("data->certificate")])
        }
        (120, 9) => Fields(&[RestData("data->mac_value")]),
        (120, 10) => Sized(&[
            U8("key_change_method"),
            U8("operation"),
            U32("scs"),
            U16("user_role"),
            U16("user_role_expiry_interval"),
            Len("username_len", 0),
            Len("user_public_key_len", 1),
            Len("certification_data_len", 2),
            Text("username", 0),
            Data("data->user_public_key", 1),
            Data("data->certification_data", 2),
        ]),
        (120, 11) => Sized(&[
            U8("key_change_method"),
            Len("username_len", 0),
            Len("master_challenge_data_len", 1),
            Text("username", 0),
            Data("data->master_challenge_data", 1),
        ]),
        (120, 12) => Sized(&[
            U32("ksq"),
            U16("user_number"),
            Len("challenge_data_len", 0),
            Data("data->challenge_data", 0),
        ]),
        (120, 13) => Sized(&[
            U32("ksq"),
            U16("user_number"),
            Len("encrypted_update_key_len", 0),
            Data("data->encrypted_update_key_data", 0),
        ]),
        (120, 14) => Sized(&[RestData("data->digital_signature")]),
        (120, 15) => Sized(&[RestData("data->mac")]),
        (121, 1) | (122, 1) => {
            Fields(&[Flags(STATISTIC), U16("association_id"), U32("count_value")])
        }
        (122, 2) => {
            Fields(&[Flags(STATISTIC), U16("association_id"), U32("count_value"), U48("timestamp")])
        }
        _ => return None,
    })
}
