//! The strips of a report: what a recording shows, in bins of equal length on one axis of time.

use crate::cause::Table;
use crate::diagnosis::{Diagnosis, Gap};
use crate::limits::{BINS_MAX, reached};
use crate::periods::packets_between;
use crate::recording::{Bucket, Column, Recording, XdpColumn};
use crate::settings::BUCKET_US;
use std::collections::BTreeMap;

/// Packet work of a CPU, by bin, as shares of the time that was covered, 0 to 1; none where nothing was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuStrip {
    /// The CPU.
    pub cpu: u16,
    /// Inline: after an interrupt or at the end of a system call.
    pub inline: Vec<Option<f64>>,
    /// In ksoftirqd.
    pub ksoftirqd: Vec<Option<f64>>,
    /// In NAPI threads.
    pub thread: Vec<Option<f64>>,
    /// The most runs of NET_RX in one bucket of 4 ms.
    pub runs: Vec<u32>,
}

/// What the throttle did, by bin, in packets a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PacketStrip {
    /// Passed.
    pub passed: Vec<f64>,
    /// Dropped by the budget.
    pub dropped_budget: Vec<f64>,
    /// Dropped by a limit of packets or new flows.
    pub dropped_limit: Vec<f64>,
    /// The estimate of the cost of a packet at the end of the bin, in nanoseconds.
    pub cost_ns: Vec<Option<u64>>,
}

/// All strips of a stretch of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Strips {
    /// Its begin, in microseconds.
    pub from_us: u64,
    /// Length of a bin, in microseconds.
    pub bin_us: u64,
    /// Number of bins.
    pub bins: usize,
    /// CPUs, those with the most packet work first.
    pub cpus: Vec<CpuStrip>,
    /// What the throttle did; none without one.
    pub packets: Option<PacketStrip>,
    /// Packets polled, a second; none without the instrument.
    pub polled: Option<Vec<f64>>,
    /// The largest gap of a user program that began in the bin, with the packet work inside it, in microseconds.
    pub gaps: Option<Vec<(u32, u32)>>,
    /// The longest grace period that began in the bin, in microseconds; none without the instrument.
    pub grace_us: Option<Vec<u32>>,
    /// Packets that backlogs dropped, a second; none without the instrument.
    pub backlog_dropped: Option<Vec<f64>>,
    /// How full tables are, 0 to 1.
    pub tables: Vec<(Table, Vec<Option<f64>>)>,
}

impl Strips {
    /// The strips of a recording from one moment to another in bins of this length, in microseconds. Bins become longer
    /// where they would be too many.
    #[must_use]
    pub fn over(
        recording: &Recording,
        found: &Diagnosis,
        (from_us, to_us): (u64, u64),
        bin_us: u64,
    ) -> Strips {
        let span = to_us.saturating_sub(from_us).max(1);
        let mut bin_us = bin_us.max(BUCKET_US);
        if span / bin_us >= BINS_MAX as u64 {
            reached::BINS_MAX.count();
            bin_us = span.div_ceil(BINS_MAX as u64).next_multiple_of(BUCKET_US);
        }
        let bins = usize::try_from(span.div_ceil(bin_us)).unwrap_or(BINS_MAX).min(BINS_MAX);
        let mut strips = Strips { from_us, bin_us, bins, ..Strips::default() };
        let first = recording.buckets.partition_point(|row| row.at_us < from_us);
        let rows = recording.buckets.get(first..).unwrap_or_default();
        let last = rows.partition_point(|row| row.at_us < to_us);
        let rows = rows.get(..last).unwrap_or_default();
        strips.take_cpus(rows, recording);
        strips.take_host(rows, recording);
        strips.take_packets(recording, to_us);
        strips.take_gaps(&found.gaps, recording, to_us);
        strips
    }

    fn bin(&self, at_us: u64) -> usize {
        usize::try_from(at_us.saturating_sub(self.from_us) / self.bin_us.max(1))
            .unwrap_or(usize::MAX)
    }

