//! File descriptors: what each refers to, and the table of a process.
//!
//! A table is shared between a process and its children until one of them changes it, and so is each entry: a fork
//! copies a reference. Closed entries are kept for the next open, whose name then uses their memory again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use gabion_record::Ip;

use crate::limits::{FDS_PER_PROCESS_MAX, FREE_FDS_KEPT, reached};
use crate::text::{Text, Texts};

/// What a file descriptor refers to. The order and numbers are those of scap files (Falco libs, schema 4.5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FdKind {
    /// Not known yet.
    #[default]
    Unknown,
    /// A regular file or device.
    File,
    /// A directory.
    Directory,
    /// An IPv4 socket that has two ends.
    Ipv4,
    /// An IPv6 socket that has two ends.
    Ipv6,
    /// An IPv4 socket that was bound.
    Ipv4Server,
    /// An IPv6 socket that was bound.
    Ipv6Server,
    /// An end of a pipe.
    Pipe,
    /// A Unix socket.
    Unix,
    /// An event counter (`eventfd`).
    Event,
    /// A kind that Falco names but does not follow.
    Unsupported,
    /// `signalfd`.
    Signal,
    /// `epoll`.
    EventPoll,
    /// `inotify`.
    Inotify,
    /// `timerfd`.
    Timer,
    /// A netlink socket.
    Netlink,
    /// A BPF map or program.
    Bpf,
    /// `userfaultfd`.
    UserFault,
    /// `io_uring`.
    IoUring,
    /// A file in memory (`memfd_create`).
    Memfd,
    /// `pidfd`.
    Pidfd,
}

impl FdKind {
    /// The kind of an entry of a file's list of descriptors.
    pub fn from_scap(number: u8) -> FdKind {
        match number {
            1 | 16 => FdKind::File,
            2 => FdKind::Directory,
            3 => FdKind::Ipv4,
            4 => FdKind::Ipv6,
            5 => FdKind::Ipv4Server,
            6 => FdKind::Ipv6Server,
            7 => FdKind::Pipe,
            8 => FdKind::Unix,
            9 => FdKind::Event,
            10 => FdKind::Unsupported,
            11 => FdKind::Signal,
            12 => FdKind::EventPoll,
            13 => FdKind::Inotify,
            14 => FdKind::Timer,
            15 => FdKind::Netlink,
            17 => FdKind::Bpf,
            18 => FdKind::UserFault,
            19 => FdKind::IoUring,
            20 => FdKind::Memfd,
            21 => FdKind::Pidfd,
            _ => FdKind::Unknown,
        }
    }

    /// The text of `fd.type`; `None` for kinds without a name.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            FdKind::File => "file",
            FdKind::Directory => "directory",
            FdKind::Ipv4 | FdKind::Ipv4Server => "ipv4",
            FdKind::Ipv6 | FdKind::Ipv6Server => "ipv6",
            FdKind::Pipe => "pipe",
            FdKind::Unix => "unix",
            FdKind::Event => "event",
            FdKind::Signal => "signalfd",
            FdKind::EventPoll => "eventpoll",
            FdKind::Inotify => "inotify",
            FdKind::Timer => "timerfd",
            FdKind::Netlink => "netlink",
            FdKind::Bpf => "bpf",
            FdKind::UserFault => "userfaultfd",
            FdKind::IoUring => "io_uring",
            FdKind::Memfd => "memfd",
            FdKind::Pidfd => "pidfd",
            FdKind::Unknown | FdKind::Unsupported => return None,
        })
    }

    /// The character of `fd.typechar`.
    pub const fn char(self) -> char {
        match self {
            FdKind::File => 'f',
            FdKind::Directory => 'd',
            FdKind::Ipv4 | FdKind::Ipv4Server => '4',
            FdKind::Ipv6 | FdKind::Ipv6Server => '6',
            FdKind::Unix | FdKind::UserFault => 'u',
            FdKind::Pipe => 'p',
            FdKind::Event => 'e',
            FdKind::Signal => 's',
            FdKind::EventPoll => 'l',
            FdKind::Inotify => 'i',
            FdKind::Timer => 't',
            FdKind::Netlink => 'n',
            FdKind::Bpf => 'b',
            FdKind::IoUring => 'r',
            FdKind::Memfd => 'm',
            FdKind::Pidfd => 'P',
            FdKind::Unknown => 'o',
            FdKind::Unsupported => 'X',
        }
    }

    /// Whether it is a socket of IP.
    pub const fn is_ip(self) -> bool {
        matches!(self, FdKind::Ipv4 | FdKind::Ipv6 | FdKind::Ipv4Server | FdKind::Ipv6Server)
    }

    /// Whether it is a socket of IP that was bound and has no other end.
    pub const fn is_ip_server(self) -> bool {
        matches!(self, FdKind::Ipv4Server | FdKind::Ipv6Server)
    }
}

