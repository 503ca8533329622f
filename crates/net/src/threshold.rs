//! How often a rule may alert: thresholds, detection filters, rate filters, suppression.
//!
//! An entry lives per rule and tracked address (or pair, flow, rule). Windows are compared in whole
//! microseconds and their end belongs to them, as in Suricata.

use crate::lapsing::Lapsing;
use crate::limits::{THRESHOLDS_MAX, reached};
use gabion_record::Addr;
use gabion_rules::compiled::actions::{Threshold, ThresholdKind, ThresholdTrack};
use gabion_rules::{Action, Signature};

/// The outcome of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It alerts.
    Alert,
    /// No alert, but its action holds.
    Silent,
    /// As if it had not matched.
    Nothing,
    /// Decided when it is written.
    Asked,
}

/// What an entry counts by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Tracked {
    Host(Addr, u8),
    Pair(Addr, Addr, u8),
    Rule,
    Flow(u64),
}

/// One of the thresholds of a rule. It has the rule's ids, so that what was counted continues when rules are loaded again: as
/// in Suricata 8.0.7 that of the same revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct RuleSlot {
    gid: u32,
    sid: u32,
    rev: u32,
    /// Which threshold, and which of the two signatures of a rule with `<>`.
    part: u8,
}

impl RuleSlot {
    /// A threshold of a rule: the filter of its matches (0), of its rate (1), of its alerts (2).
    pub(crate) fn from_rule(s: &Signature, slot: u8) -> RuleSlot {
        let part = slot * 2 + u8::from(s.header.swapped);
        RuleSlot { gid: s.gid, sid: s.sid, rev: s.rev, part }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start_us: u64,
    count: u32,
    /// Backoff: next count that alerts. Rate: end of the new action.
    next: u64,
    window_us: u64,
}

/// Thresholds of one sequence of alerts.
#[derive(Debug, Default)]
pub(crate) struct Thresholds {
    entries: Lapsing<(RuleSlot, Tracked), Entry>,
}

/// The packet's part of a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject {
    pub(crate) src: Addr,
    pub(crate) dst: Addr,
    pub(crate) version: u8,
    pub(crate) flow: Option<u64>,
    pub(crate) ts_ns: u64,
}

impl Thresholds {
    /// Work done so far.
    #[cfg(test)]
    pub(crate) fn steps(&self) -> u64 {
        self.entries.steps()
    }

    /// Decides on one match of a rule for one of its thresholds. The
    /// action is set where a rate filter changes it.
    pub(crate) fn decide(
        &mut self,
        rule: RuleSlot,
        t: &Threshold,
        s: &Subject,
    ) -> (Decision, Option<Action>) {
        let tracked = match t.track {
            ThresholdTrack::Source => Tracked::Host(s.src, s.version),
            ThresholdTrack::Destination => Tracked::Host(s.dst, s.version),
            ThresholdTrack::Both | ThresholdTrack::Either => {
                Tracked::Pair(s.src.min(s.dst), s.src.max(s.dst), s.version)
            }
            ThresholdTrack::Rule => Tracked::Rule,
            ThresholdTrack::Flow => Tracked::Flow(s.flow.unwrap_or(0)),
        };
        let now = s.ts_ns / 1000;
        let window_us = u64::from(t.seconds) * 1_000_000;
        let key = (rule, tracked);
        let is_lapsed = |e: &Entry| is_outside(e.start_us, e.window_us, now) && e.next < now;
        let fresh = || Entry { start_us: now, count: 0, next: 0, window_us };
        let Some((e, is_new)) = self.entries.entry(key, THRESHOLDS_MAX, is_lapsed, fresh) else {
            reached::THRESHOLDS_MAX.count();
            return (Decision::Alert, None);
        };
        step(t, e, is_new, now, window_us)
    }
}

