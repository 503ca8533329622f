//! What reading this host's calls took, from the programs in the kernel to the events, as a block of text for the end of a
//! run.

use super::account::LiveAccount;
use gabion_probe::syscalls::{Class, ProgramRuns};
use gabion_record::thousands::thousands;
use std::fmt::Write;
use std::time::Duration;

/// What a live source counted from its start to its end.
#[derive(Clone, Debug, Default)]
pub struct LiveStatistics {
    /// The counters of the kernel's programs and of their reader.
    pub account: LiveAccount,
    /// Time from the start of the source.
    pub elapsed: Duration,
    /// How often each program in the kernel ran; nothing if the kernel did not count it.
    pub runs: Vec<ProgramRuns>,
    /// How often the rings were read.
    pub readings: u64,
    /// Readings that found nothing.
    pub empty_readings: u64,
    /// Events by the name of their call, the most frequent ones first.
    pub calls: Vec<(&'static str, u64)>,
}

impl LiveStatistics {
    /// The block of text: kernel, programs, user space, calls.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Nothing refuses a line of text in memory.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, to: &mut String) -> std::fmt::Result {
        let (counts, total) = (&self.account.counts, self.account.total());
        writeln!(to, "------------------------- statistics -------------------------")?;
        writeln!(to, "time elapsed: {} s", self.elapsed.as_secs())?;
        writeln!(to, "kernel")?;
        writeln!(
            to,
            "  calls received: {} ({}/s), {} passed, {} shed",
            thousands(total.received),
            thousands(self.rate(total.received)),
            thousands(total.passed),
            thousands(total.shed_ring + total.shed_size)
        )?;
        writeln!(to, "  class         received           passed             shed")?;
        for (class, c) in Class::ALL.into_iter().zip(&counts.classes) {
            let [received, passed, shed] =
                [c.received, c.passed, c.shed_ring + c.shed_size].map(thousands);
            writeln!(to, "  {:<6}{received:>16} {passed:>16} {shed:>16}", class.name())?;
        }
        writeln!(to, "  calls of this process, which are left out: {}", thousands(counts.own))?;
        writeln!(
            to,
            "  readings at the entry without memory: {}",
            thousands(counts.storage_failed)
        )?;
        writeln!(
            to,
            "  calls of 32 bits that programs of 64 bits do not have: {}",
            thousands(counts.unmapped_ia32)
        )?;
        self.write_programs(to)?;
        writeln!(to, "user space")?;
        let read = self.account.read;
        writeln!(to, "  events: {} ({}/s)", thousands(read), thousands(self.rate(read)))?;
        writeln!(
            to,
            "  readings of the rings: {}, {} of them found nothing",
            thousands(self.readings),
            thousands(self.empty_readings)
        )?;
        let mean = counts.bytes.checked_div(total.passed).unwrap_or(0);
        writeln!(
            to,
            "  bytes received: {}, {} for each event",
            thousands(counts.bytes),
            thousands(mean)
        )?;
        writeln!(to, "calls")?;
        for (name, count) in &self.calls {
            writeln!(to, "  {name}: {}", thousands(*count))?;
        }
        writeln!(to, "--------------------------------------------------------------")
    }

    fn write_programs(&self, to: &mut String) -> std::fmt::Result {
        if self.runs.is_empty() {
            return writeln!(to, "programs: their runs were not counted");
        }
        writeln!(to, "programs                      run_cnt      run_time_ns      avg_time_ns")?;
        let mut sum = (0_u64, 0_u64);
        let mut row = |name: &str, count: u64, time_ns: u64| {
            let mean = time_ns.checked_div(count).unwrap_or(0);
            let [count, time_ns, mean] = [count, time_ns, mean].map(thousands);
            writeln!(to, "  {name:<18}{count:>16} {time_ns:>16} {mean:>16}")
        };
        for runs in &self.runs {
            let time_ns = u64::try_from(runs.time.as_nanos()).unwrap_or(u64::MAX);
            sum = (sum.0.saturating_add(runs.count), sum.1.saturating_add(time_ns));
            row(&runs.name, runs.count, time_ns)?;
        }
        row("all", sum.0, sum.1)
    }

    /// For each second of the time elapsed.
    fn rate(&self, count: u64) -> u64 {
        let ms = u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX);
        count.saturating_mul(1_000).checked_div(ms).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_probe::syscalls::ClassCounts;

    #[test]
    fn the_block_has_rates_means_and_sums() {
        let mut account = LiveAccount { read: 1_000, ..LiveAccount::default() };
        account.counts.classes[Class::Io as usize] =
            ClassCounts { received: 1_500, passed: 1_000, shed_ring: 400, shed_size: 100 };
        (account.counts.bytes, account.counts.storage_failed) = (58_000, 3);
        let run = |name: &str, count, ns| ProgramRuns {
            name: name.to_owned(),
            count,
            time: Duration::from_nanos(ns),
        };
        let statistics = LiveStatistics {
            account,
            elapsed: Duration::from_millis(500),
            runs: vec![run("enter_open", 0, 0), run("sys_exit", 2_000, 132_000)],
            readings: 7,
            empty_readings: 2,
            calls: vec![("sendto", 600), ("recvfrom", 400)],
        };
        let text = statistics.text();
        let rows: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        for wanted in [
            "calls received: 1,500 (3,000/s), 1,000 passed, 500 shed",
            "io 1,500 1,000 500",
            "proc 0 0 0",
            "readings at the entry without memory: 3",
            "enter_open 0 0 0",
            "sys_exit 2,000 132,000 66",
            "all 2,000 132,000 66",
            "events: 1,000 (2,000/s)",
            "readings of the rings: 7, 2 of them found nothing",
            "bytes received: 58,000, 58 for each event",
            "sendto: 600",
        ] {
            let wanted: Vec<&str> = wanted.split(' ').collect();
            assert!(rows.contains(&wanted), "{wanted:?} in\n{text}");
        }
        let without = LiveStatistics { runs: Vec::new(), ..statistics };
        assert!(without.text().contains("their runs were not counted"));
    }
}
