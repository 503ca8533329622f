//! `gabion rules check`: what is wrong with rules, and what is worth knowing about them.
//!
//! Faults are shown with the place marked. Advice follows: rules that can never match here and the
//! keyword that is missing, flowbits that are asked for but never set, rules without a pattern.

use super::terminal_width;
use super::{rule_files, rule_files::Compiled};
use crate::command_line::CheckOptions;
use crate::exit::{Exit, Fault};
use crate::standard_output;
use gabion_outputs::table::{Align, Table, thousands};
use gabion_record::json::Json;
use gabion_rules::analysis::{self, flowbits::Flowbits};
use gabion_rules::{Ruleset, Severity, Signature};
use gabion_sensor::format_rule_id;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::IsTerminal;

/// Costly rules named unless all are asked for.
const COSTLY_SHOWN: usize = 10;

/// Runs the verb.
pub(crate) fn run(o: &CheckOptions) -> Result<Exit, Fault> {
    let (mut compiled, _) = rule_files::load(&o.rules, &o.files)?;
    if let Some(selection) = &mut compiled.selection {
        compiled.diagnostics.append(&mut selection.faults);
        compiled.diagnostics.append(&mut selection.selected.said);
    }
    let errors = compiled.diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
    let text = match o.json {
        true => json(&compiled),
        false => text(&compiled, o),
    };
    standard_output::text(&text);
    Ok(if errors > 0 { Exit::No } else { Exit::Done })
}

/// Inert rules by what is missing, most frequent first.
fn inert_by_keyword(set: &Ruleset) -> Vec<(&'static str, Vec<&Signature>)> {
    let mut by: BTreeMap<&'static str, Vec<&Signature>> = BTreeMap::new();
    for (s, keyword) in analysis::inert(set) {
        by.entry(keyword).or_default().push(s);
    }
    let mut all: Vec<_> = by.into_iter().collect();
    all.sort_by_key(|(name, list)| (std::cmp::Reverse(list.len()), *name));
    all
}

fn text(c: &Compiled, o: &CheckOptions) -> String {
    let mut out = String::new();
    let color = std::io::stdout().is_terminal();
    let shown = if o.quiet { Severity::Error } else { Severity::Note };
    for d in c.diagnostics.iter().filter(|d| d.severity >= shown) {
        let _ = writeln!(out, "{}\n", d.render(color));
    }
    let n = &c.set.counts;
    let warnings = c.diagnostics.iter().filter(|d| d.severity == Severity::Warning).count();
    let _ = writeln!(
        out,
        "{} rules loaded from {} files, {} refused, {} skipped, {warnings} warnings",
        thousands(n.loaded.into()),
        n.files,
        thousands(n.failed.into()),
        thousands(n.skipped.into()),
    );
    if let Some(selection) = &c.selection {
        let _ = writeln!(out, "{}", selection.counts());
    }
    if !o.quiet {
        inert(c, o, &mut out);
        flowbits(c, &mut out);
        costly(c, o, &mut out);
    }
    out
}

fn inert(c: &Compiled, o: &CheckOptions, out: &mut String) {
    let all = inert_by_keyword(&c.set);
    if all.is_empty() {
        return;
    }
    let total: usize = all.iter().map(|(_, list)| list.len()).sum();
    let _ = writeln!(
        out,
        "\n{} can never match here, for want of what this sensor does not have:",
        count(total, "rule")
    );
    let mut t =
        Table::new(&[("missing", Align::Left), ("rules", Align::Right), ("sids", Align::Left)]);
    for (keyword, list) in all {
        let shown = if o.verbose { list.len() } else { 3 };
        let mut sids: Vec<String> =
            list.iter().take(shown).map(|s| format_rule_id(s.gid, s.sid)).collect();
        if list.len() > shown {
            sids.push("…".to_string());
        }
        t.row([keyword.to_string(), thousands(list.len() as u64), sids.join(" ")]);
    }
    out.push_str(&t.render(terminal_width()));
}

