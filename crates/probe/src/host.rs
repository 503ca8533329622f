//! The state of this host before the first event, read from `/proc`: the machine, its threads, their descriptors, and the
//! users. A live source begins with it, as a file begins with its lists.
//!
//! Processes end while they are read; what can't be read any more is left out. Sockets are found in the tables of the
//! network namespace of each process, each namespace once.

use gabion_scap::host::{FdEntry, FdTarget, InterfaceEntry, L4, Machine, ProcessEntry, UserEntry};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::host_addresses::interfaces;
use crate::limits::{PROC_FDS_MAX, PROC_FILE_BYTES, PROC_THREADS_MAX};

/// A thing that existed before the first event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// The machine.
    Machine(Machine),
    /// A thread.
    Thread(Box<ProcessEntry>),
    /// A descriptor of a process.
    Fd(FdEntry),
    /// An address of an interface.
    Interface(InterfaceEntry),
    /// A user or group.
    User(UserEntry),
}

/// What was read, and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounts {
    /// Threads.
    pub threads: u64,
    /// Descriptors.
    pub fds: u64,
    /// Threads and descriptors above the limits.
    pub left_out: u64,
}

/// Reads the host below `root` (`/`, or where the host's folders are seen in a container).
pub fn read_host(root: &Path, sink: &mut dyn FnMut(Before)) -> HostCounts {
    let mut host =
        Host { proc: root.join("proc"), sockets: HashMap::new(), counts: HostCounts::default() };
    sink(Before::Machine(machine(root)));
    // The first process is in the network namespace of the host.
    let net = |name: &str| text(&host.proc.join("1/net").join(name));
    let found = interfaces(&net("fib_trie"), &net("route"), &net("if_inet6"));
    found.into_iter().for_each(|entry| sink(Before::Interface(entry)));
    users(root, sink);
    let mut pids = numbers(&host.proc);
    pids.sort_unstable();
    for pid in pids {
        host.process(pid, sink);
    }
    host.counts
}

/// A thread that was looked up: itself after the main thread of its process, and that one's descriptors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LookedUp {
    /// The main thread and, if it is another one, the thread.
    pub threads: Vec<ProcessEntry>,
    /// The descriptors of the process.
    pub fds: Vec<FdEntry>,
}

/// Looks a thread up in the host's `/proc` below `root`. None if it is gone or may not be read.
#[must_use]
pub fn look_up(root: &Path, tid: i64) -> Option<LookedUp> {
    let proc = root.join("proc");
    // The folder of a thread that is not the main one is not listed, but there.
    let status = text(&proc.join(tid.to_string()).join("status"));
    let pid = value(&status, "Tgid:").and_then(first_number).and_then(|n| i64::try_from(n).ok())?;
    let folder = proc.join(pid.to_string());
    let own = thread(&folder, pid, tid)?;
    let mut found = LookedUp::default();
    if pid != tid {
        found.threads.extend(thread(&folder, pid, pid));
    }
    found.threads.push(own);
    let mut host = Host { proc, sockets: HashMap::new(), counts: HostCounts::default() };
    host.fds(&folder, pid, &mut |before| {
        if let Before::Fd(fd) = before {
            found.fds.push(fd);
        }
    });
    Some(found)
}

/// Sockets of a network namespace by inode.
type Sockets = HashMap<u64, (u8, FdTarget)>;

struct Host {
    proc: PathBuf,
    /// Sockets of each network namespace by its inode.
    sockets: HashMap<u64, Sockets>,
    counts: HostCounts,
}

impl Host {
    fn process(&mut self, pid: i64, sink: &mut dyn FnMut(Before)) {
        let folder = self.proc.join(pid.to_string());
        let mut tids = numbers(&folder.join("task"));
        tids.sort_unstable_by_key(|tid| (*tid != pid, *tid));
        for tid in tids {
            if self.counts.threads >= PROC_THREADS_MAX {
                self.counts.left_out += 1;
                continue;
            }
            if let Some(entry) = thread(&folder, pid, tid) {
                self.counts.threads += 1;
                sink(Before::Thread(Box::new(entry)));
            }
        }
        self.fds(&folder, pid, sink);
    }

