//! Events that create, change and end processes: clone, execve, exit, user and group, session, memory.

use gabion_scap::{Event, types};

use super::State;
use crate::decode::Raw;
use crate::limits::CHILD_EVENT_NS;
use crate::path::{self, Folder};
use crate::table::Slot;
use crate::text::Texts;
use crate::thread::{Origin, Thread, bounded, end_with_slash, flag};

/// Bits of execve's flags (Falco libs, schema 4.5.1).
mod exe_flag {
    pub(super) const WRITABLE: u32 = 1;
    pub(super) const UPPER_LAYER: u32 = 1 << 1;
    pub(super) const FROM_MEMFD: u32 = 1 << 2;
    pub(super) const LOWER_LAYER: u32 = 1 << 3;
}

/// `PR_SET_NAME` of prctl.
const PR_SET_NAME: i64 = 15;
/// `PR_SET_CHILD_SUBREAPER` of prctl.
const PR_SET_CHILD_SUBREAPER: i64 = 36;
/// `RLIMIT_NOFILE` as the event table numbers it.
const RLIMIT_NOFILE: i64 = 7;

/// Places of the parameters that clone's and execve's exits share.
mod place {
    pub(super) const EXE: usize = 1;
    pub(super) const ARGS: usize = 2;
    pub(super) const PID: usize = 4;
    pub(super) const PTID: usize = 5;
    pub(super) const CWD: usize = 6;
    pub(super) const FD_LIMIT: usize = 7;
    pub(super) const FAULTS_MAJOR: usize = 8;
    pub(super) const FAULTS_MINOR: usize = 9;
    pub(super) const VM_SIZE: usize = 10;
    pub(super) const VM_RSS: usize = 11;
    pub(super) const VM_SWAP: usize = 12;
    pub(super) const COMM: usize = 13;
    pub(super) const CGROUPS: usize = 14;
    /// What an execve must say so that nothing about the program is from before it: name, control groups, terminal,
    /// group, login, flags, capabilities, user, group.
    pub(super) const PROGRAM: [usize; 12] = [13, 14, 16, 17, 18, 19, 20, 21, 22, 26, 28, 29];
}

/// Takes what clone's and execve's exits say in the same places about program and memory.
fn set_shared(thread: &mut Thread, texts: &Texts, args: &Raw<'_>) {
    if let Some(exe) = args.text(place::EXE) {
        texts.set(&mut thread.exe, bounded(exe));
    }
    texts.set(&mut thread.args, bounded(args.raw(place::ARGS).unwrap_or_default()));
    if let Some(comm) = args.text(place::COMM) {
        texts.set(&mut thread.comm, bounded(comm));
    }
    if let Some(cgroups) = args.raw(place::CGROUPS) {
        thread.set_cgroups(texts, bounded(cgroups));
    }
    if let Some(limit) = args.number(place::FD_LIMIT) {
        thread.fd_limit = limit;
    }
    thread.faults_major = args.u64(place::FAULTS_MAJOR).unwrap_or(thread.faults_major);
    thread.faults_minor = args.u64(place::FAULTS_MINOR).unwrap_or(thread.faults_minor);
    thread.vm_size_kb = args.u32(place::VM_SIZE).unwrap_or(thread.vm_size_kb);
    thread.vm_rss_kb = args.u32(place::VM_RSS).unwrap_or(thread.vm_rss_kb);
    thread.vm_swap_kb = args.u32(place::VM_SWAP).unwrap_or(thread.vm_swap_kb);
}

impl State {
    /// clone, clone3, fork, vfork: both the caller and the child report the end of the call.
    pub(super) fn clone_exit(&mut self, event: &Event<'_>, args: &Raw<'_>) {
        match args.number(0) {
            Some(0) => self.clone_child(event, args),
            Some(child) if child > 0 => self.clone_caller(event, args, child),
            _ => {}
        }
    }

