//! Events that open, close and duplicate descriptors, and that change the working directory.

use gabion_scap::{Event, types};

use super::{EventFd, State};
use crate::decode::Raw;
use crate::fd::{self, Fd, FdKind};
use crate::path::{self, Folder};
use crate::text::Texts;

/// The descriptor that stands for the working directory (`AT_FDCWD`).
pub(crate) const AT_FDCWD: i64 = -100;
/// What Falco writes for a directory that is not known.
pub(crate) const UNKNOWN_DIR: &[u8] = b"<UNKNOWN>";

/// Falco's flags of an open (schema 4.5.1).
pub(crate) mod open_flag {
    pub(crate) const RDONLY: u32 = 1;
    pub(crate) const WRONLY: u32 = 2;
    pub(crate) const CREAT: u32 = 4;
    pub(crate) const DIRECTORY: u32 = 1 << 10;
    pub(crate) const CLOEXEC: u32 = 1 << 12;
    pub(crate) const TMPFILE: u32 = 1 << 13;
    pub(crate) const F_CREATED: u32 = 1 << 14;
    pub(crate) const UPPER_LAYER: u32 = 1 << 15;
    pub(crate) const LOWER_LAYER: u32 = 1 << 16;
}

/// Commands of fcntl, as the event table numbers them.
const F_DUPFD: i64 = 1;
const F_SETFD: i64 = 3;
const F_DUPFD_CLOEXEC: i64 = 26;
/// Marks descriptors instead of closing them (`CLOSE_RANGE_CLOEXEC`).
const CLOSE_RANGE_CLOEXEC: u32 = 4;

/// Where an open keeps its values.
struct OpenPlaces {
    dirfd: Option<usize>,
    name: usize,
    flags: usize,
    dev: usize,
}

impl OpenPlaces {
    fn for_event_type(kind: u16) -> OpenPlaces {
        match kind {
            types::OPENAT_2_X => OpenPlaces { dirfd: Some(1), name: 2, flags: 3, dev: 5 },
            types::OPENAT2_X => OpenPlaces { dirfd: Some(1), name: 2, flags: 3, dev: 6 },
            types::CREAT_X => OpenPlaces { dirfd: None, name: 1, flags: 5, dev: 3 },
            types::OPEN_BY_HANDLE_AT_X => OpenPlaces { dirfd: None, name: 3, flags: 2, dev: 4 },
            _ => OpenPlaces { dirfd: None, name: 1, flags: 2, dev: 4 },
        }
    }
}

/// What an open's enter event said where it differs from the exit.
pub(crate) struct EnterOpen<'a> {
    pub(crate) dirfd: Option<i64>,
    pub(crate) name: &'a [u8],
    pub(crate) flags: Option<u32>,
}

/// The values of the enter event of an open, if it named a file.
pub(crate) fn enter_open<'a>(event: &Event<'a>) -> Option<EnterOpen<'a>> {
    let enter = event.enter?;
    let args = Raw::of_values(&enter);
    let (dirfd, name, flags) = match enter.kind().number {
        types::OPEN_E => (None, 0, Some(1)),
        types::CREAT_E => (None, 0, None),
        types::OPENAT_2_E | types::OPENAT2_E => (Some(0), 1, Some(2)),
        _ => return None,
    };
    let name = args.text(name).filter(|name| *name != b"<NA>")?;
    Some(EnterOpen {
        dirfd: dirfd.and_then(|place| args.number(place)),
        name,
        flags: flags.and_then(|place| args.u32(place)),
    })
}

