//! What Kerberos offers to rules.

use super::conditions;
use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{BufferDef, ConditionDef, EventDef, Hook, ProtoTable, Transport};

/// Buffers by their numbers.
pub(super) mod buffer {
    pub(crate) const CLIENT: u16 = 0;
    pub(crate) const SERVICE: u16 = 1;
}

/// Events by their codes. Suricata 8.0.7 never raises the first one.
pub(super) mod event {
    pub(crate) const MALFORMED_DATA: u16 = 0;
    pub(crate) const WEAK_ENCRYPTION: u16 = 1;
}

const fn name(
    name: &'static str,
    alias: &'static [&'static str],
    internal: &'static str,
    description: &'static str,
    hooks: &'static [Hook],
) -> BufferDef {
    BufferDef {
        name,
        internal,
        description,
        aliases: alias,
        multi: true,
        hooks,
        ..BufferDef::PLAIN
    }
}

const BOTH: &[Hook] = &[Hook::new(ToServer, 1, 0), Hook::new(ToClient, 1, 0)];

const fn condition(
    name: &'static str,
    parse: gabion_record::applayer::ConditionParser,
) -> ConditionDef {
    ConditionDef { name, aliases: &[], parse, hooks: BOTH }
}

/// What Kerberos offers.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["krb5"],
    buffers: &[
        name(
            "krb5.cname",
            &["krb5_cname"],
            "krb5_cname",
            "Kerberos 5 client principal name",
            &[Hook::new(ToClient, 1, buffer::CLIENT)],
        ),
        name(
            "krb5.sname",
            &["krb5_sname"],
            "krb5_sname",
            "Kerberos 5 server principal name",
            &[Hook::new(ToClient, 1, buffer::SERVICE)],
        ),
    ],
    conditions: &[
        condition("krb5_msg_type", conditions::msg_type),
        condition("krb5_err_code", conditions::err_code),
        condition("krb5.ticket_encryption", conditions::ticket_encryption),
    ],
    events: &[
        EventDef { name: "malformed_data", code: event::MALFORMED_DATA },
        EventDef { name: "weak_encryption", code: event::WEAK_ENCRYPTION },
    ],
    ..ProtoTable::of_requests("krb5", &[Transport::Tcp, Transport::Udp])
};
