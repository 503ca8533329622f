//! The recent past of one CPU: whether it is hot, how long it has been cool, and what it did in the last second.

use crate::cause::VECTORS;
use crate::sample::CpuSample;
use crate::settings::{
    COOL, GAP_HARM_US, GAPS_HARMFUL, HOT, HOT_PERIODS, PERIOD_US, PERIODS_A_SECOND,
};
use std::collections::VecDeque;

/// Time of NAPI threads that is carried into later periods, at most, in microseconds.
const CARRIED_US: u64 = 100_000;

/// What a CPU did in one period or in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// Microseconds that were covered by instruments.
    pub(crate) covered_us: u64,
    /// Packet work, capped by the time there was.
    pub(crate) work_us: u64,
    /// Other vectors.
    pub(crate) vectors_us: [u64; VECTORS],
    /// Stolen by the hypervisor.
    pub(crate) steal_us: u64,
    /// The largest gap of a user program that began, in microseconds, where it harms.
    pub(crate) harmful_gap_us: u32,
    /// The same of a gap that ended.
    pub(crate) harmful_ended_us: u32,
}

impl Spent {
    fn add(&mut self, other: &Spent) {
        self.covered_us = self.covered_us.saturating_add(other.covered_us);
        self.work_us = self.work_us.saturating_add(other.work_us);
        self.steal_us = self.steal_us.saturating_add(other.steal_us);
        for (sum, us) in self.vectors_us.iter_mut().zip(other.vectors_us) {
            *sum = sum.saturating_add(us);
        }
    }

    /// A time as a share of what was covered.
    pub(crate) fn share(&self, us: u64) -> f64 {
        if self.covered_us == 0 { 0.0 } else { us as f64 / self.covered_us as f64 }
    }
}

/// A gap where it harms, else 0.
fn harmful(gap_us: Option<u32>) -> u32 {
    gap_us.filter(|us| *us >= GAP_HARM_US).unwrap_or(0)
}

/// The recent past of a CPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cpu {
    /// The last periods, the newest last: whether each was hot.
    hot: VecDeque<bool>,
    /// Time of NAPI threads that was accounted when they were switched out, and belongs to earlier periods.
    carried_us: u64,
    /// The last second.
    second: VecDeque<Spent>,
}

impl Cpu {
    /// Takes a period. Its share of packet work, 0 to 1; none without the softirq instrument.
    ///
    /// The time of a NAPI thread is accounted when it is switched out, and may exceed the period: the rest counts in
    /// the periods that follow.
    pub(crate) fn add_cpu_sample(&mut self, sample: &CpuSample) -> Option<f64> {
        let covered = u64::from(sample.covered_us);
        let share = match sample.work_us() {
            Some(work) if covered > 0 => {
                let all = work.saturating_add(self.carried_us);
                let used = all.min(covered);
                self.carried_us = (all - used).min(CARRIED_US);
                self.hot.push_back(used as f64 / covered as f64 >= HOT);
                if self.hot.len() > HOT_PERIODS.1 {
                    self.hot.pop_front();
                }
                Some((used, used as f64 / covered as f64))
            }
            _ => None,
        };
        if self.second.len() >= PERIODS_A_SECOND {
            self.second.pop_front();
        }
        self.second.push_back(Spent {
            covered_us: if share.is_some() { covered } else { 0 },
            work_us: share.map_or(0, |(used, _)| used),
            vectors_us: sample.vectors_us.map(u64::from),
            steal_us: u64::from(sample.steal_us),
            harmful_gap_us: harmful(sample.gap_us),
            harmful_ended_us: harmful(sample.ended_gap_us),
        });
        share.map(|(_, share)| share)
    }

    /// Whether packet work was hot in enough of the last periods.
    pub(crate) fn is_hot(&self) -> bool {
        self.hot.iter().filter(|hot| **hot).count() >= HOT_PERIODS.0
    }

    /// What it did in the last second.
    pub(crate) fn last_second(&self) -> Spent {
        let mut sum = Spent::default();
        self.second.iter().for_each(|spent| sum.add(spent));
        sum
    }

