//! The rules of a set with what was made of each, for `gabion rules list`.

use gabion_outputs::table::{Align, Table};
use gabion_record::json::Json;
use gabion_rules::{Ruleset, Signature, analysis, format_rule_id};
use std::collections::HashSet;

/// Rules of a set, sorted by their ids.
#[derive(Debug)]
pub struct RuleList<'s> {
    set: &'s Ruleset,
    rules: Vec<&'s Signature>,
    costly: HashSet<u32>,
}

impl<'s> RuleList<'s> {
    /// The rules of a set: all, or only those without pattern and prefilter, only those that can never match here.
    pub fn from_rules(set: &'s Ruleset, only_costly: bool, only_inert: bool) -> RuleList<'s> {
        let costly: HashSet<u32> = analysis::costly(set).map(|s| s.index).collect();
        let mut rules: Vec<&Signature> = set
            .signatures
            .iter()
            .filter(|s| !s.header.swapped)
            .filter(|s| !only_costly || costly.contains(&s.index))
            .filter(|s| !only_inert || s.inert.is_some())
            .collect();
        rules.sort_by_key(|s| (s.gid, s.sid));
        RuleList { set, rules, costly }
    }

    /// A table. `width`: columns of the terminal, if it is one.
    pub fn text(&self, width: Option<u16>) -> String {
        table(self, width)
    }

    /// One JSON array, with its line end.
    pub fn json(&self) -> String {
        json(self)
    }
}

/// What is odd about a rule, in a word or two.
fn remark(s: &Signature, costly: &HashSet<u32>) -> String {
    match (s.inert, costly.contains(&s.index)) {
        (Some(keyword), _) => format!("inert: {keyword}"),
        (None, true) => "costly".to_string(),
        (None, false) => String::new(),
    }
}

fn table(list: &RuleList<'_>, width: Option<u16>) -> String {
    let RuleList { set, rules, costly } = list;
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
            s.action.name().to_string(),
            set.header_protocol(s).to_string(),
            s.kind.name().to_string(),
            s.priority.to_string(),
            set.msg(s).to_string(),
            remark(s, costly),
        ]);
    }
    t.render(width)
}

fn json(list: &RuleList<'_>) -> String {
    let RuleList { set, rules, costly } = list;
    let mut j = Json::new();
    j.open_array();
    for s in rules {
        j.open();
        j.number("gid", s.gid);
        j.number("sid", s.sid);
        j.number("rev", s.rev);
        j.field_plain("action", s.action.name());
        j.field("protocol", set.header_protocol(s));
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