/// The transport protocol of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum L4Proto {
    /// Not known.
    #[default]
    Unknown,
    /// Does not apply to this socket.
    NotApplicable,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP.
    Icmp,
    /// Raw IP.
    Raw,
}

impl L4Proto {
    /// The protocol of an entry of a file's list of descriptors.
    pub fn from_scap(number: u8) -> L4Proto {
        match number {
            1 => L4Proto::NotApplicable,
            2 => L4Proto::Tcp,
            3 => L4Proto::Udp,
            4 => L4Proto::Icmp,
            5 => L4Proto::Raw,
            _ => L4Proto::Unknown,
        }
    }

    /// The text of `fd.l4proto`.
    pub const fn name(self) -> &'static str {
        match self {
            L4Proto::Unknown | L4Proto::NotApplicable => "<NA>",
            L4Proto::Tcp => "tcp",
            L4Proto::Udp => "udp",
            L4Proto::Icmp => "icmp",
            L4Proto::Raw => "raw",
        }
    }
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct End {
    /// Address.
    pub ip: Ip,
    /// Port.
    pub port: u16,
}

/// What is known about a socket's ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ends {
    /// Nothing.
    #[default]
    None,
    /// Both ends of a connection, `source` being the one that connected.
    Both {
        /// The end that connected or sent first.
        source: End,
        /// The other end.
        dest: End,
    },
    /// The address to which a server is bound.
    Server(End),
    /// The kernel's addresses of the two ends of a Unix socket.
    Unix {
        /// The own end.
        source: u64,
        /// The other end.
        dest: u64,
    },
}

/// Which end of a connection the process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Not known.
    #[default]
    None,
    /// It connected.
    Client,
    /// It accepted.
    Server,
}

/// Whether a socket is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connection {
    /// No connection was tried.
    #[default]
    None,
    /// The connection is under way (`EINPROGRESS`).
    Pending,
    /// It failed.
    Failed,
    /// It is up.
    Connected,
}

/// What a file descriptor refers to.
#[derive(Clone, Debug, Default)]
pub struct Fd {
    /// Its kind.
    pub kind: FdKind,
    /// Falco's flags of the open.
    pub open_flags: u32,
    /// Device, as the kernel's number.
    pub dev: u32,
    /// Inode, or 0.
    pub ino: u64,
    /// The full name of a file; the address or tuple of a socket.
    pub name: Text,
    /// A file's name as the process gave it.
    pub raw_name: Text,
    /// The ends of a socket.
    pub ends: Ends,
    /// The transport protocol of a socket.
    pub l4proto: L4Proto,
    /// Which end the process is.
    pub role: Role,
    /// Whether it is connected.
    pub connection: Connection,
    /// The file is in the upper layer of an overlay.
    pub is_upper_layer: bool,
    /// The file is in the lower layer of an overlay.
    pub is_lower_layer: bool,
    /// It was closed at `execve` if that is asked for (`O_CLOEXEC`).
    pub is_cloexec: bool,
    /// Memory of earlier names, for the next ones.
    spare: Text,
    spare_raw: Text,
}

impl Fd {
    /// An entry of this kind and nothing else.
    pub fn of_kind(kind: FdKind) -> Fd {
        Fd { kind, ..Fd::default() }
    }

