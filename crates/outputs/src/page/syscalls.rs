//! What rules found in system calls: when, and for each rule its first alerts with the tree of their processes.

use super::{LEVELS, Page, chart, colour, escaped, grouped, more, row, second, table};
use crate::limits::PAGE_ROWS_MAX;
use gabion_record::evidence::ThreatLevel;
use gabion_record::logs::TimeNs;
use std::fmt::Write;

/// A rule about system calls that alerted.
#[derive(Clone, Debug, Default)]
pub struct SyscallRule {
    /// Its name.
    pub rule: String,
    /// Its priority in full.
    pub priority: String,
    /// The level in whose colour it is shown.
    pub level: ThreatLevel,
    /// Its tags.
    pub tags: Vec<String>,
    /// How often it alerted.
    pub count: u64,
    /// The first of its alerts.
    pub alerts: Vec<SyscallSeen>,
}

/// An alert with its process.
#[derive(Clone, Debug, Default)]
pub struct SyscallSeen {
    /// When.
    pub ts: TimeNs,
    /// The number of its event.
    pub number: u64,
    /// The capture, where there are several.
    pub capture: String,
    /// Its message.
    pub message: String,
    /// Number, name and command line of the process and its ancestors, the nearest first.
    pub processes: Vec<(i64, String, String)>,
    /// Something that the rule asks for is not known.
    pub is_partial: bool,
}

impl Page {
    pub(super) fn system_calls(&self, h: &mut String) {
        const COLUMNS: [(&str, &str); 3] = [("Priority", "d"), ("Rule", "w"), ("Alerts", "n")];
        if !self.syscall_moments.is_empty() {
            h.push_str("<h2 id=\"alerted-when\">When: alerts over time</h2>");
            h.push_str(&chart::timeline(&self.syscall_moments));
        }
        h.push_str("<h2 id=\"calls-of-programs\">Alerts about system calls</h2>");
        if self.syscall_rules.is_empty() {
            h.push_str("<p class=\"none\">None.</p>");
            return;
        }
        table(&COLUMNS, h);
        for rule in self.syscall_rules.iter().take(PAGE_ROWS_MAX) {
            let mut what = escaped(&rule.rule);
            if !rule.tags.is_empty() {
                let _ = write!(what, " <small>{}</small>", escaped(&rule.tags.join(", ")));
            }
            if !rule.alerts.is_empty() {
                let first = match (rule.alerts.len() as u64, rule.count) {
                    (_, 1) => "its alert".to_owned(),
                    (some, all) if some < all => format!("the first {some} alerts"),
                    (some, _) => format!("its {some} alerts"),
                };
                let _ = write!(what, "<details><summary>{first}</summary><ul>");
                rule.alerts.iter().for_each(|alert| write_alert(alert, &mut what));
                what.push_str("</ul></details>");
            }
            row("", &COLUMNS, &[priority(rule), what, grouped(rule.count)], h);
        }
        h.push_str("</tbody></table>");
        more(self.syscall_rules.len(), h);
    }
}

/// A priority in the colour of its level.
fn priority(rule: &SyscallRule) -> String {
    let level = LEVELS.iter().find(|level| **level == rule.level).copied().unwrap_or_default();
    let (name, background) = (level.name(), colour(level));
    let text = escaped(&rule.priority);
    format!("<span class=\"l {name}\" style=\"background:{background}\">{text}</span>")
}

/// An alert with its tree: the oldest ancestor first, each program below the one that started it.
fn write_alert(alert: &SyscallSeen, h: &mut String) {
    let _ = write!(h, "<li>{} <small>event {}", second(alert.ts), alert.number);
    if !alert.capture.is_empty() {
        let _ = write!(h, " of {}", escaped(&alert.capture));
    }
    h.push_str("</small>");
    if alert.is_partial {
        h.push_str(" <small>partial: something that the rule asks for is not known</small>");
    }
    let _ = write!(h, "<br>{}", escaped(&alert.message));
    if !alert.processes.is_empty() {
        h.push_str("<pre class=\"tree\">");
        for (depth, (pid, name, command)) in alert.processes.iter().rev().enumerate() {
            let shown = if command.is_empty() { name } else { command };
            let indent = "  ".repeat(depth);
            let _ = writeln!(h, "{indent}{} {}", escaped(shown), pid);
        }
        h.push_str("</pre>");
    }
    h.push_str("</li>");
}
