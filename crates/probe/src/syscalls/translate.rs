//! From the kernel's values to those of the event table: flags have other bits there, paths come from their last
//! component, and options carry their type.
//!
//! The values come from a ring that only our program writes, yet nothing here trusts their size.

use gabion_scap::table::{FlagTable, Parameter};

/// How a value is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Translation {
    /// `O_*`, and what the kernel's file says in the upper bits.
    OpenFlags,
    /// The mode of an open, which has a meaning only if it may create a file. The flags are the value before it.
    OpenMode,
    /// The layer of the opened file, from the bits that `OpenFlags` reads.
    CreatFlags,
    /// `O_CLOEXEC` and others of calls that have no access mode.
    FdFlags,
    /// Bits by name.
    Bits(&'static [(u32, &'static str)]),
    /// Values by name, else 0.
    Names(&'static [(u32, &'static str)]),
    /// The low byte, as socket types have flags above it.
    SocketType,
    /// Components from the last one.
    Path,
    /// Control groups, each `NAME=` with components from the last one.
    Groups,
    /// Nanoseconds since boot, to those since 1970.
    BootTime,
    /// The level of a socket option.
    Level,
    /// The name of a socket option. The level is the value before it.
    SocketOption,
    /// The value of a socket option. Level and name are the values before it.
    OptionValue,
    /// The first alternative of several types.
    Dyn0,
    /// The text of `prctl`, which only `PR_SET_NAME` has. The option is the value before it.
    PrctlText,
    /// The number of `prctl`, for all other options. The option is two values before it.
    PrctlNumber,
    /// The events of descriptors.
    Poll,
    /// The command in the upper bits.
    QuotaCommand,
    /// The kind of quota in the low byte.
    QuotaType,
}

impl Translation {
    /// The translation with a name of `recipes.tsv`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "open_flags" => Self::OpenFlags,
            "open_mode" => Self::OpenMode,
            "creat_flags" => Self::CreatFlags,
            "fd_flags" => Self::FdFlags,
            "resolve" => Self::Bits(RESOLVE),
            "clone_flags" => Self::Bits(CLONE),
            "mmap_flags" => Self::Bits(MMAP),
            "protection" => Self::Bits(PROTECTION),
            "mount_flags" => Self::Bits(MOUNT),
            "chown_flags" => Self::Bits(CHOWN),
            "uring_setup" => Self::Bits(URING_SETUP),
            "cloexec" => Self::Bits(EPOLL),
            "pidfd_flags" => Self::Bits(PIDFD),
            "module_flags" => Self::Bits(MODULE),
            "fcntl" => Self::Names(FCNTL),
            "ptrace" => Self::Names(PTRACE),
            "semctl" => Self::Names(SEMCTL),
            "socket_type" => Self::SocketType,
            "path" => Self::Path,
            "cgroups" => Self::Groups,
            "boot_time" => Self::BootTime,
            "level" => Self::Level,
            "option" => Self::SocketOption,
            "option_value" => Self::OptionValue,
            "dyn_0" => Self::Dyn0,
            "prctl_text" => Self::PrctlText,
            "prctl_number" => Self::PrctlNumber,
            "poll" => Self::Poll,
            "quota_command" => Self::QuotaCommand,
            "quota_type" => Self::QuotaType,
            _ => return None,
        })
    }

    /// Appends the table's value to `to`. `before` are the values before this one, as the kernel wrote them; `boot_ns` is
    /// the time of boot. A value that is unknown stays so.
    pub(crate) fn apply(
        self,
        raw: &[u8],
        before: &[&[u8]],
        parameter: Option<&Parameter>,
        boot_ns: u64,
        to: &mut Vec<u8>,
    ) {
        if raw.is_empty() {
            return;
        }
        let table = parameter.and_then(|p| p.flags);
        let size = parameter.and_then(|p| p.kind.size()).unwrap_or(4);
        let mut put = |value: u64| to.extend(value.to_le_bytes().iter().take(size.min(8)));
        match self {
            Self::OpenFlags => put(u64::from(open_flags(number32(raw), true))),
            Self::FdFlags => put(u64::from(open_flags(number32(raw), false))),
            Self::CreatFlags => {
                let flags = number32(raw);
                put(u64::from(flags >> 30 & 1) | u64::from(flags >> 29 & 1) << 1);
            }
            Self::OpenMode => {
                let flags = before.last().map_or(0, |raw| number32(raw));
                let may_create = flags & (CREAT | TMPFILE) != 0;
                put(if may_create { u64::from(number32(raw) & 0o7777) } else { 0 });
            }
            Self::Bits(pairs) => put(u64::from(bits(number32(raw), pairs, table))),
            Self::Names(pairs) => put(u64::from(name(number32(raw), pairs, table))),
            Self::SocketType => put(u64::from(number32(raw) & 0xf)),
            Self::Path => path(raw, to),
            Self::Groups => groups(raw, to),
            Self::BootTime => put(match number64(raw) {
                0 => 0,
                since_boot => boot_ns.saturating_add(since_boot),
            }),
            Self::Level => put(match number32(raw) {
                SOL_SOCKET => 1,
                6 => 2,
                _ => 0,
            }),
            Self::SocketOption => {
                let is_socket = before.last().is_some_and(|raw| number32(raw) == SOL_SOCKET);
                put(if is_socket { u64::from(socket_option(number32(raw))) } else { 0 });
            }
            Self::OptionValue => option_value(raw, before, to),
            Self::Dyn0 => {
                to.push(0);
                to.extend_from_slice(raw);
            }
            Self::PrctlText => {
                if before.last().is_some_and(|raw| number32(raw) == PR_SET_NAME) {
                    to.extend_from_slice(raw);
                }
            }
            Self::PrctlNumber => {
                let option = before.len().checked_sub(2).and_then(|at| before.get(at));
                if option.is_none_or(|raw| number32(raw) != PR_SET_NAME) {
                    put(number64(raw));
                }
            }
            Self::Poll => poll(raw, to),
            Self::QuotaCommand => put(u64::from(quota_command(number32(raw)))),
            Self::QuotaType => put(u64::from(number32(raw) & 0xff) + 1),
        }
    }
}

