//! When a rung is left, and when it is taken again.

use super::{Action, Seen, State};
use crate::ladder::{Acted, Rung};
use crate::sample::Sample;
use crate::settings::{Mode, PERIOD_US, RETURN_AFTER_S};

/// A rung that was left, and is tried again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    rung: Rung,
    /// It was left for a flood of packets that are never dropped, not because it had no effect.
    is_for_exempt: bool,
    since_ms: u64,
    /// The last incident since then.
    pub(super) last_ms: u64,
}

/// How packets are named that are never dropped.
const MOST_EXEMPT: &str = "most packets are allow-listed or of kinds that are never dropped";
const MOST_EXEMPT_HELD: &str = "most packets are allow-listed or of kinds that are never dropped; the others are \
                                 held to the budget";
const MUCH_EXEMPT_HELD: &str = "packets that are allow-listed or of kinds that are never dropped exceed it alone; the \
                                 others are held to the budget";

impl State {
    /// Judges whether packets that are never dropped are the flood, says so once in an incident, and decides what of the
    /// others becomes: nothing that may be dropped is to pay for these packets.
    ///
    /// If the others are few, dropping them has no use, and the guard only advises. Otherwise, and when this is so for
    /// 10 s, the throttle is attached, and holds the others to a budget of their own. So a flood of packets that are never
    /// dropped does not switch the guard off for the next flood.
    pub(super) fn judge_exempt(&mut self, at_ms: u64, seen: &Seen, actions: &mut Vec<Action>) {
        self.return_in_incident(at_ms, seen, actions);
        if self.incident.is_none() || !self.evidence.is_full() {
            return;
        }
        let (cost, budget) = (self.control.cost_ns(), self.budget_of_period());
        let Some(flood) = self.exempt.flood(cost, budget) else { return };
        if !seen.is_hot && !flood.exceed_budget {
            return;
        }
        let advises = flood.are_most && flood.others_are_small && seen.is_hot && !self.has_returned;
        let mut why = MOST_EXEMPT;
        if self.settings.mode == Mode::Enforce && self.rung != Rung::Advise {
            if advises && !self.ignores_exempt {
                self.leave(Rung::Advise, at_ms, true, why, actions);
            } else {
                self.ignores_exempt = true;
                why = if flood.are_most { MOST_EXEMPT_HELD } else { MUCH_EXEMPT_HELD };
            }
        }
        if !std::mem::replace(&mut self.has_said_exempt, true) {
            actions.push(Action::CannotHold(why));
        }
    }

    /// Charges packets that are never dropped again, when they are not the flood any more.
    pub(super) fn charge_exempt_again(&mut self) {
        let (cost, budget) = (self.control.cost_ns(), self.budget_of_period());
        self.ignores_exempt &= !self.exempt.is_over(cost, budget);
    }

    /// Leaves a rung for another one.
    fn leave(
        &mut self,
        to: Rung,
        at_ms: u64,
        is_for_exempt: bool,
        why: &'static str,
        actions: &mut Vec<Action>,
    ) {
        actions.push(Action::Change { from: self.rung, to, why });
        // The first of several that were left is tried again.
        self.left.get_or_insert(Left {
            rung: self.rung,
            is_for_exempt,
            since_ms: at_ms,
            last_ms: at_ms,
        });
        self.change_to(to);
    }

    fn change_to(&mut self, to: Rung) {
        self.rung = to;
        self.effect.restart();
        self.exempt.clear();
    }

    /// Takes the rung again that was left, after a calm time.
    pub(super) fn return_after_calm(&mut self, at_ms: u64, actions: &mut Vec<Action>) {
        let after = |ms: u64| at_ms >= ms.saturating_add(RETURN_AFTER_S * 1000);
        let Some(left) = self.left.take_if(|left| after(left.last_ms)) else { return };
        let why = "there was no incident for 10 s";
        actions.push(Action::Change { from: self.rung, to: left.rung, why });
        self.ignores_exempt = false;
        self.change_to(left.rung);
    }

    /// Takes the rung again in the incident in which it was left for a flood of packets that are never dropped: what else
    /// comes can only be seen there.
    fn return_in_incident(&mut self, at_ms: u64, seen: &Seen, actions: &mut Vec<Action>) {
        let after = |ms: u64| at_ms >= ms.saturating_add(RETURN_AFTER_S * 1000);
        let is_due = |left: &mut Left| left.is_for_exempt && seen.is_hot && after(left.since_ms);
        let Some(left) = self.left.take_if(is_due) else { return };
        let why = "the flood lasts: what may be dropped is held to the budget, and packets that are never dropped are not \
                   charged";
        actions.push(Action::Change { from: self.rung, to: left.rung, why });
        (self.ignores_exempt, self.has_returned) = (true, true);
        self.change_to(left.rung);
    }

    /// Leaves a rung that has no effect.
    pub(super) fn judge_effect(&mut self, sample: &Sample, seen: &Seen, actions: &mut Vec<Action>) {
        let (Some(packets), Some(_)) = (&sample.packets, seen.work_us) else { return };
        // Packets that are never dropped take their time whatever the throttle does.
        let never_ns = packets.never_dropped() as f64 * self.control.cost_ns();
        let acted = Acted {
            offered: packets.offered(),
            admitted: packets.admitted,
            dropped: packets.dropped_budget,
            share: (seen.own_share - never_ns / (PERIOD_US * 1000) as f64).max(0.0),
        };
        let is_found = self.effect.record_action(acted, self.settings.budget());
        if let Some(incident) = &mut self.incident {
            let acted = incident.totals.packets.dropped_budget > 0;
            incident.is_effective = acted.then_some(!self.effect.is_useless);
        }
        if !is_found {
            return;
        }
        let why = "in half of the last 50 periods more than half of the packets were dropped and packet work stayed \
                   10 points above the budget";
        if self.settings.mode == Mode::Enforce
            && let Some(to) = self.rung.next()
        {
            self.leave(to, sample.at_ms, false, why, actions);
            if to == Rung::Advise {
                actions.push(Action::CannotHold("no rung has an effect"));
            }
        } else {
            actions.push(Action::CannotHold(why));
        }
    }
}
