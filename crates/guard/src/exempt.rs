//! Packets that are never dropped, against all others: where they are the flood, the budget can't be held.

use crate::sample::PacketSample;
use crate::settings::{EXEMPT_LEFT, EXEMPT_SHARE, OTHERS_SMALL, OWN_CHARGE, PERIODS_A_SECOND};
use std::collections::VecDeque;

/// What a period had of each kind.
#[derive(Clone, Copy, Debug, Default)]
struct Kinds {
    never_dropped: u64,
    offered: u64,
    accounts: u64,
}

/// A flood of packets that are never dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExemptFlood {
    /// They are most of the packets; else they exceed the budget alone.
    pub(crate) are_most: bool,
    /// They exceed the budget alone.
    pub(crate) exceed_budget: bool,
    /// What may be dropped is small against the budget: dropping it has no use.
    pub(crate) others_are_small: bool,
}

/// The last second of both kinds.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExemptWindow {
    recent: VecDeque<Kinds>,
}

impl ExemptWindow {
    /// Takes a period, in which packets came to this many CPUs.
    pub(crate) fn add(&mut self, packets: &PacketSample, accounts: u64) {
        self.recent.push_back(Kinds {
            never_dropped: packets.never_dropped(),
            offered: packets.offered(),
            accounts,
        });
        if self.recent.len() > PERIODS_A_SECOND {
            self.recent.pop_front();
        }
    }

    /// Forgets what came before, as after a change of rung.
    pub(crate) fn clear(&mut self) {
        self.recent.clear();
    }

    /// Packets that are never dropped and all, in the last second, and the budget of a CPU and of all CPUs that they came
    /// to, as a number of packets; none before a second is over.
    fn sums(&self, cost_ns: f64, budget_ns: f64) -> Option<(f64, f64, f64, f64)> {
        if self.recent.len() < PERIODS_A_SECOND {
            return None;
        }
        let sum = |of: fn(&Kinds) -> u64| self.recent.iter().map(of).fold(0, u64::saturating_add);
        let accounts = self.recent.iter().map(|kinds| kinds.accounts).max().unwrap_or(1).max(1);
        let budget = budget_ns * PERIODS_A_SECOND as f64 / cost_ns.max(1.0);
        let (never, all) = (sum(|kinds| kinds.never_dropped), sum(|kinds| kinds.offered));
        Some((never as f64, all as f64, budget, budget * accounts as f64))
    }

    /// Whether packets that are never dropped are the flood. `budget_ns` is the budget of a CPU in a period.
    pub(crate) fn flood(&self, cost_ns: f64, budget_ns: f64) -> Option<ExemptFlood> {
        let (never, all, of_cpu, of_all) = self.sums(cost_ns, budget_ns)?;
        let are_most = never > all * EXEMPT_SHARE && never >= of_cpu * OWN_CHARGE;
        let exceed_budget = never > of_all;
        let others_are_small = all - never < of_cpu * OTHERS_SMALL;
        (are_most || exceed_budget).then_some(ExemptFlood {
            are_most,
            exceed_budget,
            others_are_small,
        })
    }

    /// Whether such a flood is over.
    pub(crate) fn is_over(&self, cost_ns: f64, budget_ns: f64) -> bool {
        self.sums(cost_ns, budget_ns).is_some_and(|(never, all, of_cpu, of_all)| {
            let are_most = never > all * EXEMPT_LEFT && never >= of_cpu * OWN_CHARGE / 2.0;
            !are_most && never <= of_all / 2.0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET_NS: f64 = 2_400_000.0;

    fn window(never: u64, others: u64, accounts: u64) -> ExemptWindow {
        let mut window = ExemptWindow::default();
        let packets = PacketSample {
            admitted: never,
            exempt: never,
            dropped_budget: others,
            ..PacketSample::default()
        };
        (0..PERIODS_A_SECOND).for_each(|_| window.add(&packets, accounts));
        window
    }

    #[test]
    fn a_flood_is_found_by_its_share_and_by_its_charge() {
        let found = |never, others, accounts| {
            let found = window(never, others, accounts).flood(2000.0, BUDGET_NS)?;
            Some((found.are_most, found.exceed_budget, found.others_are_small))
        };
        // 1,200 packets fit into the budget of a CPU.
        assert_eq!(found(4000, 10, 1), Some((true, true, true)));
        assert_eq!(found(4000, 3000, 1), Some((true, true, false)));
        assert_eq!(found(3000, 4000, 1), Some((false, true, false)));
        assert_eq!(found(3000, 4000, 4), None, "on four CPUs they fit");
        assert_eq!(found(400, 10, 1), Some((true, false, true)));
        assert_eq!(found(200, 10, 1), None, "a few allowed packets are no flood");
        assert!(ExemptWindow::default().flood(2000.0, BUDGET_NS).is_none());
    }

    #[test]
    fn a_flood_is_over_well_below_where_it_begins() {
        let over = |never, others| window(never, others, 1).is_over(2000.0, BUDGET_NS);
        assert!(!over(4000, 10) && !over(500, 700) && !over(700, 9000));
        assert!(over(100, 10) && over(300, 9000));
        assert!(!ExemptWindow::default().is_over(2000.0, BUDGET_NS));
    }
}
