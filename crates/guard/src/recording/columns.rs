//! The columns of a recording and the rows that hold them.

macro_rules! columns {
    ($(#[$doc:meta])* $name:ident, $set:ident, $($variant:ident, $text:literal, $what:literal;)+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $name {
            $(#[doc = $what] $variant,)+
        }

        impl $name {
            /// All columns in the order in which they are written.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The name in a recording.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }

            /// The column of that name.
            #[must_use]
            pub fn from_name(name: &[u8]) -> Option<$name> {
                Self::ALL.iter().copied().find(|column| column.name().as_bytes() == name)
            }

            const fn bit(self) -> u32 {
                1 << self as u8
            }
        }

        /// A set of these columns.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $set(u32);

        impl $set {
            /// Adds a column.
            pub fn insert(&mut self, column: $name) {
                self.0 |= column.bit();
            }

            /// Takes a column out.
            pub fn remove(&mut self, column: $name) {
                self.0 &= !column.bit();
            }

            /// Adds all columns of another set.
            pub fn join(&mut self, other: $set) {
                self.0 |= other.0;
            }

            /// Whether it has a column.
            #[must_use]
            pub const fn has(self, column: $name) -> bool {
                self.0 & column.bit() != 0
            }
        }
    };
}

columns! {
    /// Columns of the rows by CPU and bucket of 4 ms.
    Column, Columns,
    RxUs, "rx_us", "Time of NET_RX, microseconds.";
    RxN, "rx_n", "Runs of NET_RX that ended in the bucket.";
    RxKsdUs, "rx_ksd_us", "The part of `rx_us` inside ksoftirqd, microseconds.";
    TxUs, "tx_us", "Time of NET_TX, microseconds.";
    TimerUs, "timer_us", "Time of TIMER, microseconds.";
    TimerN, "timer_n", "Runs of TIMER.";
    SchedUs, "sched_us", "Time of SCHED, microseconds.";
    SchedN, "sched_n", "Runs of SCHED.";
    RcuUs, "rcu_us", "Time of RCU, microseconds.";
    RcuN, "rcu_n", "Runs of RCU.";
    BlockUs, "block_us", "Time of BLOCK, microseconds.";
    TaskletUs, "tasklet_us", "Time of TASKLET, microseconds.";
    Raised, "raised", "Raises of NET_RX.";
    Packets, "pkts", "Packets that were polled.";
    Polls, "polls", "Polls of NAPI.";
    Full, "full", "Polls that used all of their budget.";
    RqMaxUs, "rq_max_us", "Longest time that a task waited for the CPU, microseconds.";
    RqSumUs, "rq_sum_us", "The sum of these times, microseconds.";
    RqN, "rq_n", "Tasks that waited.";
    NapiThreadUs, "napi_kth_us", "CPU time of NAPI threads, accounted when they are switched out, microseconds.";
    IdleUs, "idle_us", "Idle time, accounted when it ends, microseconds.";
    UserGapUs, "user_gap_us", "Largest gap of a user program that began in the bucket, microseconds.";
    MembarrierUs, "membarrier_us", "Longest grace period that began in the bucket, microseconds.";
    BacklogDropped, "backlog_dropped", "Packets that the backlog dropped.";
    Squeezed, "squeezed", "Runs of NET_RX that ended with work left.";
    StealUs, "steal_us", "Time stolen by the hypervisor, microseconds.";
    Conntrack, "conntrack", "Entries of connection tracking, on one row of a bucket.";
    ConntrackMax, "conntrack_max", "The most entries of connection tracking.";
    Neighbours, "neighbours", "Entries of the fuller table of neighbours, of IPv4 or IPv6, on one row of a bucket.";
    NeighboursMax, "neighbours_max", "The most entries of the table of neighbours.";
}

columns! {
    /// Columns of the rows of XDP counters; all counters grow over the run.
    XdpColumn, XdpColumns,
    Pass, "pass", "Packets passed.";
    Allow, "allow", "Packets passed because they are on the allow-list.";
    DropBudget, "drop_budget", "Packets dropped because the measured time was over the budget.";
    DropCharge, "drop_charge", "Packets dropped because the charge on admission was over the budget.";
    DropPackets, "drop_pkt", "Packets dropped by a limit of packets.";
    DropNew, "drop_new", "Packets dropped by a limit of new flows.";
    NewFlows, "new_flows", "Packets whose flow was not in the table of flows.";
    Other, "other", "Packets passed because they were not parsed.";
    CostNs, "cost_ns", "The estimate of the cost of a packet in force, nanoseconds; it does not grow.";
    Exempt, "exempt", "Packets passed because packets of their kind are never dropped.";
    Rung, "rung", "The rung in force: 0 observe, 1 native, 2 generic, 3 advise.";
    NewFlowLimit, "new_flow_limit", "The limit of new flows a second in force; 0 for none.";
}

/// Columns by CPU.
const COUNT: usize = Column::ALL.len();
/// Columns of XDP counters.
const XDP_COUNT: usize = XdpColumn::ALL.len();

/// What one CPU did in a bucket of 4 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Begin of the bucket since the recording's start, in microseconds.
    pub at_us: u64,
    /// The CPU.
    pub cpu: u16,
    present: Columns,
    values: [u32; COUNT],
}

impl Bucket {
    /// A row without values.
    #[must_use]
    pub const fn new(at_us: u64, cpu: u16) -> Bucket {
        Bucket { at_us, cpu, present: Columns(0), values: [0; COUNT] }
    }

    /// A value; none where the column is missing or the cell is empty.
    #[must_use]
    pub fn get(&self, column: Column) -> Option<u32> {
        let value = self.values.get(column as usize).copied();
        value.filter(|_| self.present.has(column))
    }

    /// A value, 0 where there is none.
    #[must_use]
    pub fn or_zero(&self, column: Column) -> u32 {
        self.get(column).unwrap_or(0)
    }

    /// Sets a value.
    pub fn set(&mut self, column: Column, value: u32) {
        if let Some(place) = self.values.get_mut(column as usize) {
            *place = value;
            self.present.insert(column);
        }
    }

    /// Removes a value.
    pub fn remove(&mut self, column: Column) {
        self.set(column, 0);
        self.present.remove(column);
    }
}

/// The counters of the throttle at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpRow {
    /// Time since the recording's start, in microseconds.
    pub at_us: u64,
    present: XdpColumns,
    values: [u64; XDP_COUNT],
}

impl XdpRow {
    /// A row without values.
    #[must_use]
    pub const fn new(at_us: u64) -> XdpRow {
        XdpRow { at_us, present: XdpColumns(0), values: [0; XDP_COUNT] }
    }

    /// A value; none where the column is missing or the cell is empty.
    #[must_use]
    pub fn get(&self, column: XdpColumn) -> Option<u64> {
        let value = self.values.get(column as usize).copied();
        value.filter(|_| self.present.has(column))
    }

    /// Sets a value.
    pub fn set(&mut self, column: XdpColumn, value: u64) {
        if let Some(place) = self.values.get_mut(column as usize) {
            *place = value;
            self.present.insert(column);
        }
    }

    /// How much a counter grew since an earlier row; a counter that fell began again.
    #[must_use]
    pub fn since(&self, earlier: Option<&XdpRow>, column: XdpColumn) -> u64 {
        let now = self.get(column).unwrap_or(0);
        match earlier.and_then(|row| row.get(column)) {
            Some(before) if before <= now => now - before,
            _ => now,
        }
    }
}
