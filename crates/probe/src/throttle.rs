//! The throttle of packet work: an XDP program that gives the packets of an interface a part of a CPU.
//!
//! `bpf/throttle.h` describes its checks. This module writes what the controller decided into the program's memory, and
//! reads the verdicts. The program drops nothing until the first heartbeat and 1 s after the last one, and it is attached
//! by a link, so it ends with the process.

use crate::Error;
use crate::attach::{self, XdpMode};
use crate::limits::{ALLOWED_ADDRESSES_MAX, ALLOWED_PORTS_MAX, CPUS_MEASURED, VICTIMS_MAX};
use crate::mapped::MappedArray;
use crate::object::{Link, Object};
use crate::refusal;
use crate::softirq::Instruments;
use aya::maps::lpm_trie::{Key, LpmTrie};
use aya::maps::{ArrayOfMaps, HashMap, MapData};
use aya::programs::{ProgramFd, TestRun, TestRunAttrs, TestRunOptions};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// How long packets may be dropped after a heartbeat, in nanoseconds.
pub const HEARTBEAT_NS: u64 = 1_000_000_000;

/// What the program decided about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Passed: not understood.
    Unparsed,
    /// Passed: ARP.
    Arp,
    /// Passed: neighbour discovery and multicast listeners of IPv6.
    NeighborDiscovery,
    /// Passed: an error of ICMPv6.
    IcmpError,
    /// Passed: a fragment without ports.
    Fragment,
    /// Passed: on the allow-list.
    Allowed,
    /// Passed: of a flow that was known before the incident.
    Known,
    /// Passed: of another flow.
    New,
    /// Passed: there was no heartbeat for a second.
    Expired,
    /// Dropped: the source's prefix begins too many flows.
    ShedPrefix,
    /// Dropped: too many flows begin.
    ShedAll,
    /// Dropped: the budget of this window is charged.
    ShedCharged,
    /// Dropped: the measured time exceeds the budget of this window.
    ShedMeasured,
}

impl Verdict {
    /// All verdicts in the order of the program's counters.
    pub const ALL: [Self; 13] = [
        Self::Unparsed,
        Self::Arp,
        Self::NeighborDiscovery,
        Self::IcmpError,
        Self::Fragment,
        Self::Allowed,
        Self::Known,
        Self::New,
        Self::Expired,
        Self::ShedPrefix,
        Self::ShedAll,
        Self::ShedCharged,
        Self::ShedMeasured,
    ];

    /// The name in counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unparsed => "unparsed",
            Self::Arp => "arp",
            Self::NeighborDiscovery => "nd",
            Self::IcmpError => "icmp_error",
            Self::Fragment => "fragment",
            Self::Allowed => "allowed",
            Self::Known => "known",
            Self::New => "new",
            Self::Expired => "expired",
            Self::ShedPrefix => "prefix_limit",
            Self::ShedAll => "new_flow_limit",
            Self::ShedCharged => "budget_charged",
            Self::ShedMeasured => "budget_measured",
        }
    }

    /// Whether the packet was dropped.
    #[must_use]
    pub fn is_shed(self) -> bool {
        self >= Self::ShedPrefix
    }
}

/// Packets and bytes by verdict since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// Packets, in the order of [`Verdict::ALL`].
    pub packets: [u64; 13],
    /// Bytes, in the same order.
    pub bytes: [u64; 13],
    /// Packets of flows that were not in the table, an upper bound of new flows.
    pub new_flows: u64,
    /// Entries that a table could not take.
    pub table_failed: u64,
}

impl Verdicts {
    /// Packets with a verdict.
    #[must_use]
    pub fn count_of_verdict(&self, verdict: Verdict) -> u64 {
        self.packets.get(verdict as usize).copied().unwrap_or(0)
    }

