//! A thread as events and process lists describe it, and the group of threads that is its process.

use gabion_scap::host::ProcessEntry;

use crate::container::{ContainerPlace, ContainerRef};
use crate::fd::FdTable;
use crate::limits::{PROCESS_TEXT_MAX, reached};
use crate::text::{Text, Texts};

/// Bits of a thread's flags (Falco libs, schema 4.5.1).
pub mod flag {
    /// It shares its file descriptors.
    pub const CLONE_FILES: u32 = 1;
    /// It shares its working directory.
    pub const CLONE_FS: u32 = 1 << 1;
    /// It begins a namespace of processes.
    pub const CLONE_NEWPID: u32 = 1 << 6;
    /// Its parent is that of the caller.
    pub const CLONE_PARENT: u32 = 1 << 8;
    /// It is in its caller's group of threads.
    pub const CLONE_THREAD: u32 = 1 << 13;
    /// The child's event came before its parent's.
    pub const CLONE_INVERTED: u32 = 1 << 16;
    /// Its parent waits until it executes or ends.
    pub const CLONE_VFORK: u32 = 1 << 27;
    /// The caller's child is in a namespace of processes.
    pub const CHILD_IN_PIDNS: u32 = 1 << 29;
}

/// Marks the end of a list of slots.
pub(crate) const NONE: u32 = u32::MAX;

/// The places of a thread in the lists of the table, as slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    /// Neighbours in the order of last use.
    pub(crate) newer: u32,
    pub(crate) older: u32,
    /// The thread whose child it is, and its neighbours among that one's children.
    pub(crate) parent: u32,
    pub(crate) next_sibling: u32,
    pub(crate) previous_sibling: u32,
    /// Its first child.
    pub(crate) first_child: u32,
    /// Where the main thread of its process was seen last; another thread may have the place by now.
    pub(crate) main: u32,
    /// Neighbours in its group of threads.
    pub(crate) next_member: u32,
    pub(crate) previous_member: u32,
}

impl Default for Links {
    fn default() -> Links {
        Links {
            newer: NONE,
            older: NONE,
            parent: NONE,
            next_sibling: NONE,
            previous_sibling: NONE,
            first_child: NONE,
            main: NONE,
            next_member: NONE,
            previous_member: NONE,
        }
    }
}

/// Where a thread's entry comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Only its number is known: its events were seen, but nothing describes it.
    #[default]
    Unseen,
    /// The list of processes at the start.
    List,
    /// An event that created it or named its program.
    Event,
}

/// A thread.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// Its number.
    pub tid: i64,
    /// The number of its process, -1 if not known.
    pub pid: i64,
    /// The number of its parent thread, -1 if not known, 0 if it has none.
    pub ptid: i64,
    /// Its session.
    pub sid: i64,
    /// Its process group as its own namespace numbers it.
    pub vpgid: i64,
    /// Its process group as the host numbers it.
    pub pgid: i64,
    /// Its number in its own namespace.
    pub vtid: i64,
    /// Its process's number in its own namespace.
    pub vpid: i64,
    /// Its name.
    pub comm: Text,
    /// The first argument of its program.
    pub exe: Text,
    /// The path of its program.
    pub exepath: Text,
    /// The further arguments, each with a zero byte at its end.
    pub args: Text,
    /// The environment, each variable with a zero byte at its end.
    pub env: Text,
    /// The working directory.
    pub cwd: Text,
    /// Control groups as `subsystem=path`, each with a zero byte at its end.
    pub cgroups: Text,
    /// Where the identifier of its container is in them.
    pub container: Option<ContainerPlace>,
    /// The root directory.
    pub root: Text,
    /// The highest number of file descriptors.
    pub fd_limit: i64,
    /// Bits of [`flag`].
    pub flags: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The user that logged in, `u32::MAX` if there is none.
    pub loginuid: u32,
    /// Its terminal, 0 if it has none.
    pub tty: u32,
    /// Capabilities that programs inherit.
    pub cap_inheritable: u64,
    /// Capabilities that it may use.
    pub cap_permitted: u64,
    /// Capabilities that it uses.
    pub cap_effective: u64,
    /// Inode of its program, 0 if not known.
    pub exe_ino: u64,
    /// When that inode changed, in nanoseconds since 1970.
    pub exe_ino_ctime: u64,
    /// When that file changed, in nanoseconds since 1970.
    pub exe_ino_mtime: u64,
    /// Its user may write to its program.
    pub is_exe_writable: bool,
    /// Its program is in the upper layer of an overlay.
    pub is_exe_upper_layer: bool,
    /// Its program is in the lower layer of an overlay.
    pub is_exe_lower_layer: bool,
    /// Its program has no file: it was executed from memory.
    pub is_exe_from_memfd: bool,
    /// Virtual memory in KiB.
    pub vm_size_kb: u32,
    /// Resident memory in KiB.
    pub vm_rss_kb: u32,
    /// Swapped memory in KiB.
    pub vm_swap_kb: u32,
    /// Page faults that read from a disk.
    pub faults_major: u64,
    /// Other page faults.
    pub faults_minor: u64,
    /// When the first process of its namespace started, in nanoseconds since 1970.
    pub pidns_start_ns: u64,
    /// When it was created, in nanoseconds since 1970; 0 if it was there before the first event.
    pub clone_ns: u64,
    /// When it executed its program; 0 if it did not.
    pub exec_ns: u64,
    /// Its file descriptors; only the main thread of a process has them.
    pub fds: FdTable,
    /// Where the entry comes from.
    pub origin: Origin,
    /// It ended: the entry stays until the next event, or while other threads of its process run.
    pub is_dead: bool,
    /// It was looked up, and nothing was found.
    pub is_look_up_failed: bool,
    /// Events were lost since what is known was seen: its fields are reported as shed.
    pub is_doubtful: bool,
    /// Events were lost, and an execve after them described the program, but not the session, the working directory
    /// and the descriptors.
    pub is_rest_doubtful: bool,
    /// The number of the last event of this thread that changes state, where the source numbers them.
    pub last_number: u64,
    pub(crate) links: Links,
}