/// The first bytes as a number.
pub(crate) fn number32(raw: &[u8]) -> u32 {
    number64(raw) as u32
}

/// The first bytes as a number.
pub(crate) fn number64(raw: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(raw) {
        *to = *from;
    }
    u64::from_le_bytes(bytes)
}

const CREAT: u32 = 0o100;
const TMPFILE: u32 = 0o20_000_000;
const SOL_SOCKET: u32 = 1;
const PR_SET_NAME: u32 = 15;

/// `O_*` of `x86_64`, to the event table's. The upper bits are those of `K_OPEN_FLAGS` in `bpf/values.h`.
fn open_flags(flags: u32, has_access: bool) -> u32 {
    const PAIRS: &[(u32, u32)] = &[
        (CREAT, 4),
        (0o200, 32),         // EXCL
        (0o1000, 256),       // TRUNC
        (0o2000, 8),         // APPEND
        (0o4000, 64),        // NONBLOCK
        (0o10_000, 16),      // DSYNC
        (0o4_000_000, 128),  // SYNC
        (0o40_000, 512),     // DIRECT
        (0o100_000, 2048),   // LARGEFILE
        (0o200_000, 1024),   // DIRECTORY
        (0o2_000_000, 4096), // CLOEXEC
        (TMPFILE, 8192),
        (1 << 31, 16_384), // created
        (1 << 30, 32_768), // upper layer
        (1 << 29, 65_536), // lower layer
    ];
    let access = if has_access { [1, 2, 3, 0][(flags & 3) as usize] } else { 0 };
    PAIRS.iter().filter(|(bit, _)| flags & bit != 0).fold(access, |all, (_, bit)| all | bit)
}

/// The flags of an open descriptor as the event table has them.
pub(crate) fn open_flags_with_access(flags: u32) -> u32 {
    open_flags(flags & 0x1fff_ffff, true)
}

/// The bits whose names the table has.
fn bits(value: u32, pairs: &[(u32, &str)], table: Option<&FlagTable>) -> u32 {
    let Some(table) = table else { return value };
    let set = pairs.iter().filter(|(bit, _)| value & bit == *bit);
    set.filter_map(|(_, name)| table.value(name)).fold(0, |all, bit| all | bit)
}

/// The value of a name.
fn name(value: u32, pairs: &[(u32, &str)], table: Option<&FlagTable>) -> u32 {
    let found = pairs.iter().find(|(number, _)| *number == value);
    found.and_then(|(_, name)| table?.value(name)).unwrap_or(0)
}

