//! The step of the controller: one sample of a control period in, the set point, the actions and the reason out.

use crate::baseline::{Calm, Counted};
use crate::cause::{Cause, Table, Vector};
use crate::control::{Control, Inputs, Setpoint};
use crate::cpu::Cpu;
use crate::evidence::{EvidenceWindow, Observed, other_than_packets};
use crate::exempt::ExemptWindow;
use crate::incident::{Incident, Totals, Verdict};
use crate::ladder::{Effect, Rung};
use crate::limits::{CPUS_MAX, reached};
use crate::own::{Own, OwnWork};
use crate::sample::{PacketSample, Sample, TableFill};
use crate::settings::{
    BUCKET_US, COOL, COOL_PERIODS, EVIDENCE_PERIODS, HOT_PERIODS, Mode, NEW_FLOW_RATIO,
    NEW_FLOWS_LEAST, NEW_FLOWS_TIMES_CALM, PERIOD_US, PERIODS_A_SECOND, SETTLING_PERIODS, Settings,
    TABLE_CEILING_S, TABLE_FILL, TABLE_IN_USE, TABLE_SECONDS, TABLE_SPREAD_S,
};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

mod rungs;

use rungs::Left;

/// What is done or reported, each once.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// An incident began.
    Begin(Incident),
    /// Its cause is known, or is another one than was named before.
    Name(Cause, Incident),
    /// The rung changes.
    Change {
        /// The rung that is left.
        from: Rung,
        /// The rung that is taken.
        to: Rung,
        /// Why.
        why: &'static str,
    },
    /// The guard can't hold its budget.
    CannotHold(&'static str),
    /// The incident ended.
    End(Incident),
}

/// Why the set point is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing is wrong.
    Calm,
    /// No instrument measured packet work.
    Unmeasured,
    /// An incident lasts, with the cause as far as it is known.
    Incident(Option<Cause>),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Calm => f.write_str("calm"),
            Reason::Unmeasured => f.write_str("packet work is not measured"),
            Reason::Incident(None) => f.write_str("incident, its cause is not known yet"),
            Reason::Incident(Some(cause)) => write!(f, "incident: {cause}"),
        }
    }
}

/// The last second of a table.
#[derive(Clone, Debug, Default)]
struct TablePast {
    fills: VecDeque<(u64, TableFill)>,
}

impl TablePast {
    fn add_fill(&mut self, at_ms: u64, fill: TableFill) {
        self.fills.push_back((at_ms, fill));
        if self.fills.len() > PERIODS_A_SECOND {
            self.fills.pop_front();
        }
    }

    /// The rate at which it may still fill, where it is about to be full.
    fn limit(&self) -> Option<u64> {
        let ((first_ms, first), (last_ms, last)) = (self.fills.front()?, self.fills.back()?);
        let grown = last.count.checked_sub(first.count).filter(|n| *n > 0)?;
        let seconds = last_ms.saturating_sub(*first_ms) as f64 / 1000.0;
        let free = last.max.saturating_sub(last.count);
        let is_full_soon = free as f64 / (grown as f64 / seconds.max(0.001)) < TABLE_SECONDS;
        let is_half_full = last.count as f64 > last.max as f64 * TABLE_FILL;
        (is_half_full && is_full_soon).then_some(free / TABLE_SPREAD_S)
    }

    /// The rate at which it may fill always, where it is in use: a host that has a few neighbours and forwards to none
    /// must not lose its new flows for them.
    fn ceiling(&self) -> Option<u64> {
        let (_, last) = self.fills.back()?;
        let is_in_use = last.count as f64 > last.max as f64 * TABLE_IN_USE;
        is_in_use.then(|| last.max.saturating_sub(last.count) / TABLE_CEILING_S)
    }
}

