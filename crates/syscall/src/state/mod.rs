//! The state engine: applies one event after the other to the table of threads and remembers what the fields of the
//! last event need.
//!
//! Only exit events arrive; what the enter event of an old file adds is in [`Event::enter`]. Effects of an event that
//! end something (a closed descriptor, an ended thread) are applied before the next event, so that the fields of this
//! one still see what it ended. A warm state allocates nothing for an event that creates nothing.

mod files;
mod look_up;
mod process;
mod sockets;

pub(crate) use files::{AT_FDCWD, enter_open, open_flag};
pub use look_up::LookUpCounts;
pub(crate) use sockets::ends_of;

use gabion_record::budget::Budget;
use gabion_scap::host::{FdEntry, FdTarget, InterfaceEntry, ProcessEntry, UserEntry};
use gabion_scap::table::{Sources, TypeFlags, changes_state, completes_lists};
use gabion_scap::{Event, Item, Numbers, types};

use crate::accounts::{Accounts, Interfaces, User};
use crate::connections::Connections;
use crate::containers::Containers;
use crate::decode::{Raw, number, text};
use crate::fd::{self, Connection, End, Ends, Fd, FdKind, L4Proto, Role};
use crate::limits::THREADS_DEFAULT;
use crate::loss::LossCounts;
use crate::table::{Slot, Threads};
use crate::text::Texts;
use crate::thread::{Origin, Thread};

/// The bounds and choices of a state.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Most threads in the table (`falco_libs.thread_table_size`).
    pub threads_max: usize,
    /// Take `container.id` from the last 64 hexadecimal digits in any control group, as the corpus's reference alerts
    /// do. For comparisons only.
    pub container_stand_in: bool,
    /// Repeat what Falco gets wrong: an id of -1 in setresuid and its relatives becomes the id, the working directory
    /// of an execve is not taken, an unknown process has the name `<NA>`. For comparisons only.
    pub as_falco: bool,
    /// Seconds to add to UTC in times of the day, such as `evt.time`.
    pub utc_offset_s: i32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            threads_max: THREADS_DEFAULT,
            container_stand_in: false,
            as_falco: false,
            utc_offset_s: 0,
        }
    }
}

/// Which descriptor the last event is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EventFd {
    /// None, or one that is not known.
    #[default]
    None,
    /// The entry of the event's process with the event's number.
    InTable,
    /// One that is in no table: a failed open.
    Own,
}

/// What the fields of the last event need besides the tables.
#[derive(Debug, Default)]
pub(crate) struct Current {
    /// The thread of the event.
    pub(crate) thread: Option<Slot>,
    /// Its main thread, which has the descriptors.
    pub(crate) main: Option<Slot>,
    /// The number of the descriptor that the event names.
    pub(crate) fd_number: Option<i64>,
    pub(crate) fd: EventFd,
    /// The event gave the descriptor another name.
    pub(crate) is_name_changed: bool,
    /// Events of this type belong to a thread.
    pub(crate) is_of_thread: bool,
    /// Time of the event before, in nanoseconds since 1970.
    pub(crate) previous_ns: u64,
    /// The values of enter and exit differ.
    pub(crate) is_mismatch: bool,
}

/// Threads, descriptors, users and containers of one stream of events.
pub struct State {
    pub(crate) threads: Threads,
    pub(crate) accounts: Accounts,
    pub(crate) interfaces: Interfaces,
    pub(crate) containers: Containers,
    pub(crate) options: Options,
    pub(crate) current: Current,
    /// The descriptor of a failed open.
    pub(crate) own_fd: Fd,
    /// The main thread (its number) and the number of a descriptor that the last event closed.
    closed: Option<(i64, i64)>,
    first_ns: Option<u64>,
    last_ns: u64,
    /// Space for a path that is put together.
    path: Vec<u8>,
    own_path: Vec<u8>,
    /// Space for the name of a socket.
    space: Vec<u8>,
    /// Whether threads of the list have their parents already.
    is_list_linked: bool,
    hostname: Vec<u8>,
    /// An event came that does not just complete the lists.
    has_begun: bool,
    pub(crate) loss: LossCounts,
    /// The numbers of the event that is applied.
    numbers: Option<Numbers>,
    look_ups: look_up::LookUps,
    /// Time since which lost events have no thread, and time of the last list that answered to it.
    open_since_ns: Option<u64>,
    last_list_ns: Option<u64>,
    connections: Connections,
}

