//! Alerts of rules about system calls that are kept for the summary and the page of a run.

use crate::limits::{ALERTS_OF_RULE_KEPT, FINDING_TEXT_MAX};
use gabion_record::logs::TimeNs;
use gabion_record::syscall::{ProcessLine, SyscallAlert};
use std::collections::BTreeMap;

/// An alert as reports show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyscallFinding {
    /// When.
    pub time: TimeNs,
    /// The number of its event (`evt.num`).
    pub number: u64,
    /// The capture that it was found in.
    pub capture: String,
    /// The message.
    pub message: String,
    /// The process and its ancestors, the nearest first.
    pub processes: Vec<ProcessLine>,
    /// Something that the rule asks for is not known.
    pub is_partial: bool,
}

/// A rule that alerted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFindings {
    /// Its name.
    pub rule: String,
    /// Its priority in full.
    pub priority: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// How often it alerted.
    pub count: u64,
    /// The first of its alerts.
    pub first: Vec<SyscallFinding>,
}

/// The alerts of a run by rule.
#[derive(Debug, Default)]
pub(super) struct Findings {
    by_rule: BTreeMap<String, RuleFindings>,
    /// The capture that is read now.
    pub(super) capture: String,
    /// Alerts by minute and priority, for the chart of the page.
    moments: BTreeMap<(i64, &'static str), u64>,
}

impl Findings {
    pub(super) fn add(&mut self, alert: &SyscallAlert<'_>) {
        let time = TimeNs(i64::try_from(alert.time_ns).unwrap_or(i64::MAX));
        let minute = time.seconds().div_euclid(60) * 60;
        let name = gabion_condition::rules::Priority::ALL
            .iter()
            .map(|priority| priority.name())
            .find(|name| *name == alert.priority)
            .unwrap_or("Debug");
        if self.moments.len() < crate::limits::CHARTED_MINUTES_MAX {
            *self.moments.entry((minute, name)).or_default() += 1;
        }
        if !self.by_rule.contains_key(alert.rule) {
            let rule = RuleFindings {
                rule: alert.rule.to_owned(),
                priority: alert.priority.to_owned(),
                tags: alert.tags.to_vec(),
                count: 0,
                first: Vec::new(),
            };
            self.by_rule.insert(alert.rule.to_owned(), rule);
        }
        let Some(rule) = self.by_rule.get_mut(alert.rule) else { return };
        rule.count += 1;
        if rule.first.len() >= ALERTS_OF_RULE_KEPT {
            return;
        }
        let shortened = |text: &[u8]| text.get(..FINDING_TEXT_MAX).unwrap_or(text).to_vec();
        let line = |line: &ProcessLine| ProcessLine {
            pid: line.pid,
            name: shortened(&line.name),
            command: shortened(&line.command),
        };
        rule.first.push(SyscallFinding {
            time,
            number: alert.number,
            capture: self.capture.clone(),
            message: String::from_utf8_lossy(&shortened(alert.message)).into_owned(),
            processes: alert.processes.iter().map(line).collect(),
            is_partial: alert.is_partial,
        });
    }

    /// The rules that alerted, the most urgent first, and the alerts by minute.
    pub(super) fn finish(self) -> (Vec<RuleFindings>, Vec<(i64, &'static str, u64)>) {
        let mut rules: Vec<RuleFindings> = self.by_rule.into_values().collect();
        let urgency = |name: &str| {
            gabion_condition::rules::Priority::ALL.iter().position(|p| p.name() == name)
        };
        rules.sort_by_key(|rule| (urgency(&rule.priority), std::cmp::Reverse(rule.count)));
        let moments = self.moments.into_iter().map(|((minute, name), n)| (minute, name, n));
        (rules, moments.collect())
    }
}
