//! Which packet work is that of the throttled interface.
//!
//! A CPU's softirq time belongs to all interfaces. It says something about this one only where this interface's charge is
//! a good part of the budget, as in the throttle itself, or where nearly all packets of the CPU came over it: else a flood
//! on another interface would make the packets of this one look expensive, and its throttle look useless.

use crate::limits::CPUS_MAX;
use crate::sample::Sample;
use crate::settings::{MEAN_PERIODS, OWN_CHARGE, OWN_PACKETS};
use std::collections::{BTreeMap, VecDeque};

/// What came over the interface in a period, and all packets of the CPU where they were counted.
#[derive(Clone, Copy, Debug, Default)]
struct Brought {
    offered: u64,
    admitted: u64,
    polled: Option<u64>,
}

/// The last periods of an account: one for each CPU, or one for all where they are not distinguished.
#[derive(Clone, Debug, Default)]
struct Account(VecDeque<Brought>);

impl Account {
    fn add(&mut self, brought: Brought) {
        self.0.push_back(brought);
        if self.0.len() > MEAN_PERIODS {
            self.0.pop_front();
        }
    }

    /// Whether the packet work of its CPUs is that of the interface.
    fn is_own(&self, cost_ns: f64, budget_ns: f64) -> bool {
        let sum = |of: fn(&Brought) -> u64| self.0.iter().map(of).fold(0, u64::saturating_add);
        let (offered, admitted) = (sum(|b| b.offered), sum(|b| b.admitted));
        let budget_ns = budget_ns * self.0.len() as f64;
        if admitted > 0 && admitted as f64 * cost_ns >= budget_ns * OWN_CHARGE {
            return true;
        }
        let is_counted = self.0.iter().all(|brought| brought.polled.is_some());
        let polled = sum(|b| b.polled.unwrap_or(0));
        is_counted && offered > 0 && offered as f64 >= polled as f64 * OWN_PACKETS
    }
}

/// What of a period's packet work is that of the interface.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Own {
    /// Packet work, in microseconds; none without any CPU whose work is the interface's.
    pub(crate) work_us: Option<u64>,
    /// Packet work of the CPUs whose packets were counted, and these packets.
    pub(crate) counted: Option<(u64, u64)>,
    /// Packets that the throttle admitted there.
    pub(crate) admitted: u64,
    /// CPUs that packets of the interface came to.
    pub(crate) accounts: u64,
}

/// The accounts, with the last periods of each.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnWork {
    accounts: BTreeMap<u16, Account>,
    all: Account,
    /// The CPUs whose packet work is the interface's in the present period, in ascending order.
    cpus: Vec<u16>,
}

