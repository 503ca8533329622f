//! The controller against simulated hosts: the cost of a packet and the delay of its measurement vary, and the budget
//! holds again soon after every step; nothing oscillates.

use gabion_guard::{
    Action, CpuSample, PacketSample, Rung, Sample, Settings, State, Table, TableFill, Verdict, step,
};
use proptest::prelude::*;
use std::collections::VecDeque;

/// A host behind a throttle that charges each packet on admission.
struct Plant {
    state: State,
    /// What a packet really costs, in nanoseconds.
    cost_ns: u64,
    /// Packets that were admitted and wait to be processed; the backlog holds 1,000.
    waiting: u64,
    /// Samples that are not delivered yet.
    delayed: VecDeque<Sample>,
    delay: usize,
    charge_ns: u64,
    rung: Rung,
    /// What the throttle does on each rung.
    acts: fn(Rung) -> bool,
    at_ms: u64,
    /// Shares of packet work in the periods so far.
    shares: Vec<f64>,
    actions: Vec<(u64, Action)>,
    limits: Vec<(u64, u64)>,
}

const PERIOD_NS: u64 = 8_000_000;

impl Plant {
    fn new(budget_percent: u8, cost_ns: u64, delay: usize) -> Plant {
        Plant {
            state: State::new(Settings::enforce(budget_percent)),
            cost_ns,
            waiting: 0,
            delayed: VecDeque::new(),
            delay,
            charge_ns: 2000,
            rung: Rung::Native,
            acts: |_| true,
            at_ms: 0,
            shares: Vec::new(),
            actions: Vec::new(),
            limits: Vec::new(),
        }
    }

    /// One period with this many packets arriving, of which a tenth are new flows.
    fn period(&mut self, offered: u64, budget_percent: u8) {
        let budget_ns = u64::from(budget_percent) * PERIOD_NS / 100;
        let admitted = match (self.acts)(self.rung) {
            true => offered.min(budget_ns / self.charge_ns.max(1)),
            false => offered,
        };
        let queued = self.waiting + admitted;
        let done = queued.min(PERIOD_NS / self.cost_ns);
        self.waiting = (queued - done).min(1000);
        let work_us = (done * self.cost_ns / 1000) as u32;
        self.shares.push(f64::from(work_us) / 8000.0);
        self.delayed.push_back(Sample {
            cpus: vec![CpuSample {
                covered_us: 8000,
                rx_us: Some(work_us),
                packets: Some(done),
                ..CpuSample::default()
            }],
            packets: Some(PacketSample {
                admitted: offered.min(admitted),
                dropped_budget: offered - admitted,
                // The throttle looks a flow up only when its packet is within the budget.
                new_flows: admitted / 10,
                ..PacketSample::default()
            }),
            ..Sample::at(self.at_ms)
        });
        if self.delayed.len() > self.delay
            && let Some(sample) = self.delayed.pop_front()
        {
            let (setpoint, actions, _) = step(&sample, &mut self.state);
            self.charge_ns = setpoint.cost_ns;
            self.rung = setpoint.rung;
            self.actions.extend(actions.into_iter().map(|action| (self.at_ms, action)));
            self.limits.extend(setpoint.new_flows.map(|limit| (self.at_ms, limit)));
        }
        self.at_ms += 8;
    }

    fn count(&self, is: fn(&Action) -> bool) -> usize {
        self.actions.iter().filter(|(_, action)| is(action)).count()
    }
}