    fn fds(&mut self, folder: &Path, pid: i64, sink: &mut dyn FnMut(Before)) {
        let namespace = std::fs::metadata(folder.join("ns/net")).map_or(0, |m| m.ino());
        // The tables are read for the first socket: walking them costs more than all else of a process without one.
        let all = &mut self.sockets;
        let mut socket = |ino: u64| {
            let of_namespace = || sockets(&folder.join("net"));
            all.entry(namespace).or_insert_with(of_namespace).get(&ino).cloned()
        };
        let mut fds = numbers(&folder.join("fd"));
        fds.sort_unstable();
        for (at, fd) in fds.into_iter().enumerate() {
            if at >= PROC_FDS_MAX {
                self.counts.left_out += 1;
                continue;
            }
            let link = folder.join("fd").join(fd.to_string());
            let Ok(target) = std::fs::read_link(&link) else { continue };
            let (kind, target, ino) =
                descriptor(target.as_os_str(), &link, folder, fd, &mut socket);
            self.counts.fds += 1;
            sink(Before::Fd(FdEntry { tid: pid, fd, ino, kind, target }));
        }
    }
}

/// The names of a folder that are numbers.
fn numbers(folder: &Path) -> Vec<i64> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// A file of `/proc` up to a limit; empty if it can't be read.
fn file(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = std::fs::File::open(path) {
        let _ = file.take(PROC_FILE_BYTES).read_to_end(&mut bytes);
    }
    bytes
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&file(path)).into_owned()
}

fn link(path: &Path) -> Vec<u8> {
    let target = std::fs::read_link(path).unwrap_or_default();
    let bytes = target.as_os_str().as_bytes();
    bytes.strip_suffix(b" (deleted)").unwrap_or(bytes).to_vec()
}

fn machine(root: &Path) -> Machine {
    let proc = root.join("proc");
    let stat = text(&proc.join("stat"));
    let boot = value(&stat, "btime ").and_then(|v| v.trim().parse::<u64>().ok());
    let memory = text(&proc.join("meminfo"));
    let kib = value(&memory, "MemTotal:").and_then(first_number);
    let pid_max = text(&proc.join("sys/kernel/pid_max"));
    let cpus = stat.lines().filter(|l| l.starts_with("cpu") && !l.starts_with("cpu ")).count();
    Machine {
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        memory_bytes: kib.unwrap_or(0).saturating_mul(1024),
        pid_max: pid_max.trim().parse().unwrap_or(0),
        hostname: text(&proc.join("sys/kernel/hostname")).trim().as_bytes().to_vec(),
        boot_ts_ns: boot.unwrap_or(0).saturating_mul(1_000_000_000),
        flags: 0,
    }
}

/// The rest of the first line that begins so.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name))
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

fn users(root: &Path, sink: &mut dyn FnMut(Before)) {
    let passwd = text(&root.join("etc/passwd"));
    for line in passwd.lines() {
        let cells: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, _, home, shell] = cells.as_slice() else { continue };
        let (Ok(uid), Ok(gid)) = (uid.parse(), gid.parse()) else { continue };
        let [name, home, shell] = [name, home, shell].map(|s| s.as_bytes().to_vec());
        sink(Before::User(UserEntry::User { uid, gid, name, home, shell }));
    }
    let group = text(&root.join("etc/group"));
    for line in group.lines() {
        let cells: Vec<&str> = line.split(':').collect();
        let [name, _, gid, ..] = cells.as_slice() else { continue };
        let Ok(gid) = gid.parse() else { continue };
        sink(Before::User(UserEntry::Group { gid, name: name.as_bytes().to_vec() }));
    }
}

/// `CLONE_FILES` and `CLONE_THREAD` of the event table.
const THREAD_FLAGS: u32 = 1 | 8192;

