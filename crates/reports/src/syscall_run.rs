//! A run of Falco's rules over captures of system calls: tables for people, `run.json`, and what the page shows.

use crate::members::{json_budgets, json_ledger, json_memory};
use crate::scap_files::ScapReport;
use gabion_outputs::page::{Page, SyscallRule, SyscallSeen};
use gabion_outputs::table::{Align, Table, thousands};
use gabion_record::evidence::ThreatLevel;
use gabion_record::json::Json;
use gabion_sensor::falco::{CapturesDone, RuleFindings, SyscallFinding, SyscallRuleCost};
use std::fmt::Write as _;
use std::path::PathBuf;

/// A run of rules over captures of system calls that has ended.
#[derive(Clone, Copy, Debug)]
pub struct SyscallReport<'r> {
    /// What the run left.
    pub done: &'r CapturesDone,
    /// The exit code of the program.
    pub exit: u8,
}

/// The level of a priority: Falco's eight on our five.
fn level(priority: &str) -> ThreatLevel {
    match priority {
        "Emergency" | "Alert" | "Critical" => ThreatLevel::Critical,
        "Error" => ThreatLevel::High,
        "Warning" => ThreatLevel::Medium,
        "Notice" => ThreatLevel::Low,
        _ => ThreatLevel::Info,
    }
}

/// The severity of a priority, as `--fail-on` counts: 1 is the most severe.
#[must_use]
pub fn syscall_severity(priority: &str) -> u32 {
    match level(priority) {
        ThreatLevel::Critical => 1,
        ThreatLevel::High | ThreatLevel::Medium => 2,
        ThreatLevel::Low => 3,
        ThreatLevel::Info => 4,
    }
}

impl SyscallReport<'_> {
    /// The tables. `width`: columns of the terminal, if it is one.
    #[must_use]
    pub fn text(&self, width: Option<u16>) -> String {
        let mut text = String::new();
        for capture in &self.done.captures {
            text.push_str(&ScapReport::of_summary(capture).text());
        }
        let done = self.done;
        let _ = writeln!(
            text,
            "\nFindings: {} alerts of {} rules, of {} that were tried",
            thousands(done.counts.total),
            thousands(done.found.len() as u64),
            thousands(done.rules as u64)
        );
        if done.counts.partial > 0 {
            let partial = thousands(done.counts.partial);
            let _ = writeln!(text, "{partial} of them lack something that their rule asks for");
        }
        if done.found.is_empty() {
            return text;
        }
        let mut table = Table::new(&[
            ("priority", Align::Left),
            ("rule", Align::Left),
            ("alerts", Align::Right),
            ("first", Align::Left),
        ]);
        for rule in &done.found {
            let first = rule.first.first().map_or(String::new(), |f| f.message.clone());
            table.row([rule.priority.clone(), rule.rule.clone(), thousands(rule.count), first]);
        }
        text.push_str(&table.render(width));
        text
    }

    /// One JSON object, with its line end.
    #[must_use]
    pub fn json(&self) -> String {
        let done = self.done;
        let mut json = Json::new();
        json.open();
        json.field_plain("version", env!("CARGO_PKG_VERSION"));
        json.number("exit", self.exit);
        json.field_plain("source", "syscall");
        json.open_array_key("inputs");
        for capture in &done.captures {
            ScapReport::of_summary(capture).write_json(&mut json);
        }
        for (path, error) in &done.failed {
            json.open();
            json.field("file", path.to_string_lossy().as_bytes());
            json.field("error", error.to_string());
            json.close();
        }
        json.close_array();
        json.boolean("stopped", done.is_stopped);
        json.number("events", done.events);
        json.number("rules", done.rules);
        json.number("alerts", done.counts.total);
        json.number("partial_alerts", done.counts.partial);
        json.open_array_key("findings");
        done.found.iter().for_each(|rule| write_rule(rule, &mut json));
        json.close_array();
        json_budgets(done.captures.iter().map(|capture| &capture.memory), &mut json);
        json_memory(&mut json);
        json_ledger(&done.ledgers(), &mut json);
        json.close();
        json.into_line()
    }

    /// What the page shows. `named`: the captures as they were named.
    #[must_use]
    pub fn page(&self, named: &[PathBuf]) -> Page {
        let done = self.done;
        let are_several = named.len() > 1;
        let spans = || done.captures.iter().filter_map(|capture| capture.span);
        let span = spans().map(|s| s.0).min().zip(spans().map(|s| s.1).max());
        let events: u64 = done.captures.iter().map(|c| c.account.passed()).sum();
        let ledgers = done.ledgers();
        Page {
            named: named.iter().map(|path| path.display().to_string()).collect(),
            span,
            inputs: done
                .captures
                .iter()
                .map(|capture| {
                    let lines = ScapReport::of_summary(capture).text();
                    let text: Vec<&str> = lines.lines().skip(1).take(3).collect();
                    (capture.path.display().to_string(), text.join("; "))
                })
                .chain(done.failed.iter().map(|(p, e)| (p.display().to_string(), e.to_string())))
                .collect(),
            counts: [
                ("events of system calls", events),
                ("rules", done.rules as u64),
                ("alerts about system calls", done.counts.total),
            ]
            .map(|(name, n)| (name.to_owned(), n))
            .to_vec(),
            has_system_calls: true,
            syscall_rules: done.found.iter().map(|rule| page_rule(rule, are_several)).collect(),
            syscall_moments: done
                .moments
                .iter()
                .map(|(second, priority, n)| (*second, level(priority), *n))
                .collect(),
            ledger: ledgers
                .by_stage()
                .iter()
                .map(|stage| (stage.stage.clone(), stage.ledger.to_string()))
                .collect(),
            ..Page::default()
        }
    }
}

