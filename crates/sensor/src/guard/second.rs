//! What a watch reports once a second: sums of the control periods, by CPU and for the host.

use super::host_counters::HostCounters;
use super::verdicts::GuardVerdicts;
use gabion_guard::settings::{CALM_AFTER_S, PERIODS_A_SECOND};
use gabion_guard::{CpuSample, Sample, Vector, quantile};
use gabion_record::json::Json;
use std::collections::{BTreeMap, VecDeque};

/// Periods that a line of a terminal shows.
const SHOWN: usize = 64;
/// Grace periods of which the calm ones are remembered: a minute.
const CALM_GRACE: usize = 600;

/// What a CPU did in a second. Shares are of its time, 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuardCpuSecond {
    /// The CPU.
    pub cpu: u16,
    /// Packet work: NET_RX and NAPI threads.
    pub packet_work: f64,
    /// The part of it in ksoftirqd.
    pub in_ksoftirqd: f64,
    /// The part of it in NAPI threads.
    pub in_threads: f64,
    /// Other vectors.
    pub vectors: Vec<(Vector, f64)>,
    /// Stolen by the hypervisor.
    pub steal: f64,
    /// Packets.
    pub packets: u64,
    /// Softirq runs.
    pub runs: u64,
    /// 99th percentile and maximum of the lateness of the gap probe, in microseconds.
    pub gaps_us: Option<(u32, u32)>,
    /// Packets that the backlog dropped.
    pub backlog_dropped: u64,
    /// CPU time of the softirq programs as a share: runs multiplied by a calibrated cost.
    pub program_cost: f64,
    /// The detail is left out because it would cost more than 2 % of the CPU.
    pub is_without_detail: bool,
    /// Packet work of the last periods of 8 ms, percent.
    pub recent: Vec<u8>,
}

impl GuardCpuSecond {
    /// Why the detail is left out, and what the programs cost nevertheless; none where it is there.
    #[must_use]
    pub fn without_detail(&self) -> Option<String> {
        let cost = self.program_cost * 100.0;
        self.is_without_detail.then(|| {
            format!("{} softirqs: without detail, and still {cost:.1} % for programs", self.runs)
        })
    }
}

/// What happened in a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuardSecond {
    /// Its end, in milliseconds since the watch began.
    pub at_ms: u64,
    /// By CPU.
    pub cpus: Vec<GuardCpuSecond>,
    /// Median and maximum of grace periods in microseconds, and the 99th percentile of calm seconds: those outside of
    /// incidents and of the 10 s after one.
    pub grace_us: Option<(u32, u32, u32)>,
    /// Tables: name, entries, the most that it holds.
    pub tables: Vec<(&'static str, u64, u64)>,
    /// Counters of the seed's route cache: entries, and overflows since boot.
    pub route_cache: Option<(u64, u64)>,
    /// Pressure stall information of the CPU, percent of 10 s.
    pub pressure: Option<f64>,
    /// Packets by device since the watch began.
    pub devices: Vec<(String, u64)>,
    /// CPU time of this process as a share of a CPU, without the programs in the kernel.
    pub own_cost: f64,
    /// CPU time of the programs in the kernel as a share of a CPU, all CPUs together: runs multiplied by a calibrated cost.
    pub program_cost: f64,
    /// What the throttle does; none without one.
    pub throttle: Option<GuardVerdicts>,
    /// The controller's reason.
    pub reason: String,
    /// The line of the incident that lasts.
    pub incident: Option<String>,
}

/// Sums of a second that has begun.
#[derive(Debug, Default)]
pub(super) struct SecondSums {
    periods: usize,
    cpus: BTreeMap<u16, CpuSums>,
    grace: Vec<u32>,
    calm_grace: VecDeque<u32>,
    /// Until when time does not count as calm, in milliseconds of the watch.
    disturbed_until_ms: u64,
    own_ns: u64,
}