fn thread(folder: &Path, pid: i64, tid: i64) -> Option<ProcessEntry> {
    let own = folder.join("task").join(tid.to_string());
    let status = text(&own.join("status"));
    let stat = text(&own.join("stat"));
    if status.is_empty() || stat.is_empty() {
        return None;
    }
    let number = |name: &str| value(&status, name).and_then(first_number).unwrap_or(0);
    let nth = |name: &str, at: usize| {
        value(&status, name).and_then(|v| v.split_whitespace().nth(at)?.parse::<u32>().ok())
    };
    let last = |name: &str| {
        value(&status, name).and_then(|v| v.split_whitespace().last()?.parse::<i64>().ok())
    };
    let set = |name: &str| {
        let hex = value(&status, name).map(str::trim);
        hex.and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0)
    };
    // The name may hold blanks and parentheses: the numbers come after the last one.
    let (_, after) = stat.rsplit_once(')')?;
    let stats: Vec<i64> =
        after.split_whitespace().skip(1).map(|v| v.parse().unwrap_or(0)).collect();
    let nth_stat = |at: usize| stats.get(at).copied().unwrap_or(0);
    let command = file(&own.join("cmdline"));
    let end = command.iter().position(|byte| *byte == 0).unwrap_or(command.len());
    let exe = command.get(..end).unwrap_or_default().to_vec();
    let args = with_nul(command.get(end + 1..).unwrap_or_default());
    let limits = text(&own.join("limits"));
    let fd_limit = value(&limits, "Max open files").and_then(first_number);
    let loginuid = text(&own.join("loginuid")).trim().parse().unwrap_or(u32::MAX);
    let about_exe = std::fs::metadata(own.join("exe")).ok();
    let exepath = link(&own.join("exe"));
    Some(ProcessEntry {
        tid,
        pid,
        ptid: i64::try_from(number("PPid:")).unwrap_or(-1),
        sid: nth_stat(3),
        vpgid: last("NSpgid:").unwrap_or(-1),
        pgid: nth_stat(2),
        comm: value(&status, "Name:").unwrap_or_default().trim().as_bytes().to_vec(),
        exe,
        args,
        cwd: link(&own.join("cwd")),
        fd_limit: fd_limit.and_then(|n| i64::try_from(n).ok()).unwrap_or(-1),
        flags: if tid == pid { 0 } else { THREAD_FLAGS },
        uid: nth("Uid:", 1).unwrap_or(u32::MAX),
        gid: nth("Gid:", 1).unwrap_or(u32::MAX),
        vm_size_kb: u32::try_from(number("VmSize:")).unwrap_or(u32::MAX),
        vm_rss_kb: u32::try_from(number("VmRSS:")).unwrap_or(u32::MAX),
        vm_swap_kb: u32::try_from(number("VmSwap:")).unwrap_or(u32::MAX),
        faults_minor: nth_stat(7).cast_unsigned(),
        faults_major: nth_stat(9).cast_unsigned(),
        env: with_nul(&file(&own.join("environ"))),
        vtid: last("NSpid:").unwrap_or(-1),
        vpid: last("NStgid:").unwrap_or(-1),
        cgroups: groups(&text(&own.join("cgroup"))),
        root: link(&own.join("root")),
        tty: u32::try_from(nth_stat(4)).unwrap_or(0),
        loginuid,
        cap_inheritable: set("CapInh:"),
        cap_permitted: set("CapPrm:"),
        cap_effective: set("CapEff:"),
        is_exe_from_memfd: exepath.starts_with(b"/memfd:"),
        exepath,
        exe_ino: about_exe.as_ref().map_or(0, MetadataExt::ino),
        exe_ino_ctime_ns: about_exe.as_ref().map_or(0, |m| ns(m.ctime(), m.ctime_nsec())),
        exe_ino_mtime_ns: about_exe.as_ref().map_or(0, |m| ns(m.mtime(), m.mtime_nsec())),
        ..ProcessEntry::default()
    })
}

fn ns(seconds: i64, ns: i64) -> u64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(ns).max(0).cast_unsigned()
}

fn with_nul(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.last().is_some_and(|byte| *byte != 0) {
        bytes.push(0);
    }
    bytes
}

/// `SUBSYSTEM=PATH` of the control groups that events report, in the same order.
fn groups(text: &str) -> Vec<u8> {
    let mut unified = None;
    let mut named = HashMap::new();
    for line in text.lines() {
        let mut cells = line.splitn(3, ':');
        let (Some(_), Some(names), Some(path)) = (cells.next(), cells.next(), cells.next()) else {
            continue;
        };
        if names.is_empty() {
            unified = Some(path);
        }
        for name in names.split(',').filter(|name| !name.is_empty()) {
            named.insert(name, path);
        }
    }
    let mut all = Vec::new();
    for (name, other) in
        [("cpuset", ""), ("cpu", ""), ("cpuacct", ""), ("io", "blkio"), ("memory", "")]
    {
        let path = named.get(name).or_else(|| named.get(other)).copied().or(unified);
        if let Some(path) = path {
            all.extend_from_slice(format!("{name}={path}\0").as_bytes());
        }
    }
    all
}

