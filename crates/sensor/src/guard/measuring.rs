//! The instruments of a watch, read together: a row for each CPU and bucket of 4 ms, and a sample for each control period.

use super::host::{self, Absent};
use super::host_counters::HostCounters;
use super::probes::{Measured, Probe, now_us, try_grace_period};
use super::recorder::Recorder;
use super::second::GuardSecond;
use crate::error::Error;
use gabion_guard::recording::{Bucket, Column, Columns};
use gabion_guard::settings::BUCKET_US;
use gabion_guard::{CpuSample, Sample};
use gabion_probe::softirq::{self, Instruments};

/// Buckets between now and the newest that is read: a handler adds its time to the buckets that it crossed when it ends.
const LAG: u64 = 4;
/// Microseconds between two reads of the counters in /proc.
const HOST_EACH_US: u64 = 100_000;
/// Softirq runs a second on a CPU from which the detail costs too much, and below which it is put back.
const DETAIL_RUNS: (u64, u64) = (50_000, 25_000);
/// What entry and exit of a softirq cost, in seconds: 150 ns were measured above an empty pair, and up to 190 with NAPI's
/// polls.
const PROGRAM_SECONDS: f64 = 190e-9;

/// The instruments of a watch.
pub(super) struct Measuring {
    pub(super) softirqs: Instruments,
    pub(super) gaps: Vec<Option<Probe>>,
    grace: Option<Probe>,
    pub(super) host: HostCounters,
    /// The next bucket that is read, on the monotonic clock in buckets.
    next_epoch: u64,
    first_epoch: u64,
    host_read_us: u64,
    /// Softirq runs of each CPU a second ago, and whether its detail is off.
    runs: Vec<(u32, bool)>,
}

impl Measuring {
    pub(super) fn start(absent: &mut Vec<String>) -> Result<Measuring, Error> {
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        let cpus = host::cpus(&online).unwrap_or(1);
        let softirqs = Instruments::attach(cpus)?;
        absent.extend(softirqs.absent().iter().map(ToString::to_string));
        absent.extend(preemptible_softirqs());
        let gaps = (0..softirqs.cpus())
            .map(|cpu| match Probe::of_gaps(cpu) {
                Ok(probe) => Some(probe),
                Err(e) => {
                    absent.push(format!("gaps of CPU {cpu}: {e}"));
                    None
                }
            })
            .collect();
        let grace = grace_probe(try_grace_period(), absent)?;
        let first_epoch = softirq::epoch_at(now_us());
        let runs = (0..softirqs.cpus()).map(|cpu| (softirqs.runs(cpu), false)).collect();
        let host = HostCounters::open(absent);
        Ok(Measuring {
            softirqs,
            gaps,
            grace,
            host,
            next_epoch: first_epoch,
            first_epoch,
            host_read_us: 0,
            runs,
        })
    }

    /// The columns that a recording of these instruments has.
    pub(super) fn columns(&self) -> Columns {
        let has_gaps = self.gaps.iter().any(Option::is_some);
        columns_of(has_gaps, self.grace.is_some(), &self.host)
    }

    /// A moment of the watch on the monotonic clock.
    pub(super) fn monotonic_ns(&self, at_ms: u64) -> u64 {
        (self.first_epoch * BUCKET_US).saturating_add(at_ms * 1000).saturating_mul(1000)
    }

    /// Reads all buckets whose time is over, as samples of control periods.
    pub(super) fn read_samples(&mut self, recorder: &mut Recorder) -> Vec<Sample> {
        let end = softirq::epoch_at(now_us()).saturating_sub(LAG);
        // The ring of the programs holds a second: what is older is lost, as if its rows were missing.
        let oldest = end.saturating_sub(softirq::BUCKETS as u64 - 2 * LAG);
        self.next_epoch = self.next_epoch.max(oldest);
        let mut samples: Vec<Sample> = Vec::new();
        // A period has two buckets: an odd one waits for its pair.
        while self.next_epoch + 1 < end {
            let since = self.next_epoch.saturating_sub(self.first_epoch);
            let mut sample = Sample::at(since * BUCKET_US / 1000);
            self.add_measured(&mut sample, recorder);
            for epoch in self.next_epoch..self.next_epoch + 2 {
                self.add_rows(epoch, &mut sample, recorder);
            }
            self.host.name_neighbours(&mut sample.tables);
            self.next_epoch += 2;
            samples.push(sample);
        }
        samples
    }

