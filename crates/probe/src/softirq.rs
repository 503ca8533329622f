//! The instruments of the guard: softirq time and runs in buckets of 4 ms for each CPU, and packets by device.
//!
//! `bpf/softirq.bpf.c` writes the buckets, `bpf/softirq.h` has their layout. A bucket is read when its time is over;
//! the ring of a CPU holds one second, so a reader that comes each 8 ms never loses one.

use crate::Error;
use crate::limits::CPUS_MEASURED;
use crate::mapped::MappedArray;
use crate::object::{Link, Object};
use crate::refusal;
use aya::maps::{MapData, PerCpuHashMap};
use std::sync::atomic::Ordering;

/// Nanoseconds of a bucket: a tick at 250 Hz.
pub const BUCKET_NS: u64 = 4_000_000;
/// Buckets in the ring of a CPU.
pub const BUCKETS: usize = 256;
/// The softirq vectors of the kernel, in the order of their numbers.
pub const VECTORS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
/// Words of a bucket.
const WORDS: usize = 14;

/// What one CPU did in 4 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// The time divided by [`BUCKET_NS`], on the monotonic clock.
    pub epoch: u64,
    /// Nanoseconds in the handlers of each vector, hard interrupts and steal included.
    pub time_ns: [u32; 10],
    /// Handlers that began.
    pub runs: [u32; 10],
    /// The part of NET_RX that ran in ksoftirqd.
    pub rx_ksoftirqd_ns: u32,
    /// Packet work in threads of NAPI, which have no softirq.
    pub napi_thread_ns: u32,
    /// Packets of NAPI polls.
    pub packets: u32,
    /// NAPI polls.
    pub polls: u32,
    /// Polls that used up their budget.
    pub full_polls: u32,
}

impl Bucket {
    fn from_words(words: &[u64; WORDS]) -> Self {
        let mut halves = [0_u32; (WORDS - 1) * 2];
        for (at, word) in words.iter().skip(1).enumerate() {
            let (low, high) = (*word as u32, (*word >> 32) as u32);
            if let Some([a, b]) = halves.get_mut(at * 2..at * 2 + 2) {
                (*a, *b) = (low, high);
            }
        }
        let part = |at: usize| halves.get(at).copied().unwrap_or(0);
        Self {
            epoch: words[0],
            time_ns: std::array::from_fn(part),
            runs: std::array::from_fn(|vector| part(10 + vector)),
            rx_ksoftirqd_ns: part(20),
            napi_thread_ns: part(21),
            packets: part(22),
            polls: part(23),
            full_polls: part(24),
        }
    }
}

/// Packets and polls of a device since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DevicePolls {
    /// The index of the interface; 0 is the backlog, which has no device.
    pub interface: u32,
    /// Packets.
    pub packets: u64,
    /// Polls.
    pub polls: u64,
    /// Polls that used up their budget.
    pub full_polls: u64,
}

/// The attached instruments.
pub struct Instruments {
    buckets: MappedArray,
    live: MappedArray,
    devices: PerCpuHashMap<MapData, u32, [u64; 3]>,
    cpus: usize,
    /// What the kernel refused, a line for each.
    absent: Vec<Error>,
    _links: Vec<Link>,
    /// The programs' object; its maps were taken.
    _object: Object,
}

impl Instruments {
    /// Makes the maps for `cpus` CPUs and attaches what the kernel permits. `softirq_entry` and `softirq_exit` must be
    /// there; the others are listed in [`Instruments::absent`] if they are not.
    ///
    /// # Errors
    /// If there is no instrument at all: no programs, no BTF, no permission.
    pub fn attach(cpus: usize) -> Result<Self, Error> {
        let cpus = cpus.clamp(1, CPUS_MEASURED);
        let slots = u32::try_from(cpus * BUCKETS).unwrap_or(u32::MAX);
        let mut object = Object::open("softirq", |loader| {
            loader.map_max_entries("buckets", slots);
        })?;
        let buckets = MappedArray::new("buckets", object.take_array("buckets")?)?;
        let live = MappedArray::new("live", object.take_array("live")?)?;
        let devices = PerCpuHashMap::try_from(object.take_map("devices")?)
            .map_err(|e| refusal::map("devices", &e))?;
        let mut links = vec![
            object.attach_tracepoint("softirq_exit", "softirq_exit")?,
            object.attach_tracepoint("softirq_entry", "softirq_entry")?,
        ];
        let mut absent = Vec::new();
        for name in ["napi_poll", "sched_switch"] {
            match object.attach_tracepoint(name, name) {
                Ok(link) => links.push(link),
                Err(error) => absent.push(error),
            }
        }
        Ok(Self { buckets, live, devices, cpus, absent, _links: links, _object: object })
    }

