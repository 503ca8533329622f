//! Reads the items of a rule file: required versions, lists and macros. Rules are in `rule_item`.

use super::items::{Items, List, Macro};
use super::reading::Reading;
use super::report::{Checked, Code, Context, Warnings, item};
use super::rule_item::read_rule;
use super::settings::Settings;
use super::version::Version;
use super::yaml::{Node, Yaml, read_documents};
use crate::lang::is_identifier;
use crate::limits::RULE_FILE_BYTES_MAX;

/// Reads all documents of a file into `items`.
pub(super) fn read_file(
    text: &str,
    context: &Context,
    settings: &Settings,
    items: &mut Items,
    warnings: &mut Warnings,
) -> Checked<()> {
    let mut reading = Reading { text, settings, items, warnings };
    if text.len() > RULE_FILE_BYTES_MAX {
        let message = format!("the file has more than {RULE_FILE_BYTES_MAX} bytes");
        return Err(reading.error(context, Code::FileRead, message));
    }
    let documents = read_documents(text).map_err(|error| {
        let place = context.child_at(item::RULES_CONTENT, "", error.mark);
        reading.error(&place, Code::YamlParse, error.message)
    })?;
    for document in &documents {
        read_document(&mut reading, document, context)?;
    }
    Ok(())
}

fn read_document(reading: &mut Reading<'_>, document: &Node, context: &Context) -> Checked<()> {
    match &document.value {
        // A document without content is fine.
        Yaml::Null => Ok(()),
        Yaml::Scalar(..) => Err(reading.invalid(context, "Rules content is not yaml")),
        Yaml::Mapping(_) => {
            Err(reading.invalid(context, "Rules content is not yaml array of objects"))
        }
        Yaml::Sequence(items) => items
            .iter()
            .filter(|node| !node.is_null())
            .try_for_each(|node| read_item(reading, node, context)),
    }
}

fn read_item(reading: &mut Reading<'_>, node: &Node, file: &Context) -> Checked<()> {
    if node.pairs().is_none() {
        let context = file.child(item::RULES_CONTENT_ITEM, "", node);
        let message = "Unexpected element type. Each element should be a yaml associative array.";
        return Err(reading.invalid(&context, message));
    }
    check_schema(reading, node);
    if let Some(version) = node.get("required_engine_version") {
        let context = file.child(item::ENGINE_VERSION, "", version);
        return read_engine_version(reading, node, &context);
    }
    if let Some(versions) = node.get("required_plugin_versions") {
        let context = file.child(item::PLUGIN_VERSIONS, "", versions);
        return read_plugin_versions(reading, versions, &context);
    }
    if let Some(list) = node.get("list") {
        let name = list.scalar().unwrap_or_default();
        let context = file.child(item::LIST, name, node);
        return read_list(reading, node, &context);
    }
    if let Some(name) = node.get("macro") {
        let context = file.child(item::MACRO, name.scalar().unwrap_or_default(), node);
        return read_macro(reading, node, &context);
    }
    if let Some(name) = node.get("rule") {
        let context = file.child(item::RULE, name.scalar().unwrap_or_default(), node);
        return read_rule(reading, node, &context);
    }
    let context = file.child(item::RULES_CONTENT_ITEM, "", node);
    reading.warn(&context, Code::UnknownItem, "Unknown top level item");
    Ok(())
}

/// Notes keys that no kind of item has: Falco's JSON schema describes all kinds as one.
fn check_schema(reading: &mut Reading<'_>, node: &Node) {
    const OTHERS: &[&str] =
        &["required_engine_version", "required_plugin_versions", "list", "items", "macro"];
    let keys = node.pairs().unwrap_or_default().iter().filter_map(|(key, _)| key.scalar());
    let unknown = keys.filter(|key| !OTHERS.contains(key) && !super::rule_item::KEYS.contains(key));
    let lines: Vec<String> =
        unknown.map(|key| format!("{key}: no key of rules, macros, lists or versions")).collect();
    reading.warnings.schema.extend(lines);
}

fn read_engine_version(reading: &mut Reading<'_>, node: &Node, context: &Context) -> Checked<()> {
    let text = reading.required_text(node, "required_engine_version", context)?;
    let version = match text.parse() {
        Ok(minor) => Version::new(0, minor, 0),
        Err(_) => Version::parse(&text).ok_or_else(|| {
            let message = format!(
                "Unable to parse engine version '{text}' as a semver string. Expected \"x.y.z\" semver format."
            );
            reading.invalid(context, message)
        })?,
    };
    let engine = reading.settings.engine_version;
    if version > engine {
        let message =
            format!("Rules require engine version {version}, but engine version is {engine}");
        return Err(reading.error(context, Code::Validate, message));
    }
    let known = reading.items.engine_version.unwrap_or_default();
    reading.items.engine_version = Some(known.max(version));
    Ok(())
}

