//! Exceptions of rules: reading, checking, and the condition that they become.

use super::items::{Entry, Exception};
use super::reading::Reading;
use super::report::{Checked, Code, Context, item};
use super::yaml::{Node, Yaml};
use crate::compile::Applied;
use crate::lang::{self, Op, Quantifier};

/// Reads the `exceptions` key, if it is there.
pub(super) fn read_exceptions(
    reading: &mut Reading<'_>,
    node: &Node,
    context: &Context,
) -> Checked<Option<Vec<Exception>>> {
    let Some(value) = node.get("exceptions") else { return Ok(None) };
    let context = context.child(item::EXCEPTIONS, "", value);
    let Some(nodes) = value.sequence() else {
        return Err(reading.invalid(&context, "Rule exceptions must be a sequence"));
    };
    let mut exceptions = Vec::new();
    for node in nodes {
        let name = node.get("name").and_then(Node::scalar).unwrap_or_default();
        let context = context.child(item::EXCEPTION, name, node);
        if node.pairs().is_none() {
            return Err(reading.invalid(&context, "Rule exception must be a mapping"));
        }
        let name = reading.required_text(node, "name", &context)?;
        let known = ["name", "fields", "comps", "values"];
        reading.check_keys(node, &known, &context);
        let keys = node.pairs().unwrap_or_default().iter().filter_map(|(key, _)| key.scalar());
        for key in keys.filter(|key| !known.contains(key)) {
            reading.warnings.schema.push(format!("exceptions: {key}: no key of exceptions"));
        }
        let entry = |key: &str| node.get(key).filter(|node| !node.is_null()).map(entry_of);
        let mut values = Vec::new();
        if let Some(value) = node.get("values") {
            let place = context.child(item::EXCEPTION_VALUES, "", value);
            let Some(items) = value.sequence() else {
                return Err(reading.invalid(&place, "Rule exception values must be a sequence"));
            };
            values = items.iter().map(entry_of).collect();
        }
        let (fields, comparisons) = (entry("fields"), entry("comps"));
        exceptions.push(Exception { name, context, fields, comparisons, values });
    }
    Ok(Some(exceptions))
}

fn entry_of(node: &Node) -> Entry {
    match &node.value {
        Yaml::Scalar(text, _) => Entry::Text(text.clone()),
        Yaml::Sequence(items) => Entry::List(items.iter().map(entry_of).collect()),
        Yaml::Null | Yaml::Mapping(_) => Entry::Text(String::new()),
    }
}

/// Gives a new rule its exceptions.
pub(super) fn define_exceptions(
    reading: &mut Reading<'_>,
    rule: &str,
    exceptions: Vec<Exception>,
) -> Checked<()> {
    let mut kept: Vec<Exception> = Vec::new();
    for mut exception in exceptions {
        if exception.fields.is_none() {
            return Err(reading.invalid(&exception.context, "Item has no mapping for key 'fields'"));
        }
        if kept.iter().any(|other| other.name == exception.name) {
            let message =
                format!("Multiple definitions of exception '{}' in the same rule", exception.name);
            reading.warn(&exception.context.clone(), Code::ExceptionNameNotUnique, message);
        }
        check_exception(reading, &mut exception)?;
        kept.push(exception);
    }
    if let Some(rule) = reading.items.rules.get_mut(rule) {
        rule.exceptions = kept;
    }
    Ok(())
}

/// Adds exceptions, and values of exceptions, to a rule that is already there.
pub(super) fn append_exceptions(
    reading: &mut Reading<'_>,
    rule: &str,
    exceptions: Vec<Exception>,
) -> Checked<()> {
    for mut exception in exceptions {
        let context = exception.context.clone();
        let known =
            reading.items.rules.get(rule).and_then(|rule| {
                rule.exceptions.iter().position(|known| known.name == exception.name)
            });
        let Some(known) = known else {
            if exception.fields.is_none() {
                let message = "Rule exception must have fields property with a list of fields";
                return Err(reading.error(&context, Code::Validate, message));
            }
            if exception.values.is_empty() {
                let message = "Rule exception must have values property with a list of values";
                return Err(reading.error(&context, Code::Validate, message));
            }
            check_exception(reading, &mut exception)?;
            if let Some(rule) = reading.items.rules.get_mut(rule) {
                rule.exceptions.push(exception);
            }
            continue;
        };
        for (entry, what) in [(&exception.fields, "fields"), (&exception.comparisons, "comps")] {
            if entry.is_some() {
                let message =
                    format!("Can not append exception {what} to existing exception, only values");
                return Err(reading.error(&context, Code::Validate, message));
            }
        }
        if exception.values.is_empty() {
            reading.warn(
                &context,
                Code::AppendNoValues,
                "Overriding/appending exception with no values",
            );
        }
        let known =
            reading.items.rules.get_mut(rule).and_then(|rule| rule.exceptions.get_mut(known));
        if let Some(known) = known {
            known.values.append(&mut exception.values);
        }
    }
    Ok(())
}