/// All that a step knows of the periods before.
#[derive(Clone, Debug)]
pub struct State {
    settings: Settings,
    cpus: BTreeMap<u16, Cpu>,
    /// Whether the throttle dropped in each of the last periods in which it was read.
    dropped: VecDeque<bool>,
    tables: BTreeMap<Table, TablePast>,
    calm: Calm,
    evidence: EvidenceWindow,
    /// New flows were counted once: a zero is a measurement.
    counts_new_flows: bool,
    incident: Option<Incident>,
    /// Periods of the incident, and those at its end without anything wrong.
    periods: u64,
    quiet: u32,
    /// What was measured in the quiet periods: it belongs to the incident if that continues.
    tail: Totals,
    /// A cause that differs from the one that was named, and for how many periods it has.
    other_cause: Option<(Cause, usize)>,
    incidents: u64,
    effect: Effect,
    rung: Rung,
    control: Control,
    own: OwnWork,
    exempt: ExemptWindow,
    /// Packets that are never dropped are the flood: they are not charged.
    ignores_exempt: bool,
    /// This was reported in the incident at hand, and the throttle was attached again in it.
    has_said_exempt: bool,
    has_returned: bool,
    /// The rung that was left, which is tried again.
    left: Option<Left>,
}

impl State {
    /// The state before the first sample.
    #[must_use]
    pub fn new(settings: Settings) -> State {
        let rung = match settings.mode {
            Mode::Watch => Rung::Observe,
            Mode::Enforce => Rung::Native,
        };
        State {
            settings,
            cpus: BTreeMap::new(),
            dropped: VecDeque::new(),
            tables: BTreeMap::new(),
            calm: Calm::default(),
            evidence: EvidenceWindow::default(),
            counts_new_flows: false,
            incident: None,
            periods: 0,
            quiet: 0,
            tail: Totals::default(),
            other_cause: None,
            incidents: 0,
            effect: Effect::default(),
            rung,
            control: Control::default(),
            own: OwnWork::default(),
            exempt: ExemptWindow::default(),
            ignores_exempt: false,
            has_said_exempt: false,
            has_returned: false,
            left: None,
        }
    }

    /// Takes another rung, as when the interface refuses the one that was asked for.
    pub fn take_rung(&mut self, rung: Rung) {
        self.rung = rung;
        self.effect.restart();
    }

    /// The incident that lasts.
    #[must_use]
    pub fn incident(&self) -> Option<&Incident> {
        self.incident.as_ref()
    }

    /// Ends the incident that lasts, as at the end of a recording.
    #[must_use]
    pub fn finish(&mut self) -> Option<Incident> {
        let mut actions = Vec::new();
        self.name_at_end(&mut actions);
        self.end()
    }
}

/// What one period shows, before anything is decided.
struct Seen {
    work_us: Option<u64>,
    packets: u64,
    has_packets: bool,
    is_hot: bool,
    /// Every CPU that was measured is cool.
    is_cool: bool,
    /// What of the packet work is that of the throttled interface, and the largest share of a CPU.
    own: Own,
    own_share: f64,
    /// The CPU on which user programs wait without packet work.
    starved: Option<u16>,
    has_dropped: bool,
    table_limit: Option<u64>,
    table_ceiling: Option<u64>,
}

/// Takes the sample of a control period. The set point of the next period, what is to be done, and why.
pub fn step(sample: &Sample, state: &mut State) -> (Setpoint, Vec<Action>, Reason) {
    let seen = state.observe_sample(sample);
    let mut actions = Vec::new();
    state.follow_incident(sample, &seen, &mut actions);
    state.judge_effect(sample, &seen, &mut actions);
    state.charge_exempt_again();
    let setpoint = state.control(sample, &seen);
    let reason = match &state.incident {
        Some(incident) => Reason::Incident(incident.cause),
        None if seen.work_us.is_none() => Reason::Unmeasured,
        None => Reason::Calm,
    };
    (setpoint, actions, reason)
}

