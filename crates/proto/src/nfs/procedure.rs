//! Names of procedures and states, as EVE writes them (RFC 1094, 1813, 7530 without their prefixes).

/// Procedures of version 3 by number.
pub(super) const V3: [&str; 22] = [
    "NULL",
    "GETATTR",
    "SETATTR",
    "LOOKUP",
    "ACCESS",
    "READLINK",
    "READ",
    "WRITE",
    "CREATE",
    "MKDIR",
    "SYMLINK",
    "MKNOD",
    "REMOVE",
    "RMDIR",
    "RENAME",
    "LINK",
    "READDIR",
    "READDIRPLUS",
    "FSSTAT",
    "FSINFO",
    "PATHCONF",
    "COMMIT",
];

/// Numbers of version 3's procedures.
pub(super) mod v3 {
    pub(crate) const GETATTR: u32 = 1;
    pub(crate) const LOOKUP: u32 = 3;
    pub(crate) const ACCESS: u32 = 4;
    pub(crate) const READ: u32 = 6;
    pub(crate) const WRITE: u32 = 7;
    pub(crate) const CREATE: u32 = 8;
    pub(crate) const MKDIR: u32 = 9;
    pub(crate) const REMOVE: u32 = 12;
    pub(crate) const RMDIR: u32 = 13;
    pub(crate) const RENAME: u32 = 14;
    pub(crate) const READDIRPLUS: u32 = 17;
    pub(crate) const COMMIT: u32 = 21;
}

/// Procedures of version 2 with the numbers that version 3 has for the same.
const V2: [(u32, &str, u32); 16] = [
    (0, "NULL", 0),
    (1, "GETATTR", v3::GETATTR),
    (2, "SETATTR", 2),
    (4, "LOOKUP", v3::LOOKUP),
    (5, "READLINK", 5),
    (6, "READ", v3::READ),
    (8, "WRITE", v3::WRITE),
    (9, "CREATE", v3::CREATE),
    (10, "REMOVE", v3::REMOVE),
    (11, "RENAME", v3::RENAME),
    (12, "LINK", 15),
    (13, "SYMLINK", 10),
    (14, "MKDIR", v3::MKDIR),
    (15, "RMDIR", v3::RMDIR),
    (16, "READDIR", 16),
    (17, "STATFS", 17),
];

/// The number by which rules know a procedure: version 3's, but of version 4 the operation's.
pub(super) fn rule_number(version: u32, procedure: u32) -> u32 {
    match (version, procedure) {
        (4, v3::READ) => 25,
        (4, v3::WRITE) => 38,
        (4, v3::REMOVE) => 28,
        _ => procedure,
    }
}

/// The number that version 3 has for a procedure of another version.
pub(super) fn common_number(version: u32, procedure: u32) -> u32 {
    match version {
        2 => V2.iter().find(|(n, _, _)| *n == procedure).map_or(procedure, |(_, _, of)| *of),
        _ => procedure,
    }
}

/// The name of a procedure, or its number. Operations of version 4 have the names of version 3.
pub(super) fn procedure_name(version: u32, number: u32) -> String {
    let known = match version {
        2 => V2.iter().find(|(_, _, n)| *n == number).map(|(_, name, _)| *name),
        _ => V3.get(number as usize).copied(),
    };
    known.map_or_else(|| number.to_string(), str::to_owned)
}

/// States by number.
const STATES: [(u32, &str); 28] = [
    (0, "OK"),
    (1, "ERR_PERM"),
    (2, "ERR_NOENT"),
    (5, "ERR_IO"),
    (6, "ERR_NXIO"),
    (13, "ERR_ACCES"),
    (17, "ERR_EXIST"),
    (18, "ERR_XDEV"),
    (19, "ERR_NODEV"),
    (20, "ERR_NOTDIR"),
    (21, "ERR_ISDIR"),
    (22, "ERR_INVAL"),
    (27, "ERR_FBIG"),
    (28, "ERR_NOSPC"),
    (30, "ERR_ROFS"),
    (31, "ERR_MLINK"),
    (63, "ERR_NAMETOOLONG"),
    (66, "ERR_NOTEMPTY"),
    (69, "ERR_DQUOT"),
    (70, "ERR_STALE"),
    (71, "ERR_REMOTE"),
    (10_001, "ERR_BADHANDLE"),
    (10_002, "ERR_NOT_SYNC"),
    (10_003, "ERR_BAD_COOKIE"),
    (10_004, "ERR_NOTSUPP"),
    (10_005, "ERR_TOOSMALL"),
    (10_006, "ERR_SERVERFAULT"),
    (10_007, "ERR_BADTYPE"),
];

/// The name of a state, or its number.
pub(super) fn state_name(state: u32) -> String {
    let known = match state {
        10_008 => Some("ERR_JUKEBOX"),
        _ => STATES.iter().find(|(n, _)| *n == state).map(|(_, name)| *name),
    };
    known.map_or_else(|| state.to_string(), str::to_owned)
}
