//! How much memory there is for this process, and the root of the budget tree.
//!
//! The limit that counts is the smallest of all cgroups above the process (v2: `memory.max` and
//! `memory.high`; v1: `memory.limit_in_bytes`) and of the machine's memory. The budget is a stated
//! share of it, see `limits`, unless the user gives one.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use gabion_record::budget::BudgetPool;

use crate::limits;

/// Where a limit comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitOrigin {
    /// A cgroup's file.
    Cgroup(PathBuf),
    /// The machine's memory.
    Machine,
    /// Neither could be read; a guess.
    Unknown,
}

/// Memory that this process takes from now on comes in small pages, where the system would give it
/// pages of 2 MiB. To be called once what is read all the time (compiled rules) is in place: that
/// stays in large pages, and what comes and goes takes no more than it uses. Programs that are over at
/// once call it first.
pub fn take_small_pages() {
    // Where the system refuses, more is resident than need be: no reason to stop.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Until this is dropped, memory that the process takes comes in small pages: for a while in which much is taken that is
/// freed again, such as a load of rules next to those in use. The system may join small pages that stay into large ones later.
#[derive(Debug)]
pub struct SmallPages {
    /// Large pages were allowed before.
    is_ours: bool,
}

impl SmallPages {
    /// From now on.
    #[must_use]
    pub fn begin() -> SmallPages {
        #[cfg(target_os = "linux")]
        let is_ours = rustix::thread::transparent_huge_pages_are_disabled() == Ok(false);
        #[cfg(not(target_os = "linux"))]
        let is_ours = false;
        if is_ours {
            take_small_pages();
        }
        SmallPages { is_ours }
    }
}

impl Drop for SmallPages {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        if self.is_ours {
            let _ = rustix::thread::disable_transparent_huge_pages(false);
        }
    }
}

/// The memory that this process may use, and what the kernel says of its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryState {
    /// The smallest limit, in bytes.
    pub limit: u64,
    /// Where it stands.
    pub origin: LimitOrigin,
    /// The cgroup's use now, its peak, and how often the kernel killed in it, where known.
    pub current: Option<u64>,
    /// Most bytes used at once.
    pub peak: Option<u64>,
    /// Kills for want of memory.
    pub oom_kills: Option<u64>,
    /// The process's own cgroup and those above it that have a limit, the own one first.
    pub levels: Vec<MemoryLevel>,
}

/// One cgroup's account of memory. A value that its kernel does not report is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryLevel {
    /// Its folder.
    pub folder: PathBuf,
    /// Most bytes it may use (`memory.max`, `memory.limit_in_bytes`); none is no limit.
    pub limit: Option<u64>,
    /// Bytes from which the kernel slows it down (`memory.high`, version 2).
    pub high: Option<u64>,
    /// Bytes in use, page cache included.
    pub current: Option<u64>,
    /// Most bytes in use at once, page cache included.
    pub peak: Option<u64>,
    /// Bytes that processes hold, and bytes of page cache, which is returned when need be.
    pub anonymous: Option<u64>,
    /// See above.
    pub cache: Option<u64>,
    /// What the kernel counted, by its own names: all of `memory.events`; of version 1 `failcnt` (times
    /// the limit was met) and `memory.oom_control`.
    pub events: Vec<(String, u64)>,
}

impl MemoryLevel {
    fn from_folder(folder: &Path, is_v2: bool) -> MemoryLevel {
        let own = |name: &str| number(&folder.join(name));
        let stat = folder.join("memory.stat");
        let mut level = MemoryLevel { folder: folder.to_owned(), ..MemoryLevel::default() };
        if is_v2 {
            level.limit = own("memory.max");
            level.high = own("memory.high");
            level.current = own("memory.current");
            level.peak = own("memory.peak");
            level.anonymous = field(&stat, "anon");
            level.cache = field(&stat, "file");
            level.events = fields(&folder.join("memory.events"));
        } else {
            level.limit = own("memory.limit_in_bytes").filter(|n| *n < limits::NO_LIMIT);
            level.current = own("memory.usage_in_bytes");
            level.peak = own("memory.max_usage_in_bytes");
            level.anonymous = field(&stat, "total_rss");
            level.cache = field(&stat, "total_cache");
            let met = own("memory.failcnt").map(|n| ("failcnt".to_owned(), n));
            level.events = met.into_iter().collect();
            level.events.extend(fields(&folder.join("memory.oom_control")));
        }
        level
    }

    /// What the kernel counted under a name.
    pub fn event(&self, name: &str) -> Option<u64> {
        self.events.iter().find(|(n, _)| n == name).map(|(_, count)| *count)
    }
}

impl MemoryState {
    /// Reads the state of this process.
    pub fn current() -> MemoryState {
        MemoryState::read_below(Path::new("/"))
    }

