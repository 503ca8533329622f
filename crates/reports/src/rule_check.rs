//! What is wrong with rules, and what is worth knowing about them, for `gabion rules check`.
//!
//! Faults are shown with the place marked. Advice follows: rules that can never match here and the
//! keyword that is missing, flowbits that are asked for but never set, rules without a pattern.

use gabion_outputs::table::{Align, Table, thousands};
use gabion_record::json::Json;
use gabion_rules::analysis::Flowbits;
use gabion_rules::{Ruleset, Severity, Signature, analysis, format_rule_id};
use gabion_settings::NamedRules;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Costly rules named unless all are asked for.
const COSTLY_SHOWN: usize = 10;

/// How a check is printed for people.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckStyle {
    /// Places are marked in colour.
    pub has_color: bool,
    /// Only errors, no advice.
    pub is_quiet: bool,
    /// All costly and all inert rules are listed.
    pub is_verbose: bool,
    /// Columns of the terminal, if it is one.
    pub width: Option<u16>,
}

/// What is wrong with rules, and advice.
#[derive(Debug)]
pub struct RuleCheck(NamedRules);

impl RuleCheck {
    /// Rules that were compiled; faults of the selection's lines count as faults of rules.
    pub fn from_rules(mut rules: NamedRules) -> RuleCheck {
        if let Some(selection) = &mut rules.selection {
            rules.diagnostics.append(&mut selection.faults);
            rules.diagnostics.append(&mut selection.selected.said);
        }
        RuleCheck(rules)
    }

    /// Whether nothing was refused.
    pub fn is_good(&self) -> bool {
        !self.0.diagnostics.iter().any(|d| d.severity == Severity::Error)
    }

    /// For people.
    pub fn text(&self, style: CheckStyle) -> String {
        text(&self.0, style)
    }

    /// One JSON object, with its line end.
    pub fn json(&self) -> String {
        json(&self.0)
    }
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

fn text(c: &NamedRules, style: CheckStyle) -> String {
    let mut out = String::new();
    let shown = if style.is_quiet { Severity::Error } else { Severity::Note };
    for d in c.diagnostics.iter().filter(|d| d.severity >= shown) {
        let _ = writeln!(out, "{}\n", d.render(style.has_color));
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
    if !style.is_quiet {
        inert(c, style, &mut out);
        flowbits(c, style, &mut out);
        costly(c, style, &mut out);
    }
    out
}

fn inert(c: &NamedRules, style: CheckStyle, out: &mut String) {
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
        let shown = if style.is_verbose { list.len() } else { 3 };
        let mut sids: Vec<String> =
            list.iter().take(shown).map(|s| format_rule_id(s.gid, s.sid)).collect();
        if list.len() > shown {
            sids.push("…".to_string());
        }
        t.row([keyword.to_string(), thousands(list.len() as u64), sids.join(" ")]);
    }
    out.push_str(&t.render(style.width));
}

fn flowbits(c: &NamedRules, style: CheckStyle, out: &mut String) {
    let never = Flowbits::from_ruleset(&c.set).never_set(&c.set);
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
    out.push_str(&t.render(style.width));
}

fn costly(c: &NamedRules, style: CheckStyle, out: &mut String) {
    let all: Vec<&Signature> = analysis::costly(&c.set).filter(|s| !s.header.swapped).collect();
    if all.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n{} with neither a pattern nor a prefilter: each packet or transaction that fits the header costs\n\
         an inspection (gabion rules cost measures it):",
        count(all.len(), "rule")
    );
    let mut t = Table::new(&[
        ("sid", Align::Right),
        ("type", Align::Left),
        ("place", Align::Left),
        ("message", Align::Left),
    ]);
    let shown = if style.is_verbose { all.len() } else { COSTLY_SHOWN };
    for s in all.iter().take(shown) {
        t.row([
            format_rule_id(s.gid, s.sid),
            s.kind.name().to_string(),
            c.set.place(s),
            c.set.msg(s).to_string(),
        ]);
    }
    out.push_str(&t.render(style.width));
    if all.len() > shown {
        let _ = writeln!(out, "  and {} more (-v lists them)", all.len() - shown);
    }
}

fn count(n: usize, what: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {what}{s}", thousands(n as u64))
}

fn json(c: &NamedRules) -> String {
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
    for n in Flowbits::from_ruleset(&c.set).never_set(&c.set) {
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