impl State {
    /// An empty state whose memory is taken from `budget`.
    pub fn new(options: Options, budget: Budget) -> State {
        State {
            threads: Threads::new(options.threads_max, budget),
            accounts: Accounts::default(),
            interfaces: Interfaces::default(),
            containers: Containers::default(),
            options,
            current: Current::default(),
            own_fd: Fd::default(),
            closed: None,
            first_ns: None,
            last_ns: 0,
            path: Vec::new(),
            own_path: Vec::new(),
            space: Vec::new(),
            is_list_linked: true,
            hostname: Vec::new(),
            has_begun: false,
            loss: LossCounts::default(),
            numbers: None,
            look_ups: look_up::LookUps::default(),
            open_since_ns: None,
            last_list_ns: None,
            connections: Connections::default(),
        }
    }

    /// The table of threads.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// When the first event was, if there was one.
    pub(crate) fn first_ns(&self) -> Option<u64> {
        self.first_ns
    }

    /// The host's name; empty if it is not known.
    pub(crate) fn hostname(&self) -> &[u8] {
        &self.hostname
    }

    /// Sets the host's name, which `evt.hostname` shows.
    pub fn set_hostname(&mut self, name: &[u8]) {
        name.clone_into(&mut self.hostname);
    }

    /// Adds what an input lists before its events. A new section forgets what an earlier one listed; events are for
    /// [`State::apply`].
    pub fn add(&mut self, item: Item<'_>) {
        match item {
            Item::Section { .. } => self.clear(),
            Item::Machine(machine) => self.set_hostname(&machine.hostname),
            Item::Process(entry) => self.add_process(&entry),
            Item::Fd(entry) => self.add_fd(&entry),
            Item::Interface(entry) => self.add_interface(&entry),
            Item::User(entry) => self.add_account(&entry),
            Item::Event(_) => {}
        }
    }

    /// Adds a thread of the list of processes.
    pub fn add_process(&mut self, entry: &ProcessEntry) {
        let thread = Thread::of_list(entry, &self.threads.texts);
        let slot = self.threads.insert(thread);
        self.threads.settle(slot);
        self.is_list_linked = false;
    }

    /// Adds a descriptor of the list.
    pub fn add_fd(&mut self, entry: &FdEntry) {
        let Some(main) = self.threads.find(entry.tid).and_then(|slot| self.threads.main_of(slot))
        else {
            return;
        };
        let Some((thread, texts, pool)) = self.threads.parts(main) else { return };
        thread.fds.insert_with(pool, entry.fd, |fd| {
            fd.kind = FdKind::from_scap(entry.kind);
            fd.ino = entry.ino;
            match &entry.target {
                FdTarget::V4((sip, sport), (dip, dport), l4) => set_listed_ends(
                    fd,
                    End { ip: v4(*sip), port: *sport },
                    End { ip: v4(*dip), port: *dport },
                    l4.0,
                ),
                FdTarget::V6((sip, sport), (dip, dport), l4) => set_listed_ends(
                    fd,
                    End { ip: gabion_record::Ip::from_bytes(*sip), port: *sport },
                    End { ip: gabion_record::Ip::from_bytes(*dip), port: *dport },
                    l4.0,
                ),
                FdTarget::V4Server((ip, port), l4) => {
                    set_listed_server(fd, End { ip: v4(*ip), port: *port }, l4.0);
                }
                FdTarget::V6Server((ip, port), l4) => {
                    let ip = gabion_record::Ip::from_bytes(*ip);
                    set_listed_server(fd, End { ip, port: *port }, l4.0);
                }
                FdTarget::Unix(source, dest, path) => {
                    fd.ends = Ends::Unix { source: *source, dest: *dest };
                    fd.set_name(texts, path);
                }
                FdTarget::File { open_flags, name, dev } => {
                    fd.open_flags = *open_flags;
                    fd.dev = *dev;
                    fd.is_cloexec = open_flags & open_flag::CLOEXEC != 0;
                    fd.set_name(texts, name);
                }
                FdTarget::Named(name) => fd.set_name(texts, name),
            }
            if fd.kind.is_ip() {
                let mut name = Vec::new();
                fd::write_ends(&fd.ends, &mut name);
                fd.set_name(texts, &name);
            }
        });
        self.threads.settle(Some(main));
    }

