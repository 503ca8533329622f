//! From rows of a recording to the samples of control periods.

use crate::cause::Table;
use crate::recording::{Bucket, Column, Recording, XdpColumn, XdpRow};
use crate::sample::{CpuSample, PacketSample, Sample, TableFill};
use crate::settings::{BUCKET_US, PERIOD_US};
use std::collections::BTreeSet;

/// The samples of a recording, in order of time. Periods without any row are left out.
pub struct Periods<'a> {
    buckets: &'a [Bucket],
    xdp: &'a [XdpRow],
    before: Option<&'a XdpRow>,
    watched: Watched,
}

/// The CPUs whose packet work makes an incident.
///
/// Where gaps of user programs are probed, these are the CPUs with a probe: the others carry no user program that could
/// be starved, as the CPU of a load generator, whose own system calls run packet work. Without any probe all CPUs are
/// watched. A recording of a throttle names in its head the CPUs that its budget is about (`cpus=1,3`).
#[derive(Clone, Debug, Default)]
struct Watched(Option<BTreeSet<u16>>);

impl Watched {
    fn from_recording(recording: &Recording) -> Watched {
        if let Some(list) = recording.head_value("cpus") {
            let named: BTreeSet<u16> =
                list.split(',').filter_map(|cpu| cpu.trim().parse().ok()).collect();
            return Watched((!named.is_empty()).then_some(named));
        }
        let probed: BTreeSet<u16> = recording
            .buckets
            .iter()
            .filter(|row| row.get(Column::UserGapUs).is_some())
            .map(|row| row.cpu)
            .collect();
        Watched((!probed.is_empty()).then_some(probed))
    }

    fn has(&self, cpu: u16) -> bool {
        self.0.as_ref().is_none_or(|cpus| cpus.contains(&cpu))
    }
}

impl<'a> Periods<'a> {
    /// The periods of a recording whose rows are in order.
    #[must_use]
    pub fn new(recording: &'a Recording) -> Periods<'a> {
        Periods {
            buckets: &recording.buckets,
            xdp: &recording.xdp,
            before: None,
            watched: Watched::from_recording(recording),
        }
    }
}

impl Iterator for Periods<'_> {
    type Item = Sample;

    fn next(&mut self) -> Option<Sample> {
        let period = |at_us: u64| at_us / PERIOD_US;
        let first = self.buckets.first().map(|row| period(row.at_us));
        let first_xdp = self.xdp.first().map(|row| period(row.at_us));
        let at = match (first, first_xdp) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b)?,
        };
        let mut sample = Sample::at(at.saturating_mul(PERIOD_US) / 1000);
        let rows = self.buckets.partition_point(|row| period(row.at_us) <= at);
        let (now, rest) = self.buckets.split_at_checked(rows).unwrap_or_default();
        self.buckets = rest;
        for row in now {
            add_bucket(row, self.watched.has(row.cpu), &mut sample);
        }
        let rows = self.xdp.partition_point(|row| period(row.at_us) <= at);
        let (now, rest) = self.xdp.split_at_checked(rows).unwrap_or_default();
        self.xdp = rest;
        if let Some(last) = now.last() {
            sample.packets = Some(packets_between(self.before, last));
            self.before = Some(last);
        }
        Some(sample)
    }
}

/// Adds a row to the sample of its period. Of a CPU that is not watched only what concerns the host is taken.
pub(crate) fn add_bucket(row: &Bucket, is_watched: bool, sample: &mut Sample) {
    if let Some(us) = row.get(Column::MembarrierUs).filter(|us| *us > 0) {
        sample.grace_us = Some(sample.grace_us.unwrap_or(0).max(us));
    }
    for (table, count, max) in [
        (Table::Conntrack, Column::Conntrack, Column::ConntrackMax),
        (Table::Neighbours, Column::Neighbours, Column::NeighboursMax),
    ] {
        if let (Some(count), Some(max)) = (row.get(count), row.get(max)) {
            sample.tables.retain(|fill| fill.table != table);
            sample.tables.push(TableFill { table, count: count.into(), max: max.into() });
        }
    }
    if !is_watched {
        return;
    }
    let at = match sample.cpus.iter().position(|cpu| cpu.cpu == row.cpu) {
        Some(at) => at,
        None => {
            sample.cpus.push(CpuSample { cpu: row.cpu, ..CpuSample::default() });
            sample.cpus.len() - 1
        }
    };
    let Some(cpu) = sample.cpus.get_mut(at) else { return };
    cpu.covered_us = cpu.covered_us.saturating_add(BUCKET_US as u32);
    let add = |sum: &mut u32, column| *sum = sum.saturating_add(row.or_zero(column));
    if let Some(us) = row.get(Column::RxUs) {
        cpu.rx_us = Some(cpu.rx_us.unwrap_or(0).saturating_add(us));
    }
    add(&mut cpu.ksoftirqd_us, Column::RxKsdUs);
    add(&mut cpu.thread_us, Column::NapiThreadUs);
    add(&mut cpu.steal_us, Column::StealUs);
    let vectors = [
        Column::TxUs,
        Column::TimerUs,
        Column::SchedUs,
        Column::RcuUs,
        Column::BlockUs,
        Column::TaskletUs,
    ];
    for (sum, column) in cpu.vectors_us.iter_mut().zip(vectors) {
        add(sum, column);
    }
    if let Some(n) = row.get(Column::Packets) {
        cpu.packets = Some(cpu.packets.unwrap_or(0).saturating_add(n.into()));
    }
    if let Some(us) = row.get(Column::UserGapUs) {
        cpu.gap_us = Some(cpu.gap_us.unwrap_or(0).max(us));
    }
    cpu.backlog_dropped =
        cpu.backlog_dropped.saturating_add(row.or_zero(Column::BacklogDropped).into());
}

