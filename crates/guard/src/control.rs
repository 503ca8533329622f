//! The set point of the throttle: the budget, the cost of a packet that is charged on admission, and the limits of new
//! flows.

use crate::ladder::Rung;
use crate::settings::{
    COST_NS, COST_PACKETS, COST_START_NS, COST_WEIGHT, NEW_FLOW_LIMITS, RECOVERY_PERIODS, Settings,
};

/// What the throttle in the kernel is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setpoint {
    /// Packet work that a CPU may do in a window of 4 ms, in nanoseconds.
    pub budget_ns: u64,
    /// What each packet is charged on admission, in nanoseconds.
    pub cost_ns: u64,
    /// New flows a second for the host; none is no limit.
    pub new_flows: Option<u64>,
    /// New flows a second for each source prefix (/24, or /56 of IPv6); none is no limit.
    pub new_flows_of_prefix: Option<u64>,
    /// Packets that are never dropped are not charged, and the time of the CPU does not count: they are the flood, and the
    /// others have the budget for themselves.
    pub ignores_exempt: bool,
    /// How the guard acts.
    pub rung: Rung,
}

/// What the set point of the next period depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inputs {
    pub(crate) at_ms: u64,
    /// Packet work in microseconds, and packets that caused it; none where one of them was not measured, or where the work
    /// is not that of the interface.
    pub(crate) cost: Option<(u64, u64)>,
    /// Packets that arrived.
    pub(crate) offered: u64,
    /// New flows are to be limited: the cause says so.
    pub(crate) limits_new_flows: bool,
    /// Packets are dropped, and many of them begin a flow. To name the cause takes a second of evidence, in which new
    /// flows of all others would be lost with the flood.
    pub(crate) suspects_new_flows: bool,
    /// The rate at which a table that is about to be full may fill.
    pub(crate) table_limit: Option<u64>,
    /// The rate that tables in use allow at any time.
    pub(crate) table_ceiling: Option<u64>,
    /// The calm rate of new flows, and that of the busiest source prefix.
    pub(crate) calm_new_flows: f64,
    pub(crate) calm_of_prefix: f64,
    /// Packets that are never dropped are not charged.
    pub(crate) ignores_exempt: bool,
}

/// The estimate of the cost, and the limits in force.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    cost_ns: f64,
    /// Work and packets that wait for enough packets, in microseconds and packets.
    waiting: (u64, u64),
    limit: Option<Limit>,
    prefix_limit: Option<Limit>,
    /// Periods in sequence whose offered load is within the budget.
    below: u32,
    /// New flows were limited once: a limit stays.
    is_armed: bool,
}

/// A limit in force, and when it was raised last.
#[derive(Clone, Copy, Debug)]
struct Limit {
    rate: u64,
    raised_ms: u64,
}

/// Milliseconds between two raises of a limit.
const RAISE_MS: u64 = 1000;

impl Default for Control {
    fn default() -> Control {
        Control {
            cost_ns: COST_START_NS,
            waiting: (0, 0),
            limit: None,
            prefix_limit: None,
            below: 0,
            is_armed: false,
        }
    }
}

impl Control {
    /// Takes a period and returns the set point of the next.
    pub(crate) fn next_setpoint(
        &mut self,
        inputs: &Inputs,
        settings: &Settings,
        rung: Rung,
    ) -> Setpoint {
        if let Some((work_us, packets)) = inputs.cost {
            self.measure(work_us, packets);
        }
        let capacity_ns = settings.budget_ns() as f64 * 2.0;
        self.below = if inputs.offered as f64 * self.cost_ns <= capacity_ns {
            self.below.saturating_add(1)
        } else {
            0
        };
        self.is_armed |= inputs.limits_new_flows || inputs.table_limit.is_some();
        let (least, least_of_prefix) = NEW_FLOW_LIMITS;
        let twice_calm = (inputs.calm_new_flows * 2.0) as u64;
        let acts = self.is_armed || inputs.suspects_new_flows;
        let twice_calm_of_prefix = (inputs.calm_of_prefix * 2.0) as u64;
        let mut wanted = acts.then(|| twice_calm.max(least));
        let mut wanted_of_prefix = acts.then(|| twice_calm_of_prefix.max(least_of_prefix));
        for bound in [inputs.table_limit, inputs.table_ceiling].into_iter().flatten() {
            wanted = Some(wanted.map_or(bound, |rate| rate.min(bound)).max(1));
        }
        if let (Some(of_prefix), Some(of_host)) = (&mut wanted_of_prefix, wanted) {
            *of_prefix = (*of_prefix).min(of_host);
        }
        // Without an incident only the ceiling of the tables acts, which moves with their fill.
        let may_rise = !self.is_armed || self.below >= RECOVERY_PERIODS;
        settle(&mut self.limit, wanted, inputs.at_ms, may_rise);
        settle(&mut self.prefix_limit, wanted_of_prefix, inputs.at_ms, may_rise);
        Setpoint {
            budget_ns: settings.budget_ns(),
            cost_ns: self.cost_ns as u64,
            new_flows: self.limit.map(|limit| limit.rate),
            new_flows_of_prefix: self.prefix_limit.map(|limit| limit.rate),
            ignores_exempt: inputs.ignores_exempt,
            rung,
        }
    }

    /// What a packet is charged, in nanoseconds.
    pub(crate) fn cost_ns(&self) -> f64 {
        self.cost_ns
    }

