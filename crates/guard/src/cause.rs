//! The causes of an incident, with their names.

use std::fmt;

/// Vectors of softirqs that are distinguished, without NET_RX.
pub(crate) const VECTORS: usize = 6;

/// What keeps user programs waiting when it is not packet work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vector {
    /// Sent packets are freed and queues are restarted (NET_TX).
    NetTx,
    /// Timers.
    Timer,
    /// The balancing of run queues.
    Sched,
    /// Callbacks of RCU.
    Rcu,
    /// The completion of block requests.
    Block,
    /// Tasklets.
    Tasklet,
    /// The hypervisor ran something else.
    Steal,
    /// Other tasks were on the CPU: the run queue is long.
    Tasks,
}

impl Vector {
    /// The vectors in the order of [`crate::CpuSample::vectors_us`].
    pub const SOFTIRQS: [Vector; VECTORS] =
        [Vector::NetTx, Vector::Timer, Vector::Sched, Vector::Rcu, Vector::Block, Vector::Tasklet];

    /// How a line of diagnosis names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Vector::NetTx => "NET_TX softirq",
            Vector::Timer => "TIMER softirq",
            Vector::Sched => "SCHED softirq",
            Vector::Rcu => "RCU softirq",
            Vector::Block => "BLOCK softirq",
            Vector::Tasklet => "TASKLET softirq",
            Vector::Steal => "host steal",
            Vector::Tasks => "other tasks (run queue)",
        }
    }
}

/// A table of the kernel that new flows fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// Connection tracking.
    Conntrack,
    /// Neighbours of IPv4, or those of a recording: one table for the whole host.
    Neighbours,
    /// Neighbours of IPv6: one table for the whole host.
    NeighboursOfIpv6,
}

impl Table {
    /// The name in outputs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Table::Conntrack => "conntrack",
            Table::Neighbours => "neighbours",
            Table::NeighboursOfIpv6 => "neighbours of IPv6",
        }
    }
}

/// Why an incident happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Packet work is small: something else keeps user programs waiting.
    NotPackets(Vector),
    /// New flows fill a table of the kernel.
    TableFills(Table),
    /// Many packets begin flows.
    NewFlows,
    /// Most packets belong to one flow.
    OneLargeFlow,
    /// No more packets than usual, but each costs more.
    DearPackets,
    /// Many packets of flows that were known before.
    EstablishedFlows,
    /// Many packets, of which nothing more is known.
    TooManyPackets,
}

impl Cause {
    /// The name in outputs for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Cause::NotPackets(_) => "not-packets",
            Cause::TableFills(_) => "table-fills",
            Cause::NewFlows => "new-flows",
            Cause::OneLargeFlow => "one-large-flow",
            Cause::DearPackets => "dear-packets",
            Cause::EstablishedFlows => "established-flows",
            Cause::TooManyPackets => "too-many-packets",
        }
    }

    /// Whether the limit of new flows acts on it.
    #[must_use]
    pub const fn is_new_flows(self) -> bool {
        matches!(self, Cause::NewFlows | Cause::TableFills(_))
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::NotPackets(vector) => write!(f, "not packets: {}", vector.name()),
            Cause::TableFills(table) => write!(f, "new flows fill the table {}", table.name()),
            Cause::NewFlows => f.write_str("flood of new flows"),
            Cause::OneLargeFlow => f.write_str("one large flow"),
            Cause::DearPackets => f.write_str("packets became expensive"),
            Cause::EstablishedFlows => f.write_str("packets of established flows"),
            Cause::TooManyPackets => f.write_str("too many packets"),
        }
    }
}
