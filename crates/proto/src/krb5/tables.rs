//! What Kerberos offers to rules.

use gabion_record::Direction::ToClient;
use gabion_record::applayer::{BufferDef, EventDef, Hook, ProtoTable, Transport};

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

/// What Kerberos offers but its conditions.
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
    events: &[
        EventDef { name: "malformed_data", code: event::MALFORMED_DATA },
        EventDef { name: "weak_encryption", code: event::WEAK_ENCRYPTION },
    ],
    ..ProtoTable::of_requests("krb5", &[Transport::Tcp, Transport::Udp])
};