    /// Adds the verdicts of another CPU.
    pub fn add(&mut self, other: &Self) {
        let add = |to: &mut [u64], from: &[u64]| {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = to.wrapping_add(*from));
        };
        add(&mut self.packets, &other.packets);
        add(&mut self.bytes, &other.bytes);
        self.new_flows = self.new_flows.wrapping_add(other.new_flows);
        self.table_failed = self.table_failed.wrapping_add(other.table_failed);
    }

    /// All packets, those that passed, and those that were dropped.
    #[must_use]
    pub fn received_passed_shed(&self) -> (u64, u64, u64) {
        let sum = |is_shed: bool| {
            let all = Verdict::ALL.into_iter().filter(|v| v.is_shed() == is_shed);
            all.map(|v| self.count_of_verdict(v)).sum::<u64>()
        };
        let (passed, shed) = (sum(false), sum(true));
        (passed + shed, passed, shed)
    }
}

/// A limit of new flows: one in an interval, with bursts of a depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowLimit {
    /// Nanoseconds between new flows.
    pub interval_ns: u64,
    /// How far flows may be ahead of the interval, in nanoseconds.
    pub depth_ns: u64,
}

impl FlowLimit {
    /// At most this many flows a second, with bursts of `depth_ms`.
    #[must_use]
    pub const fn per_second(rate: u64, depth_ms: u64) -> Self {
        let rate = if rate == 0 { 1 } else { rate };
        Self { interval_ns: 1_000_000_000 / rate, depth_ns: depth_ms * 1_000_000 }
    }
}

/// What the controller decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setpoint {
    /// Nanoseconds of packet work in each window of 4 ms on a CPU; 0 means no budget.
    pub budget_ns: u32,
    /// The part of it that flows which are not known may use.
    pub unknown_budget_ns: u32,
    /// Nanoseconds that an admitted packet is charged.
    pub cost_ns: u32,
    /// Flows first seen before this time are known; 0 means every flow that was seen.
    pub incident_ns: u64,
    /// The limit of each source prefix, /24 or /56.
    pub prefix_limit: Option<FlowLimit>,
    /// The limit of all new flows.
    pub flow_limit: Option<FlowLimit>,
    /// Packets that are never dropped are not charged, and the measured time does not count.
    pub ignores_exempt: bool,
}

/// An entry of the allow-list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Packets from or to a prefix: address and bits.
    Prefix(IpAddr, u8),
    /// Packets from or to a port of a protocol (6 TCP, 17 UDP, 132 SCTP).
    Port(u8, u16),
}

/// A loaded throttle.
pub struct Throttle {
    control: MappedArray,
    state: MappedArray,
    counts: MappedArray,
    feeds: MappedArray,
    begun: MappedArray,
    /// Entries of the allow-list: prefixes and ports.
    entries: (usize, usize),
    allowed: LpmTrie<MapData, [u8; 16], u32>,
    allowed_ports: HashMap<MapData, u32, u32>,
    _live: ArrayOfMaps<MapData, MapData>,
    link: Option<Link>,
    object: Object,
}

impl Throttle {
    /// Loads the program. `instruments` give it the measured time of the `victims`; without them it has the charge only.
    ///
    /// # Errors
    /// The kernel's refusal in plain words.
    pub fn load(instruments: Option<&Instruments>, victims: &[u16]) -> Result<Self, Error> {
        Self::open("throttle", instruments, victims)
    }

    /// As [`Throttle::load`], with a clock that steps by `step_ns` at each packet, for tests of rates.
    ///
    /// # Errors
    /// The kernel's refusal in plain words.
    pub fn load_with_clock(step_ns: u64) -> Result<Self, Error> {
        let throttle = Self::open("throttle_clock", None, &[])?;
        throttle.set(&throttle.control, 13, step_ns);
        Ok(throttle)
    }

