//! Every fixed bound of this crate, with its reason. The size of the thread table and its budget in bytes are
//! configured by the caller.

use gabion_record::limits;

/// Closed file descriptors whose memory is kept for the next open: more than are closed at a time in most programs.
pub const FREE_FDS_KEPT: usize = 256;

/// Threads that are remembered as removed from the table, so that their fields can say that they were shed: a quarter
/// of the usual table.
pub const SHED_TIDS_KEPT: usize = 65_536;

/// Falco's default for the size of the thread table (`falco_libs.thread_table_size`).
pub const THREADS_DEFAULT: usize = 262_144;

/// Nanoseconds for which lost events may have no thread before all processes are listed again: most threads show a gap in
/// their numbers by their next event, within this time.
pub const LOSS_OPEN_NS_MAX: u64 = 2_000_000_000;

/// Nanoseconds between two lists of all processes: one reads a dozen files of each thread.
pub const LISTS_APART_NS: u64 = 30_000_000_000;

/// Nanoseconds for which an entry that a parent's event made is not replaced when the child's own event arrives
/// (Falco libs, schema 4.5.1: two seconds). An older entry of that number is of another process.
pub const CHILD_EVENT_NS: u64 = 2_000_000_000;

limits! { "syscall";
    /// File descriptors of one process that are followed: the default of the kernel's hard limit for services is
    /// larger (524,288), but no usual program opens more.
    pub const FDS_PER_PROCESS_MAX: usize = 65_536,
        Loses("further file descriptors of a process");

    /// Ancestors that a field looks at. Real trees are a few dozen deep; a made one could have a million.
    pub const ANCESTORS_MAX: usize = 1_024,
        Loses("further ancestors of a process");

    /// Bytes kept of arguments, environment or control groups of a process: Falco's probe sends at most 4,096, files
    /// may hold up to 64 KiB in one parameter.
    pub const PROCESS_TEXT_MAX: usize = 65_536,
        Loses("bytes of a process's arguments, environment or control groups");

    /// Bytes kept of a path: the kernel's limit with its zero byte (`PATH_MAX`).
    pub const PATH_BYTES_MAX: usize = 4_096,
        Loses("bytes of a path");

    /// Connections whose thread is known for a join with flows: as many as a busy server has at a time. They have no more
    /// than an eighth of the budget.
    pub const CONNECTIONS_MAX: usize = 65_536,
        Loses("the thread of the oldest connection");

    /// Threads that are looked up in one second of event time. A look-up reads a dozen files of `/proc`; Falco's default
    /// bounds the time of its look-ups to a like number.
    pub const LOOK_UPS_PER_SECOND: usize = 100,
        Loses("what describes further unknown threads of that second");

    /// Users and groups that are known by name: large directories have a few thousand local entries.
    pub const ACCOUNTS_MAX: usize = 65_536,
        Loses("names of further users or groups");

    /// Containers that a runtime's events describe: a host runs hundreds.
    pub const CONTAINERS_MAX: usize = 4_096,
        Loses("descriptions of further containers");

    /// Addresses of the host's own interfaces.
    pub const INTERFACES_MAX: usize = 4_096,
        Loses("further addresses of interfaces");

    /// Lists and objects inside one another in what a container's runtime reports: a container's description has four.
    pub const JSON_DEPTH_MAX: usize = 12,
        Refuses("the description, as one that is not JSON");
}
