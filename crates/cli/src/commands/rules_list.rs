//! `gabion rules list`: the rules with what was made of them.

use super::{rule_files, terminal_width};
use crate::command_line::ListOptions;
use crate::exit::{Exit, Fault};
use crate::standard_output;
use gabion_outputs::table::{Align, Table};
use gabion_record::json::Json;
use gabion_rules::analysis;
use gabion_rules::{Action, Ruleset, Signature};
use gabion_sensor::format_rule_id;
use std::collections::HashSet;

/// Runs the verb.
pub(crate) fn run(o: &ListOptions) -> Result<Exit, Fault> {
    let (compiled, _) = rule_files::load(&o.rules, &o.files)?;
    rule_files::say(&compiled, rule_files::Say::Counts);
    let set = &compiled.set;
    let costly: HashSet<u32> = analysis::costly(set).map(|s| s.index).collect();
    let mut rules: Vec<&Signature> = set
        .signatures
        .iter()
        .filter(|s| !s.header.swapped)
        .filter(|s| !o.costly || costly.contains(&s.index))
        .filter(|s| !o.inert || s.inert.is_some())
        .collect();
    rules.sort_by_key(|s| (s.gid, s.sid));
    let text = match o.json {
        true => json(set, &rules, &costly),
        false => table(set, &rules, &costly),
    };
    standard_output::text(&text);
    Ok(Exit::Done)
}

/// The place of a rule.
pub(super) fn place(set: &Ruleset, s: &Signature) -> String {
    let file = set.files.get(usize::from(s.file)).map_or("?", |f| f.as_str());
    format!("{file}:{}", s.line)
}

/// The action as rules write it.
pub(super) fn action(a: Action) -> &'static str {
    match a {
        Action::Alert => "alert",
        Action::Pass => "pass",
        Action::Drop => "drop",
        Action::RejectSource => "reject",
        Action::RejectDestination => "rejectdst",
        Action::RejectBoth => "rejectboth",
        Action::Config => "config",
        Action::Accept => "accept",
    }
}

/// The protocol as the rule writes it: its second word.
pub(super) fn protocol<'s>(set: &'s Ruleset, s: &Signature) -> &'s str {
    set.text(s.raw).split_whitespace().nth(1).unwrap_or("")
}

/// What is odd about a rule, in a word or two.
fn remark(s: &Signature, costly: &HashSet<u32>) -> String {
    match (s.inert, costly.contains(&s.index)) {
        (Some(keyword), _) => format!("inert: {keyword}"),
        (None, true) => "costly".to_string(),
        (None, false) => String::new(),
    }
}

fn table(set: &Ruleset, rules: &[&Signature], costly: &HashSet<u32>) -> String {
    let mut t = Table::new(&[
        ("sid", Align::Right),
        ("rev", Align::Right),
        ("action", Align::Left),
        ("protocol", Align::Left),
        ("type", Align::Left),
        ("priority", Align::Right),
        ("message", Align::Left),
        ("remark", Align::Left),
    ]);
    for s in rules {
        t.row([
            format_rule_id(s.gid, s.sid),
            s.rev.to_string(),
            action(s.action).to_string(),
            protocol(set, s).to_string(),
            s.kind.name().to_string(),
            s.priority.to_string(),
            set.msg(s).to_string(),
            remark(s, costly),
        ]);
    }
    t.render(terminal_width())
}

fn json(set: &Ruleset, rules: &[&Signature], costly: &HashSet<u32>) -> String {
    let mut j = Json::new();
    j.open_array();
    for s in rules {
        j.open();
        j.number("gid", s.gid);
        j.number("sid", s.sid);
        j.number("rev", s.rev);
        j.field_plain("action", action(s.action));
        j.field("protocol", protocol(set, s));
        j.field_plain("type", s.kind.name());
        j.number("priority", s.priority);
        j.field("class", set.category(s));
        j.field("msg", set.msg(s));
        j.field("file", set.files.get(usize::from(s.file)).map_or("", |f| f.as_str()));
        j.number("line", s.line);
        j.boolean("costly", costly.contains(&s.index));
        if let Some(keyword) = s.inert {
            j.field("inert", keyword);
        }
        j.close();
    }
    j.close_array();
    j.into_line()
}
