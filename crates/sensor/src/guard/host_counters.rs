//! The counters of the host that a watch reads: backlogs, tables, route cache, steal and pressure. Each that is absent is
//! one line.

use super::host::{self, Counters, Softnet};
use super::second::GuardSecond;
use gabion_guard::recording::{Bucket, Column};
use gabion_guard::{Table, TableFill};
use gabion_probe::netlink::{NeighbourTable, neighbour_tables};
use gabion_probe::softirq::Instruments;
use rustix::net::netdevice::{index_to_name, name_to_index};
use rustix::net::{AddressFamily, SocketType, socket};
use std::collections::BTreeMap;

/// Microseconds of a tick of `/proc/stat`: USER_HZ is 100 on all architectures of Linux but Alpha.
const TICK_US: u64 = 10_000;

/// The files, and what they said last.
#[derive(Debug, Default)]
pub(super) struct HostCounters {
    softnet: Option<Counters>,
    conntrack: Option<(Counters, Counters)>,
    /// Entries of each table of neighbours, and the most that it holds.
    neighbours: Vec<(Table, Counters, Counters)>,
    /// How full they were when they were asked for last.
    neighbour_fills: Vec<TableFill>,
    /// Neighbours are asked for by netlink, as in network namespaces without their file.
    asks_neighbours: bool,
    route_cache: Option<Counters>,
    stat: Option<Counters>,
    pressure: Option<Counters>,
    softnet_before: Vec<Softnet>,
    softnet_grown: Vec<Softnet>,
    steal_before: Vec<(u16, u64)>,
    steal_grown: Vec<(u16, u64)>,
    names: BTreeMap<u32, String>,
    /// Packets by interface when the last second ended.
    packets_before: BTreeMap<u32, u64>,
    text: Vec<u8>,
}

impl HostCounters {
    /// Opens what is there, and says what is not.
    pub(super) fn open(absent: &mut Vec<String>) -> HostCounters {
        let mut open = |path: &str, what| match Counters::open(path, what) {
            Ok(counters) => Some(counters),
            Err(line) => {
                absent.push(line.to_string());
                None
            }
        };
        // The thread's own view: another thread may be in another network namespace.
        let net = "/proc/thread-self/net";
        let mut all = HostCounters {
            softnet: open(&format!("{net}/softnet_stat"), "drops of backlogs"),
            route_cache: open(&format!("{net}/stat/rt_cache"), "route cache"),
            stat: open("/proc/stat", "steal"),
            pressure: open("/proc/pressure/cpu", "pressure"),
            ..HostCounters::default()
        };
        let folder = "/proc/sys/net/netfilter";
        let count = open(&format!("{folder}/nf_conntrack_count"), "connection tracking");
        all.conntrack = count.and_then(|count| {
            Some((count, open(&format!("{folder}/nf_conntrack_max"), "connection tracking")?))
        });
        // Only the first network namespace has this file; there is one table for all.
        let quiet = |path: &str| Counters::open(path, "neighbours").ok();
        for (table, name, family) in NEIGHBOURS {
            let entries = quiet(&format!("{net}/stat/{name}"));
            let max = quiet(&format!("/proc/sys/net/{family}/neigh/default/gc_thresh3"));
            all.neighbours.extend(entries.zip(max).map(|(entries, max)| (table, entries, max)));
        }
        if all.neighbours.is_empty() {
            match neighbour_tables() {
                Ok(_) => all.asks_neighbours = true,
                Err(e) => absent.push(format!("neighbours: {e}")),
            }
        }
        all
    }

    /// The columns of a recording that these counters fill.
    pub(super) fn columns(&self) -> Vec<Column> {
        let mut all = Vec::new();
        if self.softnet.is_some() {
            all.extend([Column::BacklogDropped, Column::Squeezed]);
        }
        if self.stat.is_some() {
            all.push(Column::StealUs);
        }
        if self.conntrack.is_some() {
            all.extend([Column::Conntrack, Column::ConntrackMax]);
        }
        if !self.neighbours.is_empty() || self.asks_neighbours {
            all.extend([Column::Neighbours, Column::NeighboursMax]);
        }
        all
    }

    /// Adds the tables to a row of the first CPU, and what grew since the last time if that is due.
    pub(super) fn add(&mut self, row: &mut Bucket, is_due: bool) {
        if row.cpu == 0 {
            self.add_tables(row);
            if is_due {
                self.read_growing();
            }
        }
        let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        if self.softnet.is_some() {
            let of_cpu = self.softnet_grown.iter().find(|grown| grown.cpu == row.cpu);
            let grown = of_cpu.copied().filter(|_| is_due).unwrap_or_default();
            row.set(Column::BacklogDropped, small(grown.dropped));
            row.set(Column::Squeezed, small(grown.squeezed));
        }
        if self.stat.is_some() {
            let of_cpu = self.steal_grown.iter().find(|(cpu, _)| *cpu == row.cpu);
            row.set(Column::StealUs, of_cpu.filter(|_| is_due).map_or(0, |(_, us)| small(*us)));
        }
    }

