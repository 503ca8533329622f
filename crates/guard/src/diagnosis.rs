//! A recording played through the controller: its incidents, and the figures of its calm time.

use crate::incident::Incident;
use crate::ladder::Rung;
use crate::limits::reached;
use crate::periods::Periods;
use crate::recording::{Bucket, Column, Recording};
use crate::sample::Sample;
use crate::settings::Settings;
use crate::step::{Action, State, step};
use std::collections::BTreeMap;

/// Gap of a user program from which it is looked at, in microseconds: the probe reports none below.
const GAP_US: u32 = 500;

/// A gap of a user program, and the packet work inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Begin of the bucket in which it began, in microseconds.
    pub at_us: u64,
    /// The CPU.
    pub cpu: u16,
    /// How long it was, in microseconds.
    pub gap_us: u32,
    /// Packet work inside it, in microseconds.
    pub packet_us: u32,
}

/// What the set point was at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetAt {
    /// Begin of the period, in milliseconds.
    pub at_ms: u64,
    /// The rung.
    pub rung: Rung,
    /// The limit of new flows a second, none for no limit.
    pub new_flows: Option<u64>,
}

/// What a recording shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diagnosis {
    /// Incidents in order of time.
    pub incidents: Vec<Incident>,
    /// All actions but the begin and end of incidents, with their time in milliseconds.
    pub actions: Vec<(u64, Action)>,
    /// Gaps of user programs.
    pub gaps: Vec<Gap>,
    /// Grace periods outside of incidents in microseconds, in ascending order.
    pub calm_grace_us: Vec<u32>,
    /// Grace periods inside of incidents in microseconds, in ascending order.
    pub incident_grace_us: Vec<u32>,
    /// Changes of the set point.
    pub set: Vec<SetAt>,
    /// The first and the last moment, in milliseconds.
    pub span_ms: (u64, u64),
    /// Periods that have a row.
    pub periods: u64,
    /// Periods in which packet work was measured.
    pub measured: u64,
}

/// The value below which this share of the values lies; the values are in ascending order.
#[must_use]
pub fn quantile(ascending: &[u32], share: f64) -> Option<u32> {
    let last = ascending.len().checked_sub(1)?;
    ascending.get((last as f64 * share.clamp(0.0, 1.0)).round() as usize).copied()
}

/// Plays a recording through the controller.
#[must_use]
pub fn diagnose(recording: &Recording, settings: Settings) -> Diagnosis {
    let mut found = Diagnosis::default();
    let mut state = State::new(settings);
    for (n, sample) in Periods::new(recording).enumerate() {
        if n == 0 {
            found.span_ms.0 = sample.at_ms;
        }
        found.span_ms.1 = sample.at_ms;
        found.periods += 1;
        found.measured += u64::from(sample.cpus.iter().any(|cpu| cpu.rx_us.is_some()));
        found.add_sample(&sample, &mut state);
    }
    if let Some(incident) = state.finish() {
        found.keep(incident);
    }
    found.calm_grace_us.sort_unstable();
    found.incident_grace_us.sort_unstable();
    found.gaps = gaps(&recording.buckets);
    found
}

impl Diagnosis {
    fn add_sample(&mut self, sample: &Sample, state: &mut State) {
        let (setpoint, actions, _) = step(sample, state);
        for action in actions {
            match action {
                Action::Begin(_) => {}
                Action::End(incident) => self.keep(incident),
                Action::Name(..) | Action::Change { .. } | Action::CannotHold(_) => {
                    if reached::INCIDENTS_MAX.has_room(self.actions.len()) {
                        self.actions.push((sample.at_ms, action));
                    }
                }
            }
        }
        if let Some(us) = sample.grace_us {
            match state.incident() {
                Some(_) => self.incident_grace_us.push(us),
                None => self.calm_grace_us.push(us),
            }
        }
        let set = SetAt { at_ms: sample.at_ms, rung: setpoint.rung, new_flows: setpoint.new_flows };
        let is_same = |s: &SetAt| s.rung == set.rung && s.new_flows == set.new_flows;
        if !self.set.last().is_some_and(is_same) {
            self.set.push(set);
        }
    }

    fn keep(&mut self, incident: Incident) {
        if reached::INCIDENTS_MAX.has_room(self.incidents.len()) {
            self.incidents.push(incident);
        }
    }

    /// The largest packet work inside one gap, in microseconds.
    #[must_use]
    pub fn largest_packet_gap_us(&self) -> u32 {
        self.gaps.iter().map(|gap| gap.packet_us).max().unwrap_or(0)
    }
}

