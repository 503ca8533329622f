//! The probes that run in threads: how late a sleeping thread of each CPU wakes, and how long a grace period takes.

use super::host::Absent;
use crate::error::Error;
use gabion_guard::settings::BUCKET_US;
use gabion_runtime::StopFlag;
use rustix::io::Errno;
use rustix::thread::{
    ClockId, CpuSet, MembarrierCommand, clock_nanosleep_absolute, membarrier, sched_setaffinity,
};
use rustix::time::Timespec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Measurements that are held for each probe: more than a reader that comes each 8 ms leaves.
const SLOTS: usize = 64;
/// Microseconds from one wake of a gap probe to the next: a bucket.
const WAKE_US: u64 = BUCKET_US;
/// Time between two grace periods that are measured: rare enough not to disturb the host.
const GRACE_EACH: Duration = Duration::from_millis(100);

/// Now on the monotonic clock, in microseconds.
pub(super) fn now_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let us = now.tv_nsec.cast_unsigned() / 1000;
    now.tv_sec.cast_unsigned().saturating_mul(1_000_000).saturating_add(us)
}

/// A measurement: when it began, on the monotonic clock, and how long it was, both in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Measured {
    pub(super) began_us: u64,
    pub(super) us: u64,
}

/// Measurements from one thread to another. What the reader does not take in time is overwritten.
#[derive(Debug)]
pub(super) struct Slots {
    written: AtomicU64,
    slots: [(AtomicU64, AtomicU64); SLOTS],
}

impl Slots {
    fn new() -> Slots {
        let slots = std::array::from_fn(|_| (AtomicU64::new(0), AtomicU64::new(0)));
        Slots { written: AtomicU64::new(0), slots }
    }

    fn put(&self, measured: Measured) {
        let n = self.written.load(Ordering::Relaxed);
        if let Some((began, us)) = self.slots.get(n as usize % SLOTS) {
            began.store(measured.began_us, Ordering::Relaxed);
            us.store(measured.us, Ordering::Relaxed);
        }
        self.written.store(n.wrapping_add(1), Ordering::Release);
    }

    /// Takes what was written since `taken`, which is moved on.
    fn drain_measured(&self, taken: &mut u64, give: &mut dyn FnMut(Measured)) {
        let written = self.written.load(Ordering::Acquire);
        let first = (*taken).max(written.saturating_sub(SLOTS as u64 / 2));
        for n in first..written {
            if let Some((began, us)) = self.slots.get(n as usize % SLOTS) {
                let us = us.load(Ordering::Relaxed);
                give(Measured { began_us: began.load(Ordering::Relaxed), us });
            }
        }
        *taken = written;
    }
}

/// A probe in a thread of its own, which ends when it is dropped.
#[derive(Debug)]
pub(super) struct Probe {
    slots: Arc<Slots>,
    taken: u64,
    stop: StopFlag,
    thread: Option<JoinHandle<()>>,
}

impl Probe {
    fn start(
        name: &'static str,
        work: fn(&StopFlag, &Slots, usize),
        cpu: usize,
    ) -> Result<Probe, Error> {
        let slots = Arc::new(Slots::new());
        let stop = StopFlag::new();
        let (of_thread, stopped) = (Arc::clone(&slots), stop.clone());
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .stack_size(64 << 10)
            .spawn(move || work(&stopped, &of_thread, cpu))
            .map_err(|source| Error::Thread { name, source })?;
        Ok(Probe { slots, taken: 0, stop, thread: Some(thread) })
    }

    /// A sleeping thread on a CPU that measures how late it is woken.
    pub(super) fn of_gaps(cpu: usize) -> Result<Probe, Error> {
        Probe::start("gap probe", measure_gaps, cpu)
    }

    /// A thread that measures a grace period ten times a second.
    pub(super) fn of_grace_periods() -> Result<Probe, Error> {
        Probe::start("grace periods", measure_grace, 0)
    }