    /// The caller's event: describes the caller, and the child if that one may not report first.
    fn clone_caller(&mut self, event: &Event<'_>, args: &Raw<'_>, child_tid: i64) {
        let Some(caller) = self.current.thread else { return };
        self.describe_caller(caller, event, args);
        let flags = args.u32(15).unwrap_or(0);
        let Some(thread) = self.threads.at(caller) else { return };
        let is_child_elsewhere =
            flags & (flag::CHILD_IN_PIDNS | flag::CLONE_NEWPID | flag::CLONE_PARENT) != 0
                || thread.tid != thread.vtid;
        if is_child_elsewhere {
            return;
        }
        if self.threads.get(child_tid).is_some_and(|known| {
            !known.is_dead && event.ts_ns.saturating_sub(known.clone_ns) < CHILD_EVENT_NS
        }) {
            return;
        }
        let (caller_tid, caller_pid) = (thread.tid, thread.pid);
        let is_thread = flags & flag::CLONE_THREAD != 0;
        let pid = if is_thread { caller_pid } else { child_tid };
        let mut child = self.child_of(caller, is_thread);
        child.tid = child_tid;
        child.pid = pid;
        child.ptid = if is_thread { thread_parent(self, caller) } else { caller_tid };
        child.vtid = child_tid;
        child.vpid = pid;
        self.finish_child(event, args, child, flags);
    }

    /// A caller that was not known, or whose entry is that of an older process, is described by its own event.
    fn describe_caller(&mut self, caller: Slot, event: &Event<'_>, args: &Raw<'_>) {
        let Some(thread) = self.threads.at(caller) else { return };
        let is_unseen = thread.is_unseen();
        let pid = args.number(place::PID).unwrap_or(thread.pid);
        let ptid = args.number(place::PTID).unwrap_or(thread.ptid);
        if is_unseen {
            self.threads.move_to(caller, pid, ptid);
            self.current.main = self.threads.main_of(caller);
        }
        let Some((thread, texts, _)) = self.threads.parts(caller) else { return };
        if !is_unseen {
            return;
        }
        thread.vtid = args.number(18).unwrap_or(thread.tid);
        thread.vpid = args.number(19).unwrap_or(thread.pid);
        thread.pidns_start_ns = args.u64(20).unwrap_or(thread.pidns_start_ns);
        thread.origin = Origin::Event;
        set_shared(thread, texts, args);
        thread.flags = args.u32(15).unwrap_or(0);
        thread.uid = args.u32(16).unwrap_or(thread.uid);
        thread.gid = args.u32(17).unwrap_or(thread.gid);
        let cwd = args.text(place::CWD).unwrap_or_default();
        set_cwd(thread, texts, cwd, &mut self.path);
        let _ = event;
    }

    /// The child's own event.
    fn clone_child(&mut self, event: &Event<'_>, args: &Raw<'_>) {
        let Some(own) = self.current.thread else { return };
        let tid = event.tid;
        let is_young = self.threads.at(own).is_some_and(|known| {
            !known.is_unseen()
                && !known.is_dead
                && known.clone_ns != 0
                && event.ts_ns.saturating_sub(known.clone_ns) < CHILD_EVENT_NS
        });
        if is_young {
            // The parent's event made the entry; the numbers in the child's namespace come from here.
            let Some((thread, texts, _)) = self.threads.parts(own) else { return };
            set_shared(thread, texts, args);
            return;
        }
        let (Some(pid), Some(ptid)) = (args.number(place::PID), args.number(place::PTID)) else {
            return;
        };
        let flags = args.u32(15).unwrap_or(0);
        let is_thread = flags & flag::CLONE_THREAD != 0 || pid != tid;
        let origin = self.threads.find(if is_thread { pid } else { ptid });
        let origin = origin.filter(|slot| {
            *slot != own && self.threads.at(*slot).is_some_and(|thread| !thread.is_unseen())
        });
        let mut child = match origin {
            Some(origin) => self.child_of(origin, is_thread),
            None => self.child_of_nobody(args),
        };
        child.tid = tid;
        child.pid = pid;
        child.ptid = ptid;
        child.last_number = self.threads.at(own).map_or(0, |thread| thread.last_number);
        child.vtid = args.number(18).unwrap_or(-1);
        child.vpid = args.number(19).unwrap_or(-1);
        self.threads.replace(own);
        let slot = self.finish_child(event, args, child, flags);
        self.current.thread = slot;
        self.current.main = slot.and_then(|slot| self.threads.main_of(slot));
    }