/// Kinds of descriptors in files (`scap_fd_type` of Falco's libs, schema 4.5.1), by the text of their link.
const ANONYMOUS: &[(&str, u8)] = &[
    ("pipe:", 7),
    ("anon_inode:[eventfd]", 9),
    ("anon_inode:[signalfd]", 11),
    ("anon_inode:[eventpoll]", 12),
    ("anon_inode:inotify", 13),
    ("anon_inode:[timerfd]", 14),
    ("anon_inode:bpf", 17),
    ("anon_inode:[userfaultfd]", 18),
    ("anon_inode:[io_uring]", 19),
    ("/memfd:", 20),
    ("anon_inode:[pidfd]", 21),
];

fn descriptor(
    target: &OsStr,
    path: &Path,
    folder: &Path,
    fd: i64,
    socket: &mut dyn FnMut(u64) -> Option<(u8, FdTarget)>,
) -> (u8, FdTarget, u64) {
    let bytes = target.as_bytes();
    let name = String::from_utf8_lossy(bytes);
    if let Some(ino) =
        name.strip_prefix("socket:[").and_then(|t| t.trim_end_matches(']').parse().ok())
    {
        let (kind, target) = socket(ino).unwrap_or((10, FdTarget::Named(Vec::new())));
        return (kind, target, ino);
    }
    if let Some((_, kind)) = ANONYMOUS.iter().find(|(start, _)| name.starts_with(start)) {
        let ino = name.split_once('[').and_then(|(_, t)| t.trim_end_matches(']').parse().ok());
        let text = if *kind == 20 { bytes.to_vec() } else { Vec::new() };
        return (*kind, FdTarget::Named(text), ino.unwrap_or(0));
    }
    let about = std::fs::metadata(path).ok();
    let ino = about.as_ref().map_or(0, MetadataExt::ino);
    let name = bytes.strip_suffix(b" (deleted)").unwrap_or(bytes).to_vec();
    if about.as_ref().is_some_and(std::fs::Metadata::is_dir) {
        return (2, FdTarget::Named(name), ino);
    }
    let info = text(&folder.join("fdinfo").join(fd.to_string()));
    let flags = value(&info, "flags:").map(str::trim);
    let flags = flags.and_then(|octal| u32::from_str_radix(octal, 8).ok()).unwrap_or(0);
    let dev = about.map_or(0, |m| m.dev() as u32);
    let open_flags = crate::syscalls::open_flags(flags);
    (16, FdTarget::File { open_flags, name, dev }, ino)
}

/// The tables of sockets of a namespace.
fn sockets(net: &Path) -> Sockets {
    let mut all = HashMap::new();
    for (name, l4) in [("tcp", 2), ("udp", 3), ("tcp6", 2), ("udp6", 3), ("raw", 5), ("raw6", 5)] {
        let table = text(&net.join(name));
        all.extend(table.lines().skip(1).filter_map(|line| internet_socket(line, L4(l4))));
    }
    for line in text(&net.join("unix")).lines().skip(1) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let Some(ino) = cells.get(6).and_then(|ino| ino.parse().ok()) else { continue };
        let path = cells.get(7).unwrap_or(&"").trim_start_matches('@').as_bytes().to_vec();
        all.insert(ino, (8, FdTarget::Unix(0, 0, path)));
    }
    for line in text(&net.join("netlink")).lines().skip(1) {
        if let Some(ino) = line.split_whitespace().last().and_then(|ino| ino.parse().ok()) {
            all.insert(ino, (15, FdTarget::Named(Vec::new())));
        }
    }
    all
}

/// One line of `/proc/net/tcp` and its like.
fn internet_socket(line: &str, l4: L4) -> Option<(u64, (u8, FdTarget))> {
    let cells: Vec<&str> = line.split_whitespace().collect();
    let [local, other] = [cells.get(1)?, cells.get(2)?].map(|end| end.split_once(':'));
    let ((local, local_port), (other, other_port)) = (local?, other?);
    let ino = cells.get(9)?.parse().ok()?;
    let port = |hex| u16::from_str_radix(hex, 16).ok();
    let (local_port, other_port) = (port(local_port)?, port(other_port)?);
    let is_server = other_port == 0;
    let found = if local.len() == 8 {
        let address = |hex| u32::from_str_radix(hex, 16).ok().map(u32::to_le_bytes);
        let (local, other) = ((address(local)?, local_port), (address(other)?, other_port));
        if is_server {
            (5, FdTarget::V4Server(local, l4))
        } else {
            (3, FdTarget::V4(local, other, l4))
        }
    } else {
        let (local, other) = ((ipv6(local)?, local_port), (ipv6(other)?, other_port));
        if is_server {
            (6, FdTarget::V6Server(local, l4))
        } else {
            (4, FdTarget::V6(local, other, l4))
        }
    };
    Some((ino, found))
}

