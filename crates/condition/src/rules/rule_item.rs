//! Reads rules: new ones, and those that change a rule which is already there.

use super::exceptions::{append_exceptions, read_exceptions};
use super::items::{Priority, RuleItem};
use super::reading::{Overrides, Reading, read_overrides};
use super::report::{Checked, Code, Context, item};
use super::yaml::Node;

/// All keys of a rule.
pub(super) const KEYS: &[&str] = &[
    "rule",
    "desc",
    "condition",
    "output",
    "priority",
    "source",
    "enabled",
    "warn_evttypes",
    "skip-if-unknown-filter",
    "tags",
    "exceptions",
    "capture",
    "capture_duration",
    "append",
    "override",
];

const APPENDABLE: &[&str] = &["condition", "output", "desc", "tags", "exceptions"];

const REPLACEABLE: &[&str] = &[
    "condition",
    "output",
    "desc",
    "tags",
    "exceptions",
    "priority",
    "enabled",
    "warn_evttypes",
    "skip-if-unknown-filter",
    "capture",
    "capture_duration",
];

pub(super) fn read_rule(reading: &mut Reading<'_>, node: &Node, context: &Context) -> Checked<()> {
    let name = reading.required_text(node, "rule", context)?;
    reading.check_keys(node, KEYS, context);
    let append = reading.optional_bool(node, "append", context)?;
    let overrides = read_overrides(reading, node, APPENDABLE, REPLACEABLE, context)?;
    if append == Some(true) && overrides.is_some() {
        let message = "Keys 'override' and 'append: true' cannot be used together. Add an 'append' entry (e.g. \
                       'condition: append') under 'override' instead.";
        return Err(reading.error(context, Code::Validate, message));
    }
    if append.is_some() {
        reading.warn_append("condition", context);
    }
    if let Some(overrides) = overrides {
        return override_rule(reading, node, &name, &overrides, context);
    }
    if append == Some(true) {
        return append_to_rule(reading, node, &name, context);
    }
    let has = |key: &str| node.get(key).is_some();
    if has("enabled") && !["desc", "condition", "output", "priority"].into_iter().any(has) {
        return enable_rule(reading, node, &name, context);
    }
    define_rule(reading, node, &name, context)
}

/// Switches a rule that is already there on or off.
fn enable_rule(
    reading: &mut Reading<'_>,
    node: &Node,
    name: &str,
    context: &Context,
) -> Checked<()> {
    let is_enabled = reading.optional_bool(node, "enabled", context)?.unwrap_or(true);
    let message = "The standalone 'enabled' key usage is deprecated. The correct approach requires also a \
                   'replace' entry under the 'override' key (i.e. 'enabled: replace').";
    reading.warn(context, Code::DeprecatedItem, message);
    let message = "Rule has 'enabled' key but no rule by that name already exists";
    if is_known(reading, name, message, context)?
        && let Some(rule) = reading.items.rules.get_mut(name)
    {
        rule.is_enabled = is_enabled;
    }
    Ok(())
}

/// Whether the rule that is changed is there; `message` is the error if it never was. One that was left out before is
/// not there, and that is no error.
fn is_known(
    reading: &mut Reading<'_>,
    name: &str,
    message: &str,
    context: &Context,
) -> Checked<bool> {
    if reading.items.ignored_rules.contains(name) {
        return Ok(false);
    }
    match reading.items.rules.get(name) {
        Some(_) => Ok(true),
        None => Err(reading.error(context, Code::Validate, message)),
    }
}

/// A change takes the place of the last thing that was read.
fn move_to_end(reading: &mut Reading<'_>, name: &str) {
    let last = reading.items.next_order(None).last;
    if let Some(rule) = reading.items.rules.get_mut(name) {
        rule.order.last = last;
    }
}

/// The error of a change that adds to a rule.
const NOTHING_TO_APPEND_TO: &str =
    "Rule uses 'append' or 'override.<key>: append' but no rule by that name already exists";

