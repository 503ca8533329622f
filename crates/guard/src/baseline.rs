//! What is usual when nothing is wrong: packets and new flows a second, and the cost of a packet.
//!
//! Only calm time counts: not the time of an incident, not the 10 s after one, and not the 2 s before one, because an
//! incident is declared some time after it began.

use crate::settings::{CALM_AFTER_S, CALM_SECONDS, COST_PACKETS, PERIODS_A_SECOND};
use std::collections::VecDeque;

/// Seconds that wait for the next ones to be calm as well before they count.
const WAITING_SECONDS: usize = 2;

/// A mean that forgets: its weight after 60 s is a third.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    weight: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        let newest = 1.0 - (-1.0 / CALM_SECONDS).exp();
        self.sum = self.sum * (1.0 - newest) + value * newest;
        self.weight = self.weight * (1.0 - newest) + newest;
    }

    fn value(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

/// What one period adds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    /// Packets, where they were counted.
    pub(crate) packets: Option<u64>,
    /// Packets of new flows, where they were counted.
    pub(crate) new_flows: Option<u64>,
    /// The most new flows of one source prefix in the second that ends, where one ends.
    pub(crate) busiest_prefix: Option<u64>,
    /// Packet work, in microseconds.
    pub(crate) work_us: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Second {
    periods: usize,
    packets: Option<u64>,
    new_flows: Option<u64>,
    busiest_prefix: Option<u64>,
    work_us: u64,
}

/// The calm baselines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calm {
    packets: Mean,
    new_flows: Mean,
    busiest_prefix: Mean,
    cost_ns: Mean,
    waiting: VecDeque<Second>,
    current: Second,
    /// Until when time does not count, in milliseconds.
    disturbed_until_ms: u64,
}

impl Calm {
    /// Takes a period without an incident.
    pub(crate) fn add_period(&mut self, at_ms: u64, counted: Counted) {
        if at_ms < self.disturbed_until_ms {
            return;
        }
        let add = |sum: Option<u64>, n: Option<u64>| match (sum, n) {
            (None, None) => None,
            (sum, n) => Some(sum.unwrap_or(0).saturating_add(n.unwrap_or(0))),
        };
        let second = &mut self.current;
        second.periods += 1;
        second.packets = add(second.packets, counted.packets);
        second.new_flows = add(second.new_flows, counted.new_flows);
        second.busiest_prefix = second.busiest_prefix.max(counted.busiest_prefix);
        second.work_us = second.work_us.saturating_add(counted.work_us);
        if second.periods < PERIODS_A_SECOND {
            return;
        }
        self.waiting.push_back(std::mem::take(&mut self.current));
        if self.waiting.len() > WAITING_SECONDS
            && let Some(calm) = self.waiting.pop_front()
        {
            self.count(calm);
        }
    }

    fn count(&mut self, second: Second) {
        if let Some(n) = second.packets {
            self.packets.add(n as f64);
            if n >= COST_PACKETS && second.work_us > 0 {
                self.cost_ns.add(second.work_us as f64 * 1000.0 / n as f64);
            }
        }
        if let Some(n) = second.new_flows {
            self.new_flows.add(n as f64);
        }
        if let Some(n) = second.busiest_prefix {
            self.busiest_prefix.add(n as f64);
        }
    }

    /// An incident lasts: what was just measured was not calm.
    pub(crate) fn disturb(&mut self, at_ms: u64) {
        self.waiting.clear();
        self.current = Second::default();
        self.disturbed_until_ms = at_ms.saturating_add(CALM_AFTER_S * 1000);
    }

    /// Packets a second; none before 3 s of calm.
    pub(crate) fn packets(&self) -> Option<f64> {
        self.packets.value()
    }

    /// Packets of new flows a second; none where they were never counted.
    pub(crate) fn new_flows(&self) -> Option<f64> {
        self.new_flows.value()
    }

    /// New flows a second of the source prefix with the most; none where they were never counted.
    pub(crate) fn busiest_prefix(&self) -> Option<f64> {
        self.busiest_prefix.value()
    }

    /// Nanoseconds per packet; none before a calm second with enough packets.
    pub(crate) fn cost_ns(&self) -> Option<f64> {
        self.cost_ns.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(calm: &mut Calm, from_s: u64, packets: u64, work_us: u64) {
        for n in 0..PERIODS_A_SECOND as u64 {
            let busiest_prefix = (n == 60).then_some(40);
            let new_flows = Some(1);
            let counted = Counted { packets: Some(packets), new_flows, busiest_prefix, work_us };
            calm.add_period(from_s * 1000 + n * 8, counted);
        }
    }

    #[test]
    fn calm_seconds_count_after_two_more() {
        let mut calm = Calm::default();
        (0..2).for_each(|s| second(&mut calm, s, 8, 16));
        assert_eq!(calm.packets(), None);
        second(&mut calm, 2, 8, 16);
        assert_eq!(calm.packets(), Some(1000.0));
        assert_eq!(calm.new_flows(), Some(125.0));
        assert_eq!(calm.busiest_prefix(), Some(40.0));
        assert_eq!(calm.cost_ns().map(f64::round), Some(2000.0));
    }

    #[test]
    fn the_run_up_to_an_incident_and_the_time_after_do_not_count() {
        let mut calm = Calm::default();
        (0..3).for_each(|s| second(&mut calm, s, 8, 16));
        second(&mut calm, 3, 8000, 16_000);
        calm.disturb(4000);
        (4..14).for_each(|s| second(&mut calm, s, 8000, 16_000));
        let rate = calm.packets().unwrap();
        assert!((999.0..1001.0).contains(&rate), "{rate}");
        (14..17).for_each(|s| second(&mut calm, s, 16, 32));
        let rate = calm.packets().unwrap();
        assert!(rate > 1100.0, "{rate}");
    }
}