/// Turns components from the last one, each with a NUL, and a final NUL, into a path with a NUL.
pub(crate) fn path(raw: &[u8], to: &mut Vec<u8>) {
    let inner = raw.strip_suffix(&[0]).unwrap_or(raw);
    let inner = inner.strip_suffix(&[0]).unwrap_or(inner);
    if inner.is_empty() {
        to.extend_from_slice(b"/\0");
        return;
    }
    for component in inner.rsplit(|byte| *byte == 0) {
        to.push(b'/');
        to.extend_from_slice(component);
    }
    to.push(0);
}

/// Control groups: `NAME=`, then either a byte 1 for the path of the group before, or components and an empty one.
fn groups(raw: &[u8], to: &mut Vec<u8>) {
    let mut rest = raw;
    let mut last = Vec::new();
    while let Some(at) = rest.iter().position(|byte| *byte == b'=') {
        let (name, after) = rest.split_at(at + 1);
        to.extend_from_slice(name);
        rest = after;
        if let Some(after) = rest.strip_prefix(&[1]) {
            rest = after;
        } else {
            let mut components = Vec::new();
            loop {
                let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
                let (component, after) = rest.split_at(end);
                rest = after.get(1..).unwrap_or_default();
                if component.is_empty() {
                    break;
                }
                components.push(component);
            }
            last.clear();
            for component in components.iter().rev() {
                last.push(b'/');
                last.extend_from_slice(component);
            }
            if last.is_empty() {
                last.push(b'/');
            }
        }
        to.extend_from_slice(&last);
        to.push(0);
    }
}

fn socket_option(option: u32) -> u8 {
    match option {
        59 => 51, // PEERGROUPS
        55 => 52, // MEMINFO
        57 => 53, // COOKIE
        1..=50 => u8::try_from(option).unwrap_or(0),
        _ => 0,
    }
}

/// A value with its type: bytes, the number of an error, 32 bits, 64 bits, or a time.
fn option_value(raw: &[u8], before: &[&[u8]], to: &mut Vec<u8>) {
    let [level, option] = match before {
        [.., level, option] => [number32(level), number32(option)],
        _ => [0, 0],
    };
    match (level, option, raw.len()) {
        (SOL_SOCKET, 4, 4..) => {
            to.push(1);
            to.extend((-i64::from(number32(raw))).to_le_bytes());
        }
        (SOL_SOCKET, 20 | 21 | 66 | 67, 16..) => {
            let micros = number64(raw.get(8..).unwrap_or_default());
            let ns =
                number64(raw).wrapping_mul(1_000_000_000).wrapping_add(micros.wrapping_mul(1000));
            to.push(4);
            to.extend(ns.to_le_bytes());
        }
        (SOL_SOCKET, 57, 8..) => {
            to.push(3);
            to.extend(number64(raw).to_le_bytes());
        }
        (SOL_SOCKET, 1..=12 | 15 | 16 | 18 | 19 | 29 | 30 | 32..=49, 4) => {
            to.push(2);
            to.extend(number32(raw).to_le_bytes());
        }
        _ => {
            to.push(0);
            to.extend_from_slice(raw);
        }
    }
}

/// Descriptors of `poll` with the table's events.
fn poll(raw: &[u8], to: &mut Vec<u8>) {
    const PAIRS: &[(u16, u16)] = &[
        (1, 1),
        (2, 2),
        (4, 4),
        (0x2000, 8),
        (8, 16),
        (16, 32),
        (32, 64),
        (64, 128),
        (128, 256),
        (256, 512),
        (512, 1024),
    ];
    let (count, rest) = raw.split_at(raw.len().min(2));
    to.extend_from_slice(count);
    for entry in rest.chunks_exact(10) {
        let (fd, events) = entry.split_at(8);
        let events = number64(events) as u16;
        let named =
            PAIRS.iter().filter(|(bit, _)| events & bit != 0).fold(0, |all, (_, bit)| all | bit);
        to.extend_from_slice(fd);
        to.extend(named.to_le_bytes());
    }
}

/// `Q_*` in the upper 24 bits of the command.
fn quota_command(command: u32) -> u16 {
    match command >> 8 {
        0x80_0001 => 128,
        0x80_0002 => 1,
        0x80_0003 => 2,
        0x80_0004 => 4,
        0x80_0005 => 8,
        0x80_0006 => 16,
        0x80_0007 => 32,
        0x80_0008 => 64,
        0x5801 => 256,
        0x5802 => 512,
        0x5803 => 1024,
        0x5804 => 2048,
        0x5805 => 4096,
        0x5806 => 8192,
        0x5807 => 16_384,
        _ => 0,
    }
}

