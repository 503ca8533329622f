//! What the controller is given for a control period: packet work by CPU, packets, tables, grace periods. What no
//! instrument measured is absent, and nothing is concluded from it.

/// One CPU in a control period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuSample {
    /// Its number.
    pub cpu: u16,
    /// Microseconds of the period that the instruments covered; 8,000 without a missing row.
    pub covered_us: u32,
    /// Time of NET_RX in microseconds, in ksoftirqd and inline; absent without the softirq instrument.
    pub rx_us: Option<u32>,
    /// The part of it in ksoftirqd.
    pub ksoftirqd_us: u32,
    /// Time of NAPI threads, in microseconds.
    pub thread_us: u32,
    /// Times of the other vectors, in microseconds: see [`crate::Vector`].
    pub vectors_us: [u32; crate::cause::VECTORS],
    /// Packets that were polled; absent without the instrument.
    pub packets: Option<u64>,
    /// The largest gap of a user program that began in the period, in microseconds; absent where no probe ran.
    pub gap_us: Option<u32>,
    /// The largest gap that ended in the period, in microseconds: what a live probe knows, where a recording has
    /// [`CpuSample::gap_us`].
    pub ended_gap_us: Option<u32>,
    /// Time stolen by the hypervisor, in microseconds.
    pub steal_us: u32,
    /// Packets that the CPU's backlog dropped.
    pub backlog_dropped: u64,
}

impl CpuSample {
    /// Packet work in microseconds; absent without the softirq instrument.
    #[must_use]
    pub fn work_us(&self) -> Option<u64> {
        self.rx_us.map(|rx| u64::from(rx) + u64::from(self.thread_us))
    }
}

/// Packets that the throttle saw in a control period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PacketSample {
    /// Admitted, allow-listed packets included.
    pub admitted: u64,
    /// Of these, allow-listed.
    pub allowed: u64,
    /// Admitted because packets of their kind are never dropped: ARP, neighbour discovery, unparsed packets.
    pub exempt: u64,
    /// Dropped because the measured time or the charge was over the budget.
    pub dropped_budget: u64,
    /// Dropped because a limit of packets or of new flows was reached.
    pub dropped_limit: u64,
    /// Packets of flows that were not in the table of flows.
    pub new_flows: u64,
    /// The most new flows that one source prefix began in the last second; absent but where a second ends.
    pub busiest_prefix: Option<u64>,
    /// By CPU whose budget they are charged to, in ascending order; empty where that is not known, as in a recording.
    pub by_cpu: Vec<CpuPackets>,
}

/// Packets of the throttle that are charged to one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuPackets {
    /// The CPU.
    pub cpu: u16,
    /// Packets that arrived there. Where another CPU drops them, only those that were admitted do.
    pub offered: u64,
    /// Packets that were admitted.
    pub admitted: u64,
}

impl PacketSample {
    /// What the throttle did from one row of its counters to a later one.
    #[must_use]
    pub fn between(
        before: Option<&crate::recording::XdpRow>,
        now: &crate::recording::XdpRow,
    ) -> PacketSample {
        crate::periods::packets_between(before, now)
    }

    /// All dropped packets.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped_budget.saturating_add(self.dropped_limit)
    }

    /// Packets that are never dropped, whatever they cost.
    #[must_use]
    pub fn never_dropped(&self) -> u64 {
        self.exempt.saturating_add(self.allowed)
    }

    /// All packets that arrived.
    #[must_use]
    pub fn offered(&self) -> u64 {
        self.admitted.saturating_add(self.dropped())
    }
}

/// How full a table of the kernel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFill {
    /// Which table.
    pub table: crate::Table,
    /// Entries.
    pub count: u64,
    /// The most that it holds.
    pub max: u64,
}

/// What heads of packets say that were sampled during an incident.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heads {
    /// How many were sampled.
    pub packets: u64,
    /// Those of the largest flow.
    pub largest_flow: u64,
    /// Packets of flows that were followed long enough to distinguish new flows from old ones.
    pub followed: u64,
    /// Of these, packets that began a flow.
    pub new_flows: u64,
    /// Attributes for people, the most useful first: `to 5.0.0.0/8`, `60 bytes`, `UDP:9`.
    pub attributes: Vec<String>,
}

/// All that was measured in a control period of 8 ms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Begin of the period, in milliseconds since the run's start.
    pub at_ms: u64,
    /// The CPUs that are watched.
    pub cpus: Vec<CpuSample>,
    /// The throttle's counters; absent without one.
    pub packets: Option<PacketSample>,
    /// Tables that were measured.
    pub tables: Vec<TableFill>,
    /// The longest grace period that began in the period, in microseconds.
    pub grace_us: Option<u32>,
    /// Heads of packets, when they were sampled.
    pub heads: Option<Heads>,
}

impl Sample {
    /// Adds what a CPU did in a bucket of the period.
    pub fn add_bucket(&mut self, row: &crate::recording::Bucket) {
        crate::periods::add_bucket(row, true, self);
    }

    /// A sample without any measurement, at this time in milliseconds.
    #[must_use]
    pub fn at(at_ms: u64) -> Sample {
        Sample { at_ms, ..Sample::default() }
    }
}