    /// Adds an interface of the list.
    pub fn add_interface(&mut self, entry: &InterfaceEntry) {
        self.interfaces.add(entry);
    }

    /// Adds a user or group of the list.
    pub fn add_account(&mut self, entry: &UserEntry) {
        self.accounts.add(entry);
    }

    /// Forgets everything but its counts: a new section of the input begins.
    pub fn clear(&mut self) {
        self.threads.clear();
        self.accounts = Accounts::default();
        self.interfaces = Interfaces::default();
        self.containers = Containers::default();
        self.connections.clear();
        self.threads.extra_held = 0;
        self.current = Current::default();
        self.own_fd = Fd::default();
        self.closed = None;
        self.first_ns = None;
        self.last_ns = 0;
        self.is_list_linked = true;
        self.hostname.clear();
        self.has_begun = false;
    }

    /// Completes the list once all of it is known: threads get their parents; connections whose own port belongs to a
    /// server of the list were accepted, so that their client is the other end.
    fn link_list(&mut self) {
        self.is_list_linked = true;
        let tids: Vec<i64> = self.threads.iter().map(|thread| thread.tid).collect();
        for tid in tids {
            if let Some(slot) = self.threads.find(tid) {
                self.threads.link_parent(slot);
            }
        }
        let mut ports: Vec<u16> = Vec::new();
        for (_, fd) in self.threads.iter().flat_map(|thread| thread.fds.iter()) {
            if let Ends::Server(end) = fd.ends {
                ports.push(end.port);
            }
        }
        ports.sort_unstable();
        let tids: Vec<i64> = self.threads.iter().map(|thread| thread.tid).collect();
        let mut name = Vec::new();
        for slot in tids.into_iter().filter_map(|tid| self.threads.find(tid)).collect::<Vec<_>>() {
            let Some((thread, texts, pool)) = self.threads.parts(slot) else { continue };
            let is_accepted = |_: i64, fd: &Fd| matches!(fd.ends, Ends::Both { source, .. } if ports.binary_search(&source.port).is_ok());
            thread.fds.change_where(pool, is_accepted, |fd| {
                if let Ends::Both { source, dest } = fd.ends {
                    fd.ends = Ends::Both { source: dest, dest: source };
                    fd.role = Role::Server;
                    name.clear();
                    fd::write_ends(&fd.ends, &mut name);
                    fd.set_name(texts, &name);
                }
            });
        }
    }

    /// Applies an event of a live source, which numbers events so that lost ones are noticed.
    pub fn apply_numbered(&mut self, event: &Event<'_>, numbers: Numbers) {
        self.numbers = Some(numbers);
        self.apply(event);
        self.numbers = None;
    }

    /// What the source lost.
    pub fn loss(&self) -> &LossCounts {
        &self.loss
    }