    /// Whether user programs were kept waiting in the last second, and not by packet work: packet work inside each of
    /// the gaps was small. A gap that lasts is not judged yet.
    pub(crate) fn is_starved_without_packets(&self) -> bool {
        let periods = |us: u32| u64::from(us).div_ceil(PERIOD_US) as usize;
        let of_gap =
            |(at, spent): (usize, &Spent)| match (spent.harmful_gap_us, spent.harmful_ended_us) {
                (0, 0) => None,
                (0, us) => Some(at.saturating_sub(periods(us))..at + 1),
                (us, _) => Some(at..at + periods(us)).filter(|gap| gap.end <= self.second.len()),
            };
        let is_without_packets = |gap: &std::ops::Range<usize>| {
            let mut inside = Spent::default();
            self.second.iter().skip(gap.start).take(gap.len()).for_each(|spent| inside.add(spent));
            inside.covered_us > 0 && inside.share(inside.work_us) < COOL
        };
        let gaps = self.second.iter().enumerate().filter_map(of_gap);
        gaps.filter(is_without_packets).count() >= GAPS_HARMFUL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rx_us: u32, thread_us: u32) -> CpuSample {
        CpuSample { covered_us: 8000, rx_us: Some(rx_us), thread_us, ..CpuSample::default() }
    }

    #[test]
    fn two_of_three_hot_periods_make_a_cpu_hot() {
        let mut cpu = Cpu::default();
        for (rx_us, is_hot) in [(4000, false), (0, false), (4000, true), (0, false), (0, false)] {
            cpu.add_cpu_sample(&sample(rx_us, 0));
            assert_eq!(cpu.is_hot(), is_hot, "{rx_us}");
        }
    }

    #[test]
    fn a_long_slice_of_a_thread_counts_in_several_periods() {
        let mut cpu = Cpu::default();
        assert_eq!(cpu.add_cpu_sample(&sample(0, 20_000)), Some(1.0));
        assert_eq!(cpu.add_cpu_sample(&sample(0, 0)), Some(1.0));
        assert_eq!(cpu.add_cpu_sample(&sample(0, 0)), Some(0.5));
        assert_eq!(cpu.add_cpu_sample(&sample(0, 0)), Some(0.0));
    }

    #[test]
    fn nothing_is_known_without_the_instrument_or_without_rows() {
        let mut cpu = Cpu::default();
        assert_eq!(
            cpu.add_cpu_sample(&CpuSample { covered_us: 8000, ..CpuSample::default() }),
            None
        );
        assert_eq!(cpu.add_cpu_sample(&CpuSample { rx_us: Some(0), ..CpuSample::default() }), None);
        assert!(!cpu.is_hot());
    }

    #[test]
    fn a_gap_that_ended_is_judged_by_what_was_before() {
        for (rx_us, is_starved) in [(100, true), (3000, false)] {
            let mut cpu = Cpu::default();
            for _ in 0..3 {
                (0..4).for_each(|_| {
                    cpu.add_cpu_sample(&sample(rx_us, 0));
                });
                cpu.add_cpu_sample(&CpuSample { ended_gap_us: Some(31_000), ..sample(0, 0) });
            }
            assert_eq!(cpu.is_starved_without_packets(), is_starved, "{rx_us}");
        }
    }

    #[test]
    fn gaps_alone_starve_and_gaps_of_packet_work_do_not() {
        let gap = |rx_us| CpuSample { gap_us: Some(31_000), ..sample(rx_us, 0) };
        for (rx_us, is_starved) in [(100, true), (3000, false)] {
            let mut cpu = Cpu::default();
            for _ in 0..3 {
                assert!(!cpu.is_starved_without_packets());
                cpu.add_cpu_sample(&gap(rx_us));
                (0..3).for_each(|_| {
                    cpu.add_cpu_sample(&sample(rx_us, 0));
                });
            }
            assert_eq!(cpu.is_starved_without_packets(), is_starved, "{rx_us}");
            // Calm after packet work does not make the gaps those of something else.
            (0..60).for_each(|_| {
                cpu.add_cpu_sample(&sample(0, 0));
            });
            assert_eq!(cpu.is_starved_without_packets(), is_starved, "{rx_us}");
        }
    }
}
