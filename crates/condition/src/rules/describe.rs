//! Descriptions of rules, macros and lists, as Falco's `-L` and `-l` print them: as a table, or as JSON with compiled
//! conditions, fields and events.

use super::described::{DescribedMacro, DescribedRule};
use super::items::{Entry, RuleItem};
use super::set::RuleSet;
use crate::compile::{Builder, TypeSet};
use crate::format::output_fields;
use crate::lang::{self, Expr, visit_checks, visit_fields};
use crate::limits::EXPANDED_TEXT_BYTES_MAX;
use gabion_record::fields::events::ASYNC_EVENT;
use gabion_record::json::Json;

/// Everything as JSON: `falco -L` with `json_output`.
pub fn describe_all(rules: &RuleSet) -> String {
    let described = &rules.described;
    let mut json = Json::new();
    json.open();
    json.open_array_key("lists");
    for list in &described.lists {
        json.open();
        json.open_key("details");
        texts(&mut json, "items_compiled", &list.compiled);
        texts(&mut json, "lists", &list.lists);
        texts::<String>(&mut json, "plugins", &[]);
        json.boolean("used", list.is_used);
        json.close();
        json.open_key("info");
        texts(&mut json, "items", &list.items);
        json.field("name", &list.name);
        json.close();
        json.close();
    }
    json.close_array();
    json.open_array_key("macros");
    for described in &described.macros {
        write_macro(&mut json, described);
    }
    json.close_array();
    let version = described.engine_version.unwrap_or_default();
    json.field("required_engine_version", version.to_string());
    json.open_array_key("required_plugin_versions");
    for choices in &described.plugins {
        let Some(((name, version), alternatives)) = choices.split_first() else { continue };
        json.open();
        json.open_array_key("alternatives");
        for (name, version) in alternatives {
            json.open();
            json.field("name", name);
            json.field("version", version);
            json.close();
        }
        json.close_array();
        json.field("name", name);
        json.field("version", version);
        json.close();
    }
    json.close_array();
    json.open_array_key("rules");
    for rule in &described.rules {
        write_rule(&mut json, rule, is_enabled(rules, &rule.item));
    }
    json.close_array();
    json.close();
    crate::without_line_end(json)
}

/// One rule as JSON, with the macros and lists that it uses: `falco -l` with `json_output`. None if there is no such rule.
pub fn describe_rule(rules: &RuleSet, name: &str) -> Option<String> {
    let rule = rules.described.rules.iter().find(|rule| rule.item.name == name)?;
    let mut json = Json::new();
    json.open();
    json.open_array_key("rules");
    write_rule(&mut json, rule, is_enabled(rules, &rule.item));
    json.close_array();
    json.close();
    Some(crate::without_line_end(json))
}

/// Names and descriptions as a table: all rules, or the one of this name.
pub fn list_text(rules: &RuleSet, name: Option<&str>) -> String {
    let mut out = String::from("Rule                                               Description\n");
    out.push_str("----                                               -----------\n");
    let described = rules.described.rules.iter();
    for rule in described.filter(|rule| name.is_none_or(|name| name == rule.item.name)) {
        let words: Vec<&str> = rule.item.description.split_whitespace().collect();
        let mut column = format!("{:<50}", rule.item.name);
        let mut line = String::new();
        for word in words {
            if !line.is_empty() && line.len() + word.len() > 100 {
                out.push_str(&format!("{column} {line}\n"));
                column = " ".repeat(50);
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        out.push_str(&format!("{column} {line}\n\n"));
    }
    out
}

fn is_enabled(rules: &RuleSet, item: &RuleItem) -> bool {
    let rule = rules.rules().iter().find(|rule| rule.name == item.name);
    rule.map_or(item.is_enabled, |rule| rule.is_enabled)
}

fn write_macro(json: &mut Json, described: &DescribedMacro) {
    json.open();
    json.open_key("details");
    let compiled = lang::text_of(&described.expr, EXPANDED_TEXT_BYTES_MAX);
    json.field("condition_compiled", compiled.as_deref().unwrap_or(&described.condition));
    let mut builder = Builder::new();
    let mut types = builder.add(&described.expr).map_or(TypeSet::all(), |node| builder.types(node));
    types.insert(ASYNC_EVENT);
    write_condition(json, &described.expr, &types);
    texts(json, "lists", &described.lists);
    texts(json, "macros", &described.macros);
    texts::<String>(json, "plugins", &[]);
    json.boolean("used", described.is_used);
    json.close();
    json.open_key("info");
    json.field("condition", &described.condition);
    json.field("name", &described.name);
    json.close();
    json.close();
}

fn write_rule(json: &mut Json, rule: &DescribedRule, is_enabled: bool) {
    let item = &rule.item;
    json.open();
    json.open_key("details");
    json.field("condition_compiled", rule.compiled());
    write_condition(json, &rule.expr, &rule.types);
    let exceptions = || item.exceptions.iter();
    let entries = |entry: &Option<Entry>| entry.as_ref().map(entry_texts).unwrap_or_default();
    let fields: Vec<String> = exceptions().flat_map(|e| entries(&e.fields)).collect();
    texts(json, "exception_fields", &fields);
    let names: Vec<&String> = exceptions().map(|e| &e.name).collect();
    texts(json, "exception_names", &names);
    let operators: Vec<String> = exceptions().flat_map(|e| entries(&e.comparisons)).collect();
    texts(json, "exception_operators", &operators);
    texts(json, "lists", &rule.lists);
    texts(json, "macros", &rule.macros);
    json.field("output_compiled", &item.output);
    texts(json, "output_fields", &output_fields(&item.output));
    texts::<String>(json, "plugins", &[]);
    json.close();
    json.open_key("info");
    json.boolean("capture", item.capture);
    json.number("capture_duration", item.capture_duration_ms);
    json.field("condition", &item.condition);
    json.field("description", &item.description);
    json.boolean("enabled", is_enabled);
    json.field("name", &item.name);
    json.field("output", &item.output);
    json.field("priority", item.priority.name());
    json.field("source", &item.source);
    let mut tags = item.tags.clone();
    tags.sort();
    tags.dedup();
    texts(json, "tags", &tags);
    json.close();
    json.close();
}

fn entry_texts(entry: &Entry) -> Vec<String> {
    match entry {
        Entry::Text(text) => vec![text.clone()],
        Entry::List(entries) => entries.iter().flat_map(entry_texts).collect(),
    }
}

fn write_condition(json: &mut Json, expr: &Expr, types: &TypeSet) {
    let mut fields: Vec<String> = Vec::new();
    visit_fields(expr, &mut |field| {
        let mut text = String::new();
        lang::write_field(field, &mut text);
        if !fields.contains(&text) {
            fields.push(text);
        }
    });
    let mut operators: Vec<&str> = Vec::new();
    visit_checks(expr, &mut |check| {
        let word = match check {
            Expr::Compare { op, .. } => op.word(),
            Expr::And(_)
            | Expr::Or(_)
            | Expr::Not(_)
            | Expr::Exists(..)
            | Expr::Macro(..)
            | Expr::Expanded(..) => "exists",
        };
        if !operators.contains(&word) {
            operators.push(word);
        }
    });
    texts(json, "condition_fields", &fields);
    texts(json, "condition_operators", &operators);
    texts(json, "events", &types.names());
}

fn texts<T: AsRef<str>>(json: &mut Json, key: &str, texts: &[T]) {
    json.open_array_key(key);
    texts.iter().for_each(|text| json.item(text.as_ref()));
    json.close_array();
}