impl State {
    fn observe_sample(&mut self, sample: &Sample) -> Seen {
        let mut seen = Seen {
            work_us: None,
            packets: 0,
            has_packets: false,
            is_hot: false,
            is_cool: true,
            own: self.own.add(
                sample,
                self.control.cost_ns(),
                self.budget_of_period(),
                self.ignores_exempt,
            ),
            own_share: 0.0,
            starved: None,
            has_dropped: false,
            table_limit: None,
            table_ceiling: None,
        };
        for measured in &sample.cpus {
            if !self.cpus.contains_key(&measured.cpu) && self.cpus.len() >= CPUS_MAX {
                reached::CPUS_MAX.count();
                continue;
            }
            let cpu = self.cpus.entry(measured.cpu).or_default();
            let share = cpu.add_cpu_sample(measured);
            if let (Some(share), Some(work)) = (share, measured.work_us()) {
                seen.work_us = Some(seen.work_us.unwrap_or(0).saturating_add(work));
                if self.own.has(measured.cpu) {
                    seen.own_share = seen.own_share.max(share);
                }
                seen.is_cool &= share < COOL;
                seen.is_hot |= cpu.is_hot();
            }
            if let Some(packets) = measured.packets {
                seen.has_packets = true;
                seen.packets = seen.packets.saturating_add(packets);
            }
            if cpu.is_starved_without_packets() {
                seen.starved.get_or_insert(measured.cpu);
            }
        }
        if let Some(packets) = &sample.packets {
            self.counts_new_flows |= packets.new_flows > 0;
            self.dropped.push_back(packets.dropped() > 0);
            if self.dropped.len() > HOT_PERIODS.1 {
                self.dropped.pop_front();
            }
            if self.rung != Rung::Advise {
                self.exempt.add(packets, seen.own.accounts);
            }
        }
        seen.has_dropped = self.dropped.iter().filter(|is| **is).count() >= HOT_PERIODS.0;
        for fill in &sample.tables {
            self.tables.entry(fill.table).or_default().add_fill(sample.at_ms, *fill);
        }
        let tables = self.tables.values();
        seen.table_limit = tables.clone().filter_map(TablePast::limit).min();
        seen.table_ceiling = tables.filter_map(TablePast::ceiling).min();
        seen
    }

    fn follow_incident(&mut self, sample: &Sample, seen: &Seen, actions: &mut Vec<Action>) {
        let is_wrong =
            seen.is_hot || seen.has_dropped || seen.table_limit.is_some() || seen.starved.is_some();
        if self.incident.is_none() {
            if is_wrong {
                self.begin(sample, seen, actions);
            } else {
                self.calm.add_period(sample.at_ms, self.counted(sample, seen));
                self.return_after_calm(sample.at_ms, actions);
            }
            return;
        }
        if let Some(left) = &mut self.left {
            left.last_ms = sample.at_ms;
        }
        self.periods += 1;
        self.calm.disturb(sample.at_ms);
        self.tail.add_sample(sample);
        if let (Some(incident), Some(heads)) = (&mut self.incident, &sample.heads) {
            incident.attributes.clone_from(&heads.attributes);
        }
        let dropped_now = sample.packets.as_ref().is_some_and(|p| p.dropped() > 0);
        let is_quiet = !is_wrong && seen.is_cool && !dropped_now;
        if is_quiet {
            self.quiet = self.quiet.saturating_add(1);
        } else {
            self.quiet = 0;
            self.mark(sample, seen);
        }
        self.observe(sample, seen);
        self.name(actions);
        self.judge_exempt(sample.at_ms, seen, actions);
        if self.quiet >= COOL_PERIODS {
            self.name_at_end(actions);
            actions.extend(self.end().map(Action::End));
        }
    }