    /// Takes what was measured since the last time.
    pub(super) fn drain_measured(&mut self, give: &mut dyn FnMut(Measured)) {
        self.slots.drain_measured(&mut self.taken, give);
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether a grace period can be measured at all, or why not.
pub(super) fn try_grace_period() -> Result<(), Absent> {
    let began = now_us();
    let done = membarrier(MembarrierCommand::Global);
    waited(done, now_us().saturating_sub(began))
}

/// Whether a `membarrier` of this many microseconds waited for a grace period: on one CPU it returns at once.
fn waited(done: Result<(), Errno>, us: u64) -> Result<(), Absent> {
    match done {
        Ok(()) if us < 2 => Err(Absent::NoGracePeriod),
        Ok(()) => Ok(()),
        Err(e) => Err(Absent::Membarrier(e)),
    }
}

fn measure_gaps(stop: &StopFlag, slots: &Slots, cpu: usize) {
    let mut only = CpuSet::new();
    only.set(cpu);
    if sched_setaffinity(None, &only).is_err() {
        return; // The CPU went offline: nothing waits for it.
    }
    let mut due_us = now_us();
    while !stop.is_set() {
        due_us = due_us.saturating_add(WAKE_US);
        let due = Timespec {
            tv_sec: (due_us / 1_000_000).cast_signed(),
            tv_nsec: (due_us % 1_000_000 * 1000).cast_signed(),
        };
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &due);
        let late_us = now_us().saturating_sub(due_us);
        slots.put(Measured { began_us: due_us, us: late_us });
        // Wakes that were missed are part of the gap, and are not made up for.
        due_us = due_us.saturating_add(late_us / WAKE_US * WAKE_US);
    }
}

fn measure_grace(stop: &StopFlag, slots: &Slots, _: usize) {
    while !stop.is_set() {
        let began_us = now_us();
        if membarrier(MembarrierCommand::Global).is_err() {
            return;
        }
        slots.put(Measured { began_us, us: now_us().saturating_sub(began_us) });
        std::thread::sleep(GRACE_EACH);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_are_taken_once_and_the_oldest_are_overwritten() {
        let slots = Slots::new();
        let mut taken = 0;
        let mut found = Vec::new();
        (0..3).for_each(|n| slots.put(Measured { began_us: n, us: n }));
        slots.drain_measured(&mut taken, &mut |m| found.push(m.us));
        slots.drain_measured(&mut taken, &mut |m| found.push(m.us));
        assert_eq!(found, [0, 1, 2]);
        (0..200).for_each(|n| slots.put(Measured { began_us: n, us: n }));
        found.clear();
        slots.drain_measured(&mut taken, &mut |m| found.push(m.us));
        assert_eq!(found, (168..200).collect::<Vec<_>>());
    }

    #[test]
    fn a_membarrier_that_returns_at_once_waited_for_nothing() {
        assert!(matches!(waited(Ok(()), 1), Err(Absent::NoGracePeriod)));
        assert!(waited(Ok(()), 5000).is_ok());
        let refused = waited(Err(Errno::INVAL), 0).unwrap_err().to_string();
        assert!(refused.contains("nohz_full"), "{refused}");
    }

    /// A `membarrier` each 5 ms disturbs the host that it measures: ten a second are enough.
    #[test]
    fn grace_periods_are_measured_ten_times_a_second_at_most() {
        if try_grace_period().is_err() {
            eprintln!(
                "skipped: grace_periods_are_measured_ten_times_a_second_at_most: no membarrier"
            );
            return;
        }
        let mut probe = Probe::of_grace_periods().unwrap();
        let mut all: Vec<Measured> = Vec::new();
        while all.len() < 4 {
            std::thread::sleep(Duration::from_millis(1));
            probe.drain_measured(&mut |measured| all.push(measured));
        }
        for pair in all.windows(2) {
            let rest_us = pair[1].began_us - pair[0].began_us - pair[0].us;
            assert!(rest_us >= 100_000, "{rest_us}");
        }
    }

    #[test]
    fn a_sleeping_probe_measures_without_any_privilege() {
        let mut probe = Probe::of_gaps(0).unwrap();
        let mut count = 0;
        while count < 3 {
            std::thread::sleep(Duration::from_millis(1));
            probe.drain_measured(&mut |_| count += 1);
        }
    }
}
