//! Reads the items of a rule file: required versions, lists and macros. Rules are in `rule_item`.

use super::items::{Items, List, Macro};
use super::report::{Checked, Code, Context, Message, Warnings, item};
use super::rule_item::read_rule;
use super::set::Settings;
use super::version::Version;
use super::yaml::{Node, Yaml, read_documents};
use crate::lang::is_identifier;
use crate::limits::RULE_FILE_BYTES_MAX;

/// What all readers of items need.
pub(super) struct Reading<'a> {
    pub(super) text: &'a str,
    pub(super) settings: &'a Settings,
    pub(super) items: &'a mut Items,
    pub(super) warnings: &'a mut Warnings,
}

impl Reading<'_> {
    pub(super) fn error(
        &self,
        context: &Context,
        code: Code,
        message: impl Into<String>,
    ) -> Box<Message> {
        Box::new(context.message(code, message, self.text))
    }

    pub(super) fn invalid(&self, context: &Context, message: impl Into<String>) -> Box<Message> {
        self.error(context, Code::YamlValidate, message)
    }

    pub(super) fn warn(&mut self, context: &Context, code: Code, message: impl Into<String>) {
        let message = context.message(code, message, self.text);
        self.warnings.messages.push(message);
    }

    /// The text of a key that must have one.
    pub(super) fn required_text(
        &self,
        node: &Node,
        key: &str,
        context: &Context,
    ) -> Checked<String> {
        self.optional_text(node, key, context)?
            .ok_or_else(|| self.invalid(context, format!("Item has no mapping for key '{key}'")))
    }

    /// The text of a key, if the key is there.
    pub(super) fn optional_text(
        &self,
        node: &Node,
        key: &str,
        context: &Context,
    ) -> Checked<Option<String>> {
        let Some(value) = node.get(key) else { return Ok(None) };
        let place = context.child(item::VALUE_FOR, key, value);
        match &value.value {
            Yaml::Null => Err(self.invalid(context, format!("Mapping for key '{key}' is empty"))),
            Yaml::Scalar(text, _) if text.is_empty() => {
                Err(self.invalid(&place, "Value must be non-empty"))
            }
            Yaml::Scalar(text, _) => Ok(Some(text.clone())),
            Yaml::Sequence(_) | Yaml::Mapping(_) => {
                Err(self.invalid(&place, "Value is not a scalar value"))
            }
        }
    }

    /// The truth value of a key, if the key is there.
    pub(super) fn optional_bool(
        &self,
        node: &Node,
        key: &str,
        context: &Context,
    ) -> Checked<Option<bool>> {
        let Some(text) = self.optional_text(node, key, context)? else { return Ok(None) };
        match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "y" => Ok(Some(true)),
            "false" | "no" | "off" | "n" => Ok(Some(false)),
            _ => {
                let place = node.get(key).map(|value| context.child(item::VALUE_FOR, key, value));
                Err(self
                    .invalid(place.as_ref().unwrap_or(context), "Can't decode YAML scalar value"))
            }
        }
    }

    /// The number of a key, if the key is there.
    pub(super) fn optional_number(
        &self,
        node: &Node,
        key: &str,
        context: &Context,
    ) -> Checked<Option<u64>> {
        let Some(text) = self.optional_text(node, key, context)? else { return Ok(None) };
        let place = node.get(key).map(|value| context.child(item::VALUE_FOR, key, value));
        text.parse().map(Some).map_err(|_| {
            self.invalid(place.as_ref().unwrap_or(context), "Can't decode YAML scalar value")
        })
    }

    /// The texts of a key that is a list, if the key is there.
    pub(super) fn optional_texts(
        &self,
        node: &Node,
        key: &str,
        context: &Context,
    ) -> Checked<Option<Vec<String>>> {
        let Some(value) = node.get(key) else { return Ok(None) };
        let place = context.child(item::VALUE_FOR, key, value);
        if value.is_null() {
            return Err(self.invalid(context, format!("Mapping for key '{key}' is empty")));
        }
        let Some(items) = value.sequence() else {
            return Err(self.invalid(&place, "Value is not a sequence"));
        };
        let texts: Option<Vec<String>> =
            items.iter().map(|item| item.scalar().map(str::to_string)).collect();
        texts.map(Some).ok_or_else(|| self.invalid(&place, "sequence value is not scalar"))
    }

    /// Warns of keys that mean nothing.
    pub(super) fn check_keys(&mut self, node: &Node, known: &[&str], context: &Context) {
        let keys = node.pairs().unwrap_or_default().iter().filter_map(|(key, _)| key.scalar());
        let unknown: Vec<String> =
            keys.filter(|key| !known.contains(key)).map(str::to_string).collect();
        for key in unknown {
            self.warn(
                context,
                Code::UnknownKey,
                format!("Unknown key '{key}'. The key will be ignored."),
            );
        }
    }

    /// Whether a list or a macro is to be appended to, by `append: true` or by `override`.
    fn is_appended(&mut self, node: &Node, key: &str, context: &Context) -> Checked<bool> {
        let append = self.optional_bool(node, "append", context)?;
        let overrides = read_overrides(self, node, &[key], &[key], context)?;
        if append == Some(true) && overrides.is_some() {
            let message = format!(
                "Keys 'override' and 'append: true' cannot be used together. Add an 'append' entry (e.g. \
                 '{key}: append') under 'override' instead."
            );
            return Err(self.error(context, Code::Validate, message));
        }
        if append.is_some() {
            self.warn_append(key, context);
        }
        let by_override = overrides.is_some_and(|o| o.append.iter().any(|name| name == key));
        Ok(append == Some(true) || by_override)
    }

    pub(super) fn warn_append(&mut self, key: &str, context: &Context) {
        let message = format!(
            "'append' key is deprecated. Add an 'append' entry (e.g. '{key}: append') under 'override' instead."
        );
        self.warn(context, Code::DeprecatedItem, message);
    }
}

/// What an `override` key asks for.
#[derive(Debug, Default)]
pub(super) struct Overrides {
    pub(super) append: Vec<String>,
    pub(super) replace: Vec<String>,
    pub(super) context: Option<Context>,
}

/// Reads the `override` key.
pub(super) fn read_overrides(
    reading: &Reading<'_>,
    node: &Node,
    appendable: &[&str],
    replaceable: &[&str],
    context: &Context,
) -> Checked<Option<Overrides>> {
    let Some(value) = node.get("override") else { return Ok(None) };
    let context = context.child(item::OVERRIDES, "", value);
    let Some(pairs) = value.pairs() else {
        return Err(reading.invalid(&context, "Value is not a mapping"));
    };
    let mut overrides = Overrides::default();
    for (key, operation) in pairs {
        let key_text = key.scalar().unwrap_or_default().to_string();
        let place = context.child(item::VALUE_FOR, &key_text, key);
        match operation.scalar().unwrap_or_default() {
            "append" if !appendable.contains(&key_text.as_str()) => {
                let message =
                    format!("Key '{key_text}' cannot be appended to, use 'replace' instead");
                return Err(reading.invalid(&place, message));
            }
            "replace" if !replaceable.contains(&key_text.as_str()) => {
                return Err(reading.invalid(&place, format!("Key '{key_text}' cannot be replaced")));
            }
            "append" => overrides.append.push(key_text),
            "replace" => overrides.replace.push(key_text),
            other => {
                let message = format!(
                    "Invalid override operation for key '{key_text}': '{other}'. Allowed values are: append replace "
                );
                return Err(reading.invalid(&place, message));
            }
        }
    }
    overrides.context = Some(context);
    Ok(Some(overrides))
}

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