    fn take_cpus(&mut self, rows: &[Bucket], recording: &Recording) {
        if !recording.columns.has(Column::RxUs) {
            return;
        }
        #[derive(Clone, Copy, Default)]
        struct Sum {
            covered: u64,
            inline: u64,
            ksoftirqd: u64,
            thread: u64,
            runs: u32,
        }
        let mut sums: BTreeMap<u16, Vec<Sum>> = BTreeMap::new();
        for row in rows {
            let bin = self.bin(row.at_us);
            let cpu = sums.entry(row.cpu).or_insert_with(|| vec![Sum::default(); self.bins]);
            let (Some(sum), Some(rx)) = (cpu.get_mut(bin), row.get(Column::RxUs)) else { continue };
            let ksoftirqd = row.or_zero(Column::RxKsdUs).min(rx);
            sum.covered += BUCKET_US;
            sum.inline += u64::from(rx - ksoftirqd);
            sum.ksoftirqd += u64::from(ksoftirqd);
            sum.thread += u64::from(row.or_zero(Column::NapiThreadUs));
            sum.runs = sum.runs.max(row.or_zero(Column::RxN));
        }
        let mut cpus: Vec<(u64, CpuStrip)> = Vec::new();
        for (cpu, sums) in sums {
            let share = |of: fn(&Sum) -> u64| -> Vec<Option<f64>> {
                let of = |s: &Sum| (s.covered > 0).then(|| of(s) as f64 / s.covered as f64);
                sums.iter().map(of).collect()
            };
            let work = sums.iter().map(|s| s.inline + s.ksoftirqd + s.thread).sum();
            let strip = CpuStrip {
                cpu,
                inline: share(|s| s.inline),
                ksoftirqd: share(|s| s.ksoftirqd),
                thread: share(|s| s.thread),
                runs: sums.iter().map(|s| s.runs).collect(),
            };
            cpus.push((work, strip));
        }
        cpus.sort_by_key(|(work, _)| std::cmp::Reverse(*work));
        self.cpus = cpus.into_iter().map(|(_, strip)| strip).collect();
    }

    /// What is measured for the whole host.
    fn take_host(&mut self, rows: &[Bucket], recording: &Recording) {
        let a_second = 1e6 / self.bin_us as f64;
        let sum = |column| {
            let mut bins = vec![0.0; self.bins];
            for row in rows {
                if let Some(bin) = bins.get_mut(self.bin(row.at_us)) {
                    *bin += f64::from(row.or_zero(column)) * a_second;
                }
            }
            recording.columns.has(column).then_some(bins)
        };
        let polled = sum(Column::Packets);
        let backlog_dropped = sum(Column::BacklogDropped);
        let mut grace = vec![0; self.bins];
        for row in rows {
            if let Some(bin) = grace.get_mut(self.bin(row.at_us)) {
                *bin = row.or_zero(Column::MembarrierUs).max(*bin);
            }
        }
        let mut tables = Vec::new();
        for (table, count, max) in [
            (Table::Conntrack, Column::Conntrack, Column::ConntrackMax),
            (Table::Neighbours, Column::Neighbours, Column::NeighboursMax),
        ] {
            let mut fills = vec![None; self.bins];
            for row in rows {
                if let (Some(count), Some(max)) = (row.get(count), row.get(max))
                    && let Some(bin) = fills.get_mut(self.bin(row.at_us))
                {
                    *bin = Some(f64::from(count) / f64::from(max.max(1)));
                }
            }
            if recording.columns.has(count) {
                tables.push((table, fills));
            }
        }
        self.grace_us = recording.columns.has(Column::MembarrierUs).then_some(grace);
        (self.polled, self.backlog_dropped, self.tables) = (polled, backlog_dropped, tables);
    }