const RESOLVE: &[(u32, &str)] = &[
    (1, "RESOLVE_NO_XDEV"),
    (2, "RESOLVE_NO_MAGICLINKS"),
    (4, "RESOLVE_NO_SYMLINKS"),
    (8, "RESOLVE_BENEATH"),
    (16, "RESOLVE_IN_ROOT"),
    (32, "RESOLVE_CACHED"),
];

/// The first row is set by the program: the child has numbers of its own.
const CLONE: &[(u32, &str)] = &[
    (1, "CLONE_CHILD_IN_PIDNS"),
    (0x100, "CLONE_VM"),
    (0x200, "CLONE_FS"),
    (0x400, "CLONE_FILES"),
    (0x800, "CLONE_SIGHAND"),
    (0x2000, "CLONE_PTRACE"),
    (0x4000, "CLONE_VFORK"),
    (0x8000, "CLONE_PARENT"),
    (0x1_0000, "CLONE_THREAD"),
    (0x2_0000, "CLONE_NEWNS"),
    (0x4_0000, "CLONE_SYSVSEM"),
    (0x8_0000, "CLONE_SETTLS"),
    (0x10_0000, "CLONE_PARENT_SETTID"),
    (0x20_0000, "CLONE_CHILD_CLEARTID"),
    (0x80_0000, "CLONE_UNTRACED"),
    (0x100_0000, "CLONE_CHILD_SETTID"),
    (0x200_0000, "CLONE_NEWCGROUP"),
    (0x400_0000, "CLONE_NEWUTS"),
    (0x800_0000, "CLONE_NEWIPC"),
    (0x1000_0000, "CLONE_NEWUSER"),
    (0x2000_0000, "CLONE_NEWPID"),
    (0x4000_0000, "CLONE_NEWNET"),
    (0x8000_0000, "CLONE_IO"),
];

const MMAP: &[(u32, &str)] = &[
    (1, "MAP_SHARED"),
    (2, "MAP_PRIVATE"),
    (0x10, "MAP_FIXED"),
    (0x20, "MAP_ANONYMOUS"),
    (0x40, "MAP_32BIT"),
    (0x100, "MAP_GROWSDOWN"),
    (0x800, "MAP_DENYWRITE"),
    (0x1000, "MAP_EXECUTABLE"),
    (0x2000, "MAP_LOCKED"),
    (0x4000, "MAP_NORESERVE"),
    (0x8000, "MAP_POPULATE"),
    (0x1_0000, "MAP_NONBLOCK"),
];

const PROTECTION: &[(u32, &str)] = &[
    (1, "PROT_READ"),
    (2, "PROT_WRITE"),
    (4, "PROT_EXEC"),
    (8, "PROT_SEM"),
    (0x100_0000, "PROT_GROWSDOWN"),
    (0x200_0000, "PROT_GROWSUP"),
];

const MOUNT: &[(u32, &str)] = &[
    (1, "RDONLY"),
    (2, "NOSUID"),
    (4, "NODEV"),
    (8, "NOEXEC"),
    (16, "SYNCHRONOUS"),
    (32, "REMOUNT"),
    (64, "MANDLOCK"),
    (128, "DIRSYNC"),
    (1 << 10, "NOATIME"),
    (1 << 11, "NODIRATIME"),
    (1 << 12, "BIND"),
    (1 << 13, "MOVE"),
    (1 << 14, "REC"),
    (1 << 15, "SILENT"),
    (1 << 16, "POSIXACL"),
    (1 << 17, "UNBINDABLE"),
    (1 << 18, "PRIVATE"),
    (1 << 19, "SLAVE"),
    (1 << 20, "SHARED"),
    (1 << 21, "RELATIME"),
    (1 << 22, "KERNMOUNT"),
    (1 << 23, "I_VERSION"),
    (1 << 24, "STRICTATIME"),
    (1 << 25, "LAZYTIME"),
];

const CHOWN: &[(u32, &str)] = &[(0x100, "AT_SYMLINK_NOFOLLOW"), (0x1000, "AT_EMPTY_PATH")];