    /// Compares an event's numbers with those of its thread.
    fn check_numbers(&mut self, event: &Event<'_>, numbers: Numbers) {
        let changes = changes_state(event.kind().number);
        self.loss.receive(numbers, changes);
        let Some(slot) = self.threads.find(event.tid) else { return };
        let Some(thread) = self.threads.at_mut(slot) else { return };
        if numbers.of_thread == 0 {
            // A change without a number may come after others that are missing.
            if changes {
                self.threads.doubt_process(slot);
            }
            return;
        }
        let is_first = thread.last_number == 0;
        let expected = thread.last_number.saturating_add(u64::from(changes));
        thread.last_number = numbers.of_thread;
        let is_known = !thread.is_unseen();
        let is_listed = thread.origin == Origin::List;
        match numbers.of_thread.checked_sub(expected) {
            Some(0) => {}
            // Nothing was lost: what describes the thread came while it ran.
            Some(_) if is_first && !self.loss.is_open() && (is_listed || !is_known) => {}
            Some(missing) => {
                if is_known {
                    self.loss.attribute(missing);
                }
                self.threads.doubt_process(slot);
            }
            // The number belongs to another thread by now.
            None => self.threads.replace(slot),
        }
    }

    /// Applies an event. Its fields are then those of [`State::view`].
    pub fn apply(&mut self, event: &Event<'_>) {
        if !self.is_list_linked {
            self.link_list();
        }
        self.finish_last();
        if let Some(numbers) = self.numbers {
            self.check_numbers(event, numbers);
            let since = self.open_since_ns.unwrap_or(event.ts_ns);
            self.open_since_ns = self.loss.is_open().then_some(since);
        }
        self.current = Current { previous_ns: self.last_ns.max(1), ..Current::default() };
        if self.first_ns.is_none() {
            self.first_ns = Some(event.ts_ns);
            self.current.previous_ns = event.ts_ns;
        }
        self.last_ns = event.ts_ns;
        let kind = event.kind();
        self.has_begun |= !completes_lists(kind.number);
        if self.choose_thread(event) {
            if kind.flags.has(TypeFlags::USES_FD) {
                self.choose_fd(event);
            }
            self.change(event);
        } else {
            self.change_host(event);
        }
        self.threads.settle(self.current.thread);
    }

    /// Applies what the last event ended.
    fn finish_last(&mut self) {
        if let Some((tid, number)) = self.closed.take()
            && let Some(main) = self.threads.find(tid)
            && let Some((thread, _, pool)) = self.threads.parts(main)
        {
            thread.fds.remove(pool, number);
        }
        self.threads.remove_dead();
    }

    /// Finds the thread of an event; one that was never seen gets an entry. False if the event has no thread.
    fn choose_thread(&mut self, event: &Event<'_>) -> bool {
        let kind = event.kind();
        let mut slot = self.threads.find_caller(event.tid);
        if kind.flags.has(TypeFlags::SKIPPARSERESET) {
            if kind.number == types::PROCINFO_E {
                self.current.thread = slot;
                self.current.main = slot.and_then(|slot| self.threads.main_of(slot));
            }
            return false;
        }
        if kind.sources.has(Sources::SCHEDULER) {
            self.current.thread = slot;
            self.current.main = slot.and_then(|slot| self.threads.main_of(slot));
            return slot.is_some();
        }
        let is_of_thread =
            kind.sources.has(Sources::SYSCALL) || kind.sources.has(Sources::TRACEPOINT);
        self.current.is_of_thread = is_of_thread;
        if slot.is_none() && is_of_thread && event.tid > 0 {
            let mut thread = Thread::unseen(event.tid);
            thread.is_doubtful = self.threads.is_shed(event.tid) || self.loss.is_any();
            thread.last_number = self.numbers.map_or(0, |numbers| numbers.of_thread);
            slot = self.threads.insert(thread);
        }
        let Some(slot) = slot else { return false };
        self.threads.touch(slot);
        self.current.thread = Some(slot);
        self.current.main = self.threads.main_of_caller(slot);
        true
    }

    /// Finds the descriptor that an event uses.
    fn choose_fd(&mut self, event: &Event<'_>) {
        let Some(place) = event.kind().fd else { return };
        // A call whose descriptor is not known is one about descriptor -1, as in Falco.
        let number = event.raw(place).and_then(number).unwrap_or(-1);
        self.current.fd_number = Some(number);
        if self.main_thread().is_some_and(|main| main.fds.get(number).is_some()) {
            self.current.fd = EventFd::InTable;
        }
    }

