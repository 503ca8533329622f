//! What `gabion doctor` reports about the guard: instruments, XDP, tables of the kernel, and what is left to undo. Nothing
//! is attached to an interface.

use super::host_counters::{HostCounters, interface_index};
use super::status::{GuardChange, guard_status_below};
use gabion_probe::attach::XdpMode;
use gabion_probe::interface::Attached;
use gabion_probe::{features, netlink};
use std::path::Path;

/// Share of a table from which it is close to full.
const CLOSE: f64 = 0.9;

/// The guard's part of this host's health.
#[derive(Clone, Debug, Default)]
pub struct GuardHealth {
    /// Instruments and what else the guard needs: name, whether it is there, a remark or the next step.
    pub instruments: Vec<(String, bool, String)>,
    /// Interfaces: name, what XDP can do there, the next command.
    pub interfaces: Vec<(String, String, String)>,
    /// Tables: name, entries, the most that it holds, the file that sets it.
    pub tables: Vec<(&'static str, u64, u64, &'static str)>,
    /// Changes of the host that have a record: what, the state, and whether something is left to undo.
    pub changes: Vec<(String, String, bool)>,
}

impl GuardHealth {
    /// Looks below a root. Programs and interfaces are tried only where it is this machine's own.
    #[must_use]
    pub fn look_below(root: &Path) -> GuardHealth {
        let mut found = GuardHealth { tables: tables(root), ..GuardHealth::default() };
        let state = guard_status_below(root).below_root();
        found.changes.extend(state.unreadable.map(|why| ("undo records".to_owned(), why, true)));
        found.changes.extend(state.changes.into_iter().map(described));
        if root == Path::new("/") {
            found.instruments = instruments();
            found.interfaces = interfaces();
        }
        found
    }

    /// What is wrong, and the next step, as pairs.
    pub fn advice(&self) -> impl Iterator<Item = (String, String)> {
        let full = self.tables.iter().filter(|(_, n, max, _)| *n as f64 >= CLOSE * *max as f64);
        let full = full.map(|(name, n, max, file)| {
            (
                format!("the table {name} of the kernel holds {n} of {max} entries: new flows are dropped when it is full"),
                format!("raise {file}, or hold new flows with gabion guard enforce"),
            )
        });
        let left = self.changes.iter().filter(|(_, _, is_left)| *is_left);
        full.chain(left.map(|(what, state, _)| (what.clone(), state.clone())))
    }
}

fn described(change: GuardChange) -> (String, String, bool) {
    let GuardChange { what, old, new, now, state, is_left } = change;
    let now = now.unwrap_or_else(|| "not there".to_owned());
    (format!("{what}: {old} before, {new} by the guard, now {now}"), state.to_owned(), is_left)
}

/// Entries and bounds of the tables that floods fill, from files below a root.
fn tables(root: &Path) -> Vec<(&'static str, u64, u64, &'static str)> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let number = |path: &str| super::host::number(&read(path));
    let conntrack = number("proc/sys/net/netfilter/nf_conntrack_count")
        .zip(number("proc/sys/net/netfilter/nf_conntrack_max"))
        .map(|(n, max)| ("conntrack", n, max, "net.netfilter.nf_conntrack_max"));
    let neighbours = [
        ("neighbours", "arp_cache", "ipv4", "net.ipv4.neigh.default.gc_thresh3"),
        ("neighbours of IPv6", "ndisc_cache", "ipv6", "net.ipv6.neigh.default.gc_thresh3"),
    ];
    let neighbours = neighbours.into_iter().filter_map(|(name, file, family, setting)| {
        let entries = super::host::entries(&read(&format!("proc/net/stat/{file}")))?;
        let max = number(&format!("proc/sys/net/{family}/neigh/default/gc_thresh3"))?;
        Some((name, entries, max, setting))
    });
    conntrack.into_iter().chain(neighbours).filter(|(_, _, max, _)| *max > 0).collect()
}

