//! The rungs: how the guard acts, from observation to advice. A rung that shows no effect is left.

use crate::settings::{EFFECT_OFFERED, EFFECT_PERIODS, EFFECT_POINTS, MEAN_PERIODS};
use std::collections::VecDeque;
use std::fmt;

/// How the guard acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rung {
    /// Nothing is attached that drops packets.
    Observe,
    /// XDP in the driver: packets are dropped before the kernel has made anything of them.
    Native,
    /// Generic XDP: packets are dropped after the kernel has made a socket buffer of each, which is half as effective.
    Generic,
    /// Dropping does not help here: the guard only advises.
    Advise,
}

impl Rung {
    /// The name in outputs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Rung::Observe => "observe",
            Rung::Native => "native",
            Rung::Generic => "generic",
            Rung::Advise => "advise",
        }
    }

    /// Its number in recordings.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Rung::Observe => 0,
            Rung::Native => 1,
            Rung::Generic => 2,
            Rung::Advise => 3,
        }
    }

    /// The rung after one without effect.
    pub(crate) const fn next(self) -> Option<Rung> {
        match self {
            Rung::Native => Some(Rung::Generic),
            Rung::Generic => Some(Rung::Advise),
            Rung::Observe | Rung::Advise => None,
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One period as the judgement of the effect sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acted {
    pub(crate) offered: u64,
    pub(crate) admitted: u64,
    /// Dropped by the budget.
    pub(crate) dropped: u64,
    /// The largest share of packet work of the CPUs.
    pub(crate) share: f64,
}

/// The judgement whether the throttle has an effect.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effect {
    recent: VecDeque<Acted>,
    without: VecDeque<bool>,
    /// Periods in which the budget dropped packets.
    pub(crate) periods_acted: u64,
    /// Whether it was found to have no effect.
    pub(crate) is_useless: bool,
}

impl Effect {
    /// Takes a period, with the budget as a share. Whether the throttle has just been found to have no effect.
    pub(crate) fn record_action(&mut self, acted: Acted, budget: f64) -> bool {
        self.periods_acted += u64::from(acted.dropped > 0);
        self.recent.push_back(acted);
        if self.recent.len() > MEAN_PERIODS {
            self.recent.pop_front();
        }
        let n = self.recent.len() as f64;
        let mean = |of: fn(&Acted) -> f64| self.recent.iter().map(of).sum::<f64>() / n;
        let offered = mean(|a| a.offered as f64);
        let is_without = offered >= EFFECT_OFFERED
            && mean(|a| a.dropped as f64) > 0.0
            && mean(|a| a.admitted as f64) <= offered / 2.0
            && mean(|a| a.share) > budget + EFFECT_POINTS;
        self.without.push_back(is_without);
        if self.without.len() > EFFECT_PERIODS.1 {
            self.without.pop_front();
        }
        let was_useless = self.is_useless;
        let count = self.without.iter().filter(|is| **is).count();
        self.is_useless |= count >= EFFECT_PERIODS.0;
        self.is_useless && !was_useless
    }

    /// Begins again, as after a change of rung.
    pub(crate) fn restart(&mut self) {
        *self = Effect::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOD: Acted = Acted { offered: 3000, admitted: 1000, dropped: 2000, share: 0.45 };

    #[test]
    fn half_of_the_last_periods_without_effect_are_enough() {
        let mut effect = Effect::default();
        let found: Vec<usize> = (0..60).filter(|_| effect.record_action(FLOOD, 0.3)).collect();
        assert_eq!(found, [24]);
        effect.restart();
        assert!(!effect.is_useless);
    }

    #[test]
    fn a_throttle_at_its_budget_has_an_effect() {
        let near = Acted { share: 0.39, ..FLOOD };
        let few = Acted { offered: 150, admitted: 10, ..FLOOD };
        let mostly_admitted = Acted { admitted: 1600, ..FLOOD };
        let by_others = Acted { dropped: 0, ..FLOOD };
        for acted in [near, few, mostly_admitted, by_others] {
            let mut effect = Effect::default();
            assert!((0..200).all(|_| !effect.record_action(acted, 0.3)), "{acted:?}");
        }
    }
}
