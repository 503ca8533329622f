//! What rules cost, as tables: how often each was checked, how often it matched, and how many ticks
//! of the processor's counter went into it; the same for prefilters and parsers, for comparison.

use crate::Error;
use gabion_net::{Engine, RuleCost, RuleCosts};
use gabion_outputs::table::{Align, Table, thousands};
use gabion_record::json::Json;
use gabion_rules::format_rule_id;
use gabion_runtime::output::write_whole;
use std::fmt::Write as _;
use std::path::Path;

/// Rules shown unless all are asked for.
pub const COSTLY_RULES_SHOWN: usize = 20;

/// Signatures with their accounts, dearest first. Both halves of a rule with `<>` are one.
fn dearest<'e>(
    costs: &RuleCosts,
    engine: &'e Engine,
) -> Vec<(&'e gabion_rules::Signature, RuleCost)> {
    let Some(detector) = &engine.detector else { return Vec::new() };
    let mut all: Vec<(&gabion_rules::Signature, RuleCost)> = Vec::new();
    let mut by_id = std::collections::HashMap::new();
    for (s, cost) in detector.set.signatures.iter().zip(&costs.rules) {
        if cost.checks == 0 {
            continue;
        }
        let at = *by_id.entry((s.gid, s.sid)).or_insert(all.len());
        match all.get_mut(at) {
            Some((_, sum)) => sum.merge(cost),
            None => all.push((s, *cost)),
        }
    }
    all.sort_by_key(|(s, c)| (std::cmp::Reverse(c.ticks()), s.gid, s.sid));
    all
}

/// All ticks: rules, prefilters, parsers.
fn sums(costs: &RuleCosts) -> [u64; 3] {
    [
        costs.rules.iter().map(RuleCost::ticks).sum(),
        costs.prefilter.iter().sum(),
        costs.parsers.iter().map(|p| p.1).sum(),
    ]
}

fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64)
}

fn average(ticks: u64, times: u64) -> String {
    ticks.checked_div(times).map_or_else(|| "-".to_string(), thousands)
}

/// The tables: the `rows` dearest rules, prefilters, parsers.
pub fn rule_cost_table(
    costs: &RuleCosts,
    engine: &Engine,
    rows: usize,
    width: Option<u16>,
) -> String {
    let scale = costs.scale();
    let all = dearest(costs, engine);
    let parts = sums(costs);
    let whole: u64 = parts.iter().sum();
    let mut t = Table::new(&[
        ("sid", Align::Right),
        ("checks", Align::Right),
        ("matches", Align::Right),
        ("avg ticks", Align::Right),
        ("avg match", Align::Right),
        ("avg no match", Align::Right),
        ("max ticks", Align::Right),
        ("share", Align::Right),
        ("message", Align::Left),
    ]);
    let set = engine.detector.as_ref().map(|d| &d.set);
    for (s, c) in all.iter().take(rows) {
        t.row([
            format_rule_id(s.gid, s.sid),
            thousands(c.checks * scale),
            thousands(c.matches * scale),
            average(c.ticks(), c.checks),
            average(c.ticks_match, c.matches),
            average(c.ticks_no_match, c.checks - c.matches),
            thousands(c.ticks_max),
            share(c.ticks(), whole),
            set.map_or("", |set| set.msg(s)).to_string(),
        ]);
    }
    let mut out = t.render(width);
    if all.len() > rows {
        let _ = writeln!(out, "  and {} more rules that were checked", all.len() - rows);
    }
    let mut t = Table::new(&[
        ("stage", Align::Left),
        ("times", Align::Right),
        ("ticks", Align::Right),
        ("avg ticks", Align::Right),
        ("share", Align::Right),
    ]);
    let mut row = |name: String, times: Option<u64>, ticks: u64| {
        let times_text = times.map_or("-".to_string(), |n| thousands(n * scale));
        let average = times.map_or("-".to_string(), |n| average(ticks, n));
        t.row([name, times_text, thousands(ticks * scale), average, share(ticks, whole)]);
    };
    let checks = costs.rules.iter().map(|c| c.checks).sum();
    row("rules".into(), Some(checks), parts[0]);
    for (name, ticks) in ["stream", "payload", "transactions"].iter().zip(costs.prefilter) {
        row(format!("prefilter: {name}"), None, ticks);
    }
    for (name, times, ticks) in parsers(costs, engine) {
        row(format!("parser: {name}"), Some(times), ticks);
    }
    out.push('\n');
    out.push_str(&t.render(width));
    if scale > 1 {
        let _ = writeln!(out, "  one packet in {scale} was timed; counts are scaled up");
    }
    out
}

/// Writes what all rules cost into the folder's `rule_perf.log`: the table that `--profile-rules`
/// shows, without an end.
///
/// # Errors
/// The path and what is wrong with it.
pub fn write_rule_costs(costs: &RuleCosts, engine: &Engine, folder: &Path) -> Result<(), Error> {
    let path = folder.join("rule_perf.log");
    let table = rule_cost_table(costs, engine, usize::MAX, None);
    write_whole(&path, table.as_bytes()).map_err(|source| Error::RuleCosts { path, source })
}

fn parsers<'e>(costs: &RuleCosts, engine: &'e Engine) -> Vec<(&'e str, u64, u64)> {
    let name = |at: usize| match at.checked_sub(1) {
        Some(n) => engine.catalog.protocols.get(n).map_or("recognized, not parsed", |p| p.name),
        None => "not known yet",
    };
    let mut all: Vec<_> = costs
        .parsers
        .iter()
        .enumerate()
        .filter(|(_, (times, _))| *times > 0)
        .map(|(at, (times, ticks))| (name(at), *times, *ticks))
        .collect();
    all.sort_by_key(|p| std::cmp::Reverse(p.2));
    all
}

/// The members `rules` (the `rows` dearest), `prefilters` and `parsers` inside `costs`.
pub fn write_rule_costs_json(costs: &RuleCosts, engine: &Engine, rows: usize, j: &mut Json) {
    let scale = costs.scale();
    j.open_key("costs");
    j.number("scale", scale);
    j.open_array_key("rules");
    for (s, c) in dearest(costs, engine).into_iter().take(rows) {
        j.open();
        j.number("gid", s.gid);
        j.number("sid", s.sid);
        j.number("checks", c.checks * scale);
        j.number("matches", c.matches * scale);
        j.number("ticks_match", c.ticks_match * scale);
        j.number("ticks_no_match", c.ticks_no_match * scale);
        j.number("ticks_max", c.ticks_max);
        j.close();
    }
    j.close_array();
    j.open_key("prefilters");
    for (name, ticks) in ["stream", "payload", "transactions"].iter().zip(costs.prefilter) {
        j.number(name, ticks * scale);
    }
    j.close();
    j.open_array_key("parsers");
    for (name, times, ticks) in parsers(costs, engine) {
        j.open();
        j.field_plain("protocol", name);
        j.number("times", times * scale);
        j.number("ticks", ticks * scale);
        j.close();
    }
    j.close_array();
    j.close();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_averages_of_nothing_are_printed_so() {
        assert_eq!(share(0, 0), "0.0 %");
        assert_eq!(share(1, 3), "33.3 %");
        assert_eq!(average(10, 0), "-");
        assert_eq!(average(10_000, 2), "5,000");
    }
}