    /// The main thread of the event's process.
    pub(crate) fn main_thread(&self) -> Option<&Thread> {
        self.threads.at(self.current.main?)
    }

    /// The thread of the event.
    pub(crate) fn thread(&self) -> Option<&Thread> {
        self.threads.at(self.current.thread?)
    }

    /// The descriptor of the event.
    pub(crate) fn event_fd(&self) -> Option<&Fd> {
        match self.current.fd {
            EventFd::None => None,
            EventFd::InTable => self.main_thread()?.fds.get(self.current.fd_number?),
            EventFd::Own => Some(&self.own_fd),
        }
    }

    /// Whether the event's descriptor is one of its process, not that of a failed open.
    pub(crate) fn is_fd_in_table(&self) -> bool {
        self.current.fd == EventFd::InTable
    }

    /// Whether the last event is for rules and outputs. Events about users, groups and containers before all others
    /// only complete the lists.
    pub fn is_for_rules(&self) -> bool {
        self.has_begun
    }

    /// Makes the event one about the descriptor of this number.
    fn set_event_fd(&mut self, number: i64) {
        self.current.fd_number = Some(number);
        let is_known = self.main_thread().is_some_and(|main| main.fds.get(number).is_some());
        self.current.fd = if is_known { EventFd::InTable } else { EventFd::None };
    }

    /// Sets a descriptor of the event's process.
    ///
    /// `fill` receives the entry, the maker of strings and space for a name.
    fn set_fd(&mut self, number: i64, fill: impl FnOnce(&mut Fd, &Texts, &mut Vec<u8>)) {
        if let Some(main) = self.current.main
            && let Some((thread, texts, pool)) = self.threads.parts(main)
        {
            thread.fds.insert_with(pool, number, |fd| fill(fd, texts, &mut self.space));
        }
    }

    /// Changes a descriptor of the event's process.
    fn change_fd(&mut self, number: i64, change: impl FnOnce(&mut Fd, &Texts, &mut Vec<u8>)) {
        if let Some(main) = self.current.main
            && let Some((thread, texts, pool)) = self.threads.parts(main)
        {
            thread.fds.change(pool, number, |fd| change(fd, texts, &mut self.space));
        }
    }