    /// The cost of a packet, from periods with enough packets together.
    fn measure(&mut self, work_us: u64, packets: u64) {
        let (us, n) = &mut self.waiting;
        *us = us.saturating_add(work_us);
        *n = n.saturating_add(packets);
        if *n < COST_PACKETS {
            return;
        }
        let measured = *us as f64 * 1000.0 / *n as f64;
        let next = self.cost_ns * (1.0 - COST_WEIGHT) + measured * COST_WEIGHT;
        self.cost_ns = next.clamp(COST_NS.0, COST_NS.1);
        self.waiting = (0, 0);
    }
}

/// Lowers a limit at once, and raises it to the double at most each second. Without a wanted one there is none.
fn settle(limit: &mut Option<Limit>, wanted: Option<u64>, at_ms: u64, may_rise: bool) {
    let Some(wanted) = wanted else {
        *limit = None;
        return;
    };
    let Some(now) = limit else {
        *limit = Some(Limit { rate: wanted, raised_ms: at_ms });
        return;
    };
    if wanted <= now.rate {
        now.rate = wanted;
    } else if may_rise && at_ms >= now.raised_ms.saturating_add(RAISE_MS) {
        now.rate = now.rate.saturating_mul(2).min(wanted);
        now.raised_ms = at_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setpoint_after(control: &mut Control, inputs: Inputs) -> Setpoint {
        control.next_setpoint(&inputs, &Settings::enforce(30), Rung::Native)
    }

    #[test]
    fn the_cost_follows_the_measurement_and_stays_in_its_range() {
        let mut control = Control::default();
        for at in 0..30 {
            let cost = Some((3400 / 4, 250));
            setpoint_after(&mut control, Inputs { at_ms: at * 8, cost, ..Inputs::default() });
        }
        assert!((3390.0..3400.0).contains(&control.cost_ns), "{}", control.cost_ns);
        for (us, range) in [(u64::MAX, 50_000), (0, 200)] {
            for _ in 0..60 {
                setpoint_after(
                    &mut control,
                    Inputs { cost: Some((us, 1000)), ..Inputs::default() },
                );
            }
            let got = setpoint_after(&mut control, Inputs::default()).cost_ns;
            assert!(got.abs_diff(range) <= 1, "{got}");
        }
    }

    #[test]
    fn few_packets_are_put_together() {
        let mut control = Control::default();
        for _ in 0..4 {
            setpoint_after(&mut control, Inputs { cost: Some((80, 20)), ..Inputs::default() });
        }
        assert_eq!(control.cost_ns, COST_START_NS);
        setpoint_after(&mut control, Inputs { cost: Some((80, 20)), ..Inputs::default() });
        assert_eq!(control.cost_ns, 2400.0);
    }

    #[test]
    fn limits_follow_the_cause_and_recover_by_doubling() {
        let mut control = Control::default();
        let mut at_ms = 0;
        assert_eq!(setpoint_after(&mut control, Inputs::default()).new_flows, None);
        let flood = Inputs { limits_new_flows: true, offered: 9000, ..Inputs::default() };
        let setpoint = setpoint_after(&mut control, flood);
        assert_eq!((setpoint.new_flows, setpoint.new_flows_of_prefix), (Some(2000), Some(500)));
        let full = Inputs { table_limit: Some(17), ..flood };
        let setpoint = setpoint_after(&mut control, full);
        assert_eq!((setpoint.new_flows, setpoint.new_flows_of_prefix), (Some(17), Some(17)));
        let mut seen = vec![17];
        for _ in 0..2000 {
            at_ms += 8;
            let rate = setpoint_after(&mut control, Inputs { at_ms, ..Inputs::default() })
                .new_flows
                .unwrap();
            if seen.last() != Some(&rate) {
                seen.push(rate);
            }
        }
        assert_eq!(seen, [17, 34, 68, 136, 272, 544, 1088, 2000]);
    }

    #[test]
    fn a_suspicion_limits_at_once_and_leaves_nothing_when_it_ends() {
        let mut control = Control::default();
        let flood = Inputs { suspects_new_flows: true, offered: 9000, ..Inputs::default() };
        let setpoint = setpoint_after(&mut control, flood);
        assert_eq!((setpoint.new_flows, setpoint.new_flows_of_prefix), (Some(2000), Some(500)));
        let setpoint = setpoint_after(&mut control, Inputs { at_ms: 8, ..Inputs::default() });
        assert_eq!((setpoint.new_flows, setpoint.new_flows_of_prefix), (None, None));
    }

    #[test]
    fn a_prefix_may_begin_twice_the_flows_of_the_busiest_one_and_no_more() {
        let flood = Inputs {
            limits_new_flows: true,
            calm_new_flows: 50_000.0,
            calm_of_prefix: 400.0,
            ..Inputs::default()
        };
        let setpoint = setpoint_after(&mut Control::default(), flood);
        assert_eq!((setpoint.new_flows, setpoint.new_flows_of_prefix), (Some(100_000), Some(800)));
    }

    #[test]
    fn tables_in_use_have_a_ceiling_from_the_start() {
        let mut control = Control::default();
        let inputs = Inputs { table_ceiling: Some(0), ..Inputs::default() };
        assert_eq!(
            setpoint_after(&mut control, inputs).new_flows,
            Some(1),
            "one flow a second passes"
        );
    }
}
