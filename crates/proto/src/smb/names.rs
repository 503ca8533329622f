//! Names of numbers, as EVE writes them. All are those that Suricata 8.0.7 wrote for each number.

use super::status::find_name;
use std::borrow::Cow;

/// Functions of IOCTL by code (MS-FSCC 2.3, MS-SMB2 2.2.31).
const FUNCTIONS: &str = include_str!("functions.tsv");

/// Commands of SMB 2 by number (MS-SMB2 2.2.1).
const COMMANDS_2: [&str; 19] = [
    "NEGOTIATE_PROTOCOL",
    "SESSION_SETUP",
    "SESSION_LOGOFF",
    "TREE_CONNECT",
    "TREE_DISCONNECT",
    "CREATE",
    "CLOSE",
    "FLUSH",
    "READ",
    "WRITE",
    "LOCK",
    "IOCTL",
    "CANCEL",
    "KEEPALIVE",
    "FIND",
    "CHANGE_NOTIFY",
    "GET_INFO",
    "SET_INFO",
    "OPLOCK_BREAK",
];

/// Commands of SMB 2.
pub(super) mod command2 {
    pub(crate) const NEGOTIATE: u16 = 0;
    pub(crate) const SESSION_SETUP: u16 = 1;
    pub(crate) const TREE_CONNECT: u16 = 3;
    pub(crate) const TREE_DISCONNECT: u16 = 4;
    pub(crate) const CREATE: u16 = 5;
    pub(crate) const CLOSE: u16 = 6;
    pub(crate) const READ: u16 = 8;
    pub(crate) const WRITE: u16 = 9;
    pub(crate) const IOCTL: u16 = 11;
    pub(crate) const GET_INFO: u16 = 16;
    pub(crate) const SET_INFO: u16 = 17;
}

/// Commands of SMB 1 (MS-CIFS 2.2.2.1).
pub(super) mod command1 {
    pub(crate) const CLOSE: u8 = 0x04;
    pub(crate) const RENAME: u8 = 0x07;
    pub(crate) const WRITE: u8 = 0x0b;
    pub(crate) const LOCKING_ANDX: u8 = 0x24;
    pub(crate) const TRANS: u8 = 0x25;
    pub(crate) const WRITE_AND_CLOSE: u8 = 0x2c;
    pub(crate) const OPEN_ANDX: u8 = 0x2d;
    pub(crate) const READ_ANDX: u8 = 0x2e;
    pub(crate) const WRITE_ANDX: u8 = 0x2f;
    pub(crate) const TRANS2: u8 = 0x32;
    pub(crate) const TRANS2_SECONDARY: u8 = 0x33;
    pub(crate) const NEGOTIATE: u8 = 0x72;
    pub(crate) const SESSION_SETUP_ANDX: u8 = 0x73;
    pub(crate) const LOGOFF_ANDX: u8 = 0x74;
    pub(crate) const TREE_CONNECT_ANDX: u8 = 0x75;
    pub(crate) const NT_CREATE_ANDX: u8 = 0xa2;
    pub(crate) const NT_CANCEL: u8 = 0xa4;
}

/// Commands of SMB 1 with a name, in the order of their numbers.
const COMMANDS_1: &[(u16, &str)] = &[
    (0x00, "CREATE_DIRECTORY"),
    (0x01, "DELETE_DIRECTORY"),
    (0x02, "OPEN"),
    (0x03, "CREATE"),
    (0x04, "CLOSE"),
    (0x05, "FLUSH"),
    (0x06, "DELETE"),
    (0x07, "RENAME"),
    (0x08, "QUERY_INFORMATION"),
    (0x09, "SET_INFORMATION"),
    (0x0a, "READ"),
    (0x0b, "WRITE"),
    (0x0c, "LOCK_BYTE_RANGE"),
    (0x0d, "UNLOCK_BYTE_RANGE"),
    (0x0e, "CREATE_TEMPORARY"),
    (0x0f, "CREATE_NEW"),
    (0x10, "CHECK_DIRECTORY"),
    (0x11, "PROCESS_EXIT"),
    (0x12, "SEEK"),
    (0x13, "LOCK_AND_READ"),
    (0x14, "WRITE_AND_UNLOCK"),
    (0x24, "LOCKING_ANDX"),
    (0x25, "TRANS"),
    (0x2b, "ECHO"),
    (0x2c, "WRITE_AND_CLOSE"),
    (0x2d, "OPEN_ANDX"),
    (0x2e, "READ_ANDX"),
    (0x2f, "WRITE_ANDX"),
    (0x32, "TRANS2"),
    (0x33, "TRANS2_SECONDARY"),
    (0x34, "FIND_CLOSE2"),
    (0x71, "TREE_DISCONNECT"),
    (0x72, "NEGOTIATE_PROTOCOL"),
    (0x73, "SESSION_SETUP_ANDX"),
    (0x74, "LOGOFF_ANDX"),
    (0x75, "TREE_CONNECT_ANDX"),
    (0x80, "QUERY_INFO_DISK"),
    (0xa0, "NT_TRANS"),
    (0xa1, "NT_TRANS_SECONDARY"),
    (0xa2, "NT_CREATE_ANDX"),
    (0xa4, "NT_CANCEL"),
];