    fn add_tables(&mut self, row: &mut Bucket) {
        let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let conntrack = self.conntrack_fill();
        self.neighbour_fills = self.ask_neighbours();
        // A recording has the fuller table.
        let neighbours = fuller(&self.neighbour_fills).map(|fill| (fill.count, fill.max));
        for (fill, count, max) in [
            (conntrack, Column::Conntrack, Column::ConntrackMax),
            (neighbours, Column::Neighbours, Column::NeighboursMax),
        ] {
            if let Some((n, most)) = fill {
                row.set(count, small(n));
                row.set(max, small(most));
            }
        }
    }

    fn conntrack_fill(&self) -> Option<(u64, u64)> {
        let (count, max) = self.conntrack.as_ref()?;
        let mut text = Vec::new();
        Some((host::number(count.read_text(&mut text))?, host::number(max.read_text(&mut text))?))
    }

    /// How full the tables of neighbours are.
    fn ask_neighbours(&self) -> Vec<TableFill> {
        if self.asks_neighbours {
            return named_fills(&neighbour_tables().unwrap_or_default());
        }
        let mut text = Vec::new();
        let mut fill = |(table, count, max): &(Table, Counters, Counters)| {
            let count = host::entries(count.read_text(&mut text))?;
            Some(TableFill { table: *table, count, max: host::number(max.read_text(&mut text))? })
        };
        self.neighbours.iter().filter_map(&mut fill).collect()
    }

    /// Replaces the fuller table of neighbours in a sample by each of them, by its name.
    pub(super) fn name_neighbours(&self, tables: &mut Vec<TableFill>) {
        if !self.neighbour_fills.is_empty() {
            tables.retain(|fill| fill.table != Table::Neighbours);
            tables.extend_from_slice(&self.neighbour_fills);
        }
    }

    /// Reads what grows: drops of backlogs and steal.
    fn read_growing(&mut self) {
        let mut text = std::mem::take(&mut self.text);
        if let Some(file) = &self.softnet {
            let now = host::softnet(file.read_text(&mut text));
            self.softnet_grown = grown_softnet(&self.softnet_before, &now);
            self.softnet_before = now;
        }
        if let Some(file) = &self.stat {
            let now = host::steal(file.read_text(&mut text));
            let before = std::mem::replace(&mut self.steal_before, now);
            let since = |(cpu, ticks): &(u16, u64)| {
                let was = before.iter().find(|(c, _)| c == cpu).map_or(*ticks, |(_, t)| *t);
                (*cpu, ticks.saturating_sub(was).saturating_mul(TICK_US))
            };
            self.steal_grown = self.steal_before.iter().map(since).collect();
        }
        self.text = text;
    }

    /// Adds what is known about the host to a second.
    pub(super) fn describe(&self, second: &mut GuardSecond) {
        let mut text = Vec::new();
        let conntrack = self.conntrack_fill().map(|(n, max)| (Table::Conntrack.name(), n, max));
        let neighbours = self.ask_neighbours();
        let neighbours = neighbours.iter().map(|fill| (fill.table.name(), fill.count, fill.max));
        second.tables = conntrack.into_iter().chain(neighbours).collect();
        if let Some(file) = &self.route_cache {
            let text = file.read_text(&mut text);
            second.route_cache = host::entries(text).zip(host::sum(text, "gc_dst_overflow"));
        }
        second.pressure =
            self.pressure.as_ref().and_then(|f| host::pressure(f.read_text(&mut text)));
    }

    /// Adds packets by device, with the names of the interfaces.
    pub(super) fn name_devices(&mut self, softirqs: &Instruments, second: &mut GuardSecond) {
        let Ok(devices) = softirqs.devices() else { return };
        for device in devices {
            self.packets_before.insert(device.interface, device.packets);
            let name = match device.interface {
                0 => "backlog".to_owned(),
                index => self.interface_name(index),
            };
            second.devices.push((name, device.packets));
        }
        second.devices.sort_by_key(|(_, packets)| std::cmp::Reverse(*packets));
    }

    /// The interface of this network namespace that most packets came over since the last second ended. None where they
    /// came over several, or were polled for a backlog, which has no interface.
    pub(super) fn busiest_interface(&self, softirqs: &Instruments) -> Option<(u32, String)> {
        let devices = softirqs.devices().ok()?;
        let now = devices.iter().map(|device| (device.interface, device.packets));
        let index = busiest(&self.packets_before, now)?;
        Some((index, interface_named(index)?))
    }

