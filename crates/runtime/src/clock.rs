//! Time. Engines live in event time, the time of the data; wall time stands at the edges only.
//! For the cost of rules there is a tick counter, handed to engines as a plain function.

use std::time::{Duration, Instant};

/// Event time: the latest time stamp seen, in nanoseconds since the epoch. Never goes back; data
/// that is older than what came before leaves it where it is and is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventClock {
    now_ns: u64,
    back_total: u64,
    back_max_ns: u64,
}

impl EventClock {
    /// A clock that has seen nothing: its time is 0.
    pub const fn new() -> EventClock {
        EventClock { now_ns: 0, back_total: 0, back_max_ns: 0 }
    }

    /// Feeds the time of a piece of data; gives the time it is now. A time of 0 means that the
    /// data has none.
    #[inline]
    pub fn observe(&mut self, ts_ns: u64) -> u64 {
        if ts_ns >= self.now_ns {
            self.now_ns = ts_ns;
        } else if ts_ns != 0 {
            self.back_total = self.back_total.wrapping_add(1);
            self.back_max_ns = self.back_max_ns.max(self.now_ns - ts_ns);
        }
        self.now_ns
    }

    /// The time it is now.
    #[inline]
    pub const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// How many pieces of data were older than one before them.
    pub const fn back_total(&self) -> u64 {
        self.back_total
    }

    /// By how much at most, in nanoseconds.
    pub const fn back_max_ns(&self) -> u64 {
        self.back_max_ns
    }
}

/// The current time, by the clock of the machine: for waiting and for reporting how long a run took,
/// never for what is found. The one place that asks for it.
#[allow(clippy::disallowed_methods)] // here is where it is allowed
pub fn now() -> Instant {
    Instant::now()
}

/// Processor time that the calling thread has used.
pub fn thread_cpu() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let (s, ns) = (u64::try_from(t.tv_sec), u32::try_from(t.tv_nsec));
    Duration::new(s.unwrap_or(0), ns.unwrap_or(0))
}

/// The time it is now by the calendar, since the epoch; zero where the machine's clock stands before
/// it. For the time stamp of what has no event time: counters and their output.
#[allow(clippy::disallowed_methods)] // see above
pub fn since_epoch() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

/// Nanoseconds since 1970, for what is about the run itself.
pub fn epoch_ns() -> u64 {
    u64::try_from(since_epoch().as_nanos()).unwrap_or(u64::MAX)
}

/// A counter that grows evenly with time, as cheap as the machine has it: the processor's time
/// stamp counter on x86-64, else nanoseconds. Only differences mean something; see [`TickRate`].
#[inline]
#[allow(unsafe_code)] // the one place of this crate
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: RDTSC exists on every x86-64 processor and has no effect but its result; where
        // the kernel forbids it to programs, the whole C library's clock would not work either.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::sync::OnceLock;
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(now).elapsed().as_nanos() as u64
    }
}

/// How long a tick is, measured over a stretch of a run.
#[derive(Clone, Copy, Debug)]
pub struct TickRate {
    started: Instant,
    ticks: u64,
}

impl TickRate {
    /// Begins to measure.
    pub fn start() -> TickRate {
        TickRate { started: now(), ticks: ticks() }
    }

    /// A number of ticks as time, by the rate since the beginning; better the longer ago that is.
    pub fn duration(&self, wanted: u64) -> Duration {
        let passed = u128::from(ticks().saturating_sub(self.ticks)).max(1);
        let ns = self.started.elapsed().as_nanos().saturating_mul(u128::from(wanted)) / passed;
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_time_never_goes_back() {
        let mut clock = EventClock::new();
        let steps = [(5, 5), (3, 5), (0, 5), (9, 9), (9, 9), (1, 9), (u64::MAX, u64::MAX)];
        for (ts, now) in steps {
            assert_eq!(clock.observe(ts), now);
            assert_eq!(clock.now_ns(), now);
        }
        assert_eq!((clock.back_total(), clock.back_max_ns()), (2, 8));
    }

    #[test]
    fn ticks_grow() {
        let rate = TickRate::start();
        let a = ticks();
        while ticks() == a {}
        assert!(ticks() > a);
        assert_eq!(rate.duration(0), Duration::ZERO);
    }
}