impl State {
    /// The directory that a descriptor stands for.
    pub(crate) fn directory_of(&self, dirfd: i64) -> Folder<'_> {
        if dirfd == AT_FDCWD {
            return Folder::Path(self.cwd());
        }
        match self.main_thread().and_then(|main| main.fds.get(dirfd)) {
            Some(fd) => Folder::Path(fd.name.bytes()),
            None => Folder::Word(UNKNOWN_DIR),
        }
    }

    /// Whether what a descriptor stands for may be another directory by now, after events were lost.
    pub(crate) fn is_directory_doubtful(&self, dirfd: i64) -> bool {
        if !self.loss.is_any() {
            return false;
        }
        let main = self.main_thread();
        match dirfd {
            AT_FDCWD => self.loss.is_open() || main.is_none_or(|main| main.is_any_doubtful()),
            fd => self.loss.is_open() || main.is_none_or(|main| main.fds.get(fd).is_none()),
        }
    }

    /// The working directory of the event's process. An unknown one is `./`, as in Falco.
    pub(crate) fn cwd(&self) -> &[u8] {
        let main = self.main_thread().or_else(|| self.thread());
        match main {
            Some(thread) if !thread.is_unseen() => thread.cwd.bytes(),
            _ => b"./",
        }
    }

    /// open and its relatives.
    pub(super) fn open_exit(&mut self, event: &Event<'_>, args: &Raw<'_>) {
        let Some(number) = args.number(0) else { return };
        let places = OpenPlaces::for_event_type(event.kind().number);
        let exit_name = args.text(places.name);
        let exit_flags = args.u32(places.flags).unwrap_or(0);
        let mut dirfd = places.dirfd.and_then(|place| args.number(place)).unwrap_or(AT_FDCWD);
        let (mut name, mut flags) = (exit_name.unwrap_or_default(), exit_flags);
        if let Some(enter) = enter_open(event) {
            let is_relative = enter.name.first() != Some(&b'/');
            let given = open_flag::F_CREATED - 1;
            self.current.is_mismatch = exit_name.is_some_and(|exit| exit != enter.name)
                || (is_relative && enter.dirfd.is_some_and(|enter| enter != dirfd))
                || enter
                    .flags
                    .zip(args.u32(places.flags))
                    .is_some_and(|(a, b)| (a ^ b) & given != 0);
            name = enter.name;
            dirfd = enter.dirfd.unwrap_or(dirfd);
            if let Some(enter_flags) = enter.flags {
                flags = enter_flags | (exit_flags & !(open_flag::F_CREATED - 1));
            }
        }
        let mut full = std::mem::take(&mut self.path);
        path::join(self.directory_of(dirfd), name, &mut full);
        let is_double = self.options.as_falco && name.starts_with(b"//");
        if event.kind().number == types::OPEN_BY_HANDLE_AT_X || is_double {
            full.clear();
            full.extend_from_slice(name);
        }
        if name.first() != Some(&b'/') && self.is_directory_doubtful(dirfd) {
            // The name would be joined with a directory that may be another one by now.
            if let Some((thread, _, pool)) =
                self.current.main.and_then(|main| self.threads.parts(main))
            {
                thread.fds.remove(pool, number);
            }
            self.current.fd_number = Some(number.max(-1));
            self.path = full;
            return;
        }
        let dev = args.u32(places.dev).unwrap_or(0);
        let ino = args.u64(places.dev + 1).unwrap_or(0);
        let fill = |fd: &mut Fd, texts: &Texts, _: &mut Vec<u8>| {
            fd.kind =
                if flags & open_flag::DIRECTORY == 0 { FdKind::File } else { FdKind::Directory };
            fd.open_flags = flags;
            fd.dev = dev;
            fd.ino = ino;
            fd.is_upper_layer = flags & open_flag::UPPER_LAYER != 0;
            fd.is_lower_layer = flags & open_flag::LOWER_LAYER != 0;
            fd.is_cloexec = flags & open_flag::CLOEXEC != 0;
            let raw = if is_double { name.get(1..).unwrap_or(name) } else { name };
            fd::set_names(texts, fd, &full, raw);
        };
        if number >= 0 {
            self.set_fd(number, fill);
            self.set_event_fd(number);
            self.current.is_name_changed = true;
        } else {
            let texts = self.threads.texts.clone();
            fill(&mut self.own_fd, &texts, &mut Vec::new());
            self.own_fd.kind = FdKind::Unknown;
            self.current.fd_number = Some(-1);
            self.current.fd = EventFd::Own;
        }
        self.path = full;
    }

    /// close: the entry is removed before the next event.
    pub(super) fn close_exit(&mut self, args: &Raw<'_>) {
        let is_closed = args.number(0).is_some_and(|result| result >= 0);
        let tid = self.main_thread().map(|main| main.tid);
        if let (true, Some(tid), Some(number)) = (is_closed, tid, self.current.fd_number) {
            self.closed = Some((tid, number));
        }
    }

    /// close_range: all descriptors between two numbers.
    pub(super) fn close_range_exit(&mut self, args: &Raw<'_>) {
        let (Some(first), Some(last)) = (args.u32(1), args.u32(2)) else { return };
        let flags = args.u32(3).unwrap_or(0);
        if args.number(0) != Some(0) {
            return;
        }
        let is_inside = |number: i64| (i64::from(first)..=i64::from(last)).contains(&number);
        let Some((thread, _, pool)) = self.current.main.and_then(|main| self.threads.parts(main))
        else {
            return;
        };
        if flags & CLOSE_RANGE_CLOEXEC == 0 {
            thread.fds.remove_where(pool, |number, _| is_inside(number));
        } else {
            thread.fds.change_where(pool, |number, _| is_inside(number), |fd| fd.is_cloexec = true);
        }
    }

    /// dup and its relatives, fcntl.
    pub(super) fn dup_exit(&mut self, event: &Event<'_>, args: &Raw<'_>) {
        let (Some(result), Some(from)) = (args.number(0), args.number(1)) else { return };
        if result < 0 {
            return;
        }
        let is_cloexec = match event.kind().number {
            types::FCNTL_X => match args.number(2) {
                Some(F_DUPFD) => false,
                Some(F_DUPFD_CLOEXEC) => true,
                Some(F_SETFD) => {
                    let is_cloexec = args.u64(3).unwrap_or(0) & 1 != 0;
                    self.change_fd(from, |fd, _, _| fd.is_cloexec = is_cloexec);
                    return;
                }
                _ => return,
            },
            types::DUP3_X => args.u32(3).unwrap_or(0) & open_flag::CLOEXEC != 0,
            _ => false,
        };
        if let Some((thread, _, pool)) = self.current.main.and_then(|main| self.threads.parts(main))
        {
            thread.fds.duplicate(pool, from, result, is_cloexec);
        }
        self.set_event_fd(result);
    }

    /// chdir, fchdir, getcwd, chroot.
    pub(super) fn chdir_exit(&mut self, event: &Event<'_>, args: &Raw<'_>) {
        if args.number(0).is_none_or(|result| result < 0) {
            return;
        }
        let mut folder = std::mem::take(&mut self.path);
        let mut full = std::mem::take(&mut self.own_path);
        let is_known = match event.kind().number {
            types::FCHDIR_X => {
                let fd = self.event_fd();
                full.clear();
                full.extend_from_slice(fd.map_or(&[][..], |fd| fd.name.bytes()));
                fd.is_some()
            }
            types::CHDIR_X | types::GETCWD_X => match args.text(1) {
                // A relative path leaves a directory that is not known unknown.
                Some(path)
                    if path.first() != Some(&b'/') && self.is_directory_doubtful(AT_FDCWD) =>
                {
                    false
                }
                Some(path) => {
                    path::join(Folder::Path(self.cwd()), path, &mut full);
                    true
                }
                None => false,
            },
            _ => {
                if let (Some(root), Some((thread, texts, _))) =
                    (args.text(1), self.current.thread.and_then(|slot| self.threads.parts(slot)))
                {
                    texts.set(&mut thread.root, root);
                }
                false
            }
        };
        if is_known
            && let Some((thread, texts, _)) =
                self.current.main.and_then(|main| self.threads.parts(main))
        {
            super::process::set_cwd(thread, texts, &full, &mut folder);
        }
        self.path = folder;
        self.own_path = full;
    }

    /// Calls that create descriptors which are neither files nor sockets.
    pub(super) fn create_fd_exit(&mut self, event: &Event<'_>, args: &Raw<'_>) {
        let Some(result) = args.number(0).filter(|result| *result >= 0) else { return };
        let kind = event.kind().number;
        let fd_kind = match kind {
            types::PIPE_X | types::PIPE2_X => {
                let flags = args.u32(4).unwrap_or(0);
                for place in [1, 2] {
                    let Some(number) = args.number(place) else { continue };
                    self.set_fd(number, |fd, _, _| {
                        fd.kind = FdKind::Pipe;
                        fd.ino = args.u64(3).unwrap_or(0);
                        fd.is_cloexec = flags & open_flag::CLOEXEC != 0;
                    });
                    self.set_event_fd(number);
                }
                return;
            }
            types::EVENTFD_X | types::EVENTFD2_X => FdKind::Event,
            types::SIGNALFD_X | types::SIGNALFD4_X => FdKind::Signal,
            types::TIMERFD_CREATE_X => FdKind::Timer,
            types::EPOLL_CREATE_X | types::EPOLL_CREATE1_X => FdKind::EventPoll,
            types::INOTIFY_INIT_X | types::INOTIFY_INIT1_X => FdKind::Inotify,
            types::MEMFD_CREATE_X => FdKind::Memfd,
            types::PIDFD_OPEN_X => FdKind::Pidfd,
            types::PIDFD_GETFD_X => {
                self.pidfd_getfd(args, result);
                return;
            }
            types::IO_URING_SETUP_X => FdKind::IoUring,
            types::USERFAULTFD_X => FdKind::UserFault,
            // Map creation and program loading return descriptors, and so do BPF's other commands that return any.
            _ => FdKind::Bpf,
        };
        let flags_place = match kind {
            types::EVENTFD2_X | types::SIGNALFD4_X | types::INOTIFY_INIT1_X => Some(1),
            types::USERFAULTFD_X => Some(1),
            types::MEMFD_CREATE_X | types::PIDFD_OPEN_X => Some(2),
            _ => None,
        };
        let flags = flags_place.and_then(|place| args.number(place)).unwrap_or(0) as u32;
        self.set_fd(result, |fd, texts, _| {
            fd.kind = fd_kind;
            fd.is_cloexec = flags & open_flag::CLOEXEC != 0;
            if let (FdKind::Memfd, Some(name)) = (fd_kind, args.text(1)) {
                fd.set_name(texts, name);
            }
        });
        self.set_event_fd(result);
    }

    /// pidfd_getfd: a descriptor of another process becomes one of this process too.
    fn pidfd_getfd(&mut self, args: &Raw<'_>, result: i64) {
        let own = args.number(1).and_then(|pidfd| self.main_thread()?.fds.get(pidfd)).cloned();
        let other = own.filter(|fd| fd.kind == FdKind::Pidfd).and_then(|fd| {
            self.threads
                .find(i64::try_from(fd.ino).ok()?)
                .and_then(|slot| self.threads.main_of(slot))
        });
        let target = other
            .and_then(|slot| self.threads.at(slot))
            .and_then(|thread| thread.fds.get(args.number(2)?).cloned());
        if let Some(target) = target {
            self.set_fd(result, |fd, _, _| *fd = target);
        }
        self.set_event_fd(result);
    }
}