    fn open(
        name: &'static str,
        instruments: Option<&Instruments>,
        victims: &[u16],
    ) -> Result<Self, Error> {
        let mut object = Object::open(name, |_| {})?;
        object.load_xdp("throttle")?;
        let mut live: ArrayOfMaps<MapData, MapData> =
            ArrayOfMaps::try_from(object.take_map("live")?)
                .map_err(|e| refusal::map("live", &e))?;
        if let Some(instruments) = instruments {
            live.set(0, instruments.live_map(), 0).map_err(|e| refusal::map("live", &e))?;
        }
        let throttle = Self {
            control: MappedArray::new("control", object.take_array("control")?)?,
            state: MappedArray::new("state", object.take_array("state")?)?,
            counts: MappedArray::new("counts", object.take_array("counts")?)?,
            feeds: MappedArray::new("feeds", object.take_array("feeds")?)?,
            begun: MappedArray::new("begun", object.take_array("begun")?)?,
            entries: (0, 0),
            allowed: LpmTrie::try_from(object.take_map("allowed")?)
                .map_err(|e| refusal::map("allowed", &e))?,
            allowed_ports: HashMap::try_from(object.take_map("allowed_ports")?)
                .map_err(|e| refusal::map("allowed_ports", &e))?,
            _live: live,
            link: None,
            object,
        };
        throttle.set(&throttle.control, 8, u64::from(instruments.is_some()) << 32);
        if !victims.is_empty() {
            throttle.feed_victims(victims);
        } else if instruments.is_some() {
            throttle.feed_own();
        }
        throttle.set(&throttle.control, 2, crate::syscalls::random());
        Ok(throttle)
    }

    /// Packets that are seen on any CPU take the time of these CPUs, which share their budgets: as with the steering of
    /// packets, or where the operator names CPUs. The first [`VICTIMS_MAX`] count: the caller reports it where there are more.
    pub fn feed_victims(&self, victims: &[u16]) {
        const ALL: u64 = 1 << 16;
        let count = victims.len().min(VICTIMS_MAX) as u64;
        self.set(&self.control, 8, self.word(8) & !0xffff_ffff | count);
        for (at, four) in victims.chunks(4).take(VICTIMS_MAX / 4).enumerate() {
            let word = four.iter().rev().fold(0, |word, cpu| word << 16 | u64::from(*cpu));
            self.set(&self.control, 9 + at, word);
        }
        let first = victims.first().map_or(0, |cpu| u64::from(*cpu));
        for cpu in 0..self.feeds.len() {
            self.feed(cpu, first | ALL);
        }
    }

    /// Packets take the time of the CPU on which they are seen: each has a budget of its own.
    pub fn feed_own(&self) {
        for cpu in 0..self.feeds.len() {
            self.feed(cpu, cpu as u64);
        }
    }

    fn feed(&self, cpu: usize, value: u64) {
        if let Some(to) = self.feeds.value(cpu).first() {
            to.store(value, Ordering::Relaxed);
        }
    }

    /// Says which kinds of entries the allow-list has, so that the others are not looked up; flows ask the list again.
    fn list_changed(&self) {
        let (prefixes, ports) = self.entries;
        let others = self.word(15) & 0xffff_ffff_0000_0000;
        self.set(&self.control, 15, others | u64::from(prefixes > 0) | u64::from(ports > 0) << 1);
        self.next_generation();
    }

    fn set(&self, array: &MappedArray, word: usize, value: u64) {
        if let Some(to) = array.value(0).get(word) {
            to.store(value, Ordering::Relaxed);
        }
    }