    /// The name of an interface of this network namespace; its number where it is in another one.
    fn interface_name(&mut self, index: u32) -> String {
        let named = || interface_named(index).unwrap_or_else(|| format!("interface {index}"));
        self.names.entry(index).or_insert_with(named).clone()
    }
}

/// The tables of neighbours: their file below `/proc/net/stat`, which is also their name in netlink, and the family whose
/// setting bounds them.
const NEIGHBOURS: [(Table, &str, &str); 2] =
    [(Table::Neighbours, "arp_cache", "ipv4"), (Table::NeighboursOfIpv6, "ndisc_cache", "ipv6")];

/// The tables in an answer of the kernel that are known by name.
fn named_fills(tables: &[NeighbourTable]) -> Vec<TableFill> {
    let fill = |(table, name, _): &(Table, &str, &str)| {
        let found = tables.iter().find(|table| table.name == *name)?;
        let (count, max) = (found.entries.into(), found.max.into());
        Some(TableFill { table: *table, count, max })
    };
    NEIGHBOURS.iter().filter_map(fill).collect()
}

/// The table that is closest to full.
fn fuller(fills: &[TableFill]) -> Option<TableFill> {
    let share = |fill: &TableFill| fill.count as f64 / fill.max.max(1) as f64;
    fills.iter().copied().max_by(|a, b| share(a).total_cmp(&share(b)))
}

/// The interface with more than half of the packets that came since.
fn busiest(before: &BTreeMap<u32, u64>, now: impl Iterator<Item = (u32, u64)>) -> Option<u32> {
    let grown = |(index, n): (u32, u64)| {
        (index, n.saturating_sub(before.get(&index).copied().unwrap_or(0)))
    };
    let all: Vec<(u32, u64)> = now.map(grown).collect();
    let sum = all.iter().fold(0u64, |sum, (_, n)| sum.saturating_add(*n));
    let (index, most) = all.into_iter().max_by_key(|(_, n)| *n)?;
    (index != 0 && most > sum / 2).then_some(index)
}

/// The name of an interface of this thread's network namespace.
fn interface_named(index: u32) -> Option<String> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).ok()?;
    index_to_name(socket, index).ok()
}

/// The index of an interface of this thread's network namespace.
pub(super) fn interface_index(name: &str) -> Option<u32> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).ok()?;
    name_to_index(socket, name).ok()
}

/// How much the counters of each CPU grew; counters that are there for the first time did not grow.
fn grown_softnet(before: &[Softnet], now: &[Softnet]) -> Vec<Softnet> {
    let since = |new: &Softnet| {
        let old = before.iter().find(|old| old.cpu == new.cpu).copied().unwrap_or(*new);
        Softnet {
            cpu: new.cpu,
            dropped: new.dropped.saturating_sub(old.dropped),
            squeezed: new.squeezed.saturating_sub(old.squeezed),
        }
    };
    now.iter().map(since).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_with_most_of_the_new_packets_is_the_busiest() {
        let before = BTreeMap::from([(2, 1000), (3, 10)]);
        let found = |now: &[(u32, u64)]| busiest(&before, now.iter().copied());
        assert_eq!(found(&[(2, 1010), (3, 40), (4, 5)]), Some(3));
        assert_eq!(found(&[(2, 1010), (3, 20)]), None, "two share them");
        assert_eq!(found(&[(0, 900), (3, 20)]), None, "the backlog is no interface");
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn both_tables_of_neighbours_are_named_and_a_recording_has_the_fuller() {
        let table =
            |name: &str, entries, max| NeighbourTable { name: name.to_owned(), entries, max };
        let all = [table("ndisc_cache", 900, 1024), table("arp_cache", 1000, 4096)];
        let fills = named_fills(&all);
        let (v4, v6) = (Table::Neighbours, Table::NeighboursOfIpv6);
        let of = |table, count, max| TableFill { table, count, max };
        assert_eq!(fills, [of(v4, 1000, 4096), of(v6, 900, 1024)]);
        assert_eq!(fuller(&fills), Some(of(v6, 900, 1024)));
        let host = HostCounters { neighbour_fills: fills.clone(), ..HostCounters::default() };
        let mut tables = vec![of(Table::Conntrack, 1, 2), of(v4, 900, 1024)];
        host.name_neighbours(&mut tables);
        assert_eq!(tables, [of(Table::Conntrack, 1, 2), fills[0], fills[1]]);
        assert_eq!(v6.name(), "neighbours of IPv6");
    }

    #[test]
    fn counters_grow_by_cpu_and_a_new_cpu_did_not_grow() {
        let of = |cpu, dropped| Softnet { cpu, dropped, squeezed: 0 };
        let grown = grown_softnet(&[of(0, 5), of(2, 9)], &[of(0, 7), of(2, 9), of(3, 100)]);
        assert_eq!(grown, [of(0, 2), of(2, 0), of(3, 0)]);
    }
}