/// What the throttle did from one row of its counters to a later one.
pub(crate) fn packets_between(before: Option<&XdpRow>, now: &XdpRow) -> PacketSample {
    let since = |column| now.since(before, column);
    let exempt = since(XdpColumn::Other).saturating_add(since(XdpColumn::Exempt));
    let allowed = since(XdpColumn::Allow);
    PacketSample {
        admitted: since(XdpColumn::Pass).saturating_add(allowed).saturating_add(exempt),
        allowed,
        exempt,
        dropped_budget: since(XdpColumn::DropBudget).saturating_add(since(XdpColumn::DropCharge)),
        dropped_limit: since(XdpColumn::DropPackets).saturating_add(since(XdpColumn::DropNew)),
        new_flows: since(XdpColumn::NewFlows),
        ..PacketSample::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(at_ms: u64, cpu: u16, values: &[(Column, u32)]) -> Bucket {
        let mut row = Bucket::new(at_ms * 1000, cpu);
        values.iter().for_each(|(column, value)| row.set(*column, *value));
        row
    }

    #[test]
    fn two_buckets_of_a_cpu_make_a_period_and_a_missing_one_is_not_covered() {
        let mut recording = Recording::default();
        recording.push_bucket(row(0, 0, &[(Column::RxUs, 100)]));
        recording.push_bucket(row(4, 0, &[(Column::RxUs, 50), (Column::MembarrierUs, 9000)]));
        recording.push_bucket(row(12, 0, &[(Column::RxUs, 7)]));
        recording.push_bucket(row(u64::MAX / 2000, 0, &[]));
        let samples: Vec<Sample> = Periods::new(&recording).collect();
        assert_eq!(samples.len(), 3, "periods without rows are left out");
        assert_eq!((samples[0].cpus[0].covered_us, samples[0].cpus[0].rx_us), (8000, Some(150)));
        assert_eq!(samples[0].grace_us, Some(9000));
        assert_eq!((samples[1].at_ms, samples[1].cpus[0].covered_us), (8, 4000));
        assert_eq!(samples[2].cpus[0].rx_us, None);
    }

    #[test]
    fn only_cpus_with_a_gap_probe_are_watched_where_there_is_one() {
        let mut recording = Recording::default();
        recording.push_bucket(row(0, 0, &[(Column::RxUs, 4000)]));
        recording.push_bucket(row(0, 1, &[(Column::RxUs, 100), (Column::UserGapUs, 0)]));
        let sample = Periods::new(&recording).next().unwrap();
        assert_eq!(sample.cpus.iter().map(|cpu| cpu.cpu).collect::<Vec<_>>(), [1]);
        recording.head.push(("cpus".to_owned(), "0".to_owned()));
        let sample = Periods::new(&recording).next().unwrap();
        assert_eq!(sample.cpus.iter().map(|cpu| cpu.cpu).collect::<Vec<_>>(), [0]);
        recording.head.clear();
        recording.drop_column(Column::UserGapUs);
        let sample = Periods::new(&recording).next().unwrap();
        assert_eq!(sample.cpus.len(), 2);
    }

    #[test]
    fn counters_become_differences_and_one_that_fell_began_again() {
        let mut recording = Recording::default();
        for (at_us, pass) in [(2000, 5), (12_000, 9), (20_000, 3)] {
            let mut row = XdpRow::new(at_us);
            row.set(XdpColumn::Pass, pass);
            recording.push_xdp(row);
        }
        let admitted: Vec<u64> =
            Periods::new(&recording).filter_map(|s| s.packets).map(|p| p.admitted).collect();
        assert_eq!(admitted, [5, 4, 3]);
    }
}