/// Packets of a period that need all of a CPU, twice over.
fn flood(cost_ns: u64) -> u64 {
    2 * PERIOD_NS / cost_ns
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_budget_holds_25_periods_after_a_tenfold_step(
        delay in 1usize..=5,
        cost_ns in 300u64..=20_000,
        is_up: bool,
        budget in prop::sample::select(vec![10u8, 20, 30, 50, 70]),
    ) {
        let other = if is_up { cost_ns / 10 } else { cost_ns * 10 };
        let (first, second) = (cost_ns, other.clamp(300, 20_000));
        let mut plant = Plant::new(budget, first, delay);
        for cost in [first, second] {
            plant.cost_ns = cost;
            let begin = plant.shares.len();
            (0..200).for_each(|_| plant.period(flood(cost), budget));
            let settled = &plant.shares[begin + 25..];
            let most = settled.iter().copied().fold(0.0, f64::max);
            prop_assert!(most <= f64::from(budget) / 100.0 + 0.03, "{most} for {cost} ns");
        }
        let changes = plant.count(|a| matches!(a, Action::Change { .. }));
        prop_assert_eq!(changes, 0);
    }

    #[test]
    fn a_limit_at_most_doubles_a_second(
        loads in prop::collection::vec((0u64..20_000, 10usize..400), 1..12),
    ) {
        let mut plant = Plant::new(30, 2000, 2);
        for (offered, periods) in loads {
            (0..periods).for_each(|_| plant.period(offered, 30));
        }
        for (at, (ms, limit)) in plant.limits.iter().enumerate() {
            let since = ms.saturating_sub(992);
            let before = plant.limits[..at].iter().filter(|(ms, _)| *ms >= since);
            let least = before.map(|(_, limit)| *limit).min().unwrap_or(*limit);
            prop_assert!(*limit <= least.saturating_mul(2), "{limit} after {least} at {ms}");
        }
    }
}

#[test]
fn a_throttle_without_effect_is_left_twice_and_then_nothing_changes() {
    let mut plant = Plant::new(30, 2000, 2);
    // Half of the packets are dropped and packet work stays: what generic XDP does.
    plant.acts = |_| true;
    plant.charge_ns = 2000;
    for _ in 0..1250 {
        plant.period(8000, 30);
        // The CPU is as busy as if nothing had been dropped.
        if let Some(sample) = plant.delayed.back_mut() {
            sample.cpus[0].rx_us = Some(7000);
        }
    }
    let changes: Vec<(u64, Rung, Rung)> = plant
        .actions
        .iter()
        .filter_map(|(at, action)| match action {
            Action::Change { from, to, .. } => Some((*at, *from, *to)),
            _ => None,
        })
        .collect();
    let rungs: Vec<(Rung, Rung)> = changes.iter().map(|(_, from, to)| (*from, *to)).collect();
    assert_eq!(rungs, [(Rung::Native, Rung::Generic), (Rung::Generic, Rung::Advise)]);
    assert!(changes.iter().all(|(at, ..)| *at <= 2000), "{changes:?}");
    assert_eq!(plant.count(|a| matches!(a, Action::Begin(_))), 1);
}

#[test]
fn a_steady_flood_that_is_held_changes_no_rung_and_is_one_incident() {
    let mut plant = Plant::new(30, 2000, 1);
    (0..125).for_each(|_| plant.period(4, 30));
    (0..1250).for_each(|_| plant.period(4000, 30));
    (0..125).for_each(|_| plant.period(4, 30));
    assert_eq!(plant.count(|a| matches!(a, Action::Change { .. })), 0);
    assert_eq!(plant.count(|a| matches!(a, Action::Begin(_))), 1);
    let ended = plant.actions.iter().find_map(|(_, action)| match action {
        Action::End(incident) => Some(incident),
        _ => None,
    });
    let ended = ended.unwrap();
    assert_eq!(ended.verdict(), Verdict::Held);
    assert_eq!(ended.is_effective, Some(true));
    assert_eq!(ended.cause.map(|cause| cause.name()), Some("new-flows"));
}