    /// The CPUs that are measured.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// The instruments that the kernel refused.
    #[must_use]
    pub fn absent(&self) -> &[Error] {
        &self.absent
    }

    /// The bucket of a CPU and an epoch that is over; `None` if nothing happened in it, or its slot has another epoch.
    #[must_use]
    pub fn bucket(&self, cpu: usize, epoch: u64) -> Option<Bucket> {
        let slot = cpu.checked_mul(BUCKETS)? + usize::try_from(epoch % BUCKETS as u64).ok()?;
        let mut words = [0; WORDS];
        self.buckets.read_words(slot, &mut words);
        let is_whole = self.buckets.value(slot).first()?.load(Ordering::Acquire) == epoch;
        (is_whole && words[0] == epoch).then(|| Bucket::from_words(&words))
    }

    /// The softirq runs of a CPU since the start; wraps at 2^32.
    #[must_use]
    pub fn runs(&self, cpu: usize) -> u32 {
        self.live.value(cpu).get(3).map_or(0, |word| (word.load(Ordering::Relaxed) >> 32) as u32)
    }

    /// Leaves everything but the time of NET_RX out on a CPU, or puts it back. The detail costs more than 2 % of a CPU
    /// above 50,000 runs a second.
    pub fn set_detail(&self, cpu: usize, is_on: bool) {
        if let Some(word) = self.live.value(cpu).get(3) {
            // The other half of the word is the CPU's count of runs; a run that is counted at this moment may be lost.
            let runs = word.load(Ordering::Relaxed) & 0xffff_ffff_0000_0000;
            word.store(runs | u64::from(!is_on), Ordering::Relaxed);
        }
    }

    /// Packets and polls by device since the start.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn devices(&self) -> Result<Vec<DevicePolls>, Error> {
        let mut list = Vec::new();
        for entry in self.devices.iter() {
            let (interface, by_cpu) = entry.map_err(|e| refusal::map("devices", &e))?;
            let mut sum = DevicePolls { interface, ..DevicePolls::default() };
            for [packets, polls, full] in by_cpu.iter() {
                sum.packets = sum.packets.wrapping_add(*packets);
                sum.polls = sum.polls.wrapping_add(*polls);
                sum.full_polls = sum.full_polls.wrapping_add(*full);
            }
            list.push(sum);
        }
        Ok(list)
    }

    /// The map of the CPUs' present state, which the throttle reads.
    #[must_use]
    pub fn live_map(&self) -> &MapData {
        self.live.map()
    }
}

/// The epoch of a time on the clock of the programs, which is the monotonic one.
#[must_use]
pub const fn epoch_at(monotonic_us: u64) -> u64 {
    monotonic_us / (BUCKET_NS / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_the_layout_of_the_header() {
        let mut words = [0; WORDS];
        words[0] = 77;
        words[2] = 3 << 32 | 2; // time_ns[2], time_ns[3]
        words[6] = 9; // runs[0]
        words[11] = 5 << 32 | 4; // rx_ksoftirqd_ns, napi_thread_ns
        words[12] = 7 << 32 | 6; // packets, polls
        words[13] = 8; // full_polls
        let b = Bucket::from_words(&words);
        assert_eq!((b.epoch, b.time_ns[2], b.time_ns[3], b.runs[0]), (77, 2, 3, 9));
        assert_eq!((b.rx_ksoftirqd_ns, b.napi_thread_ns), (4, 5));
        assert_eq!((b.packets, b.polls, b.full_polls), (6, 7, 8));
    }
}