fn step(
    t: &Threshold,
    e: &mut Entry,
    is_new: bool,
    now: u64,
    window_us: u64,
) -> (Decision, Option<Action>) {
    use Decision::*;
    let lapsed = !is_new && is_outside(e.start_us, window_us, now);
    if lapsed && !matches!(t.kind, ThresholdKind::Backoff { .. } | ThresholdKind::Rate { .. }) {
        e.start_us = now;
        e.count = 0;
    }
    e.count = e.count.saturating_add(1);
    let decision = match t.kind {
        // A count of zero is as one (Suricata 8.0.7).
        ThresholdKind::Limit if e.count <= t.count.max(1) => Alert,
        ThresholdKind::Limit => Silent,
        // A count of zero: all but the first of a period (Suricata 8.0.7).
        ThresholdKind::Threshold if t.count == 0 && (is_new || lapsed) => Nothing,
        ThresholdKind::Threshold if e.count >= t.count => {
            e.count = 0;
            Alert
        }
        ThresholdKind::Threshold => Nothing,
        ThresholdKind::Both => match e.count.cmp(&t.count) {
            std::cmp::Ordering::Less => Nothing,
            std::cmp::Ordering::Equal => Alert,
            std::cmp::Ordering::Greater => Silent,
        },
        ThresholdKind::DetectionFilter if e.count > t.count => Alert,
        ThresholdKind::DetectionFilter => Nothing,
        ThresholdKind::Backoff { multiplier } => {
            if is_new {
                e.next = u64::from(t.count);
            }
            if u64::from(e.count) == e.next {
                e.next = e.next.saturating_mul(u64::from(multiplier.max(1)));
                Alert
            } else {
                Silent
            }
        }
        ThresholdKind::Rate { new_action, timeout_s } => {
            return (Alert, rate(t, e, now, window_us, new_action, timeout_s));
        }
    };
    (decision, None)
}

/// Whether a time is past a window, or so long before it that a packet with a stray time must have
/// opened it: it would otherwise keep its rule silent until that time comes.
fn is_outside(start_us: u64, window_us: u64, now: u64) -> bool {
    now > start_us.saturating_add(window_us) || now.saturating_add(window_us) < start_us
}