#[derive(Debug, Default)]
struct CpuSums {
    covered_us: u64,
    work_us: u64,
    ksoftirqd_us: u64,
    thread_us: u64,
    vectors_us: Vec<u64>,
    steal_us: u64,
    packets: u64,
    backlog_dropped: u64,
    gaps: Vec<u32>,
    recent: VecDeque<u8>,
}

impl CpuSums {
    fn add(&mut self, cpu: &CpuSample) {
        let work = cpu.work_us().unwrap_or(0);
        self.covered_us += u64::from(cpu.covered_us);
        self.work_us += work;
        self.ksoftirqd_us += u64::from(cpu.ksoftirqd_us);
        self.thread_us += u64::from(cpu.thread_us);
        self.steal_us += u64::from(cpu.steal_us);
        self.packets += cpu.packets.unwrap_or(0);
        self.backlog_dropped += cpu.backlog_dropped;
        self.vectors_us.resize(Vector::SOFTIRQS.len(), 0);
        for (sum, us) in self.vectors_us.iter_mut().zip(cpu.vectors_us) {
            *sum += u64::from(us);
        }
        self.gaps.extend(cpu.ended_gap_us);
        let percent = work.saturating_mul(100) / u64::from(cpu.covered_us.max(1));
        self.recent.push_back(u8::try_from(percent.min(100)).unwrap_or(100));
        if self.recent.len() > SHOWN {
            self.recent.pop_front();
        }
    }

    /// The second's figures; the sums begin again, and the recent periods stay.
    fn finish_cpu(&mut self, number: u16) -> GuardCpuSecond {
        let covered = self.covered_us.max(1) as f64;
        self.gaps.sort_unstable();
        let gaps_us = quantile(&self.gaps, 0.99).zip(self.gaps.last().copied());
        let vectors = self.vectors_us.iter().map(|us| *us as f64 / covered);
        let second = GuardCpuSecond {
            cpu: number,
            packet_work: self.work_us as f64 / covered,
            in_ksoftirqd: self.ksoftirqd_us as f64 / covered,
            in_threads: self.thread_us as f64 / covered,
            vectors: Vector::SOFTIRQS.iter().copied().zip(vectors).collect(),
            steal: self.steal_us as f64 / covered,
            packets: self.packets,
            runs: 0,
            gaps_us,
            backlog_dropped: self.backlog_dropped,
            program_cost: 0.0,
            is_without_detail: false,
            recent: self.recent.iter().copied().collect(),
        };
        let recent = std::mem::take(&mut self.recent);
        *self = CpuSums { recent, ..CpuSums::default() };
        second
    }
}

impl SecondSums {
    /// Takes a period. The second that it ends, if it ends one.
    /// Grace periods count as calm outside of incidents and of the 10 s after one.
    pub(super) fn add_sample(
        &mut self,
        sample: &Sample,
        host: &HostCounters,
        is_incident: bool,
    ) -> Option<GuardSecond> {
        self.periods += 1;
        if is_incident {
            self.disturbed_until_ms = sample.at_ms.saturating_add(CALM_AFTER_S * 1000);
        }
        sample.cpus.iter().for_each(|cpu| self.cpus.entry(cpu.cpu).or_default().add(cpu));
        self.grace.extend(sample.grace_us);
        if self.periods < PERIODS_A_SECOND {
            return None;
        }
        self.periods = 0;
        let mut second = GuardSecond {
            at_ms: sample.at_ms + 8,
            cpus: self.cpus.iter_mut().map(|(number, sums)| sums.finish_cpu(*number)).collect(),
            grace_us: self
                .grace_periods(sample.at_ms.saturating_sub(1000) >= self.disturbed_until_ms),
            own_cost: self.own_cost(),
            ..GuardSecond::default()
        };
        host.describe(&mut second);
        Some(second)
    }