    /// Adds the rows of a bucket.
    fn add_rows(&mut self, epoch: u64, sample: &mut Sample, recorder: &mut Recorder) {
        let at_us = epoch.saturating_sub(self.first_epoch) * BUCKET_US;
        let is_due = now_us().saturating_sub(self.host_read_us) >= HOST_EACH_US;
        for cpu in 0..self.gaps.len() {
            let Ok(number) = u16::try_from(cpu) else { continue };
            let mut row = Bucket::new(at_us, number);
            fill(&self.softirqs.bucket(cpu, epoch).unwrap_or_default(), &mut row);
            if self.gaps.get(cpu).is_some_and(Option::is_some) {
                row.set(Column::UserGapUs, 0);
            }
            if cpu == 0 && self.grace.is_some() {
                row.set(Column::MembarrierUs, 0);
            }
            self.host.add(&mut row, is_due);
            // A gap of 0 µs is no measurement of the controller: its probe reports gaps when they end.
            sample.add_bucket(&row);
            recorder.push(row);
        }
        for cpu in &mut sample.cpus {
            cpu.gap_us = None;
            // Without detail packets are not counted: that is no measurement of none.
            if self.runs.get(usize::from(cpu.cpu)).is_some_and(|(_, is_off)| *is_off) {
                cpu.packets = None;
            }
        }
        if is_due {
            self.host_read_us = now_us();
        }
    }

    /// Adds gaps and grace periods that ended since the last period.
    fn add_measured(&mut self, sample: &mut Sample, recorder: &mut Recorder) {
        let begin_us = self.first_epoch * BUCKET_US;
        let limit = |us: u64| u32::try_from(us).unwrap_or(u32::MAX);
        for (cpu, probe) in self.gaps.iter_mut().enumerate() {
            let mut largest: Option<u32> = None;
            let Some(probe) = probe else { continue };
            probe.drain_measured(&mut |Measured { began_us, us }| {
                largest = Some(largest.unwrap_or(0).max(limit(us)));
                if us > 500 {
                    let at = began_us.saturating_sub(begin_us);
                    recorder.amend(at, cpu, Column::UserGapUs, limit(us));
                }
            });
            if let Ok(cpu) = u16::try_from(cpu) {
                sample.cpus.push(CpuSample { cpu, ended_gap_us: largest, ..CpuSample::default() });
            }
        }
        if let Some(probe) = &mut self.grace {
            probe.drain_measured(&mut |Measured { began_us, us }| {
                sample.grace_us = Some(sample.grace_us.unwrap_or(0).max(limit(us)));
                let at = began_us.saturating_sub(begin_us);
                recorder.amend(at, 0, Column::MembarrierUs, limit(us));
            });
        }
    }

    /// Leaves the detail out on CPUs whose softirqs are so frequent that it costs too much, and puts it back.
    pub(super) fn limit_detail(&mut self, second: &mut GuardSecond) {
        for (cpu, (before, is_off)) in self.runs.iter_mut().enumerate() {
            let now = self.softirqs.runs(cpu);
            let runs = u64::from(now.wrapping_sub(*before));
            *before = now;
            let wants_off = is_too_much(*is_off, runs);
            let cost = runs as f64 * PROGRAM_SECONDS;
            second.program_cost += cost;
            if wants_off != *is_off {
                *is_off = wants_off;
                self.softirqs.set_detail(cpu, !wants_off);
            }
            if let Some(cpu) = second.cpus.iter_mut().find(|c| usize::from(c.cpu) == cpu) {
                cpu.runs = runs;
                cpu.program_cost = cost;
                cpu.is_without_detail = *is_off;
            }
        }
    }
}

/// The columns that a recording has: those of the softirqs, of the probes that are there, and of the host's counters.
fn columns_of(has_gaps: bool, has_grace: bool, host: &HostCounters) -> Columns {
    let mut columns = Columns::default();
    let mut all = vec![
        Column::RxUs,
        Column::RxN,
        Column::RxKsdUs,
        Column::TxUs,
        Column::TimerUs,
        Column::TimerN,
        Column::SchedUs,
        Column::SchedN,
        Column::RcuUs,
        Column::RcuN,
        Column::BlockUs,
        Column::TaskletUs,
        Column::Packets,
        Column::Polls,
        Column::Full,
        Column::NapiThreadUs,
    ];
    if has_gaps {
        all.push(Column::UserGapUs);
    }
    if has_grace {
        all.push(Column::MembarrierUs);
    }
    all.extend(host.columns());
    all.into_iter().for_each(|column| columns.insert(column));
    columns
}

/// Whether the detail costs too much at this many softirq runs a second: it is left out above the one bound, and put back
/// below the other.
fn is_too_much(is_off: bool, runs: u64) -> bool {
    if is_off { runs >= DETAIL_RUNS.1 } else { runs > DETAIL_RUNS.0 }
}