    /// The same with another root than `/`, under which `proc` and `sys/fs/cgroup` are looked for.
    pub fn read_below(root: &Path) -> MemoryState {
        let machine = machine_memory(root);
        let mut state = MemoryState {
            limit: machine.unwrap_or(limits::BUDGET_UNKNOWN * limits::BUDGET_SHARE),
            origin: if machine.is_some() { LimitOrigin::Machine } else { LimitOrigin::Unknown },
            current: None,
            peak: None,
            oom_kills: None,
            levels: Vec::new(),
        };
        let Some(cgroup) = Cgroup::of_process(root) else { return state };
        for folder in cgroup.chain() {
            for name in cgroup.limit_files() {
                let file = folder.join(name);
                if let Some(limit) = number(&file).filter(|limit| *limit < state.limit) {
                    state.limit = limit;
                    state.origin = LimitOrigin::Cgroup(file);
                }
            }
        }
        let levels = cgroup.chain().map(|folder| MemoryLevel::from_folder(folder, cgroup.is_v2));
        let is_own = |level: &MemoryLevel| level.folder == cgroup.folder;
        state.levels = levels
            .filter(|level| is_own(level) || level.limit.is_some() || level.high.is_some())
            .collect();
        if let Some(own) = state.levels.first() {
            (state.current, state.peak) = (own.current, own.peak);
            state.oom_kills = own.event("oom_kill");
        }
        state
    }

    /// The budget that follows from the limit, in bytes.
    pub fn default_budget(&self) -> u64 {
        self.limit / limits::BUDGET_SHARE
    }
}

/// Bytes that this process has in memory now, as the system counts them.
pub fn resident_now() -> Option<u64> {
    field(Path::new("/proc/self/status"), "VmRSS:").map(|kib| kib.saturating_mul(1024))
}

/// Most bytes that it had in memory at once.
pub fn resident_peak() -> Option<u64> {
    field(Path::new("/proc/self/status"), "VmHWM:").map(|kib| kib.saturating_mul(1024))
}

/// The root of the budget tree: what the user states, or the default share of the limit.
pub fn process_budget(stated: Option<u64>) -> BudgetPool {
    let bytes = stated.unwrap_or_else(|| MemoryState::current().default_budget());
    BudgetPool::root("process", bytes)
}

/// The memory cgroup of the process.
struct Cgroup {
    mount: PathBuf,
    folder: PathBuf,
    is_v2: bool,
}

impl Cgroup {
    fn of_process(root: &Path) -> Option<Cgroup> {
        let table = text(&root.join("proc/self/cgroup"))?;
        let base = root.join("sys/fs/cgroup");
        // Lines are hierarchy:controllers:path. With both versions mounted, memory is v1's.
        let mut unified = None;
        for line in table.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(number), Some(controllers), Some(path)) =
                (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            if controllers.split(',').any(|c| c == "memory") {
                return Some(Cgroup::at(base.join("memory"), path, false));
            }
            if number == "0" && controllers.is_empty() {
                unified = Some(Cgroup::at(base.clone(), path, true));
            }
        }
        unified
    }

    /// In a container the path may be one of the host that is not mounted here: then the mount
    /// itself is the process's own cgroup.
    fn at(mount: PathBuf, path: &str, is_v2: bool) -> Cgroup {
        let folder = mount.join(path.trim_start_matches('/'));
        let is_inside = !path.split('/').any(|part| part == "..") && folder.is_dir();
        let folder = if is_inside { folder } else { mount.clone() };
        Cgroup { mount, folder, is_v2 }
    }

    /// The folder and those above it, up to the mount.
    fn chain(&self) -> impl Iterator<Item = &Path> {
        self.folder.ancestors().take_while(|folder| folder.starts_with(&self.mount))
    }

    fn limit_files(&self) -> &'static [&'static str] {
        if self.is_v2 { &["memory.max", "memory.high"] } else { &["memory.limit_in_bytes"] }
    }
}

fn machine_memory(root: &Path) -> Option<u64> {
    field(&root.join("proc/meminfo"), "MemTotal:").map(|kib| kib.saturating_mul(1024))
}

/// The number after a word at the beginning of a line.
fn field(path: &Path, name: &str) -> Option<u64> {
    let text = text(path)?;
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next() == Some(name)).then(|| words.next()?.parse().ok()).flatten()
    })
}

/// All lines of a word and a number.
fn fields(path: &Path) -> Vec<(String, u64)> {
    let line = |line: &str| {
        let (name, number) = line.split_once(' ')?;
        Some((name.to_owned(), number.trim().parse().ok()?))
    };
    text(path).map(|text| text.lines().filter_map(line).collect()).unwrap_or_default()
}

/// A file with one number; `max` is none.
fn number(path: &Path) -> Option<u64> {
    text(path)?.trim().parse().ok()
}

fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(limits::SYSTEM_FILE_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root folder with these files.
    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        dir
    }

    const GIB: u64 = 1 << 30;
    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n");

    #[test]
    fn the_smallest_limit_counts() {
        type Case = (&'static str, Vec<(&'static str, &'static str)>, u64);
        let cases: Vec<Case> = vec![
            ("machine only", vec![MEMINFO], 16 * GIB),
            ("nothing known", vec![], 2 * GIB),
            (
                "v2, own limit",
                vec![
                    MEMINFO,
                    ("proc/self/cgroup", "0::/a/b\n"),
                    ("sys/fs/cgroup/a/b/memory.max", "1073741824\n"),
                    ("sys/fs/cgroup/a/memory.max", "max\n"),
                ],
                GIB,
            ),
            (
                "v2, limit above, and a lower high mark",
                vec![
                    MEMINFO,
                    ("proc/self/cgroup", "0::/a/b\n"),
                    ("sys/fs/cgroup/a/b/memory.max", "max\n"),
                    ("sys/fs/cgroup/a/memory.max", "8589934592\n"),
                    ("sys/fs/cgroup/a/memory.high", "4294967296\n"),
                ],
                4 * GIB,
            ),
            (
                "v2 in a container that sees the host's path",
                vec![
                    MEMINFO,
                    ("proc/self/cgroup", "0::/../../docker/1234\n"),
                    ("sys/fs/cgroup/memory.max", "2147483648\n"),
                ],
                2 * GIB,
            ),
            (
                "v1 next to v2, unlimited group below a limited one",
                vec![
                    MEMINFO,
                    ("proc/self/cgroup", "9:cpu,cpuacct:/x\n4:memory:/x/y\n0::/z\n"),
                    ("sys/fs/cgroup/memory/x/y/memory.limit_in_bytes", "9223372036854771712\n"),
                    ("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "3221225472\n"),
                ],
                3 * GIB,
            ),
        ];
        for (name, files, want) in cases {
            let dir = root(&files);
            let state = MemoryState::read_below(dir.path());
            assert_eq!(state.limit, want, "{name}");
            assert_eq!(state.default_budget(), want / 4, "{name}");
        }
    }

    #[test]
    fn use_and_kills_are_read() {
        let dir = root(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/a\n"),
            ("sys/fs/cgroup/a/memory.current", "5\n"),
            ("sys/fs/cgroup/a/memory.peak", "6\n"),
            ("sys/fs/cgroup/a/memory.events", "low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\n"),
        ]);
        let state = MemoryState::read_below(dir.path());
        assert_eq!((state.current, state.peak, state.oom_kills), (Some(5), Some(6), Some(2)));
        assert_eq!(state.origin, LimitOrigin::Machine);
        let all = [("low", 0), ("high", 0), ("max", 3), ("oom", 1), ("oom_kill", 2)];
        let reported: Vec<_> =
            state.levels[0].events.iter().map(|(n, c)| (n.as_str(), *c)).collect();
        assert_eq!(reported, all);
    }

    /// Version 1 next to an empty version 2, as many machines still have it.
    #[test]
    fn version_1_is_reported_like_version_2() {
        let own = "sys/fs/cgroup/memory/x/y";
        let files = [
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory.usage_in_bytes", "7\n"),
            ("memory.max_usage_in_bytes", "9\n"),
            ("memory.failcnt", "4\n"),
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"),
            ("memory.stat", "cache 1\nrss 2\ntotal_cache 30\ntotal_rss 40\n"),
        ];
        let paths: Vec<_> = files.iter().map(|(n, c)| (format!("{own}/{n}"), *c)).collect();
        let mut all: Vec<(&str, &str)> = paths.iter().map(|(p, c)| (p.as_str(), *c)).collect();
        all.push(MEMINFO);
        all.push(("proc/self/cgroup", "4:memory:/x/y\n0::/\n"));
        all.push(("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1073741824\n"));
        let dir = root(&all);
        let state = MemoryState::read_below(dir.path());
        assert_eq!((state.limit, state.oom_kills, state.peak), (GIB, Some(5), Some(9)));
        let [own, above] = &state.levels[..] else { panic!("{:?}", state.levels) };
        assert_eq!((own.limit, own.anonymous, own.cache), (None, Some(40), Some(30)));
        assert_eq!((own.event("failcnt"), own.event("oom_kill")), (Some(4), Some(5)));
        assert_eq!(above.limit, Some(GIB));
    }

    #[test]
    fn this_machine_has_a_budget() {
        let pool = process_budget(None);
        assert!(pool.limit() > 0 && pool.limit() < u64::MAX / 4);
        assert_eq!(process_budget(Some(123)).limit(), 123);
    }
}