/// The budget can't be held by dropping what is never dropped: the others would pay for it.
#[test]
fn a_flood_of_packets_that_are_never_dropped_leaves_only_advice_until_it_is_over() {
    let mut plant = Plant::new(30, 2000, 1);
    (0..125).for_each(|_| plant.period(4, 30));
    let flood = |plant: &mut Plant| {
        let mut sample = Sample {
            cpus: vec![CpuSample {
                covered_us: 8000,
                rx_us: Some(7000),
                packets: Some(4000),
                ..CpuSample::default()
            }],
            ..Sample::at(plant.at_ms)
        };
        // Detached, the throttle counts nothing.
        let is_attached = plant.rung != Rung::Advise;
        let packets = PacketSample { admitted: 4000, exempt: 4000, ..PacketSample::default() };
        sample.packets = Some(if is_attached { packets } else { PacketSample::default() });
        let (setpoint, actions, _) = step(&sample, &mut plant.state);
        plant.rung = setpoint.rung;
        plant.actions.extend(actions.into_iter().map(|action| (plant.at_ms, action)));
        plant.at_ms += 8;
    };
    let changes = |plant: &Plant| -> Vec<(u64, Rung, Rung)> {
        let change = |(at, action): &(u64, Action)| match action {
            Action::Change { from, to, .. } => Some((*at, *from, *to)),
            _ => None,
        };
        plant.actions.iter().filter_map(change).collect()
    };
    let began_ms = plant.at_ms;
    (0..1250).for_each(|_| flood(&mut plant));
    let in_flood = changes(&plant);
    assert_eq!(in_flood.len(), 1, "{in_flood:?}");
    assert_eq!((in_flood[0].1, in_flood[0].2), (Rung::Native, Rung::Advise));
    assert!(in_flood[0].0 <= began_ms + 2000, "{in_flood:?}");
    assert_eq!(plant.count(|a| matches!(a, Action::CannotHold(_))), 1);
    let ended_ms = plant.at_ms;
    (0..1500).for_each(|_| plant.period(4, 30));
    let after = changes(&plant);
    assert_eq!(after.len(), 2, "{after:?}");
    assert_eq!((after[1].1, after[1].2), (Rung::Advise, Rung::Native));
    assert!(after[1].0 >= ended_ms + 10_000, "{after:?}");
    // A flood of others is held again.
    plant.shares.clear();
    (0..250).for_each(|_| plant.period(4000, 30));
    assert!(plant.shares[25..].iter().all(|share| *share <= 0.33));
}

#[test]
fn new_flows_are_limited_before_their_flood_is_named() {
    let mut plant = Plant::new(30, 2000, 1);
    (0..125).for_each(|_| plant.period(4, 30));
    assert_eq!(plant.limits, []);
    (0..25).for_each(|_| plant.period(4000, 30));
    assert_eq!(plant.count(|a| matches!(a, Action::Name(..))), 0);
    let first = plant.limits.first().copied();
    assert!(first.is_some_and(|(ms, limit)| ms <= 1000 + 5 * 8 && limit == 2000), "{first:?}");
}

#[test]
fn a_table_that_is_hardly_used_limits_no_new_flows() {
    let limit = |count| {
        let table = Table::Neighbours;
        let tables = vec![TableFill { table, count, max: 1024 }];
        let sample = Sample { tables, ..Sample::at(0) };
        step(&sample, &mut State::new(Settings::enforce(30))).0.new_flows
    };
    assert_eq!(limit(12), None);
    assert_eq!(limit(224), Some(80));
}

#[test]
fn bursts_of_100_ms_are_one_incident() {
    let mut plant = Plant::new(30, 2000, 1);
    plant.acts = |_| false;
    for n in 0..1250 {
        plant.period(if (n / 12) % 2 == 0 { 4000 } else { 4 }, 30);
    }
    assert_eq!(plant.count(|a| matches!(a, Action::Begin(_))), 1);
    assert_eq!(plant.count(|a| matches!(a, Action::End(_))), 0);
}

#[test]
fn nothing_is_done_without_measurements() {
    let mut state = State::new(Settings::enforce(30));
    for n in 0..1000 {
        let (setpoint, actions, reason) = step(&Sample::at(n * 8), &mut state);
        assert!(actions.is_empty());
        assert_eq!(setpoint.rung, Rung::Native);
        assert_eq!(reason.to_string(), "packet work is not measured");
    }
}