    /// Sets everything back but the memory of the names.
    fn reset(&mut self) {
        if self.raw_name.is_shared_with(&self.name) {
            self.raw_name = Text::default();
        }
        let kept = |text: &mut Text, spare: &mut Text| {
            std::mem::take(if text.is_empty() { spare } else { text })
        };
        let spare = kept(&mut self.name, &mut self.spare);
        let spare_raw = kept(&mut self.raw_name, &mut self.spare_raw);
        *self = Fd { spare, spare_raw, ..Fd::default() };
    }

    /// Sets the name.
    pub fn set_name(&mut self, texts: &Texts, name: &[u8]) {
        if self.name.is_empty() {
            std::mem::swap(&mut self.name, &mut self.spare);
        }
        texts.set(&mut self.name, name);
    }
}

/// An entry with its share of the count of bytes.
#[derive(Debug)]
struct Entry {
    fd: Fd,
    held: Arc<AtomicU64>,
}

const ENTRY_COST: u64 = size_of::<Entry>() as u64 + 32;

impl Entry {
    fn new(fd: Fd, held: &Arc<AtomicU64>) -> Entry {
        held.fetch_add(ENTRY_COST, Relaxed);
        Entry { fd, held: Arc::clone(held) }
    }
}

impl Clone for Entry {
    fn clone(&self) -> Entry {
        Entry::new(self.fd.clone(), &self.held)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.held.fetch_sub(ENTRY_COST, Relaxed);
    }
}

/// Makes entries and keeps the memory of closed ones.
#[derive(Debug, Default)]
pub struct FdPool {
    held: Arc<AtomicU64>,
    made: u64,
    free: Vec<Arc<Entry>>,
}

impl FdPool {
    /// Bytes of all entries and tables in use, shared ones once.
    pub fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// Entries that were given memory since the start; one that used the memory of a closed one does not count.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Returns the memory that is kept for further entries.
    pub(crate) fn clear(&mut self) {
        self.free.clear();
    }

    fn recycle(&mut self, mut entry: Arc<Entry>) {
        if self.free.len() < FREE_FDS_KEPT
            && let Some(unique) = Arc::get_mut(&mut entry)
        {
            unique.fd.reset();
            self.free.push(entry);
        }
    }

    fn take_entry(&mut self) -> Arc<Entry> {
        if let Some(entry) = self.free.pop() {
            return entry;
        }
        self.made = self.made.saturating_add(1);
        Arc::new(Entry::new(Fd::default(), &self.held))
    }
}

/// Numbers and entries, sorted by number; counts its own bytes.
#[derive(Debug)]
struct Rows {
    rows: Vec<(i64, Arc<Entry>)>,
    held: Arc<AtomicU64>,
    counted: u64,
}

impl Rows {
    fn new(held: &Arc<AtomicU64>) -> Rows {
        Rows { rows: Vec::new(), held: Arc::clone(held), counted: 0 }
    }

    fn recount(&mut self) {
        let bytes = (self.rows.capacity() as u64).saturating_mul(16).saturating_add(64);
        if bytes != self.counted {
            self.held.fetch_add(bytes, Relaxed);
            self.held.fetch_sub(self.counted, Relaxed);
            self.counted = bytes;
        }
    }

    fn position(&self, number: i64) -> Result<usize, usize> {
        // Most look-ups are for small numbers in a table without gaps: the number is the index.
        let guess = usize::try_from(number)
            .ok()
            .filter(|at| self.rows.get(*at).is_some_and(|(n, _)| *n == number));
        guess.map_or_else(|| self.rows.binary_search_by_key(&number, |(n, _)| *n), Ok)
    }
}

impl Clone for Rows {
    fn clone(&self) -> Rows {
        let mut copy = Rows { rows: self.rows.clone(), held: Arc::clone(&self.held), counted: 0 };
        copy.recount();
        copy
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.held.fetch_sub(self.counted, Relaxed);
    }
}

/// The file descriptors of a process.
#[derive(Clone, Debug, Default)]
pub struct FdTable(Option<Arc<Rows>>);