    fn take_packets(&mut self, recording: &Recording, to_us: u64) {
        if recording.xdp.is_empty() {
            return;
        }
        let mut strip = PacketStrip {
            passed: vec![0.0; self.bins],
            dropped_budget: vec![0.0; self.bins],
            dropped_limit: vec![0.0; self.bins],
            cost_ns: vec![None; self.bins],
        };
        let a_second = 1e6 / self.bin_us as f64;
        let mut before = None;
        for row in &recording.xdp {
            if row.at_us >= to_us {
                break;
            }
            if row.at_us >= self.from_us {
                let bin = self.bin(row.at_us);
                let packets = packets_between(before, row);
                for (bins, n) in [
                    (&mut strip.passed, packets.admitted),
                    (&mut strip.dropped_budget, packets.dropped_budget),
                    (&mut strip.dropped_limit, packets.dropped_limit),
                ] {
                    if let Some(sum) = bins.get_mut(bin) {
                        *sum += n as f64 * a_second;
                    }
                }
                if let Some(cost) = strip.cost_ns.get_mut(bin) {
                    *cost = row.get(XdpColumn::CostNs).filter(|ns| *ns > 0).or(*cost);
                }
            }
            before = Some(row);
        }
        self.packets = Some(strip);
    }

    fn take_gaps(&mut self, gaps: &[Gap], recording: &Recording, to_us: u64) {
        if !recording.columns.has(Column::UserGapUs) {
            return;
        }
        let mut bins = vec![(0, 0); self.bins];
        for gap in gaps.iter().filter(|gap| (self.from_us..to_us).contains(&gap.at_us)) {
            if let Some(bin) = bins.get_mut(self.bin(gap.at_us))
                && gap.gap_us > bin.0
            {
                *bin = (gap.gap_us, gap.packet_us);
            }
        }
        self.gaps = Some(bins);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::XdpRow;

    fn recording() -> Recording {
        let mut recording = Recording::default();
        for column in [Column::RxUs, Column::UserGapUs] {
            recording.columns.insert(column);
        }
        for n in 0..50 {
            let mut row = Bucket::new(n * 4000, 1);
            row.set(Column::RxUs, if n < 25 { 4000 } else { 0 });
            row.set(Column::RxKsdUs, 1000);
            row.set(Column::UserGapUs, if n == 3 { 9000 } else { 0 });
            recording.push_bucket(row);
            let mut row = XdpRow::new(n * 4000);
            row.set(XdpColumn::Pass, n * 10);
            recording.push_xdp(row);
        }
        recording
    }

    #[test]
    fn bins_have_shares_of_covered_time_and_rates() {
        let recording = recording();
        let found = crate::diagnose(&recording, crate::Settings::watch());
        let strips = Strips::over(&recording, &found, (0, 200_000), 100_000);
        assert_eq!(strips.bins, 2);
        assert_eq!(strips.cpus[0].inline, [Some(0.75), Some(0.0)]);
        assert_eq!(strips.cpus[0].ksoftirqd, [Some(0.25), Some(0.0)]);
        assert_eq!(strips.packets.as_ref().unwrap().passed, [2400.0, 2500.0]);
        assert_eq!(strips.gaps.as_ref().unwrap()[0], (9000, 9000));
        assert_eq!((strips.grace_us, strips.backlog_dropped), (None, None));
        let later = Strips::over(&recording, &found, (100_000, 108_000), 4000);
        assert_eq!((later.bins, later.cpus[0].inline[0]), (2, Some(0.0)));
        let before = Strips::over(&recording, &found, (900_000, 100_000), 4000);
        assert!(before.cpus.is_empty());
    }

    #[test]
    fn bins_become_longer_where_they_would_be_too_many() {
        let _ = gabion_record::limits::take_reached();
        let recording = recording();
        let strips = Strips::over(&recording, &Diagnosis::default(), (0, u64::MAX), 4000);
        assert!(strips.bins <= BINS_MAX, "{}", strips.bins);
        assert_eq!(gabion_record::limits::take_reached().times_reached(&reached::BINS_MAX), 1);
    }
}
