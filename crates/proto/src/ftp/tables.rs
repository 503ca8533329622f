//! What FTP offers to rules but its conditions, which know its transactions.

use super::command::Kind;
use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{
    BufferDef, EventDef, Hook, IntegerDef, IntegerWidth, ProtoTable, Transport,
};

/// Buffers of FTP by their numbers.
pub(super) mod buffer {
    pub(crate) const COMMAND: u16 = 0;
    pub(crate) const COMMAND_DATA: u16 = 1;
    pub(crate) const REPLY: u16 = 2;
    pub(crate) const COMPLETION_CODE: u16 = 3;
}

/// Events by their codes.
pub mod event {
    /// A command line over the limit.
    pub const REQUEST_COMMAND_TOO_LONG: u16 = 0;
    /// A reply line over the limit.
    pub const RESPONSE_COMMAND_TOO_LONG: u16 = 1;
    /// More transactions than allowed wait for replies.
    pub const TOO_MANY_TRANSACTIONS: u16 = 2;
    /// A transfer without a port for it.
    pub const FILE_BEFORE_PORT: u16 = 3;
    /// A transfer without a name.
    pub const FILE_WITHOUT_NAME: u16 = 4;
}

const fn named(name: &'static str, code: u16) -> EventDef {
    EventDef { name, code }
}

const EVENTS: &[EventDef] = &[
    named("request_command_too_long", event::REQUEST_COMMAND_TOO_LONG),
    named("response_command_too_long", event::RESPONSE_COMMAND_TOO_LONG),
    named("too_many_transactions", event::TOO_MANY_TRANSACTIONS),
    named("file_before_port", event::FILE_BEFORE_PORT),
    named("file_without_name", event::FILE_WITHOUT_NAME),
];

const BUFFERS: &[BufferDef] = &[
    BufferDef {
        name: "ftp.command",
        internal: "ftp.command",
        description: "ftp command",
        hooks: &[Hook::new(ToServer, 1, buffer::COMMAND)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "ftp.command_data",
        internal: "ftp.command_data",
        description: "ftp command_data",
        hooks: &[Hook::new(ToServer, 1, buffer::COMMAND_DATA)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "ftp.reply",
        internal: "ftp.reply",
        description: "ftp reply",
        multi: true,
        hooks: &[Hook::new(ToClient, 1, buffer::REPLY)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "ftp.completion_code",
        internal: "ftp.completion_code",
        description: "ftp completion code",
        multi: true,
        hooks: &[Hook::new(ToClient, 1, buffer::COMPLETION_CODE)],
        ..BufferDef::PLAIN
    },
];

pub(super) const ON_BOTH: &[Hook] = &[Hook::new(ToServer, 1, 0), Hook::new(ToClient, 1, 0)];

const INTEGERS: &[IntegerDef] = &[IntegerDef {
    name: "ftp.dynamic_port",
    width: IntegerWidth::U16,
    hooks: ON_BOTH,
    ..IntegerDef::PLAIN
}];

/// What FTP offers but its conditions.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["ftp"],
    buffers: BUFFERS,
    integers: INTEGERS,
    events: EVENTS,
    has_memory_counters: true,
    ..ProtoTable::of_requests("ftp", &[Transport::Tcp])
};

/// The mode that EVE writes with a command that chooses one.
pub(super) fn mode_name(kind: Kind, is_active: bool) -> Option<&'static str> {
    match kind {
        Kind::Port | Kind::Eprt | Kind::Pasv | Kind::Epsv => {
            Some(if is_active { "active" } else { "passive" })
        }
        Kind::Plain | Kind::Transfer(_) => None,
    }
}
