//! The controller against simulated hosts: the cost of a packet and the delay of its measurement vary, and the budget
//! holds again soon after every step; nothing oscillates.

use gabion_guard::{
    Action, CpuPackets, CpuSample, PacketSample, Rung, Sample, Settings, State, Table, TableFill,
    Verdict, step,
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
    limits_of_prefix: Vec<(u64, u64)>,
    /// Whether packets that are never dropped are charged.
    charges_exempt: bool,
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
            limits_of_prefix: Vec::new(),
            charges_exempt: true,
        }
    }

    /// One period with this many packets arriving, of which a tenth are new flows.
    fn period(&mut self, offered: u64, budget_percent: u8) {
        let budget_ns = u64::from(budget_percent) * PERIOD_NS / 100;
        let admitted = if (self.acts)(self.rung) {
            offered.min(budget_ns / self.charge_ns.max(1))
        } else {
            offered
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
            self.step(&sample);
        }
        self.at_ms += 8;
    }

    /// The controller takes a sample.
    fn step(&mut self, sample: &Sample) {
        let (setpoint, actions, _) = step(sample, &mut self.state);
        self.charge_ns = setpoint.cost_ns;
        self.rung = setpoint.rung;
        self.charges_exempt = !setpoint.ignores_exempt;
        self.actions.extend(actions.into_iter().map(|action| (self.at_ms, action)));
        self.limits.extend(setpoint.new_flows.map(|limit| (self.at_ms, limit)));
        let of_prefix = setpoint.new_flows_of_prefix.map(|limit| (self.at_ms, limit));
        self.limits_of_prefix.extend(of_prefix);
    }

    /// One period with packets of the interface, of which some are never dropped, and with work of another interface on
    /// the same CPU: its packets and their time in microseconds. How many packets were dropped.
    fn mixed(&mut self, never: u64, others: u64, foreign: (u64, u64)) -> u64 {
        let fits = 30 * PERIOD_NS / 100 / self.charge_ns.max(1);
        let is_attached = self.rung != Rung::Advise;
        let charged = if self.charges_exempt { never } else { 0 };
        let admitted = if is_attached && (self.acts)(self.rung) {
            others.min(fits.saturating_sub(charged))
        } else {
            others
        };
        let dropped = others - admitted;
        let (foreign, foreign_us) = foreign;
        // Generic XDP drops after the kernel has paid most of a packet's price.
        let paid = if self.rung == Rung::Generic { others } else { admitted };
        let own_us = (never + paid) * self.cost_ns / 1000;
        let work_us = (own_us + foreign_us).min(8000);
        self.shares.push(work_us as f64 / 8000.0);
        let packets = PacketSample {
            admitted: never + admitted,
            exempt: never,
            dropped_budget: dropped,
            new_flows: admitted / 100,
            by_cpu: vec![CpuPackets {
                cpu: 0,
                offered: never + others,
                admitted: never + admitted,
            }],
            ..PacketSample::default()
        };
        let sample = Sample {
            cpus: vec![CpuSample {
                covered_us: 8000,
                rx_us: Some(work_us as u32),
                packets: Some(never + others + foreign),
                ..CpuSample::default()
            }],
            // Detached, the throttle counts nothing.
            packets: Some(if is_attached { packets } else { PacketSample::default() }),
            ..Sample::at(self.at_ms)
        };
        self.step(&sample);
        self.at_ms += 8;
        dropped
    }

    /// The same for some periods.
    fn mixed_for(&mut self, periods: u64, never: u64, others: u64, foreign: (u64, u64)) -> u64 {
        (0..periods).map(|_| self.mixed(never, others, foreign)).sum()
    }

    fn changes(&self) -> Vec<(u64, Rung, Rung)> {
        let change = |(at, action): &(u64, Action)| match action {
            Action::Change { from, to, .. } => Some((*at, *from, *to)),
            _ => None,
        };
        self.actions.iter().filter_map(change).collect()
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
        low_ns in 300u64..=2000,
        is_up: bool,
        budget in prop::sample::select(vec![10u8, 20, 30, 50, 70]),
    ) {
        let high_ns = low_ns * 10;
        let (first, second) = if is_up { (low_ns, high_ns) } else { (high_ns, low_ns) };
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
        prop_assert!(plant.limits.len() == plant.limits_of_prefix.len());
        for limits in [&plant.limits, &plant.limits_of_prefix] {
            for (at, (ms, limit)) in limits.iter().enumerate() {
                let since = ms.saturating_sub(992);
                let before = limits[..at].iter().filter(|(ms, _)| *ms >= since);
                let least = before.map(|(_, limit)| *limit).min().unwrap_or(*limit);
                prop_assert!(*limit <= least.saturating_mul(2), "{limit} after {least} at {ms}");
            }
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
    let changes = plant.changes();
    let rungs: Vec<(Rung, Rung)> = changes.iter().map(|(_, from, to)| (*from, *to)).collect();
    assert_eq!(rungs, [(Rung::Native, Rung::Generic), (Rung::Generic, Rung::Advise)]);
    assert!(changes.iter().all(|(at, ..)| *at <= 2000), "{changes:?}");
    assert_eq!(plant.count(|a| matches!(a, Action::Begin(_))), 1);
    // The rung is tried again when there was no incident for 10 s, and not before.
    let ended_ms = plant.at_ms;
    (0..1500).for_each(|_| plant.period(4, 30));
    let after = plant.changes();
    assert_eq!(after.len(), 3, "{after:?}");
    assert_eq!((after[2].1, after[2].2), (Rung::Advise, Rung::Native));
    assert!((ended_ms + 10_000..ended_ms + 11_000).contains(&after[2].0), "{after:?}");
    plant.shares.clear();
    (0..250).for_each(|_| plant.period(4000, 30));
    assert!(plant.shares[25..].iter().all(|share| *share <= 0.33));
}

/// A CPU's softirq time belongs to all interfaces: the packets of this one do not become expensive by a flood on another,
/// and its rung is not left for it.
#[test]
fn work_of_another_interface_costs_this_one_nothing() {
    for rung in [Rung::Native, Rung::Generic] {
        for foreign_ns in [400, 2000, 20_000] {
            let mut plant = Plant::new(30, 2000, 1);
            plant.state.take_rung(rung);
            plant.rung = rung;
            let foreign_us = 7000;
            let foreign = (foreign_us * 1000 / foreign_ns, foreign_us);
            assert_eq!(plant.mixed_for(250, 0, 200, (0, 0)), 0);
            let dropped: u64 = plant.mixed_for(1250, 0, 200, foreign);
            assert_eq!(dropped, 0, "{rung}, {foreign_ns} ns");
            assert!((1500..=2500).contains(&plant.charge_ns), "{rung}: {}", plant.charge_ns);
            assert_eq!(plant.changes(), []);
        }
    }
}

/// Packets that come to several CPUs are judged on each: a flood on another interface and another CPU is not their work.
#[test]
fn a_rung_with_effect_is_not_left_for_work_on_another_cpu() {
    let cpu = |cpu, rx_us, packets| CpuSample {
        cpu,
        covered_us: 8000,
        rx_us: Some(rx_us),
        packets: Some(packets),
        ..CpuSample::default()
    };
    for (rung, knows_cpus, is_left) in [
        (Rung::Native, true, false),
        (Rung::Generic, true, false),
        // A recording does not say which CPUs are the interface's.
        (Rung::Native, false, true),
    ] {
        let mut state = State::new(Settings::enforce(30));
        state.take_rung(rung);
        let mut changes = 0;
        for n in 0..1250 {
            // The interface floods CPU 1, is held there, and has a trickle on CPU 2.
            let of = |cpu, offered, admitted| CpuPackets { cpu, offered, admitted };
            let by_cpu = vec![of(1, 4000, 1200), of(2, 2, 2)];
            let sample = Sample {
                cpus: vec![cpu(1, 2400, 4000), cpu(2, 7800, 3000)],
                packets: Some(PacketSample {
                    admitted: 1202,
                    dropped_budget: 2800,
                    by_cpu: if knows_cpus { by_cpu } else { Vec::new() },
                    ..PacketSample::default()
                }),
                ..Sample::at(n * 8)
            };
            let (_, actions, _) = step(&sample, &mut state);
            changes += actions.iter().filter(|a| matches!(a, Action::Change { .. })).count();
        }
        assert_eq!(changes > 0, is_left, "{rung}, {knows_cpus}");
    }
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
    let mut plant = Plant::new(30, 1750, 1);
    (0..125).for_each(|_| plant.period(4, 30));
    let began_ms = plant.at_ms;
    plant.mixed_for(1250, 4000, 10, (0, 0));
    let in_flood = plant.changes();
    assert_eq!(in_flood.len(), 1, "{in_flood:?}");
    assert_eq!((in_flood[0].1, in_flood[0].2), (Rung::Native, Rung::Advise));
    assert!(in_flood[0].0 <= began_ms + 2000, "{in_flood:?}");
    assert_eq!(plant.count(|a| matches!(a, Action::CannotHold(_))), 1);
    let ended_ms = plant.at_ms;
    (0..1500).for_each(|_| plant.period(4, 30));
    let after = plant.changes();
    assert_eq!(after.len(), 2, "{after:?}");
    assert_eq!((after[1].1, after[1].2), (Rung::Advise, Rung::Native));
    assert!(after[1].0 >= ended_ms + 10_000, "{after:?}");
    // A flood of others is held again.
    plant.shares.clear();
    (0..250).for_each(|_| plant.period(4000, 30));
    assert!(plant.shares[25..].iter().all(|share| *share <= 0.33));
}

/// Such a flood that lasts does not switch the guard off: after 10 s the throttle is back, drops nothing for packets that
/// it may not drop, and holds the flood of others that comes then.
#[test]
fn a_lasting_flood_of_packets_that_are_never_dropped_does_not_switch_the_guard_off() {
    let mut plant = Plant::new(30, 1000, 1);
    (0..125).for_each(|_| plant.period(4, 30));
    plant.mixed_for(1500, 5000, 10, (0, 0));
    let changes = plant.changes();
    assert_eq!(changes.len(), 2, "{changes:?}");
    assert_eq!((changes[1].1, changes[1].2), (Rung::Advise, Rung::Native));
    assert!(changes[1].0 >= changes[0].0 + 10_000, "{changes:?}");
    // A minute of it: nothing changes again, and the others pass.
    let dropped: u64 = plant.mixed_for(7500, 5000, 100, (0, 0));
    assert_eq!((dropped, plant.changes().len()), (0, 2));
    // Others flood as well: they have the budget, and no more.
    let charge_ns = plant.charge_ns;
    let dropped: u64 = plant.mixed_for(250, 5000, 6000, (0, 0));
    let admitted = 250 * 6000 - dropped;
    let budget = 250 * 30 * PERIOD_NS / 100;
    assert!(admitted * charge_ns <= budget * 11 / 10, "{admitted}");
    assert!(admitted * charge_ns >= budget * 9 / 10, "{admitted}");
    assert_eq!(plant.changes().len(), 2);
    assert_eq!(plant.count(|a| matches!(a, Action::CannotHold(_))), 1);
}

/// Where the others are a flood too, the throttle stays from the begin.
#[test]
fn a_mixed_flood_is_held_where_it_may_be_dropped() {
    let (never, others) = (4000, 3000);
    let mut plant = Plant::new(30, 1000, 1);
    (0..125).for_each(|_| plant.period(4, 30));
    plant.mixed_for(250, never, others, (0, 0));
    assert_eq!(plant.count(|a| matches!(a, Action::CannotHold(_))), 1, "{never}");
    assert!(!plant.charges_exempt);
    let dropped: u64 = plant.mixed_for(1250, never, others, (0, 0));
    assert_eq!(plant.changes(), [], "{never}");
    let share = ((1250 * others - dropped) * plant.cost_ns) as f64 / (1250 * PERIOD_NS) as f64;
    assert!((0.27..=0.33).contains(&share), "{share}");
    // Established traffic of others, below the budget, is left alone.
    plant.mixed_for(250, never, 500, (0, 0));
    let dropped: u64 = plant.mixed_for(250, never, 500, (0, 0));
    assert_eq!(dropped, 0, "{never}");
    // Afterwards all packets are charged again.
    plant.mixed_for(250, 2, 20, (0, 0));
    assert!(plant.charges_exempt);
}

/// A few allow-listed packets are no flood, whatever floods another interface.
#[test]
fn allowed_packets_are_not_taken_for_the_flood_of_another_interface() {
    let mut plant = Plant::new(30, 2000, 1);
    plant.mixed_for(500, 50, 5, (3500, 7000));
    assert_eq!(plant.count(|a| matches!(a, Action::CannotHold(_))), 0);
    assert_eq!(plant.changes(), []);
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
