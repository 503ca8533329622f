//! The evidence from which the cause of an incident is named.
//!
//! The causes are tried in one order, the most special first; a cause is named only from evidence that was measured.
//! Without the softirq instrument no cause is named at all.

use crate::baseline::Calm;
use crate::cause::{Cause, Vector};
use crate::cpu::Spent;
use crate::sample::{Heads, TableFill};
use crate::settings::{
    COST_PACKETS, DEAR, EVIDENCE_PERIODS, NAMED_SHARE, NEW_FLOW_RATIO, NEW_FLOW_RATIO_LEFT,
    NEW_FLOWS_LEAST, NEW_FLOWS_TIMES_CALM, ONE_FLOW, PERIODS_A_SECOND, TABLE_FILL, USUAL_RATE,
};
use std::collections::VecDeque;

/// What one period says about the cause.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Observed {
    /// Packet work of all watched CPUs, in microseconds; none without the softirq instrument.
    pub(crate) work_us: Option<u64>,
    /// Packets that were processed.
    pub(crate) packets: u64,
    /// Packets that arrived at the throttle, without those that the budget dropped: their flows are not looked up.
    pub(crate) offered: u64,
    /// Of these, packets of new flows; none where nobody counted them.
    pub(crate) new_flows: Option<u64>,
}

/// Evidence of the last second of an incident.
#[derive(Clone, Debug, Default)]
pub(crate) struct EvidenceWindow {
    periods: VecDeque<Observed>,
    tables: Vec<(TableFill, u64)>,
    heads: Option<Heads>,
}

impl EvidenceWindow {
    /// Takes a period. Tables and heads are kept as they were measured last.
    pub(crate) fn add_observed(
        &mut self,
        observed: Observed,
        tables: &[TableFill],
        heads: Option<&Heads>,
    ) {
        self.periods.push_back(observed);
        if self.periods.len() > EVIDENCE_PERIODS {
            self.periods.pop_front();
        }
        for fill in tables {
            match self.tables.iter_mut().find(|(known, _)| known.table == fill.table) {
                Some((known, _)) => *known = *fill,
                None => self.tables.push((*fill, fill.count)),
            }
        }
        if let Some(heads) = heads {
            self.heads = Some(heads.clone());
        }
    }

    /// Whether it spans a second.
    pub(crate) fn is_full(&self) -> bool {
        self.periods.len() >= EVIDENCE_PERIODS
    }

    /// Forgets what was observed before.
    pub(crate) fn clear(&mut self) {
        *self = EvidenceWindow::default();
    }

    /// Forgets what was observed while the incident began. Packet heads stay: a flood of few flows fills the sample within
    /// milliseconds, and there is one sample in an incident.
    pub(crate) fn settle(&mut self) {
        *self = EvidenceWindow { heads: self.heads.take(), ..EvidenceWindow::default() };
    }

    /// The sums of the window, with what a cause is decided from.
    fn sums(&self) -> Sums {
        let mut sums = Sums { periods: self.periods.len(), ..Sums::default() };
        for period in &self.periods {
            if let Some(us) = period.work_us {
                sums.has_softirqs = true;
                sums.work_us = sums.work_us.saturating_add(us);
            }
            sums.packets = sums.packets.saturating_add(period.packets);
            sums.offered = sums.offered.saturating_add(period.offered);
            if let Some(n) = period.new_flows {
                sums.has_flows = true;
                sums.new_flows = sums.new_flows.saturating_add(n);
            }
        }
        sums
    }