impl OwnWork {
    /// Takes a period. `cost_ns` is what a packet is charged, `budget_ns` the budget of a CPU in a period. Without a
    /// throttle all packet work counts.
    ///
    /// A drop takes time too, most of it before the throttle saw the packet, so packets that were dropped count. Not so
    /// with `admitted_bear_all`, as where measured time does not bound what is admitted: a cost that is too small would
    /// admit too many.
    pub(crate) fn add(
        &mut self,
        sample: &Sample,
        cost_ns: f64,
        budget_ns: f64,
        admitted_bear_all: bool,
    ) -> Own {
        self.cpus.clear();
        let mut own = Own::default();
        let packets = sample.packets.as_ref();
        let is_all_own = packets.is_none_or(|packets| {
            let mut counts = sample.cpus.iter().map(|cpu| cpu.packets);
            let polled = counts.try_fold(0_u64, |sum, n| Some(sum.saturating_add(n?)));
            let (offered, admitted) = (packets.offered(), packets.admitted);
            self.all.add(Brought { offered, admitted, polled });
            self.all.is_own(cost_ns, budget_ns)
        });
        let by_cpu = packets.map(|packets| packets.by_cpu.as_slice()).unwrap_or_default();
        for cpu in &sample.cpus {
            let at = by_cpu.binary_search_by_key(&cpu.cpu, |of| of.cpu).ok();
            let of_cpu = at.and_then(|at| by_cpu.get(at)).copied().unwrap_or_default();
            let is_own = if by_cpu.is_empty() {
                is_all_own
            } else {
                if !self.accounts.contains_key(&cpu.cpu) && self.accounts.len() >= CPUS_MAX {
                    continue;
                }
                let account = self.accounts.entry(cpu.cpu).or_default();
                let (offered, admitted) = (of_cpu.offered, of_cpu.admitted);
                account.add(Brought { offered, admitted, polled: cpu.packets });
                own.accounts += u64::from(offered > 0);
                account.is_own(cost_ns, budget_ns)
            };
            let Some(work) = cpu.work_us().filter(|_| is_own) else { continue };
            self.cpus.push(cpu.cpu);
            own.work_us = Some(own.work_us.unwrap_or(0).saturating_add(work));
            own.admitted = own.admitted.saturating_add(of_cpu.admitted);
            if let Some(mut n) = cpu.packets {
                if admitted_bear_all {
                    n = n.saturating_sub(of_cpu.offered.saturating_sub(of_cpu.admitted));
                }
                let (us, packets) = own.counted.unwrap_or_default();
                own.counted = Some((us.saturating_add(work), packets.saturating_add(n)));
            }
        }
        self.cpus.sort_unstable();
        if by_cpu.is_empty() {
            own.accounts = 1;
            own.admitted = packets.filter(|_| is_all_own).map_or(0, |packets| packets.admitted);
        }
        own
    }

    /// Whether the packet work of a CPU is the interface's in the present period.
    pub(crate) fn has(&self, cpu: u16) -> bool {
        self.cpus.binary_search(&cpu).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{CpuPackets, CpuSample, PacketSample};

    const BUDGET_NS: f64 = 2_400_000.0;

    fn cpu(number: u16, rx_us: u32, packets: Option<u64>) -> CpuSample {
        let rx_us = Some(rx_us);
        CpuSample { cpu: number, covered_us: 8000, rx_us, packets, ..CpuSample::default() }
    }

    fn sample(packets: PacketSample, cpus: Vec<CpuSample>) -> Sample {
        Sample { packets: Some(packets), cpus, ..Sample::at(0) }
    }

    #[test]
    fn work_counts_from_a_quarter_of_the_budget_or_where_nearly_all_packets_are_own() {
        let found = |admitted, polled| {
            let packets = PacketSample { admitted, ..PacketSample::default() };
            let mut work = OwnWork::default();
            work.add(&sample(packets, vec![cpu(0, 7000, polled)]), 2000.0, BUDGET_NS, true).work_us
        };
        assert_eq!(found(299, Some(3000)), None);
        assert_eq!(found(300, Some(3000)), Some(7000));
        assert_eq!((found(299, None), found(300, None)), (None, Some(7000)));
        assert_eq!((found(30, Some(40)), found(29, Some(40))), (Some(7000), None));
        assert_eq!(found(0, Some(0)), None);
    }

    #[test]
    fn each_cpu_is_judged_by_its_own_account() {
        let of = |cpu, offered, admitted| CpuPackets { cpu, offered, admitted };
        let packets = PacketSample {
            admitted: 1003,
            dropped_budget: 500,
            by_cpu: vec![of(1, 1500, 1000), of(2, 3, 3)],
            ..PacketSample::default()
        };
        let cpus =
            vec![cpu(2, 7500, Some(3000)), cpu(1, 2000, Some(1520)), cpu(3, 7900, Some(4000))];
        let mut work = OwnWork::default();
        let own = work.add(&sample(packets, cpus), 2000.0, BUDGET_NS, true);
        assert!(work.has(1) && !work.has(2) && !work.has(3));
        let counted = Some((2000, 1020));
        assert_eq!(own, Own { work_us: Some(2000), counted, admitted: 1000, accounts: 2 });
    }
}
