//! What DNS offers to rules, and its names for types and codes.

use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{
    BufferDef, EventDef, Hook, IntegerDef, IntegerWidth, OwnOutputs, ProtoTable, Transport,
};

/// Types whose data is looked into.
pub mod rrtype {
    #![allow(missing_docs)]
    pub const A: u16 = 1;
    pub const NS: u16 = 2;
    pub const CNAME: u16 = 5;
    pub const SOA: u16 = 6;
    pub const NULL: u16 = 10;
    pub const PTR: u16 = 12;
    pub const MX: u16 = 15;
    pub const TXT: u16 = 16;
    pub const AAAA: u16 = 28;
    pub const SRV: u16 = 33;
    pub const OPT: u16 = 41;
    pub const SSHFP: u16 = 44;
}

/// Names of types: exactly those Suricata 8.0.7 names (measured with one question of each type from
/// 0 to 299); all others are written as numbers.
pub const RRTYPES: &[(&str, u64)] = &[
    ("A", 1),
    ("NS", 2),
    ("MD", 3),
    ("MF", 4),
    ("CNAME", 5),
    ("SOA", 6),
    ("MB", 7),
    ("MG", 8),
    ("MR", 9),
    ("NULL", 10),
    ("WKS", 11),
    ("PTR", 12),
    ("HINFO", 13),
    ("MINFO", 14),
    ("MX", 15),
    ("TXT", 16),
    ("RP", 17),
    ("AFSDB", 18),
    ("X25", 19),
    ("ISDN", 20),
    ("RT", 21),
    ("NSAP", 22),
    ("NSAPPTR", 23),
    ("SIG", 24),
    ("KEY", 25),
    ("PX", 26),
    ("GPOS", 27),
    ("AAAA", 28),
    ("LOC", 29),
    ("NXT", 30),
    ("SRV", 33),
    ("ATMA", 34),
    ("NAPTR", 35),
    ("KX", 36),
    ("CERT", 37),
    ("A6", 38),
    ("DNAME", 39),
    ("OPT", 41),
    ("APL", 42),
    ("DS", 43),
    ("SSHFP", 44),
    ("IPSECKEY", 45),
    ("RRSIG", 46),
    ("NSEC", 47),
    ("DNSKEY", 48),
    ("DHCID", 49),
    ("NSEC3", 50),
    ("NSEC3PARAM", 51),
    ("TLSA", 52),
    ("HIP", 55),
    ("CDS", 59),
    ("CDNSKEY", 60),
    ("HTTPS", 65),
    ("SPF", 99),
    ("TKEY", 249),
    ("TSIG", 250),
    ("MAILA", 254),
    ("ANY", 255),
    ("URI", 256),
];

/// Names of response codes (measured likewise: 11 to 15 are written as numbers).
pub const RCODES: &[(&str, u64)] = &[
    ("NOERROR", 0),
    ("FORMERR", 1),
    ("SERVFAIL", 2),
    ("NXDOMAIN", 3),
    ("NOTIMP", 4),
    ("REFUSED", 5),
    ("YXDOMAIN", 6),
    ("YXRRSET", 7),
    ("NXRRSET", 8),
    ("NOTAUTH", 9),
    ("NOTZONE", 10),
    ("BADVERS", 16),
    ("BADKEY", 17),
    ("BADTIME", 18),
    ("BADMODE", 19),
    ("BADNAME", 20),
    ("BADALG", 21),
    ("BADTRUNC", 22),
];

/// The name of a type.
pub fn rrtype_name(rrtype: u16) -> Option<&'static str> {
    let at = RRTYPES.binary_search_by_key(&u64::from(rrtype), |(_, n)| *n).ok()?;
    RRTYPES.get(at).map(|(name, _)| *name)
}

/// The name of a response code.
pub fn rcode_name(rcode: u8) -> Option<&'static str> {
    RCODES.iter().find(|(_, n)| *n == u64::from(rcode)).map(|(name, _)| *name)
}

/// Buffers by their numbers.
pub mod buffer {
    #![allow(missing_docs)]
    pub const QUERIES: u16 = 0;
    pub const ANSWERS: u16 = 1;
    pub const AUTHORITIES: u16 = 2;
    pub const ADDITIONALS: u16 = 3;
    pub const RESPONSE: u16 = 4;
}

