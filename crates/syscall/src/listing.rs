//! The state as a list, as files have it before their events: a capture that begins in the middle of a stream starts with
//! what is known then.

use gabion_scap::Item;
use gabion_scap::host::{FdEntry, FdTarget, L4, Machine, ProcessEntry, UserEntry};

use crate::fd::{End, Ends, Fd, FdKind, L4Proto};
use crate::state::State;
use crate::thread::Thread;

impl State {
    /// Hands the machine, its users, all threads and their descriptors to `sink`.
    pub fn list(&self, sink: &mut dyn FnMut(Item<'static>)) {
        sink(Item::Machine(Machine { hostname: self.hostname().to_vec(), ..Machine::default() }));
        self.accounts.list(&mut |entry: UserEntry| sink(Item::User(entry)));
        for thread in self.threads.iter().filter(|thread| !thread.is_unseen() && !thread.is_dead) {
            sink(Item::Process(Box::new(process(thread))));
        }
        for thread in self.threads.iter().filter(|thread| !thread.is_dead) {
            for (number, fd) in thread.fds.iter() {
                sink(Item::Fd(descriptor(thread.tid, number, fd)));
            }
        }
    }
}

fn process(thread: &Thread) -> ProcessEntry {
    ProcessEntry {
        tid: thread.tid,
        pid: thread.pid,
        ptid: thread.ptid,
        sid: thread.sid,
        vpgid: thread.vpgid,
        pgid: thread.pgid,
        comm: thread.comm.bytes().to_vec(),
        exe: thread.exe.bytes().to_vec(),
        exepath: thread.exepath.bytes().to_vec(),
        args: thread.args.bytes().to_vec(),
        cwd: thread.cwd.bytes().to_vec(),
        fd_limit: thread.fd_limit,
        flags: thread.flags,
        uid: thread.uid,
        gid: thread.gid,
        vm_size_kb: thread.vm_size_kb,
        vm_rss_kb: thread.vm_rss_kb,
        vm_swap_kb: thread.vm_swap_kb,
        faults_major: thread.faults_major,
        faults_minor: thread.faults_minor,
        env: thread.env.bytes().to_vec(),
        vtid: thread.vtid,
        vpid: thread.vpid,
        cgroups: thread.cgroups.bytes().to_vec(),
        root: thread.root.bytes().to_vec(),
        pidns_start_ts_ns: thread.pidns_start_ns,
        tty: thread.tty,
        loginuid: thread.loginuid,
        is_exe_writable: thread.is_exe_writable,
        cap_inheritable: thread.cap_inheritable,
        cap_permitted: thread.cap_permitted,
        cap_effective: thread.cap_effective,
        is_exe_upper_layer: thread.is_exe_upper_layer,
        is_exe_lower_layer: thread.is_exe_lower_layer,
        is_exe_from_memfd: thread.is_exe_from_memfd,
        exe_ino: thread.exe_ino,
        exe_ino_ctime_ns: thread.exe_ino_ctime,
        exe_ino_mtime_ns: thread.exe_ino_mtime,
    }
}

/// The number of `scap_fd_type` that today's files have for a file (Falco libs, schema 4.5.1).
const FILE_V2: u8 = 16;
/// That of a kind that has none of its own.
const UNSUPPORTED: u8 = 10;

fn descriptor(tid: i64, number: i64, fd: &Fd) -> FdEntry {
    let name = fd.name.bytes().to_vec();
    let l4 = L4((0..6).find(|n| L4Proto::from_scap(*n) == fd.l4proto).unwrap_or(0));
    let v4 = |end: &End| end.ip.as_v4().map(|ip| (ip.to_be_bytes(), end.port));
    let v6 = |end: &End| (end.ip.to_bytes(), end.port);
    let (kind, target) = match (fd.kind, &fd.ends) {
        (FdKind::File, _) => {
            (FILE_V2, FdTarget::File { open_flags: fd.open_flags, name, dev: fd.dev })
        }
        (_, Ends::Both { source, dest }) => match (v4(source), v4(dest)) {
            (Some(source), Some(dest)) => (3, FdTarget::V4(source, dest, l4)),
            _ => (4, FdTarget::V6(v6(source), v6(dest), l4)),
        },
        (_, Ends::Server(end)) => match v4(end) {
            Some(end) => (5, FdTarget::V4Server(end, l4)),
            None => (6, FdTarget::V6Server(v6(end), l4)),
        },
        (FdKind::Unix, Ends::Unix { source, dest }) => (8, FdTarget::Unix(*source, *dest, name)),
        (FdKind::Unix, Ends::None) => (8, FdTarget::Unix(0, 0, name)),
        // A socket without ends has no entry of its own kind.
        (kind, _) if kind.is_ip() => (UNSUPPORTED, FdTarget::Named(name)),
        (kind, _) => {
            let number = (1..22).find(|n| FdKind::from_scap(*n) == kind);
            (number.unwrap_or(UNSUPPORTED), FdTarget::Named(name))
        }
    };
    FdEntry { tid, fd: number, ino: fd.ino, kind, target }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Options;
    use gabion_record::budget::Budget;

    /// What is listed and added to another state is listed there too.
    #[test]
    fn a_list_makes_the_same_state() {
        let new = || State::new(Options::default(), Budget::standalone("threads", 1 << 20));
        let mut state = new();
        state.set_hostname(b"web1");
        let process = ProcessEntry {
            tid: 7,
            pid: 7,
            ptid: 1,
            comm: b"sh".to_vec(),
            cwd: b"/tmp".to_vec(),
            args: b"-i\0".to_vec(),
            ..ProcessEntry::default()
        };
        state.add(Item::Process(Box::new(process)));
        let end = |n: u8| ([10, 0, 0, n], 80 + u16::from(n));
        let six = |n: u8| ([n; 16], u16::from(n));
        let targets = [
            (16, FdTarget::File { open_flags: 1, name: b"/etc/x".to_vec(), dev: 3 }),
            (3, FdTarget::V4(end(1), end(2), L4(2))),
            (4, FdTarget::V6(six(1), six(2), L4(3))),
            (5, FdTarget::V4Server(end(3), L4(2))),
            (8, FdTarget::Unix(1, 2, b"/run/s".to_vec())),
            (2, FdTarget::Named(b"/tmp".to_vec())),
            (12, FdTarget::Named(Vec::new())),
        ];
        for ((kind, target), fd) in targets.into_iter().zip(0..) {
            state.add(Item::Fd(FdEntry { tid: 7, fd, ino: 5, kind, target }));
        }
        let user = |name: &[u8]| UserEntry::Group { gid: 4, name: name.to_vec() };
        state.add(Item::User(user(b"adm")));
        let listed = |state: &State| {
            let mut items = Vec::new();
            state.list(&mut |item| items.push(format!("{item:?}")));
            items
        };
        let first = listed(&state);
        let mut second = new();
        state.list(&mut |item| second.add(item));
        assert_eq!(first, listed(&second));
        assert_eq!(first.len(), 10, "{first:?}");
        assert!(first.iter().any(|item| item.contains("V6Server") || item.contains("Unix(1, 2")));
    }
}