const URING_SETUP: &[(u32, &str)] = &[
    (1, "IORING_SETUP_IOPOLL"),
    (2, "IORING_SETUP_SQPOLL"),
    (4, "IORING_SETUP_SQ_AFF"),
    (8, "IORING_SETUP_CQSIZE"),
    (16, "IORING_SETUP_CLAMP"),
    (32, "IORING_SETUP_ATTACH_RW"),
    (64, "IORING_SETUP_R_DISABLED"),
];

const EPOLL: &[(u32, &str)] = &[(0o2_000_000, "EPOLL_CLOEXEC")];
const PIDFD: &[(u32, &str)] = &[(0o4000, "PIDFD_NONBLOCK")];
const MODULE: &[(u32, &str)] = &[(0o4000, "O_NONBLOCK"), (0o1000, "O_TRUNC")];

const FCNTL: &[(u32, &str)] = &[
    (0, "F_DUPFD"),
    (1, "F_GETFD"),
    (2, "F_SETFD"),
    (3, "F_GETFL"),
    (4, "F_SETFL"),
    (5, "F_GETLK"),
    (6, "F_SETLK"),
    (7, "F_SETLKW"),
    (8, "F_SETOWN"),
    (9, "F_GETOWN"),
    (10, "F_SETSIG"),
    (11, "F_GETSIG"),
    (15, "F_SETOWN_EX"),
    (16, "F_GETOWN_EX"),
    (36, "F_OFD_GETLK"),
    (37, "F_OFD_SETLK"),
    (38, "F_OFD_SETLKW"),
    (1024, "F_SETLEASE"),
    (1025, "F_GETLEASE"),
    (1026, "F_NOTIFY"),
    (1029, "F_CANCELLK"),
    (1030, "F_DUPFD_CLOEXEC"),
    (1031, "F_SETPIPE_SZ"),
    (1032, "F_GETPIPE_SZ"),
];

const PTRACE: &[(u32, &str)] = &[
    (0, "PTRACE_TRACEME"),
    (1, "PTRACE_PEEKTEXT"),
    (2, "PTRACE_PEEKDATA"),
    (3, "PTRACE_PEEKUSR"),
    (4, "PTRACE_POKETEXT"),
    (5, "PTRACE_POKEDATA"),
    (6, "PTRACE_POKEUSR"),
    (7, "PTRACE_CONT"),
    (8, "PTRACE_KILL"),
    (9, "PTRACE_SINGLESTEP"),
    (12, "PTRACE_GETREGS"),
    (13, "PTRACE_SETREGS"),
    (14, "PTRACE_GETFPREGS"),
    (15, "PTRACE_SETFPREGS"),
    (16, "PTRACE_ATTACH"),
    (17, "PTRACE_DETACH"),
    (18, "PTRACE_GETFPXREGS"),
    (19, "PTRACE_SETFPXREGS"),
    (21, "PTRACE_OLDSETOPTIONS"),
    (24, "PTRACE_SYSCALL"),
    (25, "PTRACE_GET_THREAD_AREA"),
    (26, "PTRACE_SET_THREAD_AREA"),
    (30, "PTRACE_ARCH_PRCTL"),
    (31, "PTRACE_SYSEMU"),
    (32, "PTRACE_SYSEMU_SINGLESTEP"),
    (33, "PTRACE_SINGLEBLOCK"),
    (0x4200, "PTRACE_SETOPTIONS"),
    (0x4201, "PTRACE_GETEVENTMSG"),
    (0x4202, "PTRACE_GETSIGINFO"),
    (0x4203, "PTRACE_SETSIGINFO"),
    (0x4204, "PTRACE_GETREGSET"),
    (0x4205, "PTRACE_SETREGSET"),
    (0x4206, "PTRACE_SEIZE"),
    (0x4207, "PTRACE_INTERRUPT"),
    (0x4208, "PTRACE_LISTEN"),
    (0x4209, "PTRACE_PEEKSIGINFO"),
    (0x420a, "PTRACE_GETSIGMASK"),
    (0x420b, "PTRACE_SETSIGMASK"),
];