    fn word(&self, at: usize) -> u64 {
        self.control.value(0).get(at).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Flows ask the list again after a change.
    fn next_generation(&self) {
        self.set(&self.control, 14, self.word(14).wrapping_add(1 << 32));
    }

    /// Attaches it to an interface and reads the mode back from the kernel.
    ///
    /// # Errors
    /// The kernel's refusal in plain words, or that the mode is another one.
    pub fn attach(&mut self, interface: u32, mode: XdpMode) -> Result<(), Error> {
        let program = self.object.loaded_xdp("throttle")?;
        let fd: &ProgramFd =
            program.fd().map_err(|e| refusal::program("throttle", refusal::Kind::Packets, &e))?;
        self.link = Some(attach::xdp(fd.as_fd(), interface, mode)?);
        Ok(())
    }

    /// Detaches it.
    pub fn detach(&mut self) {
        self.link = None;
    }

    /// Lets the program drop packets for one more second from `now_ns` on the monotonic clock.
    pub fn heartbeat(&self, now_ns: u64) {
        self.set(&self.control, 0, now_ns.saturating_add(HEARTBEAT_NS));
    }

    /// Puts the controller's decision into force.
    pub fn set_point(&self, to: &Setpoint) {
        self.set(&self.control, 1, to.incident_ns);
        self.set(&self.control, 3, u64::from(to.budget_ns) | u64::from(to.cost_ns) << 32);
        let generation = self.word(14) & 0xffff_ffff_0000_0000;
        self.set(&self.control, 14, generation | u64::from(to.unknown_budget_ns));
        let list = self.word(15) & 0xffff_ffff;
        self.set(&self.control, 15, list | u64::from(to.ignores_exempt) << 32);
        for (at, limit) in [(4, to.prefix_limit), (6, to.flow_limit)] {
            self.set(&self.control, at + 1, limit.map_or(0, |l| l.depth_ns));
            self.set(&self.control, at, limit.map_or(0, |l| l.interval_ns.max(1)));
        }
    }

    /// Adds an entry to the allow-list.
    ///
    /// # Errors
    /// If the list is full.
    pub fn allow(&mut self, entry: Allowed) -> Result<(), Error> {
        match entry {
            Allowed::Prefix(address, bits) => {
                let key = key_of(address, bits);
                self.allowed.insert(&key, 1, 0).map_err(|e| refusal::map("allow-list", &e))?;
                self.entries.0 += 1;
            }
            Allowed::Port(protocol, port) => {
                let key = u32::from(protocol) << 16 | u32::from(port);
                self.allowed_ports.insert(key, 1, 0).map_err(|e| refusal::map("allow-list", &e))?;
                self.entries.1 += 1;
            }
        }
        self.list_changed();
        Ok(())
    }

    /// Removes an entry; one that is not there is no error.
    pub fn forbid(&mut self, entry: Allowed) {
        match entry {
            Allowed::Prefix(address, bits) => {
                if self.allowed.remove(&key_of(address, bits)).is_ok() {
                    self.entries.0 = self.entries.0.saturating_sub(1);
                }
            }
            Allowed::Port(protocol, port) => {
                let key = u32::from(protocol) << 16 | u32::from(port);
                if self.allowed_ports.remove(&key).is_ok() {
                    self.entries.1 = self.entries.1.saturating_sub(1);
                }
            }
        }
        self.list_changed();
    }

    /// How many entries of each kind the list can hold.
    #[must_use]
    pub const fn allowed_max() -> (usize, usize) {
        (ALLOWED_ADDRESSES_MAX, ALLOWED_PORTS_MAX)
    }

    /// The verdicts of each CPU that sees packets.
    pub fn verdicts_by_cpu(&self) -> impl Iterator<Item = (u16, Verdicts)> + '_ {
        (0..CPUS_MEASURED.min(self.counts.len())).filter_map(|cpu| {
            let mut words = [0; 28];
            self.counts.read_words(cpu, &mut words);
            let (packets, rest) = words.split_at(13);
            let (bytes, rest) = rest.split_at(13);
            let verdicts = Verdicts {
                packets: *packets.first_chunk()?,
                bytes: *bytes.first_chunk()?,
                new_flows: *rest.first()?,
                table_failed: *rest.get(1)?,
            };
            let has_seen = verdicts.packets.iter().any(|n| *n > 0);
            Some((u16::try_from(cpu).ok()?, verdicts)).filter(|_| has_seen)
        })
    }

    /// The verdicts of all CPUs.
    #[must_use]
    pub fn verdicts(&self) -> Verdicts {
        let mut sum = Verdicts::default();
        self.verdicts_by_cpu().for_each(|(_, of_cpu)| sum.add(&of_cpu));
        sum
    }