fn write_rule(rule: &RuleFindings, json: &mut Json) {
    json.open();
    json.field("rule", &rule.rule);
    json.field("priority", &rule.priority);
    json.number("count", rule.count);
    json.open_array_key("tags");
    rule.tags.iter().for_each(|tag| json.item(tag));
    json.close_array();
    json.open_array_key("first");
    for alert in &rule.first {
        json.open();
        json.moment("time", alert.time);
        json.number("event", alert.number);
        json.field("file", &alert.capture);
        json.field("message", &alert.message);
        if alert.is_partial {
            json.field_plain("context", "partial");
        }
        json.open_array_key("processes");
        for process in &alert.processes {
            json.open();
            json.number("pid", process.pid);
            json.field("name", &process.name);
            json.field("cmdline", &process.command);
            json.close();
        }
        json.close_array();
        json.close();
    }
    json.close_array();
    json.close();
}

fn page_rule(rule: &RuleFindings, are_several: bool) -> SyscallRule {
    let seen = |alert: &SyscallFinding| SyscallSeen {
        ts: alert.time,
        number: alert.number,
        capture: if are_several { alert.capture.clone() } else { String::new() },
        message: alert.message.clone(),
        processes: alert
            .processes
            .iter()
            .map(|p| {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                (p.pid, text(&p.name), text(&p.command))
            })
            .collect(),
        is_partial: alert.is_partial,
    };
    SyscallRule {
        rule: rule.rule.clone(),
        priority: rule.priority.clone(),
        level: level(&rule.priority),
        tags: rule.tags.clone(),
        count: rule.count,
        alerts: rule.first.iter().map(seen).collect(),
    }
}

/// What rules about system calls cost, as a table of the `rows` dearest. `width`: columns of the terminal, if it is one.
#[must_use]
pub fn syscall_cost_table(costs: &[SyscallRuleCost], rows: usize, width: Option<u16>) -> String {
    let whole: u64 = costs.iter().map(|cost| cost.ticks).sum();
    let mut table = Table::new(&[
        ("checks", Align::Right),
        ("matches", Align::Right),
        ("avg ticks", Align::Right),
        ("max ticks", Align::Right),
        ("share", Align::Right),
        ("rule", Align::Left),
    ]);
    for cost in costs.iter().take(rows) {
        table.row([
            thousands(cost.checks),
            thousands(cost.matches),
            thousands(cost.ticks / cost.checks.max(1)),
            thousands(cost.ticks_max),
            format!("{:.1} %", 100.0 * cost.ticks as f64 / whole.max(1) as f64),
            cost.rule.clone(),
        ]);
    }
    table.render(width)
}

/// The same of all rules as one JSON object, with its line end.
#[must_use]
pub fn syscall_cost_json(costs: &[SyscallRuleCost], events: u64) -> String {
    let mut json = Json::new();
    json.open();
    json.number("events", events);
    json.open_key("costs");
    json.open_array_key("rules");
    for cost in costs {
        json.open();
        json.field("rule", &cost.rule);
        json.number("checks", cost.checks);
        json.number("matches", cost.matches);
        json.number("ticks", cost.ticks);
        json.number("ticks_max", cost.ticks_max);
        json.close();
    }
    json.close_array();
    json.close();
    json.close();
    json.into_line()
}