/// Integers by their numbers.
pub mod integer {
    #![allow(missing_docs)]
    pub const OPCODE: u16 = 0;
    pub const RCODE: u16 = 1;
    pub const RRTYPE: u16 = 2;
}

/// Events by their codes.
pub mod event {
    #![allow(missing_docs)]
    pub const MALFORMED_DATA: u16 = 0;
    pub const NOT_REQUEST: u16 = 1;
    pub const NOT_RESPONSE: u16 = 2;
    pub const Z_FLAG_SET: u16 = 3;
    pub const INVALID_OPCODE: u16 = 4;
    pub const NAME_TOO_LONG: u16 = 5;
    pub const INFINITE_LOOP: u16 = 6;
    pub const TOO_MANY_LABELS: u16 = 7;
    pub const INVALID_ADDITIONALS: u16 = 8;
    pub const INVALID_AUTHORITIES: u16 = 9;
}

const fn both(local: u16) -> [Hook; 2] {
    [Hook::new(ToServer, 1, local), Hook::new(ToClient, 1, local)]
}
const QUERIES: &[Hook] = &both(buffer::QUERIES);
const ANSWERS: &[Hook] = &both(buffer::ANSWERS);

const fn names(name: &'static str, description: &'static str, hooks: &'static [Hook]) -> BufferDef {
    BufferDef { name, internal: name, description, multi: true, hooks, ..BufferDef::PLAIN }
}

const BUFFERS: &[BufferDef] = &[
    BufferDef {
        internal: "dns_query",
        aliases: &["dns_query"],
        ..names("dns.query", "dns request query", &[Hook::new(ToServer, 1, buffer::QUERIES)])
    },
    names("dns.query.name", "dns query name", QUERIES),
    names("dns.queries.rrname", "dns.queries.rrname", QUERIES),
    names("dns.answer.name", "dns answer name", ANSWERS),
    names("dns.answers.rrname", "dns.answers.rrname", ANSWERS),
    names("dns.authorities.rrname", "dns.authorities.rrname", &both(buffer::AUTHORITIES)),
    names("dns.additionals.rrname", "dns.additionals.rrname", &both(buffer::ADDITIONALS)),
    names(
        "dns.response.rrname",
        "dns response rrname",
        &[Hook::new(ToClient, 1, buffer::RESPONSE)],
    ),
];

const INTEGERS: &[IntegerDef] = &[
    IntegerDef {
        name: "dns.opcode",
        width: IntegerWidth::U8,
        hooks: &both(integer::OPCODE),
        ..IntegerDef::PLAIN
    },
    IntegerDef {
        name: "dns.rcode",
        width: IntegerWidth::U16,
        names: RCODES,
        hooks: &both(integer::RCODE),
        ..IntegerDef::PLAIN
    },
    IntegerDef {
        name: "dns.rrtype",
        width: IntegerWidth::U16,
        multi: true,
        names: RRTYPES,
        hooks: &both(integer::RRTYPE),
        ..IntegerDef::PLAIN
    },
];

const fn named(name: &'static str, code: u16) -> EventDef {
    EventDef { name, code }
}

const EVENTS: &[EventDef] = &[
    named("malformed_data", event::MALFORMED_DATA),
    named("not_request", event::NOT_REQUEST),
    named("not_response", event::NOT_RESPONSE),
    named("z_flag_set", event::Z_FLAG_SET),
    named("invalid_opcode", event::INVALID_OPCODE),
    named("name_too_long", event::NAME_TOO_LONG),
    named("infinite_loop", event::INFINITE_LOOP),
    named("too_many_labels", event::TOO_MANY_LABELS),
    named("invalid_additionals", event::INVALID_ADDITIONALS),
    named("invalid_authorities", event::INVALID_AUTHORITIES),
];

/// Frames, in the order of their numbers.
pub mod frame {
    /// A message.
    pub const PDU: u8 = 0;
}

const FRAMES: &[&str] = &["pdu"];

/// What DNS offers.
pub const TABLE: ProtoTable = ProtoTable {
    rule_names: &["dns"],
    buffers: BUFFERS,
    integers: INTEGERS,
    events: EVENTS,
    frames: FRAMES,
    own_outputs: OwnOutputs::SCRIPTS,
    ..ProtoTable::of_requests("dns", &[Transport::Udp, Transport::Tcp])
};