fn read_plugin_versions(reading: &mut Reading<'_>, node: &Node, context: &Context) -> Checked<()> {
    let Some(entries) = node.sequence() else {
        return Err(
            reading.invalid(context, "Value of required_plugin_versions must be a sequence")
        );
    };
    for entry in entries {
        let context = context.child(item::PLUGIN_ENTRY, "", entry);
        let mut choices = vec![read_plugin_version(reading, entry, &context)?];
        for alternative in entry.get("alternatives").and_then(Node::sequence).unwrap_or_default() {
            choices.push(read_plugin_version(reading, alternative, &context)?);
        }
        let is_met = choices.iter().any(|(name, version)| {
            let needed = Version::parse(version).unwrap_or_default();
            reading.settings.plugins.iter().any(|(known, has)| known == name && has.serves(needed))
        });
        if !is_met {
            let wanted: Vec<String> =
                choices.iter().map(|(name, version)| format!("{name} (>= {version})")).collect();
            let message = format!(
                "Plugin requirement not satisfied, must load one of: {}",
                wanted.join(", ")
            );
            return Err(reading.error(&context, Code::Validate, message));
        }
        reading.items.plugins.push(choices);
    }
    Ok(())
}

fn read_plugin_version(
    reading: &Reading<'_>,
    node: &Node,
    context: &Context,
) -> Checked<(String, String)> {
    if node.pairs().is_none() {
        return Err(reading.invalid(context, "Plugin version must be a mapping"));
    }
    let name = reading.required_text(node, "name", context)?;
    let version = reading.required_text(node, "version", context)?;
    if Version::parse(&version).is_none() {
        let message = format!("Invalid required version '{version}' for plugin '{name}'");
        return Err(reading.error(context, Code::Validate, message));
    }
    Ok((name, version))
}

fn read_list(reading: &mut Reading<'_>, node: &Node, context: &Context) -> Checked<()> {
    let name = reading.required_text(node, "list", context)?;
    reading.check_keys(node, &["list", "items", "append", "override"], context);
    if !is_identifier(&name) {
        let message = format!(
            "List has an invalid name. List names should match a regular expression: {IDENTIFIER}: '{name}'"
        );
        reading.warn(context, Code::InvalidListName, message);
    }
    let Some(items) = reading.optional_texts(node, "items", context)? else {
        return Err(reading.invalid(context, "Item has no mapping for key 'items'"));
    };
    let is_append = reading.is_appended(node, "items", context)?;
    let known = reading.items.lists.get(&name).map(|list| list.order);
    let order = reading.items.next_order(known);
    if is_append {
        let Some(list) = reading.items.lists.get_mut(&name) else {
            let message = "List uses 'append' or 'override.items: append' but no list by that name already exists";
            return Err(reading.error(context, Code::Validate, message));
        };
        list.items.extend(items);
        list.order.last = order.last;
        return Ok(());
    }
    let list = List { name: name.clone(), context: context.clone(), items, order };
    reading.items.lists.put(&name, list);
    Ok(())
}

/// Names that can be written in conditions.
const IDENTIFIER: &str = "[a-zA-Z]+[a-zA-Z0-9_]*";

fn read_macro(reading: &mut Reading<'_>, node: &Node, context: &Context) -> Checked<()> {
    let name = reading.required_text(node, "macro", context)?;
    reading.check_keys(node, &["macro", "condition", "append", "override"], context);
    if !is_identifier(&name) {
        let message = format!(
            "Macro has an invalid name. Macro names should match a regular expression: {IDENTIFIER}: '{name}'"
        );
        reading.warn(context, Code::InvalidMacroName, message);
    }
    let condition = reading.required_text(node, "condition", context)?;
    let is_append = reading.is_appended(node, "condition", context)?;
    let known = reading.items.macros.get(&name).map(|item| item.order);
    let order = reading.items.next_order(known);
    if is_append {
        let Some(old) = reading.items.macros.get_mut(&name) else {
            let message = "Macro uses 'append' or 'override.condition: append' but no macro by that name already exists";
            return Err(reading.error(context, Code::Validate, message));
        };
        old.condition.push(' ');
        old.condition.push_str(&condition);
        old.order.last = order.last;
        return Ok(());
    }
    let item = Macro { name: name.clone(), context: context.clone(), condition, order };
    reading.items.macros.put(&name, item);
    Ok(())
}
