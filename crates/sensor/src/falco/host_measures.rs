//! What the program and its host use, from `/proc`, under Falco's names.

use std::path::Path;

/// Ticks of `/proc` in a second: `USER_HZ` of Linux on all machines that Gabion runs on.
const TICKS_A_SECOND: f64 = 100.0;
/// Bytes in a page.
const PAGE_KB: u64 = 4;

/// One figure with Falco's name.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum HostMeasure {
    /// A count.
    Count(&'static str, u64),
    /// A share in percent.
    Percent(&'static str, f64),
    /// Memory in KiB, whose unit is a part of its name.
    Memory(&'static str, u64),
}

/// All figures that `/proc` below `root` has; one that can't be read is absent.
pub(super) fn host_measures(root: &Path) -> Vec<HostMeasure> {
    let text = |name: &str| std::fs::read_to_string(root.join("proc").join(name)).ok();
    let mut all = Vec::new();
    let uptime = text("uptime").and_then(|t| t.split(' ').next()?.parse::<f64>().ok());
    if let (Some(own), Some(uptime)) = (text("self/stat"), uptime) {
        all.extend(own_cpu(&own, uptime).map(|n| HostMeasure::Percent("falco.cpu_usage_perc", n)));
    }
    if let Some(pages) = text("self/statm") {
        let mut words = pages.split_ascii_whitespace().map_while(|word| word.parse::<u64>().ok());
        for name in ["falco.memory_vsz", "falco.memory_rss"] {
            let kb = words.next().map(|pages| pages.saturating_mul(PAGE_KB));
            all.extend(kb.map(|kb| HostMeasure::Memory(name, kb)));
        }
    }
    let pss = text("self/smaps_rollup").and_then(|t| value_of(&t, "Pss:"));
    all.extend(pss.map(|kb| HostMeasure::Memory("falco.memory_pss", kb)));
    if let Some(stat) = text("stat") {
        let cpu = host_cpu(&stat);
        all.extend(cpu.map(|n| HostMeasure::Percent("falco.host_cpu_usage_perc", n)));
        let cpus = stat.lines().filter(|l| l.starts_with("cpu") && !l.starts_with("cpu ")).count();
        all.push(HostMeasure::Count("falco.host_num_cpus", cpus as u64));
        let running = value_of(&stat, "procs_running");
        all.extend(running.map(|n| HostMeasure::Count("falco.host_procs_running", n)));
    }
    if let Some(memory) = text("meminfo") {
        let of = |name: &str| value_of(&memory, name);
        let free = ["MemFree:", "Buffers:", "Cached:"].map(|name| of(name).unwrap_or(0));
        let used = of("MemTotal:").map(|total| total.saturating_sub(free.iter().sum()));
        all.extend(used.map(|kb| HostMeasure::Memory("falco.host_memory_used", kb)));
    }
    let open =
        text("sys/fs/file-nr").and_then(|t| t.split_ascii_whitespace().next()?.parse::<u64>().ok());
    all.extend(open.map(|n| HostMeasure::Count("falco.host_open_fds", n)));
    all
}

/// When the host began, in nanoseconds since 1970.
pub(super) fn boot_ns(root: &Path) -> Option<u64> {
    let stat = std::fs::read_to_string(root.join("proc/stat")).ok()?;
    value_of(&stat, "btime")?.checked_mul(1_000_000_000)
}

/// The first number after a name at the begin of a line.
fn value_of(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

/// Time of this process on CPUs, as a share of the time since it began.
fn own_cpu(stat: &str, uptime: f64) -> Option<f64> {
    // The name, which may have blanks, ends with the last parenthesis.
    let (_, rest) = stat.rsplit_once(')')?;
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let ticks = |place: usize| words.get(place)?.parse::<f64>().ok();
    let (user, system, began) = (ticks(11)?, ticks(12)?, ticks(19)?);
    let lasted = uptime - began / TICKS_A_SECOND;
    (lasted > 0.0).then(|| rounded((user + system) / TICKS_A_SECOND / lasted * 100.0))
}

/// Time of all CPUs that was not idle, as a share of the time since the host began.
fn host_cpu(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let all: Vec<f64> = line.split_ascii_whitespace().filter_map(|n| n.parse().ok()).collect();
    let idle = all.get(3)? + all.get(4)?;
    let total: f64 = all.iter().take(8).sum();
    (total > 0.0).then(|| rounded((total - idle) / total * 100.0))
}

/// With one decimal, as Falco writes it.
fn rounded(percent: f64) -> f64 {
    (percent * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_proc_and_what_is_not_there_is_absent() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join("proc").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("uptime", "200.00 100.00\n");
        // 150 + 50 ticks since the 100th second: 2 of 100 seconds.
        write("self/stat", "7 (a) b) S 1 1 1 0 -1 0 0 0 0 0 150 50 0 0 20 0 1 0 10000 0 0\n");
        write("self/statm", "1000 250 0 0 0 0 0\n");
        write("stat", "cpu  10 0 10 70 10 0 0 0 0 0\ncpu0 1 2\ncpu1 1 2\nprocs_running 3\n");
        write("meminfo", "MemTotal: 1000 kB\nMemFree: 200 kB\nBuffers: 50 kB\nCached: 150 kB\n");
        let wanted = [
            HostMeasure::Percent("falco.cpu_usage_perc", 2.0),
            HostMeasure::Memory("falco.memory_vsz", 4000),
            HostMeasure::Memory("falco.memory_rss", 1000),
            HostMeasure::Percent("falco.host_cpu_usage_perc", 20.0),
            HostMeasure::Count("falco.host_num_cpus", 2),
            HostMeasure::Count("falco.host_procs_running", 3),
            HostMeasure::Memory("falco.host_memory_used", 600),
        ];
        assert_eq!(host_measures(folder.path()), wanted);
        assert_eq!(host_measures(Path::new("/nowhere")), []);
    }
}