    /// A child with what it has from the thread it comes from: its parent, or the main thread of its group.
    fn child_of(&self, origin: Slot, is_thread: bool) -> Thread {
        let Some(parent) = self.threads.at(origin) else { return Thread::unseen(-1) };
        let main = self.threads.main_of(origin).and_then(|slot| self.threads.at(slot));
        let main = main.unwrap_or(parent);
        Thread {
            fds: if is_thread { Default::default() } else { main.fds.clone() },
            env: main.env.clone(),
            cwd: main.cwd.clone(),
            is_dead: false,
            is_doubtful: parent.is_doubtful || main.is_doubtful,
            is_rest_doubtful: parent.is_any_doubtful() || main.is_any_doubtful(),
            exec_ns: 0,
            last_number: 0,
            flags: 0,
            ..parent.clone()
        }
    }

    /// A child whose parent is not known, from its own event alone.
    fn child_of_nobody(&mut self, args: &Raw<'_>) -> Thread {
        let mut child = Thread::unseen(-1);
        child.is_doubtful = self.loss.is_any();
        let cwd = args.text(place::CWD).unwrap_or_default();
        set_cwd(&mut child, &self.threads.texts, cwd, &mut self.path);
        child
    }

    fn finish_child(
        &mut self,
        event: &Event<'_>,
        args: &Raw<'_>,
        mut child: Thread,
        flags: u32,
    ) -> Option<Slot> {
        set_shared(&mut child, &self.threads.texts, args);
        child.origin = Origin::Event;
        child.flags = flags;
        if child.tid != child.pid {
            child.flags |= flag::CLONE_THREAD | flag::CLONE_FILES;
        }
        child.uid = args.u32(16).unwrap_or(child.uid);
        child.gid = args.u32(17).unwrap_or(child.gid);
        child.pidns_start_ns = args.u64(20).unwrap_or(child.pidns_start_ns);
        child.clone_ns = event.ts_ns;
        if self.loss.is_open() {
            // What it has from its parent may be out of date.
            child.is_doubtful = true;
        }
        if child.is_doubtful {
            child.is_rest_doubtful = true;
            child.fds.clear();
        }
        let slot = self.threads.insert(child)?;
        self.threads.link_parent(slot);
        // A full table may have removed the main thread of the caller.
        self.current.main = self.current.thread.and_then(|own| self.threads.main_of(own));
        Some(slot)
    }