/// The gaps of user programs with the packet work of the buckets that each spans, which is capped by the gap.
///
/// The work after a gap's begin is summed with prefix sums, so that long gaps in every row cost no more than short ones.
fn gaps(buckets: &[Bucket]) -> Vec<Gap> {
    let mut by_cpu: BTreeMap<u16, Vec<&Bucket>> = BTreeMap::new();
    for row in buckets {
        by_cpu.entry(row.cpu).or_default().push(row);
    }
    let mut found = Vec::new();
    for rows in by_cpu.values() {
        let mut sums = Vec::with_capacity(rows.len() + 1);
        let mut sum = 0u64;
        sums.push(sum);
        for row in rows {
            let work = row.or_zero(Column::RxUs).saturating_add(row.or_zero(Column::NapiThreadUs));
            sum = sum.saturating_add(work.into());
            sums.push(sum);
        }
        for (at, row) in rows.iter().enumerate() {
            let gap_us = row.or_zero(Column::UserGapUs);
            if gap_us <= GAP_US {
                continue;
            }
            if !reached::GAPS_MAX.has_room(found.len()) {
                continue;
            }
            let end_us = row.at_us.saturating_add(gap_us.into());
            let end = rows.partition_point(|row| row.at_us < end_us).max(at);
            let of = |at: usize| sums.get(at).copied().unwrap_or(sum);
            let work = of(end).saturating_sub(of(at)).min(gap_us.into());
            let packet_us = u32::try_from(work).unwrap_or(u32::MAX);
            found.push(Gap { at_us: row.at_us, cpu: row.cpu, gap_us, packet_us });
        }
    }
    found.sort_by_key(|gap| (gap.at_us, gap.cpu));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::GAPS_MAX;

    fn row(at_ms: u64, rx_us: u32, gap_us: u32) -> Bucket {
        let mut row = Bucket::new(at_ms * 1000, 0);
        row.set(Column::RxUs, rx_us);
        row.set(Column::UserGapUs, gap_us);
        row
    }

    #[test]
    fn packet_work_inside_a_gap_is_that_of_its_buckets_and_no_more_than_the_gap() {
        let rows = [row(0, 3000, 6000), row(4, 3900, 0), row(8, 950, 900), row(12, 4000, 0)];
        let found = gaps(&rows);
        let figures: Vec<(u32, u32)> = found.iter().map(|g| (g.gap_us, g.packet_us)).collect();
        assert_eq!(figures, [(6000, 6000), (900, 900)]);
        assert_eq!(gaps(&[row(0, 0, 6000), row(4, 100, 0)])[0].packet_us, 100);
    }

    #[test]
    fn quantiles_of_few_values_are_values() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[7], 0.99), Some(7));
        assert_eq!(quantile(&[1, 2, 3, 4, 5], 0.5), Some(3));
        assert_eq!(quantile(&[1, 2, 3, 4, 5], 1.0), Some(5));
    }

    #[test]
    fn gaps_and_incidents_beyond_the_limits_are_counted() {
        let _ = gabion_record::limits::take_reached();
        let rows: Vec<Bucket> = (0..=GAPS_MAX as u64).map(|n| row(n * 4, 0, 600)).collect();
        assert_eq!(gaps(&rows).len(), GAPS_MAX);
        let mut found = Diagnosis::default();
        let mut state = State::new(Settings::watch());
        let mut incident = None;
        for at in 0..2 {
            let cpu = crate::CpuSample {
                covered_us: 8000,
                rx_us: Some(8000),
                ..crate::CpuSample::default()
            };
            let sample = Sample { cpus: vec![cpu], ..Sample::at(at * 8) };
            let _ = step(&sample, &mut state);
            incident = state.incident().cloned();
        }
        let incident = incident.unwrap();
        (0..=crate::limits::INCIDENTS_MAX).for_each(|_| found.keep(incident.clone()));
        let counts = gabion_record::limits::take_reached();
        assert_eq!(
            (
                counts.times_reached(&reached::GAPS_MAX),
                counts.times_reached(&reached::INCIDENTS_MAX)
            ),
            (1, 1)
        );
    }

    #[test]
    fn cpus_beyond_the_limit_are_counted_and_left_out() {
        let _ = gabion_record::limits::take_reached();
        let mut state = State::new(Settings::watch());
        let cpu = |cpu| crate::CpuSample { cpu, ..crate::CpuSample::default() };
        let cpus = (0..=crate::limits::CPUS_MAX as u16).map(cpu).collect();
        let _ = step(&Sample { cpus, ..Sample::at(0) }, &mut state);
        let counts = gabion_record::limits::take_reached();
        assert_eq!(counts.times_reached(&crate::limits::reached::CPUS_MAX), 1);
    }
}