/// `append: true`: adds to the condition and to the exceptions.
fn append_to_rule(
    reading: &mut Reading<'_>,
    node: &Node,
    name: &str,
    context: &Context,
) -> Checked<()> {
    let condition = reading.optional_text(node, "condition", context)?;
    let exceptions = read_exceptions(reading, node, context)?;
    if condition.is_none() && exceptions.is_none() {
        let message = "Appended rule must have exceptions or condition property";
        return Err(reading.error(context, Code::Validate, message));
    }
    if !is_known(reading, name, NOTHING_TO_APPEND_TO, context)? {
        return Ok(());
    }
    if let Some(exceptions) = exceptions {
        append_exceptions(reading, name, exceptions)?;
    }
    if let Some(rule) = reading.items.rules.get_mut(name)
        && let Some(condition) = condition
    {
        rule.condition.push(' ');
        rule.condition.push_str(&condition);
    }
    move_to_end(reading, name);
    Ok(())
}

/// `override`: adds to some keys and replaces others.
fn override_rule(
    reading: &mut Reading<'_>,
    node: &Node,
    name: &str,
    overrides: &Overrides,
    context: &Context,
) -> Checked<()> {
    let place = overrides.context.clone().unwrap_or_else(|| context.clone());
    for (keys, what) in [(&overrides.append, "n append"), (&overrides.replace, " replace")] {
        if let Some(key) = keys.iter().find(|key| node.get(key).is_none()) {
            let message =
                format!("A{what} override for '{key}' was specified but '{key}' is not defined");
            return Err(reading.invalid(&place, message));
        }
    }
    for (key, value) in node.pairs().unwrap_or_default() {
        let key = key.scalar().unwrap_or_default();
        let is_expected = matches!(key, "rule" | "override" | "append" | "source")
            || !KEYS.contains(&key)
            || overrides.append.iter().chain(&overrides.replace).any(|name| name == key);
        if !is_expected {
            let place = context.child(item::VALUE_FOR, key, value);
            let message = format!(
                "Unexpected key '{key}': no corresponding entry under 'override' is defined."
            );
            return Err(reading.invalid(&place, message));
        }
    }
    let message = if overrides.append.is_empty() {
        "An 'override.<key>: replace' to a rule was requested but no rule by that name already exists"
    } else {
        NOTHING_TO_APPEND_TO
    };
    if !is_known(reading, name, message, context)? {
        return Ok(());
    }
    append_keys(reading, node, name, overrides, context)?;
    replace_keys(reading, node, name, overrides, context)?;
    move_to_end(reading, name);
    Ok(())
}

fn append_keys(
    reading: &mut Reading<'_>,
    node: &Node,
    name: &str,
    overrides: &Overrides,
    context: &Context,
) -> Checked<()> {
    for key in &overrides.append {
        if key == "exceptions" {
            if let Some(exceptions) = read_exceptions(reading, node, context)? {
                append_exceptions(reading, name, exceptions)?;
            }
            continue;
        }
        if key == "tags" {
            let tags = reading.optional_texts(node, "tags", context)?.unwrap_or_default();
            if let Some(rule) = reading.items.rules.get_mut(name) {
                rule.tags.extend(tags);
            }
            continue;
        }
        let text = reading.required_text(node, key, context)?;
        let Some(rule) = reading.items.rules.get_mut(name) else { continue };
        let old = match key.as_str() {
            "condition" => &mut rule.condition,
            "output" => &mut rule.output,
            _ => &mut rule.description,
        };
        old.push(' ');
        old.push_str(&text);
    }
    Ok(())
}

