//! What FTP and its data connections offer to rules.

use super::command::{Kind, Transfer};
use super::data_channel::FtpDataTx;
use super::tx::FtpTx;
use crate::files;
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::applayer::{
    BufferDef, ConditionDef, EventDef, Hook, IntegerDef, IntegerWidth, ProtoTable, Transport,
    TxCondition,
};
use std::any::Any;
use std::sync::Arc;

/// Buffers of FTP by their numbers.
pub(super) mod buffer {
    pub(crate) const COMMAND: u16 = 0;
    pub(crate) const COMMAND_DATA: u16 = 1;
    pub(crate) const REPLY: u16 = 2;
    pub(crate) const COMPLETION_CODE: u16 = 3;
}

/// Buffers of data connections by their numbers.
pub(super) mod data_buffer {
    pub(crate) const FILE_NAME: u16 = 0;
    pub(crate) const FILE_MAGIC: u16 = 1;
    pub(crate) const FILE_DATA: u16 = 2;
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
        hooks: &[Hook::new("ftp", ToServer, 1, buffer::COMMAND)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "ftp.command_data",
        internal: "ftp.command_data",
        description: "ftp command_data",
        hooks: &[Hook::new("ftp", ToServer, 1, buffer::COMMAND_DATA)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "ftp.reply",
        internal: "ftp.reply",
        description: "ftp reply",
        multi: true,
        hooks: &[Hook::new("ftp", ToClient, 1, buffer::REPLY)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "ftp.completion_code",
        internal: "ftp.completion_code",
        description: "ftp completion code",
        multi: true,
        hooks: &[Hook::new("ftp", ToClient, 1, buffer::COMPLETION_CODE)],
        ..BufferDef::PLAIN
    },
];

const ON_BOTH: &[Hook] = &[Hook::new("ftp", ToServer, 1, 0), Hook::new("ftp", ToClient, 1, 0)];

const INTEGERS: &[IntegerDef] = &[IntegerDef {
    name: "ftp.dynamic_port",
    width: IntegerWidth::U16,
    hooks: ON_BOTH,
    ..IntegerDef::PLAIN
}];

const CONDITIONS: &[ConditionDef] = &[
    ConditionDef { name: "ftp.mode", aliases: &[], parse: mode, hooks: ON_BOTH },
    ConditionDef {
        name: "ftp.reply_received",
        aliases: &[],
        parse: reply_received,
        // Whether one came is known when none can come any more.
        hooks: &[Hook::new("ftp", ToClient, 1, 0)],
    },
    ConditionDef {
        name: "ftpbounce",
        aliases: &[],
        parse: bounce,
        hooks: &[Hook::new("ftp", ToServer, 1, 0)],
    },
];

#[derive(Debug)]
struct Mode {
    is_active: bool,
}

impl TxCondition for Mode {
    fn matches(&self, tx: &dyn Any, _: Direction) -> bool {
        let Some(tx) = tx.downcast_ref::<FtpTx>() else { return false };
        tx.dynamic_port.is_some() && tx.is_active == self.is_active
    }
}

fn mode(value: Option<&str>) -> Result<Arc<dyn TxCondition>, String> {
    let text = value.unwrap_or_default().trim();
    let is_active = match text {
        _ if text.eq_ignore_ascii_case("active") => true,
        _ if text.eq_ignore_ascii_case("passive") => false,
        _ => return Err("Invalid command value".to_string()),
    };
    Ok(Arc::new(Mode { is_active }))
}

#[derive(Debug)]
struct Bounce;

impl TxCondition for Bounce {
    fn matches(&self, tx: &dyn Any, _: Direction) -> bool {
        tx.downcast_ref::<FtpTx>().is_some_and(|tx| tx.is_bounce)
    }
}

fn bounce(value: Option<&str>) -> Result<Arc<dyn TxCondition>, String> {
    match value {
        None => Ok(Arc::new(Bounce)),
        Some(_) => Err("takes no value".to_string()),
    }
}

#[derive(Debug)]
struct ReplyReceived(bool);

impl TxCondition for ReplyReceived {
    fn matches(&self, tx: &dyn Any, _: Direction) -> bool {
        tx.downcast_ref::<FtpTx>().is_some_and(|tx| tx.is_replied == self.0)
    }
}

fn reply_received(value: Option<&str>) -> Result<Arc<dyn TxCondition>, String> {
    let truth = gabion_record::config::truth(value.unwrap_or_default());
    match truth {
        Some(yes) => Ok(Arc::new(ReplyReceived(yes))),
        None => Err("invalid value; specify yes or no".to_string()),
    }
}

/// What FTP offers.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["ftp"],
    buffers: BUFFERS,
    integers: INTEGERS,
    conditions: CONDITIONS,
    events: EVENTS,
    ..ProtoTable::of_requests("ftp", &[Transport::Tcp])
};

const fn on_data(local: u16) -> [Hook; 2] {
    [Hook::new("ftp-data", ToServer, 0, local), Hook::new("ftp-data", ToClient, 0, local)]
}

const DATA_BUFFERS: &[BufferDef] = &[
    files::name_buffer(&on_data(data_buffer::FILE_NAME)),
    files::magic_buffer(&on_data(data_buffer::FILE_MAGIC)),
    files::data_buffer(&on_data(data_buffer::FILE_DATA)),
];

#[derive(Debug)]
struct DataCommand(Transfer);

impl TxCondition for DataCommand {
    fn matches(&self, tx: &dyn Any, _: Direction) -> bool {
        tx.downcast_ref::<FtpDataTx>().is_some_and(|tx| tx.command() == Some(self.0))
    }
}

/// Names in lower case only, as in the peer.
fn data_command(value: Option<&str>) -> Result<Arc<dyn TxCondition>, String> {
    let text = value.unwrap_or_default();
    let is_it = |t: &Transfer| t.name().to_ascii_lowercase() == text;
    match Transfer::ALL.into_iter().find(is_it) {
        Some(transfer) => Ok(Arc::new(DataCommand(transfer))),
        None => Err("Invalid command value".to_string()),
    }
}

/// What data connections offer.
pub(super) const DATA_TABLE: ProtoTable = ProtoTable {
    rule_names: &["ftp-data"],
    buffers: DATA_BUFFERS,
    conditions: &[ConditionDef {
        name: "ftpdata_command",
        aliases: &[],
        parse: data_command,
        hooks: &on_data(0),
    }],
    ..ProtoTable::of_requests("ftp-data", &[Transport::Tcp])
};

/// The mode EVE writes beside a command that chooses one.
pub(super) fn mode_name(kind: Kind, is_active: bool) -> Option<&'static str> {
    match kind {
        Kind::Port | Kind::Eprt | Kind::Pasv | Kind::Epsv => {
            Some(if is_active { "active" } else { "passive" })
        }
        Kind::Plain | Kind::Transfer(_) => None,
    }
}