    /// execve, execveat: a new program in the same process.
    pub(super) fn execve_exit(&mut self, event: &Event<'_>, args: &Raw<'_>) {
        if args.number(0).is_none_or(|result| result < 0) {
            return;
        }
        let Some(slot) = self.current.thread else { return };
        let Some(thread) = self.threads.at(slot) else { return };
        let is_unseen = thread.is_unseen();
        let pid = args.number(place::PID).unwrap_or(thread.pid);
        let ptid = if thread.ptid <= 0 || thread.is_unseen() || thread.is_doubtful {
            args.number(place::PTID).unwrap_or(thread.ptid)
        } else {
            thread.ptid
        };
        self.threads.move_to(slot, pid, ptid);
        self.threads.end_others(slot);
        self.current.main = self.threads.main_of(slot);
        let trusted = args.text(27).filter(|path| !path.is_empty());
        let filename = args.text(30).or_else(|| enter_filename(event));
        let Some((thread, texts, pool)) = self.threads.parts(slot) else { return };
        thread.origin = Origin::Event;
        // Events of old files lack some of what describes a program.
        let is_whole = place::PROGRAM.iter().all(|place| args.raw(*place).is_some());
        thread.is_doubtful &= !is_whole;
        set_shared(thread, texts, args);
        let takes_cwd = is_unseen && !self.options.as_falco;
        if self.loss.is_any() && is_unseen {
            thread.is_rest_doubtful = true;
        }
        if let (true, Some(cwd)) = (takes_cwd, args.text(place::CWD)) {
            set_cwd(thread, texts, cwd, &mut self.path);
        }
        if thread.vpid == -1 && thread.vtid == -1 {
            (thread.vtid, thread.vpid) = (thread.tid, thread.pid);
        }
        if let Some(env) = args.raw(15) {
            texts.set(&mut thread.env, bounded(env));
        }
        thread.tty = args.u32(16).unwrap_or(thread.tty);
        thread.vpgid = args.number(17).unwrap_or(thread.vpgid);
        thread.loginuid = args.u32(18).unwrap_or(thread.loginuid);
        let flags = args.u32(19).unwrap_or(0);
        thread.is_exe_writable = flags & exe_flag::WRITABLE != 0;
        thread.is_exe_upper_layer = flags & exe_flag::UPPER_LAYER != 0;
        thread.is_exe_from_memfd = flags & exe_flag::FROM_MEMFD != 0;
        thread.is_exe_lower_layer = flags & exe_flag::LOWER_LAYER != 0;
        thread.cap_inheritable = args.u64(20).unwrap_or(thread.cap_inheritable);
        thread.cap_permitted = args.u64(21).unwrap_or(thread.cap_permitted);
        thread.cap_effective = args.u64(22).unwrap_or(thread.cap_effective);
        thread.exe_ino = args.u64(23).unwrap_or(0);
        thread.exe_ino_ctime = args.u64(24).unwrap_or(0);
        thread.exe_ino_mtime = args.u64(25).unwrap_or(0);
        thread.uid = args.u32(26).unwrap_or(thread.uid);
        thread.pgid = args.number(28).unwrap_or(thread.pgid);
        thread.gid = args.u32(29).unwrap_or(thread.gid);
        thread.exec_ns = event.ts_ns;
        thread.flags &= flag::CLONE_INVERTED;
        match (trusted, filename) {
            (Some(path), _) => texts.set(&mut thread.exepath, path),
            (None, Some(b"<NA>" | b"(NULL)")) => texts.set(&mut thread.exepath, b"<NA>"),
            (None, Some(filename)) => {
                path::join(Folder::Path(thread.cwd.bytes()), filename, &mut self.path);
                texts.set(&mut thread.exepath, &self.path);
            }
            (None, None) => {}
        }
        thread.fds.remove_where(pool, |_, fd| fd.is_cloexec);
    }

    /// The end of a thread.
    pub(super) fn procexit(&mut self, args: &Raw<'_>) {
        if let Some(slot) = self.current.thread {
            let is_any_lost = self.loss.is_any();
            self.threads.end(slot, args.number(4), is_any_lost);
        }
    }

    /// setuid, setgid and their relatives. A number of -1 leaves an id as it is.
    pub(super) fn set_ids(&mut self, event: &Event<'_>, args: &Raw<'_>) {
        if args.number(0).is_none_or(|result| result < 0) {
            return;
        }
        let is_given = |place: usize| args.u32(place).filter(|id| *id != u32::MAX);
        let kind = event.kind().number;
        // The effective id counts; setuid and setgid have only one.
        let place = match kind {
            types::SETUID_X | types::SETGID_X => 1,
            _ => 2,
        };
        let as_falco = self.options.as_falco.then_some(u32::MAX);
        let Some(id) = is_given(place).or(as_falco) else { return };
        let Some(thread) = self.current.thread.and_then(|slot| self.threads.at_mut(slot)) else {
            return;
        };
        match kind {
            types::SETUID_X | types::SETRESUID_X | types::SETREUID_X => thread.uid = id,
            _ => thread.gid = id,
        }
    }

