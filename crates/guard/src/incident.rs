//! An incident: when it began and ended, what it is about, and what was measured during it.

use crate::cause::{Cause, Vector};
use crate::ladder::Rung;
use crate::sample::{PacketSample, Sample};
use std::collections::BTreeMap;

/// What a CPU did during an incident.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTotals {
    /// Time that was covered by instruments, in microseconds.
    pub covered_us: u64,
    /// Packet work, in microseconds.
    pub work_us: u64,
    /// The part of it in ksoftirqd.
    pub ksoftirqd_us: u64,
    /// The part of it in NAPI threads.
    pub thread_us: u64,
    /// Packets.
    pub packets: u64,
    /// The largest gap of a user program, in microseconds.
    pub gap_us: u32,
    /// Packets that the backlog dropped.
    pub backlog_dropped: u64,
}

impl CpuTotals {
    /// Packet work as a share of the time, 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        share(self.work_us, self.covered_us)
    }

    /// The part of it in ksoftirqd, as a share of the time.
    #[must_use]
    pub fn ksoftirqd_share(&self) -> f64 {
        share(self.ksoftirqd_us, self.covered_us)
    }

    fn add(&mut self, other: &CpuTotals) {
        self.covered_us = self.covered_us.saturating_add(other.covered_us);
        self.work_us = self.work_us.saturating_add(other.work_us);
        self.ksoftirqd_us = self.ksoftirqd_us.saturating_add(other.ksoftirqd_us);
        self.thread_us = self.thread_us.saturating_add(other.thread_us);
        self.packets = self.packets.saturating_add(other.packets);
        self.gap_us = self.gap_us.max(other.gap_us);
        self.backlog_dropped = self.backlog_dropped.saturating_add(other.backlog_dropped);
    }
}

fn share(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}

/// What was measured in a stretch of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// By CPU.
    pub cpus: BTreeMap<u16, CpuTotals>,
    /// Of the throttle.
    pub packets: PacketSample,
    /// Whether a throttle counted packets.
    pub has_packets: bool,
    /// The longest grace period, in microseconds.
    pub grace_us: u32,
    /// Periods that it has.
    pub periods: u64,
}

impl Totals {
    pub(crate) fn add_sample(&mut self, sample: &Sample) {
        self.periods += 1;
        for cpu in &sample.cpus {
            let known = cpu.rx_us.is_some();
            self.cpus.entry(cpu.cpu).or_default().add(&CpuTotals {
                covered_us: if known { cpu.covered_us.into() } else { 0 },
                work_us: cpu.work_us().unwrap_or(0),
                ksoftirqd_us: cpu.ksoftirqd_us.into(),
                thread_us: cpu.thread_us.into(),
                packets: cpu.packets.unwrap_or(0),
                gap_us: cpu.gap_us.max(cpu.ended_gap_us).unwrap_or(0),
                backlog_dropped: cpu.backlog_dropped,
            });
        }
        self.grace_us = self.grace_us.max(sample.grace_us.unwrap_or(0));
        if let Some(packets) = &sample.packets {
            self.has_packets = true;
            self.add_packets(packets);
        }
    }

    fn add_packets(&mut self, other: &PacketSample) {
        let sum = &mut self.packets;
        for (sum, n) in [
            (&mut sum.admitted, other.admitted),
            (&mut sum.allowed, other.allowed),
            (&mut sum.exempt, other.exempt),
            (&mut sum.dropped_budget, other.dropped_budget),
            (&mut sum.dropped_limit, other.dropped_limit),
            (&mut sum.new_flows, other.new_flows),
        ] {
            *sum = sum.saturating_add(n);
        }
    }

    pub(crate) fn add(&mut self, other: &Totals) {
        self.periods += other.periods;
        for (cpu, totals) in &other.cpus {
            self.cpus.entry(*cpu).or_default().add(totals);
        }
        self.grace_us = self.grace_us.max(other.grace_us);
        self.has_packets |= other.has_packets;
        self.add_packets(&other.packets);
    }

    /// The CPU with the largest share of packet work.
    #[must_use]
    pub fn busiest(&self) -> Option<(u16, CpuTotals)> {
        let all = self.cpus.iter().map(|(cpu, totals)| (*cpu, *totals));
        all.max_by(|a, b| a.1.share().total_cmp(&b.1.share()))
    }
}

/// The verdict on an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Drops of the throttle kept packet work within its bounds.
    Held,
    /// Packet work took too much of a CPU.
    PacketWork,
    /// New flows fill a table of the kernel.
    TableFills,
    /// User programs were kept waiting by something else.
    NotPackets,
}

impl Verdict {
    /// The name in outputs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Held => "held",
            Verdict::PacketWork => "packet-work",
            Verdict::TableFills => "table-fills",
            Verdict::NotPackets => "not-packets",
        }
    }
}

/// A stretch of time in which packet work, drops or gaps were too many.
#[derive(Clone, Debug, PartialEq)]
pub struct Incident {
    /// Its number in the run, 1 is the first.
    pub number: u64,
    /// When it began, in milliseconds since the run's start.
    pub began_ms: u64,
    /// The end of the last period that belongs to it, so far.
    pub last_ms: u64,
    /// It has ended.
    pub has_ended: bool,
    /// When packet work became hot.
    pub hot_ms: Option<u64>,
    /// When the throttle began to drop.
    pub dropped_ms: Option<u64>,
    /// When a table was found to be about to be full.
    pub filled_ms: Option<u64>,
    /// When user programs were found waiting without packet work.
    pub starved_ms: Option<u64>,
    /// The cause, when it is known.
    pub cause: Option<Cause>,
    /// When the cause was named first.
    pub named_ms: Option<u64>,
    /// What kept user programs waiting where it is not packets, with its share of the time.
    pub other: Option<(u16, Vector, f64)>,
    /// Whether the throttle had an effect; none where the budget dropped nothing.
    pub is_effective: Option<bool>,
    /// The rung at its end.
    pub rung: Rung,
    /// Attributes of the packets, where heads were sampled.
    pub attributes: Vec<String>,
    /// What was measured.
    pub totals: Totals,
}