    /// Applies an event of a thread by its type.
    fn change(&mut self, event: &Event<'_>) {
        let args = Raw::from_event(event);
        match event.kind().number {
            types::CLONE_20_X | types::CLONE3_X | types::FORK_20_X | types::VFORK_20_X => {
                self.clone_exit(event, &args);
            }
            types::EXECVE_19_X | types::EXECVEAT_X => self.execve_exit(event, &args),
            types::PROCEXIT_1_E => self.procexit(&args),
            types::SETUID_X
            | types::SETGID_X
            | types::SETRESUID_X
            | types::SETRESGID_X
            | types::SETREUID_X
            | types::SETREGID_X => self.set_ids(event, &args),
            types::SETSID_X
            | types::SETPGID_X
            | types::CAPSET_X
            | types::PRCTL_X
            | types::GETRLIMIT_X
            | types::SETRLIMIT_X
            | types::PRLIMIT_X => {
                self.set_process(event, &args);
            }
            types::BRK_4_X | types::MMAP_X | types::MMAP2_X | types::MUNMAP_X => {
                self.set_memory(&args);
            }
            types::SCHEDSWITCH_6_E => self.set_switched(&args),
            types::OPEN_X
            | types::CREAT_X
            | types::OPENAT_2_X
            | types::OPENAT2_X
            | types::OPEN_BY_HANDLE_AT_X => self.open_exit(event, &args),
            types::CLOSE_X => self.close_exit(&args),
            types::CLOSE_RANGE_X => self.close_range_exit(&args),
            types::DUP_1_X | types::DUP2_X | types::DUP3_X | types::FCNTL_X => {
                self.dup_exit(event, &args);
            }
            types::CHDIR_X | types::FCHDIR_X | types::GETCWD_X | types::CHROOT_X => {
                self.chdir_exit(event, &args);
            }
            types::PIPE_X
            | types::PIPE2_X
            | types::EVENTFD_X
            | types::EVENTFD2_X
            | types::SIGNALFD_X
            | types::SIGNALFD4_X
            | types::TIMERFD_CREATE_X
            | types::EPOLL_CREATE_X
            | types::EPOLL_CREATE1_X
            | types::INOTIFY_INIT_X
            | types::INOTIFY_INIT1_X
            | types::MEMFD_CREATE_X
            | types::PIDFD_OPEN_X
            | types::PIDFD_GETFD_X
            | types::IO_URING_SETUP_X
            | types::USERFAULTFD_X
            | types::BPF_2_X => self.create_fd_exit(event, &args),
            types::SOCKET_X | types::SOCKETPAIR_X => self.socket_exit(event, &args),
            types::BIND_X => self.bind_exit(event, &args),
            types::CONNECT_X => self.connect_exit(event, &args),
            types::ACCEPT_5_X | types::ACCEPT4_6_X => self.accept_exit(event, &args),
            types::SEND_X
            | types::SENDTO_X
            | types::SENDMSG_X
            | types::SENDMMSG_X
            | types::RECV_X
            | types::RECVFROM_X
            | types::RECVMSG_X
            | types::RECVMMSG_X => {
                self.transfer_exit(event, &args);
            }
            types::SHUTDOWN_X | types::GETSOCKOPT_X => self.socket_status_exit(event, &args),
            _ => {}
        }
    }

    /// Applies an event that belongs to no thread.
    fn change_host(&mut self, event: &Event<'_>) {
        let args = Raw::from_event(event);
        let id = |place: usize| args.number(place).and_then(|n| u32::try_from(n).ok());
        match event.kind().number {
            types::USER_ADDED_E => {
                if let (Some(uid), Some(name)) = (id(0), args.text(2)) {
                    let home = args.text(3).unwrap_or_default().to_vec();
                    let shell = args.text(4).unwrap_or_default().to_vec();
                    self.accounts.add_user(uid, User { name: name.to_vec(), home, shell });
                }
            }
            types::GROUP_ADDED_E => {
                if let (Some(gid), Some(name)) = (id(0), args.text(1)) {
                    self.accounts.add_group(gid, name);
                }
            }
            types::USER_DELETED_E => {
                if let Some(uid) = id(0) {
                    self.accounts.remove_user(uid);
                }
            }
            types::GROUP_DELETED_E => {
                if let Some(gid) = id(0) {
                    self.accounts.remove_group(gid);
                }
            }
            types::CONTAINER_JSON_2_E => {
                if let Some(json) = args.text(0) {
                    self.containers.add_json(json);
                }
            }
            types::ASYNCEVENT_E => {
                if args.text(1) == Some(b"container")
                    && let Some(json) = args.raw(2).map(text)
                {
                    self.containers.add_json(json);
                }
            }
            _ => {}
        }
    }
}

pub(crate) fn v4(bytes: [u8; 4]) -> gabion_record::Ip {
    gabion_record::Ip::v4(u32::from_be_bytes(bytes))
}

fn set_listed_ends(fd: &mut Fd, source: End, dest: End, l4proto: u8) {
    fd.ends = Ends::Both { source, dest };
    fd.l4proto = L4Proto::from_scap(l4proto);
    fd.role = Role::Client;
    fd.connection = Connection::Connected;
    if source.ip.is_v4() && fd.kind == FdKind::Ipv6 {
        fd.kind = FdKind::Ipv4;
    }
}

fn set_listed_server(fd: &mut Fd, end: End, l4proto: u8) {
    fd.ends = Ends::Server(end);
    fd.l4proto = L4Proto::from_scap(l4proto);
    fd.role = Role::Server;
}