    /// The second's figures; they are remembered where all of it was calm.
    fn grace_periods(&mut self, is_calm: bool) -> Option<(u32, u32, u32)> {
        self.grace.sort_unstable();
        let figures = quantile(&self.grace, 0.5).zip(self.grace.last().copied());
        let mut before: Vec<u32> = self.calm_grace.iter().copied().collect();
        before.sort_unstable();
        let calm = quantile(&before, 0.99);
        self.calm_grace.extend(self.grace.drain(..).filter(|_| is_calm));
        while self.calm_grace.len() > CALM_GRACE {
            self.calm_grace.pop_front();
        }
        figures.map(|(median, most)| (median, most, calm.unwrap_or(most)))
    }

    /// CPU time of the process since the last second, as a share of a second.
    fn own_cost(&mut self) -> f64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let ns = now.tv_sec.cast_unsigned().saturating_mul(1_000_000_000);
        let ns = ns.saturating_add(now.tv_nsec.cast_unsigned());
        let since = ns.saturating_sub(self.own_ns);
        let is_first = self.own_ns == 0;
        self.own_ns = ns;
        if is_first { 0.0 } else { since as f64 / 1e9 }
    }
}

impl GuardSecond {
    /// The second as an object of JSON.
    pub fn write_json(&self, j: &mut Json) {
        let share = |x: f64| (x * 10_000.0).round() / 10_000.0;
        j.open();
        j.number("at_ms", self.at_ms);
        j.field("state", &self.reason);
        if let Some(line) = &self.incident {
            j.field("incident", line);
        }
        j.open_array_key("cpus");
        for cpu in &self.cpus {
            j.open();
            j.number("cpu", cpu.cpu);
            j.float("packet_work", share(cpu.packet_work));
            j.float("in_ksoftirqd", share(cpu.in_ksoftirqd));
            j.float("in_threads", share(cpu.in_threads));
            j.open_key("other_softirqs");
            for (vector, of) in &cpu.vectors {
                j.float(vector.name(), share(*of));
            }
            j.close();
            j.float("steal", share(cpu.steal));
            j.number("packets", cpu.packets);
            j.number("softirq_runs", cpu.runs);
            if let Some((p99, most)) = cpu.gaps_us {
                j.number("gap_p99_us", p99);
                j.number("gap_max_us", most);
            }
            j.number("backlog_dropped", cpu.backlog_dropped);
            j.float("program_cost", share(cpu.program_cost));
            if cpu.is_without_detail {
                j.boolean("without_detail", true);
            }
            j.close();
        }
        j.close_array();
        if let Some(throttle) = &self.throttle {
            throttle.write_json(j);
        }
        if let Some((median, most, calm)) = self.grace_us {
            j.open_key("grace_periods");
            j.number("median_us", median);
            j.number("max_us", most);
            j.number("before_p99_us", calm);
            j.close();
        }
        j.open_array_key("tables");
        for (name, count, max) in &self.tables {
            j.open();
            j.field_plain("table", name);
            j.number("entries", *count);
            j.number("max", *max);
            j.close();
        }
        j.close_array();
        if let Some((entries, overflows)) = self.route_cache {
            j.open_key("route_cache");
            j.number("entries", entries);
            j.number("gc_dst_overflow", overflows);
            j.close();
        }
        if let Some(pressure) = self.pressure {
            j.float("cpu_pressure_10s", pressure);
        }
        j.open_key("packets_by_device");
        for (name, packets) in &self.devices {
            j.key_text(name.as_bytes());
            j.push_number(*packets);
        }
        j.close();
        j.float("own_cost", share(self.own_cost));
        j.float("program_cost", share(self.program_cost));
        j.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_the_shares_of_its_periods() {
        let mut sums = SecondSums::default();
        let host = HostCounters::default();
        let mut found = None;
        for n in 0..PERIODS_A_SECOND as u64 {
            let cpu = CpuSample {
                cpu: 3,
                covered_us: 8000,
                rx_us: Some(2000),
                ksoftirqd_us: 1000,
                packets: Some(8),
                ended_gap_us: Some(n as u32),
                ..CpuSample::default()
            };
            assert!(found.is_none());
            let sample = Sample { cpus: vec![cpu], grace_us: Some(9000), ..Sample::at(n * 8) };
            found = sums.add_sample(&sample, &host, false);
        }
        let second = found.unwrap();
        let cpu = &second.cpus[0];
        assert_eq!((cpu.cpu, cpu.packet_work, cpu.in_ksoftirqd), (3, 0.25, 0.125));
        assert_eq!((cpu.packets, cpu.gaps_us), (1000, Some((123, 124))));
        assert_eq!((second.at_ms, second.grace_us), (1000, Some((9000, 9000, 9000))));
        assert_eq!(cpu.recent.len(), SHOWN);
        let mut j = Json::new();
        second.write_json(&mut j);
        let text = String::from_utf8(j.take_bytes()).unwrap();
        assert!(text.starts_with("{\"at_ms\":1000,"), "{text}");
        assert!(text.contains("\"packet_work\":0.25"), "{text}");
    }

    #[test]
    fn detail_that_is_left_out_is_reported_with_its_cost() {
        let mut cpu = GuardCpuSecond {
            runs: 120_000,
            program_cost: 0.0228,
            is_without_detail: true,
            ..GuardCpuSecond::default()
        };
        let line = "120000 softirqs: without detail, and still 2.3 % for programs";
        assert_eq!(cpu.without_detail().as_deref(), Some(line));
        let second = GuardSecond { cpus: vec![cpu.clone()], ..GuardSecond::default() };
        let mut j = Json::new();
        second.write_json(&mut j);
        let text = String::from_utf8(j.take_bytes()).unwrap();
        let members = "\"program_cost\":0.0228,\"without_detail\":true";
        assert!(text.contains(members), "{text}");
        cpu.is_without_detail = false;
        assert_eq!(cpu.without_detail(), None);
    }

    /// Seconds with a grace period of this length each: what they are compared with.
    fn calm_of(sums: &mut SecondSums, seconds: std::ops::Range<u64>, us: u32, is: bool) -> u32 {
        let mut calm = 0;
        for ms in (seconds.start * 1000..seconds.end * 1000).step_by(8) {
            let sample = Sample { grace_us: Some(us), ..Sample::at(ms) };
            let second = sums.add_sample(&sample, &HostCounters::default(), is);
            calm = second.and_then(|second| second.grace_us).map_or(calm, |(_, _, calm)| calm);
        }
        calm
    }

    #[test]
    fn incidents_and_the_10_s_after_them_are_no_calm_grace_periods() {
        let mut sums = SecondSums::default();
        assert_eq!(calm_of(&mut sums, 0..4, 9000, false), 9000);
        assert_eq!(calm_of(&mut sums, 4..9, 90_000, true), 9000);
        assert_eq!(calm_of(&mut sums, 9..18, 50_000, false), 9000);
        // A minute later only the newest count.
        calm_of(&mut sums, 19..80, 7000, false);
        assert_eq!(calm_of(&mut sums, 80..81, 7000, false), 7000);
    }

    /// On one CPU membarrier waits for nothing, and there are no grace periods.
    #[test]
    fn without_grace_periods_a_second_has_none() {
        let mut sums = SecondSums::default();
        let mut found = None;
        for n in 0..PERIODS_A_SECOND as u64 {
            let cpu = CpuSample { covered_us: 8000, rx_us: Some(800), ..CpuSample::default() };
            let sample = Sample { cpus: vec![cpu], ..Sample::at(n * 8) };
            found = sums.add_sample(&sample, &HostCounters::default(), false);
        }
        let second = found.unwrap();
        assert_eq!((second.grace_us, second.cpus.len()), (None, 1));
        let mut j = Json::new();
        second.write_json(&mut j);
        let text = String::from_utf8(j.take_bytes()).unwrap();
        assert!(text.contains("\"packet_work\":0.1") && !text.contains("grace_periods"), "{text}");
    }
}