/// Checks fields and operators, and fills in the operators that are not given.
fn check_exception(reading: &Reading<'_>, exception: &mut Exception) -> Checked<()> {
    let context = &exception.context;
    let error = |message: String| Err(reading.error(context, Code::Validate, message));
    let comparisons = match (&exception.fields, exception.comparisons.take()) {
        (Some(Entry::List(fields)), None) => {
            Entry::List(fields.iter().map(|_| Entry::Text("=".to_string())).collect())
        }
        (Some(Entry::List(fields)), Some(Entry::List(comparisons))) => {
            if fields.len() != comparisons.len() {
                return error("Fields and comps lists must have equal length".to_string());
            }
            Entry::List(comparisons.into_iter().map(normalized).collect())
        }
        (Some(Entry::List(_)), Some(Entry::Text(_))) => {
            return error("Fields and comps lists must have equal length".to_string());
        }
        (Some(Entry::Text(_)), None) => Entry::Text("in".to_string()),
        (Some(Entry::Text(_)), Some(Entry::List(_))) => {
            return error("Fields and comps must both be strings".to_string());
        }
        (Some(Entry::Text(_)), Some(comparison)) => {
            let comparison = normalized(comparison);
            let is_list_operator = match &comparison {
                Entry::Text(text) => comparison_kind(text) == Some(true),
                Entry::List(_) => false,
            };
            if !is_list_operator {
                let message = "When fields is a single value, comps must be one of (in, pmatch, intersects) or a \
                               modifier operator (e.g. startswith oneof)";
                return error(message.to_string());
            }
            comparison
        }
        (None, comparison) => comparison.unwrap_or(Entry::List(Vec::new())),
    };
    for text in texts_of(&comparisons) {
        if comparison_kind(text).is_none() {
            return error(format!("'{text}' is not a supported comparison operator"));
        }
    }
    let fields = exception.fields.as_ref().map(texts_of).unwrap_or_default();
    for field in fields {
        if !is_field(field) {
            return error(format!("'{field}' is not a supported filter field"));
        }
    }
    if let Some(Entry::List(fields)) = &exception.fields {
        for value in &exception.values {
            match value {
                Entry::List(values) if values.len() == fields.len() => {}
                Entry::List(_) => {
                    return error("Fields and values lists must have equal length".to_string());
                }
                Entry::Text(_) => {
                    return error("Expected values array to contain a list of strings".to_string());
                }
            }
        }
    }
    exception.comparisons = Some(comparisons);
    Ok(())
}

fn texts_of(entry: &Entry) -> Vec<&str> {
    match entry {
        Entry::Text(text) => vec![text],
        Entry::List(entries) => entries.iter().flat_map(texts_of).collect(),
    }
}

fn normalized(entry: Entry) -> Entry {
    match entry {
        Entry::Text(text) => Entry::Text(text.split_whitespace().collect::<Vec<_>>().join(" ")),
        list => list,
    }
}

/// Whether an operator exists, and if so, whether it takes a list.
fn comparison_kind(text: &str) -> Option<bool> {
    match text.split_once(' ') {
        None => Op::by_word(text).map(Op::takes_list),
        Some((op, quantifier)) => {
            Op::by_word(op).filter(|op| op.takes_text())?;
            Quantifier::by_word(quantifier).map(|_| true)
        }
    }
}

fn is_field(text: &str) -> bool {
    lang::parse_field(text)
        .is_ok_and(|(operand, len)| len == text.len() && Applied::new(&operand).is_ok())
}

/// The condition of a rule with its exceptions, as text.
pub(super) fn with_exceptions(
    condition: &str,
    exceptions: &[Exception],
) -> Result<String, (Context, String)> {
    let clauses: Vec<&Exception> = exceptions.iter().filter(|e| !e.values.is_empty()).collect();
    if clauses.is_empty() {
        return Ok(condition.to_string());
    }
    let mut out = format!("({condition})");
    for exception in clauses {
        let mut parts = Vec::new();
        match (&exception.fields, &exception.comparisons) {
            (Some(Entry::List(fields)), Some(Entry::List(comparisons))) => {
                for tuple in &exception.values {
                    let Entry::List(values) = tuple else {
                        let message = "Expected values array to contain a list of strings";
                        return Err((exception.context.clone(), message.to_string()));
                    };
                    if values.len() != fields.len() {
                        let message = "Fields and values lists must have equal length";
                        return Err((exception.context.clone(), message.to_string()));
                    }
                    let checks: Vec<String> = fields
                        .iter()
                        .zip(comparisons)
                        .zip(values)
                        .map(|((field, comparison), value)| {
                            format!(
                                "{} {} {}",
                                text_of(field),
                                text_of(comparison),
                                value_text(comparison, value)
                            )
                        })
                        .collect();
                    parts.push(format!("({})", checks.join(" and ")));
                }
            }
            (Some(field), Some(comparison)) => {
                let values: Vec<String> = exception.values.iter().map(item_text).collect();
                let (field, comparison) = (text_of(field), text_of(comparison));
                parts.push(format!("{field} {comparison} ({})", values.join(", ")));
            }
            _ => continue,
        }
        out.push_str(&format!(" and not ({})", parts.join(" or ")));
    }
    Ok(out)
}

fn text_of(entry: &Entry) -> &str {
    match entry {
        Entry::Text(text) => text,
        Entry::List(_) => "",
    }
}

/// A value on the right of an operator.
fn value_text(comparison: &Entry, value: &Entry) -> String {
    let takes_list = comparison_kind(text_of(comparison)) == Some(true);
    match value {
        Entry::List(values) => {
            let values: Vec<String> = values.iter().map(item_text).collect();
            format!("({})", values.join(", "))
        }
        Entry::Text(text) if takes_list && !text.trim_start().starts_with('(') => {
            format!("({})", item_text(value))
        }
        Entry::Text(text) if takes_list => text.clone(),
        Entry::Text(_) => item_text(value),
    }
}

fn item_text(entry: &Entry) -> String {
    match entry {
        // A comma would make two values of it.
        Entry::Text(text) if text.contains(',') && !text.starts_with(['"', '\'', '(']) => {
            format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
        }
        Entry::Text(text) => super::text::quote_item(text),
        Entry::List(entries) => entries.iter().map(item_text).collect::<Vec<_>>().join(", "),
    }
}