    /// setsid, setpgid, capset, prctl and limits.
    pub(super) fn set_process(&mut self, event: &Event<'_>, args: &Raw<'_>) {
        let Some(result) = args.number(0).filter(|result| *result >= 0) else { return };
        let Some(slot) = self.current.thread else { return };
        match event.kind().number {
            types::PRCTL_X => {
                match args.number(1) {
                    Some(PR_SET_CHILD_SUBREAPER) => {
                        let pid = self.threads.at(slot).map_or(-1, |thread| thread.pid);
                        self.threads.set_reaper(pid, args.number(3).unwrap_or(0) != 0);
                    }
                    Some(PR_SET_NAME) => {
                        if let (Some(name), Some((thread, texts, _))) =
                            (args.text(2), self.threads.parts(slot))
                        {
                            texts.set(&mut thread.comm, bounded(name));
                        }
                    }
                    _ => {}
                }
                return;
            }
            types::GETRLIMIT_X | types::SETRLIMIT_X | types::PRLIMIT_X => {
                self.set_fd_limit(event, args);
                return;
            }
            _ => {}
        }
        let Some(thread) = self.threads.at_mut(slot) else { return };
        match event.kind().number {
            types::SETSID_X => thread.sid = result,
            types::CAPSET_X => {
                thread.cap_inheritable = args.u64(1).unwrap_or(thread.cap_inheritable);
                thread.cap_permitted = args.u64(2).unwrap_or(thread.cap_permitted);
                thread.cap_effective = args.u64(3).unwrap_or(thread.cap_effective);
            }
            _ => {}
        }
    }

    fn set_fd_limit(&mut self, event: &Event<'_>, args: &Raw<'_>) {
        let (resource, limit, of) = match event.kind().number {
            types::PRLIMIT_X => {
                let new = args.number(1).filter(|limit| *limit != -1);
                (args.number(6), new.or_else(|| args.number(3)), args.number(5).unwrap_or(0))
            }
            _ => (args.number(3), args.number(1), 0),
        };
        if resource != Some(RLIMIT_NOFILE) {
            return;
        }
        let slot = if of == 0 { self.current.main } else { self.threads.find(of) };
        if let (Some(limit), Some(thread)) =
            (limit, slot.and_then(|slot| self.threads.at_mut(slot)))
        {
            thread.fd_limit = limit;
        }
    }

    /// A switch of the scheduler: page faults and memory of the thread that leaves the processor.
    pub(super) fn set_switched(&mut self, args: &Raw<'_>) {
        let Some(slot) = self.current.thread else { return };
        let Some(thread) = self.threads.at_mut(slot) else { return };
        thread.faults_major = args.u64(1).unwrap_or(thread.faults_major);
        thread.faults_minor = args.u64(2).unwrap_or(thread.faults_minor);
        if thread.is_main() {
            self.set_memory_of(slot, args, 3);
        }
    }

    /// Sets what three parameters from `place` on say about memory.
    fn set_memory_of(&mut self, slot: Slot, args: &Raw<'_>, place: usize) {
        let Some(thread) = self.threads.at_mut(slot) else { return };
        thread.vm_size_kb = args.u32(place).unwrap_or(thread.vm_size_kb);
        thread.vm_rss_kb = args.u32(place + 1).unwrap_or(thread.vm_rss_kb);
        thread.vm_swap_kb = args.u32(place + 2).unwrap_or(thread.vm_swap_kb);
    }

    /// brk, mmap, munmap: the process's memory after the call.
    pub(super) fn set_memory(&mut self, args: &Raw<'_>) {
        for slot in [self.current.thread, self.current.main].into_iter().flatten() {
            self.set_memory_of(slot, args, 1);
        }
    }
}

/// The parent of a caller: its new thread has the same.
fn thread_parent(state: &State, caller: Slot) -> i64 {
    state.threads.at(caller).map_or(-1, |thread| thread.ptid)
}

/// The path that execve was called with.
fn enter_filename<'a>(event: &Event<'a>) -> Option<&'a [u8]> {
    let enter = event.enter?;
    let place = if enter.kind().number == types::EXECVEAT_E { 1 } else { 0 };
    Raw::of_values(&enter).text(place)
}

/// Sets the working directory with a slash at its end.
pub(super) fn set_cwd(thread: &mut Thread, texts: &Texts, cwd: &[u8], space: &mut Vec<u8>) {
    space.clear();
    space.extend_from_slice(bounded(cwd));
    end_with_slash(space);
    texts.set(&mut thread.cwd, space);
}
