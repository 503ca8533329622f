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
    /// No further command follows in the message.
    pub(crate) const NONE: u8 = 0xff;
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
    (0x2f, "WRITE_ANDX"),
    (0x33, "TRANS2_SECONDARY"),
    (0x34, "FIND_CLOSE2"),
    (0x71, "TREE_DISCONNECT"),
    (0x72, "NEGOTIATE_PROTOCOL"),
    (0x74, "LOGOFF_ANDX"),
    (0x75, "TREE_CONNECT_ANDX"),
    (0x80, "QUERY_INFO_DISK"),
    (0xa0, "NT_TRANS"),
    (0xa1, "NT_TRANS_SECONDARY"),
    (0xa2, "NT_CREATE_ANDX"),
    (0xa4, "NT_CANCEL"),
