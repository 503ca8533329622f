//! Counters of the host from /proc: drops of backlogs, tables, steal. The parsers take text, so that they are tested
//! without a host.

use crate::limits::HOST_FILE_BYTES_MAX;
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Why an instrument is absent: one line, with which the guard goes without it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Absent {
    /// Its file can't be opened.
    #[error("{what}: {path}: {source}")]
    File { what: &'static str, path: String, source: std::io::Error },
    /// The system call returns at once, without having waited for a grace period.
    #[error("grace periods: membarrier returns at once, as with a single CPU")]
    NoGracePeriod,
    /// The system call is refused.
    #[error("grace periods: membarrier: {0}: it is refused with nohz_full")]
    Membarrier(Errno),
}

/// A file that is read again and again from its begin.
#[derive(Debug)]
pub(super) struct Counters {
    file: File,
}

impl Counters {
    /// Opens it, or says in one line why it can't be read.
    pub(super) fn open(path: &str, what: &'static str) -> Result<Counters, Absent> {
        let absent = |source| Absent::File { what, path: path.to_owned(), source };
        Ok(Counters { file: File::open(path).map_err(absent)? })
    }

    /// Reads it into `text`, which is used again.
    pub(super) fn read_text<'a>(&self, text: &'a mut Vec<u8>) -> &'a str {
        text.clear();
        let mut part = [0; 4096];
        while text.len() < HOST_FILE_BYTES_MAX {
            match self.file.read_at(&mut part, text.len() as u64) {
                Ok(0) => break,
                Ok(n) => text.extend_from_slice(part.get(..n).unwrap_or_default()),
                Err(e) if Errno::from_io_error(&e) == Some(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        std::str::from_utf8(text).unwrap_or_default()
    }
}

/// What `/proc/net/softnet_stat` says of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Softnet {
    pub(super) cpu: u16,
    /// Packets that the backlog dropped since boot.
    pub(super) dropped: u64,
    /// Runs of NET_RX that ended with work left.
    pub(super) squeezed: u64,
}

/// Parses `/proc/net/softnet_stat`: hexadecimal columns, of which the 13th is the CPU, as offline CPUs have no line.
pub(super) fn softnet(text: &str) -> Vec<Softnet> {
    let hex = |text: Option<&str>| u64::from_str_radix(text?, 16).ok();
    text.lines()
        .enumerate()
        .filter_map(|(at, line)| {
            let mut columns = line.split_ascii_whitespace();
            let dropped = hex(columns.nth(1))?;
            let squeezed = hex(columns.next())?;
            let cpu = hex(columns.nth(9)).unwrap_or(at as u64);
            Some(Softnet { cpu: u16::try_from(cpu).ok()?, dropped, squeezed })
        })
        .collect()
}

/// The column `entries` of a file of `/proc/net/stat`: hexadecimal, the total on each line.
pub(super) fn entries(text: &str) -> Option<u64> {
    column(text, "entries").next()
}

/// The sum over all CPUs of a column of a file of `/proc/net/stat`.
pub(super) fn sum(text: &str, name: &str) -> Option<u64> {
    let mut found = column(text, name).peekable();
    found.peek()?;
    Some(found.fold(0, u64::wrapping_add))
}

fn column<'a>(text: &'a str, name: &str) -> impl Iterator<Item = u64> + 'a {
    let mut lines = text.lines();
    let names = lines.next().unwrap_or_default();
    let at = names.split_ascii_whitespace().position(|column| column == name);
    lines.filter_map(move |line| {
        u64::from_str_radix(line.split_ascii_whitespace().nth(at?)?, 16).ok()
    })
}

/// A number in decimal digits that is alone in its file.
pub(super) fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// Steal of each CPU in ticks since boot, from `/proc/stat`.
pub(super) fn steal(text: &str) -> Vec<(u16, u64)> {
    text.lines()
        .filter_map(|line| {
            // The line of all CPUs has no number.
            let rest = line.strip_prefix("cpu").filter(|rest| !rest.starts_with(' '))?;
            let mut columns = rest.split_ascii_whitespace();
            let cpu = columns.next()?.parse().ok()?;
            Some((cpu, columns.nth(7)?.parse().ok()?))
        })
        .collect()
}