/// Four words in the order of the machine, as `/proc/net/tcp6` writes addresses.
fn ipv6(hex: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    for (at, to) in bytes.chunks_exact_mut(4).enumerate() {
        let word = u32::from_str_radix(hex.get(at * 8..at * 8 + 8)?, 16).ok()?;
        to.copy_from_slice(&word.to_le_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_among_the_hosts() {
        let (mut threads, mut fds, mut machines) = (Vec::new(), Vec::new(), 0);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let me = i64::from(std::process::id());
        let counts = read_host(Path::new("/"), &mut |before| match before {
            Before::Thread(entry) if entry.pid == me => threads.push(*entry),
            Before::Fd(entry) if entry.tid == me => fds.push(entry),
            Before::Machine(machine) => machines += u32::from(machine.cpus > 0),
            _ => {}
        });
        assert_eq!(machines, 1);
        assert!(counts.threads >= threads.len() as u64 && counts.fds >= fds.len() as u64);
        let main = threads.iter().find(|t| t.tid == me).unwrap();
        assert_eq!(main.exepath, std::env::current_exe().unwrap().as_os_str().as_bytes());
        assert_eq!(main.cwd, std::env::current_dir().unwrap().as_os_str().as_bytes());
        assert!(threads.iter().filter(|t| t.tid != me).all(|t| t.flags == THREAD_FLAGS));
        let server = FdTarget::V4Server(([127, 0, 0, 1], port), L4(2));
        assert!(fds.iter().any(|fd| fd.target == server && fd.kind == 5), "{fds:?}");
    }

    #[test]
    fn a_thread_of_this_process_is_looked_up_with_its_descriptors() {
        let tid = i64::from(rustix::thread::gettid().as_raw_nonzero().get());
        let me = i64::from(std::process::id());
        let file = std::fs::File::open("/proc/self/status").unwrap();
        let found = look_up(Path::new("/"), tid).unwrap();
        let tids: Vec<i64> = found.threads.iter().map(|thread| thread.tid).collect();
        assert!(tids.first() == Some(&me) && tids.last() == Some(&tid), "{tids:?}");
        let fd = i64::from(std::os::fd::AsRawFd::as_raw_fd(&file));
        assert!(found.fds.iter().any(|entry| entry.fd == fd && entry.tid == me));
        assert_eq!(look_up(Path::new("/"), i64::from(i32::MAX)), None);
    }

    #[test]
    fn groups_of_both_versions_are_named_alike() {
        assert_eq!(
            groups("4:memory:/m\n3:cpu,cpuacct:/c\n0::/u\n"),
            b"cpuset=/u\0cpu=/c\0cpuacct=/c\0io=/u\0memory=/m\0"
        );
        assert!(groups("nonsense").is_empty());
    }

    #[test]
    fn lines_of_the_tables_of_sockets_are_read() {
        let line =
            "0: 0100007F:1F90 0200000A:0050 01 00000000:00000000 00:00000000 00000000 0 0 77 1";
        let (ino, (kind, target)) = internet_socket(line, L4(2)).unwrap();
        let wanted = FdTarget::V4(([127, 0, 0, 1], 8080), ([10, 0, 0, 2], 80), L4(2));
        assert_eq!((ino, kind, target), (77, 3, wanted));
        let six = "0: 00000000000000000000000001000000:0016 00000000000000000000000000000000:0000 \
                   0A 0:0 0:0 0 0 0 5 1";
        let (_, (kind, target)) = internet_socket(six, L4(2)).unwrap();
        let loopback = std::net::Ipv6Addr::LOCALHOST.octets();
        assert_eq!((kind, target), (6, FdTarget::V6Server((loopback, 22), L4(2))));
        for torn in ["", "0:", "0: x:y", "0: 0:0 0:0 0 0 0 0 0 0 x"] {
            assert!(internet_socket(torn, L4(2)).is_none(), "{torn}");
        }
    }
}