/// The probe of grace periods; one line where they can't be measured, as on one CPU.
fn grace_probe(
    tried: Result<(), Absent>,
    absent: &mut Vec<String>,
) -> Result<Option<Probe>, Error> {
    match tried {
        Ok(()) => Probe::of_grace_periods().map(Some),
        Err(why) => {
            absent.push(why.to_string());
            Ok(None)
        }
    }
}

/// The line about a kernel whose softirqs are threads: the programs then measure preemption too.
fn preemptible_softirqs() -> Option<String> {
    let text = std::fs::read_to_string("/sys/kernel/realtime").unwrap_or_default();
    is_real_time(&text).then(|| {
        "exact times: softirqs of this kernel can be preempted (PREEMPT_RT), so shares contain the tasks that preempt them"
            .to_owned()
    })
}

/// Whether `/sys/kernel/realtime` says so.
fn is_real_time(text: &str) -> bool {
    text.trim() == "1"
}

/// Fills a row from a bucket of the programs.
fn fill(bucket: &softirq::Bucket, row: &mut Bucket) {
    // HI 0, TIMER 1, NET_TX 2, NET_RX 3, BLOCK 4, IRQ_POLL 5, TASKLET 6, SCHED 7, HRTIMER 8, RCU 9.
    let [_, timer, tx, rx, block, _, tasklet, sched, hrtimer, rcu] = bucket.time_ns;
    let [_, timer_n, _, rx_n, _, _, _, sched_n, _, rcu_n] = bucket.runs;
    for (column, value) in [
        (Column::RxUs, rx / 1000),
        (Column::RxN, rx_n),
        (Column::RxKsdUs, bucket.rx_ksoftirqd_ns / 1000),
        (Column::TxUs, tx / 1000),
        (Column::TimerUs, timer.saturating_add(hrtimer) / 1000),
        (Column::TimerN, timer_n),
        (Column::SchedUs, sched / 1000),
        (Column::SchedN, sched_n),
        (Column::RcuUs, rcu / 1000),
        (Column::RcuN, rcu_n),
        (Column::BlockUs, block / 1000),
        (Column::TaskletUs, tasklet / 1000),
        (Column::Packets, bucket.packets),
        (Column::Polls, bucket.polls),
        (Column::Full, bucket.full_polls),
        (Column::NapiThreadUs, bucket.napi_thread_ns / 1000),
    ] {
        row.set(column, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preemptible_softirqs_are_named() {
        assert!(is_real_time("1\n") && !is_real_time("0\n") && !is_real_time(""));
    }

    #[test]
    fn detail_is_left_out_above_50_000_runs_and_put_back_below_25_000() {
        let mut is_off = false;
        let mut states = Vec::new();
        for runs in [0, 50_000, 50_001, 49_000, 25_000, 24_999, 49_000, 50_000, 1_000_000] {
            is_off = is_too_much(is_off, runs);
            states.push(is_off);
        }
        assert_eq!(states, [false, false, true, true, true, false, false, false, true]);
        // Above the bound entry and exit alone cost about 1 % of the CPU.
        let cost = 50_000.0 * PROGRAM_SECONDS;
        assert!((0.005..=0.02).contains(&cost), "{cost}");
    }

    /// With one CPU there are no grace periods to wait for: all else is measured.
    #[test]
    fn one_cpu_has_all_instruments_but_grace_periods() {
        let mut absent = Vec::new();
        let probe = grace_probe(Err(Absent::NoGracePeriod), &mut absent).unwrap();
        assert!(probe.is_none());
        assert_eq!(absent, ["grace periods: membarrier returns at once, as with a single CPU"]);
        let host = HostCounters::default();
        let columns = columns_of(true, probe.is_some(), &host);
        assert!(!columns.has(Column::MembarrierUs));
        assert!(columns.has(Column::RxUs) && columns.has(Column::UserGapUs));
        assert!(columns_of(true, true, &host).has(Column::MembarrierUs));
    }

    #[test]
    fn a_row_has_what_the_programs_counted() {
        let bucket = softirq::Bucket {
            time_ns: [1, 2000, 3000, 4_000_000, 5000, 6, 7000, 8000, 9000, 10_000],
            runs: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
            packets: 64,
            ..Default::default()
        };
        let mut row = Bucket::new(0, 0);
        fill(&bucket, &mut row);
        let of = |column| row.get(column);
        assert_eq!((of(Column::RxUs), of(Column::RxN)), (Some(4000), Some(3)));
        assert_eq!((of(Column::TimerUs), of(Column::RcuUs)), (Some(11), Some(10)));
        assert_eq!((of(Column::Packets), of(Column::UserGapUs)), (Some(64), None));
    }
}