    /// The cause that the evidence shows; none without the softirq instrument.
    ///
    /// `before` is the cause that was named so far: a flood of new flows is taken back only well below its threshold.
    pub(crate) fn cause(&self, before: Option<Cause>, calm: &Calm) -> Option<Cause> {
        let sums = self.sums();
        if !sums.has_softirqs {
            return None;
        }
        // A small table is full before the evidence begins, and can't grow any more.
        let filling = self.tables.iter().find(|(fill, first)| {
            fill.max > 0
                && fill.count as f64 / fill.max as f64 > TABLE_FILL
                && (fill.count > *first || fill.count >= fill.max)
        });
        if let Some((fill, _)) = filling {
            return Some(Cause::TableFills(fill.table));
        }
        let can_judge_flows = sums.has_flows && self.is_full() && sums.offered >= COST_PACKETS;
        if can_judge_flows && sums.is_flood_of_new_flows(before, calm) {
            return Some(Cause::NewFlows);
        }
        // Without the throttle's table of flows the sampled heads say how many flows are new.
        let is_new_by_heads = |heads: &Heads| {
            let share = heads.new_flows as f64 / heads.followed.max(1) as f64;
            heads.followed >= COST_PACKETS
                && share > NEW_FLOW_RATIO
                && sums.rate(sums.packets) * share > NEW_FLOWS_LEAST
        };
        if !sums.has_flows && self.heads.as_ref().is_some_and(is_new_by_heads) {
            return Some(Cause::NewFlows);
        }
        let is_one_flow = |heads: &Heads| {
            heads.packets >= COST_PACKETS
                && heads.largest_flow as f64 > heads.packets as f64 * ONE_FLOW
        };
        if self.heads.as_ref().is_some_and(is_one_flow) {
            return Some(Cause::OneLargeFlow);
        }
        if sums.is_dear(calm) {
            return Some(Cause::DearPackets);
        }
        if can_judge_flows {
            return Some(Cause::EstablishedFlows);
        }
        Some(Cause::TooManyPackets)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    periods: usize,
    has_softirqs: bool,
    has_flows: bool,
    work_us: u64,
    packets: u64,
    offered: u64,
    new_flows: u64,
}

impl Sums {
    /// A count as a rate a second.
    fn rate(&self, n: u64) -> f64 {
        n as f64 * PERIODS_A_SECOND as f64 / self.periods.max(1) as f64
    }

    fn is_flood_of_new_flows(&self, before: Option<Cause>, calm: &Calm) -> bool {
        let ratio = match before {
            Some(Cause::NewFlows) => NEW_FLOW_RATIO_LEFT,
            _ => NEW_FLOW_RATIO,
        };
        let rate = self.rate(self.new_flows);
        let usual = calm.new_flows().unwrap_or(0.0) * NEW_FLOWS_TIMES_CALM;
        self.new_flows as f64 > self.offered as f64 * ratio
            && rate > usual
            && rate > NEW_FLOWS_LEAST
    }

