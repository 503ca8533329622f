//! Fields of processes and threads: `proc.*` and `thread.*`.

use gabion_record::fields::{Argument, FieldId, Missing, Scratch, Value, ids};

use super::{Field, View, text};
use crate::limits::{ANCESTORS_MAX, reached};
use crate::names;
use crate::table::LOST_PARENT;
use crate::text::Text;
use crate::thread::{Thread, flag};

/// A text of a process that fields show of it, its parent, its ancestors, or the leader of its session or group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Name,
    Exe,
    ExePath,
    CmdLine,
    Args,
    Pid,
    Env,
}

fn separated(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    let is_any = !bytes.is_empty();
    bytes.split(|byte| *byte == 0).filter(move |_| is_any)
}

fn put_words(to: &mut Vec<u8>, bytes: &[u8]) {
    for (at, word) in separated(bytes).enumerate() {
        if at > 0 {
            to.push(b' ');
        }
        to.extend_from_slice(word);
    }
}

/// A name that is not known is shown as Falco does.
fn or_na(text: &Text, thread: &Thread) -> Vec<u8> {
    if thread.is_unseen() { b"<NA>".to_vec() } else { text.bytes().to_vec() }
}

fn put_cmdline(to: &mut Vec<u8>, thread: &Thread) {
    to.extend_from_slice(thread.comm.bytes());
    for word in separated(thread.args.bytes()) {
        to.push(b' ');
        to.extend_from_slice(word);
    }
}