impl Thread {
    /// A thread of which only the number is known, with the values that Falco's libs give it.
    pub fn unseen(tid: i64) -> Thread {
        Thread {
            tid,
            pid: -1,
            ptid: -1,
            sid: -1,
            vpgid: -1,
            pgid: -1,
            vtid: -1,
            vpid: -1,
            uid: u32::MAX,
            gid: u32::MAX,
            loginuid: u32::MAX,
            ..Thread::default()
        }
    }

    /// A thread of a list of processes.
    pub fn of_list(entry: &ProcessEntry, texts: &Texts) -> Thread {
        let mut cwd = entry.cwd.clone();
        end_with_slash(&mut cwd);
        Thread {
            tid: entry.tid,
            pid: entry.pid,
            ptid: entry.ptid,
            sid: entry.sid,
            vpgid: entry.vpgid,
            pgid: entry.pgid,
            vtid: if entry.vtid == -1 { entry.tid } else { entry.vtid },
            vpid: if entry.vpid == -1 { entry.pid } else { entry.vpid },
            comm: texts.make(bounded(&entry.comm)),
            exe: texts.make(bounded(&entry.exe)),
            exepath: texts.make(bounded(existing(&entry.exepath))),
            args: texts.make(bounded(&entry.args)),
            env: texts.make(bounded(&entry.env)),
            cwd: texts.make(bounded(&cwd)),
            cgroups: texts.make(bounded(&entry.cgroups)),
            container: ContainerPlace::find(bounded(&entry.cgroups)),
            root: texts.make(bounded(&entry.root)),
            fd_limit: entry.fd_limit,
            flags: entry.flags,
            uid: entry.uid,
            gid: entry.gid,
            loginuid: entry.loginuid,
            tty: entry.tty,
            cap_inheritable: entry.cap_inheritable,
            cap_permitted: entry.cap_permitted,
            cap_effective: entry.cap_effective,
            exe_ino: entry.exe_ino,
            exe_ino_ctime: entry.exe_ino_ctime_ns,
            exe_ino_mtime: entry.exe_ino_mtime_ns,
            is_exe_writable: entry.is_exe_writable,
            is_exe_upper_layer: entry.is_exe_upper_layer,
            is_exe_lower_layer: entry.is_exe_lower_layer,
            is_exe_from_memfd: entry.is_exe_from_memfd,
            vm_size_kb: entry.vm_size_kb,
            vm_rss_kb: entry.vm_rss_kb,
            vm_swap_kb: entry.vm_swap_kb,
            faults_major: entry.faults_major,
            faults_minor: entry.faults_minor,
            pidns_start_ns: entry.pidns_start_ts_ns,
            origin: Origin::List,
            ..Thread::default()
        }
    }

    /// Sets its control groups, and finds its container in them.
    pub(crate) fn set_cgroups(&mut self, texts: &Texts, cgroups: &[u8]) {
        if self.cgroups.bytes() != cgroups {
            texts.set(&mut self.cgroups, cgroups);
            self.container = ContainerPlace::find(cgroups);
        }
    }

    /// Its container; `None` if it is a thread of the host.
    pub fn container(&self) -> Option<ContainerRef<'_>> {
        self.container?.container_in(self.cgroups.bytes())
    }

    /// Whether it is the main thread of its process.
    #[inline]
    pub fn is_main(&self) -> bool {
        self.tid == self.pid
    }

    /// Whether only its number is known.
    pub fn is_unseen(&self) -> bool {
        self.origin == Origin::Unseen
    }

    /// Whether its session, working directory and descriptors may be others by now.
    pub fn is_any_doubtful(&self) -> bool {
        self.is_doubtful || self.is_rest_doubtful
    }
}

/// The part of a process's text that is kept; counted where it is cut.
pub(crate) fn bounded(bytes: &[u8]) -> &[u8] {
    if reached::PROCESS_TEXT_MAX.holds(bytes.len()) {
        bytes
    } else {
        bytes.get(..PROCESS_TEXT_MAX).unwrap_or(bytes)
    }
}

/// The path of a program whose file was removed since: the kernel marks it, Falco shows it without the mark.
fn existing(path: &[u8]) -> &[u8] {
    path.strip_suffix(b" (deleted)").unwrap_or(path)
}

/// Directories end with a slash, except an unknown one.
pub(crate) fn end_with_slash(path: &mut Vec<u8>) {
    if path.last().is_some_and(|b| *b != b'/') {
        path.push(b'/');
    }
}