fn flowbits(c: &Compiled, out: &mut String) {
    let never = Flowbits::of(&c.set).never_set(&c.set);
    if never.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n{} asked for but never set, so the rules that ask can't match:",
        match never.len() {
            1 => "1 flowbit is".to_string(),
            n => format!("{n} flowbits are"),
        }
    );
    let mut t = Table::new(&[
        ("flowbit", Align::Left),
        ("first asked by", Align::Right),
        ("and by", Align::Right),
    ]);
    for n in never {
        t.row([
            c.set.flowbits.get(n.bit).to_string(),
            n.sid.to_string(),
            format!("{} more", n.others),
        ]);
    }
    out.push_str(&t.render(terminal_width()));
}

fn costly(c: &Compiled, o: &CheckOptions, out: &mut String) {
    let all: Vec<&Signature> = analysis::costly(&c.set).filter(|s| !s.header.swapped).collect();
    if all.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n{} without pattern and prefilter: each packet or transaction that fits the header costs\n\
         an inspection (gabion rules cost measures it):",
        count(all.len(), "rule")
    );
    let mut t = Table::new(&[
        ("sid", Align::Right),
        ("type", Align::Left),
        ("place", Align::Left),
        ("message", Align::Left),
    ]);
    let shown = if o.verbose { all.len() } else { COSTLY_SHOWN };
    for s in all.iter().take(shown) {
        t.row([
            format_rule_id(s.gid, s.sid),
            s.kind.name().to_string(),
            super::rules_list::place(&c.set, s),
            c.set.msg(s).to_string(),
        ]);
    }
    out.push_str(&t.render(terminal_width()));
    if all.len() > shown {
        let _ = writeln!(out, "  and {} more (-v lists them)", all.len() - shown);
    }
}

fn count(n: usize, what: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {what}{s}", thousands(n as u64))
}

fn json(c: &Compiled) -> String {
    let mut j = Json::new();
    j.open();
    let n = &c.set.counts;
    j.number("files", n.files);
    j.number("loaded", n.loaded);
    j.number("refused", n.failed);
    j.number("skipped", n.skipped);
    if let Some(selection) = &c.selection {
        let s = &selection.selected;
        j.number("disabled", s.disabled);
        j.number("enabled", s.enabled);
        j.number("modified", s.modified);
        j.number("enabled_for_flowbits", s.for_flowbits);
    }
    j.open_array_key("diagnostics");
    for d in &c.diagnostics {
        j.open();
        let severity = match d.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        j.field_plain("severity", severity);
        j.field("file", &d.file);
        j.number("line", d.line);
        j.number("column", d.column);
        j.field("message", &d.message);
        if let Some(reason) = &d.reason {
            j.field("reason", reason);
        }
        if let Some(sid) = d.sid {
            j.number("sid", sid);
        }
        j.close();
    }
    j.close_array();
    j.open_array_key("inert");
    for (keyword, list) in inert_by_keyword(&c.set) {
        j.open();
        j.field("missing", keyword);
        ids(&mut j, list.into_iter());
        j.close();
    }
    j.close_array();
    j.open_array_key("flowbits_never_set");
    for n in Flowbits::of(&c.set).never_set(&c.set) {
        j.open();
        j.field("flowbit", c.set.flowbits.get(n.bit));
        j.number("sid", n.sid);
        j.number("others", n.others);
        j.close();
    }
    j.close_array();
    j.open_key("costly");
    ids(&mut j, analysis::costly(&c.set).filter(|s| !s.header.swapped));
    j.close();
    j.close();
    j.into_line()
}

fn ids<'s>(j: &mut Json, list: impl Iterator<Item = &'s Signature>) {
    j.open_array_key("rules");
    for s in list {
        j.item(format_rule_id(s.gid, s.sid));
    }
    j.close_array();
}