/// The dialect that a session speaks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Not negotiated yet.
    #[default]
    Unknown,
    /// One of SMB 1, by its name.
    One(std::sync::Arc<[u8]>),
    /// One of SMB 2, by its number.
    Two(u16),
}

impl Dialect {
    /// As EVE writes it.
    pub(super) fn text(&self) -> Cow<'_, [u8]> {
        match self {
            Dialect::Unknown | Dialect::Two(0) => Cow::Borrowed(b"unknown"),
            Dialect::One(name) => Cow::Borrowed(name),
            Dialect::Two(number) => number_text(*number),
        }
    }
}

/// A dialect of SMB 2 as EVE writes it.
pub(super) fn number_text(number: u16) -> Cow<'static, [u8]> {
    let name = match number {
        0x202 => "2.02",
        0x210 => "2.10",
        0x222 => "2.22",
        0x224 => "2.24",
        0x2ff => "2.??",
        0x300 => "3.00",
        0x302 => "3.02",
        0x310 => "3.10",
        0x311 => "3.11",
        _ => return Cow::Owned(number.to_string().into_bytes()),
    };
    Cow::Borrowed(name.as_bytes())
}

/// A command.
pub(super) fn command_text(version: u8, command: u16) -> String {
    let (prefix, name) = match version {
        1 => {
            let found = COMMANDS_1.iter().find(|(number, _)| *number == command);
            ("SMB1_COMMAND_", found.map(|(_, name)| *name))
        }
        _ => ("SMB2_COMMAND_", COMMANDS_2.get(usize::from(command)).copied()),
    };
    name.map_or_else(|| command.to_string(), |name| format!("{prefix}{name}"))
}

/// What a CREATE does if there is such a file, or none (MS-SMB2 2.2.13).
pub(super) fn disposition_text(disposition: u32) -> &'static str {
    const NAMES: [&str; 6] = [
        "FILE_SUPERSEDE",
        "FILE_OPEN",
        "FILE_CREATE",
        "FILE_OPEN_IF",
        "FILE_OVERWRITE",
        "FILE_OVERWRITE_IF",
    ];
    let at = usize::try_from(disposition).unwrap_or(usize::MAX);
    NAMES.get(at).copied().unwrap_or("UNKNOWN")
}

/// Whether a file is deleted when it is closed.
pub(super) fn access_text(is_deleted_on_close: bool) -> &'static str {
    if is_deleted_on_close { "delete on close" } else { "normal" }
}

/// The type of a share (MS-SMB2 2.2.10).
pub(super) fn share_type_text(share_type: u8) -> &'static str {
    match share_type {
        1 => "FILE",
        2 => "PIPE",
        3 => "PRINT",
        _ => "UNKNOWN",
    }
}

/// A function of IOCTL.
pub(super) fn function_text(function: u32) -> Cow<'static, str> {
    match find_name(FUNCTIONS, function) {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(function.to_string()),
    }
}

/// The function that writes to a pipe and reads its answer.
pub(super) const PIPE_TRANSCEIVE: u32 = 0x0011_c017;

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that Suricata 8.0.7 wrote for these numbers.
    #[test]
    fn names_of_numbers() {
        assert_eq!(command_text(1, 0x72), "SMB1_COMMAND_NEGOTIATE_PROTOCOL");
        assert_eq!(command_text(1, 0x15), "21");
        assert_eq!(command_text(2, 13), "SMB2_COMMAND_KEEPALIVE");
        assert_eq!(command_text(2, 19), "19");
        assert_eq!(function_text(PIPE_TRANSCEIVE), "FSCTL_PIPE_TRANSCEIVE");
        assert_eq!(function_text(0x1234_5678), "305419896");
        assert_eq!(Dialect::Two(0x311).text(), &b"3.11"[..]);
        assert_eq!(Dialect::Two(0x312).text(), &b"786"[..]);
        assert_eq!((disposition_text(5), disposition_text(6)), ("FILE_OVERWRITE_IF", "UNKNOWN"));
    }
}
