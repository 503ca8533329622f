//! What a live source knows of a call that its parameters have no place for, and how a file keeps it.
//!
//! Another thread can change a name between the moment at which the kernel reads it and the moment at which a probe
//! reads it. [`Toctou`] says whether the name in an open, or the address in a connect, can be trusted.
//!
//! A file keeps it by legal means of scap, which other readers pass over: the outcome is in the upper bits of the flags of
//! the event's block; the path of the kernel's file, where the event does not have it as its name, is in an event
//! `notification` of the same thread before it; and the enter event of the call, where enter and exit differ, is before
//! it as Falco's probe writes it.

use crate::event::Event;
use crate::parameter::Param;
use crate::table::types;

/// What is known of the name of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toctou {
    /// Both reads agree and, if the call succeeded, the kernel opened that path.
    Verified,
    /// Both reads agree, and the kernel opened another path: a link, or a change in between.
    Linked,
    /// The reads differ.
    Mismatch,
    /// There is no read at the entry.
    ExitOnly(Cause),
}

/// Why there is no read at the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The program at the entry could not be attached.
    NotAttached,
    /// The call began before the program was attached.
    NotSeen,
    /// The call used the table of 32 bits, whose entry has no tracepoint of its own.
    Ia32,
    /// The page of the name was not in memory, or there was no memory for it.
    NotReadable,
    /// The name is longer than what is kept of it.
    TooLong,
    /// Another call of a signal handler came in between.
    OtherCall,
    /// The kernel had no memory for what is read at the entry.
    NoMemory,
    /// The opened path has more components than are kept, so that it can't be compared with the name.
    PathCut,
}

impl Toctou {
    /// The value of the field `evt.toctou`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Linked => "linked",
            Self::Mismatch => "mismatch",
            Self::ExitOnly(_) => "exit-only",
        }
    }

    /// The bits of a block's flags.
    const fn to_flags(self) -> u32 {
        match self {
            Self::Verified => 1 << SHIFT,
            Self::Linked => 2 << SHIFT,
            Self::Mismatch => 3 << SHIFT,
            Self::ExitOnly(cause) => 4 << SHIFT | (cause.to_number() as u32) << (SHIFT + 3),
        }
    }

    /// The outcome of a block's flags.
    const fn from_flags(flags: u32) -> Option<Self> {
        match (flags >> SHIFT & 7, (flags >> (SHIFT + 3) & 15) as u8) {
            (1, 0) => Some(Self::Verified),
            (2, 0) => Some(Self::Linked),
            (3, 0) => Some(Self::Mismatch),
            (4, number @ 1..=8) => Some(Self::ExitOnly(Cause::from_number(number))),
            _ => None,
        }
    }
}

/// The lowest bit of a block's flags that Falco's libs do not use and that is not near those that they use.
const SHIFT: u32 = 24;

impl Cause {
    /// The reason for a person.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotAttached => "the program at the entry is not attached",
            Self::NotSeen => "the call began before the program was attached",
            Self::Ia32 => "calls of 32-bit programs have no tracepoint at their entry",
            Self::NotReadable => "the name was not in memory at the entry",
            Self::TooLong => "the name is longer than 1023 bytes",
            Self::OtherCall => "a signal's call came in between",
            Self::NoMemory => "the kernel had no memory for what is read at the entry",
            Self::PathCut => "the opened path has more than 48 components",
        }
    }

    /// The cause with a number of `bpf/syscalls.h`.
    #[must_use]
    pub const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::NotAttached,
            3 => Self::Ia32,
            4 => Self::NotReadable,
            5 => Self::TooLong,
            6 => Self::OtherCall,
            7 => Self::NoMemory,
            8 => Self::PathCut,
            _ => Self::NotSeen,
        }
    }

    const fn to_number(self) -> u8 {
        match self {
            Self::NotAttached => 1,
            Self::NotSeen => 2,
            Self::Ia32 => 3,
            Self::NotReadable => 4,
            Self::TooLong => 5,
            Self::OtherCall => 6,
            Self::NoMemory => 7,
            Self::PathCut => 8,
        }
    }
}

/// What a live source knows of a call besides its parameters. Files of other programs have none of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveValues<'a> {
    /// Whether the name can be trusted; none if the call has no name that is read twice, or nobody knows.
    pub toctou: Option<Toctou>,
    /// The path of the file that the kernel opened, without a zero byte; empty if the call opened none, or nobody knows.
    /// Paths of more than 48 components are `...` and the last 48.
    pub opened: &'a [u8],
    /// The network namespace of the thread by its inode; 0 if nobody knows. Known of calls that connect and accept.
    pub netns: u32,
}

/// The numbers by which a live source lets a reader notice what was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Events that change state, of the whole source, up to this one and with it; lost ones count.
    pub of_source: u64,
    /// Events that change state, of this thread since it exists, up to this one and with it; lost ones count. 0 if the
    /// event was not numbered, which only events that change nothing are.
    pub of_thread: u64,
}

/// The first parameter of the `notification` that holds the path of the kernel's file.
pub(crate) const NOTE_ID: &[u8] = b"gabion.opened\0";

/// The flag of a block by which the bits between Falco's own flags and the outcome are a network namespace.
const HAS_NETNS: u32 = 1 << 31;
/// Falco's flags in a block with a namespace.
const FALCO_FLAGS: u32 = 3;
/// The inode of the first namespace, before which the kernel gives none, less one (`PROC_DYNAMIC_FIRST`, Linux 6.18).
const BEFORE_NETNS: u32 = 0xefff_ffff;
/// The bits of a namespace.
const NETNS_BITS: u32 = SHIFT - 2;