impl FdTable {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |rows| rows.rows.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry of a number.
    pub fn get(&self, number: i64) -> Option<&Fd> {
        let rows = self.0.as_ref()?;
        let at = rows.position(number).ok()?;
        rows.rows.get(at).map(|(_, entry)| &entry.fd)
    }

    /// All numbers and entries in the order of numbers.
    pub fn iter(&self) -> impl Iterator<Item = (i64, &Fd)> {
        self.0.iter().flat_map(|rows| rows.rows.iter().map(|(number, entry)| (*number, &entry.fd)))
    }

    fn rows(&mut self, pool: &FdPool) -> &mut Rows {
        let shared = self.0.get_or_insert_with(|| Arc::new(Rows::new(&pool.held)));
        Arc::make_mut(shared)
    }

    /// Sets the entry of a number: `fill` receives a cleared one. Nothing happens if the table is full.
    pub fn insert_with(&mut self, pool: &mut FdPool, number: i64, fill: impl FnOnce(&mut Fd)) {
        let place = self.0.as_ref().map_or(Err(0), |rows| rows.position(number));
        if place.is_err() && self.len() >= FDS_PER_PROCESS_MAX {
            reached::FDS_PER_PROCESS_MAX.count();
            return;
        }
        let mut entry = pool.take_entry();
        if let Some(unique) = Arc::get_mut(&mut entry) {
            fill(&mut unique.fd);
        }
        let rows = self.rows(pool);
        let old = match place {
            Ok(at) => rows.rows.get_mut(at).map(|(_, old)| std::mem::replace(old, entry)),
            Err(at) => {
                rows.rows.insert(at.min(rows.rows.len()), (number, entry));
                None
            }
        };
        rows.recount();
        if let Some(old) = old {
            pool.recycle(old);
        }
    }

    /// Makes `to` refer to what `from` refers to; returns whether `from` is known. If not, neither is `to`.
    pub fn duplicate(&mut self, pool: &mut FdPool, from: i64, to: i64, is_cloexec: bool) -> bool {
        let Some(fd) = self.get(from).cloned() else {
            self.remove(pool, to);
            return false;
        };
        self.insert_with(pool, to, |entry| {
            *entry = Fd { is_cloexec, spare: Text::default(), spare_raw: Text::default(), ..fd }
        });
        true
    }

    /// Changes an entry; returns whether there is one of this number.
    pub fn change(&mut self, pool: &FdPool, number: i64, change: impl FnOnce(&mut Fd)) -> bool {
        if self.get(number).is_none() {
            return false;
        }
        let rows = self.rows(pool);
        let Some((_, entry)) = rows.position(number).ok().and_then(|at| rows.rows.get_mut(at))
        else {
            return false;
        };
        change(&mut Arc::make_mut(entry).fd);
        true
    }

    /// Removes an entry.
    pub fn remove(&mut self, pool: &mut FdPool, number: i64) {
        let Some(at) = self.0.as_ref().and_then(|rows| rows.position(number).ok()) else { return };
        let rows = self.rows(pool);
        if at < rows.rows.len() {
            let (_, entry) = rows.rows.remove(at);
            pool.recycle(entry);
        }
    }

    /// Removes the entries that `is_removed` names.
    pub fn remove_where(&mut self, pool: &FdPool, mut is_removed: impl FnMut(i64, &Fd) -> bool) {
        if self.iter().any(|(number, fd)| is_removed(number, fd)) {
            self.rows(pool).rows.retain(|(number, entry)| !is_removed(*number, &entry.fd));
        }
    }