/// Each tried by use.
fn instruments() -> Vec<(String, bool, String)> {
    let mut all = Vec::new();
    for name in ["programs", "btf", "softirq", "xdp"] {
        let Some(feature) = features::one(name) else { continue };
        let (is_here, remark) = match feature.result {
            Ok(_) => (true, feature.purpose.to_owned()),
            Err(e) => (false, format!("{e}; gabion probe check lists all")),
        };
        all.push((name.to_owned(), is_here, remark));
    }
    let grace = super::probes::try_grace_period();
    let text =
        grace.as_ref().map_or_else(ToString::to_string, |()| "grace periods of RCU".to_owned());
    all.push(("membarrier".to_owned(), grace.is_ok(), text));
    let mut absent = Vec::new();
    let _ = HostCounters::open(&mut absent);
    all.extend(absent.into_iter().map(|line| ("counters".to_owned(), false, line)));
    all
}

/// What XDP can do on each interface of this network namespace but the loopback one.
fn interfaces() -> Vec<(String, String, String)> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let names = text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
    let mut all = Vec::new();
    for name in names.filter(|name| *name != "lo") {
        let Some(index) = interface_index(name) else { continue };
        let attached = Attached::query_interface(index).unwrap_or_default();
        let enforce = format!("gabion guard enforce --interface {name} --allow tcp/22");
        let (what, next) = match (attached.program, netlink::has_native_xdp(index)) {
            (program, _) if program != 0 => (
                format!(
                    "{} XDP: {}",
                    attached.mode.map_or("several modes of", XdpMode::name),
                    attached.describe()
                ),
                "no second program can be attached while it is there".to_owned(),
            ),
            (_, Ok(true)) => ("native XDP".to_owned(), enforce),
            (_, Ok(false)) => (
                "generic XDP only, half as effective".to_owned(),
                format!("attach to the lower device, or: {enforce} --generic"),
            ),
            (_, Err(_)) => (
                "the kernel does not report what its driver can do (Linux 6.3)".to_owned(),
                enforce,
            ),
        };
        all.push((name.to_owned(), what, next));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_changes_are_read_below_a_root_and_nothing_else_is_tried() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("proc/sys/net/netfilter/nf_conntrack_count", "950\n");
        put("proc/sys/net/netfilter/nf_conntrack_max", "1000\n");
        put("proc/net/stat/arp_cache", "entries allocs\n00000010 00000000\n");
        put("proc/sys/net/ipv4/neigh/default/gc_thresh3", "1024\n");
        put("proc/net/stat/ndisc_cache", "entries allocs\n00000020 00000000\n");
        put("proc/sys/net/ipv6/neigh/default/gc_thresh3", "2048\n");
        put("run/gabion-guard/1-0.undo", "this is no record\n");
        let found = GuardHealth::look_below(root.path());
        assert!(found.instruments.is_empty() && found.interfaces.is_empty());
        assert_eq!(found.tables[1], ("neighbours", 16, 1024, "net.ipv4.neigh.default.gc_thresh3"));
        let of_ipv6 = ("neighbours of IPv6", 32, 2048, "net.ipv6.neigh.default.gc_thresh3");
        assert_eq!(found.tables[2], of_ipv6);
        let advice: Vec<(String, String)> = found.advice().collect();
        assert_eq!(advice.len(), 1, "a torn record means that nothing was changed: {advice:?}");
        assert!(advice[0].0.contains("950 of 1000") && advice[0].1.contains("nf_conntrack_max"));
        put("run/gabion-guard/1-0.undo", "what\nend\n");
        assert_eq!(GuardHealth::look_below(root.path()).advice().count(), 2);
    }

    #[test]
    fn this_machine_is_looked_at_without_any_change() {
        let found = GuardHealth::look_below(Path::new("/"));
        assert!(found.instruments.iter().any(|(name, ..)| name == "softirq"));
        assert!(
            found
                .interfaces
                .iter()
                .all(|(name, what, next)| { name != "lo" && !what.is_empty() && !next.is_empty() })
        );
    }
}