/// While the new action holds it is returned; then one match has the old one, then the window continues
/// to count from its last number.
fn rate(
    t: &Threshold,
    e: &mut Entry,
    now: u64,
    window_us: u64,
    new_action: Action,
    timeout_s: u32,
) -> Option<Action> {
    if e.next != 0 {
        let is_stray = now.saturating_add(u64::from(timeout_s) * 1_000_000) < e.next;
        if now <= e.next && !is_stray {
            return Some(new_action);
        }
        e.next = 0;
        if is_outside(e.start_us, window_us, now) {
            e.start_us = now;
            e.count = 1;
        }
        return None;
    }
    if is_outside(e.start_us, window_us, now) {
        e.start_us = now;
        e.count = 1;
        return None;
    }
    if e.count > t.count {
        e.next = now.saturating_add(u64::from(timeout_s) * 1_000_000);
        return Some(new_action);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: RuleSlot = RuleSlot { gid: 1, sid: 1, rev: 0, part: 0 };

    fn run(kind: ThresholdKind, count: u32, seconds: u32, times_s: &[u64]) -> Vec<Decision> {
        let t = Threshold { kind, track: ThresholdTrack::Source, count, seconds };
        let mut table = Thresholds::default();
        let subject = |s: u64| Subject {
            src: Addr::v4([1, 2, 3, 4]),
            dst: Addr::default(),
            version: 4,
            flow: None,
            ts_ns: s * 1_000_000_000,
        };
        times_s.iter().map(|s| table.decide(RULE, &t, &subject(*s)).0).collect()
    }

    #[test]
    fn a_full_table_sheds_thresholds() {
        let kind = ThresholdKind::Limit;
        let t = Threshold { kind, track: ThresholdTrack::Flow, count: 1, seconds: 60 };
        let mut table = Thresholds::default();
        let mut decide = |flow: u64, s: u64| {
            let subject = Subject {
                src: Addr::default(),
                dst: Addr::default(),
                version: 4,
                flow: Some(flow),
                ts_ns: s * 1_000_000_000,
            };
            table.decide(RULE, &t, &subject).0
        };
        let full = THRESHOLDS_MAX as u64;
        for flow in 0..full {
            decide(flow, 0);
        }
        // Known entries keep their threshold; a new one has none, and is counted.
        assert_eq!((decide(7, 1), decide(full, 1), decide(full, 1)), {
            use Decision::*;
            (Silent, Alert, Alert)
        });
        assert_eq!(
            gabion_record::limits::take_reached().times_reached(&reached::THRESHOLDS_MAX),
            2
        );
        // Lapsed entries free space.
        assert_eq!((decide(full, 90), decide(full, 91)), (Decision::Alert, Decision::Silent));
        assert!(gabion_record::limits::take_reached().is_empty());
    }

    /// Expected values: Suricata's decisions on six packets, one a second (see its documentation
    /// of thresholds).
    #[test]
    fn six_packets_through_each_kind() {
        use Decision::*;
        let six = [0, 1, 2, 3, 4, 5];
        assert_eq!(
            run(ThresholdKind::Limit, 1, 60, &six),
            [Alert, Silent, Silent, Silent, Silent, Silent]
        );
        assert_eq!(
            run(ThresholdKind::Both, 2, 60, &six),
            [Nothing, Alert, Silent, Silent, Silent, Silent]
        );
        assert_eq!(
            run(ThresholdKind::Threshold, 3, 60, &six),
            [Nothing, Nothing, Alert, Nothing, Nothing, Alert]
        );
        assert_eq!(
            run(ThresholdKind::DetectionFilter, 3, 60, &six),
            [Nothing, Nothing, Nothing, Alert, Alert, Alert]
        );
    }

    #[test]
    fn the_end_of_a_window_belongs_to_it() {
        use Decision::*;
        assert_eq!(run(ThresholdKind::Limit, 1, 10, &[0, 10, 11]), [Alert, Silent, Alert]);
        // Suricata 8.0.7 does the same with counts and periods of zero.
        let times = [0, 1, 2, 30, 59, 61, 119, 125];
        let all = |kind, count, seconds| {
            let alerts = run(kind, count, seconds, &times).into_iter().map(|d| d == Alert);
            times.iter().zip(alerts).filter(|(_, a)| *a).map(|(t, _)| *t).collect::<Vec<u64>>()
        };
        for count in [0, 1, 2] {
            assert_eq!(all(ThresholdKind::Limit, count, 0), times);
        }
        assert_eq!(all(ThresholdKind::Limit, 0, 60), [0, 61, 125]);
        assert_eq!(all(ThresholdKind::Threshold, 1, 0), times);
        assert_eq!(all(ThresholdKind::Threshold, 0, 60), [1, 2, 30, 59, 119]);
        assert_eq!(all(ThresholdKind::Both, 1, 0), times);
        for (kind, count, seconds) in [
            (ThresholdKind::Threshold, 2, 0),
            (ThresholdKind::Threshold, 0, 0),
            (ThresholdKind::Both, 2, 0),
            (ThresholdKind::Both, 0, 0),
            (ThresholdKind::Both, 0, 60),
        ] {
            assert_eq!(all(kind, count, seconds), [0; 0], "{kind:?} {count} {seconds}");
        }
    }

    #[test]
    fn a_stray_time_opens_no_window_that_lasts() {
        use Decision::*;
        let years = 100_000_000;
        for kind in [ThresholdKind::Limit, ThresholdKind::Both] {
            assert_eq!(
                run(kind, 1, 60, &[0, years, 1, 2, 62]),
                [Alert, Alert, Alert, Silent, Alert]
            );
        }
    }

    #[test]
    fn rate_filter_changes_the_action_for_a_while() {
        let kind = ThresholdKind::Rate { new_action: Action::Drop, timeout_s: 5 };
        let t = Threshold { kind, track: ThresholdTrack::Rule, count: 3, seconds: 10 };
        let mut table = Thresholds::default();
        let changed: Vec<bool> = (0..16u64)
            .map(|s| {
                let subject = Subject {
                    src: Addr::default(),
                    dst: Addr::default(),
                    version: 4,
                    flow: None,
                    ts_ns: s * 1_000_000_000,
                };
                table.decide(RULE, &t, &subject).1.is_some()
            })
            .collect();
        let expected: Vec<bool> = (1..=16).map(|n| (4..=9).contains(&n) || n >= 11).collect();
        assert_eq!(changed, expected);
    }
}