impl Incident {
    /// The verdict on it.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if self.hot_ms.is_some() {
            Verdict::PacketWork
        } else if self.dropped_ms.is_some() {
            Verdict::Held
        } else if self.filled_ms.is_some() {
            Verdict::TableFills
        } else {
            Verdict::NotPackets
        }
    }

    /// How long it lasted, in milliseconds.
    #[must_use]
    pub fn lasted_ms(&self) -> u64 {
        self.last_ms.saturating_sub(self.began_ms)
    }

    /// Packets a second: those that arrived at the throttle, or else those that were processed.
    #[must_use]
    pub fn packet_rate(&self) -> f64 {
        let packets = if self.totals.has_packets {
            self.totals.packets.offered()
        } else {
            self.totals.cpus.values().map(|cpu| cpu.packets).sum()
        };
        packets as f64 * 1000.0 / self.lasted_ms().max(1) as f64
    }

    /// The line of diagnosis: where, when, the cause, the rate, the share, the harm, and what is to be done.
    ///
    /// `moment` is how the begin is written, and `interface` names the interface where one is known.
    #[must_use]
    pub fn line(&self, moment: &str, interface: Option<&str>, budget_percent: u8) -> String {
        let busiest = self.totals.busiest();
        let other = self.other.filter(|_| self.verdict() == Verdict::NotPackets);
        let cpu = other.map(|(cpu, ..)| cpu).or(busiest.map(|(cpu, _)| cpu));
        let mut line = interface.map_or(String::new(), |name| format!("{name} "));
        if let Some(cpu) = cpu {
            line.push_str(&format!("CPU{cpu} "));
        }
        let seconds = self.lasted_ms() as f64 / 1000.0;
        line.push_str(&format!("incident {} at {moment} +{seconds:.1} s: ", self.number));
        match self.cause {
            Some(cause) => line.push_str(&cause.to_string()),
            None => line.push_str("cause not known"),
        }
        if let Some((_, vector, share)) = self.other
            && self.verdict() == Verdict::NotPackets
        {
            let work = busiest.map_or(0.0, |(_, totals)| totals.share() * 100.0);
            let gap = self.totals.cpus.values().map(|cpu| cpu.gap_us).max().unwrap_or(0);
            let gap = f64::from(gap) / 1000.0;
            let share = match vector {
                Vector::Tasks => String::new(),
                Vector::NetTx
                | Vector::Timer
                | Vector::Sched
                | Vector::Rcu
                | Vector::Block
                | Vector::Tasklet
                | Vector::Steal => format!(" {:.0} %", share * 100.0),
            };
            line.push_str(&format!(
                "{share}: user gaps to {gap:.1} ms, but packet work is {work:.0} %"
            ));
            return line;
        }
        if !self.attributes.is_empty() {
            let shown: Vec<&str> = self.attributes.iter().take(3).map(String::as_str).collect();
            line.push_str(&format!(" ({})", shown.join(", ")));
        }
        line.push_str(&format!(": {:.0} kpps", self.packet_rate() / 1000.0));
        if let Some((cpu, totals)) = busiest.filter(|(_, totals)| totals.covered_us > 0) {
            let (all, in_ksoftirqd) = (totals.share() * 100.0, totals.ksoftirqd_share() * 100.0);
            line.push_str(&format!(", {all:.0} % of CPU{cpu} in packet work"));
            if totals.thread_us > totals.work_us / 2 {
                line.push_str(" (in a NAPI thread)");
            } else if in_ksoftirqd >= 1.0 {
                line.push_str(&format!(" ({in_ksoftirqd:.0} in ksoftirqd)"));
            }
            if totals.gap_us > 0 {
                let gap = f64::from(totals.gap_us) / 1000.0;
                line.push_str(&format!(", user gaps to {gap:.1} ms"));
            }
        }
        let lost: u64 = self.totals.cpus.values().map(|cpu| cpu.backlog_dropped).sum();
        if lost > 0 {
            line.push_str(&format!(", backlog dropped {lost}"));
        }
        let dropped = self.totals.packets.dropped();
        if dropped > 0 {
            let percent = 100.0 * dropped as f64 / self.totals.packets.offered().max(1) as f64;
            line.push_str(&format!(", the guard dropped {percent:.0} %"));
        }
        line.push_str(&self.done(interface, budget_percent));
        line
    }

    /// What was or could be done.
    fn done(&self, interface: Option<&str>, budget_percent: u8) -> String {
        match (self.verdict(), self.is_effective) {
            (_, Some(false)) => format!(
                "; dropping does not keep packet work at {budget_percent} %: steer the queue to another CPU, or filter upstream"
            ),
            (Verdict::Held, _) => "; held".to_owned(),
            (Verdict::PacketWork | Verdict::TableFills, None) => format!(
                "; would be throttled to {budget_percent} % by: gabion guard enforce --interface {} --budget {budget_percent} --allow …",
                interface.unwrap_or("IF")
            ),
            (Verdict::PacketWork | Verdict::TableFills, Some(true)) => "; throttled".to_owned(),
            (Verdict::NotPackets, _) => String::new(),
        }
    }
}