/// Splits the flags of a block into those of Falco and what a live source knew: outcome and network namespace.
#[inline]
pub(crate) const fn split_flags(flags: u32) -> (u32, Option<Toctou>, u32) {
    if flags < 1 << SHIFT {
        return (flags, None, 0);
    }
    let netns = flags >> 2 & ((1 << NETNS_BITS) - 1);
    let has_netns = flags & HAS_NETNS != 0;
    let is_without_outcome = flags & !HAS_NETNS < 1 << SHIFT;
    match Toctou::from_flags(flags) {
        None if !has_netns || !is_without_outcome || netns == 0 => (flags, None, 0),
        toctou if has_netns && netns != 0 => (flags & FALCO_FLAGS, toctou, BEFORE_NETNS + netns),
        toctou => (flags & ((1 << SHIFT) - 1), toctou, 0),
    }
}

/// The flags of a block with what a live source knew. A namespace that has no space there is left out.
#[inline]
pub(crate) fn join_flags(event: &Event<'_>) -> u32 {
    let flags = event.flags | event.live.toctou.map_or(0, Toctou::to_flags);
    match event.live.netns.checked_sub(BEFORE_NETNS) {
        Some(netns @ 1..) if netns < 1 << NETNS_BITS && event.flags <= FALCO_FLAGS => {
            flags | HAS_NETNS | netns << 2
        }
        _ => flags,
    }
}

/// The path of the kernel's file, if the event itself does not say it.
pub(crate) fn path_to_write<'a>(event: &Event<'a>) -> Option<&'a [u8]> {
    let opened = event.live.opened;
    if opened.is_empty() {
        return None;
    }
    let is_known = event.live.toctou == Some(Toctou::Verified)
        && name_of(event).is_some_and(|name| name == opened);
    (!is_known).then_some(opened)
}

/// The name that an open has as its parameter.
fn name_of<'a>(event: &Event<'a>) -> Option<&'a [u8]> {
    match event.param_named("name") {
        Some(Param::Path(name) | Param::RelativePath(name, _)) => Some(name),
        _ => None,
    }
}

/// Whether a call opens a file by a name that a live source checks.
#[inline]
pub(crate) const fn opens_by_name(kind: u16) -> bool {
    matches!(kind, types::OPEN_X | types::CREAT_X | types::OPENAT_2_X | types::OPENAT2_X)
}

/// Whether `evt.toctou` applies to exits of this type.
#[must_use]
pub const fn is_checked(kind: u16) -> bool {
    opens_by_name(kind) || kind == types::CONNECT_X
}

/// Why a path is not known to be the one that the kernel used: it is read when the call has ended.
pub const READ_AT_EXIT: &str = "paths of this call are read at its end alone";

/// Whether exits of this type name a path that is read at the end of the call alone: no program can say whether it was
/// another one when the call began.
#[must_use]
pub const fn is_read_at_exit(kind: u16) -> bool {
    matches!(
        kind,
        types::RENAME_X
            | types::RENAMEAT_X
            | types::RENAMEAT2_X
            | types::UNLINK_2_X
            | types::UNLINKAT_2_X
            | types::RMDIR_2_X
            | types::LINK_2_X
            | types::LINKAT_2_X
            | types::SYMLINK_X
            | types::SYMLINKAT_X
            | types::MKDIR_2_X
            | types::MKDIRAT_X
            | types::MKNOD_X
            | types::MKNODAT_X
            | types::CHMOD_X
            | types::FCHMODAT_X
            | types::CHOWN_X
            | types::LCHOWN_X
            | types::FCHOWNAT_X
            | types::MOUNT_X
            | types::UMOUNT_X
            | types::UMOUNT_1_X
            | types::UMOUNT2_X
            | types::CHROOT_X
            | types::CHDIR_X
            | types::ACCESS_X
            | types::STAT_X
            | types::LSTAT_X
            | types::STAT64_X
            | types::LSTAT64_X
            | types::NEWFSTATAT_X
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{ParameterKind, event_types};

    #[test]
    fn each_exit_that_names_a_path_is_checked_or_says_that_it_is_read_at_the_end() {
        // The path of an opened handle and of a program is the kernel's own.
        let kernels = [types::OPEN_BY_HANDLE_AT_X, types::EXECVE_19_X, types::EXECVEAT_X];
        for kind in event_types().iter().filter(|kind| kind.is_exit()) {
            let is_path = |kind: &ParameterKind| {
                matches!(kind, ParameterKind::Fspath | ParameterKind::Fsrelpath)
            };
            // The table has the path of this call as a text.
            let has_path = kind.number == types::CHDIR_X
                || kind.parameters.iter().any(|parameter| is_path(&parameter.kind));
            let is_known = opens_by_name(kind.number) || is_read_at_exit(kind.number);
            let wanted = has_path && !kernels.contains(&kind.number);
            assert_eq!(is_known, wanted, "{}", kind.constant);
        }
    }

    #[test]
    fn every_outcome_survives_the_flags_of_a_block() {
        let causes = (1..=8).map(|n| Toctou::ExitOnly(Cause::from_number(n)));
        let all = [Toctou::Verified, Toctou::Linked, Toctou::Mismatch].into_iter().chain(causes);
        for toctou in all {
            assert_eq!(split_flags(toctou.to_flags() | 2), (2, Some(toctou), 0));
            let with = toctou.to_flags() | HAS_NETNS | 5 << 2 | 2;
            assert_eq!(split_flags(with), (2, Some(toctou), 0xf000_0004));
        }
        for foreign in [0, 7, 5 << SHIFT, 1 << 27, u32::MAX, HAS_NETNS, HAS_NETNS | 5 << SHIFT | 4]
        {
            assert_eq!(split_flags(foreign), (foreign, None, 0), "{foreign:x}");
        }
        assert_eq!(split_flags(HAS_NETNS | 1 << 2), (0, None, 0xf000_0000));
    }
}