    fn begin(&mut self, sample: &Sample, seen: &Seen, actions: &mut Vec<Action>) {
        self.incidents += 1;
        self.calm.disturb(sample.at_ms);
        self.evidence.clear();
        (self.periods, self.quiet, self.other_cause) = (0, 0, None);
        (self.has_said_exempt, self.has_returned) = (false, false);
        if self.settings.mode == Mode::Watch {
            self.effect.restart();
        }
        self.tail = Totals::default();
        self.tail.add_sample(sample);
        self.incident = Some(Incident {
            number: self.incidents,
            began_ms: sample.at_ms,
            last_ms: sample.at_ms,
            has_ended: false,
            hot_ms: None,
            dropped_ms: None,
            filled_ms: None,
            starved_ms: None,
            cause: None,
            named_ms: None,
            other: None,
            is_effective: None,
            rung: self.rung,
            attributes: Vec::new(),
            totals: Totals::default(),
        });
        self.mark(sample, seen);
        self.observe(sample, seen);
        actions.extend(self.incident.clone().map(Action::Begin));
    }

    /// Notes what is wrong in this period: it belongs to the incident, and so does all before it.
    fn mark(&mut self, sample: &Sample, seen: &Seen) {
        let Some(incident) = &mut self.incident else { return };
        let at_ms = sample.at_ms;
        incident.totals.add(&std::mem::take(&mut self.tail));
        incident.last_ms = at_ms.saturating_add(PERIOD_US / 1000);
        let note = |place: &mut Option<u64>, is: bool| {
            if is {
                place.get_or_insert(at_ms);
            }
        };
        note(&mut incident.hot_ms, seen.is_hot);
        note(&mut incident.dropped_ms, seen.has_dropped);
        note(&mut incident.filled_ms, seen.table_limit.is_some());
        note(&mut incident.starved_ms, seen.starved.is_some());
        if let Some(cpu) = seen.starved {
            let (vector, share) = self
                .cpus
                .get(&cpu)
                .map_or((Vector::Tasks, 0.0), |cpu| other_than_packets(&cpu.last_second()));
            incident.other = Some((cpu, vector, share));
        }
    }

    /// Adds the period to the evidence, from 0.5 s after the begin.
    fn observe(&mut self, sample: &Sample, seen: &Seen) {
        if self.periods == SETTLING_PERIODS {
            self.evidence.settle();
        }
        let packets = sample.packets.as_ref();
        let observed = Observed {
            work_us: seen.work_us,
            packets: if seen.has_packets { seen.packets } else { 0 },
            offered: packets.map_or(0, |p| p.admitted.saturating_add(p.dropped_limit)),
            new_flows: packets.filter(|_| self.counts_new_flows).map(|p| p.new_flows),
        };
        self.evidence.add_observed(observed, &sample.tables, sample.heads.as_ref());
    }

    /// The cause that evidence shows now, for the incident at hand.
    fn shown_cause(&self) -> Option<Cause> {
        let incident = self.incident.as_ref()?;
        match incident.verdict() {
            Verdict::NotPackets => incident.other.map(|(_, vector, _)| Cause::NotPackets(vector)),
            Verdict::Held | Verdict::PacketWork | Verdict::TableFills => {
                self.evidence.cause(incident.cause, &self.calm)
            }
        }
    }

    /// Names the cause when the evidence spans a second, and another one when that has held for a second.
    fn name(&mut self, actions: &mut Vec<Action>) {
        let is_due = self.periods >= SETTLING_PERIODS && self.evidence.is_full();
        let is_other = self.incident.as_ref().is_some_and(|i| i.verdict() == Verdict::NotPackets);
        // In the quiet end of an incident nothing new shows.
        if self.quiet > 0 || !(is_due || is_other) {
            return;
        }
        let Some(shown) = self.shown_cause() else { return };
        let named = self.incident.as_ref().and_then(|i| i.cause);
        if named == Some(shown) {
            self.other_cause = None;
            return;
        }
        let held = match self.other_cause {
            Some((cause, periods)) if cause == shown => periods + 1,
            _ => 1,
        };
        self.other_cause = Some((shown, held));
        if named.is_none() || held >= EVIDENCE_PERIODS {
            self.set_cause(shown, actions);
        }
    }