const SEMCTL: &[(u32, &str)] = &[
    (0, "IPC_RMID"),
    (1, "IPC_SET"),
    (2, "IPC_STAT"),
    (3, "IPC_INFO"),
    (11, "GETPID"),
    (12, "GETVAL"),
    (13, "GETALL"),
    (14, "GETNCNT"),
    (15, "GETZCNT"),
    (16, "SETVAL"),
    (17, "SETALL"),
    (18, "SEM_STAT"),
    (19, "SEM_INFO"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_scap::table::event_type;
    use gabion_scap::types;

    fn apply(t: Translation, raw: &[u8], before: &[&[u8]], kind: u16, place: usize) -> Vec<u8> {
        let mut to = Vec::new();
        t.apply(raw, before, event_type(kind).unwrap().parameters.get(place), 1000, &mut to);
        to
    }

    #[test]
    fn names_of_the_kernel_are_names_of_the_table() {
        let all = super::super::recipes::all().unwrap();
        for recipe in &all {
            for (translation, parameter) in recipe.translations.iter().zip(recipe.kind.parameters) {
                let pairs = match translation {
                    Some(Translation::Bits(pairs) | Translation::Names(pairs)) => *pairs,
                    _ => continue,
                };
                let table = parameter.flags.unwrap();
                for (_, name) in pairs {
                    assert!(table.value(name).is_some(), "{name} of {}", recipe.kind.name);
                }
            }
        }
    }

    #[test]
    fn open_flags_have_the_tables_bits() {
        let raw = 0o2_000_101_u32; // O_WRONLY | O_CREAT | O_CLOEXEC
        let flags = apply(Translation::OpenFlags, &raw.to_le_bytes(), &[], types::OPENAT_2_X, 3);
        assert_eq!(flags, (2_u32 | 4 | 4096).to_le_bytes());
        let mode = 0o100_644_u32.to_le_bytes();
        let with = apply(Translation::OpenMode, &mode, &[&raw.to_le_bytes()], types::OPENAT_2_X, 4);
        assert_eq!(with, 0o644_u32.to_le_bytes());
        let without = apply(Translation::OpenMode, &mode, &[&[0; 4]], types::OPENAT_2_X, 4);
        assert_eq!(without, [0; 4], "without O_CREAT the register holds anything");
    }

    #[test]
    fn paths_come_from_their_last_component() {
        for (raw, wanted) in [
            (&b"c\0bb\0a\0\0"[..], &b"/a/bb/c\0"[..]),
            (b"\0\0", b"/\0"),
            (b"x\0\0", b"/x\0"),
            (b"", b"/\0"),
            (b"cut", b"/cut\0"),
        ] {
            let mut to = Vec::new();
            path(raw, &mut to);
            assert_eq!(to, wanted, "{raw:?}");
        }
    }

    #[test]
    fn groups_repeat_the_path_of_the_group_before() {
        let raw = b"cpuset=b\0a\0\0cpu=\x01io=\0memory=m\0\0";
        let mut to = Vec::new();
        groups(raw, &mut to);
        assert_eq!(to, b"cpuset=/a/b\0cpu=/a/b\0io=/\0memory=/m\0");
        groups(b"=", &mut to);
        groups(b"a=b", &mut to); // torn input ends
    }

    #[test]
    fn a_clone_says_that_its_child_has_numbers_of_its_own() {
        let raw = 0x4001_u32.to_le_bytes();
        let flags = apply(Translation::Bits(CLONE), &raw, &[], types::CLONE_20_X, 15);
        assert_eq!(flags, (134_217_728_u32 | 536_870_912).to_le_bytes());
    }

    #[test]
    fn unknown_values_stay_unknown() {
        assert!(apply(Translation::OpenFlags, &[], &[], types::OPENAT_2_X, 3).is_empty());
        assert!(apply(Translation::Path, &[], &[], types::EXECVE_19_X, 27).is_empty());
    }

    #[test]
    fn the_name_of_a_thread_is_text_and_other_options_are_numbers() {
        let name = 15_u32.to_le_bytes();
        let other = 38_u32.to_le_bytes();
        assert_eq!(apply(Translation::PrctlText, b"x\0", &[&name], types::PRCTL_X, 2), b"x\0");
        assert!(apply(Translation::PrctlText, b"x\0", &[&other], types::PRCTL_X, 2).is_empty());
        let number = 1_u64.to_le_bytes();
        assert!(
            apply(Translation::PrctlNumber, &number, &[&name, b"x"], types::PRCTL_X, 3).is_empty()
        );
        assert_eq!(
            apply(Translation::PrctlNumber, &number, &[&other, b""], types::PRCTL_X, 3),
            number
        );
    }
}
