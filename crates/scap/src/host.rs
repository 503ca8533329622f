//! The state of a host before the first event, as files list it: the machine, its processes with their descriptors,
//! interfaces and users. Defaults are those that Falco's libs (schema 4.5.1) give to values that old files lack.

/// What a file says about the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Number of processors.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The largest number that a process may have.
    pub pid_max: u64,
    /// Its name.
    pub hostname: Vec<u8>,
    /// When it was started, in nanoseconds since 1970; 0 if unknown.
    pub boot_ts_ns: u64,
    /// Flags of the recording.
    pub flags: u64,
}

/// One thread that existed before the first event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessEntry {
    /// The thread.
    pub tid: i64,
    /// Its process.
    pub pid: i64,
    /// Its parent.
    pub ptid: i64,
    /// Its session; -1 if unknown.
    pub sid: i64,
    /// Its process group in its own namespace; -1 if unknown.
    pub vpgid: i64,
    /// Its process group; -1 if unknown.
    pub pgid: i64,
    /// Its name.
    pub comm: Vec<u8>,
    /// The first of its arguments.
    pub exe: Vec<u8>,
    /// The path of its program.
    pub exepath: Vec<u8>,
    /// Its other arguments, each with a final NUL.
    pub args: Vec<u8>,
    /// Its working folder.
    pub cwd: Vec<u8>,
    /// The most descriptors that it may have.
    pub fd_limit: i64,
    /// Flags of the thread (`CLONE_…` of the event table).
    pub flags: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Virtual memory in KiB.
    pub vm_size_kb: u32,
    /// Resident memory in KiB.
    pub vm_rss_kb: u32,
    /// Swapped memory in KiB.
    pub vm_swap_kb: u32,
    /// Number of major page faults.
    pub faults_major: u64,
    /// Number of minor page faults.
    pub faults_minor: u64,
    /// Its environment, each variable with a final NUL.
    pub env: Vec<u8>,
    /// The thread in its own namespace; -1 if unknown.
    pub vtid: i64,
    /// Its process in its own namespace; -1 if unknown.
    pub vpid: i64,
    /// Its control groups as `SUBSYSTEM=PATH`, each with a final NUL.
    pub cgroups: Vec<u8>,
    /// Its root folder.
    pub root: Vec<u8>,
    /// When its namespace of processes began, in nanoseconds since 1970; 0 if unknown.
    pub pidns_start_ts_ns: u64,
    /// Its terminal; 0 if there is none.
    pub tty: u32,
    /// The user that logged in; `u32::MAX` if there is none.
    pub loginuid: u32,
    /// Whether its user may write to its program.
    pub is_exe_writable: bool,
    /// Capabilities that its programs inherit.
    pub cap_inheritable: u64,
    /// Capabilities that it may have.
    pub cap_permitted: u64,
    /// Capabilities that it has.
    pub cap_effective: u64,
    /// Whether its program is in the upper layer of an overlay.
    pub is_exe_upper_layer: bool,
    /// Whether its program is in the lower layer of an overlay.
    pub is_exe_lower_layer: bool,
    /// Whether its program is in memory only.
    pub is_exe_from_memfd: bool,
    /// The inode of its program.
    pub exe_ino: u64,
    /// When that inode changed, in nanoseconds since 1970.
    pub exe_ino_ctime_ns: u64,
    /// When its program was written, in nanoseconds since 1970.
    pub exe_ino_mtime_ns: u64,
}

impl Default for ProcessEntry {
    fn default() -> Self {
        ProcessEntry {
            tid: -1,
            pid: -1,
            ptid: -1,
            sid: -1,
            vpgid: -1,
            pgid: -1,
            comm: Vec::new(),
            exe: Vec::new(),
            exepath: Vec::new(),
            args: Vec::new(),
            cwd: Vec::new(),
            fd_limit: 0,
            flags: 0,
            uid: 0,
            gid: 0,
            vm_size_kb: 0,
            vm_rss_kb: 0,
            vm_swap_kb: 0,
            faults_major: 0,
            faults_minor: 0,
            env: Vec::new(),
            vtid: -1,
            vpid: -1,
            cgroups: Vec::new(),
            root: Vec::new(),
            pidns_start_ts_ns: 0,
            tty: 0,
            loginuid: u32::MAX,
            is_exe_writable: false,
            cap_inheritable: 0,
            cap_permitted: 0,
            cap_effective: 0,
            is_exe_upper_layer: false,
            is_exe_lower_layer: false,
            is_exe_from_memfd: false,
            exe_ino: 0,
            exe_ino_ctime_ns: 0,
            exe_ino_mtime_ns: 0,
        }
    }
}

/// One descriptor that was open before the first event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FdEntry {
    /// The thread that has it.
    pub tid: i64,
    /// Its number.
    pub fd: i64,
    /// The inode.
    pub ino: u64,
    /// The number of its kind in the file (`scap_fd_type` of Falco's libs).
    pub kind: u8,
    /// What it refers to.
    pub target: FdTarget,
}

/// What a descriptor refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FdTarget {
    /// A connection over IPv4: source and destination, each with its port.
    V4(([u8; 4], u16), ([u8; 4], u16), L4),
    /// A connection over IPv6.
    V6(([u8; 16], u16), ([u8; 16], u16), L4),
    /// A server on IPv4.
    V4Server(([u8; 4], u16), L4),
    /// A server on IPv6.
    V6Server(([u8; 16], u16), L4),
    /// A Unix socket: the addresses of both ends in the kernel, and the path.
    Unix(u64, u64, Vec<u8>),
    /// A file.
    File {
        /// Flags with which it was opened (`O_…` of the event table).
        open_flags: u32,
        /// Its path.
        name: Vec<u8>,
        /// Its device; 0 if unknown.
        dev: u32,
    },
    /// Anything else, with its name.
    Named(Vec<u8>),
}

/// The number of a transport protocol in files: 0 unknown, 1 none, 2 TCP, 3 UDP, 4 ICMP, 5 raw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct L4(pub u8);

/// One interface of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceEntry {
    /// Its name.
    pub name: Vec<u8>,
    /// Its address.
    pub address: InterfaceAddress,
    /// Its speed in bits a second; 0 if unknown.
    pub link_speed: u64,
}

/// The address of an interface with its netmask and broadcast address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the terms of the field")]
pub enum InterfaceAddress {
    /// IPv4.
    V4 { address: [u8; 4], netmask: [u8; 4], broadcast: [u8; 4] },
    /// IPv6.
    V6 { address: [u8; 16], netmask: [u8; 16], broadcast: [u8; 16] },
}

/// A user or a group of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the terms of the field")]
pub enum UserEntry {
    /// A user.
    User { uid: u32, gid: u32, name: Vec<u8>, home: Vec<u8>, shell: Vec<u8> },
    /// A group.
    Group { gid: u32, name: Vec<u8> },
}