    /// New flows since the start by groups of source prefixes: the largest is an upper bound of what one prefix began.
    pub fn new_flows_by_prefixes(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.begun.len()).map(|group| {
            self.begun.value(group).first().map_or(0, |count| count.load(Ordering::Relaxed))
        })
    }

    /// The word that the clock of [`Throttle::load_with_clock`] is in.
    #[must_use]
    pub fn clock(&self) -> Option<&AtomicU64> {
        self.state.value(0).get(16)
    }

    /// Each packet begins a flow, with the clock of [`Throttle::load_with_clock`]: for tests of rates.
    pub fn make_flows_differ(&self) {
        self.set(&self.state, 17, 1);
    }

    /// Runs the program on a frame, `repeat` times, without an interface. Returns whether it was dropped, and the mean
    /// nanoseconds of a run.
    ///
    /// # Errors
    /// The kernel's refusal in plain words.
    pub fn test_run(&self, frame: &[u8], repeat: u32) -> Result<(bool, u64), Error> {
        let program = self.object.loaded_xdp("throttle")?;
        test_run(program, frame, repeat)
    }

    /// Forgets which flows and times it has seen: a word of zero in its state.
    pub fn reset_times(&self) {
        for word in [8, 16] {
            self.set(&self.state, word, 0);
        }
    }
}

/// Runs an XDP program on a frame.
///
/// # Errors
/// The kernel's refusal in plain words.
pub fn test_run(
    program: &aya::programs::Xdp,
    frame: &[u8],
    repeat: u32,
) -> Result<(bool, u64), Error> {
    const XDP_DROP: u32 = 1;
    let mut out = vec![0; frame.len() + 256];
    let options = TestRunOptions {
        data_in: Some(frame),
        data_out: Some(&mut out),
        ctx_in: None,
        ctx_out: None,
        repeat,
        attrs: TestRunAttrs::new(),
    };
    let result = program.test_run(options);
    let result = result.map_err(|e| refusal::program("test run", refusal::Kind::Packets, &e))?;
    let ns = u64::try_from(result.duration.as_nanos()).unwrap_or(u64::MAX);
    Ok((result.return_value == XDP_DROP, ns))
}

/// The nanoseconds of an XDP program that passes every packet: what the throttle costs is measured above it.
///
/// # Errors
/// The kernel's refusal in plain words.
pub fn empty_run_ns(frame: &[u8], repeat: u32) -> Result<u64, Error> {
    let mut object = Object::open("empty_xdp", |_| {})?;
    object.load_xdp("empty")?;
    test_run(object.loaded_xdp("empty")?, frame, repeat).map(|(_, ns)| ns)
}

/// The key of a prefix; IPv4 is written as `::ffff:a.b.c.d`.
fn key_of(address: IpAddr, bits: u8) -> Key<[u8; 16]> {
    match address {
        IpAddr::V4(v4) => Key::new(96 + u32::from(bits.min(32)), v4.to_ipv6_mapped().octets()),
        IpAddr::V6(v6) => Key::new(u32::from(bits.min(128)), v6.octets()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_add_up() {
        let mut verdicts = Verdicts::default();
        verdicts.packets[Verdict::New as usize] = 3;
        verdicts.packets[Verdict::ShedCharged as usize] = 4;
        assert_eq!(verdicts.received_passed_shed(), (7, 3, 4));
        for (at, verdict) in Verdict::ALL.into_iter().enumerate() {
            assert_eq!(verdict as usize, at);
        }
    }

    #[test]
    fn prefixes_of_both_families_have_their_keys() {
        let key = key_of("10.1.2.3".parse().unwrap(), 8);
        assert_eq!((key.prefix_len(), key.data()[10..13].to_vec()), (104, vec![255, 255, 10]));
        assert_eq!(key_of("2001:db8::".parse().unwrap(), 32).prefix_len(), 32);
    }

    #[test]
    fn a_limit_is_an_interval() {
        let limit = FlowLimit::per_second(250, 20);
        assert_eq!((limit.interval_ns, limit.depth_ns), (4_000_000, 20_000_000));
        assert_eq!(FlowLimit::per_second(0, 1).interval_ns, 1_000_000_000);
    }
}