/// `some` of a file of pressure stall information: the average share of the last 10 s, percent.
pub(super) fn pressure(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.split_ascii_whitespace().find_map(|word| word.strip_prefix("avg10="))?.parse().ok()
}

/// The interfaces of this thread's network namespace over which a default route goes.
pub(super) fn default_routes() -> Vec<String> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let mut all = default_routes_of_v4(&read("/proc/thread-self/net/route"));
    all.extend(default_routes_of_v6(&read("/proc/thread-self/net/ipv6_route")));
    all
}

/// Interfaces whose destination and mask are 0.
fn default_routes_of_v4(text: &str) -> Vec<String> {
    let default = |line: &str| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_zero = |at: usize| columns.get(at).is_some_and(|text| *text == "00000000");
        (is_zero(1) && is_zero(7)).then(|| columns.first().copied().unwrap_or_default().to_owned())
    };
    text.lines().filter_map(default).collect()
}

/// Interfaces whose destination has no bits; the kernel's own entry on the loopback interface refuses packets.
fn default_routes_of_v6(text: &str) -> Vec<String> {
    let default = |line: &str| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let name = columns.last().filter(|name| **name != "lo")?;
        (columns.get(1) == Some(&"00")).then(|| (*name).to_owned())
    };
    text.lines().filter_map(default).collect()
}

/// The CPUs that are online are numbered below this; `list` is `/sys/devices/system/cpu/online`: `0-3,8`.
pub(super) fn cpus(list: &str) -> Option<usize> {
    let last = list.trim().rsplit([',', '-']).next()?;
    last.parse::<usize>().ok()?.checked_add(1)
}

/// The CPUs of a list such as `0-3,8`.
pub(super) fn listed_cpus(list: &str) -> Vec<u16> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range: std::ops::RangeInclusive<u16> = first.parse().ok()?..=last.parse().ok()?;
        Some(range)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softnet_is_read_by_its_columns_and_offline_cpus_have_no_line() {
        let text = "00000b1c 00000003 00000002 0 0 0 0 0 00000000 00000000 00000000 00000000 00000000 0 0\n\
                    000004d2 0000000a 00000000 0 0 0 0 0 00000000 00000000 00000000 00000000 00000002 0 0\n\
                    short\n";
        let found = softnet(text);
        let first = Softnet { cpu: 0, dropped: 3, squeezed: 2 };
        assert_eq!(found, [first, Softnet { cpu: 2, dropped: 10, squeezed: 0 }]);
    }

    #[test]
    fn entries_are_the_total_on_each_line_and_other_columns_are_added() {
        let text =
            "entries  allocs table_fulls\n0000000a 00000001 00000002\n0000000a 00000000 00000003\n";
        assert_eq!(entries(text), Some(10));
        assert_eq!(sum(text, "table_fulls"), Some(5));
        assert_eq!((sum(text, "none"), entries("")), (None, None));
    }

    #[test]
    fn interfaces_of_default_routes_are_found() {
        let text = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
                    eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n\
                    eth1\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\n";
        assert_eq!(default_routes_of_v4(text), ["eth0"]);
        let zero = "0".repeat(32);
        let text = format!(
            "{zero} 00 {zero} 00 {zero} 00000400 1 0 00000003 eth2\n\
             {zero} 00 {zero} 00 {zero} ffffffff 1 0 00200200 lo\n\
             {zero} 40 {zero} 00 {zero} 00000100 1 0 00000001 eth3\n"
        );
        assert_eq!(default_routes_of_v6(&text), ["eth2"]);
    }

    #[test]
    fn steal_and_pressure_are_found() {
        let text = "cpu  1 2 3 4 5 6 7 80 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 1 2 3 4 5 6 7 9 0 0\nintr 5\n";
        assert_eq!(steal(text), [(0, 8), (1, 9)]);
        let text = "some avg10=12.50 avg60=1.00 avg300=0.10 total=5\nfull avg10=0.00\n";
        assert_eq!((pressure(text), pressure("x")), (Some(12.5), None));
        assert_eq!(number("262144\n"), Some(262_144));
        assert_eq!((cpus("0-3,8\n"), cpus("0"), cpus("")), (Some(9), Some(1), None));
        assert_eq!((listed_cpus("0-2,8\n"), listed_cpus("")), (vec![0, 1, 2, 8], vec![]));
    }
}