    /// Changes the entries that `is_meant` names.
    pub fn change_where(
        &mut self,
        pool: &FdPool,
        is_meant: impl Fn(i64, &Fd) -> bool,
        mut change: impl FnMut(&mut Fd),
    ) {
        if self.iter().any(|(number, fd)| is_meant(number, fd)) {
            for (number, entry) in &mut self.rows(pool).rows {
                if is_meant(*number, &entry.fd) {
                    change(&mut Arc::make_mut(entry).fd);
                }
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0 = None;
    }
}

/// Writes the name of a socket's ends: `1.2.3.4:5->6.7.8.9:10`, or `1.2.3.4:5` of a server. IPv6 has no brackets
/// (Falco libs, schema 4.5.1).
pub fn write_ends(ends: &Ends, to: &mut Vec<u8>) {
    use std::io::Write as _;
    // Writing to a vector never fails.
    let _ = match ends {
        Ends::Both { source, dest } => {
            write!(to, "{}:{}->{}:{}", source.ip, source.port, dest.ip, dest.port)
        }
        Ends::Server(end) => write!(to, "{}:{}", end.ip, end.port),
        Ends::Unix { source, dest } => write!(to, "{source:x}->{dest:x}"),
        Ends::None => Ok(()),
    };
}

/// Sets a file's two names; they share their bytes if they are equal.
pub fn set_names(texts: &Texts, fd: &mut Fd, name: &[u8], raw: &[u8]) {
    if fd.raw_name.is_shared_with(&fd.name) {
        fd.raw_name = Text::default();
    }
    fd.set_name(texts, name);
    if raw == name {
        fd.raw_name = fd.name.clone();
        return;
    }
    if fd.raw_name.is_empty() {
        std::mem::swap(&mut fd.raw_name, &mut fd.spare_raw);
    }
    texts.set(&mut fd.raw_name, raw);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(table: &mut FdTable, pool: &mut FdPool, texts: &Texts, number: i64, name: &[u8]) {
        table.insert_with(pool, number, |fd| {
            fd.kind = FdKind::File;
            set_names(texts, fd, name, name);
        });
    }

    #[test]
    fn a_child_shares_the_table_until_one_of_both_changes_it() {
        let (mut pool, texts) = (FdPool::default(), Texts::default());
        let mut parent = FdTable::default();
        for number in [0, 1, 2, 7] {
            open(&mut parent, &mut pool, &texts, number, b"/dev/null");
        }
        let held = pool.held();
        let mut child = parent.clone();
        assert_eq!(pool.held(), held);
        child.remove(&mut pool, 1);
        open(&mut child, &mut pool, &texts, 2, b"/tmp/out");
        assert_eq!((parent.len(), child.len()), (4, 3));
        assert_eq!(parent.get(2).unwrap().name.bytes(), b"/dev/null");
        assert_eq!(child.get(2).unwrap().name.bytes(), b"/tmp/out");
        assert!(child.get(1).is_none() && child.get(7).is_some() && child.get(-1).is_none());
        assert!(
            child.duplicate(&mut pool, 7, 3, true) && !child.duplicate(&mut pool, 99, 4, false)
        );
        child.remove_where(&pool, |_, fd| fd.is_cloexec);
        assert!(child.get(3).is_none() && child.get(7).is_some());
        drop((parent, child));
        drop(std::mem::take(&mut pool.free));
        assert_eq!((pool.held(), texts.held()), (0, 0));
    }

    #[test]
    fn opening_again_uses_the_memory_of_what_was_closed() {
        let (mut pool, texts) = (FdPool::default(), Texts::default());
        let mut table = FdTable::default();
        open(&mut table, &mut pool, &texts, 3, b"/etc/passwd");
        let (texts_held, pool_held) = (texts.held(), pool.held());
        for _ in 0..3 {
            table.remove(&mut pool, 3);
            open(&mut table, &mut pool, &texts, 3, b"/etc/group");
        }
        assert_eq!((texts.held(), pool.held()), (texts_held, pool_held));
    }

    #[test]
    fn a_full_table_takes_no_more_and_counts_it() {
        let (mut pool, mut table) = (FdPool::default(), FdTable::default());
        for number in 0..FDS_PER_PROCESS_MAX as i64 + 2 {
            table.insert_with(&mut pool, number, |fd| fd.kind = FdKind::File);
        }
        assert_eq!(table.len(), FDS_PER_PROCESS_MAX);
        assert_eq!(
            gabion_record::limits::take_reached().times_reached(&reached::FDS_PER_PROCESS_MAX),
            2
        );
    }
}