fn replace_keys(
    reading: &mut Reading<'_>,
    node: &Node,
    name: &str,
    overrides: &Overrides,
    context: &Context,
) -> Checked<()> {
    for key in &overrides.replace {
        let Some(mut rule) = reading.items.rules.get(name).cloned() else { continue };
        match key.as_str() {
            "condition" => {
                rule.condition = reading.required_text(node, key, context)?;
                rule.condition_context = child_of(node, key, item::RULE_CONDITION, context);
            }
            "output" => {
                rule.output = reading.required_text(node, key, context)?;
                rule.output_context = child_of(node, key, item::RULE_OUTPUT, context);
            }
            "desc" => rule.description = reading.required_text(node, key, context)?,
            "tags" => rule.tags = reading.optional_texts(node, key, context)?.unwrap_or_default(),
            "exceptions" => {
                rule.exceptions = Vec::new();
                reading.items.rules.put(name, rule);
                if let Some(exceptions) = read_exceptions(reading, node, context)? {
                    append_exceptions(reading, name, exceptions)?;
                }
                continue;
            }
            "priority" => rule.priority = read_priority(reading, node, context)?,
            "capture_duration" => {
                rule.capture_duration_ms =
                    reading.optional_number(node, key, context)?.unwrap_or(0);
            }
            _ => {
                let flag = reading.optional_bool(node, key, context)?.unwrap_or_default();
                match key.as_str() {
                    "enabled" => rule.is_enabled = flag,
                    "warn_evttypes" => rule.warns_of_types = flag,
                    "skip-if-unknown-filter" => rule.skips_unknown = flag,
                    _ => rule.capture = flag,
                }
            }
        }
        reading.items.rules.put(name, rule);
    }
    Ok(())
}

fn child_of(node: &Node, key: &str, kind: super::ItemType, context: &Context) -> Context {
    node.get(key).map_or_else(|| context.clone(), |value| context.child(kind, "", value))
}

fn read_priority(reading: &Reading<'_>, node: &Node, context: &Context) -> Checked<Priority> {
    let text = reading.required_text(node, "priority", context)?;
    Priority::parse(&text).ok_or_else(|| {
        let place = child_of(node, "priority", item::RULE_PRIORITY, context);
        reading.invalid(&place, "Invalid priority")
    })
}

/// Defines a rule, or defines it again.
fn define_rule(
    reading: &mut Reading<'_>,
    node: &Node,
    name: &str,
    context: &Context,
) -> Checked<()> {
    let condition = reading.required_text(node, "condition", context)?;
    let output = reading.required_text(node, "output", context)?;
    let description = reading.required_text(node, "desc", context)?;
    let priority = read_priority(reading, node, context)?;
    let source =
        reading.optional_text(node, "source", context)?.unwrap_or_else(|| "syscall".into());
    let flag = |key: &str, default: bool| -> Checked<bool> {
        Ok(reading.optional_bool(node, key, context)?.unwrap_or(default))
    };
    let mut rule = RuleItem {
        name: name.to_string(),
        context: context.clone(),
        condition,
        condition_context: child_of(node, "condition", item::RULE_CONDITION, context),
        description,
        output: output.trim().to_string(),
        output_context: child_of(node, "output", item::RULE_OUTPUT, context),
        priority,
        source,
        tags: reading.optional_texts(node, "tags", context)?.unwrap_or_default(),
        exceptions: Vec::new(),
        is_enabled: flag("enabled", true)?,
        warns_of_types: flag("warn_evttypes", true)?,
        skips_unknown: flag("skip-if-unknown-filter", false)?,
        capture: flag("capture", false)?,
        capture_duration_ms: reading
            .optional_number(node, "capture_duration", context)?
            .unwrap_or(0),
        order: Default::default(),
    };
    let exceptions = read_exceptions(reading, node, context)?;
    if !reading.settings.sources.contains(&rule.source) {
        let message = format!("Unknown source {}, skipping", rule.source);
        reading.warn(context, Code::UnknownSource, message);
        reading.items.ignored_rules.insert(name.to_string());
        return Ok(());
    }
    let known = reading.items.rules.get(name);
    if known.is_some_and(|known| known.source != rule.source) {
        let message = "Rule has been re-defined with a different source";
        return Err(reading.error(context, Code::Validate, message));
    }
    let known = known.map(|known| known.order);
    rule.order = reading.items.next_order(known);
    reading.items.rules.put(name, rule);
    if let Some(exceptions) = exceptions {
        super::exceptions::define_exceptions(reading, name, exceptions)?;
    }
    Ok(())
}