    /// An incident that ended before its evidence spanned a second has the cause that is known so far.
    fn name_at_end(&mut self, actions: &mut Vec<Action>) {
        if self.incident.as_ref().is_some_and(|i| i.cause.is_none())
            && let Some(shown) = self.shown_cause()
        {
            self.set_cause(shown, actions);
        }
    }

    fn set_cause(&mut self, cause: Cause, actions: &mut Vec<Action>) {
        self.other_cause = None;
        if let Some(incident) = &mut self.incident {
            incident.cause = Some(cause);
            incident.named_ms.get_or_insert(incident.last_ms);
            actions.push(Action::Name(cause, incident.clone()));
        }
    }

    fn end(&mut self) -> Option<Incident> {
        let mut incident = self.incident.take()?;
        incident.has_ended = true;
        incident.rung = self.rung;
        let acted = self.effect.periods_acted > 0 && incident.totals.packets.dropped_budget > 0;
        incident.is_effective = acted.then_some(!self.effect.is_useless);
        self.quiet = 0;
        Some(incident)
    }

    fn control(&mut self, sample: &Sample, seen: &Seen) -> Setpoint {
        // Generic XDP drops after the kernel has paid for a packet: there the admitted packets bear all of the cost.
        let cost = match (self.rung, &sample.packets) {
            (Rung::Generic, Some(_)) => seen.own.work_us.zip(Some(seen.own.admitted)),
            // A CPU without detail has work and no count of packets: it would make them all look expensive.
            (Rung::Observe | Rung::Native | Rung::Generic | Rung::Advise, _) => seen.own.counted,
        };
        let cause = self.incident.as_ref().and_then(|i| i.cause);
        let inputs = Inputs {
            at_ms: sample.at_ms,
            cost,
            offered: sample.packets.as_ref().map_or(seen.packets, PacketSample::offered),
            limits_new_flows: cause.is_some_and(Cause::is_new_flows),
            suspects_new_flows: cause.is_none() && seen.has_dropped && self.many_are_new(sample),
            table_limit: seen.table_limit,
            table_ceiling: seen.table_ceiling,
            calm_new_flows: self.calm.new_flows().unwrap_or(0.0),
            calm_of_prefix: self.calm.busiest_prefix().unwrap_or(0.0),
            ignores_exempt: self.ignores_exempt,
        };
        self.control.next_setpoint(&inputs, &self.settings, self.rung)
    }

    /// Whether this period alone has as many new flows as a flood of them.
    fn many_are_new(&self, sample: &Sample) -> bool {
        let Some(packets) = sample.packets.as_ref().filter(|_| self.counts_new_flows) else {
            return false;
        };
        // What the spent budget dropped was not looked up.
        let looked_up = packets.admitted.saturating_add(packets.dropped_limit);
        let new = packets.new_flows as f64;
        let a_second = new * PERIODS_A_SECOND as f64;
        new > NEW_FLOW_RATIO * looked_up as f64
            && a_second > NEW_FLOWS_LEAST
            && a_second > NEW_FLOWS_TIMES_CALM * self.calm.new_flows().unwrap_or(0.0)
    }

    /// The budget of a CPU in a control period, in nanoseconds.
    fn budget_of_period(&self) -> f64 {
        self.settings.budget_ns() as f64 * (PERIOD_US / BUCKET_US) as f64
    }

    fn counted(&self, sample: &Sample, seen: &Seen) -> Counted {
        let packets = sample.packets.as_ref();
        Counted {
            packets: if seen.has_packets {
                Some(seen.packets)
            } else {
                packets.map(PacketSample::offered)
            },
            new_flows: packets.filter(|_| self.counts_new_flows).map(|p| p.new_flows),
            busiest_prefix: packets.and_then(|p| p.busiest_prefix),
            work_us: seen.work_us.unwrap_or(0),
        }
    }
}
