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
}

impl MemoryState {
    /// Reads the state of this process.
    pub fn read() -> MemoryState {
        MemoryState::read_below(Path::new("/"))
    }

    /// The same with another root than `/`, for tests.
    fn read_below(root: &Path) -> MemoryState {
        let machine = machine_memory(root);
        let mut state = MemoryState {
            limit: machine.unwrap_or(limits::BUDGET_UNKNOWN * limits::BUDGET_SHARE),
            origin: if machine.is_some() { LimitOrigin::Machine } else { LimitOrigin::Unknown },
            current: None,
            peak: None,
            oom_kills: None,
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
        let own = |name: &str| number(&cgroup.folder.join(name));
        if cgroup.is_v2 {
            state.current = own("memory.current");
            state.peak = own("memory.peak");
            state.oom_kills = field(&cgroup.folder.join("memory.events"), "oom_kill");
        } else {
            state.current = own("memory.usage_in_bytes");
            state.peak = own("memory.max_usage_in_bytes");
            state.oom_kills = field(&cgroup.folder.join("memory.oom_control"), "oom_kill");
        }
        state
    }

    /// The budget that follows from the limit, in bytes.
    pub fn default_budget(&self) -> u64 {
        self.limit / limits::BUDGET_SHARE
    }
}

/// The root of the budget tree: what the user states, or the default share of the limit.
pub fn process_budget(stated: Option<u64>) -> BudgetPool {
    let bytes = stated.unwrap_or_else(|| MemoryState::read().default_budget());
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

/// The number behind a word at the beginning of a line.
fn field(path: &Path, name: &str) -> Option<u64> {
    let text = text(path)?;
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next() == Some(name)).then(|| words.next()?.parse().ok()).flatten()
    })
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
                "v1 beside v2, unlimited group below a limited one",
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
    }

    #[test]
    fn this_machine_has_a_budget() {
        let pool = process_budget(None);
        assert!(pool.limit() > 0 && pool.limit() < u64::MAX / 4);
        assert_eq!(process_budget(Some(123)).limit(), 123);
    }
}