impl<'v> View<'v> {
    /// The parent of a thread. The first process and threads whose parent is unknown have none.
    fn parent_of(&self, thread: &Thread) -> Result<&'v Thread, Missing> {
        if self.is_any_lost() && (thread.is_rest_doubtful || thread.ptid == LOST_PARENT) {
            return Err(Missing::Shed);
        }
        match self.other(thread.ptid)? {
            Some(parent) => Ok(parent),
            // Only the first process of a host has no parent.
            None if thread.ptid <= 0 && thread.pid != 1 => Err(Missing::NeverSeen),
            None => Err(self.no_thread_of(thread.ptid)),
        }
    }

    /// An ancestor by its distance: 0 is the process itself.
    fn ancestor(&self, distance: u32) -> Result<&'v Thread, Missing> {
        let mut at = self.main_or_self()?;
        for step in 0..distance {
            if step as usize >= ANCESTORS_MAX {
                reached::ANCESTORS_MAX.count();
                return Err(Missing::Shed);
            }
            at = self.parent_of(at)?;
        }
        Ok(at)
    }

    /// Calls `visit` with the ancestors from the parent on, until it returns false or there are no more.
    ///
    /// # Errors
    /// One of them may be another process by now.
    fn visit_ancestors(
        &self,
        thread: &Thread,
        mut visit: impl FnMut(&'v Thread) -> bool,
    ) -> Result<(), Missing> {
        if self.is_any_lost() && thread.is_rest_doubtful {
            return Err(Missing::Shed);
        }
        let mut ptid = thread.ptid;
        // A loop of parents, which only wrong input makes, is found by a second walker at half the speed.
        let mut slow = ptid;
        for step in 0.. {
            if step >= ANCESTORS_MAX {
                reached::ANCESTORS_MAX.count();
                return Ok(());
            }
            let parent = if ptid == 0 { None } else { self.other(ptid)? };
            let Some(parent) = parent else { return Ok(()) };
            if !visit(parent) {
                return Ok(());
            }
            if self.is_any_lost() && parent.is_rest_doubtful {
                return Err(Missing::Shed);
            }
            ptid = parent.ptid;
            if step % 2 == 1 {
                slow = self.state.threads.get(slow).map_or(-1, |thread| thread.ptid);
                if slow == ptid {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The text of a process.
    fn put_what(&self, to: &mut Vec<u8>, thread: &Thread, what: What) {
        match what {
            What::Name => to.extend_from_slice(thread.comm.bytes()),
            What::Exe => to.extend_from_slice(thread.exe.bytes()),
            What::ExePath => to.extend_from_slice(thread.exepath.bytes()),
            What::CmdLine => put_cmdline(to, thread),
            What::Args => put_words(to, thread.args.bytes()),
            What::Pid => super::put_number(to, thread.pid),
            What::Env => put_words(to, thread.env.bytes()),
        }
    }

    fn what_of<'a>(
        &'a self,
        thread: &'a Thread,
        what: What,
        scratch: &'a mut Scratch,
    ) -> Field<'a> {
        if thread.is_unseen() && matches!(what, What::Name | What::Exe | What::CmdLine) {
            if self.state.options.as_falco {
                return Ok(Value::Text(b"<NA>"));
            }
            return Err(Missing::NeverSeen);
        }
        match what {
            What::Name => Ok(Value::Text(thread.comm.bytes())),
            What::Exe => Ok(Value::Text(thread.exe.bytes())),
            What::ExePath => Ok(Value::Text(thread.exepath.bytes())),
            What::Pid => Ok(Value::Signed(thread.pid)),
            What::CmdLine | What::Args | What::Env => {
                text(scratch, |to| self.put_what(to, thread, what))
            }
        }
    }

    /// A text of one ancestor, or of all of them.
    fn of_ancestors<'a>(
        &'a self,
        argument: Argument<'_>,
        what: What,
        scratch: &'a mut Scratch,
    ) -> Field<'a> {
        if let Argument::Index(distance) = argument {
            return self.what_of(self.ancestor(distance)?, what, scratch);
        }
        let main = self.main_or_self()?;
        scratch.text();
        self.visit_ancestors(main, |ancestor| {
            self.put_what(scratch.buffer(), ancestor, what);
            scratch.end_item();
            true
        })?;
        Ok(scratch.as_list())
    }

    /// The leader of a session or group of processes: the process of that number. Where that one is not known, and inside
    /// of a namespace, where the number is another one, it is the highest ancestor in the same session or group.
    fn leader(
        &self,
        id: i64,
        id_of: impl Fn(&Thread) -> i64,
    ) -> Result<Option<&'v Thread>, Missing> {
        if id < 0 {
            return Ok(None);
        }
        let thread = self.thread()?;
        let main = self.main_or_self()?;
        let is_in_namespace = thread.flags & flag::CHILD_IN_PIDNS != 0 || thread.tid != thread.vtid;
        let mut leader = if is_in_namespace { None } else { self.other(id)? };
        if leader.is_none() {
            self.visit_ancestors(main, |ancestor| {
                let is_same = id_of(ancestor) == id;
                if is_same {
                    leader = Some(ancestor);
                }
                is_same
            })?;
        }
        Ok(leader)
    }

    fn of_leader<'a>(&'a self, field: FieldId, scratch: &'a mut Scratch) -> Field<'a> {
        let thread = self.thread()?;
        if self.is_rest_doubtful() {
            return Err(Missing::Shed);
        }
        let leader = match field {
            ids::PROC_SNAME | ids::PROC_SID_EXE | ids::PROC_SID_EXEPATH => {
                self.leader(thread.sid, |t| t.sid)?
            }
            ids::PROC_VPGID_NAME | ids::PROC_VPGID_EXE | ids::PROC_VPGID_EXEPATH => {
                self.leader(thread.vpgid, |t| t.vpgid)?
            }
            _ => self.other(thread.pgid)?,
        };
        let what = match field {
            ids::PROC_SNAME | ids::PROC_VPGID_NAME | ids::PROC_PGID_NAME => What::Name,
            ids::PROC_SID_EXE | ids::PROC_VPGID_EXE | ids::PROC_PGID_EXE => What::Exe,
            _ => What::ExePath,
        };
        match leader {
            Some(leader) => self.what_of(leader, what, scratch),
            None => Ok(Value::Text(b"")),
        }
    }

    /// The process of the oldest shell among the process and its ancestors.
    fn login_shell(&self) -> Result<i64, Missing> {
        let main = self.main_or_self()?;
        let mut shell = None;
        let mut note = |thread: &Thread| {
            if thread.comm.bytes().ends_with(b"sh") {
                shell = Some(thread.pid);
            }
            true
        };
        note(main);
        self.visit_ancestors(main, note)?;
        shell.ok_or(Missing::NotApplicable)
    }

    /// The value of one variable of an environment.
    fn variable<'a>(env: &'a [u8], name: &str) -> Option<&'a [u8]> {
        separated(env)
            .find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    }

    /// Fields of processes and threads.
    pub(super) fn process_field<'a>(
        &'a self,
        field: FieldId,
        argument: Argument<'_>,
        scratch: &'a mut Scratch,
    ) -> Field<'a> {
        if field == ids::THREAD_TID {
            return Ok(Value::Signed(self.event.tid));
        }
        let thread = self.thread()?;
        match field {
            ids::PROC_NAME => self.what_of(thread, What::Name, scratch),
            ids::PROC_EXE => self.what_of(thread, What::Exe, scratch),
            ids::PROC_EXEPATH => self.what_of(thread, What::ExePath, scratch),
            ids::PROC_CMDLINE => self.what_of(thread, What::CmdLine, scratch),
            ids::PROC_PNAME => self.what_of(self.parent_of(thread)?, What::Name, scratch),
            ids::PROC_PEXE => self.what_of(self.parent_of(thread)?, What::Exe, scratch),
            ids::PROC_PEXEPATH => self.what_of(self.parent_of(thread)?, What::ExePath, scratch),
            ids::PROC_PCMDLINE => self.what_of(self.parent_of(thread)?, What::CmdLine, scratch),
            ids::PROC_ANAME => self.of_ancestors(argument, What::Name, scratch),
            ids::PROC_AEXE => self.of_ancestors(argument, What::Exe, scratch),
            ids::PROC_AEXEPATH => self.of_ancestors(argument, What::ExePath, scratch),
            ids::PROC_ACMDLINE => self.of_ancestors(argument, What::CmdLine, scratch),
            ids::PROC_AARGS => self.of_ancestors(argument, What::Args, scratch),
            ids::PROC_APID => self.of_ancestors(argument, What::Pid, scratch),
            ids::PROC_AENV => self.ancestors_env(argument, scratch),
            ids::PROC_SNAME
            | ids::PROC_SID_EXE
            | ids::PROC_SID_EXEPATH
            | ids::PROC_VPGID_NAME
            | ids::PROC_VPGID_EXE
            | ids::PROC_VPGID_EXEPATH
            | ids::PROC_PGID_NAME
            | ids::PROC_PGID_EXE
            | ids::PROC_PGID_EXEPATH => self.of_leader(field, scratch),
            ids::PROC_ARGS => match argument {
                Argument::Index(index) => {
                    let word = separated(thread.args.bytes()).nth(index as usize);
                    word.map(Value::Text).ok_or(Missing::NotApplicable)
                }
                Argument::None | Argument::Key(_) => self.what_of(thread, What::Args, scratch),
            },
            ids::PROC_EXELINE => text(scratch, |to| {
                to.extend_from_slice(&or_na(&thread.exe, thread));
                to.push(b' ');
                put_words(to, thread.args.bytes());
            }),
            ids::PROC_CMDNARGS => {
                Ok(Value::Unsigned(separated(thread.args.bytes()).count() as u64))
            }
            ids::PROC_CMDLENARGS => {
                let len: usize = separated(thread.args.bytes()).map(<[u8]>::len).sum();
                Ok(Value::Unsigned(len as u64))
            }
            ids::PROC_ENV => {
                let env = self.main_or_self()?.env.bytes();
                match argument {
                    Argument::Key(name) => {
                        Ok(Value::Text(Self::variable(env, name).unwrap_or_default()))
                    }
                    Argument::Index(index) => {
                        let variable = separated(env).nth(index as usize);
                        variable.map(Value::Text).ok_or(Missing::NotApplicable)
                    }
                    Argument::None => text(scratch, |to| put_words(to, env)),
                }
            }
            ids::PROC_CWD if self.is_rest_doubtful() => Err(Missing::Shed),
            ids::PROC_CWD => Ok(Value::Text(self.state.cwd())),
            ids::PROC_STDIN_TYPE
            | ids::PROC_STDOUT_TYPE
            | ids::PROC_STDERR_TYPE
            | ids::PROC_STDIN_NAME
            | ids::PROC_STDOUT_NAME
            | ids::PROC_STDERR_NAME => self.standard_field(field),
            ids::THREAD_CAP_PERMITTED => self.capabilities(thread.cap_permitted, scratch),
            ids::THREAD_CAP_INHERITABLE => self.capabilities(thread.cap_inheritable, scratch),
            ids::THREAD_CAP_EFFECTIVE => self.capabilities(thread.cap_effective, scratch),
            ids::THREAD_CGROUPS => text(scratch, |to| put_words(to, thread.cgroups.bytes())),
            ids::THREAD_CGROUP => match argument {
                Argument::Key(name) => {
                    let path = Self::variable(thread.cgroups.bytes(), name);
                    path.map(Value::Text).ok_or(Missing::NotApplicable)
                }
                Argument::None | Argument::Index(_) => Err(Missing::NotApplicable),
            },
            ids::THREAD_NAMETID => text(scratch, |to| {
                to.extend_from_slice(thread.comm.bytes());
                super::put_number(to, thread.tid);
            }),
            _ => self.number_field(field, thread),
        }
    }

    fn capabilities<'a>(&'a self, set: u64, scratch: &'a mut Scratch) -> Field<'a> {
        text(scratch, |to| {
            for (at, name) in names::capabilities(set).enumerate() {
                if at > 0 {
                    to.push(b' ');
                }
                to.extend_from_slice(name.as_bytes());
            }
        })
    }

    /// A variable of the nearest ancestor that has it, or the whole environment of one ancestor.
    fn ancestors_env<'a>(&'a self, argument: Argument<'_>, scratch: &'a mut Scratch) -> Field<'a> {
        match argument {
            Argument::Index(_) | Argument::None => self.of_ancestors(argument, What::Env, scratch),
            Argument::Key(name) => {
                let main = self.main_or_self()?;
                let mut found = None;
                self.visit_ancestors(main, |ancestor| {
                    found = Self::variable(ancestor.env.bytes(), name);
                    found.is_none()
                })?;
                found.map(Value::Text).ok_or(Missing::NotApplicable)
            }
        }
    }

    /// Fields that are numbers, times or yes and no.
    fn number_field(&self, field: FieldId, thread: &'v Thread) -> Field<'v> {
        let is_shed = self.is_any_lost()
            && match field {
                ids::PROC_FDLIMIT | ids::PROC_FDUSAGE => true,
                ids::PROC_VPID
                | ids::THREAD_VTID
                | ids::PROC_SID
                | ids::PROC_IS_SID_LEADER
                | ids::PROC_IS_VPGID_LEADER
                | ids::PROC_DURATION
                | ids::PROC_PID_TS
                | ids::PROC_EXE_INO_CTIME_DURATION_PROC_START
                | ids::PROC_FDOPENCOUNT => self.is_rest_doubtful(),
                ids::PROC_VMSIZE
                | ids::PROC_VMRSS
                | ids::PROC_VMSWAP
                | ids::THREAD_VMSIZE
                | ids::THREAD_VMRSS
                | ids::THREAD_VMSIZE_B
                | ids::THREAD_VMRSS_B
                | ids::PROC_NTHREADS
                | ids::PROC_NCHILDS => self.is_loss_open(),
                _ => false,
            };
        if is_shed {
            return Err(Missing::Shed);
        }
        let main = || self.main_or_self();
        let ts_ns = self.event.ts_ns;
        let since = |ns: u64| match ns {
            0 => Err(Missing::NeverSeen),
            ns => Ok(Value::Duration(ts_ns.saturating_sub(ns))),
        };
        let at = |ns: u64| if ns == 0 { Err(Missing::NeverSeen) } else { Ok(Value::Time(ns)) };
        let known = |number: i64| {
            if thread.is_unseen() { Err(Missing::NeverSeen) } else { Ok(Value::Signed(number)) }
        };
        let kib = |kib: u32| Ok(Value::Unsigned(u64::from(kib)));
        let of_main = |kib: u32, unit: u64| {
            let kib = if thread.is_main() { u64::from(kib) } else { 0 };
            Ok(Value::Unsigned(kib.saturating_mul(unit)))
        };
        match field {
            ids::PROC_PID => Ok(Value::Signed(thread.pid)),
            ids::PROC_PPID => {
                let parent = self.parent_of(main()?)?;
                Ok(Value::Signed(parent.pid))
            }
            ids::PROC_VPID => known(thread.vpid),
            ids::PROC_PVPID => Ok(Value::Signed(self.parent_of(thread)?.vpid)),
            ids::THREAD_VTID => known(thread.vtid),
            ids::THREAD_ISMAIN => Ok(Value::Bool(thread.is_main())),
            ids::PROC_SID => Ok(Value::Signed(thread.sid)),
            ids::PROC_VPGID => Ok(Value::Signed(thread.vpgid)),
            ids::PROC_PGID => Ok(Value::Signed(thread.pgid)),
            ids::PROC_IS_SID_LEADER => Ok(Value::Bool(thread.vpid == thread.sid)),
            ids::PROC_IS_VPGID_LEADER => Ok(Value::Bool(thread.vpid == thread.vpgid)),
            ids::PROC_IS_PGID_LEADER => Ok(Value::Bool(thread.pid == thread.pgid)),
            ids::PROC_LOGINSHELLID => self.login_shell().map(Value::Signed),
            ids::PROC_TTY => Ok(Value::Unsigned(u64::from(thread.tty))),
            ids::PROC_DURATION => since(thread.clone_ns),
            ids::PROC_PPID_DURATION => since(self.parent_of(thread)?.clone_ns),
            ids::PROC_PID_TS => at(thread.clone_ns),
            ids::PROC_PPID_TS => at(self.parent_of(thread)?.clone_ns),
            ids::PROC_IS_EXE_WRITABLE => Ok(Value::Bool(thread.is_exe_writable)),
            ids::PROC_IS_EXE_UPPER_LAYER => Ok(Value::Bool(thread.is_exe_upper_layer)),
            ids::PROC_IS_EXE_LOWER_LAYER => Ok(Value::Bool(thread.is_exe_lower_layer)),
            ids::PROC_IS_EXE_FROM_MEMFD => Ok(Value::Bool(thread.is_exe_from_memfd)),
            ids::PROC_EXE_INO => match thread.exe_ino {
                0 => Err(Missing::NeverSeen),
                ino => Ok(Value::Signed(ino as i64)),
            },
            ids::PROC_EXE_INO_CTIME => at(thread.exe_ino_ctime),
            ids::PROC_EXE_INO_MTIME => at(thread.exe_ino_mtime),
            ids::PROC_EXE_INO_CTIME_DURATION_PROC_START => {
                match (thread.exe_ino_ctime, thread.clone_ns) {
                    (0, _) | (_, 0) => Err(Missing::NeverSeen),
                    (ctime, start) => Ok(Value::Time(start.saturating_sub(ctime))),
                }
            }
            ids::PROC_EXE_INO_CTIME_DURATION_PIDNS_START => {
                match (thread.exe_ino_ctime, thread.pidns_start_ns) {
                    (0, _) | (_, 0) => Err(Missing::NeverSeen),
                    (ctime, start) => Ok(Value::Time(start.saturating_sub(ctime))),
                }
            }
            ids::PROC_PIDNS_INIT_START_TS => match thread.pidns_start_ns {
                0 => Err(Missing::NeverSeen),
                ns => Ok(Value::Unsigned(ns)),
            },
            ids::PROC_FDOPENCOUNT if thread.is_unseen() => {
                if self.state.options.as_falco {
                    Ok(Value::Unsigned(0))
                } else {
                    Err(Missing::NeverSeen)
                }
            }
            ids::PROC_FDOPENCOUNT => Ok(Value::Unsigned(main()?.fds.len() as u64)),
            ids::PROC_FDLIMIT => Ok(Value::Signed(main()?.fd_limit)),
            ids::PROC_FDUSAGE => {
                let main = main()?;
                if main.fd_limit <= 0 {
                    return Err(Missing::NotApplicable);
                }
                Ok(Value::Float(main.fds.len() as f64 * 100.0 / main.fd_limit as f64))
            }
            ids::PROC_VMSIZE => kib(thread.vm_size_kb),
            ids::PROC_VMRSS => kib(thread.vm_rss_kb),
            ids::PROC_VMSWAP => kib(thread.vm_swap_kb),
            ids::THREAD_PFMAJOR => Ok(Value::Unsigned(thread.faults_major)),
            ids::THREAD_PFMINOR => Ok(Value::Unsigned(thread.faults_minor)),
            ids::THREAD_VMSIZE => of_main(thread.vm_size_kb, 1),
            ids::THREAD_VMRSS => of_main(thread.vm_rss_kb, 1),
            ids::THREAD_VMSIZE_B => of_main(thread.vm_size_kb, 1024),
            ids::THREAD_VMRSS_B => of_main(thread.vm_rss_kb, 1024),
            ids::PROC_NTHREADS => {
                let pid = if thread.is_unseen() { 0 } else { thread.pid };
                Ok(Value::Unsigned(u64::from(self.state.threads.alive_in(pid))))
            }
            ids::PROC_NCHILDS => {
                let alive = u64::from(self.state.threads.alive_in(thread.pid));
                let has_main = self.state.main_thread().is_some_and(|main| !main.is_dead);
                Ok(Value::Unsigned(alive.saturating_sub(u64::from(has_main))))
            }
            _ => Err(Missing::NotApplicable),
        }
    }
}