    fn is_dear(&self, calm: &Calm) -> bool {
        let (Some(rate), Some(cost)) = (calm.packets(), calm.cost_ns()) else { return false };
        self.packets >= COST_PACKETS
            && self.rate(self.packets) <= rate * USUAL_RATE
            && self.work_us as f64 * 1000.0 / self.packets as f64 >= cost * DEAR
    }
}

/// What kept user programs waiting on a CPU whose packet work was small, with its share of the time.
pub(crate) fn other_than_packets(spent: &Spent) -> (Vector, f64) {
    let softirqs = Vector::SOFTIRQS.iter().copied().zip(spent.vectors_us);
    let all = softirqs.chain([(Vector::Steal, spent.steal_us)]);
    let largest = all.max_by_key(|(_, us)| *us).unwrap_or((Vector::Tasks, 0));
    match spent.share(largest.1) {
        share if share >= NAMED_SHARE => (largest.0, share),
        _ => (Vector::Tasks, 0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::Counted;
    use crate::cause::Table;

    fn window(observed: Observed) -> EvidenceWindow {
        let mut window = EvidenceWindow::default();
        (0..EVIDENCE_PERIODS).for_each(|_| window.add_observed(observed, &[], None));
        window
    }

    fn calm(packets: u64, work_us: u64) -> Calm {
        let mut calm = Calm::default();
        for n in 0..4 * PERIODS_A_SECOND as u64 {
            let counted = Counted {
                packets: Some(packets),
                new_flows: Some(0),
                busiest_prefix: None,
                work_us,
            };
            calm.add_period(n * 8, counted);
        }
        calm
    }

    const FLOOD: Observed =
        Observed { work_us: Some(6000), packets: 3000, offered: 3000, new_flows: Some(300) };

    #[test]
    fn a_cause_is_named_only_from_what_was_measured() {
        let calm = Calm::default();
        let cause = |observed| window(observed).cause(None, &calm);
        assert_eq!(cause(FLOOD), Some(Cause::NewFlows));
        assert_eq!(cause(Observed { new_flows: None, ..FLOOD }), Some(Cause::TooManyPackets));
        assert_eq!(cause(Observed { work_us: None, ..FLOOD }), None);
        let old = Observed { new_flows: Some(3), ..FLOOD };
        assert_eq!(cause(old), Some(Cause::EstablishedFlows));
        // 125 new flows a second are no flood, whatever their share.
        let few = Observed { offered: 4, new_flows: Some(1), ..FLOOD };
        assert_eq!(cause(few), Some(Cause::EstablishedFlows));
    }

    #[test]
    fn a_flood_of_new_flows_is_taken_back_only_well_below_its_threshold() {
        let observed = Observed { new_flows: Some(100), ..FLOOD };
        let window = window(observed);
        let calm = Calm::default();
        assert_eq!(window.cause(None, &calm), Some(Cause::EstablishedFlows));
        assert_eq!(window.cause(Some(Cause::NewFlows), &calm), Some(Cause::NewFlows));
    }

    #[test]
    fn new_flows_that_are_usual_are_no_flood() {
        let mut calm = Calm::default();
        for n in 0..4 * PERIODS_A_SECOND as u64 {
            let counted = Counted {
                packets: Some(1000),
                new_flows: Some(100),
                busiest_prefix: None,
                work_us: 100,
            };
            calm.add_period(n * 8, counted);
        }
        assert_eq!(window(FLOOD).cause(None, &calm), Some(Cause::EstablishedFlows));
    }

    #[test]
    fn packets_that_cost_thrice_are_dear_unless_there_are_more_of_them() {
        let dear = Observed { packets: 1000, offered: 1000, new_flows: None, work_us: Some(6000) };
        assert_eq!(window(dear).cause(None, &calm(1000, 2000)), Some(Cause::DearPackets));
        assert_eq!(window(dear).cause(None, &calm(1000, 2001)), Some(Cause::TooManyPackets));
        assert_eq!(window(dear).cause(None, &calm(499, 998)), Some(Cause::TooManyPackets));
    }

    #[test]
    fn a_table_that_fills_and_one_large_flow_are_named() {
        let calm = Calm::default();
        let mut window = window(FLOOD);
        let fill = |count| TableFill { table: Table::Conntrack, count, max: 1000 };
        window.add_observed(FLOOD, &[fill(600)], None);
        assert_eq!(window.cause(None, &calm), Some(Cause::NewFlows), "it does not grow");
        window.add_observed(FLOOD, &[fill(601)], None);
        assert_eq!(window.cause(None, &calm), Some(Cause::TableFills(Table::Conntrack)));
        let mut full = self::window(FLOOD);
        full.add_observed(FLOOD, &[fill(1000)], None);
        assert_eq!(full.cause(None, &calm), Some(Cause::TableFills(Table::Conntrack)));
        let heads = Heads { packets: 1000, largest_flow: 501, ..Heads::default() };
        let mut window = self::window(Observed { new_flows: None, ..FLOOD });
        window.add_observed(Observed { new_flows: None, ..FLOOD }, &[], Some(&heads));
        let cause = window.cause(None, &calm);
        assert_eq!(cause, Some(Cause::OneLargeFlow));
        let new = Heads { followed: 1000, new_flows: 51, ..heads };
        window.add_observed(Observed { new_flows: None, ..FLOOD }, &[], Some(&new));
        assert_eq!(window.cause(None, &calm), Some(Cause::NewFlows));
        window.add_observed(
            Observed { new_flows: None, ..FLOOD },
            &[],
            Some(&Heads { new_flows: 49, ..new }),
        );
        assert_eq!(window.cause(None, &calm), Some(Cause::OneLargeFlow));
    }

    #[test]
    fn the_largest_share_is_named_and_a_small_one_is_not() {
        let mut spent = Spent { covered_us: 1000, ..Spent::default() };
        assert_eq!(other_than_packets(&spent), (Vector::Tasks, 0.0));
        spent.vectors_us[1] = 410;
        assert_eq!(other_than_packets(&spent), (Vector::Timer, 0.41));
        spent.steal_us = 500;
        assert_eq!(other_than_packets(&spent), (Vector::Steal, 0.5));
    }
}
